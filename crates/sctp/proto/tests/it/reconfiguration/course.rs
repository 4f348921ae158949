//! The normal course of each request, with data before and after.

use carrick_proto::{
    Extensions, ReconfigError, ReconfigOutcome, SendOptions, StreamDirection, StreamId,
};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::reconfiguration::support::*;

use ReconfigOutcome::{NothingToDo, Performed};
use StreamDirection::{Both, Incoming, Outgoing};

fn traffic(w: &mut World, ledger: &mut Ledger) {
    for (end, stream, count) in [(0, 1, 5), (0, 2, 5), (1, 1, 5), (1, 2, 5)] {
        ledger.send(w, end, stream, count);
    }
}

/// SSNs that restart at 0 once, after this number of messages.
fn begins_again(ssns: &[u16], before: u16) -> bool {
    let after = ssns.len() as u16 - before;
    ssns.iter().copied().eq((0..before).chain(0..after))
}

/// RFC 6525, section 5.1.2
#[test]
fn reset_streams_begin_at_ssn_zero() {
    let (mut w, _) = connected();
    let mut ledger = Ledger::default();
    traffic(&mut w, &mut ledger);
    reset(&mut w, 0, Outgoing, &[1]);
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    w.run(secs(5));
    assert!(begins_again(&ledger.ssns[1][&1], 5));
    assert!(begins_again(&ledger.ssns[1][&2], 10), "not requested");
    assert!(begins_again(&ledger.ssns[0][&1], 10), "the other direction");
    let expected = [(vec![1], Performed)];
    assert_eq!(resets(&w.events(0), Outgoing), expected);
    assert_eq!(resets(&w.events(1), Incoming), expected);
    let talk = talk(&w);
    assert_eq!(talk[0], (0, "out [1]".into()));
    assert_eq!(talk.last(), Some(&(1, "response performed".into())));
}

/// RFC 6525, section 4.1
#[test]
fn an_empty_list_resets_all_outgoing_streams() {
    let (mut w, _) = connected();
    let mut ledger = Ledger::default();
    traffic(&mut w, &mut ledger);
    reset(&mut w, 0, Outgoing, &[]);
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    for stream in [1, 2] {
        assert!(begins_again(&ledger.ssns[1][&stream], 5));
        assert!(begins_again(&ledger.ssns[0][&stream], 10));
    }
    assert_eq!(talk(&w)[0], (0, "out []".into()));
}

/// RFC 6525, section 5.1.2
#[test]
fn the_request_waits_for_acknowledged_data() {
    let (mut w, [a, _]) = connected();
    w.lose_data(0, &[0]);
    w.send(0, a, 1, pattern(100));
    reset(&mut w, 0, Outgoing, &[1]);
    w.send(0, a, 1, pattern(100));
    w.run(ms(900));
    assert_eq!(w.data_sent(0), 1, "the second one waits");
    assert_eq!(talk(&w), []);
    w.run(ms(600));
    assert_eq!(talk(&w)[0], (0, "out [1]".into()));
    assert_eq!(w.stats(0, a).queued_messages, 0);
}

/// RFC 6525, section 5.1.2
#[test]
fn other_streams_deliver_meanwhile() {
    let (mut w, [a, b]) = connected();
    w.lose(1, ChunkType::RE_CONFIG, 1);
    w.send(0, a, 1, pattern(10));
    reset(&mut w, 0, Outgoing, &[1]);
    w.run(ms(300));
    w.send(0, a, 1, pattern(11));
    w.send(0, a, 2, pattern(12));
    w.run(ms(100));
    assert_eq!(w.receive_lengths(1, b), [10, 12]);
    assert_eq!(w.stats(0, a).queued_messages, 1);
    w.run(secs(3));
    assert_eq!(w.receive_lengths(1, b), [11]);
}

/// RFC 6525, section 5.2.2
#[test]
fn missing_data_of_other_streams_defers_the_reset() {
    let (mut w, [a, b]) = connected();
    w.lose_data(0, &[1]);
    w.send(0, a, 1, pattern(10));
    w.pump();
    reset(&mut w, 0, Outgoing, &[1]);
    // Before the first one is acknowledged, another one leaves and is lost.
    w.run(ms(5));
    let options = SendOptions {
        no_delay: true,
        ..SendOptions::on_stream(2)
    };
    w.send_with(0, a, options, pattern(20));
    w.run(ms(300));
    assert_eq!(
        talk(&w),
        [(0, "out [1]".into()), (1, "response in progress".into())]
    );
    assert_eq!(resets(&w.events(0), Outgoing), []);
    w.run(secs(2));
    // The final answer comes by itself, or to the request that was sent again.
    let last = (1, "response performed".to_owned());
    assert!(talk(&w)[2..].contains(&last));
    assert_eq!(resets(&w.events(0), Outgoing), [(vec![1], Performed)]);
    assert_eq!(resets(&w.events(1), Incoming), [(vec![1], Performed)]);
    assert_eq!(w.receive_lengths(1, b), [10, 20]);
}

/// RFC 6525, section 5.2.3
#[test]
fn incoming_streams_are_reset_by_the_peer_on_request() {
    let (mut w, _) = connected();
    let mut ledger = Ledger::default();
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    w.run(secs(1));
    reset(&mut w, 0, Incoming, &[1, 2]);
    w.run(ms(200));
    assert_eq!(
        talk(&w),
        [
            (0, "in [1, 2]".into()),
            (1, "out [1, 2]".into()),
            (0, "response performed".into())
        ]
    );
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    assert!(begins_again(&ledger.ssns[0][&1], 5) && begins_again(&ledger.ssns[0][&2], 5));
    assert!(begins_again(&ledger.ssns[1][&1], 10));
    let expected = [(vec![1, 2], Performed)];
    assert_eq!(resets(&w.events(0), Incoming), expected);
    assert_eq!(resets(&w.events(1), Outgoing), expected);
}

/// RFC 6525, section 4.4
#[test]
fn a_peer_with_data_to_send_answers_in_progress() {
    let (mut w, _) = connected();
    let mut ledger = Ledger::default();
    ledger.send(&mut w, 1, 1, 40);
    w.run(ms(15));
    reset(&mut w, 0, Incoming, &[1]);
    ledger.send(&mut w, 1, 1, 3);
    ledger.finish(&mut w);
    w.run(secs(5));
    assert_eq!(talk(&w)[1], (1, "response in progress".into()));
    assert_eq!(resets(&w.events(0), Incoming), [(vec![1], Performed)]);
}

/// RFC 6525, section 5.2.3
#[test]
fn incoming_streams_at_ssn_0_need_no_reset() {
    let (mut w, _) = connected();
    reset(&mut w, 0, Incoming, &[3]);
    w.run(secs(1));
    assert_eq!(talk(&w)[1], (1, "response nothing to do".into()));
    assert_eq!(resets(&w.events(0), Incoming), [(vec![3], NothingToDo)]);
    assert_eq!(resets(&w.events(1), Outgoing), []);
}

/// RFC 6525, section 3.1
#[test]
fn both_directions_share_a_chunk() {
    let (mut w, _) = connected();
    let mut ledger = Ledger::default();
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    w.run(secs(1));
    reset(&mut w, 0, Both, &[]);
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    w.run(secs(5));
    assert!(begins_again(&ledger.ssns[1][&1], 5));
    let talk = talk(&w);
    assert_eq!(talk[0], (0, "out [], in []".into()));
    let events = w.events(0);
    assert_eq!(resets(&events, Outgoing), [(vec![], Performed)]);
    assert_eq!(resets(&events, Incoming), [(vec![], Performed)]);
}

/// RFC 6525, appendix A
#[test]
fn a_response_and_a_request_share_a_chunk() {
    let (mut w, _) = connected();
    let mut ledger = Ledger::default();
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    w.run(secs(1));
    reset(&mut w, 0, Both, &[1]);
    w.run(secs(1));
    assert_eq!(
        talk(&w),
        [
            (0, "out [1], in [1]".into()),
            (1, "response performed, out [1]".into()),
            (0, "response performed".into())
        ]
    );
}

/// RFC 6525, section 5.2.4
#[test]
fn an_association_reset_restarts_all_numbers() {
    let (mut w, [a, b]) = connected();
    let mut ledger = Ledger::default();
    for round in 0..3 {
        traffic(&mut w, &mut ledger);
        w.change(0, a).reset_association().expect("reset");
        traffic(&mut w, &mut ledger);
        ledger.finish(&mut w);
        w.run(secs(31));
        for end in [0, 1] {
            assert_eq!(renumberings(&w.events(end)), [Performed], "round {round}");
        }
        assert_eq!(w.stats(0, a).outstanding_chunks, 0);
        assert_eq!(w.stats(1, b).send_buffer_bytes, 0);
    }
    assert_eq!(ledger.ssns[1][&1].iter().filter(|s| **s == 0).count(), 4);
    // TSNs of the requester advance by 2^31 each time (RFC 6525, section 5.2.4, rule G1).
    let sent = w.sent(0, ChunkType::DATA);
    let tsns: Vec<_> = sent.iter().flat_map(|p| p.data()).map(|d| d.tsn).collect();
    let jumps = tsns
        .windows(2)
        .filter(|t| t[1].since(t[0]) >= 1 << 30 && t[0].since(t[1]) >= 1 << 30);
    assert_eq!(jumps.count(), 3);
}

/// RFC 6525, section 5.1.4
#[test]
fn association_resets_are_30_seconds_apart() {
    let (mut w, [a, _]) = connected();
    w.change(0, a).reset_association().expect("reset");
    w.run(secs(29));
    assert_eq!(
        w.change(0, a).reset_association(),
        Err(ReconfigError::TooSoon)
    );
    w.run(secs(1));
    assert_eq!(w.change(0, a).reset_association(), Ok(()));
}

/// RFC 6525, section 5.1.5
/// RFC 6525, section 5.1.6
#[test]
fn streams_are_added_in_both_directions() {
    let (mut w, [a, b]) = connected();
    let mut ledger = Ledger::default();
    traffic(&mut w, &mut ledger);
    w.change(0, a).add_streams(3, 0).expect("add");
    w.run(ms(100));
    assert_eq!(changes(&w.events(0)), [(13, 10, Performed)]);
    assert_eq!(changes(&w.events(1)), [(10, 13, Performed)]);
    w.change(0, a).add_streams(0, 2).expect("add");
    w.run(secs(1));
    assert_eq!(changes(&w.events(0)), [(13, 12, Performed)]);
    assert_eq!(changes(&w.events(1)), [(12, 13, Performed)]);
    w.change(0, a).add_streams(1, 1).expect("add");
    w.run(secs(3));
    let stats = [w.stats(0, a), w.stats(1, b)];
    assert_eq!(stats.map(|s| s.outbound_streams), [14, 13]);
    assert_eq!(stats.map(|s| s.inbound_streams), [13, 14]);
    ledger.send(&mut w, 0, 13, 3);
    ledger.send(&mut w, 1, 12, 3);
    ledger.finish(&mut w);
    assert_eq!(ledger.ssns[1][&13], [0, 1, 2]);
    assert!(
        w.ends[0]
            .send(w.now, a, SendOptions::on_stream(14), pattern(1))
            .is_err()
    );
    let expected = [
        (0, "add out 3"),
        (1, "response performed"),
        (0, "add in 2"),
        (1, "add out 2"),
        (0, "response performed"),
    ];
    let talk = talk(&w);
    let results: Vec<(usize, &str)> = talk
        .iter()
        .map(|(end, word)| (*end, word.as_str()))
        .collect();
    assert_eq!(results[..5], expected);
}

/// RFC 6525, section 5.1.5
#[test]
fn a_new_stream_waits_for_the_response() {
    let (mut w, [a, _]) = connected();
    w.change(0, a).add_streams(1, 0).expect("add");
    w.pump();
    let early = w.ends[0].send(w.now, a, SendOptions::on_stream(10), pattern(1));
    assert!(early.is_err());
}

/// RFC 6525, section 5.1.1
#[test]
fn no_request_is_sent_without_the_extension() {
    for offered in [[OFFERED, Extensions::NONE], [Extensions::NONE, OFFERED]] {
        let mut w = World::with(2, |end, config| {
            config.association.extensions = offered[end]
        });
        w.config.extensions = offered[0];
        let (a, _) = w.connect();
        let mut end = w.change(0, a);
        let refused = Err(ReconfigError::NotInForce);
        assert_eq!(end.reset_streams(Both, &[]), refused);
        assert_eq!(end.reset_association(), refused);
        assert_eq!(end.add_streams(1, 0), refused);
        drop(end);
        w.run(secs(1));
        assert_eq!(talk(&w), []);
    }
}

/// RFC 6525, section 5.1
#[test]
fn impossible_requests_are_refused_with_a_reason() {
    let (mut w, [a, _]) = connected();
    let mut end = w.change(0, a);
    let list: Vec<StreamId> = (0..10).map(StreamId).chain([StreamId(10)]).collect();
    assert_eq!(
        end.reset_streams(Outgoing, &list),
        Err(ReconfigError::InvalidStream { streams: 10 })
    );
    assert_eq!(end.add_streams(0, 0), Err(ReconfigError::NothingToAdd));
    assert_eq!(
        end.add_streams(65_526, 0),
        Err(ReconfigError::TooManyStreams { limit: 65_525 })
    );
    assert_eq!(end.add_streams(1, 0), Ok(()));
    assert_eq!(end.add_streams(1, 0), Err(ReconfigError::InProgress));
    assert_eq!(end.reset_association(), Err(ReconfigError::InProgress));
    drop(end);
    w.ends[0].abort(w.now, a, b"").expect("abort");
    assert!(w.ends[0].association_mut(w.now, a).is_none());
}

/// RFC 6525, section 5.1.2
#[test]
fn a_list_above_a_packet_is_refused() {
    let many = |_: usize, config: &mut carrick_proto::AssociationConfig| {
        config.streams.outbound_streams = 2000;
    };
    for (direction, overhead) in [(Outgoing, 20), (Both, 28)] {
        let (mut w, [a, _]) = connected_with(many);
        let list: Vec<StreamId> = (0..2000).map(StreamId).collect();
        let refused = w.change(0, a).reset_streams(direction, &list);
        let Err(ReconfigError::ListTooLong { limit }) = refused else {
            panic!("{refused:?}");
        };
        assert!(limit * if direction == Both { 4 } else { 2 } + overhead <= 1500 - 32);
        assert!(limit > 350);
        let fits = w.change(0, a).reset_streams(direction, &list[..limit]);
        assert_eq!(fits, Ok(()));
        w.run(secs(3));
        assert_eq!(resets(&w.events(0), Outgoing).len(), 1);
    }
}

/// RFC 6525, section 5.2.2
#[test]
fn a_partial_delivery_ends_before_the_reset() {
    let (mut w, [a, b]) = connected_with(|_, config| config.buffers.receive_buffer = 4000);
    w.send(0, a, 1, pattern(30_000));
    reset(&mut w, 0, Outgoing, &[1]);
    w.send(0, a, 1, pattern(20));
    let mut got = Vec::new();
    let mut last_ssn = None;
    assert!(w.run_until(secs(100), |w| {
        for m in w.receive(1, b) {
            got.extend_from_slice(&m.payload.clone().into_bytes());
            last_ssn = m.ssn;
        }
        got.len() == 30_020
    }));
    assert_eq!(got[..30_000], pattern(30_000));
    assert_eq!(last_ssn.map(carrick_proto::Ssn::value), Some(0));
}

/// RFC 6525, section 5.1.1
#[test]
fn a_multi_homed_reset_survives_a_path_loss() {
    let mut w = World::with(2, |_, config| config.association.extensions = OFFERED);
    w.config.extensions = OFFERED;
    let (a, _) = w.connect();
    w.events(0);
    w.block(addresses(1)[0]);
    reset(&mut w, 0, Outgoing, &[1]);
    w.run(secs(3));
    assert_eq!(resets(&w.events(0), Outgoing), [(vec![1], Performed)]);
    assert_eq!(w.path(0, a, 0).error_count, 1, "the destination's error");
}

/// A Gap Ack Block that a later SACK omits counts as reneged.
///
/// RFC 9260, section 6.2.1, rule D
#[test]
fn a_sack_beside_a_long_request_keeps_its_gap_blocks() {
    for streams in 690..=724_u16 {
        let (mut w, [a, b]) = connected_with(|_, config| {
            config.streams.outbound_streams = 800;
            config.streams.max_inbound_streams = 800;
            config.transmission.nagle = false;
            config.transmission.max_burst = 20;
        });
        // A window for all that follows.
        for n in 0..40 {
            w.send(1, b, 0, pattern(1000 + n));
        }
        w.run(ms(600));
        assert_eq!(w.receive_lengths(0, a).len(), 40);
        w.log.clear();
        w.lose_data(1, &[0, 2, 4, 6]);
        for n in 0..8 {
            w.send(1, b, 0, pattern(1000 + n));
        }
        w.run(ms(12));
        let arrives = w.sent(1, ChunkType::DATA)[6].clone();
        assert!(arrives.lost, "{streams}");
        let route = carrick_proto::Route::plain(addresses(0)[0], addresses(1)[0]);
        w.log.clear();
        // Its SACK and the request leave at the same time.
        w.ends[0].handle_datagram(w.now, &route, arrives.bytes.clone());
        let listed: Vec<u16> = (1..=streams).collect();
        reset(&mut w, 0, StreamDirection::Outgoing, &listed);
        w.pump();
        assert_eq!(w.sent(0, ChunkType::RE_CONFIG).len(), 1);
        let sacks: Vec<_> = w.log.iter().filter_map(SentPacket::sack).collect();
        assert_eq!(sacks.len(), 1, "{streams}");
        assert_eq!(sacks[0].gap_ack_block_count(), 3, "{streams}");
        w.clear_rules();
        w.run(secs(20));
        assert_eq!(w.receive_lengths(0, a).len(), 8);
        assert_eq!(w.stats(1, b).counters.reneged, 0, "{streams}");
    }
}
