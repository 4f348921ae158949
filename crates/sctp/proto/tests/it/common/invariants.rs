//! Rules that every packet of every scenario obeys.

use carrick_proto::{Association, Endpoint};
use carrick_wire::{CauseCode, ChunkType};

use super::SentPacket;

pub fn check(seen: &SentPacket, sender: &Endpoint) {
    let packet = seen.packet();
    assert!(
        packet.checksum_is_valid() || may_omit_checksum(seen, sender),
        "CRC32c (section 6.8)"
    );
    assert_eq!(packet.header().source_port, sender.port());
    let local = seen.route.local.expect("a source address");
    assert!(
        sender.local_addresses().contains(&local),
        "{local} is not an address of the sender"
    );
    let kinds = seen.kinds();
    let alone = [
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::SHUTDOWN_COMPLETE,
    ];
    if kinds.iter().any(|k| alone.contains(k)) {
        assert_eq!(kinds.len(), 1, "sections 3 and 6.10: {kinds:?}");
    }
    assert_eq!(
        packet.header().tag.is_zero(),
        kinds[0] == ChunkType::INIT,
        "section 8.5.1 A: a zero tag is for INIT: {kinds:?}"
    );
    for first in [ChunkType::COOKIE_ECHO, ChunkType::COOKIE_ACK] {
        if kinds.contains(&first) {
            // Only AUTH may be in front (RFC 4895 section 6.3).
            let others = kinds.iter().find(|k| **k != ChunkType::AUTH);
            assert_eq!(others, Some(&first), "section 5.1: first in its packet");
        }
    }
    let first_data = kinds
        .iter()
        .position(|k| matches!(*k, ChunkType::DATA | ChunkType::I_DATA));
    if let Some(first) = first_data {
        assert!(
            kinds[first..].iter().all(|k| *k == kinds[first]),
            "section 6.10: control chunks before DATA: {kinds:?}"
        );
        for end in [
            ChunkType::ABORT,
            ChunkType::SHUTDOWN,
            ChunkType::SHUTDOWN_ACK,
        ] {
            assert!(!kinds.contains(&end), "sections 6.10, 9.1: {kinds:?}");
        }
    }
    let data = seen.user_data();
    assert!(
        data.windows(2).all(|w| w[1].tsn.is_after(w[0].tsn)),
        "section 6.10: increasing TSNs"
    );
    assert!(data.iter().all(|d| d.len > 0), "section 6.2");
    assert!(
        kinds
            .iter()
            .filter(|k| [ChunkType::SACK, ChunkType::NR_SACK].contains(k))
            .count()
            <= 1,
        "one SACK a packet"
    );
    // A probe may exceed the path MTU.
    if !seen.may_fragment && !seen.probe {
        let header = if seen.route.remote.is_ipv4() { 20 } else { 40 };
        let udp = if seen.route.encapsulation.is_some() {
            8
        } else {
            0
        };
        let mtu = mtu(seen, sender).unwrap_or(1500);
        assert!(
            seen.bytes.len() + header + udp <= mtu,
            "{} bytes exceed the path MTU of {mtu} (section 6.10)",
            seen.bytes.len()
        );
    }
    to_unverified(seen, sender, &kinds);
}

/// RFC 9653, section 5.2: both sides have to agree, and some chunks always need a checksum.
fn may_omit_checksum(seen: &SentPacket, sender: &Endpoint) -> bool {
    let always = [
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::COOKIE_ECHO,
        ChunkType::ASCONF,
    ];
    let mut stats = associations(sender).map(|a| a.stats());
    // The last packet of an association leaves after its association was removed.
    let agreed = sender.associations().count() == 0 || stats.any(|s| s.extensions.zero_checksum);
    seen.packet().checksum_is_zero() && agreed && !seen.kinds().iter().any(|k| always.contains(k))
}

fn associations(end: &Endpoint) -> impl Iterator<Item = &Association> {
    end.associations().filter_map(|id| end.association(id))
}

/// MTU of the packet's path.
fn mtu(seen: &SentPacket, sender: &Endpoint) -> Option<usize> {
    let mtu = associations(sender)
        .flat_map(|a| a.paths())
        .find(|p| p.remote == seen.route.remote)?
        .mtu;
    Some(mtu)
}

/// Chunk type of the protection in `support/toy.rs`.
const SEALED: ChunkType = ChunkType(65);

/// Checks that only the chunks of RFC 9260, section 5.4, go to unverified addresses.
fn to_unverified(seen: &SentPacket, sender: &Endpoint, kinds: &[ChunkType]) {
    let peer_port = seen.packet().header().destination_port;
    let of_this_peer = |a: &Association| {
        a.paths().any(|p| {
            p.remote == seen.route.remote && !p.status.confirmed && p.local == seen.route.local
        })
    };
    // With several associations at the address, the packet may belong to the one that confirmed it.
    let confirmed = associations(sender).any(|a| {
        a.peer_port() == peer_port
            && a.paths()
                .any(|p| p.remote == seen.route.remote && p.status.confirmed)
    });
    let unconfirmed = associations(sender)
        .filter(|a| a.stats().state != carrick_proto::StateName::Closed)
        .any(of_this_peer);
    // An INIT ACK belongs to no association; sealed chunks cannot be inspected.
    let exempt = [ChunkType::INIT_ACK, SEALED].contains(&kinds[0]);
    if !unconfirmed || confirmed || peer_port == 0 || exempt {
        return;
    }
    let heartbeat = kinds.contains(&ChunkType::HEARTBEAT);
    for kind in kinds {
        let allowed = match *kind {
            // An ASCONF-ACK goes to the source of the ASCONF (RFC 5061, section 5.2, rule E6).
            ChunkType::HEARTBEAT
            | ChunkType::HEARTBEAT_ACK
            | ChunkType::AUTH
            | ChunkType::ASCONF_ACK => true,
            ChunkType::COOKIE_ACK | ChunkType::COOKIE_ECHO => heartbeat,
            // The reply to an INIT that adds addresses goes to its source (section 5.2.2).
            ChunkType::ABORT
                if seen
                    .causes()
                    .first()
                    .is_some_and(|(code, _)| *code == CauseCode::RESTART_WITH_NEW_ADDRESSES) =>
            {
                true
            }
            // The reply to a COOKIE ECHO goes to its source (section 5.2.6).
            ChunkType::ERROR
                if seen
                    .causes()
                    .first()
                    .is_some_and(|(code, _)| *code == CauseCode::STALE_COOKIE) =>
            {
                true
            }
            // Out of the blue: not part of the association.
            ChunkType::ABORT | ChunkType::SHUTDOWN_COMPLETE => seen.flags(*kind) & 1 != 0,
            _ => false,
        };
        assert!(
            allowed,
            "section 5.4: {kinds:?} to unverified {}",
            seen.route.remote
        );
    }
}
