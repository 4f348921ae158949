//! The addresses of this host, for endpoints that are bound to all of them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::BindError;

/// Replaces unspecified addresses, or an empty list, by the addresses of the host. The loopback
/// addresses are among them; the protocol advertises them to peers on this host only.
pub(crate) fn resolve(wanted: &[IpAddr]) -> Result<Vec<IpAddr>, BindError> {
    let all = [
        Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::from(Ipv6Addr::UNSPECIFIED),
    ];
    let wanted = if wanted.is_empty() { &all } else { wanted };
    let mut addresses: Vec<IpAddr> = Vec::new();
    let mut host = None;
    for &address in wanted {
        if !address.is_unspecified() {
            addresses.push(address);
            continue;
        }
        let host = match &mut host {
            Some(host) => host,
            none => none.insert(of_host().map_err(BindError::ListAddresses)?),
        };
        addresses.extend(host.iter().filter(|a| a.is_ipv4() == address.is_ipv4()));
    }
    let mut unique = Vec::with_capacity(addresses.len());
    for address in addresses {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    if unique.is_empty() {
        return Err(BindError::NoAddress);
    }
    Ok(unique)
}

/// Returns the configured addresses that the host has now.
pub(crate) fn present(wanted: &[IpAddr]) -> io::Result<Vec<IpAddr>> {
    let named = |a: &IpAddr| wanted.contains(a);
    let family = |a: &IpAddr| {
        wanted.is_empty()
            || wanted
                .iter()
                .any(|w| w.is_unspecified() && w.is_ipv4() == a.is_ipv4())
    };
    let mut present = of_host()?;
    present.retain(|a| named(a) || family(a));
    present.sort_unstable();
    present.dedup();
    Ok(present)
}

/// Returns whether all addresses of 127.0.0.0/8 belong to an endpoint with these addresses: those without an interface
/// as well, as for any listener of the host (RFC 1122, section 3.2.1.3).
pub(crate) fn include_loopback(wanted: &[IpAddr]) -> bool {
    wanted.is_empty() || wanted.contains(&Ipv4Addr::UNSPECIFIED.into())
}

/// Returns whether an address is of one link only, and so needs an interface, which neither an
/// endpoint nor SCTP's address parameters name.
pub(crate) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(a) if a.is_unicast_link_local())
}

/// Returns the host's addresses that other hosts could reach, and loopback.
fn of_host() -> io::Result<Vec<IpAddr>> {
    let addresses = if_addrs::get_if_addrs()?
        .into_iter()
        .map(|interface| interface.ip())
        .filter(|address| match address {
            IpAddr::V4(a) => !a.is_link_local() && !a.is_unspecified(),
            IpAddr::V6(a) => !a.is_unicast_link_local() && !a.is_unspecified(),
        })
        .collect();
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_addresses_stay_as_they_are() {
        let named: Vec<IpAddr> = ["127.0.0.2", "::1", "127.0.0.2"]
            .map(|a| a.parse().unwrap())
            .into();
        assert_eq!(resolve(&named).unwrap(), named[..2]);
    }

    #[test]
    fn a_wildcard_becomes_addresses_of_its_family() {
        let all = resolve(&["0.0.0.0".parse().unwrap()]).unwrap();
        assert!(!all.is_empty());
        assert!(all.iter().all(|a| a.is_ipv4() && !a.is_unspecified()));
        assert!(all.contains(&Ipv4Addr::LOCALHOST.into()), "{all:?}");
    }
}
