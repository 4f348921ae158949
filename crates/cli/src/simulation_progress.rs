//! Progress of simulations on standard error: a bar on a terminal, otherwise a line per scenario.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use carrick_lab::Progress;
use indicatif::ProgressBar;

use crate::failure::Failure;
use crate::progress::bar;

/// Shows the progress of scenarios.
pub(crate) struct SimulationProgress {
    terminal: bool,
    bar: Mutex<ProgressBar>,
    /// Ends the simulations when it is set.
    stop: Option<Arc<AtomicBool>>,
}

impl SimulationProgress {
    pub(crate) fn new(stop: Option<Arc<AtomicBool>>) -> Self {
        Self {
            terminal: stderr().is_terminal(),
            bar: Mutex::new(ProgressBar::hidden()),
            stop,
        }
    }

    /// Progress of simulations that the first signal ends, so that they leave no unfinished files.
    ///
    /// # Errors
    /// Signals cannot be waited for.
    pub(crate) fn until_signal() -> Result<Self, Failure> {
        #[cfg(target_os = "linux")]
        let stop = Some(crate::live::stop_flag()?);
        #[cfg(not(target_os = "linux"))]
        let stop = None;
        Ok(Self::new(stop))
    }

    fn with(&self, act: impl FnOnce(&mut ProgressBar)) {
        // A poisoned lock means that a repetition panicked, which is reported elsewhere.
        if let Ok(mut bar) = self.bar.lock() {
            act(&mut bar);
        }
    }
}

impl Progress for SimulationProgress {
    fn begin(&self, scenario: &str, steps: u64) {
        if !self.terminal {
            eprintln!("{scenario}: running {steps} simulations");
            return;
        }
        self.with(|shown| *shown = bar(scenario, steps));
    }

    fn step(&self) {
        self.with(|bar| bar.inc(1));
    }

    fn end(&self) {
        self.with(|bar| bar.finish_and_clear());
    }

    fn stop(&self) -> Option<&AtomicBool> {
        self.stop.as_deref()
    }
}
