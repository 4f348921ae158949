//! Scenarios: what one is, how it is run, and which there are.

pub mod failover;
pub mod firewall;
pub mod mobile_ip;
pub mod overhead;
pub mod satellite;

use carrick_netsim::{ConfigError, Network, NodeId};

use crate::error::LabError;
use crate::live;
use crate::result::ScenarioResult;

/// How to run a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// The seed that decides everything random.
    pub seed: u64,
    /// Repetitions of each variant; the scenario's own number when `None`.
    pub reps: Option<u64>,
    /// As many repetitions as the publication had, or as many as its precision needs, instead of
    /// what fits into a minute.
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
    /// The number of repetitions, given the scenario's own numbers for a short and a full run.
    pub fn repetitions(&self, short: u64, full: u64) -> u64 {
        let own = if self.full { full } else { short };
        self.reps.unwrap_or(own).max(1)
    }

    /// The number of repetitions in real time, given the scenario's own numbers; never more than those
    /// of a full run, because all run at the same time.
    pub fn live_repetitions(&self, short: u64, full: u64) -> u64 {
        self.repetitions(short, full).min(full)
    }
}

/// Is told how far a scenario is, from any thread.
pub trait Progress: Sync {
    /// A scenario of `steps` steps begins.
    fn begin(&self, scenario: &str, steps: u64);
    /// One step is done.
    fn step(&self);
    /// The scenario is done.
    fn end(&self);
}

/// For those who do not want to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: u64) {}
    fn step(&self) {}
    fn end(&self) {}
}

/// Builds the network of a scenario, given a seed for its losses, and names the nodes that are hosts.
/// They have no programs yet.
pub type NetworkPlan = fn(u64) -> Result<(Network, Vec<NodeId>), ConfigError>;

/// A published experiment that can be run again.
pub trait Scenario: Sync {
    /// The name on the command line and of the files.
    fn name(&self) -> &'static str;
    /// The question it answers, in one sentence.
    fn question(&self) -> &'static str;
    /// Its network without traffic, to be run in real time, if it has one network.
    fn network(&self) -> Option<NetworkPlan> {
        None
    }
    /// Its runs in real time.
    ///
    /// # Errors
    /// Why there are none.
    fn live(&self, options: &RunOptions) -> Result<live::Plan, &'static str> {
        let _ = options;
        Err("nobody has said how.")
    }
    /// Runs it. The same options give the same result.
    ///
    /// # Errors
    /// When the simulation does not do what the scenario needs, which is a fault of the stack or of
    /// the scenario, never of the caller.
    fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, LabError>;
}

/// All scenarios, in the order in which they are run.
pub fn all() -> Vec<&'static dyn Scenario> {
    vec![
        &satellite::Satellite,
        &firewall::Firewall,
        &mobile_ip::MobileIp,
        &failover::FailoverScenario,
        &overhead::Overhead,
    ]
}

/// The scenarios with these names, in the order of [`all`]; no names stand for all of them.
///
/// # Errors
/// [`LabError::UnknownScenario`] for a name that none has.
pub fn select(names: &[String]) -> Result<Vec<&'static dyn Scenario>, LabError> {
    choose(all(), names)
}

fn choose<'a>(
    all: Vec<&'a dyn Scenario>,
    names: &[String],
) -> Result<Vec<&'a dyn Scenario>, LabError> {
    if let Some(unknown) = names
        .iter()
        .find(|name| all.iter().all(|s| s.name() != name.as_str()))
    {
        let known: Vec<&str> = all.iter().map(|s| s.name()).collect();
        return Err(LabError::UnknownScenario {
            name: unknown.clone(),
            known: known.join(", "),
        });
    }
    let wanted = |s: &&dyn Scenario| names.is_empty() || names.iter().any(|n| n == s.name());
    Ok(all.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str);

    impl Scenario for Named {
        fn name(&self) -> &'static str {
            self.0
        }
        fn question(&self) -> &'static str {
            "?"
        }
        fn run(&self, _: &RunOptions, _: &dyn Progress) -> Result<ScenarioResult, LabError> {
            Err(LabError::Simulation {
                scenario: self.0.into(),
                what: "a test".into(),
            })
        }
    }

    fn chosen(names: &[&str]) -> Result<Vec<&'static str>, String> {
        let all: Vec<&dyn Scenario> = vec![&Named("one"), &Named("two")];
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        choose(all, &names)
            .map(|found| found.iter().map(|s| s.name()).collect())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn no_name_means_all_and_the_order_is_fixed() {
        assert_eq!(chosen(&[]).unwrap(), ["one", "two"]);
        assert_eq!(chosen(&["two", "one", "two"]).unwrap(), ["one", "two"]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = chosen(&["two", "three"]).unwrap_err();
        assert_eq!(error, "there is no scenario 'three'; known: one, two");
    }

    #[test]
    fn repetitions_come_from_the_caller_first() {
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
        assert_eq!(asked.repetitions(5, 50), 1, "none at all measures nothing");
        let many = RunOptions {
            reps: Some(1000),
            ..options
        };
        assert_eq!(many.live_repetitions(3, 6), 6);
        assert_eq!(options.live_repetitions(3, 6), 3);
    }
}
