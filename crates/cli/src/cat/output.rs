//! Received messages on standard output, or on the input of a process. A separate thread or task writes them, so that
//! a slow reader does not block the protocol; its queue is bounded, so that flow control slows the peer down instead.

use std::fmt::Write as _;
use std::io::{self, Write, stdout};
use std::thread;

use bytes::BytesMut;
use carrick::{Message, MessagePart, Payload};
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;
use crate::framing::{Framing, FramingError};

/// Maximum number of messages that wait to be written.
const MAX_WAITING: usize = 16;

/// Format of a written message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MessageFormat {
    /// Only the bytes of the message.
    Raw,
    /// The message in a framing.
    Framed(Framing),
    /// One line with attributes and bytes.
    Hex,
    /// One line with a JSON object.
    Json,
    /// Messages are not written.
    Discard,
}

/// Received message.
pub(super) struct Received {
    pub(super) message: Message,
    /// Number of the association where there are several.
    pub(super) association: Option<u64>,
}

/// Queue of messages to the thread or task that writes them. Clones share it.
#[derive(Clone)]
pub(super) struct MessageQueue(mpsc::Sender<Received>);

impl MessageQueue {
    /// Queues a message; waits while the queue is full. If cancelled, the message may be lost.
    pub(super) async fn write(&self, received: Received) -> Result<(), Failure> {
        // The writer has ended with an error, which `finish` returns.
        let queued = self.0.send(received).await;
        queued.map_err(|_| Failure::OutputClosed)
    }
}

/// Thread or task that writes messages.
pub(super) struct MessageWriter {
    messages: MessageQueue,
    done: oneshot::Receiver<Result<(), Failure>>,
}

impl MessageWriter {
    /// Starts a thread that writes to standard output.
    pub(super) fn start(format: MessageFormat) -> Result<Self, Failure> {
        let (messages, mut queue) = mpsc::channel(MAX_WAITING);
        let (done, result) = oneshot::channel();
        thread::Builder::new()
            .name("stdout".into())
            .spawn(move || {
                let written = write_all(&mut stdout().lock(), &mut queue, format);
                // The receiver is dropped if another failure was first.
                let _ = done.send(written);
            })
            .map_err(|e| Failure::Run(format!("cannot start a thread: {e}")))?;
        Ok(Self {
            messages: MessageQueue(messages),
            done: result,
        })
    }

    /// Starts a task that writes to a process. Messages that a process does not read because it has closed its input are
    /// discarded.
    pub(super) fn start_task(
        mut to: impl AsyncWrite + Unpin + Send + 'static,
        format: MessageFormat,
    ) -> Self {
        let (messages, mut queue) = mpsc::channel::<Received>(MAX_WAITING);
        let (done, result) = oneshot::channel();
        tokio::spawn(async move {
            let mut written = Ok(());
            let mut is_open = true;
            while let Some(received) = queue.recv().await {
                match encoded(&received, format) {
                    Ok(bytes) => is_open = is_open && to.write_all(&bytes).await.is_ok(),
                    Err(failure) => {
                        written = Err(failure);
                        break;
                    }
                }
            }
            let _ = done.send(written);
        });
        Self {
            messages: MessageQueue(messages),
            done: result,
        }
    }

    pub(super) fn queue(&self) -> MessageQueue {
        self.messages.clone()
    }

    /// Waits until all messages are written; the caller has dropped the clones of the queue.
    pub(super) async fn finish(self) -> Result<(), Failure> {
        drop(self.messages);
        self.done.await.unwrap_or(Ok(()))
    }
}

fn write_all(
    out: &mut impl Write,
    queue: &mut mpsc::Receiver<Received>,
    format: MessageFormat,
) -> Result<(), Failure> {
    while let Some(received) = queue.blocking_recv() {
        match format {
            MessageFormat::Raw => {
                let mut pieces = received.message.payload.pieces();
                pieces.try_for_each(|p| out.write_all(p))?;
            }
            _ => out.write_all(&encoded(&received, format)?)?,
        }
        if queue.is_empty() {
            out.flush()?;
        }
    }
    Ok(out.flush()?)
}

/// Returns the bytes that represent a message.
fn encoded(received: &Received, format: MessageFormat) -> Result<BytesMut, Failure> {
    let mut bytes = BytesMut::new();
    match format {
        MessageFormat::Raw => received
            .message
            .payload
            .pieces()
            .for_each(|p| bytes.extend_from_slice(p)),
        MessageFormat::Framed(_) if received.message.part != MessagePart::Whole => {
            return Err(Failure::Run(
                "the peer sent a message that exceeds the memory for received data: raise --receive-buffer".into(),
            ));
        }
        MessageFormat::Framed(framing) => {
            let message = received.message.payload.clone().into_bytes();
            let framed = framing.encode(&message, usize::MAX, &mut bytes);
            framed.map_err(|error: FramingError| {
                Failure::Run(format!("the peer sent {error}: --framing does not fit"))
            })?;
        }
        MessageFormat::Hex => bytes.extend_from_slice((hex_line(received) + "\n").as_bytes()),
        MessageFormat::Json => bytes.extend_from_slice((json_line(received)? + "\n").as_bytes()),
        MessageFormat::Discard => {}
    }
    Ok(bytes)
}

fn hex_line(received: &Received) -> String {
    let message = &received.message;
    let association = received.association;
    let association = association.map_or_else(String::new, |n| format!("association {n} "));
    let order = match message.ssn {
        Some(ssn) => format!("ssn {}", ssn.value()),
        None => "unordered".into(),
    };
    format!(
        "{association}stream {} {order} ppid {} {} bytes: {}",
        message.stream.0,
        message.ppid.0,
        message.payload.len(),
        hex(&message.payload)
    )
}

fn json_line(received: &Received) -> io::Result<String> {
    #[derive(Serialize)]
    struct Line {
        #[serde(skip_serializing_if = "Option::is_none")]
        association: Option<u64>,
        stream: u16,
        ssn: Option<u16>,
        unordered: bool,
        ppid: u32,
        tsn: u32,
        part: &'static str,
        length: usize,
        hex: String,
    }
    let message = &received.message;
    let line = Line {
        association: received.association,
        stream: message.stream.0,
        ssn: message.ssn.map(carrick::Ssn::value),
        unordered: message.ssn.is_none(),
        ppid: message.ppid.0,
        tsn: message.tsn.value(),
        part: match message.part {
            MessagePart::Whole => "whole",
            MessagePart::First => "first",
            MessagePart::Middle => "middle",
            MessagePart::Last => "last",
            MessagePart::Aborted => "aborted",
        },
        length: message.payload.len(),
        hex: hex(&message.payload),
    };
    Ok(serde_json::to_string(&line)?)
}

fn hex(payload: &Payload) -> String {
    let mut text = String::with_capacity(payload.len() * 2);
    for byte in payload.pieces().flatten() {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn hexadecimal_across_buffers() {
        let mut payload = Payload::from(Bytes::from_static(b"\x00a"));
        payload.append(Payload::from(Bytes::from_static(b"\xff")));
        assert_eq!(hex(&payload), "0061ff");
    }
}
