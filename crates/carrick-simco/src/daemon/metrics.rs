//! What a middlebox counts, in the text format of Prometheus.

use std::time::Duration;

use super::audit::AuditCounts;
use crate::backend::{Backend, Traffic};
use crate::exposition::{Exposition as Text, Histogram};
use crate::message::{NegativeReply, RequestKind};
use crate::middlebox::{MeteredRule, Middlebox};

/// Upper limits of the latency histogram in seconds.
const LIMITS: [f64; 14] = [
    5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0,
];

/// How long requests took from the socket to the way back.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Histogram<{ LIMITS.len() }>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new(&LIMITS))
    }
}

impl Latencies {
    /// So many requests took so long.
    pub(super) fn record(&mut self, time: Duration, count: u64) {
        self.0.record(time, count);
    }
}

/// All metrics but what rules have let pass and blocked.
pub(super) fn text<B: Backend>(
    middlebox: &Middlebox<B>,
    latencies: &Latencies,
    audit: AuditCounts,
) -> String {
    let mut text = Text::new("carrick_simco");
    let rules = middlebox.rules();
    let (open, half_open) = middlebox.session_counts();
    let stats = middlebox.stats();
    text.single("rules", "gauge", "Policy rules that live.", rules.len());
    text.single(
        "disable_rules",
        "gauge",
        "Those of them that block.",
        rules.disable_rules(),
    );
    text.single("sessions", "gauge", "Open sessions.", open);
    text.single(
        "half_open",
        "gauge",
        "Connections without a session.",
        half_open,
    );
    for (name, help, value) in [
        (
            "badly_formed_total",
            "Messages that were none.",
            stats.badly_formed,
        ),
        (
            "crowded_out_total",
            "Connections that gave way before they had a session.",
            stats.crowded_out,
        ),
        (
            "overrun_total",
            "Sessions ended because their agent took nothing.",
            stats.overrun,
        ),
        (
            "backend_failures_total",
            "Elements that the packet filter did not remove.",
            stats.backend_failures,
        ),
        (
            "backend_refusals_total",
            "Requests refused because of the packet filter: it was full, had no ports, or failed.",
            stats.backend_refusals,
        ),
        (
            "audit_failures_total",
            "Attempts to write the audit log that failed.",
            audit.failures,
        ),
        (
            "audit_lost_total",
            "Lines that found no room while the audit log could not be written.",
            audit.lost,
        ),
        (
            "audit_suppressed_total",
            "Refusals, sessions and connections without one that had no line of their own.",
            audit.suppressed,
        ),
    ] {
        text.single(name, "counter", help, value);
    }
    transactions(&mut text, middlebox);
    agents(&mut text, middlebox);
    let help = "From the arrival of a request to its reply on the way back.";
    text.histogram("request_seconds", help, &latencies.0);
    text.finish()
}

/// Failures to accept connections.
pub(super) fn accept_failures(total: u64) -> String {
    let mut text = Text::new("carrick_simco");
    let help = "Failed attempts to accept a connection, e.g. for lack of file descriptors.";
    text.single("accept_failures_total", "counter", help, total);
    text.finish()
}

/// What these rules have let pass, and those that block have dropped.
pub(super) fn traffic(rules: &[MeteredRule], counted: &[Traffic]) -> String {
    let mut text = Text::new("carrick_simco");
    let mut family = |blocks: bool, name: &str, help: &str, of: fn(&Traffic) -> u64| {
        let shown = rules.iter().zip(counted);
        let shown = shown.filter(|(metered, _)| metered.blocks == blocks);
        for (n, (metered, traffic)) in shown.enumerate() {
            if n == 0 {
                text.family(name, "counter", help);
            }
            let rule = metered.rule.to_string();
            let labels = [("rule", &*rule), ("agent", metered.owner.as_str())];
            text.value(name, &labels, of(traffic));
        }
    };
    let help = "Packets that a rule has let pass.";
    family(false, "rule_packets_total", help, |met| met.packets);
    let help = "Octets that a rule has let pass, headers included.";
    family(false, "rule_octets_total", help, |met| met.octets);
    let help = "Packets that were dropped because a rule blocks them.";
    family(true, "rule_blocked_packets_total", help, |met| met.packets);
    let help = "Octets that were dropped because a rule blocks them, headers included.";
    family(true, "rule_blocked_octets_total", help, |met| met.octets);
    text.finish()
}

fn transactions<B: Backend>(text: &mut Text, middlebox: &Middlebox<B>) {
    let name = "transactions_total";
    text.family(name, "counter", "Requests by type and result.");
    let counts = middlebox.counts();
    for (kind, count) in counts.accepted() {
        let labels = [("type", kind.name()), ("result", "accepted")];
        text.value(name, &labels, count);
    }
    let words = |code: u8| {
        let plain = NegativeReply::PLAIN.iter().find(|r| r.code() == code);
        plain.map_or("protocol version mismatch", |reply| reply.text())
    };
    for (kind, code, count) in counts.refused() {
        let kind: RequestKind = kind;
        let code_text = format!("0x03{code:02x}");
        let labels = [
            ("type", kind.name()),
            ("result", "refused"),
            ("code", &code_text),
            ("reason", words(code)),
        ];
        text.value(name, &labels, count);
    }
}

fn agents<B: Backend>(text: &mut Text, middlebox: &Middlebox<B>) {
    let agents: Vec<_> = middlebox.agents().collect();
    text.family("agent_rules", "gauge", "Policy rules of each agent.");
    for (_, name, rules, _) in &agents {
        text.value("agent_rules", &[("agent", name.as_str())], rules);
    }
    text.family("agent_sessions", "gauge", "Open sessions of each agent.");
    for (_, name, _, sessions) in &agents {
        text.value("agent_sessions", &[("agent", name.as_str())], sessions);
    }
    let name = "agent_transactions_total";
    text.family(name, "counter", "Requests about rules of each agent.");
    for (index, counts) in middlebox.counts().agents() {
        let agent = agents.iter().find(|(other, ..)| *other == index);
        let agent = agent.map_or("", |(_, name, ..)| name.as_str());
        for (result, count) in [("accepted", counts.accepted), ("refused", counts.refused)] {
            text.value(name, &[("agent", agent), ("result", result)], count);
        }
    }
}
