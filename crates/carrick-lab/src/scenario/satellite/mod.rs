//! `satellite`: retransmissions over a terrestrial backup of a satellite link.
//!
//! After A. Jungmaier, E. P. Rathgeb, M. Schopp, M. Tüxen: "SCTP - A Multi-link End-to-end Protocol
//! for IP-based Networks" (2001), section 4. Two hosts have two disjoint paths, W' over a satellite
//! with random loss and W'' over ISDN. New data takes W', retransmissions W''; the paper proposes
//! that SACKs with gap reports take W'' too.

mod control;
mod figures;
mod live;
mod live_saturated;
mod measure;
mod notes;
mod rows;
mod run;
mod setup;
mod show;
mod tcp;
mod traffic;

use std::time::Duration;

use super::{Progress, RunOptions, Scenario};
use crate::capture::Capture;
use crate::error::LabError;
use crate::parallel;
use crate::result::ScenarioResult;
use crate::seed::derive;
use crate::tcp_host::TcpCongestion;

pub(super) use control::KeepsWindow;
use measure::Measures;
use setup::{STANDARD, VARIANTS};

/// Messages of one simulation: about 100 of them are lost.
const MESSAGES: u64 = 10_000;
/// Repetitions in about ten seconds on two cores.
const SHORT: u64 = 60;
/// The paper does not say how many losses it averaged over; these make the means certain to less than
/// half of what the short run does.
const FULL: u64 = 300;
/// Messages to show in a figure, and after which one: the flow has then settled.
const SHOWN: usize = 500;
const SHOWN_FROM: usize = 1000;
/// How long a saturated flow is measured.
const SATURATED: Duration = Duration::from_secs(300);

/// The scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Satellite;

impl Scenario for Satellite {
    fn name(&self) -> &'static str {
        "satellite"
    }

    fn question(&self) -> &'static str {
        "How long does a message take that is lost on a satellite link and sent again over a \
         terrestrial backup, and how much faster is it when the loss is reported over the backup too?"
    }

    fn usual(&self) -> Option<&'static str> {
        Some("standard")
    }

    fn live(&self, options: &RunOptions) -> Result<crate::live::Plan, &'static str> {
        Ok(live::plan(*self, options))
    }

    fn cells(&self) -> Vec<String> {
        let variants = VARIANTS.iter().map(|variant| variant.id);
        variants.chain(OTHERS).map(Into::into).collect()
    }

    fn repetitions(&self, options: &RunOptions) -> u64 {
        options.repetitions(SHORT, FULL)
    }

    fn replay(
        &self,
        (cell, repetition): (&str, u64),
        options: &RunOptions,
        capture: Capture<'_>,
    ) -> Result<(), String> {
        replayed((cell, repetition), options.seed, capture)
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, LabError> {
        let repetitions = self.repetitions(options);
        let observed = self.simulate(options.seed, repetitions, MESSAGES, progress)?;
        let shortened = (repetitions < FULL).then_some(FULL);
        Ok(show::result(*self, &observed, options.seed).extended(options, shortened))
    }
}

/// All that was measured.
struct Observed {
    /// Bytes per second that the loss-free network carries at most.
    error_free: f64,
    /// The same with loss, in each repetition.
    lossy: Vec<f64>,
    /// For each variant, the measures of each repetition.
    variants: [Vec<Measures>; VARIANTS.len()],
    /// The same three for TCP on W' alone.
    tcp_error_free: f64,
    tcp_lossy: Vec<f64>,
    tcp: Vec<Measures>,
    /// Messages in each simulation.
    messages: u64,
}

/// What one job of a run brings.
enum Outcome {
    Saturated(f64),
    Measured(usize, Measures),
    Tcp(f64, Measures),
}

impl Satellite {
    fn simulate(
        self,
        seed: u64,
        repetitions: u64,
        messages: u64,
        progress: &dyn Progress,
    ) -> Result<Observed, LabError> {
        // Each repetition runs every variant, the standard one under saturation, and TCP.
        let kinds = VARIANTS.len() + 2;
        let jobs = repetitions as usize * kinds;
        progress.begin(self.name(), jobs as u64 + 2);
        let error_free = error_free(seed, Capture::NONE);
        progress.step();
        let tcp_error_free = tcp_error_free(seed, Capture::NONE);
        progress.step();
        let results = parallel::run(jobs, |job| {
            let outcome = repetition(seed, job / kinds, job % kinds, messages);
            progress.step();
            outcome.map_err(|error| format!("repetition {}: {error}", job / kinds))
        });
        progress.end();
        let failed = |what: String| LabError::Simulation {
            scenario: self.name().into(),
            what,
        };
        let mut observed = Observed {
            error_free: error_free.map_err(failed)?,
            lossy: Vec::new(),
            variants: Default::default(),
            tcp_error_free: tcp_error_free.map_err(failed)?,
            tcp_lossy: Vec::new(),
            tcp: Vec::new(),
            messages,
        };
        for result in results {
            match result.map_err(failed)? {
                Outcome::Saturated(rate) => observed.lossy.push(rate),
                Outcome::Measured(variant, measures) => observed.variants[variant].push(measures),
                Outcome::Tcp(rate, measures) => {
                    observed.tcp_lossy.push(rate);
                    observed.tcp.push(measures);
                }
            }
        }
        Ok(observed)
    }
}

/// What the loss-free network carries of SCTP, and of TCP.
fn error_free(seed: u64, capture: Capture<'_>) -> Result<f64, String> {
    run::saturated(&STANDARD, false, SATURATED, derive(seed, &[0]), capture)
}

fn tcp_error_free(seed: u64, capture: Capture<'_>) -> Result<f64, String> {
    tcp::saturated(false, SATURATED, derive(seed, &[0]), capture)
}

/// One simulation of a repetition: the variant of this number, or saturation after the last.
fn repetition(seed: u64, number: usize, kind: usize, messages: u64) -> Result<Outcome, String> {
    let seed = derive(seed, &[1, number as u64]);
    let shown = if number == 0 { SHOWN } else { 0 };
    let none = Capture::NONE;
    let Some(variant) = VARIANTS.get(kind) else {
        if kind == VARIANTS.len() {
            return run::saturated(&STANDARD, true, SATURATED, seed, none).map(Outcome::Saturated);
        }
        let rate = tcp::saturated(true, SATURATED, seed, none)?;
        let run = tcp::lossy(messages, TcpCongestion::Reno, seed, none)?;
        let measures = Measures::of(&run, SHOWN_FROM, shown).ok_or("nothing was sent")?;
        return Ok(Outcome::Tcp(rate, measures));
    };
    let run =
        run::lossy(variant, messages, seed, none).map_err(|e| format!("{}: {e}", variant.id))?;
    let measures = Measures::of(&run, SHOWN_FROM, shown).ok_or("nothing was sent")?;
    Ok(Outcome::Measured(kind, measures))
}

/// The flows over TCP, under saturation and without loss, by the beginning of their rows' names.
const OTHERS: [&str; 5] = ["tcp", "lossy", "tcp.lossy", "error-free", "tcp.error-free"];

/// A repetition of a cell, or the only one.
fn replayed(
    (cell, repetition): (&str, u64),
    seed: u64,
    capture: Capture<'_>,
) -> Result<(), String> {
    let own = derive(seed, &[1, repetition]);
    match cell {
        "tcp" => tcp::lossy(MESSAGES, TcpCongestion::Reno, own, capture).map(drop),
        "lossy" => run::saturated(&STANDARD, true, SATURATED, own, capture).map(drop),
        "tcp.lossy" => tcp::saturated(true, SATURATED, own, capture).map(drop),
        "error-free" => error_free(seed, capture).map(drop),
        "tcp.error-free" => tcp_error_free(seed, capture).map(drop),
        _ => match VARIANTS.iter().find(|variant| variant.id == cell) {
            Some(variant) => run::lossy(variant, MESSAGES, own, capture).map(drop),
            None => Err(format!("there is no cell {cell}")),
        },
    }
}
