//! Common layout of chunks, parameters and error causes: a header of four bytes whose second half is the
//! length, a value, and padding to a multiple of four (RFC 9260, sections 3.2 and 3.2.1).

use alloc::vec::Vec;

use crate::error::{ParseError, ParseErrorKind, TlvKind};
use crate::packet::{CHUNK_HEADER_LEN, padded};

/// Length of a parameter's or cause's header, the same as a chunk's.
pub(crate) const HEADER_LEN: usize = CHUNK_HEADER_LEN;

/// Unparsed item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tlv<'a> {
    /// First two bytes of the header.
    pub(crate) kind: [u8; 2],
    pub(crate) value: &'a [u8],
    pub(crate) bytes: &'a [u8],
    pub(crate) offset: usize,
}

/// Splits a slice into items. It ends after an error, because the position of the next item is unknown
/// then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tlvs<'a> {
    item: TlvKind,
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Tlvs<'a> {
    /// Creates the iterator; `offset` is the offset of `bytes` in the packet, for errors.
    pub(crate) const fn new(item: TlvKind, bytes: &'a [u8], offset: usize) -> Self {
        Self {
            item,
            rest: bytes,
            offset,
        }
    }

    /// Bytes that have not been returned yet.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    fn cut(&self) -> Result<Tlv<'a>, ParseError> {
        let Some((header, _)) = self.rest.split_first_chunk::<HEADER_LEN>() else {
            return Err(self.fault());
        };
        let [kind_high, kind_low, length_high, length_low] = *header;
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        match self.rest.get(..length) {
            Some(bytes) if length >= HEADER_LEN => Ok(Tlv {
                kind: [kind_high, kind_low],
                value: &bytes[HEADER_LEN..],
                bytes,
                offset: self.offset,
            }),
            _ => Err(self.fault()),
        }
    }

    /// Returns the error in the next item.
    #[cold]
    fn fault(&self) -> ParseError {
        let item = self.item;
        let Some((header, _)) = self.rest.split_first_chunk::<HEADER_LEN>() else {
            return ParseError::new(ParseErrorKind::Truncated(item), self.offset);
        };
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let kind = if length < HEADER_LEN {
            ParseErrorKind::LengthTooSmall { item, length }
        } else {
            ParseErrorKind::LengthPastEnd {
                item,
                length,
                available: self.rest.len(),
            }
        };
        ParseError::new(kind, self.offset + 2)
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let cut = self.cut();
        // The padding of the last item may be missing: the enclosing length does not include it.
        let step = cut
            .as_ref()
            .map_or(self.rest.len(), |tlv| padded(tlv.bytes.len()));
        self.rest = self.rest.get(step..).unwrap_or_default();
        self.offset += step;
        Some(cut)
    }
}

impl core::iter::FusedIterator for Tlvs<'_> {}

/// Checks that an item without a variable part has the length of its type.
pub(crate) fn exact<const N: usize>(
    item: TlvKind,
    value: &[u8],
    offset: usize,
) -> Result<&[u8; N], ParseError> {
    value
        .try_into()
        .map_err(|_| wrong_length(item, N, value, offset))
}

/// Returns the error of an item at `offset` whose value should have `expected` bytes.
pub(crate) fn wrong_length(
    item: TlvKind,
    expected: usize,
    value: &[u8],
    offset: usize,
) -> ParseError {
    let kind = ParseErrorKind::WrongLength {
        item,
        expected: HEADER_LEN + expected,
        length: HEADER_LEN + value.len(),
    };
    ParseError::new(kind, offset + 2)
}

/// Splits the fixed fields from the variable part of an item at `offset`.
pub(crate) fn split<const N: usize>(
    item: TlvKind,
    value: &[u8],
    offset: usize,
) -> Result<(&[u8; N], &[u8]), ParseError> {
    value.split_first_chunk().ok_or_else(|| {
        let kind = ParseErrorKind::ValueTooShort {
            item,
            needed: HEADER_LEN + N,
            length: HEADER_LEN + value.len(),
        };
        ParseError::new(kind, offset + 2)
    })
}

/// Writes parameters or causes in sequence. Padding precedes an item instead of following it, because the
/// padding of the last one is not counted in the chunk's length (RFC 9260, section 3.2).
#[derive(Debug)]
pub(crate) struct TlvWriter<'w> {
    buf: &'w mut Vec<u8>,
    /// Offset of the chunk: a multiple of four from the packet's start.
    chunk: usize,
    /// Maximum offset of the packet's end.
    end: usize,
}

impl<'w> TlvWriter<'w> {
    pub(crate) const fn new(buf: &'w mut Vec<u8>, chunk: usize, end: usize) -> Self {
        Self { buf, chunk, end }
    }

    /// Returns whether an item with a value of this many bytes fits into the packet's limit.
    pub(crate) fn fits(&self, value_len: usize) -> bool {
        let length = padded(self.buf.len() - self.chunk) + HEADER_LEN + value_len;
        self.chunk + padded(length) <= self.end
    }

    /// Appends an item whose value is what `value` appends.
    pub(crate) fn item(&mut self, kind: u16, value: impl FnOnce(&mut Vec<u8>)) {
        pad(self.buf, self.chunk);
        let start = self.buf.len();
        self.buf.extend_from_slice(&kind.to_be_bytes());
        self.buf.extend_from_slice(&[0, 0]);
        value(self.buf);
        set_length(self.buf, start);
    }

    /// Appends an item whose value is `fixed`, a multiple of four bytes, and then other items.
    pub(crate) fn nested(&mut self, kind: u16, fixed: &[u8], items: impl FnOnce(TlvWriter<'_>)) {
        let end = self.end;
        self.item(kind, |buf| {
            // The header is written: inner items are aligned as outer ones are.
            let item = buf.len() - HEADER_LEN;
            buf.extend_from_slice(fixed);
            items(TlvWriter::new(buf, item, end));
        });
    }
}

/// Appends zeros until the length since `start` is a multiple of four.
#[inline]
pub(crate) fn pad(buf: &mut Vec<u8>, start: usize) {
    let target = start + padded(buf.len() - start);
    buf.resize(target, 0);
}

/// Writes the length field of the item that begins at `start` and ends with the buffer.
pub(crate) fn set_length(buf: &mut [u8], start: usize) {
    let length = buf.len() - start;
    debug_assert!(u16::try_from(length).is_ok(), "{length} bytes in one chunk");
    buf[start + 2..start + HEADER_LEN].copy_from_slice(&(length as u16).to_be_bytes());
}
