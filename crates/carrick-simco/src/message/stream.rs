//! Messages in a byte stream (RFC 4540 section 6, steps 1 and 2): one after the other, each as long
//! as its header says.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use carrick_proto::Time;

use super::header::{Header, MAX_MESSAGE};

/// How long the rest of a message may take. Counted from the last octets that came.
pub const PARTIAL_MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The stream can't be read any further: to be answered with BFM, and closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FramingError {
    /// The rest of a message did not come within [`PARTIAL_MESSAGE_TIMEOUT`].
    #[error("the rest of a message did not come in time")]
    Timeout,
    /// The stream ended within a message.
    #[error("the stream ended within a message")]
    Truncated,
}

/// Cuts a byte stream into messages. Holds at most one incomplete message.
///
/// After [`push`](Self::push), [`next_message`](Self::next_message) is to be called until it returns
/// `None`.
#[derive(Debug, Default)]
pub struct StreamReader {
    buffer: BytesMut,
    /// When the rest of the message in the buffer must have come.
    deadline: Option<Time>,
}

impl StreamReader {
    /// How many octets the reader takes now. Never zero once all messages were taken out.
    pub fn room(&self) -> usize {
        MAX_MESSAGE.saturating_sub(self.buffer.len())
    }

    /// Octets came. More than [`room`](Self::room) are not taken.
    pub fn push(&mut self, now: Time, octets: &[u8]) -> usize {
        let taken = octets.len().min(self.room());
        self.buffer.extend_from_slice(&octets[..taken]);
        if taken > 0 {
            self.deadline = Some(now + PARTIAL_MESSAGE_TIMEOUT);
        }
        taken
    }

    /// The next whole message.
    pub fn next_message(&mut self) -> Option<Bytes> {
        let whole = Header::parse(&self.buffer).map(|header| header.message_len());
        let message = whole
            .filter(|len| self.buffer.len() >= *len)
            .map(|len| self.buffer.split_to(len).freeze());
        if self.buffer.is_empty() {
            self.deadline = None;
        }
        message
    }

    /// When [`check`](Self::check) must be called.
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Whether the rest of a message is overdue.
    ///
    /// # Errors
    /// [`FramingError::Timeout`] if it is.
    pub fn check(&self, now: Time) -> Result<(), FramingError> {
        match self.deadline {
            Some(deadline) if deadline <= now => Err(FramingError::Timeout),
            _ => Ok(()),
        }
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// [`FramingError::Truncated`] if it did within a message.
    pub fn finish(&self) -> Result<(), FramingError> {
        if self.buffer.is_empty() {
            Ok(())
        } else {
            Err(FramingError::Truncated)
        }
    }
}
