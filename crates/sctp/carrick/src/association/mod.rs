//! The handles of one association.
//!
//! - `send`: sending messages, shutdown and abort
//! - `control`: the handle for state and parameters
//! - `keys`, `reconfiguration`, `streams`: operations of RFC 4895, RFC 6525 and RFC 8260
//! - `recv`: receiving messages and notifications
//! - `inbox`: messages and notifications that the program has not received
//! - `adapters`: `Stream` and `Sink`
//! - `byte_stream`: `AsyncRead` and `AsyncWrite`

mod adapters;
mod byte_stream;
mod control;
mod inbox;
mod keys;
mod reconfiguration;
mod recv;
mod send;
mod streams;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use carrick_proto::{
    Association as CoreAssociation, AssociationId, AssociationMut, CloseReason, Endpoint as Core,
    Event, Message, SendOptions, Time,
};
use tokio::sync::oneshot;

use crate::command::{Command, Commands};
use crate::error::{OperationError, RecvError, SendError, TryRecvError, TrySendError};
use crate::shared::SharedState;
pub use adapters::MessageSink;
pub use byte_stream::ByteStream;
pub use control::AssociationControl;
pub(crate) use inbox::{Inbox, NotificationQueue};
pub use recv::{Events, RecvHalf};
pub use send::SendHalf;

/// Item that the endpoint's task hands to [`RecvHalf`].
#[derive(Debug)]
pub(crate) enum RecvItem {
    /// Messages in the order of their delivery, at least one.
    Messages(Vec<Message>),
    /// The peer restarted; messages that were begun will not be finished.
    Restarted,
    End(CloseReason),
}

/// A notification about an association (RFC 9260 section 11.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// An event of the association. [`Event::Established`], [`Event::MessageReceived`],
    /// [`Event::SendBufferFree`] and [`Event::AllAcknowledged`] are not among them (see
    /// [`SendHalf::flushed`]); [`Event::Closed`] is the last one.
    Event(Event),
    /// Number of notifications that were discarded here because the queue was full
    /// ([`Config::notifications`](crate::Config::notifications)).
    Lagged(u64),
}

/// Connection of the handles of one association with the endpoint's task. Dropping it releases the
/// association.
pub(crate) struct EndpointLink {
    id: AssociationId,
    commands: Commands,
    shared: Arc<SharedState>,
}

impl Drop for EndpointLink {
    fn drop(&mut self) {
        // The successor continues the association.
        if !self.shared.is_handed_over() {
            self.command(Command::Release(self.id));
        }
    }
}

impl EndpointLink {
    /// Sends a command to the task. If the task has ended, the command has no effect.
    fn command(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Runs a function on the protocol in the task.
    pub(crate) async fn work<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Time, AssociationId) -> R + Send + 'static,
    ) -> Result<R, OperationError> {
        let (answer, answered) = oneshot::channel();
        let id = self.id;
        self.command(Command::Work(Box::new(move |core, now| {
            // The caller may have dropped its future.
            let _ = answer.send(work(core, now, id));
        })));
        answered.await.map_err(|_| self.unknown())
    }

    fn refusal(&self) -> SendError {
        match self.shared.end() {
            Some(reason) => SendError::Ended(reason.clone()),
            None if self.shared.shutting_down.load(Ordering::Acquire) => SendError::ShuttingDown,
            None => SendError::EndpointClosed,
        }
    }

    pub(crate) fn unknown(&self) -> OperationError {
        match self.shared.end() {
            Some(reason) => OperationError::Ended(reason.clone()),
            None => OperationError::EndpointClosed,
        }
    }

    /// Waits for the end of the association.
    async fn closed(&self) -> CloseReason {
        if let Some(reason) = self.shared.end() {
            return reason.clone();
        }
        let (answer, answered) = oneshot::channel();
        self.command(Command::AwaitEnd(self.id, answer));
        // Without an answer it had ended before.
        let _ = answered.await;
        // Without a reason the task has failed.
        let reason = self.shared.end().cloned();
        reason.unwrap_or(CloseReason::LowerLayerLost)
    }

    /// Reads the association in the task.
    pub(crate) async fn read<R: Send + 'static>(
        &self,
        read: impl FnOnce(&CoreAssociation) -> R + Send + 'static,
    ) -> Result<R, OperationError> {
        let value = self.work(move |core, _, id| core.association(id).map(read));
        value.await?.ok_or_else(|| self.unknown())
    }

    /// Changes the association in the task.
    pub(crate) async fn with<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut AssociationMut<'_>) -> R + Send + 'static,
    ) -> Result<R, OperationError> {
        let done = self.work(move |core, now, id| {
            let association = core.association_mut(now, id);
            association.map(|mut association| change(&mut association))
        });
        done.await?.ok_or_else(|| self.unknown())
    }
}

/// An association: sends and receives messages, and receives notifications.
///
/// [`Self::control`] reads its state and changes it, and [`Self::split`] gives the halves to two tasks. See the
/// crate's documentation for the effect of dropping it.
///
/// A request on stream 3 and its response; the shutdown delivers what was sent before:
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
/// # let (mut association, mut peer) = (near?, far.ok_or("no association")?.accept());
/// use carrick::SendOptions;
///
/// association.send("request", SendOptions::on_stream(3)).await?;
/// # let request = peer.recv().await?.ok_or("no request")?;
/// # peer.send("response", SendOptions::on_stream(request.stream.0)).await?;
/// match association.recv().await? {
///     Some(response) => assert_eq!(response.payload.into_bytes(), "response"),
///     None => println!("the peer has shut the association down"),
/// }
/// association.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Association {
    send: SendHalf,
    recv: RecvHalf,
}

impl Association {
    pub(crate) fn new(id: AssociationId, commands: Commands, shared: Arc<SharedState>) -> Self {
        let events = Events {
            shared: Arc::clone(&shared),
            ended: false,
        };
        let link = Arc::new(EndpointLink {
            id,
            commands,
            shared,
        });
        Self {
            send: SendHalf {
                control: AssociationControl {
                    link: Arc::clone(&link),
                },
            },
            recv: RecvHalf {
                link,
                events: Some(events),
                streamed: false,
            },
        }
    }

    /// Enables the delivery of messages by the task, now that a program has the handle.
    pub(crate) fn accept(&self) {
        let link = &self.recv.link;
        if link.shared.receive_queue.accept() {
            link.command(Command::Resume(link.id));
        }
    }

    /// Returns whether the endpoint was handed over.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.recv.link.shared.is_handed_over()
    }

    /// Splits the association into its halves, for two tasks.
    pub fn split(self) -> (SendHalf, RecvHalf) {
        (self.send, self.recv)
    }

    /// Returns a handle that sends, for another task. This handle keeps working.
    pub fn sender(&self) -> SendHalf {
        self.send.clone()
    }

    /// Returns a handle that reads the state of the association and changes it.
    pub fn control(&self) -> &AssociationControl {
        self.send.control()
    }

    /// Sends a message: waits until there is room in the send queue, then queues it as a whole. See
    /// [`SendHalf::send`].
    ///
    /// # Errors
    /// The association does not take the message, or has ended.
    pub async fn send(
        &self,
        data: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<(), SendError> {
        self.send.send(data, options).await
    }

    /// Sends a message if there is room in the send queue now. See [`SendHalf::try_send`].
    ///
    /// # Errors
    /// There is no room, the association does not take the message, or it has ended.
    pub fn try_send(
        &self,
        data: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<(), TrySendError> {
        self.send.try_send(data, options)
    }

    /// Sends messages in their order. See [`SendHalf::send_many`].
    ///
    /// # Errors
    /// The association does not take the first one of the messages that are left, or has ended.
    pub async fn send_many(
        &self,
        messages: &mut VecDeque<(Bytes, SendOptions)>,
    ) -> Result<(), SendError> {
        self.send.send_many(messages).await
    }

    /// Returns a `Sink` that sends each item as one message with these options.
    pub fn sink(&self, options: SendOptions) -> MessageSink {
        self.send.sink(options)
    }

    /// Waits until all messages that were sent before are acknowledged. See [`SendHalf::flushed`].
    ///
    /// # Errors
    /// The association ended, not by a shutdown.
    pub async fn flushed(&self) -> Result<(), OperationError> {
        self.send.flushed().await
    }

    /// Shuts the association down, and waits until the messages of both sides are delivered. See
    /// [`SendHalf::shutdown`].
    ///
    /// # Errors
    /// The association ended, not by a shutdown.
    pub async fn shutdown(&self) -> Result<(), OperationError> {
        self.send.shutdown().await
    }

    /// Aborts the association: sends an ABORT with the first 1024 bytes of the reason. See [`SendHalf::abort`].
    pub fn abort(&self, reason: &[u8]) {
        self.send.abort(reason);
    }

    /// Waits until the association has ended, and returns the reason. See [`SendHalf::closed`].
    pub async fn closed(&self) -> CloseReason {
        self.send.closed().await
    }

    /// Returns why the association has ended; `None` until then.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.send.close_reason()
    }

    /// Returns the number of messages that were accepted and not acknowledged. See [`SendHalf::undelivered`].
    pub fn undelivered(&self) -> u64 {
        self.send.undelivered()
    }

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
        self.recv.recv().await
    }

    /// Returns the next message if one is queued. See [`Self::recv`] for messages in parts.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if no message is queued, [`TryRecvError::Finished`] after a graceful
    /// end, and the reason after another end.
    pub fn try_recv(&mut self) -> Result<Message, TryRecvError> {
        self.recv.try_recv()
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
        self.recv.recv_many(messages, limit).await
    }

    /// Returns the next notification; `None` after the last one ([`Event::Closed`]), and after
    /// [`Self::take_events`].
    ///
    /// Cancel-safe.
    pub async fn next_event(&mut self) -> Option<Notification> {
        self.recv.next_event().await
    }

    /// Takes the receiver of notifications, to wait for them and for messages at the same time; `None`
    /// after the first call.
    pub fn take_events(&mut self) -> Option<Events> {
        self.recv.take_events()
    }
}

impl fmt::Debug for EndpointLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("id", &self.id)
            .field("peer_addresses", &self.shared.peer_addresses)
            .field("peer_port", &self.shared.peer_port)
            .field("ended", &self.shared.ended.get())
            .finish_non_exhaustive()
    }
}
