//! Elements of flows in the kernel's sets.

use std::net::{IpAddr, SocketAddr};

use carrick_simco::backend::Flow;
use carrick_simco::message::Direction;

use crate::expression::{IpFields, V4, V6};

/// Set of flows by protocol, source address and port, destination address and port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum FlowSet {
    /// From internal to external hosts.
    Out4,
    Out6,
    /// From external to internal hosts.
    In4,
    In6,
    /// From external hosts to an address of the translator; maps to the internal address.
    Dnat4,
    Dnat6,
    /// From internal to external hosts; maps to the outside address.
    Snat4,
    Snat6,
}

impl FlowSet {
    pub(crate) const ALL: [Self; 8] = [
        Self::Out4,
        Self::Out6,
        Self::In4,
        Self::In6,
        Self::Dnat4,
        Self::Dnat6,
        Self::Snat4,
        Self::Snat6,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Out4 => "out4",
            Self::Out6 => "out6",
            Self::In4 => "in4",
            Self::In6 => "in6",
            Self::Dnat4 => "dnat4",
            Self::Dnat6 => "dnat6",
            Self::Snat4 => "snat4",
            Self::Snat6 => "snat6",
        }
    }

    pub(crate) const fn ip(self) -> IpFields {
        match self {
            Self::Out4 | Self::In4 | Self::Dnat4 | Self::Snat4 => V4,
            Self::Out6 | Self::In6 | Self::Dnat6 | Self::Snat6 => V6,
        }
    }

    pub(crate) const fn is_map(self) -> bool {
        matches!(self, Self::Dnat4 | Self::Dnat6 | Self::Snat4 | Self::Snat6)
    }

    /// Returns the size of a key in octets: each field is padded to 4.
    pub(crate) const fn key_len(self) -> usize {
        12 + 2 * self.ip().length as usize
    }
}

/// Maximum size of a key.
const MAX_KEY: usize = 44;

/// Element of a set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SetKey {
    pub(crate) set: FlowSet,
    octets: [u8; MAX_KEY],
}

impl SetKey {
    fn new(set: FlowSet, protocol: u8, source: SocketAddr, destination: SocketAddr) -> Self {
        let mut octets = [0; MAX_KEY];
        octets[0] = protocol;
        let length = set.ip().length as usize;
        let mut at = 4;
        for end in [source, destination] {
            write_end(&mut octets[at..], end);
            at += length + 4;
        }
        Self { set, octets }
    }

    /// Returns the key in the kernel's format.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets[..self.set.key_len()]
    }

    /// Returns the key of the reverse flow, sent to the outside address.
    pub(crate) fn reverse(&self, outside: SocketAddr) -> Option<Self> {
        let set = match self.set {
            FlowSet::Snat4 => FlowSet::Dnat4,
            FlowSet::Snat6 => FlowSet::Dnat6,
            _ => return None,
        };
        let destination = from_map_data(&self.octets()[8 + self.set.ip().length as usize..])?;
        Some(Self::new(set, self.octets[0], destination, outside))
    }

    /// Parses the kernel's format.
    pub(crate) fn from_octets(set: FlowSet, found: &[u8]) -> Option<Self> {
        let mut octets = [0; MAX_KEY];
        octets
            .get_mut(..set.key_len())
            .filter(|o| o.len() == found.len())?
            .copy_from_slice(found);
        Some(Self { set, octets })
    }
}

/// Writes an address and port as two fields.
fn write_end(octets: &mut [u8], end: SocketAddr) {
    let length = match end.ip() {
        IpAddr::V4(v4) => {
            octets[..4].copy_from_slice(&v4.octets());
            4
        }
        IpAddr::V6(v6) => {
            octets[..16].copy_from_slice(&v6.octets());
            16
        }
    };
    octets[length..length + 2].copy_from_slice(&end.port().to_be_bytes());
}

/// Returns the map data of an address and port.
pub(crate) fn map_data(end: SocketAddr) -> Vec<u8> {
    let mut octets = vec![0; if end.is_ipv4() { 8 } else { 20 }];
    write_end(&mut octets, end);
    octets
}

/// Parses the data of [`map_data`].
pub(crate) fn from_map_data(octets: &[u8]) -> Option<SocketAddr> {
    let (address, port) = match octets.len() {
        8 => (IpAddr::from(*octets.first_chunk::<4>()?), &octets[4..]),
        20 => (IpAddr::from(*octets.first_chunk::<16>()?), &octets[16..]),
        _ => return None,
    };
    Some(SocketAddr::new(
        address,
        u16::from_be_bytes(*port.first_chunk::<2>()?),
    ))
}

/// Returns the elements of a flow with their map data. A flow between different IP versions has none.
pub(crate) fn entries_of(flow: &Flow) -> Vec<(SetKey, Option<SocketAddr>)> {
    let Flow {
        protocol,
        internal,
        external,
        outside,
        direction,
    } = *flow;
    let v4 = internal.is_ipv4();
    if v4 != external.is_ipv4() || outside.is_some_and(|a2| a2.is_ipv4() != v4) {
        return Vec::new();
    }
    let pick = |four, six| if v4 { four } else { six };
    let key = |set, source, destination| SetKey::new(set, protocol, source, destination);
    let mut out = Vec::with_capacity(4);
    if direction != Direction::Inbound {
        let set = pick(FlowSet::Out4, FlowSet::Out6);
        out.push((key(set, internal, external), None));
        if outside.is_some() {
            let set = pick(FlowSet::Snat4, FlowSet::Snat6);
            out.push((key(set, internal, external), outside));
        }
    }
    if direction != Direction::Outbound {
        let set = pick(FlowSet::In4, FlowSet::In6);
        out.push((key(set, external, internal), None));
        if let Some(outside) = outside {
            let set = pick(FlowSet::Dnat4, FlowSet::Dnat6);
            out.push((key(set, external, outside), Some(internal)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(direction: Direction, outside: Option<&str>) -> Flow {
        Flow {
            protocol: 17,
            internal: "10.0.0.1:258".parse().unwrap(),
            external: "192.0.2.1:3".parse().unwrap(),
            outside: outside.map(|a2| a2.parse().unwrap()),
            direction,
        }
    }

    fn sets(flow: &Flow) -> Vec<FlowSet> {
        entries_of(flow)
            .into_iter()
            .map(|(key, _)| key.set)
            .collect()
    }

    #[test]
    fn flows_are_in_sets_and_translations_in_maps() {
        assert_eq!(sets(&flow(Direction::Outbound, None)), [FlowSet::Out4]);
        assert_eq!(sets(&flow(Direction::Inbound, None)), [FlowSet::In4]);
        let both = flow(Direction::Both, Some("198.51.100.1:9"));
        assert_eq!(
            sets(&both),
            [FlowSet::Out4, FlowSet::Snat4, FlowSet::In4, FlowSet::Dnat4]
        );
        let other = flow(Direction::Both, Some("[2001:db8::1]:9"));
        assert_eq!(sets(&other), []);
    }

    #[test]
    fn padded_fields_round_trip() {
        let (key, _) = entries_of(&flow(Direction::Outbound, None))[0];
        assert_eq!(
            key.octets(),
            [
                17, 0, 0, 0, 10, 0, 0, 1, 1, 2, 0, 0, 192, 0, 2, 1, 0, 3, 0, 0
            ]
        );
        assert_eq!(SetKey::from_octets(FlowSet::Out4, key.octets()), Some(key));
        assert_eq!(SetKey::from_octets(FlowSet::Out6, key.octets()), None);
        let both = entries_of(&flow(Direction::Both, Some("198.51.100.1:9")));
        let [_, (snat, Some(outside)), _, (dnat, _)] = both[..] else {
            panic!("{both:?}");
        };
        assert_eq!(snat.reverse(outside), Some(dnat));
        assert_eq!(dnat.reverse(outside), None);
        for end in ["198.51.100.1:9", "[2001:db8::1]:65535"] {
            let end = end.parse().unwrap();
            assert_eq!(from_map_data(&map_data(end)), Some(end));
        }
        assert_eq!(from_map_data(&[1, 2, 3]), None);
    }
}
