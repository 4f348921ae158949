//! Programs of the paper: a source of numbered messages at a constant rate, and a destination that
//! records their arrival.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, Event, PathId, SendOptions, Time, TraceEvent,
    TraceRecord,
};

use super::setup::{INTERVAL, MESSAGE, PORT, START, address};
use crate::live::{Log, Transmission};
use crate::numbered::{ReceiverLog, message};
use crate::sctp_host::Application;

/// Path that fails.
pub(super) const PRIMARY: PathId = PathId(0);

/// Sender, which starts when the association is established; the destination sets it up, as in the
/// paper.
pub(super) struct Source {
    /// Number of messages at a time.
    burst: u32,
    end: Time,
    timer: Option<Time>,
    id: Option<AssociationId>,
    ready: bool,
    /// Time of the SEND of each message.
    pub(super) sends: Vec<Time>,
    /// Transmissions in order.
    pub(super) transmissions: Vec<Transmission>,
    /// Times at which data left the primary path.
    pub(super) left: Vec<Time>,
    /// Times at which data returned to the primary path.
    pub(super) returned: Vec<Time>,
    /// Expirations of T3-rtx.
    pub(super) timeouts: Vec<Time>,
    /// Failure of the program.
    pub(super) failure: Option<String>,
}

impl Source {
    /// Returns a source of `burst` messages at a time, for this duration.
    pub(super) fn new(burst: u32, length: Duration) -> Self {
        Self {
            burst,
            end: Time::ZERO + START + length,
            timer: Some(Time::ZERO + START),
            id: None,
            ready: false,
            sends: Vec::new(),
            transmissions: Vec::new(),
            left: Vec::new(),
            returned: Vec::new(),
            timeouts: Vec::new(),
            failure: None,
        }
    }

    fn fail(&mut self, what: String) {
        self.timer = None;
        self.failure.get_or_insert(what);
    }

    fn send(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        for _ in 0..self.burst {
            let number = self.sends.len() as u64;
            let options = SendOptions {
                context: number,
                ..SendOptions::default()
            };
            match endpoint.send(now, id, options, message(number, MESSAGE)) {
                Ok(()) => self.sends.push(now),
                Err(error) => return self.fail(format!("send: {error}")),
            }
        }
        let next = now + INTERVAL * self.burst;
        self.timer = (next < self.end).then_some(next);
    }
}

impl Application for Source {
    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        match self.id {
            Some(id) if self.ready => self.send(now, endpoint, id),
            _ => self.fail("the association was not set up in time".into()),
        }
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        match event {
            Event::Established { .. } | Event::PathConfirmed(_) if !self.ready => {
                self.id = Some(id);
                self.ready = endpoint.paths(id).filter(|p| p.status.confirmed).count() == 2;
                // If an INIT was lost, the association may have been set up over the other path.
                if self.ready
                    && let Err(error) = endpoint.set_primary(now, id, PRIMARY)
                {
                    self.fail(format!("set primary: {error}"));
                }
            }
            Event::PrimaryChanged(path) if self.sends.is_empty() => {
                debug_assert!(path.0 < 2, "two paths");
            }
            Event::PrimaryChanged(PRIMARY) => self.returned.push(now),
            Event::PrimaryChanged(_) => self.left.push(now),
            Event::Closed(reason) => self.fail(format!("the association ended: {reason:?}")),
            _ => {}
        }
    }

    fn wants_trace(&self) -> bool {
        true
    }

    fn on_trace(&mut self, _: AssociationId, record: &TraceRecord) {
        match record.event {
            TraceEvent::ChunkSent {
                tsn, path, context, ..
            } => self.transmissions.push(Transmission {
                message: context,
                tsn,
                time: record.time,
                path,
            }),
            TraceEvent::Timeout { .. } => self.timeouts.push(record.time),
            _ => {}
        }
    }
}

/// Receiver: sets up the association, and records arrivals and deliveries.
pub(super) struct Sink {
    config: Arc<AssociationConfig>,
    timer: Option<Time>,
    pub(super) received: ReceiverLog,
    /// Error of the connection set-up.
    failure: Option<String>,
}

impl Sink {
    pub(super) fn new(config: AssociationConfig) -> Self {
        Self {
            config: Arc::new(config),
            timer: Some(Time::ZERO),
            received: ReceiverLog::default(),
            failure: None,
        }
    }

    /// Returns the failure, if any.
    pub(super) fn failure(&self) -> Option<&String> {
        self.failure.as_ref().or(self.received.failure.as_ref())
    }
}

impl Application for Sink {
    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.timer = None;
        let peers: [IpAddr; 2] = [address(0, 0), address(0, 1)];
        if let Err(error) = endpoint.connect(now, &peers, PORT, None, self.config.clone()) {
            self.failure = Some(format!("connect: {error}"));
        }
    }

    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        self.received.read(now, endpoint, id, MESSAGE);
    }

    fn wants_trace(&self) -> bool {
        true
    }

    fn on_trace(&mut self, _: AssociationId, record: &TraceRecord) {
        self.received.trace(record);
    }
}

/// Returns the records of both hosts.
pub(super) fn log<'a>(source: &'a Source, sink: &'a Sink) -> Log<'a> {
    Log {
        sends: &source.sends,
        transmissions: &source.transmissions,
        arrivals: &sink.received.arrivals,
        deliveries: &sink.received.deliveries,
    }
}
