//! User data: fragments, bundles, order, acknowledgements (RFC 9260 sections 3.2, 3.3.1, 3.3.4,
//! 6.1, 6.2, 6.5 to 6.7, 6.9, 6.10).

mod common;

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, CloseReason, Endpoint, EndpointConfig, Event, Part, Ppid, Route, SendError,
    SendOptions, Tsn,
};
use carrick_wire::{CauseCode, ChunkType, DataFlags, DataHeader};
use common::*;

/// Payload of a full DATA chunk: 1500 less IP, common and DATA header.
const FULL: usize = 1452;

fn options(stream: u16) -> SendOptions {
    SendOptions::on_stream(stream)
}

fn unordered() -> SendOptions {
    SendOptions {
        unordered: true,
        ..SendOptions::default()
    }
}

#[test]
fn messages_of_every_size_around_the_limits_arrive_whole_6_9() {
    let mut sizes: Vec<usize> = (1..=9).collect();
    for pieces in 1..=4 {
        sizes.extend(pieces * FULL - 9..=pieces * FULL + 9);
    }
    for size in sizes {
        let mut w = World::single_homed();
        let (a, b) = w.connect();
        w.log.clear();
        w.send(0, a, 0, pattern(size));
        w.run(secs(2));
        let flags: Vec<_> = w
            .log
            .iter()
            .flat_map(|p| p.data().iter().map(|d| d.flags).collect::<Vec<_>>())
            .map(|f| (f.beginning, f.ending))
            .collect();
        let pieces = size.div_ceil(FULL);
        let expected: Vec<_> = (0..pieces).map(|i| (i == 0, i + 1 == pieces)).collect();
        assert_eq!(flags, expected, "{size} bytes");
        let got = w.receive(1, b);
        assert_eq!(got.len(), 1, "{size} bytes");
        assert!(got[0].payload == pattern(size)[..], "{size} bytes");
        assert_eq!(got[0].part, Part::Whole);
    }
}

#[test]
fn fragments_share_stream_number_and_ppid_with_tsns_in_sequence_6_9() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    w.log.clear();
    for unordered in [false, true] {
        let all = SendOptions {
            ppid: Ppid(0xdead_beef),
            unordered,
            ..options(4)
        };
        w.send_with(0, a, all, pattern(4000));
    }
    w.run(secs(2));
    let chunks: Vec<DataHeader> = w
        .log
        .iter()
        .flat_map(|p| p.data().iter().map(|d| d.header()).collect::<Vec<_>>())
        .collect();
    assert_eq!(chunks.len(), 6);
    for pair in chunks.windows(2) {
        assert_eq!(pair[1].tsn, pair[0].tsn.next());
    }
    for (i, chunk) in chunks.iter().enumerate() {
        assert_eq!((chunk.stream.0, chunk.ppid.0), (4, 0xdead_beef));
        assert_eq!(chunk.flags.unordered, i >= 3, "U bit on every fragment");
        if i < 3 {
            assert_eq!(chunk.ssn.value(), 0);
        }
    }
    let got = w.receive(1, b);
    assert!(got.iter().all(|m| m.ppid == Ppid(0xdead_beef)));
    assert_eq!((got[0].ssn.is_some(), got[1].ssn), (true, None));
}

#[test]
fn without_fragmentation_large_messages_are_refused_6_9() {
    let mut w = World::single_homed();
    w.config.fragment = false;
    let (a, b) = w.connect();
    assert_eq!(
        w.ends[0].send(w.now, a, options(0), pattern(FULL + 1)),
        Err(SendError::TooLarge { limit: FULL })
    );
    w.send(0, a, 0, pattern(FULL));
    w.run(secs(1));
    assert_eq!(w.receive_lengths(1, b), [FULL]);
}

#[test]
fn a_smaller_payload_can_be_asked_for() {
    let mut w = World::single_homed();
    w.config.max_payload = Some(100);
    let (a, b) = w.connect();
    w.log.clear();
    w.send(0, a, 0, pattern(1000));
    w.run(secs(1));
    assert_eq!(w.data_sent(0), 10);
    assert_eq!(w.receive_lengths(1, b), [1000]);
}

#[test]
fn small_messages_share_a_packet_6_10() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    w.log.clear();
    for i in 0..30 {
        w.send(0, a, i % 10, pattern(11));
    }
    w.run(secs(1));
    assert_eq!(w.sent(0, ChunkType::DATA).len(), 1);
    assert_eq!(w.receive_lengths(1, b), [11; 30]);
}

#[test]
fn received_data_is_acknowledged_in_front_of_outgoing_data_6_1() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"one");
    assert_eq!(peer.data(&mut w, 0, 1, b"two").len(), 0, "delayed");
    w.send(0, id, 0, pattern(10));
    let sent = peer.hear(&mut w);
    assert_eq!(sent[0].kinds(), [ChunkType::SACK, ChunkType::DATA]);
    assert_eq!(
        sent[0].sack().unwrap().cumulative_tsn_ack,
        peer.tsn.previous()
    );
}

#[test]
fn order_holds_within_a_stream_and_not_between_streams_6_6() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    w.lose_data(0, &[0]);
    // Separate packets: nothing is bundled with the lost one.
    let now = SendOptions {
        no_delay: true,
        ..options(0)
    };
    w.send_with(0, a, now, pattern(1));
    w.pump();
    w.send_with(0, a, now, pattern(2));
    w.send_with(
        0,
        a,
        SendOptions {
            no_delay: true,
            ..options(1)
        },
        pattern(3),
    );
    w.send_with(
        0,
        a,
        SendOptions {
            no_delay: true,
            ..unordered()
        },
        pattern(4),
    );
    w.run(ms(100));
    assert_eq!(
        w.receive_lengths(1, b),
        [3, 4],
        "stream 1 and unordered do not wait"
    );
    w.run(secs(5));
    assert_eq!(w.receive_lengths(1, b), [1, 2]);
}

#[test]
fn unordered_messages_leave_the_stream_sequence_number_alone_6_5() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    for i in 0..10 {
        let which = if i % 2 == 0 { options(0) } else { unordered() };
        w.send_with(0, a, which, pattern(i + 1));
    }
    w.run(secs(1));
    let ordered: Vec<_> = w
        .receive(1, b)
        .iter()
        .filter_map(|m| m.ssn.map(|s| s.value()))
        .collect();
    assert_eq!(ordered, [0, 1, 2, 3, 4]);
}

/// An endpoint whose initial TSN wraps within `reach` chunks: found by trying seeds.
fn seed_before_wrap(reach: u32) -> [u8; 32] {
    for n in 0_u64..2_000_000 {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&n.to_be_bytes());
        let config = EndpointConfig::new(port(0), vec![addresses(0)[0]], seed);
        let mut end = Endpoint::new(config).unwrap();
        let now = carrick_proto::Time::from_millis(1000);
        let settings = AssociationConfig::default();
        end.connect(now, &[addresses(1)[0]], port(1), None, settings)
            .unwrap();
        let mut buf = Vec::new();
        end.poll_transmit(now, &mut buf).unwrap();
        let tsn = u32::from_be_bytes(buf[28..32].try_into().unwrap());
        if tsn > u32::MAX - reach {
            return seed;
        }
    }
    panic!("no seed found");
}

#[test]
fn stream_and_transmission_sequence_numbers_wrap_3_3_1_and_6_5() {
    const MESSAGES: u32 = 70_000;
    let seed = seed_before_wrap(60_000);
    let mut w = World::with(2, |i, c| {
        c.local_addresses.truncate(1);
        if i == 0 {
            c.seed = seed;
        }
    });
    w.lose_data(0, &[30_000, 65_530, 65_540]);
    let (a, b) = w.connect();
    let first = w.sent(0, ChunkType::INIT)[0].init().initial_tsn;
    assert!(first.value() > u32::MAX - 60_000);
    w.forget = true;
    let (mut sent, mut got) = (0, 0_u32);
    while got < MESSAGES {
        while sent < MESSAGES {
            let data = Bytes::copy_from_slice(&u32::to_be_bytes(sent));
            match w.ends[0].send(w.now, a, options(0), data) {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert_eq!(error, SendError::BufferFull);
                    break;
                }
            }
        }
        w.run(ms(20));
        assert!(w.now.as_secs_f64() < 300.0, "stuck after {got} messages");
        for message in w.receive(1, b) {
            assert_eq!(message.ssn.unwrap().value(), got as u16);
            assert_eq!(&message.payload.into_bytes()[..], got.to_be_bytes());
            got += 1;
        }
    }
}

#[test]
fn received_tsns_wrap_3_3_1() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.tsn = Tsn::new(u32::MAX - 2);
    let (mut peer, id) = peer.connect(&mut w);
    let skipped = peer.tsn.plus(3);
    for ssn in 0..8 {
        if peer.tsn == skipped {
            peer.tsn = peer.tsn.next();
        }
        peer.data(&mut w, 0, ssn + u16::from(ssn >= 3), b"x");
    }
    assert_eq!(w.receive(0, id).len(), 3);
    let header = Puppet::data_header(skipped, 0, 3);
    let answers = peer.say(&mut w, |p| p.data(&header, b"x"));
    let sack = answers[0].sack().unwrap();
    assert_eq!(sack.cumulative_tsn_ack, peer.tsn.previous());
    assert_eq!(w.receive(0, id).len(), 6);
}

#[test]
fn a_stream_may_have_65535_messages_behind_a_missing_one_6_1() {
    let mut w = World::with(1, |_, c| {
        c.association.receive_buffer = 64 << 20;
        c.association.receive_buffer_chunks = 1 << 20;
    });
    let (peer, id) = Puppet::new().connect(&mut w);
    let message = |p: &mut carrick_wire::PacketBuilder<'_>, n: u32| {
        let header = Puppet::data_header(peer.tsn.plus(n), 0, n as u16);
        p.data(&header, &n.to_be_bytes());
    };
    for block in 0..20 {
        peer.say(&mut w, |p| {
            for n in block * 2000..(block + 1) * 2000 {
                if n > 0 {
                    message(p, n);
                }
            }
        });
    }
    assert_eq!(w.receive(0, id).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    peer.say(&mut w, |p| message(p, 0));
    let got = w.receive(0, id);
    assert_eq!(got.len(), 40_000);
    for (i, message) in got.into_iter().enumerate() {
        assert_eq!(&message.payload.into_bytes()[..], (i as u32).to_be_bytes());
    }
}

#[test]
fn the_i_bit_is_set_on_the_last_fragment_and_answered_at_once_6_2() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    let immediate = SendOptions {
        immediate: true,
        ..options(0)
    };
    w.send_with(0, id, immediate, pattern(3000));
    let sent = peer.hear(&mut w);
    let bits: Vec<_> = sent
        .iter()
        .flat_map(|p| {
            p.data()
                .iter()
                .map(|d| d.flags.immediate)
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(bits, [false, false, true]);

    peer.data(&mut w, 0, 0, b"first");
    let mut header = Puppet::data_header(peer.tsn, 0, 1);
    header.flags.immediate = true;
    let answers = peer.say(&mut w, |p| p.data(&header, b"at once"));
    assert!(answers[0].has(ChunkType::SACK));
}

#[test]
fn every_second_packet_is_acknowledged_and_others_within_200_ms_6_2() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    assert!(peer.data(&mut w, 0, 0, b"first")[0].has(ChunkType::SACK));
    for round in 0..3 {
        assert_eq!(peer.data(&mut w, 0, 1 + 2 * round, b"odd").len(), 0);
        let answers = peer.data(&mut w, 0, 2 + 2 * round, b"even");
        assert_eq!(answers.len(), 1);
        assert!(answers[0].has(ChunkType::SACK));
    }
    // Two chunks in one packet are one packet.
    let (one, two) = (
        Puppet::data_header(peer.tsn, 0, 7),
        Puppet::data_header(peer.tsn.next(), 0, 8),
    );
    let answers = peer.say(&mut w, |p| {
        p.data(&one, b"1");
        p.data(&two, b"2");
    });
    assert_eq!(answers.len(), 0);
    peer.tsn = peer.tsn.plus(2);
    w.run(ms(199));
    assert_eq!(peer.hear(&mut w).len(), 0);
    w.run(ms(1));
    let sack = peer.hear(&mut w);
    assert_eq!(
        sack[0].sack().unwrap().cumulative_tsn_ack,
        peer.tsn.previous()
    );
    w.run(secs(5));
    assert!(peer.hear(&mut w).iter().all(|p| !p.has(ChunkType::SACK)));
    assert_eq!(w.receive(0, id).len(), 9);
}

#[test]
fn a_gap_is_reported_at_once_until_it_is_filled_6_7() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"first");
    let base = peer.tsn.previous();
    let arrive = |w: &mut World, offset: u32| {
        let header = Puppet::data_header(base.plus(offset), 0, offset as u16);
        let answers = peer.say(w, |p| p.data(&header, b"x"));
        answers.first().map(|p| {
            let sack = p.sack().unwrap();
            let gaps: Vec<_> = sack.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
            (sack.cumulative_tsn_ack.since(base), gaps)
        })
    };
    assert_eq!(arrive(&mut w, 1), None, "in order");
    assert_eq!(arrive(&mut w, 3), Some((1, vec![(2, 2)])));
    assert_eq!(arrive(&mut w, 4), Some((1, vec![(2, 3)])));
    assert_eq!(arrive(&mut w, 7), Some((1, vec![(2, 3), (6, 6)])));
    assert_eq!(arrive(&mut w, 2), Some((4, vec![(3, 3)])));
    assert_eq!(arrive(&mut w, 5), Some((5, vec![(2, 2)])));
    assert_eq!(arrive(&mut w, 6), Some((7, vec![])), "filled: at once too");
    assert_eq!(arrive(&mut w, 8), None, "and then delayed again");
}

#[test]
fn a_batch_behind_a_gap_is_as_many_missing_reports_as_a_peer_needs_6_7() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"first");
    let base = peer.tsn.previous();
    let mut arrive = |offsets: &[u32]| {
        for &offset in offsets {
            let header = Puppet::data_header(base.plus(offset), 0, offset as u16);
            let packet = peer.build(peer.peer_tag, |p| p.data(&header, b"x"));
            w.ends[0].handle_datagram(w.now, &peer.route(), packet);
        }
        let answers = peer.hear(&mut w);
        let reports = answers.iter().map(|p| {
            assert_eq!(p.kinds(), [ChunkType::SACK], "one SACK a packet");
            let sack = p.sack().unwrap();
            let gaps: Vec<_> = sack.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
            (sack.cumulative_tsn_ack.since(base), gaps)
        });
        reports.collect::<Vec<_>>()
    };
    let of = |cumulative, gap| (cumulative, vec![gap]);
    assert_eq!(
        arrive(&[2, 3, 4, 5, 6, 7, 8, 9]),
        [of(0, (2, 2)), of(0, (2, 3)), of(0, (2, 4)), of(0, (2, 9))],
        "each a report of its own, and no more than are needed"
    );
    assert_eq!(arrive(&[10, 11]), [of(0, (2, 10)), of(0, (2, 11))]);
    assert_eq!(
        arrive(&[12, 1, 13, 14]),
        [of(0, (2, 12)), (14, vec![])],
        "filled: the batch has one SACK again"
    );
    assert_eq!(arrive(&[15, 16, 17, 18]), [(18, vec![])]);
}

#[test]
fn duplicates_are_reported_at_once_each_time_they_came_3_3_4() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"first");
    let header = Puppet::data_header(peer.tsn.previous(), 0, 0);
    let answers = peer.say(&mut w, |p| {
        p.data(&header, b"first");
        p.data(&header, b"first");
    });
    let duplicates: Vec<_> = answers[0].sack().unwrap().duplicate_tsns().collect();
    assert_eq!(duplicates, [header.tsn, header.tsn]);
    let answers = peer.say(&mut w, |p| p.data(&header, b"first"));
    let duplicates: Vec<_> = answers[0].sack().unwrap().duplicate_tsns().collect();
    assert_eq!(duplicates, [header.tsn], "since the last SACK");
    assert_eq!(w.receive(0, id).len(), 1);
    assert_eq!(w.stats(0, id).counters.duplicates_received, 3);
}

#[test]
fn an_invalid_stream_is_acknowledged_reported_and_discarded_6_5() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    let answers = peer.data(&mut w, 10, 0, b"stream 10 of 10");
    let causes: Vec<_> = answers.iter().flat_map(|p| p.causes()).collect();
    assert_eq!(causes, [(CauseCode::INVALID_STREAM, vec![0, 10, 0, 0])]);
    let sack = answers.iter().find_map(|p| p.sack()).expect("at once");
    assert_eq!(sack.cumulative_tsn_ack, peer.tsn.previous());
    assert_eq!(w.receive(0, id).len(), 0);
    peer.data(&mut w, 9, 0, b"fine");
    assert_eq!(w.receive(0, id).len(), 1);
}

#[test]
fn data_without_user_data_aborts_6_2() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    let tsn = peer.tsn;
    let answers = peer.data(&mut w, 0, 0, b"");
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(
        answers[0].causes(),
        [(CauseCode::NO_USER_DATA, tsn.value().to_be_bytes().to_vec())]
    );
    assert!(matches!(
        w.events(0)[..],
        [Event::Closed(CloseReason::AbortedByProtocol(_))]
    ));
}

#[test]
fn a_sack_for_a_tsn_that_was_not_sent_aborts_12_4() {
    for (cumulative, gaps) in [(1, vec![]), (0, vec![(2, 2)]), (1000, vec![])] {
        let mut w = World::single_homed();
        let (peer, id) = Puppet::new().connect(&mut w);
        w.send(0, id, 0, pattern(10));
        let answers = peer.sack(&mut w, peer.theirs(cumulative), 100_000, &gaps);
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert_eq!(answers[0].causes()[0].0, CauseCode::PROTOCOL_VIOLATION);
    }
}

#[test]
fn an_old_sack_changes_nothing_6_2_1() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().connect(&mut w);
    for _ in 0..3 {
        w.send(0, id, 0, pattern(1000));
    }
    peer.sack(&mut w, peer.theirs(1), 50_000, &[]);
    let before = w.stats(0, id);
    peer.sack(&mut w, peer.theirs(0), 10, &[]);
    let after = w.stats(0, id);
    assert_eq!(
        (before.peer_rwnd, before.outstanding_chunks),
        (after.peer_rwnd, after.outstanding_chunks)
    );
    // Far away in the other half of the numbers: older still.
    peer.sack(&mut w, peer.theirs(0x8000_0010), 10, &[]);
    assert_eq!(state_name(&w.stats(0, id)), "Established");
}

/// Sends one message through a small window, the reader taking what there is every `every`.
fn through_a_small_window(w: &mut World, size: usize, every: Duration) {
    let (a, b) = w.connect();
    w.forget = true;
    let expected = pattern(size);
    w.send(0, a, 7, expected.clone());
    let mut got = 0;
    let mut parts = Vec::new();
    let began = w.now;
    while got < size {
        w.run(every);
        assert!(w.now - began < secs(3000), "stuck after {got} bytes");
        let held = w.stats(1, b).receive_buffer_bytes;
        assert!(held < 110_000, "{held} bytes in a buffer of 100,000");
        for part in w.receive(1, b) {
            assert_eq!(part.stream.0, 7);
            parts.push((part.part, part.tsn));
            let payload = part.payload.into_bytes();
            assert_eq!(payload, expected[got..got + payload.len()]);
            got += payload.len();
        }
    }
    assert_eq!(parts[0].0, Part::First);
    assert_eq!(parts.last().unwrap().0, Part::Last);
    let middle = &parts[1..parts.len() - 1];
    assert!(middle.iter().all(|p| p.0 == Part::Middle));
    assert!(parts.iter().all(|p| p.1 == parts[0].1), "one TSN for all");
    // The stream goes on.
    w.send(0, a, 7, pattern(10));
    w.run(secs(2));
    assert_eq!(w.receive_lengths(1, b), [10]);
    assert_eq!(w.stats(0, a).error_count, 0);
}

fn small_window() -> World {
    World::with(2, |_, c| c.association.receive_buffer = 100_000)
}

#[test]
fn ten_megabytes_pass_a_window_of_100_kilobytes_6_9() {
    through_a_small_window(&mut small_window(), 10_000_000, ms(50));
}

#[test]
fn partial_delivery_survives_losses_6_9() {
    let mut w = small_window();
    let mut n = 0;
    w.rule(move |p| {
        n += 1;
        let lost = p.time > carrick_proto::Time::from_millis(2100) && n % 37 == 0;
        if lost { Fate::Drop } else { Fate::Pass }
    });
    through_a_small_window(&mut w, 2_000_000, ms(50));
}

#[test]
fn partial_delivery_with_a_slow_reader_6_9() {
    through_a_small_window(&mut small_window(), 1_000_000, secs(5));
}

#[test]
fn a_lost_fragment_in_a_full_buffer_costs_little_6_2() {
    // The receiver counts more than the sender, so the buffer is full before the window is. A
    // retransmission that fills a gap may push out the highest fragments, not all of them.
    let mut w = World::with(2, |_, c| {
        c.local_addresses.truncate(1);
        c.association.receive_buffer = 100_000;
    });
    let (a, b) = w.connect();
    w.log.clear();
    // Warm the window up, so that the whole buffer is in flight at once.
    for _ in 0..40 {
        w.send(0, a, 0, pattern(20_000));
        w.run(ms(100));
        w.receive(1, b);
    }
    w.log.clear();
    w.lose_data(0, &[0]);
    w.send(0, a, 0, pattern(150_000));
    let mut got = 0;
    for _ in 0..100 {
        w.run(ms(100));
        let all = w.receive(1, b);
        got += all.iter().map(|m| m.payload.len()).sum::<usize>();
    }
    assert_eq!(got, 150_000);
    let chunks = 150_000 / FULL + 1;
    let sent = w.data_sent(0);
    assert!(
        sent < chunks + 25,
        "{sent} chunks sent for a message of {chunks}"
    );
}

#[test]
fn nagle_holds_small_packets_back_while_data_is_outstanding_6_1() {
    for (nagle, packets) in [(true, 2), (false, 10)] {
        let mut w = World::single_homed();
        w.config.nagle = nagle;
        let (a, b) = w.connect();
        w.log.clear();
        for _ in 0..10 {
            w.send(0, a, 0, pattern(10));
            w.pump();
        }
        w.run(secs(1));
        assert_eq!(w.sent(0, ChunkType::DATA).len(), packets);
        assert_eq!(w.receive_lengths(1, b), [10; 10]);
    }
}

#[test]
fn nagle_lets_full_packets_and_hurried_messages_go_6_1() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    w.log.clear();
    w.send(0, a, 0, pattern(10));
    w.pump();
    w.send(0, a, 0, pattern(FULL));
    w.pump();
    assert_eq!(w.sent(0, ChunkType::DATA).len(), 2, "a full packet goes");
    let hurried = SendOptions {
        no_delay: true,
        ..options(0)
    };
    w.send_with(0, a, hurried, pattern(10));
    w.pump();
    assert_eq!(w.sent(0, ChunkType::DATA).len(), 3);
}

#[test]
fn a_message_past_its_life_is_not_sent_and_reported_11_1_5() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.a_rwnd = 1500;
    let (peer, id) = peer.connect(&mut w);
    let mortal = |context| SendOptions {
        lifetime: Some(ms(500)),
        context,
        ..options(0)
    };
    w.send_with(0, id, mortal(1), pattern(1000));
    w.send_with(0, id, mortal(2), pattern(1000));
    w.send_with(0, id, options(0), pattern(1000));
    let sent = peer.hear(&mut w);
    assert_eq!(peer.numbers(&sent), [0], "the window takes one");
    w.run(ms(499));
    assert_eq!(w.events(0), []);
    w.run(ms(1));
    let events = w.events(0);
    assert!(
        matches!(&events[..], [Event::SendFailed(f)] if f.context == 2 && f.expired && !f.sent && f.unsent.len() == 1000),
        "{events:?}"
    );
    let answers = peer.sack(&mut w, peer.theirs(0), 10_000, &[]);
    let data = answers[0].data();
    assert_eq!(data[0].ssn.value(), 1, "no number was used up");
}

#[test]
fn a_full_send_buffer_refuses_and_tells_when_there_is_room_again_11_1_5() {
    let mut w = World::single_homed();
    w.config.send_buffer = 10_000;
    let (a, b) = w.connect();
    w.events(0);
    for _ in 0..10 {
        w.send(0, a, 0, pattern(1000));
    }
    assert_eq!(
        w.ends[0].send(w.now, a, options(0), pattern(1)),
        Err(SendError::BufferFull)
    );
    assert_eq!(w.stats(0, a).send_buffer_bytes, 10_000);
    w.run(secs(2));
    let events = w.events(0);
    let free = events.iter().filter(|e| **e == Event::SendBufferFree);
    assert_eq!(free.count(), 1, "{events:?}");
    assert_eq!(events.last(), Some(&Event::AllAcknowledged));
    assert_eq!(w.receive(1, b).len(), 10);
    // One that is larger than the buffer goes when the buffer is empty.
    w.send(0, a, 0, pattern(50_000));
    assert_eq!(
        w.ends[0].send(w.now, a, options(0), pattern(1)),
        Err(SendError::BufferFull)
    );
    w.run(secs(2));
    assert_eq!(w.receive_lengths(1, b), [50_000]);
}

#[test]
fn the_number_of_messages_in_the_send_buffer_is_bounded_too() {
    let mut w = World::single_homed();
    w.config.send_buffer_messages = 5;
    let (a, _) = w.connect();
    for _ in 0..5 {
        w.send(0, a, 0, pattern(1));
    }
    assert_eq!(
        w.ends[0].send(w.now, a, options(0), pattern(1)),
        Err(SendError::BufferFull)
    );
}

#[test]
fn empty_messages_and_unknown_paths_are_refused_11_1_5() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    assert_eq!(
        w.ends[0].send(w.now, a, options(0), Bytes::new()),
        Err(SendError::Empty)
    );
    let lost = SendOptions {
        path: Some(carrick_proto::PathId(5)),
        ..options(0)
    };
    assert_eq!(
        w.ends[0].send(w.now, a, lost, pattern(1)),
        Err(SendError::UnknownPath)
    );
}

#[test]
fn data_arrive_is_told_once_until_all_has_been_read_11_2_1() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    for ssn in 0..5 {
        peer.data(&mut w, 0, ssn, b"x");
    }
    assert_eq!(w.events(0), [Event::MessageReceived]);
    assert_eq!(w.receive(0, id).len(), 5);
    peer.data(&mut w, 0, 5, b"x");
    assert_eq!(w.events(0), [Event::MessageReceived]);
}

#[test]
fn unknown_chunks_are_treated_by_their_two_highest_bits_3_2() {
    for (kind, goes_on, reports) in [
        (0x3f, false, false),
        (0x7f, false, true),
        (0xbf, true, false),
        (0xff, true, true),
    ] {
        let mut w = World::single_homed();
        let (mut peer, id) = Puppet::new().connect(&mut w);
        let header = Puppet::data_header(peer.tsn, 0, 0);
        let answers = peer.say(&mut w, |p| {
            p.raw(ChunkType(kind), 5, b"abcde");
            p.data(&header, b"behind");
        });
        let causes: Vec<_> = answers.iter().flat_map(|p| p.causes()).collect();
        if reports {
            let mut chunk = vec![kind, 5, 0, 9];
            chunk.extend_from_slice(b"abcde");
            assert_eq!(causes, [(CauseCode::UNRECOGNIZED_CHUNK, chunk)]);
        } else {
            assert_eq!(causes, []);
        }
        assert_eq!(w.receive(0, id).len(), usize::from(goes_on), "type {kind}");
        peer.tsn = peer.tsn.plus(u32::from(goes_on));
        peer.data(&mut w, 0, u16::from(goes_on), b"next");
        assert_eq!(w.receive(0, id).len(), 1);
    }
}

#[test]
fn gap_blocks_that_do_not_fit_are_left_out_from_the_highest_6_7() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.receive_buffer = 10 << 20;
    });
    let (mut peer, _) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"first");
    let base = peer.tsn.previous();
    let mut last = Vec::new();
    for i in 1..=1000 {
        let header = Puppet::data_header(base.plus(2 * i), 1, i as u16);
        last = peer.say(&mut w, |p| p.data(&header, b"x"));
    }
    assert_eq!(last.len(), 1, "one SACK");
    let sack = last[0].sack().unwrap();
    let gaps: Vec<_> = sack.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
    assert!(last[0].bytes.len() <= 1480 && gaps.len() > 350);
    for (i, gap) in gaps.iter().enumerate() {
        let offset = 2 * (i as u16 + 1);
        assert_eq!(*gap, (offset, offset), "from the lowest");
    }
}

#[test]
fn a_tsn_that_no_sack_can_report_is_dropped_3_3_4() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().connect(&mut w);
    for (ahead, taken) in [(65_535, false), (65_534, true)] {
        let header = DataHeader {
            flags: DataFlags {
                unordered: true,
                ..DataFlags::WHOLE
            },
            ..Puppet::data_header(peer.tsn.plus(ahead), 0, 0)
        };
        let answers = peer.say(&mut w, |p| p.data(&header, b"far"));
        assert!(answers[0].has(ChunkType::SACK));
        assert_eq!(w.receive(0, id).len(), usize::from(taken));
    }
}

fn fragment(tsn: Tsn, stream: u16, ssn: u16, place: (bool, bool)) -> DataHeader {
    DataHeader {
        flags: DataFlags {
            beginning: place.0,
            ending: place.1,
            ..DataFlags::WHOLE
        },
        ..Puppet::data_header(tsn, stream, ssn)
    }
}

#[test]
fn fragments_are_put_together_in_any_order_6_9() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    let place = |i: u32| (i == 0, i == 4);
    for order in [[4, 3, 2, 1, 0], [2, 0, 4, 1, 3], [0, 4, 1, 3, 2]] {
        let ssn = w.stats(0, id).counters.messages_delivered as u16;
        for i in order {
            let header = fragment(peer.tsn.plus(i), 0, ssn, place(i));
            peer.say(&mut w, |p| p.data(&header, &[i as u8; 3]));
        }
        peer.tsn = peer.tsn.plus(5);
        let got = w.receive(0, id);
        assert_eq!(got.len(), 1);
        assert!(got[0].payload == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4][..]);
    }
}

#[test]
fn fragments_that_contradict_each_other_abort_3_3_1() {
    // Offset of the TSN, stream, number, beginning and end.
    type Piece = (u32, u16, u16, (bool, bool));
    let cases: [[Piece; 2]; 5] = [
        // A middle fragment behind the end of a message.
        [(0, 0, 0, (false, true)), (1, 0, 0, (false, false))],
        // A new message before the last one ended.
        [(0, 0, 0, (true, false)), (1, 0, 1, (true, true))],
        // Another stream, another number within one message.
        [(0, 0, 0, (true, false)), (1, 1, 0, (false, true))],
        [(0, 0, 0, (true, false)), (1, 0, 1, (false, true))],
        [(1, 0, 1, (false, true)), (0, 0, 0, (true, false))],
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let mut w = World::single_homed();
        let (peer, _) = Puppet::new().connect(&mut w);
        let mut last = Vec::new();
        for (offset, stream, ssn, place) in case {
            let header = fragment(peer.tsn.plus(offset), stream, ssn, place);
            last = peer.say(&mut w, |p| p.data(&header, b"x"));
        }
        assert_eq!(last[0].kinds(), [ChunkType::ABORT], "case {number}");
        assert_eq!(last[0].causes()[0].0, CauseCode::PROTOCOL_VIOLATION);
    }
}

#[test]
fn a_whole_message_is_a_slice_of_its_datagram() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().connect(&mut w);
    let header = Puppet::data_header(peer.tsn, 0, 0);
    let datagram = peer.build(peer.peer_tag, |p| p.data(&header, b"not copied"));
    w.inject(0, &peer.route(), datagram.clone());
    let payload = w.receive(0, id)[0].payload.clone().into_bytes();
    let at = payload.as_ptr() as usize - datagram.as_ptr() as usize;
    assert_eq!(&datagram[at..at + payload.len()], b"not copied");
}

#[test]
fn full_packets_leave_together_for_segmentation_offload() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    for _ in 0..10 {
        w.send(0, a, 0, pattern(FULL));
    }
    let mut buf = Vec::new();
    let transmit = w.ends[0].poll_transmit(w.now, &mut buf).unwrap();
    assert_eq!(transmit.segment_size, Some(1480));
    assert_eq!(transmit.len, buf.len());
    assert!(transmit.packets() >= 3, "an initial window");
    assert_eq!(
        transmit.route,
        Route::plain(addresses(0)[0], addresses(1)[0])
    );
}

#[test]
fn both_sides_send_at_once_with_losses() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.lose_data(0, &[1, 5, 6, 7, 50, 99]);
    w.lose_data(1, &[0, 2, 30, 31, 98, 99]);
    for i in 0..100 {
        w.send(0, a, i % 3, pattern(1000 + usize::from(i)));
        w.send(1, b, i % 4, pattern(500 + usize::from(i)));
    }
    w.run(secs(60));
    let mut at_b = w.receive_lengths(1, b);
    let mut at_a = w.receive_lengths(0, a);
    at_a.sort_unstable();
    at_b.sort_unstable();
    assert_eq!(at_b, (1000..1100).collect::<Vec<_>>());
    assert_eq!(at_a, (500..600).collect::<Vec<_>>());
}

#[test]
fn chunks_of_extensions_that_were_not_agreed_on_are_unknown_3_2() {
    // AUTH, RE-CONFIG, FORWARD TSN, ASCONF, I-FORWARD-TSN. RFC 8260 section 2.2.3 wants more for
    // I-DATA.
    for kind in [0x0f, 0x82, 0xc0, 0xc1, 0xc2] {
        let mut w = World::single_homed();
        let (mut peer, id) = Puppet::new().connect(&mut w);
        for value in [&[][..], &[0; 4], &[0xff; 16], &[0xff; 200]] {
            let answers = peer.say(&mut w, |p| p.raw(ChunkType(kind), 0xff, value));
            let reports = kind & 0x40 != 0;
            assert_eq!(answers.len(), usize::from(reports));
            for (code, chunk) in answers.iter().flat_map(|p| p.causes()) {
                assert_eq!(code, CauseCode::UNRECOGNIZED_CHUNK);
                assert_eq!(chunk[0], kind);
            }
        }
        peer.data(&mut w, 0, 0, b"unharmed");
        assert_eq!(w.receive_lengths(0, id), [8]);
    }
}

#[test]
fn a_message_that_begins_inside_a_partial_delivery_aborts_3_3_1() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.receive_buffer = 20_000;
    });
    for (stream, beginning) in [(0, true), (1, false)] {
        let mut peer = Puppet::new();
        peer.port += stream;
        peer.link.from = ip(&format!("10.0.0.{}", 100 + stream));
        let (mut peer, id) = peer.connect(&mut w);
        for i in 0..11 {
            let header = fragment(peer.tsn, 0, 0, (i == 0, false));
            peer.say(&mut w, |p| p.data(&header, &[7; 1400]));
            peer.tsn = peer.tsn.next();
        }
        let got = w.receive(0, id);
        assert_eq!(got[0].part, Part::First);
        // What follows the gap claims to be of another message; then the gap is filled.
        let next = fragment(peer.tsn.next(), stream, 0, (beginning, false));
        peer.say(&mut w, |p| p.data(&next, b"other"));
        let fill = fragment(peer.tsn, 0, 0, (false, false));
        let answers = peer.say(&mut w, |p| p.data(&fill, b"gap"));
        assert!(
            answers.iter().any(|p| p.has(ChunkType::ABORT)),
            "stream {stream}, beginning {beginning}"
        );
    }
}

#[test]
fn data_in_front_of_a_broken_chunk_counts_6_10() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().connect(&mut w);
    let header = Puppet::data_header(peer.tsn, 0, 0);
    let whole = peer.build(peer.peer_tag, |p| {
        p.data(&header, b"fine");
        p.data(&Puppet::data_header(peer.tsn.next(), 0, 1), b"cut off");
    });
    let mut cut = whole[..whole.len() - 4].to_vec();
    fix_checksum(&mut cut);
    w.inject(0, &peer.route(), cut);
    assert_eq!(w.receive_lengths(0, id), [4], "a partial chunk is dropped");
    assert_eq!(w.ends[0].stats().malformed_chunks, 1);
}

#[test]
fn a_sack_that_fills_a_packet_does_not_delay_a_fast_retransmission_7_2_4() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.receive_buffer = 10 << 20;
    });
    let (peer, id) = Puppet::new().connect(&mut w);
    for _ in 0..300 {
        w.send(0, id, 0, pattern(FULL));
    }
    // Open the window, so that it stays full when it is halved.
    let mut next = 0;
    while w.path(0, id, 0).cwnd < 20 * 1468 {
        w.run(ms(1));
        let heard = peer.hear(&mut w);
        next += peer.numbers(&heard).len() as u32;
        let more = peer.sack(&mut w, peer.theirs(next - 1), 1 << 20, &[]);
        next += peer.numbers(&more).len() as u32;
    }
    let heard = peer.hear(&mut w);
    next += peer.numbers(&heard).len() as u32;
    let in_flight = w.stats(0, id).outstanding_chunks as u32;
    let lost = next - in_flight;
    let cumulative = peer.theirs(lost).previous();
    // So many gaps in what the peer sent that their report fills a packet.
    for i in 1..=400 {
        let header = Puppet::data_header(peer.tsn.plus(2 * i), 1, i as u16);
        peer.say(&mut w, |p| p.data(&header, b"x"));
    }
    let mut sent = Vec::new();
    for report in 1..=3_u16 {
        let gap = carrick_wire::GapAckBlock {
            start: 2,
            end: 1 + report,
        };
        let header =
            Puppet::data_header(peer.tsn.plus(800 + 2 * u32::from(report)), 1, 500 + report);
        sent = peer.say(&mut w, |p| {
            p.sack(
                cumulative,
                1 << 20,
                std::iter::once(gap),
                std::iter::empty(),
            );
            p.data(&header, b"x");
        });
    }
    let path = w.path(0, id, 0);
    assert!(
        path.flight_size > path.cwnd,
        "the window is closed: {path:?}"
    );
    assert!(peer.numbers(&sent).contains(&lost), "retransmitted at once");
}
