//! Parameters that are lists of small numbers.

use crate::error::{Item, ParseError, ParseErrorKind};
use crate::tlv::HEADER_LEN;
use crate::{ChunkType, HmacId, StreamId};

/// The address types of a Supported Address Types parameter, as numbers: 5 is IPv4, 6 is IPv6
/// (they are the types of the address parameters).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressTypes<'a>(pub(super) U16s<'a>);

impl Iterator for AddressTypes<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        self.0.next()
    }
}

/// A list of 16-bit values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct U16s<'a>(&'a [[u8; 2]]);

impl<'a> U16s<'a> {
    /// The list that fills the value of an item at `offset`.
    pub(crate) fn parse(item: Item, value: &'a [u8], offset: usize) -> Result<Self, ParseError> {
        Self::cut(item, value, value.len(), offset)
    }

    /// The list at the end of the value of a parameter at `offset`.
    pub(super) fn at_end(value: &[u8], list: &'a [u8], offset: usize) -> Result<Self, ParseError> {
        Self::cut(Item::Parameter, list, value.len(), offset)
    }

    fn cut(item: Item, list: &'a [u8], value: usize, offset: usize) -> Result<Self, ParseError> {
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

/// Streams of a reset request, in the order of the parameter. None means all of them.
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

/// The algorithms that a peer can verify, most wanted first (RFC 4895, 3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacIds<'a>(pub(super) U16s<'a>);

impl Iterator for HmacIds<'_> {
    type Item = HmacId;

    fn next(&mut self) -> Option<HmacId> {
        self.0.next().map(HmacId)
    }
}

/// A set of chunk types, one byte each: the extensions that a peer supports, or the chunks that
/// it wants to be authenticated. The peer can name a type twice, or one that must not be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkTypes<'a>(&'a [u8]);

impl<'a> ChunkTypes<'a> {
    /// The chunk types in the value of a parameter.
    pub const fn new(value: &'a [u8]) -> Self {
        Self(value)
    }

    /// Whether this type is among them.
    pub fn contains(&self, kind: ChunkType) -> bool {
        self.0.contains(&kind.0)
    }

    /// The types in the order of the parameter.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ChunkType> + Clone + use<'a> {
        self.0.iter().copied().map(ChunkType)
    }
}
