//! Published experiments: their interface, their execution, and the list of them.

pub mod failover;
pub mod firewall;
pub mod mobile_ip;
pub mod overhead;
pub mod satellite;
mod trace;

use std::path::Path;

use crate::capture::Capture;
use crate::error::LabError;
use crate::live;
use crate::output;
use crate::parallel;
use crate::publication::{FittedSetting, Publication};
use crate::result::ScenarioResult;

pub use trace::trace;

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Seed from which all random numbers are derived.
    pub seed: u64,
    /// Repetitions of each variant; the scenario's own number if `None`.
    pub reps: Option<u64>,
    /// Runs as many repetitions as the publication, or as many as its precision requires, instead
    /// of as many as fit into a minute.
    pub full: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            reps: None,
            full: false,
        }
    }
}

impl RunOptions {
    /// Returns the number of repetitions, given the scenario's own numbers for a short and a full
    /// run.
    pub fn repetitions(&self, short: u64, full: u64) -> u64 {
        let own = if self.full { full } else { short };
        self.reps.unwrap_or(own).max(1)
    }

    /// Returns the number of live repetitions, given the scenario's own numbers; at most those of a
    /// full run, because all run at the same time.
    pub fn live_repetitions(&self, short: u64, full: u64) -> u64 {
        self.repetitions(short, full).min(full)
    }
}

/// Observer of the progress of scenarios, called from any thread.
pub trait Progress: Sync {
    /// Begins a scenario of `steps` steps.
    fn begin(&self, scenario: &str, steps: u64);
    /// Completes a step.
    fn step(&self);
    /// Completes the scenario.
    fn end(&self);
}

/// Progress observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: u64) {}
    fn step(&self) {}
    fn end(&self) {}
}

/// A published experiment that can be repeated.
pub trait Scenario: Sync {
    /// Returns the name on the command line and of the files.
    fn name(&self) -> &'static str;
    /// Returns the question of the experiment, in one sentence.
    fn question(&self) -> &'static str;
    /// Returns the publication that is repeated.
    fn publication(&self) -> Publication;
    /// Returns the settings that were chosen by published values.
    fn fitted(&self) -> Vec<FittedSetting> {
        Vec::new()
    }
    /// Returns the live cell whose network external programs get by default, if there is one.
    fn usual(&self) -> Option<&'static str> {
        None
    }
    /// Returns the live runs.
    ///
    /// # Errors
    /// The reason why there are none.
    fn live(&self, options: &RunOptions) -> Result<live::LivePlan, &'static str> {
        let _ = options;
        Err("live runs are not implemented.")
    }
    /// Returns the names of the cells, which are prefixes of the identifiers of their rows:
    /// `standard`, `sctp.p1.n6`.
    fn cells(&self) -> Vec<String>;
    /// Returns the number of repetitions of a cell in [`Self::run`]; deterministic and minor cells
    /// have fewer.
    fn repetitions(&self, options: &RunOptions) -> u64;
    /// Runs a repetition of a cell, counted from 0, as [`Self::run`] does, with captures.
    ///
    /// # Errors
    /// If the cell does not exist, the simulation fails, or a file cannot be written.
    fn replay(
        &self,
        of: (&str, u64),
        options: &RunOptions,
        capture: Capture<'_>,
    ) -> Result<(), String>;
    /// Runs the scenario. Equal options give equal results.
    ///
    /// # Errors
    /// If a simulation fails, which is a fault of the stack or of the scenario, not of the caller.
    fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, LabError>;
}

/// Returns the network of a live run of a scenario and its changes, for external programs: that of
/// the named cell, or of the scenario's default cell.
///
/// # Errors
/// [`LabError::Choice`] with the existing cells, if the named one does not exist.
pub fn world(
    scenario: &dyn Scenario,
    cell: Option<&str>,
    seed: u64,
) -> Result<live::BuildWorld, LabError> {
    let options = RunOptions {
        seed,
        reps: Some(1),
        full: false,
    };
    let choice = |what: String| LabError::Choice { what };
    let name = scenario.name();
    let nothing = |why: &str| choice(format!("scenario '{name}' has no live network: {why}"));
    let plan = scenario.live(&options).map_err(nothing)?;
    let cell = cell.or_else(|| scenario.usual());
    let cell = cell.ok_or_else(|| nothing("it has no default cell."))?;
    let mut known: Vec<String> = plan.runs.iter().map(live::LiveRun::cell).collect();
    known.dedup();
    let found = plan.runs.into_iter().find(|run| run.is_of(cell));
    let found = found.ok_or_else(|| {
        choice(format!(
            "scenario '{name}' has no live cell '{cell}'; there are {}",
            known.join(", ")
        ))
    })?;
    Ok(found.world)
}

/// Name for all cells of a scenario.
pub const EVERY_CELL: &str = "all";

/// Returns the named cells of a scenario: the first one if `names` is empty, each one for
/// [`EVERY_CELL`]. Names of cells of other scenarios are ignored.
pub fn select_cells(scenario: &dyn Scenario, names: &[String]) -> Vec<String> {
    let all = scenario.cells().into_iter();
    if names.is_empty() {
        return all.take(1).collect();
    }
    let wanted = |cell: &String| names.iter().any(|n| n == EVERY_CELL || n == cell);
    all.filter(wanted).collect()
}

/// Checks that each name is that of a cell of one of these scenarios, or [`EVERY_CELL`].
///
/// # Errors
/// [`LabError::Choice`] with some of the existing cells, for an unknown name.
pub fn check_cells(scenarios: &[&dyn Scenario], names: &[String]) -> Result<(), LabError> {
    let known: Vec<String> = scenarios.iter().flat_map(|s| s.cells()).collect();
    let unknown = |name: &&String| *name != EVERY_CELL && !known.contains(name);
    let Some(name) = names.iter().find(unknown) else {
        return Ok(());
    };
    let what = no_cell(name, &known);
    Err(LabError::Choice {
        what: format!("{what}, and '{EVERY_CELL}'"),
    })
}

/// Returns the error text of an unknown cell, with some of the existing ones.
fn no_cell(name: &str, known: &[String]) -> String {
    const SHOWN: usize = 12;
    let some = known[..SHOWN.min(known.len())].join(", ");
    let more = known.len().saturating_sub(SHOWN);
    let more = if more > 0 {
        format!(" and {more} more: the id of a row begins with the name of its cell")
    } else {
        String::new()
    };
    format!("there is no cell '{name}'; there are {some}{more}")
}

/// Captures the first repetition of each of these cells at every interface, into files in
/// `directory/CELL`, on all cores.
///
/// # Errors
/// See [`Scenario::run`]; also if a file cannot be written.
pub fn capture(
    scenario: &dyn Scenario,
    cells: &[String],
    options: &RunOptions,
    directory: &Path,
    progress: &dyn Progress,
) -> Result<(), LabError> {
    output::prepare(directory)?;
    progress.begin(
        &format!("{}, captured", scenario.name()),
        cells.len() as u64,
    );
    let results = parallel::run(cells.len(), |number| {
        let cell = &cells[number];
        let into = directory.join(cell);
        let done = scenario.replay((cell, 0), options, Capture::into(&into));
        progress.step();
        done.map_err(|what| LabError::Simulation {
            scenario: scenario.name().into(),
            what: format!("{cell}: {what}"),
        })
    });
    progress.end();
    results.into_iter().collect()
}

/// Returns all scenarios, in the order of their execution.
pub fn all() -> Vec<&'static dyn Scenario> {
    vec![
        &satellite::Satellite,
        &firewall::Firewall,
        &mobile_ip::MobileIp,
        &failover::FailoverScenario,
        &overhead::Overhead,
    ]
}

/// Returns the scenarios with these names, in the order of [`all`]; all of them if `names` is
/// empty.
///
/// # Errors
/// [`LabError::UnknownScenario`] for an unknown name.
pub fn select(names: &[String]) -> Result<Vec<&'static dyn Scenario>, LabError> {
    choose(all(), names)
}

fn choose<'a>(
    all: Vec<&'a dyn Scenario>,
    names: &[String],
) -> Result<Vec<&'a dyn Scenario>, LabError> {
    if let Some(unknown) = names
        .iter()
        .find(|name| all.iter().all(|s| s.name() != name.as_str()))
    {
        let known: Vec<&str> = all.iter().map(|s| s.name()).collect();
        return Err(LabError::UnknownScenario {
            name: unknown.clone(),
            known: known.join(", "),
        });
    }
    let wanted = |s: &&dyn Scenario| names.is_empty() || names.iter().any(|n| n == s.name());
    Ok(all.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str);

    impl Scenario for Named {
        fn name(&self) -> &'static str {
            self.0
        }
        fn question(&self) -> &'static str {
            "?"
        }
        fn publication(&self) -> Publication {
            Publication {
                authors: "A",
                title: "B",
                place: "C",
                year: 2001,
            }
        }
        fn cells(&self) -> Vec<String> {
            ["a", "b"].map(|cell| format!("{}.{cell}", self.0)).to_vec()
        }
        fn repetitions(&self, options: &RunOptions) -> u64 {
            options.repetitions(2, 2)
        }
        fn replay(
            &self,
            (cell, _): (&str, u64),
            _: &RunOptions,
            _: Capture<'_>,
        ) -> Result<(), String> {
            Err(format!("{cell} is a test"))
        }
        fn run(&self, _: &RunOptions, _: &dyn Progress) -> Result<ScenarioResult, LabError> {
            Err(LabError::Simulation {
                scenario: self.0.into(),
                what: "a test".into(),
            })
        }
    }

    fn chosen(names: &[&str]) -> Result<Vec<&'static str>, String> {
        let all: Vec<&dyn Scenario> = vec![&Named("one"), &Named("two")];
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        choose(all, &names)
            .map(|found| found.iter().map(|s| s.name()).collect())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn no_name_selects_all_in_a_fixed_order() {
        assert_eq!(chosen(&[]).unwrap(), ["one", "two"]);
        assert_eq!(chosen(&["two", "one", "two"]).unwrap(), ["one", "two"]);
    }

    #[test]
    fn errors_of_unknown_names_list_the_known_ones() {
        let error = chosen(&["two", "three"]).unwrap_err();
        assert_eq!(error, "there is no scenario 'three'; known: one, two");
    }

    #[test]
    fn cells_are_selected_by_name() {
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            select_cells(&Named("one"), &names)
        };
        assert_eq!(chosen(&[]), ["one.a"]);
        assert_eq!(chosen(&["two.a", "one.b"]), ["one.b"]);
        assert_eq!(chosen(&["all"]), ["one.a", "one.b"]);
        let all: Vec<&dyn Scenario> = vec![&Named("one"), &Named("two")];
        let check = |name: &str| check_cells(&all, &[name.into()]);
        assert!(check("two.b").is_ok() && check("all").is_ok());
        let error = check("two.c").map_err(|error| error.to_string());
        assert_eq!(
            error.unwrap_err(),
            "there is no cell 'two.c'; there are one.a, one.b, two.a, two.b, and 'all'"
        );
    }

    #[test]
    fn every_scenario_has_a_live_network() {
        for scenario in all() {
            let name = scenario.name();
            let build = world(scenario, None, 1).expect(name);
            let world = build().expect("the network is valid");
            let changes = matches!(name, "failover" | "mobile-ip");
            assert_eq!(!world.changes.is_empty(), changes, "{name}");
            assert!(!world.hosts.is_empty(), "{name}");
        }
        let error = world(all()[2], Some("config9"), 1).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("config1.0, config1.1"), "{text}");
        let world = world(all()[2], Some("config3.best.raw"), 1).expect("the cell exists");
        assert_eq!(world().expect("the network is valid").changes.len(), 2);
    }

    #[test]
    fn cell_names_are_unique() {
        for scenario in all() {
            let cells = scenario.cells();
            let names: std::collections::BTreeSet<&String> = cells.iter().collect();
            assert!(
                !cells.is_empty() && names.len() == cells.len(),
                "{}",
                scenario.name()
            );
        }
    }

    #[test]
    fn the_callers_repetitions_take_precedence() {
        let options = RunOptions::default();
        assert_eq!(options.repetitions(5, 50), 5);
        assert_eq!(
            RunOptions {
                full: true,
                ..options
            }
            .repetitions(5, 50),
            50
        );
        let asked = RunOptions {
            reps: Some(0),
            full: true,
            ..options
        };
        assert_eq!(asked.repetitions(5, 50), 1, "at least one repetition");
        let many = RunOptions {
            reps: Some(1000),
            ..options
        };
        assert_eq!(many.live_repetitions(3, 6), 6);
        assert_eq!(options.live_repetitions(3, 6), 3);
    }
}
