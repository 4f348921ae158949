//! Interface to a middlebox that opens and closes pinholes.

use std::future::Future;

use crate::media::PinholeRequest;

/// Reason for which a pinhole was not opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PinholeRefusal {
    /// The middlebox refused.
    #[error("the middlebox refused: {0}")]
    Refused(String),
    /// The middlebox did not answer or is unreachable.
    #[error("the middlebox does not answer: {0}")]
    NoAnswer(String),
    /// Not requested: the calls from one address have reached their limit
    /// ([`PerAddress`](crate::PerAddress)).
    #[error("too many pinholes for calls from this address")]
    AddressLimit,
}

/// Middlebox as seen by an agent.
pub trait Pinholes: Send + Sync + 'static {
    /// Open pinhole.
    type Held: OpenPinhole;

    /// Opens a pinhole and keeps it open until it is closed. Completes in bounded time. If the future
    /// is dropped, a pinhole that is granted later is closed.
    fn open(
        &self,
        opening: &PinholeRequest,
    ) -> impl Future<Output = Result<Self::Held, PinholeRefusal>> + Send;
}

/// Pinhole that is kept open.
pub trait OpenPinhole: Send + Sync + 'static {
    /// Waits until the pinhole is no longer open although it was not closed here: it was ended by
    /// another party or could not be refreshed. Cancel-safe.
    fn lost(&self) -> impl Future<Output = ()> + Send;

    /// Closes the pinhole. If the middlebox is unreachable, the pinhole expires.
    fn close(self) -> impl Future<Output = ()> + Send;
}
