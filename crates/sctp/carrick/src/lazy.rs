//! Channels that are allocated with the first value.
//!
//! A channel starts with a block for 32 values. Most associations of a large server are idle, so the
//! channels to their handles are created with the first value.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

/// The sending end, whose channel may not exist yet.
#[derive(Debug)]
pub(crate) struct LazySender<S, R> {
    sender: Option<S>,
    opening: Option<oneshot::Sender<R>>,
}

/// The receiving end.
#[derive(Debug)]
pub(crate) enum LazyReceiver<R> {
    /// The channel does not exist yet.
    Waiting(oneshot::Receiver<R>),
    Open(R),
    /// The channel will never exist.
    Gone,
}

pub(crate) fn channel<S, R>() -> (LazySender<S, R>, LazyReceiver<R>) {
    let (opening, opened) = oneshot::channel();
    let outlet = LazySender {
        sender: None,
        opening: Some(opening),
    };
    (outlet, LazyReceiver::Waiting(opened))
}

impl<S, R> LazySender<S, R> {
    /// Returns the channel and creates it if necessary; `None` if the receiver was dropped.
    pub(crate) fn open(&mut self, make: impl FnOnce() -> (S, R)) -> Option<&S> {
        if let Some(opening) = self.opening.take() {
            let (sender, receiver) = make();
            self.sender = opening.send(receiver).is_ok().then_some(sender);
        }
        self.sender.as_ref()
    }

    /// Returns the channel if a value was sent.
    pub(crate) fn opened(&self) -> Option<&S> {
        self.sender.as_ref()
    }
}

impl<R> LazyReceiver<R> {
    /// Returns the channel as soon as it exists; `None` if it never will.
    pub(crate) fn poll_opened(&mut self, cx: &mut Context<'_>) -> Poll<Option<&mut R>> {
        if let Self::Waiting(opened) = self {
            let opened = ready!(Pin::new(opened).poll(cx));
            *self = opened.map_or(Self::Gone, Self::Open);
        }
        Poll::Ready(self.now())
    }

    /// Returns the channel if it exists now; `Err` if it never will.
    pub(crate) fn try_opened(&mut self) -> Result<Option<&mut R>, NeverOpened> {
        if let Self::Waiting(opened) = self {
            match opened.try_recv() {
                Ok(receiver) => *self = Self::Open(receiver),
                Err(oneshot::error::TryRecvError::Empty) => return Ok(None),
                Err(oneshot::error::TryRecvError::Closed) => *self = Self::Gone,
            }
        }
        self.now().map(Some).ok_or(NeverOpened)
    }

    fn now(&mut self) -> Option<&mut R> {
        match self {
            Self::Open(receiver) => Some(receiver),
            Self::Waiting(_) | Self::Gone => None,
        }
    }
}

/// The channel will never exist.
#[derive(Debug)]
pub(crate) struct NeverOpened;
