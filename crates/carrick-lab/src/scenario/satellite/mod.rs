//! `satellite`: retransmissions over a terrestrial backup of a satellite link.
//!
//! After A. Jungmaier, E. P. Rathgeb, M. Schopp, M. Tüxen: "SCTP - A Multi-link End-to-end Protocol
//! for IP-based Networks" (2001), section 4. Two hosts have two disjoint paths, W' over a satellite
//! with random loss and W'' over ISDN. New data is sent on W', retransmissions on W''; the paper
//! proposes to send SACKs with gap reports on W'', too.

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
use crate::publication::{FittedSetting, Publication};
use crate::result::ScenarioResult;
use crate::seed::derive;
use crate::tcp_host::TcpCongestion;

use measure::Measures;
use setup::{RFC, STANDARD, VARIANTS};

/// Messages of one simulation: about 100 of them are lost.
const MESSAGES: u64 = 10_000;
/// Repetitions of a short run, which takes about ten seconds on two cores.
const SHORT: u64 = 40;
/// Repetitions of a full run. The paper does not specify the number of losses behind its means;
/// with these repetitions the intervals are less than half as wide as in the short run.
const FULL: u64 = 200;
/// Number of messages in a figure, and number of the first one: the flow has settled by then.
const SHOWN: usize = 500;
const SHOWN_FROM: usize = 1000;
/// Measurement time of a saturated flow.
const SATURATED: Duration = Duration::from_secs(300);

/// The scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Satellite;

impl Scenario for Satellite {
    fn name(&self) -> &'static str {
        "satellite"
    }

    fn question(&self) -> &'static str {
        "What is the delay of a message that is lost on a satellite link and retransmitted over a \
         terrestrial backup, and how much shorter is it if the loss is reported over the backup, too?"
    }

    fn publication(&self) -> Publication {
        Publication {
            authors: "Andreas Jungmaier, Erwin P. Rathgeb, Michael Schopp, Michael Tüxen",
            title: "SCTP – A Multi-link End-to-end Protocol for IP-based Networks",
            place: "AEÜ International Journal of Electronics and Communications",
            year: 2001,
        }
    }

    fn fitted(&self) -> Vec<FittedSetting> {
        vec![
            FittedSetting {
                setting: "receive window 29 KByte",
                chosen_by: "the error-free throughput of 52 KByte/s",
                alternatives: "TCP with the same window is 5 % faster",
            },
            FittedSetting {
                setting: "send buffer 32 KByte, for which SEND waits",
                chosen_by: "the mean throughput of 29 KByte/s, and Fig. 8, where the delay of TCP returns to 250 ms",
                alternatives: "24,000 and 65,536 bytes change neither the delays of SCTP with the window kept nor its throughput by \
                               more than 1 %; with 16,384 bytes it carries 20 KByte/s. RFC 9260's delay grows with the buffer: 880 ms \
                               with 24,000 bytes, 1460 ms with 65,536",
            },
            FittedSetting {
                setting: "bytes acknowledged twice by gap reports count until nothing is outstanding (gap_ack_count)",
                chosen_by: "765 and 527 ms together with 29 KByte/s; the implementation of 2000 is not public",
                alternatives: "if they count until the gap is closed, the standard delay is 974 ms at 27 KByte/s",
            },
        ]
    }

    fn usual(&self) -> Option<&'static str> {
        Some("standard")
    }

    fn live(&self, options: &RunOptions) -> Result<crate::live::LivePlan, &'static str> {
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

/// All results.
struct Observed {
    /// Throughput of the loss-free network in bytes per second.
    error_free: f64,
    /// Throughput with loss, in each repetition.
    lossy: Vec<f64>,
    /// Measures of each repetition, for each variant.
    variants: [Vec<Measures>; VARIANTS.len()],
    /// The same three results for TCP on W' only.
    tcp_error_free: f64,
    tcp_lossy: Vec<f64>,
    tcp: Vec<Measures>,
    /// Messages in each simulation.
    messages: u64,
}

/// Result of one job.
enum JobResult {
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
        // Each repetition runs every variant, that by RFC 9260 under saturation, and TCP.
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
                JobResult::Saturated(rate) => observed.lossy.push(rate),
                JobResult::Measured(variant, measures) => observed.variants[variant].push(measures),
                JobResult::Tcp(rate, measures) => {
                    observed.tcp_lossy.push(rate);
                    observed.tcp.push(measures);
                }
            }
        }
        Ok(observed)
    }
}

/// Throughput of the loss-free network with SCTP, and with TCP.
fn error_free(seed: u64, capture: Capture<'_>) -> Result<f64, String> {
    run::saturated(&STANDARD, false, SATURATED, derive(seed, &[0]), capture)
}

fn tcp_error_free(seed: u64, capture: Capture<'_>) -> Result<f64, String> {
    tcp::saturated(false, SATURATED, derive(seed, &[0]), capture)
}

/// Runs one simulation of a repetition: the variant of this index, or saturation after the last.
fn repetition(seed: u64, number: usize, kind: usize, messages: u64) -> Result<JobResult, String> {
    let seed = derive(seed, &[1, number as u64]);
    let shown = if number == 0 { SHOWN } else { 0 };
    let none = Capture::NONE;
    let Some(variant) = VARIANTS.get(kind) else {
        if kind == VARIANTS.len() {
            return run::saturated(&RFC, true, SATURATED, seed, none).map(JobResult::Saturated);
        }
        let rate = tcp::saturated(true, SATURATED, seed, none)?;
        let run = tcp::lossy(messages, TcpCongestion::Reno, seed, none)?;
        let measures = Measures::of(&run, SHOWN_FROM, shown).ok_or("no message was sent")?;
        return Ok(JobResult::Tcp(rate, measures));
    };
    let run =
        run::lossy(variant, messages, seed, none).map_err(|e| format!("{}: {e}", variant.id))?;
    let measures = Measures::of(&run, SHOWN_FROM, shown).ok_or("no message was sent")?;
    Ok(JobResult::Measured(kind, measures))
}

/// Flows over TCP, under saturation and without loss, by the prefix of the identifiers of their
/// rows.
const OTHERS: [&str; 5] = ["tcp", "lossy", "tcp.lossy", "error-free", "tcp.error-free"];

/// Runs a repetition of a cell.
fn replayed(
    (cell, repetition): (&str, u64),
    seed: u64,
    capture: Capture<'_>,
) -> Result<(), String> {
    let own = derive(seed, &[1, repetition]);
    match cell {
        "tcp" => tcp::lossy(MESSAGES, TcpCongestion::Reno, own, capture).map(drop),
        "lossy" => run::saturated(&RFC, true, SATURATED, own, capture).map(drop),
        "tcp.lossy" => tcp::saturated(true, SATURATED, own, capture).map(drop),
        "error-free" => error_free(seed, capture).map(drop),
        "tcp.error-free" => tcp_error_free(seed, capture).map(drop),
        _ => match VARIANTS.iter().find(|variant| variant.id == cell) {
            Some(variant) => run::lossy(variant, MESSAGES, own, capture).map(drop),
            None => Err(format!("there is no cell {cell}")),
        },
    }
}
