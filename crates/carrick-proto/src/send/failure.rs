//! What is told of a message that was not delivered for certain (RFC 9260 section 11.2, SEND FAILURE):
//! its bytes that are still here, and where those that the peer has for good are missing in between.

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{Ppid, StreamId};

use super::message::Pending;
use super::outstanding::Chunk;
use crate::event::{SendFailure, UnsentMessage};

/// A failure whose bytes are being collected, in the order of the message.
#[derive(Debug)]
pub(super) struct Failing {
    failure: SendFailure,
    /// Bytes from the first one that came back to where the next one belongs.
    len: usize,
}

impl Failing {
    fn new(context: u64, stream: StreamId, ppid: Ppid, sent: bool) -> Self {
        Self {
            failure: SendFailure {
                context,
                stream,
                ppid,
                sent,
                unsent: UnsentMessage::default(),
                delivered: Vec::new(),
                expired: false,
                abandoned: None,
            },
            len: 0,
        }
    }

    /// A message of which this chunk is a part.
    pub(super) fn of_chunk(chunk: &Chunk) -> Self {
        Self::new(chunk.context, chunk.stream, chunk.ppid, true)
    }

    /// A message, or the rest of one, in the queue.
    pub(super) fn of_pending(pending: &Pending) -> Self {
        let options = &pending.options;
        Self::new(options.context, options.stream, options.ppid, pending.begun)
    }

    /// The next bytes are here.
    pub(super) fn give_back(&mut self, payload: Bytes) {
        if !payload.is_empty() {
            self.len += payload.len();
            self.failure.unsent.0.push(payload);
        }
    }

    /// The peer has so many next bytes for good. In front of all others they are like those that
    /// were acknowledged cumulatively.
    pub(super) fn pass(&mut self, bytes: usize) {
        if self.len == 0 || bytes == 0 {
            return;
        }
        let end = self.len + bytes;
        match self.failure.delivered.last_mut() {
            Some(range) if range.end == self.len => range.end = end,
            _ => self.failure.delivered.push(self.len..end),
        }
        self.len = end;
    }

    pub(super) fn told(self) -> SendFailure {
        self.failure
    }
}
