//! Options of a run, and the observer of its progress.

use std::sync::atomic::AtomicBool;

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Seed from which all random numbers are derived.
    pub seed: u64,
    /// Repetitions of each variant; the scenario's own number if `None`.
    pub reps: Option<u64>,
    /// Runs as many repetitions as the publication, or as many as its precision requires, instead
    /// of as many as fit into a minute.
    pub full: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            reps: None,
            full: false,
        }
    }
}

impl RunOptions {
    /// Returns the number of repetitions, given the scenario's own numbers for a short and a full
    /// run.
    pub fn repetitions(&self, short: u64, full: u64) -> u64 {
        let own = if self.full { full } else { short };
        self.reps.unwrap_or(own).max(1)
    }

    /// Returns the number of live repetitions, given the scenario's own numbers; at most those of a
    /// full run, because all run at the same time.
    pub fn live_repetitions(&self, short: u64, full: u64) -> u64 {
        self.repetitions(short, full).min(full)
    }
}

/// Observer of the progress of scenarios, called from any thread.
pub trait Progress: Sync {
    /// Begins a scenario of `steps` steps.
    fn begin(&self, scenario: &str, steps: u64);
    /// Completes a step.
    fn step(&self);
    /// Completes the scenario.
    fn end(&self);
    /// Returns the flag that ends the scenario with [`LabError::Stopped`](crate::LabError::Stopped) when it is set.
    fn stop(&self) -> Option<&AtomicBool> {
        None
    }
}

/// Progress observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: u64) {}
    fn step(&self) {}
    fn end(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_repetitions_take_precedence() {
        let options = RunOptions::default();
        assert_eq!(options.repetitions(5, 50), 5);
        assert_eq!(
            RunOptions {
                full: true,
                ..options
            }
            .repetitions(5, 50),
            50
        );
        let asked = RunOptions {
            reps: Some(0),
            full: true,
            ..options
        };
        assert_eq!(asked.repetitions(5, 50), 1, "at least one repetition");
        let many = RunOptions {
            reps: Some(1000),
            ..options
        };
        assert_eq!(many.live_repetitions(3, 6), 6);
        assert_eq!(options.live_repetitions(3, 6), 3);
    }
}
