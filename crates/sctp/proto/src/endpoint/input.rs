//! Demultiplexing of received packets to associations, and verification tag rules (RFC 9260,
//! sections 6.8, 8.5 and 8.5.1).

use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::{Chunk, ChunkType, Packet, ParseError, RawChunk, VerificationTag};

use super::Endpoint;
use super::out_of_the_blue::is_unicast;
use crate::association::{PacketFront, ip_addresses};
use crate::ids::AssociationId;
use crate::route::Route;
use crate::time::Time;

/// T bit of ABORT and SHUTDOWN COMPLETE.
const T_BIT: u8 = 1;

/// Limit of addresses of an INIT ACK by which its association is looked up.
pub(super) const MAX_LOOKUPS: usize = 255;

/// Packets that arrive together: what depends on the state of an association is updated once for all of its
/// consecutive packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum PacketRun {
    /// Packets arrive one by one.
    #[default]
    Single,
    /// Packets arrive together, and all associations are up to date.
    Batch,
    /// Packets arrive together, and this association is to be updated.
    Of(AssociationId),
}

impl Endpoint {
    /// Processes datagrams that arrived together at `now` on `route`, as receive offload returns them. Has the effects
    /// of [`Self::handle_datagram`] for each of them, and takes less time; events are queued behind the last one.
    pub fn handle_datagrams(
        &mut self,
        now: Time,
        route: &Route,
        datagrams: impl IntoIterator<Item = Bytes>,
    ) {
        self.run = PacketRun::Batch;
        for datagram in datagrams {
            self.handle_datagram(now, route, datagram);
        }
        self.end_run(now);
        self.run = PacketRun::Single;
    }

    /// Updates what depends on the association of the last packets.
    fn end_run(&mut self, now: Time) {
        if let PacketRun::Of(id) = self.run {
            self.run = PacketRun::Batch;
            self.finish_update(now, id);
        }
    }

    /// Passes a packet to the association of the packet before it, if the two came together and only their data and
    /// acknowledgements differ. Returns whether it did.
    fn continue_run(
        &mut self,
        now: Time,
        route: &Route,
        packet: &Packet<'_>,
        datagram: &Bytes,
    ) -> bool {
        let PacketRun::Of(id) = self.run else {
            return false;
        };
        let (port, header) = (self.config.port, packet.header());
        let (registry, mut cx) = self.registry_and_context(now);
        if let Some(association) = registry.get_mut(id)
            && header.tag == association.local_tag()
            && (header.source_port, header.destination_port) == (association.peer_port(), port)
            && !association.state().is_closed()
            && is_of_run(packet)
        {
            let front = PacketFront::default();
            association.handle_packet(route, packet, datagram, front, &mut cx);
            return true;
        }
        self.end_run(now);
        false
    }

    /// Processes a datagram that arrived at `now` on `route`. Faults of the datagram are counted in
    /// [`Self::stats`] and answered as RFC 9260 requires; they are no errors of the caller.
    ///
    /// 1. Parse the common header and check the length (section 3).
    /// 2. Verify the checksum (section 6.8); a zero checksum may stand for it (RFC 9653, section 5.3).
    /// 3. Remove the protection of the chunks, if any association uses one.
    /// 4. Dispatch the packet by its first chunk: to the handler of INIT (section 5.1 B) or of COOKIE
    ///    ECHO (sections 5.1 D, 5.2.4), to its association (section 8.5), or out of the blue
    ///    (section 8.4).
    #[expect(clippy::needless_pass_by_value, reason = "messages are slices of it")]
    pub fn handle_datagram(&mut self, now: Time, route: &Route, datagram: Bytes) {
        self.stats.datagrams_received += 1;
        // Step 1.
        let Ok(packet) = Packet::parse(&datagram) else {
            self.stats.malformed += 1;
            return;
        };
        // Step 2.
        let zero_accepted = packet.checksum_is_zero() && self.accepts_zero_checksum(&packet, route);
        if !zero_accepted && !packet.checksum_is_valid() {
            self.stats.bad_checksum += 1;
            return;
        }
        // Step 3.
        if self.uses_protection {
            return self.handle_protected_packet(now, route, &packet, &datagram);
        }
        // Step 4.
        if !self.continue_run(now, route, &packet, &datagram) {
            self.dispatch(now, route, &packet, &datagram, None);
        }
    }

    /// Dispatches a packet with a verified checksum by its first chunk. `opened_by` is the association
    /// whose chunk protection has opened the packet.
    pub(super) fn dispatch(
        &mut self,
        now: Time,
        route: &Route,
        packet: &Packet<'_>,
        datagram: &Bytes,
        opened_by: Option<AssociationId>,
    ) {
        if packet.header().destination_port != self.config.port {
            return self.handle_out_of_the_blue(route, packet);
        }
        let Some(Ok(first)) = leading_chunk(packet) else {
            self.stats.malformed += 1;
            return;
        };
        match first.kind {
            // RFC 9260, section 8.4, rule 1: nothing is sent to or from a non-unicast address.
            ChunkType::INIT | ChunkType::COOKIE_ECHO if !is_unicast(route) => {
                self.handle_out_of_the_blue(route, packet)
            }
            ChunkType::INIT => self.handle_init_packet(now, route, packet, first, opened_by),
            ChunkType::COOKIE_ECHO => match Chunk::parse(first) {
                Ok(Chunk::CookieEcho(echo)) => {
                    self.handle_cookie_echo(now, route, packet, &echo, datagram, opened_by)
                }
                _ => self.stats.malformed += 1,
            },
            _ => self.handle_association_packet(now, route, packet, first, datagram, opened_by),
        }
    }

    /// Checks the form of an INIT: alone in its packet, with a verification tag of zero. Any other is discarded
    /// (RFC 9260, section 12.3, which restricts rule 8 of section 8.4).
    fn handle_init_packet(
        &mut self,
        now: Time,
        route: &Route,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
        opened_by: Option<AssociationId>,
    ) {
        let alone = packet.chunks().nth(1).is_none();
        match Chunk::parse(first) {
            Ok(Chunk::Init(init)) if alone && packet.header().tag.is_zero() => {
                let len = packet.bytes().len();
                self.handle_init(now, route, (packet.header(), len), &init, opened_by);
            }
            Ok(_) => self.stats.wrong_tag += 1,
            Err(_) => self.stats.malformed += 1,
        }
    }

    /// Processes a packet that starts neither with INIT nor with COOKIE ECHO.
    ///
    /// 1. Discard a packet with tag zero, which only an INIT may have (RFC 9260, section 8.5.1 A).
    /// 2. Find the association. Without one, or with a closed one, the packet is out of the blue
    ///    (section 8.4), and so is a SHUTDOWN ACK during set-up (section 8.5.1 E).
    /// 3. Verify the tag: the local tag, or with the T bit the peer's (sections 8.5 and 8.5.1 B, C).
    /// 4. Check that the chunks are protected as required.
    /// 5. Pass the chunks to the association; of a packet with a reflected tag, the first one alone.
    fn handle_association_packet(
        &mut self,
        now: Time,
        route: &Route,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
        datagram: &Bytes,
        opened_by: Option<AssociationId>,
    ) {
        // Step 1.
        if packet.header().tag.is_zero() {
            self.stats.wrong_tag += 1;
            return;
        }
        // Step 2.
        let Some(id) = self.find_association(route, packet, first) else {
            return self.handle_out_of_the_blue(route, packet);
        };
        let Some(association) = self.registry.get(id) else {
            return;
        };
        let (local, peer) = (association.local_tag(), association.peer_tag());
        let setting_up = association.state().is_setup();
        if association.state().is_closed() {
            return self.handle_out_of_the_blue(route, packet);
        }
        if first.kind == ChunkType::SHUTDOWN_ACK && setting_up {
            // From an earlier association.
            return self.handle_out_of_the_blue(route, packet);
        }
        // Step 3.
        if !verification_tag_is_valid(packet, first, local, peer) {
            self.stats.wrong_tag += 1;
            return;
        }
        // Step 4.
        if !self.check_protection(id, packet, opened_by) {
            return;
        }
        let front = PacketFront {
            protected: opened_by == Some(id),
            ..PacketFront::default()
        };
        // Step 5.
        if reflects_tag(&first) {
            // A reflected tag authorizes this chunk only. An ABORT may answer a packet that left before
            // its source address was deleted, or before the peer knew that address (RFC 5061,
            // section 5.3.1): it is discarded.
            self.update_association(now, id, |association, cx| {
                let in_transition = association.is_being_deleted(route.local)
                    || association.is_being_added(route.local);
                if first.kind != ChunkType::ABORT || !in_transition {
                    association.handle_reflected(first, cx);
                }
            });
        } else if first.kind == ChunkType::INIT_ACK {
            self.handle_init_ack(now, id, route, packet, datagram);
        } else if self.run == PacketRun::Batch && is_of_run(packet) {
            self.registry.limit_receiver(id, self.config.receive_memory);
            let (registry, mut cx) = self.registry_and_context(now);
            if let Some(association) = registry.get_mut(id) {
                association.handle_packet(route, packet, datagram, front, &mut cx);
            }
            self.run = PacketRun::Of(id);
        } else {
            self.update_association(now, id, |association, cx| {
                association.handle_packet(route, packet, datagram, front, cx)
            });
        }
    }

    /// Returns the association to which a packet may belong, in this order:
    ///
    /// 1. the one with its tag at the source address, also if other peers claim that address so often that
    ///    the index of addresses leaves it out;
    /// 2. the one with its tag that addresses in an INIT ACK or ASCONF identify, since another peer may
    ///    have claimed the source address;
    /// 3. one at the source address without the tag, if that address is confirmed or the chunk may
    ///    reflect the peer's tag (RFC 9260, section 8.5.1);
    /// 4. one that addresses in the packet identify, without the tag.
    fn find_association(
        &self,
        route: &Route,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
    ) -> Option<AssociationId> {
        let header = packet.header();
        let (port, tag) = (header.source_port, header.tag);
        let has_tag = |id: &AssociationId| self.has_tag(*id, tag);
        let at_source =
            self.registry
                .find_by_address_and_tag(route.remote, port, tag, route.encapsulation);
        if at_source.is_some_and(|id| has_tag(&id)) {
            return at_source;
        }
        let named = self
            .find_by_init_ack(route, packet, first)
            .or_else(|| self.find_by_asconf(route, packet, first));
        let is_theirs = |id: &AssociationId| {
            let association = self.registry.get(*id);
            reflects_tag(&first)
                || association.is_some_and(|a| a.path_set().is_confirmed(route.remote))
        };
        let tagged = named.filter(has_tag);
        tagged.or(at_source.filter(is_theirs)).or(named)
    }

    /// Returns whether this is the local tag of the association.
    fn has_tag(&self, id: AssociationId, tag: VerificationTag) -> bool {
        self.registry.get(id).is_some_and(|a| a.local_tag() == tag)
    }

    /// Passes an INIT ACK to its association and updates the index by the addresses in it. Ends the set-up if its
    /// peer has another association with this endpoint.
    fn handle_init_ack(
        &mut self,
        now: Time,
        id: AssociationId,
        route: &Route,
        packet: &Packet<'_>,
        datagram: &Bytes,
    ) {
        // INIT ACK is alone in its packet (RFC 9260, section 3).
        if packet.chunks().nth(1).is_some() {
            self.stats.malformed += 1;
            return;
        }
        if let Some(Ok(raw)) = leading_chunk(packet)
            && let Ok(Chunk::InitAck(init)) = Chunk::parse(raw)
            && self.has_same_peer(id, route, &init)
        {
            return self.end_duplicate(now, id);
        }
        let Some(association) = self.registry.get(id) else {
            return;
        };
        let before: alloc::vec::Vec<_> = association.path_set().remotes().collect();
        self.update_association(now, id, |association, cx| {
            association.handle_packet(route, packet, datagram, PacketFront::default(), cx)
        });
        self.registry.reindex(&before, id);
    }

    /// Finds the association of an ASCONF from an unknown source address: by the address parameter in
    /// it, or by the verification tag if wildcard addresses are accepted (RFC 5061, section 5.2,
    /// rules D2 and D2-ext).
    fn find_by_asconf(
        &self,
        route: &Route,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
    ) -> Option<AssociationId> {
        if first.kind != ChunkType::ASCONF {
            return None;
        }
        let port = packet.header().source_port;
        let asconfs = packet.chunks().flatten().take(4);
        let lookup = asconfs.filter_map(|raw| match Chunk::parse(raw) {
            Ok(Chunk::Asconf(asconf)) => Some(asconf.address),
            _ => None,
        });
        let mut wildcard = false;
        for address in lookup {
            wildcard |= address.is_unspecified();
            let (tag, encapsulation) = (packet.header().tag, route.encapsulation);
            let found = self
                .registry
                .find_by_address_and_tag(address, port, tag, encapsulation);
            if found.is_some() {
                return found;
            }
        }
        let tagged = wildcard && self.accepted.finds_by_tag();
        tagged.then(|| self.registry.find_by_tag(packet.header().tag, port))?
    }

    /// Finds the association of an INIT ACK from an unknown source address by the addresses in it
    /// (RFC 9260, section 5.1.2 D).
    fn find_by_init_ack(
        &self,
        route: &Route,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
    ) -> Option<AssociationId> {
        if first.kind != ChunkType::INIT_ACK {
            return None;
        }
        let Ok(Chunk::InitAck(init)) = Chunk::parse(first) else {
            return None;
        };
        if self.accepted.paths.ignore_peer_addresses {
            return None;
        }
        let header = packet.header();
        let (port, encapsulation) = (header.source_port, route.encapsulation);
        // The other parameters are checked later, against the association.
        let addresses = ip_addresses(init.parameters());
        let registry = &self.registry;
        let of_address =
            |a: IpAddr| registry.find_by_address_and_tag(a, port, header.tag, encapsulation);
        let mut found = addresses.take(MAX_LOOKUPS).filter_map(of_address);
        let first = found.next()?;
        let mut all = core::iter::once(first).chain(found);
        all.find(|id| self.has_tag(*id, header.tag)).or(Some(first))
    }
}

/// Returns the first chunk, or the one behind an AUTH chunk (RFC 4895, section 6.3).
pub(super) fn leading_chunk<'a>(packet: &Packet<'a>) -> Option<Result<RawChunk<'a>, ParseError>> {
    let mut chunks = packet.chunks();
    let first = chunks.next()?;
    match first {
        Ok(RawChunk {
            kind: ChunkType::AUTH,
            ..
        }) => Some(chunks.next().unwrap_or(first)),
        _ => Some(first),
    }
}

/// Returns whether the packet has the local tag, or the peer's tag if its first chunk is an ABORT or
/// SHUTDOWN COMPLETE with the T bit (RFC 9260, sections 8.5 and 8.5.1 B, C).
fn verification_tag_is_valid(
    packet: &Packet<'_>,
    first: RawChunk<'_>,
    local: VerificationTag,
    peer: VerificationTag,
) -> bool {
    let tag = packet.header().tag;
    if reflects_tag(&first) {
        return !peer.is_zero() && tag == peer;
    }
    if tag != local {
        return false;
    }
    // An ABORT behind other chunks has its own rule: with the T bit, the local tag is wrong.
    !packet
        .chunks()
        .skip(1)
        .flatten()
        .any(|chunk| reflects_tag(&chunk))
}

/// Returns whether the packet has DATA and SACK chunks alone, so that no chunk has a rule for the packet's
/// tag or addresses.
fn is_of_run(packet: &Packet<'_>) -> bool {
    packet.chunks().all(|chunk| {
        chunk.is_ok_and(|chunk| {
            matches!(
                chunk.kind,
                ChunkType::DATA | ChunkType::I_DATA | ChunkType::SACK | ChunkType::NR_SACK
            )
        })
    })
}

/// Returns whether the chunk has the T bit: its packet carries the tag of the receiver's peer.
pub(super) fn reflects_tag(chunk: &RawChunk<'_>) -> bool {
    matches!(chunk.kind, ChunkType::ABORT | ChunkType::SHUTDOWN_COMPLETE)
        && chunk.flags & T_BIT != 0
}
