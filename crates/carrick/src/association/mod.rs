//! The handles of one association.
//!
//! - `send`: messages that leave, and the end
//! - `control`: its state, and what can be changed about it
//! - `recv`: messages and notifications that arrive

mod control;
mod recv;
mod send;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use carrick_proto::{
    AssociationId, AssociationStats, CloseReason, Endpoint as Core, Event, Message, PathId,
    PathStats, SendError as Refusal, SendOptions, StreamId, StreamStats, Time,
};
use tokio::sync::{mpsc, oneshot};

use crate::assembly::Assembly;
use crate::command::{Command, Commands};
use crate::error::{OperationError, RecvError, SendError, TrySendError};
use crate::lazy::Inlet;
use crate::shared::Shared;
pub use recv::{Events, RecvHalf};
pub use send::SendHalf;

/// What the endpoint's task hands to [`RecvHalf`].
pub(crate) enum Delivery {
    Message(Message),
    /// The peer restarted; messages that were begun will not be finished.
    Restarted,
    End(CloseReason),
}

/// A notification about an association (RFC 9260 section 11.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// Something happened. [`Event::Established`], [`Event::MessageReceived`],
    /// [`Event::SendBufferFree`] and [`Event::AllAcknowledged`] are not told (see
    /// [`SendHalf::flushed`]); [`Event::Closed`] is the last one.
    Event(Event),
    /// This many notifications were lost here, because nobody read those before them.
    Lagged(u64),
}

/// Connects the handles of one association to the endpoint's task, which hears when the last is gone.
struct Link {
    id: AssociationId,
    commands: Commands,
    shared: Arc<Shared>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tell(Command::Release(self.id));
    }
}

impl Link {
    /// Tells the task something. If the task has ended there is nothing to do any more.
    fn tell(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Lets the task look into the protocol.
    async fn work<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Time, AssociationId) -> R + Send + 'static,
    ) -> Result<R, OperationError> {
        let (answer, answered) = oneshot::channel();
        let id = self.id;
        self.tell(Command::Work(Box::new(move |core, now| {
            // Whoever asked may have lost interest.
            let _ = answer.send(work(core, now, id));
        })));
        answered.await.map_err(|_| OperationError::EndpointClosed)
    }

    fn refusal(&self) -> SendError {
        match self.shared.ended.get() {
            Some(reason) => SendError::Ended(reason.clone()),
            None if self.shared.shutting_down.load(Ordering::Acquire) => {
                Refusal::ShuttingDown.into()
            }
            None => SendError::EndpointClosed,
        }
    }

    fn unknown(&self) -> OperationError {
        match self.shared.ended.get() {
            Some(reason) => OperationError::Ended(reason.clone()),
            None => carrick_proto::OperationError::UnknownAssociation.into(),
        }
    }
}

/// An association: both halves and its notifications. See the crate's documentation for what ends
/// when it is dropped.
pub struct Association {
    send: SendHalf,
    recv: RecvHalf,
}

/// The ends of an association's channels that belong to the handles.
pub(crate) struct Channels {
    pub(crate) deliveries: Inlet<mpsc::UnboundedReceiver<Delivery>>,
    pub(crate) events: Inlet<mpsc::Receiver<Box<Notification>>>,
}

impl Association {
    pub(crate) fn new(
        id: AssociationId,
        commands: Commands,
        shared: Arc<Shared>,
        channels: Channels,
        assembly_limit: usize,
    ) -> Self {
        let events = Events {
            shared: Arc::clone(&shared),
            queue: channels.events,
            ended: false,
        };
        let link = Arc::new(Link {
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
                assembly: Assembly::new(assembly_limit),
                end: None,
                events: Some(events),
            },
        }
    }

    /// A program has the handle: the task may hand over messages.
    pub(crate) fn accept(&self) {
        let link = &self.recv.link;
        if link.shared.incoming.accept() {
            link.tell(Command::Resume(link.id));
        }
    }

    /// Takes the two halves apart, for two tasks.
    pub fn split(self) -> (SendHalf, RecvHalf) {
        (self.send, self.recv)
    }

    /// The half that sends, for another task; this handle goes on as before.
    pub fn sender(&self) -> SendHalf {
        self.send.clone()
    }

    /// See [`SendHalf::send`].
    ///
    /// # Errors
    /// See there.
    pub async fn send(
        &self,
        data: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<(), SendError> {
        self.send.send(data, options).await
    }

    /// See [`SendHalf::try_send`].
    ///
    /// # Errors
    /// See there.
    pub fn try_send(
        &self,
        data: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<(), TrySendError> {
        self.send.try_send(data, options)
    }

    /// See [`RecvHalf::recv`].
    ///
    /// # Errors
    /// See there.
    pub async fn recv(&mut self) -> Result<Option<Message>, RecvError> {
        self.recv.recv().await
    }

    /// See [`RecvHalf::next_event`].
    pub async fn next_event(&mut self) -> Option<Notification> {
        self.recv.next_event().await
    }

    /// See [`RecvHalf::take_events`].
    pub fn take_events(&mut self) -> Option<Events> {
        self.recv.take_events()
    }

    /// See [`SendHalf::flushed`].
    ///
    /// # Errors
    /// See there.
    pub async fn flushed(&self) -> Result<(), OperationError> {
        self.send.flushed().await
    }

    /// See [`SendHalf::shutdown`].
    ///
    /// # Errors
    /// See there.
    pub async fn shutdown(&self) -> Result<(), OperationError> {
        self.send.shutdown().await
    }

    /// See [`SendHalf::abort`].
    pub fn abort(&self, reason: &[u8]) {
        self.send.abort(reason);
    }

    /// See [`SendHalf::stats`].
    ///
    /// # Errors
    /// See there.
    pub async fn stats(&self) -> Result<AssociationStats, OperationError> {
        self.send.stats().await
    }

    /// See [`SendHalf::stream_stats`].
    ///
    /// # Errors
    /// See there.
    pub async fn stream_stats(&self, stream: StreamId) -> Result<StreamStats, OperationError> {
        self.send.stream_stats(stream).await
    }

    /// See [`SendHalf::paths`].
    ///
    /// # Errors
    /// See there.
    pub async fn paths(&self) -> Result<Vec<PathStats>, OperationError> {
        self.send.paths().await
    }

    /// See [`SendHalf::set_primary`].
    ///
    /// # Errors
    /// See there.
    pub async fn set_primary(&self, path: PathId) -> Result<(), OperationError> {
        self.send.set_primary(path).await
    }

    /// See [`SendHalf::set_peer_primary`].
    ///
    /// # Errors
    /// See there.
    pub async fn set_peer_primary(&self, address: IpAddr) -> Result<(), OperationError> {
        self.send.set_peer_primary(address).await
    }

    /// See [`SendHalf::peer_addresses`].
    pub fn peer_addresses(&self) -> &[IpAddr] {
        self.send.peer_addresses()
    }

    /// See [`SendHalf::peer_fingerprint`].
    #[cfg(feature = "dtls")]
    pub fn peer_fingerprint(&self) -> Option<carrick_dtls::Fingerprint> {
        self.send.peer_fingerprint()
    }

    /// See [`SendHalf::peer_port`].
    pub fn peer_port(&self) -> u16 {
        self.send.peer_port()
    }

    /// See [`SendHalf::outbound_streams`].
    pub fn outbound_streams(&self) -> u16 {
        self.send.outbound_streams()
    }

    /// See [`SendHalf::inbound_streams`].
    pub fn inbound_streams(&self) -> u16 {
        self.send.inbound_streams()
    }
}
