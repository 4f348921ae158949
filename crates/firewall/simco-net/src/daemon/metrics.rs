//! Metrics of a middlebox. This file owns their names.

use std::time::Duration;

use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::audit::AuditCounts;
use carrick_simco::backend::{Backend, Traffic};
use carrick_simco::message::NegativeReply;
use carrick_simco::middlebox::{MeteredRule, Middlebox};

/// Upper limits of the buckets of `request_seconds`.
const BUCKETS: [f64; 14] = [
    5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0,
];

/// Labels of one series, in the order in which they are shown.
type Labels = Vec<(&'static str, String)>;

/// Returns a label value with the characters escaped that the text format reserves; the encoder writes
/// values as they are.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

/// Time from the arrival of a request until its reply is queued for sending.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Histogram);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new(BUCKETS))
    }
}

impl Latencies {
    /// Records `count` requests that took this time.
    pub(super) fn record(&mut self, time: Duration, count: u64) {
        for _ in 0..count {
            self.0.observe(time.as_secs_f64());
        }
    }
}

/// Returns all metrics but the traffic of single rules and the accept failures.
pub(super) fn registry<B: Backend>(
    middlebox: &Middlebox<B>,
    latencies: &Latencies,
    audit: AuditCounts,
) -> Registry {
    let mut registry = Registry::with_prefix("carrick_simco");
    let rules = middlebox.rules();
    let (open, half_open) = middlebox.session_counts();
    for (name, help, value) in [
        ("rules", "Policy rules in force", rules.len()),
        (
            "disable_rules",
            "Policy rules in force that block (PDR)",
            rules.disable_rules(),
        ),
        ("sessions", "Open sessions", open),
        (
            "half_open",
            "Connections without an open session",
            half_open,
        ),
    ] {
        registry.register(name, help, ConstGauge::new(value as i64));
    }
    let stats = middlebox.stats();
    for (name, help, value) in [
        (
            "badly_formed",
            "Malformed messages received",
            stats.badly_formed,
        ),
        (
            "half_open_evicted",
            "Half-open connections evicted to admit new ones",
            stats.half_open_evicted,
        ),
        (
            "overrun",
            "Sessions ended because the agent did not read its messages",
            stats.overrun,
        ),
        (
            "backend_failures",
            "Elements that the packet filter failed to remove",
            stats.backend_failures,
        ),
        (
            "backend_refusals",
            "Requests refused because the packet filter was full, had no free port or failed",
            stats.backend_refusals,
        ),
        (
            "audit_failures",
            "Failed attempts to write the audit log",
            audit.failures,
        ),
        (
            "audit_lost",
            "Audit log lines lost because the log could not be written",
            audit.lost,
        ),
        (
            "audit_suppressed",
            "Audit events suppressed by rate limiting",
            audit.suppressed,
        ),
    ] {
        registry.register(name, help, ConstCounter::new(value));
    }
    register_transactions(&mut registry, middlebox);
    register_agents(&mut registry, middlebox);
    registry.register(
        "request_seconds",
        "Time from the arrival of a request until its reply is queued for sending",
        latencies.0.clone(),
    );
    registry
}

/// Adds the number of failures to accept a connection.
pub(super) fn register_accept_failures(registry: &mut Registry, total: u64) {
    registry.register(
        "accept_failures",
        "Failed attempts to accept a connection, e.g. for lack of file descriptors",
        ConstCounter::new(total),
    );
}

/// Adds the packets and octets that single rules passed or blocked.
pub(super) fn register_traffic(registry: &mut Registry, rules: &[(MeteredRule, Traffic)]) {
    let mut register = |blocks: bool, name: &str, help: &str, of: fn(&Traffic) -> u64| {
        let family: Family<Labels, Counter> = Family::default();
        for (metered, traffic) in rules.iter().filter(|(rule, _)| rule.blocks == blocks) {
            let labels = vec![
                ("rule", metered.rule.to_string()),
                ("agent", escaped(metered.owner.as_str())),
            ];
            family.get_or_create(&labels).inc_by(of(traffic));
        }
        registry.register(name, help, family);
    };
    let help = "Packets passed by a rule";
    register(false, "rule_packets", help, |traffic| traffic.packets);
    let help = "Octets passed by a rule, headers included";
    register(false, "rule_octets", help, |traffic| traffic.octets);
    let help = "Packets blocked by a rule (PDR)";
    register(true, "rule_blocked_packets", help, |traffic| {
        traffic.packets
    });
    let help = "Octets blocked by a rule (PDR), headers included";
    register(true, "rule_blocked_octets", help, |traffic| traffic.octets);
}

fn register_transactions<B: Backend>(registry: &mut Registry, middlebox: &Middlebox<B>) {
    let family: Family<Labels, Counter> = Family::default();
    let counts = middlebox.counts();
    for (kind, count) in counts.accepted() {
        let labels = vec![
            ("type", kind.name().to_owned()),
            ("result", "accepted".to_owned()),
        ];
        family.get_or_create(&labels).inc_by(count);
    }
    let text = |code: u8| {
        let plain = NegativeReply::PLAIN.iter().find(|r| r.code() == code);
        plain.map_or("protocol version mismatch", |reply| reply.text())
    };
    for (kind, code, count) in counts.refused() {
        let labels = vec![
            ("type", kind.name().to_owned()),
            ("result", "refused".to_owned()),
            ("code", format!("0x03{code:02x}")),
            ("reason", text(code).to_owned()),
        ];
        family.get_or_create(&labels).inc_by(count);
    }
    registry.register("transactions", "Requests by type and result", family);
}

fn register_agents<B: Backend>(registry: &mut Registry, middlebox: &Middlebox<B>) {
    let agents: Vec<_> = middlebox.agents().collect();
    let rules: Family<Labels, Gauge> = Family::default();
    let sessions: Family<Labels, Gauge> = Family::default();
    for (_, name, rule_count, session_count) in &agents {
        let labels = vec![("agent", escaped(name.as_str()))];
        rules.get_or_create(&labels).set(*rule_count as i64);
        sessions.get_or_create(&labels).set(*session_count as i64);
    }
    registry.register("agent_rules", "Policy rules owned by an agent", rules);
    registry.register("agent_sessions", "Open sessions of an agent", sessions);
    let transactions: Family<Labels, Counter> = Family::default();
    for (index, counts) in middlebox.counts().agents() {
        let agent = agents.iter().find(|(other, ..)| *other == index);
        let agent = agent.map_or("", |(_, name, ..)| name.as_str());
        for (result, count) in [("accepted", counts.accepted), ("refused", counts.refused)] {
            let labels = vec![("agent", escaped(agent)), ("result", result.to_owned())];
            transactions.get_or_create(&labels).inc_by(count);
        }
    }
    let help = "Requests of an agent about policy rules, by result";
    registry.register("agent_transactions", help, transactions);
}

#[cfg(test)]
mod tests {
    use super::*;
    use carrick_metrics::encode_metrics;

    #[test]
    fn request_seconds_is_a_cumulative_histogram() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::from_micros(60), 3);
        latencies.record(Duration::from_millis(3), 2);
        latencies.record(Duration::from_secs(9), 1);
        let mut registry = Registry::default();
        registry.register("request_seconds", "Times", latencies.0.clone());
        let text = encode_metrics(&registry);
        for line in [
            "# TYPE request_seconds histogram\n",
            "request_seconds_bucket{le=\"0.0001\"} 3\n",
            "request_seconds_bucket{le=\"0.005\"} 5\n",
            "request_seconds_bucket{le=\"1.0\"} 5\n",
            "request_seconds_bucket{le=\"+Inf\"} 6\n",
            "request_seconds_count 6\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn label_values_are_escaped() {
        let family: Family<Labels, Counter> = Family::default();
        family
            .get_or_create(&vec![("agent", escaped("a\"b\\c\nd"))])
            .inc();
        let mut registry = Registry::default();
        registry.register("x", "X", family);
        let text = encode_metrics(&registry);
        assert!(
            text.contains("x_total{agent=\"a\\\"b\\\\c\\nd\"} 1\n"),
            "{text}"
        );
    }
}
