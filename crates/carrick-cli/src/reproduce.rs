//! `carrick reproduce`: runs published experiments and shows published beside measured values.

use std::io::{self, Write, stdout};
use std::path::{Path, PathBuf};

use carrick_lab::report::RunInfo;
use carrick_lab::{RunOptions, ScenarioResult, output, scenario, to_table};
use clap::Args;

use crate::failure::Failure;
use crate::progress::Bar;

/// Reproduce published experiments in virtual time.
///
/// Prints published beside measured values and writes report.html, and for each scenario a CSV, a
/// JSON and its figures as SVG. The same seed gives the same numbers.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Scenarios to run; all of them when none is named.
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Run as many repetitions as the publication, or its precision, asks for.
    #[arg(long)]
    full: bool,
    /// Directory for the report and its data.
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = RunOptions::default().seed)]
    seed: u64,
    /// Repetitions of each variant, instead of the scenario's own number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    reps: Option<u64>,
    /// Print each result as JSON on one line instead of a table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let scenarios = scenario::select(&arguments.scenarios)?;
    output::prepare(&arguments.out)?;
    let options = RunOptions {
        seed: arguments.seed,
        reps: arguments.reps,
        full: arguments.full,
    };
    let progress = Bar::new();
    let mut results = Vec::new();
    for scenario in scenarios {
        let result = scenario.run(&options, &progress)?;
        if !arguments.json {
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
        print_files(&mut stdout().lock(), &arguments.out, &files)?;
    }
    Ok(())
}

fn print_result(out: &mut impl Write, result: &ScenarioResult) -> io::Result<()> {
    writeln!(out, "{}: {}", result.scenario, result.question)?;
    writeln!(out, "{}, seed {}\n", result.extent(), result.seed)?;
    writeln!(out, "{}", to_table(&result.rows))
}

fn print_files(out: &mut impl Write, directory: &Path, files: &[PathBuf]) -> io::Result<()> {
    let report = files.first().map_or(directory, PathBuf::as_path);
    writeln!(
        out,
        "Report: {} (with {} files of data and figures beside it)",
        report.display(),
        files.len().saturating_sub(1)
    )
}
