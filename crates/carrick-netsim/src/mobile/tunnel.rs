//! Tunnels (RFC 2003): into them, out of them, and what ICMP says from within.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use crate::icmp::{self, IcmpError};
use crate::packet::{IPV4_HEADER, Packet, Protocol};
use crate::time::Time;

/// Tunnels whose MTU is remembered.
const MAX_TUNNELS: usize = 64;
/// After this time a larger MTU is tried again (RFC 1191 section 6.3).
const MTU_LIFETIME: Duration = Duration::from_secs(600);
/// The least that an IPv4 link carries, so that smaller values are lies.
const MIN_MTU: u32 = 68;

/// What one entry of tunnels knows of them ("soft state", section 5).
#[derive(Clone, Debug, Default)]
pub(super) struct Tunnels {
    mtus: Vec<Mtu>,
    /// Packets that went in.
    pub(super) entered: u64,
    /// Packets that must not go in.
    pub(super) refused: u64,
    /// ICMP errors from within that were passed on.
    pub(super) relayed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Mtu {
    exit: Ipv4Addr,
    bytes: u32,
    until: Time,
}

/// What becomes of a packet at the entry of a tunnel.
#[derive(Debug)]
pub(super) enum Entry {
    /// It goes on as this.
    Tunneled(Packet),
    /// It goes no further; its sender is told.
    Report(Packet),
    /// It goes no further.
    Dropped,
}

impl Tunnels {
    /// Puts a packet that is being forwarded into the tunnel from `entry` to `exit`.
    pub(super) fn enter(
        &mut self,
        now: Time,
        mut packet: Packet,
        entry: Ipv4Addr,
        exit: Ipv4Addr,
    ) -> Entry {
        // Section 3.2: a packet from either end must not come in again.
        let loops = packet.source == IpAddr::V4(entry) || packet.source == IpAddr::V4(exit);
        if loops || packet.ttl <= 1 {
            self.refused += 1;
            let report = icmp::report(&packet, IcmpError::TimeExceeded, IpAddr::V4(entry));
            return match report {
                Some(report) if !loops => Entry::Report(report),
                _ => Entry::Dropped,
            };
        }
        // All packets here carry "don't fragment", and one that is too large would not arrive.
        if let Some(mtu) = self.mtu(now, exit)
            && packet.wire_len() + IPV4_HEADER > mtu as usize
        {
            self.refused += 1;
            let mtu = mtu - IPV4_HEADER as u32;
            let report = icmp::report(&packet, IcmpError::TooBig { mtu }, IpAddr::V4(entry));
            return report.map_or(Entry::Dropped, Entry::Report);
        }
        packet.ttl -= 1;
        self.entered += 1;
        Entry::Tunneled(packet.encapsulate(IpAddr::V4(entry), IpAddr::V4(exit)))
    }

    /// Puts an own packet into the tunnel: its time to live stays, and the stack that made it hears
    /// of a small MTU by the ICMP message that comes back.
    pub(super) fn enter_own(&mut self, packet: &Packet, entry: Ipv4Addr, exit: Ipv4Addr) -> Packet {
        self.entered += 1;
        packet.encapsulate(IpAddr::V4(entry), IpAddr::V4(exit))
    }

    /// Forgets what is known of the tunnels; the counters stay.
    pub(super) fn forget(&mut self) {
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

    /// The ICMP error for the sender of the packet inside, made from one about a packet of a tunnel
    /// that begins at `entry` (section 4); `None` if there is nothing to tell.
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
            // The tunnel is not the sender's, so port and route are none of its business; that
            // protocol 4 is unknown means for it that the host is not there.
            IcmpError::Unreachable { code: 3 | 5 } => return None,
            IcmpError::Unreachable { code: 2 } | IcmpError::TimeExceeded => {
                IcmpError::Unreachable { code: 1 }
            }
            IcmpError::Unreachable { code } => IcmpError::Unreachable { code },
        };
        let inner = Packet::from_quoted_bytes(&outer.payload).ok()?;
        let relayed = icmp::report(&inner.with_flow(packet.flow), error, IpAddr::V4(entry))?;
        self.relayed += 1;
        Some(relayed)
    }
}

/// The packet that comes out of a tunnel, if it may go on; its time to live is as it went in.
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

    fn enter(tunnels: &mut Tunnels, packet: Packet) -> Entry {
        tunnels.enter(Time::ZERO, packet, ENTRY, EXIT)
    }

    #[test]
    fn forwarding_takes_one_from_the_inner_time_to_live_3_1() {
        let mut tunnels = Tunnels::default();
        let Entry::Tunneled(outer) = enter(&mut tunnels, packet(100)) else {
            panic!("not tunneled");
        };
        assert_eq!((outer.ttl, outer.wire_len()), (Packet::DEFAULT_TTL, 140));
        let inner = leave(&outer).expect("a packet");
        assert_eq!(inner.ttl, Packet::DEFAULT_TTL - 1);
        let own = tunnels.enter_own(&packet(100), ENTRY, EXIT);
        assert_eq!(leave(&own), Some(packet(100)));
    }

    #[test]
    fn an_exhausted_time_to_live_is_reported_3_1() {
        let mut last = packet(100);
        last.ttl = 1;
        let Entry::Report(report) = enter(&mut Tunnels::default(), last) else {
            panic!("not reported");
        };
        let read = icmp::parse(&report).expect("an error");
        assert_eq!(read.error, IcmpError::TimeExceeded);
    }

    #[test]
    fn packets_from_either_end_are_dropped_3_2() {
        for end in [ENTRY, EXIT] {
            let mut looping = packet(100);
            looping.source = end.into();
            let entry = enter(&mut Tunnels::default(), looping);
            assert!(matches!(entry, Entry::Dropped), "{entry:?}");
        }
    }

    #[test]
    fn the_mtu_of_the_tunnel_is_learned_and_told_without_the_outer_header_5_1() {
        let mut tunnels = Tunnels::default();
        let Entry::Tunneled(outer) = enter(&mut tunnels, packet(1400)) else {
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

        // From now on the entry itself says so, for ten minutes.
        let Entry::Report(report) = enter(&mut tunnels, packet(1261)) else {
            panic!("not reported");
        };
        let read = icmp::parse(&report).expect("an error");
        assert_eq!(read.error, IcmpError::TooBig { mtu: 1280 });
        assert!(matches!(
            enter(&mut tunnels, packet(1260)),
            Entry::Tunneled(_)
        ));
        let later = Time::ZERO + MTU_LIFETIME;
        let entry = tunnels.enter(later, packet(1400), ENTRY, EXIT);
        assert!(matches!(entry, Entry::Tunneled(_)));
    }

    #[test]
    fn errors_from_within_are_told_as_the_sender_sees_them_4() {
        let mut tunnels = Tunnels::default();
        let mut told = |error| {
            let outer = packet(100).encapsulate(ENTRY.into(), EXIT.into());
            let from_within = icmp::report(&outer, error, ROUTER).expect("a report");
            let relayed = tunnels.relay(Time::ZERO, &from_within, ENTRY)?;
            icmp::parse(&relayed).map(|report| report.error)
        };
        let unreachable = |code| IcmpError::Unreachable { code };
        assert_eq!(told(unreachable(0)), Some(unreachable(0)));
        assert_eq!(told(unreachable(1)), Some(unreachable(1)));
        assert_eq!(told(unreachable(2)), Some(unreachable(1)));
        assert_eq!(told(unreachable(3)), None);
        assert_eq!(told(unreachable(5)), None);
        assert_eq!(told(IcmpError::TimeExceeded), Some(unreachable(1)));
        assert_eq!(told(IcmpError::TooBig { mtu: 30 }), None, "a lie");
    }

    #[test]
    fn errors_about_other_packets_are_not_believed_4() {
        let mut tunnels = Tunnels::default();
        let error = IcmpError::TooBig { mtu: 1300 };
        let foreign = packet(1400).encapsulate(EXIT.into(), ENTRY.into());
        for about in [packet(1400), foreign] {
            let report = icmp::report(&about, error, ROUTER).expect("a report");
            assert!(tunnels.relay(Time::ZERO, &report, ENTRY).is_none());
        }
        assert!(matches!(
            enter(&mut tunnels, packet(1400)),
            Entry::Tunneled(_)
        ));
    }
}
