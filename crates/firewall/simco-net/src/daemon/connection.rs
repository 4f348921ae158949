//! Connection: a reading task, a writing task, and the state that the core keeps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::core::{CYCLE, CoreInput};
use crate::transport::{MessageLink, MessageReader, MessageWriter, StreamMessage};
use carrick_simco::middlebox::{SessionId, SourceNetwork};

/// Capacity of the queue to the writer.
const OUTBOX: usize = 256;

/// Time to send the remaining messages after the end of a session.
const LINGER: Duration = Duration::from_secs(5);

/// State of a connection in the core. When it is dropped, queued messages are sent and the connection
/// is closed.
pub(super) struct Connection {
    outbox: mpsc::Sender<StreamMessage>,
    blocked: Arc<AtomicBool>,
    closing: Arc<Notify>,
    aborting: Arc<Notify>,
    /// Lets the reader continue: all replies to what it read are with the writer.
    answered: Arc<Notify>,
    /// Received messages not handled yet.
    unhandled: VecDeque<StreamMessage>,
    /// Arrival of the last of them; the reader waits until they are answered.
    arrived: Option<Instant>,
    /// True if the receiving direction has ended: the connection ends with the last reply.
    read_ended: bool,
    reader: AbortHandle,
    /// True if the session has ended and the rest is being sent.
    ending: bool,
    pub(super) source: Option<SourceNetwork>,
    /// True if its graceful end waits for the peer.
    pub(super) lingers: bool,
    /// Address of the peer for logs.
    pub(super) peer: String,
}

/// Room in the queue to the writer.
pub(super) enum OutboxRoom<'a> {
    /// One message may be queued.
    Free(mpsc::Permit<'a, StreamMessage>),
    /// Full; the core is notified when there is room.
    None,
    /// The writer has ended.
    Closed,
}

impl Connection {
    /// Starts both tasks.
    pub(super) fn start(
        session: SessionId,
        link: MessageLink,
        core: &mpsc::Sender<CoreInput>,
    ) -> Self {
        let (outbox, to_send) = mpsc::channel(OUTBOX);
        let blocked = Arc::new(AtomicBool::new(false));
        let closing = Arc::new(Notify::new());
        let aborting = Arc::new(Notify::new());
        let answered = Arc::new(Notify::new());
        let lingers = link.writer.lingers();
        let reader = ConnectionReader {
            session,
            half: link.reader,
            core: core.clone(),
            answered: Arc::clone(&answered),
        };
        let reader = tokio::spawn(reader.run());
        let writer = ConnectionWriter {
            session,
            half: link.writer,
            to_send,
            blocked: Arc::clone(&blocked),
            core: core.clone(),
        };
        tokio::spawn(writer.run(Arc::clone(&closing), Arc::clone(&aborting)));
        Self {
            outbox,
            blocked,
            closing,
            aborting,
            answered,
            unhandled: VecDeque::new(),
            arrived: None,
            read_ended: false,
            reader: reader.abort_handle(),
            ending: false,
            source: link.address.map(SourceNetwork::of),
            lingers,
            peer: link.peer,
        }
    }

    pub(super) fn room(&self) -> OutboxRoom<'_> {
        // Checked again after setting the mark: the writer may have made room just before.
        for mark in [true, false] {
            match self.outbox.try_reserve() {
                Ok(permit) => return OutboxRoom::Free(permit),
                Err(TrySendError::Closed(())) => return OutboxRoom::Closed,
                Err(TrySendError::Full(())) if mark => self.blocked.store(true, Ordering::SeqCst),
                Err(TrySendError::Full(())) => {}
            }
        }
        OutboxRoom::None
    }

    /// Adds received messages.
    pub(super) fn received(&mut self, arrived: Instant, messages: Vec<StreamMessage>) {
        self.arrived = Some(arrived);
        self.unhandled.extend(messages);
    }

    /// Returns the next message to handle.
    pub(super) fn next_message(&mut self) -> Option<StreamMessage> {
        self.unhandled.pop_front()
    }

    /// Returns whether received messages are not handled yet.
    pub(super) fn has_messages(&self) -> bool {
        !self.unhandled.is_empty()
    }

    /// Returns the arrival of the messages handled last.
    pub(super) fn arrived(&self) -> Instant {
        self.arrived.unwrap_or_else(Instant::now)
    }

    /// Lets the reader continue: all received messages are handled and the replies are with the
    /// writer. Returns whether more may arrive.
    pub(super) fn answered(&mut self) -> bool {
        if self.arrived.take().is_some() {
            self.answered.notify_one();
        }
        !self.read_ended
    }

    /// Records the end of the receiving direction; the rest has [`LINGER`] to be sent.
    pub(super) fn read_ended(&mut self) {
        self.read_ended = true;
        self.closing.notify_one();
    }

    /// Records the end of the session; the rest has [`LINGER`] to be sent.
    pub(super) fn end(&mut self) {
        self.ending = true;
        self.closing.notify_one();
    }

    /// Aborts the connection, which frees its entry in the transport.
    pub(super) fn abort(&mut self) {
        self.ending = true;
        self.aborting.notify_one();
    }

    /// Returns whether its session has ended.
    pub(super) fn is_ending(&self) -> bool {
        self.ending
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
        self.closing.notify_one();
    }
}

struct ConnectionReader {
    session: SessionId,
    half: Box<dyn MessageReader>,
    core: mpsc::Sender<CoreInput>,
    answered: Arc<Notify>,
}

impl ConnectionReader {
    /// Continues reading when the writer has the replies to what was read. An agent that does not read
    /// its replies is thus stopped by flow control.
    async fn run(mut self) {
        let session = self.session;
        loop {
            let mut received = Vec::new();
            let end = self.half.read(&mut received).await.err();
            let arrived = Instant::now();
            let mut received = received.into_iter();
            while received.len() > 0 {
                let messages = received.by_ref().take(CYCLE).collect();
                let input = CoreInput::Messages {
                    session,
                    arrived,
                    messages,
                };
                if self.core.send(input).await.is_err() {
                    return;
                }
                self.answered.notified().await;
            }
            if let Some(end) = end {
                let badly_formed = end.is_badly_formed();
                // The core may have stopped.
                let _ = self
                    .core
                    .send(CoreInput::ReadEnd(session, badly_formed))
                    .await;
                return;
            }
        }
    }
}

struct ConnectionWriter {
    session: SessionId,
    half: Box<dyn MessageWriter>,
    to_send: mpsc::Receiver<StreamMessage>,
    blocked: Arc<AtomicBool>,
    core: mpsc::Sender<CoreInput>,
}

impl ConnectionWriter {
    async fn run(mut self, closing: Arc<Notify>, aborting: Arc<Notify>) {
        let (session, core) = (self.session, self.core.clone());
        let aborted = tokio::select! {
            biased;
            () = aborting.notified() => true,
            () = self.write() => false,
            () = async {
                closing.notified().await;
                tokio::time::sleep(LINGER).await;
            } => false,
        };
        if aborted {
            self.half.abort();
        }
        // The core may have stopped.
        let _ = core.send(CoreInput::Written(session)).await;
    }

    async fn write(&mut self) {
        let mut batch = Vec::new();
        while self.to_send.recv_many(&mut batch, OUTBOX).await > 0 {
            let room = self.blocked.swap(false, Ordering::SeqCst);
            if room && self.core.send(CoreInput::Room(self.session)).await.is_err() {
                return;
            }
            if self.half.write(&mut batch).await.is_err() {
                return;
            }
        }
        self.half.close().await;
    }
}
