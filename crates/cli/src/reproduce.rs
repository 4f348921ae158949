//! `carrick reproduce`: runs published experiments and compares measured with published values.

use std::io::{self, Write, stdout};
use std::iter;
use std::path::{Path, PathBuf};

use carrick_lab::file::Experiment;
use carrick_lab::report::RunInfo;
use carrick_lab::{
    EarlierResults, RunOptions, ScenarioResult, Tally, live_to_table, output, to_table, wrap,
};
use clap::Args;

use crate::failure::Failure;
#[cfg(target_os = "linux")]
use crate::live::LiveRuns;
use crate::simulation_progress::SimulationProgress;
use crate::terminal::{columns, text_columns};

/// Reproduce published experiments in virtual time.
///
/// Prints how many published values are reproduced, and writes report.html, and for each experiment CSV, JSON
/// and figures as SVG. The same seed gives the same results. Takes about 90 s on two idle cores.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Experiments to run: published ones by their names, others by their folders, such as ./my-paper (see
    /// docs/experiment-folders.md) [default: all published ones].
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Run as many repetitions as the publication, or its precision, requires.
    #[arg(long)]
    full: bool,
    /// Directory for the report and its data.
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = RunOptions::default().seed)]
    seed: u64,
    /// Repetitions of each variant [default: the number of the experiment].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    reps: Option<u64>,
    /// Run the experiments in real time as well: SCTP on sockets and the kernel's TCP, between network
    /// namespaces joined by the experiment's links; and those of today's means, with Multipath TCP, QUIC and
    /// the programs in the directory `CARRICK_STACKS`. Needs Linux and root.
    #[arg(long)]
    live: bool,
    /// Leave out the experiments of today's means, which take minutes.
    #[arg(long, requires = "live")]
    no_means: bool,
    /// Compare with an earlier run: the .json file of an experiment in its report, or the output of --json.
    /// May be given several times.
    #[arg(long, value_name = "OLD.json")]
    compare: Vec<PathBuf>,
    /// Capture the first repetition of one cell of each experiment at every interface, into pcapng files in
    /// DIR/EXPERIMENT/CELL; of live runs in DIR/EXPERIMENT/live/RUN.
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
    /// Capture this cell instead of the first one, or every cell with `all`. The name of a cell is the
    /// beginning of its rows' names, such as sctp.p1.n6 or congested.best.failover. May be given several
    /// times.
    #[arg(long, value_name = "CELL", requires = "capture")]
    cell: Vec<String>,
    /// Print the tables of all values and their notes, too.
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,
    /// Print each result as JSON on one line instead of the summary.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut experiments = Experiment::select(&arguments.experiments, arguments.full)?;
    if arguments.live && !arguments.no_means {
        experiments = Experiment::with_means(experiments);
    }
    Experiment::check_cells(&experiments, &arguments.cell)?;
    let earlier = earlier(arguments, &experiments)?;
    let live = arguments.live.then(LiveRuns::new).transpose()?;
    output::prepare(&arguments.out)?;
    let options = RunOptions {
        seed: arguments.seed,
        reps: arguments.reps,
        full: arguments.full,
    };
    let progress = match &live {
        Some(live) => SimulationProgress::new(Some(live.stop())),
        None => SimulationProgress::until_signal()?,
    };
    let mut results = Vec::new();
    let run_live = |live: &LiveRuns, experiment: &Experiment| {
        let into = arguments
            .capture
            .as_ref()
            .map(|directory| directory.join(experiment.name()));
        let capture = into.as_deref().map(|into| (into, &arguments.cell[..]));
        live.run(experiment, &options, capture)
    };
    for experiment in &experiments {
        // Experiments without live runs are left out, unless they were named.
        let runs_live = experiment.has_live_cells() || !arguments.experiments.is_empty();
        let live = live.as_ref().filter(|_| runs_live);
        let mut result = if let (true, Some(live)) = (experiment.is_live_only(), live) {
            experiment.live_result(&options, run_live(live, experiment)?)
        } else {
            let result = experiment.run(&options, &progress)?;
            let live = live.map(|live| run_live(live, experiment));
            ScenarioResult {
                live: live.transpose()?,
                ..result
            }
        };
        result.compared = earlier.iter().find_map(|earlier| earlier.compare(&result));
        let simulated = arguments.capture.as_ref();
        if let Some(directory) = simulated.filter(|_| !experiment.is_live_only()) {
            let cells = experiment.select_cells(&arguments.cell);
            let into = directory.join(experiment.name());
            experiment.capture(&cells, &options, &into, &progress)?;
        }
        if arguments.verbose {
            print_result(&mut stdout().lock(), &result)?;
        }
        results.push(result);
    }
    let files = output::write(&arguments.out, &RunInfo::new(arguments.seed), &results)?;
    if arguments.json {
        for result in &results {
            writeln!(stdout(), "{}", result.to_json())?;
        }
    } else {
        print_summary(&mut stdout().lock(), &results, text_columns())?;
        print_files(&mut stdout().lock(), &arguments.out, &files)?;
    }
    Ok(())
}

/// Reads earlier results before a long run. Each must be of an experiment that is run.
fn earlier(
    arguments: &Arguments,
    experiments: &[Experiment],
) -> Result<Vec<EarlierResults>, Failure> {
    let mut all = Vec::new();
    for path in &arguments.compare {
        let earlier = EarlierResults::load(path)?;
        let run = |name: &str| experiments.iter().any(|own| own.name() == name);
        if !earlier.scenarios().any(run) {
            let names: Vec<&str> = earlier.scenarios().collect();
            let (path, names) = (path.display(), names.join(", "));
            return Err(Failure::Usage(format!(
                "{path} has results of {names}, which is not run: add that experiment to the command line"
            )));
        }
        all.push(earlier);
    }
    Ok(all)
}

fn print_result(out: &mut impl Write, result: &ScenarioResult) -> io::Result<()> {
    let question = format!("{}: {}", result.scenario, result.question);
    writeln!(out, "{}", wrap(&question, text_columns()).join("\n"))?;
    writeln!(out, "{}, seed {}\n", result.extent(), result.seed)?;
    writeln!(out, "{}", to_table(&result.rows, columns()))?;
    if let Some(comparison) = &result.compared {
        writeln!(
            out,
            "{}\n",
            wrap(&comparison.summary(), text_columns()).join("\n")
        )?;
        writeln!(out, "{}", comparison.to_table(columns()))?;
    }
    let Some(live) = &result.live else {
        return Ok(());
    };
    writeln!(
        out,
        "{}, {}\n",
        result.scenario,
        live.title().to_lowercase()
    )?;
    if !live.rows.is_empty() {
        writeln!(out, "{}", live_to_table(&live.rows, columns()))?;
    }
    for remark in live.remarks() {
        writeln!(out, "{}\n", wrap(&remark, text_columns()).join("\n"))?;
    }
    Ok(())
}

/// Prints the publication and the verdicts of each experiment, then the counts of all, in `width` columns.
fn print_summary(out: &mut impl Write, results: &[ScenarioResult], width: usize) -> io::Result<()> {
    let put = |out: &mut dyn Write, first: &str, text: &str| {
        let indent = "    ";
        let lines = wrap(text, width.saturating_sub(indent.len()));
        iter::once(first.to_owned())
            .filter(|line| !line.is_empty())
            .chain(lines.into_iter().map(|line| format!("{indent}{line}")))
            .try_for_each(|line| writeln!(out, "{line}"))
    };
    for result in results {
        let mut head = format!("{}, {}", result.scenario, result.extent());
        if let Some(paper) = &result.publication {
            head = format!("{head}: {}", paper.short_citation());
        }
        put(out, &head, &result.verdict_line())?;
        if let Some(comparison) = &result.compared {
            put(out, "", &comparison.summary())?;
        }
    }
    let tallies = results.iter().map(ScenarioResult::tally);
    let total = tallies.fold(Tally::default(), Tally::and);
    writeln!(out, "\n{}", wrap(&total.sentence(), width).join("\n"))
}

fn print_files(out: &mut impl Write, directory: &Path, files: &[PathBuf]) -> io::Result<()> {
    let report = files.first().map_or(directory, PathBuf::as_path);
    writeln!(
        out,
        "Report: {} (with {} files of data and figures beside it); --verbose prints the tables",
        report.display(),
        files.len().saturating_sub(1)
    )
}

/// Live runs on systems without network namespaces.
#[cfg(not(target_os = "linux"))]
struct LiveRuns;

#[cfg(not(target_os = "linux"))]
impl LiveRuns {
    fn new() -> Result<Self, Failure> {
        let line = "--live needs Linux: leave it out to run in virtual time";
        Err(Failure::Run(line.into()))
    }

    fn stop(&self) -> std::sync::Arc<std::sync::atomic::AtomicBool> {
        std::sync::Arc::default()
    }

    fn run(
        &self,
        _: &Experiment,
        _: &RunOptions,
        _: Option<(&Path, &[String])>,
    ) -> Result<carrick_lab::LiveResult, Failure> {
        Self::new().map(|_| carrick_lab::LiveResult::default())
    }
}

#[cfg(test)]
mod tests {
    use carrick_lab::Row;

    use super::*;

    /// All published experiments with rows that differ.
    fn results() -> Vec<ScenarioResult> {
        let experiments = Experiment::select(&[], false).expect("they are valid");
        let result = |experiment: &Experiment| {
            let differs = |number: usize| Row {
                published: Some(1234.5),
                measured: Some(2345.6),
                ..Row::new(
                    &format!("variant.with-a-name.{number}.throughput"),
                    "",
                    "KByte/s",
                )
            };
            ScenarioResult {
                publication: Some(experiment.publication().clone()),
                full_repetitions: Some(200),
                rows: (0..9).map(differs).collect(),
                ..ScenarioResult::empty(experiment.name(), "", 1, 40)
            }
        };
        experiments.iter().map(result).collect()
    }

    #[test]
    fn the_summary_fits_on_a_screen() {
        let mut out = Vec::new();
        print_summary(&mut out, &results(), 100).expect("written");
        let path = [PathBuf::from("report/report.html")];
        print_files(&mut out, Path::new("report"), &path).expect("written");
        let text = String::from_utf8(out).expect("text");
        assert!(text.lines().count() <= 24, "{text}");
        assert!(text.contains("Andreas Jungmaier et al., 2001"), "{text}");
        assert!(
            text.contains("Reproduced 0 of 54 published values"),
            "{text}"
        );
    }
}
