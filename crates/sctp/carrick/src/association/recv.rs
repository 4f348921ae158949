//! Receiving messages and notifications.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use carrick_proto::{CloseReason, Event, Message};
use tokio::sync::mpsc;

use super::{EndpointLink, Notification, RecvItem};
use crate::assembly::Assembly;
use crate::command::Command;
use crate::error::{RecvError, TryRecvError};
use crate::lazy::{LazyReceiver, NeverOpened};
use crate::shared::SharedState;

/// Receives messages.
pub struct RecvHalf {
    pub(super) link: Arc<EndpointLink>,
    pub(super) deliveries: LazyReceiver<mpsc::UnboundedReceiver<RecvItem>>,
    /// Messages of the last item, in their order.
    pub(super) ready: std::vec::IntoIter<Message>,
    pub(super) assembly: Assembly,
    pub(super) end: Option<CloseReason>,
    pub(super) events: Option<Events>,
    /// The last item of the `Stream` was returned.
    pub(super) streamed: bool,
    /// The peer has restarted.
    pub(super) has_restarted: bool,
}

/// Receives notifications.
pub struct Events {
    pub(super) shared: Arc<SharedState>,
    pub(super) queue: LazyReceiver<mpsc::Receiver<Box<Notification>>>,
    pub(super) ended: bool,
}

impl RecvHalf {
    /// Returns the next message; `None` after the association was shut down gracefully and all its
    /// messages were received.
    ///
    /// A message is whole unless it is larger than the receive buffer and [`Config::unread_memory`](crate::Config::unread_memory)
    /// has no room for its parts; of such a message the parts are delivered, marked in [`Message::part`]. A restart of the peer discards a message of which only a part has arrived.
    ///
    /// Cancel-safe: when this future is dropped before it is ready, nothing is lost.
    ///
    /// # Errors
    /// The association ended, not gracefully. Messages that arrived before are received first.
    pub async fn recv(&mut self) -> Result<Option<Message>, RecvError> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    pub(super) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Message>, RecvError>> {
        loop {
            if let Some(message) = self.next_ready() {
                return Poll::Ready(Ok(Some(message)));
            }
            if self.end.is_some() {
                return Poll::Ready(self.at_end());
            }
            let delivery = match ready!(self.deliveries.poll_opened(cx)) {
                Some(deliveries) => ready!(deliveries.poll_recv(cx)),
                None => self.end_without_messages(),
            };
            self.take(delivery.ok_or(RecvError::EndpointClosed)?);
        }
    }

    /// Waits for a message, then takes it and those that are queued behind it, at most `limit` together, and
    /// appends them to `messages`. Returns their number; 0 at the end of the association, as [`Self::recv`]
    /// returns `None`, and if `limit` is 0. See there for messages in parts.
    ///
    /// Cancel-safe: when this future is dropped before it is ready, nothing is lost.
    ///
    /// # Errors
    /// The association ended, not gracefully. Messages that arrived before are received first.
    pub async fn recv_many(
        &mut self,
        messages: &mut Vec<Message>,
        limit: usize,
    ) -> Result<usize, RecvError> {
        if limit == 0 {
            return Ok(0);
        }
        let Some(first) = self.recv().await? else {
            return Ok(0);
        };
        let queued = messages.len();
        messages.push(first);
        while messages.len() - queued < limit
            && let Ok(message) = self.try_recv()
        {
            messages.push(message);
        }
        Ok(messages.len() - queued)
    }

    /// Returns the next message if one is queued. See [`Self::recv`] for messages in parts.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if no message is queued, [`TryRecvError::Finished`] after a graceful
    /// end, and the reason after another end.
    pub fn try_recv(&mut self) -> Result<Message, TryRecvError> {
        loop {
            if let Some(message) = self.next_ready() {
                return Ok(message);
            }
            if self.end.is_some() {
                return self.at_end()?.ok_or(TryRecvError::Finished);
            }
            let delivery = match self.deliveries.try_opened() {
                Ok(None) => return Err(TryRecvError::Empty),
                Ok(Some(deliveries)) => match deliveries.try_recv() {
                    Ok(delivery) => Some(delivery),
                    Err(mpsc::error::TryRecvError::Empty) => return Err(TryRecvError::Empty),
                    Err(mpsc::error::TryRecvError::Disconnected) => None,
                },
                Err(NeverOpened) => self.end_without_messages(),
            };
            self.take(delivery.ok_or(RecvError::EndpointClosed)?);
        }
    }

    /// Returns the end of an association whose channel was dropped before it was opened.
    fn end_without_messages(&self) -> Option<RecvItem> {
        self.link.shared.ended.get().cloned().map(RecvItem::End)
    }

    /// Takes an item when no message is ready.
    fn take(&mut self, delivery: RecvItem) {
        match delivery {
            RecvItem::Messages(messages) => self.ready = messages.into_iter(),
            RecvItem::Restarted => {
                self.assembly.clear(&self.link.shared.unread());
                self.has_restarted = true;
            }
            RecvItem::End(reason) => {
                // The program gets it after the last message, or drops the handle.
                let _ = self.link.shared.end();
                self.end = Some(reason);
            }
        }
    }

    /// Returns the next message, whole or of a kind that is delivered in parts, of those that are ready.
    fn next_ready(&mut self) -> Option<Message> {
        for message in self.ready.by_ref() {
            if self.link.shared.receive_queue.remove(&message) {
                self.link.command(Command::Resume(self.link.id));
            }
            let whole = self.assembly.take(message, &self.link.shared.unread());
            if whole.is_some() {
                return whole;
            }
        }
        None
    }

    fn at_end(&self) -> Result<Option<Message>, RecvError> {
        match &self.end {
            Some(CloseReason::Shutdown) | None => Ok(None),
            Some(reason) => Err(RecvError::Ended(reason.clone())),
        }
    }

    /// Waits until the association has ended, and returns the reason, as [`SendHalf::closed`](crate::SendHalf::closed) does.
    pub async fn closed(&self) -> CloseReason {
        self.link.closed().await
    }

    /// Returns why the association has ended, as [`SendHalf::close_reason`](crate::SendHalf::close_reason) does.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.link.shared.end().cloned()
    }

    /// Returns the next notification; `None` after the last one ([`Event::Closed`]), and after
    /// [`Self::take_events`].
    ///
    /// Cancel-safe.
    pub async fn next_event(&mut self) -> Option<Notification> {
        self.events.as_mut()?.next().await
    }

    /// Takes the receiver of notifications, to wait for them and for messages at the same time; `None`
    /// after the first call.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take()
    }
}

impl Drop for RecvHalf {
    fn drop(&mut self) {
        self.assembly.clear(&self.link.shared.unread());
        if self.end.is_none() {
            self.link.command(Command::Discard(self.link.id));
        }
    }
}

impl Events {
    /// Returns the next notification; `None` after the last one ([`Event::Closed`]).
    ///
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Notification> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        if let Some(queue) = ready!(self.queue.poll_opened(cx))
            && let Some(notification) = ready!(queue.poll_recv(cx))
        {
            if let Notification::Event(event) = &*notification {
                self.shared.remove_notification(event);
            }
            return Poll::Ready(Some(*notification));
        }
        let lagged = self.shared.lagged.swap(0, Ordering::AcqRel);
        if lagged > 0 {
            return Poll::Ready(Some(Notification::Lagged(lagged)));
        }
        let Some(reason) = self.shared.end() else {
            return Poll::Ready(None);
        };
        if std::mem::replace(&mut self.ended, true) {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Notification::Event(Event::Closed(reason.clone()))))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Nothing is queued any more when the notifications are counted as discarded.
        self.queue = LazyReceiver::Gone;
        self.shared.clear_notifications();
    }
}

impl fmt::Debug for RecvHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvHalf")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
