//! All sockets of an endpoint: one a local address, on the same UDP port.

use std::net::IpAddr;
use std::task::Context;

use carrick_proto::Transmit;

use super::{Sent, Socket};
use crate::config::Transport;
use crate::error::BindError;
use crate::port::Claim;

/// How often a UDP port chosen for the first address may turn out to be taken on another one.
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
                    if transport == (Transport::Udp { port: 0 }) && tries < PORT_TRIES =>
                {
                    tries += 1;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Opens a socket for another address.
    pub(crate) fn add(&mut self, address: IpAddr) -> Result<(), BindError> {
        if self.sockets.iter().any(|s| s.address() == address) {
            return Ok(());
        }
        let (socket, port) = Socket::bind(address, self.transport, self.buffer)?;
        if let Transport::Udp { port: chosen @ 0 } = &mut self.transport {
            *chosen = port;
        }
        self.sockets.push(socket);
        Ok(())
    }

    /// Closes the socket of an address that the host no longer has.
    pub(crate) fn remove(&mut self, address: IpAddr) {
        self.sockets.retain(|s| s.address() != address);
    }

    /// The UDP port, on UDP.
    pub(crate) fn encapsulation_port(&self) -> Option<u16> {
        match self.transport {
            Transport::Udp { port } => Some(port),
            Transport::Raw => None,
        }
    }

    /// Keeps the SCTP port as long as the sockets.
    pub(crate) fn hold(&mut self, claim: Claim) {
        self.claim = Some(claim);
    }

    /// Transmits that the system did not send.
    pub(crate) fn unsendable(&self) -> u64 {
        self.unsendable
    }

    pub(crate) fn len(&self) -> usize {
        self.sockets.len()
    }

    pub(crate) fn get(&mut self, index: usize) -> &mut Socket {
        &mut self.sockets[index]
    }

    /// Sends from the socket of the route's local address.
    pub(crate) fn send(&mut self, cx: &mut Context<'_>, transmit: &Transmit, bytes: &[u8]) -> Sent {
        let route = &transmit.route;
        let socket = self.sockets.iter_mut().find(|s| match route.local {
            Some(local) => s.address() == local,
            None => s.address().is_ipv4() == route.remote.is_ipv4(),
        });
        let sent = socket.map_or(Sent::Lost, |s| s.send(cx, transmit, bytes));
        if sent != Sent::Done {
            self.unsendable += 1;
        }
        sent
    }

    /// Sends what waits for sockets that were full. Whether nothing waits any more.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        let mut empty = true;
        for socket in &mut self.sockets {
            empty &= socket.poll_flush(cx).is_ready();
        }
        empty
    }
}
