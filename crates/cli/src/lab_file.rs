//! `carrick lab run`, `sweep` and `trace`: scenarios from files.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use carrick_lab::file::{Experiment, ScenarioFile, Shard};
use carrick_lab::report::RunInfo;
use carrick_lab::{RunOptions, ScenarioResult, TraceOptions, output, to_csv, to_plain_table};
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::simulation_progress::SimulationProgress;
use crate::terminal::columns;
use crate::units;

/// Options of all subcommands that run files.
#[derive(Debug, Args)]
pub(crate) struct CommonOptions {
    /// Scenario file (see docs/scenario-files.md), folder of an experiment, or name of a published experiment:
    /// satellite, firewall, mobile-ip, failover, failover-signaling, overhead.
    file: PathBuf,
    /// Random seed [default: that of the file, or 1].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Repetitions of each cell [default: the number in the file].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    reps: Option<u64>,
}

/// Run a scenario of a TOML file in virtual time.
///
/// Runs every cell of the file's sweep with its number of repetitions, on all cores, and prints means with
/// their 95 % confidence intervals. The same seed gives the same results.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    form: OutputFormat,
    /// Write report.html, CSV, JSON and figures to this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Capture the first repetition of each cell at every interface, into pcapng files in this directory.
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
}

/// Format of printed results.
#[derive(Debug, Args)]
struct OutputFormat {
    /// Print JSON instead of a table.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV instead of a table.
    #[arg(long)]
    csv: bool,
}

/// Run a part of a sweep; resume it when started again.
///
/// Each run is a line in DIR/NAME-i-of-n.csv. If the process is killed, it completes the missing runs when
/// started again. `--merge` combines the files of all parts.
#[derive(Debug, Args)]
pub(crate) struct SweepArguments {
    #[command(flatten)]
    common: CommonOptions,
    /// Part to run: 2/5 is the second of five; auto is that of this task of Slurm, PBS or Kubernetes, auto/5 if the
    /// scheduler does not export the number of tasks.
    #[arg(long, value_name = "I/N", conflicts_with = "merge", value_parser = shard)]
    shard: Option<Shard>,
    /// Directory of the parts' files.
    #[arg(long, value_name = "DIR", default_value = "sweep")]
    out: PathBuf,
    /// Print the combined results of all parts instead of running one.
    #[arg(long)]
    merge: bool,
    #[command(flatten)]
    form: OutputFormat,
}

/// Draw the behaviour of one association in one run.
///
/// Writes SVG figures and a page with all of them: TSNs over time with retransmissions, acknowledgements
/// and losses; for each path cwnd, ssthresh and outstanding bytes, round-trip times and RTO; the states of
/// the paths. The data is the event log of the protocol core.
///
/// With the name of a published experiment and of one of its cells, draws a run that `carrick reproduce`
/// evaluates: carrick lab trace failover --cell pmr2.failover.
#[derive(Debug, Args)]
pub(crate) struct TraceArguments {
    #[command(flatten)]
    common: CommonOptions,
    /// Cell, as listed by `lab cells`: in a file's sweep its label or its number from 0; in a published
    /// experiment (such as satellite or failover) its name, such as sctp.p1.n6.
    #[arg(long, value_name = "CELL", default_value = "0")]
    cell: String,
    /// Repetition of the cell, from 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    repetition: u64,
    /// Flow whose association is drawn, as seen by its sender [default: the first flow].
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,
    /// Start of the interval to draw.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration)]
    from: Duration,
    /// End of the interval to draw [default: the end of the run].
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    to: Option<Duration>,
    /// Directory for the figures.
    #[arg(long, value_name = "DIR", default_value = "trace")]
    out: PathBuf,
    /// Capture the run at every interface, into pcapng files in this directory.
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
    /// Run as long as in `reproduce --full`; only with a published experiment.
    #[arg(long)]
    full: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// List the cells of a scenario file or a published experiment, by the names that --cell takes.
#[derive(Debug, Args)]
pub(crate) struct CellsArguments {
    /// Scenario file, folder of an experiment, or name of a published experiment.
    file: PathBuf,
    /// Print each cell as JSON on one line: its name, its number in a file, whether it has live runs.
    #[arg(long)]
    json: bool,
}

impl CommonOptions {
    /// Loads the file, or the published experiment of this name if there is no such file.
    pub(crate) fn load(&self) -> Result<(ScenarioFile, RunOptions), Failure> {
        // A name without a directory or an extension may be that of a published experiment.
        let name = self.file.to_str().filter(|_| !self.file.exists());
        let file = match name.and_then(Experiment::published) {
            Some(experiment) => experiment.scenario().clone(),
            None if name.is_some_and(|name| !name.contains(['/', '.'])) => {
                let name = self.file.display();
                let known = Experiment::published_names();
                return Err(Failure::Usage(format!(
                    "there is no file {name} and no published experiment of that name; known experiments: {}",
                    known.join(", ")
                )));
            }
            None if self.file.is_dir() => ScenarioFile::load(&self.file.join("scenario.toml"))?,
            None => ScenarioFile::load(&self.file)?,
        };
        let options = RunOptions {
            seed: self
                .seed
                .or(file.seed())
                .unwrap_or(RunOptions::default().seed),
            reps: self.reps,
            full: false,
        };
        Ok((file, options))
    }
}

pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let (file, options) = arguments.common.load()?;
    if let Some(directory) = &arguments.out {
        output::prepare(directory)?;
    }
    let result = file.run_captured(
        &options,
        &SimulationProgress::until_signal()?,
        arguments.capture.as_deref(),
    )?;
    print(&arguments.form, &result)?;
    if let Some(directory) = &arguments.out {
        let info = RunInfo::new(options.seed).titled(title(&file));
        let files = output::write(directory, &info, std::slice::from_ref(&result))?;
        if let Some(report) = files.first() {
            eprintln!("report: {}", report.display());
        }
    }
    Ok(())
}

fn title(file: &ScenarioFile) -> &str {
    if file.title().is_empty() {
        file.name()
    } else {
        file.title()
    }
}

fn print(form: &OutputFormat, result: &ScenarioResult) -> Result<(), Failure> {
    let mut out = stdout().lock();
    if form.json {
        writeln!(out, "{}", result.to_json())?;
    } else if form.csv {
        write!(out, "{}", to_csv(&result.rows))?;
    } else {
        if !result.question.is_empty() {
            writeln!(out, "{}: {}", result.scenario, result.question)?;
        }
        writeln!(out, "{}, seed {}\n", result.extent(), result.seed)?;
        write!(out, "{}", to_plain_table(&result.rows, columns()))?;
    }
    out.flush()?;
    Ok(())
}

/// Parses a shard; `auto` has that of this task of a scheduler.
fn shard(text: &str) -> Result<Shard, String> {
    Shard::parse(text, |name| std::env::var(name).ok())
}

pub(crate) fn sweep(arguments: &SweepArguments) -> Result<(), Failure> {
    let (file, options) = arguments.common.load()?;
    if arguments.merge {
        return print(&arguments.form, &file.merge(&options, &arguments.out)?);
    }
    let shard = arguments.shard.unwrap_or(Shard::ALL);
    let done = file.sweep(
        &options,
        shard,
        &arguments.out,
        &SimulationProgress::until_signal()?,
    )?;
    let (path, before, added) = (done.path.display(), done.before, done.added);
    if arguments.form.json {
        let line = serde_json::json!({ "path": done.path, "before": before, "added": added });
        writeln!(stdout(), "{line}")?;
    } else {
        writeln!(stdout(), "{path}: {added} runs added to {before}")?;
        if stderr().is_terminal() {
            let (file, out) = (arguments.common.file.display(), arguments.out.display());
            eprintln!(
                "carrick lab sweep {file} --merge --out {out}    prints the results of all parts"
            );
        }
    }
    Ok(())
}

pub(crate) fn trace(arguments: &TraceArguments) -> Result<(), Failure> {
    if arguments.to.is_some_and(|to| to <= arguments.from) {
        return Err(Failure::Usage("--to must be later than --from".into()));
    }
    let wanted = TraceOptions {
        repetition: arguments.repetition,
        flow: arguments.flow.as_deref(),
        from: arguments.from,
        to: arguments.to,
        capture: arguments.capture.as_deref(),
    };
    // A number is a cell of the experiment's scenario file.
    let numbered = arguments.cell.parse::<usize>().is_ok();
    let folder = arguments.common.file.is_dir();
    let (title, result) = match experiment(&arguments.common.file)? {
        Some(experiment) if folder || !numbered => arguments.of_experiment(&experiment, &wanted)?,
        _ => arguments.of_file(&wanted)?,
    };
    output::prepare(&arguments.out)?;
    let info = RunInfo::new(result.seed).titled(&title);
    let files = output::write(&arguments.out, &info, std::slice::from_ref(&result))?;
    let mut out = stdout().lock();
    if arguments.json {
        let line = serde_json::json!({ "result": result.to_json(), "files": files });
        writeln!(out, "{line}")?;
    } else {
        write!(out, "{}", to_plain_table(&result.rows, columns()))?;
        for file in files {
            writeln!(out, "{}", file.display())?;
        }
    }
    Ok(())
}

impl TraceArguments {
    /// Traces a cell of a file. Returns the file's title, too.
    fn of_file(&self, wanted: &TraceOptions<'_>) -> Result<(String, ScenarioResult), Failure> {
        if self.full {
            return Err(Failure::Usage(
                "--full requires a cell of a published experiment; a file sets the duration of its runs".into(),
            ));
        }
        let (file, options) = self.common.load()?;
        let cell = file.find_cell(&self.cell)?;
        Ok((title(&file).into(), file.trace(&options, cell, wanted)?))
    }

    /// Traces a cell of a published experiment, as `carrick reproduce` runs it.
    fn of_experiment(
        &self,
        experiment: &Experiment,
        wanted: &TraceOptions<'_>,
    ) -> Result<(String, ScenarioResult), Failure> {
        let options = RunOptions {
            seed: self.common.seed.unwrap_or(RunOptions::default().seed),
            reps: self.common.reps,
            full: self.full,
        };
        let result = experiment.trace(&self.cell, &options, wanted)?;
        Ok((experiment.name().into(), result))
    }
}

/// Returns the experiment in this folder, or the published one of this name if there is no such file.
fn experiment(file: &Path) -> Result<Option<Experiment>, Failure> {
    if file.is_dir() {
        return Ok(Some(Experiment::load(file)?));
    }
    let name = file.to_str().filter(|_| !file.exists());
    Ok(name.and_then(Experiment::published))
}

pub(crate) fn cells(arguments: &CellsArguments) -> Result<(), Failure> {
    let cells: Vec<CellLine> = if let Some(experiment) = experiment(&arguments.file)? {
        let plan = experiment.live(&RunOptions::default());
        let live = plan.map(|plan| plan.runs).unwrap_or_default();
        let names = experiment.scenario().cell_names().into_iter();
        names
            .map(|name| CellLine {
                live: Some(live.iter().any(|run| run.is_of(&name))),
                number: None,
                name,
            })
            .collect()
    } else {
        let common = CommonOptions {
            file: arguments.file.clone(),
            seed: None,
            reps: None,
        };
        let (file, _) = common.load()?;
        let cells = file.cells().enumerate();
        cells
            .map(|(number, cell)| CellLine {
                name: match cell.name() {
                    "" => cell.label().into(),
                    name => name.into(),
                },
                number: Some(number),
                live: None,
            })
            .collect()
    };
    let mut out = stdout().lock();
    for cell in cells {
        if arguments.json {
            let line = serde_json::to_string(&cell).unwrap_or_default();
            writeln!(out, "{line}")?;
        } else {
            let number = cell.number.map_or_else(String::new, |n| format!("{n}  "));
            let live = if cell.live == Some(true) {
                "  (also live)"
            } else {
                ""
            };
            writeln!(out, "{number}{}{live}", cell.name)?;
        }
    }
    Ok(())
}

/// A cell in the output of `lab cells`.
#[derive(Debug, Serialize)]
struct CellLine {
    /// Name for `--cell`; the label of a file's cell, empty without a sweep.
    name: String,
    /// Number of a file's cell.
    number: Option<usize>,
    /// `true` for a cell of a published experiment with live runs; `None` for a cell of a file.
    live: Option<bool>,
}
