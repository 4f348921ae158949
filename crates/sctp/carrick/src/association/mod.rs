//! The handles of one association.
//!
//! - `send`: sending messages, shutdown and abort
//! - `control`: state and parameters
//! - `keys`, `reconfiguration`, `streams`: operations of RFC 4895, RFC 6525 and RFC 8260
//! - `recv`: receiving messages and notifications
//! - `adapters`: `Stream` and `Sink`

mod adapters;
mod control;
mod keys;
mod reconfiguration;
mod recv;
mod send;
mod streams;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use carrick_proto::{AssociationId, CloseReason, Endpoint as Core, Event, Message, Time};
use tokio::sync::{mpsc, oneshot};

use crate::assembly::Assembly;
use crate::command::{Command, Commands};
use crate::error::{OperationError, ProtocolRefusal, RecvError, SendError, TryRecvError};
use crate::lazy::LazyReceiver;
use crate::shared::SharedState;
pub use adapters::MessageSink;
pub use recv::{Events, RecvHalf};
pub use send::SendHalf;

/// Item that the endpoint's task hands to [`RecvHalf`].
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
        self.command(Command::Release(self.id));
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
        answered.await.map_err(|_| OperationError::EndpointClosed)
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

    /// Lets the task change the protocol's state.
    async fn operate<E: ProtocolRefusal + Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Time, AssociationId) -> Result<(), E> + Send + 'static,
    ) -> Result<(), OperationError> {
        let done = self.work(work).await?;
        done.map_err(|refusal| refusal.into_error().unwrap_or_else(|| self.unknown()))
    }
}

/// An association: sends and receives messages, and receives notifications.
///
/// The methods that send messages, read the state or change it are those of [`SendHalf`], which this
/// type dereferences to. [`Self::split`] gives the halves to two tasks. See the crate's documentation
/// for the effect of dropping it.
#[derive(Debug)]
pub struct Association {
    send: SendHalf,
    recv: RecvHalf,
}

/// The ends of an association's channels that belong to the handles.
pub(crate) struct HandleChannels {
    pub(crate) deliveries: LazyReceiver<mpsc::UnboundedReceiver<RecvItem>>,
    pub(crate) events: LazyReceiver<mpsc::Receiver<Box<Notification>>>,
}

impl Association {
    pub(crate) fn new(
        id: AssociationId,
        commands: Commands,
        shared: Arc<SharedState>,
        channels: HandleChannels,
    ) -> Self {
        let events = Events {
            shared: Arc::clone(&shared),
            queue: channels.events,
            ended: false,
        };
        let link = Arc::new(EndpointLink {
            id,
            commands,
            shared,
        });
        Self {
            send: SendHalf {
                link: Arc::clone(&link),
            },
            recv: RecvHalf {
                link,
                deliveries: channels.deliveries,
                ready: Vec::new().into_iter(),
                assembly: Assembly::default(),
                end: None,
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

    /// Splits the association into its halves, for two tasks.
    pub fn split(self) -> (SendHalf, RecvHalf) {
        (self.send, self.recv)
    }

    /// Returns a handle that sends, for another task. This handle keeps working.
    pub fn sender(&self) -> SendHalf {
        self.send.clone()
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

/// Sends messages, reads the state and changes it: see the methods of [`SendHalf`].
impl Deref for Association {
    type Target = SendHalf;

    fn deref(&self) -> &SendHalf {
        &self.send
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
