//! Assembly of the result: drawing, settings.

use super::figures::figures;
use super::notes::notes;
use super::rows::rows;
use super::setup::{DELAY, PROCESSING, RATE, workload};
use super::{FULL, Firewall, Observed, REPETITIONS, SHORT};
use crate::result::{ScenarioResult, Setting};
use crate::{Drawing, DrawnLink, DrawnNode};

pub(super) fn result(scenario: Firewall, observed: &Observed, seed: u64) -> ScenarioResult {
    ScenarioResult {
        rows: rows(observed),
        figures: figures(observed),
        drawing: drawing(),
        notes: notes(observed),
        settings: settings(observed),
        ..ScenarioResult::of(&scenario, seed, observed.repetitions)
    }
}

fn drawing() -> Drawing {
    let host = |x, name: &str| DrawnNode {
        at: (x, 80.0),
        label: vec![name.into()],
    };
    Drawing {
        description:
            "An agent and a middlebox on one path with random packet loss in both directions."
                .into(),
        height: 160.0,
        nodes: vec![host(62.0, "agent"), host(458.0, "middlebox")],
        links: vec![DrawnLink {
            ends: (0, 1),
            bend: 0.0,
            label: vec![
                format!(
                    "{} Mbit/s, {} ms one way",
                    RATE / 1_000_000,
                    DELAY.as_millis()
                ),
                "0 to 10 % loss".into(),
            ],
            dashed: false,
        }],
    }
}

fn settings(observed: &Observed) -> Vec<Setting> {
    let workload = workload();
    vec![
        Setting::new(
            "measurement",
            format!(
                "{} repetitions of {} s in the steady state; --full: {} of {} s, the short run {} of {} s. \
                 PER requests from their sending to the reply.",
                observed.repetitions,
                observed.duration.as_secs(),
                REPETITIONS.1,
                FULL.as_secs(),
                REPETITIONS.0,
                SHORT.as_secs()
            ),
        ),
        Setting::new(
            "load",
            format!(
                "a pinhole every {} ms, lifetime {} s, both exponential; refreshed every {} s; {} pinholes preloaded \
                 with exponential remaining lifetimes. The pinholes are independent of each other, as in the paper’s load generator",
                workload.opening_interval.as_millis(),
                workload.holding.as_secs(),
                workload.refresh.as_secs(),
                workload.preload
            ),
        ),
        Setting::new(
            "path",
            format!(
                "{} Mbit/s, {} ms one way, each packet lost with probability p in each direction",
                RATE / 1_000_000,
                DELAY.as_millis()
            ),
        ),
        Setting::new(
            "processing",
            format!(
                "the middlebox processes each request after {} ms: the paper’s δ; packet filter in memory",
                PROCESSING.as_secs_f64() * 1e3
            ),
        ),
        Setting::new(
            "SCTP",
            "three missing reports, again after each retransmission; SACK every 2 packets or 200 ms, immediately \
             if there are gaps; Nagle off (“nodelay”); otherwise the defaults of RFC 9260 (RTO.Min 1 s)",
        ),
        Setting::new(
            "best settings",
            "RACK and tail loss probe (RFC 8985), CUBIC, a SACK for each packet, RTO.Min 100 ms",
        ),
        Setting::new(
            "TCP",
            "smoltcp, Reno, Nagle off (“nodelay”), ACK delay of at most 200 ms, buffers of 64 KiB; messages in one byte stream, \
             queued while the send buffer is full",
        ),
        Setting::new(
            "streams",
            "requests for new pinholes use the streams in turn, later requests the stream of their rule; replies use the \
             stream of the request",
        ),
    ]
}
