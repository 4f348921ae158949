//! Packets on plain IP for SCTP ports that no endpoint of this host uses.
//!
//! RFC 9260, section 8.4, requires a reply, mostly an ABORT; otherwise the peer waits for the end of its
//! retransmissions: that of a set-up, or that of an association whose program was killed. But the raw sockets of
//! all SCTP implementations of a host receive all packets, and an ABORT to a packet for another implementation
//! would end that association. So an endpoint answers only if it can exclude another implementation: no SCTP in
//! the kernel, and no raw socket for SCTP that could receive the packet except those of endpoints whose claims
//! ([`port`](crate::port)) show their ports. Of several such endpoints, the one with the lowest port answers. A program
//! that has all ports of the address has port 0 here. The socket filter of an endpoint with one port passes INITs
//! alone of the packets for other ports.

use std::net::IpAddr;

use carrick_proto::Time;

/// Maximum number of packets examined per second. For each, tables of the system are read: a cached result would be
/// wrong for the first packets of another implementation that has just started.
const PACKETS_A_SECOND: u32 = 128;

/// Decides which packets for ports that are not one's own are answered on plain IP.
///
/// All programs with a raw socket for SCTP get the packets for all SCTP ports of its address, and an ABORT
/// (RFC 9260, section 8.4) would end the associations of another one. At most 128 packets a second are
/// examined.
#[derive(Debug)]
pub struct StrayPackets {
    second: u64,
    left: u32,
}

impl Default for StrayPackets {
    fn default() -> Self {
        Self {
            second: 0,
            left: PACKETS_A_SECOND,
        }
    }
}

impl StrayPackets {
    /// Returns whether a packet to `local`, for a port other than the caller's, is out of the blue: no other SCTP
    /// implementation of the host can have an association or an endpoint for it. `own` is the port of the caller, 0 for the user
    /// of a [`network::Network`](crate::network::Network), which has all.
    pub fn answers(&mut self, now: Time, own: u16, local: Option<IpAddr>, packet: &[u8]) -> bool {
        let (Some(local), Some(port)) = (local, destination_port(packet)) else {
            return false;
        };
        let second = now.as_nanos() / 1_000_000_000;
        if self.second != second {
            *self = Self {
                second,
                ..Self::default()
            };
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        Neighbours::read(local).is_some_and(|found| found.lets_answer(own, port))
    }
}

/// Returns the destination port of a packet with a chunk.
fn destination_port(packet: &[u8]) -> Option<u16> {
    let header = packet.get(..16)?;
    Some(u16::from_be_bytes([header[2], header[3]]))
}

/// SCTP implementations on plain IP beside an endpoint, at one local address.
#[derive(Debug, PartialEq, Eq)]
struct Neighbours {
    /// Claimed ports, those of the endpoint itself included.
    claimed: Vec<u16>,
    /// Raw sockets for SCTP that get packets to the address.
    sockets: usize,
}

impl Neighbours {
    /// Reads the tables of the thread's network namespace; `None` if the kernel has SCTP, or no such
    /// tables.
    #[cfg(target_os = "linux")]
    fn read(local: IpAddr) -> Option<Self> {
        let table = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        if std::path::Path::new("/proc/thread-self/net/sctp").exists() {
            return None;
        }
        let raw = if local.is_ipv4() { "raw" } else { "raw6" };
        let claimed = crate::port::claimed_ports(local)?;
        Self::parse(local, claimed, &table(raw).ok()?)
    }

    #[cfg(not(target_os = "linux"))]
    fn read(_: IpAddr) -> Option<Self> {
        None
    }

    #[cfg(any(target_os = "linux", test))]
    fn parse(local: IpAddr, claimed: Vec<u16>, raw: &str) -> Option<Self> {
        let mut sockets = 0;
        for line in raw.lines().skip(1) {
            let (address, protocol) = line.split_whitespace().nth(1)?.split_once(':')?;
            let address = hex_address(address)?;
            if protocol == "0084" && (address == local || address.is_unspecified()) {
                sockets += 1;
            }
        }
        Some(Self { claimed, sockets })
    }

    fn lets_answer(&self, own: u16, wanted: u16) -> bool {
        self.sockets == self.claimed.len()
            && !self.claimed.contains(&wanted)
            && self.claimed.iter().min() == Some(&own)
    }
}

/// Parses an address as the tables show it: words of 32 bits in the byte order of the host.
#[cfg(any(target_os = "linux", test))]
fn hex_address(text: &str) -> Option<IpAddr> {
    let mut octets = [0; 16];
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    if !rest.is_empty() || words.len() > 4 {
        return None;
    }
    for (word, octets) in words.iter().zip(octets.as_chunks_mut::<4>().0) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        *octets = word.to_ne_bytes();
    }
    match words.len() {
        1 => Some(IpAddr::from(*octets.first_chunk::<4>()?)),
        4 => Some(IpAddr::from(octets)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn raw(addresses: &[&str]) -> String {
        let mut table = "  sl  local_address rem_address   st tx_queue\n".to_owned();
        for address in addresses {
            let _ = writeln!(table, " 132: {address} 00000000:0000 07 00000000:0");
        }
        table
    }

    fn word(octets: [u8; 4]) -> String {
        format!("{:08X}", u32::from_ne_bytes(octets))
    }

    /// RFC 9260, section 8.4
    #[test]
    fn an_unclaimed_port_is_answered_by_one_endpoint() {
        let local = IpAddr::from([127, 0, 0, 1]);
        let here = word([127, 0, 0, 1]) + ":0084";
        let elsewhere = word([127, 0, 0, 2]) + ":0084";
        let ping = word([127, 0, 0, 1]) + ":0001";
        let of = |raw_sockets: &[&str]| {
            Neighbours::parse(local, vec![5000, 4000], &raw(raw_sockets)).unwrap()
        };
        let two = of(&[&here, &elsewhere, &ping, &here]);
        assert_eq!(two.sockets, 2);
        assert!(two.lets_answer(4000, 7));
        assert!(!two.lets_answer(5000, 7), "the other one answers");
        assert!(!two.lets_answer(4000, 5000), "it has an endpoint");
    }

    #[test]
    fn nothing_is_answered_beside_another_stack() {
        let local = IpAddr::from([127, 0, 0, 1]);
        let here = word([127, 0, 0, 1]) + ":0084";
        let any = word([0; 4]) + ":0084";
        for other in [&here, &any] {
            let table = raw(&[&here, &here, other]);
            let found = Neighbours::parse(local, vec![5000, 4000], &table).unwrap();
            assert!(!found.lets_answer(4000, 7), "{other}");
        }
        assert_eq!(Neighbours::parse(local, vec![4000], "\n garbage\n"), None);
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        let IpAddr::V6(octets) = v6 else { panic!() };
        let words = octets.octets();
        let (words, _) = words.as_chunks::<4>();
        let text: String = words.iter().map(|octets| word(*octets)).collect();
        assert_eq!(hex_address(&text), Some(v6));
        assert_eq!(hex_address(&text[..16]), None);
        assert_eq!(hex_address("0100007"), None);
        assert_eq!(hex_address("zzzzzzzz"), None);
    }

    #[test]
    fn a_packet_without_a_chunk_has_no_port() {
        let mut packet = [0; 16];
        packet[2..4].copy_from_slice(&7u16.to_be_bytes());
        assert_eq!(destination_port(&packet), Some(7));
        assert_eq!(destination_port(&packet[..12]), None);
    }

    #[test]
    fn lookups_are_bounded_in_each_second() {
        let mut strays = StrayPackets::default();
        let packet = [0; 32];
        let local = IpAddr::from([192, 0, 2, 1]);
        for _ in 0..200 {
            assert!(!strays.answers(Time::from_nanos(0), 1, Some(local), &packet));
        }
        assert_eq!(strays.left, 0);
        strays.answers(Time::from_nanos(1_000_000_000), 1, Some(local), &packet);
        assert_eq!(strays.left, PACKETS_A_SECOND - 1);
    }
}
