//! The host's network below SCTP, for programs that drive a protocol machine themselves, as
//! [`Endpoint`](crate::Endpoint) does: UDP and raw sockets, packets with exact source addresses, ICMP messages,
//! changes of the host's addresses, and its routes.
//!
//! A driver polls a [`Network`] from its task. In each round it calls [`Network::poll_receive`] and
//! [`Network::poll_host`], then [`Network::flush`], and passes each packet of its protocol to
//! [`Network::send`]; [`carrick_proto::Endpoint`] and `carrick_sockets::Sockets` accept what the first
//! two return. [`HostRoutes`] is their selection of source addresses.
//!
//! ```
//! use std::task::Poll;
//!
//! use carrick::Transport;
//! use carrick::network::{NetworkInput, Network, NetworkConfig};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), carrick::BindError> {
//! let mut config = NetworkConfig::new(Transport::Udp { port: 0 });
//! config.addresses = vec![[127, 0, 0, 1].into()];
//! let mut network = Network::bind(config)?;
//! let more = std::future::poll_fn(|cx| {
//!     Poll::Ready(network.poll_receive(cx, |arrival| match arrival {
//!         NetworkInput::Packets(route, packets) => println!("{} packets from {}", packets.count(), route.remote),
//!         NetworkInput::Icmp(icmp) => println!("{:?} from {}", icmp.kind, icmp.remote),
//!     }))
//! });
//! assert!(!more.await, "no packet has arrived");
//! # Ok(())
//! # }
//! ```

#[cfg(target_os = "linux")]
mod lease;
mod loopback;
mod routes;
mod watch;

use std::net::IpAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use carrick_proto::{IcmpInput, Route, Transmit};

use crate::config::Transport;
use crate::error::BindError;
#[cfg(target_os = "linux")]
use crate::port::ALL_PORTS;
use crate::port::PortClaim;
use crate::socket::{ReceiveBuffers, Socket, SocketSet, addresses};
use loopback::LoopbackAddresses;

pub use crate::socket::TransmitOutcome;
pub use crate::strays::StrayPackets;
#[cfg(target_os = "linux")]
pub(crate) use lease::LeasedPort;
pub use routes::{HostRoutes, route_mtu};
pub(crate) use watch::NetworkWatch;

/// Maximum number of batches read from one socket in a round.
const BATCHES: usize = 4;

/// Parameters of a [`Network`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NetworkConfig {
    /// Local addresses; none, or an unspecified one, stands for all addresses of the host (of that
    /// family) that are not link-local. Default: none.
    pub addresses: Vec<IpAddr>,
    /// Transport of the packets.
    pub transport: Transport,
    /// Send and receive buffer of each socket in bytes, as far as the system allows it. Default: 4 MiB.
    pub socket_buffer: usize,
    /// Follows changes of the host's addresses and routes ([`Network::poll_host`]). Default: true.
    pub follow_host: bool,
}

impl NetworkConfig {
    /// Returns the default parameters for a transport.
    pub fn new(transport: Transport) -> Self {
        Self {
            addresses: Vec::new(),
            transport,
            socket_buffer: 4 << 20,
            follow_host: true,
        }
    }
}

/// Input from the network.
pub enum NetworkInput<'a> {
    /// SCTP packets that arrived together on a route, without IP and UDP headers, for any SCTP ports.
    Packets(&'a Route, &'a mut dyn Iterator<Item = Bytes>),
    /// ICMP message about a packet of this host.
    Icmp(IcmpInput<'a>),
}

/// Changes of the host since the last call of [`Network::poll_host`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostChanges {
    /// Routes may have changed.
    pub routes: bool,
    /// New addresses, whose sockets are open.
    pub added: Vec<IpAddr>,
    /// Addresses that the host no longer has, whose sockets are closed.
    pub removed: Vec<IpAddr>,
    /// A table of the host was read.
    pub checked: bool,
}

/// Kind of an [`InheritedSocket`].
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InheritedKind {
    /// UDP socket.
    Udp,
    /// Socket on plain IP.
    Raw,
    /// Claim of all SCTP ports of the address on plain IP.
    Claim,
}

/// Socket of a [`Network`] that another process continues, as [`Network::duplicate`] returns it.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct InheritedSocket {
    /// Transport of the socket.
    pub kind: InheritedKind,
    /// Local address.
    pub address: IpAddr,
    /// The socket, with the packets that have not been read.
    pub descriptor: std::os::fd::OwnedFd,
}

/// Sockets of the host below SCTP: for each local address one on the same UDP port, one on plain IP, or
/// both.
pub struct Network {
    sockets: SocketSet,
    buffers: ReceiveBuffers,
    /// Watch of the host's addresses.
    watch: Option<NetworkWatch>,
    /// Addresses of 127.0.0.0/8 that no interface has.
    loopback: LoopbackAddresses,
    /// Port of a daemon that carries the packets of one SCTP port, instead of sockets.
    #[cfg(target_os = "linux")]
    lease: Option<LeasedPort>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("transport", &self.transport())
            .field("addresses", &self.addresses())
            .finish_non_exhaustive()
    }
}

impl Network {
    /// Opens the sockets, and claims all SCTP ports of the addresses on plain IP. Must be called in a tokio
    /// runtime with I/O and time.
    ///
    /// # Errors
    /// A socket could not be opened, the host has no address, or another endpoint has a port of an address
    /// on plain IP ([`BindError::SctpPortTaken`], [`BindError::SctpTaken`]).
    pub fn bind(config: NetworkConfig) -> Result<Self, BindError> {
        crate::endpoint::current_runtime()?;
        let bound = addresses::resolve(&config.addresses)?;
        let mut sockets = SocketSet::bind(&bound, config.transport, config.socket_buffer, 1)?;
        if config.transport.has_plain_ip() {
            sockets.hold(PortClaim::all_ports(&bound)?);
        }
        let loopback = LoopbackAddresses::new(&config.addresses);
        let mut watch = None;
        if config.follow_host {
            watch = Some(NetworkWatch::new(config.addresses).map_err(BindError::WatchAddresses)?);
        }
        Ok(Self {
            loopback,
            ..Self::new(sockets, watch)
        })
    }

    /// Continues the sockets of another process ([`Self::duplicate`]), which reads and sends no more. The
    /// transport of `config` has the UDP port of the sockets; addresses that differ from those of `config` are
    /// reported by [`Self::poll_host`]. Must be called in a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// [`BindError::Socket`] for a socket with another address or port.
    #[cfg(target_os = "linux")]
    pub fn adopt(
        config: NetworkConfig,
        inherited: Vec<InheritedSocket>,
    ) -> Result<Self, BindError> {
        crate::endpoint::current_runtime()?;
        let sockets = SocketSet::adopt(
            config.transport,
            config.socket_buffer,
            inherited,
            (ALL_PORTS, None),
        )?;
        let loopback = LoopbackAddresses::new(&config.addresses);
        let mut watch = None;
        if config.follow_host {
            let mut new = NetworkWatch::new(config.addresses).map_err(BindError::WatchAddresses)?;
            new.check_routes();
            watch = Some(new);
        }
        Ok(Self {
            loopback,
            ..Self::new(sockets, watch)
        })
    }

    /// Returns further descriptors of all sockets, for a process that continues them ([`Self::adopt`]). Packets
    /// that wait for a socket to accept more are lost, as on the network.
    ///
    /// # Errors
    /// No file descriptor is free.
    #[cfg(target_os = "linux")]
    pub fn duplicate(&self) -> std::io::Result<Vec<InheritedSocket>> {
        self.sockets.duplicate()
    }

    /// Continues the sockets of an endpoint in another process, with the claim of its SCTP port. `follow` are the addresses
    /// in its configuration if it follows those of the host.
    ///
    /// # Errors
    /// As [`Self::adopt`].
    #[cfg(target_os = "linux")]
    pub(crate) fn resume(
        transport: Transport,
        socket_buffer: usize,
        inherited: Vec<InheritedSocket>,
        claim: (u16, Option<std::os::fd::OwnedFd>),
        follow: Option<Vec<IpAddr>>,
    ) -> Result<Self, BindError> {
        let sockets = SocketSet::adopt(transport, socket_buffer, inherited, claim)?;
        let mut watch = None;
        if let Some(addresses) = follow {
            let mut new = NetworkWatch::new(addresses).map_err(BindError::WatchAddresses)?;
            new.check_routes();
            watch = Some(new);
        }
        Ok(Self::new(sockets, watch))
    }

    /// Returns another descriptor of the name of the claimed SCTP port; `None` if it is not held.
    #[cfg(target_os = "linux")]
    pub(crate) fn duplicate_port_name(&self) -> std::io::Result<Option<std::os::fd::OwnedFd>> {
        self.sockets.duplicate_port_name()
    }

    /// Returns whether a daemon carries the packets.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    pub(crate) fn new(sockets: SocketSet, watch: Option<NetworkWatch>) -> Self {
        Self {
            sockets,
            buffers: ReceiveBuffers::new(),
            watch,
            loopback: LoopbackAddresses::default(),
            #[cfg(target_os = "linux")]
            lease: None,
        }
    }

    /// Passes the packets of one SCTP port through a daemon.
    #[cfg(target_os = "linux")]
    pub(crate) fn leased(lease: LeasedPort, watch: Option<NetworkWatch>) -> Self {
        Self {
            lease: Some(lease),
            ..Self::new(SocketSet::empty(), watch)
        }
    }

    /// Returns why no packet passes any more, in either direction.
    pub(crate) fn failure(&self) -> Option<&str> {
        #[cfg(target_os = "linux")]
        if let Some(lease) = &self.lease {
            return lease.failure();
        }
        None
    }

    /// Returns the local addresses, each once.
    pub fn addresses(&self) -> Vec<IpAddr> {
        #[cfg(target_os = "linux")]
        if let Some(lease) = &self.lease {
            return lease.addresses().to_vec();
        }
        self.sockets.addresses()
    }

    /// Returns the transport, with the UDP port that was chosen.
    pub fn transport(&self) -> Transport {
        #[cfg(target_os = "linux")]
        if let Some(lease) = &self.lease {
            return lease.transport();
        }
        self.sockets.transport()
    }

    /// Returns the number of transmits that the system did not send.
    pub fn unsendable(&self) -> u64 {
        #[cfg(target_os = "linux")]
        if let Some(lease) = &self.lease {
            return lease.unsendable;
        }
        self.sockets.unsendable()
    }

    /// Opens the sockets of another address: all of them or none.
    pub(crate) fn add(&mut self, address: IpAddr) -> Result<(), BindError> {
        #[cfg(target_os = "linux")]
        if let Some(lease) = &mut self.lease {
            return lease.add(address);
        }
        self.sockets.add(address)
    }

    /// Returns the sockets of the other shards that were opened since the last call.
    pub(crate) fn take_sockets_of_others(&mut self) -> Vec<Vec<Socket>> {
        self.sockets.take_sockets_of_others()
    }

    /// Continues with a socket that the network of the first shard has opened.
    pub(crate) fn push(&mut self, socket: Socket) {
        self.sockets.push(socket);
    }

    /// Closes the sockets of an address.
    pub(crate) fn remove(&mut self, address: IpAddr) {
        #[cfg(target_os = "linux")]
        if let Some(lease) = &mut self.lease {
            return lease.remove(address);
        }
        self.sockets.remove(address);
    }

    /// Reads packets and ICMP messages, a bounded number of each. Returns true if more may wait; false registers the
    /// task to be woken.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(NetworkInput<'_>),
    ) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(lease) = &mut self.lease {
            return lease.poll_receive(cx, take);
        }
        let mut more = false;
        for index in 0..self.sockets.len() {
            let socket = self.sockets.get(index);
            let mut read = 0;
            while read < BATCHES {
                match socket.poll_receive(cx, &mut self.buffers) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(datagrams)) => datagrams
                        .for_each(|route, packets| take(NetworkInput::Packets(route, packets))),
                    // Error of a packet that was sent; the error queue has the details.
                    Poll::Ready(Err(_)) => {
                        for note in socket.take_errors() {
                            take(NetworkInput::Icmp(note.input()));
                        }
                    }
                }
                read += 1;
            }
            more |= read == BATCHES;
            read = 0;
            while read < BATCHES {
                let Poll::Ready(notes) = socket.poll_errors(cx) else {
                    break;
                };
                read += 1;
                for note in &notes {
                    take(NetworkInput::Icmp(note.input()));
                }
            }
            more |= read == BATCHES;
        }
        more
    }

    /// Follows the host: opens the sockets of new addresses and closes those of removed addresses.
    /// `known` are the addresses that the protocol has. Added addresses have to be passed to the protocol
    /// before removed ones, because an association keeps its last address until there is another one.
    pub fn poll_host(&mut self, cx: &mut Context<'_>, known: &[IpAddr]) -> HostChanges {
        let Some(watch) = &mut self.watch else {
            return HostChanges::default();
        };
        let changed = watch.poll(cx);
        let mut changes = HostChanges {
            routes: changed.routes,
            checked: changed.routes || changed.addresses,
            ..HostChanges::default()
        };
        if !changed.addresses {
            return changes;
        }
        let Ok(present) = addresses::present(&watch.wanted) else {
            // The list is read again with the next change or tick.
            return changes;
        };
        for address in present.iter().filter(|a| !known.contains(a)) {
            if self.add(*address).is_ok() {
                changes.added.push(*address);
            }
        }
        // The host has all addresses of 127.0.0.0/8, also those that no interface lists.
        let gone = |a: &&IpAddr| !present.contains(a) && !a.is_loopback();
        for address in known.iter().filter(gone) {
            changes.removed.push(*address);
            self.remove(*address);
        }
        changes
    }

    /// Sends packets from the socket of the route's local address and encapsulation, or queues them until
    /// the socket accepts more. `bytes` are those of the transmit.
    pub fn send(
        &mut self,
        cx: &mut Context<'_>,
        transmit: &Transmit,
        bytes: &[u8],
    ) -> TransmitOutcome {
        #[cfg(target_os = "linux")]
        if let Some(lease) = &mut self.lease {
            return lease.send(cx, transmit, bytes);
        }
        self.sockets.send(cx, transmit, bytes)
    }

    /// Sends as much as the system accepts at once, without the runtime, which may have ended.
    pub fn send_at_once(&mut self, transmit: &Transmit, bytes: &[u8]) {
        #[cfg(target_os = "linux")]
        if let Some(lease) = &mut self.lease {
            return lease.send_at_once(transmit, bytes);
        }
        self.sockets.send_at_once(transmit, bytes);
    }

    /// Sends queued packets. Returns true if none is left.
    pub fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(lease) = &mut self.lease {
            return lease.flush(cx);
        }
        self.sockets.flush(cx)
    }
}
