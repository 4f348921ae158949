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

/// On which side of the firewall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Behind it.
    Inside,
    /// Beyond it.
    Outside,
}

impl Place {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Inside => Self::Outside,
            Self::Outside => Self::Inside,
        }
    }
}

/// What one address (one /64 network in IPv6) that is neither SIP server may have at a time; what is
/// more is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerAddress {
    /// Calls that it began.
    pub calls: usize,
    /// Of them those that are not answered yet.
    pub setups: usize,
    /// Pinholes of them.
    pub pinholes: usize,
}

impl PerAddress {
    /// So many calls; an eighth of them may be unanswered, and four pinholes for each.
    pub fn of_calls(calls: usize) -> Self {
        Self {
            calls,
            setups: calls.div_ceil(8),
            pinholes: calls.saturating_mul(4),
        }
    }
}

/// Where it listens, where calls go, how long things may take.
#[derive(Clone, Debug)]
pub struct B2buaConfig {
    /// Its own address for SIP over UDP and TCP, which both sides can reach. Port 0 leaves the choice
    /// to the host.
    pub listen: SocketAddr,
    /// The networks behind the firewall.
    pub internal: Vec<Prefix>,
    /// Where calls go that are offered from outside.
    pub inner: Option<Hop>,
    /// Where calls go that are offered from inside.
    pub outer: Option<Hop>,
    /// Calls at a time; more are refused.
    pub max_calls: usize,
    /// Of them from one address, and what belongs to them.
    pub per_address: PerAddress,
    /// TCP connections at a time; more are closed. A sixteenth is for `inner` and `outer` alone.
    pub max_connections: usize,
    /// Of them from one address (one /64 network in IPv6) that is neither `inner` nor `outer`.
    pub max_connections_per_address: usize,
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
            per_address: PerAddress::of_calls(1000),
            max_connections: 1024,
            max_connections_per_address: 32,
            answer: Duration::from_secs(180),
            probe: Duration::from_secs(60),
        }
    }

    /// Whether its values make sense.
    ///
    /// # Errors
    /// Says what doesn't, and what to give.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |text: &str| Err(text.to_owned());
        if self.internal.is_empty() {
            return wrong("no internal network: say which networks are behind the firewall");
        }
        if self.inner.is_none() && self.outer.is_none() {
            return wrong("calls go nowhere: give the inner or the outer SIP server, or both");
        }
        let listen = self.listen;
        if listen.ip().is_unspecified() {
            return wrong("listen at an address that both sides reach: it is told to both");
        }
        for (name, hop) in [("inner", self.inner), ("outer", self.outer)] {
            let Some(Hop { address, .. }) = hop else {
                continue;
            };
            if address.ip().is_unspecified() || address.port() == 0 {
                return Err(format!(
                    "{name} SIP server {address}: give its address and port, as 192.0.2.1:5060"
                ));
            }
            if address.is_ipv4() != listen.is_ipv4() {
                return Err(format!(
                    "{name} SIP server {address} can't be reached from {listen}: give addresses of one IP version"
                ));
            }
        }
        if let (Some(inner), Some(outer)) = (self.inner, self.outer)
            && inner.tcp
            && inner.address.ip() == outer.address.ip()
            && inner.address != outer.address
        {
            return Err(format!(
                "both SIP servers are at {}: only their ports tell them apart, and over TCP requests come from any; reach the inner one over UDP, or give it an address of its own",
                inner.address.ip()
            ));
        }
        if self.probe.is_zero() || self.answer.is_zero() {
            return wrong("the time to answer and the time between probes must be more than 0");
        }
        if self.max_calls == 0 {
            return wrong("no calls at a time: give 1 at least");
        }
        Ok(())
    }

    /// Whether a host is behind the firewall.
    pub fn is_internal(&self, address: IpAddr) -> bool {
        self.internal.iter().any(|prefix| prefix.contains(address))
    }

    /// Whether it is one of the SIP servers: they are known, and may have more than others.
    pub(crate) fn is_hop(&self, address: IpAddr) -> bool {
        let mut hops = [self.inner, self.outer].into_iter().flatten();
        hops.any(|hop| hop.address.ip() == address)
    }

    /// Where somebody is who sends from this address; outside, if it is not known.
    pub(crate) fn place_of(&self, source: Option<SocketAddr>) -> Place {
        let Some(source) = source else {
            return Place::Outside;
        };
        let [inner, outer] = [self.inner, self.outer].map(|hop| hop.map(|hop| hop.address));
        // Where they are on one host the port tells. Else they may send from any: over TCP they do.
        let one_host = inner.map(|hop| hop.ip()) == outer.map(|hop| hop.ip());
        let is = |hop: Option<SocketAddr>| match hop {
            Some(hop) if one_host => hop == source,
            Some(hop) => hop.ip() == source.ip(),
            None => false,
        };
        let is_inner = is(inner);
        let is_internal = self.is_internal(source.ip()) && !is(outer);
        if is_inner || is_internal {
            Place::Inside
        } else {
            Place::Outside
        }
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

    #[test]
    fn a_configuration_that_can_not_work_is_told_with_what_to_give() {
        type Spoil = fn(&mut B2buaConfig);
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let listen = address("10.0.0.254:5060");
        let mut right = B2buaConfig::new(listen, vec!["10.0.0.0/8".parse().unwrap()]);
        right.outer = Some(address("192.0.2.1:5060").into());
        assert_eq!(right.check(), Ok(()));
        let spoils: [(Spoil, &str); 9] = [
            (
                |c| c.inner = "tcp://192.0.2.1:5070".parse().ok(),
                "over UDP",
            ),
            (|c| c.internal.clear(), "no internal network"),
            (|c| c.outer = None, "go nowhere"),
            (|c| c.listen.set_ip([0; 4].into()), "both sides reach"),
            (|c| c.inner = "192.0.2.1:0".parse().ok(), "inner SIP server"),
            (
                |c| c.outer = "[fd00::1]:5060".parse().ok(),
                "one IP version",
            ),
            (|c| c.probe = Duration::ZERO, "between probes"),
            (|c| c.answer = Duration::ZERO, "more than 0"),
            (|c| c.max_calls = 0, "1 at least"),
        ];
        for (spoil, told) in spoils {
            let mut wrong = right.clone();
            spoil(&mut wrong);
            let why = wrong.check().unwrap_err();
            assert!(why.contains(told), "{why}");
        }
    }

    #[test]
    fn inside_is_who_sends_from_an_internal_network_or_is_the_inner_server() {
        let listen = "10.0.0.254:5060".parse().unwrap();
        let mut config = B2buaConfig::new(listen, vec!["10.0.0.0/8".parse().unwrap()]);
        config.inner = Some("172.16.0.1:5060".parse().unwrap());
        config.outer = Some("192.0.2.1:5060".parse().unwrap());
        let inside = |config: &B2buaConfig, source: &str| {
            config.place_of(Some(source.parse().unwrap())) == Place::Inside
        };
        for source in ["10.1.2.3:9", "172.16.0.1:5060", "172.16.0.1:40000"] {
            assert!(inside(&config, source), "{source}");
        }
        for source in ["192.0.2.1:5060", "203.0.113.9:5060", "[::1]:5060"] {
            assert!(!inside(&config, source), "{source}");
        }
        assert_eq!(config.place_of(None), Place::Outside);
        // The outer server has an internal address, and is outside from whatever port it sends.
        config.outer = Some("10.9.9.9:5060".parse().unwrap());
        for source in ["10.9.9.9:5060", "10.9.9.9:40000"] {
            assert!(!inside(&config, source), "{source}");
        }
        assert!(inside(&config, "10.9.9.8:40000"));
        config.inner = None;
        assert!(!inside(&config, "10.9.9.9:40000"));
        config.outer = Some("192.0.2.1:5060".parse().unwrap());
        // Both servers on one host: the port tells.
        config.inner = Some("192.0.2.1:5070".parse().unwrap());
        assert!(inside(&config, "192.0.2.1:5070") && !inside(&config, "192.0.2.1:5080"));
    }
}
