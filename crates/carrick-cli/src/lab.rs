//! `carrick lab`: scenarios from files, and networks of scenarios in real time, for any program.

use std::io::{Write, stdout};
use std::process::Command;
use std::time::Duration;

use carrick_lab::scenario;
use carrick_livenet::{Accuracy, Error, LiveNetwork, Plan, enter, running};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::failure::Failure;
use crate::{lab_file, units};

/// Run scenarios of your own, and networks of scenarios in real time.
///
/// `run` and `sweep` run scenario files in virtual time. With `up` and `shell`, each host of a
/// scenario is a network namespace, and what passes between them takes the scenario's links with their
/// rates, delays, queues and losses; that needs Linux and root, and nothing of it outlives the process.
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
    Up(Up),
    Shell(Shell),
    Accuracy(Measure),
}

/// Run a scenario's network until Ctrl-C.
#[derive(Debug, Args)]
struct Up {
    /// The scenario.
    scenario: String,
    /// Seed of its losses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the hosts as JSON.
    #[arg(long)]
    json: bool,
}

/// Run a program, or a shell, on a host of a scenario's network.
///
/// Takes part in the network that `carrick lab up` or a live run has started; if none runs, runs one
/// for as long as the program. The exit code is the program's.
#[derive(Debug, Args)]
struct Shell {
    /// The scenario.
    scenario: String,
    /// The host, as `carrick lab up` names it.
    host: String,
    /// The program and its arguments, after `--`; the shell of $SHELL if there are none.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
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
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Lab::Run(arguments) => lab_file::run(arguments),
        Lab::Sweep(arguments) => lab_file::sweep(arguments),
        Lab::Trace(arguments) => lab_file::trace(arguments),
        Lab::Up(arguments) => up(arguments),
        Lab::Shell(arguments) => shell(arguments),
        Lab::Accuracy(arguments) => accuracy(arguments),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::UnknownHost { .. } => Self::Usage(error.to_string()),
            _ => Self::Run(error.to_string()),
        }
    }
}

/// A host as JSON has it.
#[derive(Serialize)]
struct HostLine<'a> {
    host: &'a str,
    addresses: &'a [std::net::IpAddr],
}

fn start(name: &str, seed: u64) -> Result<LiveNetwork, Failure> {
    let scenarios = scenario::select(&[name.to_owned()])?;
    let network = scenarios.first().and_then(|scenario| scenario.network());
    let Some(network) = network else {
        let line = format!("scenario '{name}' has no network to run live");
        return Err(Failure::Usage(line));
    };
    let live = LiveNetwork::start(name, move || {
        let (network, hosts) = network(seed)?;
        Ok(Plan::new(network, hosts))
    })?;
    Ok(live)
}

fn up(arguments: &Up) -> Result<(), Failure> {
    let live = start(&arguments.scenario, arguments.seed)?;
    let mut out = stdout();
    for host in live.hosts() {
        let line = HostLine {
            host: host.name(),
            addresses: host.addresses(),
        };
        if arguments.json {
            let json = serde_json::to_string(&line).unwrap_or_default();
            writeln!(out, "{json}")?;
        } else {
            let addresses: Vec<String> = line.addresses.iter().map(ToString::to_string).collect();
            writeln!(out, "{}: {}", line.host, addresses.join(", "))?;
        }
    }
    if !arguments.json {
        let (name, host) = (&arguments.scenario, live.hosts().first());
        let host = host.map_or("HOST", |host| host.name());
        writeln!(
            out,
            "carrick lab shell {name} {host}    enters a host; Ctrl-C ends"
        )?;
    }
    out.flush()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let waited = runtime.and_then(|runtime| runtime.block_on(ended()));
    waited.map_err(|error| Failure::Run(format!("cannot wait for Ctrl-C: {error}")))
}

/// Until somebody asks for the end.
async fn ended() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}

fn shell(arguments: &Shell) -> Result<(), Failure> {
    let runs = running()
        .iter()
        .any(|(name, _)| *name == arguments.scenario);
    let own = if runs {
        None
    } else {
        Some(start(&arguments.scenario, 1)?)
    };
    let (network, host) = (arguments.scenario.clone(), arguments.host.clone());
    let program = arguments.program.clone();
    // The thread stays in the namespace of the host; this one does not.
    let entered = std::thread::spawn(move || {
        let mut command = match program.split_first() {
            Some((program, rest)) => {
                let mut command = Command::new(program);
                command.args(rest);
                command
            }
            None => Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())),
        };
        enter(&network, &host, &mut command)
    });
    let status = entered
        .join()
        .map_err(|_| Failure::Run("the program's thread panicked (please report it)".into()))??;
    drop(own);
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => std::process::exit(code),
        None => Err(Failure::Run(format!("the program was ended: {status}"))),
    }
}

fn accuracy(arguments: &Measure) -> Result<(), Failure> {
    eprintln!("measuring for {} s", 2 * arguments.time.as_secs());
    let accuracy = Accuracy::measure(arguments.rate, arguments.delay, arguments.time)?;
    let mut out = stdout();
    if arguments.json {
        let json = serde_json::to_string(&accuracy).unwrap_or_default();
        writeln!(out, "{json}")?;
        return Ok(());
    }
    let Accuracy {
        delay,
        rate,
        machine,
    } = &accuracy;
    writeln!(
        out,
        "delay: {:.3} ms configured with transmission, {} packets later than that by {:.3} ms \
         (median), {:.3} ms (99 %), {:.3} ms (at most)",
        delay.configured, delay.packets, delay.median, delay.p99, delay.largest
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
    writeln!(out, "{}", verdict(&accuracy))?;
    Ok(())
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
