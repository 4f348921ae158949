//! Receiving messages and notifications.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use carrick_proto::{CloseReason, Event, Message};

use super::{EndpointLink, Notification};
use crate::command::Command;
use crate::error::{RecvError, TryRecvError};
use crate::lazy::LazyReceiver;
use crate::shared::SharedState;

/// Receives messages.
pub struct RecvHalf {
    pub(super) link: Arc<EndpointLink>,
    pub(super) events: Option<Events>,
    /// The last item of the `Stream` was returned.
    pub(super) streamed: bool,
}

/// Receives notifications.
///
/// A task that prints what happens to the paths, in the words of the daemon's log:
///
/// ```
/// # use carrick::{Config, ConnectOptions, Endpoint};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let config = || Config::udp([[127, 0, 0, 1].into(), [127, 0, 0, 2].into()]).encapsulation_port(0);
/// # let (client, server) = (Endpoint::bind(config())?, Endpoint::bind(config())?);
/// # let options = ConnectOptions::new().encapsulation_port(server.encapsulation_port().ok_or("not in UDP")?);
/// # let peer = (["127.0.0.1".parse()?], server.port());
/// # let (near, far) = tokio::join!(client.connect_with(peer, options), server.accept());
/// # let (mut association, peer) = (near?, far.ok_or("no association")?.accept());
/// use carrick::{EventReport, Notification};
///
/// let mut events = association.take_events().ok_or("taken before")?;
/// let control = association.control().clone();
/// let printing = tokio::spawn(async move {
///     while let Some(notification) = events.next().await {
///         let Notification::Event(event) = notification else {
///             continue;
///         };
///         let paths = control.paths().await.unwrap_or_default();
///         let stats = control.stats().await.ok();
///         if let Some(report) = EventReport::new(&event, &paths, stats.as_ref()) {
///             println!("{report}"); // path 127.0.0.2 -> 127.0.0.2 is confirmed
///         }
///     }
/// });
/// # association.shutdown().await?;
/// # drop(peer);
/// # printing.await?;
/// # Ok(())
/// # }
/// ```
pub struct Events {
    pub(super) shared: Arc<SharedState>,
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
        self.link.shared.inbox().poll_recv(cx, &self.link)
    }

    /// Returns whether the peer has restarted.
    pub(super) fn has_restarted(&self) -> bool {
        self.link.shared.inbox().has_restarted()
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
        self.link.shared.inbox().try_recv(&self.link)
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
        let shared = &self.link.shared;
        if shared.is_handed_over() {
            // The task takes the messages back.
            return;
        }
        if shared.inbox().close(&shared.unread()) {
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
        if let Some(notification) = ready!(self.shared.poll_notification(cx)) {
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
        if self.shared.is_handed_over() {
            // The task takes the notifications back.
            return;
        }
        // Nothing is queued any more when the notifications are counted as discarded.
        *self.shared.notification_queue() = LazyReceiver::Gone;
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
