//! Leases of ports ([`crate::leases`]).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use carrick_ipc::LeaseGrant;
use carrick_proto::Time;
use carrick_sockets::linux::read_addresses;
use carrick_sockets::{Errno, Family, SocketId, Style};

use super::bind::{bind_closed, open_loopback};
use super::reply::ReplyContent;
use crate::connection::may_share;
use crate::leases::{Lease, pair};
use crate::parts::Parts;
use crate::serve::open_watched;
use crate::users::Owner;

/// `IPPROTO_IPV6` and `IPV6_V6ONLY`
const IPV6_ONLY: (i32, i32) = (41, 26);

/// Leases a port to a process: binds a socket to it, and creates the pair.
pub(super) fn lease(
    parts: &mut Parts,
    now: Time,
    owner: Owner,
    addresses: &[u8],
) -> Result<ReplyContent, Errno> {
    let addresses = read_addresses(addresses)?;
    let transport = parts.network.transport();
    // Packets on plain IP otherwise take a privilege.
    let has_plain_ip = transport.has_plain_ip() && may_share(owner.uid);
    let udp_port = transport.encapsulation_port();
    if udp_port.is_none() && !has_plain_ip {
        return Err(Errno::EPERM);
    }
    let is_v4 = addresses.iter().all(SocketAddr::is_ipv4);
    let family = if is_v4 { Family::Inet } else { Family::Inet6 };
    let (token, ours, theirs) = open_watched(parts, owner.uid, pair, |ours| ours)?;
    let socket = parts.sockets.socket(Style::OneToMany, family);
    let bound = socket.and_then(|socket| {
        let bound = bind_socket(parts, now, socket, (owner.uid, &addresses));
        if bound.is_err() {
            // It was created above.
            let _ = parts.sockets.close(now, socket);
        }
        Ok((socket, bound?))
    });
    let (socket, port) = bound.inspect_err(|_| parts.poller.unwatch(&ours))?;
    let local = parts.sockets.local_addresses(socket).unwrap_or_default();
    let grant = LeaseGrant {
        port,
        udp_port,
        has_plain_ip,
        addresses: local.iter().map(|a| a.ip().to_canonical()).collect(),
    };
    parts.users.add_descriptor(owner.uid);
    let lease = Lease::new((token, ours), owner, port, has_plain_ip);
    parts.leases.insert(socket, lease);
    Ok(ReplyContent {
        value: grant.encode(),
        ..ReplyContent::attached(theirs)
    })
}

/// Binds the socket of a lease to its addresses. Returns the port.
fn bind_socket(
    parts: &mut Parts,
    now: Time,
    socket: SocketId,
    (uid, addresses): (u32, &[SocketAddr]),
) -> Result<u16, Errno> {
    parts.sockets.set_privileged(socket, uid == 0)?;
    parts.sockets.set_owner(socket, uid)?;
    open_loopback(&parts.sockets, &mut parts.network, addresses)?;
    let is_any = |address: &SocketAddr, any: IpAddr| address.ip() == any;
    let any_v6 = |address: &SocketAddr| is_any(address, Ipv6Addr::UNSPECIFIED.into());
    let any_v4 = |address: &SocketAddr| is_any(address, [0; 4].into());
    let (first, further) = match addresses {
        // Both families.
        [v6, v4] | [v4, v6] if any_v6(v6) && any_v4(v4) => (*v6, &[][..]),
        [only] if any_v6(only) => {
            let on = 1i32.to_ne_bytes();
            parts.sockets.setsockopt(now, socket, IPV6_ONLY, &on)?;
            (*only, &[][..])
        }
        [first, further @ ..] => (*first, further),
        [] => return Err(Errno::EINVAL),
    };
    bind_closed(parts, now, first.port(), |sockets| {
        sockets.bind(socket, first)
    })?;
    if !further.is_empty() {
        parts.sockets.bindx_add(socket, further)?;
    }
    Ok(parts.sockets.local_address(socket)?.port())
}
