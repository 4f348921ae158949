//! What carries messages on a real network: SCTP, TCP, TLS on TCP, behind two traits, so that the
//! code of sessions knows none of them.
//!
//! | transport | a message is | streams |
//! |---|---|---|
//! | [`sctp`] | one user message with payload protocol identifier 15 | as many pairs as both sides have |
//! | [`tcp`] | as long as its header says, one behind the other | one pair |
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

use crate::message::FramingError;

pub use clock::Clock;

/// A future in a box: one for many messages, so that it costs little.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A message and its stream (0 over TCP).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The stream.
    pub stream: u16,
    /// The message.
    pub message: Bytes,
}

/// A connection that is up: both its halves and what is known of it.
pub struct Link {
    /// What comes.
    pub reader: Box<dyn MessageReader>,
    /// What goes.
    pub writer: Box<dyn MessageWriter>,
    /// Stream pairs: the smaller of the streams both ways; 1 over TCP.
    pub streams: u16,
    /// It is encrypted.
    pub secure: bool,
    /// Where the peer is, as far as the transport has made sure of it.
    pub address: Option<IpAddr>,
    /// The peer's address for people, such as `sctp 192.0.2.1:7626`.
    pub peer: String,
}

/// The half that receives.
pub trait MessageReader: Send {
    /// Waits for messages and puts all that are there behind those in `into`; at least one unless
    /// the connection has ended. Cancel-safe: when the future is dropped, nothing is lost.
    fn read<'a>(&'a mut self, into: &'a mut Vec<Packet>) -> Pending<'a, Result<(), ReadEnd>>;
}

/// The half that sends.
pub trait MessageWriter: Send {
    /// Sends messages in their order, and empties `batch`. Waits while the peer does not take them.
    ///
    /// Not cancel-safe: after a future that was dropped, the connection can only be dropped.
    fn write<'a>(&'a mut self, batch: &'a mut Vec<Packet>) -> Pending<'a, io::Result<()>>;

    /// Ends the connection when what was sent has arrived, or as much of it as the transport tells.
    fn close(&mut self) -> Pending<'_, ()>;

    /// Whether [`Self::close`] waits for the peer, which may never answer.
    fn lingers(&self) -> bool {
        false
    }

    /// Ends the connection at once where [`Self::lingers`]; what was sent and has not arrived is lost.
    /// Elsewhere dropping the writer does so.
    fn abort(&mut self) {}
}

/// Why nothing more comes.
#[derive(Debug, thiserror::Error)]
pub enum ReadEnd {
    /// The peer closed the connection, between two messages.
    #[error("the peer closed the connection")]
    Closed,
    /// What came can't be cut into messages: to be answered with BFM.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// A user message of SCTP with another payload protocol identifier, or one that is longer than a
    /// message can be: to be answered with BFM.
    #[error("what came on the association is not SIMCO")]
    Foreign,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl ReadEnd {
    /// Whether the peer is to be told that what it sent is no message.
    pub fn is_badly_formed(&self) -> bool {
        match self {
            Self::Framing(_) | Self::Foreign => true,
            Self::Closed | Self::Broken(_) => false,
        }
    }
}
