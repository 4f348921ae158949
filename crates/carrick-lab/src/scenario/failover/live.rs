//! The scenario in real time: the paper's settings and the best ones, in UDP and on plain IP.

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
use crate::live::{self, Flow, Measured, Messages, Outcome, Record, Sink, Source, Stack, Watch};
use crate::result::{LiveResult, LiveRow, Setting};
use crate::scenario::{RunOptions, Scenario};
use crate::seed::derive;

/// Repetitions of a short run, and of a full one.
const REPETITIONS: (u64, u64) = (6, 20);
/// Runs at the same time: each has a hundred messages a second, and timers of some ten milliseconds.
const AT_ONCE: usize = 20;
/// Time for the set-up of the association, and for the last messages.
const SET_UP: Duration = Duration::from_secs(4);

/// A variant on one of the two ways to carry SCTP.
#[derive(Clone, Copy)]
struct Kind {
    variant: &'static Variant,
    encapsulated: bool,
}

/// All kinds, in the order of the rows.
fn kinds() -> Vec<Kind> {
    let paper = VARIANTS.iter().take(PATH_MAX_RETRANS.len());
    let both = |variant| {
        [true, false].map(|encapsulated| Kind {
            variant,
            encapsulated,
        })
    };
    paper.chain([&BEST]).flat_map(both).collect()
}

impl Kind {
    /// Last part of the names of its rows.
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

    /// The published means over all cases, if it is one of the paper's: failover, longest transfer.
    fn published(self) -> [Option<f64>; 2] {
        let place = VARIANTS.iter().position(|v| v.id == self.variant.id);
        let published = place.and_then(|place| PUBLISHED.get(place));
        [
            published.map(|p| p.mean_failover()),
            published.map(|p| p.mean_transfer()),
        ]
    }
}

/// When the primary breaks in a repetition, after the first message.
fn moment(repetition: u64, repetitions: u64) -> Duration {
    break_at(repetition, repetitions).saturating_sub(START)
}

pub(super) fn plan(scenario: FailoverScenario, options: &RunOptions) -> live::Plan {
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
        for kind in kinds() {
            runs.push(live::Run {
                name: format!("{}.{repetition}", kind.name()),
                world: Box::new(move || live_world(seed, moment)),
                // The destination sets the association up, as in the paper.
                flows: vec![Flow::new(
                    kind.stack(),
                    1,
                    [
                        Box::new(Source::new(messages)),
                        Box::new(Sink::new(messages)),
                    ],
                )],
                watch: Watch::Data,
                expected: messages.length() + SET_UP,
                limit: messages.length() * 3,
                capture: None,
            });
        }
    }
    let options = *options;
    live::Plan::new(runs, AT_ONCE, move |names, outcomes| {
        conclude(scenario, &options, repetitions, names, &outcomes)
    })
}

/// The seed of a repetition: the simulated repetition of this number has the same.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[1, repetition])
}

/// A break live and simulated.
type Pair = (Failover, Failover);

fn conclude(
    scenario: FailoverScenario,
    options: &RunOptions,
    repetitions: u64,
    names: &[String],
    outcomes: &[Outcome],
) -> Result<LiveResult, LabError> {
    let kinds = kinds();
    let extent = (kinds.len(), repetitions);
    let twins = live::twins(scenario.name(), extent, |kind, repetition| {
        let moment = break_at(repetition, repetitions);
        let (variant, seed) = (kinds[kind].variant, seed(options, repetition));
        run::broken(variant, Load::Quiet, moment, seed, Capture::NONE)?
            .ok_or_else(|| "data had left the primary before the break".to_string())
    })?;
    let live = Measured::of(kinds.len(), names, outcomes, |_, repetition, record| {
        measure(record, moment(repetition, repetitions))
    });
    let (pairs, mut notes) = live.beside(twins);
    notes.push(cases(&pairs));
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

/// Measures a run with the code that measures the simulated ones.
fn measure(record: &Record, moment: Duration) -> Result<Failover, String> {
    let flow = record.flow().ok_or("other programs ran")?;
    run::measure(&flow.log(), record.begin + moment)
}

fn rows_of(kind: Kind, pairs: &[Pair]) -> Vec<LiveRow> {
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

/// Why a live value may differ from the simulated one.
const WHY: &str = "Timers expire up to a millisecond late and hosts answer when their threads get a core, so that the last message before the break, and with it the case, may be another one than in the simulation.";

/// How often each case occurred.
fn cases(pairs: &[Vec<Pair>]) -> String {
    let count = |of: fn(&Pair) -> &Failover, case| {
        let all = pairs.iter().flatten();
        all.filter(|pair| of(pair).case == case).count()
    };
    let live = [Case::A, Case::B, Case::C].map(|case| count(|(live, _)| live, case));
    let simulated = [Case::A, Case::B, Case::C].map(|case| count(|(_, twin)| twin, case));
    format!(
        "Cases A, B and C occurred {}, {} and {} times live; {}, {} and {} times simulated. Transmissions and arrivals are \
         packets seen between the hosts’ kernels and the network. The kernel’s TCP has one path and can’t change it.",
        live[0], live[1], live[2], simulated[0], simulated[1], simulated[2]
    )
}

fn settings(repetitions: u64) -> Vec<Setting> {
    vec![
        Setting::new(
            "live runs",
            format!(
                "{repetitions} repetitions, each in a network of its own, {AT_ONCE} at the same time; the primary breaks \
                 {} s after the first message, spread over {} ms",
                BREAK.as_secs(),
                PERIOD.as_millis()
            ),
        ),
        Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, 8 bytes more a packet) and on plain \
             IP, without other traffic",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_break_comes_as_long_after_the_first_message_as_in_the_simulation() {
        let world = live_world(1, moment(2, 6)).expect("the network is right");
        assert_eq!(world.changes.len(), 2);
        assert_eq!(START + world.changes[0].0, break_at(2, 6));
        assert!(world.changes[1].0 > world.changes[0].0);
    }

    #[test]
    fn every_repetition_runs_each_kind_and_what_fails_is_told() {
        let options = RunOptions {
            reps: Some(2),
            ..RunOptions::default()
        };
        let plan = plan(FailoverScenario, &options);
        assert_eq!(plan.runs.len(), 2 * 10);
        assert_eq!(plan.runs[0].name, "pmr2.udp.0");
        assert_eq!(plan.runs[19].name, "best.raw.1");
        let failed = plan.runs.iter().map(|_| Outcome::Failed("it broke".into()));
        let result = (plan.conclude)(failed.collect()).expect("simulations succeed");
        assert_eq!(result.rows.len(), 20);
        assert!(result.rows.iter().all(|row| row.live.is_none()));
        assert_eq!(result.notes.len(), 20 + 1);
        assert_eq!(result.rows[0].published.map(f64::round), Some(448.0));
    }
}
