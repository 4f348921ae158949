//! Outcome of stream reconfiguration (RFC 6525).

use carrick_wire::ReconfigResult;

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
#[non_exhaustive]
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
