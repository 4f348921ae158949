//! Assembly of the result: drawing, settings.

use super::figures::figures;
use super::notes::notes;
use super::rows::rows;
use super::setup::{DELAY, EXTRA, FULL, FULL_FOR_LONG, QUEUE, RATE, READING, WINDOW};
use super::{Observed, Overhead};
use crate::result::{ScenarioResult, Setting};
use crate::{Drawing, DrawnLink, DrawnNode};

pub(super) fn result(scenario: Overhead, observed: &Observed, seed: u64) -> ScenarioResult {
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
    let node = |at, lines: &[&str]| DrawnNode {
        at,
        label: lines.iter().map(ToString::to_string).collect(),
    };
    let link = |ends, label: Vec<String>| DrawnLink {
        ends,
        bend: 0.0,
        label,
        dashed: false,
    };
    Drawing {
        description: "Two senders, one of small messages and one of full packets, share a link between two routers. In the \
                      second part the first sender is alone and its receiver reads slowly."
            .into(),
        height: 240.0,
        nodes: vec![
            node((62.0, 60.0), &["small", "messages"]),
            node((62.0, 180.0), &["TCP-like"]),
            node((190.0, 120.0), &["router"]),
            node((330.0, 120.0), &["router"]),
            node((458.0, 60.0), &["receiver"]),
            node((458.0, 180.0), &["receiver"]),
        ],
        links: vec![
            link((0, 2), Vec::new()),
            link((1, 2), Vec::new()),
            DrawnLink {
                bend: -70.0,
                ..link(
                    (2, 3),
                    vec![
                        format!("{} Mbit/s", RATE / 1_000_000),
                        format!("{} ms", DELAY.as_millis()),
                    ],
                )
            },
            link((3, 4), Vec::new()),
            link((3, 5), Vec::new()),
        ],
    }
}

fn settings(observed: &Observed) -> Vec<Setting> {
    vec![
        Setting::new(
            "network",
            format!(
                "{RATE} bit/s and {} ms one way between the routers, a drop-tail queue of {QUEUE} packets, the default of the paper’s simulator",
                DELAY.as_millis()
            ),
        ),
        Setting::new(
            "fairness",
            format!(
                "messages of 10 to 200 bytes with messages of {FULL} bytes, both always with another message to send; measured for {} s from \
                     {} s on (the paper: 400 s); starts at random within the first second",
                observed.lengths.measured.as_secs(),
                observed.lengths.settled.as_secs()
            ),
        ),
        Setting::new(
            "headers",
            "counted: DATA chunk header and padding are counted in the outstanding bytes (the default); not counted: payload only",
        ),
        Setting::new(
            "slow reader",
            format!(
                "one message after each exponential interval, {READING} bytes a second on average; receive buffer {WINDOW} bytes; \
                 measured for {} s from {} s on, {} repetitions",
                observed.lengths.watched.as_secs(),
                FULL_FOR_LONG.as_secs(),
                observed.repetitions.min(observed.most_of_flow())
            ),
        ),
        Setting::new(
            "memory of a message",
            format!(
                "payload and {EXTRA:?} bytes; the window reflects the payload only, or all memory (“true”); default settings: the payload that fits"
            ),
        ),
        Setting::new(
            "SCTP",
            "otherwise RFC 9260’s defaults; “a program’s settings”: AssociationConfig::modern() without changes (CUBIC, RACK-TLP and \
             proportional rate reduction, buffers that begin with 1 MiB)",
        ),
    ]
}
