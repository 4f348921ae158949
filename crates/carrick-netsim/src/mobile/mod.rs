//! Mobile IP for IPv4 (RFC 5944) over IP-in-IP tunnels (RFC 2003), with reverse tunnels (RFC 3024).
//!
//! A mobile node keeps its home address wherever it is. At home nothing is special. Abroad it finds a
//! foreign agent by its advertisements, or has an address of the visited network, and registers this
//! care-of address with its home agent, which then takes the packets for the home address and
//! tunnels them there:
//!
//! ```text
//! correspondent ──► home agent ══ tunnel ══► foreign agent ──► mobile node
//!       ▲  ▲             ▲                       │  │ ▲             │
//!       │  └─────────────┴═══ reverse tunnel ════╧══╧═╪═════════════┤
//!       └───────────────────────── triangle ──────────┴─────────────┘
//! ```
//!
//! [`HomeAgent`] and [`ForeignAgent`] are programs of routers, [`MobileNode`] wraps the program of a
//! host. Each can be stopped and counted like any other program. The messages are in their real
//! format, read strictly, and what each side remembers is bounded.
//!
//! Left out: minimal encapsulation and GRE, broadcasts to mobile nodes, nonces instead of
//! timestamps, dynamic home agents, mobile routers, and security associations with foreign agents.

mod advertiser;
mod authentication;
mod discovery;
mod flags;
mod foreign_agent;
mod home_agent;
mod identification;
mod message;
mod node;
mod tunnel;

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::packet::{Packet, Protocol};
use crate::time::Time;

pub use advertiser::Advertising;
pub use authentication::{AuthenticationKind, SecurityAssociation};
pub use discovery::{AgentAdvertisement, AgentFlags, Discovery, RouterAddress, solicitation};
pub use foreign_agent::{ForeignAgent, ForeignAgentConfig, ForeignAgentStats, Visitor};
pub use home_agent::{Binding, HomeAgent, HomeAgentConfig, HomeAgentStats};
pub use identification::{Identification, ReplayProtection};
pub use message::{
    Extension, RegistrationReply, RegistrationRequest, ReplyCode, RequestFlags, Signed,
};
pub use node::{Attachment, CareOf, MobileNode, MobileNodeConfig, MobileNodeStats, MobilityEvent};

/// The UDP port of registration messages.
pub const PORT: u16 = 434;
/// All hosts on the link.
pub const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// All routers on the link: where solicitations go.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// All mobility agents on the link.
pub const ALL_AGENTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 11);
/// A lifetime without end, in the lifetime fields of registrations and advertisements.
pub const INFINITE: u16 = u16::MAX;

/// When a registration of so many seconds ends.
fn end_of(now: Time, lifetime: u16) -> Time {
    match lifetime {
        INFINITE => Time::MAX,
        seconds => now + Duration::from_secs(seconds.into()),
    }
}

/// A registration message of an agent, to this port.
fn message_packet(from: Ipv4Addr, to: IpAddr, destination_port: u16, payload: Bytes) -> Packet {
    let ports = Protocol::Udp {
        source_port: PORT,
        destination_port,
    };
    Packet::new(IpAddr::V4(from), to, ports, payload)
}

/// Why bytes are not a message of Mobile IP; the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Shorter than its fixed part or than a length field says.
    #[error("the message is cut off")]
    Truncated,
    /// A type that is none of the messages read here.
    #[error("message type {0} is unknown")]
    Type(u8),
    /// An ICMP checksum, code or time to live that the message must not have.
    #[error("a header field of the message is wrong")]
    Header,
    /// A length field contradicts the format.
    #[error("a length field of the message is wrong")]
    Length,
    /// An extension of a type below 128 that is not known, which makes the message unusable (RFC
    /// 5944 section 1.8).
    #[error("extension type {0} is unknown and must not be skipped")]
    Extension(u8),
    /// More extensions than a message is read with.
    #[error("the message has too many extensions")]
    TooManyExtensions,
    /// Flags that exclude each other, or a care-of address that is missing.
    #[error("the message contradicts itself")]
    Contradiction,
    /// A router advertisement of a router that is no mobility agent.
    #[error("the router is no mobility agent")]
    NoAgent,
}
