//! Sockets API of SCTP (RFC 6458) with Linux's numbers and layouts, as a state machine without I/O,
//! clocks, threads or global state.
//!
//! [`Sockets`] has all sockets of a host, above one [`carrick_proto::Endpoint`] for each SCTP port in use.
//! A daemon, a C library or a module of another language gives them descriptors, system calls and
//! packets.
//!
//! # Use
//!
//! 1. Call an input: a call of the API such as [`Sockets::socket`], [`Sockets::connect`],
//!    [`Sockets::sendmsg`] or [`Sockets::setsockopt`], or [`Sockets::handle_datagram`],
//!    [`Sockets::handle_icmp`], [`Sockets::handle_timeout`]. Inputs that depend on time take `now`.
//! 2. Then drain the outputs: [`Sockets::poll_transmit`] until it returns `None`,
//!    [`Sockets::poll_readiness`] until it returns `None`, and read [`Sockets::poll_timeout`] for the time
//!    of the next call of [`Sockets::handle_timeout`].
//!
//! No call blocks. One that would block returns `EAGAIN` (or `EINPROGRESS` for `connect`), and
//! [`Sockets::poll_readiness`] reports when to try again, and [`Sockets::poll_setup`] the result of a `connect` of a
//! one-to-many socket. A caller that blocks for a program applies
//! `SO_RCVTIMEO`, `SO_SNDTIMEO` ([`Sockets::timeouts`]) and the time of `SO_LINGER` ([`Closed::Lingers`]).
//! Errors are Linux's ([`Errno`]); for `EPIPE` without `MSG_NOSIGNAL` the caller raises SIGPIPE.
//!
//! Every table and queue is bounded: sockets, associations and accept queues by [`Config`]; received
//! messages by the receive buffer of their association, and 32 messages or 64 KiB of each socket ahead of
//! the user; notifications by 64 KiB of each socket, 4 KiB in an accept queue. Sources of peers and owners of sockets
//! have shares ([`Config::max_associations_per_source`], [`Sockets::set_owner`]). At the limit of notifications
//! one-to-many sockets refuse associations, and notifications other than the end of an association are
//! dropped and counted ([`Sockets::dropped_notifications`]).
//!
//! # Handover
//!
//! [`Sockets::export`] and [`Sockets::import`] continue all sockets in another process, as
//! [`carrick_proto::Endpoint::export`] does it with one endpoint: at any moment between two calls, with
//! messages in both directions, set-ups in progress and notifications that have not been read.
//!
//! # What differs from Linux
//!
//! The manual has [all differences](https://github.com/carrick-sctp/carrick/blob/main/docs/sockets-differences.md) that a
//! program on these sockets sees. Of this crate are:
//!
//! - Sockets that share a port share its addresses: `SO_REUSEADDR`, `SO_REUSEPORT` and `SCTP_REUSE_PORT`
//!   apply to sockets that are bound to the same addresses, and `sctp_bindx` on one of several sockets of a
//!   port, such as accepted ones, changes the addresses of all.
//! - The address of a received message is the primary address of its association.
//! - `SCTP_CANT_STR_ASSOC` and the notifications of its unsent messages have the identifier and the flags of
//!   the message, where Linux has 0 and the flags of a DATA chunk.
//! - After an ABORT, and after a shutdown of this side, there is an end of messages, where a reader waits
//!   on Linux. Readiness has a hang-up after every end and after a set-up that failed.
//! - `SCTP_EVENT` with `SCTP_DATA_IO_EVENT` has an effect on a connected one-to-one socket, too.
//! - `SCTP_MAXSEG` may be less than 464 bytes. Port 0 is refused as a peer's.
//! - `sstat_penddata` counts the messages that have not been read; Linux counts chunks behind a gap.
//! - IPv6 link-local addresses are refused, since the core has no scope identifiers.
//! - `SO_RCVBUF` changes the buffers of future associations. Unless they are set, buffers grow as
//!   [`Config::association`] allows.
//! - `SO_KEEPALIVE`, `SO_BROADCAST`, `SO_OOBINLINE`, `SO_PRIORITY` and `SO_RCVLOWAT` are stored and reported,
//!   without an effect.
//! - `sas_maxrto` of `SCTP_GET_ASSOC_STATS` is 0, without an address, if no RTO was set since the option was
//!   read; Linux has `srto_min`, and the address of the period before. Control chunks that are counted include SACKs
//!   in both directions.
//! - Messages that fit into the receive buffer are delivered whole, whatever the
//!   `SCTP_PARTIAL_DELIVERY_POINT`, of which nothing but its limit is applied.
//!
//! # Options that are refused
//!
//! `ENOPROTOOPT` is the result of all options but those that `setsockopt` and `getsockopt` know, and of:
//!
//! | option | reason |
//! |---|---|
//! | `SCTP_PLPMTUD_PROBE_INTERVAL` of an existing association | the core reads the parameters of path MTU discovery (RFC 8899) at set-up |
//! | `SCTP_AUTO_ASCONF` with 0, of a socket with a wildcard address (`EOPNOTSUPP`) | its associations always follow the addresses of the host |
//! | `SCTP_SENDMSG_CONNECT` | set by Linux's kernel for itself |
//! | `SCTP_SOCKOPT_PEELOFF`, `SCTP_SOCKOPT_PEELOFF_FLAGS` | the result is a descriptor: [`Sockets::peeloff`] |
//! | `SCTP_SOCKOPT_CONNECTX3`, `SCTP_SOCKOPT_CONNECTX_OLD` | the value has a pointer, or is deprecated: [`Sockets::connectx`] |
//! | `SO_BINDTODEVICE`, `IP_TTL` | interfaces and packets are matters of the caller, to whom the core has no way to pass them |
//! | `SCTP_PEER_ADDR_PARAMS` with `SPP_IPV6_FLOWLABEL` | Linux sends a flow label only from a socket with a lease of it (`IPV6_FLOWLABEL_MGR`), and the sockets of the caller are those of all associations |
//! | `SCTP_PEER_ADDR_PARAMS` with a SACK delay of one path of several | the core has one for all paths of an association |
//! | `SCTP_STREAM_SCHEDULER`, reading one that the configuration has set | Linux's header has numbers for three of the core's six schedulers |
//! | ancillary data `SCTP_AUTHINFO` with another key than the active one, if the peer requires DATA to be authenticated | the core has one active key for all messages |
//!
//! The cookie life that `SCTP_ASSOCINFO` sets on an existing association is reported, without an effect after its
//! set-up. The name `SCTP_MAXSEG` is that of erratum 6980 to RFC 6458, and `SCTP_FUTURE_ASSOC` in the lists of
//! addresses that of erratum 6114.
#![forbid(unsafe_code)]
// Linux's numbers are dozens in a file, and have prefixes.
#![allow(clippy::wildcard_imports)]

/// The example of the README, to be compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod ancillary;
mod associations;
mod config;
mod errno;
mod host;
mod ids;
pub mod linux;
mod notifications;
mod ports;
mod settings;
mod table;

pub use config::{Config, PortObservers, ReservedPorts};
pub use errno::Errno;
pub use host::{
    AbortedAssociation, AssociationAddresses, AssociationReport, AssociationSettings, Closed,
    EventCounters, HostStatistics, ListenerState, OutgoingMessage, OverviewKey, OverviewRow,
    OverviewSubject, Received, Reports, Sockets, SocketsExport, Status, Usage,
};
pub use ids::{AssocId, SocketId};
pub use settings::Timeout;
pub use table::{Family, Readiness, ReadinessChange, Style};
