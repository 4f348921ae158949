//! Options of a message, and the message while it is queued.

use core::time::Duration;

use bytes::Bytes;
use carrick_wire::{Fsn, Mid, Ppid, StreamId};

use crate::path::PathId;
use crate::reliability::Reliability;

/// Optional attributes of SEND (RFC 9260, section 11.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendOptions {
    /// Stream of the message.
    pub stream: StreamId,
    /// Payload protocol identifier, passed on unchanged.
    pub ppid: Ppid,
    /// Delivers the message as soon as it arrives, regardless of the order of the stream (U bit).
    pub unordered: bool,
    /// Requests a SACK without delay (I bit).
    pub immediate: bool,
    /// Disables Nagle's algorithm for the message.
    pub no_delay: bool,
    /// Abandons the message if no part of it is sent within this time; `reliability` is about messages that
    /// have been begun.
    pub lifetime: Option<Duration>,
    /// Condition on which the message is abandoned although it was sent.
    pub reliability: Reliability,
    /// Sends the message on this path instead of the primary one, while the path is usable.
    pub path: Option<PathId>,
    /// Value repeated in [`SendFailure`](crate::SendFailure) and in the trace.
    pub context: u64,
}

portable_struct! {
    SendOptions {
        stream, ppid, unordered, immediate, no_delay, lifetime, reliability, path, context,
    }
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
    /// Returns whether the message may be abandoned, before or after it is begun.
    pub(crate) fn may_be_abandoned(&self) -> bool {
        self.lifetime.is_some() || self.reliability != Reliability::Full
    }

    /// Options of an ordered message on a stream.
    pub fn on_stream(stream: impl Into<StreamId>) -> Self {
        Self {
            stream: stream.into(),
            ..Self::default()
        }
    }

    /// Sets the payload protocol identifier.
    #[must_use]
    pub fn ppid(mut self, ppid: impl Into<Ppid>) -> Self {
        self.ppid = ppid.into();
        self
    }

    /// Delivers the message without regard to the order of its stream (the U bit).
    #[must_use]
    pub fn unordered(mut self) -> Self {
        self.unordered = true;
        self
    }

    /// Requests a SACK without delay (the I bit, RFC 7053).
    #[must_use]
    pub fn immediate(mut self) -> Self {
        self.immediate = true;
        self
    }

    /// Exempts the message from the Nagle algorithm.
    #[must_use]
    pub fn no_delay(mut self) -> Self {
        self.no_delay = true;
        self
    }

    /// Sets the time after which the message is abandoned if no part of it has been sent.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Sets the condition under which the message is abandoned after it was sent (RFC 3758,
    /// RFC 7496).
    #[must_use]
    pub fn reliability(mut self, reliability: Reliability) -> Self {
        self.reliability = reliability;
        self
    }

    /// Sends the message on this path instead of the primary, while the path is usable.
    #[must_use]
    pub fn path(mut self, path: PathId) -> Self {
        self.path = Some(path);
        self
    }

    /// Sets the context that [`SendFailure`](crate::SendFailure) and the trace report.
    #[must_use]
    pub fn context(mut self, context: u64) -> Self {
        self.context = context;
        self
    }
}

/// Message, or rest of one, that is queued.
#[derive(Clone, Debug)]
pub(crate) struct PendingMessage {
    /// Number of a message that may be abandoned, ascending from 1; 0 for all others.
    pub(crate) number: u64,
    pub(crate) options: SendOptions,
    /// Bytes that have no TSN yet.
    pub(crate) rest: Bytes,
    /// Number in the stream, assigned with the first fragment.
    pub(crate) mid: Mid,
    /// Number of the next fragment.
    pub(crate) fsn: Fsn,
    /// At least one fragment has been sent.
    pub(crate) begun: bool,
    /// Number among all messages of the association.
    pub(crate) arrival: u64,
}

portable_struct! { PendingMessage { number, options, rest, mid, fsn, begun, arrival } }

impl PendingMessage {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builders_set_their_fields() {
        let lifetime = Duration::from_secs(1);
        let built = SendOptions::on_stream(3)
            .ppid(46)
            .unordered()
            .immediate()
            .no_delay()
            .lifetime(lifetime)
            .reliability(Reliability::Retransmissions(2))
            .path(PathId(1))
            .context(7);
        let expected = SendOptions {
            stream: StreamId(3),
            ppid: Ppid(46),
            unordered: true,
            immediate: true,
            no_delay: true,
            lifetime: Some(lifetime),
            reliability: Reliability::Retransmissions(2),
            path: Some(PathId(1)),
            context: 7,
        };
        assert_eq!(built, expected);
    }
}
