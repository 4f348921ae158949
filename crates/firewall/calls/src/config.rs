//! Configuration of the back-to-back user agent.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

/// Network prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkPrefix {
    address: IpAddr,
    length: u8,
}

impl NetworkPrefix {
    /// Returns whether an address is in the network.
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

impl FromStr for NetworkPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "invalid network {text:?}: give an address and a prefix length, such as 10.0.0.0/8"
            )
        };
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

/// SIP server or phone to which calls are routed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SipNextHop {
    /// Its address.
    pub address: SocketAddr,
    /// True if TCP is used instead of UDP.
    pub tcp: bool,
}

impl From<SocketAddr> for SipNextHop {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            tcp: false,
        }
    }
}

impl FromStr for SipNextHop {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tcp, address) = match text.split_once("://") {
            Some(("udp", address)) => (false, address),
            None => (false, text),
            Some(("tcp", address)) => (true, address),
            Some((other, _)) => {
                return Err(format!("unknown transport {other:?}: give udp or tcp"));
            }
        };
        let address = address.parse().map_err(|_| {
            format!("invalid address {address:?}: give ADDRESS:PORT, such as 192.0.2.1:5060 or tcp://192.0.2.1:5060")
        })?;
        Ok(Self { address, tcp })
    }
}

/// Side of the firewall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirewallSide {
    /// Behind the firewall.
    Inside,
    /// Beyond the firewall.
    Outside,
}

impl FirewallSide {
    /// Returns the other side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Inside => Self::Outside,
            Self::Outside => Self::Inside,
        }
    }
}

/// Limits for one address (one /64 network in IPv6) other than the SIP servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerAddress {
    /// Maximum number of calls from it.
    pub calls: usize,
    /// Maximum number of them that are not answered yet.
    pub setups: usize,
    /// Maximum number of their pinholes.
    pub pinholes: usize,
}

impl PerAddress {
    /// Returns limits for this number of calls, with an eighth of it unanswered and four pinholes for
    /// each call.
    pub fn of_calls(calls: usize) -> Self {
        Self {
            calls,
            setups: calls.div_ceil(8),
            pinholes: calls.saturating_mul(4),
        }
    }
}

/// Addresses, routes, limits and timers.
#[derive(Clone, Debug)]
pub struct B2buaConfig {
    /// Local address for SIP over UDP and TCP, reachable from both sides. With port 0 the host chooses
    /// one.
    pub listen: SocketAddr,
    /// Networks behind the firewall.
    pub internal: Vec<NetworkPrefix>,
    /// Server for calls from outside.
    pub inner: Option<SipNextHop>,
    /// Server for calls from inside.
    pub outer: Option<SipNextHop>,
    /// Maximum number of calls.
    pub max_calls: usize,
    /// Limits for calls from one address.
    pub per_address: PerAddress,
    /// Maximum number of TCP connections. A sixteenth is reserved for `inner` and `outer`.
    pub max_connections: usize,
    /// Maximum number of them from one address (one /64 network in IPv6) other than `inner` and
    /// `outer`.
    pub max_connections_per_address: usize,
    /// Time that a callee has to answer.
    pub answer: Duration,
    /// Interval at which both sides of a call are probed.
    pub probe: Duration,
}

impl B2buaConfig {
    /// Returns a configuration without SIP servers, which are to be set.
    pub fn new(listen: SocketAddr, internal: Vec<NetworkPrefix>) -> Self {
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

    /// Validates the values.
    ///
    /// # Errors
    /// The invalid value and what to give instead.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |text: &str| Err(text.to_owned());
        if self.internal.is_empty() {
            return wrong("no internal network: give the networks behind the firewall");
        }
        if self.inner.is_none() && self.outer.is_none() {
            return wrong("no SIP server: give the inner server, the outer server or both");
        }
        let listen = self.listen;
        if listen.ip().is_unspecified() {
            return wrong(
                "listen address unspecified: give one that both sides reach, since it is advertised to both",
            );
        }
        for (name, hop) in [("inner", self.inner), ("outer", self.outer)] {
            let Some(SipNextHop { address, .. }) = hop else {
                continue;
            };
            if address.ip().is_unspecified() || address.port() == 0 {
                return Err(format!(
                    "{name} SIP server {address}: give its address and port, as 192.0.2.1:5060"
                ));
            }
            if address.is_ipv4() != listen.is_ipv4() {
                return Err(format!(
                    "{name} SIP server {address} has another IP version than {listen}: give addresses of one version"
                ));
            }
        }
        if let (Some(inner), Some(outer)) = (self.inner, self.outer)
            && inner.tcp
            && inner.address.ip() == outer.address.ip()
            && inner.address != outer.address
        {
            return Err(format!(
                "both SIP servers are at {}: requests over TCP come from any port, so their sources are ambiguous; use UDP for the inner server, or another address",
                inner.address.ip()
            ));
        }
        if self.probe.is_zero() || self.answer.is_zero() {
            return wrong("the answer timeout and the probe interval must be longer than 0");
        }
        if self.max_calls == 0 {
            return wrong("max_calls must be at least 1");
        }
        Ok(())
    }

    /// Returns whether a host is behind the firewall.
    pub fn is_internal(&self, address: IpAddr) -> bool {
        self.internal.iter().any(|prefix| prefix.contains(address))
    }

    /// Returns whether an address is that of the agent, and of no SIP server on the same host.
    pub(crate) fn is_agents_own(&self, address: IpAddr) -> bool {
        self.listen.ip() == address && !self.is_hop(address)
    }

    /// Returns whether an address is that of a configured SIP server, which is not limited.
    pub(crate) fn is_hop(&self, address: IpAddr) -> bool {
        let mut hops = [self.inner, self.outer].into_iter().flatten();
        hops.any(|hop| hop.address.ip() == address)
    }

    /// Returns the firewall side of a sender; outside if its address is unknown.
    pub(crate) fn firewall_side_of(&self, source: Option<SocketAddr>) -> FirewallSide {
        let Some(source) = source else {
            return FirewallSide::Outside;
        };
        let [inner, outer] = [self.inner, self.outer].map(|hop| hop.map(|hop| hop.address));
        // On one host the port distinguishes the servers. Otherwise they may send from any port, as
        // over TCP.
        let one_host = inner.map(|hop| hop.ip()) == outer.map(|hop| hop.ip());
        let is = |hop: Option<SocketAddr>| match hop {
            Some(hop) if one_host => hop == source,
            Some(hop) => hop.ip() == source.ip(),
            None => false,
        };
        let is_inner = is(inner);
        let is_internal = self.is_internal(source.ip()) && !is(outer);
        if is_inner || is_internal {
            FirewallSide::Inside
        } else {
            FirewallSide::Outside
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_parsed_and_errors_explained() {
        let hop = |text: &str| text.parse::<SipNextHop>();
        let address = "192.0.2.1:5060".parse().unwrap();
        assert_eq!(hop("192.0.2.1:5060"), Ok(SipNextHop::from(address)));
        assert_eq!(hop("udp://192.0.2.1:5060"), Ok(SipNextHop::from(address)));
        assert_eq!(
            hop("tcp://192.0.2.1:5060"),
            Ok(SipNextHop { address, tcp: true })
        );
        assert!(hop("tls://192.0.2.1:5060").unwrap_err().contains("tls"));
        assert!(hop("192.0.2.1").unwrap_err().contains("192.0.2.1:5060"));
    }

    #[test]
    fn prefixes_are_parsed_and_errors_explained() {
        let prefix = |text: &str| text.parse::<NetworkPrefix>().unwrap();
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
            assert!(
                wrong
                    .parse::<NetworkPrefix>()
                    .unwrap_err()
                    .contains("10.0.0.0/8")
            );
        }
    }

    #[test]
    fn invalid_configurations_are_explained() {
        type Spoil = fn(&mut B2buaConfig);
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let listen = address("10.0.0.254:5060");
        let mut right = B2buaConfig::new(listen, vec!["10.0.0.0/8".parse().unwrap()]);
        right.outer = Some(address("192.0.2.1:5060").into());
        assert_eq!(right.check(), Ok(()));
        let spoils: [(Spoil, &str); 9] = [
            (|c| c.inner = "tcp://192.0.2.1:5070".parse().ok(), "use UDP"),
            (|c| c.internal.clear(), "no internal network"),
            (|c| c.outer = None, "no SIP server"),
            (|c| c.listen.set_ip([0; 4].into()), "both sides reach"),
            (|c| c.inner = "192.0.2.1:0".parse().ok(), "inner SIP server"),
            (|c| c.outer = "[fd00::1]:5060".parse().ok(), "one version"),
            (|c| c.probe = Duration::ZERO, "probe interval"),
            (|c| c.answer = Duration::ZERO, "longer than 0"),
            (|c| c.max_calls = 0, "at least 1"),
        ];
        for (spoil, reported) in spoils {
            let mut wrong = right.clone();
            spoil(&mut wrong);
            let why = wrong.check().unwrap_err();
            assert!(why.contains(reported), "{why}");
        }
    }

    #[test]
    fn inside_is_decided_by_the_source_address() {
        let listen = "10.0.0.254:5060".parse().unwrap();
        let mut config = B2buaConfig::new(listen, vec!["10.0.0.0/8".parse().unwrap()]);
        config.inner = Some("172.16.0.1:5060".parse().unwrap());
        config.outer = Some("192.0.2.1:5060".parse().unwrap());
        let inside = |config: &B2buaConfig, source: &str| {
            config.firewall_side_of(Some(source.parse().unwrap())) == FirewallSide::Inside
        };
        for source in ["10.1.2.3:9", "172.16.0.1:5060", "172.16.0.1:40000"] {
            assert!(inside(&config, source), "{source}");
        }
        for source in ["192.0.2.1:5060", "203.0.113.9:5060", "[::1]:5060"] {
            assert!(!inside(&config, source), "{source}");
        }
        assert_eq!(config.firewall_side_of(None), FirewallSide::Outside);
        // The outer server has an internal address and is outside, whatever its source port.
        config.outer = Some("10.9.9.9:5060".parse().unwrap());
        for source in ["10.9.9.9:5060", "10.9.9.9:40000"] {
            assert!(!inside(&config, source), "{source}");
        }
        assert!(inside(&config, "10.9.9.8:40000"));
        config.inner = None;
        assert!(!inside(&config, "10.9.9.9:40000"));
        config.outer = Some("192.0.2.1:5060".parse().unwrap());
        // Both servers on one host are distinguished by their ports.
        config.inner = Some("192.0.2.1:5070".parse().unwrap());
        assert!(inside(&config, "192.0.2.1:5070") && !inside(&config, "192.0.2.1:5080"));
    }
}
