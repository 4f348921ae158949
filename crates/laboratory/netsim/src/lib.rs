//! A seeded network of hosts, routers and links in virtual time.
//!
//! Hosts run programs ([`Node`]) that are called with packets and timeouts and send through an
//! [`Outbox`]. Links delay, queue, drop, mark, reorder, duplicate and corrupt packets
//! ([`LinkConfig`]). Routes lead to the link of an address, so the paths of a multi-homed host stay
//! separate. One seed determines all random numbers, with a separate stream for each link direction
//! and each node. No wall clock is involved: a simulated hour takes as long as its packets take to
//! process.
//!
//! ```
//! use std::time::Duration;
//! use carrick_netsim::traffic::{Pattern, TrafficSink, TrafficSource, TrafficStream};
//! use carrick_netsim::{LinkConfig, Loss, NetworkBuilder, Time};
//!
//! let mut builder = NetworkBuilder::new(7);
//! let (a, b) = (builder.add_host("a"), builder.add_host("b"));
//! let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
//! let (port_a, port_b) = (builder.add_interface(a, [from]), builder.add_interface(b, [to]));
//! let link = LinkConfig::new(1_000_000, Duration::from_millis(20)).with_loss(Loss::Every(10));
//! builder.connect_both(port_a, port_b, link);
//! let stream = TrafficStream::new(from, to, 1000, Pattern::Constant { rate: 500_000 });
//! let random = builder.node_random(a);
//! builder.set_node_program(a, Box::new(TrafficSource::new([stream], random)?));
//! builder.set_node_program(b, Box::new(TrafficSink::new()));
//! let mut net = builder.build()?;
//! net.run_until(Time::from_secs(10));
//! let report = net.node::<TrafficSink>(b).flow(0).expect("packets");
//! assert_eq!(report.mean_delay(), Some(Duration::from_millis(28)));
//! # Ok::<(), carrick_netsim::ConfigError>(())
//! ```
//!
//! [`Network::capture`] writes files that Wireshark reads; [`Network::at`] schedules link failures
//! and address changes; [`Network::set_tracer`] reports every step of every packet.

#![forbid(unsafe_code)]

mod capture;
mod error;
mod event;
mod external_host;
pub mod files;
pub mod icmp;
mod ids;
mod ip;
mod link;
pub mod mobile;
mod network;
mod node;
mod packet;
pub mod pcapng;
mod rng;
mod schedule;
mod stats;
mod time;
mod trace;
pub mod traffic;

pub use error::ConfigError;
pub use external_host::ExternalHost;
pub use ids::{Direction, InterfaceId, LinkId, NodeId};
pub use ip::{IpError, transport_checksum};
pub use link::{
    GilbertElliott, Jitter, LinkConfig, Loss, Queue, QueueLimit, QueueManagement, Red, Reorder,
};
pub use network::{HostRouting, Network, NetworkBuilder, Prefix, RouteTable};
pub use node::{Node, Outbox, OutgoingPacket};
pub use packet::{
    Ecn, IPV4_HEADER, IPV6_HEADER, Packet, Protocol, SCTP_ENCAPSULATION_PORT, UDP_HEADER,
};
pub use rng::Random;
pub use schedule::{Change, InputRule, Neighbor, Unreachable};
pub use stats::{DropReason, FlowStats, Flows, LinkStats, NodeStats};
pub use time::Time;
pub use trace::{TraceEvent, TracePlace, TraceStep};
