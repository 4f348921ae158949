//! Module `carrick_lab._core`: scenarios and experiments of `carrick-lab` for Python.
//!
//! The module converts arguments, results and errors; the Python part of the package has the interface. A run is
//! calculated without the interpreter's lock, and ends when Python raises an exception such as `KeyboardInterrupt`.

#![allow(
    clippy::needless_pass_by_value,
    reason = "arguments are converted from values of Python"
)]

mod error;
mod watch;

use std::path::PathBuf;

use carrick_lab::file::{Experiment, Job, ScenarioFile, Shard, ShardFile};
use carrick_lab::report::RunInfo;
use carrick_lab::{RunOptions, ScenarioResult, output, repetitions_to_csv, to_csv};
use pyo3::prelude::*;

use error::{ScenarioError, raised};
use watch::watched;

/// Name, label, and swept keys with their values.
type CellEntry = (String, String, Vec<(String, String)>);
/// Seed, repetitions (`None` for those of the file), and whether the run is a full one.
type Options = (u64, Option<u64>, bool);

fn options((seed, reps, full): Options) -> RunOptions {
    RunOptions { seed, reps, full }
}

/// A scenario, or an experiment with published values.
#[derive(Debug)]
#[pyclass(frozen, module = "carrick_lab._core")]
struct Scenario {
    file: ScenarioFile,
    experiment: Option<Experiment>,
}

impl From<Experiment> for Scenario {
    fn from(experiment: Experiment) -> Self {
        Self {
            file: experiment.scenario().clone(),
            experiment: Some(experiment),
        }
    }
}

#[pymethods]
impl Scenario {
    /// Parses the text of a scenario file with changes.
    #[staticmethod]
    fn parse(path: &str, text: &str, changes: &str) -> PyResult<Self> {
        let file = ScenarioFile::parse_changed(path, text, changes);
        Ok(Self {
            file: file.map_err(|error| ScenarioError::new_err(error.to_string()))?,
            experiment: None,
        })
    }

    /// Parses the files of an experiment with changes of its scenario.
    #[staticmethod]
    fn parse_experiment(
        name: &str,
        path: Option<&str>,
        files: Vec<(String, String)>,
        changes: &str,
    ) -> PyResult<Self> {
        let experiment = Experiment::parse(name, path, files, changes);
        experiment
            .map(Self::from)
            .map_err(|error| ScenarioError::new_err(error.to_string()))
    }

    /// Loads the published experiment of this name, or that in this folder.
    #[staticmethod]
    fn load_experiment(name: String) -> PyResult<Self> {
        let found = Experiment::select(&[name], false).map_err(raised)?;
        let found = found.into_iter().next();
        let missing = || ScenarioError::new_err("there is no such experiment");
        found.map(Self::from).ok_or_else(missing)
    }

    #[getter]
    fn name(&self) -> &str {
        self.file.name()
    }

    #[getter]
    fn title(&self) -> &str {
        self.file.title()
    }

    /// Hash of the file and its changes, as in the files of runs.
    #[getter]
    fn fingerprint(&self) -> String {
        format!("{:016x}", self.file.fingerprint())
    }

    /// Seed of a run that gives none.
    #[getter]
    fn seed(&self) -> u64 {
        let own = match self.experiment {
            Some(_) => None,
            None => self.file.seed(),
        };
        own.unwrap_or(RunOptions::default().seed)
    }

    /// Names and texts of the files of an experiment.
    #[getter]
    fn files(&self) -> Vec<(String, String)> {
        let files = self.experiment.as_ref().map(|own| own.files().to_vec());
        files.unwrap_or_default()
    }

    /// Name, label, and the swept keys with their values of each cell.
    #[getter]
    fn cells(&self) -> Vec<CellEntry> {
        let names = self.file.cell_names().into_iter();
        names
            .zip(self.file.cells())
            .map(|(name, cell)| (name, cell.label().to_owned(), cell.values().to_vec()))
            .collect()
    }

    /// Runs all repetitions on all cores.
    fn run(
        &self,
        py: Python<'_>,
        options: Options,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<RunResult> {
        let options = self::options(options);
        let result = watched(py, progress, |watch| match &self.experiment {
            Some(experiment) => experiment.run(&options, watch),
            None => self.file.run(&options, watch),
        });
        Ok(self.run_result(result?))
    }

    /// Runs the missing runs of a shard on all cores; returns the path of its file, and how many runs it had and got.
    fn sweep(
        &self,
        py: Python<'_>,
        options: Options,
        shard: &str,
        directory: PathBuf,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(PathBuf, usize, usize)> {
        let options = self::options(options);
        let shard = Shard::parse(shard, |name| std::env::var(name).ok());
        let shard = shard.map_err(|what| ScenarioError::new_err(format!("shard: {what}")))?;
        let done = watched(py, progress, |watch| {
            self.file.sweep(&options, shard, &directory, watch)
        })?;
        Ok((done.path, done.before, done.added))
    }

    /// Merges the files of all shards.
    fn merge(
        &self,
        py: Python<'_>,
        options: Options,
        directory: PathBuf,
        messages: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<RunResult> {
        let options = self::options(options);
        let result = watched(py, progress, |watch| match &self.experiment {
            Some(experiment) => experiment.merge(&options, &directory, messages, watch),
            None => self.file.merge(&options, &directory),
        });
        Ok(self.run_result(result?))
    }

    /// Opens the file of all runs in a directory.
    fn open(&self, options: Options, directory: PathBuf) -> PyResult<Records> {
        let options = self::options(options);
        let file = self.file.open_shard(&options, Shard::ALL, &directory);
        Ok(Records {
            scenario: self.file.clone(),
            options,
            file: file.map_err(raised)?,
        })
    }

    /// Runs one repetition of a cell; returns its line of the file of runs.
    fn run_line(
        &self,
        py: Python<'_>,
        options: Options,
        cell: usize,
        repetition: u64,
    ) -> PyResult<String> {
        let options = self::options(options);
        watched(py, None, |watch| {
            let stop = carrick_lab::Progress::stop(watch);
            self.file.run_line(&options, (cell, repetition), stop)
        })
    }
}

impl Scenario {
    fn run_result(&self, result: ScenarioResult) -> RunResult {
        let title = match self.experiment {
            Some(_) => None,
            None => Some(self.file.title().to_owned()).filter(|title| !title.is_empty()),
        };
        RunResult { result, title }
    }
}

/// File of all runs of a scenario, locked against other processes.
#[derive(Debug)]
#[pyclass(frozen, module = "carrick_lab._core")]
struct Records {
    scenario: ScenarioFile,
    options: RunOptions,
    file: ShardFile,
}

#[pymethods]
impl Records {
    #[getter]
    fn path(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    /// Cells and repetitions that were missing when the file was opened.
    #[getter]
    fn missing(&self) -> Vec<Job> {
        self.file.missing().to_vec()
    }

    /// Number of runs that the file had when it was opened.
    #[getter]
    fn before(&self) -> usize {
        self.file.before()
    }

    /// Checks and appends the line of a run.
    fn append(&self, cell: usize, repetition: u64, line: &str) -> PyResult<()> {
        let job = (cell, repetition);
        let done = self.scenario.append(&self.options, &self.file, job, line);
        done.map_err(raised)
    }
}

/// Result of a scenario or experiment.
#[derive(Debug)]
#[pyclass(frozen, module = "carrick_lab._core")]
struct RunResult {
    result: ScenarioResult,
    /// Title of the report of a scenario file.
    title: Option<String>,
}

#[pymethods]
impl RunResult {
    /// The result as the command's JSON.
    fn json(&self) -> String {
        self.result.to_json().to_string()
    }

    fn rows_csv(&self) -> String {
        to_csv(&self.result.rows)
    }

    fn repetitions_csv(&self) -> String {
        repetitions_to_csv(self.result.seed, &self.result.rows)
    }

    /// The figures as JSON, each with its points as CSV.
    fn figures(&self) -> PyResult<Vec<(String, String)>> {
        let figures = self.result.figures.iter();
        figures
            .map(|figure| {
                let json = serde_json::to_string(figure);
                let json = json.map_err(|error| ScenarioError::new_err(error.to_string()))?;
                Ok((json, figure.to_csv()))
            })
            .collect()
    }

    /// Writes the command's report; returns the paths of its files.
    fn write(&self, directory: PathBuf) -> PyResult<Vec<PathBuf>> {
        let mut info = RunInfo::new(self.result.seed);
        if let Some(title) = &self.title {
            info = info.titled(title);
        }
        let written = output::write(&directory, &info, std::slice::from_ref(&self.result));
        written.map_err(raised)
    }
}

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::{Records, RunResult, Scenario};
    #[pymodule_export]
    use crate::error::{LabError, ScenarioError};
    use pyo3::prelude::*;

    /// Version of the laboratory.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Returns the names of the published experiments.
    #[pyfunction]
    fn published() -> Vec<&'static str> {
        carrick_lab::file::Experiment::published_names().into()
    }
}
