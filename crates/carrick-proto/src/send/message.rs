//! What the user says about a message, and the message while it waits to be sent.

use core::time::Duration;

use bytes::Bytes;
use carrick_wire::{Fsn, Mid, Ppid, StreamId};

use crate::path::PathId;
use crate::time::Time;

/// The optional attributes of SEND (RFC 9260 section 11.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendOptions {
    /// The stream.
    pub stream: StreamId,
    /// The payload protocol identifier, carried as it is.
    pub ppid: Ppid,
    /// Deliver as soon as it arrives, without regard to the stream's order.
    pub unordered: bool,
    /// Ask the peer for a SACK without delay (the I bit).
    pub immediate: bool,
    /// Don't hold it back to bundle it with others.
    pub no_delay: bool,
    /// Give the message up when it could not be sent within this time.
    pub lifetime: Option<Duration>,
    /// Send it to this path instead of the primary, while that path is usable.
    pub path: Option<PathId>,
    /// Comes back in [`crate::SendFailure`] and in the trace.
    pub context: u64,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            stream: StreamId(0),
            ppid: Ppid(0),
            unordered: false,
            immediate: false,
            no_delay: false,
            lifetime: None,
            path: None,
            context: 0,
        }
    }
}

impl SendOptions {
    /// An ordered message on a stream.
    pub fn on_stream(stream: u16) -> Self {
        Self {
            stream: StreamId(stream),
            ..Self::default()
        }
    }
}

/// A message, or the rest of one, that has not been sent.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) options: SendOptions,
    /// What is not sent yet.
    pub(crate) rest: Bytes,
    /// Its number in the stream, given when the first fragment leaves.
    pub(crate) mid: Mid,
    /// The number of the next fragment.
    pub(crate) fsn: Fsn,
    /// At least one fragment has been sent.
    pub(crate) begun: bool,
    /// Counts all messages of the association.
    pub(crate) arrival: u64,
    pub(crate) expires: Option<Time>,
}

impl Pending {
    pub(crate) fn new(options: SendOptions, data: Bytes, now: Time) -> Self {
        Self {
            options,
            rest: data,
            mid: Mid::new(0),
            fsn: Fsn::new(0),
            begun: false,
            arrival: 0,
            expires: options.lifetime.map(|l| now + l),
        }
    }

    /// Its life ended before any of it was sent (section 11.1.5).
    pub(crate) fn is_expired(&self, now: Time) -> bool {
        !self.begun && self.expires.is_some_and(|at| at <= now)
    }
}
