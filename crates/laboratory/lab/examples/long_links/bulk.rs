//! Bulk transfer over an association: messages as fast as the send buffer accepts them, and their count. The tests
//! include this file, too.

use std::net::IpAddr;

use bytes::Bytes;
use carrick_hosts::sctp::Application;
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, Event, SendError, SendOptions, Time,
};

/// Sends copies of a message on stream 0 until the send buffer is full.
///
/// # Panics
/// If the association does not accept messages for another reason.
pub(crate) fn fill(now: Time, endpoint: &mut Endpoint, id: AssociationId, message: &Bytes) {
    loop {
        match endpoint.send(now, id, SendOptions::default(), message.clone()) {
            Ok(()) => {}
            Err(SendError::BufferFull) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sets up an association at the start and sends messages without end.
#[derive(Debug)]
pub(crate) struct BulkSource {
    peer: (IpAddr, u16),
    config: AssociationConfig,
    /// Time of the set-up, until then.
    start: Option<Time>,
    message: Bytes,
}

impl BulkSource {
    /// Returns a source of messages of `size` bytes to an address and SCTP port.
    pub(crate) fn new(peer: (IpAddr, u16), config: AssociationConfig, size: usize) -> Self {
        Self {
            peer,
            config,
            start: Some(Time::ZERO),
            message: Bytes::from(vec![0; size]),
        }
    }
}

impl Application for BulkSource {
    fn next_timer(&self) -> Option<Time> {
        self.start
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.start = None;
        let (address, port) = self.peer;
        endpoint
            .connect(now, &[address], port, None, self.config.clone())
            .expect("a valid address");
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        if matches!(event, Event::Established { .. } | Event::SendBufferFree) {
            fill(now, endpoint, id, &self.message);
        }
    }
}

/// Reads all messages.
#[derive(Debug, Default)]
pub(crate) struct BulkSink {
    /// Number of messages read.
    pub(crate) messages: u64,
    /// Number of their bytes.
    pub(crate) bytes: u64,
}

impl Application for BulkSink {
    fn on_readable(&mut self, _: Time, endpoint: &mut Endpoint, id: AssociationId) {
        while let Some(message) = endpoint.receive(id) {
            self.messages += 1;
            self.bytes += message.payload.len() as u64;
        }
    }
}
