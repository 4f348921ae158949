//! Mobile IP for IPv4 (RFC 5944) over IP-in-IP tunnels (RFC 2003), with reverse tunnels (RFC 3024).
//!
//! A mobile node keeps its home address wherever it is attached. At home it is an ordinary host.
//! Away from home it discovers a foreign agent by its advertisements, or has an address of the
//! visited network, and registers this care-of address with its home agent, which then intercepts
//! the packets for the home address and tunnels them to the care-of address:
//!
//! ```text
//! correspondent ──► home agent ══ tunnel ══► foreign agent ──► mobile node
//!       ▲  ▲             ▲                       │  │ ▲             │
//!       │  └─────────────┴═══ reverse tunnel ════╧══╧═╪═════════════┤
//!       └───────────────────────── triangle ──────────┴─────────────┘
//! ```
//!
//! [`HomeAgent`] and [`ForeignAgent`] are programs of routers; [`MobileNode`] wraps the program of
//! a host. Each can be stopped and has counters. The messages have their real format and are parsed
//! strictly, and all state is bounded.
//!
//! Not implemented: minimal encapsulation and GRE, broadcasts to mobile nodes, nonces instead of
//! timestamps, dynamic home agent address resolution, mobile routers, and security associations
//! with foreign agents.

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
pub use discovery::{
    AgentAdvertisement, AgentFlags, DiscoveryMessage, RouterAddress, solicitation,
};
pub use foreign_agent::{ForeignAgent, ForeignAgentConfig, ForeignAgentStats, VisitorEntry};
pub use home_agent::{HomeAgent, HomeAgentConfig, HomeAgentStats, MobilityBinding};
pub use identification::{Identification, ReplayProtection};
pub use message::{
    ExtensionPosition, RegistrationReply, RegistrationRequest, ReplyCode, RequestFlags,
    SignedMessage,
};
pub use node::{Attachment, CareOf, MobileNode, MobileNodeConfig, MobileNodeStats, MobilityEvent};

/// The UDP port of registration messages.
pub const PORT: u16 = 434;
/// Multicast group of all hosts on the link.
pub const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// Multicast group of all routers on the link: destination of solicitations.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// Multicast group of all mobility agents on the link.
pub const ALL_AGENTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 11);
/// Infinite lifetime in registrations and advertisements.
pub const INFINITE: u16 = u16::MAX;

/// Returns the end of a registration with a lifetime in seconds.
fn end_of(now: Time, lifetime: u16) -> Time {
    match lifetime {
        INFINITE => Time::MAX,
        seconds => now + Duration::from_secs(seconds.into()),
    }
}

/// Builds a registration message of an agent, to this UDP port.
fn message_packet(from: Ipv4Addr, to: IpAddr, destination_port: u16, payload: Bytes) -> Packet {
    let ports = Protocol::Udp {
        source_port: PORT,
        destination_port,
    };
    Packet::new(IpAddr::V4(from), to, ports, payload)
}

/// Reason why bytes are not a valid message of Mobile IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Shorter than its fixed part or a length field requires.
    #[error("the message is truncated")]
    Truncated,
    /// The type is not one of the supported messages.
    #[error("message type {0} is unknown")]
    Type(u8),
    /// An ICMP checksum, code or time to live is not valid for the message.
    #[error("a header field of the message is wrong")]
    Header,
    /// A length field contradicts the format.
    #[error("a length field of the message is wrong")]
    Length,
    /// An unknown extension with a type below 128, which makes the message invalid (RFC 5944,
    /// section 1.8).
    #[error("extension type {0} is unknown and must not be skipped")]
    Extension(u8),
    /// More extensions than are parsed.
    #[error("the message has too many extensions")]
    TooManyExtensions,
    /// Flags exclude each other, or the care-of address is missing.
    #[error("the message has contradictory fields")]
    Contradiction,
    /// A router advertisement of a router that is not a mobility agent.
    #[error("the router is not a mobility agent")]
    NoAgent,
}
