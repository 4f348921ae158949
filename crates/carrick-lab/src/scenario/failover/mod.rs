//! `failover`: Path.Max.Retrans and the failover time.
//!
//! After J. Eklund, A. Brunstrom: "Performance of Network Redundancy Mechanisms in SCTP" (2005).
//! Two hosts have two disjoint paths. The path that carries a constant flow of small messages
//! fails, and the time until all data uses the other path is measured. The paper's future work,
//! bursts and cross traffic, is added, as are failovers without a path failure.

mod figures;
mod live;
mod notes;
mod rows;
mod run;
mod setup;
mod show;
mod traffic;

use super::{Progress, RunOptions, Scenario};
use crate::capture::Capture;
use crate::error::LabError;
use crate::parallel;
use crate::publication::{FittedSetting, Publication};
use crate::result::ScenarioResult;
use crate::seed::derive;

use run::{Failover, Watched};
use setup::{LOADS, Load, VARIANTS, Variant};

/// Repetitions of a cell in a short run: enough for all three cases.
const SHORT: u64 = 20;
/// Repetitions of a cell in the paper.
const FULL: u64 = 40;

/// Runs of a variant: a path failure, and a minute without one.
const KINDS: [&str; 2] = ["failover", "false-failovers"];

/// The scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailoverScenario;

impl Scenario for FailoverScenario {
    fn name(&self) -> &'static str {
        "failover"
    }

    fn question(&self) -> &'static str {
        "When a path fails, how long does it take until all data uses the other path, what is the longest delay of a message, and \
         which settings are fast without a false failover under congestion?"
    }

    fn publication(&self) -> Publication {
        Publication {
            authors: "Johan Eklund, Anna Brunstrom",
            title: "Performance of Network Redundancy Mechanisms in SCTP",
            place: "Karlstad University Studies 2005:48",
            year: 2005,
        }
    }

    fn fitted(&self) -> Vec<FittedSetting> {
        vec![
            FittedSetting {
                setting: "the backward direction breaks 15 ms after the forward direction",
                chosen_by: "the share of case C among the published runs",
                alternatives: "decides how often each case occurs, and no time within a case",
            },
            FittedSetting {
                setting: "duplicates bundled with new data are reported with the next SACK (report-later)",
                chosen_by: "the times of the cases B and C",
                alternatives: "a SACK at once, the default of this stack; RFC 9260 section 6.2 leaves the choice",
            },
        ]
    }

    fn usual(&self) -> Option<&'static str> {
        Some("pmr5")
    }

    fn live(&self, options: &RunOptions) -> Result<crate::live::LivePlan, &'static str> {
        Ok(live::plan(*self, options))
    }

    fn cells(&self) -> Vec<String> {
        let kinds =
            |(name, ..): (String, Load, &Variant)| KINDS.map(|kind| format!("{name}.{kind}"));
        named().flat_map(kinds).collect()
    }

    fn repetitions(&self, options: &RunOptions) -> u64 {
        options.repetitions(SHORT, FULL)
    }

    fn replay(
        &self,
        (cell, repetition): (&str, u64),
        options: &RunOptions,
        capture: Capture<'_>,
    ) -> Result<(), String> {
        let is = |name: &str| {
            let kind = cell.strip_prefix(name)?.strip_prefix('.')?;
            KINDS.iter().position(|own| *own == kind)
        };
        let mut all = named();
        let found = all.find_map(|(name, load, variant)| Some((is(&name)?, load, variant)));
        let (kind, load, variant) = found.ok_or_else(|| format!("there is no cell {cell}"))?;
        let seeds = seeds(options.seed, repetition);
        if kind == 0 {
            let moment = load.break_at(repetition, self.repetitions(options));
            run::broken(variant, load, moment, seeds[0], capture).map(drop)
        } else {
            run::unbroken(variant, load, seeds[1], capture).map(drop)
        }
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, LabError> {
        let repetitions = self.repetitions(options);
        let observed = self.simulate(options.seed, repetitions, progress)?;
        let shortened = (repetitions < FULL).then_some(FULL);
        Ok(show::result(*self, &observed, options.seed).extended(options, shortened))
    }
}

/// Results of the repetitions of one variant under one load.
#[derive(Clone, Debug, Default)]
struct Cell {
    /// Results of each path failure; `None` if data was on the other path already.
    breaks: Vec<Option<Failover>>,
    /// Results of each minute without a failure; a single one if runs do not depend on the seed.
    watched: Vec<Watched>,
}

impl Cell {
    fn failovers(&self) -> impl Iterator<Item = &Failover> {
        self.breaks.iter().flatten()
    }
}

/// All results.
struct Observed {
    /// Results without cross traffic, by variant.
    quiet: Vec<Cell>,
    /// Results under each of [`LOADS`], by variant.
    loaded: Vec<Vec<Cell>>,
    repetitions: u64,
}

type JobResult = (Option<Failover>, Option<Watched>);

impl FailoverScenario {
    fn simulate(
        self,
        seed: u64,
        repetitions: u64,
        progress: &dyn Progress,
    ) -> Result<Observed, LabError> {
        let loads: Vec<Load> = std::iter::once(Load::Quiet).chain(LOADS).collect();
        let cells = loads.len() * VARIANTS.len();
        let jobs = cells * repetitions as usize;
        progress.begin(self.name(), jobs as u64);
        let results = parallel::run(jobs, |job| {
            let (number, cell) = ((job / cells) as u64, job % cells);
            let (load, variant) = (loads[cell / VARIANTS.len()], cell % VARIANTS.len());
            let outcome = repetition(seed, load, variant, number, repetitions);
            progress.step();
            outcome.map_err(|error| {
                let variant = VARIANTS[variant].id;
                format!("{variant}, {}, repetition {number}: {error}", load.label())
            })
        });
        progress.end();
        let mut all: Vec<Vec<Cell>> = vec![vec![Cell::default(); VARIANTS.len()]; loads.len()];
        for (job, result) in results.into_iter().enumerate() {
            let (broken, watched) = result.map_err(|what| LabError::Simulation {
                scenario: self.name().into(),
                what,
            })?;
            let cell = job % cells;
            let cell = &mut all[cell / VARIANTS.len()][cell % VARIANTS.len()];
            cell.breaks.push(broken);
            cell.watched.extend(watched);
        }
        let mut all = all.into_iter();
        Ok(Observed {
            quiet: all.next().unwrap_or_default(),
            loaded: all.collect(),
            repetitions,
        })
    }
}

/// Runs one path failure and one minute without, unless the latter would be a copy of the first
/// one's. The seed does not depend on variant or load.
fn repetition(
    seed: u64,
    load: Load,
    variant: usize,
    number: u64,
    repetitions: u64,
) -> Result<JobResult, String> {
    let variant = &VARIANTS[variant];
    let moment = load.break_at(number, repetitions);
    let [first, second] = seeds(seed, number);
    let broken = run::broken(variant, load, moment, first, Capture::NONE)?;
    let differs = number == 0 || load.is_random();
    let watched = differs.then(|| run::unbroken(variant, load, second, Capture::NONE));
    Ok((broken, watched.transpose()?))
}

/// Returns the seeds of a repetition with a path failure, and of its minute without.
fn seeds(seed: u64, number: u64) -> [u64; 2] {
    [1, 2].map(|kind| derive(seed, &[kind, number]))
}

/// Returns the variants under each load, with the prefix of the identifiers of their rows.
fn named() -> impl Iterator<Item = (String, Load, &'static Variant)> {
    let loads = std::iter::once(Load::Quiet).chain(LOADS);
    loads.flat_map(|load| {
        let variants = VARIANTS.iter();
        variants.map(move |variant| (rows::name(load, variant), load, variant))
    })
}
