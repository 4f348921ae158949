//! Execution of a sweep in shards, for a cluster's scheduler. Each shard appends its runs to a
//! separate file, and continues there when it is started again.
//!
//! A run is one line, which is written at once. If the process is killed, an incomplete line may be
//! left; data after the last line break is discarded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use super::result::{self, headings};
use super::run::Extras;
use super::{CellRuns, RunValues, ScenarioFile};
use crate::error::LabError;
use crate::options::{Progress, RunOptions};
use crate::parallel;
use crate::result::{ScenarioResult, field};

/// Version of the laboratory, in each line.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Columns before the swept keys. None of their values is quoted.
const FIRST_COLUMNS: [&str; 7] = [
    "version",
    "file",
    "seed",
    "repetitions",
    "full",
    "cell",
    "repetition",
];

/// Part of a sweep: `2/5` is the second of five.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Index from 1.
    number: usize,
    count: usize,
}

impl Shard {
    /// The whole sweep.
    pub const ALL: Self = Self {
        number: 1,
        count: 1,
    };

    /// Returns whether a run belongs to this shard: runs are assigned in turn.
    fn has(self, job: usize) -> bool {
        job % self.count == self.number - 1
    }
}

/// Variables of a scheduler: its name, the index of the task, the first index, the number of tasks.
struct TaskVariables {
    index: &'static str,
    first: FirstIndex,
    count: &'static str,
    /// How the number of tasks is given if the scheduler does not export it.
    advice: &'static str,
}

/// Index of the first task.
enum FirstIndex {
    Is(usize),
    /// The value of a variable.
    Of(&'static str),
}

/// Schedulers, those with job arrays first: a task of an array may have several processes.
const SCHEDULERS: [TaskVariables; 4] = [
    TaskVariables {
        index: "SLURM_ARRAY_TASK_ID",
        first: FirstIndex::Of("SLURM_ARRAY_TASK_MIN"),
        count: "SLURM_ARRAY_TASK_COUNT",
        advice: "",
    },
    TaskVariables {
        index: "PBS_ARRAY_INDEX",
        first: FirstIndex::Is(1),
        count: "PBS_ARRAY_COUNT",
        advice: ", which PBS does not export: for #PBS -J 1-N write auto/N, or qsub -v PBS_ARRAY_COUNT=N",
    },
    TaskVariables {
        index: "JOB_COMPLETION_INDEX",
        first: FirstIndex::Is(0),
        count: "JOB_COMPLETIONS",
        advice: ", which Kubernetes does not export: write auto/N with the manifest's completions, or add the variable to its env",
    },
    TaskVariables {
        index: "SLURM_PROCID",
        first: FirstIndex::Is(0),
        count: "SLURM_NTASKS",
        advice: "",
    },
];

impl Shard {
    /// Returns the shard of this task of a scheduler: a Slurm job array, a PBS job array with indices from 1, an
    /// indexed Job of Kubernetes, or a task that `srun` started. `variable` returns variables of the environment;
    /// `count`, if given, is the number of tasks instead of the scheduler's variable.
    ///
    /// # Errors
    /// The variable that is missing or out of range.
    pub fn of_scheduler(
        count: Option<usize>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let is_set = |own: &&TaskVariables| variable(own.index).is_some();
        let Some(own) = SCHEDULERS.iter().find(is_set) else {
            let known = SCHEDULERS.map(|own| own.index).join(", ");
            return Err(format!(
                "this is no task of a scheduler: none of {known} is set; write the shard as 2/5"
            ));
        };
        let number = |name: &str, advice: &str| {
            let text = variable(name).ok_or_else(|| format!("{name} is not set{advice}"))?;
            let number: Result<usize, _> = text.trim().parse();
            number.map_err(|_| format!("{name} is {text:?}; expected a whole number"))
        };
        let index = number(own.index, "")?;
        let count = count.map_or_else(|| number(own.count, own.advice), Ok)?;
        let first = match own.first {
            FirstIndex::Is(first) => first,
            FirstIndex::Of(name) => number(name, "")?,
        };
        let place = index.checked_sub(first).filter(|place| *place < count);
        let place = place.ok_or_else(|| {
            let last = (first + count).saturating_sub(1);
            format!(
                "{} is {index}; expected {first} to {last}, for {count} shards",
                own.index
            )
        })?;
        Ok(Self {
            number: place + 1,
            count,
        })
    }

    /// Parses a shard such as `2/5`; for `auto` and `auto/5` see [`Self::of_scheduler`].
    ///
    /// # Errors
    /// If it is neither, or the variables of the scheduler are missing or out of range.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        match text.strip_prefix("auto") {
            Some("") => Self::of_scheduler(None, variable),
            Some(count) => {
                let count = count.strip_prefix('/').and_then(|own| own.parse().ok());
                let count = count.filter(|count| *count > 0);
                let count = count.ok_or("expected auto, or auto/N with the number of shards")?;
                Self::of_scheduler(Some(count), variable)
            }
            None => text.parse(),
        }
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, count)| {
            Some(Self {
                number: number.parse().ok()?,
                count: count.parse().ok()?,
            })
        });
        parsed
            .filter(|shard| (1..=shard.count).contains(&shard.number))
            .ok_or_else(|| "expected a shard such as 2/5, the second of five".into())
    }
}

/// State of a shard's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards {
    /// Path of the file.
    pub path: PathBuf,
    /// Runs that the file contained before.
    pub before: usize,
    /// Runs that were added.
    pub added: usize,
}

/// Cell and repetition of a run.
pub type Job = (usize, u64);
/// Values of the runs.
type Runs = BTreeMap<Job, RunValues>;

/// A shard's file, locked against other processes until it is dropped.
#[derive(Debug)]
pub struct ShardFile {
    path: PathBuf,
    file: Mutex<File>,
    before: usize,
    missing: Vec<Job>,
}

impl ShardFile {
    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of runs that the file contained when it was opened.
    pub fn before(&self) -> usize {
        self.before
    }

    /// Returns the runs that were missing when it was opened.
    pub fn missing(&self) -> &[Job] {
        &self.missing
    }
}

impl ScenarioFile {
    /// Runs the missing runs of a shard, and appends them to the shard's file in `directory`, which
    /// is created if it does not exist.
    ///
    /// # Errors
    /// See [`Self::open_shard`]; also if a simulation fails.
    pub fn sweep(
        &self,
        options: &RunOptions,
        shard: Shard,
        directory: &Path,
        progress: &dyn Progress,
    ) -> Result<Shards, LabError> {
        let file = self.open_shard(options, shard, directory)?;
        let missing = file.missing();
        progress.begin(&self.name, missing.len() as u64);
        let results = parallel::run(missing.len(), |index| {
            let job = missing[index];
            let line = self.run_line(options, job, progress.stop())?;
            self.append(options, &file, job, &line)?;
            progress.step();
            Ok::<(), LabError>(())
        });
        progress.end();
        results.into_iter().collect::<Result<(), LabError>>()?;
        Ok(Shards {
            path: file.path.clone(),
            before: file.before,
            added: missing.len(),
        })
    }

    /// Opens the file of a shard in `directory`, which is created if it does not exist.
    ///
    /// # Errors
    /// If the file belongs to another version of the laboratory, a different scenario or different options, another
    /// process has locked it, or it cannot be written.
    pub fn open_shard(
        &self,
        options: &RunOptions,
        shard: Shard,
        directory: &Path,
    ) -> Result<ShardFile, LabError> {
        crate::output::prepare(directory)?;
        let name = format!("{}-{}-of-{}.csv", self.name, shard.number, shard.count);
        let path = directory.join(name);
        let (file, done) = self.open(options, &path)?;
        let jobs = self.jobs(options).into_iter().enumerate();
        let jobs = jobs.filter(|(number, _)| shard.has(*number));
        let jobs: BTreeSet<Job> = jobs.map(|(_, job)| job).collect();
        if let Some(foreign_run) = done.keys().find(|job| !jobs.contains(job)) {
            let what = format!("run {foreign_run:?} does not belong to this shard");
            return Err(foreign(&path, 0, &what));
        }
        let missing = jobs.into_iter().filter(|job| !done.contains_key(job));
        Ok(ShardFile {
            missing: missing.collect(),
            before: done.len(),
            file: Mutex::new(file),
            path,
        })
    }

    /// Runs one repetition of a cell; returns its line of a shard's file. `stop` ends it when it is set.
    ///
    /// # Errors
    /// If there is no such cell, or the simulation fails or is stopped.
    pub fn run_line(
        &self,
        options: &RunOptions,
        job: Job,
        stop: Option<&AtomicBool>,
    ) -> Result<String, LabError> {
        let extras = Extras {
            stop,
            ..Extras::default()
        };
        let run = self.run_one(job.0, job.1, options, extras)?;
        Ok(self.line(options, job, &run.values))
    }

    /// Appends the line of a run, which another process may have run, to a shard's file.
    ///
    /// # Errors
    /// If the line is of another version of the laboratory, a different scenario, different options or another run,
    /// or the file cannot be written.
    pub fn append(
        &self,
        options: &RunOptions,
        shard: &ShardFile,
        job: Job,
        line: &str,
    ) -> Result<(), LabError> {
        let refused = |what: &str| {
            let (cell, number) = job;
            let what = format!("the line of cell {cell}, repetition {number} {what}");
            foreign(&shard.path, 0, &what)
        };
        let (own, _) = self.run_of(options, line).map_err(|what| refused(&what))?;
        if own != job || line.find('\n') != Some(line.len() - 1) {
            return Err(refused("is not that of this run"));
        }
        let mut file = shard.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.write_all(line.as_bytes());
        written.map_err(LabError::write(&shard.path))
    }

    /// Merges the files of all shards in `directory` into the result of a complete run.
    ///
    /// # Errors
    /// If a run is missing, or a file belongs to another version of the laboratory, a different scenario or different
    /// options.
    pub fn merge(
        &self,
        options: &RunOptions,
        directory: &Path,
    ) -> Result<ScenarioResult, LabError> {
        let cells = self.merged_cells(options, directory)?;
        Ok(result::of(self, options, &cells))
    }

    /// Merges the files of all shards in `directory`; returns the runs of each cell in their order.
    pub(super) fn merged_cells(
        &self,
        options: &RunOptions,
        directory: &Path,
    ) -> Result<Vec<CellRuns>, LabError> {
        let mut runs = Runs::new();
        for path in self.shard_files(directory)? {
            let text = std::fs::read_to_string(&path).map_err(LabError::read(&path))?;
            for (job, values) in self.lines(options, &path, &text)? {
                if runs.insert(job, values).is_some() {
                    let what = format!(
                        "cell {}, repetition {} is also in another shard",
                        job.0, job.1
                    );
                    return Err(foreign(&path, 0, &what));
                }
            }
        }
        let wanted = self.jobs(options).len();
        if runs.len() < wanted {
            let what = format!(
                "only {} of {wanted} runs exist: run the missing shards first",
                runs.len()
            );
            return Err(foreign(directory, 0, &what));
        }
        let mut cells = vec![Vec::new(); self.cells.len()];
        for ((cell, _), values) in runs {
            cells[cell].push(values);
        }
        Ok(cells)
    }

    fn shard_files(&self, directory: &Path) -> Result<Vec<PathBuf>, LabError> {
        let failed = LabError::read(directory);
        let own = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str())?;
            let shard = name
                .strip_prefix(&self.name)?
                .strip_prefix('-')?
                .strip_suffix(".csv")?;
            shard.replacen("-of-", "/", 1).parse::<Shard>().ok()
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(&failed)? {
            let path = entry.map_err(&failed)?.path();
            if own(&path).is_some() {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }

    /// Opens a shard's file for appending, and parses its runs.
    fn open(&self, options: &RunOptions, path: &Path) -> Result<(File, Runs), LabError> {
        let failed = LabError::write(path);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(&failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => foreign(path, 0, "another process works on this shard"),
            TryLockError::Error(source) => failed(source),
        })?;
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => {
                    foreign(path, 0, "is not text, so it is not the file of a shard")
                }
                _ => failed(error),
            })?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(&failed)?;
            file.seek(SeekFrom::End(0)).map_err(&failed)?;
        }
        if whole == 0 {
            file.write_all(self.header().as_bytes()).map_err(&failed)?;
            return Ok((file, Runs::new()));
        }
        Ok((file, self.lines(options, path, &text[..whole])?))
    }

    fn header(&self) -> String {
        let mut fields: Vec<String> = FIRST_COLUMNS.map(Into::into).into();
        if let Some((cell, model)) = self.cells.first() {
            fields.extend(cell.values().iter().map(|(key, _)| key.clone()));
            let headings = headings(model).into_iter();
            fields.extend(headings.map(|heading| format!("{} [{}]", heading.id, heading.unit)));
        }
        record(&fields) + "\n"
    }

    /// Returns the first fields of a run's line.
    fn prefix(&self, options: &RunOptions, (cell, number): Job) -> String {
        let mut fields = vec![
            VERSION.to_owned(),
            format!("{:016x}", self.fingerprint),
            options.seed.to_string(),
            self.repetitions(options).to_string(),
            options.full.to_string(),
            cell.to_string(),
            number.to_string(),
        ];
        let values = self.cells[cell].0.values().iter();
        fields.extend(values.map(|(_, value)| value.clone()));
        record(&fields)
    }

    fn line(&self, options: &RunOptions, job: Job, values: &[Option<f64>]) -> String {
        let mut line = self.prefix(options, job);
        for value in values {
            line.push(',');
            line.extend(value.map(|value| value.to_string()));
        }
        line + "\n"
    }

    /// Parses the runs of a file.
    fn lines(&self, options: &RunOptions, path: &Path, text: &str) -> Result<Runs, LabError> {
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        let mut lines = text[..whole].split_inclusive('\n').zip(1..);
        if lines
            .next()
            .is_none_or(|(header, _)| header != self.header())
        {
            return Err(foreign(
                path,
                1,
                "has different columns: the scenario was changed; choose another directory",
            ));
        }
        let mut runs = Runs::new();
        for (line, number) in lines {
            let run = self.run_of(options, line);
            let (job, values) = run.map_err(|what| foreign(path, number, &what))?;
            if runs.insert(job, values).is_some() {
                return Err(foreign(path, number, "contains a run for the second time"));
            }
        }
        Ok(runs)
    }

    /// Parses the line of a run.
    fn run_of(&self, options: &RunOptions, line: &str) -> Result<(Job, RunValues), String> {
        let line = line.trim_end();
        let first: Vec<&str> = line.split(',').take(FIRST_COLUMNS.len()).collect();
        let &[version, .., cell, repetition] = &first[..] else {
            return Err("is incomplete".into());
        };
        if version != VERSION {
            return Err(format!(
                "was written by version {version} of the laboratory, and this is version {VERSION}: runs of different versions are not merged; choose another directory"
            ));
        }
        let job: Option<Job> = cell.parse().ok().zip(repetition.parse().ok());
        let exists = |(cell, number): &Job| {
            *cell < self.cells.len() && *number < self.repetitions_of(*cell, options)
        };
        let job = job.filter(exists);
        let parts = job.and_then(|job| {
            let values = line.strip_prefix(&self.prefix(options, job))?;
            Some((job, values))
        });
        let (job, values) = parts.ok_or(
            "belongs to a different scenario file, seed or number of repetitions; choose another directory",
        )?;
        let values = values.split(',').skip(1).map(|value| match value {
            "" => Ok(None),
            value => value.parse().map(Some),
        });
        let values: Result<RunValues, _> = values.collect();
        match values {
            Ok(values) if values.len() == headings(&self.cells[job.0].1).len() => Ok((job, values)),
            _ => Err("contains values that are not numbers".into()),
        }
    }
}

/// Returns a line of CSV without its end.
fn record(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|text| field(text).into_owned()).collect();
    fields.join(",")
}

fn foreign(path: &Path, line: usize, what: &str) -> LabError {
    LabError::File(super::FileError::new(line, "", what).of_file(&path.display().to_string()))
}
