//! The scenario in real time: SCTP over UDP and on plain IP, and the kernel's TCP.

use std::time::Duration;

use super::measure::{Measures, Parts};
use super::run::{self, Run};
use super::setup::{BEST, LOAD, MESSAGE, MODIFIED, PORT, STANDARD, Variant, interval, live_world};
use super::{Satellite, live_saturated, tcp};
use crate::capture::Capture;
use crate::error::LabError;
use crate::live::{
    self, Flow, Measured, Messages, Outcome, Record, Sink, Source, Stack, Watch, shortfalls,
};
use crate::result::{LiveResult, LiveRow, Setting};
use crate::scenario::{RunOptions, Scenario};
use crate::seed::derive;
use crate::tcp_host::TcpCongestion;

/// Messages of one run: 50 seconds of the paper's load, and about 15 losses.
const MESSAGES: u64 = 1500;
/// Repetitions of a short run, and of a full one.
const REPETITIONS: (u64, u64) = (3, 6);
/// What a segment of the kernel carries besides its data: the time stamps.
const TIME_STAMPS: u16 = 12;
/// The variants that run live: a control is only of use where everything else is the same.
const LIVE: [&Variant; 3] = [&STANDARD, &MODIFIED, &BEST];
/// Congestion controls of the kernel.
const KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
/// Congestion controls of the simulated TCP.
const SIMULATED: [TcpCongestion; 2] = [TcpCongestion::Reno, TcpCongestion::Cubic];

/// What carries a flow.
#[derive(Clone, Copy)]
enum Kind {
    Sctp { variant: usize, encapsulated: bool },
    Tcp(&'static str),
}

/// All kinds, in the order of the rows.
fn kinds() -> Vec<Kind> {
    let sctp = (0..LIVE.len()).flat_map(|variant| {
        [true, false].map(|encapsulated| Kind::Sctp {
            variant,
            encapsulated,
        })
    });
    sctp.chain(KERNEL.map(Kind::Tcp)).collect()
}

/// TCP of the kernel, with one message in a segment.
fn tcp_stack(congestion: &'static str) -> Stack {
    Stack::Tcp {
        congestion,
        port: PORT,
        segment: Some(MESSAGE as u16 + TIME_STAMPS),
        window: Some(STANDARD.window),
    }
}

impl Kind {
    /// Last part of the names of its rows.
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

    /// Measures a run with the code that measures the simulated ones.
    fn measure(self, record: &Record) -> Result<Measures, String> {
        let flow = record.flow().ok_or("other programs ran")?;
        let run = match self {
            Self::Sctp { .. } => Run {
                lives: run::lives(&flow.log())?,
                timeouts: record.timeouts,
                shortest_round_trip: None,
            },
            Self::Tcp(_) => {
                let simulated =
                    |time: &carrick_proto::Time| carrick_netsim::Time::from_nanos(time.as_nanos());
                let sends: Vec<_> = flow.sends.iter().map(simulated).collect();
                let deliveries: Vec<_> =
                    flow.deliveries.iter().map(|(_, t)| simulated(t)).collect();
                tcp::lives(&sends, &flow.segments, &deliveries)?
            }
        };
        Measures::of(&run, 0, 0).ok_or_else(|| "nothing was sent".into())
    }
}

/// The seed of a repetition: the simulated repetition of this number has the same.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[1, repetition])
}

pub(super) fn plan(scenario: Satellite, options: &RunOptions) -> live::Plan {
    let repetitions = options.live_repetitions(REPETITIONS.0, REPETITIONS.1);
    let messages = Messages {
        count: MESSAGES,
        size: MESSAGE,
        interval: interval(),
    };
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let seed = derive(seed(options, repetition), &[0]);
        for kind in kinds() {
            let sink = match kind {
                Kind::Sctp { .. } => Sink::new(messages),
                Kind::Tcp(_) => Sink::of_stream(messages),
            };
            runs.push(live::Run {
                name: format!("{}.{repetition}", kind.name()),
                world: Box::new(move || live_world(seed)),
                flows: vec![Flow::new(
                    kind.stack(),
                    0,
                    [Box::new(Source::new(messages)), Box::new(sink)],
                )],
                watch: Watch::Data,
                expected: messages.length() + Duration::from_secs(20),
                limit: messages.length() * 4,
                capture: None,
            });
        }
    }
    runs.extend(live_saturated::runs(options, repetitions, &tcp_stack));
    let options = *options;
    let at_once = runs.len();
    live::Plan::new(runs, at_once, move |names, outcomes| {
        conclude(scenario, &options, repetitions, names, &outcomes)
    })
}

/// A repetition live and simulated.
type Pair = (Measures, Measures);

/// What was measured: for each kind, each repetition, if it came to its end.
struct Pairs(Vec<Vec<Option<Pair>>>);

fn conclude(
    scenario: Satellite,
    options: &RunOptions,
    repetitions: u64,
    names: &[String],
    outcomes: &[Outcome],
) -> Result<LiveResult, LabError> {
    let failed = |what: String| LabError::Simulation {
        scenario: scenario.name().into(),
        what,
    };
    let kinds = kinds();
    let each = LIVE.len() + SIMULATED.len();
    let twins = live::twins(
        scenario.name(),
        (each, repetitions),
        |number, repetition| simulate(number, seed(options, repetition)),
    )?;
    let (flows, saturated) =
        outcomes.split_at(outcomes.len().min(repetitions as usize * kinds.len()));
    let (flow_names, saturated_names) = names.split_at(flows.len());
    let live = Measured::of(kinds.len(), flow_names, flows, |kind, _, record| {
        kinds[kind].measure(record)
    });
    let mut notes = live.notes;
    for note in shortfalls(saturated_names, saturated) {
        // What the kernel lacks is said once.
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let pairs = kinds.iter().zip(live.cells).map(|(kind, live)| {
        let twins = match *kind {
            Kind::Sctp { variant, .. } => &twins[variant],
            Kind::Tcp(name) => &twins[LIVE.len() + usize::from(name == "cubic")],
        };
        let both = live.into_iter().zip(twins);
        both.map(|(live, twin)| live.map(|live| (live, twin.clone())))
            .collect()
    });
    let pairs = Pairs(pairs.collect());
    notes.extend(remarks(&kinds, &pairs));
    let mut rows = rows(&kinds, &pairs);
    rows.extend(live_saturated::rows(options, repetitions, saturated).map_err(failed)?);
    Ok(LiveResult {
        rows,
        accuracy: None,
        notes,
        settings: settings(repetitions),
    })
}

/// The same simulated: one of the variants, then both kinds of TCP.
fn simulate(number: usize, seed: u64) -> Result<Measures, String> {
    let run = if let Some(variant) = LIVE.get(number) {
        run::lossy(variant, MESSAGES, seed, Capture::NONE)?
    } else {
        let congestion = SIMULATED[number - LIVE.len()];
        tcp::lossy(MESSAGES, congestion, seed, Capture::NONE)?
    };
    Measures::of(&run, 0, 0).ok_or_else(|| "nothing was sent".to_string())
}

/// The value of each repetition that has one on both sides: simulated, live.
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

fn rows(kinds: &[Kind], pairs: &Pairs) -> Vec<LiveRow> {
    let mut rows = Vec::new();
    for (kind, pairs) in kinds.iter().zip(&pairs.0) {
        rows.extend(kind_rows(*kind, pairs));
    }
    for suffix in ["udp", "raw"] {
        rows.extend(gain_row(kinds, pairs, suffix));
    }
    rows
}

fn published(kind: Kind) -> [Option<f64>; 2] {
    match kind {
        Kind::Sctp { variant: 0, .. } => [Some(765.0), Some(29.0)],
        Kind::Sctp { variant: 1, .. } => [Some(527.0), None],
        Kind::Sctp { .. } => [None, None],
        Kind::Tcp(_) => [Some(870.0), Some(18.0)],
    }
}

fn kind_rows(kind: Kind, pairs: &[Option<Pair>]) -> Vec<LiveRow> {
    let (id, label) = match kind {
        Kind::Sctp {
            variant,
            encapsulated,
        } => {
            let way = if encapsulated { "in UDP" } else { "on IP" };
            (LIVE[variant].id, format!("{} {way}", LIVE[variant].label))
        }
        Kind::Tcp(name) => ("tcp", format!("kernel’s TCP ({name}) on W′")),
    };
    let [published_delay, published_rate] = published(kind);
    let row = |what: &str, text: &str, unit: &str, value: fn(&Measures) -> Option<f64>| {
        let [simulated, live] = values(pairs, value);
        let id = format!("{id}.{what}.{}", kind.suffix());
        let row = LiveRow::new(&id, &format!("{label}: {text}"), unit, &simulated, &live);
        match kind {
            Kind::Tcp(_) => row.another_stack(why(kind, what)),
            Kind::Sctp { .. } => row.because(why(kind, what)),
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

/// Why a live value may differ from the simulated one.
fn why(kind: Kind, what: &str) -> &'static str {
    match (kind, what) {
        (Kind::Tcp("bbr"), _) => {
            "BBR paces by the rate that it measures, which a loss does not lower; beside it stands the simulated Reno, \
             because no BBR is simulated."
        }
        (Kind::Tcp(_), _) => {
            "The kernel has SACK, RACK, tail loss probes and a first window of 10 segments; the simulated TCP is \
             smoltcp’s, which has none of them."
        }
        (Kind::Sctp { .. }, "delay") => {
            "Most of it is waiting in the sender, whose queue adds up every difference in the window: which chunk a \
             lost packet carries depends on the timing of both hosts."
        }
        (Kind::Sctp { .. }, _) => {
            "The numbers of the lost packets are the same, but which chunk each carries depends on the timing of both \
             hosts."
        }
    }
}

/// What gap reports on W'' save, by repetitions.
fn gain_row(kinds: &[Kind], pairs: &Pairs, suffix: &str) -> Option<LiveRow> {
    let of = |wanted: usize| {
        let place = kinds.iter().position(|kind| {
            matches!(kind, Kind::Sctp { variant, .. } if *variant == wanted)
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
        Kind::Sctp {
            variant: 0,
            encapsulated: true,
        },
        "gain",
    )))
}

fn remarks(kinds: &[Kind], pairs: &Pairs) -> Vec<String> {
    let count = |of: fn(&Pair) -> &Measures, what: fn(&Measures) -> u64| {
        let sctp = kinds.iter().zip(&pairs.0);
        let sctp = sctp.filter(|(kind, _)| matches!(kind, Kind::Sctp { .. }));
        sctp.flat_map(|(_, pairs)| pairs.iter().flatten())
            .map(|pair| what(of(pair)))
            .sum::<u64>()
    };
    let lost = |m: &Measures| m.retransmitted.len() as u64;
    vec![format!(
        "SCTP sent {} messages again live and {} simulated, in the same number of runs; T3-rtx expired {} and {} times. \
         Transmissions and arrivals are packets seen between the hosts’ kernels and the network.",
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
                "{repetitions} repetitions of {MESSAGES} messages of {MESSAGE} bytes at {} KByte/s, each in a network of its \
                 own; all run at the same time",
                LOAD / 1000
            ),
        ),
        Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, 8 bytes more a packet) and on plain IP",
        ),
        Setting::new(
            "live TCP",
            format!(
                "the kernel’s with its own defaults, TCP_NODELAY, segments of one message, windows of at most {} bytes; \
                 beside them the simulated Reno and CUBIC",
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
    fn every_repetition_runs_each_kind_in_the_network_of_its_simulation() {
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
    fn runs_that_went_wrong_leave_rows_empty_and_say_so() {
        let options = RunOptions {
            reps: Some(1),
            ..RunOptions::default()
        };
        let plan = plan(Satellite, &options);
        let outcomes = plan.runs.iter().map(|run| match run.flows[0].stack {
            Stack::Tcp { congestion, .. } => Outcome::Missing(format!("no {congestion}")),
            Stack::Sctp { .. } => Outcome::Failed("it broke".into()),
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
