//! A host with smoltcp, another TCP, as peer of the simulated one.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_netsim::{InterfaceId, Node, Outbox, Packet, Protocol, Time};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};

use super::support::content;

/// Incoming and outgoing packets of the stack.
#[derive(Debug, Default)]
struct Packets {
    incoming: VecDeque<Vec<u8>>,
    outgoing: Vec<Vec<u8>>,
}

struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Room<'a>(&'a mut Vec<Vec<u8>>);

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Packets {
    type RxToken<'a> = Received;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Room<'_>)> {
        let packet = self.incoming.pop_front()?;
        Some((Received(packet), Room(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        (self.outgoing.len() < 64).then_some(Room(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities
    }
}

/// A host that sends a number of bytes and receives those of the other end.
pub(super) struct SmoltcpHost {
    interface: Interface,
    packets: Packets,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    peer: Option<(IpAddr, u16)>,
    bytes: usize,
    sent: usize,
    pub(super) received: usize,
    next: Option<Time>,
}

impl SmoltcpHost {
    /// Returns a host that connects to `peer`, or listens on port 80.
    pub(super) fn new(address: IpAddr, peer: Option<(IpAddr, u16)>, bytes: usize) -> Self {
        let mut packets = Packets::default();
        let mut interface = Interface::new(
            Config::new(HardwareAddress::Ip),
            &mut packets,
            Instant::ZERO,
        );
        interface.update_ip_addrs(|addresses| {
            // All addresses are on-link: the simulated network does the routing.
            let _ = addresses.push(IpCidr::new(address.into(), 0));
        });
        let buffer = || SocketBuffer::new(vec![0; 100_000]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_congestion_control(CongestionControl::Reno);
        if peer.is_none() {
            socket.listen(80).expect("a port");
        }
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Self {
            interface,
            packets,
            sockets,
            handle,
            next: peer.map(|_| Time::ZERO),
            peer,
            bytes,
            sent: 0,
            received: 0,
        }
    }

    fn transfer(&mut self) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
        let data: Vec<u8> = (self.sent..self.bytes.min(self.sent + 100_000))
            .map(content)
            .collect();
        self.sent += socket.send_slice(&data).unwrap_or(0);
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = socket.recv_slice(&mut buffer) {
            let expected: Vec<u8> = (self.received..self.received + read).map(content).collect();
            assert_eq!(buffer[..read], expected, "after {} bytes", self.received);
            self.received += read;
        }
    }

    /// Polls the stack and the program until neither has any output at this time.
    fn drive(&mut self, now: Time, out: &mut Outbox) {
        let instant = Instant::from_micros((now.as_nanos() / 1000) as i64);
        loop {
            self.interface
                .poll(instant, &mut self.packets, &mut self.sockets);
            self.transfer();
            self.interface
                .poll(instant, &mut self.packets, &mut self.sockets);
            if self.packets.outgoing.is_empty() && self.packets.incoming.is_empty() {
                break;
            }
            for packet in std::mem::take(&mut self.packets.outgoing) {
                out.send(Packet::from_ip_bytes(&Bytes::from(packet)).expect("an IP packet"));
            }
        }
        let due = self.interface.poll_at(instant, &self.sockets);
        // Everything due now has been done; the stack's clock has a resolution of microseconds.
        self.next = due.map(|due| {
            let due = Time::from_micros(due.total_micros().max(0) as u64);
            due.max(now + Duration::from_micros(1))
        });
    }
}

impl Node for SmoltcpHost {
    fn handle_packet(&mut self, now: Time, _: InterfaceId, packet: Packet, out: &mut Outbox) {
        if packet.protocol == Protocol::Tcp {
            self.packets
                .incoming
                .push_back(packet.to_ip_bytes().to_vec());
            self.drive(now, out);
        }
    }

    fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        if let Some(peer) = self.peer.take() {
            let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
            socket
                .connect(self.interface.context(), peer, 1234)
                .expect("an address and a port");
        }
        self.drive(now, out);
    }

    fn next_timeout(&self) -> Option<Time> {
        self.next
    }
}
