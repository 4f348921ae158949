//! Tunnels (RFC 2003): encapsulation, decapsulation, and ICMP errors from within a tunnel.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use crate::icmp::{self, IcmpError};
use crate::packet::{IPV4_HEADER, Packet, Protocol};
use crate::time::Time;

/// Maximum number of tunnels whose MTU is kept.
const MAX_TUNNELS: usize = 64;
/// Time after which a larger MTU is tried again (RFC 1191, section 6.3).
const MTU_LIFETIME: Duration = Duration::from_secs(600);
/// Smallest MTU of an IPv4 link; smaller values in ICMP errors are ignored.
const MIN_MTU: u32 = 68;

/// Soft state (section 5) and counters of the tunnels of one encapsulator.
#[derive(Clone, Debug, Default)]
pub(super) struct Tunnels {
    mtus: Vec<Mtu>,
    /// Packets that were tunneled.
    pub(super) entered: u64,
    /// Packets that must not be tunneled.
    pub(super) refused: u64,
    /// ICMP errors from within tunnels that were relayed.
    pub(super) relayed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Mtu {
    exit: Ipv4Addr,
    bytes: u32,
    until: Time,
}

/// Result of encapsulation.
#[derive(Debug)]
pub(super) enum TunnelEntry {
    /// The encapsulated packet.
    Tunneled(Packet),
    /// The packet is dropped; this ICMP error goes to its sender.
    Report(Packet),
    /// The packet is dropped.
    Dropped,
}

impl Tunnels {
    /// Encapsulates a forwarded packet for the tunnel from `entry` to `exit`.
    pub(super) fn enter(
        &mut self,
        now: Time,
        mut packet: Packet,
        entry: Ipv4Addr,
        exit: Ipv4Addr,
    ) -> TunnelEntry {
        // Section 3.2: a packet from either end must not be tunneled again.
        let loops = packet.source == IpAddr::V4(entry) || packet.source == IpAddr::V4(exit);
        if loops || packet.ttl <= 1 {
            self.refused += 1;
            let report = icmp::report(&packet, IcmpError::TimeExceeded, IpAddr::V4(entry));
            return match report {
                Some(report) if !loops => TunnelEntry::Report(report),
                _ => TunnelEntry::Dropped,
            };
        }
        // All packets carry "don't fragment", so a packet above the tunnel MTU would be lost.
        if let Some(mtu) = self.mtu(now, exit)
            && packet.wire_len() + IPV4_HEADER > mtu as usize
        {
            self.refused += 1;
            let mtu = mtu - IPV4_HEADER as u32;
            let report = icmp::report(&packet, IcmpError::TooBig { mtu }, IpAddr::V4(entry));
            return report.map_or(TunnelEntry::Dropped, TunnelEntry::Report);
        }
        packet.ttl -= 1;
        self.entered += 1;
        TunnelEntry::Tunneled(packet.encapsulate(IpAddr::V4(entry), IpAddr::V4(exit)))
    }

    /// Encapsulates a packet that the node originates: its time to live is not decremented, and a
    /// too small MTU is reported to its stack by the ICMP error from within the tunnel.
    pub(super) fn enter_own(&mut self, packet: &Packet, entry: Ipv4Addr, exit: Ipv4Addr) -> Packet {
        self.entered += 1;
        packet.encapsulate(IpAddr::V4(entry), IpAddr::V4(exit))
    }

    /// Clears the soft state; the counters are kept.
    pub(super) fn clear(&mut self) {
        self.mtus.clear();
    }

    fn mtu(&mut self, now: Time, exit: Ipv4Addr) -> Option<u32> {
        self.mtus.retain(|known| now < known.until);
        let known = self.mtus.iter().find(|known| known.exit == exit)?;
        Some(known.bytes)
    }

    fn learn(&mut self, now: Time, exit: Ipv4Addr, bytes: u32) {
        self.mtus
            .retain(|known| known.exit != exit && now < known.until);
        if self.mtus.len() == MAX_TUNNELS {
            self.mtus.remove(0);
        }
        let until = now + MTU_LIFETIME;
        self.mtus.push(Mtu { exit, bytes, until });
    }

    /// Converts an ICMP error about a tunnel packet from `entry` into the error for the sender of
    /// the inner packet (section 4). Returns `None` if the sender gets no error.
    pub(super) fn relay(&mut self, now: Time, packet: &Packet, entry: Ipv4Addr) -> Option<Packet> {
        let report = icmp::parse(packet)?;
        let outer = report.about;
        let IpAddr::V4(exit) = outer.destination else {
            return None;
        };
        if outer.protocol != Protocol::IpInIp || outer.source != IpAddr::V4(entry) {
            return None;
        }
        let error = match report.error {
            IcmpError::TooBig { mtu } if mtu < MIN_MTU + IPV4_HEADER as u32 => return None,
            IcmpError::TooBig { mtu } => {
                self.learn(now, exit, mtu);
                IcmpError::TooBig {
                    mtu: mtu - IPV4_HEADER as u32,
                }
            }
            // The tunnel's port and source route errors do not concern the sender. To the sender,
            // an unreachable protocol 4 is an unreachable host.
            IcmpError::Unreachable { code: 3 | 5 } => return None,
            IcmpError::Unreachable { code: 2 }
            | IcmpError::UnknownNextHeader
            | IcmpError::TimeExceeded => IcmpError::Unreachable { code: 1 },
            IcmpError::Unreachable { code } => IcmpError::Unreachable { code },
        };
        let inner = Packet::from_quoted_bytes(&outer.payload).ok()?;
        let relayed = icmp::report(&inner.with_flow(packet.flow), error, IpAddr::V4(entry))?;
        self.relayed += 1;
        Some(relayed)
    }
}

/// Decapsulates a tunnel packet. The time to live of the inner packet is unchanged.
pub(super) fn leave(packet: &Packet) -> Option<Packet> {
    let inner = packet.decapsulate().ok()?;
    (inner.ttl > 0).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const EXIT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
    const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 5, 0, 1));

    fn packet(len: usize) -> Packet {
        let (source, destination) = ([192, 0, 2, 1], [10, 0, 0, 7]);
        Packet::new(
            source.into(),
            destination.into(),
            Protocol::Sctp,
            vec![7; len],
        )
    }

    fn enter(tunnels: &mut Tunnels, packet: Packet) -> TunnelEntry {
        tunnels.enter(Time::ZERO, packet, ENTRY, EXIT)
    }

    /// RFC 2003, section 3.1
    #[test]
    fn forwarding_decrements_the_inner_time_to_live() {
        let mut tunnels = Tunnels::default();
        let TunnelEntry::Tunneled(outer) = enter(&mut tunnels, packet(100)) else {
            panic!("not tunneled");
        };
        assert_eq!((outer.ttl, outer.wire_len()), (Packet::DEFAULT_TTL, 140));
        let inner = leave(&outer).expect("a packet");
        assert_eq!(inner.ttl, Packet::DEFAULT_TTL - 1);
        let own = tunnels.enter_own(&packet(100), ENTRY, EXIT);
        assert_eq!(leave(&own), Some(packet(100)));
    }

    /// RFC 2003, section 3.1
    #[test]
    fn an_expired_time_to_live_is_reported() {
        let mut last = packet(100);
        last.ttl = 1;
        let TunnelEntry::Report(report) = enter(&mut Tunnels::default(), last) else {
            panic!("not reported");
        };
        let read = icmp::parse(&report).expect("an error");
        assert_eq!(read.error, IcmpError::TimeExceeded);
    }

    /// RFC 2003, section 3.2
    #[test]
    fn packets_from_either_end_are_dropped() {
        for end in [ENTRY, EXIT] {
            let mut looping = packet(100);
            looping.source = end.into();
            let entry = enter(&mut Tunnels::default(), looping);
            assert!(matches!(entry, TunnelEntry::Dropped), "{entry:?}");
        }
    }

    /// RFC 2003, section 5.1
    #[test]
    fn tunnel_mtu_is_reported_without_the_outer_header() {
        let mut tunnels = Tunnels::default();
        let TunnelEntry::Tunneled(outer) = enter(&mut tunnels, packet(1400)) else {
            panic!("not tunneled");
        };
        let error = IcmpError::TooBig { mtu: 1300 };
        let from_within = icmp::report(&outer, error, ROUTER).expect("a report");
        let relayed = tunnels
            .relay(Time::ZERO, &from_within, ENTRY)
            .expect("relayed");
        let read = icmp::parse(&relayed).expect("an error");
        assert_eq!(read.error, IcmpError::TooBig { mtu: 1280 });
        assert_eq!(relayed.destination, packet(0).source);
        assert_eq!(read.about.destination, packet(0).destination);

        // For ten minutes the entry itself reports the MTU.
        let TunnelEntry::Report(report) = enter(&mut tunnels, packet(1261)) else {
            panic!("not reported");
        };
        let read = icmp::parse(&report).expect("an error");
        assert_eq!(read.error, IcmpError::TooBig { mtu: 1280 });
        assert!(matches!(
            enter(&mut tunnels, packet(1260)),
            TunnelEntry::Tunneled(_)
        ));
        let later = Time::ZERO + MTU_LIFETIME;
        let entry = tunnels.enter(later, packet(1400), ENTRY, EXIT);
        assert!(matches!(entry, TunnelEntry::Tunneled(_)));
    }

    /// RFC 2003, section 4
    #[test]
    fn errors_are_translated_for_the_original_sender() {
        let mut tunnels = Tunnels::default();
        let mut relayed_error = |error| {
            let outer = packet(100).encapsulate(ENTRY.into(), EXIT.into());
            let from_within = icmp::report(&outer, error, ROUTER).expect("a report");
            let relayed = tunnels.relay(Time::ZERO, &from_within, ENTRY)?;
            icmp::parse(&relayed).map(|report| report.error)
        };
        let unreachable = |code| IcmpError::Unreachable { code };
        assert_eq!(relayed_error(unreachable(0)), Some(unreachable(0)));
        assert_eq!(relayed_error(unreachable(1)), Some(unreachable(1)));
        assert_eq!(relayed_error(unreachable(2)), Some(unreachable(1)));
        assert_eq!(relayed_error(unreachable(3)), None);
        assert_eq!(relayed_error(unreachable(5)), None);
        assert_eq!(relayed_error(IcmpError::TimeExceeded), Some(unreachable(1)));
        assert_eq!(
            relayed_error(IcmpError::TooBig { mtu: 30 }),
            None,
            "below the minimum MTU"
        );
    }

    /// RFC 2003, section 4
    #[test]
    fn errors_about_other_packets_are_ignored() {
        let mut tunnels = Tunnels::default();
        let error = IcmpError::TooBig { mtu: 1300 };
        let foreign = packet(1400).encapsulate(EXIT.into(), ENTRY.into());
        for about in [packet(1400), foreign] {
            let report = icmp::report(&about, error, ROUTER).expect("a report");
            assert!(tunnels.relay(Time::ZERO, &report, ENTRY).is_none());
        }
        assert!(matches!(
            enter(&mut tunnels, packet(1400)),
            TunnelEntry::Tunneled(_)
        ));
    }
}
