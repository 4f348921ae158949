//! Where a packet came from or goes to, below SCTP: addresses, encapsulation port, ECN bits.

use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

/// The ECN field of the IP header (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// The transport doesn't use ECN.
    #[default]
    NotCapable,
    /// ECT(0).
    Capable0,
    /// ECT(1).
    Capable1,
    /// Congestion experienced.
    CongestionExperienced,
}

/// The way of one packet: the address pair and how SCTP was carried between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The local address: where a received packet was sent to, or the source to send from.
    /// `None` leaves the choice of the source to the operating system.
    pub local: Option<IpAddr>,
    /// The peer's address.
    pub remote: IpAddr,
    /// The peer's UDP port when SCTP is carried in UDP (RFC 6951), `None` on plain IP.
    pub encapsulation: Option<u16>,
    /// The ECN field of the packet.
    pub ecn: Ecn,
}

impl Route {
    /// A route over plain IP between two addresses.
    pub const fn plain(local: IpAddr, remote: IpAddr) -> Self {
        Self {
            local: Some(local),
            remote,
            encapsulation: None,
            ecn: Ecn::NotCapable,
        }
    }

    /// A route with SCTP in UDP, where `port` is the peer's UDP port (RFC 6951).
    pub const fn encapsulated(local: IpAddr, remote: IpAddr, port: u16) -> Self {
        Self {
            local: Some(local),
            remote,
            encapsulation: Some(port),
            ecn: Ecn::NotCapable,
        }
    }

    /// Bytes of IP and UDP header on this route, without options.
    pub(crate) const fn header_len(&self) -> usize {
        let ip = match self.remote {
            IpAddr::V4(_) => 20,
            IpAddr::V6(_) => 40,
        };
        ip + if self.encapsulation.is_some() { 8 } else { 0 }
    }

    /// Whether a local address is of use on this route: it is the source, or valid where the
    /// destination is.
    pub(crate) fn has_in_scope(&self, local: IpAddr) -> bool {
        self.local == Some(local) || in_scope(local, self.remote)
    }

    /// The same way, to be used for an answer: ECN bits of the received packet don't carry over.
    pub(crate) const fn for_reply(self) -> Self {
        Self {
            ecn: Ecn::NotCapable,
            ..self
        }
    }
}

/// One or more packets for one route, written to the end of the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Where to send.
    pub route: Route,
    /// Bytes that were written to the buffer.
    pub len: usize,
    /// With more than one packet: the size of each but the last, which may be shorter (what
    /// segmentation offload wants). `None` for a single packet.
    pub segment_size: Option<usize>,
    /// The packet may exceed the path's MTU and has to be sent without the don't-fragment bit
    /// (a chunk that was sized before the MTU shrank, RFC 9260 section 6.9). On IPv6 this host has to
    /// make the fragments, of 1280 bytes at most: how much more the way takes is not known.
    pub may_fragment: bool,
    /// The packet tests what the path takes (RFC 8899): it must not be fragmented, and if the host
    /// refuses it for its size, [`crate::Endpoint::handle_refused_probe`] wants to know.
    pub probe: bool,
}

impl Transmit {
    /// The number of packets in this transmit.
    pub fn packets(&self) -> usize {
        self.segment_size.map_or(1, |size| self.len.div_ceil(size))
    }
}

/// Chooses the local address for a peer address, the way the host's routes would, and tells of them.
///
/// A driver that can ask the operating system implements this; without it, [`MatchingAddress`].
pub trait SourceSelection: Send + fmt::Debug {
    /// The local address to send to `remote` from, out of `local`; `None` leaves it to the
    /// operating system. `avoid` is an address that just failed for this peer address.
    fn select(&self, local: &[IpAddr], remote: IpAddr, avoid: Option<IpAddr>) -> Option<IpAddr>;

    /// Discards what is remembered of the routes of this host, because an address or a route changed.
    fn refresh(&self) {}

    /// The MTU in bytes of this host's route from `local` to `remote`; `None` if that is not known.
    ///
    /// No router fragments IPv6, and hosts commonly fragment only what their own route does not take.
    /// An IPv6 packet that is to be fragmented because the way is narrower than that is filled up
    /// beyond this MTU with PAD (RFC 4820); without it, such packets don't pass.
    fn route_mtu(&self, local: Option<IpAddr>, remote: IpAddr) -> Option<usize> {
        let _ = (local, remote);
        None
    }
}

/// Whether an address means the same host where a packet to `remote` arrives: loopback addresses are
/// valid on one host, link-local addresses on one link (RFC 4291 section 2.5, RFC 3927 section 2.6).
pub(crate) fn in_scope(address: IpAddr, remote: IpAddr) -> bool {
    scope(address) >= scope(remote)
}

/// Rank of the scope of an address: 0 for this host, 1 for a link, 2 for anything wider.
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

/// Takes the local address of the same family and scope (rule 2 of RFC 6724) with the longest prefix
/// in common with the peer's (rule 8), another one when that failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatchingAddress;

impl SourceSelection for MatchingAddress {
    fn select(&self, local: &[IpAddr], remote: IpAddr, avoid: Option<IpAddr>) -> Option<IpAddr> {
        let candidates: Vec<IpAddr> = local
            .iter()
            .copied()
            .filter(|a| a.is_ipv4() == remote.is_ipv4() && !a.is_unspecified())
            .collect();
        let best = |avoided: Option<IpAddr>| {
            let mut best: Option<(u32, IpAddr)> = None;
            for &address in candidates.iter().filter(|a| Some(**a) != avoided) {
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
        };
        best(avoid).or_else(|| best(None))
    }
}

fn common_prefix(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_nearest_address_is_chosen_and_another_when_it_failed() {
        let local = [ip("10.1.0.1"), ip("10.2.0.1"), ip("fd00::1")];
        let select = |remote, avoid| MatchingAddress.select(&local, ip(remote), avoid);
        assert_eq!(select("10.2.0.9", None), Some(local[1]));
        assert_eq!(select("10.1.0.9", None), Some(local[0]));
        assert_eq!(select("10.1.0.9", Some(local[0])), Some(local[1]));
        assert_eq!(
            select("fd00::9", Some(local[2])),
            Some(local[2]),
            "the only one of its family stays"
        );
        assert_eq!(MatchingAddress.select(&[], ip("10.0.0.1"), None), None);
    }

    /// RFC 6724, section 5, rule 2
    #[test]
    fn a_source_of_the_destinations_scope_is_preferred() {
        let local = ["::1", "fe80::1", "fd00::1"].map(ip);
        let select = |remote| MatchingAddress.select(&local, ip(remote), None);
        assert_eq!(select("2001:db8::1"), Some(local[2]));
        assert_eq!(select("fe80::2"), Some(local[1]));
        assert_eq!(select("::1"), Some(local[0]));
        let select = |remote| MatchingAddress.select(&local[..2], ip(remote), None);
        assert_eq!(select("2001:db8::1"), Some(local[0]), "nothing is in scope");
        assert!(in_scope(local[2], ip("::1")) && in_scope(local[1], ip("fe80::2")));
        assert!(!in_scope(local[0], ip("fe80::2")) && !in_scope(local[1], local[2]));
    }

    #[test]
    fn a_loopback_peer_is_reached_from_loopback() {
        let local = [ip("126.255.0.1"), ip("127.0.0.1")];
        assert_eq!(
            MatchingAddress.select(&local, ip("127.0.0.5"), None),
            Some(local[1])
        );
    }
}
