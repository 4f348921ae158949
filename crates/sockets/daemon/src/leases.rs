//! Leases: SCTP ports of processes that have their own protocol stack, in the daemon's UDP port.
//!
//! A leased port is a bound socket of [`carrick_sockets::Sockets`] that never listens or connects, so that ports
//! of both kinds are subject to the same checks: addresses of the host, privileges, `EADDRINUSE`. Packets to it
//! pass to the process, and those of the process to the network, if their source is the leased port.
//!
//! Nothing is queued here: packets that the process does not read are dropped, as with the receive buffer of a
//! socket, and its packets are not read while the network accepts no more.

use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use carrick_ipc::{LEASE_FIELDS, LeaseFrame, LeaseFrameKind, MAX_LEASED};
use carrick_proto::{IcmpInput, IcmpKind, Route};
use carrick_sockets::{SocketId, Sockets};
use rustix::net::{RecvFlags, recv};

use crate::pair::{AT_ONCE, enlarge_send_buffer, open_pair, receive_with_files, send_with_files};
use crate::poller::Token;
use crate::turns::Turns;
use crate::users::Owner;

/// Maximum number of packets in a frame to a process.
const BATCH: usize = 64;
/// Size of the pair's buffers in bytes that is requested of the system.
const BUFFER: usize = 1 << 20;
/// Bytes of a refused packet that are quoted: the common header, and the beginning of an INIT.
const QUOTED: usize = 64;

/// All leases, by their sockets.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_socket: BTreeMap<SocketId, Lease>,
    by_token: BTreeMap<Token, SocketId>,
    /// Leases whose pair may have frames of the process.
    ready: Turns,
}

/// Leased port.
#[derive(Debug)]
pub(crate) struct Lease {
    ours: OwnedFd,
    token: Token,
    owner: Owner,
    port: u16,
    /// The process may send on plain IP.
    has_plain_ip: bool,
    /// Packets for the process that have one route and length.
    batch: Option<PacketBatch>,
}

#[derive(Debug)]
struct PacketBatch {
    route: Route,
    packets: Vec<Bytes>,
    len: usize,
    /// A shorter packet is the last one.
    is_full: bool,
}

impl PacketBatch {
    fn has_room(&self, route: &Route, packet: &Bytes) -> bool {
        let first = self.packets.first().map_or(0, Bytes::len);
        !self.is_full
            && self.route == *route
            && packet.len() <= first
            && self.packets.len() < BATCH
            && self.len + packet.len() <= MAX_LEASED
    }

    fn push(&mut self, packet: Bytes) {
        let first = self.packets.first().map_or(packet.len(), Bytes::len);
        self.is_full = packet.len() < first;
        self.len += packet.len();
        self.packets.push(packet);
    }
}

impl Leases {
    /// Returns whether no port is leased.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_socket.is_empty()
    }

    /// Takes a received packet for the process that has leased its port; otherwise returns it.
    pub(crate) fn take(
        &mut self,
        sockets: &Sockets,
        route: &Route,
        packet: Bytes,
    ) -> Option<Bytes> {
        if self.is_empty() {
            return Some(packet);
        }
        let port = packet.get(2..4).map(|b| u16::from_be_bytes([b[0], b[1]]));
        let socket = port.and_then(|port| sockets.socket_at(route.local, port));
        let Some(lease) = socket.and_then(|id| self.by_socket.get_mut(&id)) else {
            return Some(packet);
        };
        lease.push(route, packet);
        None
    }

    /// Passes an ICMP message to the processes that have leased the source port of its packet.
    pub(crate) fn pass_icmp(&self, icmp: &IcmpInput<'_>) {
        let Some(&[high, low]) = icmp.quoted.first_chunk() else {
            return;
        };
        let port = u16::from_be_bytes([high, low]);
        for lease in self.by_socket.values().filter(|lease| lease.port == port) {
            let kind = match icmp.kind {
                IcmpKind::PacketTooBig { mtu } => LeaseFrameKind::TooBig {
                    mtu: u32::try_from(mtu).unwrap_or(u32::MAX),
                },
                IcmpKind::ProtocolUnreachable => LeaseFrameKind::ProtocolUnreachable,
                IcmpKind::PortUnreachable => LeaseFrameKind::PortUnreachable,
                IcmpKind::DestinationUnreachable => LeaseFrameKind::DestinationUnreachable,
            };
            lease.pass(&LeaseFrame {
                kind,
                local: None,
                remote: SocketAddr::new(icmp.remote, icmp.encapsulation.unwrap_or(0)),
                bytes: icmp.quoted,
            });
        }
    }

    /// Passes the batches of received packets to their processes.
    pub(crate) fn flush(&mut self) {
        for lease in self.by_socket.values_mut() {
            lease.flush();
        }
    }

    /// Marks a lease as readable. Returns false if the token is another one's.
    pub(crate) fn mark_readable(&mut self, token: Token) -> bool {
        let socket = self.by_token.get(&token);
        let lease = socket.and_then(|id| self.by_socket.get_mut(id));
        lease.is_some_and(|lease| {
            self.ready.insert(lease.owner.uid, token);
            true
        })
    }

    /// Returns the next lease whose pair may have frames, with its user and token.
    pub(crate) fn next_turn(&mut self) -> Option<(u32, Token)> {
        self.ready.next()
    }

    /// Queues another turn of a lease.
    pub(crate) fn set_ready(&mut self, uid: u32, token: Token) {
        self.ready.insert(uid, token);
    }

    /// Returns the socket of a lease.
    pub(crate) fn socket_of(&self, token: Token) -> Option<SocketId> {
        self.by_token.get(&token).copied()
    }

    /// Returns the lease of a socket.
    pub(crate) fn get(&self, socket: SocketId) -> Option<&Lease> {
        self.by_socket.get(&socket)
    }

    /// Returns the sockets of all leases.
    pub(crate) fn sockets(&self) -> Vec<SocketId> {
        self.by_socket.keys().copied().collect()
    }

    /// Returns the leases of a port whose processes have ended.
    pub(crate) fn closed(&self, port: u16) -> Vec<SocketId> {
        let of_port = self.by_socket.iter().filter(|(_, l)| l.port == port);
        let closed = of_port.filter(|(_, lease)| lease.is_closed());
        closed.map(|(id, _)| *id).collect()
    }

    /// Adds a lease.
    pub(crate) fn insert(&mut self, socket: SocketId, lease: Lease) {
        self.by_token.insert(lease.token, socket);
        self.ready.insert(lease.owner.uid, lease.token);
        self.by_socket.insert(socket, lease);
    }

    /// Removes a lease.
    pub(crate) fn remove(&mut self, socket: SocketId) -> Option<Lease> {
        let lease = self.by_socket.remove(&socket)?;
        self.by_token.remove(&lease.token);
        Some(lease)
    }
}

impl Lease {
    /// Creates a lease with the daemon's end of its pair, and its token.
    pub(crate) fn new(
        (token, ours): (Token, OwnedFd),
        owner: Owner,
        port: u16,
        has_plain_ip: bool,
    ) -> Self {
        Self {
            ours,
            token,
            owner,
            port,
            has_plain_ip,
            batch: None,
        }
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether the process may send on plain IP.
    pub(crate) fn has_plain_ip(&self) -> bool {
        self.has_plain_ip
    }

    /// Returns the daemon's end of the pair.
    pub(crate) fn ours(&self) -> &OwnedFd {
        &self.ours
    }

    /// Returns the daemon's end of the pair of a lease that has ended.
    pub(crate) fn into_ours(self) -> OwnedFd {
        self.ours
    }

    /// Returns whether the process has closed its end.
    fn is_closed(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(recv(&self.ours, &mut [0; 1], flags), Ok((0, _)))
    }

    /// Receives a frame of the process, and the files that are attached to it.
    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        files: &mut Vec<OwnedFd>,
    ) -> rustix::io::Result<usize> {
        let parts = &mut [IoSliceMut::new(buffer)];
        receive_with_files(&self.ours, parts, files, RecvFlags::DONTWAIT)
    }

    /// Passes the process an ICMP error about packets that it has sent, of which the beginning is quoted.
    pub(crate) fn refuse(&self, kind: LeaseFrameKind, remote: SocketAddr, packets: &[u8]) {
        self.pass(&LeaseFrame {
            kind,
            local: None,
            remote,
            bytes: &packets[..packets.len().min(QUOTED)],
        });
    }

    fn push(&mut self, route: &Route, packet: Bytes) {
        if packet.len() > MAX_LEASED {
            return;
        }
        let has_room = |batch: &PacketBatch| batch.has_room(route, &packet);
        if !self.batch.as_ref().is_some_and(has_room) {
            self.flush();
        }
        let batch = self.batch.get_or_insert_with(|| PacketBatch {
            route: *route,
            packets: Vec::new(),
            len: 0,
            is_full: false,
        });
        batch.push(packet);
    }

    fn flush(&mut self) {
        let Some(batch) = self.batch.take() else {
            return;
        };
        let first = batch.packets.first().map_or(0, Bytes::len);
        let frame = LeaseFrame {
            kind: LeaseFrameKind::Packets {
                traffic_class: batch.route.ecn.bits(),
                segment_size: first as u32,
                may_fragment: false,
                is_probe: false,
            },
            local: batch.route.local,
            remote: SocketAddr::new(batch.route.remote, batch.route.encapsulation.unwrap_or(0)),
            bytes: &[],
        };
        let packets: Vec<&[u8]> = batch.packets.iter().map(|packet| &packet[..]).collect();
        self.pass_parts(&frame.fields(), &packets);
    }

    fn pass(&self, frame: &LeaseFrame<'_>) {
        self.pass_parts(&frame.fields(), &[frame.bytes]);
    }

    /// Sends a frame, which is lost if the pair has no room. If the process has ended, the next read detects it.
    fn pass_parts(&self, fields: &[u8; LEASE_FIELDS], bytes: &[&[u8]]) {
        let mut parts = Vec::with_capacity(bytes.len() + 1);
        parts.push(IoSlice::new(fields));
        parts.extend(bytes.iter().map(|part| IoSlice::new(part)));
        let _ = send_with_files(&self.ours, &parts, &[], AT_ONCE);
    }
}

/// Creates the pair of a lease: the daemon's end, and the process's.
pub(crate) fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = open_pair()?;
    for end in [&ours, &theirs] {
        enlarge_send_buffer(end, BUFFER);
    }
    Ok((ours, theirs))
}
