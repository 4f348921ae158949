//! `Stream` and `Sink` for the handles of an association.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use carrick_proto::{Message, SendOptions};
use futures_core::Stream;
use futures_sink::Sink;

use super::{Association, Events, Notification, RecvHalf, SendHalf};
use crate::error::{RecvError, SendError, TrySendError};

/// Messages as [`RecvHalf::recv`] returns them. After an error the stream ends.
impl Stream for RecvHalf {
    type Item = Result<Message, RecvError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.streamed {
            return Poll::Ready(None);
        }
        let next = ready!(this.poll_recv(cx)).transpose();
        this.streamed = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }
}

/// Messages as [`Association::recv`] returns them. After an error the stream ends.
impl Stream for Association {
    type Item = Result<Message, RecvError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.get_mut().recv).poll_next(cx)
    }
}

/// Notifications as [`Events::next`] returns them.
impl Stream for Events {
    type Item = Notification;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        self.get_mut().poll_event(cx)
    }
}

/// An operation of a sink that is not complete.
type PendingOperation = Pin<Box<dyn Future<Output = Result<(), SendError>> + Send>>;

/// `Sink` of messages with the same options, made by [`SendHalf::sink`].
///
/// Flushing waits until the last message is in the send queue, as [`SendHalf::send`] does; closing shuts
/// the association down, as [`SendHalf::shutdown`] does.
pub struct MessageSink {
    sender: SendHalf,
    options: SendOptions,
    /// A message that waits for room, or the shutdown.
    pending: Option<PendingOperation>,
    closing: bool,
}

impl SendHalf {
    /// Returns a `Sink` that sends each item as one message with these options.
    pub fn sink(&self, options: SendOptions) -> MessageSink {
        MessageSink {
            sender: self.clone(),
            options,
            pending: None,
            closing: false,
        }
    }
}

impl MessageSink {
    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if let Some(pending) = &mut self.pending {
            let done = ready!(pending.as_mut().poll(cx));
            self.pending = None;
            return Poll::Ready(done);
        }
        Poll::Ready(Ok(()))
    }
}

impl Sink<Bytes> for MessageSink {
    type Error = SendError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.get_mut().poll_pending(cx)
    }

    fn start_send(self: Pin<&mut Self>, message: Bytes) -> Result<(), SendError> {
        let this = self.get_mut();
        match this.sender.try_send(message, this.options) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(message)) => {
                let (sender, options) = (this.sender.clone(), this.options);
                this.pending = Some(Box::pin(async move { sender.send(message, options).await }));
                Ok(())
            }
            Err(TrySendError::Send(error)) => Err(error),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.get_mut().poll_pending(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let this = self.get_mut();
        if !this.closing {
            ready!(this.poll_pending(cx))?;
            this.closing = true;
            let sender = this.sender.clone();
            this.pending = Some(Box::pin(async move {
                let ended = sender.shutdown().await;
                ended.map_err(|_| sender.control.link.refusal())
            }));
        }
        this.poll_pending(cx)
    }
}

impl fmt::Debug for MessageSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageSink")
            .field("sender", &self.sender)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
