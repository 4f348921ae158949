//! Programs: a sender that fills the window or sends at a constant rate, and a receiver that
//! records deliveries.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use carrick_proto::{
    AddressEvent, AssociationConfig, AssociationId, CloseReason, Endpoint, Event, PathId,
    SendError, SendOptions, Time, TraceEvent, TraceRecord,
};

use super::setup::{MESSAGE, PORT, SETTLING, START, STEADY, STEADY_INTERVAL, STEADY_MESSAGE};
use crate::sctp_host::Application;

/// Load of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// A transfer of this number of messages, as fast as the association accepts them.
    Transfer(u64),
    /// Messages at a constant interval for a limited time.
    Steady,
}

impl Load {
    fn message(self) -> usize {
        match self {
            Self::Transfer(_) => MESSAGE,
            Self::Steady => STEADY_MESSAGE,
        }
    }

    /// Returns the name of the flow.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Transfer(_) => "transfer",
            Self::Steady => "messages",
        }
    }

    /// Returns whether there is always another message.
    fn is_transfer(self) -> bool {
        matches!(self, Self::Transfer(_))
    }

    /// Returns the number of messages.
    pub(super) fn messages(self) -> u64 {
        match self {
            Self::Transfer(messages) => messages,
            Self::Steady => (STEADY.as_nanos() / STEADY_INTERVAL.as_nanos()) as u64,
        }
    }
}

/// Sender: sets up the association with the first address of the peer.
pub(super) struct Source {
    load: Load,
    peer: IpAddr,
    /// Number of the peer's addresses that must be verified first.
    paths: usize,
    config: Arc<AssociationConfig>,
    timer: Option<Time>,
    id: Option<AssociationId>,
    ready: bool,
    sent: u64,
    /// Time of the first message.
    pub(super) begin: Option<Time>,
    /// Expirations of T3-rtx.
    pub(super) timeouts: u64,
    /// Premature end of the association.
    pub(super) closed: Option<(Time, CloseReason)>,
    /// Failure of the program.
    pub(super) failure: Option<String>,
}

impl Source {
    pub(super) fn new(load: Load, peer: IpAddr, paths: usize, config: AssociationConfig) -> Self {
        Self {
            load,
            peer,
            paths,
            config: Arc::new(config),
            timer: Some(Time::ZERO + START),
            id: None,
            ready: false,
            sent: 0,
            begin: None,
            timeouts: 0,
            closed: None,
            failure: None,
        }
    }

    fn fail(&mut self, what: String) {
        self.timer = None;
        self.failure.get_or_insert(what);
    }

    /// Starts the flow once every path is verified.
    fn prepare(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        let paths: Vec<(PathId, IpAddr, bool)> = endpoint
            .paths(id)
            .map(|p| (p.id, p.remote, p.status.confirmed))
            .collect();
        if self.ready || paths.len() < self.paths || paths.iter().any(|(.., ok)| !ok) {
            return;
        }
        let Some((path, ..)) = paths.iter().find(|(_, remote, _)| *remote == self.peer) else {
            self.fail("the peer did not advertise its first address".into());
            return;
        };
        if let Err(error) = endpoint.set_primary(now, id, *path) {
            self.fail(format!("set primary: {error}"));
            return;
        }
        self.ready = true;
        self.timer = Some(now + SETTLING);
    }

    /// Sends the next message. Returns false if the association accepted none, or there is none.
    fn send(&mut self, now: Time, endpoint: &mut Endpoint) -> bool {
        let Some(id) = self.id.filter(|_| self.closed.is_none()) else {
            return false;
        };
        if self.sent == self.load.messages() {
            return false;
        }
        let options = SendOptions {
            context: self.sent,
            ..SendOptions::default()
        };
        match endpoint.send(now, id, options, message(self.sent, self.load.message())) {
            Ok(()) => {
                self.begin.get_or_insert(now);
                self.sent += 1;
                true
            }
            Err(SendError::BufferFull) if self.load.is_transfer() => false,
            Err(error) => {
                self.fail(format!("send: {error}"));
                false
            }
        }
    }
}

impl Application for Source {
    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.timer = None;
        if self.id.is_none() {
            match endpoint.connect(now, &[self.peer], PORT, None, self.config.clone()) {
                Ok(id) => self.id = Some(id),
                Err(error) => self.fail(format!("connect: {error}")),
            }
            return;
        }
        if self.load.is_transfer() {
            while self.send(now, endpoint) {}
        } else if self.send(now, endpoint) {
            self.timer = Some(now + STEADY_INTERVAL);
        }
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        match event {
            Event::Established { .. } | Event::PathConfirmed(_) => self.prepare(now, endpoint, id),
            Event::SendBufferFree if self.ready && self.load.is_transfer() => {
                while self.send(now, endpoint) {}
            }
            Event::Closed(reason) => {
                self.timer = None;
                self.closed.get_or_insert((now, reason));
            }
            _ => {}
        }
    }

    fn wants_trace(&self) -> bool {
        true
    }

    fn on_trace(&mut self, _: AssociationId, record: &TraceRecord) {
        if let TraceEvent::Timeout { .. } = record.event {
            self.timeouts += 1;
        }
    }
}

/// Returns a message that begins with its number.
fn message(number: u64, len: usize) -> Bytes {
    let mut bytes = BytesMut::zeroed(len);
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.freeze()
}

/// Receiver: records deliveries, and requests its newest address as primary.
#[derive(Default)]
pub(super) struct Sink {
    /// Time of the delivery of each message; messages are ordered.
    pub(super) deliveries: Vec<Time>,
    /// Error of an unordered message.
    pub(super) failure: Option<String>,
    /// Time at which the peer acknowledged each address of this host.
    pub(super) known: Vec<Time>,
    /// Premature end of the association.
    pub(super) closed: Option<(Time, CloseReason)>,
}

impl Application for Sink {
    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        while let Some(message) = endpoint.receive(id) {
            let bytes = message.payload.into_bytes();
            let number = bytes
                .first_chunk()
                .map(|number| u64::from_be_bytes(*number));
            if number != Some(self.deliveries.len() as u64) {
                let expected = self.deliveries.len();
                self.failure = Some(format!("{number:?} received instead of message {expected}"));
            }
            self.deliveries.push(now);
        }
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        match event {
            Event::Address(AddressEvent::LocalAdded(address)) => {
                self.known.push(now);
                // A request only; without it the old address would be used as long as it works.
                if let Err(error) = endpoint.set_peer_primary(now, id, address) {
                    self.failure
                        .get_or_insert(format!("set peer primary: {error}"));
                }
            }
            Event::Closed(reason) => {
                self.closed.get_or_insert((now, reason));
            }
            _ => {}
        }
    }
}

/// Returns the longest time without a delivery after `from` and its start; it ends at `end` if no
/// delivery follows.
pub(super) fn silence(deliveries: &[Time], from: Time, end: Time) -> (Duration, Time) {
    let last_before = deliveries.iter().rev().find(|time| **time <= from);
    let later = deliveries.iter().filter(|time| **time > from);
    let mut longest = (Duration::ZERO, from);
    let mut last = last_before.copied().unwrap_or(from);
    for &time in later.chain([&end]) {
        if time >= last && time - last > longest.0 {
            longest = (time - last, last);
        }
        last = time;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_from_the_last_delivery() {
        let ms = Time::from_millis;
        let deliveries = [10, 20, 300, 310, 500, 510].map(ms);
        let of = |from, end| silence(&deliveries, ms(from), ms(end));
        assert_eq!(of(25, 510), (Duration::from_millis(280), ms(20)));
        assert_eq!(of(305, 510), (Duration::from_millis(190), ms(310)));
        assert_eq!(
            of(305, 2000),
            (Duration::from_millis(1490), ms(510)),
            "no delivery follows"
        );
        assert_eq!(silence(&[], ms(5), ms(9)).0, Duration::from_millis(4));
    }
}
