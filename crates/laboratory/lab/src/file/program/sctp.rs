//! Flows over SCTP, with one association for each pair of hosts.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick_netsim::Random;
use carrick_proto::{
    AddressEvent, AssociationConfig, AssociationId, Endpoint, Event, Message, MessagePart,
    ObservedEvent, PathId, Ppid, SendError, SendOptions, StreamId, Time, Tsn,
};

use super::super::measure::{FlowRecord, Transmission};
use super::super::model::ReceiverSpeed;
use super::{Carried, HostProgram, Sender, Signaling};
use crate::numbered::{message, number_of};
use carrick_hosts::sctp::{Application, SctpHost};

/// PPID bit of a response.
const ANSWER: u32 = 1 << 31;
/// Position of the flow's index in the context of a message.
const FLOW: u32 = 48;

/// An association with another host.
#[derive(Debug)]
pub(in crate::file) struct Session {
    /// Addresses of the peer, the one to connect to first.
    pub(in crate::file) peer: Vec<IpAddr>,
    /// Number of these addresses with which the association is set up.
    pub(in crate::file) given: usize,
    /// Time of the set-up, if this host performs it.
    pub(in crate::file) setup: Option<u64>,
    /// SCTP port of the peer.
    pub(in crate::file) port: u16,
    pub(in crate::file) config: Arc<AssociationConfig>,
    /// Address to set as primary.
    pub(in crate::file) primary: Option<IpAddr>,
    pub(in crate::file) wait_for_paths: bool,
    pub(in crate::file) reader: ReceiverSpeed,
    /// Random numbers of a slow reader.
    pub(in crate::file) random: Random,
    /// Program with its own messages.
    pub(in crate::file) carried: Option<Carried>,
    /// Number of the link of [`SctpProgram::signaling`].
    pub(in crate::file) link: Option<usize>,
    pub(in crate::file) state: SessionState,
}

/// State of a session.
#[derive(Debug, Default)]
pub(in crate::file) struct SessionState {
    pub(in crate::file) id: Option<AssociationId>,
    ready: bool,
    primary: Option<PathId>,
    next_read: Option<u64>,
    /// Times at which data left the primary path, and at which it returned.
    pub(in crate::file) left: Vec<u64>,
    pub(in crate::file) returned: Vec<u64>,
    /// Expirations of T3-rtx and first arrivals of chunks, if transmissions are recorded.
    pub(in crate::file) timeouts: Vec<u64>,
    pub(in crate::file) arrivals: Vec<(Tsn, u64)>,
    /// Shortest round-trip sample of the primary path, if transmissions are recorded.
    pub(in crate::file) shortest_round_trip: Option<u64>,
    pub(in crate::file) closed: bool,
    /// Time at which the association was lost.
    pub(in crate::file) lost: Option<u64>,
    /// Times at which the peer acknowledged a new address of this host.
    pub(in crate::file) acknowledged: Vec<u64>,
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
#[derive(Debug, Default)]
pub(in crate::file) struct SctpProgram {
    pub(in crate::file) sessions: Vec<Session>,
    /// Flows from this host, each with the index of its session.
    pub(in crate::file) senders: Vec<(usize, Sender)>,
    /// Flows to this host.
    pub(in crate::file) receivers: Vec<Receiver>,
    /// Layer of the flow of this host, if it has one.
    pub(in crate::file) signaling: Option<Signaling>,
    /// The flow has begun that waits for the layer.
    pub(in crate::file) has_begun: bool,
    /// Records transmissions.
    pub(in crate::file) recording: bool,
    /// Requests the peers to set a new address as primary.
    pub(in crate::file) set_peer_primary: bool,
    pub(in crate::file) failure: Option<String>,
}

impl SctpProgram {
    /// Returns the sender of a flow with the index of its session, if this host sends the flow.
    fn sender(&self, flow: usize) -> Option<&(usize, Sender)> {
        self.senders.iter().find(|(_, own)| own.number == flow)
    }

    /// Returns the receiver of a flow, if this host receives it.
    fn receiver(&self, flow: usize) -> Option<&Receiver> {
        self.receivers.iter().find(|own| own.number == flow)
    }

    fn session(&self, id: AssociationId) -> Option<usize> {
        self.sessions.iter().position(|s| s.state.id == Some(id))
    }

    /// Returns the state of the session of an association.
    fn state(&mut self, id: AssociationId) -> Option<&mut SessionState> {
        let mut states = self.sessions.iter_mut().map(|session| &mut session.state);
        states.find(|state| state.id == Some(id))
    }

    /// Assigns a new association to its session by the addresses of the peer.
    fn adopt(&mut self, endpoint: &Endpoint, id: AssociationId) -> Option<usize> {
        if let Some(known) = self.session(id) {
            return Some(known);
        }
        let found = self.sessions.iter().position(|session| {
            session.state.id.is_none()
                && endpoint
                    .association(id)
                    .is_some_and(|a| a.paths().any(|p| session.peer.contains(&p.remote)))
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
        let association = endpoint.association(id).into_iter();
        let paths: Vec<_> = association
            .flat_map(|a| a.paths())
            .map(|p| (p.id, p.remote, p.status.confirmed))
            .collect();
        let complete = paths.len() >= session.peer.len() && paths.iter().all(|(.., ok)| *ok);
        if session.state.ready || session.wait_for_paths && !complete {
            return;
        }
        let wanted = session.primary;
        if let Some((path, ..)) = paths.iter().find(|(_, remote, _)| Some(*remote) == wanted)
            && let Some(mut association) = endpoint.association_mut(now, id)
            && let Err(error) = association.set_primary(*path)
        {
            self.failure.get_or_insert(format!("set primary: {error}"));
        }
        let primary = endpoint
            .association(id)
            .map(|a| a.stats())
            .and_then(|stats| stats.current);
        session.state.primary = primary;
        session.state.ready = true;
        if self.signaling.is_some() {
            self.begin_when_ready(now);
            return;
        }
        for (own, sender) in &mut self.senders {
            if *own == number {
                sender.begin(now.as_nanos());
            }
        }
    }

    /// Starts the flow of the layer once its associations and the layer are ready.
    fn begin_when_ready(&mut self, now: Time) {
        let layer_is_ready = self.signaling.as_ref().is_some_and(Signaling::is_ready);
        let ready = layer_is_ready && self.sessions.iter().all(|session| session.state.ready);
        if ready && !std::mem::replace(&mut self.has_begun, true) {
            for (_, sender) in &mut self.senders {
                sender.begin(now.as_nanos());
            }
        }
    }

    /// Hands the messages of a flow that are due to the layer.
    fn send_by_layer(&mut self, now: Time, endpoint: &mut Endpoint, index: usize) {
        let (_, sender) = &mut self.senders[index];
        let due = sender.pace.take(now.as_nanos());
        for _ in 0..due {
            let (_, sender) = &mut self.senders[index];
            let Some(signaling) = self.signaling.as_mut().filter(|_| sender.has_more()) else {
                break;
            };
            let number = sender.record.sends.len() as u64;
            sender.record.sends.push(now.as_nanos());
            if let Err(what) = signaling.send(now, message(number, sender.flow.size)) {
                self.failure.get_or_insert(what);
            }
        }
        self.run_layer(now, endpoint);
    }

    /// Notifies the layer of the establishment of an association, with its outbound streams, or of its loss.
    fn handle_association(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        session: usize,
        streams: Option<u16>,
    ) {
        let (Some(signaling), Some(link)) = (&mut self.signaling, self.sessions[session].link)
        else {
            return;
        };
        match streams {
            Some(streams) => {
                if let Err(what) = signaling.link(link).associated(now, streams) {
                    self.failure.get_or_insert(what);
                }
            }
            None => signaling.link(link).association_lost(now),
        }
        self.run_layer(now, endpoint);
    }

    /// Delivers the messages of the layer, and sends what it has for the associations.
    fn run_layer(&mut self, now: Time, endpoint: &mut Endpoint) {
        if let Err(what) = self.try_run_layer(now, endpoint) {
            self.failure.get_or_insert(what);
        }
        self.begin_when_ready(now);
    }

    fn try_run_layer(&mut self, now: Time, endpoint: &mut Endpoint) -> Result<(), String> {
        let Some(signaling) = &mut self.signaling else {
            return Ok(());
        };
        while let Some(message) = signaling.poll_message(now)? {
            let number = number_of(&message).ok_or("a message without a number")?;
            for receiver in &mut self.receivers {
                receiver.record.deliveries.push((number, now.as_nanos()));
            }
        }
        while let Some((link, out)) = signaling.poll_transmit()? {
            let session = self.sessions.iter().find(|own| own.link == Some(link));
            let Some(id) = session.and_then(|own| own.state.id) else {
                continue;
            };
            let flow = self.senders.first().map(|(_, sender)| sender.number as u64);
            let options = SendOptions {
                stream: StreamId(out.stream),
                ppid: Ppid(out.ppid),
                // Messages without a number belong to no flow.
                context: match out.number.zip(flow) {
                    Some((number, flow)) => flow << FLOW | number,
                    None => u64::MAX,
                },
                ..SendOptions::default()
            };
            // The loss of the association is notified.
            if let Err(SendError::BufferFull) = endpoint.send(now, id, options, out.octets) {
                return Err("the send buffer is full".into());
            }
        }
        Ok(())
    }

    /// Sends the messages of a flow that are due, or the one that waits for room.
    fn send(&mut self, now: Time, endpoint: &mut Endpoint, index: usize) {
        if self.signaling.is_some() {
            self.send_by_layer(now, endpoint, index);
            return;
        }
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

    /// Sends the messages of the program of a session until there are none, or the send buffer is full.
    fn pump(&mut self, now: Time, endpoint: &mut Endpoint, session: usize) {
        let session = &mut self.sessions[session];
        let (Some(own), Some(id)) = (&mut session.carried, session.state.id) else {
            return;
        };
        while let Some(out) = own
            .waiting
            .take()
            .or_else(|| own.program.poll_transmit(now))
        {
            let options = SendOptions {
                stream: StreamId(out.stream),
                ppid: Ppid(out.ppid),
                ..SendOptions::default()
            };
            match endpoint.send(now, id, options, out.payload.clone()) {
                Ok(()) => {}
                Err(SendError::BufferFull) => {
                    own.waiting = Some(out);
                    break;
                }
                Err(error) => {
                    self.failure.get_or_insert_with(|| format!("send: {error}"));
                    break;
                }
            }
        }
        self.failure = self.failure.take().or_else(|| own.program.failure());
    }

    /// Reads one message; returns false if there is none.
    fn read(&mut self, now: Time, endpoint: &mut Endpoint, session: usize) -> bool {
        let state = &mut self.sessions[session].state;
        let Some(message) = state.id.and_then(|id| endpoint.receive(id)) else {
            return false;
        };
        let stream = message.stream;
        if let Some((ppid, number)) = complete(&mut state.parts, message) {
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
            let due = |(at, ..): &(u64, StreamId, u64)| *at <= now.as_nanos();
            while receiver.pending.front().is_some_and(due)
                && let Some((_, stream, number)) = receiver.pending.pop_front()
            {
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
        if let ReceiverSpeed::Slow(mean) = session.reader {
            let wait = session
                .random
                .exponential(mean)
                .max(Duration::from_micros(1));
            session.state.next_read = Some(now.as_nanos() + wait.as_nanos() as u64);
        }
    }
}

impl HostProgram for SctpHost<SctpProgram> {
    fn record(&self, flow: usize, end: usize) -> Option<&FlowRecord> {
        match end {
            0 => self.application().sender(flow).map(|(_, own)| &own.record),
            _ => self.application().receiver(flow).map(|own| &own.record),
        }
    }

    fn session(&self, flow: usize, end: usize) -> Option<(&Endpoint, &Session)> {
        let program = self.application();
        let number = match end {
            0 => program.sender(flow)?.0,
            _ => program.receiver(flow)?.session,
        };
        Some((self.endpoint(), &program.sessions[number]))
    }

    fn failure(&self) -> Option<String> {
        self.application().failure.clone()
    }
}

/// Returns PPID and number of a message if it is complete now.
fn complete(parts: &mut Vec<(Tsn, Ppid, u64)>, message: Message) -> Option<(Ppid, u64)> {
    let (tsn, ppid) = (message.tsn, message.ppid);
    match message.part {
        MessagePart::Whole => Some((ppid, number_of(&message.payload.into_bytes())?)),
        MessagePart::First => {
            parts.push((tsn, ppid, number_of(&message.payload.into_bytes())?));
            None
        }
        MessagePart::Middle => None,
        MessagePart::Last | MessagePart::Aborted => {
            let at = parts.iter().position(|(own, ..)| *own == tsn)?;
            let (_, ppid, number) = parts.swap_remove(at);
            (message.part == MessagePart::Last).then_some((ppid, number))
        }
    }
}

impl Application for SctpProgram {
    fn next_timer(&self) -> Option<Time> {
        let setups = self.sessions.iter().filter_map(|s| s.setup);
        let reads = self.sessions.iter().filter_map(|s| s.state.next_read);
        let sends = self.senders.iter().filter(|(_, s)| s.has_more());
        let sends = sends.filter_map(|(_, s)| s.pace.due());
        let carried = self.sessions.iter().filter_map(|s| s.carried.as_ref());
        let carried = carried.filter_map(|own| own.program.poll_timeout());
        let answers = self.receivers.iter();
        let answers = answers.filter_map(|r| r.pending.front().map(|(at, ..)| *at));
        setups
            .chain(reads)
            .chain(sends)
            .chain(answers)
            .map(Time::from_nanos)
            .chain(carried)
            .chain(self.signaling.as_ref().and_then(Signaling::poll_timeout))
            .min()
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        let nanos = now.as_nanos();
        for session in &mut self.sessions {
            if session.setup.is_some_and(|at| at <= nanos) {
                session.setup = None;
                match endpoint.connect(
                    now,
                    &session.peer[..session.given.min(session.peer.len())],
                    session.port,
                    None,
                    session.config.clone(),
                ) {
                    Ok(id) => session.state.id = Some(id),
                    Err(error) => {
                        self.failure.get_or_insert(format!("connect: {error}"));
                    }
                }
            }
        }
        if let Some(signaling) = &mut self.signaling
            && signaling.poll_timeout().is_some_and(|due| due <= now)
        {
            signaling.handle_timeout(now);
            self.run_layer(now, endpoint);
        }
        for index in 0..self.senders.len() {
            if !self.senders[index].1.blocked {
                self.send(now, endpoint, index);
            }
        }
        for index in 0..self.sessions.len() {
            self.answer(now, endpoint, index);
            if let Some(own) = &mut self.sessions[index].carried
                && own.program.poll_timeout().is_some_and(|due| due <= now)
            {
                own.program.handle_timeout(now);
                self.pump(now, endpoint, index);
            }
            let state = &mut self.sessions[index].state;
            if state.next_read.is_some_and(|at| at <= nanos) {
                state.next_read = None;
                self.read(now, endpoint, index);
                self.wait_to_read(now, index);
            }
        }
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        match event {
            Event::Established {
                outbound_streams,
                inbound_streams,
                ..
            } => {
                if let Some(session) = self.adopt(endpoint, id) {
                    self.wait_to_read(now, session);
                    if let Some(own) = &mut self.sessions[session].carried {
                        let streams = outbound_streams.min(inbound_streams);
                        own.program.connected(now, streams);
                        self.pump(now, endpoint, session);
                    }
                    self.handle_association(now, endpoint, session, Some(outbound_streams));
                }
                self.prepare(now, endpoint, id);
            }
            Event::PathConfirmed(_) => self.prepare(now, endpoint, id),
            Event::SendBufferFree => {
                if let Some(session) = self.session(id) {
                    self.pump(now, endpoint, session);
                }
                // A message that waits for room goes before bulk flows.
                let mut order: Vec<usize> = (0..self.senders.len()).collect();
                order.sort_by_key(|index| !self.senders[*index].1.blocked);
                for index in order {
                    let (session, sender) = &mut self.senders[index];
                    let bulk = sender.flow.is_bulk();
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
                let state = self.state(id).filter(|state| state.ready);
                if let Some(state) = state {
                    match state.primary {
                        Some(own) if own != path => state.left.push(now.as_nanos()),
                        Some(_) => state.returned.push(now.as_nanos()),
                        None => {}
                    }
                }
            }
            Event::Address(AddressEvent::LocalAdded(address)) => {
                if let Some(state) = self.state(id) {
                    state.acknowledged.push(now.as_nanos());
                }
                if self.set_peer_primary
                    && let Some(mut association) = endpoint.association_mut(now, id)
                    && let Err(error) = association.set_peer_primary(address)
                {
                    self.failure
                        .get_or_insert(format!("set peer primary: {error}"));
                }
            }
            Event::Closed(reason) => {
                if let Some(session) = self.session(id) {
                    let state = &mut self.sessions[session].state;
                    state.closed = true;
                    state.lost.get_or_insert(now.as_nanos());
                    if self.sessions[session].carried.is_some() {
                        self.failure
                            .get_or_insert_with(|| format!("the association ended: {reason}"));
                    }
                    self.handle_association(now, endpoint, session, None);
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
        if let Some(own) = &mut self.sessions[session].carried {
            while let Some(message) = endpoint.receive(id) {
                if message.part != MessagePart::Whole {
                    let what = "a message was delivered partially";
                    self.failure.get_or_insert_with(|| what.into());
                }
                let stream = message.stream.0;
                let payload = message.payload.into_bytes();
                own.program.handle_message(now, stream, payload);
            }
            self.pump(now, endpoint, session);
        } else if let (Some(signaling), Some(link)) =
            (&mut self.signaling, self.sessions[session].link)
        {
            while let Some(message) = endpoint.receive(id) {
                let stream = message.stream.0;
                let octets = message.payload.into_bytes();
                let handled = signaling.link(link).handle_message(now, stream, &octets);
                self.failure = self.failure.take().or(handled.err());
            }
            self.run_layer(now, endpoint);
        } else if self.sessions[session].reader == ReceiverSpeed::Fast {
            while self.read(now, endpoint, session) {}
        }
    }

    fn observes(&self) -> bool {
        self.recording
    }

    fn on_observed(&mut self, time: Time, id: AssociationId, event: &ObservedEvent) {
        let time = time.as_nanos();
        let Some(session) = self.session(id) else {
            return;
        };
        let state = &mut self.sessions[session].state;
        match *event {
            ObservedEvent::ChunkSent {
                path,
                transmission,
                bytes,
                context,
                tsn,
                ..
            } => {
                let flow = (context >> FLOW) as usize;
                let sent = Transmission {
                    message: context & ((1 << FLOW) - 1),
                    time,
                    alternate: state.primary.is_some_and(|own| own != path),
                    tsn: Some(tsn),
                    bytes,
                    again: transmission > 1,
                };
                let mut senders = self.senders.iter_mut();
                let own = senders.find(|(own, sender)| *own == session && sender.number == flow);
                if let Some((_, sender)) = own {
                    sender.record.transmissions.push(sent);
                }
            }
            ObservedEvent::Timeout { .. } => state.timeouts.push(time),
            ObservedEvent::ChunkReceived { tsn } => state.arrivals.push((tsn, time)),
            ObservedEvent::RoundTrip { path, sample } if state.primary == Some(path) => {
                let nanos = sample.as_nanos() as u64;
                let shortest = state.shortest_round_trip.unwrap_or(nanos);
                state.shortest_round_trip = Some(shortest.min(nanos));
            }
            _ => {}
        }
    }
}
