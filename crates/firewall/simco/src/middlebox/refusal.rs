//! Refusals of requests about policy rules.

use crate::backend::BackendError;
use crate::message::NegativeReply;

/// Negative reply, with the error of the backend if that caused it.
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
