//! Checks common to PER, PEA and PDR (RFC 4540, sections 8.3.1, 8.4.1 and 8.8.2).

use std::net::IpAddr;

use super::config::{AgentConfig, MiddleboxConfig, Network};
use crate::backend::has_ports;
use crate::message::{AddressTuple, Direction, IpVersion, Location, NegativeReply, Scope};

/// Wildcards in a pair of tuples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Wildcards {
    internal_address: bool,
    external_address: bool,
    port: bool,
}

/// Checks that locations, protocols and port ranges of two tuples are consistent, that every field is
/// legal, that the middlebox supports the protocol, the IP versions and the wildcards, and that the
/// agent may use them. A bidirectional stream may have no wildcard but the protocol. PDR may have
/// wildcards that PER may not.
pub(super) fn check_tuples(
    config: &MiddleboxConfig,
    agent: &AgentConfig,
    internal: &AddressTuple,
    external: &AddressTuple,
    purpose: PairPurpose,
) -> Result<(), NegativeReply> {
    if internal.location != Location::Internal
        || external.location != Location::External
        || internal.protocol != external.protocol
    {
        return Err(NegativeReply::Inconsistent);
    }
    legal(internal)?;
    legal(external)?;
    if let (Some(a), Some(b)) = (ports(internal), ports(external))
        && a != b
        && a != u16::MAX
        && b != u16::MAX
    {
        return Err(NegativeReply::Inconsistent);
    }
    let capabilities = &config.capabilities;
    if !capabilities.internal(internal.version()) || !capabilities.external(external.version()) {
        return Err(NegativeReply::IpVersionMismatch);
    }
    if internal.version() != external.version() && !capabilities.protocol_translation {
        return Err(NegativeReply::IpVersionMismatch);
    }
    let blocks = purpose == PairPurpose::Block;
    if !(blocks && internal.protocol == 0) {
        check_protocol(config, internal.protocol)?;
    }
    let wildcards = wildcards(internal, external);
    let any = wildcards != Wildcards::default() || internal.protocol == 0;
    if any && !blocks && !agent.rights.wildcards {
        return Err(NegativeReply::AgentNotAuthorized);
    }
    if (wildcards.internal_address && !capabilities.internal_address_wildcards)
        || (wildcards.external_address && !capabilities.external_address_wildcards)
        || ((wildcards.port || internal.protocol == 0) && !capabilities.port_wildcards)
    {
        return Err(NegativeReply::WildcardingNotSupported);
    }
    if purpose == PairPurpose::Pass(Direction::Both) && wildcards != Wildcards::default() {
        return Err(NegativeReply::Inconsistent);
    }
    if !within(&agent.internal, internal) || !within(&agent.external, external) {
        return Err(NegativeReply::AddressSpaceUnavailable);
    }
    Ok(())
}

/// Request for which a pair of tuples is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PairPurpose {
    /// PER and PEA.
    Pass(Direction),
    /// PDR.
    Block,
}

/// Returns whether all addresses of the tuple are in one of the networks. No networks mean no
/// restriction.
fn within(networks: &[Network], tuple: &AddressTuple) -> bool {
    networks.is_empty()
        || match tuple.scope {
            Scope::ProtocolsOnly(_) => false,
            Scope::Full {
                address, prefix, ..
            } => networks.iter().any(|n| n.contains(address, prefix)),
        }
}

/// Checks that the protocol is supported. 0 is any, which exceeds a limited set.
pub(super) fn check_protocol(config: &MiddleboxConfig, protocol: u8) -> Result<(), NegativeReply> {
    if config.protocols.is_empty() || config.protocols.contains(&protocol) {
        Ok(())
    } else {
        Err(NegativeReply::ProtocolNotSupported)
    }
}

fn legal(tuple: &AddressTuple) -> Result<(), NegativeReply> {
    let Scope::Full {
        address,
        prefix,
        port,
        ports,
    } = tuple.scope
    else {
        return Ok(());
    };
    if prefix > IpVersion::of(address).bits() {
        return Err(NegativeReply::IllegalAddress);
    }
    let one_host = prefix == IpVersion::of(address).bits();
    if one_host && !may_be_forwarded_to(address) {
        return Err(NegativeReply::IllegalAddress);
    }
    // With a wildcard protocol or port, the number of ports has no effect.
    if tuple.protocol == 0 || port == 0 {
        return Ok(());
    }
    if !has_ports(tuple.protocol) {
        // The protocol has no ports.
        return Err(NegativeReply::IllegalPort);
    }
    if ports == 0 {
        return Err(NegativeReply::IllegalPortRange);
    }
    if port.checked_add(ports - 1).is_none() {
        return Err(NegativeReply::IllegalPort);
    }
    Ok(())
}

/// Returns whether an address is that of one host to which packets may be forwarded. Those to link-local
/// addresses may not (RFC 3927, section 7; RFC 4291, section 2.5.6).
fn may_be_forwarded_to(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !(link_local || address.is_multicast() || address.is_unspecified())
}

/// Returns the number of ports, if it has an effect.
fn ports(tuple: &AddressTuple) -> Option<u16> {
    match tuple.scope {
        Scope::Full { port, ports, .. } if port != 0 && tuple.protocol != 0 => Some(ports),
        Scope::Full { .. } | Scope::ProtocolsOnly(_) => None,
    }
}

fn wildcards(internal: &AddressTuple, external: &AddressTuple) -> Wildcards {
    let address = |tuple: &AddressTuple| match tuple.scope {
        Scope::ProtocolsOnly(_) => true,
        Scope::Full {
            address, prefix, ..
        } => prefix < IpVersion::of(address).bits(),
    };
    let port = |tuple: &AddressTuple| match tuple.scope {
        Scope::ProtocolsOnly(_) => tuple.protocol == 0 || has_ports(tuple.protocol),
        // A protocol without ports has no port wildcard.
        Scope::Full { port, .. } => port == 0 && has_ports(tuple.protocol),
    };
    // With all ports on one side and fewer on the other, each of the one could reach each of the
    // other.
    let crossed = matches!((ports(internal), ports(external)), (Some(a), Some(b)) if a != b);
    Wildcards {
        internal_address: address(internal),
        external_address: address(external),
        port: port(internal) || port(external) || crossed,
    }
}
