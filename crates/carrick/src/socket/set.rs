//! All sockets of an endpoint: for each local address one on the same UDP port, one on plain IP, or both.

use std::net::IpAddr;
use std::task::Context;

use carrick_proto::{Route, Transmit};

use super::addresses::is_link_local;
use super::{Carrier, Sent, Socket};
use crate::config::Transport;
use crate::error::BindError;
use crate::port::Claim;

/// Maximum number of attempts to find a UDP port that is free on all addresses.
const PORT_TRIES: usize = 16;

/// The sockets of an endpoint.
pub(crate) struct SocketSet {
    sockets: Vec<Socket>,
    transport: Transport,
    buffer: usize,
    unsendable: u64,
    claim: Option<Claim>,
}

impl SocketSet {
    /// Opens a socket for each address.
    pub(crate) fn bind(
        addresses: &[IpAddr],
        transport: Transport,
        buffer: usize,
    ) -> Result<Self, BindError> {
        let mut tries = 1;
        loop {
            let mut set = Self {
                sockets: Vec::with_capacity(addresses.len()),
                transport,
                buffer,
                unsendable: 0,
                claim: None,
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
        if self.sockets.iter().any(|s| s.address() == address) {
            return Ok(());
        }
        if is_link_local(address) {
            return Err(BindError::LinkLocal(address));
        }
        let mut port = self.transport.encapsulation_port();
        let mut udp = None;
        if let Some(wanted) = port {
            let bound = Socket::bind(address, Carrier::Udp { port: wanted }, self.buffer)?;
            port = Some(bound.1);
            udp = Some(bound.0);
        }
        if self.transport.has_plain_ip() {
            let (raw, _) = Socket::bind(address, Carrier::Raw, self.buffer)?;
            if let Some(claim) = &mut self.claim {
                claim.add(address)?;
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
    pub(crate) fn hold(&mut self, claim: Claim) {
        self.claim = Some(claim);
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
    pub(crate) fn send(&mut self, cx: &mut Context<'_>, transmit: &Transmit, bytes: &[u8]) -> Sent {
        let socket = self.socket_of(&transmit.route);
        let sent = socket.map_or(Sent::Lost, |s| s.send(cx, transmit, bytes));
        if sent != Sent::Done {
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
