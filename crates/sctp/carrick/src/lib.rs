//! SCTP endpoints and associations on real sockets, for tokio programs.
//!
//! An [`Endpoint`] is an SCTP port on one or more addresses of this host, carried in UDP (RFC 6951,
//! no privileges needed) or directly on IP (protocol 132, `CAP_NET_RAW`). It connects and accepts
//! [`Association`]s, which carry messages on streams over all addresses of both hosts.
//!
//! [`SendHalf::send`] queues a message and does not wait for its delivery. **A program that ends without
//! [`Endpoint::close`] or [`SendHalf::shutdown`] may lose messages that `send` accepted**: they leave once, as
//! far as the congestion window and the peer's receive window allow, messages beyond the windows are
//! discarded, and the peer gets an ABORT. See [End of a program](#end-of-a-program).
//!
//! A server that sends each message back, and a client:
//!
//! ```
//! use carrick::{Config, ConnectOptions, Endpoint, SendOptions};
//!
//! async fn serve(endpoint: Endpoint) {
//!     while let Some(incoming) = endpoint.accept().await {
//!         let mut association = incoming.accept();
//!         tokio::spawn(async move {
//!             while let Ok(Some(message)) = association.recv().await {
//!                 let options = SendOptions::on_stream(message.stream);
//!                 if association.send(message.payload, options).await.is_err() {
//!                     break;
//!                 }
//!             }
//!         });
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Port 0: the system chooses, so that server and client fit on one host.
//!     let config = || Config::udp([[127, 0, 0, 1].into()]).encapsulation_port(0);
//!     let server = Endpoint::bind(config().port(5000))?;
//!     tokio::spawn(serve(server.clone()));
//!
//!     let client = Endpoint::bind(config())?;
//!     let udp_port = server.encapsulation_port().ok_or("not in UDP")?;
//!     let options = ConnectOptions::new().encapsulation_port(udp_port);
//!     let mut association = client.connect_with("127.0.0.1:5000", options).await?;
//!     association.send("hello", SendOptions::on_stream(1)).await?;
//!     let reply = association.recv().await?.ok_or("no reply")?;
//!     assert_eq!(reply.payload.into_bytes(), "hello");
//!
//!     for report in [client.close().await, server.close().await] {
//!         assert!(report.is_empty(), "{report}");
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # End of a program
//!
//! **Await [`Endpoint::close`] before the runtime ends**, above all before `main` returns.
//! [`SendHalf::send`] only queues a message; the endpoint's task, which ends with the runtime, delivers
//! it. `close` is ready when each association has ended, and returns a [`CloseReport`]: empty if each accepted
//! message was acknowledged, otherwise with the associations that did not end gracefully, the reasons and the
//! numbers of messages that were not delivered. It waits as long as the protocol retransmits, with several
//! addresses over a failover; [`Endpoint::close_within`] has a limit. [`SendHalf::shutdown`] waits for the
//! messages of one association, [`SendHalf::closed`] for its end.
//!
//! Without it the endpoint's task is dropped with the runtime. Queued messages leave once, as far as the
//! congestion window and the peer's receive window allow, and each peer gets an ABORT with a reason. A
//! lost packet is not retransmitted, messages that did not fit into the windows are lost, and the peer
//! does not see a graceful end. A process that ends without dropping the runtime (`std::process::exit`,
//! a signal that is not handled) sends nothing: its peers detect the end by their retransmissions, by
//! default after about a minute.
//!
//! # Dropping handles
//!
//! While the runtime lives:
//!
//! - The last handle of an association ([`Association`], or its halves and [`AssociationControl`]): it is shut down gracefully.
//!   Sent messages are delivered, received messages that were not read are discarded. After
//!   [`Config::linger`], by default longer than the protocol retransmits, it is aborted.
//! - [`RecvHalf`] alone: messages that arrive are discarded. [`SendHalf`] alone: no effect.
//! - [`Incoming`] that was not accepted: the association is shut down.
//! - The future of [`Endpoint::connect`]: the set-up is aborted.
//! - The last [`Endpoint`]: no peer is accepted any more. Associations that have handles continue; the
//!   task ends and the sockets close with the last one.
//!
//! # Restart of a program
//!
//! On Linux, `Endpoint::hand_over` stops an endpoint without an end of its associations, and `Endpoint::resume` continues them in
//! the next process, such as the new version of the program: with unsent and unread messages, timers and paths. The old handles
//! get [`CloseReason::HandedOver`].
//!
//! # Structure
//!
//! One task per endpoint owns the protocol ([`carrick_proto::Endpoint`]) and all sockets, one for each
//! local address, so that the source of every packet is exact. Handles use channels and atomic counters;
//! a sender that waits for room in the send queue takes a lock, and so does each call that receives, which no one else takes
//! before a handover. With [`Config::shards`], several tasks
//! divide the associations among them.
//!
//! # Features
//!
//! - `dtls`: SCTP over DTLS (RFC 8261).
//! - `serde`: `Serialize` for statistics, `Serialize` and `Deserialize` for [`AssociationConfig`].
//! - `tracing`: events for `tracing` subscribers, in a span for each association.
//! - `event-log`: `EventLog`, what endpoints decide as lines of JSON.
//! - `prometheus`: `MetricsCollector`, [`Endpoint::metrics`] for a registry of `prometheus-client`.
//! - `metrics`: `record_metrics`, the same for the facade `metrics`.
#![forbid(unsafe_code)]

mod assembly;
mod association;
mod close_report;
mod command;
mod config;
mod driver;
#[cfg(any(feature = "event-log", feature = "tracing"))]
mod end_reason;
mod endpoint;
mod error;
#[cfg(feature = "event-log")]
mod event_log;
#[cfg(target_os = "linux")]
mod handover;
mod incoming;
mod lazy;
#[cfg(any(feature = "metrics", feature = "prometheus"))]
mod metrics;
pub mod network;
mod observers;
mod packets;
mod peer;
mod port;
pub mod protection;
mod send_credit;
mod shared;
mod socket;
mod strays;
mod unread_memory;

/// Doc test of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;

/// Doc test of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CrateReadme;

/// Doc test of the page about extensions.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/extensions.md")]
struct ExtensionsPage;

/// Doc test of the guide's first program.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/first-program.md")]
struct FirstProgramPage;

/// Doc test of the guide's page about tuning.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/tuning.md")]
struct TuningPage;

/// Doc test of the guide's page about restarts.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/restart.md")]
struct RestartPage;

/// Doc test of the guide's page about encryption.
#[cfg(all(doctest, feature = "dtls"))]
#[doc = include_str!("../../../../docs/guide/encryption.md")]
struct EncryptionPage;

pub use bytes::Bytes;
pub use carrick_proto::{
    Abandoned, AbandonedCount, AbandonmentPolicy, AbortCause, AddressEvent, AssociationConfig,
    AssociationCounters, AssociationId, AssociationStats, AuthenticationConfig,
    AuthenticationCounters, AuthenticationEvent, BufferConfig, CauseCode, ChunkType, CloseReason,
    DiscardReason, EndpointMetrics, EndpointStats, Event, EventReport, Extensions, Grants, HmacId,
    KeyError, LowerLayer, Message, MessagePart, Mid, MtuConfig, NamedCounter, ObservedDetail,
    ObservedEvent, ObservedValue, Observer, ParameterChanges, PathConfig, PathCounts,
    PathErrorCause, PathId, PathMtuDiscovery, PathMtuState, PathReport, PathStats, PathStatus,
    PathThresholds, Payload, PeerError, PeerText, Ppid, Preset, ReconfigError, ReconfigOutcome,
    Reliability, ReportKind, ResearchConfig, SecurityConfig, SendFailure, SendOptions, SharedKey,
    SharedKeyId, Ssn, StateName, StreamConfig, StreamDirection, StreamId, StreamScheduler,
    StreamStats, Time, TimerConfig, TransmissionConfig, Tsn, UnknownPreset, UnsentMessage, cc,
    research,
};

/// Certificates, trust and configuration of DTLS sessions.
#[cfg(feature = "dtls")]
pub use carrick_dtls as dtls;
#[cfg(feature = "dtls")]
pub use carrick_dtls_chunk as dtls_chunk;

pub use association::{
    Association, AssociationControl, ByteStream, Events, MessageSink, Notification, RecvHalf,
    SendHalf,
};
pub use close_report::{AssociationEnd, CloseReport};
pub use config::{Config, ConnectOptions, DEFAULT_ENCAPSULATION_PORT, Transport};
pub use endpoint::{Endpoint, Stats};
pub use error::{
    BindError, ConfigError, ConnectError, OperationError, RecvError, SendError, TryRecvError,
    TrySendError,
};
#[cfg(feature = "event-log")]
pub use event_log::EventLog;
#[cfg(target_os = "linux")]
pub use handover::{HandOverError, Handover, ResumeError};
pub use incoming::Incoming;
#[cfg(feature = "prometheus")]
pub use metrics::MetricsCollector;
#[cfg(feature = "metrics")]
pub use metrics::record_metrics;
pub use packets::{ObservedPacket, PacketObserver};
pub use peer::Peer;
