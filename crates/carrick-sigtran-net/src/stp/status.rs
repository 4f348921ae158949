//! States as text, for the log.

use std::fmt::Write;

use carrick_sigtran::m3ua::AffectedPointCode;
use carrick_sigtran::m3ua::sgp::AsState;

use super::{StpCore, Traffic};

impl StpCore {
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
        for server in &self.config.servers {
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
            let Some(link) = self.node.links.get(key) else {
                continue;
            };
            let state = match (link.association(), link.is_active(self.context_of(name))) {
                (_, true) => "active",
                (Some(_), false) => "not active",
                (None, false) => "no association",
            };
            let _ = writeln!(text, "link set {name}, gateway {}: {state}", link.name);
        }
        for ((view, _, destination), is_available) in &self.available {
            if view.is_some() {
                continue;
            }
            let state = if *is_available {
                "available"
            } else {
                "unavailable"
            };
            let _ = writeln!(text, "destination {}: {state}", self.show(*destination));
        }
        for state in self.targets.values() {
            let Traffic { received, sent, .. } = state.traffic;
            let name = &state.name;
            let _ = writeln!(text, "traffic of {name}: {received} received, {sent} sent");
        }
        for (reason, count) in self.discards().filter(|(_, count)| *count > 0) {
            let _ = writeln!(text, "discarded, {reason}: {count}");
        }
        text
    }
}
