//! Records of finished calls.

use std::time::Duration;

use rsipstack::sip::Request;
use rsipstack::sip::prelude::{HeadersExt as _, ToTypedHeader as _};
use tokio::sync::broadcast;

use crate::call::EndReason;

/// Finished call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRecord {
    /// Call-ID of the caller.
    pub call_id: String,
    /// URI in From.
    pub caller: String,
    /// Request-URI.
    pub callee: String,
    /// Time from the INVITE to the end of the call.
    pub lasted: Duration,
    /// Time from the INVITE to its positive answer, if there was one.
    pub set_up: Option<Duration>,
    /// Status of the negative answer, if there was one.
    pub refused: Option<u16>,
    /// Reason of a refusal, or of an end that neither side requested. May contain text of a peer.
    pub reason: Option<String>,
    /// Kind of end.
    pub end: CallEnd,
}

/// Kind of end of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CallEnd {
    /// Refused, cancelled or not answered.
    NotEstablished,
    /// Ended by a side.
    HungUp,
    /// A side stopped answering.
    Vanished,
    /// A pinhole was ended by the middlebox or lost.
    PinholeLost,
    /// The middlebox refused the pinholes of a new offer or of an answer in an ACK.
    Refused,
    /// A side sent an unusable offer or answer.
    Unusable,
    /// The agent was stopped.
    Stopped,
}

impl CallEnd {
    /// Returns the name used in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotEstablished => "not-established",
            Self::HungUp => "hung-up",
            Self::Vanished => "vanished",
            Self::PinholeLost => "pinhole-lost",
            Self::Refused => "refused",
            Self::Unusable => "unusable",
            Self::Stopped => "stopped",
        }
    }
}

impl From<&EndReason> for CallEnd {
    fn from(end: &EndReason) -> Self {
        match end {
            EndReason::HungUp => Self::HungUp,
            EndReason::Vanished => Self::Vanished,
            EndReason::PinholeLost => Self::PinholeLost,
            EndReason::Refused(_) => Self::Refused,
            EndReason::Unusable => Self::Unusable,
            EndReason::Stopped => Self::Stopped,
        }
    }
}

impl CallRecord {
    pub(crate) fn new(invite: &Request, lasted: Duration, end: CallEnd) -> Self {
        let call_id = invite.call_id_header().map(|id| id.value().to_owned());
        let caller = invite.from_header().and_then(|from| from.clone().typed());
        Self {
            call_id: call_id.unwrap_or_default(),
            caller: caller.map(|from| from.uri.to_string()).unwrap_or_default(),
            callee: invite.uri.to_string(),
            lasted,
            set_up: None,
            refused: None,
            reason: None,
            end,
        }
    }
}

/// Stream of finished calls. A slow reader misses records.
pub struct CallRecords(pub(crate) broadcast::Receiver<CallRecord>);

impl CallRecords {
    /// Returns the next record; `None` when the agent has stopped. Cancel-safe.
    pub async fn next(&mut self) -> Option<CallRecord> {
        loop {
            match self.0.recv().await {
                Ok(record) => return Some(record),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
