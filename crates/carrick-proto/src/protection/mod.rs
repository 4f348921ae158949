//! Where packets can be protected: three places, and none of them needs a change of the core.
//!
//! ```text
//!   above    messages of the user are records           RFC 6083: done by the user of the API
//!   SCTP     ---------------------------------------
//!   inside   the chunks behind the common header        ChunkProtection: the DTLS chunk
//!   SCTP     ---------------------------------------
//!   below    whole packets are records of a session     PacketSession, SessionLayer: RFC 8261
//! ```
//!
//! **Below** (RFC 8261): a [`SessionLayer`] stands between an [`crate::Endpoint`] and the network. It has
//! a [`PacketSession`] per peer, which a [`SessionFactory`] makes: a handshake, then whole SCTP packets
//! as its records. To the endpoint each session is an address that stands for nothing but itself, so
//! that associations have one path, know no IP addresses and hear no ICMP.
//!
//! **Inside** (draft-ietf-tsvwg-sctp-dtls-chunk): a [`ChunkProtection`] turns the chunks of each packet
//! of an association into one chunk of its own and back. It knows the association by its header, the way
//! by its route; its bytes are reserved in every packet; it is agreed on with a parameter of INIT and
//! INIT ACK, and its keys come from the user at run time. Multi-homing stays.
//!
//! **Above** (RFC 6083): a record of DTLS is a message. What it needs is in the API:
//! a payload protocol identifier, a stream and an order per message ([`crate::SendOptions`]); messages of
//! 18445 bytes and more; AUTH for DATA ([`crate::AuthenticationConfig::required`]) with keys that change
//! at run time ([`crate::Endpoint::add_key`], [`crate::Endpoint::activate_key`],
//! [`crate::Endpoint::delete_key`]); and to know when everything is acknowledged for good before a key
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
