//! What a middlebox counts, in the text format of Prometheus.

use std::fmt::{Display, Write};
use std::time::Duration;

use crate::backend::Backend;
use crate::message::{NegativeReply, RequestKind};
use crate::middlebox::Middlebox;

/// Upper limits of the latency histogram in seconds.
const LIMITS: [f64; 14] = [
    5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0,
];

/// How long requests took from the socket to the way back.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies {
    counts: [u64; LIMITS.len()],
    all: u64,
    sum: f64,
}

impl Latencies {
    /// So many requests took so long.
    pub(super) fn record(&mut self, time: Duration, count: u64) {
        let seconds = time.as_secs_f64();
        let fits = LIMITS.iter().position(|limit| seconds <= *limit);
        if let Some(slot) = fits.and_then(|place| self.counts.get_mut(place)) {
            *slot += count;
        }
        self.all += count;
        self.sum += seconds * count as f64;
    }
}

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP carrick_simco_{name} {help}"));
        self.line(format_args!("# TYPE carrick_simco_{name} {kind}"));
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let mut shown = String::new();
        for (label, text) in labels {
            let comma = if shown.is_empty() { "" } else { "," };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            let text = text.replace('\n', "\\n");
            // Writing to a string does not fail.
            let _ = write!(shown, "{comma}{label}=\"{text}\"");
        }
        if shown.is_empty() {
            self.line(format_args!("carrick_simco_{name} {value}"));
        } else {
            self.line(format_args!("carrick_simco_{name}{{{shown}}} {value}"));
        }
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.value(name, &[], value);
    }
}

/// All metrics; of as many rules as `shown`, what they have let pass.
pub(super) fn text<B: Backend>(
    middlebox: &mut Middlebox<B>,
    latencies: &Latencies,
    shown: usize,
) -> String {
    let mut text = Text(String::new());
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
    ] {
        text.single(name, "counter", help, value);
    }
    transactions(&mut text, middlebox);
    agents(&mut text, middlebox);
    histogram(&mut text, latencies);
    traffic(&mut text, middlebox, shown);
    text.0
}

/// The rules with the smallest identifiers, which have lived the longest.
fn traffic<B: Backend>(text: &mut Text, middlebox: &mut Middlebox<B>, shown: usize) {
    let rules: Vec<_> = middlebox
        .rules()
        .iter()
        .take(shown)
        .map(|rule| (rule.id, middlebox.owner(rule).as_str().to_owned()))
        .collect();
    let mut counted = Vec::new();
    for (rule, owner) in rules {
        // What the packet filter does not tell is not shown.
        if let Ok(Some(traffic)) = middlebox.traffic(rule) {
            counted.push((rule.to_string(), owner, traffic));
        }
    }
    if counted.is_empty() {
        return;
    }
    let help = "Packets that a rule has let pass.";
    text.family("rule_packets_total", "counter", help);
    for (rule, owner, traffic) in &counted {
        let labels = [("rule", &**rule), ("agent", owner)];
        text.value("rule_packets_total", &labels, traffic.packets);
    }
    let help = "Octets that a rule has let pass, headers included.";
    text.family("rule_octets_total", "counter", help);
    for (rule, owner, traffic) in &counted {
        let labels = [("rule", &**rule), ("agent", owner)];
        text.value("rule_octets_total", &labels, traffic.octets);
    }
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

fn histogram(text: &mut Text, latencies: &Latencies) {
    let help = "From the arrival of a request to its reply on the way back.";
    text.family("request_seconds", "histogram", help);
    let mut sum = 0;
    for (limit, count) in LIMITS.iter().zip(latencies.counts) {
        sum += count;
        let limit = limit.to_string();
        text.value("request_seconds_bucket", &[("le", &limit)], sum);
    }
    text.value("request_seconds_bucket", &[("le", "+Inf")], latencies.all);
    text.value("request_seconds_sum", &[], latencies.sum);
    text.value("request_seconds_count", &[], latencies.all);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_cumulative_and_ends_with_all() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::from_micros(60), 3);
        latencies.record(Duration::from_millis(3), 2);
        latencies.record(Duration::from_secs(9), 1);
        let mut text = Text(String::new());
        histogram(&mut text, &latencies);
        for line in [
            "carrick_simco_request_seconds_bucket{le=\"0.0001\"} 3\n",
            "carrick_simco_request_seconds_bucket{le=\"0.005\"} 5\n",
            "carrick_simco_request_seconds_bucket{le=\"1\"} 5\n",
            "carrick_simco_request_seconds_bucket{le=\"+Inf\"} 6\n",
            "carrick_simco_request_seconds_count 6\n",
        ] {
            assert!(text.0.contains(line), "{line} in\n{}", text.0);
        }
    }

    #[test]
    fn names_in_labels_can_have_any_letter() {
        let mut text = Text(String::new());
        text.value("x", &[("agent", "a\"b\\c\nd")], 1);
        assert_eq!(text.0, "carrick_simco_x{agent=\"a\\\"b\\\\c\\nd\"} 1\n");
    }
}
