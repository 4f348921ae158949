//! Errors of the client.

use super::session::TransactionError;
use carrick_simco::agent::CloseReason;
use carrick_simco::message::NegativeReply;

/// Reason for which there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The middlebox can't be reached.
    #[error("cannot connect to {target}: {why}")]
    Connect {
        /// Address of the middlebox.
        target: String,
        /// Error of the system or the transport.
        why: String,
    },
    /// The session was refused or failed.
    #[error("no session: {0}")]
    Session(CloseReason),
    /// The system returned no random numbers.
    #[error("cannot get random numbers from the system: {0}")]
    Random(String),
    /// The client has ended.
    #[error("the client has ended")]
    Ended,
}

/// Error of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The middlebox refused it.
    #[error("refused: {}", .0.text())]
    Refused(NegativeReply),
    /// Neither the request nor the queries for its outcome were answered.
    #[error("no reply in time, outcome unknown: check the status of the rule or list the rules")]
    Unanswered,
    /// The request was not answered, and the middlebox did not carry it out.
    #[error("no reply in time, and the middlebox did not carry it out: repeat the request")]
    NotDone,
    /// No session is open.
    #[error("no session with the middlebox; reconnecting")]
    NotConnected,
    /// The session was lost before the reply.
    #[error("session lost before the reply, outcome unknown: list the rules")]
    Lost,
    /// Too many outstanding requests.
    #[error("too many outstanding requests: wait for replies")]
    TooMany,
    /// The reply does not match the request.
    #[error("the reply of the middlebox does not match the request")]
    Unexpected,
    /// The client has ended.
    #[error("the client has ended")]
    Ended,
}

impl From<TransactionError> for RequestError {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Refused(reply) => Self::Refused(reply),
            TransactionError::TimedOut(_) => Self::Unanswered,
            TransactionError::NotConnected => Self::NotConnected,
            TransactionError::Lost(_) => Self::Lost,
            TransactionError::TooMany => Self::TooMany,
            TransactionError::Ended => Self::Ended,
        }
    }
}
