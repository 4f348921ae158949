//! Live runs: SCTP in UDP and on plain IP, and the kernel's TCP.

use std::time::Duration;

use carrick_proto::AssociationConfig;
use carrick_simco::load::Measures;

use super::Firewall;
use super::live_programs::{LiveAgent, LiveMiddlebox};
use super::run::{self, SETTLING};
use super::setup::{BEST, Cell, PAPER, TCP, Variant, live_world, workload};
use crate::capture::Capture;
use crate::error::LabError;
use crate::live::{
    self, Connection, LiveMeasurements, PacketRecording, RunOutcome, RunRecord, Stack,
};
use crate::result::{LiveResult, LiveRow, Setting};
use crate::scenario::{RunOptions, Scenario};
use crate::seed::derive;

/// Measurement time of each run, after the preload and five seconds.
const MEASURED: Duration = Duration::from_secs(20);
/// Expected duration of set-up and preload.
const PRELOAD: Duration = Duration::from_secs(4);
/// Repetitions of a short and of a full run.
const REPETITIONS: (u64, u64) = (3, 6);
/// Simultaneous runs: each carries about a hundred transactions per second.
const AT_ONCE: usize = 15;
/// Congestion control algorithms of the kernel, and the loss rates in per mille of the runs with
/// its TCP.
const KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
const KERNEL_LOSSES: [u32; 2] = [10, 50];

/// A cell of the table with its carrier.
#[derive(Clone, Copy)]
struct LiveCell {
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

/// Returns all cells, in the order of the rows.
fn all_cells() -> Vec<LiveCell> {
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
        [true, false].map(|encapsulated| LiveCell {
            cell: Cell { loss, streams },
            carrier: Carrier::Sctp {
                variant,
                encapsulated,
            },
        })
    });
    let tcp = KERNEL_LOSSES.iter().flat_map(|&loss| {
        KERNEL.map(|name| LiveCell {
            cell: Cell { loss, streams: 1 },
            carrier: Carrier::Tcp(name),
        })
    });
    sctp.chain(tcp).collect()
}

impl LiveCell {
    /// Returns the last part of the identifiers of its rows.
    fn suffix(self) -> &'static str {
        match self.carrier {
            Carrier::Sctp {
                encapsulated: true, ..
            } => "udp",
            Carrier::Sctp { .. } => "raw",
            Carrier::Tcp(name) => name,
        }
    }

    /// Returns the first part of the identifiers of its rows, as in the table of the simulations.
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
                send_buffer: None,
            },
        }
    }
}

/// Returns the seed of a repetition, which is that of the simulated repetition of the same number.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[repetition])
}

pub(super) fn plan(scenario: Firewall, options: &RunOptions) -> live::LivePlan {
    let repetitions = options.live_repetitions(REPETITIONS.0, REPETITIONS.1);
    let expected = PRELOAD + SETTLING + MEASURED;
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let seed = seed(options, repetition);
        for kind in all_cells() {
            let agent =
                LiveAgent::new(kind.cell.streams, kind.is_tcp(), workload(), MEASURED, seed);
            let Ok(middlebox) = LiveMiddlebox::new(kind.is_tcp(), seed) else {
                // The names of agent and middlebox are valid.
                continue;
            };
            let (seed, loss) = (derive(seed, &[0]), kind.cell.loss());
            runs.push(live::LiveRun {
                name: format!("{}.{}.{repetition}", kind.id(), kind.suffix()),
                world: Box::new(move || live_world(seed, loss)),
                flows: vec![Connection::new(
                    kind.stack(),
                    0,
                    [Box::new(agent), Box::new(middlebox)],
                )],
                watch: PacketRecording::Data,
                expected,
                limit: expected * 4,
                capture: None,
            });
        }
    }
    let options = *options;
    live::LivePlan::new(runs, AT_ONCE, move |names, outcomes| {
        conclude(scenario, &options, repetitions, names, &outcomes)
    })
}

fn conclude(
    scenario: Firewall,
    options: &RunOptions,
    repetitions: u64,
    names: &[String],
    outcomes: &[RunOutcome],
) -> Result<LiveResult, LabError> {
    let all_cells = all_cells();
    let extent = (all_cells.len(), repetitions);
    let simulations = live::simulate_cells(scenario.name(), extent, |kind, repetition| {
        simulate(all_cells[kind], seed(options, repetition))
    })?;
    let live = LiveMeasurements::of(all_cells.len(), names, outcomes, |_, _, record| {
        Ok((measure(record)?, Late::of(record)))
    });
    let (pairs, mut notes) = live.paired_with(simulations);
    notes.push(
        "Response times are measured at the agent’s program, as in the simulation. The losses of a run affect different \
         packets than those of its simulation, because the bundling of requests depends on the timing of the hosts. TCP \
         carries the same messages in order in one byte stream. The kernel’s TCP is compared with the simulated one, \
         smoltcp with Reno."
            .into(),
    );
    let rows = all_cells.iter().zip(&pairs);
    Ok(LiveResult {
        rows: rows
            .flat_map(|(kind, pairs)| rows_of(*kind, pairs))
            .collect(),
        accuracy: None,
        notes,
        settings: settings(repetitions),
    })
}

/// Returns the measurements of the agent, if both sides agree on the rules.
fn measure(record: &RunRecord) -> Result<Measures, String> {
    let agent: &LiveAgent = record.program(0).ok_or("another program ran")?;
    let middlebox: &LiveMiddlebox = record.program(1).ok_or("another program ran")?;
    let ((pinholes, pending), rules) = (agent.pinholes(), middlebox.rules());
    // Requests and replies in transit at the end have been processed by one side only.
    if pinholes.abs_diff(rules) > pending {
        return Err(format!("{pinholes} pinholes, but {rules} rules"));
    }
    let measures = agent.measures();
    if measures.failures() > 0 {
        return Err(format!("transactions failed: {measures:?}"));
    }
    Ok(measures.clone())
}

/// Delay added by the network to a request and its reply together, in ms.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    mean: f64,
    q99: f64,
}

impl Late {
    fn of(record: &RunRecord) -> Self {
        Self {
            mean: 2.0 * record.lateness.mean(),
            q99: 2.0 * record.lateness.quantile(0.99),
        }
    }
}

/// Runs the corresponding simulation.
fn simulate(kind: LiveCell, seed: u64) -> Result<Measures, String> {
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

fn rows_of(kind: LiveCell, pairs: &[Pair]) -> Vec<LiveRow> {
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
        let both = both.filter_map(|((live, _), simulation)| Some((ms(simulation)?, ms(live)?)));
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

/// Returns the reason why a live value may differ from the simulated one.
fn why(kind: LiveCell) -> &'static str {
    if kind.is_tcp() {
        return "The kernel has SACK, RACK, tail loss probes and a minimum RTO of 200 ms; the simulated TCP, smoltcp, has \
         none of them and a minimum RTO of one second.";
    }
    if kind.cell.loss == 0 {
        return "Each traversal of the kernels and programs of a busy host adds to the response times; in a network without \
         losses this is the only difference.";
    }
    "The losses affect different packets than in the simulation, and few losses determine the value; each traversal of the kernels and \
     programs of a busy host adds to all response times."
}

fn settings(repetitions: u64) -> Vec<Setting> {
    vec![
        Setting::new(
            "live runs",
            format!(
                "{repetitions} repetitions, each in a separate network, {AT_ONCE} at the same time: the complete preload, {} s, \
                 then {} s of measurement",
                SETTLING.as_secs(),
                MEASURED.as_secs()
            ),
        ),
        Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, 8 bytes more per packet) and on plain IP",
        ),
        Setting::new(
            "live TCP",
            "the kernel’s TCP with its defaults and TCP_NODELAY",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_a_unique_name() {
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
    fn rows_have_the_value_of_the_model() {
        let rows: Vec<LiveRow> = all_cells()
            .into_iter()
            .flat_map(|kind| rows_of(kind, &[]))
            .collect();
        assert_eq!(rows.len(), 40);
        let published = rows.iter().filter(|row| row.published.is_some());
        assert_eq!(
            published.count(),
            10,
            "ten cells of the paper, two encapsulations each"
        );
        assert!(
            rows[0]
                .published
                .is_some_and(|model| (model - 20.5).abs() < 1e-9)
        );
    }
}
