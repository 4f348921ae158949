//! Experiments as folders: a scenario, the values of a paper, figures and text.
//!
//! | file | contents |
//! |---|---|
//! | `scenario.toml` | hosts, links, flows, schedule, settings, the cells; as any scenario file |
//! | `published.toml` | the paper, the rows of the table with their published values and bounds, fitted settings |
//! | `figures.toml` | the drawing of the network, figures over the rows (optional) |
//! | `report.md` | question, settings and notes in words, with values of the rows (optional) |
//!
//! The format is documented in `docs/scenario-files.md`.

mod figures;
mod formula;
mod live;
mod rows;
mod scope;
mod template;
mod text;

use std::path::Path;
use std::sync::Arc;

use super::model::Model;
use super::reader::Section;
use super::run::{Details, Extras, WantedDetails};
use super::{FileError, ScenarioFile, tree};
use crate::error::LabError;
use crate::live::{BuildWorld, LivePlan, LiveRun};
use crate::options::{Progress, RunOptions};
use crate::output;
use crate::parallel;
use crate::publication::Publication;
use crate::result::{LiveResult, LiveValues, Row, ScenarioResult, Setting};
use crate::trace::TraceOptions;

use figures::Figures;
use rows::Published;
use text::{ReportText, ReportValues};

/// Names of the files of a folder; the first two are needed.
const FILES: [&str; 4] = [
    "scenario.toml",
    "published.toml",
    "figures.toml",
    "report.md",
];

/// An experiment from a folder.
#[derive(Clone, Debug)]
pub struct Experiment(Arc<Contents>);

#[derive(Debug)]
struct Contents {
    /// The experiment is not part of the program.
    is_folder: bool,
    file: ScenarioFile,
    published: Published,
    figures: Figures,
    text: ReportText,
    /// Names and texts of the files.
    files: Vec<(String, String)>,
}

impl Experiment {
    /// Reads a folder; its name is that of the experiment.
    ///
    /// # Errors
    /// [`LabError::Read`] if a file cannot be read, [`LabError::File`] if it is invalid.
    pub fn load(folder: &Path) -> Result<Self, LabError> {
        let mut files = Vec::new();
        for (number, name) in FILES.into_iter().enumerate() {
            let path = folder.join(name);
            if number < 2 || path.exists() {
                files.push((name.to_owned(), super::read_text(&path)?));
            }
        }
        let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
        let name = whole.file_name().and_then(|name| name.to_str());
        let path = folder.display().to_string();
        let name = name.unwrap_or("experiment");
        Self::parse(name, Some(&path), files, "").map_err(LabError::File)
    }

    /// Returns an experiment whose files are part of the program.
    pub(super) fn built_in(name: &str, texts: [&str; 4]) -> Self {
        let files = FILES.into_iter().zip(texts);
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        match Self::parse(name, None, files.collect(), "") {
            Ok(experiment) => experiment,
            // A test reads all of them.
            Err(error) => unreachable!("{error}"),
        }
    }

    /// Returns the names and texts of the files.
    pub fn files(&self) -> &[(String, String)] {
        &self.0.files
    }

    /// Parses the files of a folder, given by their names and texts, with changes of the scenario (see
    /// [`ScenarioFile::parse_changed`]). `path` is that of the folder; `None` for a published experiment.
    ///
    /// # Errors
    /// The first error in a file or change; also if a row has a cell or measure that the changes remove.
    pub fn parse(
        name: &str,
        path: Option<&str>,
        files: Vec<(String, String)>,
        changes: &str,
    ) -> Result<Self, FileError> {
        let text = |name: &str| {
            let found = files.iter().find(|(own, _)| own == name);
            found.map_or("", |(_, text)| text.as_str())
        };
        let place = |file: &str| match &path {
            Some(path) => Path::new(path).join(file).display().to_string(),
            None => format!("{name}/{file}"),
        };
        let mut file = ScenarioFile::parse_changed(&place(FILES[0]), text(FILES[0]), changes)?;
        file.name = name.into();
        file.path = path.unwrap_or(name).into();
        let of_file = |name| move |error: FileError| error.of_file(&place(name));
        let published = Self::read(text(FILES[1]), |root| Published::read(root, &file));
        let published = published.map_err(of_file(FILES[1]))?;
        let figures = |root: &Section<'_>| Figures::read(root, &published, &file);
        let figures = Self::read(text(FILES[2]), figures).map_err(of_file(FILES[2]))?;
        let text = ReportText::parse(text(FILES[3]), &published).map_err(of_file(FILES[3]))?;
        Ok(Self(Arc::new(Contents {
            is_folder: path.is_some(),
            file,
            published,
            figures,
            text,
            files,
        })))
    }

    fn read<T>(
        text: &str,
        read: impl FnOnce(&Section<'_>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let tree = tree::parse(text)?;
        read(&Section::root(&tree)?)
    }
}

/// Returns the rows of the table, without those of cells that only a full run has. A row of a cell that has no runs for
/// a reason has it as its note.
fn listed(published: &Published, rows: Vec<Row>, values: &LiveValues) -> Vec<Row> {
    let all = rows.into_iter().zip(&published.rows);
    let all = all.filter(|(_, template)| template.listed);
    all.filter_map(|(row, template)| {
        let reason = template
            .measured()
            .and_then(|own| values.absent.get(&own.cell));
        match reason {
            Some(reason) => Some(row.note(&format!("Not run: {reason}."))),
            None => published.has_runs(template, &values.cells).then_some(row),
        }
    })
    .collect()
}

impl Experiment {
    /// Returns the name on the command line and of the files.
    pub fn name(&self) -> &str {
        &self.0.file.name
    }

    /// Returns the paper whose results it reproduces.
    pub fn publication(&self) -> &Publication {
        &self.0.published.paper
    }

    /// Returns the network, the flows, the settings and the cells.
    pub fn scenario(&self) -> &ScenarioFile {
        &self.0.file
    }

    /// Returns the live runs.
    ///
    /// # Errors
    /// The reason why there are none.
    pub fn live(&self, options: &RunOptions) -> Result<LivePlan, &'static str> {
        live::plan(self, options)
    }

    /// Returns whether cells have live runs.
    pub fn has_live_cells(&self) -> bool {
        self.is_live_only() || !self.0.file.head.live.cells.is_empty()
    }

    /// Returns whether the experiment has live runs only, whose values are its rows ([`Self::live_result`]).
    pub fn is_live_only(&self) -> bool {
        self.0.file.head.live.alone
    }

    /// Returns the network of a cell for other programs: that of its live runs, which may be named by the beginning
    /// of the name of a run, with changes counted from the first message. For a cell without live runs see
    /// [`ScenarioFile::world`].
    ///
    /// # Errors
    /// [`LabError::Choice`] if there is no such cell.
    pub fn world(&self, cell: Option<&str>, seed: u64) -> Result<BuildWorld, LabError> {
        let file = &self.0.file;
        let options = RunOptions {
            seed,
            reps: Some(1),
            full: false,
        };
        let runs = self.live(&options).map(|plan| plan.runs);
        let wanted = cell.or(file.head.live.usual.as_deref());
        let is_wanted = |run: &LiveRun| wanted.is_some_and(|wanted| run.is_of(wanted));
        match runs.unwrap_or_default().into_iter().find(is_wanted) {
            Some(run) => Ok(run.world),
            None => file.world(cell, seed),
        }
    }

    /// Captures the first repetition of each of these cells at every interface, into files in
    /// `directory/CELL`, on all cores.
    ///
    /// # Errors
    /// See [`Self::run`]; also if a cell does not exist or a file cannot be written.
    pub fn capture(
        &self,
        cells: &[String],
        options: &RunOptions,
        directory: &Path,
        progress: &dyn Progress,
    ) -> Result<(), LabError> {
        output::prepare(directory)?;
        let file = &self.0.file;
        progress.begin(&format!("{}, captured", file.name), cells.len() as u64);
        let results = parallel::run(cells.len(), |number| {
            let into = directory.join(&cells[number]);
            let extras = Extras {
                capture: Some(&into),
                ..Extras::default()
            };
            let run = file.run_one(file.find_cell(&cells[number])?, 0, options, extras);
            progress.step();
            run.map(|_| ())
        });
        progress.end();
        results.into_iter().collect()
    }

    /// Runs one repetition of a cell as [`Self::run`] does and draws an association; see [`ScenarioFile::trace`].
    ///
    /// # Errors
    /// [`LabError::Choice`] if the cell, repetition or flow does not exist, or does not use SCTP;
    /// otherwise see [`Self::run`].
    pub fn trace(
        &self,
        cell: &str,
        options: &RunOptions,
        wanted: &TraceOptions<'_>,
    ) -> Result<ScenarioResult, LabError> {
        let file = &self.0.file;
        let number = file.find_cell(cell)?;
        let (repetition, repetitions) = (wanted.repetition, file.repetitions(options));
        if repetition >= repetitions {
            let name = &file.name;
            return Err(LabError::Choice {
                what: format!(
                    "there is no repetition {repetition} of experiment '{name}'; there are {repetitions}, from 0 on"
                ),
            });
        }
        file.trace(options, number, wanted)
    }

    /// Runs the experiment. Equal options give equal results.
    ///
    /// # Errors
    /// If a simulation fails, which is a fault of the stack or of the experiment, not of the caller.
    /// [`LabError::Choice`] if the experiment has live runs only.
    pub fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, LabError> {
        if self.is_live_only() {
            let what = format!("experiment '{}' needs --live", self.name());
            return Err(LabError::Choice { what });
        }
        let Contents { file, figures, .. } = &*self.0;
        let (cells, details) = file.run_cells(options, progress, None, &figures.wanted())?;
        Ok(self.result(options, &LiveValues::of_cells(cells), &details))
    }

    /// Returns the result of an experiment whose values are those of its live runs.
    pub fn live_result(&self, options: &RunOptions, mut live: LiveResult) -> ScenarioResult {
        let values = std::mem::take(&mut live.values);
        let mut result = self.result(options, &values, &[]);
        result.live = Some(live);
        result
    }

    /// Merges the files of all shards in `directory` as [`ScenarioFile::merge`] does. With `messages`, repetitions of
    /// which figures show single messages run once more, on all cores; otherwise these figures have no points.
    ///
    /// # Errors
    /// See [`ScenarioFile::merge`] and [`Self::run`].
    pub fn merge(
        &self,
        options: &RunOptions,
        directory: &Path,
        messages: bool,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, LabError> {
        let Contents { file, figures, .. } = &*self.0;
        let cells = file.merged_cells(options, directory)?;
        let wanted = if messages {
            figures.wanted()
        } else {
            WantedDetails::default()
        };
        let details = file.run_details(options, progress, &wanted)?;
        Ok(self.result(options, &LiveValues::of_cells(cells), &details))
    }

    /// Returns the result of the values of all cells, and of what is wanted of single messages.
    fn result(
        &self,
        options: &RunOptions,
        values: &LiveValues,
        details: &[Vec<Details>],
    ) -> ScenarioResult {
        let Contents {
            file,
            published,
            figures,
            text,
            files,
            is_folder,
        } = &*self.0;
        let rows = published.measured(file, &values.cells);
        let repetitions = file.repetitions(options);
        let [_, full] = file.head.repetitions;
        let short = |(_, model): &(_, Model)| model.duration < model.full[0];
        let shorter =
            !options.full && (!file.head.full_only.is_empty() || file.cells.iter().any(short));
        let seconds = file.cells.first().map_or(0.0, |(_, model)| {
            let model = model.of(options);
            let measured = model.duration.saturating_sub(model.warmup);
            measured.as_secs_f64()
        });
        let context = ReportValues {
            rows: &rows,
            repetitions: repetitions as f64,
            seconds,
        };
        let question = match text.question.as_str() {
            "" => &file.head.question,
            question => question,
        };
        let mut result = ScenarioResult {
            publication: Some(published.paper.clone()),
            full: options.full,
            full_repetitions: (repetitions < full || shorter).then_some(full),
            figures: figures.drawn(&rows, details),
            drawing: figures.drawing.clone(),
            splits: figures.splits(&rows),
            settings: text.settings(&context),
            notes: text.notes(&context),
            fitted: published.fitted.clone(),
            files: files.clone(),
            ..ScenarioResult::empty(&file.name, question, options.seed, repetitions)
        };
        result.rows = listed(published, rows, values);
        if !file.changes.is_empty() {
            result
                .settings
                .push(Setting::new("changes", file.changes()));
        } else if *is_folder {
            let command = result.command().replacen(&file.name, &file.path, 1);
            result.settings.push(Setting::new("command", command));
        }
        result
    }
}
