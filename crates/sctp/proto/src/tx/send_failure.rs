//! SEND FAILURE for a message that is not known to be delivered (RFC 9260, section 11.2): its bytes in the
//! send buffer, and the ranges between them that were delivered.

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{Ppid, StreamId};

use super::message::PendingMessage;
use super::outstanding::Chunk;
use crate::event::{SendFailure, UnsentMessage};

/// Builder of a SEND FAILURE, from the bytes of the message in their order.
#[derive(Debug)]
pub(super) struct FailureBuilder {
    failure: SendFailure,
    /// Offset of the next byte from the first one that was not delivered.
    len: usize,
}

impl FailureBuilder {
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

    /// Builder for the message of a chunk.
    pub(super) fn for_chunk(chunk: &Chunk) -> Self {
        Self::new(chunk.context, chunk.stream, chunk.ppid, true)
    }

    /// Builder for a message, or the rest of one, in the queue.
    pub(super) fn for_pending(pending: &PendingMessage) -> Self {
        let options = &pending.options;
        Self::new(options.context, options.stream, options.ppid, pending.begun)
    }

    /// Appends bytes that were not delivered.
    pub(super) fn append_unsent(&mut self, payload: Bytes) {
        if !payload.is_empty() {
            self.len += payload.len();
            self.failure.unsent.0.push(payload);
        }
    }

    /// Appends bytes that were delivered, which are ignored at the beginning of a message, like those that were
    /// acknowledged cumulatively.
    pub(super) fn append_delivered(&mut self, bytes: usize) {
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

    pub(super) fn build(self) -> SendFailure {
        self.failure
    }
}
