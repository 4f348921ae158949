//! Errors of malformed packets, chunks, parameters and causes.

use core::fmt;

use crate::ParameterType;

/// Kind of an element with type, length and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlvKind {
    /// A chunk (RFC 9260, 3.2).
    Chunk,
    /// A parameter (3.2.1).
    Parameter,
    /// An error cause (3.3.10).
    Cause,
}

/// Bytes that violate the format. The fault is the sender's (or the packet was corrupted on its way); the
/// packet, or the rest of it, is to be discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// Kind of the error.
    pub kind: ParseErrorKind,
    /// Offset of the wrong byte in the packet, or in the slice when only a slice was given. For a wrong
    /// length it is the offset of the length field.
    pub offset: usize,
}

/// Kinds of format errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The packet is shorter than a common header and one chunk header.
    PacketTooShort {
        /// The packet's length in bytes.
        length: usize,
    },
    /// The source or destination port is 0 (RFC 9260, section 3.1).
    ZeroPort,
    /// One to three bytes instead of a header of four.
    Truncated(TlvKind),
    /// The length field is smaller than the header.
    LengthTooSmall {
        /// Element with the length field.
        item: TlvKind,
        /// The length field, in bytes.
        length: usize,
    },
    /// The length field exceeds the available bytes.
    LengthPastEnd {
        /// Element with the length field.
        item: TlvKind,
        /// The length field, in bytes.
        length: usize,
        /// Number of available bytes.
        available: usize,
    },
    /// The value is shorter than the fixed fields of its type.
    ValueTooShort {
        /// Element with the value.
        item: TlvKind,
        /// Minimum length in bytes, header included.
        needed: usize,
        /// The length field, in bytes.
        length: usize,
    },
    /// The length does not match the type, or the counts inside the value.
    WrongLength {
        /// Element with the length field.
        item: TlvKind,
        /// Required length in bytes, header included.
        expected: usize,
        /// The length field, in bytes.
        length: usize,
    },
    /// A list of 16-bit values has an odd number of bytes.
    OddLength {
        /// Element with the length field.
        item: TlvKind,
        /// The length field, in bytes.
        length: usize,
    },
    /// A chunk lacks a mandatory parameter.
    MissingParameter(ParameterType),
    /// A mandatory IPv4 or IPv6 address parameter is missing (RFC 5061, sections 4.1.1 and 4.2).
    MissingAddress,
}

impl ParseError {
    pub(crate) const fn new(kind: ParseErrorKind, offset: usize) -> Self {
        Self { kind, offset }
    }
}

impl fmt::Display for TlvKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chunk => "chunk",
            Self::Parameter => "parameter",
            Self::Cause => "error cause",
        })
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "malformed packet from the peer at byte {}: ",
            self.offset
        )?;
        match self.kind {
            ParseErrorKind::PacketTooShort { length } => {
                write!(f, "{length} bytes hold no common header and chunk header")
            }
            ParseErrorKind::ZeroPort => f.write_str("port 0"),
            ParseErrorKind::Truncated(item) => write!(f, "{item} header cut off"),
            ParseErrorKind::LengthTooSmall { item, length } => {
                write!(f, "{item} length {length} is less than its header")
            }
            ParseErrorKind::LengthPastEnd {
                item,
                length,
                available,
            } => {
                write!(f, "{item} length {length}, but {available} bytes are there")
            }
            ParseErrorKind::ValueTooShort {
                item,
                needed,
                length,
            } => {
                write!(
                    f,
                    "{item} length {length} is less than the {needed} of its fixed fields"
                )
            }
            ParseErrorKind::WrongLength {
                item,
                expected,
                length,
            } => {
                write!(f, "{item} length {length} should be {expected}")
            }
            ParseErrorKind::OddLength { item, length } => {
                write!(f, "{item} length {length} is odd")
            }
            ParseErrorKind::MissingParameter(kind) => write!(f, "no {kind} parameter"),
            ParseErrorKind::MissingAddress => f.write_str("no address parameter"),
        }
    }
}

impl core::error::Error for ParseError {}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::{ParseError, ParseErrorKind, TlvKind};
    use crate::ParameterType;

    #[test]
    fn every_error_is_one_line_with_the_offset() {
        let item = TlvKind::Cause;
        let kinds = [
            ParseErrorKind::PacketTooShort { length: 3 },
            ParseErrorKind::ZeroPort,
            ParseErrorKind::Truncated(item),
            ParseErrorKind::LengthTooSmall { item, length: 3 },
            ParseErrorKind::LengthPastEnd {
                item,
                length: 9,
                available: 8,
            },
            ParseErrorKind::ValueTooShort {
                item,
                needed: 16,
                length: 15,
            },
            ParseErrorKind::WrongLength {
                item,
                expected: 8,
                length: 9,
            },
            ParseErrorKind::OddLength { item, length: 7 },
            ParseErrorKind::MissingParameter(ParameterType::HEARTBEAT_INFO),
            ParseErrorKind::MissingAddress,
        ];
        for kind in kinds {
            let text = ParseError { kind, offset: 77 }.to_string();
            assert!(
                text.starts_with("malformed packet from the peer at byte 77: "),
                "{text}"
            );
            assert!(!text.contains('\n'), "{text}");
        }
        let error = ParseError {
            kind: kinds[4],
            offset: 14,
        };
        let expected = "malformed packet from the peer at byte 14: \
                        error cause length 9, but 8 bytes are there";
        assert_eq!(error.to_string(), expected);
    }
}
