//! `carrick reproduce --live`: scenarios in real time after their simulations.

use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use carrick_lab::live::LiveRun;
use carrick_lab::scenario::EVERY_CELL;
use carrick_lab::{LiveResult, RunOptions, Scenario};
use carrick_live::{Error, Progress};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::{Failure, INTERRUPTED};
use crate::runtime::block_ending_signals;

/// Without a terminal, how often a line says how far it is.
const LINE: Duration = Duration::from_secs(15);

/// Runs scenarios in real time, until somebody asks for the end.
pub(crate) struct Live {
    stop: Arc<AtomicBool>,
    /// There are networks to be removed before the program may end.
    running: Arc<AtomicBool>,
}

impl Live {
    /// Finds out whether this host can, and waits for signals from now on: the networks are removed
    /// before the program ends.
    pub(crate) fn new() -> Result<Self, Failure> {
        carrick_live::check()?;
        Self::wait_for_signals()
    }

    fn wait_for_signals() -> Result<Self, Failure> {
        let signals = block_ending_signals()?;
        let stop = Arc::new(AtomicBool::new(false));
        let running = Arc::new(AtomicBool::new(false));
        let (asked, needed) = (stop.clone(), running.clone());
        thread::spawn(move || {
            while signals.wait().is_ok() {
                // The second one ends the program at once.
                let again = asked.swap(true, Ordering::Relaxed);
                if again || !needed.load(Ordering::Relaxed) {
                    std::process::exit(INTERRUPTED.into());
                }
                eprintln!("stopping; once more ends at once");
            }
        });
        Ok(Self { stop, running })
    }

    /// Set when somebody asked for the end of something that leaves a network behind if it is cut off.
    pub(crate) fn asked() -> Result<Arc<AtomicBool>, Failure> {
        let waiting = Self::wait_for_signals()?;
        waiting.running.store(true, Ordering::Relaxed);
        Ok(waiting.stop)
    }

    /// The runs of a scenario, or why it has none. Captures those of cells, or of the first one, in their
    /// first repetition, into `live` of a directory.
    pub(crate) fn run(
        &self,
        scenario: &dyn Scenario,
        options: &RunOptions,
        capture: Option<(&Path, &[String])>,
    ) -> Result<LiveResult, Failure> {
        let mut plan = match scenario.live(options) {
            Ok(plan) => plan,
            Err(reason) => return Ok(LiveResult::none(reason)),
        };
        if let Some((directory, cells)) = capture {
            let first = cells.is_empty();
            let wanted = |run: &LiveRun| {
                let named = |cell: &String| cell == EVERY_CELL || is_of(run, cell);
                run.is_first() && (first || cells.iter().any(named))
            };
            let most = if first { 1 } else { usize::MAX };
            for run in plan.runs.iter_mut().filter(|run| wanted(run)).take(most) {
                run.capture = Some(directory.join("live").join(&run.name));
            }
        }
        self.running.store(true, Ordering::Relaxed);
        let result = carrick_live::run(scenario.name(), plan, &Bar::new(), &self.stop);
        self.running.store(false, Ordering::Relaxed);
        Ok(result?)
    }
}

/// Whether a live run is of a cell: pmr2.udp.0 is of pmr2 and of pmr2.failover.
fn is_of(run: &LiveRun, cell: &str) -> bool {
    let rest = cell.strip_prefix(run.cell().as_str());
    run.is_of(cell) || rest.is_some_and(|rest| rest.starts_with('.'))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Stopped => Self::Ended(INTERRUPTED, error.to_string()),
            _ => Self::Run(error.to_string()),
        }
    }
}

/// How far the runs are, on the error output.
struct Bar {
    terminal: bool,
    state: Mutex<State>,
}

struct State {
    bar: ProgressBar,
    scenario: String,
    runs: usize,
    /// The bar shows seconds, no longer networks that are built.
    running: bool,
    said: Duration,
}

impl Bar {
    fn new() -> Self {
        Self {
            terminal: stderr().is_terminal(),
            state: Mutex::new(State {
                bar: ProgressBar::hidden(),
                scenario: String::new(),
                runs: 0,
                running: false,
                said: Duration::ZERO,
            }),
        }
    }

    fn with(&self, act: impl FnOnce(&mut State)) {
        // Only this thread has the lock.
        if let Ok(mut state) = self.state.lock() {
            act(&mut state);
        }
    }
}

impl Progress for Bar {
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

    fn running(&self, so_far: Duration, expected: Duration, done: usize) {
        self.with(|state| {
            state.running = true;
            let State { scenario, runs, .. } = &*state;
            let done = format!("{done} of {runs} runs done");
            if self.terminal {
                let message = format!("{scenario} live: {done}, seconds");
                state.bar.set_message(message);
                state.bar.set_length(expected.max(so_far).as_secs());
                state.bar.set_position(so_far.as_secs());
            } else if so_far > state.said + LINE {
                state.said = so_far;
                let all = expected.as_secs();
                eprintln!("  {} s of about {all} s, {done}", so_far.as_secs());
            }
        });
    }

    fn end(&self) {
        self.with(|state| state.bar.finish_and_clear());
    }
}
