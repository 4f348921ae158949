//! Runs the load of [`carrick_simco::load`] over a connection.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::mpsc;

use super::error::ClientError;
use crate::transport::{Clock, Link, MessageWriter, Packet};
use carrick_simco::Time;
use carrick_simco::agent::{Agent, AgentEvent, AgentSettings, CloseReason};
use carrick_simco::load::{Failure, Generator, Measures, Workload};

/// Capacity of the queue to the writer.
const OUTBOX: usize = 4096;

/// Interval of progress reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit for ending the session.
const LAST: Duration = Duration::from_secs(2);

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
    pub measures: Measures,
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
    pub failure: Option<Failure>,
}

struct Run {
    clock: Clock,
    agent: Agent,
    generator: Generator,
    out: VecDeque<Packet>,
    begun: Time,
    closed: Option<CloseReason>,
}

/// Runs a load over an open connection and ends its session.
///
/// # Errors
/// When the session does not open or is lost.
pub async fn run_load(
    link: Link,
    settings: AgentSettings,
    plan: &LoadPlan,
    mut report_progress: impl FnMut(LoadProgress),
) -> Result<LoadReport, ClientError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|e| ClientError::Random(e.to_string()))?;
    let clock = Clock::start();
    let mut run = Run {
        clock,
        agent: Agent::new(settings, seed),
        generator: Generator::new(plan.workload, plan.seed),
        out: VecDeque::new(),
        begun: clock.now(),
        closed: None,
    };
    let Link {
        mut reader,
        writer,
        streams,
        ..
    } = link;
    let (outbox, to_send) = mpsc::channel(OUTBOX);
    tokio::spawn(write(writer, to_send));
    run.agent.connected(clock.now(), streams);
    let mut came = Vec::new();
    let mut course = Phases::at(clock.now());
    let mut report = None;
    let mut give_up: Option<Time> = None;
    loop {
        run.settle();
        run.flush(&outbox);
        if let Some(reason) = run.closed {
            return report.ok_or(ClientError::Session(reason));
        }
        let now = clock.now();
        course.advance(now, plan, &mut run.generator);
        if now.since(course.reported) >= REPORT_INTERVAL {
            course.reported = now;
            report_progress(course.progress(now, &run.generator));
        }
        if give_up.is_some_and(|limit| limit <= now) {
            // The middlebox does not answer ST.
            return report.ok_or(ClientError::Ended);
        }
        if let Some((measured, in_time)) = course.measured
            && report.is_none()
            && run.generator.outstanding() == 0
        {
            report = Some(run.report(measured, in_time, streams));
            run.agent.terminate(now);
            give_up = Some(now + LAST);
            continue;
        }
        let timers = [
            run.agent.poll_timeout(),
            run.generator.poll_timeout(),
            course.next(plan, &run.generator),
            give_up,
            Some(course.reported + REPORT_INTERVAL),
        ];
        let timeout = timers.into_iter().flatten().min();
        tokio::select! {
            end = reader.read(&mut came) => {
                let now = clock.now();
                for Packet { stream, message } in came.drain(..) {
                    run.agent.handle_message(now, stream, &message);
                }
                if end.is_err() {
                    run.agent.disconnected();
                }
            }
            permit = outbox.reserve(), if !run.out.is_empty() => {
                match (permit, run.out.pop_front()) {
                    (Ok(permit), Some(packet)) => permit.send(packet),
                    _ => run.agent.disconnected(),
                }
            }
            () = clock.sleep_until(timeout) => {}
        }
        let now = clock.now();
        run.agent.handle_timeout(now);
        run.generator.handle_timeout(now, &mut run.agent);
    }
}

/// Phases of a load: preload, measurement, outstanding replies.
struct Phases {
    reported: Time,
    /// Start of the measurement.
    from: Option<Time>,
    /// Duration of the measurement and transactions answered in it.
    measured: Option<(Duration, u64)>,
}

impl Phases {
    fn at(now: Time) -> Self {
        Self {
            reported: now,
            from: None,
            measured: None,
        }
    }

    fn advance(&mut self, now: Time, plan: &LoadPlan, generator: &mut Generator) {
        let due = self.next(plan, generator).is_some_and(|next| next <= now);
        match self.from {
            None if due => {
                generator.start_measuring();
                self.from = Some(now);
            }
            Some(from) if due => {
                generator.stop();
                self.measured = Some((now.since(from), generator.measures().transactions()));
            }
            _ => {}
        }
    }

    /// Returns the start or the end of the measurement.
    fn next(&self, plan: &LoadPlan, generator: &Generator) -> Option<Time> {
        match (self.from, self.measured) {
            (None, _) => generator.steady_since().map(|steady| steady + plan.warm_up),
            (Some(from), None) => Some(from + plan.duration),
            (Some(_), Some(_)) => None,
        }
    }

    fn progress(&self, now: Time, generator: &Generator) -> LoadProgress {
        match (self.from, self.measured) {
            (None, _) => LoadProgress::Preload(generator.pinholes()),
            (Some(_), Some(_)) => LoadProgress::Draining(generator.outstanding()),
            (Some(from), None) => {
                let done = generator.measures().transactions();
                LoadProgress::Measuring(now.since(from), done)
            }
        }
    }
}

impl Run {
    /// Handles all events of the agent.
    fn settle(&mut self) {
        while let Some(event) = self.agent.poll_event() {
            let now = self.clock.now();
            match &event {
                AgentEvent::Opened(_) => {
                    self.begun = now;
                    self.generator.start(now, &mut self.agent);
                }
                AgentEvent::Closed(reason) => self.closed = Some(reason.clone()),
                _ => {}
            }
            self.generator.handle_event(now, &mut self.agent, &event);
        }
    }

    fn flush(&mut self, outbox: &mpsc::Sender<Packet>) {
        while let Some((stream, message)) = self.agent.poll_transmit() {
            self.out.push_back(Packet { stream, message });
        }
        while !self.out.is_empty()
            && let Ok(permit) = outbox.try_reserve()
            && let Some(packet) = self.out.pop_front()
        {
            permit.send(packet);
        }
    }

    fn report(&self, measured: Duration, in_time: u64, streams: u16) -> LoadReport {
        let steady = self.generator.steady_since();
        LoadReport {
            measures: self.generator.measures().clone(),
            measured,
            in_time,
            preload: steady.map_or(Duration::ZERO, |steady| steady.since(self.begun)),
            pinholes: self.generator.pinholes(),
            streams,
            failure: self.generator.failure().cloned(),
        }
    }
}

async fn write(mut writer: Box<dyn MessageWriter>, mut to_send: mpsc::Receiver<Packet>) {
    let mut batch = Vec::new();
    while to_send.recv_many(&mut batch, OUTBOX).await > 0 {
        if writer.write(&mut batch).await.is_err() {
            return;
        }
    }
    let _ = tokio::time::timeout(LAST, writer.close()).await;
}
