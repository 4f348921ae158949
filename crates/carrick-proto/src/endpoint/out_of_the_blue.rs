//! Packets that belong to no association (RFC 9260 section 8.4).

use carrick_wire::{Cause, Chunk, ChunkType, CommonHeader, Packet, RawChunk};

use super::Endpoint;
use crate::association::is_usable;
use crate::route::Route;

/// What is done about such a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Silence,
    ShutdownComplete,
    Abort,
}

impl Endpoint {
    pub(super) fn out_of_the_blue(&mut self, route: &Route, packet: &Packet<'_>) {
        self.stats.out_of_the_blue += 1;
        // Rule 1: only unicast packets are answered.
        if !is_unicast(route) {
            return;
        }
        let header = packet.header();
        if header.tag.is_zero() {
            return self.refuse_stray_init(route, packet);
        }
        let reply = CommonHeader {
            source_port: header.destination_port,
            destination_port: header.source_port,
            tag: header.tag,
        };
        if self.answers_an_init(packet) {
            return;
        }
        match answer(packet, route.encapsulation.is_some()) {
            Answer::Silence => {}
            Answer::ShutdownComplete => {
                self.replies
                    .shutdown_complete(route.for_reply(), reply, true)
            }
            Answer::Abort => self.replies.abort(route.for_reply(), reply, true, |_| {}),
        }
    }

    /// An INIT ACK to an INIT of ours, from another address of a peer that has told none: it comes too
    /// late, and is discarded as one from a known address is (section 5.2.3). An ABORT would end the
    /// association that the other INIT ACK began.
    fn answers_an_init(&self, packet: &Packet<'_>) -> bool {
        let header = packet.header();
        let first = packet.chunks().flatten().next();
        first.is_some_and(|chunk| chunk.kind == ChunkType::INIT_ACK)
            && self
                .registry
                .find_by_tag(header.tag, header.source_port)
                .is_some()
    }

    /// Rule 3, for a port without an endpoint: the ABORT has the Initiate Tag. Anything but a lone
    /// INIT with a tag of zero is discarded (section 8.5.1 A).
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

/// Neither the source nor the destination is an address of many or of nobody.
pub(super) fn is_unicast(route: &Route) -> bool {
    is_usable(route.remote) && route.local.is_none_or(is_usable)
}

/// Rules 2 and 5 to 8. COOKIE ECHO for this endpoint's port never comes here; for another port
/// there is no endpoint, and the answer is an ABORT.
fn answer(packet: &Packet<'_>, encapsulated: bool) -> Answer {
    let mut shutdown_ack = false;
    let mut silent = false;
    for raw in packet.chunks().flatten() {
        match raw.kind {
            ChunkType::ABORT => return Answer::Silence,
            ChunkType::SHUTDOWN_ACK => shutdown_ack = true,
            ChunkType::SHUTDOWN_COMPLETE | ChunkType::COOKIE_ACK => silent = true,
            // An address translator may have given this host the UDP port of another one; an
            // ABORT would end the association that the heartbeat is meant for.
            ChunkType::HEARTBEAT | ChunkType::HEARTBEAT_ACK => silent |= encapsulated,
            ChunkType::ERROR => silent |= is_stale_cookie(raw),
            _ => {}
        }
    }
    match (shutdown_ack, silent) {
        (true, _) => Answer::ShutdownComplete,
        (false, true) => Answer::Silence,
        (false, false) => Answer::Abort,
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
