//! Parameters that are lists of small numbers.

use crate::error::{ParseError, ParseErrorKind, TlvKind};
use crate::tlv::HEADER_LEN;
use crate::{ChunkType, HmacId, StreamId};

/// Address types of a Supported Address Types parameter: 5 is IPv4, 6 is IPv6 (the types of the address
/// parameters).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressTypes<'a>(pub(super) U16s<'a>);

impl Iterator for AddressTypes<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        self.0.next()
    }
}

/// List of 16-bit values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct U16s<'a>(&'a [[u8; 2]]);

impl<'a> U16s<'a> {
    /// Parses the list that fills the value of an item at `offset`.
    pub(crate) fn parse(item: TlvKind, value: &'a [u8], offset: usize) -> Result<Self, ParseError> {
        Self::cut(item, value, value.len(), offset)
    }

    /// Parses the list at the end of the value of a parameter at `offset`.
    pub(super) fn at_end(value: &[u8], list: &'a [u8], offset: usize) -> Result<Self, ParseError> {
        Self::cut(TlvKind::Parameter, list, value.len(), offset)
    }

    fn cut(item: TlvKind, list: &'a [u8], value: usize, offset: usize) -> Result<Self, ParseError> {
        let (pairs, half) = list.as_chunks();
        if half.is_empty() {
            return Ok(Self(pairs));
        }
        let length = HEADER_LEN + value;
        Err(ParseError::new(
            ParseErrorKind::OddLength { item, length },
            offset + 2,
        ))
    }
}

impl Iterator for U16s<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*first))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

/// Streams of a reset request, in the order of the parameter. An empty list means all streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamIds<'a>(pub(super) U16s<'a>);

impl Iterator for StreamIds<'_> {
    type Item = StreamId;

    fn next(&mut self) -> Option<StreamId> {
        self.0.next().map(StreamId)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for StreamIds<'_> {}

/// HMAC algorithms that a peer supports, in descending order of preference (RFC 4895, 3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacIds<'a>(pub(super) U16s<'a>);

impl Iterator for HmacIds<'_> {
    type Item = HmacId;

    fn next(&mut self) -> Option<HmacId> {
        self.0.next().map(HmacId)
    }
}

/// Set of chunk types, one byte each: the extensions that a peer supports, or the chunks that it requires
/// to be authenticated. The peer can list a type twice, or one that is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkTypes<'a>(&'a [u8]);

impl<'a> ChunkTypes<'a> {
    /// Reads the chunk types in the value of a parameter.
    pub const fn new(value: &'a [u8]) -> Self {
        Self(value)
    }

    /// Returns true if the set contains this type.
    pub fn contains(&self, kind: ChunkType) -> bool {
        self.0.contains(&kind.0)
    }

    /// Types in the order of the parameter.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ChunkType> + Clone + use<'a> {
        self.0.iter().copied().map(ChunkType)
    }
}
