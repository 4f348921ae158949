//! Scenario files: TOML files with hosts, links, a schedule, flows, measures and sweeps. The format
//! is documented in `docs/scenario-files.md`.
//!
//! ```
//! use carrick_lab::file::ScenarioFile;
//! use carrick_lab::scenario::{RunOptions, Silent};
//!
//! let text = r#"
//! duration = "20 s"
//! measure = ["goodput"]
//! [hosts.a]
//! addresses = { wire = "10.0.0.1" }
//! [hosts.b]
//! addresses = { wire = "10.0.0.2" }
//! [links.wire]
//! between = ["a", "b"]
//! rate = "1 Mbit/s"
//! delay = "10 ms"
//! queue = "50 packets"
//! [flows.data]
//! from = "a"
//! to = "b"
//! kind = "bulk"
//! size = "1000 bytes"
//! "#;
//! let file = ScenarioFile::parse("wire.toml", text)?;
//! let result = file.run(&RunOptions::default(), &Silent)?;
//! let goodput = result.rows[0].measured.expect("it was measured");
//! assert!((800.0..1000.0).contains(&goodput), "{goodput} kbit/s");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build;
mod error;
mod flows;
mod library;
mod measure;
mod model;
mod network;
mod program;
mod reader;
mod result;
mod run;
mod schedule;
mod settings;
mod shard;
mod sweep;
mod trace;
mod tree;
mod units;

use std::path::Path;
use std::time::Duration;

pub use error::FileError;
pub use shard::{Shard, Shards};
pub use sweep::Cell;

use build::Repetition;
use model::Model;
use reader::{Item, Section};
use run::{CellRunResult, Extras};
use tree::Node;

use crate::error::LabError;
use crate::parallel;
use crate::result::ScenarioResult;
use crate::scenario::{Progress, RunOptions};

/// A parsed scenario file, with all cells of its sweep.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// Path of the file as given by the caller.
    path: String,
    name: String,
    title: String,
    question: String,
    repetitions: u64,
    /// Seed given in the file.
    seed: Option<u64>,
    fingerprint: u64,
    cells: Vec<(Cell, Model)>,
}

/// Keys of the file that do not describe the network.
struct Head {
    title: String,
    question: String,
    repetitions: u64,
    seed: Option<u64>,
}

impl ScenarioFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`LabError::Read`] if it cannot be read, [`LabError::File`] if it is invalid.
    pub fn load(path: &Path) -> Result<Self, LabError> {
        let bytes = std::fs::read(path).map_err(|source| LabError::Read {
            path: path.into(),
            source,
        })?;
        let name = path.display().to_string();
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.split(|byte| *byte == b'\n').count();
            let what = "contains a byte that is not text; expected TOML in UTF-8";
            LabError::File(FileError::new(line, "", what).of_file(&name))
        })?;
        Self::parse(&name, &text).map_err(LabError::File)
    }

    /// Parses the text of a file; `name` is its path in error messages.
    ///
    /// # Errors
    /// Line, key and expected value of the first error. Every cell of the sweep is checked.
    pub fn parse(name: &str, text: &str) -> Result<Self, FileError> {
        Self::read(name, text).map_err(|error| error.of_file(name))
    }

    fn read(path: &str, text: &str) -> Result<Self, FileError> {
        let tree = tree::parse(text)?;
        let sweep = sweep::Sweep::read(&Section::root(&tree)?)?;
        let mut cells = Vec::new();
        let mut head = None;
        for cell in sweep.cells() {
            let mut tree = tree.clone();
            sweep.apply(&cell, &mut tree)?;
            let (own, model) = decode(&tree)?;
            head.get_or_insert(own);
            cells.push((cell, model));
        }
        let Some(head) = head else {
            return Err(FileError::new(0, "sweep", "contains no cell"));
        };
        let stem = Path::new(path).file_stem().and_then(|stem| stem.to_str());
        Ok(Self {
            path: path.into(),
            name: stem.unwrap_or("scenario").into(),
            title: head.title,
            question: head.question,
            repetitions: head.repetitions,
            seed: head.seed,
            fingerprint: fingerprint(text),
            cells,
        })
    }

    /// Returns the name of the file without its extension.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the title given in the file, or its name.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the cells of the sweep, in order; one if there is no sweep.
    pub fn cells(&self) -> impl ExactSizeIterator<Item = &Cell> {
        self.cells.iter().map(|(cell, _)| cell)
    }

    /// Returns the number of the cell with this label or number.
    ///
    /// # Errors
    /// [`LabError::Choice`] with some of the existing cells, if there is none.
    pub fn find_cell(&self, name: &str) -> Result<usize, LabError> {
        const SHOWN: usize = 6;
        let number = name.parse().ok().filter(|n| *n < self.cells.len());
        let labelled = || self.cells().position(|cell| cell.label() == name);
        number.or_else(labelled).ok_or_else(|| {
            let labels: Vec<String> = self
                .cells()
                .take(SHOWN)
                .enumerate()
                .map(|(number, cell)| match cell.label() {
                    "" => number.to_string(),
                    label => format!("{number} ('{label}')"),
                })
                .collect();
            let more = match self.cells.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            LabError::Choice {
                what: format!(
                    "{} has no cell '{name}'; there are {}{more}",
                    self.name,
                    labels.join(", ")
                ),
            }
        })
    }

    /// Returns the number of repetitions of each cell with these options.
    pub fn repetitions(&self, options: &RunOptions) -> u64 {
        options.repetitions(self.repetitions, self.repetitions)
    }

    /// Returns a hash of the text of the file.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the seed given in the file, if any.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Runs all repetitions of all cells on all cores.
    ///
    /// # Errors
    /// If a simulation fails.
    pub fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, LabError> {
        self.run_captured(options, progress, None)
    }

    /// Runs all repetitions as [`Self::run`] does, and captures the first repetition of each cell
    /// at every interface, into `capture/cell-N/`, or into `capture` itself if there is one cell.
    ///
    /// # Errors
    /// See [`Self::run`]; also if a capture cannot be written.
    pub fn run_captured(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
        capture: Option<&Path>,
    ) -> Result<ScenarioResult, LabError> {
        let repetitions = self.repetitions(options);
        let jobs = self.cells.len() * repetitions as usize;
        progress.begin(&self.name, jobs as u64);
        let outcomes = parallel::run(jobs, |job| {
            let (cell, number) = (job / repetitions as usize, job as u64 % repetitions);
            let directory = capture.filter(|_| number == 0).map(|directory| {
                if self.cells.len() == 1 {
                    directory.to_path_buf()
                } else {
                    directory.join(format!("cell-{cell}"))
                }
            });
            let extras = Extras {
                log: false,
                capture: directory.as_deref(),
            };
            let outcome = self.run_one(cell, number, options, extras);
            progress.step();
            outcome.map(|outcome| outcome.values)
        });
        progress.end();
        let mut cells: Vec<Vec<Vec<Option<f64>>>> = vec![Vec::new(); self.cells.len()];
        for (job, values) in outcomes.into_iter().enumerate() {
            cells[job / repetitions as usize].push(values?);
        }
        Ok(result::of(self, options, &cells))
    }

    fn run_one(
        &self,
        cell: usize,
        number: u64,
        options: &RunOptions,
        extras: Extras<'_>,
    ) -> Result<CellRunResult, LabError> {
        let repetition = Repetition {
            seed: options.seed,
            number,
            count: self.repetitions(options),
        };
        let Some((own, model)) = self.cells.get(cell) else {
            return Err(LabError::Choice {
                what: format!(
                    "there is no cell {cell}; there are {}, from 0 on",
                    self.cells.len()
                ),
            });
        };
        run::run(model, repetition, extras).map_err(|what| LabError::Simulation {
            scenario: self.name.clone(),
            what: format!("cell {cell} ({}), repetition {number}: {what}", own.label()),
        })
    }
}

/// Parses the tree of one cell.
fn decode(tree: &Node) -> Result<(Head, Model), FileError> {
    let root = Section::root(tree)?;
    // Parsed by the construction of the cells.
    let _ = root.get("sweep");
    let settings = settings::Settings::read(&root)?;
    let parts = network::Parts::read(&root, &settings)?;
    let flows = flows::read(&root, &parts)?;
    let measures = flows::measures(&root, &parts)?;
    let duration = root.need("duration", "the length of a run such as \"60 s\"")?;
    let length = duration.time()?;
    if length.is_zero() || length > Duration::from_secs(10_000_000) {
        return Err(duration.wrong("a time above 0, at most 10000000 s"));
    }
    let schedule = schedule::read(&root, &parts, length)?;
    let mut warmup = Duration::ZERO;
    root.set("warmup", &mut warmup, Item::time)?;
    if warmup >= length {
        return Err(root.error("warmup: must be shorter than the duration"));
    }
    let mut head = Head {
        title: String::new(),
        question: String::new(),
        repetitions: 1,
        seed: None,
    };
    root.set("title", &mut head.title, |i| i.text().map(Into::into))?;
    root.set("question", &mut head.question, |i| i.text().map(Into::into))?;
    root.set("repetitions", &mut head.repetitions, |i| {
        i.whole(1..=1_000_000)
    })?;
    root.set("seed", &mut head.seed, |i| {
        i.whole(0..=i64::MAX as u64).map(Some)
    })?;
    root.finish()?;
    let model = Model {
        duration: length,
        warmup,
        nodes: parts.nodes,
        links: parts.links,
        schedule,
        flows,
        measures,
    };
    Ok((head, model))
}

/// Computes the FNV-1a hash of the text.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
