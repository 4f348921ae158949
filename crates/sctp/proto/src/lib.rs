//! SCTP (RFC 9260) as a state machine without sockets, clocks, threads or global state.
//!
//! # Use
//!
//! An [`Endpoint`] is an SCTP endpoint: a port, its local addresses and all associations on them. Its
//! inputs are time, packets and the user's operations; its outputs are packets, timers and events:
//!
//! 1. Call an input: [`Endpoint::handle_datagram`], [`Endpoint::handle_timeout`],
//!    [`Endpoint::handle_icmp`], or an operation such as [`Endpoint::connect`], [`Endpoint::send`],
//!    [`Endpoint::receive`], [`Endpoint::shutdown`]. [`Endpoint::association_mut`] returns an association to change
//!    its paths, streams, keys and parameters. Every input that depends on time takes `now`.
//! 2. Then drain the outputs: [`Endpoint::poll_transmit`] until it returns `None` ([`JoinedTransmits`] helps to
//!    send packets together), [`Endpoint::poll_event`] until it returns `None`, and read
//!    [`Endpoint::poll_timeout`] for the time of the next call of [`Endpoint::handle_timeout`].
//!
//! Equal seeds and equal calls produce equal packets. A malformed datagram is dropped and counted in
//! [`EndpointStats`]; it is no error of the caller. A message that fills the datagram in which it arrived
//! is delivered as a slice of it, without a copy. Other messages are copied, so that a chunk never holds
//! more than five times the memory that it counts in the receive buffer ([`BufferConfig::receive_buffer`], [`DATAGRAMS_PER_ALLOCATION`]).
//!
//! # Handover
//!
//! [`Endpoint::export`] and [`Endpoint::import`] hand an endpoint over to another process, at any moment
//! between two calls, so that a restart or an upgrade loses no association and no message:
//!
//! ```
//! use carrick_proto::{Endpoint, EndpointConfig, ImportConfig, Time};
//!
//! let local = vec!["192.0.2.1".parse()?];
//! let predecessor = Endpoint::new(EndpointConfig::new(5000, local, [7; 32]))?;
//! let export = predecessor.export(Time::from_millis(90_000))?;
//! drop(predecessor); // Its further packets and events would be unknown to the successor.
//!
//! // In the other process, by its own clock. The bytes contain keys and messages.
//! let now = Time::from_millis(3_600_000);
//! let successor = Endpoint::import(ImportConfig::default(), now, export.as_bytes())?;
//! assert_eq!(successor.port(), 5000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The modules follow the chapters of RFC 9260: `endpoint` (5.1.3, 8.4, 8.5, 10), `association` (4, 5,
//! 9), `path` (6.3, 6.4, 8), `cc` (7), `tx` and `rx` (6). `addresses` has RFC 5061, `streams` RFC 6525,
//! `sessions` RFC 8261, and `research` the algorithms in which papers and implementations differ.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

/// The example of the README, to be compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[macro_use]
pub mod export;

mod addresses;
mod association;
mod auth;
mod capacity;
pub mod cc;
mod config;
mod cookie;
mod counters;
mod ecn;
mod endpoint;
mod error;
mod event;
mod extensions;
mod ids;
mod metrics;
mod observer;
mod path;
mod peer_text;
mod presets;
pub mod protection;
mod random;
mod range_set;
mod reliability;
mod reply_packets;
mod report;
pub mod research;
mod route;
mod rx;
pub mod sessions;
mod stats;
mod stream_set;
mod stream_table;
mod streams;
mod time;
mod transmit;
mod tx;
mod work_counter;

pub use carrick_wire::{
    CauseCode, ChunkType, CommonHeader, HmacId, Mid, ParameterType, Ppid, SharedKeyId, Ssn,
    StreamId, Tsn, VerificationTag,
};

pub use association::Association;
pub use auth::{AuthenticationConfig, AuthenticationCounters, KeyError, SharedKey};
pub use config::{
    AssociationConfig, BufferConfig, Grants, LowerLayer, MtuConfig, PathConfig, PathMtuDiscovery,
    PathThresholds, ResearchConfig, SecurityConfig, StreamConfig, StreamScheduler, TimerConfig,
    TransmissionConfig,
};
pub use endpoint::{
    AssociationMut, Endpoint, EndpointConfig, EndpointExport, IcmpInput, IcmpKind, ImportConfig,
    ParameterChanges, Shard, ShardTable, SharedTable, SourceKey,
};
pub use error::{ConfigError, ConnectError, OperationError, ReconfigError, SendError};
pub use event::{
    AbortCause, AddressEvent, AuthenticationEvent, CloseReason, Event, PeerError, ReconfigOutcome,
    SendFailure, StreamDirection, UnsentMessage,
};
pub use export::{ExportError, ImportError};
pub use extensions::Extensions;
pub use ids::{AssociationId, StateName};
pub use metrics::{EndpointMetrics, NamedCounter, PathCounts};
pub use observer::{DiscardReason, ObservedDetail, ObservedEvent, ObservedValue, Observer};
pub use path::mtu_discovery::PathMtuState;
pub use path::{PathErrorCause, PathId, PathStats, PathStatus};
pub use peer_text::PeerText;
pub use presets::{Preset, UnknownPreset};
pub use reliability::{Abandoned, AbandonedCount, AbandonmentPolicy, Reliability};
pub use report::{EventReport, PathReport, ReportKind};
pub use route::{Ecn, MatchingAddress, PeerAddress, Route, SourceSelection};
pub use rx::DATAGRAMS_PER_ALLOCATION;
pub use rx::message::{Message, MessagePart, Payload};
pub use stats::{AssociationCounters, AssociationStats, BufferUse, EndpointStats, StreamStats};
pub use time::Time;
pub use transmit::{JoinedTransmits, Transmit};
pub use tx::message::SendOptions;
