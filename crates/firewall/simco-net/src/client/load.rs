//! Runs the load of [`carrick_simco::load`] over a connection.

use std::time::Duration;

use super::agent_link::AgentLink;
use super::error::ClientError;
use super::random_seed;
use crate::transport::{Clock, MessageLink};
use carrick_simco::Time;
use carrick_simco::agent::{Agent, AgentEvent, AgentSettings, CloseReason};
use carrick_simco::load::{LoadFailure, LoadGenerator, LoadMeasurements, Workload};

/// Capacity of the queue to the writer.
const OUTBOX: usize = 4096;

/// Interval of progress reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit for ending the session, and for closing the connection.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Workload and its duration.
#[derive(Clone, Copy, Debug)]
pub struct LoadPlan {
    /// Requests to make.
    pub workload: Workload,
    /// Random seed.
    pub seed: u64,
    /// Time from the steady state to the measurement.
    pub warm_up: Duration,
    /// Duration of the measurement.
    pub duration: Duration,
}

/// Progress of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadProgress {
    /// Number of preloaded pinholes, open or being opened.
    Preload(usize),
    /// Time measured so far and number of transactions.
    Measuring(Duration, u64),
    /// Number of outstanding transactions after the measurement.
    Draining(usize),
}

/// Results of a load.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Response times and failures.
    pub measures: LoadMeasurements,
    /// Duration of the measurement. Requests outstanding at its end were awaited for
    /// [`AgentSettings::timeout`] each.
    pub measured: Duration,
    /// Transactions answered during the measurement.
    pub in_time: u64,
    /// Duration of the preload.
    pub preload: Duration,
    /// Pinholes open at the end.
    pub pinholes: usize,
    /// Stream pairs.
    pub streams: u16,
    /// First failure.
    pub failure: Option<LoadFailure>,
}

/// Agent and generator of a running load.
struct LoadRun {
    clock: Clock,
    agent: Agent,
    generator: LoadGenerator,
    /// Time at which the session opened.
    opened: Time,
    closed: Option<CloseReason>,
}

/// Runs a load over an open connection, and ends its session when it is complete or `stop` is.
///
/// # Errors
/// The session does not open, is lost or was stopped, or the system returns no random numbers.
pub async fn run_load(
    link: MessageLink,
    settings: AgentSettings,
    plan: &LoadPlan,
    mut report_progress: impl FnMut(LoadProgress),
    stop: impl Future<Output = ()>,
) -> Result<LoadReport, ClientError> {
    let clock = Clock::start();
    let mut run = LoadRun {
        clock,
        agent: Agent::new(settings, random_seed()?),
        generator: LoadGenerator::new(plan.workload, plan.seed),
        opened: clock.now(),
        closed: None,
    };
    let streams = link.streams;
    let mut link = AgentLink::start(link, &mut run.agent, clock.now(), OUTBOX, END_TIMEOUT);
    let mut phases = Phases::new(clock.now());
    let mut report = None;
    let mut end_deadline: Option<Time> = None;
    tokio::pin!(stop);
    loop {
        run.handle_events();
        link.flush(&mut run.agent);
        if let Some(reason) = run.closed {
            if end_deadline.is_some() {
                link.close().await;
            }
            return report.ok_or(ClientError::Session(reason));
        }
        let now = clock.now();
        phases.advance(now, plan, &mut run.generator);
        if now.since(phases.reported) >= REPORT_INTERVAL {
            phases.reported = now;
            report_progress(phases.progress(now, &run.generator));
        }
        if end_deadline.is_some_and(|limit| limit <= now) {
            // The middlebox does not answer ST.
            link.close().await;
            return report.ok_or(ClientError::Ended);
        }
        if let Some((measured, in_time)) = phases.measured
            && report.is_none()
            && run.generator.outstanding() == 0
        {
            report = Some(run.report(measured, in_time, streams));
            run.agent.terminate(now);
            end_deadline = Some(now + END_TIMEOUT);
            continue;
        }
        let timers = [
            run.agent.poll_timeout(),
            run.generator.poll_timeout(),
            phases.next(plan, &run.generator),
            end_deadline,
            Some(phases.reported + REPORT_INTERVAL),
        ];
        let timeout = timers.into_iter().flatten().min();
        tokio::select! {
            progress = link.progress() => link.report(&progress, &mut run.agent, clock.now()),
            () = clock.sleep_until(timeout) => {}
            () = &mut stop, if end_deadline.is_none() => {
                run.agent.terminate(clock.now());
                end_deadline = Some(clock.now() + END_TIMEOUT);
            }
        }
        let now = clock.now();
        run.agent.handle_timeout(now);
        run.generator.handle_timeout(now, &mut run.agent);
    }
}

/// Phases of a load: preload, measurement, outstanding replies.
struct Phases {
    /// Time of the last progress report.
    reported: Time,
    /// Start of the measurement.
    measuring_since: Option<Time>,
    /// Duration of the measurement and transactions answered in it.
    measured: Option<(Duration, u64)>,
}

impl Phases {
    fn new(now: Time) -> Self {
        Self {
            reported: now,
            measuring_since: None,
            measured: None,
        }
    }

    /// Starts or ends the measurement when its time has come.
    fn advance(&mut self, now: Time, plan: &LoadPlan, generator: &mut LoadGenerator) {
        let next_phase = self.next(plan, generator).is_some_and(|next| next <= now);
        match self.measuring_since {
            None if next_phase => {
                generator.start_measuring();
                self.measuring_since = Some(now);
            }
            Some(from) if next_phase => {
                generator.stop();
                self.measured = Some((now.since(from), generator.measures().transactions()));
            }
            _ => {}
        }
    }

    /// Returns the start or the end of the measurement.
    fn next(&self, plan: &LoadPlan, generator: &LoadGenerator) -> Option<Time> {
        match (self.measuring_since, self.measured) {
            (None, _) => generator.steady_since().map(|steady| steady + plan.warm_up),
            (Some(from), None) => Some(from + plan.duration),
            (Some(_), Some(_)) => None,
        }
    }

    /// Returns the progress to report.
    fn progress(&self, now: Time, generator: &LoadGenerator) -> LoadProgress {
        match (self.measuring_since, self.measured) {
            (None, _) => LoadProgress::Preload(generator.pinholes()),
            (Some(_), Some(_)) => LoadProgress::Draining(generator.outstanding()),
            (Some(from), None) => {
                let done = generator.measures().transactions();
                LoadProgress::Measuring(now.since(from), done)
            }
        }
    }
}

impl LoadRun {
    /// Handles all events of the agent.
    fn handle_events(&mut self) {
        while let Some(event) = self.agent.poll_event() {
            let now = self.clock.now();
            match &event {
                AgentEvent::Opened(_) => {
                    self.opened = now;
                    self.generator.start(now, &mut self.agent);
                }
                AgentEvent::Closed(reason) => self.closed = Some(reason.clone()),
                _ => {}
            }
            self.generator.handle_event(now, &mut self.agent, &event);
        }
    }

    /// Returns the results.
    fn report(&self, measured: Duration, in_time: u64, streams: u16) -> LoadReport {
        let steady = self.generator.steady_since();
        LoadReport {
            measures: self.generator.measures().clone(),
            measured,
            in_time,
            preload: steady.map_or(Duration::ZERO, |steady| steady.since(self.opened)),
            pinholes: self.generator.pinholes(),
            streams,
            failure: self.generator.failure().cloned(),
        }
    }
}
