//! Received messages on standard output. A separate thread writes them, so that a slow reader does not
//! block the protocol; its queue is bounded, so that flow control slows the peer down instead.

use std::fmt::Write as _;
use std::io::{self, Write, stdout};
use std::thread;

use carrick::{Message, Payload};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;

/// Maximum number of messages that wait to be written.
const MAX_WAITING: usize = 16;

/// Format of a written message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MessageFormat {
    /// Only the bytes of the message.
    Raw,
    /// One line with attributes and bytes.
    Hex,
    /// One line with a JSON object.
    Json,
    /// Messages are not written.
    Discard,
}

/// Thread that writes messages.
pub(super) struct MessageWriter {
    messages: Option<mpsc::Sender<Message>>,
    done: Option<oneshot::Receiver<io::Result<()>>>,
}

impl MessageWriter {
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
            messages: Some(messages),
            done: Some(result),
        })
    }

    /// Queues a message; waits while the queue is full. If cancelled, the message may be lost.
    pub(super) async fn write(&self, message: Message) -> Result<(), Failure> {
        if let Some(messages) = &self.messages
            && messages.send(message).await.is_ok()
        {
            return Ok(());
        }
        // The thread has ended with an error, which `finish` returns.
        Err(Failure::OutputClosed)
    }

    /// Waits until all messages are written.
    pub(super) async fn finish(&mut self) -> Result<(), Failure> {
        self.messages = None;
        match self.done.take() {
            Some(done) => Ok(done.await.unwrap_or(Ok(()))?),
            None => Ok(()),
        }
    }
}

fn write_all(
    out: &mut impl Write,
    queue: &mut mpsc::Receiver<Message>,
    format: MessageFormat,
) -> io::Result<()> {
    while let Some(message) = queue.blocking_recv() {
        match format {
            MessageFormat::Raw => message
                .payload
                .pieces()
                .try_for_each(|p| out.write_all(p))?,
            MessageFormat::Hex => writeln!(out, "{}", hex_line(&message))?,
            MessageFormat::Json => writeln!(out, "{}", json_line(&message)?)?,
            MessageFormat::Discard => {}
        }
        if queue.is_empty() {
            out.flush()?;
        }
    }
    out.flush()
}

fn hex_line(message: &Message) -> String {
    let order = match message.ssn {
        Some(ssn) => format!("ssn {}", ssn.value()),
        None => "unordered".into(),
    };
    format!(
        "stream {} {order} ppid {} {} bytes: {}",
        message.stream.0,
        message.ppid.0,
        message.payload.len(),
        hex(&message.payload)
    )
}

fn json_line(message: &Message) -> io::Result<String> {
    #[derive(Serialize)]
    struct Line {
        stream: u16,
        ssn: Option<u16>,
        ppid: u32,
        tsn: u32,
        part: &'static str,
        length: usize,
        hex: String,
    }
    let line = Line {
        stream: message.stream.0,
        ssn: message.ssn.map(carrick::Ssn::value),
        ppid: message.ppid.0,
        tsn: message.tsn.value(),
        part: match message.part {
            carrick::MessagePart::Whole => "whole",
            carrick::MessagePart::First => "first",
            carrick::MessagePart::Middle => "middle",
            carrick::MessagePart::Last => "last",
            carrick::MessagePart::Aborted => "aborted",
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
