//! State that the handles of one association share with the endpoint's task: atomic values, and locks for
//! what is rarely counted.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use carrick_proto::{CloseReason, Event, Extensions, Message, Payload, SourceKey};

use crate::association::{Inbox, Notification, NotificationQueue};
use crate::config::Transport;
use crate::lazy::LazyReceiver;
use crate::send_credit::SendCredit;
use crate::unread_memory::{NotificationMemory, SourceMemory, UnreadMemory};

/// Cost of a message in the send queue besides its bytes, so that the number of messages is
/// bounded too.
const MESSAGE_COST: usize = 64;

/// State of one association that its handles and the task share.
#[derive(Debug)]
pub(crate) struct SharedState {
    /// Room in the send queue, in bytes. Closed when the association shuts down or has ended.
    pub(crate) send_credit: Arc<SendCredit>,
    /// Outbound streams; a restart may change them.
    pub(crate) outbound_streams: AtomicU16,
    pub(crate) inbound_streams: AtomicU16,
    /// A shutdown has begun on either side: no new messages.
    pub(crate) shutting_down: AtomicBool,
    /// Reason of the end; handles read it with [`Self::end`].
    pub(crate) ended: OnceLock<CloseReason>,
    /// A handle has returned an end that was not graceful to the program.
    pub(crate) end_returned: AtomicBool,
    /// Number of messages that were not delivered, without those that were abandoned.
    pub(crate) undelivered: AtomicU32,
    /// Notifications that were lost at the end, when none could follow.
    pub(crate) lagged: AtomicU64,
    /// The endpoint is handed over: what handles discard from now on is the successor's.
    pub(crate) handed_over: Arc<AtomicBool>,
    pub(crate) peer_addresses: Box<[IpAddr]>,
    pub(crate) peer_port: u16,
    /// Extensions that both sides offered.
    pub(crate) extensions: Extensions,
    /// True if messages larger than a packet are accepted.
    pub(crate) fragments: bool,
    /// Transport of the endpoint; `None` over DTLS.
    pub(crate) transport: Option<Transport>,
    /// Fingerprint of the peer's certificate.
    #[cfg(feature = "dtls")]
    pub(crate) fingerprint: Option<carrick_dtls::Fingerprint>,
    pub(crate) receive_queue: ReceiveQueue,
    pub(crate) inbox: Mutex<Inbox>,
    pub(crate) notification_queue: Mutex<NotificationQueue>,
    /// Data of the program.
    user_data: Mutex<Bytes>,
    /// Memory of all associations of the endpoint.
    pub(crate) unread_memory: Arc<UnreadMemory>,
    pub(crate) notifications: NotificationMemory,
}

impl SharedState {
    pub(crate) fn new(
        send_queue: usize,
        receive_queue: ReceiveQueue,
        unread_memory: Arc<UnreadMemory>,
        peer: (Vec<IpAddr>, u16),
        fragments: bool,
        transport: Option<Transport>,
    ) -> Self {
        Self {
            send_credit: SendCredit::new(u32::try_from(send_queue).unwrap_or(u32::MAX)),
            outbound_streams: AtomicU16::new(0),
            inbound_streams: AtomicU16::new(0),
            shutting_down: AtomicBool::new(false),
            ended: OnceLock::new(),
            end_returned: AtomicBool::new(false),
            undelivered: AtomicU32::new(0),
            lagged: AtomicU64::new(0),
            handed_over: Arc::default(),
            peer_addresses: peer.0.into(),
            peer_port: peer.1,
            extensions: Extensions::default(),
            fragments,
            transport,
            #[cfg(feature = "dtls")]
            fingerprint: None,
            receive_queue,
            inbox: Mutex::new(Inbox::new(LazyReceiver::Gone)),
            notification_queue: Mutex::new(LazyReceiver::Gone),
            user_data: Mutex::default(),
            unread_memory,
            notifications: NotificationMemory::default(),
        }
    }

    /// Returns the messages that the program has not received.
    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        lock(&self.inbox)
    }

    /// Returns the notifications that the program has not received.
    pub(crate) fn notification_queue(&self) -> MutexGuard<'_, NotificationQueue> {
        lock(&self.notification_queue)
    }

    /// Returns the next notification; `None` if no other one will be queued.
    pub(crate) fn poll_notification(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Box<Notification>>> {
        let mut queue = self.notification_queue();
        let Some(queue) = ready!(queue.poll_opened(cx)) else {
            return Poll::Ready(None);
        };
        let notification = ready!(queue.poll_recv(cx));
        if let Some(Notification::Event(event)) = notification.as_deref() {
            self.remove_notification(event);
        }
        Poll::Ready(notification)
    }

    /// Takes the notifications that the program has not received. For the task.
    #[cfg(target_os = "linux")]
    pub(crate) fn take_notifications(&self) -> Vec<Notification> {
        let mut queue = self.notification_queue();
        let mut taken = Vec::new();
        if let Ok(Some(queue)) = queue.try_opened() {
            taken.extend(std::iter::from_fn(|| queue.try_recv().ok()).map(|boxed| *boxed));
        }
        taken
    }

    /// Returns the data of the program.
    pub(crate) fn user_data(&self) -> MutexGuard<'_, Bytes> {
        lock(&self.user_data)
    }

    /// Returns the source of the peer: its first address is the one that returned the State Cookie, or
    /// the one connected to.
    pub(crate) fn source(&self) -> SourceKey {
        let address = self.peer_addresses.first().copied();
        SourceKey::of(address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()))
    }

    /// Returns the account of the peer's source in the memory for what is not received yet.
    pub(crate) fn unread(&self) -> SourceMemory<'_> {
        self.unread_memory.of(self.source())
    }

    /// Counts a notification that is queued. Returns false if there is no memory for it. For the task.
    pub(crate) fn add_notification(&self, event: &Event) -> bool {
        self.notifications.add(event, &self.unread())
    }

    /// Counts a notification that has left the queue.
    pub(crate) fn remove_notification(&self, event: &Event) {
        self.notifications.remove(event, &self.unread());
    }

    /// Counts all notifications as discarded. For the user.
    pub(crate) fn clear_notifications(&self) {
        self.notifications.clear(&self.unread());
    }

    /// Returns why the association has ended, for a handle that returns it to the program.
    pub(crate) fn end(&self) -> Option<&CloseReason> {
        let reason = self.ended.get()?;
        if *reason != CloseReason::Shutdown {
            self.end_returned.store(true, Ordering::Release);
        }
        Some(reason)
    }

    /// Returns whether the endpoint is handed over. The task sets this before any handle gets the reason.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::SeqCst)
    }

    /// Returns whether a handle has returned an end that was not graceful to the program.
    pub(crate) fn end_was_returned(&self) -> bool {
        self.end_returned.load(Ordering::Acquire)
    }

    /// Refuses new messages because a shutdown has begun. Senders that have room already can still send.
    pub(crate) fn refuse_messages(&self) {
        self.shutting_down.store(true, Ordering::Release);
        self.send_credit.close();
    }

    pub(crate) fn set_streams(&self, outbound: u16, inbound: u16) {
        self.outbound_streams.store(outbound, Ordering::Release);
        self.inbound_streams.store(inbound, Ordering::Release);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it has the lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the cost of a message in the send queue.
pub(crate) fn cost(bytes: usize) -> u32 {
    u32::try_from(bytes.saturating_add(MESSAGE_COST)).unwrap_or(u32::MAX)
}

/// Memory that a part of a payload costs besides its bytes: a peer may send very small ones.
const PIECE_COST: usize = 128;

/// Returns the memory that a payload takes.
pub(crate) fn memory(payload: &Payload) -> usize {
    payload.len() + payload.pieces().count() * PIECE_COST
}

/// Counts the messages that the task has passed on and the user has not received.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    max_messages: usize,
    max_bytes: usize,
    /// A program has accepted the association. Until then messages stay in the protocol, which limits the
    /// memory of all peers together.
    accepted: AtomicBool,
    /// The task has more and waits for room.
    waiting: AtomicBool,
}

impl ReceiveQueue {
    pub(crate) fn new(max_messages: usize, max_bytes: usize) -> Self {
        Self {
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            max_messages,
            max_bytes,
            accepted: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
        }
    }

    /// Accepts the association. Returns true if the task has to be asked for messages. For the user.
    pub(crate) fn accept(&self) -> bool {
        self.accepted.store(true, Ordering::SeqCst);
        self.waiting.swap(false, Ordering::SeqCst)
    }

    /// Returns whether a program has accepted the association. For the task.
    pub(crate) fn is_accepted(&self) -> bool {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Returns the number of messages that the user has not taken, those included that were discarded. For
    /// the task.
    pub(crate) fn unread(&self) -> u64 {
        self.messages.load(Ordering::SeqCst) as u64
    }

    fn is_full(&self) -> bool {
        !self.accepted.load(Ordering::SeqCst)
            || self.messages.load(Ordering::SeqCst) >= self.max_messages
            || self.bytes.load(Ordering::SeqCst) >= self.max_bytes
    }

    /// Returns true if another message may be passed on; otherwise the user will ask for more. For the
    /// task.
    pub(crate) fn has_room(&self) -> bool {
        if !self.is_full() {
            return true;
        }
        self.waiting.store(true, Ordering::SeqCst);
        // The user may have taken the last message before the task's flag was visible.
        let room = !self.is_full();
        if room {
            self.waiting.store(false, Ordering::SeqCst);
        }
        room
    }

    /// Counts a message that is passed on or discarded. For the task.
    pub(crate) fn add(&self, message: &Message) {
        self.messages.fetch_add(1, Ordering::SeqCst);
        self.bytes
            .fetch_add(memory(&message.payload), Ordering::SeqCst);
    }

    /// Counts a message that was taken. Returns true if the task has to be asked for more. For the user.
    pub(crate) fn remove(&self, message: &Message) -> bool {
        let length = memory(&message.payload);
        let messages = self.messages.fetch_sub(1, Ordering::SeqCst) - 1;
        let bytes = self.bytes.fetch_sub(length, Ordering::SeqCst) - length;
        messages <= self.max_messages / 2
            && bytes <= self.max_bytes / 2
            && self.waiting.load(Ordering::SeqCst)
            && self.waiting.swap(false, Ordering::SeqCst)
    }
}
