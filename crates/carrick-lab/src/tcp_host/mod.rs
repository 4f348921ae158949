//! A simulated host with TCP: a [`carrick_netsim::Node`] that wraps smoltcp, a user-space TCP/IP
//! stack, with one connection and the [`TcpApplication`] that uses it.
//!
//! The properties of this TCP ([`LIMITS`]) belong in the notes of every measurement with it.
//!
//! ```
//! use std::net::IpAddr;
//! use carrick_lab::tcp_host::{BulkSink, BulkSource, TcpConfig, TcpHost};
//! use carrick_netsim::{LinkConfig, NetworkBuilder, Queue, Time};
//!
//! let [a, b]: [IpAddr; 2] = ["10.0.0.1".parse()?, "10.0.0.2".parse()?];
//! let mut net = NetworkBuilder::new(1);
//! let hosts = ["client", "server"].map(|name| net.add_host(name));
//! let [ia, ib] = [(hosts[0], a), (hosts[1], b)].map(|(host, ip)| net.add_interface(host, [ip]));
//! let link = LinkConfig::new(1_000_000, std::time::Duration::from_millis(10));
//! net.connect_both(ia, ib, link.with_queue(Queue::packets(50)));
//! let client = TcpHost::connect(TcpConfig::new(a, 1), (b, 80), BulkSource::new(100_000));
//! let server = TcpHost::listen(TcpConfig::new(b, 2), 80, BulkSink::default());
//! net.set_node_program(hosts[0], Box::new(client));
//! net.set_node_program(hosts[1], Box::new(server));
//! let mut net = net.build()?;
//! net.run_until(Time::from_secs(3));
//! let sink = net.node::<TcpHost<BulkSink>>(hosts[1]).application();
//! assert_eq!(sink.received, 100_000);
//! assert!(sink.goodput(Time::ZERO).is_some_and(|rate| rate < 1_000_000.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod application;
mod bulk;
mod device;

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_netsim::{InterfaceId, Node, Outbox, Packet, Protocol, Time};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};

pub use application::{Connection, Segment, TcpApplication};
pub use bulk::{BulkSink, BulkSource};

use device::Packets;

/// Properties and limitations of the TCP of these hosts, for reports.
pub const LIMITS: &str = "TCP is smoltcp 0.14: Reno or CUBIC (RFC 9438) windows that begin with two segments of 1024 bytes, fast \
     retransmit of one segment after three duplicate ACKs (RFC 5681), RTO.Min 1 s, window scaling, delayed ACKs. Its receiver \
     reports SACK blocks, its sender does not use them, and it implements neither NewReno’s partial ACKs (RFC 6582) nor RACK-TLP: after several \
     losses in a window the timer expires, and all data from the first lost segment on is retransmitted.";

/// Local port of connections.
const LOCAL_PORT: u16 = 49_152;

/// Congestion control of a [`TcpHost`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpCongestion {
    /// RFC 5681.
    Reno,
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
    /// Receive buffer in bytes; the window is its free space.
    pub receive_buffer: usize,
    /// Send buffer in bytes, acknowledged data excluded.
    pub send_buffer: usize,
    /// Congestion control.
    pub congestion: TcpCongestion,
    /// Maximum delay of an ACK for a second segment; `None` for one ACK per segment.
    pub ack_delay: Option<Duration>,
    /// Enables Nagle's algorithm.
    pub nagle: bool,
    /// Largest IP packet in bytes.
    pub mtu: usize,
}

impl TcpConfig {
    /// Returns Reno with buffers of 64 KiB, an ACK delay of at most 200 ms, Nagle's algorithm and
    /// an MTU of 1500.
    pub fn new(address: IpAddr, seed: u64) -> Self {
        Self {
            address,
            seed,
            receive_buffer: 1 << 16,
            send_buffer: 1 << 16,
            congestion: TcpCongestion::Reno,
            ack_delay: Some(Duration::from_millis(200)),
            nagle: true,
            mtu: 1500,
        }
    }
}

/// A host with one TCP connection and the program that uses it.
pub struct TcpHost<A> {
    interface: Interface,
    packets: Packets,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    application: A,
    /// Peer to connect to at the first timer.
    peer: Option<(IpAddr, u16)>,
    flow: u32,
    /// Sequence number of the first byte, and offset after the last byte sent.
    first: Option<u32>,
    sent: u64,
    next: Option<Time>,
    retransmitted: u64,
}

impl<A: TcpApplication> TcpHost<A> {
    /// Returns a host that connects to `peer` when the simulation starts.
    pub fn connect(config: TcpConfig, peer: (IpAddr, u16), application: A) -> Self {
        let mut host = Self::new(config, application);
        host.peer = Some(peer);
        host.next = Some(Time::ZERO);
        host
    }

    /// Returns a host that listens on `port`, above 0.
    pub fn listen(config: TcpConfig, port: u16, application: A) -> Self {
        let mut host = Self::new(config, application);
        // Fails only for port 0 and open sockets; then no connection is accepted.
        let _ = host.socket().listen(port);
        host
    }

    fn new(config: TcpConfig, application: A) -> Self {
        let mut own = Config::new(HardwareAddress::Ip);
        own.random_seed = config.seed;
        let mut packets = Packets::new(config.mtu);
        let mut interface = Interface::new(own, &mut packets, Instant::ZERO);
        let address = smoltcp::wire::IpAddress::from(config.address);
        interface.update_ip_addrs(|addresses| {
            // All addresses are on-link: the simulated network does the routing.
            let _ = addresses.push(IpCidr::new(address, 0));
        });
        let buffer = |len| SocketBuffer::new(vec![0; len]);
        let mut socket = Socket::new(buffer(config.receive_buffer), buffer(config.send_buffer));
        socket.set_congestion_control(match config.congestion {
            TcpCongestion::Reno => CongestionControl::Reno,
            TcpCongestion::Cubic => CongestionControl::Cubic,
        });
        socket.set_nagle_enabled(config.nagle);
        socket.set_ack_delay(
            config
                .ack_delay
                .map(|delay| smoltcp::time::Duration::from_millis(delay.as_millis() as u64)),
        );
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Self {
            interface,
            packets,
            sockets,
            handle,
            application,
            peer: None,
            flow: 0,
            first: None,
            sent: 0,
            next: None,
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

    /// Returns the program for modification; see [`carrick_netsim::Network::wake`].
    pub fn application_mut(&mut self) -> &mut A {
        &mut self.application
    }

    /// Returns the number of retransmitted segments with data.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    fn start(&mut self) {
        if let Some(peer) = self.peer.take() {
            let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
            // Fails only for an address or port of zero; then nothing is sent.
            let _ = socket.connect(self.interface.context(), peer, LOCAL_PORT);
        }
    }

    /// Polls the stack and the program until neither has any output at this time.
    fn drive(&mut self, now: Time, out: &mut Outbox) {
        let instant = instant(now);
        loop {
            self.interface
                .poll(instant, &mut self.packets, &mut self.sockets);
            let socket = self.sockets.get_mut(self.handle);
            self.application.on_progress(now, &mut Connection(socket));
            self.interface
                .poll(instant, &mut self.packets, &mut self.sockets);
            if self.packets.outgoing.is_empty() && self.packets.incoming.is_empty() {
                break;
            }
            for packet in std::mem::take(&mut self.packets.outgoing) {
                self.send(now, packet, out);
            }
        }
        let due = self.interface.poll_at(instant, &self.sockets).map(time);
        // Everything due now has been done; the stack's clock has a resolution of microseconds.
        let due = due.map(|due| due.max(now + Duration::from_micros(1)));
        self.next = [due, self.application.next_timer()]
            .into_iter()
            .flatten()
            .min();
    }

    fn send(&mut self, now: Time, packet: Vec<u8>, out: &mut Outbox) {
        let Ok(mut packet) = Packet::from_ip_bytes(&Bytes::from(packet)) else {
            return;
        };
        self.note(now, &packet.payload);
        if let Some(mended) = self.with_highest_sequence(&packet.payload) {
            packet.payload = mended;
        }
        out.send(packet.with_flow(self.flow));
    }

    /// Corrects a pure ACK whose sequence number is below the highest one sent: returns it with
    /// SND.NXT (RFC 9293, section 3.10.7.4). The stack sets its own SND.NXT back when its timer
    /// expires; if both ends do that at once, each would discard the other's ACKs as old without
    /// end.
    fn with_highest_sequence(&self, segment: &Bytes) -> Option<Bytes> {
        const ACK: u8 = 0x10;
        const CHECKSUM: usize = 16;
        let (offset, flags) = (segment.get(12)?, segment.get(13)?);
        let bare = segment.len() == usize::from(offset >> 4) * 4 && *flags == ACK;
        let highest = self.first.filter(|_| bare)?.wrapping_add(self.sent as u32);
        let old = u32::from_be_bytes(*segment.get(4..8)?.first_chunk()?);
        if (highest.wrapping_sub(old) as i32) <= 0 {
            return None;
        }
        let mut mended = segment.to_vec();
        mended[4..8].copy_from_slice(&highest.to_be_bytes());
        let words = |value: u32| (value >> 16) + (value & 0xffff);
        let sum = u16::from_be_bytes([segment[CHECKSUM], segment[CHECKSUM + 1]]);
        // RFC 1624: the checksum is updated by the difference of the changed words.
        let mut new = u32::from(!sum) + words(!old) + words(highest);
        while new > 0xffff {
            new = words(new);
        }
        mended[CHECKSUM..CHECKSUM + 2].copy_from_slice(&(!(new as u16)).to_be_bytes());
        Some(mended.into())
    }

    /// Counts retransmitted segments.
    fn note(&mut self, now: Time, segment: &[u8]) {
        const SYN: u8 = 0x02;
        let (Some(&[a, b, c, d]), Some(&offset), Some(&flags)) = (
            segment.get(4..8).and_then(|s| s.first_chunk::<4>()),
            segment.get(12),
            segment.get(13),
        ) else {
            return;
        };
        let sequence = u32::from_be_bytes([a, b, c, d]);
        if flags & SYN != 0 {
            self.first = Some(sequence.wrapping_add(1));
            return;
        }
        let len = segment.len().saturating_sub(usize::from(offset >> 4) * 4);
        let Some(first) = self.first.filter(|_| len > 0) else {
            return;
        };
        // Sequence numbers wrap; a sent segment lies within half their space of the last one.
        let place = sequence.wrapping_sub(first).wrapping_sub(self.sent as u32) as i32;
        let Some(offset) = self.sent.checked_add_signed(i64::from(place)) else {
            return;
        };
        let again = offset < self.sent;
        self.retransmitted += u64::from(again);
        self.sent = self.sent.max(offset + len as u64);
        self.application.on_segment(Segment {
            time: now,
            offset,
            len,
            again,
        });
    }
}

impl<A: TcpApplication> Node for TcpHost<A> {
    fn handle_packet(&mut self, now: Time, _: InterfaceId, packet: Packet, out: &mut Outbox) {
        if packet.protocol == Protocol::Tcp {
            let bytes = packet.to_ip_bytes();
            self.packets.incoming.push_back(bytes.to_vec());
            self.drive(now, out);
        }
    }

    fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        self.start();
        self.drive(now, out);
    }

    fn next_timeout(&self) -> Option<Time> {
        self.next
    }
}

fn instant(time: Time) -> Instant {
    Instant::from_micros((time.as_nanos() / 1000) as i64)
}

/// Converts the stack's time to simulation time.
fn time(instant: Instant) -> Time {
    Time::from_nanos(instant.total_micros().max(0) as u64 * 1000)
}
