//! SCTP on the wire: packets, chunks, parameters and error causes of RFC 9260, section 3, and of
//! its extensions (RFC 3758, 4820, 4895, 5061, 6525, 8260, 9653, ECN, NR-SACK).
//!
//! Parsing borrows: [`Packet::parse`] reads the common header of a received datagram, [`Packet::chunks`]
//! splits it into [`RawChunk`]s, and [`Chunk::parse`] parses a chunk; nothing is copied or allocated.
//! Writing appends to a caller's `Vec<u8>` through [`PacketBuilder`].
//!
//! The crate checks the layout only. Values that are well formed but forbidden (an initiate tag of zero, a
//! DATA chunk without user data, a gap ack block that ends before it starts) are parsed; the protocol
//! decides on the reaction.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod builder;
mod bytes;
mod cause;
mod cause_writer;
mod chunk;
mod crc;
mod error;
mod ids;
mod packet;
mod parameter;
mod parameter_writer;
mod serial;
#[cfg(test)]
mod testing;
mod tlv;

pub use builder::{AuthSlot, AuthenticatedPacket, PacketBuilder};
pub use cause::{Cause, CauseCode, Causes, ParameterTypes, RawCause};
pub use cause_writer::CauseWriter;
pub use chunk::{
    AUTH_HEADER_LEN, Abort, Asconf, AsconfAck, Auth, Chunk, ChunkType, CookieEcho, Cwr,
    DATA_HEADER_LEN, Data, DataFlags, DataHeader, Ecne, ErrorChunk, ForwardTsn, Fragment,
    GapAckBlock, Heartbeat, I_DATA_HEADER_LEN, IData, IDataHeader, IForwardTsn, Init, InitFields,
    NrSack, Pad, ReConfig, Sack, Shutdown, ShutdownComplete, SkippedMessage, UnknownAction,
};
pub use crc::crc32c;
pub use error::{ParseError, ParseErrorKind, TlvKind};
pub use ids::{
    CorrelationId, ErrorDetectionMethod, HmacId, Ppid, SharedKeyId, StreamId, VerificationTag,
};
pub use packet::{
    CHUNK_HEADER_LEN, COMMON_HEADER_LEN, Chunks, CommonHeader, Packet, RawChunk, padded,
};
pub use parameter::{
    AddStreams, AddressRequest, AddressTypes, AsconfParameter, AsconfParameters, ChunkTypes,
    ErrorCauseIndication, HmacIds, IncomingSsnReset, NextTsns, OutgoingSsnReset, Parameter,
    ParameterType, Parameters, RawParameter, ReconfigResponse, ReconfigResult, StreamIds,
};
pub use parameter_writer::ParameterWriter;
pub use serial::{AsconfSerial, Fsn, Mid, ReconfigSerial, Ssn, Tsn};
