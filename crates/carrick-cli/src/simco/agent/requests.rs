//! The requests that make rules, as arguments.

use carrick_simco::backend::has_ports;
use carrick_simco::message::{
    AddressTuple, Direction, DisableRequest, EnableRequest, GroupId, IpVersion, Lifetime, Location,
    NatMode, Parity, PerParameters, PolicyRuleId, PortParity, PrrParameters, Request,
    ReserveRequest,
};
use clap::{Args, ValueEnum};

use super::super::address::{End, end, protocol};
use crate::failure::Failure;

fn ip_version(text: &str) -> Result<IpVersion, String> {
    match text {
        "4" => Ok(IpVersion::V4),
        "6" => Ok(IpVersion::V6),
        _ => Err("give 4 or 6".into()),
    }
}

/// Both ends of a data stream.
#[derive(Debug, Args)]
pub(super) struct Stream {
    /// The host behind the middlebox: `ADDR[/PREFIX][:PORT]` or `any`.
    #[arg(long, value_name = "END", value_parser = end)]
    internal: End,
    /// The host beyond the middlebox: likewise.
    #[arg(long, value_name = "END", value_parser = end)]
    external: End,
    /// The transport protocol: udp, tcp, sctp, dccp, icmp, any or a number.
    #[arg(long, default_value = "udp", value_parser = protocol)]
    protocol: u8,
    /// Consecutive ports on both ends, 2 for RTP and RTCP.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    ports: u16,
    /// The lifetime that is asked for, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lifetime: u32,
}

impl Stream {
    /// Whether addresses or ports are wildcards; without a protocol that has ports there are none.
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
                let why = "both ends must be of one IP version";
                return Err(Failure::Usage(why.into()));
            }
            (Some(version), _) | (None, Some(version)) => version,
            (None, None) => IpVersion::V4,
        };
        let Self {
            protocol, ports, ..
        } = *self;
        let ends = [self.internal, self.external];
        // The middlebox would only say that the port is illegal.
        if protocol != 0 && !has_ports(protocol) && ends.iter().any(End::has_port) {
            let why = format!("protocol {protocol} has no ports: give addresses only");
            return Err(Failure::Usage(why));
        }
        let tuple = |end: End, location| end.tuple(location, protocol, ports, version);
        Ok([
            tuple(self.internal, Location::Internal),
            tuple(self.external, Location::External),
        ])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// From the external to the internal host.
    In,
    /// From the internal to the external host.
    Out,
    /// Both.
    Both,
}

/// Which packets pass.
#[derive(Debug, Args)]
pub(super) struct EnableArguments {
    #[command(flatten)]
    stream: Stream,
    /// Which way packets may go.
    #[arg(long, value_enum, default_value = "both")]
    direction: Way,
    /// A translator keeps the parity of the port.
    #[arg(long)]
    same_parity: bool,
}

impl EnableArguments {
    fn request(&self, group: Option<u32>) -> Result<EnableRequest, Failure> {
        let [internal, external] = self.stream.tuples()?;
        // RFC 4540 section 8.3.1; the middlebox would only say that it is inconsistent.
        if self.direction == Way::Both && self.stream.has_wildcard() {
            let why = "any, a prefix or an end without a port needs --direction in or out";
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
                    Way::In => Direction::Inbound,
                    Way::Out => Direction::Outbound,
                    Way::Both => Direction::Both,
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
    /// The group of the new rule [default: a new one].
    #[arg(long, value_name = "GROUP")]
    group: Option<u32>,
    /// Keep the rule until interrupted, then end it.
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
    /// The reservation.
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
enum Start {
    /// Any port.
    Any,
    /// An even port first, as for RTP.
    Even,
    /// An odd port first.
    Odd,
}

#[derive(Debug, Args)]
pub(super) struct PrrArguments {
    /// The transport protocol: udp, tcp, sctp, dccp, icmp, any or a number.
    #[arg(long, default_value = "udp", value_parser = protocol)]
    protocol: u8,
    /// Consecutive ports.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    ports: u16,
    /// Where they begin.
    #[arg(long, value_enum, default_value = "any")]
    parity: Start,
    /// The IP version of the addresses, 4 or 6: that of the stream that is to be enabled [default: any].
    #[arg(long, value_name = "4|6", value_parser = ip_version)]
    ip_version: Option<IpVersion>,
    /// The lifetime that is asked for, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lifetime: u32,
    /// The group of the new rule [default: a new one].
    #[arg(long, value_name = "GROUP")]
    group: Option<u32>,
    /// Keep the reservation until interrupted, then end it.
    #[arg(long)]
    pub(super) hold: bool,
}

impl PrrArguments {
    pub(super) fn request(&self) -> ReserveRequest {
        ReserveRequest {
            parameters: PrrParameters {
                nat_mode: NatMode::Traditional,
                parity: match self.parity {
                    Start::Any => Parity::Any,
                    Start::Even => Parity::Even,
                    Start::Odd => Parity::Odd,
                },
                // Nothing translates one version into the other.
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

    #[test]
    fn a_reservation_is_for_the_ip_version_that_is_asked_for_4_3_9() {
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
