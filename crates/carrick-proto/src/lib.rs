//! SCTP (RFC 9260) as a state machine: no sockets, no clocks, no threads, no global state.
//!
//! # The contract
//!
//! An [`Endpoint`] is one SCTP endpoint: a port, its local addresses and all associations on them.
//! Time and packets go in, packets, timers and events come out:
//!
//! 1. Call one of the inputs: [`Endpoint::handle_datagram`], [`Endpoint::handle_timeout`],
//!    [`Endpoint::handle_icmp`], or a mutator such as [`Endpoint::connect`], [`Endpoint::send`],
//!    [`Endpoint::receive`], [`Endpoint::shutdown`]. Every input that can depend on time takes `now`.
//! 2. Then drain the outputs: [`Endpoint::poll_transmit`] until it returns `None`,
//!    [`Endpoint::poll_event`] until it returns `None`, and read [`Endpoint::poll_timeout`] for the
//!    moment at which [`Endpoint::handle_timeout`] wants to be called.
//!
//! The same seed and the same calls give the same packets. A malformed datagram is dropped and
//! counted in [`EndpointStats`]; it is never an error for the caller. A message that arrived in one
//! DATA chunk is delivered as a slice of the datagram that carried it, without a copy, if it fills the
//! datagram. Others are copied, so that a chunk never keeps more memory than five times what it counts
//! in the receive buffer ([`AssociationConfig::receive_buffer`], [`DATAGRAMS_PER_ALLOCATION`]).
//!
//! The rooms are the chapters of RFC 9260: `endpoint` (5.1.3, 8.4, 8.5, 10), `association` (4, 5, 9),
//! `path` (6.3, 6.4, 8), `congestion` (7), `send` and `recv` (6), `reconfig` (RFC 6525), and `policy`, where every published
//! variation is a named choice.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod association;
mod auth;
mod config;
pub mod congestion;
mod endpoint;
mod error;
mod event;
mod extensions;
mod looks;
mod path;
mod peer_text;
pub mod policy;
pub mod protection;
mod random;
mod reconfig;
mod recv;
mod reliability;
mod route;
mod send;
mod stats;
mod stream_table;
mod time;
mod trace;

/// Datagrams that a driver may cut from one allocation for [`Endpoint::handle_datagram`].
///
/// A message that is a slice of its datagram keeps the whole allocation. The core counts on it that the
/// allocation is at most this many times as long as each datagram in it.
pub const DATAGRAMS_PER_ALLOCATION: usize = 4;

pub use carrick_wire::{
    ChunkType, CommonHeader, HmacId, Mid, ParameterType, Ppid, SharedKeyId, Ssn, StreamId, Tsn,
    VerificationTag,
};

pub use association::AssociationId;
pub use association::state::StateName;
pub use association::zero_checksum::LowerLayer;
pub use auth::{AuthenticationConfig, KeyError, SharedKey};
pub use config::{AssociationConfig, ConfigError, EndpointConfig};
pub use endpoint::{Endpoint, IcmpInput, IcmpKind, PeerAddress};
pub use error::{AbortCause, ConnectError, OperationError, SendError};
pub use event::{
    AddressEvent, AuthenticationEvent, CloseReason, Event, PeerError, SendFailure, UnsentMessage,
};
pub use extensions::Extensions;
pub use path::mtu_discovery::{PathMtuDiscovery, PathMtuState};
pub use path::{PathId, PathStatus, PathThresholds};
pub use peer_text::PeerText;
pub use reconfig::{Grants, ReconfigError, ReconfigOutcome, StreamDirection};
pub use recv::message::{Message, Part, Payload};
pub use reliability::{Abandoned, AbandonedCount, AbandonmentPolicy, Reliability};
pub use route::{Ecn, MatchingAddress, Route, SourceSelection, Transmit};
pub use send::message::SendOptions;
pub use send::scheduler::StreamScheduler;
pub use stats::{
    AssociationCounters, AssociationStats, AuthenticationCounters, EndpointStats, PathStats,
    StreamStats,
};
pub use time::Time;
pub use trace::{TraceEvent, TraceRecord};
