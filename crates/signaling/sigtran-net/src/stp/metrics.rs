//! Metrics of a signal transfer point. This file owns their names.

use carrick_metrics::encode_metrics;
use carrick_sigtran::m3ua::asp::AspState;
use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::sgp::AsState;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::router::Target;
use super::{StpCore, Traffic};
use crate::node::PeerState;

/// Labels of one series, in the order in which they are shown.
type Labels = Vec<(&'static str, String)>;

/// Returns a label value with the characters escaped that the text format reserves; the encoder writes values as they
/// are.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

impl StpCore {
    /// Returns all metrics in the text format of `OpenMetrics`.
    pub(super) fn metrics(&self) -> String {
        let mut registry = Registry::with_prefix("carrick_stp");
        self.register_traffic(&mut registry);
        self.register_states(&mut registry);
        let discarded: Family<Labels, Counter> = Family::default();
        for (reason, count) in self.discards() {
            let labels = vec![("reason", reason.to_owned())];
            discarded.get_or_create(&labels).inc_by(count);
        }
        registry.register("discarded", "Messages discarded, by reason", discarded);
        let lost = ConstCounter::new(self.node.counters.events_lost);
        registry.register("events_lost", "Events that were not logged", lost);
        let suppressed = ConstCounter::new(self.event_limits.suppressed());
        let help = "Events left out of the log, because their source had too many";
        registry.register("events_suppressed", help, suppressed);
        self.register_paths(&mut registry);
        encode_metrics(&registry)
    }

    fn register_paths(&self, registry: &mut Registry) {
        let paths: Family<Labels, Gauge> = Family::default();
        for path in self.node.paths() {
            let kind = if path.is_asp { "asp" } else { "gateway" };
            let address = ("address", path.address.to_string());
            let labels = vec![(kind, escaped(&path.peer)), address];
            paths.get_or_create(&labels).set(path.is_active.into());
        }
        let help = "1 if the path to the address of the ASP, gateway or peer is active";
        registry.register("path_active", help, paths);
        let failures = ConstCounter::new(self.node.counters.path_failures);
        registry.register("path_failures", "Failures of paths", failures);
    }

    fn register_traffic(&self, registry: &mut Registry) {
        for (name, help, value) in [
            (
                "received",
                "Messages received",
                (|traffic| traffic.received) as fn(&Traffic) -> u64,
            ),
            ("received_octets", "User data received in octets", |t| {
                t.received_octets
            }),
            ("sent", "Messages sent", |t| t.sent),
            ("sent_octets", "User data sent in octets", |t| t.sent_octets),
        ] {
            let family: Family<Labels, Counter> = Family::default();
            for (target, state) in &self.targets {
                let kind = match target {
                    Target::LinkSet(_) => "link_set",
                    Target::Server(_) => "application_server",
                };
                let labels = vec![(kind, escaped(&state.name))];
                family.get_or_create(&labels).inc_by(value(&state.traffic));
            }
            registry.register(name, help, family);
        }
    }

    fn register_states(&self, registry: &mut Registry) {
        let sgp = &self.node.gateway.sgp;
        let servers: Family<Labels, Gauge> = Family::default();
        let asps: Family<Labels, Gauge> = Family::default();
        for server in self.servers() {
            let context = server.config.routing_context;
            let labels = vec![("application_server", escaped(&server.name))];
            let is_active = sgp.as_state(context) == Some(AsState::Active);
            servers.get_or_create(&labels).set(is_active.into());
            for (asp, key) in &self.asps {
                let Some(state) = sgp.asp_state(*key, context) else {
                    continue;
                };
                let mut labels = labels.clone();
                labels.push(("asp", escaped(asp)));
                let is_active = state == AspState::Active;
                asps.get_or_create(&labels).set(is_active.into());
            }
        }
        let help = "1 if the application server is in AS-ACTIVE";
        registry.register("application_server_active", help, servers);
        let help = "1 if the ASP is in ASP-ACTIVE in the application server";
        registry.register("asp_active", help, asps);
        let links: Family<Labels, Gauge> = Family::default();
        for (key, set) in &self.link_sets {
            let (Some(state), Some(peer)) = (self.link_state(*key), self.node.name(*key)) else {
                continue;
            };
            let labels = vec![("link_set", escaped(set)), ("gateway", escaped(&peer))];
            let is_active = state == PeerState::Active;
            links.get_or_create(&labels).set(is_active.into());
        }
        registry.register(
            "link_active",
            "1 if the link to the gateway or peer is active",
            links,
        );
        let destinations: Family<Labels, Gauge> = Family::default();
        let own = self
            .available
            .iter()
            .filter(|((view, ..), _)| view.is_none());
        for ((.., destination), availability) in own {
            let labels = vec![("destination", self.show(*destination))];
            let available = i64::from(*availability != Availability::Unavailable);
            destinations.get_or_create(&labels).set(available);
        }
        let help = "1 if a route to the destination is available";
        registry.register("destination_available", help, destinations);
    }
}
