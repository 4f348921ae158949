//! Attacks from the path (draft-ietf-tsvwg-sctp-dtls-chunk, section 10; RFC 5062).

use carrick_proto::{Event, Route};
use carrick_wire::{ChunkType, CommonHeader, PacketBuilder};

use crate::common::{SentPacket, Verdict, World, addresses, fix_checksum, port, secs};
use crate::support::{CLIENT, DTLS, SERVER, fingerprints, transfer, world_with};

fn established() -> (
    World,
    (carrick_proto::AssociationId, carrick_proto::AssociationId),
) {
    let mut world = world_with(fingerprints());
    let ids = world.connect();
    transfer(&mut world, ids, 5);
    world.run(secs(3));
    world.events(CLIENT);
    world.events(SERVER);
    (world, ids)
}

/// Returns the route of a packet at its receiver.
fn arrival(seen: &SentPacket) -> Route {
    Route::plain(seen.to(), seen.source())
}

#[test]
fn foreign_packets_change_nothing() {
    let (mut world, ids) = established();
    let packets: Vec<SentPacket> = world.log.iter().filter(|s| s.has(DTLS)).cloned().collect();
    let before = [
        world.stats(CLIENT, ids.0).counters,
        world.stats(SERVER, ids.1).counters,
    ];
    let forged = world.ends[SERVER].stats().forged_protection;
    let mut injected = 0;
    for seen in packets.iter().filter(|seen| seen.from == CLIENT) {
        // Again, and with a bit changed anywhere behind the chunk header.
        world.inject(SERVER, &arrival(seen), seen.bytes.clone());
        injected += 1;
        for bit in [16 * 8 + 9, 18 * 8, 20 * 8 + 3, seen.bytes.len() * 8 - 40] {
            let mut changed = seen.bytes.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            fix_checksum(&mut changed);
            world.inject(SERVER, &arrival(seen), changed);
            injected += 1;
        }
        // Back to its sender, with the sender's own tag.
        let of_server = packets
            .iter()
            .find(|seen| seen.from == SERVER)
            .expect("a packet");
        let mut reflected = of_server.bytes[..12].to_vec();
        reflected.extend_from_slice(&seen.bytes[12..]);
        fix_checksum(&mut reflected);
        world.inject(CLIENT, &arrival(of_server), reflected);
    }
    world.run(secs(1));
    let stats = world.ends[SERVER].stats();
    assert_eq!(stats.forged_protection - forged, injected);
    let after = [
        world.stats(CLIENT, ids.0).counters,
        world.stats(SERVER, ids.1).counters,
    ];
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.data_chunks_received, after.data_chunks_received);
        assert_eq!(before.duplicates_received, after.duplicates_received);
    }
    for end in [CLIENT, SERVER] {
        assert_eq!(world.events(end), []);
    }
    transfer(&mut world, ids, 5);
}

/// A valid tag is not enough: only INIT and INIT ACK are processed in the clear.
#[test]
fn chunks_in_the_clear_are_discarded() {
    let (mut world, ids) = established();
    let tag = world
        .log
        .iter()
        .rev()
        .find(|s| s.from == CLIENT)
        .expect("a packet")
        .tag();
    let route = Route::plain(addresses(SERVER)[0], addresses(CLIENT)[0]);
    let types = [
        ChunkType::DATA,
        ChunkType::SACK,
        ChunkType::HEARTBEAT,
        ChunkType::ABORT,
        ChunkType::SHUTDOWN,
        ChunkType::SHUTDOWN_ACK,
        ChunkType::ERROR,
        ChunkType::COOKIE_ECHO,
        ChunkType::COOKIE_ACK,
        ChunkType::ASCONF,
        ChunkType::RE_CONFIG,
        ChunkType::FORWARD_TSN,
    ];
    let before = world.stats(SERVER, ids.1).counters;
    for kind in types {
        let header = CommonHeader {
            source_port: port(CLIENT),
            destination_port: port(SERVER),
            tag,
        };
        let mut bytes = Vec::new();
        let mut packet = PacketBuilder::new(&mut bytes, header, 1400);
        packet.raw(kind, 0, &[0; 20]);
        packet.finish();
        world.inject(SERVER, &route, bytes);
    }
    world.run(secs(1));
    assert_eq!(world.events(SERVER), []);
    let after = world.stats(SERVER, ids.1).counters;
    assert_eq!(after.packets_received, before.packets_received);
    // A COOKIE ECHO of no cookie is counted elsewhere.
    assert_eq!(
        world.ends[SERVER].stats().unprotected,
        types.len() as u64 - 1
    );
    transfer(&mut world, ids, 2);
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.2: the DTLS chunk is alone in its packet.
#[test]
fn a_chunk_bundled_with_another_is_discarded() {
    let (mut world, ids) = established();
    world.rule(|seen| {
        if seen.from != CLIENT || !seen.has(DTLS) {
            return Verdict::Pass;
        }
        let mut bytes = seen.bytes.to_vec();
        bytes.extend_from_slice(&[ChunkType::COOKIE_ACK.0, 0, 0, 4]);
        fix_checksum(&mut bytes);
        Verdict::Replace(bytes)
    });
    world.send(CLIENT, ids.0, 0, vec![1; 10]);
    world.run(secs(2));
    assert!(world.receive(SERVER, ids.1).is_empty());
    world.clear_rules();
    world.run(secs(10));
    assert_eq!(world.receive_lengths(SERVER, ids.1), [10]);
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 10.3: the parameters of both sides are bound into the keys.
#[test]
fn a_changed_parameter_makes_the_keys_differ() {
    for end in [CLIENT, SERVER] {
        let mut world = world_with(fingerprints());
        world.rule(move |seen| {
            let kind = [ChunkType::INIT, ChunkType::INIT_ACK][end];
            if seen.from != end || !seen.has(kind) {
                return Verdict::Pass;
            }
            // The R bit of the DTLS Key Management Parameter.
            let mut bytes = seen.bytes.to_vec();
            let at = bytes
                .windows(2)
                .position(|w| w == [0x80, 0x06])
                .expect("the parameter");
            bytes[at + 8] ^= 4;
            fix_checksum(&mut bytes);
            Verdict::Replace(bytes)
        });
        world.begin_connect(&addresses(SERVER));
        world.run(secs(400));
        for end in [CLIENT, SERVER] {
            let established = |event: &Event| matches!(event, Event::Established { .. });
            let events = world.events(end);
            let server_only = end == SERVER;
            assert!(!events.iter().any(established) || server_only, "{events:?}");
            assert!(
                matches!(events.last(), Some(Event::Closed(_))),
                "{events:?}"
            );
        }
    }
}

/// Removing the parameter from INIT or INIT ACK ends the set-up.
#[test]
fn a_removed_parameter_is_no_silent_downgrade() {
    for end in [CLIENT, SERVER] {
        let mut world = world_with(fingerprints());
        world.rule(move |seen| {
            let mut bytes = seen.bytes.to_vec();
            let at = bytes.windows(2).position(|w| w == [0x80, 0x06]);
            match at {
                Some(at) if seen.from == end && !seen.has(DTLS) => {
                    // An unknown parameter that is skipped.
                    bytes[at + 1] = 0x77;
                    fix_checksum(&mut bytes);
                    Verdict::Replace(bytes)
                }
                _ => Verdict::Pass,
            }
        });
        world.begin_connect(&addresses(SERVER));
        world.run(secs(5));
        let events = world.events(CLIENT);
        assert!(matches!(events[..], [Event::Closed(_)]), "{events:?}");
        assert_eq!(world.ends[SERVER].associations().count(), 0);
    }
}
