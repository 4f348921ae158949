//! Connections of a process by their local reference numbers (RFC 3868, sections 1.4.2, 3.10.4, 3.10.5 and 4.7.3.2).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::time::Duration;

use carrick_proto::Time;

use super::coupling::{Coupling, Forward};
use super::{
    ConnectRequest, Connection, ConnectionConfig, ConnectionIndication, ConnectionRequestError,
    ConnectionState, answer_unassigned,
};
use crate::aspm::Deadlines;
use crate::sua::{
    ConnectionRefused, ConnectionRequest, DestinationReferenceNumber, DrnLabel, Message,
    RefusalCause, SourceReferenceNumber,
};

/// Number of bits of a reference number (Q.713, section 3.2).
const REFERENCE_BITS: u32 = 24;

/// Configuration of a [`ConnectionTable`].
#[derive(Clone, Debug)]
pub struct ConnectionTableConfig {
    /// Configuration of each connection.
    pub connection: ConnectionConfig,
    /// Maximum number of connections, 65,536 by default.
    pub max_connections: usize,
    /// Time in which a released reference number is not assigned again, 60 s by default (Q.714, section 3.3.2). At most
    /// as many as there may be connections are kept back.
    pub freeze: Duration,
    /// Label of the process in its reference numbers, by which a gateway finds it in load sharing.
    pub label: Option<DrnLabel>,
}

impl Default for ConnectionTableConfig {
    fn default() -> Self {
        Self {
            connection: ConnectionConfig::default(),
            max_connections: 65_536,
            freeze: Duration::from_secs(60),
            label: None,
        }
    }
}

/// Request that is not possible. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectionTableError {
    /// No more connections are possible, or no reference number is free.
    #[error("{0} connections exist, no further one is possible: raise max_connections")]
    Full(usize),
    /// The connection refused the request.
    #[error(transparent)]
    Request(#[from] ConnectionRequestError),
}

/// Indication to the user of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectionTableIndication {
    /// N-CONNECT indication: a CORE was received, the user accepts or refuses the connection.
    Requested(Box<ConnectionRequest>),
    /// Indication of a connection.
    Connection(ConnectionIndication),
}

#[derive(Debug)]
struct ConnectionEntry<A> {
    connection: Connection,
    association: A,
    /// Other connection section of a relayed connection.
    coupling: Option<Coupling>,
}

/// Connections of a process, found by the destination reference number of messages. `A` is the caller's key of an
/// association.
///
/// After each input drain [`poll_transmit`](Self::poll_transmit) and [`poll_indication`](Self::poll_indication), and call
/// [`handle_timeout`](Self::handle_timeout) at [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct ConnectionTable<A> {
    config: ConnectionTableConfig,
    connections: BTreeMap<u32, ConnectionEntry<A>>,
    deadlines: Deadlines<u32>,
    /// Released reference numbers, by the time at which they may be assigned again.
    frozen: VecDeque<(Time, u32)>,
    frozen_numbers: BTreeSet<u32>,
    /// Number without the label of the last reference number.
    last: u32,
    transmits: VecDeque<(A, Message)>,
    indications: VecDeque<(SourceReferenceNumber, ConnectionTableIndication)>,
    /// Results that concern coupled sections: the numbers from and to.
    pub(super) forwards: VecDeque<(u32, u32, Forward)>,
}

impl<A: Clone + PartialEq + Debug> ConnectionTable<A> {
    /// Table without connections.
    pub const fn new(config: ConnectionTableConfig) -> Self {
        Self {
            config,
            connections: BTreeMap::new(),
            deadlines: Deadlines::new(),
            frozen: VecDeque::new(),
            frozen_numbers: BTreeSet::new(),
            last: 0,
            transmits: VecDeque::new(),
            indications: VecDeque::new(),
            forwards: VecDeque::new(),
        }
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns a connection, to read its state.
    pub fn get(&self, reference: SourceReferenceNumber) -> Option<&Connection> {
        let entry = self.connections.get(&reference.0)?;
        Some(&entry.connection)
    }

    /// Requests a connection over an association; the request gets the assigned reference number.
    ///
    /// # Errors
    /// [`ConnectionTableError`] if there is no room, or the request is invalid.
    pub fn request(
        &mut self,
        now: Time,
        association: A,
        request: impl FnOnce(SourceReferenceNumber) -> ConnectRequest,
    ) -> Result<SourceReferenceNumber, ConnectionTableError> {
        let reference = self.assign(now)?;
        let config = self.config.connection.clone();
        let connection = Connection::request(now, config, request(reference))?;
        self.insert(reference, connection, association);
        Ok(reference)
    }

    /// Returns whether a connection exists and is coupled with another one.
    pub(super) fn is_coupled(&self, number: u32, other: u32) -> bool {
        let coupling = self
            .connections
            .get(&number)
            .and_then(|entry| entry.coupling);
        coupling.is_some_and(|coupling| coupling.other.0 == other)
    }

    /// Makes a request of the user on a connection, such as [`Connection::accept`] or [`Connection::send`]. Returns `None` if
    /// there is no such connection.
    pub fn change<R>(
        &mut self,
        now: Time,
        reference: SourceReferenceNumber,
        change: impl FnOnce(&mut Connection) -> R,
    ) -> Option<R> {
        let result = self.apply(now, reference.0, change);
        self.forward(now);
        result
    }

    /// Changes a connection. What it has for a coupled one is left to [`forward`](Self::forward).
    pub(super) fn apply<R>(
        &mut self,
        now: Time,
        number: u32,
        change: impl FnOnce(&mut Connection) -> R,
    ) -> Option<R> {
        let entry = self.connections.get_mut(&number)?;
        let previous = entry.connection.poll_timeout();
        let result = change(&mut entry.connection);
        self.collect(now, number, previous);
        Some(result)
    }

    /// Couples two connection sections.
    pub(super) fn couple(&mut self, one: SourceReferenceNumber, two: SourceReferenceNumber) {
        for (number, other) in [(one, two), (two, one)] {
            if let Some(entry) = self.connections.get_mut(&number.0) {
                entry.coupling = Some(Coupling {
                    other,
                    is_congested: false,
                });
            }
        }
    }

    /// Handles a connection-oriented message of an association. A CORE begins a connection that the user accepts or refuses,
    /// and is refused without room. A message without a connection is answered as [`answer_unassigned`] has it.
    pub fn handle_message(&mut self, now: Time, association: &A, message: &Message) {
        if let Message::ConnectionRequest(request) = message {
            if let Some(reference) = self.admit(now, association, request) {
                let indication = ConnectionTableIndication::Requested(Box::new(request.clone()));
                self.indications.push_back((reference, indication));
            }
            return;
        }
        let Some(DestinationReferenceNumber(number)) = message.destination_reference() else {
            return;
        };
        let reference = SourceReferenceNumber(number);
        let handled = self.change(now, reference, |connection| {
            connection.handle_message(now, message);
        });
        if handled.is_none() {
            let answer = answer_unassigned(message);
            let answer = answer.map(|answer| (association.clone(), answer));
            self.transmits.extend(answer);
        }
    }

    /// Adds the connection of a CORE. Without room it is refused, and `None` returned.
    pub(super) fn admit(
        &mut self,
        now: Time,
        association: &A,
        request: &ConnectionRequest,
    ) -> Option<SourceReferenceNumber> {
        let reference = self.assign(now).ok();
        let connection = reference.and_then(|reference| {
            let config = self.config.connection.clone();
            let connection = Connection::incoming(config, reference, request).ok()?;
            Some((reference, connection))
        });
        let Some((reference, connection)) = connection else {
            let refusal = ConnectionRefused {
                routing_context: request.routing_context,
                destination_reference: DestinationReferenceNumber(request.source_reference.0),
                cause: RefusalCause::QOS_UNAVAILABLE_TRANSIENT,
                source: None,
                destination: None,
                importance: None,
                data: None,
            };
            let refusal = Message::ConnectionRefused(refusal);
            self.transmits.push_back((association.clone(), refusal));
            return None;
        };
        self.insert(reference, connection, association.clone());
        Some(reference)
    }

    /// Handles the loss of an association: its connections end at this end.
    pub fn handle_association_loss(&mut self, now: Time, association: &A) {
        let lost = self.connections.iter();
        let lost = lost.filter(|(_, entry)| entry.association == *association);
        let lost: Vec<_> = lost.map(|(number, _)| *number).collect();
        for number in lost {
            let reference = SourceReferenceNumber(number);
            self.change(now, reference, Connection::handle_association_loss);
        }
    }

    /// Handles the timers that have expired.
    pub fn handle_timeout(&mut self, now: Time) {
        for number in self.deadlines.due(now) {
            let reference = SourceReferenceNumber(number);
            self.change(now, reference, |connection| connection.handle_timeout(now));
        }
    }

    /// Returns the time of the next timeout.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// Returns the next message and its association.
    pub fn poll_transmit(&mut self) -> Option<(A, Message)> {
        self.transmits.pop_front()
    }

    /// Returns the next indication of a connection.
    pub fn poll_indication(
        &mut self,
    ) -> Option<(SourceReferenceNumber, ConnectionTableIndication)> {
        self.indications.pop_front()
    }

    fn insert(&mut self, reference: SourceReferenceNumber, connection: Connection, association: A) {
        let previous = connection.poll_timeout();
        self.deadlines.reschedule(reference.0, None, previous);
        let entry = ConnectionEntry {
            connection,
            association,
            coupling: None,
        };
        self.connections.insert(reference.0, entry);
        // The number is not frozen, and there are no outputs that depend on the time.
        self.collect(Time::ZERO, reference.0, previous);
    }

    /// Takes the outputs of a connection, and removes it if it is released.
    fn collect(&mut self, now: Time, number: u32, previous: Option<Time>) {
        let Some(entry) = self.connections.get_mut(&number) else {
            return;
        };
        let association = entry.association.clone();
        while let Some(message) = entry.connection.poll_transmit() {
            self.transmits.push_back((association.clone(), message));
        }
        while let Some(indication) = entry.connection.poll_indication() {
            if let Some(coupling) = entry.coupling {
                let forward = Forward::Indication(indication);
                self.forwards.push_back((number, coupling.other.0, forward));
                continue;
            }
            let indication = ConnectionTableIndication::Connection(indication);
            let reference = SourceReferenceNumber(number);
            self.indications.push_back((reference, indication));
        }
        let is_congested = entry.connection.is_congested();
        if let Some(coupling) = &mut entry.coupling
            && coupling.is_congested != is_congested
        {
            coupling.is_congested = is_congested;
            let forward = Forward::Congestion(is_congested);
            self.forwards.push_back((number, coupling.other.0, forward));
        }
        let is_released = entry.connection.state() == ConnectionState::Released;
        let next = entry.connection.poll_timeout().filter(|_| !is_released);
        self.deadlines.reschedule(number, previous, next);
        if is_released {
            self.connections.remove(&number);
            if self.frozen_numbers.insert(number) {
                self.frozen.push_back((now + self.config.freeze, number));
            }
        }
    }

    /// Returns a reference number that is not in use and not frozen. The search ends, because the numbers exceed those.
    fn assign(&mut self, now: Time) -> Result<SourceReferenceNumber, ConnectionTableError> {
        let limit = self.config.max_connections;
        let (width, end, label) = self.config.label.map_or((0, 0, 0), |label| {
            let position = label.position;
            let width = u32::from(position.start - position.end) + 1;
            (width, u32::from(position.end), u32::from(label.label))
        });
        let count = 1_usize << (REFERENCE_BITS - width);
        while let Some((until, number)) = self.frozen.front().copied() {
            if until > now && self.frozen.len() <= limit.min(count / 2) {
                break;
            }
            self.frozen.pop_front();
            self.frozen_numbers.remove(&number);
        }
        let used = self.connections.len();
        if used >= limit || used + self.frozen.len() + 1 >= count {
            return Err(ConnectionTableError::Full(used));
        }
        loop {
            self.last = (self.last + 1) % (count as u32);
            let (low, high) = (self.last & ((1 << end) - 1), self.last >> end);
            let number = high << (end + width) | label << end | low;
            let taken = self.connections.contains_key(&number);
            if number != 0 && !taken && !self.frozen_numbers.contains(&number) {
                return Ok(SourceReferenceNumber(number));
            }
        }
    }
}
