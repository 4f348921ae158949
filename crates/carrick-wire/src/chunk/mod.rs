//! The chunks of RFC 9260, section 3.3: one file each, with the wire layout above the type.

mod abort;
mod cookie_ack;
mod cookie_echo;
mod data;
mod error;
mod heartbeat;
mod init;
mod kind;
mod sack;
mod shutdown;
mod shutdown_ack;
mod shutdown_complete;

pub use abort::Abort;
pub use cookie_echo::CookieEcho;
pub use data::{DATA_HEADER_LEN, Data, DataFlags, DataHeader};
pub use error::ErrorChunk;
pub use heartbeat::Heartbeat;
pub use init::{Init, InitFields};
pub use kind::{ChunkType, UnknownAction};
pub(crate) use sack::sack_entries;
pub use sack::{GapAckBlock, Sack};
pub use shutdown::Shutdown;
pub use shutdown_complete::ShutdownComplete;

use crate::{ParseError, RawChunk};

/// The T bit of ABORT and SHUTDOWN COMPLETE: the verification tag is the receiver's own, sent
/// back, because the sender has no association (RFC 9260, 8.4 and 8.5.1).
pub(crate) const T_BIT: u8 = 0x01;

/// A chunk with its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// User data (3.3.1).
    Data(Data<'a>),
    /// Asks for an association (3.3.2).
    Init(Init<'a>),
    /// Answers an INIT with a State Cookie (3.3.3).
    InitAck(Init<'a>),
    /// Says what has been received (3.3.4).
    Sack(Sack<'a>),
    /// Asks whether a path works (3.3.5).
    Heartbeat(Heartbeat<'a>),
    /// Says that it does (3.3.6).
    HeartbeatAck(Heartbeat<'a>),
    /// Ends the association at once (3.3.7).
    Abort(Abort<'a>),
    /// Begins to close the association (3.3.8).
    Shutdown(Shutdown),
    /// Answers a SHUTDOWN (3.3.9).
    ShutdownAck,
    /// Reports errors that end nothing (3.3.10).
    Error(ErrorChunk<'a>),
    /// Brings the State Cookie back (3.3.11).
    CookieEcho(CookieEcho<'a>),
    /// The association is up (3.3.12).
    CookieAck,
    /// The association is closed (3.3.13).
    ShutdownComplete(ShutdownComplete),
    /// Anything else; see [`ChunkType::unknown_action`].
    Unknown(RawChunk<'a>),
}

impl<'a> Chunk<'a> {
    /// Gives a chunk its meaning. Parameters and causes in it are not looked at, except the
    /// Heartbeat Info of a HEARTBEAT or HEARTBEAT ACK.
    ///
    /// # Errors
    /// The chunk is shorter than its fixed fields, its length is not the one that its type or
    /// its counts demand, or a Heartbeat Info is missing or malformed.
    #[inline]
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        Ok(match raw.kind {
            ChunkType::DATA => Self::Data(Data::parse(raw)?),
            ChunkType::INIT => Self::Init(Init::parse(raw)?),
            ChunkType::INIT_ACK => Self::InitAck(Init::parse(raw)?),
            ChunkType::SACK => Self::Sack(Sack::parse(raw)?),
            ChunkType::HEARTBEAT => Self::Heartbeat(Heartbeat::parse(raw)?),
            ChunkType::HEARTBEAT_ACK => Self::HeartbeatAck(Heartbeat::parse(raw)?),
            ChunkType::ABORT => Self::Abort(Abort::parse(raw)),
            ChunkType::SHUTDOWN => Self::Shutdown(Shutdown::parse(raw)?),
            ChunkType::SHUTDOWN_ACK => shutdown_ack::parse(raw).map(|()| Self::ShutdownAck)?,
            ChunkType::ERROR => Self::Error(ErrorChunk::parse(raw)),
            ChunkType::COOKIE_ECHO => Self::CookieEcho(CookieEcho::parse(raw)),
            ChunkType::COOKIE_ACK => cookie_ack::parse(raw).map(|()| Self::CookieAck)?,
            ChunkType::SHUTDOWN_COMPLETE => Self::ShutdownComplete(ShutdownComplete::parse(raw)?),
            _ => Self::Unknown(raw),
        })
    }
}
