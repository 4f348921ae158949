//! Live runs: a selection of both parts, with SCTP in UDP and on plain IP, and with the kernel's
//! TCP instead of the TCP-like flow.

use std::time::Duration;

use super::Overhead;
use super::run::{self, Shares, reading, starts};
use super::setup::{
    FULL, FlowControlSetting, PORT, SHARINGS, Settings, Sharing, flows, live_world, place,
};
use crate::capture::Capture;
use crate::error::LabError;
use crate::live::{
    self, Bulk, Drain, LiveMeasurements, PacketData, PacketRecording, Program, RunOutcome,
    RunRecord, Stack,
};
use crate::result::{LiveResult, LiveRow, Setting};
use crate::scenario::{RunOptions, Scenario};
use crate::seed::derive;

/// Message sizes of the first and of the second part.
const SHARED_SIZES: [usize; 2] = [20, 100];
const SLOW_SIZES: [usize; 2] = [100, 1000];
/// Types of flow control.
const SLOW: [&str; 3] = ["extra250", "true.sws-both", "best"];
/// Start and duration of the measurement.
const SPAN: (Duration, Duration) = (Duration::from_secs(8), Duration::from_secs(30));
/// Repetitions of a short and of a full run.
const REPETITIONS: (u64, u64) = (3, 10);
/// Congestion control algorithms of the kernel.
const KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
/// Length of the UDP header.
const UDP_HEADER: usize = 8;

/// Carriers of the flows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrier {
    /// SCTP for both flows, in UDP or not.
    Sctp { encapsulated: bool },
    /// SCTP on plain IP with the kernel's TCP as the other flow.
    Beside(&'static str),
}

/// A cell.
#[derive(Clone)]
enum LiveCell {
    Shared {
        size: usize,
        sharing: &'static Sharing,
        carrier: Carrier,
    },
    Slow {
        size: usize,
        flow: Box<FlowControlSetting>,
        encapsulated: bool,
    },
}

/// Returns all cells, in the order of the rows.
fn all_cells() -> Vec<LiveCell> {
    let both = [true, false].map(|encapsulated| Carrier::Sctp { encapsulated });
    let carriers: Vec<Carrier> = both
        .into_iter()
        .chain(KERNEL.map(Carrier::Beside))
        .collect();
    let mut all_cells = Vec::new();
    for sharing in [place::COUNTED, place::UNCOUNTED].map(|place| &SHARINGS[place]) {
        for size in SHARED_SIZES {
            all_cells.extend(carriers.iter().map(|carrier| LiveCell::Shared {
                size,
                sharing,
                carrier: *carrier,
            }));
        }
    }
    for flow in flows().iter().filter(|flow| SLOW.contains(&&*flow.id)) {
        for size in SLOW_SIZES {
            all_cells.extend([true, false].map(|encapsulated| LiveCell::Slow {
                size,
                flow: Box::new(flow.clone()),
                encapsulated,
            }));
        }
    }
    all_cells
}

fn sctp(encapsulated: bool, config: carrick_proto::AssociationConfig) -> Stack {
    Stack::Sctp {
        encapsulated,
        port: PORT,
        config: Box::new(config),
    }
}

impl LiveCell {
    /// Returns the first part of the identifiers of its rows, as in the table of the simulations.
    fn id(&self) -> String {
        match self {
            Self::Shared { size, sharing, .. } => format!("{}.{size}", sharing.id),
            Self::Slow { size, flow, .. } => format!("{}.{size}", flow.id),
        }
    }

    /// Returns the last part of the identifiers of its rows.
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
                        format!("{} with the TCP-like flow", way(encapsulated))
                    }
                    Carrier::Beside(name) => format!("on IP with the kernel’s TCP ({name})"),
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

    /// Returns the flows of a run.
    fn flows(&self, seed: u64) -> Vec<live::Connection> {
        let length = SPAN.0 + SPAN.1 + Duration::from_secs(1);
        let flow = |stack, delay, size, sink: Drain| {
            let source = Bulk::lasting(length, delay, size);
            let programs: [Box<dyn Program>; 2] = [Box::new(source), Box::new(sink)];
            live::Connection::new(stack, 0, programs)
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
                            send_buffer: None,
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

    fn watch(&self) -> PacketRecording {
        match self {
            Self::Shared { .. } => PacketRecording::Lengths,
            Self::Slow { .. } => PacketRecording::Data,
        }
    }

    /// Evaluates a run as the simulated ones are evaluated.
    fn measure(&self, record: &RunRecord) -> Result<Value, String> {
        let (from, until) = (record.begin + SPAN.0, record.begin + SPAN.0 + SPAN.1);
        match self {
            Self::Shared { .. } => {
                let bits = |host| record.bytes_into(host, from, until) as f64 * 8.0;
                let network = [1, 3].map(|host| bits(host) / SPAN.1.as_secs_f64());
                if network.iter().sum::<f64>() <= 0.0 {
                    return Err("no data arrived".into());
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
                    let chunk = matches!(seen.data, PacketData::Chunk { .. });
                    chunk && seen.out && seen.host == 0 && within(seen.time)
                });
                if read == 0 {
                    return Err("no data was read".into());
                }
                Ok(Value::Ratio(sent.count() as f64 / read as f64))
            }
        }
    }

    /// Runs the corresponding simulation.
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
            let simulated: Vec<f64> = pairs
                .iter()
                .map(|(_, simulation)| value(simulation))
                .collect();
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

    /// Returns the reason why a live value may differ from the simulated one.
    fn why(&self) -> &'static str {
        match self {
            Self::Shared {
                carrier: Carrier::Beside(_),
                ..
            } => {
                "The simulated TCP-like flow is given for comparison. The kernel’s TCP has different congestion control, pacing or initial \
                 window, which is the subject of this row."
            }
            Self::Shared { .. } => {
                "In this short time the flows have few losses, and which of them encounters the full queue depends on the \
                 timing of the hosts."
            }
            Self::Slow { .. } => {
                "One message waits outside the receive buffer, and the endpoint’s timers have a resolution of milliseconds; the number of \
                 futile transmissions depends on the time at which the reader frees memory."
            }
        }
    }
}

fn share(shares: &Shares) -> f64 {
    super::rows::share(shares)
}

/// Result of a run.
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

/// Returns the seed of a repetition, which is that of the simulated repetition of the same number.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[4, repetition])
}

pub(super) fn plan(scenario: Overhead, options: &RunOptions) -> live::LivePlan {
    let repetitions = options.live_repetitions(REPETITIONS.0, REPETITIONS.1);
    let all_cells = all_cells();
    let expected = SPAN.0 + SPAN.1 + Duration::from_secs(2);
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let seed = seed(options, repetition);
        for kind in &all_cells {
            let flows = kind.flows(seed);
            let (network, count) = (derive(seed, &[0]), flows.len());
            runs.push(live::LiveRun {
                name: format!("{}.{}.{repetition}", kind.id(), kind.suffix()),
                world: Box::new(move || live_world(network, count)),
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
    live::LivePlan::new(runs, all_cells.len(), move |names, outcomes| {
        conclude(scenario, &options, repetitions, names, &outcomes)
    })
}

fn conclude(
    scenario: Overhead,
    options: &RunOptions,
    repetitions: u64,
    names: &[String],
    outcomes: &[RunOutcome],
) -> Result<LiveResult, LabError> {
    let all_cells = all_cells();
    let extent = (all_cells.len(), repetitions);
    let simulations = live::simulate_cells(scenario.name(), extent, |kind, repetition| {
        all_cells[kind].simulate(seed(options, repetition))
    })?;
    let live = LiveMeasurements::of(all_cells.len(), names, outcomes, |kind, _, record| {
        all_cells[kind].measure(record)
    });
    let (pairs, mut notes) = live.paired_with(simulations);
    notes.push(
        "This is a selection, because a hundred repetitions of 400 s are not feasible in real time. Shares are computed from the bytes of the packets \
         leaving the shared link, from the time at which the TCP-like flow of SCTP or the kernel’s TCP fills the rest."
            .into(),
    );
    let rows = all_cells.iter().zip(&pairs);
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
                "{repetitions} repetitions, each cell in a separate network, all cells of a repetition at the same time; \
                 measured for {} s from {} s on, live and simulated; sizes {SHARED_SIZES:?} with full packets, {SLOW_SIZES:?} for \
                 the slow reader",
                measured.as_secs(),
                settled.as_secs()
            ),
        ),
        Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, full packets with 8 bytes less data) and \
             on plain IP",
        ),
        Setting::new(
            "live TCP",
            "the kernel’s TCP with its defaults, with small messages of SCTP on plain IP",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_part_has_two_flows() {
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
            let world = (run.world)().expect("the network is valid");
            assert_eq!(world.hosts.len(), run.flows.len(), "{}", run.name);
            let shared = run.watch == PacketRecording::Lengths;
            assert_eq!(run.flows.len(), if shared { 2 } else { 1 }, "{}", run.name);
        }
    }

    #[test]
    fn rows_have_a_simulation_or_a_reason() {
        let shares = Value::Shares(Shares {
            network: [0.6e6, 0.4e6],
            ..Shares::default()
        });
        let simulation = Value::Shares(Shares {
            network: [0.5e6, 0.5e6],
            ..Shares::default()
        });
        let rows = all_cells()[0].rows(&[(shares, simulation)]);
        assert_eq!(rows[0].id, "counted.20.share.udp");
        assert_eq!(
            (rows[0].simulated, rows[0].published),
            (Some(50.0), Some(50.0))
        );
        assert!(rows[0].live.is_some_and(|live| (live - 60.0).abs() < 1e-9));
        assert!(!rows[0].note.is_empty(), "20 % apart");
        let all: Vec<LiveRow> = all_cells().iter().flat_map(|kind| kind.rows(&[])).collect();
        let mut ids: Vec<&str> = all.iter().map(|row| row.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), all.len()), (52, 52));
        assert!(all.iter().all(|row| row.live.is_none()));
    }
}
