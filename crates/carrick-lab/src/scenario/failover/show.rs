//! The result put together: drawing, settings.

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
use crate::scenario::Scenario;
use crate::{Drawing, DrawnLink, DrawnNode};

pub(super) fn result(scenario: FailoverScenario, observed: &Observed, seed: u64) -> ScenarioResult {
    let (name, question) = (scenario.name(), scenario.question());
    ScenarioResult {
        rows: rows(observed),
        figures: figures(observed),
        drawing: drawing(),
        notes: notes(observed),
        settings: settings(),
        ..ScenarioResult::of(name, question, seed, observed.repetitions)
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
            format!("{QUEUE} packets of queue"),
        ],
        dashed,
    };
    Drawing {
        description: "Two hosts and two disjoint paths of two routers each. The primary loses everything from 8 s on. \
                      In the loaded runs, other hosts at the routers send over both paths in both directions."
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
                "messages of {MESSAGE} bytes, one each {} ms for {} s, ordered, on one stream; in bursts: ten each 100 ms",
                given(millis(INTERVAL)),
                LENGTH.as_secs()
            ),
        ),
        Setting::new(
            "paths",
            format!(
                "{RATE} bit/s, {} ms one way, a queue of {QUEUE} packets, MTU 1500; hosts at their routers without delay",
                given(millis(DELAY))
            ),
        ),
        Setting::new(
            "break",
            format!(
                "loss of all packets on the primary after {} s, the moment spread over {} ms (in bursts {} ms), two messages or bursts; packets under way arrive; \
                 the way back breaks {} ms later, as two Dummynet pipes are told one after the other: chosen by the published share of \
                 case C",
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
                 Nagle off, retransmissions: {}, new data waits behind them on all paths, addresses are not verified (Linux 2.6), after a \
                 timeout: one window of one packet, duplicates beside new data reported later (chosen by the published times, the paper does not tell); \
                 the destination’s side connects",
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
                "data leaves the primary in {} s without a break, in runs of their own",
                WATCH.as_secs()
            ),
        ),
        Setting::new(
            "best settings",
            format!(
                "PotentiallyFailed.Max.Retrans 0, all RTO limits {} ms, a SACK for each packet, RACK without tail loss probes, \
                 proportional rate reduction, RFC 9260’s congestion control; chosen by the shortest failover without \
                 a false one under congestion",
                BEST.rto[1]
            ),
        ),
    ]
}
