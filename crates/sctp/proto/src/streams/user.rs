//! Requests of the user and their outcome, and which requests of peers are granted (RFC 6525 section
//! 6).

use core::fmt;

use carrick_wire::ReconfigResult;

/// Requests of the peer that are granted where the extension is negotiated (RFC 6525 section 6.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grants {
    /// Outgoing and Incoming SSN Reset Requests.
    pub reset_streams: bool,
    /// SSN/TSN Reset Requests.
    pub reset_association: bool,
    /// Add Outgoing and Add Incoming Streams Requests.
    pub change_streams: bool,
}

portable_struct! { Grants { reset_streams, reset_association, change_streams } }

impl Default for Grants {
    fn default() -> Self {
        Self {
            reset_streams: true,
            reset_association: true,
            change_streams: true,
        }
    }
}

/// Direction of the streams that are reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamDirection {
    /// The streams that this side sends on.
    Outgoing,
    /// The streams that the peer sends on.
    Incoming,
    /// The streams of both directions.
    Both,
}

portable_enum! { StreamDirection { 0: Outgoing, 1: Incoming, 2: Both } }

impl StreamDirection {
    pub(crate) fn is_outgoing(self) -> bool {
        self != Self::Incoming
    }

    pub(crate) fn is_incoming(self) -> bool {
        self != Self::Outgoing
    }
}

/// Outcome of a request (RFC 6525 section 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReconfigOutcome {
    /// The request was performed.
    Performed,
    /// Nothing to do: the requested state was in place.
    NothingToDo,
    /// The peer denied the request.
    Denied,
    /// The peer has no such stream.
    WrongStream,
    /// A request of the other side was outstanding; try again.
    RequestInProgress,
    /// The peer did not expect the request's number.
    BadSequenceNumber,
    /// The peer returned a result that is not assigned.
    Unknown(u32),
}

portable_enum! {
    ReconfigOutcome {
        0: Performed,
        1: NothingToDo,
        2: Denied,
        3: WrongStream,
        4: RequestInProgress,
        5: BadSequenceNumber,
        6: Unknown(value),
    }
}

impl ReconfigOutcome {
    /// Returns whether the requested state is in place.
    pub fn is_success(self) -> bool {
        matches!(self, Self::Performed | Self::NothingToDo)
    }

    pub(crate) fn of(result: ReconfigResult) -> Self {
        match result {
            ReconfigResult::NOTHING_TO_DO => Self::NothingToDo,
            ReconfigResult::PERFORMED => Self::Performed,
            ReconfigResult::DENIED => Self::Denied,
            ReconfigResult::WRONG_STREAM => Self::WrongStream,
            ReconfigResult::REQUEST_IN_PROGRESS => Self::RequestInProgress,
            ReconfigResult::BAD_SEQUENCE_NUMBER => Self::BadSequenceNumber,
            ReconfigResult(other) => Self::Unknown(other),
        }
    }
}

/// Error of a request to reset streams or the association, or to add streams (RFC 6525).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReconfigError {
    /// The association is unknown or already closed.
    UnknownAssociation,
    /// The association is not established, or shutting down.
    WrongState,
    /// Re-configuration is not negotiated: this side or the peer did not offer it.
    NotInForce,
    /// A request of either side is outstanding; only one at a time is allowed (RFC 6525 section 5.1.1).
    InProgress,
    /// A stream to be reset does not exist.
    InvalidStream {
        /// Number of streams in that direction.
        streams: u16,
    },
    /// The streams to be reset don't fit into one packet; all streams always do.
    ListTooLong {
        /// Number of streams that fit.
        limit: usize,
    },
    /// There would be more streams than 65535, or than this side accepts.
    TooManyStreams {
        /// Number of streams that can be added in that direction.
        limit: u16,
    },
    /// No stream is to be added.
    NothingToAdd,
    /// Numbers were reset less than 30 seconds ago; packets from before may still arrive (RFC 6525
    /// section 5.1.4).
    TooSoon,
}

impl fmt::Display for ReconfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownAssociation => f.write_str("the association is closed: connect again"),
            Self::WrongState => {
                f.write_str("the association is not established, or it is shutting down")
            }
            Self::NotInForce => f.write_str(
                "re-configuration of streams is not in force: both sides have to offer it",
            ),
            Self::InProgress => {
                f.write_str("a re-configuration is under way: wait for its event and try again")
            }
            Self::InvalidStream { streams } => write!(
                f,
                "no such stream: there are streams 0 to {}",
                streams.saturating_sub(1)
            ),
            Self::ListTooLong { limit } => write!(
                f,
                "a packet has room for {limit} streams: reset fewer at a time, or all"
            ),
            Self::TooManyStreams { limit } => write!(f, "only {limit} streams can be added"),
            Self::NothingToAdd => f.write_str("no stream to add: request at least one"),
            Self::TooSoon => {
                f.write_str("the association was reset less than 30 seconds ago: try again later")
            }
        }
    }
}

impl core::error::Error for ReconfigError {}
