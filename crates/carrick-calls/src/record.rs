//! What is told of calls that are over.

use std::time::Duration;

use rsipstack::sip::Request;
use rsipstack::sip::prelude::{HeadersExt as _, ToTypedHeader as _};
use tokio::sync::broadcast;

use crate::call::End;

/// A call that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRecord {
    /// The Call-ID of the caller.
    pub call_id: String,
    /// The URI in From.
    pub caller: String,
    /// The URI that was called.
    pub callee: String,
    /// From INVITE to the end.
    pub lasted: Duration,
    /// From INVITE to its positive answer, if there was one.
    pub set_up: Option<Duration>,
    /// The status of its negative answer, if there was one.
    pub refused: Option<u16>,
    /// Why it was refused, or ended other than by a side. It may have text of a peer in it.
    pub reason: Option<String>,
    /// How it ended.
    pub end: CallEnd,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CallEnd {
    /// It was refused, given up, or not answered.
    NotEstablished,
    /// A side ended it.
    HungUp,
    /// A side had it no more.
    Vanished,
    /// The middlebox ended a pinhole, or lost it.
    PinholeLost,
    /// The middlebox did not open what a new offer, or an answer in an ACK, needed.
    Refused,
    /// A side sent an offer or an answer that can't be used.
    Unusable,
    /// The agent was stopped.
    Stopped,
}

impl CallEnd {
    /// Its name in logs.
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

impl From<&End> for CallEnd {
    fn from(end: &End) -> Self {
        match end {
            End::HungUp => Self::HungUp,
            End::Vanished => Self::Vanished,
            End::PinholeLost => Self::PinholeLost,
            End::Refused(_) => Self::Refused,
            End::Unusable => Self::Unusable,
            End::Stopped => Self::Stopped,
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

/// The calls that end, from the moment on at which they were asked for. Who is far behind misses some.
pub struct Records(pub(crate) broadcast::Receiver<CallRecord>);

impl Records {
    /// The next one; `None` when the agent is no more. Cancel-safe.
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
