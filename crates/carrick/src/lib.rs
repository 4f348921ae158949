//! SCTP endpoints and associations on real sockets, for tokio programs.
//!
//! An [`Endpoint`] is an SCTP port on one or more addresses of this host, carried in UDP (RFC 6951,
//! no privileges needed) or directly on IP (protocol 132, `CAP_NET_RAW`). It connects and accepts
//! [`Association`]s, which carry messages on streams over all addresses of both hosts.
//!
//! **Await [`Endpoint::close`] before the runtime ends**, above all before `main` returns: `send` only
//! queues a message, and the endpoint's task, which ends with the runtime, delivers it. See below for
//! the effect of leaving `close` out.
//!
//! ```no_run
//! use carrick::{Config, ConnectOptions, Endpoint, SendOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::bind(Config::udp(["192.0.2.1".parse()?, "198.51.100.1".parse()?]))?;
//! let peers = ["192.0.2.9".parse()?, "198.51.100.9".parse()?];
//! let mut association = endpoint.connect(&peers, ConnectOptions::to_port(5000)).await?;
//! association.send("hello", SendOptions::on_stream(1)).await?;
//! while let Some(message) = association.recv().await? {
//!     println!("{} bytes on stream {}", message.payload.len(), message.stream.0);
//! }
//! endpoint.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! One task per endpoint owns the protocol ([`carrick_proto::Endpoint`]) and all sockets, one a local
//! address, so that the source of every packet is exact. Handles talk to it through channels and
//! atomic counters; only a sender that has to wait for room takes a lock.
//!
//! # What ends when a handle is dropped
//!
//! - The last handle of an association ([`Association`], or both its halves): it is shut down
//!   gracefully, so what was sent still arrives, and what nobody read is discarded. After
//!   [`Config::linger`] it is aborted.
//! - [`RecvHalf`] alone: messages that arrive are discarded. [`SendHalf`] alone: nothing changes.
//! - A [`Endpoint::connect`] that is not awaited to its end: the set-up is given up.
//! - The last [`Endpoint`]: no peer is accepted any more; associations that have handles go on. The
//!   task ends, and the sockets close, when the last association has.
//!
//! All of this needs the runtime. When it ends first (`main` returns, or the `Runtime` is dropped), the
//! endpoint's task is dropped: queued messages leave once, as far as the congestion window and the peer's
//! receive window allow, and each peer gets an ABORT with a reason. A lost packet is not sent again, what
//! did not fit into the windows is lost, and the peer sees the end at once, but not as a graceful one. A
//! process that ends without dropping the runtime (`std::process::exit`, a signal that is not handled)
//! sends nothing: its peers find out by their retransmissions, by default after about a minute.
#![forbid(unsafe_code)]

mod assembly;
mod association;
mod command;
mod config;
mod driver;
mod endpoint;
mod error;
mod keys;
mod lazy;
mod port;
pub mod protection;
mod reconfiguration;
mod room;
mod shared;
mod socket;
mod source;
mod strays;
mod streams;

/// The program of the README, to be compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The program of the page about extensions, to be compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extensions.md")]
struct ExtensionsPage;

pub use bytes::Bytes;
pub use carrick_proto::{
    Abandoned, AbandonedCount, AbandonmentPolicy, AbortCause, AddressEvent, AssociationConfig,
    AssociationCounters, AssociationStats, AuthenticationConfig, AuthenticationCounters,
    AuthenticationEvent, ChunkType, CloseReason, ConfigError, ConnectError as ConnectRefusal,
    EndpointStats, Event, Extensions, Grants, HmacId, KeyError as KeyRefusal, LowerLayer, Message,
    Mid, OperationError as CoreError, Part, PathId, PathMtuDiscovery, PathMtuState, PathStats,
    PathStatus, PathThresholds, Payload, PeerError, PeerText, Ppid,
    ReconfigError as ReconfigRefusal, ReconfigOutcome, Reliability, SendError as SendRefusal,
    SendFailure, SendOptions, SharedKey, SharedKeyId, Ssn, StateName, StreamDirection, StreamId,
    StreamScheduler, StreamStats, Tsn, UnsentMessage, congestion, policy,
};

/// Certificates, whom to trust, and what else sessions of DTLS are made of.
#[cfg(feature = "dtls")]
pub use carrick_dtls as dtls;

pub use association::{Association, Events, Notification, RecvHalf, SendHalf};
pub use config::{Config, ConnectOptions, DEFAULT_ENCAPSULATION_PORT, Transport};
pub use endpoint::{Endpoint, Stats};
pub use error::{
    BindError, ConnectError, KeyError, OperationError, ProtectionError, ReconfigError, RecvError,
    SendError, TrySendError,
};
