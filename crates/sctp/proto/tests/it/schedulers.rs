//! Stream schedulers (RFC 8260, section 3): the order of DATA chunks on the wire.

use crate::common;

use carrick_proto::{
    AssociationId, Event, OperationError, SendOptions, StreamId, StreamScheduler, Time,
};
use common::*;

/// Payload of a DATA chunk that has a packet for itself.
const FULL: usize = 1452;

/// Two associated endpoints; the first one's messages wait until the world runs.
fn scheduled(scheduler: StreamScheduler) -> (World, AssociationId, AssociationId) {
    let mut w = World::single_homed();
    w.config.streams.scheduler = scheduler;
    w.config.transmission.nagle = false;
    w.config.streams.outbound_streams = 100;
    let (a, b) = w.connect();
    assert_eq!(w.read(0, a).scheduler(), scheduler);
    w.log.clear();
    (w, a, b)
}

/// Stream and number in the stream of every chunk, in the order of their TSNs.
fn on_the_wire(w: &World) -> Vec<(u16, u16)> {
    let mut chunks: Vec<_> = w
        .log
        .iter()
        .filter(|p| p.from == 0)
        .flat_map(|p| {
            let all = p.data();
            let all = all.iter();
            all.map(|d| (d.tsn.value(), d.stream.0, d.ssn.value()))
                .collect::<Vec<_>>()
        })
        .collect();
    let first = chunks.first().map_or(0, |c| c.0);
    chunks.sort_by_key(|c| c.0.wrapping_sub(first));
    chunks.dedup();
    chunks.into_iter().map(|(_, s, n)| (s, n)).collect()
}

fn streams_on_the_wire(w: &World) -> Vec<u16> {
    on_the_wire(w).into_iter().map(|c| c.0).collect()
}

/// Three streams with the messages of figure 1: three chunks on streams 0 and 2, on stream 1 three
/// messages of one chunk.
fn send_figure_1(w: &mut World, a: AssociationId) {
    w.send(0, a, 0, pattern(3 * FULL));
    for _ in 0..3 {
        w.send(0, a, 1, pattern(FULL));
    }
    w.send(0, a, 2, pattern(3 * FULL));
}

/// RFC 8260, section 3.1
#[test]
fn first_come_first_served_is_the_default() {
    assert_eq!(StreamScheduler::default(), StreamScheduler::FirstCome);
    let (mut w, a, b) = scheduled(StreamScheduler::default());
    let order = [3, 1, 1, 99, 3, 0, 1, 99];
    for stream in order {
        w.send(0, a, stream, pattern(2 * FULL));
    }
    w.run(secs(5));
    let expected: Vec<u16> = order.iter().flat_map(|s| [*s; 2]).collect();
    assert_eq!(streams_on_the_wire(&w), expected);
    let got = w.receive(1, b);
    assert_eq!(got.iter().map(|m| m.stream.0).collect::<Vec<_>>(), order);
}

/// RFC 8260, section 3.2
#[test]
fn round_robin_takes_a_message_of_each_stream() {
    let (mut w, a, _) = scheduled(StreamScheduler::RoundRobin);
    send_figure_1(&mut w, a);
    w.run(secs(5));
    let figure_1 = [
        (0, 0),
        (0, 0),
        (0, 0),
        (1, 0),
        (2, 0),
        (2, 0),
        (2, 0),
        (1, 1),
        (1, 2),
    ];
    assert_eq!(on_the_wire(&w), figure_1);
}

/// RFC 8260, section 3.2
#[test]
fn a_returning_stream_waits_for_its_turn() {
    let (mut w, a, _) = scheduled(StreamScheduler::RoundRobin);
    for stream in [1, 2, 3] {
        w.send(0, a, stream, pattern(40 * FULL));
    }
    w.send(0, a, 1, pattern(FULL));
    w.run(ms(1));
    // Message 0 of stream 1 is on its way; others come and wait behind 2 and 3.
    w.send(0, a, 4, pattern(FULL));
    w.run(secs(20));
    let mut order = streams_on_the_wire(&w);
    order.dedup();
    assert_eq!(order, [1, 2, 3, 4, 1]);
}

/// RFC 8260, section 3.3
#[test]
fn each_packet_has_chunks_of_one_stream() {
    let (mut w, a, b) = scheduled(StreamScheduler::RoundRobinPerPacket);
    for round in 0..40 {
        for stream in 0..3 {
            w.send(0, a, stream, pattern(100 + round));
        }
    }
    w.lose_data(0, &[3, 30, 31]);
    w.run(secs(20));
    let packets: Vec<Vec<u16>> = w
        .log
        .iter()
        .map(|p| p.data().iter().map(|d| d.stream.0).collect::<Vec<_>>())
        .filter(|p| !p.is_empty())
        .collect();
    for packet in &packets {
        assert!(packet.iter().all(|s| *s == packet[0]), "{packets:?}");
    }
    let firsts: Vec<u16> = packets.iter().map(|p| p[0]).take(4).collect();
    assert_eq!(firsts, [0, 1, 2, 0], "streams in turn, a packet each");
    assert!(packets[0].len() > 5, "packets are filled");
    assert_eq!(w.receive(1, b).len(), 120);
}

/// RFC 8260, section 3.3
#[test]
fn a_large_message_continues_in_the_next_packet() {
    let (mut w, a, _) = scheduled(StreamScheduler::RoundRobinPerPacket);
    send_figure_1(&mut w, a);
    w.run(secs(5));
    let order = streams_on_the_wire(&w);
    assert_eq!(order, [0, 0, 0, 1, 2, 2, 2, 1, 1]);
}

/// RFC 8260, section 3.4
#[test]
fn the_lowest_priority_value_is_sent_first() {
    let (mut w, a, _) = scheduled(StreamScheduler::Priority);
    for (stream, value) in [(1, 7), (2, 7), (3, 65_535), (4, 1)] {
        w.change(0, a)
            .set_stream_value(StreamId(stream), value)
            .unwrap();
    }
    for stream in [3, 2, 1, 2, 4, 0, 1, 4, 0] {
        w.send(0, a, stream, pattern(FULL));
    }
    w.run(secs(5));
    assert_eq!(streams_on_the_wire(&w), [0, 0, 4, 4, 2, 1, 2, 1, 3]);
}

/// RFC 8260, section 3.4
#[test]
fn with_data_a_large_message_delays_an_urgent_one() {
    let (mut w, a, _) = scheduled(StreamScheduler::Priority);
    w.change(0, a).set_stream_value(StreamId(1), 9).unwrap();
    w.send(0, a, 1, pattern(100 * FULL));
    w.send(0, a, 1, pattern(FULL));
    w.run(ms(1));
    w.send(0, a, 0, pattern(10));
    w.run(secs(20));
    let mut expected = vec![1; 100];
    expected.extend([0, 1]);
    assert_eq!(streams_on_the_wire(&w), expected);
}

/// Bytes of each stream among the first `total` on the wire.
fn shares(w: &World, total: usize) -> [usize; 4] {
    let mut shares = [0; 4];
    let packets = w.log.iter().filter(|p| p.from == 0);
    for packet in packets {
        for data in packet.data() {
            if shares.iter().sum::<usize>() < total {
                shares[usize::from(data.stream.0)] += data.payload.len();
            }
        }
    }
    shares
}

/// Messages of very different sizes on three streams, more than the test examines.
fn send_unequal(w: &mut World, a: AssociationId) {
    for (stream, size) in [(1, 50), (2, 400), (3, 3000)] {
        for _ in 0..300_000 / size {
            w.send(0, a, stream, pattern(size));
        }
    }
}

/// RFC 8260, section 3.5
#[test]
fn fair_capacity_shares_by_bytes() {
    let (mut w, a, _) = scheduled(StreamScheduler::FairBandwidth);
    // No weights here.
    w.change(0, a).set_stream_value(StreamId(2), 10).unwrap();
    send_unequal(&mut w, a);
    w.run(secs(60));
    let [_, small, medium, large] = shares(&w, 300_000);
    for share in [small, medium, large] {
        assert!(share.abs_diff(100_000) <= 3000, "{small} {medium} {large}");
    }
}

/// RFC 8260, section 3.6
#[test]
fn weighted_fair_queueing_shares_by_weight() {
    let (mut w, a, _) = scheduled(StreamScheduler::WeightedFair);
    for (stream, weight) in [(1, 400), (2, 100), (3, 500)] {
        w.change(0, a)
            .set_stream_value(StreamId(stream), weight)
            .unwrap();
    }
    send_unequal(&mut w, a);
    w.run(secs(60));
    let [_, small, medium, large] = shares(&w, 500_000);
    for (share, expected) in [(small, 200_000), (medium, 50_000), (large, 250_000)] {
        assert!(
            share.abs_diff(expected) <= 3000,
            "{small} {medium} {large} bytes for weights 4, 1 and 5"
        );
    }
}

/// RFC 8260, section 3.6
#[test]
fn an_idle_stream_saves_no_credit() {
    for scheduler in [
        StreamScheduler::FairBandwidth,
        StreamScheduler::WeightedFair,
    ] {
        let (mut w, a, _) = scheduled(scheduler);
        for _ in 0..900 {
            w.send(0, a, 1, pattern(1000));
        }
        assert!(w.run_until(secs(60), |w| w.stats(0, a).queued_messages <= 600));
        assert!(w.stats(0, a).queued_messages > 100);
        w.log.clear();
        for _ in 0..100 {
            w.send(0, a, 2, pattern(1000));
        }
        w.run(secs(60));
        let [_, old, new, _] = shares(&w, 100_000);
        assert!(old.abs_diff(new) <= 2000, "{scheduler:?}: {old} {new}");
    }
}

/// RFC 8260, section 4.3.2
#[test]
fn the_scheduler_changes_at_run_time() {
    let (mut w, a, b) = scheduled(StreamScheduler::FirstCome);
    w.send(0, a, 5, pattern(30 * FULL));
    for stream in [5, 5, 6, 7] {
        w.send(0, a, stream, pattern(FULL));
    }
    w.run(ms(1));
    w.change(0, a).set_scheduler(StreamScheduler::RoundRobin);
    assert_eq!(w.read(0, a).scheduler(), StreamScheduler::RoundRobin);
    w.run(secs(10));
    let order = on_the_wire(&w);
    assert_eq!(
        order[..30],
        [(5, 0); 30],
        "the begun message is finished first"
    );
    assert_eq!(order[30..], [(6, 0), (7, 0), (5, 1), (5, 2)]);
    assert_eq!(w.receive(1, b).len(), 5);
}

/// RFC 8260, section 4.3.2
#[test]
fn changes_of_the_scheduler_lose_no_message() {
    let (mut w, a, b) = scheduled(StreamScheduler::FirstCome);
    let mut sent = 0;
    for round in 0..60_usize {
        for stream in 0..5 {
            w.send(
                0,
                a,
                stream,
                pattern(1 + (round * 977 + usize::from(stream) * 331) % 4000),
            );
            sent += 1;
        }
        let kind = StreamScheduler::ALL[round * 7 % 6];
        w.change(0, a).set_scheduler(kind);
        let stream = StreamId(round as u16 % 5);
        w.change(0, a)
            .set_stream_value(stream, round as u16 % 9)
            .unwrap();
        w.run(ms(3));
    }
    w.run(secs(60));
    let got = w.receive(1, b);
    assert_eq!(got.len(), sent);
    for stream in 0..5_u16 {
        let of_stream = got.iter().filter(|m| m.stream.0 == stream);
        let sizes: Vec<usize> = of_stream.map(|m| m.payload.len()).collect();
        let expected: Vec<usize> = (0..60)
            .map(|round| 1 + (round * 977 + usize::from(stream) * 331) % 4000)
            .collect();
        assert_eq!(sizes, expected, "stream {stream}");
    }
}

/// RFC 9260, section 6.3.3
#[test]
fn every_scheduler_retransmits_lost_data() {
    for scheduler in StreamScheduler::ALL {
        let (mut w, a, b) = scheduled(scheduler);
        let size = |round: usize, stream: u16| 1 + (round * 977 + usize::from(stream) * 331) % 4000;
        for round in 0..30 {
            for stream in 0..4 {
                w.send(0, a, stream, pattern(size(round, stream)));
            }
        }
        // Alone and in a row.
        w.lose_data(0, &[2, 9, 10, 11, 40]);
        w.run(secs(60));
        let counters = w.stats(0, a).counters;
        assert!(counters.fast_retransmissions > 0, "{scheduler:?}");
        let got = w.receive(1, b);
        for stream in 0..4 {
            let of_stream = got.iter().filter(|m| m.stream.0 == stream);
            let sizes: Vec<usize> = of_stream.map(|m| m.payload.len()).collect();
            let expected: Vec<usize> = (0..30).map(|round| size(round, stream)).collect();
            assert_eq!(sizes, expected, "{scheduler:?}, stream {stream}");
        }
    }
}

/// RFC 8260, section 4.3.3
#[test]
fn a_value_is_set_for_an_existing_stream() {
    let (mut w, a, _) = scheduled(StreamScheduler::Priority);
    let value = |w: &World, stream| w.read(0, a).stream_value(stream);
    assert_eq!(value(&w, StreamId(99)), Some(0));
    assert_eq!(w.change(0, a).set_stream_value(StreamId(99), 4), Ok(()));
    assert_eq!(value(&w, StreamId(99)), Some(4));
    assert_eq!(
        w.change(0, a).set_stream_value(StreamId(100), 4),
        Err(OperationError::InvalidStream)
    );
    assert_eq!(value(&w, StreamId(100)), None);
    w.ends[0].abort(w.now, a, b"").unwrap();
    assert!(w.ends[0].association_mut(w.now, a).is_none());
}

/// RFC 8260, section 4.3.3
#[test]
fn a_value_can_be_set_before_the_set_up_ends() {
    let mut w = World::single_homed();
    w.config.streams.scheduler = StreamScheduler::Priority;
    let a = w.begin_connect_from(0, &[addresses(1)[0]], port(1));
    w.change(0, a).set_stream_value(StreamId(1), 1).unwrap();
    for stream in [1, 1, 0] {
        w.send(0, a, stream, pattern(FULL));
    }
    w.run(secs(5));
    assert_eq!(streams_on_the_wire(&w), [0, 1, 1]);
}

/// RFC 9260, section 11.1.5
#[test]
fn a_queued_message_expires_on_time() {
    for scheduler in StreamScheduler::ALL {
        let (mut w, a, b) = scheduled(scheduler);
        let mortal = |stream: u16, millis: u64| SendOptions {
            lifetime: Some(ms(millis)),
            context: millis,
            ..SendOptions::on_stream(stream)
        };
        w.send(0, a, 1, pattern(200 * FULL));
        w.send_with(0, a, mortal(1, 15), pattern(10));
        w.send_with(0, a, mortal(2, 25), pattern(10));
        w.send_with(0, a, mortal(2, 5), pattern(10));
        w.send(0, a, 2, pattern(10));
        w.send_with(0, a, mortal(3, 5000), pattern(10));
        let start = w.now;
        let mut expired: Vec<(u64, Time)> = Vec::new();
        while w.now < start + secs(10) {
            w.run(ms(1));
            for event in w.events(0) {
                if let Event::SendFailed(failure) = event {
                    assert!(failure.expired && !failure.sent, "{scheduler:?}");
                    expired.push((failure.context, w.now));
                }
            }
        }
        let expected = [5, 15, 25].map(|millis| (millis, start + ms(millis)));
        assert_eq!(expired, expected, "{scheduler:?}");
        let mut lengths = w.receive_lengths(1, b);
        lengths.sort_unstable();
        assert_eq!(lengths, [10, 10, 200 * FULL], "{scheduler:?}");
    }
}

/// RFC 9260, section 5.1.1
#[test]
fn messages_for_refused_streams_return_in_order() {
    let mut w = World::with(2, |end, config| {
        config.local_addresses.truncate(1);
        if end == 1 {
            config.association.streams.max_inbound_streams = 3;
        }
    });
    w.config.streams.scheduler = StreamScheduler::RoundRobin;
    let a = w.begin_connect_from(0, &[addresses(1)[0]], port(1));
    for (context, stream) in [9, 2, 3, 9, 0, 4].into_iter().enumerate() {
        let options = SendOptions {
            context: context as u64,
            ..SendOptions::on_stream(stream)
        };
        w.send_with(0, a, options, pattern(50));
    }
    w.run(secs(5));
    let failed: Vec<u64> = w
        .events(0)
        .into_iter()
        .filter_map(|e| match e {
            Event::SendFailed(f) => Some(f.context),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [0, 2, 3, 5]);
    let b = w.association(1);
    assert_eq!(w.receive(1, b).len(), 2);
}

/// RFC 9260, section 5.2.4
#[test]
fn the_scheduler_survives_a_restart_of_the_peer() {
    let mut w = World::single_homed();
    w.config.streams.scheduler = StreamScheduler::FirstCome;
    let (peer, a) = Puppet::new().connect(&mut w);
    w.change(0, a).set_scheduler(StreamScheduler::Priority);
    w.change(0, a).set_stream_value(StreamId(1), 5).unwrap();
    w.send(0, a, 1, pattern(10));
    let again = Puppet {
        tag: carrick_proto::VerificationTag(0x99),
        ..peer
    };
    let (_, id) = again.connect(&mut w);
    assert_eq!(id, a, "the same association");
    assert_eq!(w.read(0, a).scheduler(), StreamScheduler::Priority);
    assert_eq!(w.read(0, a).stream_value(StreamId(1)), Some(5));
    w.log.clear();
    for stream in [1, 0] {
        w.send(0, a, stream, pattern(FULL));
    }
    w.pump();
    assert_eq!(on_the_wire(&w), [(0, 0), (1, 0)], "SSNs restart");
}

/// RFC 8260, section 3
#[test]
fn all_streams_can_wait_at_once() {
    for scheduler in StreamScheduler::ALL {
        let mut w = World::single_homed();
        w.discard_log = true;
        w.config.streams.scheduler = scheduler;
        w.config.streams.outbound_streams = u16::MAX;
        w.config.buffers.send_buffer_messages = 1 << 17;
        let (a, b) = w.connect();
        for stream in 0..65_000 {
            w.send(0, a, stream, pattern(3));
        }
        let mut got: Vec<u16> = Vec::new();
        for _ in 0..1000 {
            w.run(ms(100));
            got.extend(w.receive(1, b).iter().map(|m| m.stream.0));
        }
        assert!(got == (0..65_000).collect::<Vec<u16>>(), "{scheduler:?}");
    }
}
