//! Which association a packet belongs to, and whether its verification tag is right (RFC 9260
//! sections 6.8, 8.5).

use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::{Chunk, ChunkType, Packet, Parameter, ParseError, RawChunk, VerificationTag};

use super::Endpoint;
use super::out_of_the_blue::is_unicast;
use crate::association::AssociationId;
use crate::route::Route;
use crate::time::Time;

/// The T bit of ABORT and SHUTDOWN COMPLETE.
const T_BIT: u8 = 1;

/// Addresses of an INIT ACK by which its association is looked up, at most.
const MAX_LOOKUPS: usize = 255;

impl Endpoint {
    /// Takes a datagram that arrived at `now` on `route`. Anything wrong with it is counted in
    /// [`Self::stats`] and answered as RFC 9260 says; nothing is an error for the caller.
    #[expect(clippy::needless_pass_by_value, reason = "messages are slices of it")]
    pub fn handle_datagram(&mut self, now: Time, route: &Route, datagram: Bytes) {
        self.stats.datagrams_received += 1;
        let Ok(packet) = Packet::parse(&datagram) else {
            self.stats.malformed += 1;
            return;
        };
        if !self.is_intact(&packet, route) {
            self.stats.bad_checksum += 1;
            return;
        }
        if self.protects {
            return self.take_guarded(now, route, &packet, &datagram);
        }
        self.dispatch(now, route, &packet, &datagram, None);
    }

    /// Takes a packet that is what it seems; `opened` names the association whose protection has
    /// opened it.
    pub(super) fn dispatch(
        &mut self,
        now: Time,
        route: &Route,
        packet: &Packet<'_>,
        datagram: &Bytes,
        opened: Option<AssociationId>,
    ) {
        if packet.header().destination_port != self.config.port {
            return self.out_of_the_blue(route, packet);
        }
        let Some(Ok(first)) = leading(packet) else {
            self.stats.malformed += 1;
            return;
        };
        match first.kind {
            // Section 8.4, rule 1: neither would be answered.
            ChunkType::INIT | ChunkType::COOKIE_ECHO if !is_unicast(route) => {
                self.out_of_the_blue(route, packet)
            }
            ChunkType::INIT => self.take_init(now, route, packet, first, opened),
            ChunkType::COOKIE_ECHO => match Chunk::parse(first) {
                Ok(Chunk::CookieEcho(echo)) => {
                    self.handle_cookie_echo(now, route, packet, &echo, datagram, opened)
                }
                _ => self.stats.malformed += 1,
            },
            _ => self.take_other(now, route, packet, first, datagram, opened),
        }
    }

    /// Whether nothing has changed on the way. Without a checksum that is so where an association takes
    /// such packets, because the lower layer has made sure of it (RFC 9653 section 5.3). For one that
    /// is no more, the answer to them tells the peer so.
    fn is_intact(&self, packet: &Packet<'_>, route: &Route) -> bool {
        let takes_zero = || {
            let header = packet.header();
            let (port, way) = (header.source_port, route.encapsulation);
            let known = self
                .registry
                .find_tagged(route.remote, port, header.tag, way);
            let config = match known.and_then(|id| self.registry.get(id)) {
                Some(association) => &association.config,
                // It is for an association that something in it names, if that is intact.
                None if names_association(packet) => return false,
                None => &self.config.association,
            };
            config.takes_zero_checksum(packet)
        };
        packet.checksum_is_zero() && takes_zero() || packet.checksum_is_valid()
    }

    fn take_init(
        &mut self,
        now: Time,
        route: &Route,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
        opened: Option<AssociationId>,
    ) {
        // Section 8.5.1 A and 12.3: alone in its packet, with a tag of zero.
        let alone = packet.chunks().nth(1).is_none();
        match Chunk::parse(first) {
            Ok(Chunk::Init(init)) if alone && packet.header().tag.is_zero() => {
                let len = packet.bytes().len() + route.header_len();
                self.handle_init(now, route, (packet.header(), len), &init, opened);
            }
            Ok(_) => self.stats.wrong_tag += 1,
            Err(_) => self.stats.malformed += 1,
        }
    }

    fn take_other(
        &mut self,
        now: Time,
        route: &Route,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
        datagram: &Bytes,
        opened: Option<AssociationId>,
    ) {
        if packet.header().tag.is_zero() {
            self.stats.wrong_tag += 1;
            return;
        }
        let Some(id) = self.find_association(route, packet, first) else {
            return self.out_of_the_blue(route, packet);
        };
        let Some(association) = self.registry.get(id) else {
            return;
        };
        let (local, peer) = (association.local_tag, association.peer_tag);
        let setting_up = association.state.is_setup();
        if association.state.is_closed() {
            return self.out_of_the_blue(route, packet);
        }
        if first.kind == ChunkType::SHUTDOWN_ACK && setting_up {
            // Section 8.5.1 E: of an association before this one.
            return self.out_of_the_blue(route, packet);
        }
        if !tag_is_right(packet, first, local, peer) {
            self.stats.wrong_tag += 1;
            return;
        }
        let deleted =
            association.is_being_deleted(route.local) || association.is_being_told(route.local);
        if !self.may_take(id, packet, opened) {
            return;
        }
        if reflects(&first) {
            // The peer's tag proves less than our own: it is good for this chunk only.
            // An ABORT for what left before an address was deleted (RFC 5061 section 5.3.1), or for
            // one that the peer does not know.
            if first.kind == ChunkType::ABORT && deleted {
                return;
            }
            self.with(now, id, |association, cx| {
                association.handle_reflected(first, cx)
            });
        } else if first.kind == ChunkType::INIT_ACK {
            self.take_init_ack(now, id, route, packet, datagram);
        } else {
            self.with(now, id, |association, cx| {
                association.handle_packet(route, packet, datagram, 0, cx)
            });
        }
    }

    /// The association that a packet may belong to: the one with its tag at the address that it came
    /// from, or else the one with its tag that the packet names. Another peer may claim the source
    /// address, and the packet is not lost by that. Without an association of this tag, one at the
    /// source address, which checks the tag by the chunk's own rule (section 8.5.1).
    fn find_association(
        &self,
        route: &Route,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
    ) -> Option<AssociationId> {
        let header = packet.header();
        let (port, tag, way) = (header.source_port, header.tag, route.encapsulation);
        let has_tag = |id: &AssociationId| self.has_tag(*id, tag);
        let at_source = self.registry.find_tagged(route.remote, port, tag, way);
        if at_source.is_some_and(|id| has_tag(&id)) {
            return at_source;
        }
        let named = self
            .find_by_init_ack(route, packet, first)
            .or_else(|| self.find_by_asconf(route, packet, first));
        let tagged = named.filter(has_tag);
        tagged
            .or_else(|| self.find_unverified(route.remote, port, tag))
            .or(at_source)
            .or(named)
    }

    fn has_tag(&self, id: AssociationId, tag: VerificationTag) -> bool {
        self.registry.get(id).is_some_and(|a| a.local_tag == tag)
    }

    /// The association with this tag, if its peer listed the address and it could not be verified: the
    /// path may work by now (RFC 9260 section 5.4).
    fn find_unverified(
        &self,
        remote: IpAddr,
        port: u16,
        tag: VerificationTag,
    ) -> Option<AssociationId> {
        let found = self.registry.find_by_tag(tag, port);
        found.filter(|id| {
            let association = self.registry.get(*id);
            association.is_some_and(|a| a.paths.knows(remote))
        })
    }

    fn take_init_ack(
        &mut self,
        now: Time,
        id: AssociationId,
        route: &Route,
        packet: &Packet<'_>,
        datagram: &Bytes,
    ) {
        // INIT ACK is alone in its packet (section 3).
        if packet.chunks().nth(1).is_some() {
            self.stats.malformed += 1;
            return;
        }
        let Some(association) = self.registry.get(id) else {
            return;
        };
        let before: alloc::vec::Vec<_> = association.paths.remotes().collect();
        self.with(now, id, |association, cx| {
            association.handle_packet(route, packet, datagram, 0, cx)
        });
        self.registry.reindex(&before, id);
    }

    /// An ASCONF may come from an address that is not known yet: the one in it identifies the
    /// association, or, where wildcards are taken, the verification tag does (RFC 5061 section 5.2,
    /// D2 and D2-ext).
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
            let (tag, way) = (packet.header().tag, route.encapsulation);
            if let Some(id) = self.registry.find_tagged(address, port, tag, way) {
                return Some(id);
            }
        }
        let tagged = wildcard && self.accepted.finds_by_tag();
        tagged.then(|| self.registry.find_by_tag(packet.header().tag, port))?
    }

    /// An INIT ACK may come from an address that is not known yet; those in it identify the
    /// association (section 5.1.2 D).
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
        if self.accepted.ignore_peer_addresses {
            return None;
        }
        let header = packet.header();
        let (port, way) = (header.source_port, route.encapsulation);
        // Whether the other parameters are right depends on the association that is found.
        let parameters = init.parameters().flatten().map(Parameter::parse);
        let addresses = parameters.filter_map(|parameter| match parameter {
            Ok(Parameter::Ipv4Address(a)) => Some(IpAddr::V4(a)),
            Ok(Parameter::Ipv6Address(a)) => Some(IpAddr::V6(a)),
            _ => None,
        });
        let registry = &self.registry;
        let of_address = |a: IpAddr| registry.find_tagged(a, port, header.tag, way);
        let mut found = addresses.take(MAX_LOOKUPS).filter_map(of_address);
        let first = found.next()?;
        let mut all = core::iter::once(first).chain(found);
        all.find(|id| self.has_tag(*id, header.tag)).or(Some(first))
    }
}

/// Whether the association may be found by what the packet says, instead of where it comes from.
fn names_association(packet: &Packet<'_>) -> bool {
    let names = |raw: RawChunk<'_>| matches!(raw.kind, ChunkType::ASCONF | ChunkType::INIT_ACK);
    matches!(leading(packet), Some(Ok(raw)) if names(raw))
}

/// The first chunk, or the one behind an AUTH chunk, which says nothing about where the packet
/// belongs (RFC 4895 section 6.3).
fn leading<'a>(packet: &Packet<'a>) -> Option<Result<RawChunk<'a>, ParseError>> {
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

/// Section 8.5: our own tag; or, on an ABORT or SHUTDOWN COMPLETE with the T bit, the peer's.
fn tag_is_right(
    packet: &Packet<'_>,
    first: RawChunk<'_>,
    local: VerificationTag,
    peer: VerificationTag,
) -> bool {
    let tag = packet.header().tag;
    if reflects(&first) {
        return !peer.is_zero() && tag == peer;
    }
    if tag != local {
        return false;
    }
    // An ABORT further behind follows its own rule: with the T bit, our tag is the wrong one.
    !packet
        .chunks()
        .skip(1)
        .flatten()
        .any(|chunk| reflects(&chunk))
}

/// Whether the chunk says that its packet carries the tag of the receiver's peer.
fn reflects(chunk: &RawChunk<'_>) -> bool {
    matches!(chunk.kind, ChunkType::ABORT | ChunkType::SHUTDOWN_COMPLETE)
        && chunk.flags & T_BIT != 0
}
