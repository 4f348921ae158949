//! Route of a packet below SCTP: addresses, encapsulation port and ECN field.

use core::fmt;
use core::net::IpAddr;

/// Address of a peer with its UDP encapsulation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerAddress {
    /// IP address.
    pub address: IpAddr,
    /// UDP port of the peer or of the translator in front of it, 1 to 65535 (RFC 6951); `None` for SCTP
    /// on plain IP.
    pub encapsulation: Option<u16>,
}

impl PeerAddress {
    /// Returns an address that is reached on plain IP.
    pub const fn plain(address: IpAddr) -> Self {
        Self {
            address,
            encapsulation: None,
        }
    }

    /// Returns an address that is reached with UDP encapsulation at this port.
    pub const fn encapsulated(address: IpAddr, port: u16) -> Self {
        Self {
            address,
            encapsulation: Some(port),
        }
    }
}

/// ECN field of the IP header (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// Not ECN-capable transport.
    #[default]
    NotCapable,
    /// ECT(0).
    Capable0,
    /// ECT(1).
    Capable1,
    /// Congestion experienced.
    CongestionExperienced,
}

impl Ecn {
    /// Returns the two bits of the field.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0,
            Self::Capable1 => 1,
            Self::Capable0 => 2,
            Self::CongestionExperienced => 3,
        }
    }

    /// Reads the field from the two lowest bits.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::CongestionExperienced,
        }
    }
}

portable_enum! { Ecn { 0: NotCapable, 1: Capable0, 2: Capable1, 3: CongestionExperienced } }

/// Address pair and encapsulation of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Local address: destination of a received packet, or source of a sent one. `None` leaves the
    /// choice of the source to the operating system.
    pub local: Option<IpAddr>,
    /// Address of the peer.
    pub remote: IpAddr,
    /// UDP port of the peer (RFC 6951); `None` on plain IP.
    pub encapsulation: Option<u16>,
    /// ECN field of the packet.
    pub ecn: Ecn,
}

portable_struct! { Route { local, remote, encapsulation, ecn } }

impl Route {
    /// Returns a route on plain IP.
    pub const fn plain(local: IpAddr, remote: IpAddr) -> Self {
        Self {
            local: Some(local),
            remote,
            encapsulation: None,
            ecn: Ecn::NotCapable,
        }
    }

    /// Returns a route with UDP encapsulation; `port` is the UDP port of the peer (RFC 6951).
    pub const fn encapsulated(local: IpAddr, remote: IpAddr, port: u16) -> Self {
        Self {
            local: Some(local),
            remote,
            encapsulation: Some(port),
            ecn: Ecn::NotCapable,
        }
    }

    /// Returns the length of the IP and UDP headers in bytes, without options.
    pub(crate) const fn header_len(&self) -> usize {
        let ip = match self.remote {
            IpAddr::V4(_) => 20,
            IpAddr::V6(_) => 40,
        };
        ip + if self.encapsulation.is_some() { 8 } else { 0 }
    }

    /// Returns whether the peer on this route can use a local address: it is the source, or its scope
    /// includes the destination.
    pub(crate) fn has_in_scope(&self, local: IpAddr) -> bool {
        self.local == Some(local) || in_scope(local, self.remote)
    }

    /// Returns the route of a reply to a packet on this route, without its ECN field.
    pub(crate) const fn for_reply(self) -> Self {
        Self {
            ecn: Ecn::NotCapable,
            ..self
        }
    }
}

/// Source address selection by the routes of the host.
///
/// A driver that can query the operating system implements it; otherwise use [`MatchingAddress`].
pub trait SourceSelection: Send + fmt::Debug {
    /// Selects one of the `local` addresses as the source for `remote`; `None` leaves the choice to the
    /// operating system.
    fn select(&self, local: &[IpAddr], remote: IpAddr) -> Option<IpAddr>;

    /// Discards cached routes after an address or a route of the host has changed.
    fn refresh(&self) {}

    /// Returns the MTU in bytes of the host's route from `local` to `remote`; `None` if unknown.
    ///
    /// Routers do not fragment IPv6, and hosts usually fragment only packets above the MTU of their own
    /// route. If the path MTU is smaller, an IPv6 packet that has to be fragmented is padded beyond this
    /// MTU with a PAD chunk (RFC 4820); if this MTU is unknown, such packets are lost.
    fn route_mtu(&self, local: Option<IpAddr>, remote: IpAddr) -> Option<usize> {
        let _ = (local, remote);
        None
    }
}

/// Returns whether the scope of an address includes the host `remote`: loopback addresses are valid on
/// one host, link-local addresses on one link (RFC 4291, section 2.5; RFC 3927, section 2.6).
pub(crate) fn in_scope(address: IpAddr, remote: IpAddr) -> bool {
    scope(address) >= scope(remote)
}

/// Returns the scope of an address: 0 for the host, 1 for the link, 2 for wider scopes.
fn scope(address: IpAddr) -> u8 {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    match (address.is_loopback(), link_local) {
        (true, _) => 0,
        (_, true) => 1,
        _ => 2,
    }
}

/// Selects the local address of the same family and scope (RFC 6724, section 5, rule 2) with the longest
/// common prefix with the peer's address (rule 8).
#[derive(Clone, Copy, Debug, Default)]
pub struct MatchingAddress;

impl SourceSelection for MatchingAddress {
    fn select(&self, local: &[IpAddr], remote: IpAddr) -> Option<IpAddr> {
        let fit = |a: &&IpAddr| a.is_ipv4() == remote.is_ipv4() && !a.is_unspecified();
        let mut best: Option<(u32, IpAddr)> = None;
        for &address in local.iter().filter(fit) {
            // The smallest scope that is not smaller than the destination's.
            let of_scope = match (scope(address), scope(remote)) {
                (ours, theirs) if ours < theirs => 0,
                (ours, theirs) => 1 + 2_u32.saturating_sub(u32::from(ours - theirs)),
            };
            let score = of_scope * 256 + common_prefix(address, remote);
            if best.is_none_or(|(s, _)| score > s) {
                best = Some((score, address));
            }
        }
        best.map(|(_, address)| address)
    }
}

fn common_prefix(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

/// Returns whether a packet can be sent to this address: unicast, and no IPv4-mapped IPv6 address (RFC
/// 9260 section 3.3.2.1.2).
pub(crate) fn is_usable(address: IpAddr) -> bool {
    let odd = match address {
        IpAddr::V4(a) => a.is_broadcast(),
        IpAddr::V6(a) => a.to_ipv4_mapped().is_some(),
    };
    !(odd || address.is_multicast() || address.is_unspecified())
}

/// Returns whether a peer that sends from `source` may have this address: none of a smaller scope, so no
/// loopback address unless the peer is on this host.
pub(crate) fn is_own_address(address: IpAddr, source: IpAddr) -> bool {
    is_usable(address) && in_scope(address, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// RFC 6724, section 5, rule 8
    #[test]
    fn the_nearest_address_is_chosen() {
        let local = [ip("10.1.0.1"), ip("10.2.0.1"), ip("fd00::1")];
        let select = |remote| MatchingAddress.select(&local, ip(remote));
        assert_eq!(select("10.2.0.9"), Some(local[1]));
        assert_eq!(select("10.1.0.9"), Some(local[0]));
        assert_eq!(select("fd00::9"), Some(local[2]));
        assert_eq!(MatchingAddress.select(&[], ip("10.0.0.1")), None);
    }

    /// RFC 6724, section 5, rule 2
    #[test]
    fn a_source_of_the_destinations_scope_is_preferred() {
        let local = ["::1", "fe80::1", "fd00::1"].map(ip);
        let select = |remote| MatchingAddress.select(&local, ip(remote));
        assert_eq!(select("2001:db8::1"), Some(local[2]));
        assert_eq!(select("fe80::2"), Some(local[1]));
        assert_eq!(select("::1"), Some(local[0]));
        let select = |remote| MatchingAddress.select(&local[..2], ip(remote));
        assert_eq!(select("2001:db8::1"), Some(local[0]), "nothing is in scope");
        assert!(in_scope(local[2], ip("::1")) && in_scope(local[1], ip("fe80::2")));
        assert!(!in_scope(local[0], ip("fe80::2")) && !in_scope(local[1], local[2]));
    }

    #[test]
    fn a_loopback_peer_is_reached_from_loopback() {
        let local = [ip("126.255.0.1"), ip("127.0.0.1")];
        assert_eq!(
            MatchingAddress.select(&local, ip("127.0.0.5")),
            Some(local[1])
        );
    }
}
