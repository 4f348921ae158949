//! A proxied connection: messages of the local side are sent over an association, and received ones to the local side.
//!
//! A message is read from a side when the one before it was taken by the other side, so that a slow reader stops the
//! sender by the flow control of TCP or SCTP.
//!
//! | this side | the other side |
//! |---|---|
//! | end of a byte stream, or idle source of datagrams | what was read is delivered, then SHUTDOWN |
//! | SHUTDOWN | what was received is written, then the end of the stream |
//! | RST, error of the framing or of the connection | ABORT |
//! | ABORT, or no answer | RST |

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carrick::{Association, MessagePart, RecvHalf, SendHalf, SendOptions};

use super::local::{LocalConnection, LocalError, LocalReader, LocalWriter};
use crate::failure::Failure;
use crate::security::{self, Security};

/// Options of all connections.
#[derive(Clone, Debug)]
pub(super) struct ConnectionOptions {
    pub(super) message: SendOptions,
    pub(super) max_message: usize,
    /// Time in which the association still receives after the end of the local side.
    pub(super) quit_after: Duration,
}

/// Messages of a connection.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Messages that were read from the local side.
    read: Count,
    pub(super) sent: Count,
    pub(super) received: Count,
}

impl Counts {
    /// Returns the number of messages that were read from the local side and not sent.
    pub(super) fn unsent(&self) -> u64 {
        self.read.messages() - self.sent.messages()
    }
}

/// Number of messages in one direction, and of their bytes.
#[derive(Debug, Default)]
pub(super) struct Count {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    fn add(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Moves messages until either side ends the connection.
///
/// # Errors
/// The side that failed, and why.
pub(super) async fn relay(
    local: LocalConnection,
    association: Association,
    options: &ConnectionOptions,
    counts: &Counts,
) -> Result<(), String> {
    let LocalConnection {
        mut reader,
        mut writer,
        name,
        flushed,
    } = local;
    let (sender, mut receiver) = association.split();
    let ended = {
        let mut up = pin!(send_all(&mut reader, &sender, options, counts));
        let mut down = pin!(receive_all(&mut receiver, &mut writer, options, counts));
        tokio::select! {
            received = &mut down => received,
            sent = &mut up => match sent {
                Ok(()) => down.await,
                failed => failed,
            },
            failure = Security::different_keys(sender.control()) => Err(RelayError::Keys(failure)),
        }
    };
    let result = match ended {
        Ok(()) => {
            reader.discard().await;
            drop(writer);
            match sender.undelivered() + counts.unsent() {
                0 => Ok(()),
                lost => Err(format!(
                    "{lost} messages of {name} were not delivered, because the SCTP peer has shut the association down"
                )),
            }
        }
        Err(RelayError::Local(error)) => {
            sender.abort(format!("{name}: {error}").as_bytes());
            writer.reset();
            Err(format!("{name}: {error}"))
        }
        Err(RelayError::Association(why)) => {
            writer.reset();
            Err(why)
        }
        Err(RelayError::Keys(failure)) => {
            sender.abort(security::DIFFERENT_KEYS.as_bytes());
            writer.reset();
            Err(failure.line())
        }
        Err(RelayError::Partial) => {
            sender.abort(b"the message is too long for this proxy");
            writer.reset();
            Err("the SCTP peer sent a message that exceeds the memory for received data: raise --receive-buffer".into())
        }
    };
    drop(reader);
    if let Some(flushed) = flushed {
        // The thread ends when it has written what it read.
        let _ = flushed.await;
    }
    result
}

enum RelayError {
    Local(LocalError),
    Association(String),
    /// A part of a message was received.
    Partial,
    /// The peer has other shared keys.
    Keys(Failure),
}

/// Sends the messages of the local side, then shuts the association down.
async fn send_all(
    reader: &mut LocalReader,
    sender: &SendHalf,
    options: &ConnectionOptions,
    counts: &Counts,
) -> Result<(), RelayError> {
    while let Some(message) = reader.next().await.map_err(RelayError::Local)? {
        let length = message.len();
        counts.read.add(length);
        if sender.send(message, options.message).await.is_err() {
            // The association ends: receiving returns the reason.
            return Ok(());
        }
        counts.sent.add(length);
    }
    tokio::time::sleep(options.quit_after).await;
    // Receiving returns the reason of another end.
    let _ = sender.shutdown().await;
    Ok(())
}

/// Writes received messages to the local side, then ends it.
async fn receive_all(
    receiver: &mut RecvHalf,
    writer: &mut LocalWriter,
    options: &ConnectionOptions,
    counts: &Counts,
) -> Result<(), RelayError> {
    loop {
        let received = receiver.recv().await;
        let received = received.map_err(|error| RelayError::Association(error.to_string()))?;
        let Some(message) = received else {
            return writer.finish().await.map_err(RelayError::Local);
        };
        if message.part != MessagePart::Whole {
            return Err(RelayError::Partial);
        }
        let bytes = message.payload.into_bytes();
        let written = writer.write(&bytes, options.max_message).await;
        written.map_err(RelayError::Local)?;
        counts.received.add(bytes.len());
    }
}
