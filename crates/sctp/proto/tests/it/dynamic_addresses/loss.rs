//! Loss of each chunk.

use carrick_proto::{CloseReason, Event};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::dynamic_addresses::support::*;

fn asconf_bytes(seen: &SentPacket) -> Vec<u8> {
    let packet = seen.packet();
    let raw = packet.chunks().flatten();
    let found = raw.into_iter().find(|c| c.kind == ChunkType::ASCONF);
    found.expect("an ASCONF").bytes.to_vec()
}

/// RFC 5061, section 5.1, rule B4
#[test]
fn each_lost_chunk_is_retransmitted_unchanged() {
    for (end, kind) in [(0, ChunkType::ASCONF), (1, ChunkType::ASCONF_ACK)] {
        let (mut w, a, b) = double();
        w.lose(end, kind, 3);
        w.ends[0].local_address_added(ip("10.2.0.1"));
        w.run(secs(1));
        w.ends[0].local_address_added(ip("10.2.0.2"));
        w.run(secs(40));
        let first: Vec<Vec<u8>> = w
            .sent(0, ChunkType::ASCONF)
            .iter()
            .take(4)
            .map(|p| asconf_bytes(p))
            .collect();
        assert!(first.windows(2).all(|w| w[0] == w[1]), "the same content");
        let all = w.sent(0, ChunkType::ASCONF);
        assert_ne!(all[0].to(), all[1].to(), "to another address");
        assert_eq!(
            asconfs(&w, 0).len(),
            5,
            "the second change follows the first"
        );
        assert_eq!(remotes(&w, 1, b).len(), 4);
        assert_eq!(w.stats(0, a).error_count, 0, "A5");
    }
}

/// RFC 5061, section 5.1, rule B2
#[test]
fn an_unanswered_asconf_ends_the_association() {
    let (mut w, _, _) = single();
    w.lose(0, ChunkType::ASCONF, 1000);
    w.lose(0, ChunkType::HEARTBEAT, 1000);
    w.ends[0].local_address_added(addresses(0)[1]);
    w.run(secs(1000));
    let closed = Event::Closed(CloseReason::PeerUnreachable);
    assert!(w.events(0).contains(&closed));
}
