//! `firewall`: SIMCO transactions over SCTP with several streams, and over TCP.
//!
//! After S. Kiesel, M. Scharf: "Modeling and Performance Evaluation of SCTP as Transport Protocol
//! for Firewall Control" (2006). An agent opens, refreshes and closes pinholes at a middlebox over
//! a path with random loss. A lost message blocks later ones of its stream; with more streams,
//! fewer messages are blocked.

mod figures;
mod live;
mod live_programs;
mod notes;
mod programs;
mod rows;
mod run;
mod setup;
mod show;
mod sides;
mod tcp;

use std::time::Duration;

use carrick_simco::load::Measures;

use super::{Progress, RunOptions, Scenario};
use crate::capture::Capture;
use crate::error::LabError;
use crate::parallel;
use crate::publication::{FittedSetting, Publication};
use crate::result::ScenarioResult;
use crate::seed::derive;

use run::SimulationRun;
use setup::{Cell, Variant, cells, workload};

/// Measurement time of each repetition in a short run.
const SHORT: Duration = Duration::from_secs(40);
/// Measurement time in the paper.
const FULL: Duration = Duration::from_secs(1000);
/// Repetitions of a short and of a full run. With three repetitions, the mean is accurate to 1 % or
/// better up to 2 % loss, a third of the tolerance that is checked there.
const REPETITIONS: (u64, u64) = (3, 3);

/// The scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Firewall;

impl Scenario for Firewall {
    fn name(&self) -> &'static str {
        "firewall"
    }

    fn question(&self) -> &'static str {
        "How long does a firewall take to open a pinhole if packets are lost on the path to it, and \
         how many SCTP streams are required so that a loss does not delay other transactions?"
    }

    fn publication(&self) -> Publication {
        Publication {
            authors: "Sebastian Kiesel, Michael Scharf",
            title: "Modeling and Performance Evaluation of SCTP as Transport Protocol for Firewall Control",
            place: "University of Stuttgart",
            year: 2006,
        }
    }

    fn fitted(&self) -> Vec<FittedSetting> {
        vec![FittedSetting {
            setting: "missing reports are counted again after each fast retransmission",
            chosen_by: "response times over the number of streams, Fig. 10 and 11",
            alternatives: "with RFC 9260’s Fast Recovery, rows “once”, single losses of a retransmission wait for T3-rtx",
        }]
    }

    fn usual(&self) -> Option<&'static str> {
        Some("sctp.p1.n1")
    }

    fn live(&self, options: &RunOptions) -> Result<crate::live::LivePlan, &'static str> {
        Ok(live::plan(*self, options))
    }

    fn cells(&self) -> Vec<String> {
        let cells = cells().into_iter();
        cells
            .map(|(variant, cell)| rows::name(variant, cell))
            .collect()
    }

    fn repetitions(&self, options: &RunOptions) -> u64 {
        options.repetitions(REPETITIONS.0, REPETITIONS.1)
    }

    fn replay(
        &self,
        (cell, repetition): (&str, u64),
        options: &RunOptions,
        capture: Capture<'_>,
    ) -> Result<(), String> {
        let mut all = cells().into_iter();
        let found = all.find(|(variant, own)| rows::name(variant, *own) == cell);
        let (variant, cell) = found.ok_or_else(|| format!("there is no cell {cell}"))?;
        let seed = derive(options.seed, &[repetition]);
        run::run(variant, cell, workload(), length(options), seed, capture).map(drop)
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, LabError> {
        let repetitions = self.repetitions(options);
        let observed = self.simulate(options.seed, repetitions, length(options), progress)?;
        // Without --full, each repetition is shorter, too.
        let whole = options.full && repetitions >= REPETITIONS.1;
        let shortened = (!whole).then_some(REPETITIONS.1);
        Ok(show::result(*self, &observed, options.seed).extended(options, shortened))
    }
}

/// Returns the measurement time of a repetition.
fn length(options: &RunOptions) -> Duration {
    if options.full { FULL } else { SHORT }
}

/// A cell with all its repetitions.
struct Observation {
    variant: &'static Variant,
    cell: Cell,
    runs: Vec<SimulationRun>,
}

impl Observation {
    /// Returns the mean response time of PER requests in each repetition, in ms.
    fn means(&self) -> Vec<f64> {
        let means = self
            .runs
            .iter()
            .filter_map(|run| run.measures.enable.mean());
        means.map(|mean| mean.as_secs_f64() * 1e3).collect()
    }

    /// Returns the measurements of all repetitions together.
    fn together(&self) -> Measures {
        let mut all = Measures::default();
        self.runs.iter().for_each(|run| all.add(&run.measures));
        all
    }

    /// Returns a quantile of all response times of PER requests, in ms.
    fn quantile(&self, share: f64) -> f64 {
        let quantile = self.together().enable.quantile(share);
        quantile.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }

    /// Returns the mean over the repetitions, in ms.
    fn mean(&self) -> f64 {
        crate::stats::mean(&self.means()).unwrap_or(f64::NAN)
    }

    /// Returns the number of expirations of T3-rtx at the agent.
    fn timeouts(&self) -> u64 {
        self.runs.iter().map(|run| run.timeouts).sum()
    }
}

/// All results.
struct Observed {
    observations: Vec<Observation>,
    repetitions: u64,
    duration: Duration,
}

impl Observed {
    fn find(&self, variant: &Variant, loss: u32, streams: u16) -> Option<&Observation> {
        let cell = Cell { loss, streams };
        let mut all = self.observations.iter();
        all.find(|o| o.variant.id == variant.id && o.cell == cell)
    }
}

impl Firewall {
    fn simulate(
        self,
        seed: u64,
        repetitions: u64,
        duration: Duration,
        progress: &dyn Progress,
    ) -> Result<Observed, LabError> {
        let cells = cells();
        let jobs = cells.len() * repetitions as usize;
        progress.begin(self.name(), jobs as u64);
        let results = parallel::run(jobs, |job| {
            let (variant, cell) = cells[job % cells.len()];
            let repetition = job / cells.len();
            // A repetition has the same load in every cell.
            let seed = derive(seed, &[repetition as u64]);
            let outcome = run::run(variant, cell, workload(), duration, seed, Capture::NONE);
            progress.step();
            outcome.map_err(|error| format!("{} {cell:?}: {error}", variant.id))
        });
        progress.end();
        let mut observations: Vec<Observation> = cells
            .into_iter()
            .map(|(variant, cell)| Observation {
                variant,
                cell,
                runs: Vec::new(),
            })
            .collect();
        let count = observations.len();
        for (job, result) in results.into_iter().enumerate() {
            let run = result.map_err(|what| LabError::Simulation {
                scenario: self.name().into(),
                what,
            })?;
            observations[job % count].runs.push(run);
        }
        Ok(Observed {
            observations,
            repetitions,
            duration,
        })
    }
}
