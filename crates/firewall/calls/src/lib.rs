//! SIP back-to-back user agent (RFC 3261) that opens pinholes in a firewall for the media of its calls.
//!
//! It takes the media addresses from offer and answer (RFC 3264, RFC 4566), opens pinholes for RTP and
//! RTCP, and forwards the answer once they are open. They are closed at the end of the call: after BYE,
//! CANCEL, a refusal, a timeout, or when a side stops answering. If a pinhole can't be opened, the call
//! is refused and no pinhole stays open.
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
//! [`Pinholes`] is the interface to the middlebox; [`MiddleboxAgent`] implements it with SIMCO.

mod acks;
mod admission;
mod agent;
mod call;
mod call_leg;
mod call_pinholes;
mod change;
mod checks;
mod config;
mod connections;
mod counts;
mod inside_media;
mod loops;
mod media;
mod pinholes;
mod record;
mod refuse;
mod sdp;
mod sequencer;
mod server;
mod setup;
mod sources;

pub use agent::{MiddleboxAgent, TranslatorUnsupported};
pub use config::{B2buaConfig, FirewallSide, NetworkPrefix, PerAddress, SipNextHop};
pub use counts::CallCounts;
pub use media::{MisplacedAddress, PinholeRequest, openings};
pub use pinholes::{OpenPinhole, PinholeRefusal, Pinholes};
pub use record::{CallEnd, CallRecord, CallRecords};
pub use sdp::{MediaStream, SdpError, SessionDescription};
pub use server::{B2bua, B2buaError};
