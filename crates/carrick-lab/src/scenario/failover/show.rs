//! Assembly of the result: drawing, settings.

use super::figures::figures;
use super::notes::notes;
use super::rows::rows;
use super::setup::{
    BEST, BREAK, DELAY, INTERVAL, LENGTH, Load, MESSAGE, PERIOD, QUEUE, RATE, SECOND_PIPE,
    VARIANTS, WATCH, millis,
};
use super::{FailoverScenario, Observed};
use crate::format::given;
use crate::result::{ScenarioResult, Setting};
use crate::{Drawing, DrawnLink, DrawnNode};

pub(super) fn result(scenario: FailoverScenario, observed: &Observed, seed: u64) -> ScenarioResult {
    ScenarioResult {
        rows: rows(observed),
        figures: figures(observed),
        drawing: drawing(),
        notes: notes(observed),
        settings: settings(),
        ..ScenarioResult::of(&scenario, seed, observed.repetitions)
    }
}

fn drawing() -> Drawing {
    let node = |x, name: &str| DrawnNode {
        at: (x, 120.0),
        label: vec![name.into()],
    };
    let link = |bend, name: &str, dashed| DrawnLink {
        ends: (0, 1),
        bend,
        label: vec![
            format!(
                "{name}: {} Mbit/s, {} ms",
                RATE / 1_000_000,
                given(millis(DELAY))
            ),
            format!("queue of {QUEUE} packets"),
        ],
        dashed,
    };
    Drawing {
        description: "Two hosts and two disjoint paths of two routers each. The primary path loses all packets from 8 s on. \
                      In runs with cross traffic, further hosts at the routers send over both paths in both directions."
            .into(),
        height: 240.0,
        nodes: vec![node(62.0, "source"), node(458.0, "destination")],
        links: vec![link(-64.0, "primary", false), link(64.0, "alternate", true)],
    }
}

fn settings() -> Vec<Setting> {
    let paper = VARIANTS[0].config();
    vec![
        Setting::new(
            "traffic",
            format!(
                "messages of {MESSAGE} bytes, one every {} ms for {} s, ordered, on one stream; in bursts: ten every 100 ms",
                given(millis(INTERVAL)),
                LENGTH.as_secs()
            ),
        ),
        Setting::new(
            "paths",
            format!(
                "{RATE} bit/s, {} ms one way, a queue of {QUEUE} packets, MTU 1500; no delay between hosts and their routers",
                given(millis(DELAY))
            ),
        ),
        Setting::new(
            "break",
            format!(
                "loss of all packets on the primary path after {} s, the time spread over {} ms (in bursts {} ms), two messages or bursts; packets in flight arrive; \
                 the backward direction fails {} ms later, because two Dummynet pipes are reconfigured one after the other: derived from the published \
                 proportion of case C",
                BREAK.as_secs(),
                given(millis(PERIOD)),
                given(millis(Load::Bursts.period())),
                given(millis(SECOND_PIPE))
            ),
        ),
        Setting::new(
            "SCTP",
            format!(
                "RTO.Initial and RTO.Min {} ms, RTO.Max {} ms, SACK every {} packets or {} ms, {} missing reports (RFC 2960), \
                 Nagle off, retransmissions: {}, new data waits behind them on all paths, addresses are not confirmed (Linux 2.6), after a \
                  timeout: one window of one packet, duplicates bundled with new data reported later (derived from the published times, not specified in the paper); \
                  the destination sets up the association",
                paper.timers.rto_min.as_millis(),
                paper.timers.rto_max.as_millis(),
                paper.timers.sack_frequency,
                paper.timers.sack_delay.as_millis(),
                paper.research.policies.missing_reports,
                paper.research.policies.retransmission_route.name(),
            ),
        ),
        Setting::new(
            "concurrent traffic",
            "Poisson, 500 kbit/s of 500-byte packets in each direction of both paths",
        ),
        Setting::new(
            "congestion",
            "1 Mbit/s of 1000-byte packets in exponential bursts of 100 ms, pauses of 300 ms, in each direction of both paths",
        ),
        Setting::new(
            "false failovers",
            format!(
                "number of times data leaves the primary path in {} s without a failure, in separate runs",
                WATCH.as_secs()
            ),
        ),
        Setting::new(
            "best settings",
            format!(
                "PotentiallyFailed.Max.Retrans 0, all RTO limits {} ms, a SACK for each packet, RACK without tail loss probes, \
                 proportional rate reduction, RFC 9260’s congestion control; selected for the shortest failover time without \
                  a false failover under congestion",
                BEST.rto[1]
            ),
        ),
    ]
}
