//! Errors of messages that violate the common format.

use std::fmt;

/// Octets that are not a message of an adaptation layer. The fault is the sender's.
pub type FormatError = crate::DecodeError<FormatErrorKind>;

/// Kinds of format errors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FormatErrorKind {
    /// There are fewer octets than a common header has.
    HeaderTruncated {
        /// Number of received octets.
        length: usize,
    },
    /// The version is not 1.
    Version(u8),
    /// The message has more than [`MAX_MESSAGE`](super::MAX_MESSAGE) octets.
    TooLong {
        /// Number of octets.
        length: usize,
    },
    /// The message length does not cover the received octets.
    MessageLength {
        /// Message length of the header.
        length: u32,
        /// Number of received octets.
        received: usize,
    },
    /// There are one to three octets in place of a parameter header.
    ParameterTruncated {
        /// Number of octets.
        available: usize,
    },
    /// The parameter length is less than the parameter header.
    ParameterLengthTooSmall {
        /// Tag of the parameter.
        tag: u16,
        /// Parameter length.
        length: u16,
    },
    /// The parameter length exceeds the available octets.
    ParameterLengthPastEnd {
        /// Tag of the parameter.
        tag: u16,
        /// Parameter length.
        length: u16,
        /// Number of available octets, the parameter header included.
        available: usize,
    },
    /// The padding has fewer octets than the parameter length demands, but some.
    PaddingTruncated {
        /// Tag of the parameter.
        tag: u16,
        /// Number of octets after the value.
        available: usize,
    },
}

impl fmt::Display for FormatErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HeaderTruncated { length } => write!(f, "{length} octets hold no common header"),
            Self::Version(version) => write!(f, "version {version} is not supported, 1 is"),
            Self::TooLong { length } => {
                write!(
                    f,
                    "{length} octets exceed the limit of {}",
                    super::MAX_MESSAGE
                )
            }
            Self::MessageLength { length, received } => {
                write!(
                    f,
                    "message length {length}, but {received} octets were received"
                )
            }
            Self::ParameterTruncated { available } => {
                write!(f, "{available} octets hold no parameter header")
            }
            Self::ParameterLengthTooSmall { tag, length } => {
                write!(
                    f,
                    "length {length} of parameter {tag:#06x} is less than its header"
                )
            }
            Self::ParameterLengthPastEnd {
                tag,
                length,
                available,
            } => {
                write!(
                    f,
                    "length {length} of parameter {tag:#06x}, but {available} octets are there"
                )
            }
            Self::PaddingTruncated { tag, available } => {
                write!(
                    f,
                    "padding of parameter {tag:#06x} cut after {available} octets"
                )
            }
        }
    }
}
