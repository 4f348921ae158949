//! Errors of messages whose format is right, with the error code that answers them (RFC 4666, section 3.8.1).

use std::fmt;

use bytes::Bytes;

use super::kinds::common as kinds;
use super::{
    DiagnosticInformation, ErrorCode, FormatError, FormatErrorKind, MessageKind, WriteError, tag,
};

/// Octets that are not a message of the layer. The fault is the sender's.
pub type DecodeError = crate::DecodeError<DecodeErrorKind>;

/// Kinds of decoding errors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The common header or the layout of parameters is wrong.
    Format(FormatErrorKind),
    /// The message class is not one of the layer.
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
    /// The parameter must precede others.
    NotFirst(u16),
    /// The parameter does not fit another one of the message.
    Conflict(u16),
    /// The bits of a loadsharing label are beyond the field, or none, or more than 16.
    LoadsharingLabel(u16),
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
            DecodeErrorKind::Repeated(_)
            | DecodeErrorKind::Excluded(_)
            | DecodeErrorKind::Conflict(_) => ErrorCode::UNEXPECTED_PARAMETER,
            DecodeErrorKind::LoadsharingLabel(_) => ErrorCode::INVALID_LOADSHARING_LABEL,
            DecodeErrorKind::Missing(_) => ErrorCode::MISSING_PARAMETER,
        }
    }

    /// Returns the error of a class or type that the layer does not have.
    pub(crate) const fn unsupported(kind: MessageKind, has_class: bool) -> Self {
        if has_class {
            Self::new(DecodeErrorKind::UnsupportedType(kind), 3)
        } else {
            Self::new(DecodeErrorKind::UnsupportedClass(kind.class), 2)
        }
    }
}

/// Returns whether octets begin an Error message. Those are not answered with Error messages (RFC 4666, section 3.8.1).
pub(crate) fn is_error_message(octets: &[u8]) -> bool {
    octets.get(2..4) == Some(&[kinds::ERR.class, kinds::ERR.message_type])
}

/// Returns the begin of an offending message as diagnostic information: its first 40 octets for an unsupported class
/// or type, at most `limit` for other errors.
pub(crate) fn offending(code: ErrorCode, octets: &[u8], limit: usize) -> DiagnosticInformation {
    let limit = match code {
        ErrorCode::UNSUPPORTED_MESSAGE_CLASS | ErrorCode::UNSUPPORTED_MESSAGE_TYPE => 40,
        _ => limit,
    };
    DiagnosticInformation(Bytes::copy_from_slice(&octets[..octets.len().min(limit)]))
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
            Self::Excluded(tag) => {
                write!(f, "{} is reserved or of another layer", Tag(tag))
            }
            Self::NotFirst(tag) => {
                write!(f, "{} is behind parameters that it must precede", Tag(tag))
            }
            Self::Conflict(tag) => write!(f, "{} does not fit the other parameters", Tag(tag)),
            Self::LoadsharingLabel(tag) => write!(f, "{} has invalid positions", Tag(tag)),
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
    /// A parameter has a length that its type does not allow.
    Length {
        /// Tag of the parameter.
        tag: u16,
        /// Number of octets of the value.
        length: usize,
    },
    /// A parameter that others demand is missing.
    Missing(u16),
    /// A parameter does not fit another one.
    Conflict(u16),
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
            Self::Length { tag, length } => {
                write!(f, "{} can't have a value of {length} octets", Tag(tag))
            }
            Self::Missing(tag) => {
                write!(f, "{} is missing, the other parameters demand it", Tag(tag))
            }
            Self::Conflict(tag) => write!(f, "{} does not fit the other parameters", Tag(tag)),
            Self::Value { tag, value } => {
                write!(f, "value {value:#x} of {} is not defined", Tag(tag))
            }
        }
    }
}

impl std::error::Error for EncodeError {}
