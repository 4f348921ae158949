//! Protection of packets at three places, without changes of the core.
//!
//! ```text
//!   above    messages of the user are records           RFC 6083: done by the user of the API
//!   SCTP     ---------------------------------------
//!   inside   the chunks behind the common header        ChunkProtection: the DTLS chunk
//!   SCTP     ---------------------------------------
//!   below    whole packets are records of a session     PacketSession, SessionLayer: RFC 8261
//! ```
//!
//! **Below** (RFC 8261): a [`SessionLayer`] between an [`crate::Endpoint`] and the network has a
//! [`PacketSession`] for each peer, created by a [`SessionFactory`]: a handshake, then whole SCTP packets
//! as its records. The endpoint sees each session as an artificial address. Associations therefore have
//! one path, no IP addresses and no ICMP messages.
//!
//! **Inside** (draft-ietf-tsvwg-sctp-dtls-chunk): a [`ChunkProtection`] converts the chunks of each packet
//! of an association into one chunk of its type and back. It gets the common header and the route of each
//! packet; space for it is reserved in every packet. A parameter of INIT and INIT ACK negotiates it, and
//! the user sets its keys at run time. Multi-homing works.
//!
//! **Above** (RFC 6083): a DTLS record is a message. The API has what it needs:
//! a payload protocol identifier, a stream and an order per message ([`crate::SendOptions`]); messages of
//! 18445 bytes and more; AUTH for DATA ([`crate::AuthenticationConfig::required`]) with keys that change
//! at run time ([`crate::Endpoint::add_key`], [`crate::Endpoint::activate_key`],
//! [`crate::Endpoint::delete_key`]); and an event when all messages are acknowledged, before a key
//! changes or the connection closes ([`crate::Event::AllAcknowledged`]).

mod chunks;
mod layer;
mod progress;
mod session;
mod slot;

pub use chunks::{
    ChunkProtection, ChunkProtectionOffer, MAX_OFFER, MAX_OVERHEAD, PacketContext, ProtectionStats,
    Seal,
};
pub use layer::{
    SessionConnectError, SessionEvent, SessionLayer, SessionLayerConfig, SessionStats,
};
pub use session::{PacketSession, SessionFactory, SessionState};
pub use slot::SessionId;
