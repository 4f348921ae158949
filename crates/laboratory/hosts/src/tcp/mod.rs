//! A simulated host with TCP: a [`carrick_netsim::Node`] with one connection and the [`TcpApplication`] that uses it.
//!
//! The host has what the TCP of the published experiments had: the windows of Reno (RFC 5681), limited transmit
//! (RFC 3042), loss recovery with SACK (RFC 2018, RFC 6675) or, with [`TcpConfig::sack`] off, with `NewReno`
//! (RFC 6582), the retransmission timer of RFC 6298, delayed ACKs, Nagle's algorithm and window scaling (RFC 7323). For
//! comparison with current kernels there is CUBIC (RFC 9438). Further mechanisms of current kernels are missing: time
//! stamps, RACK-TLP (RFC 8985), PRR (RFC 6937), F-RTO, D-SACK, ECN, pacing and windows of ten segments at the start.
//! Programs take data at once, so that windows do not close and are not probed; connections are not closed. Packets are
//! complete: captures of them can be analysed as those of any TCP.
//!
//! ```
//! use std::net::IpAddr;
//! use bytes::Bytes;
//! use carrick_hosts::tcp::{Connection, TcpApplication, TcpConfig, TcpHost};
//! use carrick_netsim::{LinkConfig, NetworkBuilder, Queue, Time};
//!
//! /// Sends a number of bytes, or receives them.
//! struct Bytes100k {
//!     rest: usize,
//!     received: usize,
//! }
//!
//! impl TcpApplication for Bytes100k {
//!     fn on_data(&mut self, _: Time, data: Bytes) {
//!         self.received += data.len();
//!     }
//!
//!     fn on_progress(&mut self, _: Time, connection: &mut Connection) {
//!         self.rest -= connection.send(&vec![0; self.rest]);
//!     }
//! }
//!
//! let [a, b]: [IpAddr; 2] = ["10.0.0.1".parse()?, "10.0.0.2".parse()?];
//! let mut net = NetworkBuilder::new(1);
//! let hosts = ["client", "server"].map(|name| net.add_host(name));
//! let [ia, ib] = [(hosts[0], a), (hosts[1], b)].map(|(host, ip)| net.add_interface(host, [ip]));
//! let link = LinkConfig::new(1_000_000, std::time::Duration::from_millis(10));
//! net.connect_both(ia, ib, link.with_queue(Queue::packets(50)));
//! let [source, sink] = [100_000, 0].map(|rest| Bytes100k { rest, received: 0 });
//! let client = TcpHost::connect(TcpConfig::new(a, 1), (b, 80), source);
//! let server = TcpHost::listen(TcpConfig::new(b, 2), 80, sink);
//! net.set_node_program(hosts[0], Box::new(client));
//! net.set_node_program(hosts[1], Box::new(server));
//! let mut net = net.build()?;
//! net.run_until(Time::from_secs(3));
//! assert_eq!(net.node::<TcpHost<Bytes100k>>(hosts[1]).application().received, 100_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod application;
mod congestion;
mod connection;
mod receiver;
mod rto;
mod segment;
mod sender;

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::{InterfaceId, Node, Outbox, Packet, Protocol, Time};

pub use application::{Segment, TcpApplication};
pub use connection::Connection;

/// Congestion control of a [`TcpHost`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpCongestion {
    /// RFC 5681.
    Reno,
    /// The same with a window of segments instead of bytes, as in Linux: a small segment counts as a
    /// full one, and the window only grows while it is used completely.
    Packets,
    /// RFC 9438.
    Cubic,
}

/// Settings of a [`TcpHost`].
#[derive(Clone, Copy, Debug)]
pub struct TcpConfig {
    /// Address of the host.
    pub address: IpAddr,
    /// Seed of the initial sequence number.
    pub seed: u64,
    /// Receive window in bytes.
    pub receive_buffer: usize,
    /// Send buffer in bytes, acknowledged data excluded.
    pub send_buffer: usize,
    /// Congestion control.
    pub congestion: TcpCongestion,
    /// Permits SACK (RFC 2018), which both ends must do for loss recovery by RFC 6675. Otherwise it is that of RFC 6582.
    pub sack: bool,
    /// Minimum RTO (RFC 6298, rule 2.4).
    pub rto_min: Duration,
    /// Maximum delay of an ACK for a second segment; `None` for one ACK per segment.
    pub ack_delay: Option<Duration>,
    /// Enables Nagle's algorithm.
    pub nagle: bool,
    /// Largest IP packet in bytes, 576 to 65,535.
    pub mtu: usize,
}

impl TcpConfig {
    /// Returns Reno with SACK, buffers of 64 KiB, a minimum RTO of 1 s, an ACK delay of at most 200 ms, Nagle's algorithm
    /// and an MTU of 1500.
    pub fn new(address: IpAddr, seed: u64) -> Self {
        Self {
            address,
            seed,
            receive_buffer: 1 << 16,
            send_buffer: 1 << 16,
            congestion: TcpCongestion::Reno,
            sack: true,
            rto_min: Duration::from_secs(1),
            ack_delay: Some(Duration::from_millis(200)),
            nagle: true,
            mtu: 1500,
        }
    }
}

/// A host with one TCP connection and the program that uses it.
#[derive(Debug)]
pub struct TcpHost<A> {
    connection: Connection,
    application: A,
    flow: u32,
    retransmitted: u64,
}

impl<A: TcpApplication> TcpHost<A> {
    /// Returns a host that connects to `peer` when the simulation starts.
    pub fn connect(config: TcpConfig, peer: (IpAddr, u16), application: A) -> Self {
        Self::new(Connection::new(config, Some(peer), 0), application)
    }

    /// Returns a host that listens on `port`.
    pub fn listen(config: TcpConfig, port: u16, application: A) -> Self {
        Self::new(Connection::new(config, None, port), application)
    }

    fn new(connection: Connection, application: A) -> Self {
        Self {
            connection,
            application,
            flow: 0,
            retransmitted: 0,
        }
    }

    /// Sets the flow tag of sent packets.
    #[must_use]
    pub fn with_flow(mut self, flow: u32) -> Self {
        self.flow = flow;
        self
    }

    /// Returns the program.
    pub fn application(&self) -> &A {
        &self.application
    }

    /// Returns the number of retransmitted segments with data.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// Calls the program, and sends what is due.
    fn drive(&mut self, now: Time, out: &mut Outbox) {
        self.application.on_progress(now, &mut self.connection);
        while let Some((packet, segment)) = self.connection.poll_transmit(now) {
            if let Some(segment) = segment {
                self.retransmitted += u64::from(segment.again);
                self.application.on_segment(segment);
            }
            out.send(packet.with_flow(self.flow));
        }
    }
}

impl<A: TcpApplication> Node for TcpHost<A> {
    fn handle_packet(&mut self, now: Time, _: InterfaceId, packet: Packet, out: &mut Outbox) {
        if packet.protocol == Protocol::Tcp {
            for data in self.connection.handle_packet(now, &packet) {
                self.application.on_data(now, data);
            }
            self.drive(now, out);
        }
    }

    fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        self.connection.handle_timeout(now);
        self.drive(now, out);
    }

    fn next_timeout(&self) -> Option<Time> {
        let timers = [
            self.connection.next_timeout(),
            self.application.next_timer(),
        ];
        timers.into_iter().flatten().min()
    }
}
