//! Transactions of SIMCO: load generator with its agent, and middlebox, the same in simulations and in live
//! runs.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_simco::PPID;
use carrick_simco::agent::{Agent, AgentEvent, AgentSettings};
use carrick_simco::backend::MemoryBackend;
use carrick_simco::load::{Latency, LoadGenerator, LoadMeasurements, Workload};
use carrick_simco::message::StreamReader;
use carrick_simco::middlebox::{
    AgentConfig, Connection, Middlebox, MiddleboxConfig, SessionId, SessionOutput,
};
use carrick_simco::session::Identity;

use super::super::measure::FlowMeasure;
use crate::live::{OutgoingMessage, Program};
use crate::seed::{derive, derive_bytes};

/// Parameters of both programs of a flow.
#[derive(Clone, Copy, Debug)]
pub(in crate::file) struct Load {
    pub(in crate::file) workload: Workload,
    /// Time that the middlebox takes for a request.
    pub(in crate::file) processing: Duration,
    /// Time from the end of the preload to the measurement, and duration of the measurement.
    pub(in crate::file) warmup: Duration,
    pub(in crate::file) measured: Duration,
    /// The transport is a byte stream instead of messages.
    pub(in crate::file) stream: bool,
    pub(in crate::file) seed: u64,
}

/// Splits a byte stream into messages, if necessary.
struct Input(Option<StreamReader>);

impl Input {
    fn new(load: &Load) -> Self {
        Self(load.stream.then(StreamReader::default))
    }

    fn messages(&mut self, now: Time, mut piece: Bytes) -> Vec<Bytes> {
        let Some(reader) = &mut self.0 else {
            return vec![piece];
        };
        let mut messages = Vec::new();
        while !piece.is_empty() {
            let taken = reader.push(now, &piece);
            let _ = piece.split_to(taken);
            messages.extend(std::iter::from_fn(|| reader.next_message()));
        }
        messages
    }
}

/// Part of a run of the load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Preload,
    WarmUp,
    FirstHalf,
    SecondHalf,
    Done,
}

/// Load generator with its agent, which ends after the measurement.
pub(in crate::file) struct LoadAgent {
    agent: Agent,
    generator: LoadGenerator,
    input: Input,
    load: Load,
    phase: Phase,
    /// Time of the next phase.
    next: Option<Time>,
    /// Response times of PER requests in the first half of the measurement.
    first_half: Latency,
    failure: Option<String>,
}

impl LoadAgent {
    pub(in crate::file) fn new(load: Load) -> Self {
        let settings = AgentSettings {
            // A transaction behind a lost retransmission takes longer than a user would wait; it is
            // counted with its response time.
            timeout: Duration::from_secs(600),
            ..AgentSettings::default()
        };
        Self {
            agent: Agent::new(settings, derive_bytes(load.seed, &[3])),
            generator: LoadGenerator::new(load.workload, derive(load.seed, &[4])),
            input: Input::new(&load),
            load,
            phase: Phase::Preload,
            next: None,
            first_half: Latency::default(),
            failure: None,
        }
    }

    /// Returns whether the whole preload has been answered.
    pub(in crate::file) fn is_steady(&self) -> bool {
        self.phase != Phase::Preload
    }

    /// Returns the measured transactions.
    ///
    /// # Errors
    /// If the two sides do not count the same pinholes: requests and replies in transit are processed by one
    /// side only.
    pub(in crate::file) fn transactions(
        &self,
        middlebox: &LoadMiddlebox,
    ) -> Result<Transactions, String> {
        let (pinholes, pending) = (self.generator.pinholes(), self.agent.pending());
        let rules = middlebox.middlebox.rules().len();
        if pinholes.abs_diff(rules) > pending {
            return Err(format!("{pinholes} pinholes, but {rules} rules"));
        }
        Ok(Transactions {
            measures: self.generator.measures().clone(),
            first_half: self.first_half.clone(),
            pending,
            duration: self.load.measured,
        })
    }

    fn pump(&mut self, now: Time) {
        while let Some(event) = self.agent.poll_event() {
            match &event {
                AgentEvent::Opened(_) => self.generator.start(now, &mut self.agent),
                AgentEvent::Closed(reason) => {
                    self.failure
                        .get_or_insert_with(|| format!("session: {reason}"));
                }
                _ => {}
            }
            self.generator.handle_event(now, &mut self.agent, &event);
        }
        if self.phase == Phase::Preload && self.generator.steady_since().is_some() {
            self.phase = Phase::WarmUp;
            self.next = Some(whole_second(now) + self.load.warmup);
        }
    }

    fn next_phase(&mut self, at: Time) {
        let half = self.load.measured / 2;
        (self.phase, self.next) = match self.phase {
            Phase::WarmUp => {
                self.generator.start_measuring();
                (Phase::FirstHalf, Some(at + half))
            }
            Phase::FirstHalf => {
                self.first_half = self.generator.measures().enable.clone();
                (Phase::SecondHalf, Some(at + half))
            }
            Phase::Preload | Phase::SecondHalf | Phase::Done => (Phase::Done, None),
        };
    }
}

/// Returns the end of the second that `time` is in, at which a simulation notices the end of the preload.
fn whole_second(time: Time) -> Time {
    Time::from_millis(time.as_nanos().div_ceil(1_000_000_000) * 1000)
}

impl Program for LoadAgent {
    fn connected(&mut self, now: Time, streams: u16) {
        self.agent.connected(now, streams);
        self.pump(now);
    }

    fn handle_message(&mut self, now: Time, stream: u16, message: Bytes) {
        for message in self.input.messages(now, message) {
            self.agent.handle_message(now, stream, &message);
        }
        self.pump(now);
    }

    fn poll_transmit(&mut self, _: Time) -> Option<OutgoingMessage> {
        let (stream, message) = self.agent.poll_transmit()?;
        Some(OutgoingMessage::new(stream, PPID, message))
    }

    fn poll_timeout(&self) -> Option<Time> {
        let load = (self.phase != Phase::Done)
            .then(|| [self.agent.poll_timeout(), self.generator.poll_timeout()]);
        let timers = load.into_iter().flatten().chain([self.next]);
        timers.flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(at) = self.next.filter(|at| *at <= now) {
            self.next_phase(at);
        }
        if self.phase == Phase::Done {
            // The load would continue without end.
            return;
        }
        self.agent.handle_timeout(now);
        self.generator.handle_timeout(now, &mut self.agent);
        self.pump(now);
    }

    fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

/// Middlebox, which processes each message some time after its arrival.
pub(in crate::file) struct LoadMiddlebox {
    middlebox: Middlebox<MemoryBackend>,
    session: Option<SessionId>,
    input: Input,
    processing: Duration,
    /// Messages that were not processed yet: due time, stream and contents.
    waiting: VecDeque<(Time, u16, Bytes)>,
    out: VecDeque<OutgoingMessage>,
    failure: Option<String>,
}

impl LoadMiddlebox {
    pub(in crate::file) fn new(load: &Load) -> Result<Self, String> {
        let name = |name| Identity::new(name).ok_or_else(|| format!("{name} is not a valid name"));
        let agent = name("agent")?;
        // Any agent is accepted, without authentication.
        let config = MiddleboxConfig {
            agents: vec![AgentConfig::new(agent.clone(), None)],
            anonymous: Some(agent),
            ..MiddleboxConfig::packet_filter(name("middlebox")?)
        };
        let seed = derive_bytes(load.seed, &[5]);
        Ok(Self {
            middlebox: Middlebox::new(config, MemoryBackend::default(), seed),
            session: None,
            input: Input::new(load),
            processing: load.processing,
            waiting: VecDeque::new(),
            out: VecDeque::new(),
            failure: None,
        })
    }

    fn pump(&mut self) {
        while self.middlebox.poll_event().is_some() {}
        let Some(session) = self.session else { return };
        while let Some(output) = self.middlebox.poll_output(session) {
            match output {
                SessionOutput::Send { stream, message } => {
                    let message = OutgoingMessage::new(stream, PPID, message);
                    self.out.push_back(message);
                }
                SessionOutput::Close => {
                    self.failure
                        .get_or_insert_with(|| "the session was closed".into());
                }
            }
        }
    }
}

impl Program for LoadMiddlebox {
    fn connected(&mut self, now: Time, streams: u16) {
        let session = self.middlebox.connected(now, &Connection::plain(streams));
        self.session = Some(session);
        self.pump();
    }

    fn handle_message(&mut self, now: Time, stream: u16, message: Bytes) {
        let due = now + self.processing;
        for message in self.input.messages(now, message) {
            self.waiting.push_back((due, stream, message));
        }
    }

    fn poll_transmit(&mut self, _: Time) -> Option<OutgoingMessage> {
        self.out.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let message = self.waiting.front().map(|(due, ..)| *due);
        let timers = [message, self.middlebox.poll_timeout()];
        timers.into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.middlebox.handle_timeout(now);
        let is_due = |(due, ..): &(Time, u16, Bytes)| *due <= now;
        while self.waiting.front().is_some_and(is_due)
            && let Some((_, stream, message)) = self.waiting.pop_front()
            && let Some(session) = self.session
        {
            self.middlebox
                .handle_message(now, session, stream, &message);
        }
        self.pump();
    }

    fn is_done(&self) -> bool {
        // The agent determines the end.
        true
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

/// Measured transactions of a flow.
#[derive(Clone, Debug)]
pub(in crate::file) struct Transactions {
    measures: LoadMeasurements,
    first_half: Latency,
    /// Requests without a reply at the end.
    pending: usize,
    duration: Duration,
}

impl Transactions {
    /// Returns the number of failed requests.
    pub(in crate::file) fn failures(&self) -> u64 {
        self.measures.failures()
    }

    /// Computes a measure; `None` if transactions do not have it. Delays are the response times of PER
    /// requests.
    pub(in crate::file) fn measure(&self, what: FlowMeasure) -> Option<f64> {
        let enable = &self.measures.enable;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        match what {
            FlowMeasure::DelayMean => enable.mean().map(ms),
            FlowMeasure::DelayEarly => {
                let first = &self.first_half;
                (first.count() > 0).then(|| total(first) / first.count() as f64 * 1e3)
            }
            FlowMeasure::DelayLate => {
                let count = enable.count() - self.first_half.count();
                let sum = total(enable) - total(&self.first_half);
                (count > 0).then(|| sum / count as f64 * 1e3)
            }
            FlowMeasure::Delivered => Some(enable.count() as f64),
            FlowMeasure::Abandoned => Some(self.failures() as f64),
            FlowMeasure::Pending => Some(self.pending as f64),
            FlowMeasure::PendingMean => {
                // Little's law.
                let all = [enable, &self.measures.refresh, &self.measures.close];
                let seconds = self.duration.as_secs_f64();
                Some(all.map(total).iter().sum::<f64>() / seconds)
            }
            _ => enable.quantile(what.quantile()?).map(ms),
        }
    }
}

/// Returns the sum of all response times, in s.
fn total(latency: &Latency) -> f64 {
    latency.mean().unwrap_or_default().as_secs_f64() * latency.count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exchanges messages without delay until the agent is done.
    fn exchange(stream: bool) -> (LoadAgent, LoadMiddlebox) {
        let load = Load {
            workload: Workload {
                preload: 20,
                ..Workload::default()
            },
            processing: Duration::from_micros(500),
            warmup: Duration::from_secs(5),
            measured: Duration::from_secs(2),
            stream,
            seed: 1,
        };
        let mut agent = LoadAgent::new(load);
        let mut middlebox = LoadMiddlebox::new(&load).expect("the names are valid");
        let mut now = Time::ZERO;
        middlebox.connected(now, 1);
        agent.connected(now, 1);
        while !agent.is_done() {
            let deliver = |out: OutgoingMessage, to: &mut dyn Program| {
                if stream {
                    // In pieces that are not aligned with messages.
                    let half = out.payload.len() / 2;
                    to.handle_message(now, 0, out.payload.slice(..half));
                    to.handle_message(now, 0, out.payload.slice(half..));
                } else {
                    to.handle_message(now, out.stream, out.payload);
                }
            };
            while let Some(out) = agent.poll_transmit(now) {
                deliver(out, &mut middlebox);
            }
            while let Some(out) = middlebox.poll_transmit(now) {
                deliver(out, &mut agent);
            }
            let timers = [agent.poll_timeout(), middlebox.poll_timeout()];
            let next = timers.into_iter().flatten().min();
            now = now.max(next.expect("a timeout is pending"));
            agent.handle_timeout(now);
            middlebox.handle_timeout(now);
            assert_eq!((agent.failure(), middlebox.failure()), (None, None));
        }
        (agent, middlebox)
    }

    #[test]
    fn pinholes_are_opened_over_messages_and_streams() {
        for stream in [false, true] {
            let (agent, middlebox) = exchange(stream);
            let measured = agent.transactions(&middlebox).expect("both sides agree");
            let value = |what| measured.measure(what).expect("a value");
            // Two seconds with one PER request every 30 ms, without a network in between.
            let count = value(FlowMeasure::Delivered);
            assert!((30.0..110.0).contains(&count), "{count}");
            for what in [
                FlowMeasure::DelayMean,
                FlowMeasure::DelayEarly,
                FlowMeasure::DelayLate,
            ] {
                let time = value(what);
                assert!((time - 0.5).abs() < 1e-6, "{what:?}: {time}");
            }
            assert!((value(FlowMeasure::DelayP99) - 0.5).abs() < 0.001);
            assert!(value(FlowMeasure::PendingMean) >= count * 0.0005 / 2.0);
            assert!(value(FlowMeasure::Abandoned) < 0.5);
            assert_eq!(measured.measure(FlowMeasure::Goodput), None);
        }
    }

    #[test]
    fn preloads_end_with_a_whole_second() {
        let end = |ms| whole_second(Time::from_millis(ms)).as_nanos() / 1_000_000;
        assert_eq!([0, 1, 1000, 1001].map(end), [0, 1000, 1000, 2000]);
    }
}
