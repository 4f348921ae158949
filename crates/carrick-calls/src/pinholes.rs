//! What opens and closes pinholes.

use std::future::Future;

use crate::media::Opening;

/// Why a pinhole was not opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The middlebox does not want to.
    #[error("the middlebox refused: {0}")]
    Refused(String),
    /// The middlebox does not answer, or can't be reached.
    #[error("the middlebox does not answer: {0}")]
    Silent(String),
    /// The middlebox was not asked: the calls from one address have as many as they may
    /// ([`PerAddress`](crate::PerAddress)).
    #[error("the calls from this address have too many pinholes")]
    Crowded,
}

/// A middlebox, as an agent sees it.
pub trait Pinholes: Send + Sync + 'static {
    /// A pinhole that is open.
    type Held: Held;

    /// Opens a pinhole, and keeps it open until it is closed. Answers in bounded time. What is opened
    /// when nobody waits for it any more is closed.
    fn open(&self, opening: &Opening) -> impl Future<Output = Result<Self::Held, Refusal>> + Send;
}

/// A pinhole that is kept open.
pub trait Held: Send + Sync + 'static {
    /// Waits until it is no longer open although nobody closed it: somebody else ended it, or it could
    /// not be kept open. Cancel-safe.
    fn lost(&self) -> impl Future<Output = ()> + Send;

    /// Closes it. Nothing more can be done when the middlebox can't be reached: it ends by itself.
    fn close(self) -> impl Future<Output = ()> + Send;
}
