//! States as text, for the log.

use std::fmt::Write;
use std::sync::Arc;

use carrick_sigtran::m3ua::AffectedPointCode;
use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::sgp::AsState;

use super::router::Target;
use super::{StpCore, TargetKind, Traffic};
use crate::connection::LinkKey;
use crate::node::PeerState;

impl StpCore {
    /// Returns the state of a link of a link set.
    pub(super) fn link_state(&self, key: LinkKey) -> Option<PeerState> {
        let set = Target::LinkSet(Arc::clone(self.link_sets.get(&key)?));
        let context = match self.targets.get(&set)?.kind {
            TargetKind::Asp(context, _) => context,
            _ => None,
        };
        self.node.peer_state(key, context)
    }

    /// Returns a destination or range as text, such as `2-117-0 mask 3`.
    pub(super) fn show(&self, destination: AffectedPointCode) -> String {
        let code = destination.point_code.display(self.config.format);
        match destination.mask {
            0 => code.to_string(),
            mask => format!("{code} mask {mask}"),
        }
    }

    pub(super) fn status(&self) -> String {
        let mut text = String::new();
        let sgp = &self.node.gateway.sgp;
        for server in self.servers() {
            let context = server.config.routing_context;
            let name = &server.name;
            let state = sgp.as_state(context).unwrap_or(AsState::Down);
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "application server {name}, routing context {}: {state:?}",
                context.0
            );
            for (asp, key) in &self.asps {
                if let Some(state) = sgp.asp_state(*key, context) {
                    let _ = write!(text, ", ASP {asp} {state:?}");
                }
            }
            text.push('\n');
        }
        for (key, name) in &self.link_sets {
            let (Some(state), Some(peer)) = (self.link_state(*key), self.node.name(*key)) else {
                continue;
            };
            let state = match state {
                PeerState::Active => "active",
                PeerState::NotActive => "not active",
                PeerState::NoAssociation => "no association",
            };
            let _ = writeln!(text, "link set {name}, gateway {peer}: {state}");
        }
        for ((view, _, destination), availability) in &self.available {
            if view.is_some() {
                continue;
            }
            let state = match availability {
                Availability::Available => "available",
                Availability::Restricted => "restricted",
                Availability::Unavailable => "unavailable",
            };
            let _ = writeln!(text, "destination {}: {state}", self.show(*destination));
        }
        for state in self.targets.values() {
            let Traffic { received, sent, .. } = state.traffic;
            let name = &state.name;
            let congested = if state.is_congested {
                ", congested"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "traffic of {name}: {received} received, {sent} sent{congested}"
            );
        }
        for (reason, count) in self.discards().filter(|(_, count)| *count > 0) {
            let _ = writeln!(text, "discarded, {reason}: {count}");
        }
        text
    }
}
