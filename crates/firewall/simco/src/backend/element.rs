//! Elements of a packet filter: exact flows, and patterns for the rest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::message::{AddressTuple, Direction, IpVersion, Scope};

/// Element of a packet filter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Element {
    /// Passes one flow: an entry of a hash set.
    Flow(Flow),
    /// Passes all flows of a pattern.
    Allow(Pattern, Direction),
    /// Blocks all flows of a pattern, whatever other elements pass them.
    Block(Pattern),
}

/// Flow: protocol, both ends, direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Flow {
    /// Transport protocol.
    pub protocol: u8,
    /// A0: internal address and ports.
    pub internal: SocketAddr,
    /// A3: external address and ports.
    pub external: SocketAddr,
    /// A2 on a translator.
    pub outside: Option<SocketAddr>,
    /// Direction in which packets may pass.
    pub direction: Direction,
}

/// Set of flows by prefixes and port ranges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pattern {
    /// Transport protocol, 0 for any.
    pub protocol: u8,
    /// A0: internal address and ports.
    pub internal: PatternSide,
    /// A3: external address and ports.
    pub external: PatternSide,
}

/// Addresses and ports of one side of a [`Pattern`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PatternSide {
    /// Network address; the bits after the prefix are zero.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub prefix: u8,
    /// First port.
    pub first_port: u16,
    /// Last port.
    pub last_port: u16,
}

impl PatternSide {
    fn of(tuple: &AddressTuple) -> Self {
        let any = |address: IpAddr, prefix: u8| Self {
            address,
            prefix,
            first_port: 0,
            last_port: u16::MAX,
        };
        match tuple.scope {
            Scope::ProtocolsOnly(IpVersion::V4) => any(Ipv4Addr::UNSPECIFIED.into(), 0),
            Scope::ProtocolsOnly(IpVersion::V6) => any(Ipv6Addr::UNSPECIFIED.into(), 0),
            Scope::Full {
                address,
                prefix,
                port,
                ports,
            } => {
                let side = any(network(address, prefix), prefix);
                if port == 0 || tuple.protocol == 0 {
                    return side;
                }
                Self {
                    first_port: port,
                    last_port: port.saturating_add(ports.saturating_sub(1)),
                    ..side
                }
            }
        }
    }

    /// Returns whether an address and port match.
    pub fn contains(&self, address: SocketAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && network(address.ip(), self.prefix) == self.address
            && (self.first_port..=self.last_port).contains(&address.port())
    }

    /// Returns whether some address and port match both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let prefix = self.prefix.min(other.prefix);
        self.address.is_ipv4() == other.address.is_ipv4()
            && network(self.address, prefix) == network(other.address, prefix)
            && self.first_port <= other.last_port
            && other.first_port <= self.last_port
    }
}

impl Pattern {
    /// Returns whether a flow matches.
    pub fn contains(&self, protocol: u8, internal: SocketAddr, external: SocketAddr) -> bool {
        (self.protocol == 0 || self.protocol == protocol)
            && self.internal.contains(internal)
            && self.external.contains(external)
    }

    /// Returns whether some packet matches both: the conflict of RFC 4540, section 8.8.1.
    pub fn overlaps(&self, other: &Self) -> bool {
        (self.protocol == 0 || other.protocol == 0 || self.protocol == other.protocol)
            && self.internal.overlaps(&other.internal)
            && self.external.overlaps(&other.external)
    }
}

/// Returns whether a transport protocol has ports where a packet filter looks for them: TCP, UDP,
/// DCCP, SCTP, UDP-Lite.
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

/// Returns the first `prefix` bits of an address.
pub(crate) fn network(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let shift = 32u32.saturating_sub(u32::from(prefix));
            let mask = u32::MAX.checked_shl(shift).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let shift = 128u32.saturating_sub(u32::from(prefix));
            let mask = u128::MAX.checked_shl(shift).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

/// Returns the pattern of all flows between two tuples.
pub fn pattern_of(internal: &AddressTuple, external: &AddressTuple) -> Pattern {
    Pattern {
        protocol: internal.protocol,
        internal: PatternSide::of(internal),
        external: PatternSide::of(external),
    }
}

/// Returns host, first port and number of ports, if the tuple has consecutive ports of one host.
fn exact(tuple: &AddressTuple) -> Option<(IpAddr, u16, u16)> {
    match tuple.scope {
        Scope::Full {
            address,
            prefix,
            port,
            ports,
        } if prefix == IpVersion::of(address).bits() && port != 0 && tuple.protocol != 0 => {
            Some((address, port, ports))
        }
        _ => None,
    }
}

/// Returns the number of flows of two tuples with as many consecutive ports of one host each.
pub(crate) fn single_flows(internal: &AddressTuple, external: &AddressTuple) -> Option<u16> {
    let (_, port, ports) = exact(internal)?;
    let (_, external_port, external_ports) = exact(external)?;
    let last = ports.checked_sub(1)?;
    port.checked_add(last)?;
    external_port.checked_add(last)?;
    (ports == external_ports).then_some(ports)
}

/// Returns the elements that pass the streams between two tuples. Port ranges are mapped in order (RFC
/// 5189, section 2.3.6): RTP and RTCP are two flows. Wildcards become a pattern.
pub fn elements_of(
    internal: &AddressTuple,
    external: &AddressTuple,
    outside: Option<&AddressTuple>,
    direction: Direction,
) -> Vec<Element> {
    let flows = || {
        let (a0, internal_port, _) = exact(internal)?;
        let (a3, external_port, _) = exact(external)?;
        let ports = single_flows(internal, external)?;
        let outside = outside.and_then(exact);
        let flow = |n: u16| {
            Some(Element::Flow(Flow {
                protocol: internal.protocol,
                internal: SocketAddr::new(a0, internal_port.checked_add(n)?),
                external: SocketAddr::new(a3, external_port.checked_add(n)?),
                outside: outside
                    .and_then(|(a2, port, _)| Some(SocketAddr::new(a2, port.checked_add(n)?))),
                direction,
            }))
        };
        (0..ports).map(flow).collect::<Option<Vec<Element>>>()
    };
    flows().unwrap_or_else(|| vec![Element::Allow(pattern_of(internal, external), direction)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Location;

    fn tuple(location: Location, address: &str, prefix: u8, port: u16, ports: u16) -> AddressTuple {
        AddressTuple {
            location,
            protocol: 17,
            scope: Scope::Full {
                address: address.parse().unwrap(),
                prefix,
                port,
                ports,
            },
        }
    }

    fn internal(address: &str, prefix: u8, port: u16, ports: u16) -> AddressTuple {
        tuple(Location::Internal, address, prefix, port, ports)
    }

    fn external(address: &str, prefix: u8, port: u16, ports: u16) -> AddressTuple {
        tuple(Location::External, address, prefix, port, ports)
    }

    fn overlap(a: (AddressTuple, AddressTuple), b: (AddressTuple, AddressTuple)) -> bool {
        let [a, b] = [a, b].map(|(i, e)| pattern_of(&i, &e));
        assert_eq!(a.overlaps(&b), b.overlaps(&a));
        a.overlaps(&b)
    }

    /// RFC 4540, section 8.8.1
    #[test]
    fn example_of_the_rfc_is_a_conflict() {
        let enable = (
            internal("10.1.8.3", 32, 12345, 1),
            external("0.0.0.0", 0, 0, 1),
        );
        let disable = (
            internal("0.0.0.0", 0, 0, 1),
            external("192.0.2.100", 32, 0, 1),
        );
        assert!(overlap(enable, disable));
        let other = (
            internal("10.1.8.4", 32, 0, 1),
            external("192.0.2.100", 32, 0, 1),
        );
        assert!(!overlap(enable, other));
    }

    #[test]
    fn overlap_needs_address_port_protocol_and_version() {
        let base = (
            internal("10.0.0.1", 32, 100, 10),
            external("192.0.2.1", 32, 200, 10),
        );
        let with = |i, e| overlap(base, (i, e));
        assert!(with(
            internal("10.0.0.0", 8, 109, 1),
            external("192.0.2.0", 24, 190, 11)
        ));
        assert!(
            !with(internal("10.0.0.1", 32, 110, 1), base.1),
            "after the last port"
        );
        assert!(
            !with(internal("10.0.0.1", 32, 90, 10), base.1),
            "before the first port"
        );
        assert!(
            !with(internal("11.0.0.0", 8, 0, 1), base.1),
            "another network"
        );
        assert!(!with(internal("::", 0, 0, 1), base.1), "another version");
        let tcp = AddressTuple {
            protocol: 6,
            ..base.0
        };
        assert!(!with(
            tcp,
            AddressTuple {
                protocol: 6,
                ..base.1
            }
        ));
        let any = AddressTuple { protocol: 0, ..tcp };
        assert!(
            with(
                any,
                AddressTuple {
                    protocol: 0,
                    ..base.1
                }
            ),
            "ICMP has no ports"
        );
    }

    #[test]
    fn port_ranges_are_flows_and_wildcards_patterns() {
        let (a, b) = (
            internal("10.0.0.1", 32, 100, 2),
            external("192.0.2.1", 32, 200, 2),
        );
        let flows = elements_of(&a, &b, None, Direction::Both);
        let ports: Vec<(u16, u16)> = flows
            .iter()
            .map(|e| match e {
                Element::Flow(flow) => (flow.internal.port(), flow.external.port()),
                other => panic!("{other:?} is not a flow"),
            })
            .collect();
        assert_eq!(ports, [(100, 200), (101, 201)]);
        let is_pattern = |i: &AddressTuple, e: &AddressTuple| {
            let elements = elements_of(i, e, None, Direction::Inbound);
            matches!(elements[..], [Element::Allow(..)])
        };
        assert!(is_pattern(&a, &external("192.0.2.0", 24, 200, 2)));
        assert!(is_pattern(&a, &external("192.0.2.1", 32, 0, 2)));
        let all = external("192.0.2.1", 32, 1, u16::MAX);
        assert!(is_pattern(&a, &all), "all ports of one side");
        let only = AddressTuple {
            scope: Scope::ProtocolsOnly(IpVersion::V4),
            ..b
        };
        assert!(is_pattern(&a, &only));
    }
}
