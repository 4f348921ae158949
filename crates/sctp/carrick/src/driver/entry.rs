//! State of one association in the task, besides the protocol's.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use carrick_proto::{
    AssociationId, CloseReason, Endpoint as Core, Event, Message, SendError, SendFailure, Time,
    UnsentMessage,
};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::association::{Inbox, Notification, RecvItem};
use crate::close_report::AssociationEnd;
use crate::command::{AssociationEnded, OutgoingMessage};
use crate::lazy::{self, LazySender};
use crate::shared::SharedState;

/// Maximum number of messages that are passed to a handle at once: larger blocks of memory would come from the system,
/// and return to it, each time.
const MESSAGES_AT_ONCE: usize = 64;

/// Handles that a program has of an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handles {
    /// A program receives the messages, or will when it has accepted the association.
    Receiving,
    /// The receiver was dropped: received messages are discarded.
    Sending,
    /// All were dropped: the association shuts down.
    Dropped,
}

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
    /// A shutdown has begun on either side, or is wanted. The handles' flag may be set by a call whose command is refused.
    refuses_messages: bool,
    /// Callers that wait for the end.
    ends: Vec<oneshot::Sender<()>>,
    /// Callers of [`SendHalf::flushed`](crate::SendHalf::flushed).
    flushes: Vec<oneshot::Sender<Result<(), AssociationEnded>>>,
    pub(super) handles: Handles,
    /// Time at which the association is aborted.
    pub(super) lingers_until: Option<Time>,
    /// Reason of the end.
    closed: Option<CloseReason>,
    /// The association was aborted because it was not shut down in time.
    pub(super) timed_out: bool,
    /// The endpoint is handed over: the handles get nothing more.
    recalled: Option<Box<Recalled>>,
}

/// Received messages and notifications that the handles have not received, for a successor.
#[derive(Default)]
struct Recalled {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "no handover fills it")
    )]
    unread: Vec<RecvItem>,
    notifications: Vec<Notification>,
}

impl AssociationEntry {
    pub(super) fn new(mut shared: SharedState, notifications: usize) -> Self {
        let (deliveries, inbox) = lazy::channel();
        let (events, notification_queue) = lazy::channel();
        shared.inbox = Mutex::new(Inbox::new(inbox));
        shared.notification_queue = Mutex::new(notification_queue);
        Self {
            shared: Arc::new(shared),
            deliveries,
            events,
            notifications,
            lagged: 0,
            waiting: VecDeque::new(),
            shutdown_wanted: false,
            refuses_messages: false,
            ends: Vec::new(),
            flushes: Vec::new(),
            handles: Handles::Receiving,
            lingers_until: None,
            closed: None,
            timed_out: false,
            recalled: None,
        }
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
        if self.is_closed() {
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
        if self.is_closed() {
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

    /// Refuses new messages because a shutdown has begun.
    pub(super) fn refuse_messages(&mut self) {
        self.refuses_messages = true;
        self.shared.refuse_messages();
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
        self.refuse_messages();
        self.shutdown_wanted = true;
        self.send_waiting(core, now, id);
    }

    /// Answers when the association has ended. The handles have the reason.
    pub(super) fn await_end(&mut self, answer: oneshot::Sender<()>) {
        if self.is_closed() {
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
        if let Some(recalled) = &mut self.recalled {
            return recalled.notifications.push(Notification::Event(event));
        }
        let limit = self.notifications;
        let Some(events) = self.events.open(|| mpsc::channel(limit)) else {
            return;
        };
        if self.lagged > 0 {
            let lagged = Notification::Lagged(self.lagged);
            if events.try_send(Box::new(lagged)).is_err() {
                self.lagged = self.lagged.saturating_add(1);
                return;
            }
            self.lagged = 0;
        }
        if !self.shared.add_notification(&event) {
            self.lagged = self.lagged.saturating_add(1);
            return;
        }
        let Err(refused) = events.try_send(Box::new(Notification::Event(event))) else {
            return;
        };
        let discarded = u64::from(matches!(refused, TrySendError::Full(_)));
        self.lagged = self.lagged.saturating_add(discarded);
        let (TrySendError::Full(refused) | TrySendError::Closed(refused)) = refused;
        if let Notification::Event(event) = &*refused {
            self.shared.remove_notification(event);
        }
    }

    /// Passes messages to the handles as far as there is room, all of them if `all`, or discards them. Returns
    /// true if there are no more now.
    pub(super) fn deliver(&mut self, core: &mut Core, id: AssociationId, all: bool) -> bool {
        if self.recalled.is_some() {
            // They are the successor's.
            return false;
        }
        let mut messages = Vec::new();
        while self.discards() || all || self.shared.receive_queue.has_room() {
            let Some(message) = core.receive(id) else {
                self.pass_to_handle(messages);
                return true;
            };
            self.shared.receive_queue.add(&message);
            if !self.discards() {
                messages.push(message);
                if messages.len() == MESSAGES_AT_ONCE {
                    self.pass_to_handle(std::mem::take(&mut messages));
                }
            }
        }
        self.pass_to_handle(messages);
        // Without a reader all are discarded.
        self.discards() && self.deliver(core, id, all)
    }

    /// Discards the messages if there is no handle that reads any.
    fn pass_to_handle(&mut self, messages: Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        let deliveries = self.deliveries.open(mpsc::unbounded_channel);
        if deliveries.is_none_or(|d| d.send(RecvItem::Messages(messages)).is_err()) {
            self.discard();
        }
    }

    /// Returns whether the association has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Returns the reason of the end.
    pub(super) fn end_reason(&self) -> Option<&CloseReason> {
        self.closed.as_ref()
    }

    /// Returns whether received messages are discarded.
    pub(super) fn discards(&self) -> bool {
        self.handles != Handles::Receiving
    }

    /// Discards received messages from now on.
    pub(super) fn discard(&mut self) {
        if self.handles == Handles::Receiving {
            self.handles = Handles::Sending;
        }
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
        self.closed = Some(reason.clone());
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
            unread: if self.discards() {
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
        if let (Some(deliveries), Some(reason)) = (self.deliveries.opened(), self.closed) {
            let _ = deliveries.send(RecvItem::End(reason));
        }
    }
}

#[cfg(target_os = "linux")]
pub(super) use handover::ended_state;

#[cfg(target_os = "linux")]
mod handover {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use carrick_proto::{AssociationId, CloseReason, Time};
    use tokio::sync::mpsc;

    use super::{AssociationEntry, Handles, Recalled};
    use crate::association::{Notification, RecvItem};
    use crate::command::OutgoingMessage;
    use crate::handover::{AssociationState, WaitingMessage};
    use crate::shared::{SharedState, cost};

    /// Returns the state of an association that has ended, for a successor; `None` if the program has got the end.
    pub(in crate::driver) fn ended_state(
        id: AssociationId,
        (shared, reason): &(Arc<SharedState>, CloseReason),
    ) -> Option<AssociationState> {
        let unread = {
            // One lock: the program may be receiving the end.
            let mut inbox = shared.inbox();
            (!inbox.is_ended()).then(|| inbox.hand_over(&shared.unread()))
        };
        unread.map(|unread| AssociationState {
            unread,
            notifications: shared.take_notifications(),
            lagged: shared.lagged.swap(0, Ordering::AcqRel),
            ended: Some(reason.clone()),
            ..idle_state(id, shared)
        })
    }

    /// Returns the state of an association without messages and notifications.
    fn idle_state(id: AssociationId, shared: &SharedState) -> AssociationState {
        AssociationState {
            id,
            handles: Handles::Receiving,
            is_accepted: shared.receive_queue.is_accepted(),
            peer_addresses: shared.peer_addresses.to_vec(),
            peer_port: shared.peer_port,
            user_data: shared.user_data().clone(),
            unread: Vec::new(),
            notifications: Vec::new(),
            lagged: 0,
            waiting: Vec::new(),
            refuses_messages: false,
            shutdown_wanted: false,
            lingers_for: None,
            ended: None,
            timed_out: false,
            undelivered: shared.undelivered.load(Ordering::Acquire),
        }
    }

    impl AssociationEntry {
        /// Takes back what the handles have not received, and then lets senders and operations fail because the endpoint is
        /// handed over: a program that drops its handles for that reason discards nothing.
        pub(in crate::driver) fn stop_handles(&mut self) {
            let unread = self.shared.inbox().hand_over(&self.shared.unread());
            let notifications = self.shared.take_notifications();
            self.recalled = Some(Box::new(Recalled {
                unread,
                notifications,
            }));
            // An association that has ended keeps its reason.
            let _ = self.shared.ended.set(CloseReason::HandedOver);
            self.shared.send_credit.close();
        }

        /// Returns the state for a successor, after [`Self::stop_handles`].
        ///
        /// A message whose sender waits for the answer of the protocol was not accepted: it is not in the state.
        pub(in crate::driver) fn hand_over(self, id: AssociationId, now: Time) -> AssociationState {
            let shared = Arc::clone(&self.shared);
            let waiting = self.waiting.into_iter().filter(|out| out.answer.is_none());
            let waiting = waiting.map(|out| WaitingMessage {
                options: out.options,
                data: out.data,
            });
            let recalled = *self.recalled.unwrap_or_default();
            // With the senders dropped at the end, waiting receivers get the reason.
            AssociationState {
                unread: recalled.unread,
                notifications: recalled.notifications,
                handles: self.handles,
                lagged: self.lagged,
                waiting: waiting.collect(),
                refuses_messages: self.refuses_messages,
                shutdown_wanted: self.shutdown_wanted,
                lingers_for: self.lingers_until.map(|at| at.since(now)),
                ended: self.closed,
                timed_out: self.timed_out,
                ..idle_state(id, &shared)
            }
        }

        /// Continues with the state of a predecessor.
        pub(in crate::driver) fn resume(&mut self, state: AssociationState, now: Time) {
            self.handles = state.handles;
            *self.shared.user_data() = state.user_data;
            if state.is_accepted {
                // Messages are delivered when the state is complete.
                self.shared.receive_queue.accept();
            }
            for item in state.unread {
                if let RecvItem::Messages(messages) = &item {
                    for message in messages {
                        self.shared.receive_queue.add(message);
                    }
                }
                if let Some(deliveries) = self.deliveries.open(mpsc::unbounded_channel) {
                    // The handle exists.
                    let _ = deliveries.send(item);
                }
            }
            for notification in state.notifications {
                match notification {
                    Notification::Event(event) => self.notify(event),
                    Notification::Lagged(count) => self.lagged = self.lagged.saturating_add(count),
                }
            }
            self.lagged = self.lagged.saturating_add(state.lagged);
            for WaitingMessage { options, data } in state.waiting {
                let permit = self.shared.send_credit.take_free(cost(data.len()));
                self.waiting.push_back(OutgoingMessage {
                    data,
                    options,
                    permit,
                    answer: None,
                });
            }
            if state.refuses_messages {
                self.refuse_messages();
            }
            self.shutdown_wanted = state.shutdown_wanted;
            self.lingers_until = state.lingers_for.map(|time| now + time);
            self.timed_out = state.timed_out;
            if let Some(reason) = state.ended {
                self.close(&reason);
            }
            // Notifications of messages that were not delivered are among the above.
            self.shared
                .undelivered
                .store(state.undelivered, Ordering::Release);
        }
    }
}
