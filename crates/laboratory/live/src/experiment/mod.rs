//! Experiments in real time: carries out the live runs of a plan.

mod capture_writer;
mod conditions;
mod external;
mod host_addresses;
mod multipath;
mod participant;
mod quic;
mod recorder;
mod running_network;
mod sctp;
mod tcp;
mod timer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use carrick_lab::LiveResult;
use carrick_lab::live::{
    self, Accuracy, Connection, Lateness, LivePlan, ProbeResult, RunOutcome, RunRecord, Stack,
};

use self::conditions::Probing;
use self::participant::{Participant, ParticipantError, ParticipantResult, RunState};
use self::recorder::Recorder;
use crate::accuracy::StallMonitor;
use crate::error::Error;
use crate::network::{CapturedPacket, Host};

pub use conditions::check_support;
pub use running_network::{RunningNetwork, ScheduledChange};

/// Interval at which the state of the runs is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Receives the progress of an experiment's runs.
pub trait RunProgress {
    /// Reports the number of runs and their expected duration in total, before the networks are built.
    fn begin(&self, scenario: &str, runs: usize, expected: Duration);
    /// Reports that a network is built.
    fn built(&self);
    /// Reports the time since the begin, the expected duration in total, and the number of completed runs.
    fn running(&self, elapsed: Duration, expected: Duration, done: usize);
    /// Reports the end of all runs.
    fn end(&self);
}

/// Runs an experiment in real time, with as many runs at the same time as the plan allows, and returns its
/// result with the accuracy of the emulation. A run that fails is part of the result.
///
/// # Errors
/// [`Error::Stopped`] once `stop` is set; others if a network can't be built, or if the measurements cannot
/// be evaluated.
pub fn run_experiment(
    scenario: &str,
    plan: LivePlan,
    progress: &dyn RunProgress,
    stop: &AtomicBool,
) -> Result<LiveResult, Error> {
    let longest = plan.runs.iter().map(|run| run.expected).max();
    let at_once = plan.at_once.max(1);
    let batches = u32::try_from(plan.runs.len().div_ceil(at_once)).unwrap_or(u32::MAX);
    let execution = Execution {
        scenario,
        each: longest.unwrap_or_default(),
        expected: longest.unwrap_or_default() * batches,
        begin: Instant::now(),
        progress,
        stop,
    };
    progress.begin(scenario, plan.runs.len(), execution.expected);
    let outcomes = execution.execute(plan.runs, at_once);
    progress.end();
    let (outcomes, accuracy) = outcomes?;
    let mut result = (plan.conclude)(outcomes)?;
    result.accuracy = Some(accuracy);
    Ok(result)
}

/// Execution of a plan.
struct Execution<'a> {
    scenario: &'a str,
    /// Expected duration of a batch of runs.
    each: Duration,
    /// Expected duration of all batches.
    expected: Duration,
    begin: Instant,
    progress: &'a dyn RunProgress,
    stop: &'a AtomicBool,
}

impl Execution<'_> {
    fn execute(
        &self,
        runs: Vec<live::LiveRun>,
        at_once: usize,
    ) -> Result<(Vec<RunOutcome>, Accuracy), Error> {
        let (cores, load) = conditions::load();
        let monitor = StallMonitor::start(self.begin)?;
        let mut outcomes = Vec::new();
        let mut lateness = Lateness::default();
        let mut without_real_time = None;
        let mut probing = None;
        let mut runs = runs.into_iter().peekable();
        while runs.peek().is_some() {
            let built = self.build(runs.by_ref().take(at_once))?;
            probing.get_or_insert_with(|| Probing::start(self.each));
            let mut started = Vec::new();
            for built in built {
                let emulation = built.network.live().emulation();
                let reason = emulation.without_real_time().map(ToOwned::to_owned);
                without_real_time = without_real_time.or(reason);
                started.push(built.start()?);
            }
            for (outcome, epoch) in self.finish(started, outcomes.len())? {
                if let Some(record) = outcome.record() {
                    let shift = epoch.saturating_duration_since(self.begin);
                    lateness.append(&record.lateness, shift);
                }
                outcomes.push(outcome);
            }
        }
        let probe = match probing {
            Some(probing) => self.finish_probing(probing)?,
            None => None,
        };
        let stalls = monitor.finish();
        let later = lateness.late(|due, handed, limit| stalls.explain_lateness(due, handed, limit));
        let machine = conditions::summarize(&stalls, without_real_time);
        let accuracy = Accuracy::new(lateness, (later, Some(machine)), probe, (cores, load));
        Ok((outcomes, accuracy))
    }

    /// Waits for the measurement beside the runs.
    fn finish_probing(&self, probing: Probing) -> Result<Option<ProbeResult>, Error> {
        while !probing.is_complete() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(probing.finish())
    }

    /// Builds the networks of a batch before its first run starts, because building delays running networks.
    fn build(&self, runs: impl Iterator<Item = live::LiveRun>) -> Result<Vec<BuiltRun>, Error> {
        let mut built = Vec::new();
        for run in runs {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            built.push(BuiltRun::new(self.scenario, run)?);
            self.progress.built();
        }
        Ok(built)
    }

    /// Waits for the end of a batch after `completed` runs of earlier batches; returns each outcome with the
    /// time 0 of its run.
    fn finish(
        &self,
        mut started: Vec<StartedRun>,
        completed: usize,
    ) -> Result<Vec<(RunOutcome, Instant)>, Error> {
        loop {
            for run in &mut started {
                run.start_changes();
            }
            if self.stop.load(Ordering::Relaxed) {
                for run in &started {
                    run.state.aborted.store(true, Ordering::Release);
                }
                // Each participant ends within `participant::MAX_WAIT`.
                for run in started {
                    drop(run.finish());
                }
                return Err(Error::Stopped);
            }
            let done = started.iter().filter(|run| run.is_over()).count();
            if done == started.len() {
                let outcome = |run: StartedRun| {
                    let epoch = run.state.epoch;
                    (run.finish(), epoch)
                };
                return Ok(started.into_iter().map(outcome).collect());
            }
            let elapsed = self.begin.elapsed();
            self.progress
                .running(elapsed, self.expected, completed + done);
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Run whose network is built.
struct BuiltRun {
    network: RunningNetwork,
    recorder: Arc<Mutex<Recorder>>,
    flows: Vec<Connection>,
    limit: Duration,
    epoch: Instant,
}

impl BuiltRun {
    fn new(scenario: &str, run: live::LiveRun) -> Result<Self, Error> {
        // Another process may run the same scenario on this machine.
        let name = format!("{scenario}-{}.{}", std::process::id(), run.name);
        let epoch = Instant::now();
        let recorder = Recorder::new(run.watch, run.flows.len());
        let recorder = Arc::new(Mutex::new(recorder));
        let shared = recorder.clone();
        let observer = move |packet: &CapturedPacket<'_>| {
            if let Ok(mut recorder) = shared.lock() {
                recorder.record(packet);
            }
        };
        let capture = run.capture.as_deref();
        let network =
            RunningNetwork::start_with_observer(&name, epoch, run.world, capture, observer)?;
        for (flow, hosts) in run.flows.iter().zip(network.live().hosts().chunks(2)) {
            if let Stack::Tcp {
                window: Some(window),
                ..
            } = flow.stack
            {
                limit_window(hosts, window)?;
            }
        }
        Ok(Self {
            network,
            recorder,
            flows: run.flows,
            limit: run.limit,
            epoch,
        })
    }

    fn start(self) -> Result<StartedRun, Error> {
        let state = Arc::new(RunState::new(self.epoch, self.limit, self.flows.len()));
        let mut threads = Vec::new();
        for (index, (flow, hosts)) in self
            .flows
            .into_iter()
            .zip(self.network.live().hosts().chunks(2))
            .enumerate()
        {
            let own = |end: usize| hosts.get(end).map(|host| host.addresses().to_vec());
            let addresses = flow
                .addresses
                .unwrap_or_else(|| [0, 1].map(|end| own(end).unwrap_or_default()));
            for (end, (program, host)) in flow.programs.into_iter().zip(hosts).enumerate() {
                let participant = Participant {
                    number: 2 * index + end,
                    client: end == flow.client,
                    addresses: addresses[end].clone(),
                    peers: addresses[1 - end].clone(),
                    roams: flow.roams == Some(end),
                    may_be_lost: flow.may_be_lost,
                    stack: flow.stack.clone(),
                    program,
                };
                let state = state.clone();
                threads.push(host.spawn(move || participant.run(&state))?);
            }
        }
        Ok(StartedRun {
            network: self.network,
            recorder: self.recorder,
            state,
            threads,
        })
    }
}

/// Limits the TCP window of the hosts to `window` bytes on all their routes.
fn limit_window(hosts: &[Host], window: usize) -> Result<(), Error> {
    for host in hosts {
        let shown = host.command("ip", &["-4", "route", "show", "table", "all"])?;
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let routes = shown.lines().filter(|line| line.contains("dev link"));
        for route in routes.filter(|line| !line.starts_with("local")) {
            let window = window.to_string();
            let words: Vec<&str> = ["route", "change"]
                .into_iter()
                .chain(route.split_whitespace())
                .chain(["window", &window])
                .collect();
            let changed = host.command("ip", &words)?;
            if !changed.status.success() {
                return Err(Error::Command {
                    command: format!("ip {}", words.join(" ")),
                    output: String::from_utf8_lossy(&changed.stderr).trim().to_owned(),
                });
            }
        }
    }
    Ok(())
}

type ParticipantThread = JoinHandle<std::io::Result<Result<ParticipantResult, ParticipantError>>>;

/// Run whose participants are running.
struct StartedRun {
    network: RunningNetwork,
    recorder: Arc<Mutex<Recorder>>,
    state: Arc<RunState>,
    threads: Vec<ParticipantThread>,
}

impl StartedRun {
    /// Starts the scheduled changes of the network as soon as all flows have started.
    fn start_changes(&mut self) {
        if self.network.changes().is_empty() {
            return;
        }
        let Some(begin) = self.state.started() else {
            return;
        };
        let begin = carrick_netsim::Time::from_nanos(begin.as_nanos());
        if self.network.start_changes_at(begin).is_err() {
            // Without its changes the run has no meaning.
            self.state.aborted.store(true, Ordering::Release);
        }
    }

    fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the participants, and removes the network.
    fn finish(self) -> RunOutcome {
        let mut programs = Vec::new();
        let mut errors = Vec::new();
        let mut timeouts = None;
        let mut external = Vec::new();
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(Ok(result))) => {
                    timeouts.get_or_insert(result.timeouts);
                    external.extend(result.external);
                    programs.push(result.program);
                }
                Ok(Ok(Err(error))) => errors.push(error),
                Ok(Err(error)) => errors.push(error.into()),
                Err(_) => errors.push(ParticipantError::Failed(
                    "a host panicked (please report it)".into(),
                )),
            }
        }
        let refused = self.network.live().emulation().dropped_packets();
        // The recorder is complete when the network has stopped.
        if let Err(error) = self.network.remove() {
            errors.push(ParticipantError::Failed(error.to_string()));
        }
        if let Some(outcome) = failed_outcome(errors) {
            return outcome;
        }
        let recorder = self.recorder.lock().map(|mut r| std::mem::take(&mut *r));
        let (Ok(recorder), Some(begin)) = (recorder, self.state.started()) else {
            return RunOutcome::Failed("the run ended before its programs started".into());
        };
        RunOutcome::Ran(RunRecord {
            begin,
            programs,
            seen: recorder.seen,
            external,
            timeouts: timeouts.unwrap_or_default(),
            lost: self.state.lost(),
            lateness: recorder.lateness,
            refused,
        })
    }
}

/// Returns the outcome of a run with errors: a missing feature, else the first error that is not the consequence of
/// another one; `None` without errors.
fn failed_outcome(errors: Vec<ParticipantError>) -> Option<RunOutcome> {
    let mut failed = None;
    let mut aborted = false;
    for error in errors {
        match error {
            ParticipantError::Missing(what) => return Some(RunOutcome::Missing(what)),
            ParticipantError::Lost(what) | ParticipantError::Failed(what) => {
                failed.get_or_insert(what);
            }
            ParticipantError::Aborted => aborted = true,
        }
    }
    let aborted = aborted.then(|| "another host failed".into());
    failed.or(aborted).map(RunOutcome::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_precedes_other_errors() {
        let failed = |what: &str| ParticipantError::Failed(what.into());
        let both = vec![failed("x"), ParticipantError::Missing("no bbr".into())];
        assert!(
            matches!(failed_outcome(both), Some(RunOutcome::Missing(what)) if what == "no bbr")
        );
        let two = vec![ParticipantError::Aborted, failed("first"), failed("second")];
        assert!(matches!(failed_outcome(two), Some(RunOutcome::Failed(what)) if what == "first"));
        assert!(failed_outcome(Vec::new()).is_none());
    }
}
