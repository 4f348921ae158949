//! Connection of an agent: passes messages between the agent's state machine and both halves of a link.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::transport::{MessageLink, MessageReader, MessageWriter, ReadEnd, StreamMessage};
use carrick_simco::Time;
use carrick_simco::agent::Agent;

/// Reading half, and the queue to the task that owns the writing half. When it is dropped, queued
/// messages are sent and the connection is closed.
pub(super) struct AgentLink {
    reader: Box<dyn MessageReader>,
    received: Vec<StreamMessage>,
    /// Messages for which the writer has no room.
    queued: VecDeque<StreamMessage>,
    outbox: mpsc::Sender<StreamMessage>,
    /// Task of the writing half.
    writer: JoinHandle<()>,
}

/// Progress of a connection.
pub(super) enum LinkProgress {
    /// Messages were received, or the connection has ended.
    Received(Result<(), ReadEnd>),
    /// A queued message was passed to the writer; `false` if the writer has failed.
    Sent(bool),
}

impl AgentLink {
    /// Starts the writer with a queue of this capacity and reports the connection to `agent`. After the
    /// session, closing the connection may take `linger`.
    pub(super) fn start(
        link: MessageLink,
        agent: &mut Agent,
        now: Time,
        capacity: usize,
        linger: Duration,
    ) -> Self {
        let MessageLink {
            reader,
            writer,
            streams,
            ..
        } = link;
        let (outbox, to_send) = mpsc::channel(capacity);
        let writer = tokio::spawn(write(writer, to_send, capacity, linger));
        agent.connected(now, streams);
        Self {
            reader,
            received: Vec::new(),
            queued: VecDeque::new(),
            outbox,
            writer,
        }
    }

    /// Closes the connection and waits for its end, at most for the `linger` of [`Self::start`]: SCTP by a SHUTDOWN,
    /// which an end of the process would make an ABORT.
    pub(super) async fn close(self) {
        let Self { outbox, writer, .. } = self;
        drop(outbox);
        // The task ends without a result.
        let _ = writer.await;
    }

    /// Returns whether messages wait for the writer.
    pub(super) fn is_blocked(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Passes the agent's messages to the writer while it accepts them.
    pub(super) fn flush(&mut self, agent: &mut Agent) {
        while let Some((stream, message)) = agent.poll_transmit() {
            self.queued.push_back(StreamMessage { stream, message });
        }
        while !self.queued.is_empty()
            && let Ok(permit) = self.outbox.try_reserve()
            && let Some(message) = self.queued.pop_front()
        {
            permit.send(message);
        }
    }

    /// Waits until messages are received, or the writer accepts a queued one. Cancel-safe.
    pub(super) async fn progress(&mut self) -> LinkProgress {
        tokio::select! {
            end = self.reader.read(&mut self.received) => LinkProgress::Received(end),
            permit = self.outbox.reserve(), if !self.queued.is_empty() => {
                match (permit, self.queued.pop_front()) {
                    (Ok(permit), Some(message)) => {
                        permit.send(message);
                        LinkProgress::Sent(true)
                    }
                    _ => LinkProgress::Sent(false),
                }
            }
        }
    }

    /// Reports progress to the agent.
    pub(super) fn report(&mut self, progress: &LinkProgress, agent: &mut Agent, now: Time) {
        for StreamMessage { stream, message } in self.received.drain(..) {
            agent.handle_message(now, stream, &message);
        }
        if matches!(
            progress,
            LinkProgress::Received(Err(_)) | LinkProgress::Sent(false)
        ) {
            agent.disconnected();
        }
    }
}

/// Writes messages until the queue is closed, then closes the connection within `linger`.
async fn write(
    mut writer: Box<dyn MessageWriter>,
    mut to_send: mpsc::Receiver<StreamMessage>,
    capacity: usize,
    linger: Duration,
) {
    let mut batch = Vec::new();
    while to_send.recv_many(&mut batch, capacity).await > 0 {
        if writer.write(&mut batch).await.is_err() {
            return;
        }
    }
    let _ = tokio::time::timeout(linger, writer.close()).await;
}
