//! Why a request about policy rules is refused.

use crate::backend::BackendError;
use crate::message::NegativeReply;

/// A negative reply, and what the backend says, if the request failed there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) reply: NegativeReply,
    pub(super) failure: Option<BackendError>,
}

impl From<NegativeReply> for Refusal {
    fn from(reply: NegativeReply) -> Self {
        Self {
            reply,
            failure: None,
        }
    }
}

impl From<BackendError> for Refusal {
    fn from(failure: BackendError) -> Self {
        Self {
            reply: failure.reply(),
            failure: Some(failure),
        }
    }
}
