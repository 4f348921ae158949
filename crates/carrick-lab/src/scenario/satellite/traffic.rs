//! Programs of the paper: a sender of numbered messages, and a receiver that records their arrival.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, Event, PathId, SendError, SendOptions, Time,
    TraceEvent, TraceRecord,
};

use super::setup::{MESSAGE, PORT, RECEIVER, interval};
use crate::live::{Log, Transmission};
use crate::numbered::{ReceiverLog, message};
use crate::sctp_host::Application;

/// Idle time between the verification of all paths and the first message.
const SETTLING: Duration = Duration::from_secs(1);

/// Load of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// This number of messages at the paper's rate.
    Constant(u64),
    /// As many messages as the association accepts.
    Saturating,
}

/// Sender: sets up the association on W'.
pub(super) struct Source {
    load: Load,
    config: Arc<AssociationConfig>,
    timer: Option<Time>,
    id: Option<AssociationId>,
    /// The association is established, all its paths are verified, and W' is primary.
    ready: bool,
    /// SEND of the last message waits for room in the send buffer.
    blocked: bool,
    /// Time at which SEND of each message began.
    pub(super) sends: Vec<Time>,
    /// Transmissions in order.
    pub(super) transmissions: Vec<Transmission>,
    /// Expirations of T3-rtx.
    pub(super) timeouts: u64,
    /// Path W', once it is known.
    far: Option<PathId>,
    /// Shortest round-trip sample of W'.
    pub(super) shortest_round_trip: Option<Duration>,
    /// Failure of the program.
    pub(super) failure: Option<String>,
}

impl Source {
    pub(super) fn new(load: Load, config: AssociationConfig) -> Self {
        Self {
            load,
            config: Arc::new(config),
            timer: Some(Time::ZERO),
            id: None,
            ready: false,
            blocked: false,
            sends: Vec::new(),
            transmissions: Vec::new(),
            timeouts: 0,
            far: None,
            shortest_round_trip: None,
            failure: None,
        }
    }

    fn connect(&mut self, now: Time, endpoint: &mut Endpoint) {
        match endpoint.connect(now, &RECEIVER, PORT, None, self.config.clone()) {
            Ok(id) => self.id = Some(id),
            Err(error) => self.fail(format!("connect: {error}")),
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
        if self.ready || paths.len() < RECEIVER.len() || paths.iter().any(|(.., ok)| !ok) {
            return;
        }
        // If an INIT was lost, the association may have been set up over W''.
        let far = paths.iter().find(|(_, remote, _)| *remote == RECEIVER[0]);
        let Some((path, ..)) = far else {
            self.fail("the peer did not advertise its address on W'".into());
            return;
        };
        if let Err(error) = endpoint.set_primary(now, id, *path) {
            self.fail(format!("set primary: {error}"));
            return;
        }
        self.far = Some(*path);
        self.ready = true;
        self.timer = Some(now + SETTLING);
    }

    /// Calls SEND for the message that waits for room, otherwise for the next one. Returns whether
    /// SEND has returned.
    fn send(&mut self, now: Time, endpoint: &mut Endpoint) -> bool {
        let Some(id) = self.id else { return false };
        if !std::mem::take(&mut self.blocked) {
            self.sends.push(now);
        }
        let number = self.sends.len() as u64 - 1;
        let options = SendOptions {
            context: number,
            ..SendOptions::default()
        };
        match endpoint.send(now, id, options, message(number, MESSAGE)) {
            Ok(()) => true,
            Err(SendError::BufferFull) => {
                self.blocked = true;
                false
            }
            Err(error) => {
                self.fail(format!("send: {error}"));
                false
            }
        }
    }

    /// Sends what the load demands until SEND waits. The next message follows an interval after SEND
    /// has returned: the program catches up on no backlog.
    fn proceed(&mut self, now: Time, endpoint: &mut Endpoint) {
        match self.load {
            Load::Saturating => while self.send(now, endpoint) {},
            Load::Constant(count) => {
                let returned = self.send(now, endpoint);
                if returned && (self.sends.len() as u64) < count {
                    self.timer = Some(now + interval());
                }
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
            self.connect(now, endpoint);
        } else {
            self.proceed(now, endpoint);
        }
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        match event {
            Event::Established { .. } | Event::PathConfirmed(_) => self.prepare(now, endpoint, id),
            Event::SendBufferFree if self.blocked => self.proceed(now, endpoint),
            Event::Closed(reason) => self.fail(format!("the association ended: {reason:?}")),
            Event::PrimaryChanged(path) if self.ready && Some(path) != self.far => {
                self.fail("W' was replaced as primary path".into());
            }
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
            TraceEvent::Timeout { .. } => self.timeouts += 1,
            TraceEvent::RoundTrip { path, nanos } if Some(path) == self.far => {
                let sample = Duration::from_nanos(nanos);
                let shortest = self.shortest_round_trip.unwrap_or(sample);
                self.shortest_round_trip = Some(shortest.min(sample));
            }
            _ => {}
        }
    }
}

/// Receiver: records arrivals and deliveries.
#[derive(Default)]
pub(super) struct Sink {
    pub(super) received: ReceiverLog,
}

impl Application for Sink {
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
