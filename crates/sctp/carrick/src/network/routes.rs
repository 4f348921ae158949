//! Selection of the source address by the host's routes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

use carrick_proto::{MatchingAddress, SourceSelection};

/// Time for which an answer of the system is cached.
const LIFETIME: Duration = Duration::from_secs(2);

/// Maximum number of cached answers.
const REMEMBERED: usize = 64;

/// Selects the address from which the system would send, if the endpoint is bound to it.
#[derive(Debug, Default)]
pub struct HostRoutes {
    known: RefCell<VecDeque<(Instant, IpAddr, Option<IpAddr>)>>,
}

impl HostRoutes {
    fn preferred(&self, remote: IpAddr) -> Option<IpAddr> {
        let now = Instant::now();
        let mut known = self.known.borrow_mut();
        known.retain(|(at, ..)| now.duration_since(*at) < LIFETIME);
        if let Some((.., address)) = known.iter().find(|(_, to, _)| *to == remote) {
            return *address;
        }
        let address = route_source(remote).ok();
        if known.len() >= REMEMBERED {
            known.pop_front();
        }
        known.push_back((now, remote, address));
        address
    }
}

impl SourceSelection for HostRoutes {
    fn select(&self, local: &[IpAddr], remote: IpAddr) -> Option<IpAddr> {
        self.preferred(remote)
            .filter(|address| local.contains(address))
            .or_else(|| {
                let mut local = local.to_vec();
                // Other hosts do not receive packets from a loopback address and cannot reply to them.
                if !remote.is_loopback() && local.iter().any(|a| fits(*a, remote)) {
                    local.retain(|a| !a.is_loopback());
                }
                MatchingAddress.select(&local, remote)
            })
    }

    fn refresh(&self) {
        self.known.borrow_mut().clear();
    }

    fn route_mtu(&self, local: Option<IpAddr>, remote: IpAddr) -> Option<usize> {
        route_mtu(local, remote)
    }
}

/// Returns whether packets from one address may reach the other on another host.
fn fits(local: IpAddr, remote: IpAddr) -> bool {
    local.is_ipv4() == remote.is_ipv4() && !local.is_loopback()
}

/// Returns the address from which the system would send. No packet is sent.
fn route_source(remote: IpAddr) -> io::Result<IpAddr> {
    Ok(towards(remote, None)?.local_addr()?.ip())
}

/// Returns the MTU of the route to a peer address in bytes, if the system has it.
pub fn route_mtu(local: Option<IpAddr>, remote: IpAddr) -> Option<usize> {
    let socket = towards(remote, local).ok()?;
    crate::socket::options::mtu(&socket, remote.is_ipv4())
}

/// Returns a UDP socket connected to the discard port, for which the system selects a route.
fn towards(remote: IpAddr, local: Option<IpAddr>) -> io::Result<UdpSocket> {
    let any: IpAddr = match remote {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((local.unwrap_or(any), 0))?;
    socket.connect((remote, 9))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_systems_choice_is_taken_if_it_is_bound() {
        let routes = HostRoutes::default();
        let remote = ip("127.0.0.1");
        let both = [ip("127.0.0.2"), ip("127.0.0.1")];
        assert_eq!(routes.select(&both, remote), Some(both[1]));
        assert_eq!(routes.select(&both[..1], remote), Some(both[0]));
    }

    #[test]
    fn nothing_leaves_for_another_host_from_loopback() {
        let routes = HostRoutes::default();
        let remote = ip("203.0.113.1");
        let bound = [ip("127.0.0.1"), ip("198.51.100.1")];
        assert_eq!(routes.select(&bound, remote), Some(bound[1]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_loopback_route_has_an_mtu() {
        assert!(route_mtu(None, ip("127.0.0.1")).is_some_and(|mtu| mtu >= 576));
    }
}
