//! Lists of addresses, as `sctp_getpaddrs` and `sctp_getladdrs` read them (RFC 6458, sections 9.3 and 9.5),
//! whether they follow the host's, and calls that are options on Linux.

use std::net::SocketAddr;

use super::scope::OptionView;
use super::table::{self, Addresses, Get, Set, options};
use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::SocketId;
use crate::linux::*;

options! {
    [IPPROTO_SCTP]
    SCTP_GET_PEER_ADDRS, ID, _, [none], [operation peer_addresses];
    SCTP_GET_LOCAL_ADDRS, ID, _, [none], [operation local_addresses];
    SCTP_AUTO_ASCONF, NONE, bool, [operation set_auto_asconf],
        [bytes |view, buffer| table::int(buffer, follows_host(view))];
    SCTP_SOCKOPT_BINDX_ADD, NONE, Addresses, [operation |s, id, list| s.bindx_add(id, &list)], [none];
    SCTP_SOCKOPT_BINDX_REM, NONE, Addresses, [operation |s, id, list| s.bindx_remove(s.now, id, &list)], [none];
    SCTP_SOCKOPT_CONNECTX, NONE, Addresses, [set_up |s, id, list| s.connectx(s.now, id, &list)], [none];
    // With a descriptor as result: of programs alone. The flags, or the size and the pointer of a list, are read, too.
    SCTP_SOCKOPT_CONNECTX3, fields(0..16), _, [none], [none];
    SCTP_SOCKOPT_PEELOFF, fields(0..8), _, [none], [none];
    SCTP_SOCKOPT_PEELOFF_FLAGS, fields(0..12), _, [none], [none];
}

fn peer_addresses(host: &mut Sockets, id: SocketId, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    let header = GetAddrs::read(buffer)?;
    let addresses = host.peer_addresses(id, header.assoc_id)?;
    list(header, &addresses, buffer)
}

fn local_addresses(host: &mut Sockets, id: SocketId, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    let header = GetAddrs::read(buffer)?;
    // 0 means the socket, also on those with one association.
    if header.assoc_id != SCTP_FUTURE_ASSOC {
        OptionView::new(host, id)?.association(header.assoc_id)?;
    }
    list(header, &host.local_addresses(id)?, buffer)
}

/// Returns addresses for a buffer that holds them.
fn list(mut header: GetAddrs, addresses: &[SocketAddr], buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    header.number = addresses.len() as u32;
    let mut bytes = header.encode();
    bytes.extend(addresses.iter().copied().flat_map(write_address));
    table::fitting(buffer, bytes).map_err(|_| Errno::ENOMEM)
}

/// Returns whether the socket is bound to a wildcard address, so that its addresses, and those of its
/// associations with dynamic addresses, follow the host's.
fn follows_host(view: &OptionView<'_>) -> bool {
    let port = view.socket.port().and_then(|id| view.ports.get(id));
    port.is_some_and(|port| port.scope().wildcard().is_some())
}

/// `SCTP_AUTO_ASCONF` (RFC 6458, section 8.1.23)
fn set_auto_asconf(host: &mut Sockets, id: SocketId, on: bool) -> Result<(), Errno> {
    match follows_host(&OptionView::new(host, id)?) {
        follows if follows == on => Ok(()),
        true => Err(Errno::EOPNOTSUPP),
        false => Err(Errno::EINVAL),
    }
}
