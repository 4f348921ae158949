//! The chunks of RFC 9260, section 3.3, and of its extensions: one file each, with the wire
//! layout above the type.

mod abort;
mod asconf;
mod auth;
mod cookie_ack;
mod cookie_echo;
mod cwr;
mod data;
mod ecne;
mod error;
mod forward_tsn;
mod heartbeat;
mod i_data;
mod i_forward_tsn;
mod init;
mod kind;
mod nr_sack;
mod pad;
mod re_config;
mod sack;
mod shutdown;
mod shutdown_ack;
mod shutdown_complete;

pub use abort::Abort;
pub use asconf::{Asconf, AsconfAck};
pub use auth::{AUTH_HEADER_LEN, Auth};
pub use cookie_echo::CookieEcho;
pub use cwr::Cwr;
pub use data::{DATA_HEADER_LEN, Data, DataFlags, DataHeader};
pub use ecne::Ecne;
pub use error::ErrorChunk;
pub use forward_tsn::ForwardTsn;
pub use heartbeat::Heartbeat;
pub use i_data::{Fragment, I_DATA_HEADER_LEN, IData, IDataHeader};
pub use i_forward_tsn::{IForwardTsn, SkippedMessage};
pub use init::{Init, InitFields};
pub use kind::{ChunkType, UnknownAction};
pub use nr_sack::NrSack;
pub(crate) use nr_sack::{A_BIT, NR_SACK_HEADER_LEN, nr_sack_entries};
pub use pad::Pad;
pub use re_config::ReConfig;
pub(crate) use sack::sack_entries;
pub use sack::{GapAckBlock, Sack};
pub use shutdown::Shutdown;
pub use shutdown_complete::ShutdownComplete;

use crate::{ParseError, RawChunk};

/// T bit of ABORT and SHUTDOWN COMPLETE: the verification tag is reflected, because the sender has no
/// association (RFC 9260, sections 8.4 and 8.5.1).
pub(crate) const T_BIT: u8 = 0x01;

/// Parsed chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Payload Data (DATA), RFC 9260, section 3.3.1.
    Data(Data<'a>),
    /// Initiation (INIT), RFC 9260, section 3.3.2.
    Init(Init<'a>),
    /// Initiation Acknowledgement (INIT ACK), RFC 9260, section 3.3.3.
    InitAck(Init<'a>),
    /// Selective Acknowledgement (SACK), RFC 9260, section 3.3.4.
    Sack(Sack<'a>),
    /// Heartbeat Request (HEARTBEAT), RFC 9260, section 3.3.5.
    Heartbeat(Heartbeat<'a>),
    /// Heartbeat Acknowledgement (HEARTBEAT ACK), RFC 9260, section 3.3.6.
    HeartbeatAck(Heartbeat<'a>),
    /// Abort Association (ABORT), RFC 9260, section 3.3.7.
    Abort(Abort<'a>),
    /// Shutdown Association (SHUTDOWN), RFC 9260, section 3.3.8.
    Shutdown(Shutdown),
    /// Shutdown Acknowledgement (SHUTDOWN ACK), RFC 9260, section 3.3.9.
    ShutdownAck,
    /// Operation Error (ERROR), RFC 9260, section 3.3.10.
    Error(ErrorChunk<'a>),
    /// Cookie Echo (COOKIE ECHO), RFC 9260, section 3.3.11.
    CookieEcho(CookieEcho<'a>),
    /// Cookie Acknowledgement (COOKIE ACK), RFC 9260, section 3.3.12.
    CookieAck,
    /// Shutdown Complete (SHUTDOWN COMPLETE), RFC 9260, section 3.3.13.
    ShutdownComplete(ShutdownComplete),
    /// Explicit Congestion Notification Echo (ECNE), RFC 4960, appendix A.
    Ecne(Ecne),
    /// Congestion Window Reduced (CWR), RFC 4960, appendix A.
    Cwr(Cwr),
    /// Authentication (AUTH), RFC 4895, section 4.1.
    Auth(Auth<'a>),
    /// Non-Renegable Selective Acknowledgement (NR-SACK), draft-natarajan-tsvwg-sctp-nrsack.
    NrSack(NrSack<'a>),
    /// Payload Data with interleaving (I-DATA), RFC 8260, section 2.1.
    IData(IData<'a>),
    /// Address Configuration Change (ASCONF), RFC 5061, section 4.1.1.
    Asconf(Asconf<'a>),
    /// Address Configuration Acknowledgement (ASCONF-ACK), RFC 5061, section 4.1.2.
    AsconfAck(AsconfAck<'a>),
    /// Re-configuration (RE-CONFIG), RFC 6525, section 3.1.
    ReConfig(ReConfig<'a>),
    /// Padding (PAD), RFC 4820, section 3.
    Pad(Pad<'a>),
    /// Forward Cumulative TSN (FORWARD TSN), RFC 3758, section 3.2.
    ForwardTsn(ForwardTsn<'a>),
    /// Forward Cumulative TSN with interleaving (I-FORWARD-TSN), RFC 8260, section 2.3.1.
    IForwardTsn(IForwardTsn<'a>),
    /// Chunk of an unknown type; see [`ChunkType::unknown_action`].
    Unknown(RawChunk<'a>),
}

impl<'a> Chunk<'a> {
    /// Parses a chunk. Parameters and causes in it are not parsed, except the Heartbeat Info of a
    /// HEARTBEAT or HEARTBEAT ACK and the address of an ASCONF.
    ///
    /// The caller checks whether an extension was negotiated, with [`ChunkType::is_base`].
    ///
    /// # Errors
    /// The chunk is shorter than its fixed fields, its length does not match its type or its counts, or a
    /// Heartbeat Info or an ASCONF's address is missing or malformed.
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
            _ => return Self::parse_extension(raw),
        })
    }

    fn parse_extension(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        Ok(match raw.kind {
            ChunkType::I_DATA => Self::IData(IData::parse(raw)?),
            ChunkType::ECNE => Self::Ecne(Ecne::parse(raw)?),
            ChunkType::CWR => Self::Cwr(Cwr::parse(raw)?),
            ChunkType::AUTH => Self::Auth(Auth::parse(raw)?),
            ChunkType::NR_SACK => Self::NrSack(NrSack::parse(raw)?),
            ChunkType::ASCONF => Self::Asconf(Asconf::parse(raw)?),
            ChunkType::ASCONF_ACK => Self::AsconfAck(AsconfAck::parse(raw)?),
            ChunkType::RE_CONFIG => Self::ReConfig(ReConfig::parse(raw)),
            ChunkType::PAD => Self::Pad(Pad::parse(raw)),
            ChunkType::FORWARD_TSN => Self::ForwardTsn(ForwardTsn::parse(raw)?),
            ChunkType::I_FORWARD_TSN => Self::IForwardTsn(IForwardTsn::parse(raw)?),
            _ => Self::Unknown(raw),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Chunk;
    use crate::RawChunk;

    /// Every chunk of a packet is of this type: extensions must not enlarge it.
    #[test]
    fn a_parsed_chunk_is_small() {
        assert!(size_of::<Chunk<'_>>() <= size_of::<RawChunk<'_>>() + size_of::<usize>());
    }
}
