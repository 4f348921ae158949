//! SIGTRAN on sockets, above crate `carrick`.
//!
//! - [`start_asp`]: an application server process on its associations with signalling gateways, of M3UA, SUA, M2UA or IUA.
//! - [`start_gateway`]: a signalling gateway process with its application servers and ASPs, of the same layers.
//! - [`start_sua_asp`], [`start_sua_gateway`], [`start_sua_ipsp`]: the same of SUA with connections; a gateway that relays between its ASPs.
//! - [`start_ipsp`]: an IP server process of M3UA or SUA with its peers.
//! - [`stp`]: a signal transfer point as a program: routes, link sets, screening, metrics.
//!
//! A [`Session`] sends and receives messages in batches, makes requests, and reports states as events. One task owns all state
//! machines of crate `carrick-sigtran`; each association has a task that reads and one that writes. All queues between
//! them are bounded.
#![forbid(unsafe_code)]

/// Doc test of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod association;
mod clock;
mod connection;
mod event;
mod layer;
mod mtp3;
mod node;
mod request;
mod session;
pub mod stp;

pub use association::endpoint_config;
pub use connection::RemoteGateway;
pub use event::{Event, EventKind};
pub use layer::{ConnectError, SocketLayer};
pub use node::{AspSettings, IpspConfig, IpspPeer};
pub use request::{Ended, RequestError};
pub use session::{
    GatewayConfig, Outgoing, Received, SendError, Session, TransferReceiver, TransferSender,
    start_asp, start_gateway, start_ipsp, start_sua_asp, start_sua_gateway, start_sua_ipsp,
};
