//! The scenario in real time: SCTP in UDP and on plain IP, and the kernel's TCP.

use std::time::Duration;

use carrick_proto::AssociationConfig;
use carrick_simco::load::Measures;

use super::Firewall;
use super::live_programs::{LiveAgent, LiveMiddlebox};
use super::run::{self, SETTLING};
use super::setup::{BEST, Cell, PAPER, TCP, Variant, live_world, workload};
use crate::capture::Capture;
use crate::error::LabError;
use crate::live::{self, Flow, Measured, Outcome, Record, Stack, Watch};
use crate::result::{LiveResult, LiveRow, Setting};
use crate::scenario::{RunOptions, Scenario};
use crate::seed::derive;

/// Measured in each run, after the preload and five seconds.
const MEASURED: Duration = Duration::from_secs(20);
/// The preload and what comes before it, by experience.
const PRELOAD: Duration = Duration::from_secs(4);
/// Repetitions of a short run, and of a full one.
const REPETITIONS: (u64, u64) = (3, 6);
/// Runs at the same time: each carries about a hundred transactions a second.
const AT_ONCE: usize = 15;
/// Congestion controls of the kernel, and the losses in per mille that its TCP is run with.
const KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
const KERNEL_LOSSES: [u32; 2] = [10, 50];

/// A cell of the table on one of the ways to carry it.
#[derive(Clone, Copy)]
struct Kind {
    cell: Cell,
    carrier: Carrier,
}

#[derive(Clone, Copy)]
enum Carrier {
    Sctp {
        variant: &'static Variant,
        encapsulated: bool,
    },
    Tcp(&'static str),
}

/// All kinds, in the order of the rows.
fn kinds() -> Vec<Kind> {
    const SCTP: [(&Variant, u32, u16); 7] = [
        (&PAPER, 0, 1),
        (&PAPER, 10, 1),
        (&PAPER, 10, 6),
        (&PAPER, 50, 1),
        (&PAPER, 50, 6),
        (&BEST, 10, 1),
        (&BEST, 50, 1),
    ];
    let sctp = SCTP.iter().flat_map(|&(variant, loss, streams)| {
        [true, false].map(|encapsulated| Kind {
            cell: Cell { loss, streams },
            carrier: Carrier::Sctp {
                variant,
                encapsulated,
            },
        })
    });
    let tcp = KERNEL_LOSSES.iter().flat_map(|&loss| {
        KERNEL.map(|name| Kind {
            cell: Cell { loss, streams: 1 },
            carrier: Carrier::Tcp(name),
        })
    });
    sctp.chain(tcp).collect()
}

impl Kind {
    /// Last part of the names of its rows.
    fn suffix(self) -> &'static str {
        match self.carrier {
            Carrier::Sctp {
                encapsulated: true, ..
            } => "udp",
            Carrier::Sctp { .. } => "raw",
            Carrier::Tcp(name) => name,
        }
    }

    /// First part of the names of its rows, as in the table of the simulations.
    fn id(self) -> String {
        let name = match self.carrier {
            Carrier::Sctp { variant, .. } => variant.id,
            Carrier::Tcp(_) => "tcp",
        };
        format!("{name}.p{}.n{}", self.cell.percent(), self.cell.streams)
    }

    fn label(self) -> String {
        let percent = self.cell.percent();
        let streams = match self.cell.streams {
            1 => "1 stream".to_string(),
            n => format!("{n} streams"),
        };
        match self.carrier {
            Carrier::Sctp {
                variant,
                encapsulated,
            } => {
                let way = if encapsulated { "in UDP" } else { "on IP" };
                format!("{} {way}: {percent} % loss, {streams}", variant.label)
            }
            Carrier::Tcp(name) => format!("kernel’s TCP ({name}): {percent} % loss"),
        }
    }

    fn is_tcp(self) -> bool {
        matches!(self.carrier, Carrier::Tcp(_))
    }

    fn stack(self) -> Stack {
        match self.carrier {
            Carrier::Sctp {
                variant,
                encapsulated,
            } => {
                let mut config = variant.config().unwrap_or_else(AssociationConfig::rfc9260);
                config.streams.outbound_streams = self.cell.streams;
                Stack::Sctp {
                    encapsulated,
                    port: carrick_simco::PORT,
                    config: Box::new(config),
                }
            }
            Carrier::Tcp(congestion) => Stack::Tcp {
                congestion,
                port: carrick_simco::PORT,
                segment: None,
                window: None,
            },
        }
    }
}

/// The seed of a repetition: the simulated repetition of this number has the same.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[repetition])
}

pub(super) fn plan(scenario: Firewall, options: &RunOptions) -> live::Plan {
    let repetitions = options.live_repetitions(REPETITIONS.0, REPETITIONS.1);
    let expected = PRELOAD + SETTLING + MEASURED;
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let seed = seed(options, repetition);
        for kind in kinds() {
            let agent =
                LiveAgent::new(kind.cell.streams, kind.is_tcp(), workload(), MEASURED, seed);
            let Ok(middlebox) = LiveMiddlebox::new(kind.is_tcp(), seed) else {
                // The names of agent and middlebox are names.
                continue;
            };
            let (seed, loss) = (derive(seed, &[0]), kind.cell.loss());
            runs.push(live::Run {
                name: format!("{}.{}.{repetition}", kind.id(), kind.suffix()),
                world: Box::new(move || live_world(seed, loss)),
                flows: vec![Flow::new(
                    kind.stack(),
                    0,
                    [Box::new(agent), Box::new(middlebox)],
                )],
                watch: Watch::Data,
                expected,
                limit: expected * 4,
                capture: None,
            });
        }
    }
    let options = *options;
    live::Plan::new(runs, AT_ONCE, move |names, outcomes| {
        conclude(scenario, &options, repetitions, names, &outcomes)
    })
}

fn conclude(
    scenario: Firewall,
    options: &RunOptions,
    repetitions: u64,
    names: &[String],
    outcomes: &[Outcome],
) -> Result<LiveResult, LabError> {
    let kinds = kinds();
    let extent = (kinds.len(), repetitions);
    let twins = live::twins(scenario.name(), extent, |kind, repetition| {
        simulate(kinds[kind], seed(options, repetition))
    })?;
    let live = Measured::of(kinds.len(), names, outcomes, |_, _, record| {
        Ok((measure(record)?, Late::of(record)))
    });
    let (pairs, mut notes) = live.beside(twins);
    notes.push(
        "Response times are those that the agent’s program sees, as in the simulation; the losses of a run fall on other \
         packets than those of its simulation, because how requests share packets depends on the timing of the hosts. TCP \
         carries the same messages one after the other in one stream of bytes; beside the kernel’s stands the simulated one, \
         which is smoltcp’s with Reno."
            .into(),
    );
    let rows = kinds.iter().zip(&pairs);
    Ok(LiveResult {
        rows: rows
            .flat_map(|(kind, pairs)| rows_of(*kind, pairs))
            .collect(),
        accuracy: None,
        notes,
        settings: settings(repetitions),
    })
}

/// What the agent measured, if both sides agree on the rules.
fn measure(record: &Record) -> Result<Measures, String> {
    let agent: &LiveAgent = record.program(0).ok_or("another program ran")?;
    let middlebox: &LiveMiddlebox = record.program(1).ok_or("another program ran")?;
    let ((pinholes, pending), rules) = (agent.pinholes(), middlebox.rules());
    // Requests and replies that were under way at the end are on one side only.
    if pinholes.abs_diff(rules) > pending {
        return Err(format!("{pinholes} pinholes, but {rules} rules"));
    }
    let measures = agent.measures();
    if measures.failures() > 0 {
        return Err(format!("transactions went wrong: {measures:?}"));
    }
    Ok(measures.clone())
}

/// By how much the network made a request and its answer later, both together, in ms.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    mean: f64,
    q99: f64,
}

impl Late {
    fn of(record: &Record) -> Self {
        Self {
            mean: 2.0 * record.lateness.mean(),
            q99: 2.0 * record.lateness.quantile(0.99),
        }
    }
}

/// The same simulated.
fn simulate(kind: Kind, seed: u64) -> Result<Measures, String> {
    let variant = match kind.carrier {
        Carrier::Sctp { variant, .. } => variant,
        Carrier::Tcp(_) => &TCP,
    };
    let run = run::run(
        variant,
        kind.cell,
        workload(),
        MEASURED,
        seed,
        Capture::NONE,
    )?;
    Ok(run.measures)
}

type Pair = ((Measures, Late), Measures);

fn rows_of(kind: Kind, pairs: &[Pair]) -> Vec<LiveRow> {
    let published = match kind.carrier {
        Carrier::Sctp { variant, .. } if variant.id == PAPER.id => Some(kind.cell.model()),
        _ => None,
    };
    let label = kind.label();
    let row = |what: &str,
               text: &str,
               value: fn(&Measures) -> Option<Duration>,
               late: fn(&Late) -> f64| {
        let ms = |measures: &Measures| value(measures).map(|time| time.as_secs_f64() * 1e3);
        let both = pairs.iter();
        let both = both.filter_map(|((live, _), twin)| Some((ms(twin)?, ms(live)?)));
        let (simulated, live): (Vec<f64>, Vec<f64>) = both.unzip();
        let late: Vec<f64> = pairs.iter().map(|((_, by), _)| late(by)).collect();
        let late = late.iter().sum::<f64>() / late.len().max(1) as f64;
        let id = format!("{}.{what}.{}", kind.id(), kind.suffix());
        let text = format!("{label}: {text}");
        let row = LiveRow::new(&id, &text, "ms", &simulated, &live);
        if kind.is_tcp() {
            row.another_stack(why(kind))
        } else {
            row.delayed_by(late).because(why(kind))
        }
    };
    let mean = row(
        "mean",
        "response time, mean",
        |m| m.enable.mean(),
        |by| by.mean,
    );
    let q99 = |m: &Measures| m.enable.quantile(0.99);
    vec![
        mean.published(published),
        row("q99", "99 % quantile", q99, |by| by.q99),
    ]
}

/// Why a live value may differ from the simulated one.
fn why(kind: Kind) -> &'static str {
    if kind.is_tcp() {
        return "The kernel has SACK, RACK, tail loss probes and a least timeout of 200 ms; the simulated TCP is smoltcp’s, which has \
                none of them and waits a second.";
    }
    if kind.cell.loss == 0 {
        return "Each way through the kernels and the programs of a busy host adds to the response times; in a network without \
                losses that is all that makes them differ.";
    }
    "Other packets are lost than in the simulation, and few losses make the value; each way through the kernels and the \
     programs of a busy host adds to all response times."
}

fn settings(repetitions: u64) -> Vec<Setting> {
    vec![
        Setting::new(
            "live runs",
            format!(
                "{repetitions} repetitions, each in a network of its own, {AT_ONCE} at the same time: the whole preload, {} s, \
                 then {} s measured",
                SETTLING.as_secs(),
                MEASURED.as_secs()
            ),
        ),
        Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, 8 bytes more a packet) and on plain IP",
        ),
        Setting::new(
            "live TCP",
            "the kernel’s with its own defaults and TCP_NODELAY",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repetition_runs_each_kind_under_a_name_of_its_own() {
        let options = RunOptions {
            reps: Some(2),
            ..RunOptions::default()
        };
        let plan = plan(Firewall, &options);
        assert_eq!(plan.runs.len(), 2 * 20);
        let mut names: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names[2], "sctp.p1.n1.udp.0");
        assert_eq!(names[39], "tcp.p5.n1.bbr.1");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 40);
    }

    #[test]
    fn rows_have_the_model_where_it_speaks_of_them() {
        let rows: Vec<LiveRow> = kinds()
            .into_iter()
            .flat_map(|kind| rows_of(kind, &[]))
            .collect();
        assert_eq!(rows.len(), 40);
        let published = rows.iter().filter(|row| row.published.is_some());
        assert_eq!(
            published.count(),
            10,
            "ten cells of the paper, two ways each"
        );
        assert!(
            rows[0]
                .published
                .is_some_and(|model| (model - 20.5).abs() < 1e-9)
        );
    }
}
