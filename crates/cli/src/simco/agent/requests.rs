//! Arguments of the requests that create rules.

use carrick_simco::backend::has_ports;
use carrick_simco::message::{
    AddressTuple, Direction, DisableRequest, EnableRequest, GroupId, IpVersion, Lifetime, Location,
    NatMode, Parity, PerParameters, PolicyRuleId, PortParity, PrrParameters, Request,
    ReserveRequest,
};
use clap::{Args, ValueEnum};

use super::super::address::{DataStreamEnd, end, protocol};
use crate::failure::Failure;

fn ip_version(text: &str) -> Result<IpVersion, String> {
    match text {
        "4" => Ok(IpVersion::V4),
        "6" => Ok(IpVersion::V6),
        _ => Err("expected 4 or 6".into()),
    }
}

/// Data stream: both ends, protocol, ports, and the requested lifetime.
#[derive(Debug, Args)]
pub(super) struct Stream {
    /// Internal host (behind the middlebox): `ADDR[/PREFIX][:PORT]` or `any`.
    #[arg(long, value_name = "END", value_parser = end)]
    internal: DataStreamEnd,
    /// External host (beyond the middlebox): `ADDR[/PREFIX][:PORT]` or `any`.
    #[arg(long, value_name = "END", value_parser = end)]
    external: DataStreamEnd,
    /// Transport protocol: udp, tcp, sctp, dccp, icmp, any or a number.
    #[arg(long, default_value = "udp", value_parser = protocol)]
    protocol: u8,
    /// Number of consecutive ports at both ends, e.g. 2 for RTP and RTCP.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    ports: u16,
    /// Requested lifetime in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lifetime: u32,
}

impl Stream {
    /// Returns whether addresses or ports are wildcards. Ports don't count if the protocol has none.
    fn has_wildcard(&self) -> bool {
        let ends = [self.internal, self.external];
        ends.iter().any(|end| {
            if has_ports(self.protocol) {
                end.is_wildcard()
            } else {
                end.with_port().is_wildcard()
            }
        })
    }

    fn tuples(&self) -> Result<[AddressTuple; 2], Failure> {
        let version = match (self.internal.version(), self.external.version()) {
            (Some(a), Some(b)) if a != b => {
                let why = "--internal and --external have different IP versions: give addresses of one version";
                return Err(Failure::Usage(why.into()));
            }
            (Some(version), _) | (None, Some(version)) => version,
            (None, None) => IpVersion::V4,
        };
        let Self {
            protocol, ports, ..
        } = *self;
        let ends = [self.internal, self.external];
        // The middlebox would refuse the port without naming the reason.
        if protocol != 0 && !has_ports(protocol) && ends.iter().any(DataStreamEnd::has_port) {
            let why = format!("protocol {protocol} has no ports: give addresses without ports");
            return Err(Failure::Usage(why));
        }
        let tuple = |end: DataStreamEnd, location| end.tuple(location, protocol, ports, version);
        Ok([
            tuple(self.internal, Location::Internal),
            tuple(self.external, Location::External),
        ])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StreamDirection {
    /// From the external to the internal host.
    In,
    /// From the internal to the external host.
    Out,
    /// Both directions.
    Both,
}

/// Arguments of PER and PEA.
#[derive(Debug, Args)]
pub(super) struct EnableArguments {
    #[command(flatten)]
    stream: Stream,
    /// Direction in which packets may pass.
    #[arg(long, value_enum, default_value = "both")]
    direction: StreamDirection,
    /// Keep the parity of the port (on an address translator).
    #[arg(long)]
    same_parity: bool,
}

impl EnableArguments {
    fn request(&self, group: Option<u32>) -> Result<EnableRequest, Failure> {
        let [internal, external] = self.stream.tuples()?;
        // RFC 4540, section 8.3.1. The middlebox would refuse it without naming the reason.
        if self.direction == StreamDirection::Both && self.stream.has_wildcard() {
            let why =
                "an end that is any, a prefix or without a port requires --direction in or out";
            return Err(Failure::Usage(why.into()));
        }
        Ok(EnableRequest {
            parameters: PerParameters {
                parity: if self.same_parity {
                    PortParity::Same
                } else {
                    PortParity::Any
                },
                direction: match self.direction {
                    StreamDirection::In => Direction::Inbound,
                    StreamDirection::Out => Direction::Outbound,
                    StreamDirection::Both => Direction::Both,
                },
            },
            internal,
            external,
            lifetime: Lifetime(self.stream.lifetime),
            group: group.map(GroupId),
        })
    }
}

#[derive(Debug, Args)]
pub(super) struct PerArguments {
    #[command(flatten)]
    enable: EnableArguments,
    /// Group of the new rule [default: a new group].
    #[arg(long, value_name = "GROUP")]
    group: Option<u32>,
    /// Keep refreshing the rule until interrupted, then delete it.
    #[arg(long)]
    pub(super) hold: bool,
}

impl PerArguments {
    pub(super) fn request(&self) -> Result<EnableRequest, Failure> {
        self.enable.request(self.group)
    }
}

#[derive(Debug, Args)]
pub(super) struct PeaArguments {
    /// Identifier of the reservation.
    rule: u32,
    #[command(flatten)]
    enable: EnableArguments,
}

impl PeaArguments {
    pub(super) fn request(&self) -> Result<Request, Failure> {
        Ok(Request::EnableReserved {
            enable: self.enable.request(None)?,
            rule: PolicyRuleId(self.rule),
        })
    }
}

#[derive(Debug, Args)]
pub(super) struct PdrArguments {
    #[command(flatten)]
    stream: Stream,
}

impl PdrArguments {
    pub(super) fn request(&self) -> Result<DisableRequest, Failure> {
        let [internal, external] = self.stream.tuples()?;
        Ok(DisableRequest {
            internal,
            external,
            lifetime: Lifetime(self.stream.lifetime),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PortStart {
    /// Any port.
    Any,
    /// First port even, as for RTP.
    Even,
    /// First port odd.
    Odd,
}

#[derive(Debug, Args)]
pub(super) struct PrrArguments {
    /// Transport protocol: udp, tcp, sctp, dccp, icmp, any or a number.
    #[arg(long, default_value = "udp", value_parser = protocol)]
    protocol: u8,
    /// Number of consecutive ports.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    ports: u16,
    /// Parity of the first port.
    #[arg(long, value_enum, default_value = "any")]
    parity: PortStart,
    /// IP version of the reserved addresses, that of the stream to be enabled later [default: any].
    #[arg(long, value_name = "4|6", value_parser = ip_version)]
    ip_version: Option<IpVersion>,
    /// Requested lifetime in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lifetime: u32,
    /// Group of the new rule [default: a new group].
    #[arg(long, value_name = "GROUP")]
    group: Option<u32>,
    /// Keep refreshing the reservation until interrupted, then delete it.
    #[arg(long)]
    pub(super) hold: bool,
}

impl PrrArguments {
    pub(super) fn request(&self) -> ReserveRequest {
        ReserveRequest {
            parameters: PrrParameters {
                nat_mode: NatMode::Traditional,
                parity: match self.parity {
                    PortStart::Any => Parity::Any,
                    PortStart::Even => Parity::Even,
                    PortStart::Odd => Parity::Odd,
                },
                // IP versions are not translated into each other.
                inside: self.ip_version,
                outside: self.ip_version,
                protocol: self.protocol,
                ports: self.ports,
            },
            lifetime: Lifetime(self.lifetime),
            group: self.group.map(GroupId),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        prr: PrrArguments,
    }

    /// RFC 4540, section 4.3.9
    #[test]
    fn prr_requests_the_given_ip_version() {
        let asked = |more: &[&str]| {
            let line = Line::try_parse_from([&["prr"], more].concat());
            line.map(|line| {
                let PrrParameters {
                    inside, outside, ..
                } = line.prr.request().parameters;
                (inside, outside)
            })
        };
        assert_eq!(asked(&[]).unwrap(), (None, None));
        for (text, version) in [("4", IpVersion::V4), ("6", IpVersion::V6)] {
            let both = (Some(version), Some(version));
            assert_eq!(asked(&["--ip-version", text]).unwrap(), both);
        }
        assert!(asked(&["--ip-version", "5"]).is_err());
    }
}
