//! One connection: a task that reads, a task that writes, and what the core keeps of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::core::{CYCLE, Input};
use crate::middlebox::{SessionId, Source};
use crate::transport::{Link, MessageReader, MessageWriter, Packet};

/// Messages on their way to the writer.
const OUTBOX: usize = 256;

/// How long what is left may take to go out when a session is over.
const LINGER: Duration = Duration::from_secs(5);

/// What the core keeps of a connection. When it is dropped, what was given to the writer goes out,
/// then the connection is closed.
pub(super) struct Connection {
    outbox: mpsc::Sender<Packet>,
    blocked: Arc<AtomicBool>,
    closing: Arc<Notify>,
    aborting: Arc<Notify>,
    /// The reader may go on: all replies to what it read are with the writer.
    answered: Arc<Notify>,
    /// What came and is not handled yet.
    waiting: VecDeque<Packet>,
    /// When the last of it came; the reader waits until it is answered.
    arrived: Option<Instant>,
    /// Nothing more comes: with the last reply the connection ends.
    read_ended: bool,
    reader: AbortHandle,
    /// Its session is over, and what is left goes out.
    ending: bool,
    pub(super) source: Option<Source>,
    /// Its graceful end waits for the peer.
    pub(super) lingers: bool,
    /// The peer's address for people.
    pub(super) peer: String,
}

/// Room for a message in the outbox.
pub(super) enum Room<'a> {
    /// One message may be sent.
    Free(mpsc::Permit<'a, Packet>),
    /// Not now: the core is told when there is.
    None,
    /// Never again.
    Gone,
}

impl Connection {
    /// Starts both tasks.
    pub(super) fn start(session: SessionId, link: Link, core: &mpsc::Sender<Input>) -> Self {
        let (outbox, to_send) = mpsc::channel(OUTBOX);
        let blocked = Arc::new(AtomicBool::new(false));
        let closing = Arc::new(Notify::new());
        let aborting = Arc::new(Notify::new());
        let answered = Arc::new(Notify::new());
        let lingers = link.writer.lingers();
        let reader = Reader {
            session,
            half: link.reader,
            core: core.clone(),
            answered: Arc::clone(&answered),
        };
        let reader = tokio::spawn(reader.run());
        let writer = Writer {
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
            waiting: VecDeque::new(),
            arrived: None,
            read_ended: false,
            reader: reader.abort_handle(),
            ending: false,
            source: link.address.map(Source::of),
            lingers,
            peer: link.peer,
        }
    }

    pub(super) fn room(&self) -> Room<'_> {
        // Once more after the mark was set: the writer may have made room just before.
        for mark in [true, false] {
            match self.outbox.try_reserve() {
                Ok(permit) => return Room::Free(permit),
                Err(TrySendError::Closed(())) => return Room::Gone,
                Err(TrySendError::Full(())) if mark => self.blocked.store(true, Ordering::SeqCst),
                Err(TrySendError::Full(())) => {}
            }
        }
        Room::None
    }

    /// Messages came, which wait to be handled.
    pub(super) fn came(&mut self, arrived: Instant, messages: Vec<Packet>) {
        self.arrived = Some(arrived);
        self.waiting.extend(messages);
    }

    /// The next message to handle.
    pub(super) fn next_message(&mut self) -> Option<Packet> {
        self.waiting.pop_front()
    }

    /// Whether messages wait to be handled.
    pub(super) fn has_messages(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// When what was handled last came.
    pub(super) fn arrived(&self) -> Instant {
        self.arrived.unwrap_or_else(Instant::now)
    }

    /// All that came is handled, and all that waited for this connection is with the writer: the reader
    /// may read on, once. Returns whether more may come.
    pub(super) fn answered(&mut self) -> bool {
        if self.arrived.take().is_some() {
            self.answered.notify_one();
        }
        !self.read_ended
    }

    /// Nothing more comes; what is left has [`LINGER`] to go out.
    pub(super) fn read_ended(&mut self) {
        self.read_ended = true;
        self.closing.notify_one();
    }

    /// The session is over: what is left has [`LINGER`] to go out.
    pub(super) fn end(&mut self) {
        self.ending = true;
        self.closing.notify_one();
    }

    /// The connection is given up: it ends at once, and its place in the transport is free.
    pub(super) fn abort(&mut self) {
        self.ending = true;
        self.aborting.notify_one();
    }

    /// Whether its session is over.
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

struct Reader {
    session: SessionId,
    half: Box<dyn MessageReader>,
    core: mpsc::Sender<Input>,
    answered: Arc<Notify>,
}

impl Reader {
    /// Reads on when what it read is answered and the writer has the answers: an agent that does
    /// not take its replies is not read from, and waits in its transport.
    async fn run(mut self) {
        let session = self.session;
        loop {
            let mut came = Vec::new();
            let end = self.half.read(&mut came).await.err();
            let arrived = Instant::now();
            let mut came = came.into_iter();
            while came.len() > 0 {
                let messages = came.by_ref().take(CYCLE).collect();
                let input = Input::Messages {
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
                // Without a core there is nobody to tell.
                let _ = self.core.send(Input::ReadEnd(session, badly_formed)).await;
                return;
            }
        }
    }
}

struct Writer {
    session: SessionId,
    half: Box<dyn MessageWriter>,
    to_send: mpsc::Receiver<Packet>,
    blocked: Arc<AtomicBool>,
    core: mpsc::Sender<Input>,
}

impl Writer {
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
        // Without a core there is nobody to tell.
        let _ = core.send(Input::Written(session)).await;
    }

    async fn write(&mut self) {
        let mut batch = Vec::new();
        while self.to_send.recv_many(&mut batch, OUTBOX).await > 0 {
            let room = self.blocked.swap(false, Ordering::SeqCst);
            if room && self.core.send(Input::Room(self.session)).await.is_err() {
                return;
            }
            if self.half.write(&mut batch).await.is_err() {
                return;
            }
        }
        self.half.close().await;
    }
}
