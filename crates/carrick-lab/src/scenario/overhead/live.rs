//! The scenario in real time: a selection of both parts, with SCTP in UDP and on plain IP, and with the
//! kernel's TCP in place of the TCP-like flow.

use std::time::Duration;

use super::Overhead;
use super::run::{self, Shares, reading, starts};
use super::setup::{
    FULL, Flow, JITTER, PORT, SHARINGS, Settings, Sharing, flows, live_world, place,
};
use crate::capture::Capture;
use crate::error::LabError;
use crate::live::{self, Bulk, Data, Drain, Measured, Outcome, Program, Record, Stack, Watch};
use crate::result::{LiveResult, LiveRow, Setting};
use crate::scenario::{RunOptions, Scenario};
use crate::seed::derive;

/// Message sizes of both parts.
const SHARED_SIZES: [usize; 2] = [20, 100];
const SLOW_SIZES: [usize; 2] = [100, 1000];
/// Ways of flow control.
const SLOW: [&str; 3] = ["extra250", "true.sws-both", "best"];
/// When measuring begins, and how long it takes.
const SPAN: (Duration, Duration) = (Duration::from_secs(8), Duration::from_secs(30));
/// Repetitions of a short run, and of a full one.
const REPETITIONS: (u64, u64) = (3, 10);
/// Congestion controls of the kernel.
const KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
/// What UDP takes of a packet.
const UDP_HEADER: usize = 8;

/// What carries the flows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrier {
    /// SCTP both, in UDP or not.
    Sctp { encapsulated: bool },
    /// SCTP on plain IP beside the kernel's TCP.
    Beside(&'static str),
}

/// One cell.
#[derive(Clone)]
enum Kind {
    Shared {
        size: usize,
        sharing: &'static Sharing,
        carrier: Carrier,
    },
    Slow {
        size: usize,
        flow: Box<Flow>,
        encapsulated: bool,
    },
}

/// All kinds, in the order of the rows.
fn kinds() -> Vec<Kind> {
    let both = [true, false].map(|encapsulated| Carrier::Sctp { encapsulated });
    let carriers: Vec<Carrier> = both
        .into_iter()
        .chain(KERNEL.map(Carrier::Beside))
        .collect();
    let mut kinds = Vec::new();
    for sharing in [place::COUNTED, place::UNCOUNTED].map(|place| &SHARINGS[place]) {
        for size in SHARED_SIZES {
            kinds.extend(carriers.iter().map(|carrier| Kind::Shared {
                size,
                sharing,
                carrier: *carrier,
            }));
        }
    }
    for flow in flows().iter().filter(|flow| SLOW.contains(&&*flow.id)) {
        for size in SLOW_SIZES {
            kinds.extend([true, false].map(|encapsulated| Kind::Slow {
                size,
                flow: Box::new(flow.clone()),
                encapsulated,
            }));
        }
    }
    kinds
}

fn sctp(encapsulated: bool, config: carrick_proto::AssociationConfig) -> Stack {
    Stack::Sctp {
        encapsulated,
        port: PORT,
        config: Box::new(config),
    }
}

impl Kind {
    /// First part of the names of its rows, as in the table of the simulations.
    fn id(&self) -> String {
        match self {
            Self::Shared { size, sharing, .. } => format!("{}.{size}", sharing.id),
            Self::Slow { size, flow, .. } => format!("{}.{size}", flow.id),
        }
    }

    /// Last part of the names of its rows.
    fn suffix(&self) -> &'static str {
        match self {
            Self::Shared {
                carrier: Carrier::Beside(name),
                ..
            } => name,
            Self::Shared {
                carrier: Carrier::Sctp { encapsulated },
                ..
            }
            | Self::Slow { encapsulated, .. } => {
                if *encapsulated {
                    "udp"
                } else {
                    "raw"
                }
            }
        }
    }

    fn label(&self) -> String {
        let way = |encapsulated: &bool| if *encapsulated { "in UDP" } else { "on IP" };
        match self {
            Self::Shared {
                size,
                sharing,
                carrier,
            } => {
                let beside = match carrier {
                    Carrier::Sctp { encapsulated } => {
                        format!("{} beside the TCP-like flow", way(encapsulated))
                    }
                    Carrier::Beside(name) => format!("on IP beside the kernel’s TCP ({name})"),
                };
                format!("{size} bytes {beside}, {}", sharing.label)
            }
            Self::Slow {
                size,
                flow,
                encapsulated,
            } => format!("{}, {size} bytes {}", flow.label, way(encapsulated)),
        }
    }

    /// The flows of a run.
    fn flows(&self, seed: u64) -> Vec<live::Flow> {
        let length = SPAN.0 + SPAN.1 + Duration::from_secs(1);
        let flow = |stack, delay, size, sink: Drain| {
            let source = Bulk::lasting(length, delay, size);
            let programs: [Box<dyn Program>; 2] = [Box::new(source), Box::new(sink)];
            live::Flow::new(stack, 0, programs)
        };
        match self {
            Self::Shared {
                size,
                sharing,
                carrier,
            } => {
                let [own, other] = sharing.settings.map(Settings::config);
                let own = sctp(*carrier == Carrier::Sctp { encapsulated: true }, own);
                // A message of the other flow fills a packet.
                let (other, full) = match *carrier {
                    Carrier::Sctp { encapsulated: true } => (sctp(true, other), FULL - UDP_HEADER),
                    Carrier::Sctp { .. } => (sctp(false, other), FULL),
                    Carrier::Beside(congestion) => {
                        let stack = Stack::Tcp {
                            congestion,
                            port: PORT,
                            segment: None,
                            window: None,
                        };
                        (stack, FULL)
                    }
                };
                let [first, second] = starts(seed);
                vec![
                    flow(own, first, *size, Drain::new(0)),
                    flow(other, second, full, Drain::new(0)),
                ]
            }
            Self::Slow {
                size,
                flow: control,
                encapsulated,
            } => {
                let (mean, random) = reading(*size, seed);
                let stack = sctp(*encapsulated, control.config());
                vec![flow(
                    stack,
                    Duration::ZERO,
                    *size,
                    Drain::slow(mean, random),
                )]
            }
        }
    }

    fn watch(&self) -> Watch {
        match self {
            Self::Shared { .. } => Watch::Lengths,
            Self::Slow { .. } => Watch::Data,
        }
    }

    /// Measures a run as the simulated ones are measured.
    fn measure(&self, record: &Record) -> Result<Value, String> {
        let (from, until) = (record.begin + SPAN.0, record.begin + SPAN.0 + SPAN.1);
        match self {
            Self::Shared { .. } => {
                let bits = |host| record.bytes_into(host, from, until) as f64 * 8.0;
                let network = [1, 3].map(|host| bits(host) / SPAN.1.as_secs_f64());
                if network.iter().sum::<f64>() <= 0.0 {
                    return Err("nothing arrived".into());
                }
                Ok(Value::Shares(Shares {
                    network,
                    ..Shares::default()
                }))
            }
            Self::Slow { .. } => {
                let sink: &Drain = record.program(1).ok_or("another program ran")?;
                let within = |time| time >= from && time < until;
                let read = sink.taken.iter().filter(|(time, _)| within(*time)).count();
                let sent = record.seen.iter().filter(|seen| {
                    let chunk = matches!(seen.data, Data::Chunk { .. });
                    chunk && seen.out && seen.host == 0 && within(seen.time)
                });
                if read == 0 {
                    return Err("nothing was read".into());
                }
                Ok(Value::Ratio(sent.count() as f64 / read as f64))
            }
        }
    }

    /// The same simulated.
    fn simulate(&self, seed: u64) -> Result<Value, String> {
        match self {
            Self::Shared { size, sharing, .. } => {
                run::shared_from(*size, sharing, SPAN, seed, Capture::NONE).map(Value::Shares)
            }
            Self::Slow { size, flow, .. } => run::slow_from(flow, *size, SPAN, seed, Capture::NONE)
                .map(|load| Value::Ratio(load.ratio)),
        }
    }

    fn rows(&self, pairs: &[(Value, Value)]) -> Vec<LiveRow> {
        let row = |what: &str, text: &str, unit: &str, value: fn(&Value) -> f64| {
            let simulated: Vec<f64> = pairs.iter().map(|(_, twin)| value(twin)).collect();
            let live: Vec<f64> = pairs.iter().map(|(live, _)| value(live)).collect();
            let id = format!("{}.{what}{}", self.id(), self.suffix());
            let label = format!("{}: {text}", self.label());
            let row = LiveRow::new(&id, &label, unit, &simulated, &live);
            match self {
                Self::Shared {
                    carrier: Carrier::Beside(_),
                    ..
                } => row.another_stack(self.why()),
                _ => row.because(self.why()),
            }
        };
        match self {
            Self::Shared { sharing, .. } => vec![
                row("share.", "share of the link", "%", |v| {
                    v.shares().map_or(0.0, share)
                })
                .published(sharing.counts_headers().then_some(50.0)),
                row("jain.", "Jain’s index", "", |v| {
                    v.shares().map_or(0.0, Shares::jain)
                }),
            ],
            Self::Slow { size, flow, .. } => {
                let published = match &*flow.id {
                    "extra250" if *size == SLOW_SIZES[0] => Some(2.0),
                    "true.sws-both" => Some(1.0),
                    _ => None,
                };
                let row = row("", "transmitted to delivered", "", Value::ratio);
                vec![row.published(published)]
            }
        }
    }

    /// Why a live value may differ from the simulated one.
    fn why(&self) -> &'static str {
        match self {
            Self::Shared {
                carrier: Carrier::Beside(_),
                ..
            } => {
                "Beside it stands the simulated TCP-like flow. The kernel’s TCP has another congestion control, pacing or first \
                 window, which is what the row is for."
            }
            Self::Shared { .. } => {
                "In so short a time the flows lose a few times only, and which of them meets the full queue depends on the \
                 timing of the hosts."
            }
            Self::Slow { .. } => {
                "One message waits outside the receive buffer, and the endpoint’s timers count milliseconds; how often the \
                 sender tries in vain depends on when the reader makes room."
            }
        }
    }
}

fn share(shares: &Shares) -> f64 {
    super::rows::share(shares)
}

/// What a run showed.
#[derive(Clone, Copy, Debug)]
enum Value {
    Shares(Shares),
    Ratio(f64),
}

impl Value {
    fn shares(&self) -> Option<&Shares> {
        match self {
            Self::Shares(shares) => Some(shares),
            Self::Ratio(_) => None,
        }
    }

    fn ratio(&self) -> f64 {
        match self {
            Self::Ratio(ratio) => *ratio,
            Self::Shares(_) => 0.0,
        }
    }
}

/// The seed of a repetition: the simulated repetition of this number has the same.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[4, repetition])
}

pub(super) fn plan(scenario: Overhead, options: &RunOptions) -> live::Plan {
    let repetitions = options.live_repetitions(REPETITIONS.0, REPETITIONS.1);
    let kinds = kinds();
    let expected = SPAN.0 + SPAN.1 + Duration::from_secs(2);
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let seed = seed(options, repetition);
        for kind in &kinds {
            let flows = kind.flows(seed);
            let (network, count) = (derive(seed, &[0]), flows.len());
            runs.push(live::Run {
                name: format!("{}.{}.{repetition}", kind.id(), kind.suffix()),
                world: Box::new(move || live_world(network, JITTER, count)),
                flows,
                watch: kind.watch(),
                expected,
                limit: expected * 3,
                capture: None,
            });
        }
    }
    let options = *options;
    // One repetition after the other.
    live::Plan::new(runs, kinds.len(), move |names, outcomes| {
        conclude(scenario, &options, repetitions, names, &outcomes)
    })
}

fn conclude(
    scenario: Overhead,
    options: &RunOptions,
    repetitions: u64,
    names: &[String],
    outcomes: &[Outcome],
) -> Result<LiveResult, LabError> {
    let kinds = kinds();
    let extent = (kinds.len(), repetitions);
    let twins = live::twins(scenario.name(), extent, |kind, repetition| {
        kinds[kind].simulate(seed(options, repetition))
    })?;
    let live = Measured::of(kinds.len(), names, outcomes, |kind, _, record| {
        kinds[kind].measure(record)
    });
    let (pairs, mut notes) = live.beside(twins);
    notes.push(
        "A selection: real time has no hundred repetitions of 400 s. Shares are of the bytes of the packets that came out of the \
         shared link, from where a TCP-like flow of SCTP or the kernel’s TCP fills the rest."
            .into(),
    );
    let rows = kinds.iter().zip(&pairs);
    Ok(LiveResult {
        rows: rows.flat_map(|(kind, pairs)| kind.rows(pairs)).collect(),
        accuracy: None,
        notes,
        settings: settings(repetitions),
    })
}

fn settings(repetitions: u64) -> Vec<Setting> {
    let (settled, measured) = SPAN;
    vec![
        Setting::new(
            "live runs",
            format!(
                "{repetitions} repetitions, each cell in a network of its own, all cells of a repetition at the same time; \
                 measured for {} s from {} s on, live and simulated; sizes {SHARED_SIZES:?} beside full packets, {SLOW_SIZES:?} for \
                 the slow reader",
                measured.as_secs(),
                settled.as_secs()
            ),
        ),
        Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, full packets with 8 bytes less in them) and \
             on plain IP",
        ),
        Setting::new(
            "live TCP",
            "the kernel’s with its own defaults, beside small messages of SCTP on plain IP",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_flows_share_a_link_and_a_slow_reader_has_one_to_itself() {
        let options = RunOptions {
            reps: Some(1),
            ..RunOptions::default()
        };
        let plan = plan(Overhead, &options);
        assert_eq!(plan.runs.len(), 2 * 2 * 5 + 3 * 2 * 2);
        let mut names: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names[0], "counted.20.udp.0");
        assert_eq!(names[31], "best.1000.raw.0");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 32);
        for run in plan.runs {
            let world = (run.world)().expect("the network is right");
            assert_eq!(world.hosts.len(), run.flows.len(), "{}", run.name);
            let shared = run.watch == Watch::Lengths;
            assert_eq!(run.flows.len(), if shared { 2 } else { 1 }, "{}", run.name);
        }
    }

    #[test]
    fn each_row_stands_beside_its_simulation_or_says_what_is_missing() {
        let shares = Value::Shares(Shares {
            network: [0.6e6, 0.4e6],
            ..Shares::default()
        });
        let twin = Value::Shares(Shares {
            network: [0.5e6, 0.5e6],
            ..Shares::default()
        });
        let rows = kinds()[0].rows(&[(shares, twin)]);
        assert_eq!(rows[0].id, "counted.20.share.udp");
        assert_eq!(
            (rows[0].simulated, rows[0].published),
            (Some(50.0), Some(50.0))
        );
        assert!(rows[0].live.is_some_and(|live| (live - 60.0).abs() < 1e-9));
        assert!(!rows[0].note.is_empty(), "20 % apart");
        let all: Vec<LiveRow> = kinds().iter().flat_map(|kind| kind.rows(&[])).collect();
        let mut ids: Vec<&str> = all.iter().map(|row| row.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), all.len()), (52, 52));
        assert!(all.iter().all(|row| row.live.is_none()));
    }
}
