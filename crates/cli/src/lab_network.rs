//! `carrick lab up` and `shell`: networks of scenarios in real time, for any program.

use std::io::{Write, stderr, stdin, stdout};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use carrick_lab::file::{Experiment, ScenarioFile};
use carrick_live::{RunningNetwork, ScheduledChange, running_networks};
use clap::Args;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::runtime::{self, block_ending_signals};

/// Selection of an experiment's network.
#[derive(Debug, Args)]
struct NetworkSelection {
    /// The experiment: satellite, firewall, mobile-ip, failover or overhead; or a scenario file, or the folder of
    /// an experiment.
    scenario: String,
    /// The cell that defines the network and its scheduled changes: the beginning of the name of a live row,
    /// such as config3.best [default: the usual cell of the scenario]. In mobile-ip the node moves, in failover
    /// the primary path fails.
    #[arg(long, value_name = "CELL")]
    cell: Option<String>,
    /// Random seed of the packet losses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Capture every interface of the network into pcapng files in this directory.
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
}

/// Run the network of an experiment until Ctrl-C.
///
/// Scheduled changes (link failures, node movement) start once the network is up; each is logged when it
/// occurs.
#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    selection: NetworkSelection,
    /// Start the scheduled changes when a line is read from standard input: press Enter when your programs
    /// are running.
    #[arg(long)]
    wait: bool,
    /// Print hosts and changes as JSON.
    #[arg(long)]
    json: bool,
}

/// Run a program, or a shell, on a host of a scenario's network.
///
/// Uses the network that `carrick lab up` has started, or else that of a running `carrick reproduce --live`.
/// If there is none, starts the network for the duration of the program; its scheduled changes start with the
/// program. The exit code is that of the program, or 127 if the program does not exist.
#[derive(Debug, Args)]
pub(crate) struct ShellArguments {
    #[command(flatten)]
    selection: NetworkSelection,
    /// Name of the host, as listed by `carrick lab up`.
    host: String,
    /// The program and its arguments, after `--` [default: the shell in $SHELL].
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

impl NetworkSelection {
    /// Returns the name of the experiment: of a file or folder, its name without directory and extension.
    fn experiment(&self) -> String {
        let path = Path::new(&self.scenario);
        if !path.exists() {
            return self.scenario.clone();
        }
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.into());
        let stem = if path.is_dir() {
            whole.file_name()
        } else {
            whole.file_stem()
        };
        let name = stem.map_or_else(
            || self.scenario.clone(),
            |stem| stem.to_string_lossy().into(),
        );
        // The name becomes one of files.
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        };
        name.chars().map(safe).collect()
    }

    /// Name of the network that this process starts.
    fn name(&self) -> String {
        match &self.cell {
            None => self.experiment(),
            Some(cell) => format!("{}.{cell}", self.experiment()),
        }
    }

    fn start(&self) -> Result<RunningNetwork, Failure> {
        let cell = self.cell.as_deref();
        let path = Path::new(&self.scenario);
        let world = if path.is_dir() {
            Experiment::load(path)?.world(cell, self.seed)?
        } else if path.is_file() {
            ScenarioFile::load(path)?.world(cell, self.seed)?
        } else {
            let experiments = Experiment::select(std::slice::from_ref(&self.scenario), false)?;
            let Some(experiment) = experiments.first() else {
                return Err(Failure::Usage("name an experiment".into()));
            };
            experiment.world(cell, self.seed)?
        };
        Ok(RunningNetwork::start(
            &self.name(),
            world,
            self.capture.as_deref(),
        )?)
    }

    /// Returns the networks of the scenario and, if a cell is selected, of the cell; those that `lab up`
    /// started come first.
    fn matching(&self, networks: Vec<String>) -> Vec<String> {
        let experiment = self.experiment();
        let mut found: Vec<String> = networks
            .into_iter()
            .filter(|name| {
                let cell = cell_of(name, &experiment);
                cell.is_some_and(|cell| match &self.cell {
                    None => true,
                    Some(wanted) => {
                        let rest = cell.strip_prefix(wanted.as_str());
                        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                    }
                })
            })
            .collect();
        let is_live_run = |name: &String| name[experiment.len()..].starts_with('-');
        found.sort_by_key(|name| (is_live_run(name), name.clone()));
        found
    }
}

/// Returns the cell of a network of the scenario: the network's name is `SCENARIO`, `SCENARIO.CELL` or, in a
/// live run, `SCENARIO-PID.CELL`.
fn cell_of<'a>(network: &'a str, scenario: &str) -> Option<&'a str> {
    let rest = network.strip_prefix(scenario)?;
    let rest = match rest.strip_prefix('-') {
        Some(run) => run.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    if rest.is_empty() {
        return Some(rest);
    }
    rest.strip_prefix('.')
}

/// JSON line of a host.
#[derive(Serialize)]
struct HostLine<'a> {
    host: &'a str,
    addresses: &'a [std::net::IpAddr],
}

/// JSON line of a change.
#[derive(Serialize)]
struct ChangeLine {
    /// Seconds after the start of the changes.
    after: f64,
    change: String,
}

pub(crate) fn up(arguments: &UpArguments) -> Result<(), Failure> {
    // A signal that arrives while the network is built ends the program afterwards, so that the network is
    // removed.
    runtime::run(async {
        let mut network = arguments.selection.start()?;
        show_hosts(arguments, &network)?;
        let changes = network.changes().to_vec();
        tokio::select! {
            _ = runtime::signal_received() => {}
            failed = run_changes(arguments, &mut network, &changes) => failed?,
        }
        Ok(network.remove()?)
    })
}

/// Starts the changes of a network and reports each; returns only in case of an error.
async fn run_changes(
    arguments: &UpArguments,
    network: &mut RunningNetwork,
    changes: &[ScheduledChange],
) -> Result<(), Failure> {
    if arguments.wait && !changes.is_empty() {
        wait_for_line().await;
    }
    network.start_changes()?;
    report_changes(changes, Instant::now(), arguments.json).await
}

fn show_hosts(arguments: &UpArguments, network: &RunningNetwork) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let hosts = network.live().hosts();
    for host in hosts {
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
        let host = hosts.first().map_or("HOST", |host| host.name());
        let cell = arguments.selection.cell.as_ref();
        let cell = cell.map_or_else(String::new, |cell| format!(" --cell {cell}"));
        writeln!(
            out,
            "carrick lab shell {}{cell} {host}    starts a shell on a host; Ctrl-C removes the network",
            arguments.selection.scenario
        )?;
        if arguments.wait && !network.changes().is_empty() {
            let count = network.changes().len();
            writeln!(out, "Enter starts the scheduled changes ({count} changes)")?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Prints each change when it occurs; returns only in case of an error.
async fn report_changes(
    changes: &[ScheduledChange],
    begin: Instant,
    json: bool,
) -> Result<(), Failure> {
    for change in changes {
        tokio::time::sleep_until((begin + change.after).into()).await;
        let line = ChangeLine {
            after: change.after.as_secs_f64(),
            change: change.to_string(),
        };
        if json {
            let json = serde_json::to_string(&line).unwrap_or_default();
            writeln!(stdout(), "{json}")?;
        } else {
            writeln!(stdout(), "{}", describe(change))?;
        }
        stdout().flush()?;
    }
    std::future::pending().await
}

fn describe(change: &ScheduledChange) -> String {
    format!("after {:.3} s: {change}", change.after.as_secs_f64())
}

/// Waits for a line on standard input; without end if standard input ends.
async fn wait_for_line() {
    let (sender, line_read) = oneshot::channel();
    // The thread may outlive the wait; it ends with the process.
    thread::spawn(move || {
        let mut line = String::new();
        if stdin().read_line(&mut line).is_ok_and(|len| len > 0) {
            // The receiver may have been dropped.
            let _ = sender.send(());
        }
    });
    if line_read.await.is_err() {
        std::future::pending().await
    }
}

pub(crate) fn shell(arguments: &ShellArguments) -> Result<(), Failure> {
    // The network is removed before this process ends, also after a signal. Threads that start later inherit
    // the blocked signals.
    let signals = block_ending_signals()?;
    let forwarder = SignalForwarder::start(signals);
    let selection = &arguments.selection;
    let names = running_networks().into_iter().map(|(name, _)| name);
    let found = selection.matching(names.collect());
    let mut own = None;
    let network = match &found[..] {
        [] => {
            own = Some(selection.start()?);
            selection.name()
        }
        [network] => network.clone(),
        [network, more @ ..] => {
            let more = more.len();
            eprintln!("using network {network}; {more} more match, select one with --cell");
            network.clone()
        }
    };
    if let Some(signal) = forwarder.pending() {
        // The program does not run yet.
        own.map_or(Ok(()), RunningNetwork::remove)?;
        std::process::exit(128 + signal as i32);
    }
    let mut child = start_program(network, arguments, signals)?;
    forwarder.forward_to(&child);
    if let Some(own) = &mut own {
        let mut errors = stderr().lock();
        for change in own.changes() {
            writeln!(errors, "scheduled {}", describe(change))?;
        }
        own.start_changes()?;
    }
    let status = child
        .wait()
        .map_err(|error| Failure::Run(format!("cannot wait for the program: {error}")))?;
    if let Some(own) = own {
        own.remove()?;
    }
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => std::process::exit(code),
        // The exit code of shells for a program that a signal ended.
        (None, Some(signal)) => std::process::exit(128 + signal),
        (None, None) => Err(Failure::Run(format!("the program failed: {status}"))),
    }
}

/// Starts the program on the host.
fn start_program(
    network: String,
    arguments: &ShellArguments,
    signals: SigSet,
) -> Result<Child, Failure> {
    let (host, program) = (arguments.host.clone(), arguments.program.clone());
    // Only the new thread enters the namespace of the host.
    let entered = thread::spawn(move || {
        let mut command = match program.split_first() {
            Some((program, rest)) => {
                let mut command = Command::new(program);
                command.args(rest);
                command
            }
            None => Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())),
        };
        // The program inherits the signal mask of this thread.
        let unblocked = signals.thread_unblock();
        unblocked.map_err(|error| Failure::Run(format!("cannot unblock signals: {error}")))?;
        let started = carrick_live::spawn_on_host(&network, &host, &mut command);
        started.map_err(Failure::from)
    });
    let panicked = |_| Failure::Run("the program's thread panicked (please report it)".into());
    entered.join().map_err(panicked)?
}

/// Forwards ending signals to the program.
#[derive(Clone, Default)]
struct SignalForwarder(Arc<Mutex<ForwardState>>);

#[derive(Default)]
struct ForwardState {
    program: Option<Pid>,
    /// Last signal received before the program was started.
    pending: Option<Signal>,
}

impl SignalForwarder {
    /// Starts a thread that receives the signals.
    fn start(signals: SigSet) -> Self {
        let forwarder = Self::default();
        let shared = forwarder.clone();
        thread::spawn(move || {
            while let Ok(signal) = signals.wait() {
                let state = &mut *shared.lock();
                match state.program {
                    None => state.pending = Some(signal),
                    // The terminal sends SIGINT to the program, too.
                    Some(_) if signal == Signal::SIGINT => {}
                    // The program may have ended.
                    Some(program) => {
                        let _ = kill(program, signal);
                    }
                }
            }
        });
        forwarder
    }

    /// Returns the last signal received before the program was started.
    fn pending(&self) -> Option<Signal> {
        self.lock().pending
    }

    /// Forwards pending and later signals to this program.
    fn forward_to(&self, program: &Child) {
        let state = &mut *self.lock();
        state.program = i32::try_from(program.id()).ok().map(Pid::from_raw);
        if let (Some(program), Some(signal)) = (state.program, state.pending) {
            // The program may have ended.
            let _ = kill(program, signal);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ForwardState> {
        // Each change is a single assignment, so that a poisoned state is valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(scenario: &str, cell: Option<&str>) -> NetworkSelection {
        NetworkSelection {
            scenario: scenario.into(),
            cell: cell.map(Into::into),
            seed: 1,
            capture: None,
        }
    }

    #[test]
    fn networks_are_found_by_scenario_and_cell() {
        let networks = || {
            [
                "failover-77.pmr2.raw.0",
                "failover-77.pmr5.udp.0",
                "failover",
                "overhead",
                "failover.best",
                "failover-77x",
            ]
            .map(String::from)
            .to_vec()
        };
        let found = |cell| selection("failover", cell).matching(networks());
        let all = [
            "failover",
            "failover.best",
            "failover-77.pmr2.raw.0",
            "failover-77.pmr5.udp.0",
        ];
        assert_eq!(found(None), all);
        assert_eq!(found(Some("pmr5")), ["failover-77.pmr5.udp.0"]);
        assert_eq!(found(Some("pmr")), [""; 0]);
        assert_eq!(found(Some("best")), ["failover.best"]);
        assert_eq!(selection("fail", None).matching(networks()), [""; 0]);
    }
}
