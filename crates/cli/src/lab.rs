//! `carrick lab`: scenarios in virtual time, and their networks in real time, for any program.

use std::io::{ErrorKind, Write, stdout};
use std::time::Duration;

use carrick_live::{Error, LinkAccuracy, Namespace};
use clap::{Args, Subcommand};

use crate::failure::{Failure, INTERRUPTED};
use crate::live::stop_flag;
use crate::{lab_file, lab_network, units};

/// Run scenario files in virtual time, and their networks in real time.
///
/// Scenarios are files, folders of experiments, or the names of the published experiments. `run`, `sweep`,
/// `trace` and `cells` simulate or list them. `up` and `shell` make each host a network namespace, joined by
/// the scenario's links with their rates, delays, queues, losses and scheduled changes; they need Linux and
/// root, and remove everything at their end.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Run(lab_file::RunArguments),
    Sweep(lab_file::SweepArguments),
    Trace(lab_file::TraceArguments),
    Cells(lab_file::CellsArguments),
    Up(lab_network::UpArguments),
    Shell(lab_network::ShellArguments),
    Accuracy(AccuracyArguments),
}

/// Measure how exactly this machine emulates links at the moment.
#[derive(Debug, Args)]
struct AccuracyArguments {
    /// The link's rate.
    #[arg(long, value_name = "RATE", default_value = "10M", value_parser = units::rate)]
    rate: u64,
    /// The link's one-way delay.
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = units::duration)]
    delay: Duration,
    /// Duration of the delay measurement, and of the rate measurement that follows; a number without a unit is in s.
    #[arg(short = 't', long, value_name = "TIME", default_value = "5s", value_parser = units::seconds)]
    time: Duration,
    /// Fail if the delay or the rate of the link is wrong; stalls of the machine are no failure.
    #[arg(long)]
    check: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        LabCommand::Run(arguments) => lab_file::run(arguments),
        LabCommand::Sweep(arguments) => lab_file::sweep(arguments),
        LabCommand::Trace(arguments) => lab_file::trace(arguments),
        LabCommand::Cells(arguments) => lab_file::cells(arguments),
        LabCommand::Up(arguments) => lab_network::up(arguments),
        LabCommand::Shell(arguments) => lab_network::shell(arguments),
        LabCommand::Accuracy(arguments) => accuracy(arguments),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::UnknownHost { .. } => Self::Usage(error.to_string()),
            // The exit codes of shells.
            Error::Program { ref source, .. } => match source.kind() {
                ErrorKind::NotFound => Self::Ended(127, error.to_string()),
                _ => Self::Ended(126, error.to_string()),
            },
            Error::Stopped => Self::Ended(INTERRUPTED, error.to_string()),
            _ => Self::Run(error.to_string()),
        }
    }
}

fn accuracy(arguments: &AccuracyArguments) -> Result<(), Failure> {
    // Fails before the first line of output if the process is not root.
    drop(Namespace::new()?);
    let stop = stop_flag()?;
    let both = 2 * arguments.time;
    eprintln!("measuring for {} s", both.as_secs_f64());
    let accuracy = LinkAccuracy::measure(arguments.rate, arguments.delay, arguments.time, &stop)?;
    if arguments.json {
        let json = serde_json::to_string(&accuracy).unwrap_or_default();
        writeln!(stdout(), "{json}")?;
    } else {
        print_accuracy(&accuracy)?;
    }
    if arguments.check && !accuracy.is_correct() {
        let line = format!("the emulated link is wrong: {}", verdict(&accuracy));
        return Err(Failure::Run(line));
    }
    Ok(())
}

fn print_accuracy(accuracy: &LinkAccuracy) -> std::io::Result<()> {
    let mut out = stdout();
    let LinkAccuracy {
        delay,
        rate,
        stalls,
    } = accuracy;
    writeln!(
        out,
        "delay: {:.3} ms configured including transmission; error of {} packets: {:.3} ms (median), \
         {:.3} ms (99 %), {:.3} ms (maximum)",
        delay.configured, delay.packets, delay.median, delay.p99, delay.max
    )?;
    writeln!(
        out,
        "error of the {} packets without a stall: {:.3} ms (median), {:.3} ms (99 %)",
        delay.unloaded.packets, delay.unloaded.median, delay.unloaded.p99
    )?;
    writeln!(
        out,
        "rate: {:.3} Mbit/s configured, {:.3} Mbit/s measured over {} packets ({:+.3} %)",
        rate.configured / 1e6,
        rate.measured / 1e6,
        rate.packets,
        rate.relative() * 100.0
    )?;
    writeln!(
        out,
        "host stalls: {:.1} ms of {:.1} s, longest {:.1} ms",
        stalls.total, stalls.observed, stalls.longest
    )?;
    if let Some(reason) = &stalls.without_real_time {
        writeln!(out, "no real-time priority for the emulator: {reason}")?;
    }
    writeln!(out, "{}", verdict(accuracy))
}

/// Compares delay and rate with their tolerances.
fn verdict(accuracy: &LinkAccuracy) -> String {
    let (delay, lateness) = (&accuracy.delay, &accuracy.delay.lateness);
    let delay_verdict = match (delay.is_within_limit(false), delay.is_within_limit(true)) {
        (true, _) => "within tolerance",
        (false, true) => "out of tolerance only during host stalls",
        (false, false) => "out of tolerance",
    };
    let rate_verdict = if accuracy.rate.is_within_limit() {
        "within tolerance"
    } else {
        "out of tolerance"
    };
    format!(
        "{} of {} packets more than {} ms late, {} of them due to host stalls; delay (tolerance {} ms for 99 %): \
         {delay_verdict}; rate (tolerance 1 %): {rate_verdict}",
        lateness.packets, delay.packets, lateness.limit, lateness.due_to_stalls, lateness.limit
    )
}
