//! Out of the blue packets (RFC 9260, section 8.4).

use carrick_wire::{Cause, Chunk, ChunkType, CommonHeader, Packet, RawChunk};

use super::Endpoint;
use crate::route::Route;
use crate::route::is_usable;

/// Reply to an out of the blue packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reply {
    None,
    ShutdownComplete,
    Abort,
}

impl Endpoint {
    /// Processes a packet without an association by the rules of RFC 9260, section 8.4:
    ///
    /// 1. Discard a packet from or to a non-unicast address (rule 1).
    /// 2. Answer an INIT for another port with ABORT (rule 3). Discard any other packet with tag zero
    ///    (section 8.5.1 A).
    /// 3. Discard an INIT with another tag, and the chunks behind it (section 12.3). Discard an INIT ACK to an
    ///    INIT of this side that another INIT ACK has answered (section 5.2.3).
    /// 4. Discard packets with ABORT (rule 2), SHUTDOWN COMPLETE (rule 6) or COOKIE ACK or a Stale Cookie
    ///    error (rule 7); answer SHUTDOWN ACK with SHUTDOWN COMPLETE (rule 5) and everything else with
    ///    ABORT (rule 8). The T bit is set.
    pub(super) fn handle_out_of_the_blue(&mut self, route: &Route, packet: &Packet<'_>) {
        self.stats.out_of_the_blue += 1;
        // Step 1.
        if !is_unicast(route) {
            return;
        }
        // Step 2.
        let header = packet.header();
        if header.tag.is_zero() {
            return self.refuse_stray_init(route, packet);
        }
        let reply = CommonHeader {
            source_port: header.destination_port,
            destination_port: header.source_port,
            tag: header.tag,
        };
        // Step 3.
        match packet.chunks().flatten().next().map(|first| first.kind) {
            Some(ChunkType::INIT) => return,
            Some(ChunkType::INIT_ACK) if self.answers_own_init(packet) => return,
            _ => {}
        }
        // Step 4.
        match select_reply(packet, route.encapsulation.is_some()) {
            Reply::None => {}
            Reply::ShutdownComplete => {
                self.replies
                    .shutdown_complete(route.for_reply(), reply, true)
            }
            Reply::Abort => self
                .replies
                .abort(route.for_reply(), 0, reply, true, |_| {}),
        }
    }

    /// Returns whether an INIT ACK is a late one to an INIT of this side, from another address of a
    /// peer that has advertised none. It is discarded like one from a known address (RFC 9260,
    /// section 5.2.3): an ABORT would end the association that the other INIT ACK established.
    fn answers_own_init(&self, packet: &Packet<'_>) -> bool {
        let header = packet.header();
        let association = self.registry.find_by_tag(header.tag, header.source_port);
        association.is_some()
    }

    /// Answers an INIT for a port without an endpoint with an ABORT that carries its Initiate Tag
    /// (RFC 9260, section 8.4, rule 3). Anything but a single INIT with tag zero is discarded
    /// (section 8.5.1 A).
    fn refuse_stray_init(&mut self, route: &Route, packet: &Packet<'_>) {
        let mut chunks = packet.chunks();
        if let Some(Ok(first)) = chunks.next()
            && chunks.next().is_none()
            && let Ok(Chunk::Init(init)) = Chunk::parse(first)
            && !init.tag.is_zero()
        {
            self.stats.inits_refused += 1;
            self.abort_init(route, packet.header(), init.tag, |_| {});
        }
    }
}

/// Returns whether source and destination are unicast addresses.
pub(super) fn is_unicast(route: &Route) -> bool {
    is_usable(route.remote) && route.local.is_none_or(is_usable)
}

/// Selects the reply by RFC 9260, section 8.4, rules 2 and 5 to 8. Rule 4 (COOKIE ECHO) applies only to
/// other ports: they have no endpoint, and ABORT is sent.
fn select_reply(packet: &Packet<'_>, encapsulated: bool) -> Reply {
    let mut shutdown_ack = false;
    let mut discard = false;
    for raw in packet.chunks().flatten() {
        match raw.kind {
            ChunkType::ABORT => return Reply::None,
            ChunkType::SHUTDOWN_ACK => shutdown_ack = true,
            ChunkType::SHUTDOWN_COMPLETE | ChunkType::COOKIE_ACK => discard = true,
            // A translator may have assigned this host the UDP port of another host; an ABORT would
            // end the association for which the heartbeat is meant.
            ChunkType::HEARTBEAT | ChunkType::HEARTBEAT_ACK => discard |= encapsulated,
            ChunkType::ERROR => discard |= is_stale_cookie(raw),
            _ => {}
        }
    }
    match (shutdown_ack, discard) {
        (true, _) => Reply::ShutdownComplete,
        (false, true) => Reply::None,
        (false, false) => Reply::Abort,
    }
}

fn is_stale_cookie(raw: RawChunk<'_>) -> bool {
    let Ok(Chunk::Error(error)) = Chunk::parse(raw) else {
        return false;
    };
    error
        .causes()
        .flatten()
        .any(|cause| matches!(Cause::parse(cause), Ok(Cause::StaleCookie { .. })))
}
