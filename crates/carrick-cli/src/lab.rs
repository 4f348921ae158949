//! `carrick lab`: scenarios from files, and networks of scenarios in real time, for any program.

use std::io::{ErrorKind, Write, stdout};
use std::time::Duration;

use carrick_livenet::{Accuracy, Error, Namespace};
use clap::{Args, Subcommand};

use crate::failure::{Failure, INTERRUPTED};
use crate::live::Live;
use crate::{lab_file, lab_network, units};

/// Run scenario files, and the networks of the published experiments in real time.
///
/// `run`, `sweep` and `trace` run scenario files in virtual time. `up` and `shell` take the name of one of
/// the five published experiments (not a file) and make each of its hosts a network namespace, joined
/// by the experiment's links with their rates, delays, queues, losses and scheduled changes. They need Linux and
/// root, and remove everything at their end.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Lab,
}

#[derive(Debug, Subcommand)]
enum Lab {
    Run(lab_file::Run),
    Sweep(lab_file::Sweep),
    Trace(lab_file::Trace),
    Up(lab_network::Up),
    Shell(lab_network::Shell),
    Accuracy(Measure),
}

/// Measure how exactly links are emulated on this machine now.
#[derive(Debug, Args)]
struct Measure {
    /// The link's rate.
    #[arg(long, value_name = "RATE", default_value = "10M", value_parser = units::rate)]
    rate: u64,
    /// The link's one-way delay.
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = units::duration)]
    delay: Duration,
    /// How long to measure delay, and again how long to measure the rate.
    #[arg(short = 't', long, value_name = "TIME", default_value = "5s", value_parser = units::duration)]
    time: Duration,
    /// Fail if the emulated link is wrong. What the machine does wrong, by standing still, is no failure.
    #[arg(long)]
    check: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Lab::Run(arguments) => lab_file::run(arguments),
        Lab::Sweep(arguments) => lab_file::sweep(arguments),
        Lab::Trace(arguments) => lab_file::trace(arguments),
        Lab::Up(arguments) => lab_network::up(arguments),
        Lab::Shell(arguments) => lab_network::shell(arguments),
        Lab::Accuracy(arguments) => accuracy(arguments),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::UnknownHost { .. } => Self::Usage(error.to_string()),
            // As shells tell it.
            Error::Program { ref source, .. } => match source.kind() {
                ErrorKind::NotFound => Self::Ended(127, error.to_string()),
                _ => Self::Ended(126, error.to_string()),
            },
            Error::Stopped => Self::Ended(INTERRUPTED, error.to_string()),
            _ => Self::Run(error.to_string()),
        }
    }
}

fn accuracy(arguments: &Measure) -> Result<(), Failure> {
    // Who may not measure hears nothing else.
    drop(Namespace::new()?);
    let stop = Live::asked()?;
    let both = 2 * arguments.time;
    eprintln!("measuring for {} s", both.as_secs_f64());
    let accuracy = Accuracy::measure(arguments.rate, arguments.delay, arguments.time, &stop)?;
    if arguments.json {
        let json = serde_json::to_string(&accuracy).unwrap_or_default();
        writeln!(stdout(), "{json}")?;
    } else {
        print_accuracy(&accuracy)?;
    }
    if arguments.check && !accuracy.is_right() {
        let line = format!("the link is not as it should be: {}", verdict(&accuracy));
        return Err(Failure::Run(line));
    }
    Ok(())
}

fn print_accuracy(accuracy: &Accuracy) -> std::io::Result<()> {
    let mut out = stdout();
    let Accuracy {
        delay,
        rate,
        machine,
    } = accuracy;
    writeln!(
        out,
        "delay: {:.3} ms configured with transmission, {} packets later than that by {:.3} ms \
         (median), {:.3} ms (99 %), {:.3} ms (at most)",
        delay.configured, delay.packets, delay.median, delay.p99, delay.largest
    )?;
    writeln!(
        out,
        "{} of them while no core stood: {:.3} ms (median), {:.3} ms (99 %)",
        delay.alone.packets, delay.alone.median, delay.alone.p99
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
        "machine: a thread that only wakes up on each core saw it stand still for {:.1} ms of {:.1} s, at most {:.1} ms",
        machine.total, machine.watched, machine.longest
    )?;
    if let Some(why) = &machine.ordinary {
        writeln!(out, "no real-time priority for the emulator: {why}")?;
    }
    writeln!(out, "{}", verdict(accuracy))
}

/// Whether what is wanted was kept.
fn verdict(accuracy: &Accuracy) -> String {
    let (delay, later) = (&accuracy.delay, &accuracy.delay.later);
    let kept = match (delay.is_kept(false), delay.is_kept(true)) {
        (true, _) => "kept",
        (false, true) => "not kept, but for the moments when the machine stood",
        (false, false) => "not kept",
    };
    let rate = if accuracy.rate.is_kept() {
        "kept"
    } else {
        "not kept"
    };
    format!(
        "{} of {} packets were more than {} ms late, {} of these because the machine stood; wanted are {} ms for 99 %: {kept}; 1 % of \
         the rate: {rate}",
        later.packets, delay.packets, later.limit, later.while_it_stood, later.limit
    )
}
