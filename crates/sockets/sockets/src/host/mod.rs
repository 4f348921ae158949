//! All sockets of a host, and the packets and timers below them.

mod associations;
mod calls;
mod defaults;
mod events;
mod export;
mod listeners;
mod memory;
mod options;
mod overview;
mod readiness;
mod reports;
mod statistics;
mod status;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use carrick_proto::{
    ConfigError, Endpoint, EndpointConfig, IcmpInput, Route, SourceKey, Time, Transmit,
};
use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};

use crate::associations::Associations;
use crate::config::Config;
use crate::errno::Errno;
use crate::host::associations::close_idle;
use crate::host::calls::bind::release_port;
use crate::host::events::dispatch;
use crate::host::memory::limit_received;
use crate::ids::{AssocId, PortId, SocketId};
use crate::ports::Ports;
use crate::settings::Options;
use crate::table::{Family, Socket, SocketTable, Style};

pub use calls::close::Closed;
pub use calls::receive::Received;
pub use calls::send::OutgoingMessage;
pub use calls::stop::AbortedAssociation;
pub use export::SocketsExport;
pub use listeners::ListenerState;
pub use overview::{
    AssociationAddresses, AssociationSettings, OverviewKey, OverviewRow, OverviewSubject,
};
pub use reports::{AssociationReport, EventCounters, Reports};
pub(crate) use statistics::HostCounters;
pub use statistics::{HostStatistics, Usage};
pub use status::Status;

/// Sockets of a host. The crate's documentation has the order of calls.
#[derive(Debug)]
pub struct Sockets {
    config: Config,
    random: ChaCha12Rng,
    /// Time of the last call that had one.
    now: Time,
    table: SocketTable,
    associations: Associations,
    ports: Ports,
    /// Endpoint that answers packets to ports without a socket.
    stray: Endpoint,
    /// Counters of the endpoints that have been removed, and those of the host.
    removed: HostCounters,
    /// Results of set-ups that a caller waits for, at most one of each association.
    setups: SetupResults,
    reports: Reports,
}

/// Results of set-ups, in their order.
pub(crate) type SetupResults = VecDeque<(AssocId, Result<(), Errno>)>;

impl Sockets {
    /// Creates an empty set of sockets.
    ///
    /// # Errors
    /// Returns the first parameter of associations that is out of its range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let mut random = ChaCha12Rng::from_seed(config.seed);
        let mut seed = [0; 32];
        random.fill_bytes(&mut seed);
        let mut stray = EndpointConfig::new(1, config.addresses.clone(), seed);
        stray.accept = false;
        stray.association = config.association.clone();
        stray.source_selection = (config.source_selection)();
        let stray = Endpoint::new(stray)?;
        Ok(Self {
            config,
            random,
            now: Time::ZERO,
            table: SocketTable::default(),
            associations: Associations::default(),
            ports: Ports::default(),
            stray,
            removed: HostCounters::default(),
            setups: VecDeque::new(),
            reports: Reports::default(),
        })
    }

    /// Creates a socket: `socket` (RFC 6458, sections 3.1.1 and 4.1.1).
    ///
    /// # Errors
    /// `EMFILE` at the limit of sockets.
    pub fn socket(&mut self, style: Style, family: Family) -> Result<SocketId, Errno> {
        let options = Options::new(&self.config);
        let socket = Socket::new(style, family, options);
        self.table.insert(socket, self.config.max_sockets)
    }

    /// Returns the address of the peer of a socket with one association, as it was when the association
    /// was established, also after its end: `getpeername`.
    ///
    /// # Errors
    /// `ENOTCONN`, also for every one-to-many socket that is not branched off.
    pub fn peer_address(&self, id: SocketId) -> Result<SocketAddr, Errno> {
        let socket = self.table.open(id)?;
        Ok(socket.present(socket.peer().ok_or(Errno::ENOTCONN)?))
    }

    /// Returns all addresses of a peer: `sctp_getpaddrs` (RFC 6458, section 9.3). The identifier is
    /// ignored for sockets with one association.
    ///
    /// # Errors
    /// `EINVAL` if there is no such association.
    pub fn peer_addresses(&self, id: SocketId, association: i32) -> Result<Vec<SocketAddr>, Errno> {
        let socket = self.table.open(id)?;
        let found = self.lookup().meant(socket, association);
        let association = found.ok_or(Errno::EINVAL)?;
        let number = association.own.peer.port();
        let paths = association.paths();
        Ok(paths
            .map(|path| socket.present(SocketAddr::new(path.remote, number)))
            .collect())
    }

    /// Returns whether a socket has the SCTP port to which a packet came. Others get the ABORT of RFC 9260,
    /// section 8.4, from [`Self::handle_datagram`].
    pub fn has_port(&self, route: &Route, packet: &[u8]) -> bool {
        port_of(self, route, packet).is_some()
    }

    /// Returns a socket that has a port at a local address, or at any address if it is `None`.
    pub fn socket_at(&self, local: Option<IpAddr>, port: u16) -> Option<SocketId> {
        let port = self.ports.get(self.ports.find(port, local)?)?;
        port.sockets().next()
    }

    /// Processes a received SCTP packet; `bytes` is the packet without IP and UDP headers.
    pub fn handle_datagram(&mut self, now: Time, route: &Route, bytes: Bytes) {
        self.handle_datagrams(now, route, core::iter::once(bytes));
    }

    /// Processes SCTP packets that arrived together, without IP and UDP headers: consecutive ones of the same ports
    /// as one input.
    pub fn handle_datagrams(
        &mut self,
        now: Time,
        route: &Route,
        packets: impl IntoIterator<Item = Bytes>,
    ) {
        self.now = now;
        let mut packets = packets.into_iter().peekable();
        while let Some(first) = packets.next() {
            let Some(id) = port_of(self, route, &first) else {
                self.stray.handle_datagram(now, route, first);
                continue;
            };
            let ports = first
                .get(..4)
                .and_then(|ports| <[u8; 4]>::try_from(ports).ok());
            let number = ports.map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
            let association = self.associations.with_peer(id, route.remote, number);
            limit_received(self, id, association, SourceKey::of(route.remote));
            if let Some(core) = self.ports.core_mut(id) {
                let others = core::iter::from_fn(|| {
                    packets.next_if(|packet| packet.get(..4) == ports.as_ref().map(|p| &p[..]))
                });
                let run = core::iter::once(first).chain(others);
                core.handle_datagrams(now, route, run);
            }
            settle(self, id);
        }
    }

    /// Processes an ICMP message about a packet of this host.
    pub fn handle_icmp(&mut self, now: Time, icmp: &IcmpInput<'_>) {
        self.now = now;
        let number = icmp
            .quoted
            .get(..2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]));
        let ids = number.map(|number| self.ports.with_number(number));
        for id in ids.unwrap_or_default() {
            if let Some(core) = self.ports.core_mut(id) {
                core.handle_icmp(now, icmp);
            }
            settle(self, id);
        }
    }

    /// Processes the host's refusal to send packets that exceed the MTU of the route. `packets` are those
    /// that [`Self::poll_transmit`] wrote, and `route_mtu` returns the MTU of the route from a local
    /// address, if the path has one, to a peer address, in bytes, if the host has it.
    pub fn handle_oversized(
        &mut self,
        now: Time,
        transmit: &Transmit,
        packets: &[u8],
        route_mtu: impl Fn(Option<IpAddr>, IpAddr) -> Option<usize>,
    ) {
        self.now = now;
        let route = &transmit.route;
        let mtu = route_mtu(route.local, route.remote);
        // Packets of several ports may be joined.
        for packet in transmit.packets_in(packets) {
            let number = packet.first_chunk().copied().map(u16::from_be_bytes);
            let found = number.and_then(|number| self.ports.find(number, route.local));
            let Some((id, core)) = found.and_then(|id| Some((id, self.ports.core_mut(id)?))) else {
                continue;
            };
            core.handle_oversized(now, transmit, packet, mtu);
            settle(self, id);
        }
    }

    /// Processes all timers that have expired at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        while let Some(id) = self.ports.pop_expired(now) {
            if let Some(core) = self.ports.core_mut(id) {
                core.handle_timeout(now);
            }
            settle(self, id);
        }
        close_idle(self, now);
    }

    /// Returns the time of the next call of [`Self::handle_timeout`], valid once [`Self::poll_transmit`]
    /// has returned `None`.
    pub fn poll_timeout(&self) -> Option<Time> {
        let idle = self.associations.idle_timeout();
        [self.ports.next_timeout(), idle]
            .into_iter()
            .flatten()
            .min()
    }

    /// Appends the next packets to `buf` and returns their route and sizes; `None` if there is nothing to
    /// send at `now`. The owners of sockets take turns ([`Self::set_owner`]), and so do the ports of an owner.
    pub fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.now = now;
        while let Some(id) = self.ports.first_ready() {
            let transmit = self.ports.poll_transmit(now, buf);
            dispatch(self, id);
            if transmit.is_some() {
                return transmit;
            }
            release_port(self, id);
        }
        self.stray.poll_transmit(now, buf)
    }

    /// Returns the number of notifications of a socket that were dropped at the limit of its queue.
    ///
    /// # Errors
    /// `EBADF`
    pub fn dropped_notifications(&self, id: SocketId) -> Result<u64, Errno> {
        Ok(self.table.open(id)?.queue().dropped())
    }

    /// Returns the addresses of the host.
    pub fn host_addresses(&self) -> &[IpAddr] {
        &self.config.addresses
    }
}

fn port_of(host: &Sockets, route: &Route, packet: &[u8]) -> Option<PortId> {
    let number = packet.get(2..4)?;
    let number = u16::from_be_bytes([number[0], number[1]]);
    host.ports.find(number, route.local)
}

/// Takes the events of an endpoint after an input, and queues it for output.
pub(crate) fn settle(host: &mut Sockets, id: PortId) {
    host.ports.set_ready(id);
    dispatch(host, id);
}

/// Queues an association's endpoint for output and takes its events.
pub(crate) fn settle_association(host: &mut Sockets, id: AssocId) {
    if let Some(association) = host.associations.get(id) {
        settle(host, association.core().0);
    }
}
