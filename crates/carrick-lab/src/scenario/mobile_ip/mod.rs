//! `mobile-ip`: SCTP over Mobile IP, in addition to it, and instead of it.
//!
//! After J. Noonan, P. Perry, J. Murphy: "A Study of SCTP Services in a Mobile-IP Network" (2002).
//! 12 MB are sent to a mobile node away from home: at its home address only, with its local address
//! as a second path, and at two addresses in two networks, one of which fails. The handover that
//! the paper could not show is added: by the transport only (RFC 5061), compared with Mobile IP
//! (RFC 5944).

mod control;
mod figures;
mod live;
mod live_cells;
mod live_values;
mod network;
mod notes;
mod rows;
mod run;
mod setup;
mod show;
mod tcp;
mod traffic;

use super::{Progress, RunOptions, Scenario};
use crate::capture::Capture;
use crate::error::LabError;
use crate::parallel;
use crate::publication::{FittedSetting, Publication};
use crate::result::ScenarioResult;
use crate::seed::derive;

use run::{Configuration, Measures, Move};
use setup::{LOSSES, MESSAGES, Stack, TRANSFER};

/// Repetitions of a short run, which takes some ten seconds on two cores.
const SHORT: u64 = 10;
/// Repetitions of a full run; the paper does not specify its number.
const FULL: u64 = 50;

/// The scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct MobileIp;

impl Scenario for MobileIp {
    fn name(&self) -> &'static str {
        "mobile-ip"
    }

    fn question(&self) -> &'static str {
        "What is the throughput of SCTP to a node in a Mobile IP network, what is the gain of a second address, and how long \
         is the interruption of a handover with Mobile IP, with two addresses, and with dynamic addresses?"
    }

    fn publication(&self) -> Publication {
        Publication {
            authors: "James Noonan, Philip Perry, John Murphy",
            title: "A Study of SCTP Services in a Mobile-IP Network",
            place: "Dublin City University",
            year: 2002,
        }
    }

    fn fitted(&self) -> Vec<FittedSetting> {
        vec![
            FittedSetting {
                setting: "round trip 92 ms over the home agent without queueing, receive window 64 KiB, RTO.Min 1 s",
                chosen_by: "throughput of configuration 1 over loss, Table 1",
                alternatives: "a round trip of 64 ms with a window of 24 KiB and RTO.Min 2.5 s, rows “alternative”",
            },
            FittedSetting {
                setting: "way back of configuration 2 without the home agent (triangle), 28 ms instead of 46 ms",
                chosen_by: "throughput of configuration 2 over loss, Table 2",
                alternatives: "the text has both the triangle and the reverse tunnel (section 3) and a provisioned routing table in \
                               configuration 2 (section 4); with the reverse tunnel configuration 2 gains 2 % at 1 % loss and 12 % at 5 %",
            },
        ]
    }

    fn usual(&self) -> Option<&'static str> {
        Some("best.re-registration")
    }

    fn live(&self, options: &RunOptions) -> Result<crate::live::LivePlan, &'static str> {
        Ok(live::plan(*self, options))
    }

    fn cells(&self) -> Vec<String> {
        Job::all().into_iter().map(Job::name).collect()
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
        let job = Job::all().into_iter().find(|job| job.name() == cell);
        let job = job.ok_or_else(|| format!("there is no cell {cell}"))?;
        job.run(derive(options.seed, &[repetition]), false, capture)
            .map(drop)
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, LabError> {
        let repetitions = self.repetitions(options);
        let observed = self.simulate(options.seed, repetitions, progress)?;
        let shortened = (repetitions < FULL).then_some(FULL);
        Ok(show::result(*self, &observed, options.seed).extended(options, shortened))
    }
}

/// A simulation job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    /// 12 MB in a configuration, with these settings and this loss.
    Transfer(Configuration, Stack, f64),
    /// 12 MB over TCP in configuration 1, with this loss.
    Tcp(f64),
    /// 12 MB in configuration 3 with a failure of the primary path.
    Failure(Stack),
    /// A steady flow during a handover.
    Handover(Move, Stack),
}

const MOVES: [Move; 4] = [
    Move::Reregistration,
    Move::Failover,
    Move::BreakBeforeMake,
    Move::MakeBeforeBreak,
];
const HANDOVER_STACKS: [Stack; 2] = [Stack::Standard, Stack::Best];
const FAILURE_STACKS: [Stack; 3] = [Stack::OldRule, Stack::Paper, Stack::Best];
/// Indices of the losses of the runs with loss.
const LOSSY: [usize; 3] = [1, 2, 3];
/// Indices of the losses of the runs with the control.
const CONTROL: [usize; 2] = [1, 3];

impl Job {
    /// Returns all jobs of a repetition.
    fn all() -> Vec<Self> {
        let transfers = [
            (Configuration::One, Stack::TcpLike),
            (Configuration::One, Stack::Paper),
            (Configuration::Two, Stack::Paper),
            (Configuration::Two, Stack::Best),
            (Configuration::Two, Stack::Concurrent),
        ];
        let at = |(configuration, stack)| {
            LOSSES.map(move |loss| Self::Transfer(configuration, stack, loss))
        };
        let mut jobs: Vec<Self> = transfers.into_iter().flat_map(at).collect();
        jobs.extend(LOSSES.map(Self::Tcp));
        for configuration in [Configuration::One, Configuration::Two] {
            let other = |n: usize| Self::Transfer(configuration, Stack::Alternative, LOSSES[n]);
            jobs.extend(LOSSY.map(other));
        }
        let control =
            |number: usize| Self::Transfer(Configuration::Two, Stack::WindowKept, LOSSES[number]);
        jobs.extend(CONTROL.map(control));
        jobs.extend(FAILURE_STACKS.map(Self::Failure));
        for kind in MOVES {
            jobs.extend(HANDOVER_STACKS.map(|stack| Self::Handover(kind, stack)));
        }
        jobs
    }

    fn run(self, seed: u64, show: bool, capture: Capture<'_>) -> Result<Measures, String> {
        match self {
            Self::Transfer(configuration, stack, loss) => {
                run::transfer(configuration, stack, (loss, MESSAGES), seed, capture)
            }
            Self::Tcp(loss) => tcp::transfer(loss, TRANSFER, seed, capture),
            Self::Failure(stack) => run::failure(stack, seed, show, capture),
            Self::Handover(kind, stack) => run::handover(kind, stack, seed, show, capture),
        }
    }

    /// Returns the prefix of the identifiers of its rows.
    fn name(self) -> String {
        let with_loss = |what: &str, loss: f64| format!("{what}.{}", rows::percent(loss));
        match self {
            Self::Transfer(_, Stack::Concurrent, loss) => with_loss("best", loss),
            Self::Transfer(_, Stack::Best, loss) => with_loss("one-link", loss),
            Self::Transfer(_, Stack::WindowKept, loss) => with_loss("control", loss),
            Self::Transfer(_, Stack::TcpLike, loss) => with_loss("tcp-like", loss),
            Self::Transfer(Configuration::One, Stack::Alternative, loss) => {
                with_loss("alternative1", loss)
            }
            Self::Transfer(_, Stack::Alternative, loss) => with_loss("alternative2", loss),
            Self::Transfer(Configuration::One, _, loss) => with_loss("config1", loss),
            Self::Transfer(_, _, loss) => with_loss("config2", loss),
            Self::Tcp(loss) => with_loss("tcp", loss),
            Self::Failure(stack) => format!("config3.{}", stack.id()),
            Self::Handover(kind, stack) => format!("{}.{}", stack.id(), rows::move_id(kind)),
        }
    }
}

/// All results: the measures of each repetition for each job.
struct Observed {
    jobs: Vec<(Job, Vec<Measures>)>,
}

impl Observed {
    /// Returns the repetitions of a job; empty for a job that does not run.
    fn of(&self, job: Job) -> &[Measures] {
        let found = self.jobs.iter().find(|(known, _)| *known == job);
        found.map_or(&[], |(_, measures)| measures)
    }

    /// Returns one value per repetition.
    fn values(&self, job: Job, value: impl Fn(&Measures) -> f64) -> Vec<f64> {
        self.of(job).iter().map(value).collect()
    }

    fn throughput(&self, configuration: Configuration, stack: Stack, loss: f64) -> Vec<f64> {
        self.values(Job::Transfer(configuration, stack, loss), |m| m.throughput)
    }
}

impl MobileIp {
    fn simulate(
        self,
        seed: u64,
        repetitions: u64,
        progress: &dyn Progress,
    ) -> Result<Observed, LabError> {
        let jobs = Job::all();
        let count = repetitions as usize * jobs.len();
        progress.begin(self.name(), count as u64);
        let results = parallel::run(count, |number| {
            let (repetition, job) = (number / jobs.len(), jobs[number % jobs.len()]);
            // Variants of a repetition share the seed, and with it the losses.
            let outcome = job.run(
                derive(seed, &[repetition as u64]),
                repetition == 0,
                Capture::NONE,
            );
            progress.step();
            outcome.map_err(|error| format!("repetition {repetition}, {job:?}: {error}"))
        });
        progress.end();
        let empty = |job: &Job| (*job, Vec::new());
        let mut observed = Observed {
            jobs: jobs.iter().map(empty).collect(),
        };
        for (number, result) in results.into_iter().enumerate() {
            let measures = result.map_err(|what| LabError::Simulation {
                scenario: self.name().into(),
                what,
            })?;
            observed.jobs[number % jobs.len()].1.push(measures);
        }
        Ok(observed)
    }
}
