//! Scenario files: TOML files with hosts, links, a schedule, flows, measures and sweeps. The format
//! is documented in `docs/scenario-files.md`.
//!
//! ```
//! use carrick_lab::file::ScenarioFile;
//! use carrick_lab::{RunOptions, Silent};
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
mod change;
mod error;
mod experiment;
mod flows;
mod library;
mod live;
mod measure;
mod model;
mod network;
mod path_change;
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
mod window_kept;

use std::path::Path;
use std::time::Duration;

pub use error::FileError;
pub use experiment::Experiment;
pub use shard::{Job, Shard, ShardFile, Shards};
pub use sweep::Cell;

use build::Repetition;
use model::Model;
use reader::{Item, Section, keys};
use run::{CellRunResult, Details, Extras, RunFailure, WantedDetails};
use tree::Node;

use crate::error::LabError;
use crate::options::{Progress, RunOptions};
use crate::parallel;
use crate::result::ScenarioResult;

/// Values of all columns in a run; `None` where a measure is not defined.
type RunValues = Vec<Option<f64>>;
/// Values of each repetition of a cell.
type CellRuns = Vec<RunValues>;

/// A parsed scenario file, with all cells of its sweep.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// The scenario on the command line: path of a file or folder, or name of a published experiment.
    path: String,
    name: String,
    head: Head,
    fingerprint: u64,
    text: String,
    /// Document of the keys that the caller has changed; empty if there are none.
    changes: String,
    cells: Vec<(Cell, Model)>,
    /// Repetitions of each cell that has its own number of them, of a short and of a full run.
    own_repetitions: Vec<Option<[u64; 2]>>,
}

/// Keys of the file that do not describe the network.
#[derive(Clone, Debug, Default)]
struct Head {
    title: String,
    question: String,
    /// Repetitions of a short and of a full run.
    repetitions: [u64; 2],
    /// Patterns of the names of cells that run once.
    once: Vec<String>,
    /// Patterns of the names of cells that only a full run has.
    full_only: Vec<String>,
    /// Seed given in the file.
    seed: Option<u64>,
    live: live::LiveCells,
}

impl ScenarioFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`LabError::Read`] if it cannot be read, [`LabError::File`] if it is invalid.
    pub fn load(path: &Path) -> Result<Self, LabError> {
        let text = read_text(path)?;
        Self::parse(&path.display().to_string(), &text).map_err(LabError::File)
    }

    /// Parses the text of a file; `name` is its path in error messages.
    ///
    /// # Errors
    /// Line, key and expected value of the first error. Every cell of the sweep is checked.
    pub fn parse(name: &str, text: &str) -> Result<Self, FileError> {
        Self::parse_changed(name, text, "")
    }

    /// Parses the text of a file with changes, a TOML document: each key sets that key of the file, and each
    /// `[[sweep]]` is a further dimension.
    ///
    /// # Errors
    /// As [`Self::parse`], without a line if a changed value is invalid; if the file has no such key; if a changed
    /// key is swept.
    pub fn parse_changed(name: &str, text: &str, changes: &str) -> Result<Self, FileError> {
        Self::read(name, text, changes).map_err(|error| error.of_file(name))
    }

    fn read(path: &str, text: &str, changes: &str) -> Result<Self, FileError> {
        let mut tree = tree::parse(text)?;
        let changed = change::apply(&mut tree, changes)?;
        let sweep = sweep::Sweep::read(&Section::root(&tree)?)?;
        let mut common = [1; 2];
        Section::root(&tree)?.set("repetitions", &mut common, repetitions)?;
        let mut cells = Vec::new();
        let mut own_repetitions = Vec::new();
        let mut head: Option<Head> = None;
        for cell in sweep.cells() {
            let mut tree = tree.clone();
            sweep.apply(&cell, &changed, &mut tree)?;
            let (own, model) = decode(&tree)?;
            own_repetitions.push((own.repetitions != common).then_some(own.repetitions));
            head.get_or_insert(own).repetitions = common;
            cells.push((cell, model));
        }
        let Some(head) = head else {
            return Err(FileError::new(0, "sweep", "contains no cell"));
        };
        let stem = Path::new(path).file_stem().and_then(|stem| stem.to_str());
        Ok(Self {
            path: path.into(),
            name: stem.unwrap_or("scenario").into(),
            head,
            fingerprint: fingerprint([text, changes]),
            text: text.into(),
            changes: changes.into(),
            cells,
            own_repetitions,
        })
    }

    /// Returns the name of the file without its extension.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the title given in the file, or its name.
    pub fn title(&self) -> &str {
        &self.head.title
    }

    /// Returns the cells of the sweep, in order; one if there is no sweep.
    pub fn cells(&self) -> impl ExactSizeIterator<Item = &Cell> {
        self.cells.iter().map(|(cell, _)| cell)
    }

    /// Returns the number of the cell with this name, label or number.
    ///
    /// # Errors
    /// [`LabError::Choice`] with some of the existing cells, if there is none.
    pub fn find_cell(&self, name: &str) -> Result<usize, LabError> {
        let number = name.parse().ok().filter(|n| *n < self.cells.len());
        let named = |cell: &Cell| !name.is_empty() && cell.name() == name || cell.label() == name;
        let labelled = || self.cells().position(named);
        number.or_else(labelled).ok_or_else(|| {
            let known = self.named_cells(|number, label| format!("{number} ('{label}')"));
            LabError::Choice {
                what: no_cell(name, &known),
            }
        })
    }

    /// Returns the names of all cells, by which [`Self::find_cell`] finds them.
    pub fn cell_names(&self) -> Vec<String> {
        self.named_cells(|_, label| label.to_owned())
    }

    /// Returns the names of all cells; `labelled` names one by its number and label, and one without a label has its
    /// number.
    fn named_cells(&self, labelled: impl Fn(usize, &str) -> String) -> Vec<String> {
        let name = |(number, cell): (usize, &Cell)| match (cell.name(), cell.label()) {
            ("", "") => number.to_string(),
            ("", label) => labelled(number, label),
            (name, _) => name.to_owned(),
        };
        self.cells().enumerate().map(name).collect()
    }

    /// Returns the number of the cell that an item names.
    fn cell_of(&self, item: &Item<'_>) -> Result<usize, FileError> {
        let found = self.find_cell(item.text()?);
        found.map_err(|error| item.error(error.to_string()))
    }

    /// Returns the number of repetitions of each cell with these options.
    pub fn repetitions(&self, options: &RunOptions) -> u64 {
        let [short, full] = self.head.repetitions;
        options.repetitions(short, full)
    }

    /// Returns the number of repetitions of one cell: 0 for those that only a full run has, 1 for those that
    /// `once` names, and at most its own if the cell has its own number.
    fn repetitions_of(&self, cell: usize, options: &RunOptions) -> u64 {
        let name = self.cells[cell].0.name();
        let is_in = |all: &[String]| all.iter().any(|own| sweep::matches(own, name));
        if !options.full && is_in(&self.head.full_only) {
            0
        } else if is_in(&self.head.once) {
            1
        } else {
            self.count(cell, options)
        }
    }

    /// Returns the number of repetitions over which a cell spreads its changes.
    fn count(&self, cell: usize, options: &RunOptions) -> u64 {
        match (self.own_repetitions[cell], options.reps) {
            (Some(own), Some(asked)) => own[usize::from(options.full)].min(asked.max(1)),
            (Some([short, full]), None) => options.repetitions(short, full),
            (None, _) => self.repetitions(options),
        }
    }

    /// Returns all runs: cell and repetition.
    fn jobs(&self, options: &RunOptions) -> Vec<Job> {
        let cells = 0..self.cells.len();
        let runs = |cell| (0..self.repetitions_of(cell, options)).map(move |number| (cell, number));
        cells.flat_map(runs).collect()
    }

    /// Returns a hash of the text of the file and of its changes.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the document of the keys that the caller has changed; empty if there are none.
    pub fn changes(&self) -> &str {
        &self.changes
    }

    /// Returns the seed given in the file, if any.
    pub fn seed(&self) -> Option<u64> {
        self.head.seed
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
        let (cells, _) = self.run_cells(options, progress, capture, &WantedDetails::default())?;
        Ok(result::of(self, options, &cells))
    }

    /// Runs all repetitions; returns the values of all columns, and what is wanted of single messages, for
    /// each cell and repetition.
    fn run_cells(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
        capture: Option<&Path>,
        wanted: &WantedDetails,
    ) -> Result<(Vec<CellRuns>, Vec<Vec<Details>>), LabError> {
        let jobs = self.jobs(options);
        let outcomes = self.run_jobs(&jobs, options, progress, capture, wanted)?;
        let mut cells: Vec<CellRuns> = vec![Vec::new(); self.cells.len()];
        let mut details: Vec<Vec<Details>> = vec![Vec::new(); self.cells.len()];
        for ((cell, _), (values, own)) in jobs.into_iter().zip(outcomes) {
            cells[cell].push(values);
            details[cell].push(own);
        }
        Ok((cells, details))
    }

    /// Runs again what is wanted of single messages.
    fn run_details(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
        wanted: &WantedDetails,
    ) -> Result<Vec<Vec<Details>>, LabError> {
        let samples = |cell| wanted.samples.iter().any(|(own, _)| *own == cell);
        let mut jobs = self.jobs(options);
        jobs.retain(|(cell, number)| {
            samples(*cell) || *number == 0 && wanted.messages.contains(cell)
        });
        let mut details: Vec<Vec<Details>> = vec![Vec::new(); self.cells.len()];
        if !jobs.is_empty() {
            let outcomes = self.run_jobs(&jobs, options, progress, None, wanted)?;
            for ((cell, _), (_, own)) in jobs.into_iter().zip(outcomes) {
                details[cell].push(own);
            }
        }
        Ok(details)
    }

    /// Runs these repetitions; returns the values of all columns, and what is wanted of single messages.
    fn run_jobs(
        &self,
        jobs: &[Job],
        options: &RunOptions,
        progress: &dyn Progress,
        capture: Option<&Path>,
        wanted: &WantedDetails,
    ) -> Result<Vec<(RunValues, Details)>, LabError> {
        progress.begin(&self.name, jobs.len() as u64);
        let outcomes = parallel::run(jobs.len(), |job| {
            let (cell, number) = jobs[job];
            let directory = capture.filter(|_| number == 0).map(|directory| {
                if self.cells.len() == 1 {
                    directory.to_path_buf()
                } else {
                    directory.join(format!("cell-{cell}"))
                }
            });
            let samples = wanted.samples.iter().filter(|(own, _)| *own == cell);
            let samples: Vec<usize> = samples.map(|(_, column)| *column).collect();
            let extras = Extras {
                capture: directory.as_deref(),
                messages: number == 0 && wanted.messages.contains(&cell),
                samples: &samples,
                log: false,
                stop: progress.stop(),
            };
            let outcome = self.run_one(cell, number, options, extras);
            progress.step();
            outcome.map(|outcome| (outcome.values, outcome.details))
        });
        progress.end();
        outcomes.into_iter().collect()
    }

    fn run_one(
        &self,
        cell: usize,
        number: u64,
        options: &RunOptions,
        extras: Extras<'_>,
    ) -> Result<CellRunResult, LabError> {
        let Some((own, model)) = self.cells.get(cell) else {
            return Err(LabError::Choice {
                what: format!(
                    "there is no cell {cell}; there are {}, from 0 on",
                    self.cells.len()
                ),
            });
        };
        let repetition = Repetition {
            seed: options.seed,
            number,
            count: self.count(cell, options),
        };
        if extras.is_stopped() {
            return Err(LabError::Stopped);
        }
        run::run(&model.of(options), repetition, extras).map_err(|failure| match failure {
            _ if extras.is_stopped() => LabError::Stopped,
            RunFailure::Capture(what) => LabError::Capture(what),
            RunFailure::Simulation(what) => LabError::Simulation {
                scenario: self.name.clone(),
                what: format!("cell {cell} ({}), repetition {number}: {what}", own.label()),
            },
        })
    }
}

/// Returns the error text of an unknown cell, with some of the existing ones.
fn no_cell(name: &str, known: &[String]) -> String {
    const SHOWN: usize = 12;
    let some = known[..SHOWN.min(known.len())].join(", ");
    let more = match known.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more: the id of a row begins with the name of its cell"),
    };
    format!("there is no cell '{name}'; there are {some}{more}")
}

/// Reads a text file.
fn read_text(path: &Path) -> Result<String, LabError> {
    let bytes = std::fs::read(path).map_err(LabError::read(path))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.split(|byte| *byte == b'\n').count();
        let what = "contains a byte that is not text; expected UTF-8";
        let name = path.display().to_string();
        LabError::File(FileError::new(line, "", what).of_file(&name))
    })
}

/// Parses the tree of one cell.
fn decode(tree: &Node) -> Result<(Head, Model), FileError> {
    let root = Section::root(tree)?;
    // Parsed by the construction of the cells.
    let _ = (root.get("cell"), root.get("sweep"), root.get("only"));
    let settings = settings::Settings::read(&root)?;
    let parts = network::Parts::read(&root, &settings)?;
    let flows = flows::read(&root, &parts)?;
    let measures = flows::measures(&root, &parts)?;
    let [length, full_duration] =
        root.needed("duration", "the length of a run such as \"60 s\"", |item| {
            short_and_full(item, "a time such as \"60 s\"", length)
        })?;
    let schedule = schedule::read(&root, &parts, length)?;
    let [warmup, full_warmup] = root.value_or("warmup", [Duration::ZERO; 2], |item| {
        short_and_full(item, "a time such as \"10 s\"", |item| item.read())
    })?;
    if warmup >= length || full_warmup >= full_duration {
        return Err(root.error("warmup: must be shorter than the duration"));
    }
    let model = Model {
        duration: length,
        warmup,
        full: [full_duration, full_warmup],
        nodes: parts.nodes,
        links: parts.links,
        schedule,
        flows,
        measures,
        until_last_send: root.value_or("measure_until", false, |item| {
            item.choice(&[("end", false), ("last-send", true)])
        })?,
        pause: root.value_or("pause", Duration::from_secs(1), Item::read)?,
    };
    let mut head = Head {
        repetitions: [1; 2],
        seed: root.value("seed", |item| item.whole(0..=i64::MAX as u64))?,
        ..Head::default()
    };
    keys!(root, head, Item::read; title, question, once, full_only);
    keys!(root, head, repetitions; repetitions);
    keys!(root, head, live::LiveCells::read; live);
    if head.live.alone {
        head.live.repetitions = head.repetitions;
    }
    root.finish()?;
    Ok((head, model))
}

/// Parses the length of a run.
fn length(item: &Item<'_>) -> Result<Duration, FileError> {
    let length: Duration = item.read()?;
    if length.is_zero() || length > Duration::from_secs(10_000_000) {
        return Err(item.wrong("a time above 0, at most 10000000 s"));
    }
    Ok(length)
}

/// Parses a number of repetitions, or those of a short and of a full run.
fn repetitions(item: &Item<'_>) -> Result<[u64; 2], FileError> {
    short_and_full(item, "a number of runs", |item| item.whole(1..=1_000_000))
}

/// Parses a value, or those of a short and of a full run.
fn short_and_full<T: Copy>(
    item: &Item<'_>,
    expected: &str,
    parse: impl Fn(&Item<'_>) -> Result<T, FileError>,
) -> Result<[T; 2], FileError> {
    if !item.is_table() {
        return parse(item).map(|value| [value; 2]);
    }
    item.table(|section| {
        let of = |key| section.needed(key, expected, &parse);
        Ok([of("short")?, of("full")?])
    })
}

/// Computes the FNV-1a hash of the texts.
fn fingerprint(texts: [&str; 2]) -> u64 {
    let bytes = texts.into_iter().flat_map(str::bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
