//! `carrick lab up` and `shell`: networks of scenarios in real time, for any program.

use std::io::{Write, stderr, stdin, stdout};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use carrick_lab::scenario;
use carrick_live::{Coming, Standing};
use carrick_livenet::running;
use clap::Args;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::runtime::{self, block_ending_signals};

/// Which network of a scenario.
#[derive(Debug, Args)]
struct Which {
    /// The experiment: satellite, firewall, mobile-ip, failover or overhead.
    scenario: String,
    /// The cell whose network it is, and what changes in it, by the beginning of a live row's name, such
    /// as config3.best; the scenario's usual one. In mobile-ip the node moves, in failover the primary
    /// path breaks.
    #[arg(long, value_name = "CELL")]
    cell: Option<String>,
    /// Seed of its losses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Capture every interface of the network, into pcapng files in this directory.
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
}

/// Run the network of an experiment until Ctrl-C.
///
/// Scheduled changes (link failures, node movement) start once the network is up; each is logged when it
/// occurs.
#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    which: Which,
    /// What changes begins to do so when a line comes on the standard input: press Enter when your
    /// programs run.
    #[arg(long)]
    wait: bool,
    /// Print hosts and changes as JSON.
    #[arg(long)]
    json: bool,
}

/// Run a program, or a shell, on a host of a scenario's network.
///
/// Takes part in the network that `carrick lab up` has started, or else in one of a run of `carrick
/// reproduce --live` that goes on; if there is none, runs one for as long as the program, in which what
/// changes begins to do so with it. The exit code is the program's, and 127 if there is no such program.
#[derive(Debug, Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    which: Which,
    /// The host, as `carrick lab up` names it.
    host: String,
    /// The program and its arguments, after `--`; the shell of $SHELL if there are none.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

impl Which {
    /// The name of a network of one's own.
    fn name(&self) -> String {
        match &self.cell {
            None => self.scenario.clone(),
            Some(cell) => format!("{}.{cell}", self.scenario),
        }
    }

    fn start(&self) -> Result<Standing, Failure> {
        let scenarios = scenario::select(std::slice::from_ref(&self.scenario))?;
        let Some(scenario) = scenarios.first() else {
            return Err(Failure::Usage("name a scenario".into()));
        };
        let world = scenario::world(*scenario, self.cell.as_deref(), self.seed)?;
        Ok(Standing::start(
            &self.name(),
            world,
            self.capture.as_deref(),
        )?)
    }

    /// Those of the networks that are the scenario's and, if one is wanted, of the cell; first what `lab up`
    /// started.
    fn among(&self, networks: Vec<String>) -> Vec<String> {
        let mut found: Vec<String> = networks
            .into_iter()
            .filter(|name| {
                let cell = cell_of(name, &self.scenario);
                cell.is_some_and(|cell| match &self.cell {
                    None => true,
                    Some(wanted) => {
                        let rest = cell.strip_prefix(wanted.as_str());
                        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                    }
                })
            })
            .collect();
        let of_a_run = |name: &String| name[self.scenario.len()..].starts_with('-');
        found.sort_by_key(|name| (of_a_run(name), name.clone()));
        found
    }
}

/// The cell of a network, if it is the scenario's: `SCENARIO`, `SCENARIO.CELL` or, of a live run,
/// `SCENARIO-PID.CELL`.
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

/// A host as JSON has it.
#[derive(Serialize)]
struct HostLine<'a> {
    host: &'a str,
    addresses: &'a [std::net::IpAddr],
}

/// A change as JSON has it.
#[derive(Serialize)]
struct ChangeLine {
    /// Seconds after the beginning.
    after: f64,
    change: String,
}

pub(crate) fn up(arguments: &Up) -> Result<(), Failure> {
    // A signal that comes while the network is built ends the program when that is done, and nothing
    // is left behind.
    runtime::run(async {
        let mut standing = arguments.which.start()?;
        show_hosts(arguments, &standing)?;
        let coming = standing.coming().to_vec();
        tokio::select! {
            _ = runtime::signal_received() => {}
            failed = run_changes(arguments, &mut standing, &coming) => failed?,
        }
        Ok(standing.end()?)
    })
}

/// Begins with the changes of a network and reports each; ends with an error only.
async fn run_changes(
    arguments: &Up,
    standing: &mut Standing,
    coming: &[Coming],
) -> Result<(), Failure> {
    if arguments.wait && !coming.is_empty() {
        a_line().await;
    }
    standing.begin()?;
    tell(coming, Instant::now(), arguments.json).await
}

fn show_hosts(arguments: &Up, standing: &Standing) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let hosts = standing.live().hosts();
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
        let cell = arguments.which.cell.as_ref();
        let cell = cell.map_or_else(String::new, |cell| format!(" --cell {cell}"));
        writeln!(
            out,
            "carrick lab shell {}{cell} {host}    enters a host; Ctrl-C ends",
            arguments.which.scenario
        )?;
        if arguments.wait && !standing.coming().is_empty() {
            let count = standing.coming().len();
            writeln!(out, "Enter begins with what changes ({count} changes)")?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Tells each change when it happens, and never ends.
async fn tell(coming: &[Coming], begin: Instant, json: bool) -> Result<(), Failure> {
    for coming in coming {
        tokio::time::sleep_until((begin + coming.after).into()).await;
        let line = ChangeLine {
            after: coming.after.as_secs_f64(),
            change: coming.to_string(),
        };
        if json {
            let json = serde_json::to_string(&line).unwrap_or_default();
            writeln!(stdout(), "{json}")?;
        } else {
            writeln!(stdout(), "{}", in_words(coming))?;
        }
        stdout().flush()?;
    }
    std::future::pending().await
}

fn in_words(coming: &Coming) -> String {
    format!("after {:.3} s: {coming}", coming.after.as_secs_f64())
}

/// Until a line comes; for ever if none does.
async fn a_line() {
    let (tell, told) = oneshot::channel();
    // It may outlive the wait, and ends with the process.
    thread::spawn(move || {
        let mut line = String::new();
        if stdin().read_line(&mut line).is_ok_and(|len| len > 0) {
            // Whoever waited may be gone.
            let _ = tell.send(());
        }
    });
    if told.await.is_err() {
        std::future::pending().await
    }
}

pub(crate) fn shell(arguments: &Shell) -> Result<(), Failure> {
    // The network is removed before the program ends, whoever ends the program on it; threads that start
    // later inherit this.
    let signals = block_ending_signals()?;
    let heard = Heard::listen(signals);
    let which = &arguments.which;
    let found = which.among(running().into_iter().map(|(name, _)| name).collect());
    let mut own = None;
    let network = match &found[..] {
        [] => {
            own = Some(which.start()?);
            which.name()
        }
        [network] => network.clone(),
        [network, others @ ..] => {
            let others = others.len();
            eprintln!("on a host of {network}; --cell chooses among it and {others} more");
            network.clone()
        }
    };
    if let Some(signal) = heard.early() {
        // There is no program yet that it could reach.
        own.map_or(Ok(()), Standing::end)?;
        std::process::exit(128 + signal as i32);
    }
    let mut child = started(network, arguments, signals)?;
    heard.pass_to(&child);
    if let Some(own) = &mut own {
        let mut errors = stderr().lock();
        for coming in own.coming() {
            writeln!(errors, "scheduled {}", in_words(coming))?;
        }
        own.begin()?;
    }
    let status = child
        .wait()
        .map_err(|error| Failure::Run(format!("cannot wait for the program: {error}")))?;
    if let Some(own) = own {
        own.end()?;
    }
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => std::process::exit(code),
        // As shells tell it.
        (None, Some(signal)) => std::process::exit(128 + signal),
        (None, None) => Err(Failure::Run(format!("the program was ended: {status}"))),
    }
}

/// Starts the program on the host.
fn started(network: String, arguments: &Shell, signals: SigSet) -> Result<Child, Failure> {
    let (host, program) = (arguments.host.clone(), arguments.program.clone());
    // The thread stays in the namespace of the host; this one does not.
    let entered = thread::spawn(move || {
        let mut command = match program.split_first() {
            Some((program, rest)) => {
                let mut command = Command::new(program);
                command.args(rest);
                command
            }
            None => Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())),
        };
        // The program inherits it from this thread.
        let unblocked = signals.thread_unblock();
        unblocked.map_err(|error| Failure::Run(format!("cannot unblock signals: {error}")))?;
        let started = carrick_livenet::start(&network, &host, &mut command);
        started.map_err(Failure::from)
    });
    let panicked = |_| Failure::Run("the program's thread panicked (please report it)".into());
    entered.join().map_err(panicked)?
}

/// Signals that ask for the end, on their way to the program.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Way>>);

#[derive(Default)]
struct Way {
    program: Option<Pid>,
    /// What came before there was a program.
    early: Option<Signal>,
}

impl Heard {
    /// From now on.
    fn listen(signals: SigSet) -> Self {
        let heard = Self::default();
        let listening = heard.clone();
        thread::spawn(move || {
            while let Ok(signal) = signals.wait() {
                let way = &mut *listening.way();
                match way.program {
                    None => way.early = Some(signal),
                    // That reaches it by itself, from the terminal.
                    Some(_) if signal == Signal::SIGINT => {}
                    // It may just have ended.
                    Some(program) => {
                        let _ = kill(program, signal);
                    }
                }
            }
        });
        heard
    }

    /// What came so far, while there was no program.
    fn early(&self) -> Option<Signal> {
        self.way().early
    }

    /// To this program from now on, also what came before.
    fn pass_to(&self, program: &Child) {
        let way = &mut *self.way();
        way.program = i32::try_from(program.id()).ok().map(Pid::from_raw);
        if let (Some(program), Some(signal)) = (way.program, way.early) {
            // It may just have ended.
            let _ = kill(program, signal);
        }
    }

    fn way(&self) -> MutexGuard<'_, Way> {
        // Whoever panicked with it has left it as it was or as it should be.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn which(scenario: &str, cell: Option<&str>) -> Which {
        Which {
            scenario: scenario.into(),
            cell: cell.map(Into::into),
            seed: 1,
            capture: None,
        }
    }

    #[test]
    fn networks_of_a_scenario_are_found_by_scenario_and_cell() {
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
        let found = |cell| which("failover", cell).among(networks());
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
        assert_eq!(which("fail", None).among(networks()), [""; 0]);
    }
}
