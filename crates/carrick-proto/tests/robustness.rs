//! Whatever arrives: no panic, no state for strangers, bounded answers, memory and work.

mod common;

use std::net::IpAddr;

use bytes::Bytes;
use carrick_proto::{AssociationId, EndpointStats, Event, Route, StateName, Tsn, VerificationTag};
use carrick_wire::{ChunkType, PacketBuilder};
use common::*;

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

/// The packets of a whole life: set-up, data with loss, heartbeats, shutdown, as 1 receives them.
fn conversation() -> (World, Vec<Seen>) {
    let mut w = World::new();
    w.lose_data(0, &[2]);
    let (a, b) = w.connect();
    for size in [1, 100, 1400, 5000] {
        w.send(0, a, 1, pattern(size));
        w.send(1, b, 1, pattern(size));
    }
    w.run(secs(3));
    w.ends[0].shutdown(w.now, a).expect("it exists");
    w.run(secs(3));
    let all = w.log.clone();
    assert!(all.iter().any(|s| s.has(ChunkType::SHUTDOWN_COMPLETE)));
    (w, all)
}

/// The route of a packet as its receiver sees it.
fn arrival(seen: &Seen) -> Route {
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

/// Takes what the endpoints say, without the world's own rules: answers to nonsense may be odd.
fn drain(w: &mut World) -> usize {
    let mut count = 0;
    let mut buf = Vec::new();
    for end in &mut w.ends {
        while let Some(transmit) = end.poll_transmit(w.now, &mut buf) {
            assert_eq!(transmit.len, buf.len());
            buf.clear();
            count += transmit.packets();
            assert!(count < 1000, "answers without an end");
        }
        while end.poll_event().is_some() {}
        assert!(end.associations().count() <= 2);
    }
    count
}

fn give(w: &mut World, seen: &Seen, bytes: Vec<u8>) -> usize {
    let end = 1 - seen.from;
    w.ends[end].handle_datagram(w.now, &arrival(seen), bytes.into());
    drain(w)
}

#[test]
fn every_packet_cut_off_at_every_length() {
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
fn every_packet_with_every_bit_of_its_head_changed() {
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

#[test]
fn a_wrong_checksum_is_discarded_and_counted_6_8() {
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
fn garbage_behind_the_right_tag_ends_in_order() {
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
                // Chunks with a type that exists, and a length that may lie.
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
fn lengths_that_lie_and_overlap_are_not_believed() {
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
                    p.hear(&mut w).len() <= 2,
                    "packet {number} at {at}: {length}"
                );
                w.run(secs(1));
            }
        }
    }
}

/// Strangers from this many addresses, and what the endpoint kept and said.
fn flood(
    count: u32,
    write: impl Fn(&Puppet, &mut PacketBuilder<'_>),
    tag: VerificationTag,
) -> (u64, EndpointStats) {
    let mut w = World::new();
    let mut answers = 0;
    let mut buf = Vec::new();
    for number in 0..count {
        let mut p = Puppet::new();
        p.link.from = IpAddr::from(0x0b00_0000_u32.wrapping_add(number).to_be_bytes());
        let bytes = p.build(tag, |b| write(&p, b));
        let size = bytes.len();
        w.ends[0].handle_datagram(w.now, &p.route(), bytes);
        while let Some(transmit) = w.ends[0].poll_transmit(w.now, &mut buf) {
            answers += 1;
            assert!(
                transmit.len <= size + 300,
                "no large answers to small packets"
            );
            buf.clear();
        }
    }
    assert_eq!(w.ends[0].associations().count(), 0);
    assert_eq!(w.ends[0].poll_timeout(), None, "no timer");
    assert_eq!(w.ends[0].poll_event(), None);
    (answers, w.ends[0].stats())
}

#[test]
fn a_flood_of_100_000_inits_leaves_no_state_5_1() {
    let init = |p: &Puppet, b: &mut PacketBuilder<'_>| b.init(ChunkType::INIT, p.fields(), |_| {});
    let (answers, stats) = flood(100_000, init, VerificationTag::ZERO);
    assert_eq!(answers, 100_000);
    assert_eq!((stats.inits, stats.inits_refused), (100_000, 0));
    assert_eq!(stats.packets_sent, 100_000);
}

#[test]
fn a_flood_of_strangers_packets_leaves_no_state_8_4() {
    let data =
        |p: &Puppet, b: &mut PacketBuilder<'_>| b.data(&Puppet::data_header(p.tsn, 0, 0), b"x");
    let (answers, stats) = flood(10_000, data, VerificationTag(5));
    assert_eq!((answers, stats.out_of_the_blue), (10_000, 10_000));
    let forged = |_: &Puppet, b: &mut PacketBuilder<'_>| b.cookie_echo(&[7; 200]);
    let (answers, stats) = flood(10_000, forged, VerificationTag(5));
    assert_eq!((answers, stats.forged_cookies), (0, 10_000));
}

#[test]
fn answers_that_cannot_be_sent_do_not_pile_up() {
    let mut w = World::new();
    let p = Puppet::new();
    let init = p.build(VerificationTag::ZERO, |b| {
        b.init(ChunkType::INIT, p.fields(), |_| {})
    });
    for _ in 0..5000 {
        w.ends[0].handle_datagram(w.now, &p.route(), init.clone());
    }
    let stats = w.ends[0].stats();
    assert_eq!(stats.inits, 5000);
    let mut buf = Vec::new();
    let waiting = std::iter::from_fn(|| {
        buf.clear();
        w.ends[0].poll_transmit(w.now, &mut buf)
    });
    let waiting = waiting.count() as u64;
    assert!(waiting < 5000);
    assert_eq!(waiting + stats.replies_dropped, 5000);
}

#[test]
fn a_forged_cookie_is_discarded_wherever_it_was_changed_5_1_5() {
    let mut w = World::new();
    let mut p = Puppet::new();
    let answers = p.init(&mut w, |_| {});
    p.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let mut forged = 0;
    for bit in 0..cookie.len() * 8 {
        let mut bytes = cookie.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(p.say(&mut w, |b| b.cookie_echo(&bytes)).is_empty());
        forged += 1;
    }
    for len in 0..cookie.len() {
        assert!(p.say(&mut w, |b| b.cookie_echo(&cookie[..len])).is_empty());
        forged += 1;
    }
    assert_eq!(w.ends[0].stats().forged_cookies, forged);
    assert_eq!(w.ends[0].associations().count(), 0);
    assert!(
        !p.say(&mut w, |b| b.cookie_echo(&cookie)).is_empty(),
        "the true one is good"
    );
}

#[test]
fn a_cookie_of_another_endpoint_is_not_ours_5_1_5() {
    let mut w = World::new();
    let mut p = Puppet::new();
    let answers = p.init(&mut w, |_| {});
    p.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    // The same software with another seed, asked for a cookie before so that it has secrets.
    let mut other = World::with(1, |_, config| config.seed = [77; 32]);
    p.init(&mut other, |_| {});
    assert!(p.say(&mut other, |b| b.cookie_echo(&cookie)).is_empty());
    assert_eq!(other.ends[0].associations().count(), 0);
}

/// An established association that has three full packets outstanding.
fn with_outstanding_data() -> (World, Puppet, AssociationId) {
    let mut w = World::new();
    let (p, id) = Puppet::new().connect(&mut w);
    w.send(0, id, 0, pattern(3 * 1452));
    let sent = p.hear(&mut w);
    assert_eq!(p.numbers(&sent), [0, 1, 2]);
    (w, p, id)
}

#[test]
fn a_sack_for_what_was_not_sent_aborts_12_4() {
    for (cumulative, gaps) in [
        (3, vec![]),
        (0x7fff_0000, vec![]),
        (u32::MAX, vec![(4, 4)]),
        (0, vec![(2, 0xffff)]),
        (0, vec![(2, 2), (0xfffe, 0xffff)]),
    ] {
        let (mut w, p, _) = with_outstanding_data();
        let answers = p.sack(&mut w, p.theirs(cumulative), 10_000, &gaps);
        assert_eq!(answers.len(), 1, "{cumulative} {gaps:?}");
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert!(matches!(w.events(0).last(), Some(Event::Closed(_))));
    }
}

#[test]
fn a_sack_with_absurd_gaps_does_no_harm_3_3_4() {
    for gaps in [
        vec![(0, 0)],
        vec![(2, 1)],
        vec![(1, 3)],
        vec![(2, 2), (2, 2), (2, 3)],
        vec![(3, 3), (2, 2)],
        vec![(0xffff, 0)],
        vec![(2, 2); 1000],
        vec![(1, 1), (2, 2), (3, 3)],
    ] {
        let (mut w, mut p, id) = with_outstanding_data();
        let before = p.theirs(0).previous();
        p.sack(&mut w, before, 10_000, &gaps);
        assert_eq!(w.stats(0, id).outstanding_chunks, 3, "{gaps:?}");
        // An old SACK is nothing.
        p.sack(&mut w, Tsn::new(before.value().wrapping_sub(5)), 0, &gaps);
        // It goes on after this.
        p.sack(&mut w, p.theirs(2), 10_000, &[]);
        assert_eq!(w.stats(0, id).outstanding_chunks, 0);
        p.data(&mut w, 0, 0, b"fine");
        assert_eq!(w.receive_lengths(0, id), [4]);
    }
}

#[test]
fn heartbeats_get_one_packet_of_answers_for_a_packet_12_4() {
    let mut w = World::new();
    let (p, _) = Puppet::new().connect(&mut w);
    for info in [1_usize, 50, 1000, 8000] {
        let answers = p.say(&mut w, |b| {
            while b.fits(8 + info) {
                b.heartbeat(&vec![b'i'; info]);
            }
        });
        assert_eq!(answers.len(), 1);
        assert!(answers[0].bytes.len() <= info + 1300);
    }
    let counters = w.stats(0, w.only(0)).counters;
    assert!(counters.replies_dropped > 0);
}

#[test]
fn unknown_chunks_get_one_packet_of_errors_for_a_packet_12_4() {
    let mut w = World::new();
    let (p, _) = Puppet::new().connect(&mut w);
    for size in [0_usize, 30, 1000, 10_000] {
        let answers = p.say(&mut w, |b| {
            while b.fits(4 + size) {
                b.raw(ChunkType(0xfe), 0, &vec![b'u'; size]);
            }
        });
        assert_eq!(answers.len(), 1);
        assert!(answers[0].bytes.len() <= 1300, "{}", answers[0].bytes.len());
    }
}

#[test]
fn data_on_streams_that_do_not_exist_gets_one_packet_of_errors_12_4() {
    let mut w = World::new();
    let (mut p, id) = Puppet::new().connect(&mut w);
    let answers = p.say(&mut w, |b| {
        for number in 0..2000 {
            b.data(&Puppet::data_header(p.tsn.plus(number), 5000, 0), b"x");
        }
    });
    assert!(answers.len() <= 2, "an ERROR and a SACK");
    p.tsn = p.tsn.plus(2000);
    let sack = answers.iter().find_map(Seen::sack).expect("a SACK");
    assert_eq!(
        sack.cumulative_tsn_ack,
        p.tsn.previous(),
        "acknowledged and discarded (6.5)"
    );
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

#[test]
fn a_datagram_of_64_kib_full_of_tiny_chunks_is_read_and_bounded() {
    let mut w = World::new();
    let (mut p, id) = Puppet::new().connect(&mut w);
    let limit = w.config.receive_buffer;
    let mut count = 0_u32;
    let mut delivered = 0;
    for _ in 0..10 {
        let first = p.tsn;
        let mut number = 0;
        let mut answers = p.say(&mut w, |b| {
            while b.fits(17) {
                let header = Puppet::data_header(first.plus(number), 0, (count + number) as u16);
                b.data(&header, b"t");
                number += 1;
            }
        });
        count += number;
        p.tsn = first.plus(number);
        w.run(ms(200));
        answers.extend(p.hear(&mut w));
        answers.retain(|s| s.has(ChunkType::SACK));
        assert_eq!(answers.len(), 1, "one SACK");
        let held = w.stats(0, id).receive_buffer_bytes;
        assert!(held < limit + 1000, "{held} bytes");
        let sack = answers[0].sack().expect("a SACK");
        let kept = sack.cumulative_tsn_ack.next().since(Tsn::new(1000));
        if kept < count {
            assert_eq!(sack.a_rwnd, 0, "what was dropped had no room");
            delivered = kept;
            break;
        }
    }
    assert!(delivered > 0, "the buffer was filled");
    assert!(w.stats(0, id).counters.dropped_for_buffer > 0);
    assert_eq!(w.receive(0, id).len() as u32, delivered);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

#[test]
fn a_scrap_does_not_keep_a_large_datagram_in_memory() {
    // What a message costs is what the window says: not 64 KiB of padding behind one byte.
    let mut w = World::new();
    let (mut p, id) = Puppet::new().connect(&mut w);
    for (ssn, padding) in [(0, 1000), (1, 60_000)] {
        let header = Puppet::data_header(p.tsn, 0, ssn);
        p.tsn = p.tsn.next();
        let bytes: Bytes = p.build(p.peer_tag, |b| {
            b.data(&header, b"t");
            b.raw(ChunkType(0x84), 0, &vec![0; padding]);
        });
        w.inject(0, &p.route(), bytes.clone());
        assert!(bytes.is_unique(), "{padding} bytes are kept for one");
    }
    assert_eq!(w.receive_lengths(0, id), [1, 1]);
    // A message that fills its datagram is not copied.
    let bytes = p.build(p.peer_tag, |b| {
        b.data(&Puppet::data_header(p.tsn, 0, 2), &[7; 1000])
    });
    w.inject(0, &p.route(), bytes.clone());
    let message = w.receive(0, id).remove(0).payload.into_bytes();
    assert!(bytes.as_ptr_range().contains(&message.as_ptr()));
}

#[test]
fn gaps_without_end_are_bounded_12_4() {
    // Every other TSN on streams that do not exist: nothing is charged to the receive buffer.
    let mut w = World::new();
    let (p, id) = Puppet::new().connect(&mut w);
    let mut number = 1;
    for _ in 0..40 {
        let answers = p.say(&mut w, |b| {
            while b.fits(17) {
                b.data(&Puppet::data_header(p.tsn.plus(number), 5000, 0), b"x");
                number += 2;
            }
        });
        for seen in answers {
            assert!(seen.bytes.len() <= 1480);
        }
    }
    assert_eq!(w.stats(0, id).state, StateName::Established);
    assert!(
        w.stats(0, id).counters.dropped_for_buffer > 0,
        "out of a SACK's reach"
    );
}

#[test]
fn many_addresses_in_an_init_are_cut_to_the_limit_12_4() {
    let mut w = World::new();
    let mut p = Puppet::new();
    let answers = p.init(&mut w, |b| {
        for last in 0..2000_u16 {
            let [high, low] = last.to_be_bytes();
            b.ip_address(IpAddr::from([10, 7, high, low]));
        }
    });
    assert_eq!(answers.len(), 1);
    assert!(answers[0].bytes.len() < 1480, "{}", answers[0].bytes.len());
    p.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    p.say(&mut w, |b| b.cookie_echo(&cookie));
    let id = w.only(0);
    assert!(w.ends[0].paths(id).count() <= w.config.max_paths);
}

#[test]
fn an_error_chunk_full_of_causes_tells_a_few_to_the_user() {
    let mut w = World::new();
    let (p, _) = Puppet::new().connect(&mut w);
    let answers = p.say(&mut w, |b| {
        b.error(|c| {
            while c.fits(4) {
                c.invalid_stream(carrick_proto::StreamId(1));
            }
        });
    });
    assert!(answers.is_empty());
    let told = w.events(0).len();
    assert!(told > 0 && told <= 64, "{told} events");
}

#[test]
fn the_counters_say_what_was_wrong() {
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
    p.say_with(&mut w, VerificationTag(1), |b| b.heartbeat(b"info"));
    p.say(&mut w, |b| {
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
