//! Packets with protected chunks: they are opened before they are dispatched; packets without the
//! protection that their association requires are discarded.

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{COMMON_HEADER_LEN, ChunkType, CommonHeader, Packet};

use super::{AssociationMut, Endpoint};
use crate::association::Association;
use crate::ids::AssociationId;
use crate::protection::ChunkProtection;
use crate::route::Route;
use crate::time::Time;

impl AssociationMut<'_> {
    /// Returns the chunk protection in force, as [`Endpoint::chunk_protection`] does. Messages of its key management
    /// are sent after the update.
    pub fn chunk_protection(&mut self) -> Option<&mut dyn ChunkProtection> {
        let (association, _) = self.parts().ok()?;
        Some(association.protection_mut()?.implementation())
    }
}

impl Endpoint {
    /// Returns the chunk protection in force for an association, for instance to set its keys. The
    /// concrete type is reached with `downcast_mut` of [`core::any::Any`]. For a change after which its key management
    /// has messages, see [`AssociationMut::chunk_protection`].
    pub fn chunk_protection(&mut self, id: AssociationId) -> Option<&mut dyn ChunkProtection> {
        self.registry.refresh(id);
        let association = self.registry.get_mut(id)?;
        Some(association.protection_mut()?.implementation())
    }

    /// Removes the protection of the chunks of a packet and dispatches it.
    ///
    /// 1. Find the association whose protection may open the packet.
    /// 2. Dispatch a packet in the clear as it is; [`Self::check_protection`] follows once its
    ///    association is known.
    /// 3. Open the chunk; discard and count a packet that is forged or replayed, or that has another chunk
    ///    (draft-ietf-tsvwg-sctp-dtls-chunk, section 5.2).
    /// 4. Dispatch the packet with the chunks that were inside.
    pub(super) fn handle_protected_packet(
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
        // Step 1.
        let found = self.find_protecting_association(route, header);
        let association = found.and_then(|id| self.registry.get_mut(id));
        let protected = association.and_then(Association::protection_mut);
        // Step 2.
        let Some(protected) = protected.filter(|p| p.is_protected(first)) else {
            return self.dispatch(now, route, packet, datagram, None);
        };
        // Step 3.
        let is_alone = packet.chunks().nth(1).is_none();
        let opened = is_alone.then(|| protected.open(first, header, route, now));
        let Some(value) = opened.flatten() else {
            self.stats.forged_protection += 1;
            return;
        };
        // Step 4.
        let mut inner = Vec::with_capacity(COMMON_HEADER_LEN + value.len());
        inner.extend_from_slice(&packet.bytes()[..COMMON_HEADER_LEN]);
        inner.extend_from_slice(&value);
        let inner = Bytes::from(inner);
        match Packet::parse(&inner) {
            Ok(opened) => self.dispatch(now, route, &opened, &inner, found),
            Err(_) => self.stats.malformed += 1,
        }
    }

    /// Returns the association whose protection may open a packet: the one with its tag, even if the
    /// source address is new and its ASCONF is inside the protection; or else one at the source address,
    /// since a restarting peer has the keys but not the tag.
    fn find_protecting_association(
        &self,
        route: &Route,
        header: CommonHeader,
    ) -> Option<AssociationId> {
        let (port, tag, encapsulation) = (header.source_port, header.tag, route.encapsulation);
        let registry = &self.registry;
        let here = if tag.is_zero() {
            registry.find_confirmed(route.remote, port, encapsulation)
        } else {
            registry.find_by_address_and_tag(route.remote, port, tag, encapsulation)
        };
        let has_tag = |id: &AssociationId| registry.get(*id).is_some_and(|a| a.local_tag() == tag);
        let own = here.filter(has_tag);
        own.or_else(|| registry.find_protected(tag, port)).or(here)
    }

    /// Returns whether the association accepts the packet: its protection has opened the packet or admits
    /// all of its chunks in the clear. Counts a packet that is refused.
    pub(super) fn check_protection(
        &mut self,
        id: AssociationId,
        packet: &Packet<'_>,
        opened_by: Option<AssociationId>,
    ) -> bool {
        self.check_chunk_protection(id, packet.chunks().flatten().map(|c| c.kind), opened_by)
    }

    /// Returns whether the association accepts a packet that consists of an INIT.
    pub(super) fn check_init_protection(
        &mut self,
        id: AssociationId,
        opened_by: Option<AssociationId>,
    ) -> bool {
        self.check_chunk_protection(id, core::iter::once(ChunkType::INIT), opened_by)
    }

    fn check_chunk_protection(
        &mut self,
        id: AssociationId,
        kinds: impl Iterator<Item = ChunkType>,
        opened_by: Option<AssociationId>,
    ) -> bool {
        if !self.uses_protection || opened_by == Some(id) {
            return true;
        }
        let association = self.registry.get_mut(id);
        let Some(protected) = association.and_then(Association::protection_mut) else {
            return true;
        };
        let admitted = protected.admits(kinds);
        self.stats.unprotected += u64::from(!admitted);
        admitted
    }
}
