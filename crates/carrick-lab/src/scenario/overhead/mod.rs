//! `overhead`: effect of headers and message memory on congestion and flow control.
//!
//! After I. Rüngeler, M. Tüxen, E. P. Rathgeb: "Congestion and Flow Control in the Context of the
//! Message-oriented Protocol SCTP" (2009). First part: a flow of small messages shares a link with
//! a TCP-like flow, with and without the chunk headers in the outstanding bytes. Second part: a
//! slow reader whose messages use more memory than the advertised window shows.

mod figures;
mod live;
mod model;
mod notes;
mod rows;
mod run;
mod setup;
mod show;
mod traffic;

use super::{Progress, RunOptions, Scenario};
use crate::capture::Capture;
use crate::error::LabError;
use crate::parallel;
use crate::publication::Publication;
use crate::result::ScenarioResult;
use crate::seed::derive;

use run::{Load, Shares};
use setup::{
    BRIEF, CONTROL_SIZES, FLOW_SIZES, FlowControlSetting, LONG, Lengths, OF_THE_PAPER, SHARINGS,
    flows, sizes,
};

/// Repetitions in a short run, with which the shares of the smallest messages with and without their
/// headers differ beyond their intervals.
const SHORT: u64 = 16;
/// Repetitions of the second part: in a short run, and in the paper.
const FLOW: (u64, u64) = (5, 10);

/// The scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overhead;

impl Scenario for Overhead {
    fn name(&self) -> &'static str {
        "overhead"
    }

    fn question(&self) -> &'static str {
        "Do small messages get more than their share of a link if their headers are not counted, and how much is \
         transmitted uselessly if the receive window does not reflect the memory used by messages?"
    }

    fn publication(&self) -> Publication {
        Publication {
            authors: "Irene Rüngeler, Michael Tüxen, Erwin P. Rathgeb",
            title: "Congestion and Flow Control in the Context of the Message-oriented Protocol SCTP",
            place: "Münster University of Applied Sciences and University of Duisburg-Essen",
            year: 2009,
        }
    }

    fn usual(&self) -> Option<&'static str> {
        Some("counted.20")
    }

    fn live(&self, options: &RunOptions) -> Result<crate::live::LivePlan, &'static str> {
        Ok(live::plan(*self, options))
    }

    fn cells(&self) -> Vec<String> {
        let all = Observed::nothing(1, LONG);
        let jobs = all.jobs(1).into_iter();
        jobs.map(|job| all.name(job)).collect()
    }

    fn repetitions(&self, options: &RunOptions) -> u64 {
        options.repetitions(SHORT, OF_THE_PAPER)
    }

    fn replay(
        &self,
        (cell, repetition): (&str, u64),
        options: &RunOptions,
        capture: Capture<'_>,
    ) -> Result<(), String> {
        let all = Observed {
            lengths: lengths(options),
            ..Observed::nothing(1, LONG)
        };
        let job = all.jobs(1).into_iter().find(|job| all.name(*job) == cell);
        let job = job.ok_or_else(|| format!("there is no cell {cell}"))?;
        all.run(job.repeated(repetition), options.seed, capture)
            .map(drop)
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, LabError> {
        let repetitions = self.repetitions(options);
        let observed = self.simulate(options.seed, repetitions, lengths(options), progress)?;
        // Without --full, each repetition is shorter, too.
        let shortened = (!options.full || repetitions < OF_THE_PAPER).then_some(OF_THE_PAPER);
        Ok(show::result(*self, &observed, options.seed).extended(options, shortened))
    }
}

/// Returns the measurement times.
fn lengths(options: &RunOptions) -> Lengths {
    if options.full { LONG } else { BRIEF }
}

/// Results of one message size in the first part.
#[derive(Clone, Debug)]
struct Pair {
    size: usize,
    /// Results of each repetition, by [`SHARINGS`].
    shares: [Vec<Shares>; SHARINGS.len()],
}

/// Results of one type of flow control in the second part.
#[derive(Clone, Debug)]
struct FlowCell {
    flow: FlowControlSetting,
    /// Results of each repetition, by [`FLOW_SIZES`].
    loads: Vec<Vec<Load>>,
    /// Number of messages accepted without a reader, by [`FLOW_SIZES`].
    accepted: Vec<u64>,
}

/// All results.
struct Observed {
    pairs: Vec<Pair>,
    flows: Vec<FlowCell>,
    repetitions: u64,
    lengths: Lengths,
}

/// One simulation.
#[derive(Clone, Copy)]
enum Job {
    Shared {
        pair: usize,
        sharing: usize,
        number: u64,
    },
    Slow {
        flow: usize,
        size: usize,
        number: u64,
    },
    Accepted {
        flow: usize,
        size: usize,
    },
}

impl Job {
    /// Returns the same cell in another repetition; a cell that runs once has no other.
    fn repeated(mut self, repetition: u64) -> Self {
        match &mut self {
            Self::Shared { number, .. } | Self::Slow { number, .. } => *number = repetition,
            Self::Accepted { .. } => {}
        }
        self
    }
}

/// Result of a job.
enum JobResult {
    Shared(Shares),
    Slow(Load),
    Accepted(u64),
}

/// Returns all simulations. The messages accepted without a reader are measured for one flow only.
fn jobs(
    sizes: &[usize],
    flows: usize,
    asked: Option<usize>,
    (repetitions, most): (u64, u64),
) -> Vec<Job> {
    let mut jobs = Vec::new();
    for number in 0..repetitions {
        for (pair, size) in sizes.iter().enumerate() {
            let runs = |sharing: &usize| {
                let sharing = &SHARINGS[*sharing];
                sharing.has(*size) && number < sharing.most
            };
            let sharings = (0..SHARINGS.len()).filter(runs);
            jobs.extend(sharings.map(|sharing| Job::Shared {
                pair,
                sharing,
                number,
            }));
        }
    }
    for flow in 0..flows {
        for size in 0..FLOW_SIZES.len() {
            let repetitions = 0..repetitions.min(most);
            jobs.extend(repetitions.map(|number| Job::Slow { flow, size, number }));
            if asked == Some(flow) {
                jobs.push(Job::Accepted { flow, size });
            }
        }
    }
    jobs
}

impl Overhead {
    fn simulate(
        self,
        seed: u64,
        repetitions: u64,
        lengths: Lengths,
        progress: &dyn Progress,
    ) -> Result<Observed, LabError> {
        let mut observed = Observed::nothing(repetitions, lengths);
        let jobs = observed.jobs(repetitions);
        progress.begin(self.name(), jobs.len() as u64);
        let results = parallel::run(jobs.len(), |index| {
            let outcome = observed.run(jobs[index], seed, Capture::NONE);
            progress.step();
            outcome
        });
        progress.end();
        for (job, result) in jobs.into_iter().zip(results) {
            let outcome = result.map_err(|what| LabError::Simulation {
                scenario: self.name().into(),
                what,
            })?;
            observed.keep(job, outcome);
        }
        Ok(observed)
    }
}

impl Observed {
    /// Returns the empty results before the first run.
    fn nothing(repetitions: u64, lengths: Lengths) -> Self {
        let pair = |size| Pair {
            size,
            shares: Default::default(),
        };
        let flow = |flow| FlowCell {
            flow,
            loads: vec![Vec::new(); FLOW_SIZES.len()],
            accepted: Vec::new(),
        };
        Self {
            pairs: if lengths == LONG {
                sizes().map(pair).collect()
            } else {
                CONTROL_SIZES.map(pair).into()
            },
            flows: flows().into_iter().map(flow).collect(),
            repetitions,
            lengths,
        }
    }

    /// Returns the maximum number of repetitions of the second part.
    fn most_of_flow(&self) -> u64 {
        if self.lengths == LONG { FLOW.1 } else { FLOW.0 }
    }

    fn jobs(&self, repetitions: u64) -> Vec<Job> {
        let asked = self.flows.iter().position(|cell| cell.flow.id == "best");
        let sizes: Vec<usize> = self.pairs.iter().map(|pair| pair.size).collect();
        jobs(
            &sizes,
            self.flows.len(),
            asked,
            (repetitions, self.most_of_flow()),
        )
    }

    /// Returns the prefix of the identifiers of a job's rows.
    fn name(&self, job: Job) -> String {
        match job {
            Job::Shared { pair, sharing, .. } => {
                format!("{}.{}", SHARINGS[sharing].id, self.pairs[pair].size)
            }
            Job::Slow { flow, size, .. } => {
                format!("{}.{}", self.flows[flow].flow.id, FLOW_SIZES[size])
            }
            Job::Accepted { flow, size } => {
                let id = &self.flows[flow].flow.id;
                format!("accepted.{id}.{}", FLOW_SIZES[size])
            }
        }
    }

    /// Runs a job; the seed of a repetition is the same for all variants.
    fn run(&self, job: Job, seed: u64, capture: Capture<'_>) -> Result<JobResult, String> {
        match job {
            Job::Shared {
                pair,
                sharing,
                number,
            } => {
                let size = self.pairs[pair].size;
                run::shared(
                    size,
                    &SHARINGS[sharing],
                    self.lengths,
                    derive(seed, &[1, number]),
                    capture,
                )
                .map(JobResult::Shared)
                .map_err(|error| format!("{size} bytes, repetition {number}: {error}"))
            }
            Job::Slow { flow, size, number } => {
                let (flow, size) = (&self.flows[flow].flow, FLOW_SIZES[size]);
                run::slow(
                    flow,
                    size,
                    self.lengths,
                    derive(seed, &[2, number]),
                    capture,
                )
                .map(JobResult::Slow)
                .map_err(|error| format!("{}, {size} bytes: {error}", flow.id))
            }
            Job::Accepted { flow, size } => {
                let (flow, size) = (&self.flows[flow].flow, FLOW_SIZES[size]);
                run::accepted(flow, size, derive(seed, &[3]), capture)
                    .map(JobResult::Accepted)
                    .map_err(|error| format!("{}, {size} bytes: {error}", flow.id))
            }
        }
    }

    fn keep(&mut self, job: Job, outcome: JobResult) {
        match (job, outcome) {
            (Job::Shared { pair, sharing, .. }, JobResult::Shared(shares)) => {
                self.pairs[pair].shares[sharing].push(shares);
            }
            (Job::Slow { flow, size, .. }, JobResult::Slow(load)) => {
                self.flows[flow].loads[size].push(load);
            }
            (Job::Accepted { flow, .. }, JobResult::Accepted(messages)) => {
                self.flows[flow].accepted.push(messages);
            }
            _ => {}
        }
    }

    fn flow(&self, id: &str) -> Option<&FlowCell> {
        self.flows.iter().find(|cell| cell.flow.id == id)
    }
}
