//! Live runs: SCTP in UDP and on plain IP, and the kernel's TCP.

use std::time::Duration;

use super::measure::{Measures, Parts};
use super::run::{self, SimulationRun};
use super::setup::{
    BEST, KBYTE, LOAD, MESSAGE, MODIFIED, PORT, SEND_BUFFER, STANDARD, Variant, interval,
    live_world,
};
use super::{Satellite, live_saturated, tcp};
use crate::capture::Capture;
use crate::error::LabError;
use crate::live::{
    self, Connection, LiveMeasurements, Messages, PacketRecording, RunOutcome, RunRecord, Sink,
    Source, Stack, shortfalls,
};
use crate::result::{LiveResult, LiveRow, Setting};
use crate::scenario::{RunOptions, Scenario};
use crate::seed::derive;
use crate::tcp_host::TcpCongestion;

/// Messages of one run: 50 seconds of the paper's load, and about 15 losses.
const MESSAGES: u64 = 1500;
/// Repetitions of a short and of a full run.
const REPETITIONS: (u64, u64) = (3, 6);
/// Length of the time stamps in the kernel's segments.
const TIME_STAMPS: u16 = 12;
/// Variants that run live; controls are useful only under identical conditions.
const LIVE: [&Variant; 3] = [&STANDARD, &MODIFIED, &BEST];
/// Congestion control algorithms of the kernel.
const KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
/// Congestion control algorithms of the simulated TCP.
const SIMULATED: [TcpCongestion; 2] = [TcpCongestion::Reno, TcpCongestion::Cubic];

/// Carrier of a flow.
#[derive(Clone, Copy)]
enum LiveCell {
    Sctp { variant: usize, encapsulated: bool },
    Tcp(&'static str),
}

/// Returns all cells, in the order of the rows.
fn all_cells() -> Vec<LiveCell> {
    let sctp = (0..LIVE.len()).flat_map(|variant| {
        [true, false].map(|encapsulated| LiveCell::Sctp {
            variant,
            encapsulated,
        })
    });
    sctp.chain(KERNEL.map(LiveCell::Tcp)).collect()
}

/// TCP of the kernel, with one message per segment.
fn tcp_stack(congestion: &'static str) -> Stack {
    Stack::Tcp {
        congestion,
        port: PORT,
        segment: Some(MESSAGE as u16 + TIME_STAMPS),
        window: Some(STANDARD.window),
        send_buffer: Some(SEND_BUFFER),
    }
}

impl LiveCell {
    /// Returns the last part of the identifiers of its rows.
    fn suffix(self) -> &'static str {
        match self {
            Self::Sctp {
                encapsulated: true, ..
            } => "udp",
            Self::Sctp { .. } => "raw",
            Self::Tcp(name) => name,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Sctp { variant, .. } => format!("{}.{}", LIVE[variant].id, self.suffix()),
            Self::Tcp(name) => format!("tcp.{name}"),
        }
    }

    fn stack(self) -> Stack {
        match self {
            Self::Sctp {
                variant,
                encapsulated,
            } => {
                let mut config = LIVE[variant].config();
                config.research.trace = false;
                Stack::Sctp {
                    encapsulated,
                    port: PORT,
                    config: Box::new(config),
                }
            }
            Self::Tcp(congestion) => tcp_stack(congestion),
        }
    }

    /// Evaluates a run with the code that evaluates the simulated ones.
    fn measure(self, record: &RunRecord) -> Result<Measures, String> {
        let flow = record.flow().ok_or("other programs ran")?;
        let run = match self {
            Self::Sctp { .. } => SimulationRun {
                histories: run::histories(&flow.log())?,
                timeouts: record.timeouts,
                shortest_round_trip: None,
            },
            Self::Tcp(_) => {
                let simulated =
                    |time: &carrick_proto::Time| carrick_netsim::Time::from_nanos(time.as_nanos());
                let sends: Vec<_> = flow.sends.iter().map(simulated).collect();
                let deliveries: Vec<_> =
                    flow.deliveries.iter().map(|(_, t)| simulated(t)).collect();
                tcp::histories(&sends, &flow.segments, &deliveries)?
            }
        };
        Measures::of(&run, 0, 0).ok_or_else(|| "no message was sent".into())
    }
}

/// Returns the seed of a repetition, which is that of the simulated repetition of the same number.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[1, repetition])
}

pub(super) fn plan(scenario: Satellite, options: &RunOptions) -> live::LivePlan {
    let repetitions = options.live_repetitions(REPETITIONS.0, REPETITIONS.1);
    let messages = Messages {
        count: MESSAGES,
        size: MESSAGE,
        interval: interval(),
    };
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let seed = derive(seed(options, repetition), &[0]);
        for kind in all_cells() {
            let sink = match kind {
                LiveCell::Sctp { .. } => Sink::new(messages),
                LiveCell::Tcp(_) => Sink::of_stream(messages),
            };
            runs.push(live::LiveRun {
                name: format!("{}.{repetition}", kind.name()),
                world: Box::new(move || live_world(seed)),
                flows: vec![Connection::new(
                    kind.stack(),
                    0,
                    [Box::new(Source::new(messages)), Box::new(sink)],
                )],
                watch: PacketRecording::Data,
                expected: messages.length() + Duration::from_secs(20),
                limit: messages.length() * 4,
                capture: None,
            });
        }
    }
    runs.extend(live_saturated::runs(options, repetitions, &tcp_stack));
    let options = *options;
    let at_once = runs.len();
    live::LivePlan::new(runs, at_once, move |names, outcomes| {
        conclude(scenario, &options, repetitions, names, &outcomes)
    })
}

/// A repetition, live and simulated.
type Pair = (Measures, Measures);

/// Results of the repetitions of each cell; `None` for an incomplete run.
struct Pairs(Vec<Vec<Option<Pair>>>);

fn conclude(
    scenario: Satellite,
    options: &RunOptions,
    repetitions: u64,
    names: &[String],
    outcomes: &[RunOutcome],
) -> Result<LiveResult, LabError> {
    let failed = |what: String| LabError::Simulation {
        scenario: scenario.name().into(),
        what,
    };
    let all_cells = all_cells();
    let each = LIVE.len() + SIMULATED.len();
    let simulations = live::simulate_cells(
        scenario.name(),
        (each, repetitions),
        |number, repetition| simulate(number, seed(options, repetition)),
    )?;
    let (flows, saturated) =
        outcomes.split_at(outcomes.len().min(repetitions as usize * all_cells.len()));
    let (flow_names, saturated_names) = names.split_at(flows.len());
    let live = LiveMeasurements::of(all_cells.len(), flow_names, flows, |kind, _, record| {
        all_cells[kind].measure(record)
    });
    let mut notes = live.notes;
    for note in shortfalls(saturated_names, saturated) {
        // A feature that the kernel lacks is reported once.
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let pairs = all_cells.iter().zip(live.cells).map(|(kind, live)| {
        let simulations = match *kind {
            LiveCell::Sctp { variant, .. } => &simulations[variant],
            LiveCell::Tcp(name) => &simulations[LIVE.len() + usize::from(name == "cubic")],
        };
        let both = live.into_iter().zip(simulations);
        both.map(|(live, simulation)| live.map(|live| (live, simulation.clone())))
            .collect()
    });
    let pairs = Pairs(pairs.collect());
    notes.extend(remarks(&all_cells, &pairs));
    let mut rows = rows(&all_cells, &pairs);
    rows.extend(live_saturated::rows(options, repetitions, saturated).map_err(failed)?);
    Ok(LiveResult {
        rows,
        accuracy: None,
        notes,
        settings: settings(repetitions),
    })
}

/// Runs the corresponding simulation: one of the variants, or one of the two types of TCP.
fn simulate(number: usize, seed: u64) -> Result<Measures, String> {
    let run = if let Some(variant) = LIVE.get(number) {
        run::lossy(variant, MESSAGES, seed, Capture::NONE)?
    } else {
        let congestion = SIMULATED[number - LIVE.len()];
        tcp::lossy(MESSAGES, congestion, seed, Capture::NONE)?
    };
    Measures::of(&run, 0, 0).ok_or_else(|| "no message was sent".to_string())
}

/// Returns the values of repetitions that have one on both sides: simulated, live.
fn values(pairs: &[Option<Pair>], value: impl Fn(&Measures) -> Option<f64>) -> [Vec<f64>; 2] {
    let both = pairs
        .iter()
        .flatten()
        .filter_map(|(live, simulated)| Some((value(simulated)?, value(live)?)));
    let (simulated, live) = both.unzip();
    [simulated, live]
}

fn delay(measures: &Measures) -> Option<f64> {
    measures.mean_parts().as_ref().map(Parts::delay)
}

fn recovery(measures: &Measures) -> Option<f64> {
    measures.mean_parts().as_ref().map(Parts::recovery)
}

fn rows(all_cells: &[LiveCell], pairs: &Pairs) -> Vec<LiveRow> {
    let mut rows = Vec::new();
    for (kind, pairs) in all_cells.iter().zip(&pairs.0) {
        rows.extend(kind_rows(*kind, pairs));
    }
    for suffix in ["udp", "raw"] {
        rows.extend(gain_row(all_cells, pairs, suffix));
    }
    rows
}

fn published(kind: LiveCell) -> [Option<f64>; 2] {
    match kind {
        LiveCell::Sctp { variant: 0, .. } => [Some(765.0), Some(29.0)],
        LiveCell::Sctp { variant: 1, .. } => [Some(527.0), None],
        LiveCell::Sctp { .. } => [None, None],
        LiveCell::Tcp(_) => [Some(870.0), Some(18.0)],
    }
}

fn kind_rows(kind: LiveCell, pairs: &[Option<Pair>]) -> Vec<LiveRow> {
    let (id, label) = match kind {
        LiveCell::Sctp {
            variant,
            encapsulated,
        } => {
            let way = if encapsulated { "in UDP" } else { "on IP" };
            (LIVE[variant].id, format!("{} {way}", LIVE[variant].label))
        }
        LiveCell::Tcp(name) => ("tcp", format!("kernel’s TCP ({name}) on W′")),
    };
    let [published_delay, published_rate] = published(kind);
    let row = |what: &str, text: &str, unit: &str, value: fn(&Measures) -> Option<f64>| {
        let [simulated, live] = values(pairs, value);
        let id = format!("{id}.{what}.{}", kind.suffix());
        let row = LiveRow::new(&id, &format!("{label}: {text}"), unit, &simulated, &live);
        match kind {
            LiveCell::Tcp(_) => row.another_stack(why(kind, what)),
            LiveCell::Sctp { .. } => row.because(why(kind, what)),
        }
    };
    vec![
        row("delay", "delay of a retransmitted message", "ms", delay).published(published_delay),
        row(
            "recovery",
            "the same from the first transmission",
            "ms",
            recovery,
        ),
        row("throughput", "mean throughput", "KByte/s", |m| {
            Some(m.throughput)
        })
        .published(published_rate),
    ]
}

/// Returns the reason why a live value may differ from the simulated one.
fn why(kind: LiveCell, what: &str) -> &'static str {
    match (kind, what) {
        (LiveCell::Tcp("bbr"), _) => {
            "BBR paces by its measured rate, which a loss does not reduce; it is compared with the simulated Reno, \
                         because BBR is not simulated."
        }
        (LiveCell::Tcp(_), _) => {
            "The kernel has SACK, RACK, tail loss probes and an initial window of 10 segments; the simulated TCP, \
                         smoltcp, has none of them."
        }
        (LiveCell::Sctp { .. }, "delay") => {
            "Part of it is waiting in the sender, and the window for which it waits depends on which chunk a lost packet \
                         contains, hence on the timing of both hosts."
        }
        (LiveCell::Sctp { .. }, _) => {
            "The same packets are lost, but the chunks in them depend on the timing of both \
                         hosts."
        }
    }
}

/// Gain of gap reports on W'', by repetition.
fn gain_row(all_cells: &[LiveCell], pairs: &Pairs, suffix: &str) -> Option<LiveRow> {
    let of = |wanted: usize| {
        let place = all_cells.iter().position(|kind| {
            matches!(kind, LiveCell::Sctp { variant, .. } if *variant == wanted)
                && kind.suffix() == suffix
        })?;
        Some(&pairs.0[place])
    };
    let (standard, modified) = (of(0)?, of(1)?);
    let gain = |value: fn(&Pair) -> Option<f64>| -> Vec<f64> {
        let both = standard.iter().zip(modified);
        both.filter_map(|(s, m)| Some(value(s.as_ref()?)? - value(m.as_ref()?)?))
            .collect()
    };
    let [simulated, live] = [
        gain(|(_, simulated)| recovery(simulated)),
        gain(|(live, _)| recovery(live)),
    ];
    let way = if suffix == "udp" { "in UDP" } else { "on IP" };
    let label = format!("gain of gap reports on W″, from the first transmission, {way}");
    let row = LiveRow::new(
        &format!("gain.recovery.{suffix}"),
        &label,
        "ms",
        &simulated,
        &live,
    );
    Some(row.published(Some(238.0)).because(why(
        LiveCell::Sctp {
            variant: 0,
            encapsulated: true,
        },
        "gain",
    )))
}

fn remarks(all_cells: &[LiveCell], pairs: &Pairs) -> Vec<String> {
    let count = |of: fn(&Pair) -> &Measures, what: fn(&Measures) -> u64| {
        let sctp = all_cells.iter().zip(&pairs.0);
        let sctp = sctp.filter(|(kind, _)| matches!(kind, LiveCell::Sctp { .. }));
        sctp.flat_map(|(_, pairs)| pairs.iter().flatten())
            .map(|pair| what(of(pair)))
            .sum::<u64>()
    };
    let lost = |m: &Measures| m.retransmitted.len() as u64;
    vec![format!(
        "SCTP retransmitted {} messages in live runs and {} in simulations, in the same number of runs; T3-rtx expired {} and {} times. \
                 Transmissions and arrivals are recorded between the hosts’ kernels and the network.",
        count(|(live, _)| live, lost),
        count(|(_, simulated)| simulated, lost),
        count(|(live, _)| live, |m| m.timeouts),
        count(|(_, simulated)| simulated, |m| m.timeouts),
    )]
}

fn settings(repetitions: u64) -> Vec<Setting> {
    vec![
        Setting::new(
            "live runs",
            format!(
                "{repetitions} repetitions of {MESSAGES} messages of {MESSAGE} bytes at {} KByte/s, each in a separate \
                                 network; all run at the same time",
                LOAD / KBYTE as u64
            ),
        ),
        Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, 8 bytes more per packet) and on plain IP",
        ),
        Setting::new(
            "live TCP",
            format!(
                "the kernel’s TCP with its defaults, TCP_NODELAY, segments of one message, windows of at most {} bytes, a send buffer of {SEND_BUFFER} bytes (SO_SNDBUF); \
                                 compared with the simulated Reno and CUBIC",
                STANDARD.window
            ),
        ),
        live_saturated::setting(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_runs_in_the_network_of_its_simulation() {
        let options = RunOptions::default();
        let plan = plan(Satellite, &options);
        assert_eq!(plan.runs.len(), 3 * (9 + 5));
        let names: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names[0], "standard.udp.0");
        assert_eq!(
            [names[26], names[27], names[41]],
            ["tcp.bbr.2", "lossy.udp.0", "lossy.bbr.2"]
        );
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        assert!(names.iter().all(|name| name.chars().all(plain)));
    }

    #[test]
    fn failed_runs_leave_rows_empty_and_are_reported() {
        let options = RunOptions {
            reps: Some(1),
            ..RunOptions::default()
        };
        let plan = plan(Satellite, &options);
        let outcomes = plan.runs.iter().map(|run| match run.flows[0].stack {
            Stack::Tcp { congestion, .. } => RunOutcome::Missing(format!("no {congestion}")),
            Stack::Sctp { .. } => RunOutcome::Failed("it broke".into()),
        });
        let outcomes = outcomes.collect();
        let result = (plan.conclude)(outcomes).expect("simulations succeed");
        assert_eq!(result.rows.len(), 9 * 3 + 2 + 5);
        assert!(
            result
                .rows
                .iter()
                .all(|row| row.live.is_none() && row.n == 0)
        );
        assert_eq!(result.notes.len(), 6 + 2 + 3 + 1, "{:?}", result.notes);
        let mut ids: Vec<&str> = result.rows.iter().map(|row| row.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), result.rows.len());
    }
}
