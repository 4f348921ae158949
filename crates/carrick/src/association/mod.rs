//! The handles of one association.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use carrick_proto::{
    AssociationId, AssociationStats, CloseReason, Endpoint as Core, Event, Message, PathId,
    PathStats, PathThresholds, SendError as Refusal, SendOptions, StreamId, StreamStats, Time,
};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use crate::assembly::Assembly;
use crate::command::{Command, Commands, Outgoing};
use crate::error::{OperationError, ReconfigError, RecvError, SendError, TrySendError};
use crate::lazy::{Inlet, Never};
use crate::room::{NoRoom, Permit};
use crate::shared::{Shared, cost};

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
    /// [`Event::SendBufferFree`] and [`Event::AllAcknowledged`] are not told; [`Event::Closed`] is the
    /// last one.
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

/// Sends messages and controls the association. Clones send on the same association.
#[derive(Clone)]
pub struct SendHalf {
    link: Arc<Link>,
}

/// Receives messages.
pub struct RecvHalf {
    link: Arc<Link>,
    deliveries: Inlet<mpsc::UnboundedReceiver<Delivery>>,
    assembly: Assembly,
    end: Option<CloseReason>,
    events: Option<Events>,
}

/// Receives notifications.
pub struct Events {
    shared: Arc<Shared>,
    queue: Inlet<mpsc::Receiver<Box<Notification>>>,
    ended: bool,
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

impl SendHalf {
    /// Sends a message: waits until there is room for it, then queues it as a whole. What this took
    /// is delivered by a [`Self::shutdown`] that follows, also of another handle; what is not
    /// delivered, because the peer shuts down or the association breaks, is told by
    /// [`Event::SendFailed`].
    ///
    /// Senders get room in the order in which they ask for it. One that waits holds its place, also
    /// while nobody polls it: don't await another `send` with this one pending in the same task, but
    /// poll both, or give each a task.
    ///
    /// Cancel-safe: when this future is dropped before it is ready, the message was not queued, or
    /// was as a whole; the latter only when `options.path` is set or the association does not
    /// fragment, because then the protocol is asked whether it takes the message.
    ///
    /// # Errors
    /// The message does not fit the association, or the association takes none any more.
    pub async fn send(
        &self,
        data: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<(), SendError> {
        let data = data.into();
        self.check(&data, &options)?;
        let shared = &self.link.shared;
        let taken = shared.room.take(cost(data.len())).await;
        let permit = taken.map_err(|_| self.link.refusal())?;
        if options.path.is_none() && shared.fragments {
            return self.queue(data, options, permit, None);
        }
        let (answer, answered) = oneshot::channel();
        self.queue(data, options, permit, Some(answer))?;
        match answered.await {
            Ok(taken) => Ok(taken?),
            Err(_) => Err(self.link.refusal()),
        }
    }

    /// Sends a message if there is room for it now. What [`Self::send`] asks the protocol about is
    /// not checked here; [`Event::SendFailed`] tells if the protocol refuses the message.
    ///
    /// # Errors
    /// There is no room, the message does not fit the association, or the association takes none
    /// any more.
    pub fn try_send(
        &self,
        data: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<(), TrySendError> {
        let data = data.into();
        self.check(&data, &options)?;
        let shared = &self.link.shared;
        match shared.room.try_take(cost(data.len())) {
            Ok(permit) => Ok(self.queue(data, options, permit, None)?),
            Err(NoRoom::Full) => Err(TrySendError::Full(data)),
            Err(NoRoom::Closed) => Err(self.link.refusal().into()),
        }
    }

    fn check(&self, data: &Bytes, options: &SendOptions) -> Result<(), SendError> {
        let shared = &self.link.shared;
        if let Some(reason) = shared.ended.get() {
            return Err(SendError::Ended(reason.clone()));
        }
        if shared.shutting_down.load(Ordering::Acquire) {
            return Err(Refusal::ShuttingDown.into());
        }
        if data.is_empty() {
            return Err(Refusal::Empty.into());
        }
        let streams = shared.outbound_streams.load(Ordering::Acquire);
        if options.stream.0 >= streams {
            return Err(Refusal::InvalidStream { streams }.into());
        }
        Ok(())
    }

    fn queue(
        &self,
        data: Bytes,
        options: SendOptions,
        permit: Permit,
        answer: Option<oneshot::Sender<Result<(), Refusal>>>,
    ) -> Result<(), SendError> {
        let message = Outgoing {
            data,
            options,
            permit,
            answer,
        };
        self.link
            .commands
            .send(Command::Send(self.link.id, message))
            .map_err(|_| SendError::EndpointClosed)
    }

    /// Shuts the association down: takes no new messages, waits until all messages of both sides
    /// are delivered (RFC 9260 section 9.2). Those of the peer must be received meanwhile if they
    /// exceed the receive buffer, and can be received afterwards if not.
    ///
    /// When this future is dropped, the shutdown goes on.
    ///
    /// # Errors
    /// The association ended otherwise.
    pub async fn shutdown(&self) -> Result<(), OperationError> {
        match self.link.shared.ended.get() {
            Some(CloseReason::Shutdown) => return Ok(()),
            Some(reason) => return Err(OperationError::Ended(reason.clone())),
            None => {}
        }
        self.link.shared.refuse_messages();
        let (answer, answered) = oneshot::channel();
        self.link.tell(Command::Shutdown(self.link.id, answer));
        answered
            .await
            .unwrap_or(Err(OperationError::EndpointClosed))
    }

    /// Ends the association at once and gives the reason to the peer (RFC 9260 section 9.1); the
    /// first 1024 bytes of it are sent. What has not been delivered is lost.
    pub fn abort(&self, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        self.link.tell(Command::Abort(self.link.id, reason));
    }

    /// The state of the association with its counters.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn stats(&self) -> Result<AssociationStats, OperationError> {
        let stats = self.link.work(|core, _, id| core.association_stats(id));
        stats.await?.ok_or_else(|| self.link.unknown())
    }

    /// The counters of one of this side's streams; all zero for one that does not exist.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn stream_stats(&self, stream: StreamId) -> Result<StreamStats, OperationError> {
        let stats = self.link.work(move |core, _, id| {
            core.association_stats(id)
                .map(|_| core.stream_stats(id, stream).unwrap_or_default())
        });
        stats.await?.ok_or_else(|| self.link.unknown())
    }

    /// The paths in their order, with their counters.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn paths(&self) -> Result<Vec<PathStats>, OperationError> {
        let paths = self.link.work(|core, _, id| core.paths(id).collect());
        let paths: Vec<PathStats> = paths.await?;
        if paths.is_empty() {
            return Err(self.link.unknown());
        }
        Ok(paths)
    }

    /// New data goes to this path while it works.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn set_primary(&self, path: PathId) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_primary(now, id, path))
            .await
    }

    /// Asks the peer to send to this address of ours (RFC 5061 section 5.4).
    ///
    /// # Errors
    /// The association has ended or has no dynamic addresses, or the endpoint has no such address.
    pub async fn set_peer_primary(&self, address: IpAddr) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_peer_primary(now, id, address))
            .await
    }

    /// Turns heartbeats on an idle path on or off.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn set_heartbeat(&self, path: PathId, enabled: bool) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_heartbeat(now, id, path, enabled))
            .await
    }

    /// Sends a heartbeat on a path now.
    ///
    /// # Errors
    /// The association has ended or is shutting down, or there is no such path.
    pub async fn request_heartbeat(&self, path: PathId) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.request_heartbeat(now, id, path))
            .await
    }

    /// Sets Path.Max.Retrans of a path.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn set_failure_threshold(
        &self,
        path: PathId,
        threshold: u32,
    ) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_failure_threshold(now, id, path, threshold))
            .await
    }

    /// Lets the protocol try to re-configure streams.
    pub(crate) async fn reconfigure(
        &self,
        work: impl FnOnce(&mut Core, Time, AssociationId) -> Result<(), carrick_proto::ReconfigError>
        + Send
        + 'static,
    ) -> Result<(), ReconfigError> {
        match self.link.work(work).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(carrick_proto::ReconfigError::UnknownAssociation)) => {
                Err(match self.link.shared.ended.get() {
                    Some(reason) => ReconfigError::Ended(reason.clone()),
                    None => carrick_proto::ReconfigError::UnknownAssociation.into(),
                })
            }
            Ok(Err(e)) => Err(e.into()),
            Err(_) => Err(ReconfigError::EndpointClosed),
        }
    }

    /// Sets when a path is potentially failed and inactive, and when a primary is given up: of one
    /// path, or of all present and future ones (RFC 7829 section 7.2).
    ///
    /// # Errors
    /// The association has ended, there is no such path, or the thresholds contradict each other.
    pub async fn set_path_thresholds(
        &self,
        path: Option<PathId>,
        thresholds: PathThresholds,
    ) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_path_thresholds(now, id, path, thresholds))
            .await
    }

    /// The thresholds of one path, or those that new paths get.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn path_thresholds(
        &self,
        path: Option<PathId>,
    ) -> Result<PathThresholds, OperationError> {
        let read = self.link.work(move |core, _, id| {
            let exists = core.association_stats(id).is_some();
            (exists, core.path_thresholds(id, path))
        });
        match read.await? {
            (_, Some(thresholds)) => Ok(thresholds),
            (true, None) => Err(carrick_proto::OperationError::UnknownPath.into()),
            (false, None) => Err(self.link.unknown()),
        }
    }

    /// Whether notifications and [`Self::paths`] show that paths are potentially failed (RFC 7829
    /// section 7.3).
    ///
    /// # Errors
    /// The association has ended.
    pub async fn set_expose_potentially_failed(&self, expose: bool) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_expose_potentially_failed(now, id, expose))
            .await
    }

    /// Lets the endpoint's task look into the protocol.
    pub(crate) async fn work<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Time, AssociationId) -> R + Send + 'static,
    ) -> Result<R, OperationError> {
        self.link.work(work).await
    }

    /// How the association ended, if it has.
    pub(crate) fn end(&self) -> Option<CloseReason> {
        self.link.shared.ended.get().cloned()
    }

    pub(crate) async fn operate(
        &self,
        work: impl FnOnce(&mut Core, Time, AssociationId) -> Result<(), carrick_proto::OperationError>
        + Send
        + 'static,
    ) -> Result<(), OperationError> {
        match self.link.work(work).await? {
            Ok(()) => Ok(()),
            Err(carrick_proto::OperationError::UnknownAssociation) => Err(self.link.unknown()),
            Err(e) => Err(e.into()),
        }
    }

    /// The peer's addresses at the set-up, one a path.
    pub fn peer_addresses(&self) -> &[IpAddr] {
        &self.link.shared.peer_addresses
    }

    /// The peer's SCTP port.
    pub fn peer_port(&self) -> u16 {
        self.link.shared.peer_port
    }

    /// Streams to send on: 0 to this number less one.
    pub fn outbound_streams(&self) -> u16 {
        self.link.shared.outbound_streams.load(Ordering::Acquire)
    }

    /// Streams that the peer may send on.
    pub fn inbound_streams(&self) -> u16 {
        self.link.shared.inbound_streams.load(Ordering::Acquire)
    }
}

impl RecvHalf {
    /// The next message; `None` after the association was shut down gracefully and all its messages
    /// were received.
    ///
    /// A message is whole unless it is larger than [`crate::Config::assembly_limit`]; of such ones
    /// the parts are delivered, marked in [`Message::part`]. A restart of the peer drops a message
    /// that has only come in part.
    ///
    /// Cancel-safe: when this future is dropped before it is ready, nothing is lost.
    ///
    /// # Errors
    /// The association ended otherwise. What arrived before was received before.
    pub async fn recv(&mut self) -> Result<Option<Message>, RecvError> {
        while self.end.is_none() {
            let delivery = match self.deliveries.opened().await {
                Some(deliveries) => deliveries.recv().await,
                None => self.end_without_messages(),
            };
            let delivery = delivery.ok_or(RecvError::EndpointClosed)?;
            if let Some(message) = self.take(delivery) {
                return Ok(Some(message));
            }
        }
        self.at_end()
    }

    /// The next message if it is there now; see [`Self::recv`]. `Ok(None)` also says that there is
    /// none now.
    ///
    /// # Errors
    /// The association ended other than gracefully.
    pub fn try_recv(&mut self) -> Result<Option<Message>, RecvError> {
        while self.end.is_none() {
            let delivery = match self.deliveries.try_opened() {
                Ok(None) => return Ok(None),
                Ok(Some(deliveries)) => match deliveries.try_recv() {
                    Ok(delivery) => Some(delivery),
                    Err(TryRecvError::Empty) => return Ok(None),
                    Err(TryRecvError::Disconnected) => None,
                },
                Err(Never) => self.end_without_messages(),
            };
            let delivery = delivery.ok_or(RecvError::EndpointClosed)?;
            if let Some(message) = self.take(delivery) {
                return Ok(Some(message));
            }
        }
        self.at_end()
    }

    /// The task has given up the channel before anything was sent.
    fn end_without_messages(&self) -> Option<Delivery> {
        self.link.shared.ended.get().cloned().map(Delivery::End)
    }

    fn take(&mut self, delivery: Delivery) -> Option<Message> {
        match delivery {
            Delivery::Message(message) => {
                if self.link.shared.incoming.remove(&message) {
                    self.link.tell(Command::Resume(self.link.id));
                }
                self.assembly.take(message)
            }
            Delivery::Restarted => {
                self.assembly.clear();
                None
            }
            Delivery::End(reason) => {
                self.end = Some(reason);
                None
            }
        }
    }

    fn at_end(&self) -> Result<Option<Message>, RecvError> {
        match &self.end {
            Some(CloseReason::Shutdown) | None => Ok(None),
            Some(reason) => Err(RecvError::Ended(reason.clone())),
        }
    }

    /// The next notification; `None` after the last one ([`Event::Closed`]), and when
    /// [`Self::take_events`] was called.
    ///
    /// Cancel-safe.
    pub async fn next_event(&mut self) -> Option<Notification> {
        self.events.as_mut()?.next().await
    }

    /// Takes the notifications apart, to wait for them and for messages at the same time.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take()
    }
}

impl Drop for RecvHalf {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.link.tell(Command::Discard(self.link.id));
        }
    }
}

impl Events {
    /// The next notification; `None` after the last one ([`Event::Closed`]).
    ///
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Notification> {
        if let Some(queue) = self.queue.opened().await
            && let Some(notification) = queue.recv().await
        {
            return Some(*notification);
        }
        let lagged = self.shared.lagged.swap(0, Ordering::AcqRel);
        if lagged > 0 {
            return Some(Notification::Lagged(lagged));
        }
        let reason = self.shared.ended.get()?;
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        Some(Notification::Event(Event::Closed(reason.clone())))
    }
}
