//! The checks that PER, PEA and PDR requests have in common (RFC 4540 sections 8.3.1, 8.4.1, 8.8.2).

use super::config::{AgentConfig, MiddleboxConfig, Network};
use crate::backend::has_ports;
use crate::message::{AddressTuple, Direction, IpVersion, Location, NegativeReply, Scope};

/// Which wildcards a pair of tuples has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Wildcards {
    internal_address: bool,
    external_address: bool,
    port: bool,
}

/// Locations, protocols and port ranges of the two tuples fit together, every field is legal, the
/// middlebox knows the protocol, the IP versions and the wildcards, and the agent may use them. For a
/// stream that may pass both ways no wildcard but the protocol is allowed. What only blocks may have
/// wildcards that nothing may be let pass by.
pub(super) fn check_tuples(
    config: &MiddleboxConfig,
    agent: &AgentConfig,
    internal: &AddressTuple,
    external: &AddressTuple,
    purpose: Purpose,
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
    let blocks = purpose == Purpose::Block;
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
    if purpose == Purpose::Pass(Direction::Both) && wildcards != Wildcards::default() {
        return Err(NegativeReply::Inconsistent);
    }
    if !within(&agent.internal, internal) || !within(&agent.external, external) {
        return Err(NegativeReply::AddressSpaceUnavailable);
    }
    Ok(())
}

/// What a pair of tuples is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// PER and PEA.
    Pass(Direction),
    /// PDR.
    Block,
}

/// All addresses of the tuple are in one of the networks; without any, everywhere.
fn within(networks: &[Network], tuple: &AddressTuple) -> bool {
    networks.is_empty()
        || match tuple.scope {
            Scope::ProtocolsOnly(_) => false,
            Scope::Full {
                address, prefix, ..
            } => networks.iter().any(|n| n.contains(address, prefix)),
        }
}

/// The middlebox knows the transport protocol. 0 is any, and more than a limited set.
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
    if one_host && (address.is_multicast() || address.is_unspecified()) {
        return Err(NegativeReply::IllegalAddress);
    }
    // Where the protocol or the port is a wildcard, the number of ports doesn't count.
    if tuple.protocol == 0 || port == 0 {
        return Ok(());
    }
    if !has_ports(tuple.protocol) {
        // There is none that it could be.
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

/// The number of ports, where it counts.
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
        // A protocol without ports has none to leave open.
        Scope::Full { port, .. } => port == 0 && has_ports(tuple.protocol),
    };
    // One side with all its ports, and the other with fewer: each of these would pass to each of those.
    let crossed = matches!((ports(internal), ports(external)), (Some(a), Some(b)) if a != b);
    Wildcards {
        internal_address: address(internal),
        external_address: address(external),
        port: port(internal) || port(external) || crossed,
    }
}
