//! Common parts of the scenarios' live runs: repetitions, in each of which every cell runs once,
//! and the corresponding simulations.

use super::{LivePlan, LiveRun, RunOutcome, RunRecord, shortfalls};
use crate::error::LabError;
use crate::parallel;
use crate::result::LiveResult;

impl LivePlan {
    /// Creates a plan; `conclude` receives the names of the runs with their outcomes.
    pub(crate) fn new(
        runs: Vec<LiveRun>,
        at_once: usize,
        conclude: impl FnOnce(&[String], Vec<RunOutcome>) -> Result<LiveResult, LabError> + 'static,
    ) -> Self {
        let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
        Self {
            runs,
            at_once,
            conclude: Box::new(move |outcomes| conclude(&names, outcomes)),
        }
    }
}

/// Measurements of the runs of some cells; the runs are ordered by repetition, then by cell.
pub(crate) struct LiveMeasurements<V> {
    /// Repetitions of each cell; `None` for a run without a result.
    pub(crate) cells: Vec<Vec<Option<V>>>,
    /// Reasons for missing results.
    pub(crate) notes: Vec<String>,
}

impl<V> LiveMeasurements<V> {
    /// Measures each run with `measure`, which receives the cell and the repetition.
    pub(crate) fn of(
        cells: usize,
        names: &[String],
        outcomes: &[RunOutcome],
        measure: impl Fn(usize, u64, &RunRecord) -> Result<V, String>,
    ) -> Self {
        let mut all = Self {
            cells: (0..cells).map(|_| Vec::new()).collect(),
            notes: shortfalls(names, outcomes),
        };
        for (number, (name, outcome)) in names.iter().zip(outcomes).enumerate() {
            let (repetition, cell) = ((number / cells) as u64, number % cells);
            let measured = outcome
                .record()
                .map(|record| measure(cell, repetition, record));
            let measured = measured.transpose().unwrap_or_else(|what| {
                all.notes.push(format!("The run {name} failed: {what}."));
                None
            });
            all.cells[cell].push(measured);
        }
        all
    }

    /// Pairs the live and simulated repetitions of each cell that have results.
    pub(crate) fn paired_with<T>(
        self,
        simulations: Vec<Vec<T>>,
    ) -> (Vec<Vec<(V, T)>>, Vec<String>) {
        let pair = |(live, simulations): (Vec<Option<V>>, Vec<T>)| {
            let both = live.into_iter().zip(simulations);
            both.filter_map(|(live, simulation)| Some((live?, simulation)))
                .collect()
        };
        let pairs = self.cells.into_iter().zip(simulations).map(pair).collect();
        (pairs, self.notes)
    }
}

/// Runs the corresponding simulations on all cores; returns the repetitions of each cell.
///
/// # Errors
/// If a simulation fails, which is a fault of the scenario.
pub(crate) fn simulate_cells<T: Send>(
    scenario: &str,
    (cells, repetitions): (usize, u64),
    simulate: impl Fn(usize, u64) -> Result<T, String> + Sync,
) -> Result<Vec<Vec<T>>, LabError> {
    let all = parallel::run(cells * repetitions as usize, |job| {
        simulate(job % cells, (job / cells) as u64)
    });
    let mut simulations: Vec<Vec<T>> = (0..cells).map(|_| Vec::new()).collect();
    for (job, simulation) in all.into_iter().enumerate() {
        let simulation = simulation.map_err(|what| LabError::Simulation {
            scenario: scenario.into(),
            what,
        })?;
        simulations[job % cells].push(simulation);
    }
    Ok(simulations)
}

#[cfg(test)]
mod tests {
    use carrick_proto::Time;

    use super::super::Lateness;
    use super::*;

    fn ran(timeouts: u64) -> RunOutcome {
        RunOutcome::Ran(RunRecord {
            begin: Time::ZERO,
            programs: Vec::new(),
            seen: Vec::new(),
            timeouts,
            lost: None,
            lateness: Lateness::default(),
            refused: 0,
        })
    }

    #[test]
    fn live_and_simulated_repetitions_are_paired() {
        let names: Vec<String> = ["a.0", "b.0", "a.1", "b.1"].map(String::from).to_vec();
        let outcomes = [
            ran(1),
            RunOutcome::Failed("it broke".into()),
            ran(9),
            ran(4),
        ];
        let measured =
            LiveMeasurements::of(
                2,
                &names,
                &outcomes,
                |cell, repetition, record| match record.timeouts {
                    9 => Err("nothing was sent".into()),
                    n => Ok((cell, repetition, n)),
                },
            );
        let simulations = simulate_cells("x", (2, 2), |cell, repetition| Ok((cell, repetition)))
            .expect("they are simulated");
        let (pairs, notes) = measured.paired_with(simulations);
        assert_eq!(pairs, [[((0, 0, 1), (0, 0))], [((1, 1, 4), (1, 1))]]);
        assert_eq!(notes.len(), 2);
        assert!(notes[1].contains("a.1 failed: nothing was sent"));
        let failed = super::simulate_cells("x", (1, 1), |_, _| Err::<(), _>("y".into()));
        assert!(failed.is_err_and(|error| error.to_string().contains("scenario x: y")));
    }
}
