//! Assembly of the result: split, drawing, settings.

use super::figures::figures;
use super::measure::{PARTS, mean_parts};
use super::notes::notes;
use super::rows::rows;
use super::setup::{
    BEST, FAR_DELAY, FAR_RATE, KBYTE, LOAD, LOSS, MESSAGE, MODIFIED, NEAR_DELAY, NEAR_RATE, QUEUE,
    SEND_BUFFER, STANDARD, VARIANTS, emission_times, interval, millis,
};
use super::{Observed, Satellite};
use crate::format::given;
use crate::result::{ScenarioResult, Setting, Split, SplitLine};
use crate::{Drawing, DrawnLink, DrawnNode};

pub(super) fn result(scenario: Satellite, observed: &Observed, seed: u64) -> ScenarioResult {
    let repetitions = observed.variants[0].len() as u64;
    ScenarioResult {
        rows: rows(observed),
        figures: figures(observed),
        drawing: drawing(),
        splits: vec![split(observed)],
        notes: notes(observed),
        settings: settings(observed),
        ..ScenarioResult::of(&scenario, seed, repetitions)
    }
}

fn split(observed: &Observed) -> Split {
    Split {
        title: "Parts of the delay of a retransmitted message".into(),
        unit: "ms".into(),
        parts: PARTS.map(String::from).to_vec(),
        lines: VARIANTS
            .iter()
            .zip(&observed.variants)
            .map(|(variant, measures)| SplitLine {
                label: variant.label.into(),
                parts: mean_parts(measures).0.to_vec(),
            })
            .collect(),
    }
}

fn drawing() -> Drawing {
    let host = |x, name: &str| DrawnNode {
        at: (x, 120.0),
        label: vec![name.into()],
    };
    let rate = |bits: u64| format!("{} kbit/s", bits / 1000);
    let delay = |delay| format!("{} ms one way", given(millis(delay)));
    Drawing {
        description: format!(
            "Two hosts and two disjoint paths: W′ over a satellite, the primary, loses {} % of the packets \
             in each direction; W″ over ISDN is the backup.",
            given(LOSS * 100.0)
        ),
        height: 240.0,
        nodes: vec![host(62.0, "sender"), host(458.0, "receiver")],
        links: vec![
            DrawnLink {
                ends: (0, 1),
                bend: -64.0,
                label: vec![
                    format!("W′: {}, {}", rate(FAR_RATE), delay(FAR_DELAY)),
                    format!("{} % loss", given(LOSS * 100.0)),
                ],
                dashed: false,
            },
            DrawnLink {
                ends: (0, 1),
                bend: 64.0,
                label: vec![
                    format!("W″: {}, {}", rate(NEAR_RATE), delay(NEAR_DELAY)),
                    "no loss".into(),
                ],
                dashed: true,
            },
        ],
    }
}

fn settings(observed: &Observed) -> Vec<Setting> {
    let config = STANDARD.config();
    let best = BEST.config();
    vec![
        Setting::new(
            "traffic",
            format!(
                "{} messages of {MESSAGE} bytes per repetition, ordered, on one stream, one {:.1} ms after SEND of the last one has returned (at most {} KByte/s; a KByte is {KBYTE} bytes)",
                observed.messages,
                millis(interval()),
                LOAD / KBYTE as u64
            ),
        ),
        Setting::new(
            "SEND",
            format!(
                "waits for room in the send buffer of {SEND_BUFFER} bytes, in SCTP until half of it is free; the delay counts from the \
                 beginning of SEND. The saturated flows have larger buffers: four receive windows in SCTP, 65,536 bytes in TCP"
            ),
        ),
        Setting::new(
            "W′ (primary)",
            format!(
                "{FAR_RATE} bit/s, {} ms one way; a message’s packet takes {:.1} ms",
                given(millis(FAR_DELAY)),
                millis(emission_times()[0])
            ),
        ),
        Setting::new(
            "W″",
            format!(
                "{NEAR_RATE} bit/s, {} ms one way; a message’s packet takes {:.1} ms (the paper’s bounds fit 63 ms)",
                given(millis(NEAR_DELAY)),
                millis(emission_times()[1])
            ),
        ),
        Setting::new(
            "loss",
            format!(
                "{} % of all packets on W′, random, in both directions, according to “1 % of all packets”; none on W″",
                given(LOSS * 100.0)
            ),
        ),
        Setting::new(
            "queues",
            format!("{QUEUE} packets, drop tail (Dummynet’s default)"),
        ),
        Setting::new(
            "SCTP",
            format!(
                "{} missing reports (RFC 2960), window rules of sctplib at a fast retransmission (reduced path: that of the SACK; gap \
                 acknowledgements counted with every SACK), retransmissions: {}, SACKs: every {} packets or {} ms, Nagle off, \
                 receive window {} bytes, otherwise RFC 9260’s defaults (RTO.Min {} s)",
                config.research.policies.missing_reports,
                config.research.policies.retransmission_route.name(),
                config.timers.sack_frequency,
                config.timers.sack_delay.as_millis(),
                config.buffers.receive_buffer,
                config.timers.rto_min.as_secs(),
            ),
        ),
        Setting::new(
            "TCP",
            format!(
                "on W′ only; Reno, one message per segment (as in the paper’s equation), the same receive window of {} bytes, \
                 ACK for every second segment or after 200 ms, Nagle off",
                config.buffers.receive_buffer
            ),
        ),
        Setting::new(
            "SACK route",
            format!(
                "standard: {}; modified and best: {}",
                config.research.policies.sack_route.name(),
                MODIFIED.config().research.policies.sack_route.name()
            ),
        ),
        Setting::new(
            "best settings",
            format!(
                "AssociationConfig::modern with {} windows; a SACK for every packet, gap reports and retransmissions on W″ \
                 (section 6.4 recommends the path of the original for both), new data {}: on W″ if it exceeds the window of W′; \
                 receive window {} bytes. {} retransmissions are limited to those of RACK",
                best.research.policies.congestion.name(),
                best.research.policies.multipath.data_route.name(),
                best.buffers.receive_buffer,
                best.research.policies.retransmission_route.name(),
            ),
        ),
        Setting::new(
            "published figures",
            "Bounds by equations (2) and (3) with Δt = 30 ms and t_e″ = 63 ms. The paper does not specify the number \
                 of losses behind its means; with --full the confidence intervals are about half as wide as in the short run.",
        ),
    ]
}
