//! Programs: a source that always has another message, a sink that reads everything, and a slow
//! reader.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carrick_netsim::Random;
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, Event, SendError, SendOptions, Time,
};

use super::setup::PORT;
use crate::sctp_host::Application;

/// Sender of messages of one size whenever the association accepts one.
pub(super) struct Source {
    peer: IpAddr,
    config: Arc<AssociationConfig>,
    message: Bytes,
    start: Option<Time>,
    /// Remaining number of messages.
    rest: u64,
    /// Failure of the program.
    pub(super) failure: Option<String>,
}

impl Source {
    /// Returns a source of messages of `size` bytes that connects after `start`.
    pub(super) fn new(
        peer: IpAddr,
        config: AssociationConfig,
        size: usize,
        start: Duration,
    ) -> Self {
        Self {
            peer,
            config: Arc::new(config),
            message: vec![0x5a; size].into(),
            start: Some(Time::ZERO + start),
            rest: u64::MAX,
            failure: None,
        }
    }

    /// Limits the number of messages.
    pub(super) fn limited(mut self, messages: u64) -> Self {
        self.rest = messages;
        self
    }

    fn fill(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        while self.rest > 0 {
            match endpoint.send(now, id, SendOptions::default(), self.message.clone()) {
                Ok(()) => self.rest -= 1,
                Err(SendError::BufferFull) => return,
                Err(error) => {
                    self.failure.get_or_insert(format!("send: {error}"));
                    return;
                }
            }
        }
    }
}

impl Application for Source {
    fn next_timer(&self) -> Option<Time> {
        self.start
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.start = None;
        if let Err(error) = endpoint.connect(now, &[self.peer], PORT, None, self.config.clone()) {
            self.failure = Some(format!("connect: {error}"));
        }
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        match event {
            Event::Established { .. } | Event::SendBufferFree => self.fill(now, endpoint, id),
            Event::Closed(reason) => {
                self.failure = Some(format!("the association ended: {reason:?}"));
            }
            _ => {}
        }
    }
}

/// Reading rate of messages.
pub(super) enum Pace {
    /// Immediately.
    Fast,
    /// One message after each exponential interval of this mean.
    Slow(Duration, Box<Random>),
    /// Never.
    Never,
}

/// Receiver that counts the messages read.
pub(super) struct Reader {
    pace: Pace,
    next: Option<Time>,
    id: Option<AssociationId>,
    /// Number of messages read.
    pub(super) messages: u64,
    /// Bytes read.
    pub(super) bytes: u64,
}

impl Reader {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            next: None,
            id: None,
            messages: 0,
            bytes: 0,
        }
    }

    fn read(&mut self, endpoint: &mut Endpoint, id: AssociationId) -> bool {
        let Some(message) = endpoint.receive(id) else {
            return false;
        };
        self.messages += 1;
        self.bytes += message.payload.len() as u64;
        true
    }

    fn wait(&mut self, now: Time) {
        if let Pace::Slow(mean, random) = &mut self.pace {
            self.next = Some(now + random.exponential(*mean).max(Duration::from_micros(1)));
        }
    }
}

impl Application for Reader {
    fn next_timer(&self) -> Option<Time> {
        self.next
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        if let Some(id) = self.id {
            self.read(endpoint, id);
        }
        self.wait(now);
    }

    fn on_event(&mut self, now: Time, _: &mut Endpoint, id: AssociationId, event: Event) {
        if let Event::Established { .. } = event {
            self.id = Some(id);
            self.wait(now);
        }
    }

    fn on_readable(&mut self, _: Time, endpoint: &mut Endpoint, id: AssociationId) {
        if let Pace::Fast = self.pace {
            while self.read(endpoint, id) {}
        }
    }
}
