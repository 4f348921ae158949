//! All sockets of an endpoint: for each local address one on the same UDP port, one on plain IP, or both.

use std::net::IpAddr;
use std::task::Context;

use carrick_proto::{Route, Transmit};

use super::addresses::is_link_local;
use super::{Socket, SocketTransport, TransmitOutcome};
use crate::config::Transport;
use crate::error::BindError;
#[cfg(target_os = "linux")]
use crate::network::{InheritedKind, InheritedSocket};
use crate::port::{ALL_PORTS, PortClaim};

/// Maximum number of attempts to find a UDP port that is free on all addresses.
const PORT_TRIES: usize = 16;

/// Keeps packets for other ports than the claimed one from a raw socket.
fn filter(socket: &Socket, claim: &PortClaim) {
    if claim.port() != ALL_PORTS {
        socket.filter_port(claim.port());
    }
}

/// The sockets of an endpoint.
pub(crate) struct SocketSet {
    sockets: Vec<Socket>,
    transport: Transport,
    buffer: usize,
    unsendable: u64,
    claim: Option<PortClaim>,
    /// Number of shards that have a socket for each address.
    shards: usize,
    /// Sockets of the other shards, by address.
    of_others: Vec<Vec<Socket>>,
}

impl SocketSet {
    /// Returns a set without sockets.
    pub(crate) fn empty() -> Self {
        Self {
            sockets: Vec::new(),
            transport: Transport::Udp { port: 0 },
            buffer: 0,
            unsendable: 0,
            claim: None,
            shards: 1,
            of_others: Vec::new(),
        }
    }

    /// Returns a set of these sockets, which the set of the first shard has opened.
    pub(crate) fn of_shard(transport: Transport, sockets: Vec<Socket>) -> Self {
        Self {
            sockets,
            transport,
            ..Self::empty()
        }
    }

    /// Opens a socket for each address, and for each of this number of shards.
    pub(crate) fn bind(
        addresses: &[IpAddr],
        transport: Transport,
        buffer: usize,
        shards: usize,
    ) -> Result<Self, BindError> {
        let mut tries = 1;
        loop {
            let mut set = Self {
                sockets: Vec::with_capacity(addresses.len()),
                transport,
                buffer,
                shards,
                ..Self::empty()
            };
            match addresses.iter().try_for_each(|a| set.add(*a)) {
                Ok(()) => return Ok(set),
                Err(BindError::PortTaken { .. })
                    if transport.encapsulation_port() == Some(0) && tries < PORT_TRIES =>
                {
                    tries += 1;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Opens the sockets for another address: all of them or none.
    pub(crate) fn add(&mut self, address: IpAddr) -> Result<(), BindError> {
        if self.has(address) {
            return Ok(());
        }
        if is_link_local(address) {
            return Err(BindError::LinkLocal(address));
        }
        let mut port = self.transport.encapsulation_port();
        let mut udp = None;
        if let Some(wanted) = port {
            let bound = Socket::bind(address, SocketTransport::Udp { port: wanted }, self.buffer)?;
            port = Some(bound.1);
            #[cfg(target_os = "linux")]
            if self.shards > 1 {
                let others = bound.0.open_group(bound.1, self.shards, self.buffer)?;
                self.of_others.push(others);
            }
            udp = Some(bound.0);
        }
        if self.transport.has_plain_ip() {
            let (raw, _) = Socket::bind(address, SocketTransport::Raw, self.buffer)?;
            if let Some(claim) = &mut self.claim {
                claim.add(address)?;
                filter(&raw, claim);
            }
            self.sockets.push(raw);
        }
        self.sockets.extend(udp);
        if let (Transport::Udp { port: p } | Transport::Both { port: p }, Some(chosen)) =
            (&mut self.transport, port)
        {
            *p = chosen;
        }
        Ok(())
    }

    /// Continues with sockets that another process has opened, and its claim of this port, whose name may be held.
    #[cfg(target_os = "linux")]
    pub(crate) fn adopt(
        transport: Transport,
        buffer: usize,
        inherited: Vec<InheritedSocket>,
        (port, name): (u16, Option<std::os::fd::OwnedFd>),
    ) -> Result<Self, BindError> {
        let mut set = Self {
            sockets: Vec::with_capacity(inherited.len()),
            transport,
            buffer,
            ..Self::empty()
        };
        let mut claims = Vec::new();
        for InheritedSocket {
            kind,
            address,
            descriptor,
        } in inherited
        {
            let carrier = match kind {
                InheritedKind::Udp => SocketTransport::Udp { port: 0 },
                InheritedKind::Raw => SocketTransport::Raw,
                InheritedKind::Claim => {
                    claims.push((address, descriptor.into()));
                    continue;
                }
            };
            let adopted = Socket::adopt(address, carrier, buffer, descriptor);
            let (socket, udp) = adopted.map_err(|error| BindError::Socket { address, error })?;
            if kind == InheritedKind::Udp && Some(udp) != transport.encapsulation_port() {
                let error = std::io::Error::other("it has another UDP port");
                return Err(BindError::Socket { address, error });
            }
            set.sockets.push(socket);
        }
        set.claim = Some(PortClaim::adopt(port, name.map(Into::into), claims));
        Ok(set)
    }

    /// Returns another descriptor of the name of the claimed port; `None` if it is not held.
    #[cfg(target_os = "linux")]
    pub(crate) fn duplicate_port_name(&self) -> std::io::Result<Option<std::os::fd::OwnedFd>> {
        let claim = self.claim.as_ref();
        claim.map_or(Ok(None), PortClaim::duplicate_name)
    }

    /// Returns further descriptors of all sockets, those of the claim of ports included.
    #[cfg(target_os = "linux")]
    pub(crate) fn duplicate(&self) -> std::io::Result<Vec<InheritedSocket>> {
        let sockets = self.sockets.iter().map(|socket| {
            let kind = if socket.is_encapsulated() {
                InheritedKind::Udp
            } else {
                InheritedKind::Raw
            };
            (kind, socket.address(), socket.duplicate())
        });
        let claims = self.claim.iter().flat_map(PortClaim::duplicate);
        let claims = claims.map(|(address, name)| (InheritedKind::Claim, address, name));
        let all = sockets.chain(claims).map(|(kind, address, descriptor)| {
            Ok(InheritedSocket {
                kind,
                address,
                descriptor: descriptor?,
            })
        });
        all.collect()
    }

    /// Returns the sockets of the other shards that were opened since the last call: by address, and then in
    /// the order of the shards.
    pub(crate) fn take_sockets_of_others(&mut self) -> Vec<Vec<Socket>> {
        std::mem::take(&mut self.of_others)
    }

    /// Continues with a socket that the set of the first shard has opened.
    pub(crate) fn push(&mut self, socket: Socket) {
        self.sockets.push(socket);
    }

    /// Closes the socket of an address that the host no longer has.
    pub(crate) fn remove(&mut self, address: IpAddr) {
        self.sockets.retain(|s| s.address() != address);
        if let Some(claim) = &mut self.claim {
            claim.remove(address);
        }
    }

    /// Returns the transport, with the UDP port that was chosen.
    pub(crate) fn transport(&self) -> Transport {
        self.transport
    }

    /// Keeps the SCTP port as long as the sockets.
    pub(crate) fn hold(&mut self, claim: PortClaim) {
        for socket in &self.sockets {
            filter(socket, &claim);
        }
        self.claim = Some(claim);
    }

    /// Returns the addresses, each once.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let mut addresses: Vec<IpAddr> = Vec::with_capacity(self.sockets.len());
        for socket in &self.sockets {
            if !addresses.contains(&socket.address()) {
                addresses.push(socket.address());
            }
        }
        addresses
    }

    /// Returns whether there is a socket of an address.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.sockets.iter().any(|s| s.address() == address)
    }

    /// Number of transmits that the system did not send.
    pub(crate) fn unsendable(&self) -> u64 {
        self.unsendable
    }

    pub(crate) fn len(&self) -> usize {
        self.sockets.len()
    }

    pub(crate) fn get(&mut self, index: usize) -> &mut Socket {
        &mut self.sockets[index]
    }

    /// Sends from the socket of the route's local address and encapsulation.
    pub(crate) fn send(
        &mut self,
        cx: &mut Context<'_>,
        transmit: &Transmit,
        bytes: &[u8],
    ) -> TransmitOutcome {
        let socket = self.socket_of(&transmit.route);
        let sent = socket.map_or(TransmitOutcome::Lost, |s| s.send(cx, transmit, bytes));
        if sent != TransmitOutcome::Done {
            self.unsendable += 1;
        }
        sent
    }

    /// Sends as much as the system accepts at once, without the runtime, which may have ended.
    pub(crate) fn send_at_once(&mut self, transmit: &Transmit, bytes: &[u8]) {
        if let Some(socket) = self.socket_of(&transmit.route) {
            socket.send_at_once(transmit, bytes);
        }
    }

    fn socket_of(&mut self, route: &Route) -> Option<&mut Socket> {
        let in_udp = route.encapsulation.is_some();
        let mut carriers = self
            .sockets
            .iter_mut()
            .filter(|s| s.is_encapsulated() == in_udp);
        carriers.find(|s| match route.local {
            Some(local) => s.address() == local,
            None => s.address().is_ipv4() == route.remote.is_ipv4(),
        })
    }

    /// Sends queued transmits. Returns true if none is left.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        let mut empty = true;
        for socket in &mut self.sockets {
            empty &= socket.poll_flush(cx).is_ready();
        }
        empty
    }
}
