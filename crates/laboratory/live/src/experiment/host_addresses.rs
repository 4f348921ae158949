//! Addresses of the host on whose thread a program runs, which change during a run.

use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;

/// Address with the name of its interface.
pub(crate) type HostAddress = (IpAddr, String);

/// Returns the IPv4 addresses of the current namespace except for those of the loopback interface.
pub(crate) fn current() -> io::Result<Vec<HostAddress>> {
    let all = getifaddrs()?.filter_map(|own| {
        let address = IpAddr::V4(own.address?.as_sockaddr_in()?.ip());
        (!address.is_loopback()).then_some((address, own.interface_name))
    });
    Ok(all.collect())
}
