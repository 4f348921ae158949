//! Live runs: the paper's settings and the best settings, in UDP and on plain IP.

use std::time::Duration;

use super::FailoverScenario;
use super::rows::PUBLISHED;
use super::run::{self, Case, Failover};
use super::setup::{
    BEST, BREAK, INTERVAL, LENGTH, Load, MESSAGE, PATH_MAX_RETRANS, PERIOD, PORT, START, VARIANTS,
    Variant, break_at, live_world,
};
use crate::capture::Capture;
use crate::error::LabError;
use crate::live::{
    self, Connection, LiveMeasurements, Messages, PacketRecording, RunOutcome, RunRecord, Sink,
    Source, Stack,
};
use crate::result::{LiveResult, LiveRow, Setting};
use crate::scenario::{RunOptions, Scenario};
use crate::seed::derive;

/// Repetitions of a short and of a full run.
const REPETITIONS: (u64, u64) = (6, 20);
/// Simultaneous runs: each has a hundred messages per second, and timers of some ten milliseconds.
const AT_ONCE: usize = 20;
/// Time for the set-up of the association and for the last messages.
const SET_UP: Duration = Duration::from_secs(4);

/// A variant with one of the two encapsulations of SCTP.
#[derive(Clone, Copy)]
struct LiveCell {
    variant: &'static Variant,
    encapsulated: bool,
}

/// Returns all cells, in the order of the rows.
fn all_cells() -> Vec<LiveCell> {
    let paper = VARIANTS.iter().take(PATH_MAX_RETRANS.len());
    let both = |variant| {
        [true, false].map(|encapsulated| LiveCell {
            variant,
            encapsulated,
        })
    };
    paper.chain([&BEST]).flat_map(both).collect()
}

impl LiveCell {
    /// Returns the last part of the identifiers of its rows.
    fn suffix(self) -> &'static str {
        if self.encapsulated { "udp" } else { "raw" }
    }

    fn name(self) -> String {
        format!("{}.{}", self.variant.id, self.suffix())
    }

    fn stack(self) -> Stack {
        let mut config = self.variant.config();
        config.research.trace = false;
        Stack::Sctp {
            encapsulated: self.encapsulated,
            port: PORT,
            config: Box::new(config),
        }
    }

    /// Returns the published means over all cases (failover, longest transfer) of the paper's
    /// variants.
    fn published(self) -> [Option<f64>; 2] {
        let place = VARIANTS.iter().position(|v| v.id == self.variant.id);
        let published = place.and_then(|place| PUBLISHED.get(place));
        [
            published.map(|p| p.mean_failover()),
            published.map(|p| p.mean_transfer()),
        ]
    }
}

/// Returns the time of the failure of the primary path in a repetition, after the first message.
fn moment(repetition: u64, repetitions: u64) -> Duration {
    break_at(repetition, repetitions).saturating_sub(START)
}

pub(super) fn plan(scenario: FailoverScenario, options: &RunOptions) -> live::LivePlan {
    let repetitions = options.live_repetitions(REPETITIONS.0, REPETITIONS.1);
    let messages = Messages {
        count: (LENGTH.as_nanos() / INTERVAL.as_nanos()) as u64,
        size: MESSAGE,
        interval: INTERVAL,
    };
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let seed = derive(seed(options, repetition), &[0]);
        let moment = moment(repetition, repetitions);
        for kind in all_cells() {
            runs.push(live::LiveRun {
                name: format!("{}.{repetition}", kind.name()),
                world: Box::new(move || live_world(seed, moment)),
                // As in the paper, the destination sets up the association.
                flows: vec![Connection::new(
                    kind.stack(),
                    1,
                    [
                        Box::new(Source::new(messages)),
                        Box::new(Sink::new(messages)),
                    ],
                )],
                watch: PacketRecording::Data,
                expected: messages.length() + SET_UP,
                limit: messages.length() * 3,
                capture: None,
            });
        }
    }
    let options = *options;
    live::LivePlan::new(runs, AT_ONCE, move |names, outcomes| {
        conclude(scenario, &options, repetitions, names, &outcomes)
    })
}

/// Returns the seed of a repetition, which is that of the simulated repetition of the same number.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[1, repetition])
}

/// A path failure, live and simulated.
type Pair = (Failover, Failover);

fn conclude(
    scenario: FailoverScenario,
    options: &RunOptions,
    repetitions: u64,
    names: &[String],
    outcomes: &[RunOutcome],
) -> Result<LiveResult, LabError> {
    let all_cells = all_cells();
    let extent = (all_cells.len(), repetitions);
    let simulations = live::simulate_cells(scenario.name(), extent, |kind, repetition| {
        let moment = break_at(repetition, repetitions);
        let (variant, seed) = (all_cells[kind].variant, seed(options, repetition));
        run::broken(variant, Load::Quiet, moment, seed, Capture::NONE)?
            .ok_or_else(|| "data had left the primary before the break".to_string())
    })?;
    let live = LiveMeasurements::of(all_cells.len(), names, outcomes, |_, repetition, record| {
        measure(record, moment(repetition, repetitions))
    });
    let (pairs, mut notes) = live.paired_with(simulations);
    notes.push(cases(&pairs));
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

/// Evaluates a run with the code that evaluates the simulated ones.
fn measure(record: &RunRecord, moment: Duration) -> Result<Failover, String> {
    let flow = record.flow().ok_or("other programs ran")?;
    run::measure(&flow.log(), record.begin + moment)
}

fn rows_of(kind: LiveCell, pairs: &[Pair]) -> Vec<LiveRow> {
    let way = if kind.encapsulated { "in UDP" } else { "on IP" };
    let label = format!("{} {way}", kind.variant.label);
    let [failover, transfer] = kind.published();
    let row = |what: &str, text: &str, value: fn(&Failover) -> f64| {
        let simulated: Vec<f64> = pairs
            .iter()
            .map(|(_, simulated)| value(simulated))
            .collect();
        let live: Vec<f64> = pairs.iter().map(|(live, _)| value(live)).collect();
        let id = format!("{}.{what}.{}", kind.variant.id, kind.suffix());
        LiveRow::new(&id, &format!("{label}: {text}"), "ms", &simulated, &live).because(WHY)
    };
    vec![
        row("failover", "failover time, mean", |f| f.time).published(failover),
        row("transfer", "longest transfer, mean", |f| f.max_transfer).published(transfer),
    ]
}

/// Reason why a live value may differ from the simulated one.
const WHY: &str = "Timers expire up to a millisecond late and hosts respond when their threads are scheduled, so that the last message before the failure, and with it the case, may differ from the simulation.";

/// Describes the frequency of each case.
fn cases(pairs: &[Vec<Pair>]) -> String {
    let count = |of: fn(&Pair) -> &Failover, case| {
        let all = pairs.iter().flatten();
        all.filter(|pair| of(pair).case == case).count()
    };
    let live = [Case::A, Case::B, Case::C].map(|case| count(|(live, _)| live, case));
    let simulated =
        [Case::A, Case::B, Case::C].map(|case| count(|(_, simulation)| simulation, case));
    format!(
        "Cases A, B and C occurred {}, {} and {} times in live runs and {}, {} and {} times in simulations. Transmissions and arrivals are \
         recorded between the hosts’ kernels and the network. The kernel’s TCP has one path and cannot change it.",
        live[0], live[1], live[2], simulated[0], simulated[1], simulated[2]
    )
}

fn settings(repetitions: u64) -> Vec<Setting> {
    vec![
        Setting::new(
            "live runs",
            format!(
                "{repetitions} repetitions, each in a separate network, {AT_ONCE} at the same time; the primary path fails \
                 {} s after the first message, spread over {} ms",
                BREAK.as_secs(),
                PERIOD.as_millis()
            ),
        ),
        Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, 8 bytes more per packet) and on plain \
             IP, without cross traffic",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_has_the_time_of_the_simulation() {
        let world = live_world(1, moment(2, 6)).expect("the network is valid");
        assert_eq!(world.changes.len(), 2);
        assert_eq!(START + world.changes[0].0, break_at(2, 6));
        assert!(world.changes[1].0 > world.changes[0].0);
    }

    #[test]
    fn every_cell_runs_and_failures_are_reported() {
        let options = RunOptions {
            reps: Some(2),
            ..RunOptions::default()
        };
        let plan = plan(FailoverScenario, &options);
        assert_eq!(plan.runs.len(), 2 * 10);
        assert_eq!(plan.runs[0].name, "pmr2.udp.0");
        assert_eq!(plan.runs[19].name, "best.raw.1");
        let failed = plan
            .runs
            .iter()
            .map(|_| RunOutcome::Failed("it broke".into()));
        let result = (plan.conclude)(failed.collect()).expect("simulations succeed");
        assert_eq!(result.rows.len(), 20);
        assert!(result.rows.iter().all(|row| row.live.is_none()));
        assert_eq!(result.notes.len(), 20 + 1);
        assert_eq!(result.rows[0].published.map(f64::round), Some(448.0));
    }
}
