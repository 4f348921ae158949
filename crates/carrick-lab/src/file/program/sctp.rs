//! Flows over SCTP, with one association for each pair of hosts.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick_netsim::Random;
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, Event, Message, Part, PathId, Ppid, SendError,
    SendOptions, StreamId, Time, TraceEvent, TraceRecord, Tsn,
};

use super::super::measure::{FlowRecord, Transmission};
use super::{Sender, message, number_of};
use crate::sctp_host::Application;
use crate::switch::MessageTransmission;

/// SCTP port of all hosts.
pub(in crate::file) const PORT: u16 = 5001;
/// PPID bit of a response.
const ANSWER: u32 = 1 << 31;
/// Position of the flow's index in the context of a message.
const FLOW: u32 = 48;

/// An association with another host.
#[derive(Debug)]
pub(in crate::file) struct Session {
    /// Addresses of the peer, the one to connect to first.
    pub(in crate::file) peer: Vec<IpAddr>,
    /// Time of the set-up, if this host performs it.
    pub(in crate::file) setup: Option<u64>,
    pub(in crate::file) config: Arc<AssociationConfig>,
    /// Address to set as primary.
    pub(in crate::file) primary: Option<IpAddr>,
    pub(in crate::file) wait_for_paths: bool,
    /// Mean reading interval; `None` for immediate reading.
    pub(in crate::file) reader: Option<(Duration, Random)>,
    pub(in crate::file) state: SessionState,
}

/// State of a session.
#[derive(Debug, Default)]
pub(in crate::file) struct SessionState {
    pub(in crate::file) id: Option<AssociationId>,
    ready: bool,
    primary: Option<PathId>,
    next_read: Option<u64>,
    /// Number of failovers: changes of data from the primary path to another.
    pub(in crate::file) failovers: u64,
    pub(in crate::file) closed: bool,
    /// Messages that are incomplete: first TSN, PPID and number.
    parts: Vec<(Tsn, Ppid, u64)>,
}

/// Receiver side of a flow.
#[derive(Debug)]
pub(in crate::file) struct Receiver {
    pub(in crate::file) session: usize,
    /// Index of the flow.
    pub(in crate::file) number: usize,
    /// Size of the responses, if there are any, and the time that each takes.
    pub(in crate::file) response: Option<usize>,
    pub(in crate::file) processing: Duration,
    /// Pending responses: due time, stream and number.
    pub(in crate::file) pending: VecDeque<(u64, StreamId, u64)>,
    pub(in crate::file) record: FlowRecord,
}

/// Program of a host.
#[derive(Debug)]
pub(in crate::file) struct SctpProgram {
    pub(in crate::file) sessions: Vec<Session>,
    /// Flows from this host, each with the index of its session.
    pub(in crate::file) senders: Vec<(usize, Sender)>,
    /// Flows to this host.
    pub(in crate::file) receivers: Vec<Receiver>,
    /// Records transmissions.
    pub(in crate::file) recording: bool,
    pub(in crate::file) failure: Option<String>,
}

impl SctpProgram {
    fn session(&self, id: AssociationId) -> Option<usize> {
        self.sessions.iter().position(|s| s.state.id == Some(id))
    }

    /// Assigns a new association to its session by the addresses of the peer.
    fn adopt(&mut self, endpoint: &Endpoint, id: AssociationId) -> Option<usize> {
        if let Some(known) = self.session(id) {
            return Some(known);
        }
        let found = self.sessions.iter().position(|session| {
            session.state.id.is_none()
                && endpoint.paths(id).any(|p| session.peer.contains(&p.remote))
        })?;
        self.sessions[found].state.id = Some(id);
        Some(found)
    }

    /// Starts the flows of a session once its association is ready.
    fn prepare(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        let Some(number) = self.adopt(endpoint, id) else {
            return;
        };
        let session = &mut self.sessions[number];
        let paths: Vec<_> = endpoint
            .paths(id)
            .map(|p| (p.id, p.remote, p.status.confirmed))
            .collect();
        let complete = paths.len() >= session.peer.len() && paths.iter().all(|(.., ok)| *ok);
        if session.state.ready || session.wait_for_paths && !complete {
            return;
        }
        let wanted = session.primary;
        if let Some((path, ..)) = paths.iter().find(|(_, remote, _)| Some(*remote) == wanted)
            && let Err(error) = endpoint.set_primary(now, id, *path)
        {
            self.failure.get_or_insert(format!("set primary: {error}"));
        }
        let primary = endpoint
            .association_stats(id)
            .and_then(|stats| stats.primary);
        session.state.primary = primary;
        session.state.ready = true;
        let now = now.as_nanos();
        for (own, sender) in &mut self.senders {
            if *own == number {
                let start = sender.flow.start.as_nanos() as u64;
                sender
                    .pace
                    .begin(start.max(now + sender.flow.settle.as_nanos() as u64));
            }
        }
    }

    /// Sends the messages of a flow that are due, or the one that waits for room.
    fn send(&mut self, now: Time, endpoint: &mut Endpoint, index: usize) {
        let (session, sender) = &mut self.senders[index];
        let Some(id) = self.sessions[*session].state.id else {
            return;
        };
        let waits = sender.blocked;
        let due = if waits {
            1
        } else {
            sender.pace.take(now.as_nanos())
        };
        let bulk = due == u32::MAX;
        for _ in 0..due {
            if !waits && !sender.has_more() {
                break;
            }
            let number = sender.record.sends.len() as u64 - u64::from(waits);
            let stream =
                sender.flow.first_stream + (number % u64::from(sender.flow.streams)) as u16;
            let options = SendOptions {
                stream: StreamId(stream),
                ppid: Ppid(sender.number as u32),
                unordered: sender.flow.unordered,
                reliability: sender.flow.reliability,
                context: (sender.number as u64) << FLOW | number,
                ..SendOptions::default()
            };
            match endpoint.send(now, id, options, message(number, sender.flow.size)) {
                Ok(()) if waits => sender.unblock(now.as_nanos()),
                Ok(()) => sender.record.sends.push(now.as_nanos()),
                Err(SendError::BufferFull) if bulk || waits => break,
                Err(SendError::BufferFull) if sender.flow.blocking => {
                    sender.record.sends.push(now.as_nanos());
                    sender.block();
                }
                Err(SendError::BufferFull) => sender.record.refused += 1,
                Err(error) => {
                    if !self.sessions[*session].state.closed {
                        let name = &sender.flow.name;
                        self.failure
                            .get_or_insert(format!("flow {name}: send: {error}"));
                    }
                    return;
                }
            }
        }
    }

    /// Reads one message.
    fn read(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        session: usize,
    ) -> bool {
        let Some(message) = endpoint.receive(id) else {
            return false;
        };
        let stream = message.stream;
        if let Some((ppid, number)) = complete(&mut self.sessions[session].state.parts, message) {
            self.deliver(now, endpoint, session, stream, ppid, number);
        }
        true
    }

    fn deliver(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        session: usize,
        stream: StreamId,
        ppid: Ppid,
        number: u64,
    ) {
        let flow = (ppid.0 & !ANSWER) as usize;
        let delivery = (number, now.as_nanos());
        if ppid.0 & ANSWER != 0 {
            if let Some((_, sender)) = self.senders.iter_mut().find(|(_, s)| s.number == flow) {
                sender.record.deliveries.push(delivery);
            }
            return;
        }
        let Some(receiver) = self.receivers.iter_mut().find(|r| r.number == flow) else {
            return;
        };
        if receiver.response.is_none() {
            receiver.record.deliveries.push(delivery);
            return;
        }
        let due = now.as_nanos() + receiver.processing.as_nanos() as u64;
        receiver.pending.push_back((due, stream, number));
        if due <= now.as_nanos() {
            self.answer(now, endpoint, session);
        }
    }

    /// Sends the responses that are due, each on the stream of its request.
    fn answer(&mut self, now: Time, endpoint: &mut Endpoint, session: usize) {
        let Some(id) = self.sessions[session].state.id else {
            return;
        };
        for receiver in self.receivers.iter_mut().filter(|r| r.session == session) {
            let due = |(at, ..): &mut (u64, StreamId, u64)| *at <= now.as_nanos();
            while let Some((_, stream, number)) = receiver.pending.pop_front_if(due) {
                let options = SendOptions {
                    stream,
                    ppid: Ppid(receiver.number as u32 | ANSWER),
                    ..SendOptions::default()
                };
                let answer = message(number, receiver.response.unwrap_or_default());
                receiver.record.refused +=
                    u64::from(endpoint.send(now, id, options, answer).is_err());
            }
        }
    }

    fn wait_to_read(&mut self, now: Time, session: usize) {
        let session = &mut self.sessions[session];
        if let Some((mean, random)) = &mut session.reader {
            let wait = random.exponential(*mean).max(Duration::from_micros(1));
            session.state.next_read = Some(now.as_nanos() + wait.as_nanos() as u64);
        }
    }
}

/// Returns PPID and number of a message if it is complete now.
fn complete(parts: &mut Vec<(Tsn, Ppid, u64)>, message: Message) -> Option<(Ppid, u64)> {
    let (tsn, ppid) = (message.tsn, message.ppid);
    match message.part {
        Part::Whole => Some((ppid, number_of(&message.payload.into_bytes())?)),
        Part::First => {
            parts.push((tsn, ppid, number_of(&message.payload.into_bytes())?));
            None
        }
        Part::Middle => None,
        Part::Last | Part::Aborted => {
            let at = parts.iter().position(|(own, ..)| *own == tsn)?;
            let (_, ppid, number) = parts.swap_remove(at);
            (message.part == Part::Last).then_some((ppid, number))
        }
    }
}

impl Application for SctpProgram {
    fn next_timer(&self) -> Option<Time> {
        let setups = self.sessions.iter().filter_map(|s| s.setup);
        let reads = self.sessions.iter().filter_map(|s| s.state.next_read);
        let sends = self.senders.iter().filter(|(_, s)| s.has_more());
        let sends = sends.filter_map(|(_, s)| s.pace.due());
        let answers = self.receivers.iter();
        let answers = answers.filter_map(|r| r.pending.front().map(|(at, ..)| *at));
        setups
            .chain(reads)
            .chain(sends)
            .chain(answers)
            .min()
            .map(Time::from_nanos)
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        let nanos = now.as_nanos();
        for session in &mut self.sessions {
            if session.setup.is_some_and(|at| at <= nanos) {
                session.setup = None;
                match endpoint.connect(now, &session.peer, PORT, None, session.config.clone()) {
                    Ok(id) => session.state.id = Some(id),
                    Err(error) => {
                        self.failure.get_or_insert(format!("connect: {error}"));
                    }
                }
            }
        }
        for index in 0..self.senders.len() {
            if !self.senders[index].1.blocked {
                self.send(now, endpoint, index);
            }
        }
        for index in 0..self.sessions.len() {
            self.answer(now, endpoint, index);
            let state = &mut self.sessions[index].state;
            if state.next_read.is_some_and(|at| at <= nanos) {
                state.next_read = None;
                if let Some(id) = state.id {
                    self.read(now, endpoint, id, index);
                }
                self.wait_to_read(now, index);
            }
        }
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        match event {
            Event::Established { .. } => {
                if let Some(session) = self.adopt(endpoint, id) {
                    self.wait_to_read(now, session);
                }
                self.prepare(now, endpoint, id);
            }
            Event::PathConfirmed(_) => self.prepare(now, endpoint, id),
            Event::SendBufferFree => {
                for index in 0..self.senders.len() {
                    let (session, sender) = &mut self.senders[index];
                    let bulk = sender.flow.pattern == super::super::model::Pattern::Bulk;
                    let wanted = bulk || sender.blocked;
                    if wanted && self.sessions[*session].state.id == Some(id) {
                        if bulk {
                            sender.pace.begin(now.as_nanos());
                        }
                        self.send(now, endpoint, index);
                    }
                }
            }
            Event::PrimaryChanged(path) => {
                if let Some(session) = self.session(id) {
                    let state = &mut self.sessions[session].state;
                    let left = state.ready && state.primary.is_some_and(|own| own != path);
                    state.failovers += u64::from(left);
                }
            }
            Event::Closed(_) => {
                if let Some(session) = self.session(id) {
                    self.sessions[session].state.closed = true;
                }
            }
            _ => {}
        }
    }

    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        let Some(session) = self.adopt(endpoint, id) else {
            while endpoint.receive(id).is_some() {}
            return;
        };
        if self.sessions[session].reader.is_none() {
            while self.read(now, endpoint, id, session) {}
        }
    }

    fn wants_trace(&self) -> bool {
        self.recording
    }

    fn on_trace(&mut self, id: AssociationId, record: &TraceRecord) {
        let TraceEvent::ChunkSent {
            path,
            transmission,
            bytes,
            context,
            ..
        } = record.event
        else {
            return;
        };
        let flow = (context >> FLOW) as usize;
        let Some(session) = self.session(id) else {
            return;
        };
        let primary = self.sessions[session].state.primary;
        let own = |(s, sender): &&mut (usize, Sender)| *s == session && sender.number == flow;
        if let Some((_, sender)) = self.senders.iter_mut().find(own) {
            sender.record.transmissions.push(Transmission {
                sent: MessageTransmission {
                    message: context & ((1 << FLOW) - 1),
                    time: record.time.as_nanos(),
                    alternate: primary.is_some_and(|own| own != path),
                },
                bytes,
                again: transmission > 1,
            });
        }
    }
}
