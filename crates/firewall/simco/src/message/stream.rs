//! Messages in a byte stream (RFC 4540, section 6, steps 1 and 2).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use carrick_proto::Time;

use super::header::{Header, MAX_MESSAGE};

/// Time limit for the rest of a message, counted from the last received octets.
pub const PARTIAL_MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Reason for which the stream can't be read any further: to be answered with BFM and closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FramingError {
    /// The rest of a message did not arrive within [`PARTIAL_MESSAGE_TIMEOUT`].
    #[error("timed out in the middle of a message")]
    Timeout,
    /// The stream ended within a message.
    #[error("the stream ended within a message")]
    Truncated,
}

/// Splits a byte stream into messages. Holds at most one incomplete message.
///
/// After [`push`](Self::push), call [`next_message`](Self::next_message) until it returns `None`.
#[derive(Debug, Default)]
pub struct StreamReader {
    buffer: BytesMut,
    /// Deadline for the rest of the buffered message.
    deadline: Option<Time>,
}

impl StreamReader {
    /// Returns the number of octets accepted now. Never zero once all messages were taken.
    pub fn room(&self) -> usize {
        MAX_MESSAGE.saturating_sub(self.buffer.len())
    }

    /// Adds received octets, at most [`room`](Self::room). Returns their number.
    pub fn push(&mut self, now: Time, octets: &[u8]) -> usize {
        let taken = octets.len().min(self.room());
        self.buffer.extend_from_slice(&octets[..taken]);
        if taken > 0 {
            self.deadline = Some(now + PARTIAL_MESSAGE_TIMEOUT);
        }
        taken
    }

    /// Returns the next whole message.
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

    /// Returns the time of the next call of [`check`](Self::check).
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Checks whether the rest of a message is overdue.
    ///
    /// # Errors
    /// [`FramingError::Timeout`] if it is.
    pub fn check(&self, now: Time) -> Result<(), FramingError> {
        match self.deadline {
            Some(deadline) if deadline <= now => Err(FramingError::Timeout),
            _ => Ok(()),
        }
    }

    /// Handles the end of the stream.
    ///
    /// # Errors
    /// [`FramingError::Truncated`] if it ended within a message.
    pub fn finish(&self) -> Result<(), FramingError> {
        if self.buffer.is_empty() {
            Ok(())
        } else {
            Err(FramingError::Truncated)
        }
    }
}
