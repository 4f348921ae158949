//! Messages as the user receives them: whole, or in parts if larger than the receive buffer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use carrick_wire::{Mid, Ppid, Ssn, StreamId, Tsn};

use super::buffer::Cost;
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};

/// A received message, or a part of one (partial delivery, RFC 9260 section 6.9).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Message {
    /// Stream of the message.
    pub stream: StreamId,
    /// Stream sequence number; `None` for an unordered message, also with interleaving. Of an ordered message with
    /// interleaving it is the lower half of the MID (RFC 8260, section 4.1).
    pub ssn: Option<Ssn>,
    /// With interleaving, the message identifier among the ordered or the unordered messages of the
    /// stream (RFC 8260, section 2.1).
    pub mid: Option<Mid>,
    /// Payload protocol identifier set by the peer's user.
    pub ppid: Ppid,
    /// TSN of the first fragment. It identifies the message of a part: all parts of a message have it,
    /// and parts of several messages may alternate with interleaving.
    pub tsn: Tsn,
    /// Part of the message.
    pub part: MessagePart,
    /// Payload of the message or part.
    pub payload: Payload,
    /// Number of DATA chunks in this part, for the accounting of the receive buffer.
    pub(crate) chunks: usize,
}

portable_struct! { Message { stream, ssn, mid, ppid, tsn, part, payload, chunks } }

impl Message {
    pub(super) fn cost(&self) -> Cost {
        Cost {
            chunks: self.chunks,
            payload: self.payload.len(),
        }
    }
}

/// Part of a message (partial delivery, RFC 9260, section 6.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessagePart {
    /// The whole message.
    Whole,
    /// The beginning; more follows.
    First,
    /// Neither the beginning nor the end.
    Middle,
    /// The end.
    Last,
    /// End of an incomplete message, without bytes: after the delivery of its beginning, the peer
    /// abandoned the message (RFC 3758, section 3.6), or reset its stream or the association (RFC
    /// 6525).
    Aborted,
}

portable_enum! { MessagePart { 0: Whole, 1: First, 2: Middle, 3: Last, 4: Aborted } }

/// Bytes of a message, as slices of the datagrams in which they arrived.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Payload {
    first: Bytes,
    rest: Vec<Bytes>,
    rest_len: usize,
}

impl Portable for Payload {
    fn write(&self, out: &mut ExportWriter) {
        self.first.write(out);
        self.rest.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let (first, rest): (Bytes, Vec<Bytes>) = Portable::read(input)?;
        let rest_len = rest.iter().map(Bytes::len).sum();
        Ok(Self {
            first,
            rest,
            rest_len,
        })
    }
}

impl Payload {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.first.len() + self.rest_len
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pieces in their order; one if the message arrived in one chunk.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        core::iter::once(&self.first).chain(&self.rest)
    }

    /// Converts the payload into one piece; without a copy if the message arrived in one chunk.
    pub fn into_bytes(mut self) -> Bytes {
        if self.rest_len == 0 {
            return self.first;
        }
        if self.first.is_empty() && self.rest.len() == 1 {
            return self.rest.pop().unwrap_or_default();
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

impl From<VecDeque<Bytes>> for Payload {
    fn from(mut pieces: VecDeque<Bytes>) -> Self {
        let first = pieces.pop_front().unwrap_or_default();
        let rest = Vec::from(pieces);
        Self {
            first,
            rest_len: rest.iter().map(Bytes::len).sum(),
            rest,
        }
    }
}

impl From<Payload> for Bytes {
    /// Converts without a copy if the message arrived in one chunk.
    fn from(payload: Payload) -> Self {
        payload.into_bytes()
    }
}

impl Buf for Payload {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self.pieces().find(|p| !p.is_empty()).map_or(&[], |p| p)
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len(), "cannot advance past the end");
        let of_first = count.min(self.first.len());
        self.first.advance(of_first);
        count -= of_first;
        self.rest_len -= count;
        let mut consumed = 0;
        for piece in &mut self.rest {
            let of_piece = count.min(piece.len());
            piece.advance(of_piece);
            count -= of_piece;
            if !piece.is_empty() {
                break;
            }
            consumed += 1;
        }
        self.rest.drain(..consumed);
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        if len == self.len() {
            return core::mem::take(self).into_bytes();
        }
        if len <= self.first.len() {
            return self.first.split_to(len);
        }
        let mut copied = BytesMut::with_capacity(len);
        copied.put(self.take(len));
        copied.freeze()
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
    fn a_payload_is_read_across_its_pieces() {
        let mut payload = Payload::default();
        for piece in [&b"ab"[..], b"cde", b"f", b"gh"] {
            payload.push(Bytes::from_static(piece));
        }
        assert_eq!((payload.remaining(), payload.chunk()), (8, &b"ab"[..]));
        assert_eq!(payload.get_u8(), b'a');
        assert_eq!(payload.copy_to_bytes(3), Bytes::from_static(b"bcd"));
        assert_eq!(payload.chunk(), b"e");
        payload.advance(2);
        assert_eq!((payload.len(), payload.chunk()), (2, &b"gh"[..]));
        let last = payload.chunk().as_ptr();
        let bytes = Bytes::from(payload.clone());
        assert_eq!(
            bytes.as_ptr(),
            last,
            "one piece is left, which is not copied"
        );
        payload.advance(2);
        assert!(!payload.has_remaining() && payload.chunk().is_empty());
        payload.push(Bytes::from_static(b"i"));
        assert!(payload == b"i"[..]);
    }

    #[test]
    fn pieces_are_joined_into_one_payload() {
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
