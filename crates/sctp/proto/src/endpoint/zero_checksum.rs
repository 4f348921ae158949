//! Packets with a zero checksum (RFC 9653).

use carrick_wire::{ChunkType, Packet, RawChunk};

use super::Endpoint;
use super::input::leading_chunk;
use crate::route::Route;

impl Endpoint {
    /// Returns whether a packet with a zero checksum is accepted (RFC 9653, section 5.3): the
    /// association to which it may belong has negotiated an error detection method of the lower layer.
    /// Without an association the parameters of the endpoint decide, so that packets of an association
    /// that no longer exists are answered.
    pub(super) fn accepts_zero_checksum(&self, packet: &Packet<'_>, route: &Route) -> bool {
        let header = packet.header();
        let found = self.registry.find_by_address_and_tag(
            route.remote,
            header.source_port,
            header.tag,
            route.encapsulation,
        );
        let config = match found.and_then(|id| self.registry.get(id)) {
            Some(association) => association.config(),
            // Its association is found by addresses in the packet, which the checksum has to cover.
            None if carries_lookup_address(packet) => return false,
            None => &self.config.association,
        };
        config.takes_zero_checksum(packet)
    }
}

/// Returns whether addresses in the packet may identify its association.
fn carries_lookup_address(packet: &Packet<'_>) -> bool {
    let carries = |raw: RawChunk<'_>| matches!(raw.kind, ChunkType::ASCONF | ChunkType::INIT_ACK);
    matches!(leading_chunk(packet), Some(Ok(raw)) if carries(raw))
}
