//! State of one association in the task, besides the protocol's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use carrick_proto::{
    AssociationId, CloseReason, Endpoint as Core, Event, Message, SendError, SendFailure, Time,
    UnsentMessage,
};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::association::{HandleChannels, Notification, RecvItem};
use crate::close_report::AssociationEnd;
use crate::command::{AssociationEnded, OutgoingMessage};
use crate::lazy::{self, LazySender};
use crate::shared::SharedState;

/// Maximum number of messages that are passed to a handle at once: larger blocks of memory would come from the system,
/// and return to it, each time.
const MESSAGES_AT_ONCE: usize = 64;

pub(super) struct AssociationEntry {
    pub(super) shared: Arc<SharedState>,
    deliveries: LazySender<mpsc::UnboundedSender<RecvItem>, mpsc::UnboundedReceiver<RecvItem>>,
    events: LazySender<mpsc::Sender<Box<Notification>>, mpsc::Receiver<Box<Notification>>>,
    /// Capacity of the queue of notifications.
    notifications: usize,
    /// Number of notifications discarded since the last one that was queued.
    lagged: u64,
    /// Messages that wait for room in the protocol's send buffer.
    waiting: VecDeque<OutgoingMessage>,
    /// The user has requested a shutdown; it begins when no message waits.
    shutdown_wanted: bool,
    /// Callers that wait for the end.
    ends: Vec<oneshot::Sender<()>>,
    /// Callers of [`SendHalf::flushed`](crate::SendHalf::flushed).
    flushes: Vec<oneshot::Sender<Result<(), AssociationEnded>>>,
    /// Received messages are discarded.
    pub(super) discard: bool,
    /// Time at which the association is aborted.
    pub(super) lingers_until: Option<Time>,
    pub(super) closed: bool,
    /// The association was aborted because it was not shut down in time.
    pub(super) timed_out: bool,
}

impl AssociationEntry {
    pub(super) fn new(shared: SharedState, notifications: usize) -> (Self, HandleChannels) {
        let (deliveries, deliveries_out) = lazy::channel();
        let (events, events_out) = lazy::channel();
        let entry = Self {
            shared: Arc::new(shared),
            deliveries,
            events,
            notifications,
            lagged: 0,
            waiting: VecDeque::new(),
            shutdown_wanted: false,
            ends: Vec::new(),
            flushes: Vec::new(),
            discard: false,
            lingers_until: None,
            closed: false,
            timed_out: false,
        };
        let channels = HandleChannels {
            deliveries: deliveries_out,
            events: events_out,
        };
        (entry, channels)
    }

    /// Passes messages to the protocol, after those that wait.
    pub(super) fn send(
        &mut self,
        core: &mut Core,
        now: Time,
        id: AssociationId,
        messages: impl IntoIterator<Item = OutgoingMessage>,
    ) {
        let is_first = self.waiting.is_empty();
        self.waiting.extend(messages);
        if self.closed {
            // The sender had room before the end.
            self.refuse_waiting();
        } else if is_first {
            self.send_waiting(core, now, id);
        }
    }

    /// Passes waiting messages to the protocol as far as there is room; then begins the shutdown if
    /// requested.
    pub(super) fn send_waiting(&mut self, core: &mut Core, now: Time, id: AssociationId) {
        while let Some(out) = self.waiting.front() {
            match core.send(now, id, out.options, out.data.clone()) {
                Err(SendError::BufferFull) => return,
                result => self.answer_first(result),
            }
        }
        self.answer_flushes(core, id);
        // A sender that took room before it was closed sends its message soon.
        if self.shutdown_wanted && self.shared.send_credit.is_whole() {
            self.shutdown_wanted = false;
            // An association that has ended meanwhile has reported that.
            let _ = core.shutdown(now, id);
        }
    }

    /// Answers when the peer has acknowledged all messages.
    pub(super) fn flush(
        &mut self,
        core: &Core,
        id: AssociationId,
        answer: oneshot::Sender<Result<(), AssociationEnded>>,
    ) {
        if self.closed {
            // The handles have the reason.
            return drop(answer.send(Err(AssociationEnded)));
        }
        // Dropped futures need no answer.
        self.flushes.retain(|answer| !answer.is_closed());
        self.flushes.push(answer);
        self.answer_flushes(core, id);
    }

    /// Answers [`SendHalf::flushed`](crate::SendHalf::flushed) if the peer has acknowledged all messages.
    pub(super) fn answer_flushes(&mut self, core: &Core, id: AssociationId) {
        if self.flushes.is_empty() || !self.waiting.is_empty() {
            return;
        }
        // Messages sent after the event may be outstanding.
        let stats = core.association(id).map(|a| a.stats());
        if stats.is_none_or(|s| s.queued_messages > 0 || s.outstanding_chunks > 0) {
            return;
        }
        for answer in self.flushes.drain(..) {
            // The caller may have dropped its future.
            let _ = answer.send(Ok(()));
        }
    }

    fn refuse_waiting(&mut self) {
        while !self.waiting.is_empty() {
            self.answer_first(Err(SendError::UnknownAssociation));
        }
    }

    fn answer_first(&mut self, result: Result<(), SendError>) {
        let Some(out) = self.waiting.pop_front() else {
            return;
        };
        drop(out.permit);
        match (out.answer, result) {
            // The future of a cancelled send() was dropped.
            (Some(answer), result) => drop(answer.send(result)),
            (None, Ok(())) => {}
            (None, Err(_)) => self.notify(Event::from(SendFailure {
                context: out.options.context,
                stream: out.options.stream,
                ppid: out.options.ppid,
                sent: false,
                unsent: UnsentMessage(vec![out.data]),
                delivered: Vec::new(),
                expired: false,
                abandoned: None,
            })),
        }
    }

    /// Shuts down after the waiting messages were sent.
    pub(super) fn shutdown(
        &mut self,
        core: &mut Core,
        now: Time,
        id: AssociationId,
        answer: Option<oneshot::Sender<()>>,
    ) {
        if let Some(answer) = answer {
            self.await_end(answer);
        }
        self.shared.refuse_messages();
        self.shutdown_wanted = true;
        self.send_waiting(core, now, id);
    }

    /// Answers when the association has ended. The handles have the reason.
    pub(super) fn await_end(&mut self, answer: oneshot::Sender<()>) {
        if self.closed {
            // The caller may have dropped its future.
            let _ = answer.send(());
            return;
        }
        if self.ends.len() == self.ends.capacity() {
            // Dropped futures need no answer.
            self.ends.retain(|answer| !answer.is_closed());
        }
        self.ends.push(answer);
    }

    /// Queues a notification, or counts it as discarded if the queue is full or has no memory.
    pub(super) fn notify(&mut self, event: Event) {
        if let Event::SendFailed(failure) = &event
            && failure.abandoned.is_none()
            && !failure.expired
        {
            self.shared.undelivered.fetch_add(1, Ordering::Release);
        }
        let limit = self.notifications;
        let Some(events) = self.events.open(|| mpsc::channel(limit)) else {
            return;
        };
        if self.lagged > 0 {
            let lagged = Notification::Lagged(self.lagged);
            if events.try_send(Box::new(lagged)).is_err() {
                self.lagged += 1;
                return;
            }
            self.lagged = 0;
        }
        if !self.shared.add_notification(&event) {
            self.lagged += 1;
            return;
        }
        let Err(refused) = events.try_send(Box::new(Notification::Event(event))) else {
            return;
        };
        self.lagged += u64::from(matches!(refused, TrySendError::Full(_)));
        let (TrySendError::Full(refused) | TrySendError::Closed(refused)) = refused;
        if let Notification::Event(event) = &*refused {
            self.shared.remove_notification(event);
        }
    }

    /// Passes messages to the handles as far as there is room, all of them if `all`, or discards them. Returns
    /// true if there are no more now.
    pub(super) fn deliver(&mut self, core: &mut Core, id: AssociationId, all: bool) -> bool {
        let mut messages = Vec::new();
        while self.discard || all || self.shared.receive_queue.has_room() {
            let Some(message) = core.receive(id) else {
                self.pass_to_handle(messages);
                return true;
            };
            self.shared.receive_queue.add(&message);
            if !self.discard {
                messages.push(message);
                if messages.len() == MESSAGES_AT_ONCE {
                    self.pass_to_handle(std::mem::take(&mut messages));
                }
            }
        }
        self.pass_to_handle(messages);
        // Without a reader all are discarded.
        self.discard && self.deliver(core, id, all)
    }

    /// Discards the messages if there is no handle that reads any.
    fn pass_to_handle(&mut self, messages: Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        let deliveries = self.deliveries.open(mpsc::unbounded_channel);
        self.discard = deliveries.is_none_or(|d| d.send(RecvItem::Messages(messages)).is_err());
    }

    /// Discards partial messages after a restart of the peer.
    pub(super) fn restarted(&mut self) {
        // Without a receiver, or before the first message, there is nothing to discard.
        if let Some(deliveries) = self.deliveries.opened() {
            let _ = deliveries.send(RecvItem::Restarted);
        }
    }

    /// Records the end of the association; received messages may still wait for the user.
    pub(super) fn close(&mut self, reason: &CloseReason) {
        self.closed = true;
        self.refuse_waiting();
        self.shared.lagged.store(self.lagged, Ordering::Release);
        // The association ends only once.
        let _ = self.shared.ended.set(reason.clone());
        self.shared.send_credit.close();
        for answer in self.flushes.drain(..) {
            let _ = answer.send(Err(AssociationEnded));
        }
        for answer in self.ends.drain(..) {
            // The caller may have dropped its future.
            let _ = answer.send(());
        }
    }

    /// Returns the end for the report of the endpoint, after the last message was passed on or discarded.
    pub(super) fn report(&self, reason: CloseReason) -> AssociationEnd {
        AssociationEnd {
            peer_addresses: self.shared.peer_addresses.to_vec(),
            peer_port: self.shared.peer_port,
            reason,
            timed_out: self.timed_out,
            undelivered: self.shared.undelivered.load(Ordering::Acquire).into(),
            unread: if self.discard {
                self.shared.receive_queue.unread()
            } else {
                0
            },
        }
    }

    /// Reports the end after the last message was passed on.
    pub(super) fn end(self) {
        // Without a receiver there is nothing to report; without a message, the end of the channel reports
        // the end.
        if let (Some(deliveries), Some(reason)) =
            (self.deliveries.opened(), self.shared.ended.get())
        {
            let _ = deliveries.send(RecvItem::End(reason.clone()));
        }
    }
}
