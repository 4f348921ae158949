//! What the scenarios' live parts have in common: repetitions, in each of which every cell runs once, and the
//! same simulated.

use super::{Outcome, Plan, Record, Run, shortfalls};
use crate::error::LabError;
use crate::parallel;
use crate::result::LiveResult;

impl Plan {
    /// Of these runs, so many at the same time; `conclude` is given their names with their outcomes.
    pub(crate) fn new(
        runs: Vec<Run>,
        at_once: usize,
        conclude: impl FnOnce(&[String], Vec<Outcome>) -> Result<LiveResult, LabError> + 'static,
    ) -> Self {
        let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
        Self {
            runs,
            at_once,
            conclude: Box::new(move |outcomes| conclude(&names, outcomes)),
        }
    }
}

/// What came of the runs of some cells: all cells of the first repetition, then those of the next.
pub(crate) struct Measured<V> {
    /// For each cell its repetitions, `None` where a run brought nothing.
    pub(crate) cells: Vec<Vec<Option<V>>>,
    /// Why runs brought nothing.
    pub(crate) notes: Vec<String>,
}

impl<V> Measured<V> {
    /// Measures each run by `measure`, which is told the cell and the repetition.
    pub(crate) fn of(
        cells: usize,
        names: &[String],
        outcomes: &[Outcome],
        measure: impl Fn(usize, u64, &Record) -> Result<V, String>,
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
                all.notes
                    .push(format!("The run {name} went wrong: {what}."));
                None
            });
            all.cells[cell].push(measured);
        }
        all
    }

    /// For each cell the repetitions that were measured, live and simulated.
    pub(crate) fn beside<T>(self, twins: Vec<Vec<T>>) -> (Vec<Vec<(V, T)>>, Vec<String>) {
        let pair = |(live, twins): (Vec<Option<V>>, Vec<T>)| {
            let both = live.into_iter().zip(twins);
            both.filter_map(|(live, twin)| Some((live?, twin)))
                .collect()
        };
        let pairs = self.cells.into_iter().zip(twins).map(pair).collect();
        (pairs, self.notes)
    }
}

/// The same simulated, on all cores: for each cell its repetitions.
///
/// # Errors
/// If a simulation fails, which is a fault of the scenario.
pub(crate) fn twins<T: Send>(
    scenario: &str,
    (cells, repetitions): (usize, u64),
    simulate: impl Fn(usize, u64) -> Result<T, String> + Sync,
) -> Result<Vec<Vec<T>>, LabError> {
    let all = parallel::run(cells * repetitions as usize, |job| {
        simulate(job % cells, (job / cells) as u64)
    });
    let mut twins: Vec<Vec<T>> = (0..cells).map(|_| Vec::new()).collect();
    for (job, twin) in all.into_iter().enumerate() {
        let twin = twin.map_err(|what| LabError::Simulation {
            scenario: scenario.into(),
            what,
        })?;
        twins[job % cells].push(twin);
    }
    Ok(twins)
}

#[cfg(test)]
mod tests {
    use carrick_proto::Time;

    use super::super::Lateness;
    use super::*;

    fn ran(timeouts: u64) -> Outcome {
        Outcome::Ran(Record {
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
    fn each_live_value_stands_beside_the_simulation_of_its_cell_and_repetition() {
        let names: Vec<String> = ["a.0", "b.0", "a.1", "b.1"].map(String::from).to_vec();
        let outcomes = [ran(1), Outcome::Failed("it broke".into()), ran(9), ran(4)];
        let measured = Measured::of(
            2,
            &names,
            &outcomes,
            |cell, repetition, record| match record.timeouts {
                9 => Err("nothing was sent".into()),
                n => Ok((cell, repetition, n)),
            },
        );
        let twins = twins("x", (2, 2), |cell, repetition| Ok((cell, repetition)))
            .expect("they are simulated");
        let (pairs, notes) = measured.beside(twins);
        assert_eq!(pairs, [[((0, 0, 1), (0, 0))], [((1, 1, 4), (1, 1))]]);
        assert_eq!(notes.len(), 2);
        assert!(notes[1].contains("a.1 went wrong: nothing was sent"));
        let failed = super::twins("x", (1, 1), |_, _| Err::<(), _>("y".into()));
        assert!(failed.is_err_and(|error| error.to_string().contains("scenario x: y")));
    }
}
