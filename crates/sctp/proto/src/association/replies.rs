//! Control chunks that answer a packet, queued until the packets of a batch are processed.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::{ChunkType, Tsn};

use super::Association;
use super::input::PacketProgress;
use crate::capacity::ReserveDoubling;
use crate::route::Route;

/// Maximum number of queued replies; a packet rarely needs more than one.
const MAX_REPLIES: usize = 16;

/// Queued missing reports at most. With the SACK that follows they are RFC 2960's four, and a peer needs
/// no more for a fast retransmission.
const MAX_MISSING_REPORTS: usize = 3;

/// Bytes of the replies to one packet at most: they have to fit into one packet (section 12.4).
pub(super) const MAX_REPLY_BYTES: usize = 1200;

/// A control chunk that answers a packet and is sent to the packet's source.
#[derive(Debug)]
pub(super) enum Reply {
    CookieAck,
    HeartbeatAck(Bytes),
    /// Value of an ASCONF-ACK.
    AsconfAck(Bytes),
    /// Encoded causes of an ERROR chunk.
    Error(Bytes),
    /// Encoded parameters of a RE-CONFIG chunk with responses.
    ReConfig(Bytes),
    /// The congestion window was reduced for the marks up to this TSN.
    Cwr(Tsn),
    /// Type and value of a SACK or NR-SACK that reports missing TSNs and is sent by itself.
    Sack(ChunkType, Bytes),
}

portable_enum! {
    Reply {
        0: CookieAck,
        1: HeartbeatAck(value),
        2: AsconfAck(value),
        3: Error(value),
        4: ReConfig(value),
        5: Cwr(value),
        6: Sack(first, second),
    }
}

impl Reply {
    /// Returns the type of the chunk.
    fn kind(&self) -> ChunkType {
        match self {
            Self::CookieAck => ChunkType::COOKIE_ACK,
            Self::HeartbeatAck(_) => ChunkType::HEARTBEAT_ACK,
            Self::AsconfAck(_) => ChunkType::ASCONF_ACK,
            Self::Error(_) => ChunkType::ERROR,
            Self::ReConfig(_) => ChunkType::RE_CONFIG,
            Self::Cwr(_) => ChunkType::CWR,
            Self::Sack(kind, _) => *kind,
        }
    }
}

/// Queued replies, each with its route.
#[derive(Debug, Default)]
pub(super) struct ReplyQueue {
    queue: VecDeque<(Route, Reply)>,
}

portable_struct! { ReplyQueue { queue } }

impl ReplyQueue {
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= MAX_REPLIES
    }

    pub(super) fn push(&mut self, route: Route, reply: Reply) {
        self.queue.reserve_doubling();
        self.queue.push_back((route, reply));
    }

    /// Queues a COOKIE ACK in front, in place of an earlier one.
    fn push_cookie_ack(&mut self, route: Route) {
        self.queue.retain(|r| !matches!(r.1, Reply::CookieAck));
        self.queue.reserve_doubling();
        self.queue.push_front((route, Reply::CookieAck));
    }

    /// Returns whether another missing report may be queued.
    pub(super) fn takes_missing_report(&self) -> bool {
        let is_sack = |r: &&(Route, Reply)| matches!(r.1, Reply::Sack(..));
        !self.is_full() && self.queue.iter().filter(is_sack).count() < MAX_MISSING_REPORTS
    }

    pub(super) fn has_cwr(&self) -> bool {
        self.queue.iter().any(|r| matches!(r.1, Reply::Cwr(_)))
    }

    pub(super) fn remove_cwr(&mut self) {
        self.queue.retain(|r| !matches!(r.1, Reply::Cwr(_)));
    }

    /// Removes the replies to an address of the peer that was deleted.
    pub(super) fn forget_remote(&mut self, address: IpAddr) {
        self.queue.retain(|(route, _)| route.remote != address);
    }

    /// Removes the replies from a local address that was removed.
    pub(super) fn forget_local(&mut self, address: IpAddr) {
        self.queue.retain(|(route, _)| route.local != Some(address));
    }

    /// Frees the memory for further replies.
    pub(super) fn free_unused_memory(&mut self) {
        self.queue.shrink_to_fit();
    }

    /// Removes all replies.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }

    /// Routes of the replies.
    pub(super) fn routes_mut(&mut self) -> impl Iterator<Item = &mut Route> {
        self.queue.iter_mut().map(|(route, _)| route)
    }

    /// Route of the next reply.
    pub(super) fn next_route(&self) -> Option<Route> {
        self.queue.front().map(|r| r.0)
    }

    /// Next reply, if it has this route and so may share a packet.
    pub(super) fn next_on(&self, route: Route) -> Option<&Reply> {
        let next = self.queue.front().filter(|r| r.0 == route);
        next.map(|r| &r.1)
    }

    /// Returns the chunk types of the next replies, with this route.
    pub(super) fn kinds(&self, route: Route) -> impl Iterator<Item = ChunkType> {
        let same = self.queue.iter().take_while(move |r| r.0 == route);
        same.map(|r| r.1.kind())
    }

    /// Removes the next reply, which has been sent.
    pub(super) fn pop(&mut self) {
        self.queue.pop_front();
    }
}

impl Association {
    /// Queues a reply to the packet that is being processed, unless the replies would need a second packet.
    pub(super) fn reply(
        &mut self,
        route: &Route,
        reply: Reply,
        len: usize,
        progress: &mut PacketProgress,
    ) {
        let total = progress.reply_bytes + carrick_wire::padded(len);
        // The first reply may be as large as the chunk that it echoes; later ones share a packet with it.
        if self.replies.is_full() || (progress.reply_bytes > 0 && total > MAX_REPLY_BYTES) {
            self.counters.other().replies_dropped += 1;
            return;
        }
        progress.reply_bytes = total;
        let route = match reply {
            Reply::HeartbeatAck(_) | Reply::AsconfAck(_) => self.reply_route(route),
            Reply::CookieAck
            | Reply::Error(_)
            | Reply::ReConfig(_)
            | Reply::Sack(..)
            | Reply::Cwr(_) => self.answer_route(route),
        };
        self.push_reply(route, reply);
    }

    /// Queues a reply. Only HEARTBEAT ACK is sent to an unconfirmed address (section 5.4).
    pub(super) fn push_reply(&mut self, route: Route, reply: Reply) {
        let verified = self
            .paths
            .find(&route)
            .is_some_and(|id| self.paths[id].is_confirmed());
        if verified || matches!(reply, Reply::HeartbeatAck(_)) {
            self.replies.push(route, reply);
        }
    }

    /// Queues a COOKIE ACK, the first chunk of its packet (section 5.1), to the source if that is an address
    /// of the peer.
    pub(crate) fn reply_cookie_ack(&mut self, route: &Route) {
        let route = match self.paths.find(route) {
            Some(_) => route.for_reply(),
            None => self.answer_route(route),
        };
        self.replies.push_cookie_ack(route);
    }

    /// Queues an ERROR chunk with one encoded cause.
    pub(crate) fn reply_error(&mut self, route: &Route, cause: Vec<u8>) {
        if !self.replies.is_full() {
            let route = self.answer_route(route);
            self.push_reply(route, Reply::Error(cause.into()));
        }
    }
}
