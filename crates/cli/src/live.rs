//! `carrick reproduce --live`: experiments in real time after their simulations.

use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use carrick_lab::file::Experiment;
use carrick_lab::live::LiveRun;
use carrick_lab::{LiveResult, RunOptions};
use carrick_live::{Error, RunProgress};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::{Failure, INTERRUPTED};
use crate::runtime::block_ending_signals;

/// Interval of progress lines if standard error is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(15);

/// Runs experiments in real time until a signal stops them.
pub(crate) struct LiveRuns {
    stop: Arc<AtomicBool>,
}

impl LiveRuns {
    /// Checks that live networks can be built here, and handles signals from now on, so that the networks are
    /// removed before the program ends.
    pub(crate) fn new() -> Result<Self, Failure> {
        carrick_live::check_support().map_err(|error| match error {
            Error::NotRoot => Failure::Run(format!(
                "{error}, or leave --live out to run in virtual time"
            )),
            error => error.into(),
        })?;
        let stop = stop_flag()?;
        Ok(Self { stop })
    }

    /// Returns the flag that a signal sets.
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Runs an experiment in real time; the result has a reason instead of rows if it has no live runs. `capture`
    /// is a directory, in whose folder `live` the first repetitions of these cells are captured, or that of the
    /// first cell if none is named.
    pub(crate) fn run(
        &self,
        experiment: &Experiment,
        options: &RunOptions,
        capture: Option<(&Path, &[String])>,
    ) -> Result<LiveResult, Failure> {
        let mut plan = match experiment.live(options) {
            Ok(plan) => plan,
            Err(reason) => return Ok(LiveResult::none(reason)),
        };
        if let Some((directory, cells)) = capture {
            let first = cells.is_empty();
            let wanted = |run: &LiveRun| {
                let named = |cell: &String| cell == Experiment::EVERY_CELL || is_of(run, cell);
                run.is_first() && (first || cells.iter().any(named))
            };
            let limit = if first { 1 } else { usize::MAX };
            for run in plan.runs.iter_mut().filter(|run| wanted(run)).take(limit) {
                run.capture = Some(directory.join("live").join(&run.name));
            }
        }
        let progress = LiveProgress::new();
        Ok(carrick_live::run_experiment(
            experiment.name(),
            plan,
            &progress,
            &self.stop,
        )?)
    }
}

/// Returns a flag that the first signal sets, for work that has networks or files to remove before the program ends.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let signals = block_ending_signals()?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    thread::spawn(move || {
        while signals.wait().is_ok() {
            if stopped.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED.into());
            }
            eprintln!("stopping; a second signal ends the program at once");
        }
    });
    Ok(stop)
}

/// Returns whether a live run belongs to a cell: `config1.0.raw.0` belongs to `config1` and to `config1.0`.
fn is_of(run: &LiveRun, cell: &str) -> bool {
    let rest = cell.strip_prefix(run.cell().as_str());
    run.is_of(cell) || rest.is_some_and(|rest| rest.starts_with('.'))
}

/// Progress of the runs on standard error: a bar on a terminal, otherwise lines.
struct LiveProgress {
    terminal: bool,
    state: Mutex<LiveProgressState>,
}

struct LiveProgressState {
    bar: ProgressBar,
    scenario: String,
    runs: usize,
    /// The bar shows seconds instead of the number of networks built.
    running: bool,
    last_line: Duration,
}

impl LiveProgress {
    fn new() -> Self {
        Self {
            terminal: stderr().is_terminal(),
            state: Mutex::new(LiveProgressState {
                bar: ProgressBar::hidden(),
                scenario: String::new(),
                runs: 0,
                running: false,
                last_line: Duration::ZERO,
            }),
        }
    }

    fn with(&self, act: impl FnOnce(&mut LiveProgressState)) {
        // A poisoned lock only loses the progress.
        if let Ok(mut state) = self.state.lock() {
            act(&mut state);
        }
    }
}

impl RunProgress for LiveProgress {
    fn begin(&self, scenario: &str, runs: usize, expected: Duration) {
        self.with(|state| (state.scenario, state.runs) = (scenario.to_owned(), runs));
        if !self.terminal {
            let seconds = expected.as_secs();
            eprintln!("{scenario} live: {runs} runs, about {seconds} s");
            return;
        }
        let style = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        self.with(|state| {
            state.bar = ProgressBar::new(runs as u64)
                .with_style(style)
                .with_message(format!("{scenario} live: networks built"));
            state.bar.tick();
        });
    }

    fn built(&self) {
        self.with(|state| {
            if !state.running {
                state.bar.inc(1);
            }
        });
    }

    fn running(&self, elapsed: Duration, expected: Duration, done: usize) {
        self.with(|state| {
            state.running = true;
            let LiveProgressState { scenario, runs, .. } = &*state;
            let done = format!("{done} of {runs} runs done");
            if self.terminal {
                let message = format!("{scenario} live: {done}, seconds");
                state.bar.set_message(message);
                state.bar.set_length(expected.max(elapsed).as_secs());
                state.bar.set_position(elapsed.as_secs());
            } else if elapsed > state.last_line + LINE_INTERVAL {
                state.last_line = elapsed;
                let all = expected.as_secs();
                eprintln!("  {} s of about {all} s, {done}", elapsed.as_secs());
            }
        });
    }

    fn end(&self) {
        self.with(|state| state.bar.finish_and_clear());
    }
}
