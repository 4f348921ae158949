//! Truncated, modified and random packets in every state.

use carrick_proto::{Route, VerificationTag};
use carrick_wire::{ChunkType, PacketBuilder};

use crate::common::*;

/// A small generator with a seed that failures print.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// All packets of an association: set-up, data with loss, heartbeats, shutdown, as endpoint 1
/// receives them.
fn conversation() -> (World, Vec<SentPacket>) {
    let mut w = World::new();
    w.lose_data(0, &[2]);
    let (a, b) = w.connect();
    for size in [1, 100, 1400, 5000] {
        w.send(0, a, 1, pattern(size));
        w.send(1, b, 1, pattern(size));
    }
    w.run(secs(3));
    w.ends[0]
        .shutdown(w.now, a)
        .expect("the association exists");
    w.run(secs(3));
    let all = w.log.clone();
    assert!(all.iter().any(|s| s.has(ChunkType::SHUTDOWN_COMPLETE)));
    (w, all)
}

/// The route of a packet as its receiver sees it.
fn arrival(seen: &SentPacket) -> Route {
    Route::plain(seen.route.remote, seen.source())
}

/// Gives a packet to both endpoints of a world in every state it can meet: none, setting up,
/// established. Tags and TSNs are those of the world in which the packet was recorded, because the
/// same seeds give the same packets.
fn stages() -> Vec<World> {
    let nothing = World::new();
    let mut setting_up = World::new();
    setting_up.begin_connect(&[addresses(1)[0]]);
    setting_up.pump();
    let mut established = World::new();
    let (a, b) = established.connect();
    established.send(0, a, 1, pattern(3000));
    established.send(1, b, 1, pattern(3000));
    established.pump();
    vec![nothing, setting_up, established]
}

/// Drains the endpoints without checking the invariants, which answers to garbage may violate.
fn drain(w: &mut World) -> usize {
    let mut count = 0;
    let mut buf = Vec::new();
    for end in &mut w.ends {
        while let Some(transmit) = end.poll_transmit(w.now, &mut buf) {
            assert_eq!(transmit.len, buf.len());
            buf.clear();
            count += transmit.packets();
            assert!(count < 1000, "the number of replies is not bounded");
        }
        while end.poll_event().is_some() {}
        assert!(end.associations().count() <= 2);
    }
    count
}

fn give(w: &mut World, seen: &SentPacket, bytes: Vec<u8>) -> usize {
    let end = 1 - seen.from;
    w.ends[end].handle_datagram(w.now, &arrival(seen), bytes.into());
    drain(w)
}

#[test]
fn truncated_packets_cause_no_panic_and_no_flood() {
    let (_, all) = conversation();
    let mut stages = stages();
    for seen in &all {
        for len in 0..seen.bytes.len() {
            let mut cut = seen.bytes[..len].to_vec();
            for w in &mut stages {
                let answers = give(w, seen, cut.clone());
                assert!(answers <= 1 || len > 11, "a wrong checksum is not answered");
            }
            fix_checksum(&mut cut);
            for w in &mut stages {
                give(w, seen, cut.clone());
            }
        }
    }
}

#[test]
fn flipped_header_bits_cause_no_panic_and_no_flood() {
    let (_, all) = conversation();
    for seen in &all {
        let mut stages = stages();
        for bit in 0..seen.bytes.len().min(120) * 8 {
            let mut bytes = seen.bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fix_checksum(&mut bytes);
            for w in &mut stages {
                give(w, seen, bytes.clone());
            }
        }
    }
}

/// RFC 9260, section 6.8
#[test]
fn a_wrong_checksum_is_discarded_and_counted() {
    let (_, all) = conversation();
    let mut w = World::new();
    for (number, seen) in all.iter().enumerate() {
        for bit in [0, 7, 31] {
            let mut bytes = seen.bytes.to_vec();
            bytes[8 + bit / 8] ^= 1 << (bit % 8);
            w.ends[1].handle_datagram(w.now, &arrival(seen), bytes.into());
        }
        let stats = w.ends[1].stats();
        assert_eq!(stats.bad_checksum, 3 * (number as u64 + 1));
        assert_eq!(stats.datagrams_received, stats.bad_checksum);
    }
    assert_eq!(drain(&mut w), 0);
}

#[test]
fn garbage_of_any_length_changes_nothing() {
    for seed in 1..=20_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut w = World::new();
        let (p, id) = Puppet::new().connect(&mut w);
        let before = w.stats(0, id);
        for round in 0..200 {
            let len = random.below(if round % 10 == 0 { 65_000 } else { 200 });
            let mut bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            if round % 2 == 0 {
                fix_checksum(&mut bytes);
            }
            w.ends[0].handle_datagram(w.now, &p.route(), bytes.into());
            assert!(drain(&mut w) <= 1, "seed {seed}");
        }
        assert_eq!(w.stats(0, id), before, "seed {seed}");
        assert_eq!(w.ends[0].stats().datagrams_received, 202);
    }
}

#[test]
fn garbage_with_a_valid_tag_keeps_the_invariants() {
    for seed in 1..=100_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut w = World::new();
        let (p, id) = Puppet::new().connect(&mut w);
        w.send(0, id, 0, pattern(3000));
        for _ in 0..100 {
            let len = random.below(300);
            let mut bytes = p.build(p.peer_tag, |_| {}).to_vec();
            bytes.resize(12, 0);
            bytes[..8].copy_from_slice(&p.build(p.peer_tag, |b| b.cookie_ack())[..8]);
            while bytes.len() < 12 + len {
                // Chunks of known types with possibly wrong lengths.
                let size = random.below(40);
                let claimed = if random.below(8) == 0 {
                    random.next() as u16
                } else {
                    size as u16 + 4
                };
                bytes.push(random.below(16) as u8);
                bytes.push(random.below(16) as u8);
                bytes.extend_from_slice(&claimed.to_be_bytes());
                bytes.extend((0..size.next_multiple_of(4)).map(|_| random.next() as u8));
            }
            fix_checksum(&mut bytes);
            w.ends[0].handle_datagram(w.now, &p.route(), bytes.into());
            assert!(drain(&mut w) <= 20, "seed {seed}");
            w.now += ms(random.next() % 2000);
            w.ends[0].handle_timeout(w.now);
            drain(&mut w);
        }
    }
}

#[test]
fn false_and_overlapping_lengths_are_rejected() {
    // Each value as the length of the first chunk, of its first parameter or cause.
    let packets: [fn(&Puppet, &mut PacketBuilder<'_>); 5] = [
        |p, b| {
            b.init(ChunkType::INIT, p.fields(), |w| {
                w.ip_address(ip("10.0.0.99"));
                w.ip_address(ip("10.1.0.99"));
                w.supported_address_types(&[5, 6]);
            })
        },
        |p, b| {
            b.init(ChunkType::INIT_ACK, p.fields(), |w| {
                w.state_cookie(b"cookie");
                w.ip_address(ip("10.0.0.99"));
            })
        },
        |_, b| b.error(|c| c.unrecognized_chunk(&[0xff, 0, 0, 4])),
        |_, b| b.abort(false, |c| c.user_initiated_abort(b"reason")),
        |p, b| b.data(&Puppet::data_header(p.tsn, 0, 0), b"some payload"),
    ];
    for (number, packet) in packets.iter().enumerate() {
        for at in [14, 18, 30, 34, 38] {
            for length in (0..80_u16).chain([0x7fff, 0x8000, 0xfffc, 0xffff]) {
                let mut w = World::new();
                let mut p = Puppet::new();
                if number == 1 {
                    p.begin_accept(&mut w);
                } else if number > 1 {
                    p = p.connect(&mut w).0;
                }
                let tag = if number == 0 {
                    VerificationTag::ZERO
                } else {
                    p.peer_tag
                };
                let mut bytes = p.build(tag, |b| packet(&p, b)).to_vec();
                if bytes.len() < at + 2 {
                    continue;
                }
                bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
                fix_checksum(&mut bytes);
                w.inject(0, &p.route(), bytes);
                assert!(
                    p.receive(&mut w).len() <= 2,
                    "packet {number} at {at}: {length}"
                );
                w.run(secs(1));
            }
        }
    }
}

#[test]
fn discarded_packets_are_counted_by_reason() {
    let mut w = World::new();
    let (p, _) = Puppet::new().connect(&mut w);
    let before = w.ends[0].stats();
    let good = p.build(p.peer_tag, |b| b.heartbeat(b"info"));
    let mut zero_port = good.to_vec();
    zero_port[..2].fill(0);
    fix_checksum(&mut zero_port);
    let mut lying = good.to_vec();
    lying[14..16].copy_from_slice(&3_u16.to_be_bytes());
    fix_checksum(&mut lying);
    for bytes in [good[..15].to_vec(), zero_port, lying] {
        w.inject(0, &p.route(), bytes);
    }
    let mut corrupt = good.to_vec();
    corrupt[13] ^= 1;
    w.inject(0, &p.route(), corrupt);
    p.send_with_tag(&mut w, VerificationTag(1), |b| b.heartbeat(b"info"));
    p.send(&mut w, |b| {
        b.heartbeat(b"info");
        b.raw(ChunkType::SACK, 0, b"short");
    });
    let after = w.ends[0].stats();
    let counted = [
        after.malformed - before.malformed,
        after.bad_checksum - before.bad_checksum,
        after.wrong_tag - before.wrong_tag,
        after.malformed_chunks - before.malformed_chunks,
        after.out_of_the_blue - before.out_of_the_blue,
        after.datagrams_received - before.datagrams_received,
    ];
    assert_eq!(counted, [3, 1, 1, 1, 0, 6]);
}
