//! Assembly of the result: split, drawing, settings.

use super::figures::figures;
use super::notes::notes;
use super::rows::{move_label, rows};
use super::setup::{
    ALTERNATIVE_DELAY, ALTERNATIVE_RTO, ALTERNATIVE_WINDOW, BREAK, DELAY, GAP, LONG, MESSAGE,
    MESSAGES, MIDDLE, OVERLAP, PATH_MTU, QUEUE, RATE, STEADY, STEADY_INTERVAL, STEADY_MESSAGE,
    Stack, TRANSFER, millis, round_trip, transmission,
};
use super::{HANDOVER_STACKS, Job, MOVES, MobileIp, Observed};
use crate::format::given;
use crate::result::{ScenarioResult, Setting, Split, SplitLine};
use crate::stats::mean;
use crate::{Drawing, DrawnLink, DrawnNode};

pub(super) fn result(scenario: MobileIp, observed: &Observed, seed: u64) -> ScenarioResult {
    ScenarioResult {
        rows: rows(observed),
        figures: figures(observed),
        drawing: drawing(),
        splits: vec![split(observed)],
        notes: notes(observed),
        settings: settings(),
        ..ScenarioResult::of(&scenario, seed, observed.jobs[0].1.len() as u64)
    }
}

/// Parts of an interruption, in order.
const PARTS: [&str; 3] = [
    "without coverage",
    "until the new location is known",
    "until data flows again",
];

fn split(observed: &Observed) -> Split {
    let mut lines = Vec::new();
    for stack in HANDOVER_STACKS {
        for kind in MOVES {
            let job = Job::Handover(kind, stack);
            let part = |n: usize| mean(&observed.values(job, |m| m.parts[n])).unwrap_or_default();
            lines.push(SplitLine {
                label: format!("{}, {}", move_label(kind), stack.label()),
                parts: (0..PARTS.len()).map(part).collect(),
            });
        }
    }
    Split {
        title: "Parts of the interruption of a handover".into(),
        unit: "ms".into(),
        parts: PARTS.map(String::from).to_vec(),
        lines,
    }
}

fn drawing() -> Drawing {
    let node = |x, y, lines: &[&str]| DrawnNode {
        at: (x, y),
        label: lines.iter().map(ToString::to_string).collect(),
    };
    let link = |ends, bend, label: &[&str], dashed| DrawnLink {
        ends,
        bend,
        label: label.iter().map(ToString::to_string).collect(),
        dashed,
    };
    let rate = format!("{} Mbit/s", given(RATE as f64 / 1e6));
    Drawing {
        description: "A correspondent reaches a mobile node over the home agent and a tunnel to the foreign agent of \
                      the first visited network, which loses packets, or directly in the first or the second \
                      visited network."
            .into(),
        height: 400.0,
        nodes: vec![
            node(58.0, 210.0, &["corre-", "spondent"]),
            node(130.0, 70.0, &["home agent"]),
            node(352.0, 130.0, &["visited 1,", "foreign agent"]),
            node(330.0, 340.0, &["visited 2,", "foreign agent"]),
            node(462.0, 240.0, &["mobile", "node"]),
        ],
        links: vec![
            link((0, 1), 0.0, &[], false),
            link((1, 2), -40.0, &["tunnel, 0 to 5 % loss", &rate], false),
            link((0, 2), 22.0, &["direct", &rate], true),
            link((0, 3), 50.0, &["direct", &rate], true),
            link((2, 4), 0.0, &[], false),
            link((3, 4), 0.0, &[], true),
        ],
    }
}

fn settings() -> Vec<Setting> {
    let paper = Stack::Paper.config();
    let best = Stack::Best.config();
    let mut settings = network_settings();
    settings.extend([
        Setting::new(
            "SCTP as in the paper",
            format!(
                "{} missing reports and the congestion window of RFC 2960 (at least two packets after a loss, growth only with the \
                 cumulative TSN), retransmissions: {}, SACKs: every {} packets or {} ms to {}, Nagle \
                 off, receive window {} bytes (the maximum of 16 bits; the paper’s throughput without loss requires more \
                 than {} bytes), otherwise RFC 9260’s recommendations",
                paper.research.policies.missing_reports,
                paper.research.policies.retransmission_route.name(),
                paper.timers.sack_frequency,
                paper.timers.sack_delay.as_millis(),
                paper.research.policies.sack_route.name(),
                paper.buffers.receive_buffer,
                (RATE as f64 / 8.0 * round_trip().as_secs_f64()) as u64,
            ),
        ),
        Setting::new(
            "TCP",
            "smoltcp, Reno, ACK delay of at most 200 ms, the same receive window, segments that fill the tunnel",
        ),
        Setting::new(
            "alternative",
            format!(
                "as in the paper, with {} ms over the home agent, a reverse tunnel in both configurations, a receive window of {ALTERNATIVE_WINDOW} \
                 bytes and RTO.Min {} s",
                given(millis(ALTERNATIVE_DELAY * 2)),
                ALTERNATIVE_RTO.as_secs_f64()
            ),
        ),
        Setting::new(
            "TCP-like",
            "RFC 9260’s recommendations with the paper’s receive window",
        ),
        Setting::new(
            "old rule",
            format!(
                "as in the paper, SACKs: {}",
                Stack::OldRule.config().research.policies.sack_route.name()
            ),
        ),
        Setting::new(
            "RFC 9260 settings",
            "RFC 9260’s recommendations throughout (RTO.Min 1 s, Path.Max.Retrans 5), dynamic addresses and \
             authentication supported",
        ),
        Setting::new(
            "best settings",
            format!(
                "{} with RACK-TLP and proportional rate reduction, automatic buffer sizes, a SACK for every packet, \
                 RTO.Min {} ms, potentially failed after the first timeout (RFC 7829), retransmissions: {}",
                best.research.policies.congestion.name(),
                best.timers.rto_min.as_millis(),
                best.research.policies.retransmission_route.name(),
            ),
        ),
    ]);
    settings
}

fn network_settings() -> Vec<Setting> {
    vec![
        Setting::new(
            "transfer",
            format!(
                "{} MB in {MESSAGES} messages of {MESSAGE} bytes, so that a packet fills the {} bytes inside the \
                 tunnel (“the size of these chunks was chosen to optimise performance”)",
                TRANSFER / 1_000_000,
                PATH_MTU
            ),
        ),
        Setting::new(
            "round trip",
            format!(
                "{} ms over the home agent, propagation plus queueing, chosen by the published throughput of configuration 1; \
                 with the {} ms of a full packet at the bottleneck, {} ms without queueing",
                given(millis(DELAY * 2)),
                given(millis(transmission())),
                given(millis(round_trip()))
            ),
        ),
        Setting::new(
            "bottlenecks",
            format!(
                "{RATE} bit/s on each link between networks, both directions, outer headers included; queues of \
                 {QUEUE} packets, drop tail"
            ),
        ),
        Setting::new(
            "loss",
            "random, of all packets in the tunnel to the first visited network, in both directions; none elsewhere",
        ),
        Setting::new(
            "return path",
            format!(
                "reverse tunnel over the home agent (the paper’s section 3; RFC 3024); in configuration 2 the triangle, {} ms between the routers, chosen by the \
                 published throughput of configuration 2",
                given(millis(MIDDLE))
            ),
        ),
        Setting::new(
            "second link of configuration 2",
            "to the local address, by the same way as the triangle",
        ),
        Setting::new(
            "other networks",
            format!(
                "configuration 3 and the handovers: {} ms between the routers, so that every path has the same round \
                 trip and only the mechanism differs",
                given(millis(LONG))
            ),
        ),
        Setting::new(
            "failure and handover",
            format!(
                "{} to {} s after the start, at random; {} ms without coverage if the networks do not overlap, \
                 {} s of overlap otherwise. Failures are silent (100 % loss in both directions); a loss of coverage \
                 is detected by the mobile node",
                BREAK.as_secs(),
                BREAK.as_secs() + 1,
                GAP.as_millis(),
                OVERLAP.as_secs()
            ),
        ),
        Setting::new(
            "flow of the handovers",
            format!(
                "a message of {STEADY_MESSAGE} bytes every {} ms for {} s; the interruption is the longest time without \
                 a delivery",
                STEADY_INTERVAL.as_millis(),
                STEADY.as_secs()
            ),
        ),
        Setting::new(
            "Mobile IP",
            "RFC 5944 through foreign agents that advertise every second; a new link is detected at once and an agent \
             solicited; the registration lifetime is five minutes",
        ),
    ]
}
