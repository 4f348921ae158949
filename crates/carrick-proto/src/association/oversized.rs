//! Packets that IP has to fragment, because a chunk in them does not fit the path MTU: DATA that was cut
//! before that shrank (RFC 9260 section 6.9), or a large control chunk.
//!
//! IPv4 packets are fragmented by whoever has a link that is too narrow. IPv6 packets are fragmented by
//! their sender alone, which looks at its own route: what that takes leaves in one piece, and where the
//! path MTU is smaller than the route's and no ICMP message has said so to the host, it is lost each
//! time. So these are filled up with PAD until they are larger than the route takes (RFC 4820 section 3:
//! a peer that does not know PAD skips it).

use carrick_wire::{CHUNK_HEADER_LEN, PacketBuilder, padded};

use super::{Association, Context};
use crate::path::PathId;

/// Routes of a larger MTU are not filled: hardly anything but a host's way to itself has one, and a
/// record of DTLS holds no more.
const LARGEST_FILLED: usize = 16_000;

impl Association {
    /// The limit for a packet whose first chunk needs so many bytes of SCTP: `normal`, or if that is too
    /// little, what makes sure that IP fragments it.
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
            .remote
            .is_ipv6()
            .then(|| cx.selection.route_mtu(path.local, path.remote))
            .flatten()
            .filter(|mtu| *mtu <= LARGEST_FILLED);
        // What protects the packet makes it larger by no fixed number of bytes, so it is left out.
        let beyond = route_mtu.map_or(0, |mtu| {
            padded((mtu + 1).saturating_sub(path.route().header_len()))
        });
        needed.max(beyond)
    }
}

/// Fills a packet that exceeds `normal` up to its limit, in front of what it has had since it was `at`
/// bytes long.
pub(super) fn fill_up(packet: &mut PacketBuilder<'_>, normal: usize, at: usize) {
    let room = packet.remaining() & !3;
    if packet.len() > normal && room >= CHUNK_HEADER_LEN {
        packet.pad_before(at, room);
    }
}
