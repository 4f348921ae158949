//! Carries out a plan.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use carrick_lab::LiveResult;
use carrick_lab::live::{
    self, Accuracy, Flow, Lateness, LivePlan, ProbeResult, RunOutcome, RunRecord, Stack,
};
use carrick_livenet::Watch;

use crate::error::Error;
use crate::host::{Ended, Host, Shared, Trouble};
use crate::machine::{self, Probing};
use crate::recorder::Recorder;
use crate::standing::Standing;

/// Set-up may take this long.
const SET_UP: Duration = Duration::from_secs(60);
/// Between two looks at the runs.
const TICK: Duration = Duration::from_millis(50);

/// Is told how far the runs of a scenario are.
pub trait Progress {
    /// Networks are built for so many runs, which will take about so long together.
    fn begin(&self, scenario: &str, runs: usize, expected: Duration);
    /// A network stands.
    fn built(&self);
    /// Networks stand and run; all has taken so long.
    fn running(&self, so_far: Duration, expected: Duration, done: usize);
    /// They are done.
    fn end(&self);
}

/// Carries out the runs of a scenario, as many at the same time as the plan allows, until `stop` is set.
///
/// # Errors
/// [`Error::Stopped`] if it was; otherwise if a network can't be built, or if what was measured makes
/// no result. Runs that go wrong are told in the result.
pub fn run(
    scenario: &str,
    plan: LivePlan,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<LiveResult, Error> {
    let longest = plan.runs.iter().map(|run| run.expected).max();
    let at_once = plan.at_once.max(1);
    let batches = u32::try_from(plan.runs.len().div_ceil(at_once)).unwrap_or(u32::MAX);
    let job = Job {
        scenario,
        each: longest.unwrap_or_default(),
        expected: longest.unwrap_or_default() * batches,
        begin: Instant::now(),
        progress,
        stop,
    };
    progress.begin(scenario, plan.runs.len(), job.expected);
    let outcomes = job.carry_out(plan.runs, at_once);
    progress.end();
    let (outcomes, accuracy) = outcomes?;
    let mut result = (plan.conclude)(outcomes)?;
    result.accuracy = Some(accuracy);
    Ok(result)
}

/// The runs of a scenario, under way.
struct Job<'a> {
    scenario: &'a str,
    /// How long a batch is expected to take, and all of them.
    each: Duration,
    expected: Duration,
    begin: Instant,
    progress: &'a dyn Progress,
    stop: &'a AtomicBool,
}

impl Job<'_> {
    fn carry_out(
        &self,
        runs: Vec<live::LiveRun>,
        at_once: usize,
    ) -> Result<(Vec<RunOutcome>, Accuracy), Error> {
        let (cores, load) = machine::load();
        let watch = Watch::start(self.begin)?;
        let mut outcomes = Vec::new();
        let mut lateness = Lateness::default();
        let mut ordinary = None;
        let mut probing = None;
        let mut runs = runs.into_iter().peekable();
        while runs.peek().is_some() {
            let built = self.build(runs.by_ref().take(at_once))?;
            probing.get_or_insert_with(|| Probing::begin(self.each));
            let mut started = Vec::new();
            for built in built {
                let why = built
                    .standing
                    .live()
                    .emulation()
                    .ordinary()
                    .map(ToOwned::to_owned);
                ordinary = ordinary.or(why);
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
            Some(probing) => self.measured(probing)?,
            None => None,
        };
        let stood = watch.end();
        let late = lateness.late(|due, handed, wanted| stood.excuse(due, handed, wanted));
        let machine = machine::stood(&stood, ordinary);
        let accuracy = Accuracy::new(lateness, (late, Some(machine)), probe, (cores, load));
        Ok((outcomes, accuracy))
    }

    /// Waits for what is measured beside the runs.
    fn measured(&self, probing: Probing) -> Result<Option<ProbeResult>, Error> {
        while !probing.is_over() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            thread::sleep(TICK);
        }
        Ok(probing.end())
    }

    /// Builds networks one after the other: it would be in the way of those that run.
    fn build(&self, runs: impl Iterator<Item = live::LiveRun>) -> Result<Vec<Built>, Error> {
        let mut built = Vec::new();
        for run in runs {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            built.push(Built::new(self.scenario, run)?);
            self.progress.built();
        }
        Ok(built)
    }

    /// Waits for the end of runs, `before` others having ended; returns each with the moment from which it
    /// counts times.
    fn finish(
        &self,
        mut started: Vec<Started>,
        before: usize,
    ) -> Result<Vec<(RunOutcome, Instant)>, Error> {
        loop {
            for run in &mut started {
                run.schedule();
            }
            if self.stop.load(Ordering::Relaxed) {
                for run in &started {
                    run.shared.over.store(true, Ordering::Release);
                }
                // Each host sees it within its patience; the networks go with what is dropped here.
                for run in started {
                    drop(run.end());
                }
                return Err(Error::Stopped);
            }
            let done = started.iter().filter(|run| run.is_over()).count();
            if done == started.len() {
                let ended = started.into_iter().map(|run| (run.shared.epoch, run.end()));
                return Ok(ended.map(|(epoch, outcome)| (outcome, epoch)).collect());
            }
            let so_far = self.begin.elapsed();
            self.progress.running(so_far, self.expected, before + done);
            thread::sleep(TICK);
        }
    }
}

/// A run whose network stands.
struct Built {
    standing: Standing,
    recorder: Arc<Mutex<Recorder>>,
    flows: Vec<Flow>,
    limit: Duration,
    epoch: Instant,
}

impl Built {
    fn new(scenario: &str, run: live::LiveRun) -> Result<Self, Error> {
        // Others may run the same scenario on this host.
        let name = format!("{scenario}-{}.{}", std::process::id(), run.name);
        let epoch = Instant::now();
        let recorder = Recorder::new(run.watch, run.flows.len());
        let recorder = Arc::new(Mutex::new(recorder));
        let notes = recorder.clone();
        let capture = run.capture.as_deref();
        let standing = Standing::start_tapped(&name, epoch, run.world, capture, move |tapped| {
            if let Ok(mut recorder) = notes.lock() {
                recorder.note(tapped);
            }
        })?;
        for (flow, hosts) in run.flows.iter().zip(standing.live().hosts().chunks(2)) {
            if let Stack::Tcp {
                window: Some(window),
                ..
            } = flow.stack
            {
                limit_window(hosts, window)?;
            }
        }
        Ok(Self {
            standing,
            recorder,
            flows: run.flows,
            limit: run.limit,
            epoch,
        })
    }

    fn start(self) -> Result<Started, Error> {
        let deadline = Instant::now() + SET_UP + self.limit;
        let shared = Arc::new(Shared::new(self.epoch, deadline, self.flows.len()));
        let mut threads = Vec::new();
        for (place, (flow, hosts)) in self
            .flows
            .into_iter()
            .zip(self.standing.live().hosts().chunks(2))
            .enumerate()
        {
            let own = |end: usize| hosts.get(end).map(|host| host.addresses().to_vec());
            let addresses = flow
                .addresses
                .unwrap_or_else(|| [0, 1].map(|end| own(end).unwrap_or_default()));
            for (end, (program, of)) in flow.programs.into_iter().zip(hosts).enumerate() {
                let host = Host {
                    number: 2 * place + end,
                    client: end == flow.client,
                    addresses: addresses[end].clone(),
                    peers: addresses[1 - end].clone(),
                    roams: flow.roams == Some(end),
                    may_be_lost: flow.may_be_lost,
                    stack: flow.stack.clone(),
                    program,
                };
                let shared = shared.clone();
                threads.push(of.spawn(move || host.run(&shared))?);
            }
        }
        Ok(Started {
            standing: self.standing,
            recorder: self.recorder,
            shared,
            threads,
        })
    }
}

/// Windows of this many bytes at most on all ways of the hosts, in the routes that `ip` shows.
fn limit_window(hosts: &[carrick_livenet::Host], window: usize) -> Result<(), Error> {
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
                return Err(Error::Network(carrick_livenet::Error::Command {
                    command: format!("ip {}", words.join(" ")),
                    output: String::from_utf8_lossy(&changed.stderr).trim().to_owned(),
                }));
            }
        }
    }
    Ok(())
}

type HostThread = JoinHandle<std::io::Result<Result<Ended, Trouble>>>;

/// A run whose hosts run.
struct Started {
    standing: Standing,
    recorder: Arc<Mutex<Recorder>>,
    shared: Arc<Shared>,
    threads: Vec<HostThread>,
}

impl Started {
    /// Tells the network what will change, once it is known when.
    fn schedule(&mut self) {
        if self.standing.coming().is_empty() {
            return;
        }
        let Some(begin) = self.shared.began() else {
            return;
        };
        let begin = carrick_netsim::Time::from_nanos(begin.as_nanos());
        if self.standing.begin_at(begin).is_err() {
            // A run without its changes is none.
            self.shared.over.store(true, Ordering::Release);
        }
    }

    fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the hosts, and removes the network.
    fn end(self) -> RunOutcome {
        let mut programs = Vec::new();
        let mut troubles = Vec::new();
        let mut timeouts = None;
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(Ok(ended))) => {
                    timeouts.get_or_insert(ended.timeouts);
                    programs.push(ended.program);
                }
                Ok(Ok(Err(trouble))) => troubles.push(trouble),
                Ok(Err(error)) => troubles.push(error.into()),
                Err(_) => {
                    troubles.push(Trouble::Failed("a host panicked (please report it)".into()))
                }
            }
        }
        let refused = self.standing.live().emulation().refused();
        // The recorder is complete when the network has stopped.
        if let Err(error) = self.standing.end() {
            troubles.push(Trouble::Failed(error.to_string()));
        }
        if let Some(trouble) = worst(troubles) {
            return trouble;
        }
        let recorder = self.recorder.lock().map(|mut r| std::mem::take(&mut *r));
        let (Ok(recorder), Some(begin)) = (recorder, self.shared.began()) else {
            return RunOutcome::Failed("it ended before it began".into());
        };
        RunOutcome::Ran(RunRecord {
            begin,
            programs,
            seen: recorder.seen,
            timeouts: timeouts.unwrap_or_default(),
            lost: self.shared.lost(),
            lateness: recorder.lateness,
            refused,
        })
    }
}

/// The trouble that explains the others.
fn worst(troubles: Vec<Trouble>) -> Option<RunOutcome> {
    let mut failed = None;
    for trouble in troubles {
        match trouble {
            Trouble::Missing(what) => return Some(RunOutcome::Missing(what)),
            Trouble::Lost(what) | Trouble::Failed(what) => {
                failed.get_or_insert(what);
            }
        }
    }
    failed.map(RunOutcome::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_explains_what_failed() {
        let failed = |what: &str| Trouble::Failed(what.into());
        let both = vec![failed("x"), Trouble::Missing("no bbr".into())];
        assert!(matches!(worst(both), Some(RunOutcome::Missing(what)) if what == "no bbr"));
        let two = vec![failed("first"), failed("second")];
        assert!(matches!(worst(two), Some(RunOutcome::Failed(what)) if what == "first"));
        assert!(worst(Vec::new()).is_none());
    }
}
