//! Agent discovery (RFC 5944 section 2): ICMP router discovery (RFC 1256) with the Mobility Agent
//! Advertisement extension.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 9    | Code = 0, 16  |           Checksum            |
//! |   Num Addrs   |Addr Entry Size|           Lifetime            |
//! |               Router Address[i], Preference[i]                |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 16   |    Length     |        Sequence Number        |
//! |    Registration Lifetime      |R|B|H|F|M|G|r|T|U|X|I|reserved |
//! |                  zero or more Care-of Addresses               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use core::net::{IpAddr, Ipv4Addr};

use super::flags::{self, Field};
use super::{ALL_ROUTERS, MessageError};
use crate::ip::checksum;
use crate::packet::{Packet, Protocol};

const ADVERTISEMENT: u8 = 9;
const SOLICITATION: u8 = 10;
const HEADER: usize = 8;
/// Length of an entry in the router list, as sent.
const ENTRY: usize = 8;
const PADDING: u8 = 0;
const MOBILITY: u8 = 16;
const PREFIX_LENGTHS: u8 = 19;
/// Length of sequence number, lifetime and flags.
const MOBILITY_FIXED: usize = 6;

/// A router address in an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAddress {
    /// Address of the router.
    pub address: Ipv4Addr,
    /// Preference as a default router; higher is better.
    pub preference: i32,
}

/// Flags of a mobility agent. U, X and I and the reserved bits are sent as zero and ignored on
/// receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentFlags {
    /// R: registration through a foreign agent is required.
    pub registration_required: bool,
    /// B: the agent accepts no registrations from additional mobile nodes.
    pub busy: bool,
    /// H: home agent on this link.
    pub home_agent: bool,
    /// F: foreign agent on this link.
    pub foreign_agent: bool,
    /// M: minimal encapsulation is supported.
    pub minimal: bool,
    /// G: GRE is supported.
    pub gre: bool,
    /// T: reverse tunneling is supported.
    pub reverse_tunnel: bool,
}

impl AgentFlags {
    const BITS: [(u8, Field<Self>); 7] = [
        (0x80, |f| &mut f.registration_required),
        (0x40, |f| &mut f.busy),
        (0x20, |f| &mut f.home_agent),
        (0x10, |f| &mut f.foreign_agent),
        (0x08, |f| &mut f.minimal),
        (0x04, |f| &mut f.gre),
        (0x01, |f| &mut f.reverse_tunnel),
    ];

    pub(super) fn from_bits(bits: u8) -> Self {
        flags::read(&Self::BITS, bits)
    }

    pub(super) fn bits(self) -> u8 {
        flags::write(&Self::BITS, self)
    }
}

/// An Agent Advertisement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentAdvertisement {
    /// Advertises the agent as a router for ordinary traffic, too (code 0, else 16).
    pub routes_common_traffic: bool,
    /// Lifetime of the advertisement in seconds.
    pub lifetime: u16,
    /// Routers on the link, at most 255.
    pub routers: Vec<RouterAddress>,
    /// Number of advertisements sent since the agent was initialized; 0xFFFF is followed by 256, so
    /// that a lower number shows a restart (section 2.3.2).
    pub sequence: u16,
    /// Longest lifetime of a registration in seconds.
    pub registration_lifetime: u16,
    /// Flags of the agent.
    pub flags: AgentFlags,
    /// Care-of addresses offered, at most 62.
    pub care_of: Vec<Ipv4Addr>,
    /// Prefix length of each router address; empty without the Prefix-Lengths extension.
    pub prefix_lengths: Vec<u8>,
}

impl AgentAdvertisement {
    /// Returns the advertisement of an agent that also routes ordinary traffic. The sender fills in
    /// the sequence number and the lifetime.
    pub(super) fn of_agent(
        registration_lifetime: u16,
        flags: AgentFlags,
        care_of: Vec<Ipv4Addr>,
    ) -> Self {
        Self {
            routes_common_traffic: true,
            lifetime: 0,
            routers: Vec::new(),
            sequence: 0,
            registration_lifetime,
            flags,
            care_of,
            prefix_lengths: Vec::new(),
        }
    }
}

/// An agent discovery message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryMessage {
    /// Agent Solicitation.
    Solicitation,
    /// Agent Advertisement.
    Advertisement(AgentAdvertisement),
}

/// Builds an Agent Solicitation.
pub fn solicitation(from: Ipv4Addr) -> Packet {
    icmp(from, ALL_ROUTERS, vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0])
}

fn icmp(from: Ipv4Addr, to: Ipv4Addr, mut message: Vec<u8>) -> Packet {
    let sum = checksum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = Packet::new(IpAddr::V4(from), IpAddr::V4(to), Protocol::Icmp, message);
    packet.ttl = 1;
    packet
}

impl AgentAdvertisement {
    /// Builds the packet from `from` to `to`: the multicast group, or the node that sent a
    /// solicitation.
    pub fn to_packet(&self, from: Ipv4Addr, to: Ipv4Addr) -> Packet {
        let code = if self.routes_common_traffic { 0 } else { 16 };
        let routers = &self.routers[..self.routers.len().min(255)];
        let care_of = &self.care_of[..self.care_of.len().min(62)];
        let mut out = vec![ADVERTISEMENT, code, 0, 0];
        out.extend_from_slice(&[routers.len() as u8, (ENTRY / 4) as u8]);
        out.extend_from_slice(&self.lifetime.to_be_bytes());
        for router in routers {
            out.extend_from_slice(&router.address.octets());
            out.extend_from_slice(&router.preference.to_be_bytes());
        }
        out.extend_from_slice(&[MOBILITY, (MOBILITY_FIXED + 4 * care_of.len()) as u8]);
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.registration_lifetime.to_be_bytes());
        out.extend_from_slice(&[self.flags.bits(), 0]);
        for address in care_of {
            out.extend_from_slice(&address.octets());
        }
        if !self.prefix_lengths.is_empty() {
            let lengths = &self.prefix_lengths[..self.prefix_lengths.len().min(255)];
            out.extend_from_slice(&[PREFIX_LENGTHS, lengths.len() as u8]);
            out.extend_from_slice(lengths);
        }
        if !out.len().is_multiple_of(2) {
            out.push(PADDING);
        }
        icmp(from, to, out)
    }

    /// Returns whether the flags contradict each other (section 2.1.1).
    fn is_contradictory(&self) -> bool {
        let f = &self.flags;
        let foreign_only = f.busy || f.registration_required;
        if f.foreign_agent {
            self.care_of.is_empty()
        } else {
            foreign_only || !f.home_agent
        }
    }

    fn parse(message: &[u8]) -> Result<Self, MessageError> {
        let header: &[u8; HEADER] = message.first_chunk().ok_or(MessageError::Truncated)?;
        let entry = usize::from(header[5]) * 4;
        let end = HEADER + usize::from(header[4]) * entry;
        if !matches!(header[1], 0 | 16) || (header[4] > 0 && entry < ENTRY) {
            return Err(MessageError::Header);
        }
        let list = message.get(HEADER..end).ok_or(MessageError::Truncated)?;
        let routers = list.chunks_exact(entry.max(1)).map(|entry| RouterAddress {
            address: Ipv4Addr::new(entry[0], entry[1], entry[2], entry[3]),
            preference: i32::from_be_bytes([entry[4], entry[5], entry[6], entry[7]]),
        });
        let mut read = Self {
            routes_common_traffic: header[1] == 0,
            lifetime: u16::from_be_bytes([header[6], header[7]]),
            routers: routers.collect(),
            sequence: 0,
            registration_lifetime: 0,
            flags: AgentFlags::default(),
            care_of: Vec::new(),
            prefix_lengths: Vec::new(),
        };
        let is_agent = read.take_extensions(&message[end..])?;
        match is_agent {
            false => Err(MessageError::NoAgent),
            true if read.is_contradictory() => Err(MessageError::Contradiction),
            true => Ok(read),
        }
    }

    /// Parses the extensions. Returns false if there is no Mobility Agent Advertisement Extension.
    fn take_extensions(&mut self, mut rest: &[u8]) -> Result<bool, MessageError> {
        let mut is_agent = false;
        while let Some((&kind, after)) = rest.split_first() {
            if kind == PADDING {
                rest = after;
                continue;
            }
            let (&len, after) = after.split_first().ok_or(MessageError::Truncated)?;
            let data = after
                .get(..usize::from(len))
                .ok_or(MessageError::Truncated)?;
            rest = &after[data.len()..];
            match kind {
                MOBILITY if is_agent => return Err(MessageError::Contradiction),
                MOBILITY => {
                    is_agent = true;
                    self.take_mobility(data)?;
                }
                PREFIX_LENGTHS if data.len() != self.routers.len() => {
                    return Err(MessageError::Length);
                }
                PREFIX_LENGTHS => self.prefix_lengths = data.to_vec(),
                128.. => {}
                _ => return Err(MessageError::Extension(kind)),
            }
        }
        Ok(is_agent)
    }

    fn take_mobility(&mut self, data: &[u8]) -> Result<(), MessageError> {
        let (fixed, care_of) = data
            .split_first_chunk::<MOBILITY_FIXED>()
            .ok_or(MessageError::Length)?;
        let (care_of, []) = care_of.as_chunks::<4>() else {
            return Err(MessageError::Length);
        };
        self.sequence = u16::from_be_bytes([fixed[0], fixed[1]]);
        self.registration_lifetime = u16::from_be_bytes([fixed[2], fixed[3]]);
        self.flags = AgentFlags::from_bits(fixed[4]);
        self.care_of = care_of
            .iter()
            .map(|octets| Ipv4Addr::from(*octets))
            .collect();
        Ok(())
    }
}

impl DiscoveryMessage {
    /// Parses an ICMP router discovery message.
    ///
    /// # Errors
    /// If the packet is not one, is corrupted, was forwarded by a router, or was sent by a router
    /// that is not a mobility agent.
    pub fn parse(packet: &Packet) -> Result<Self, MessageError> {
        let message: &[u8] = &packet.payload;
        let (Protocol::Icmp, true) = (packet.protocol, packet.source.is_ipv4()) else {
            return Err(MessageError::Type(0));
        };
        let kind = *message.first().ok_or(MessageError::Truncated)?;
        if !matches!(kind, ADVERTISEMENT | SOLICITATION) {
            return Err(MessageError::Type(kind));
        }
        if message.len() < HEADER {
            return Err(MessageError::Truncated);
        }
        if packet.ttl != 1 || checksum(&[message]) != 0 {
            return Err(MessageError::Header);
        }
        match kind {
            SOLICITATION if message[1] == 0 => Ok(Self::Solicitation),
            SOLICITATION => Err(MessageError::Header),
            _ => AgentAdvertisement::parse(message).map(Self::Advertisement),
        }
    }
}

/// Returns the next sequence number (section 2.3.2).
pub(super) fn next_sequence(sequence: u16) -> u16 {
    sequence.checked_add(1).unwrap_or(256)
}

/// Returns whether the agent restarted between these two sequence numbers (section 2.4.4).
pub(super) fn has_restarted(before: u16, now: u16) -> bool {
    now < before && now < 256
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5944, section 2.3.2
    #[test]
    fn a_sequence_number_rollover_is_not_a_restart() {
        assert_eq!(next_sequence(0xFFFF), 256);
        assert_eq!(next_sequence(0), 1);
        assert!(!has_restarted(0xFFFF, 256));
        assert!(has_restarted(300, 0));
        assert!(!has_restarted(5, 6));
    }

    /// RFC 5944, appendix G.1
    #[test]
    fn the_encoding_matches_the_example() {
        let advertisement = AgentAdvertisement {
            routes_common_traffic: true,
            lifetime: 9,
            routers: vec![RouterAddress {
                address: Ipv4Addr::new(10, 0, 0, 1),
                preference: -1,
            }],
            sequence: 7,
            registration_lifetime: 300,
            flags: AgentFlags {
                foreign_agent: true,
                reverse_tunnel: true,
                ..AgentFlags::default()
            },
            care_of: vec![Ipv4Addr::new(10, 9, 0, 1)],
            prefix_lengths: vec![24],
        };
        let packet = advertisement.to_packet(Ipv4Addr::new(10, 0, 0, 1), super::super::ALL_SYSTEMS);
        let expected = [
            1, 2, 0, 9, 10, 0, 0, 1, 255, 255, 255, 255, 16, 10, 0, 7, 1, 44, 0x11, 0, 10, 9, 0, 1,
            19, 1, 24, 0,
        ];
        assert_eq!(packet.payload[4..], expected);
        assert_eq!(
            DiscoveryMessage::parse(&packet),
            Ok(DiscoveryMessage::Advertisement(advertisement))
        );
    }
}
