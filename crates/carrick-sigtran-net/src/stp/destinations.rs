//! State of the destinations, and its reports to ASPs (RFC 4666, section 4.5).

use std::collections::{BTreeMap, BTreeSet};

use carrick_sigtran::m3ua::asp::AspState;
use carrick_sigtran::m3ua::sgp::{AspKey, DestinationEvent};
use carrick_sigtran::m3ua::{
    AffectedPointCode, AffectedPointCodes, DestinationState, RoutingContext, RoutingContexts,
};

use super::router::Target;
use super::{Network, StpCore, View};

/// Maximum number of point codes of a DUNA or DAVA.
const MAX_REPORTED: usize = 1024;

impl StpCore {
    /// Returns whether a destination, or a range as a whole, is available to a view; `None` without a route.
    pub(super) fn is_available(
        &self,
        view: View,
        network: Network,
        destination: AffectedPointCode,
    ) -> Option<bool> {
        let viewer = view.map(Target::Server);
        let usable = |target: &Target| {
            let is_back = viewer
                .as_ref()
                .is_some_and(|v| self.is_same_peer(v, target));
            !is_back && self.is_usable(target, destination)
        };
        self.router.is_available(network, destination, usable)
    }

    /// Returns the view of an application server.
    pub(super) fn view_of(&self, context: RoutingContext) -> View {
        self.link_set_of(context).map(|_| context)
    }

    /// Returns all views.
    pub(super) fn views(&self) -> Vec<View> {
        let peers = self.config.link_sets.iter().filter_map(|set| set.peer);
        std::iter::once(None).chain(peers.map(Some)).collect()
    }

    /// Reports destinations of routing keys and routes whose availability changed.
    pub(super) fn update_destinations(&mut self) {
        let mut before = std::mem::take(&mut self.available);
        let mut changes: BTreeMap<(View, Network), Vec<AffectedPointCode>> = BTreeMap::new();
        for view in self.views() {
            for (network, destination) in self.router.destinations() {
                let key = (view, network, destination);
                let is_available = self.is_available(view, network, destination) == Some(true);
                let known = before.remove(&key);
                self.available.insert(key, is_available);
                if known == Some(is_available) {
                    continue;
                }
                changes
                    .entry((view, network))
                    .or_default()
                    .push(destination);
                if view.is_none() && (known.is_some() || is_available) {
                    let text = self.show(destination);
                    self.node.notify_destination(text, is_available);
                }
            }
        }
        // Destinations without a route any more.
        for (view, network, destination) in before.into_keys() {
            changes
                .entry((view, network))
                .or_default()
                .push(destination);
        }
        for ((view, network), changed) in changes {
            let reports = self.with_parts(view, network, &changed);
            for run in reports.chunk_by(|(_, a), (_, b)| a == b) {
                self.report(view, network, run);
            }
        }
    }

    /// Returns the availability of destinations, and that of the parts of ranges among them, because a report of a range
    /// is one about its parts. Ranges precede their parts.
    pub(super) fn with_parts(
        &self,
        view: View,
        network: Network,
        destinations: &[AffectedPointCode],
    ) -> Vec<(AffectedPointCode, bool)> {
        let known = |destination| {
            let available = self.available.get(&(view, network, destination));
            available.copied().unwrap_or_default()
        };
        let all = self.available.keys();
        let own = all.filter(|(to, of, _)| (*to, *of) == (view, network));
        let mut listed: BTreeSet<_> = destinations.iter().copied().collect();
        listed.extend(own.map(|(.., destination)| *destination).filter(|part| {
            let contains = |range: &AffectedPointCode| {
                range.mask > part.mask && range.contains(part.point_code)
            };
            destinations.iter().any(contains)
        }));
        // In the order of masks.
        let listed = listed.into_iter().rev();
        listed
            .map(|destination| (destination, known(destination)))
            .collect()
    }

    /// Sends DUNA or DAVA to the ASPs of a view that are active in the network. All have the same availability.
    pub(super) fn report(
        &mut self,
        view: View,
        network: Network,
        reports: &[(AffectedPointCode, bool)],
    ) {
        let concerned: Vec<_> = self
            .servers()
            .map(|server| {
                (
                    server.config.routing_context,
                    server.config.network_appearance,
                )
            })
            // A destination without a network appearance concerns all networks.
            .filter(|(_, of)| network.is_none() || *of == network)
            .filter(|(context, _)| self.view_of(*context) == view)
            .collect();
        let asps: Vec<_> = self.asps.values().copied().collect();
        for (context, network) in concerned {
            for asp in &asps {
                let state = self.node.gateway.sgp.asp_state(*asp, context);
                if state == Some(AspState::Active) {
                    self.send_report(*asp, context, network, reports);
                }
            }
        }
    }

    /// Sends DUNA or DAVA to one ASP, at most 1,024 point codes in a message.
    pub(super) fn send_report(
        &mut self,
        asp: AspKey,
        context: RoutingContext,
        network: Network,
        reports: &[(AffectedPointCode, bool)],
    ) {
        for reports in reports.chunks(MAX_REPORTED) {
            let destinations = reports.iter().map(|(destination, _)| *destination);
            let affected = AffectedPointCodes(destinations.collect());
            let concerned = DestinationState {
                network_appearance: network,
                routing_contexts: RoutingContexts::new([context]),
                affected: affected.clone(),
                info: None,
            };
            let event = match reports.first() {
                Some((_, true)) => DestinationEvent::Available(affected),
                _ => DestinationEvent::Unavailable(affected),
            };
            // The ASP may have gone down since.
            let _ = self.node.gateway.sgp.answer_audit(asp, &concerned, &event);
        }
    }

    /// Reports destinations that a gateway reported and that are parts of a route's range.
    pub(super) fn report_parts(&mut self, state: &DestinationState) {
        let network = state.network_appearance;
        for view in self.views() {
            for affected in &state.affected.0 {
                let is_own = self.available.contains_key(&(view, network, *affected));
                if is_own || affected.mask >= 24 {
                    continue;
                }
                if let Some(is_available) = self.is_available(view, network, *affected) {
                    self.report(view, network, &[(*affected, is_available)]);
                }
            }
        }
    }

    /// Sends a DUNA with the unavailable destinations to an ASP that has become active.
    pub(super) fn report_unavailable(&mut self, key: AspKey, context: RoutingContext) {
        let target = Target::Server(context);
        let Some(state) = self.targets.get(&target) else {
            return;
        };
        let (view, network) = (self.view_of(context), state.network_appearance);
        let mut unavailable: BTreeMap<Network, Vec<AffectedPointCode>> = BTreeMap::new();
        for ((to, of, destination), is_available) in &self.available {
            if !is_available && *to == view && (of.is_none() || *of == network) {
                unavailable.entry(*of).or_default().push(*destination);
            }
        }
        for (of, destinations) in unavailable {
            let reports = self.with_parts(view, of, &destinations);
            for run in reports.chunk_by(|(_, a), (_, b)| a == b) {
                self.send_report(key, context, network, run);
            }
        }
    }

    /// Answers a DAUD: DUNA or DAVA, or the Error message Destination Status Unknown without a route.
    pub(super) fn answer_audit(&mut self, key: AspKey, audit: &DestinationState) {
        let network = audit.network_appearance;
        let contexts = audit.routing_contexts.as_ref();
        let context = contexts.and_then(|contexts| contexts.0.first().copied());
        let context = context.or_else(|| {
            let asp = self.node.gateway.asps.get(&key)?;
            asp.settings.application_servers.first().copied()
        });
        let view = context.and_then(|context| self.view_of(context));
        let (mut available, mut unavailable, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        for affected in &audit.affected.0 {
            match self.is_available(view, network, *affected) {
                Some(true) => available.push(*affected),
                Some(false) => unavailable.push(*affected),
                None => unknown.push(*affected),
            }
        }
        let sgp = &mut self.node.gateway.sgp;
        // The ASP may have gone down since.
        if !available.is_empty() {
            let event = DestinationEvent::Available(AffectedPointCodes(available));
            let _ = sgp.answer_audit(key, audit, &event);
        }
        if !unavailable.is_empty() {
            let event = DestinationEvent::Unavailable(AffectedPointCodes(unavailable));
            let _ = sgp.answer_audit(key, audit, &event);
        }
        if !unknown.is_empty() {
            let audit = DestinationState {
                affected: AffectedPointCodes(unknown),
                ..audit.clone()
            };
            let _ = sgp.refuse_audit(key, &audit);
        }
    }
}
