//! Transports: SCTP, TCP, and TLS over TCP, behind two traits.
//!
//! | transport | a message is | streams |
//! |---|---|---|
//! | [`sctp`] | one user message with payload protocol identifier 15 | as many pairs as both sides have |
//! | [`tcp`] | messages one behind the other, each with its length in the header | one pair |
//! | [`tls`] | as over TCP | one pair |

mod boot;
mod clock;
pub mod sctp;
pub mod tcp;
pub mod tls;

use std::io;
use std::net::IpAddr;
use std::pin::Pin;

use bytes::Bytes;

use carrick_simco::message::FramingError;

pub use clock::Clock;

/// Boxed future. One per batch of messages.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Message with its stream (0 over TCP).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamMessage {
    /// The stream.
    pub stream: u16,
    /// The message.
    pub message: Bytes,
}

/// Open connection: both halves and its properties.
pub struct MessageLink {
    /// Receiving half.
    pub reader: Box<dyn MessageReader>,
    /// Sending half.
    pub writer: Box<dyn MessageWriter>,
    /// Number of stream pairs: the minimum of both directions, 1 over TCP.
    pub streams: u16,
    /// True if the connection is encrypted.
    pub secure: bool,
    /// Address of the peer, if the transport has verified it.
    pub address: Option<IpAddr>,
    /// Address of the peer for logs, such as `sctp 192.0.2.1:7626`.
    pub peer: String,
}

/// Receiving half of a connection.
pub trait MessageReader: Send {
    /// Waits for messages and appends all that are available to `into`, at least one unless the
    /// connection has ended. Cancel-safe.
    fn read<'a>(
        &'a mut self,
        into: &'a mut Vec<StreamMessage>,
    ) -> BoxFuture<'a, Result<(), ReadEnd>>;
}

/// Sending half of a connection.
pub trait MessageWriter: Send {
    /// Sends messages in order and empties `batch`. Waits while the peer does not read.
    ///
    /// Not cancel-safe: after dropping the future, drop the connection.
    fn write<'a>(&'a mut self, batch: &'a mut Vec<StreamMessage>) -> BoxFuture<'a, io::Result<()>>;

    /// Closes the connection after the sent messages have arrived, as far as the transport detects that.
    fn close(&mut self) -> BoxFuture<'_, ()>;

    /// Returns whether [`Self::close`] waits for the peer, which may never answer.
    fn lingers(&self) -> bool {
        false
    }

    /// Closes the connection at once if it [`lingers`](Self::lingers); undelivered messages are lost.
    /// Other connections are closed by dropping the writer.
    fn abort(&mut self) {}
}

/// Reason for the end of a connection's receiving direction.
#[derive(Debug, thiserror::Error)]
pub enum ReadEnd {
    /// The peer closed the connection, between two messages.
    #[error("the peer closed the connection")]
    Closed,
    /// Octets that can't be split into messages: to be answered with BFM (RFC 4540, section 5.1.1).
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// SCTP user message with another payload protocol identifier or beyond the maximum size: to be
    /// answered with BFM.
    #[error("received data on the association that is not SIMCO")]
    NotSimco,
    /// The connection failed.
    #[error("connection failed: {0}")]
    Broken(String),
}

impl ReadEnd {
    /// Returns whether to notify the peer of a badly formed message.
    pub fn is_badly_formed(&self) -> bool {
        match self {
            Self::Framing(_) | Self::NotSimco => true,
            Self::Closed | Self::Broken(_) => false,
        }
    }
}
