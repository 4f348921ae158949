//! Packets of an endpoint, for captures.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use carrick_proto::{Route, Transmit};

/// Observer of the packets of an endpoint, such as a writer of capture files. See [`Config::packets`](crate::Config::packets).
pub trait PacketObserver: fmt::Debug + Send + Sync {
    /// Takes a packet that was received, or is about to be sent. The endpoint's task waits for the return.
    fn packet(&self, packet: &ObservedPacket<'_>);
}

/// Packet that an endpoint receives or sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ObservedPacket<'a> {
    /// The endpoint sends it; otherwise it has received it.
    pub is_sent: bool,
    /// Address and UDP port of the sender; port 0 on plain IP. Unspecified (`0.0.0.0`, `::`) where the system chooses
    /// the address.
    pub source: SocketAddr,
    /// Address and UDP port of the receiver; port 0 on plain IP.
    pub destination: SocketAddr,
    /// It is in UDP (RFC 6951), not directly on IP.
    pub is_udp: bool,
    /// Octet of DSCP and ECN field in the IP header. Of a received packet the ECN field is known only.
    pub traffic_class: u8,
    /// The SCTP packet without IP and UDP headers; with DTLS, the datagram with its records.
    pub bytes: &'a [u8],
}

/// Observer of the packets of a network.
pub(crate) struct PacketTap {
    observer: Arc<dyn PacketObserver>,
    udp_port: Option<u16>,
}

impl PacketTap {
    /// `udp_port` is that of the network.
    pub(crate) fn new(observer: Arc<dyn PacketObserver>, udp_port: Option<u16>) -> Self {
        Self { observer, udp_port }
    }

    pub(crate) fn received(&self, route: &Route, bytes: &[u8]) {
        self.observe(false, route, route.ecn.bits(), bytes);
    }

    pub(crate) fn sent(&self, transmit: &Transmit, bytes: &[u8]) {
        for packet in transmit.packets_in(bytes) {
            self.observe(true, &transmit.route, transmit.traffic_class(), packet);
        }
    }

    fn observe(&self, is_sent: bool, route: &Route, traffic_class: u8, bytes: &[u8]) {
        let any: IpAddr = match route.remote {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let own_port = route.encapsulation.and(self.udp_port).unwrap_or(0);
        let own = SocketAddr::new(route.local.unwrap_or(any), own_port);
        let peer = SocketAddr::new(route.remote, route.encapsulation.unwrap_or(0));
        let (source, destination) = if is_sent { (own, peer) } else { (peer, own) };
        self.observer.packet(&ObservedPacket {
            is_sent,
            source,
            destination,
            is_udp: route.encapsulation.is_some(),
            traffic_class,
            bytes,
        });
    }
}
