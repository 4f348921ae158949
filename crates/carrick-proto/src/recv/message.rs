//! What the user gets: a message, or a part of one that is larger than the receive buffer.

use alloc::vec::Vec;

use bytes::{Buf, Bytes, BytesMut};
use carrick_wire::{Mid, Ppid, Ssn, StreamId, Tsn};

use super::buffer::Cost;

/// A received message, or a part of one (partial delivery, RFC 9260 section 6.9).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The stream it came on.
    pub stream: StreamId,
    /// Its number in the stream; `None` when it was sent unordered. With interleaving, the lower
    /// half of the MID (RFC 8260 section 4.1).
    pub ssn: Option<Ssn>,
    /// With interleaving, its number among the ordered or the unordered messages of the stream
    /// (RFC 8260 section 2.1).
    pub mid: Option<Mid>,
    /// The payload protocol identifier, as the peer's user gave it.
    pub ppid: Ppid,
    /// The TSN of its first fragment; all parts of one message share it, and no other message that
    /// is under way has it. With interleaving, parts of several messages come by turns.
    pub tsn: Tsn,
    /// Whether this is all of it.
    pub part: Part,
    /// The bytes.
    pub payload: Payload,
    /// DATA chunks in this part, for the account of the receive buffer.
    pub(crate) chunks: usize,
}

impl Message {
    pub(super) fn cost(&self) -> Cost {
        Cost {
            chunks: self.chunks,
            payload: self.payload.len(),
        }
    }
}

/// Which part of a message this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The whole message.
    Whole,
    /// The beginning; more follows.
    First,
    /// Neither the beginning nor the end.
    Middle,
    /// The end.
    Last,
    /// Without bytes: the peer gave up the message of which the beginning was delivered (RFC 3758
    /// section 3.6), or reset its stream or all numbers (RFC 6525), and the rest of it will not come.
    Aborted,
}

/// The bytes of a message, as slices of the datagrams that brought them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Payload {
    first: Bytes,
    rest: Vec<Bytes>,
    rest_len: usize,
}

impl Payload {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.first.len() + self.rest_len
    }

    /// There are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces in their order; one if the message arrived whole.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        core::iter::once(&self.first).chain(&self.rest)
    }

    /// The bytes in one piece: without a copy if the message arrived in one chunk.
    pub fn into_bytes(self) -> Bytes {
        if self.rest.is_empty() {
            return self.first;
        }
        let mut all = BytesMut::with_capacity(self.len());
        self.pieces().for_each(|piece| all.extend_from_slice(piece));
        all.freeze()
    }

    pub(crate) fn push(&mut self, piece: Bytes) {
        if self.is_empty() {
            self.first = piece;
        } else {
            self.rest_len += piece.len();
            self.rest.push(piece);
        }
    }

    /// Appends the pieces of another payload.
    pub fn append(&mut self, other: Self) {
        core::iter::once(other.first)
            .chain(other.rest)
            .filter(|p| !p.is_empty())
            .for_each(|p| self.push(p));
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self {
            first: bytes,
            rest: Vec::new(),
            rest_len: 0,
        }
    }
}

impl PartialEq<[u8]> for Payload {
    fn eq(&self, other: &[u8]) -> bool {
        let mut rest = other;
        self.len() == other.len()
            && self.pieces().all(|piece| {
                let (head, tail) = rest.split_at(piece.len());
                rest = tail;
                head == piece.chunk()
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_message_is_not_copied() {
        let bytes = Bytes::from_static(b"hello");
        let payload = Payload::from(bytes.clone());
        assert_eq!(payload.into_bytes().as_ptr(), bytes.as_ptr());
    }

    #[test]
    fn pieces_become_one() {
        let mut payload = Payload::default();
        for piece in [&b"ab"[..], b"c", b"def"] {
            payload.push(Bytes::from_static(piece));
        }
        assert_eq!(payload.len(), 6);
        assert!(payload == b"abcdef"[..]);
        assert!(payload != b"abcdeg"[..]);
        assert_eq!(payload.into_bytes(), Bytes::from_static(b"abcdef"));
    }
}
