//! What the user says about a message, and the message while it waits to be sent.

use core::time::Duration;

use bytes::Bytes;
use carrick_wire::{Fsn, Mid, Ppid, StreamId};

use crate::path::PathId;
use crate::reliability::Reliability;

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
    /// Give the message up when no part of it could be sent within this time, whatever
    /// `reliability` says about one that was begun.
    pub lifetime: Option<Duration>,
    /// When the message is given up although it was sent.
    pub reliability: Reliability,
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
            reliability: Reliability::Full,
            path: None,
            context: 0,
        }
    }
}

impl SendOptions {
    /// The message may be given up before it was begun, or later.
    pub(crate) fn may_be_abandoned(&self) -> bool {
        self.lifetime.is_some() || self.reliability != Reliability::Full
    }

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
    /// Numbers the messages that may be given up, ascending from 1; 0 for all others.
    pub(crate) number: u64,
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
}

impl Pending {
    pub(crate) fn new(number: u64, options: SendOptions, data: Bytes) -> Self {
        Self {
            number,
            options,
            rest: data,
            mid: Mid::new(0),
            fsn: Fsn::new(0),
            begun: false,
            arrival: 0,
        }
    }
}
