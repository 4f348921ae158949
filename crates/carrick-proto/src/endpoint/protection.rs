//! Packets of associations whose chunks are protected: opened before anything else looks at them, and
//! dropped where they should have been protected and are not.

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{COMMON_HEADER_LEN, ChunkType, CommonHeader, Packet};

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

    /// Takes a packet where some association may have a protection. What is in the clear is judged
    /// when it is known which association it is for.
    pub(super) fn take_guarded(
        &mut self,
        now: Time,
        route: &Route,
        packet: &Packet<'_>,
        datagram: &Bytes,
    ) {
        let header = packet.header();
        let ours = header.destination_port == self.config.port;
        let Some(Ok(first)) = packet.chunks().next().filter(|_| ours) else {
            return self.dispatch(now, route, packet, datagram, None);
        };
        let known = self.find_by_seal(route, header);
        let association = known.and_then(|id| self.registry.get_mut(id));
        let protected = association.and_then(|a| a.protection.as_mut());
        let Some(protected) = protected.filter(|p| p.chunk_type == first.kind) else {
            return self.dispatch(now, route, packet, datagram, None);
        };
        let context = PacketContext {
            now,
            header,
            route: *route,
        };
        let mut value = first.value.to_vec();
        if !protected.hook.unprotect(&context, first.flags, &mut value) {
            protected.stats.forged += 1;
            self.stats.forged_protection += 1;
            return;
        }
        protected.stats.opened += 1;
        let mut inner = Vec::with_capacity(COMMON_HEADER_LEN + value.len());
        inner.extend_from_slice(&packet.bytes()[..COMMON_HEADER_LEN]);
        inner.extend_from_slice(&value);
        let inner = Bytes::from(inner);
        match Packet::parse(&inner) {
            Ok(opened) => self.dispatch(now, route, &opened, &inner, known),
            Err(_) => self.stats.malformed += 1,
        }
    }

    /// Whose protection may open a packet: the one with its tag, also where the peer has just told
    /// the address that it comes from, inside. A peer that restarts has no such tag, but the key.
    fn find_by_seal(&self, route: &Route, header: CommonHeader) -> Option<AssociationId> {
        let (port, tag, way) = (header.source_port, header.tag, route.encapsulation);
        let registry = &self.registry;
        let here = if tag.is_zero() {
            registry.find_confirmed(route.remote, port, way)
        } else {
            registry.find_tagged(route.remote, port, tag, way)
        };
        let has_tag = |id: &AssociationId| registry.get(*id).is_some_and(|a| a.local_tag == tag);
        let own = here.filter(has_tag);
        own.or_else(|| registry.find_protected(tag, port)).or(here)
    }

    /// Whether an association takes the packet: its protection has opened it, or lets all of its chunks
    /// through in the clear. If not, it is counted.
    pub(super) fn may_take(
        &mut self,
        id: AssociationId,
        packet: &Packet<'_>,
        opened: Option<AssociationId>,
    ) -> bool {
        self.may_take_chunks(id, packet.chunks().flatten().map(|c| c.kind), opened)
    }

    /// The same for a lone INIT.
    pub(super) fn may_take_init(
        &mut self,
        id: AssociationId,
        opened: Option<AssociationId>,
    ) -> bool {
        self.may_take_chunks(id, core::iter::once(ChunkType::INIT), opened)
    }

    fn may_take_chunks(
        &mut self,
        id: AssociationId,
        mut kinds: impl Iterator<Item = ChunkType>,
        opened: Option<AssociationId>,
    ) -> bool {
        if !self.protects || opened == Some(id) {
            return true;
        }
        let association = self.registry.get_mut(id);
        let Some(protected) = association.and_then(|a| a.protection.as_mut()) else {
            return true;
        };
        let admitted = kinds.all(|kind| protected.hook.admits(kind));
        let refused = u64::from(!admitted);
        protected.stats.refused_clear += refused;
        self.stats.unprotected += refused;
        admitted
    }
}
