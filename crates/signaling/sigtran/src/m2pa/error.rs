//! Errors of messages.

use std::fmt;

use super::{MAX_DATA, MAX_MESSAGE};

/// Octets that are not an M2PA message. The fault is the sender's; the message is discarded.
pub type DecodeError = crate::DecodeError<DecodeErrorKind>;

/// Kinds of decoding errors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// There are fewer octets than the common header and the M2PA header have.
    HeaderTruncated {
        /// Number of received octets.
        length: usize,
    },
    /// The version is not 1.
    Version(u8),
    /// The message class is not 11.
    Class(u8),
    /// The message type is neither User Data nor Link Status.
    Type(u8),
    /// The message has more than [`MAX_MESSAGE`] octets.
    TooLong {
        /// Number of octets.
        length: usize,
    },
    /// The message length is not the number of received octets.
    MessageLength {
        /// Message length of the header.
        length: u32,
        /// Number of received octets.
        received: usize,
    },
    /// User Data has the octet of the priority, but no Service Information Octet.
    ServiceInformationMissing,
    /// Link Status has fewer octets than its state has.
    StateTruncated {
        /// Number of octets after the headers.
        length: usize,
    },
    /// The state of Link Status is not defined.
    State(u32),
    /// Octets follow a state other than Proving Normal and Proving Emergency.
    UnexpectedFiller {
        /// Number of octets after the state.
        length: usize,
    },
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HeaderTruncated { length } => {
                write!(f, "{length} octets hold no common header and M2PA header")
            }
            Self::Version(version) => write!(f, "version {version} is not supported, 1 is"),
            Self::Class(class) => write!(f, "message class {class} is not 11"),
            Self::Type(message_type) => write!(f, "message type {message_type} is not supported"),
            Self::TooLong { length } => {
                write!(f, "{length} octets exceed the limit of {MAX_MESSAGE}")
            }
            Self::MessageLength { length, received } => {
                write!(
                    f,
                    "message length {length}, but {received} octets were received"
                )
            }
            Self::ServiceInformationMissing => f.write_str("User Data ends after the priority"),
            Self::StateTruncated { length } => write!(f, "{length} octets hold no state"),
            Self::State(state) => write!(f, "state {state} of Link Status is not defined"),
            Self::UnexpectedFiller { length } => {
                write!(
                    f,
                    "{length} octets follow a state that is not a proving state"
                )
            }
        }
    }
}

/// Reason for which a message can't be encoded. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The User Data or the state with its filler has more than [`MAX_DATA`] octets.
    #[error("message data has {length} octets, at most {MAX_DATA} are possible: shorten it")]
    TooLong {
        /// Number of octets after the headers.
        length: usize,
    },
    /// The priority has more than two bits.
    #[error("priority {0} is not defined: use 0 to 3")]
    Priority(u8),
}
