//! Turns of leases: packets of processes to the network.

use std::task::Context;

use carrick::network::{TransmitOutcome, route_mtu};
use carrick_ipc::{LeaseFrame, LeaseFrameKind};
use carrick_proto::{Ecn, Route, Time, Transmit};
use carrick_sockets::SocketId;
use rustix::io::Errno as SystemErrno;

use crate::parts::Parts;
use crate::turns::Budget;

/// Sends the packets of processes, a frame of each user in turn, as far as the network accepts them. Returns true if
/// there may be more.
pub(crate) fn serve_leases(parts: &mut Parts, cx: &mut Context<'_>, now: Time) -> bool {
    let budget = Budget::begin();
    while let Some((uid, token)) = parts.leases.next_turn() {
        // The task is woken when the network accepts more.
        let is_writable = parts.network.flush(cx);
        if !is_writable || !budget.is_left() {
            parts.leases.set_ready(uid, token);
            return is_writable;
        }
        let Some(socket) = parts.leases.socket_of(token) else {
            continue;
        };
        match serve_lease(parts, cx, socket) {
            Ok(true) => parts.leases.set_ready(uid, token),
            Ok(false) => {}
            Err(reason) => {
                let port = end_lease(parts, now, socket);
                if let (LeaseEnd::Invalid, Some(port)) = (reason, port) {
                    parts.users.log_line(now, uid, || {
                        format!(
                            "the lease of SCTP port {port} ended: its process, of user {uid}, sent something else than packets"
                        )
                    });
                }
            }
        }
    }
    false
}

/// Reason of the end of a lease.
enum LeaseEnd {
    /// The process has closed its end.
    Closed,
    /// The process has sent something else than packets.
    Invalid,
}

/// Sends the packets of one frame. Returns false if there is none; an error ends the lease.
///
/// 1. Receive the frame, without files.
/// 2. Check that the port of all packets is the leased one, and their source an address of the lease.
/// 3. Send them, and pass ICMP errors of this host to the process.
fn serve_lease(
    parts: &mut Parts,
    cx: &mut Context<'_>,
    socket: SocketId,
) -> Result<bool, LeaseEnd> {
    let Some(lease) = parts.leases.get(socket) else {
        return Ok(false);
    };
    // 1
    let mut files = Vec::new();
    let len = match lease.receive(parts.frames.other(), &mut files) {
        Ok(0) => return Err(LeaseEnd::Closed),
        Ok(len) => len,
        Err(SystemErrno::AGAIN) => return Ok(false),
        Err(SystemErrno::INTR) => return Ok(true),
        Err(_) => return Err(LeaseEnd::Closed),
    };
    if !files.is_empty() {
        parts.users.close_files(lease.owner().uid, files);
        return Err(LeaseEnd::Invalid);
    }
    // 2
    let frame = LeaseFrame::decode(&parts.frames.other()[..len]).map_err(|_| LeaseEnd::Invalid)?;
    let LeaseFrameKind::Packets {
        traffic_class,
        segment_size,
        may_fragment,
        is_probe,
    } = frame.kind
    else {
        return Err(LeaseEnd::Invalid);
    };
    let size = match segment_size as usize {
        0 => frame.bytes.len(),
        size => size,
    };
    let has_port = |packet: &[u8]| packet.get(..2) == Some(&lease.port().to_be_bytes()[..]);
    if frame.bytes.is_empty() || !frame.bytes.chunks(size).all(has_port) {
        return Err(LeaseEnd::Invalid);
    }
    let encapsulation = Some(frame.remote.port()).filter(|port| *port != 0);
    let remote = frame.remote.ip();
    let local = frame.local.or_else(|| {
        let local = parts.sockets.local_addresses(socket).unwrap_or_default();
        let mut local = local.iter().map(|a| a.ip().to_canonical());
        local.find(|local| local.is_ipv4() == remote.is_ipv4())
    });
    let is_leased = local.is_some() && parts.sockets.socket_at(local, lease.port()) == Some(socket);
    if !is_leased || encapsulation.is_none() && !lease.has_plain_ip() {
        // An address that the host no longer has: as on the network, the packet is lost.
        return Ok(true);
    }
    // 3
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
    parts.network.open_destination(&transmit.route);
    let outcome = parts.network.send(cx, &transmit, frame.bytes);
    if outcome == TransmitOutcome::Unroutable {
        let kind = LeaseFrameKind::DestinationUnreachable;
        lease.refuse(kind, frame.remote, frame.bytes);
    }
    if outcome == TransmitOutcome::TooBig {
        if let Some(mtu) = route_mtu(local, remote) {
            let kind = LeaseFrameKind::TooBig { mtu: mtu as u32 };
            lease.refuse(kind, frame.remote, frame.bytes);
        }
        return Ok(true);
    }
    let udp_port = parts.network.transport().encapsulation_port();
    let sent = (&transmit, frame.bytes);
    parts.captures.record_sent(&parts.sockets, udp_port, sent);
    Ok(true)
}

/// Ends the lease of a socket. Returns its port.
fn end_lease(parts: &mut Parts, now: Time, socket: SocketId) -> Option<u16> {
    let lease = parts.leases.remove(socket)?;
    parts.poller.unwatch(lease.ours());
    // The socket exists as long as its lease.
    let _ = parts.sockets.close(now, socket);
    let (uid, port) = (lease.owner().uid, lease.port());
    parts.users.remove_descriptor(uid);
    parts.users.close_pair(uid, lease.into_ours());
    Some(port)
}

/// Ends all leases.
pub(crate) fn end_leases(parts: &mut Parts, now: Time) {
    for socket in parts.leases.sockets() {
        end_lease(parts, now, socket);
    }
}

/// Ends the leases of a port whose processes have ended.
pub(crate) fn end_closed_leases(parts: &mut Parts, now: Time, port: u16) {
    for socket in parts.leases.closed(port) {
        end_lease(parts, now, socket);
    }
}
