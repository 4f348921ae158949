//! Parameters of endpoints, and the parts of an import that are code.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use super::Shard;
use crate::cc::Algorithm;
use crate::config::AssociationConfig;
use crate::error::ConfigError;
use crate::export::{ImportParts, SharedValues};
use crate::protection::ChunkProtectionOffer;
use crate::route::{MatchingAddress, SourceSelection};

/// Parameters of an endpoint.
#[derive(Debug)]
pub struct EndpointConfig {
    /// SCTP port of the endpoint, 1 to 65535.
    pub port: u16,
    /// Local addresses of the endpoint. INIT and INIT ACK advertise those that the peer can use:
    /// loopback addresses only to a loopback address, link-local ones only to a link-local or loopback
    /// address, and only families that the peer supports (RFC 9260, section 5.1.2). If that leaves the
    /// source address of the packet alone, no address is advertised, so that the association works
    /// through address translation; with several addresses, see [`PathConfig::wildcard_addresses`](crate::PathConfig::wildcard_addresses).
    pub local_addresses: Vec<IpAddr>,
    /// Seed of all randomness: tags, initial TSNs, nonces, secrets and jitter. On a real network it must
    /// come from the operating system's random number generator.
    pub seed: [u8; 32],
    /// Accepts associations that peers initiate. If `false`, INIT is answered with ABORT. Default: `true`.
    pub accept: bool,
    /// Limit of simultaneous associations. Further ones are refused with the error cause "Out of
    /// Resource". Default: 8,192.
    pub max_associations: usize,
    /// Limit of simultaneous associations that peers at one source have initiated; further ones are
    /// refused with the error cause "Out of Resource". A source is an IPv4 address or the /64 network of
    /// an IPv6 address, taken from the packet that returned the cookie. Raise it if many peers are
    /// behind one address, such as a translator or gateway. `None`, the default, means an eighth of
    /// `max_associations`, at least 16.
    pub max_associations_per_source: Option<usize>,
    /// Memory in bytes for the received data of all associations and the state of their inbound streams,
    /// counted as for [`BufferConfig::receive_buffer`](crate::BufferConfig::receive_buffer). A source, as in `max_associations_per_source`,
    /// may use as much of it as is still free, so a single source leaves half of it to others. Every
    /// association may hold 4 KiB regardless. Beyond these limits data is dropped without being
    /// acknowledged; the advertised window closes before. Default: 64 MiB.
    pub receive_memory: usize,
    /// Time after which the secret key of State Cookies is replaced. The previous key remains valid for
    /// one more period. Default: one hour.
    pub secret_lifetime: Duration,
    /// Parameters of associations that peers initiate. Default: [`AssociationConfig::rfc9260`].
    pub association: AssociationConfig,
    /// Source address selection. Default: [`MatchingAddress`].
    pub source_selection: Box<dyn SourceSelection>,
    /// Place among the endpoints that divide the associations of one port and its addresses among them.
    /// `max_associations` and `max_associations_per_source` are then limits of all shards, and `receive_memory`
    /// is that of this shard. An export has no shard. Default: `None`.
    pub shard: Option<Shard>,
}

impl EndpointConfig {
    /// Returns the default parameters for an endpoint on `port` with these local addresses.
    pub fn new(port: u16, local_addresses: Vec<IpAddr>, seed: [u8; 32]) -> Self {
        Self {
            port,
            local_addresses,
            seed,
            accept: true,
            max_associations: 1 << 13,
            max_associations_per_source: None,
            receive_memory: 64 << 20,
            secret_lifetime: Duration::from_secs(3600),
            association: AssociationConfig::rfc9260(),
            source_selection: Box::new(MatchingAddress),
            shard: None,
        }
    }

    /// Returns the limit of associations that peers at one source may initiate.
    pub(crate) fn per_source(&self) -> usize {
        let fraction = (self.max_associations / 8).max(16);
        self.max_associations_per_source.unwrap_or(fraction)
    }

    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// Returns the first parameter that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.port == 0 {
            return Err(ConfigError("port: must be 1 to 65535"));
        }
        self.shard.as_ref().map_or(Ok(()), Shard::validate)?;
        self.association.validate()
    }
}

/// Parts of a configuration that are code, which the export of an endpoint ([`Endpoint::export`](crate::Endpoint::export)) refers to
/// but does not contain.
#[derive(Debug)]
pub struct ImportConfig {
    /// Source address selection of the endpoint. Default: [`MatchingAddress`].
    pub source_selection: Box<dyn SourceSelection>,
    /// Algorithms of congestion control besides [`cc::algorithms`](crate::cc::algorithms), found by their names. Default: none.
    pub algorithms: Vec<Arc<dyn Algorithm>>,
    /// Chunk protections, found by the type of their parameter. Default: none.
    pub protections: Vec<Arc<dyn ChunkProtectionOffer>>,
}

impl Default for ImportConfig {
    fn default() -> Self {
        Self {
            source_selection: Box::new(MatchingAddress),
            algorithms: Vec::new(),
            protections: Vec::new(),
        }
    }
}

impl ImportParts for ImportConfig {
    fn share(&self, values: &mut SharedValues) {
        values.set(self.algorithms.clone());
        values.set(self.protections.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_zero_is_invalid() {
        let config = EndpointConfig::new(0, Vec::new(), [0; 32]);
        assert!(config.validate().is_err());
    }
}
