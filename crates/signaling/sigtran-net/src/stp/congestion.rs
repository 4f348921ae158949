//! Congestion of targets: SCON (RFC 4666, sections 3.4.4 and 4.5); SCON and DUPU of gateways are passed on.
//!
//! A target is congested from half of a queue on, until no more than an eighth of each waits.

use std::collections::BTreeMap;

use carrick_sigtran::m3ua::asp::{AspIndication, AspState};
use carrick_sigtran::m3ua::sgp::{DestinationEvent, SgpConfig};
use carrick_sigtran::m3ua::{AffectedPointCode, AffectedPointCodes, CongestionLevel};

use super::router::Target;
use super::{Network, StpCore, TargetKind, TargetState, View};

/// Level that an SCON has when the congestion of a target begins.
pub(super) const ONSET: CongestionLevel = const { CongestionLevel::new(1).unwrap() };

/// Eighths of a queue at which congestion begins, and at which it ends.
const BEGIN: usize = 4;
const END: usize = 1;

/// Returns the event that reports a congestion level.
pub(super) fn congestion(
    level: CongestionLevel,
) -> impl Fn(AffectedPointCodes) -> DestinationEvent {
    move |affected| DestinationEvent::Congested(affected, Some(level))
}

impl StpCore {
    /// Reports the targets whose congestion began or ended since the last call. Returns whether there were any.
    pub(super) fn update_congestion(&mut self) -> bool {
        let mut changed = Vec::new();
        for (target, state) in &self.targets {
            // Without messages, congestion does not begin.
            if (state.is_congested || state.checked != state.traffic.sent)
                && self.is_congested(target, state) != state.is_congested
            {
                changed.push(target.clone());
            }
        }
        for state in self.targets.values_mut() {
            state.checked = state.traffic.sent;
        }
        let any = !changed.is_empty();
        for target in changed {
            let Some(state) = self.targets.get_mut(&target) else {
                continue;
            };
            state.is_congested = !state.is_congested;
            let level = if state.is_congested {
                ONSET
            } else {
                CongestionLevel::NONE
            };
            for view in self.views() {
                for (network, destinations) in self.destinations_over(view, &target) {
                    self.report(view, network, &destinations, &congestion(level));
                }
            }
        }
        any
    }

    /// Returns whether a target is congested, or still is.
    fn is_congested(&self, target: &Target, state: &TargetState) -> bool {
        let buffered = |buffered: Option<(usize, usize)>| {
            let (messages, octets) = buffered.unwrap_or_default();
            let limits = SgpConfig::default();
            (8 * messages / limits.max_buffered_messages)
                .max(8 * octets / limits.max_buffered_octets)
        };
        let sgp = &self.node.gateway.sgp;
        let fill = match (target, &state.kind) {
            (Target::Server(context), _) => {
                let active =
                    self.node.gateway.asps.iter().filter(|(key, _)| {
                        sgp.asp_state(**key, *context) == Some(AspState::Active)
                    });
                let queues = active.map(|(_, asp)| self.node.fill(asp.association));
                queues.chain([buffered(sgp.buffered(*context))]).max()
            }
            (_, TargetKind::Asp(_, links)) => {
                let links = links.iter().filter_map(|key| self.node.links.get(key));
                let queues = links.map(|link| self.node.fill(link.connection.association()));
                queues.max()
            }
            (_, TargetKind::Ipsp(key)) => self.node.ipsps.get(key).map(|side| {
                let peers = side.peers.values();
                let queues = peers.map(|peer| self.node.fill(peer.connection.association()));
                queues
                    .chain([buffered(side.buffered())])
                    .max()
                    .unwrap_or_default()
            }),
            (_, TargetKind::M2pa(key)) => {
                let side = self.node.m2pas.get(key);
                return side.is_some_and(|side| side.set.is_congested());
            }
            (_, TargetKind::Server) => None,
        };
        let limit = if state.is_congested { END + 1 } else { BEGIN };
        fill.is_some_and(|fill| fill >= limit)
    }

    /// Returns the destinations that a target carries and of which a view gets reports.
    pub(super) fn destinations_over(
        &self,
        view: View,
        target: &Target,
    ) -> BTreeMap<Network, Vec<AffectedPointCode>> {
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        if view.is_some_and(|context| self.is_same_peer(&Target::Server(context), target)) {
            return found;
        }
        for (network, destination) in self.router.destinations() {
            let usable = |target: &Target| self.is_usable(target, destination);
            if self
                .router
                .current(network, destination, usable)
                .contains(target)
            {
                found.entry(network).or_default().push(destination);
            }
        }
        found
    }

    /// Passes an SCON or a DUPU of a gateway on, if messages for the destination take this link set.
    pub(super) fn pass_on(&mut self, gateway: &str, indication: &AspIndication) {
        let mut links = self.link_sets.iter();
        let from = links.find(|(key, _)| self.node.name(**key).is_some_and(|n| *n == *gateway));
        let Some((_, name)) = from else {
            return;
        };
        let target = Target::LinkSet(name.clone());
        let (network, affected) = match indication {
            AspIndication::Congestion(state) => {
                (state.network_appearance, state.affected.0.clone())
            }
            AspIndication::UserPartUnavailable(dupu) => {
                let affected = AffectedPointCode::single(dupu.affected.0);
                (dupu.network_appearance, vec![affected])
            }
            _ => return,
        };
        let is_over = |destination: &AffectedPointCode| {
            let usable = |target: &Target| self.is_usable(target, *destination);
            self.router
                .current(network, *destination, usable)
                .contains(&target)
        };
        let affected: Vec<_> = affected.into_iter().filter(is_over).collect();
        if affected.is_empty() {
            return;
        }
        for view in self.views() {
            if view.is_some_and(|context| self.is_same_peer(&Target::Server(context), &target)) {
                continue;
            }
            match indication {
                AspIndication::Congestion(state) => {
                    let level = state.level;
                    let event = |affected| DestinationEvent::Congested(affected, level);
                    self.report(view, network, &affected, &event);
                }
                AspIndication::UserPartUnavailable(dupu) => {
                    let (code, cause) = (dupu.affected.0, dupu.user_cause);
                    let event = |_| DestinationEvent::UserPartUnavailable(code, cause);
                    self.report(view, network, &affected, &event);
                }
                _ => {}
            }
        }
    }
}
