//! Packets that IP has to fragment, because a chunk in them exceeds the path MTU: DATA that was
//! fragmented before the path MTU decreased (RFC 9260 section 6.9), or a large control chunk.
//!
//! IPv4 packets are fragmented by the router in front of a narrow link. IPv6 packets are fragmented by
//! their sender alone, by the MTU of its route: a smaller packet is sent in one piece, and where the
//! path MTU is smaller than the route's and the host has no ICMP message about it, the packet is lost
//! each time. So these packets are filled with PAD until they exceed the route's MTU (RFC 4820 section
//! 3: a peer that does not know PAD skips it).

use carrick_wire::{CHUNK_HEADER_LEN, ChunkType, PacketBuilder, padded};

use super::{Association, Context};
use crate::auth::ChunkSet;
use crate::path::PathId;

/// Packets on routes of a larger MTU are not filled: only the loopback interface has such an MTU, and a
/// DTLS record holds no more.
const LARGEST_FILLED: usize = 16_000;

/// Chunk type that [`fill_up`] writes.
pub(super) const PADDING: ChunkSet = ChunkSet::of(&[ChunkType::PAD]);

impl Association {
    /// Returns the limit for a packet whose first chunk needs this many bytes of SCTP: `normal`, or if
    /// that is too little, a size that IP fragments.
    pub(super) fn limit_for(
        &self,
        needed: usize,
        normal: usize,
        path: PathId,
        cx: &Context<'_>,
    ) -> usize {
        if needed <= normal {
            return normal;
        }
        let path = &self.paths[path];
        let route_mtu = path
            .remote()
            .is_ipv6()
            .then(|| cx.selection.route_mtu(path.local(), path.remote()))
            .flatten()
            .filter(|mtu| *mtu <= LARGEST_FILLED);
        // The overhead of a protection is not a fixed number of bytes and is left out.
        let beyond = route_mtu.map_or(0, |mtu| {
            padded((mtu + 1).saturating_sub(path.route().header_len()))
        });
        needed.max(beyond)
    }
}

/// Fills a packet that exceeds `normal` up to its limit with PAD in front of the chunks behind byte
/// `at`.
pub(super) fn fill_up(packet: &mut PacketBuilder<'_>, normal: usize, at: usize) {
    let room = packet.remaining() & !3;
    if packet.len() > normal && room >= CHUNK_HEADER_LEN {
        packet.pad_before(at, room);
    }
}
