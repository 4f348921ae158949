//! Programs of live hosts: the state machines of the simulated agent and middlebox, over SCTP or,
//! for a byte stream, over TCP.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_simco::PPID;
use carrick_simco::agent::{Agent, AgentEvent};
use carrick_simco::backend::MemoryBackend;
use carrick_simco::load::{Generator, Measures, Workload};
use carrick_simco::message::StreamReader;
use carrick_simco::middlebox::{Connection, Middlebox, SessionId, SessionOutput};

use super::run::SETTLING;
use super::setup::PROCESSING;
use super::sides;
use crate::live::{Outgoing, Program};

/// Splits a byte stream into messages, if necessary.
struct Input(Option<StreamReader>);

impl Input {
    fn new(stream: bool) -> Self {
        Self(stream.then(StreamReader::default))
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

fn outgoing(stream: u16, payload: Bytes) -> Outgoing {
    Outgoing {
        stream,
        ppid: PPID,
        payload,
    }
}

/// Load generator with its agent, which ends after the measurement.
pub(super) struct LiveAgent {
    agent: Agent,
    generator: Generator,
    streams: u16,
    input: Input,
    duration: Duration,
    /// Time of the next step: the start or the end of the measurement.
    next: Option<Time>,
    measuring: bool,
    done: bool,
    failure: Option<String>,
}

impl LiveAgent {
    pub(super) fn new(
        streams: u16,
        stream: bool,
        workload: Workload,
        duration: Duration,
        seed: u64,
    ) -> Self {
        Self {
            agent: sides::agent(seed),
            generator: sides::generator(workload, seed),
            streams,
            input: Input::new(stream),
            duration,
            next: None,
            measuring: false,
            done: false,
            failure: None,
        }
    }

    /// Returns the number of pinholes counted by this side, and the number of pending requests.
    pub(super) fn pinholes(&self) -> (usize, usize) {
        (self.generator.pinholes(), self.agent.pending())
    }

    /// Returns the measurements.
    pub(super) fn measures(&self) -> &Measures {
        self.generator.measures()
    }

    fn pump(&mut self, now: Time) {
        while let Some(event) = self.agent.poll_event() {
            match &event {
                AgentEvent::Opened(_) => self.generator.start(now, &mut self.agent),
                AgentEvent::Closed(reason) => self.fail(format!("session: {reason:?}")),
                _ => {}
            }
            self.generator.handle_event(now, &mut self.agent, &event);
        }
        if self.next.is_none() && !self.done {
            self.next = self.generator.steady_since().map(|_| now + SETTLING);
        }
    }

    fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
    }
}

impl Program for LiveAgent {
    fn connected(&mut self, now: Time, streams: u16) {
        if streams < self.streams {
            let wanted = self.streams;
            self.fail(format!("{streams} stream pairs instead of {wanted}"));
        }
        self.agent.connected(now, self.streams);
        self.pump(now);
    }

    fn handle_message(&mut self, now: Time, stream: u16, message: Bytes) {
        for message in self.input.messages(now, message) {
            self.agent.handle_message(now, stream, &message);
        }
        self.pump(now);
    }

    fn poll_transmit(&mut self, _: Time) -> Option<Outgoing> {
        let (stream, message) = self.agent.poll_transmit()?;
        Some(outgoing(stream, message))
    }

    fn poll_timeout(&self) -> Option<Time> {
        let timers = [
            self.agent.poll_timeout(),
            self.generator.poll_timeout(),
            self.next,
        ];
        timers.into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.next.is_some_and(|next| next <= now) {
            self.done = self.measuring;
            self.next = (!self.measuring).then(|| now + self.duration);
            if !self.measuring {
                self.generator.start_measuring();
            }
            self.measuring = true;
        }
        if self.done {
            // The measurement has ended; the load would continue without end.
            return;
        }
        self.agent.handle_timeout(now);
        self.generator.handle_timeout(now, &mut self.agent);
        self.pump(now);
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

/// A message that the middlebox has received and not yet processed.
struct Waiting {
    due: Time,
    stream: u16,
    message: Bytes,
}

/// Middlebox, which processes each message [`PROCESSING`] after its arrival.
pub(super) struct LiveMiddlebox {
    middlebox: Middlebox<MemoryBackend>,
    session: Option<SessionId>,
    input: Input,
    waiting: VecDeque<Waiting>,
    out: VecDeque<Outgoing>,
    failure: Option<String>,
}

impl LiveMiddlebox {
    pub(super) fn new(stream: bool, seed: u64) -> Result<Self, String> {
        Ok(Self {
            middlebox: sides::middlebox(seed)?,
            session: None,
            input: Input::new(stream),
            waiting: VecDeque::new(),
            out: VecDeque::new(),
            failure: None,
        })
    }

    /// Returns the number of rules.
    pub(super) fn rules(&self) -> usize {
        self.middlebox.rules().len()
    }

    fn pump(&mut self) {
        while self.middlebox.poll_event().is_some() {}
        let Some(session) = self.session else { return };
        while let Some(output) = self.middlebox.poll_output(session) {
            match output {
                SessionOutput::Send { stream, message } => {
                    self.out.push_back(outgoing(stream, message));
                }
                SessionOutput::Close => {
                    self.failure.get_or_insert("the session was closed".into());
                }
            }
        }
    }
}

impl Program for LiveMiddlebox {
    fn connected(&mut self, now: Time, streams: u16) {
        let session = self.middlebox.connected(now, &Connection::plain(streams));
        self.session = Some(session);
        self.pump();
    }

    fn handle_message(&mut self, now: Time, stream: u16, message: Bytes) {
        let due = now + PROCESSING;
        let messages = self.input.messages(now, message).into_iter();
        self.waiting.extend(messages.map(|message| Waiting {
            due,
            stream,
            message,
        }));
    }

    fn poll_transmit(&mut self, _: Time) -> Option<Outgoing> {
        self.out.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let message = self.waiting.front().map(|waiting| waiting.due);
        let timers = [message, self.middlebox.poll_timeout()];
        timers.into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.middlebox.handle_timeout(now);
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.due <= now) {
            if let Some(session) = self.session {
                let (stream, message) = (waiting.stream, waiting.message);
                self.middlebox
                    .handle_message(now, session, stream, &message);
            }
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

#[cfg(test)]
mod tests {
    use super::super::setup::workload;
    use super::*;

    /// Exchanges messages without delay until the agent is done.
    fn exchange(stream: bool) -> (LiveAgent, LiveMiddlebox) {
        let load = Workload {
            preload: 20,
            ..workload()
        };
        let mut agent = LiveAgent::new(1, stream, load, Duration::from_secs(2), 1);
        let mut middlebox = LiveMiddlebox::new(stream, 1).expect("the names are valid");
        let mut now = Time::ZERO;
        middlebox.connected(now, 1);
        agent.connected(now, 1);
        while !agent.is_done() {
            let octets = |out: Outgoing, to: &mut dyn Program| {
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
                octets(out, &mut middlebox);
            }
            while let Some(out) = middlebox.poll_transmit(now) {
                octets(out, &mut agent);
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
            let enable = &agent.measures().enable;
            // Two seconds with one PER request every 30 ms, without a network in between.
            assert!((30..110).contains(&enable.count()), "{}", enable.count());
            let mean = enable.mean().expect("pinholes were opened");
            assert_eq!(mean, PROCESSING, "stream: {stream}");
            let (pinholes, pending) = agent.pinholes();
            assert!(pinholes.abs_diff(middlebox.rules()) <= pending);
            assert_eq!(agent.measures().failures(), 0);
        }
    }
}
