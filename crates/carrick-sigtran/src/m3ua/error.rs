//! Errors of messages, with the error code that answers them (RFC 4666, section 3.8.1).

use std::fmt;

use bytes::Bytes;

use super::{DiagnosticInformation, ErrorCode, ErrorMessage, kinds, tag};
use crate::message::{FormatError, FormatErrorKind, MessageKind, WriteError};

/// Octets of the offending message in the answer to an unsupported class or type.
const OFFENDING_OCTETS: usize = 40;
/// Maximum octets of the offending message in other answers.
const MAX_OFFENDING_OCTETS: usize = 256;

/// Octets that are not an M3UA message. The fault is the sender's.
pub type DecodeError = crate::DecodeError<DecodeErrorKind>;

/// Kinds of decoding errors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The common header or the layout of parameters is wrong.
    Format(FormatErrorKind),
    /// The message class is not one of M3UA.
    UnsupportedClass(u8),
    /// The message type is not defined in its class.
    UnsupportedType(MessageKind),
    /// The length of a parameter does not match its type.
    ParameterLength {
        /// Tag of the parameter.
        tag: u16,
        /// Number of octets of the value.
        length: usize,
    },
    /// A field has a value that is not defined, or bits set that are unused.
    Value {
        /// Tag of the parameter.
        tag: u16,
        /// Value of the field.
        value: u32,
    },
    /// The Traffic Mode Type is not defined.
    TrafficMode(u32),
    /// The parameter occurs more than once, but may only once.
    Repeated(u16),
    /// The parameter belongs to another adaptation layer, or is reserved.
    Excluded(u16),
    /// The parameter must be the first one.
    NotFirst(u16),
    /// A mandatory parameter is missing.
    Missing(u16),
}

impl DecodeError {
    /// Returns the error code that answers the message (RFC 4666, section 3.8.1).
    pub const fn code(&self) -> ErrorCode {
        match self.kind {
            DecodeErrorKind::Format(FormatErrorKind::Version(_)) => ErrorCode::INVALID_VERSION,
            DecodeErrorKind::Format(
                FormatErrorKind::HeaderTruncated { .. }
                | FormatErrorKind::TooLong { .. }
                | FormatErrorKind::MessageLength { .. },
            )
            | DecodeErrorKind::NotFirst(_) => ErrorCode::PROTOCOL_ERROR,
            DecodeErrorKind::Format(_) | DecodeErrorKind::ParameterLength { .. } => {
                ErrorCode::PARAMETER_FIELD_ERROR
            }
            DecodeErrorKind::UnsupportedClass(_) => ErrorCode::UNSUPPORTED_MESSAGE_CLASS,
            DecodeErrorKind::UnsupportedType(_) => ErrorCode::UNSUPPORTED_MESSAGE_TYPE,
            DecodeErrorKind::Value { .. } => ErrorCode::INVALID_PARAMETER_VALUE,
            DecodeErrorKind::TrafficMode(_) => ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE,
            DecodeErrorKind::Repeated(_) | DecodeErrorKind::Excluded(_) => {
                ErrorCode::UNEXPECTED_PARAMETER
            }
            DecodeErrorKind::Missing(_) => ErrorCode::MISSING_PARAMETER,
        }
    }

    /// Returns the Error message that answers `message`, `None` if it is an Error message itself: those are not
    /// answered (RFC 4666, section 3.8.1). Its diagnostic information begins the offending message: the
    /// first 40 octets for an unsupported class or type, at most 256 for other errors.
    pub fn answer(&self, message: &[u8]) -> Option<ErrorMessage> {
        if message.get(2..4) == Some(&[kinds::ERR.class, kinds::ERR.message_type]) {
            return None;
        }
        Some(ErrorMessage {
            diagnostic: Some(offending(self.code(), message)),
            ..ErrorMessage::new(self.code())
        })
    }
}

/// Returns the begin of an offending message as diagnostic information.
pub(crate) fn offending(code: ErrorCode, message: &[u8]) -> DiagnosticInformation {
    let limit = match code {
        ErrorCode::UNSUPPORTED_MESSAGE_CLASS | ErrorCode::UNSUPPORTED_MESSAGE_TYPE => {
            OFFENDING_OCTETS
        }
        _ => MAX_OFFENDING_OCTETS,
    };
    let octets = &message[..message.len().min(limit)];
    DiagnosticInformation(Bytes::copy_from_slice(octets))
}

impl From<FormatError> for DecodeError {
    fn from(error: FormatError) -> Self {
        Self::new(DecodeErrorKind::Format(error.kind), error.offset)
    }
}

/// Name or number of a tag, for messages.
struct Tag(u16);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match tag::name(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "parameter {:#06x}", self.0),
        }
    }
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Format(kind) => kind.fmt(f),
            Self::UnsupportedClass(class) => write!(f, "message class {class} is not supported"),
            Self::UnsupportedType(kind) => {
                let MessageKind {
                    class,
                    message_type,
                } = kind;
                write!(
                    f,
                    "message type {message_type} of class {class} is not supported"
                )
            }
            Self::ParameterLength { tag, length } => {
                write!(f, "{} can't have a value of {length} octets", Tag(tag))
            }
            Self::Value { tag, value } => {
                write!(f, "{} has the invalid value {value:#x}", Tag(tag))
            }
            Self::TrafficMode(mode) => write!(f, "Traffic Mode Type {mode} is not defined"),
            Self::Repeated(tag) => write!(f, "{} occurs more than once", Tag(tag)),
            Self::Excluded(tag) => write!(f, "{} is not used in M3UA", Tag(tag)),
            Self::NotFirst(tag) => write!(f, "{} is not the first parameter", Tag(tag)),
            Self::Missing(tag) => write!(f, "{} is missing", Tag(tag)),
        }
    }
}

/// Reason for which a message can't be encoded. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EncodeError {
    /// A parameter or the message is too long.
    TooLong(WriteError),
    /// A list that needs an entry is empty.
    Empty(u16),
    /// A field has a value that is not defined.
    Value {
        /// Tag of the parameter.
        tag: u16,
        /// Value of the field.
        value: u32,
    },
}

impl From<WriteError> for EncodeError {
    fn from(error: WriteError) -> Self {
        Self::TooLong(error)
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooLong(error) => error.fmt(f),
            Self::Empty(tag) => write!(f, "{} needs at least one entry", Tag(tag)),
            Self::Value { tag, value } => {
                write!(f, "value {value:#x} of {} is not defined", Tag(tag))
            }
        }
    }
}

impl std::error::Error for EncodeError {}
