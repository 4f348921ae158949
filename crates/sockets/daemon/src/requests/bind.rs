//! Calls that bind a socket to addresses.

use std::net::{IpAddr, SocketAddr};

use carrick::BindError;
use carrick::network::Network;
use carrick_proto::Time;
use carrick_sockets::linux::{
    IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, SCTP_SOCKOPT_BINDX_REM, read_address, read_addresses,
};
use carrick_sockets::{Errno, Sockets};

use super::reply::ReplyContent;
use crate::descriptor::Descriptor;
use crate::parts::Parts;
use crate::serve::closed::close_closed;
use crate::serve::lease::end_closed_leases;

/// `bind`
pub(super) fn bind(
    parts: &mut Parts,
    now: Time,
    descriptor: &mut Descriptor,
    address: &[u8],
) -> Result<ReplyContent, Errno> {
    let (address, _) = read_address(address)?;
    open_loopback(&parts.sockets, &mut parts.network, &[address])?;
    let id = descriptor.socket();
    let bind = |sockets: &mut Sockets| sockets.bind(id, address);
    bind_descriptor(parts, now, descriptor, address.port(), bind)?;
    Ok(ReplyContent::default())
}

/// `setsockopt`, which may be `sctp_bindx`
pub(super) fn set_option(
    parts: &mut Parts,
    now: Time,
    descriptor: &mut Descriptor,
    (option, value): ((i32, i32), &[u8]),
) -> Result<ReplyContent, Errno> {
    let id = descriptor.socket();
    let set = |sockets: &mut Sockets| sockets.setsockopt(now, id, option, value);
    let addresses = match option {
        (IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD) => read_addresses(value).ok(),
        _ => None,
    };
    let result = match addresses.as_deref() {
        Some(list @ [first, ..]) => {
            open_loopback(&parts.sockets, &mut parts.network, list)?;
            bind_descriptor(parts, now, descriptor, first.port(), set)?
        }
        _ => set(&mut parts.sockets)?,
    };
    if matches!(
        option,
        (
            IPPROTO_SCTP,
            SCTP_SOCKOPT_BINDX_ADD | SCTP_SOCKOPT_BINDX_REM
        )
    ) {
        // Sockets that share the port share its addresses.
        parts.listeners.check_all(Some(descriptor.uid()));
    }
    Ok(ReplyContent::result(result))
}

/// Opens the sockets of the network for addresses of 127.0.0.0/8 that no interface has.
///
/// # Errors
/// `EADDRINUSE`, or `EADDRNOTAVAIL` for one of a network with other addresses.
pub(crate) fn open_loopback(
    sockets: &Sockets,
    network: &mut Network,
    addresses: &[SocketAddr],
) -> Result<(), Errno> {
    for address in addresses {
        let known = sockets.host_addresses();
        if let IpAddr::V4(ip) = address.ip().to_canonical()
            && ip.is_loopback()
            && !known.contains(&ip.into())
        {
            let opened = network.open_loopback(ip);
            opened.map_err(|error| match error {
                BindError::PortTaken { .. } | BindError::SctpTaken { .. } => Errno::EADDRINUSE,
                _ => Errno::EADDRNOTAVAIL,
            })?;
        }
    }
    Ok(())
}

/// Binds the socket of a descriptor as [`bind_closed`] does.
fn bind_descriptor<R>(
    parts: &mut Parts,
    now: Time,
    descriptor: &mut Descriptor,
    port: u16,
    bind: impl Fn(&mut Sockets) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let bound = bind_closed(parts, now, port, bind);
    // An event of this descriptor may have been among those that were read.
    descriptor.incoming.set_readable(true);
    bound
}

/// Binds a socket to a port, which may be that of a descriptor or lease that its process has closed just before: the
/// system has reported that no later than the request, but the turn that closes the socket may not have come.
pub(super) fn bind_closed<R>(
    parts: &mut Parts,
    now: Time,
    port: u16,
    bind: impl Fn(&mut Sockets) -> Result<R, Errno>,
) -> Result<R, Errno> {
    match bind(&mut parts.sockets) {
        Err(Errno::EADDRINUSE) => {
            close_closed(parts, now, port);
            end_closed_leases(parts, now, port);
            bind(&mut parts.sockets)
        }
        bound => bound,
    }
}
