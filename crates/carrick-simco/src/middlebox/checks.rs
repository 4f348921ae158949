//! The checks that PER, PEA and PDR requests have in common (RFC 4540 sections 8.3.1, 8.4.1, 8.8.2).

use super::config::MiddleboxConfig;
use crate::message::{AddressTuple, IpVersion, Location, NegativeReply, Scope};

/// Which wildcards a pair of tuples has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Wildcards {
    internal_address: bool,
    external_address: bool,
    port: bool,
}

/// Locations, protocols and port ranges of the two tuples fit together, every field is legal, the
/// middlebox knows the protocol, the IP versions and the wildcards. For a stream that may pass both
/// ways, `both_ways`, no wildcard but the protocol is allowed.
pub(super) fn check_tuples(
    config: &MiddleboxConfig,
    internal: &AddressTuple,
    external: &AddressTuple,
    both_ways: bool,
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
    check_protocol(config, internal.protocol)?;
    let wildcards = wildcards(internal, external);
    if (wildcards.internal_address && !capabilities.internal_address_wildcards)
        || (wildcards.external_address && !capabilities.external_address_wildcards)
        || ((wildcards.port || internal.protocol == 0) && !capabilities.port_wildcards)
    {
        return Err(NegativeReply::WildcardingNotSupported);
    }
    if both_ways && wildcards != Wildcards::default() {
        return Err(NegativeReply::Inconsistent);
    }
    Ok(())
}

/// The middlebox knows the transport protocol; 0 is any.
pub(super) fn check_protocol(config: &MiddleboxConfig, protocol: u8) -> Result<(), NegativeReply> {
    if protocol == 0 || config.protocols.is_empty() || config.protocols.contains(&protocol) {
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
        _ => None,
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
        Scope::ProtocolsOnly(_) => true,
        Scope::Full { port, .. } => port == 0 && tuple.protocol != 0,
    };
    Wildcards {
        internal_address: address(internal),
        external_address: address(external),
        port: port(internal) || port(external),
    }
}
