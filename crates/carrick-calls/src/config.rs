//! What a back-to-back user agent is told.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

/// A network: the first bits of its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// Whether an address is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differing = |a: u128, b: u128, bits: u8, all: u8| {
            let shift = u32::from(all - bits.min(all));
            (a ^ b).checked_shr(shift).unwrap_or(0)
        };
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let (a, b) = (u128::from(a.to_bits()), u128::from(b.to_bits()));
                differing(a, b, self.length, 32) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                differing(a.to_bits(), b.to_bits(), self.length, 128) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no network: give an address and a length, as 10.0.0.0/8");
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, length.parse().ok()),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match (length, text.contains('/')) {
            (Some(length), _) if length <= most => length,
            (None, false) => most,
            _ => return Err(wrong()),
        };
        Ok(Self { address, length })
    }
}

/// A SIP server or phone to which calls go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Where it is.
    pub address: SocketAddr,
    /// Over TCP; else over UDP.
    pub tcp: bool,
}

impl From<SocketAddr> for Hop {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            tcp: false,
        }
    }
}

impl FromStr for Hop {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tcp, address) = match text.split_once("://") {
            Some(("udp", address)) => (false, address),
            None => (false, text),
            Some(("tcp", address)) => (true, address),
            Some((other, _)) => return Err(format!("{other:?} is neither udp nor tcp")),
        };
        let address = address.parse().map_err(|_| {
            format!("{address:?} is no address with a port: give it as 192.0.2.1:5060 or tcp://192.0.2.1:5060")
        })?;
        Ok(Self { address, tcp })
    }
}

/// Where it listens, where calls go, how long things may take.
#[derive(Clone, Debug)]
pub struct B2buaConfig {
    /// Its own address for SIP over UDP and TCP, which both sides can reach.
    pub listen: SocketAddr,
    /// The networks behind the firewall.
    pub internal: Vec<Prefix>,
    /// Where calls go that are offered from outside.
    pub inner: Option<Hop>,
    /// Where calls go that are offered from inside.
    pub outer: Option<Hop>,
    /// Calls at a time; more are refused.
    pub max_calls: usize,
    /// TCP connections at a time; more are closed.
    pub max_connections: usize,
    /// How long a callee may take to answer.
    pub answer: Duration,
    /// How often both sides of a call are asked whether they are still there.
    pub probe: Duration,
}

impl B2buaConfig {
    /// At this address, with these networks inside; where calls go is still to be said.
    pub fn new(listen: SocketAddr, internal: Vec<Prefix>) -> Self {
        Self {
            listen,
            internal,
            inner: None,
            outer: None,
            max_calls: 10_000,
            max_connections: 1024,
            answer: Duration::from_secs(180),
            probe: Duration::from_secs(60),
        }
    }

    /// Whether a host is behind the firewall.
    pub fn is_internal(&self, address: IpAddr) -> bool {
        self.internal.iter().any(|prefix| prefix.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_reached_over_udp_or_tcp_and_wrong_ones_are_told() {
        let hop = |text: &str| text.parse::<Hop>();
        let address = "192.0.2.1:5060".parse().unwrap();
        assert_eq!(hop("192.0.2.1:5060"), Ok(Hop::from(address)));
        assert_eq!(hop("udp://192.0.2.1:5060"), Ok(Hop::from(address)));
        assert_eq!(hop("tcp://192.0.2.1:5060"), Ok(Hop { address, tcp: true }));
        assert!(hop("tls://192.0.2.1:5060").unwrap_err().contains("tls"));
        assert!(hop("192.0.2.1").unwrap_err().contains("192.0.2.1:5060"));
    }

    #[test]
    fn a_prefix_contains_what_begins_alike_and_wrong_ones_are_told() {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        let contains = |p: &str, a: &str| prefix(p).contains(a.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("0.0.0.0/0", "1.2.3.4") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("192.0.2.1", "192.0.2.1") && !contains("192.0.2.1", "192.0.2.2"));
        assert!(contains("fd81:1::/64", "fd81:1::9") && !contains("fd81:1::/64", "fd81:2::9"));
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/",
            "ten/8",
            "::/129",
            "10.0.0.0/-1",
        ] {
            assert!(wrong.parse::<Prefix>().unwrap_err().contains("10.0.0.0/8"));
        }
    }
}
