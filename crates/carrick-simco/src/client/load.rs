//! The load of [`crate::load`] on a real connection.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::mpsc;

use super::error::ClientError;
use crate::Time;
use crate::agent::{Agent, AgentEvent, AgentSettings, CloseReason};
use crate::load::{Failure, Generator, Measures, Workload};
use crate::transport::{Clock, Link, MessageWriter, Packet};

/// Messages on their way to the writer.
const OUTBOX: usize = 4096;

/// How often progress is told.
const TELL: Duration = Duration::from_secs(1);

/// How long to wait for answers that are under way when the time is over.
const LAST: Duration = Duration::from_secs(2);

/// What to run, and how long.
#[derive(Clone, Copy, Debug)]
pub struct LoadPlan {
    /// What is asked for.
    pub workload: Workload,
    /// Seed of its randomness.
    pub seed: u64,
    /// From the steady state to the first response time that counts.
    pub warm_up: Duration,
    /// How long response times count.
    pub duration: Duration,
}

/// How far a load is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadProgress {
    /// So many pinholes of the preload are open or being opened.
    Preload(usize),
    /// So long it has measured, with so many transactions.
    Measuring(Duration, u64),
}

/// What came out.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Response times and what went wrong.
    pub measures: Measures,
    /// How long was measured.
    pub measured: Duration,
    /// How long the preload took.
    pub preload: Duration,
    /// Pinholes that were open in the end.
    pub pinholes: usize,
    /// Stream pairs.
    pub streams: u16,
    /// What went wrong first.
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

/// Runs a load over a connection that is up, and ends its session.
///
/// # Errors
/// When the session does not open, or is lost.
pub async fn run_load(
    link: Link,
    settings: AgentSettings,
    plan: &LoadPlan,
    mut tell: impl FnMut(LoadProgress),
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
    let mut measuring: Option<Time> = None;
    let mut told = clock.now();
    let mut end: Option<Time> = None;
    let mut report = None;
    loop {
        run.settle();
        run.flush(&outbox);
        if let Some(reason) = run.closed {
            return report.ok_or(ClientError::Session(reason));
        }
        let now = clock.now();
        if let (None, Some(steady)) = (measuring, run.generator.steady_since())
            && now >= steady + plan.warm_up
        {
            run.generator.start_measuring(now);
            measuring = Some(now);
            end = Some(now + plan.duration);
        }
        if now.since(told) >= TELL {
            told = now;
            tell(match measuring {
                None => LoadProgress::Preload(run.generator.pinholes()),
                Some(from) => {
                    let done = run.generator.measures().transactions();
                    LoadProgress::Measuring(now.since(from), done)
                }
            });
        }
        if let (Some(from), Some(until)) = (measuring, end)
            && now >= until
        {
            if report.is_some() {
                // The middlebox does not answer ST.
                return report.ok_or(ClientError::Ended);
            }
            report = Some(run.report(now, from, streams));
            run.agent.terminate(now);
            end = Some(now + LAST);
            continue;
        }
        let steady = run.generator.steady_since().filter(|_| measuring.is_none());
        let timers = [
            run.agent.poll_timeout(),
            run.generator.poll_timeout().filter(|_| report.is_none()),
            steady.map(|steady| steady + plan.warm_up),
            end,
            Some(told + TELL),
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
        if report.is_none() {
            run.generator.handle_timeout(now, &mut run.agent);
        }
    }
}

impl Run {
    /// Passes on what the agent tells, until it is quiet.
    fn settle(&mut self) {
        while let Some(event) = self.agent.poll_event() {
            let now = self.clock.now();
            match &event {
                AgentEvent::Opened(_) => {
                    self.begun = now;
                    self.generator.start(now, &mut self.agent);
                }
                AgentEvent::Closed(reason) => self.closed = Some(*reason),
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

    fn report(&self, now: Time, from: Time, streams: u16) -> LoadReport {
        let steady = self.generator.steady_since();
        LoadReport {
            measures: self.generator.measures().clone(),
            measured: now.since(from),
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
