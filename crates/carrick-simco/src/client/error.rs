//! What can go wrong for a client.

use super::session::AskError;
use crate::agent::CloseReason;
use crate::message::NegativeReply;

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The middlebox is not reached.
    #[error("cannot connect to {target}: {why}")]
    Connect {
        /// Where it should be.
        target: String,
        /// What the system or the transport says.
        why: String,
    },
    /// It is reached, but there is no session with it.
    #[error("no session: {0}")]
    Session(CloseReason),
    /// The system gave no random numbers.
    #[error("the system's random number generator failed: {0}")]
    Random(String),
    /// The client was ended.
    #[error("the client has ended")]
    Ended,
}

/// Why a request did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The middlebox refused it.
    #[error("refused: {}", .0.text())]
    Refused(NegativeReply),
    /// There was no answer in time, and the questions that followed gave none either.
    #[error("no answer in time; ask for the status of the rule or list the rules")]
    Unanswered,
    /// The middlebox had no answer to the request, but says that it was not done.
    #[error("no answer in time, and the middlebox knows nothing of it: ask again")]
    NotDone,
    /// There is no session now.
    #[error("no session with the middlebox; the client is trying to connect")]
    NotConnected,
    /// The session was lost before the answer came.
    #[error("the session was lost before the answer came; list the rules to see its outcome")]
    Lost,
    /// Too many requests have no answer yet.
    #[error("too many requests have no answer yet: wait for some")]
    TooMany,
    /// The middlebox answered with what is no answer to the request.
    #[error("the middlebox's answer does not fit the request")]
    Unexpected,
    /// The client was ended.
    #[error("the client has ended")]
    Ended,
}

impl From<AskError> for RequestError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(reply) => Self::Refused(reply),
            AskError::TimedOut(_) => Self::Unanswered,
            AskError::NotConnected => Self::NotConnected,
            AskError::Lost(_) => Self::Lost,
            AskError::TooMany => Self::TooMany,
            AskError::Ended => Self::Ended,
        }
    }
}
