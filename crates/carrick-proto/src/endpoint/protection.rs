//! Packets of associations whose chunks are protected: opened before anything else looks at them, and
//! dropped where they should have been protected and are not.

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{COMMON_HEADER_LEN, Packet};

use super::Endpoint;
use crate::association::AssociationId;
use crate::protection::{ChunkProtection, PacketContext};
use crate::route::Route;
use crate::time::Time;

impl Endpoint {
    /// The protection of an association's chunks, where one is in force: the way to its keys. It is
    /// an [`core::any::Any`], to be made what it is with `downcast_mut`.
    pub fn chunk_protection(&mut self, id: AssociationId) -> Option<&mut dyn ChunkProtection> {
        self.registry.touch(id);
        let association = self.registry.get_mut(id)?;
        Some(&mut *association.protection.as_mut()?.hook)
    }

    /// Takes a packet where some association may have a protection.
    pub(super) fn take_guarded(
        &mut self,
        now: Time,
        route: &Route,
        packet: &Packet<'_>,
        datagram: &Bytes,
    ) {
        let header = packet.header();
        let Some(Ok(first)) = packet.chunks().next() else {
            return self.dispatch(now, route, packet, datagram);
        };
        let ours = header.destination_port == self.config.port;
        let (port, way) = (header.source_port, route.encapsulation);
        // An INIT has no tag: the way it came says whose it may be.
        let known = if header.tag.is_zero() {
            self.registry.find_way(route.remote, port, way)
        } else {
            let registry = &self.registry;
            registry.find_tagged(route.remote, port, header.tag, way)
        };
        // It may come from an address that the peer has just told, inside.
        let offer = self.accepted.protection.as_deref();
        let sealed = offer.is_some_and(|offer| offer.chunk_type() == first.kind);
        let known = known.or_else(|| {
            let by_tag = || self.registry.find_by_tag(header.tag, header.source_port);
            sealed.then(by_tag).flatten()
        });
        let association = known.and_then(|id| self.registry.get_mut(id));
        let protected = association.and_then(|a| a.protection.as_mut());
        let Some(protected) = protected.filter(|_| ours) else {
            return self.dispatch(now, route, packet, datagram);
        };
        if first.kind != protected.chunk_type {
            let admitted = |chunk: carrick_wire::RawChunk<'_>| protected.hook.admits(chunk.kind);
            if packet.chunks().flatten().all(admitted) {
                return self.dispatch(now, route, packet, datagram);
            }
            self.stats.unprotected += 1;
            return;
        }
        let context = PacketContext {
            now,
            header,
            route: *route,
        };
        let mut value = first.value.to_vec();
        if !protected.hook.unprotect(&context, first.flags, &mut value) {
            self.stats.forged_protection += 1;
            return;
        }
        let mut inner = Vec::with_capacity(COMMON_HEADER_LEN + value.len());
        inner.extend_from_slice(&packet.bytes()[..COMMON_HEADER_LEN]);
        inner.extend_from_slice(&value);
        let inner = Bytes::from(inner);
        match Packet::parse(&inner) {
            Ok(opened) => self.dispatch(now, route, &opened, &inner),
            Err(_) => self.stats.malformed += 1,
        }
    }
}
