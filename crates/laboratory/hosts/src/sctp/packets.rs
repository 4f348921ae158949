//! Conversion between packets of the simulator and routes of the core.

use std::net::IpAddr;

use bytes::Bytes;
use carrick_netsim::icmp::{IcmpError, parse};
use carrick_netsim::{Packet, Protocol};
use carrick_proto::{Ecn, IcmpInput, IcmpKind, Route, SourceSelection as _};

use super::routes::HostRoutes;

/// Returns the route of a received SCTP packet, or `None` if it is not for a stack with these UDP
/// ports.
pub(super) fn route(packet: &Packet, is_bound_to: impl Fn(u16) -> bool) -> Option<Route> {
    let encapsulation = match packet.protocol {
        Protocol::Sctp => None,
        Protocol::UdpEncapsulated {
            source_port,
            destination_port,
        } if is_bound_to(destination_port) => Some(source_port),
        _ => return None,
    };
    Some(Route {
        local: Some(packet.destination),
        remote: packet.source,
        encapsulation,
        ecn: Ecn::from_bits(packet.ecn.bits()),
    })
}

/// Header fields common to all packets of one transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    source: IpAddr,
    destination: IpAddr,
    protocol: Protocol,
    ecn: carrick_netsim::Ecn,
    dscp: u8,
}

impl Header {
    /// Returns the packet that carries `payload`.
    pub(super) fn packet(&self, payload: &[u8]) -> Packet {
        Packet::new(
            self.source,
            self.destination,
            self.protocol,
            Bytes::copy_from_slice(payload),
        )
        .with_ecn(self.ecn)
        .with_dscp(self.dscp)
    }
}

/// Returns the source of a packet: if the core does not select one, the choice of the host's IP layer by its routes, or
/// any address of the version of the destination.
pub(super) fn source(
    route: &Route,
    locals: &[IpAddr],
    routes: Option<&HostRoutes>,
) -> Option<IpAddr> {
    let same_version = |local: &&IpAddr| local.is_ipv4() == route.remote.is_ipv4();
    let by_routes = || routes?.select(locals, route.remote);
    let any = || locals.iter().find(same_version).copied();
    route.local.or_else(by_routes).or_else(any)
}

/// Returns the header for a route, or `None` without a source or an encapsulation port.
pub(super) fn header(
    (route, dscp): (&Route, u8),
    source: Option<IpAddr>,
    encapsulation: Option<u16>,
) -> Option<Header> {
    let source = source?;
    let protocol = match route.encapsulation {
        None => Protocol::Sctp,
        Some(destination_port) => Protocol::UdpEncapsulated {
            source_port: encapsulation?,
            destination_port,
        },
    };
    Some(Header {
        source,
        destination: route.remote,
        protocol,
        ecn: carrick_netsim::Ecn::from_bits(route.ecn.bits()),
        dscp,
    })
}

/// An ICMP error about a packet of this host's stack.
#[derive(Debug)]
pub(super) struct Icmp {
    kind: IcmpKind,
    about: Packet,
}

impl Icmp {
    pub(super) fn as_input(&self) -> IcmpInput<'_> {
        IcmpInput {
            kind: self.kind,
            remote: self.about.destination,
            encapsulation: match self.about.protocol {
                Protocol::UdpEncapsulated {
                    destination_port, ..
                }
                | Protocol::Udp {
                    destination_port, ..
                } => Some(destination_port),
                _ => None,
            },
            quoted: &self.about.payload,
        }
    }
}

/// Parses an ICMP error about SCTP of a host with these UDP ports. Returns `None` if the packet is
/// not one.
pub(super) fn icmp(packet: &Packet, is_bound_to: impl Fn(u16) -> bool) -> Option<Icmp> {
    const V4_PROTOCOL_UNREACHABLE: u8 = 2;
    const V4_PORT_UNREACHABLE: u8 = 3;
    const V6_PORT_UNREACHABLE: u8 = 4;
    let report = parse(packet)?;
    let sctp = match report.about.protocol {
        Protocol::Sctp | Protocol::UdpEncapsulated { .. } => true,
        Protocol::Udp { source_port, .. } => is_bound_to(source_port),
        _ => false,
    };
    let kind = match report.error {
        IcmpError::TooBig { mtu } => IcmpKind::PacketTooBig { mtu: mtu as usize },
        IcmpError::Unreachable { code } => match (packet.source.is_ipv4(), code) {
            (true, V4_PROTOCOL_UNREACHABLE) => IcmpKind::ProtocolUnreachable,
            (true, V4_PORT_UNREACHABLE) | (false, V6_PORT_UNREACHABLE) => IcmpKind::PortUnreachable,
            _ => IcmpKind::DestinationUnreachable,
        },
        IcmpError::UnknownNextHeader => IcmpKind::ProtocolUnreachable,
        // Ignored according to RFC 9260, section 10.
        IcmpError::TimeExceeded => return None,
    };
    sctp.then_some(Icmp {
        kind,
        about: report.about,
    })
}

#[cfg(test)]
mod tests {
    use carrick_netsim::icmp::report;

    use super::*;

    const PORT: u16 = 9899;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_reply_uses_the_reverse_route() {
        let (a, b) = (ip("10.0.0.1"), ip("10.0.0.2"));
        for there in [Route::plain(a, b), Route::encapsulated(a, b, PORT)] {
            let packet = header((&there, 46), Some(a), Some(PORT))
                .unwrap()
                .packet(b"x");
            let back = route(&packet, |port| port == PORT).unwrap();
            assert_eq!((back.local, back.remote), (Some(b), a));
            assert_eq!(back.encapsulation, there.encapsulation);
        }
    }

    #[test]
    fn ecn_marks_are_preserved() {
        let (a, b) = (ip("::1"), ip("::2"));
        for ecn in [
            Ecn::NotCapable,
            Ecn::Capable0,
            Ecn::Capable1,
            Ecn::CongestionExperienced,
        ] {
            let there = Route {
                ecn,
                ..Route::plain(a, b)
            };
            let packet = header((&there, 46), Some(a), None).unwrap().packet(b"x");
            assert_eq!(route(&packet, |_| false).unwrap().ecn, ecn);
            assert_eq!(packet.dscp, 46);
        }
    }

    #[test]
    fn packets_for_other_stacks_are_ignored() {
        let (a, b) = (ip("10.0.0.1"), ip("10.0.0.2"));
        let packet = |protocol| Packet::new(a, b, protocol, vec![0; 12]);
        assert!(route(&packet(Protocol::Tcp), |port| port == PORT).is_none());
        let other_port = Protocol::UdpEncapsulated {
            source_port: 1,
            destination_port: 2,
        };
        assert!(route(&packet(other_port), |port| port == PORT).is_none());
        assert!(route(&packet(other_port), |_| false).is_none());
        let encapsulated = Route::encapsulated(a, b, PORT);
        assert!(
            header((&encapsulated, 0), Some(a), None).is_none(),
            "no UDP port"
        );
        let open = Route {
            local: None,
            ..Route::plain(a, b)
        };
        assert_eq!(source(&open, &[ip("::1"), a], None), Some(a));
        assert!(header((&open, 0), source(&open, &[ip("::1")], None), None).is_none());
    }

    #[test]
    fn icmp_errors_are_converted_for_the_core() {
        let (a, b) = (ip("10.0.0.1"), ip("10.0.0.2"));
        let sent = Packet::new(a, b, Protocol::Sctp, vec![7; 100]);
        let read = |error| icmp(&report(&sent, error, ip("10.0.0.9")).unwrap(), |_| false).unwrap();
        let too_big = read(IcmpError::TooBig { mtu: 1300 });
        let input = too_big.as_input();
        assert_eq!(input.kind, IcmpKind::PacketTooBig { mtu: 1300 });
        assert_eq!((input.remote, input.encapsulation), (b, None));
        assert!(input.quoted.starts_with(&[7; 8]));
        let kinds = [0, 2, 3].map(|code| read(IcmpError::Unreachable { code }).kind);
        let expected = [
            IcmpKind::DestinationUnreachable,
            IcmpKind::ProtocolUnreachable,
            IcmpKind::PortUnreachable,
        ];
        assert_eq!(kinds, expected);
        assert!(icmp(&sent, |_| false).is_none());
    }
}
