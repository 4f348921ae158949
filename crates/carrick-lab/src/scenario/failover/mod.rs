//! `failover`: Path.Max.Retrans and the time to change the path.
//!
//! After J. Eklund, A. Brunstrom: "Performance of Network Redundancy Mechanisms in SCTP" (2005). Two
//! hosts have two disjoint paths; the one that carries a constant flow of small messages breaks, and
//! what counts is when all data takes the other. The paper's future work, bursts and other traffic,
//! is added, with the failovers that happen although nothing is broken.

mod figures;
mod live;
mod notes;
mod rows;
mod run;
mod setup;
mod show;
mod traffic;

use super::{NetworkPlan, Progress, RunOptions, Scenario};
use crate::error::LabError;
use crate::parallel;
use crate::result::ScenarioResult;
use crate::seed::derive;

use run::{Failover, Watched};
use setup::{LOADS, Load, VARIANTS, break_at};

/// Repetitions of a cell in a short run: enough for all three cases.
const SHORT: u64 = 20;
/// The paper's repetitions of a cell.
const FULL: u64 = 40;

/// The scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailoverScenario;

impl Scenario for FailoverScenario {
    fn name(&self) -> &'static str {
        "failover"
    }

    fn question(&self) -> &'static str {
        "When a path breaks, how long until all data takes the other one, what does a message wait at most, and \
         which settings are fast without mistaking congestion for a break?"
    }

    fn network(&self) -> Option<NetworkPlan> {
        Some(setup::bare_network)
    }

    fn live(&self, options: &RunOptions) -> Result<crate::live::Plan, &'static str> {
        Ok(live::plan(*self, options))
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, LabError> {
        let repetitions = options.repetitions(SHORT, FULL);
        let observed = self.simulate(options.seed, repetitions, progress)?;
        Ok(show::result(
            *self,
            &observed,
            options.seed,
            (repetitions < FULL).then_some(FULL),
        ))
    }
}

/// What the repetitions of one variant under one load showed.
#[derive(Clone, Debug, Default)]
struct Cell {
    /// Each break; `None` where data was on the other path already.
    breaks: Vec<Option<Failover>>,
    /// Each minute without a break.
    watched: Vec<Watched>,
}

impl Cell {
    fn failovers(&self) -> impl Iterator<Item = &Failover> {
        self.breaks.iter().flatten()
    }
}

/// All that was measured.
struct Observed {
    /// Without other traffic, by variant.
    quiet: Vec<Cell>,
    /// Under each of [`LOADS`], by variant.
    loaded: Vec<Vec<Cell>>,
    repetitions: u64,
}

type Outcome = (Option<Failover>, Watched);

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
            cell.watched.push(watched);
        }
        let mut all = all.into_iter();
        Ok(Observed {
            quiet: all.next().unwrap_or_default(),
            loaded: all.collect(),
            repetitions,
        })
    }
}

/// One break and one minute without. The seed does not depend on variant or load.
fn repetition(
    seed: u64,
    load: Load,
    variant: usize,
    number: u64,
    repetitions: u64,
) -> Result<Outcome, String> {
    let variant = &VARIANTS[variant];
    let moment = break_at(number, repetitions);
    let broken = run::broken(variant, load, moment, derive(seed, &[1, number]))?;
    let watched = run::unbroken(variant, load, derive(seed, &[2, number]))?;
    Ok((broken, watched))
}
