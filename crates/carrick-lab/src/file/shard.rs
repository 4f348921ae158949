//! Execution of a sweep in shards, for a cluster's scheduler. Each shard appends its runs to a
//! separate file, and continues there when it is started again.
//!
//! A run is one line, which is written at once. If the process is killed, an incomplete line may be
//! left; data after the last line break is discarded.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use super::ScenarioFile;
use super::result::{self, headings};
use super::run::Extras;
use crate::error::LabError;
use crate::options::{Progress, RunOptions};
use crate::parallel;
use crate::result::{ScenarioResult, field};

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
type Job = (usize, u64);
/// Values of the runs.
type Runs = BTreeMap<Job, Vec<Option<f64>>>;

impl ScenarioFile {
    /// Runs the missing runs of a shard, and appends them to the shard's file in `directory`, which
    /// is created if it does not exist.
    ///
    /// # Errors
    /// If the file belongs to a different scenario or different options, another process has locked
    /// it, it cannot be written, or a simulation fails.
    pub fn sweep(
        &self,
        options: &RunOptions,
        shard: Shard,
        directory: &Path,
        progress: &dyn Progress,
    ) -> Result<Shards, LabError> {
        crate::output::prepare(directory)?;
        let name = format!("{}-{}-of-{}.csv", self.name, shard.number, shard.count);
        let path = directory.join(name);
        let (file, done) = self.open(options, &path)?;
        let jobs = self.jobs(options).into_iter().enumerate();
        let jobs = jobs.filter(|(number, _)| shard.has(*number));
        let jobs: Vec<Job> = jobs.map(|(_, job)| job).collect();
        let missing = jobs.iter().filter(|job| !done.contains_key(job));
        let missing: Vec<Job> = missing.copied().collect();
        if let Some(foreign_run) = done.keys().find(|job| !jobs.contains(job)) {
            let what = format!("run {foreign_run:?} does not belong to this shard");
            return Err(foreign(&path, 0, &what));
        }
        progress.begin(&self.name, missing.len() as u64);
        let file = Mutex::new(file);
        let results = parallel::run(missing.len(), |index| {
            let (cell, number) = missing[index];
            let run = self.run_one(cell, number, options, Extras::default())?;
            let line = self.line(options, missing[index], &run.values);
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let written = file.write_all(line.as_bytes());
            written.map_err(LabError::write(&path))?;
            progress.step();
            Ok::<(), LabError>(())
        });
        progress.end();
        results.into_iter().collect::<Result<(), LabError>>()?;
        Ok(Shards {
            path: path.clone(),
            before: done.len(),
            added: missing.len(),
        })
    }

    /// Merges the files of all shards in `directory` into the result of a complete run.
    ///
    /// # Errors
    /// If a run is missing, or a file belongs to a different scenario or different options.
    pub fn merge(
        &self,
        options: &RunOptions,
        directory: &Path,
    ) -> Result<ScenarioResult, LabError> {
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
        // In the order of cells and repetitions.
        for ((cell, _), values) in runs {
            cells[cell].push(values);
        }
        Ok(result::of(self, options, &cells))
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
        let mut fields: Vec<String> = ["file", "seed", "repetitions", "cell", "repetition"]
            .map(Into::into)
            .into();
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
            format!("{:016x}", self.fingerprint),
            options.seed.to_string(),
            self.repetitions(options).to_string(),
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
        let columns = self
            .cells
            .first()
            .map_or(0, |(_, model)| headings(model).len());
        let jobs = self.jobs(options).into_iter();
        let known: BTreeMap<String, Job> =
            jobs.map(|job| (self.prefix(options, job), job)).collect();
        let mut runs = Runs::new();
        for (line, number) in lines {
            let mut fields = line.trim_end().rsplitn(columns + 1, ',');
            let values = fields.by_ref().take(columns).map(|value| match value {
                "" => Ok(None),
                value => value.parse().map(Some),
            });
            let values: Result<Vec<Option<f64>>, _> = values.collect();
            let Some(job) = fields.next().and_then(|prefix| known.get(prefix)) else {
                let what = "belongs to a different scenario file, seed or number of repetitions; choose another directory";
                return Err(foreign(path, number, what));
            };
            let mut values = values
                .map_err(|_| foreign(path, number, "contains values that are not numbers"))?;
            values.reverse();
            if runs.insert(*job, values).is_some() {
                return Err(foreign(path, number, "contains a run for the second time"));
            }
        }
        Ok(runs)
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
