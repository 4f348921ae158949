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
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::task::Context;

use bytes::Bytes;
use carrick::network::{TransmitOutcome, route_mtu};
use carrick_ipc::{Description, LEASE_FIELDS, LeaseFrame, LeaseFrameKind, LeaseGrant, MAX_LEASED};
use carrick_proto::{Ecn, IcmpInput, IcmpKind, Route, Time, Transmit};
use carrick_sockets::linux::read_addresses;
use carrick_sockets::{Errno, Family, SocketId, Sockets, Style};
use rustix::io::Errno as SystemErrno;
use rustix::net::{RecvFlags, recv};

use crate::connection::may_share;
use crate::driver::Driver;
use crate::pair::{AT_ONCE, enlarge_send_buffer, open_pair, receive_with_files, send_with_files};
use crate::poller::Token;
use crate::requests::opened;
use crate::turns::{Budget, Turns};

/// Maximum number of packets in a frame to a process.
const BATCH: usize = 64;
/// Size of the pair's buffers in bytes that is requested of the system.
const BUFFER: usize = 1 << 20;
/// Bytes of a refused packet that are quoted: the common header, and the beginning of an INIT.
const QUOTED: usize = 64;
/// `IPPROTO_IPV6` and `IPV6_V6ONLY`
const IPV6_ONLY: (i32, i32) = (41, 26);

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
struct Lease {
    ours: OwnedFd,
    token: Token,
    uid: u32,
    process: i32,
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
            self.ready.insert(lease.uid, token);
            true
        })
    }

    /// Returns the user whose process has leased the port of a socket.
    pub(crate) fn user_of(&self, socket: SocketId) -> Option<u32> {
        self.by_socket.get(&socket).map(|lease| lease.uid)
    }

    /// Returns the process that has leased the port of a socket.
    pub(crate) fn process_of(&self, socket: SocketId) -> Option<i32> {
        self.by_socket.get(&socket).map(|lease| lease.process)
    }
}

impl Lease {
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

impl Driver {
    /// Leases a port to a process of this user: binds a socket to it, and creates the pair.
    pub(crate) fn lease(
        &mut self,
        now: Time,
        owner: (u32, i32),
        addresses: &[u8],
    ) -> (Vec<u8>, Option<OwnedFd>) {
        let leased = self.try_lease(now, owner, addresses);
        opened(leased.map(|(grant, theirs)| (Description::default(), grant.encode(), theirs)))
    }

    fn try_lease(
        &mut self,
        now: Time,
        (uid, process): (u32, i32),
        addresses: &[u8],
    ) -> Result<(LeaseGrant, OwnedFd), Errno> {
        let addresses = read_addresses(addresses)?;
        let transport = self.transport();
        // Packets on plain IP otherwise take a privilege.
        let has_plain_ip = transport.has_plain_ip() && may_share(uid);
        let udp_port = transport.encapsulation_port();
        if udp_port.is_none() && !has_plain_ip {
            return Err(Errno::EPERM);
        }
        let is_v4 = addresses.iter().all(SocketAddr::is_ipv4);
        let family = if is_v4 { Family::Inet } else { Family::Inet6 };
        let (token, ours, theirs) = self.open_watched(uid, pair, |ours| ours)?;
        let socket = self.sockets.socket(Style::OneToMany, family);
        let bound = socket.and_then(|socket| {
            let bound = self.bind_socket(now, socket, uid, &addresses);
            if bound.is_err() {
                // It was created above.
                let _ = self.sockets.close(now, socket);
            }
            Ok((socket, bound?))
        });
        let (socket, port) = bound.inspect_err(|_| self.poller.unwatch(&ours))?;
        let local = self.sockets.local_addresses(socket).unwrap_or_default();
        let grant = LeaseGrant {
            port,
            udp_port,
            has_plain_ip,
            addresses: local.iter().map(|a| a.ip().to_canonical()).collect(),
        };
        self.users.add_descriptor(uid);
        self.leases.by_token.insert(token, socket);
        self.leases.ready.insert(uid, token);
        let lease = Lease {
            ours,
            token,
            uid,
            process,
            port,
            has_plain_ip,
            batch: None,
        };
        self.leases.by_socket.insert(socket, lease);
        Ok((grant, theirs))
    }

    /// Binds the socket of a lease to its addresses. Returns the port.
    fn bind_socket(
        &mut self,
        now: Time,
        socket: SocketId,
        uid: u32,
        addresses: &[SocketAddr],
    ) -> Result<u16, Errno> {
        self.sockets.set_privileged(socket, uid == 0)?;
        self.sockets.set_owner(socket, uid)?;
        self.open_loopback(addresses)?;
        let any_v6 = |address: &SocketAddr| address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let any_v4 = |address: &SocketAddr| address.ip() == IpAddr::from([0; 4]);
        match addresses {
            // Both families.
            [v6, v4] | [v4, v6] if any_v6(v6) && any_v4(v4) => {
                self.bind_address(now, socket, *v6)?
            }
            [only] if any_v6(only) => {
                let on = 1i32.to_ne_bytes();
                self.sockets.setsockopt(now, socket, IPV6_ONLY, &on)?;
                self.bind_address(now, socket, *only)?;
            }
            [first, further @ ..] => {
                self.bind_address(now, socket, *first)?;
                self.sockets.bindx_add(socket, further)?;
            }
            [] => return Err(Errno::EINVAL),
        }
        Ok(self.sockets.local_address(socket)?.port())
    }

    /// Binds the socket of a lease to an address. The port may be that of a process that has ended just before.
    fn bind_address(
        &mut self,
        now: Time,
        socket: SocketId,
        address: SocketAddr,
    ) -> Result<(), Errno> {
        match self.sockets.bind(socket, address) {
            Err(Errno::EADDRINUSE) => {
                self.close_closed(now, address.port());
                self.end_closed_leases(now, address.port());
                self.sockets.bind(socket, address)
            }
            bound => bound,
        }
    }

    /// Sends the packets of processes, a frame of each user in turn, as far as the network accepts them. Returns true if
    /// there may be more.
    pub(crate) fn serve_leases(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        let budget = Budget::begin();
        while let Some((uid, token)) = self.leases.ready.next() {
            // The task is woken when the network accepts more.
            let is_writable = self.network.flush(cx);
            if !is_writable || !budget.is_left() {
                self.leases.ready.insert(uid, token);
                return is_writable;
            }
            let Some(socket) = self.leases.by_token.get(&token).copied() else {
                continue;
            };
            match self.serve_lease(cx, socket) {
                Ok(true) => self.leases.ready.insert(uid, token),
                Ok(false) => {}
                Err(reason) => {
                    if let Some(reason) = reason {
                        self.users.log_line(now, uid, || reason);
                    }
                    self.end_lease(now, socket);
                }
            }
        }
        false
    }

    /// Sends the packets of one frame. Returns false if there is none; an error, with the line of the log if it is
    /// a fault of the process, ends the lease.
    fn serve_lease(
        &mut self,
        cx: &mut Context<'_>,
        socket: SocketId,
    ) -> Result<bool, Option<String>> {
        let Some(lease) = self.leases.by_socket.get(&socket) else {
            return Ok(false);
        };
        let (port, uid) = (lease.port, lease.uid);
        let invalid = || {
            Some(format!(
                "the lease of SCTP port {port} ended: its process, of user {uid}, sent something else than packets"
            ))
        };
        let mut files = Vec::new();
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let len = match receive_with_files(&lease.ours, &mut parts, &mut files, RecvFlags::DONTWAIT)
        {
            Ok(0) => return Err(None),
            Ok(len) => len,
            Err(SystemErrno::AGAIN) => return Ok(false),
            Err(SystemErrno::INTR) => return Ok(true),
            Err(_) => return Err(None),
        };
        if !files.is_empty() {
            self.close_files(uid, files.into_iter().map(OwnedFd::into_raw_fd));
            return Err(invalid());
        }
        let frame = LeaseFrame::decode(&self.buffer[..len]).map_err(|_| invalid())?;
        let LeaseFrameKind::Packets {
            traffic_class,
            segment_size,
            may_fragment,
            is_probe,
        } = frame.kind
        else {
            return Err(invalid());
        };
        let size = match segment_size as usize {
            0 => frame.bytes.len(),
            size => size,
        };
        let has_port = |packet: &[u8]| packet.get(..2) == Some(&lease.port.to_be_bytes()[..]);
        if frame.bytes.is_empty() || !frame.bytes.chunks(size).all(has_port) {
            return Err(invalid());
        }
        let encapsulation = Some(frame.remote.port()).filter(|port| *port != 0);
        let remote = frame.remote.ip();
        let local = frame.local.or_else(|| {
            let local = self.sockets.local_addresses(socket).unwrap_or_default();
            let mut local = local.iter().map(|a| a.ip().to_canonical());
            local.find(|local| local.is_ipv4() == remote.is_ipv4())
        });
        let is_leased =
            local.is_some() && self.sockets.socket_at(local, lease.port) == Some(socket);
        if !is_leased || encapsulation.is_none() && !lease.has_plain_ip {
            // An address that the host no longer has: as on the network, the packet is lost.
            return Ok(true);
        }
        let transmit = Transmit {
            route: Route {
                local,
                remote,
                encapsulation,
                ecn: Ecn::from_bits(traffic_class),
            },
            len: frame.bytes.len(),
            segment_size: (size < frame.bytes.len()).then_some(size),
            may_fragment,
            probe: is_probe,
            dscp: traffic_class >> 2,
        };
        self.network.open_destination(&transmit.route);
        let outcome = self.network.send(cx, &transmit, frame.bytes);
        if outcome == TransmitOutcome::Unroutable {
            lease.pass(&LeaseFrame {
                kind: LeaseFrameKind::DestinationUnreachable,
                local: None,
                remote: frame.remote,
                bytes: &frame.bytes[..frame.bytes.len().min(QUOTED)],
            });
        }
        if outcome == TransmitOutcome::TooBig {
            if let Some(mtu) = route_mtu(local, remote) {
                lease.pass(&LeaseFrame {
                    kind: LeaseFrameKind::TooBig { mtu: mtu as u32 },
                    local: None,
                    remote: frame.remote,
                    bytes: &frame.bytes[..frame.bytes.len().min(QUOTED)],
                });
            }
            return Ok(true);
        }
        let udp_port = self.network.transport().encapsulation_port();
        let sent = (&transmit, frame.bytes);
        self.captures.record_sent(&self.sockets, udp_port, sent);
        Ok(true)
    }

    fn end_lease(&mut self, now: Time, socket: SocketId) {
        let Some(lease) = self.leases.by_socket.remove(&socket) else {
            return;
        };
        self.leases.by_token.remove(&lease.token);
        self.poller.unwatch(&lease.ours);
        // The socket exists as long as its lease.
        let _ = self.sockets.close(now, socket);
        self.users.close_pair(lease.uid, lease.ours);
        self.users.remove_descriptor(lease.uid);
    }

    /// Ends all leases.
    pub(crate) fn end_leases(&mut self, now: Time) {
        let sockets: Vec<SocketId> = self.leases.by_socket.keys().copied().collect();
        for socket in sockets {
            self.end_lease(now, socket);
        }
    }

    /// Ends the leases of a port whose processes have ended.
    pub(crate) fn end_closed_leases(&mut self, now: Time, port: u16) {
        let leases = self.leases.by_socket.iter();
        let leases = leases.filter(|(_, lease)| lease.port == port);
        let closed = leases.filter(|(_, lease)| {
            let mut byte = [0; 1];
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            matches!(recv(&lease.ours, &mut byte, flags), Ok((0, _)))
        });
        let closed: Vec<SocketId> = closed.map(|(id, _)| *id).collect();
        for socket in closed {
            self.end_lease(now, socket);
        }
    }
}

/// Creates the pair of a lease: the daemon's end, and the process's.
fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = open_pair()?;
    for end in [&ours, &theirs] {
        enlarge_send_buffer(end, BUFFER);
    }
    Ok((ours, theirs))
}
