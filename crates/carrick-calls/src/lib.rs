//! A back-to-back user agent for SIP (RFC 3261) that lets the media of its calls through a firewall,
//! and nothing else.
//!
//! It sits where the calls pass, reads from offer and answer (RFC 3264, RFC 4566) which hosts will send
//! what to each other, has pinholes opened for RTP and RTCP, and only then lets the answer pass. They
//! are closed when the call ends, however it ends: BYE, CANCEL, a refusal, no answer, a side that
//! vanished. If the pinholes can't be had, the call is refused and nothing stays open.
//!
//! ```text
//! caller            B2bua                 middlebox            callee
//!   | INVITE (offer)  |                       |                   |
//!   |---------------->| INVITE (offer)        |                   |
//!   |                 |------------------------------------------>|
//!   |                 |                       |     200 (answer)  |
//!   |                 |<------------------------------------------|
//!   |                 | pinholes              |                   |
//!   |                 |---------------------->|                   |
//!   |    200 (answer) |               granted |                   |
//!   |<----------------|<----------------------|                   |
//! ```
//!
//! What opens pinholes is behind the trait [`Pinholes`]; [`MiddleboxAgent`] asks a SIMCO middlebox.

mod acks;
mod agent;
mod call;
mod change;
mod checks;
mod config;
mod connections;
mod counts;
mod door;
mod holes;
mod legs;
mod loops;
mod media;
mod pinholes;
mod record;
mod refuse;
mod sdp;
mod server;
mod setup;
mod sources;
mod turns;

pub use agent::{MiddleboxAgent, Translates};
pub use config::{B2buaConfig, Hop, PerAddress, Place, Prefix};
pub use counts::Counts;
pub use media::{Misplaced, Opening, openings};
pub use pinholes::{Held, Pinholes, Refusal};
pub use record::{CallEnd, CallRecord, Records};
pub use sdp::{Description, Media, SdpError};
pub use server::{B2bua, B2buaError};
