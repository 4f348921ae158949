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

/// Numbers that begin again at 0 once, with this many before.
fn begins_again(ssns: &[u16], before: u16) -> bool {
    let after = ssns.len() as u16 - before;
    ssns.iter().copied().eq((0..before).chain(0..after))
}

#[test]
fn outgoing_streams_begin_again_at_0_between_their_messages_5_1_2() {
    let (mut w, _) = connected();
    let mut ledger = Ledger::default();
    traffic(&mut w, &mut ledger);
    reset(&mut w, 0, Outgoing, &[1]);
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    w.run(secs(5));
    assert!(begins_again(&ledger.ssns[1][&1], 5));
    assert!(begins_again(&ledger.ssns[1][&2], 10), "not asked for");
    assert!(begins_again(&ledger.ssns[0][&1], 10), "the other direction");
    let expected = [(vec![1], Performed)];
    assert_eq!(resets(&w.events(0), Outgoing), expected);
    assert_eq!(resets(&w.events(1), Incoming), expected);
    let talk = talk(&w);
    assert_eq!(talk[0], (0, "out [1]".into()));
    assert_eq!(talk.last(), Some(&(1, "response performed".into())));
}

#[test]
fn all_outgoing_streams_are_reset_with_an_empty_list_4_1() {
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

#[test]
fn the_request_leaves_when_what_was_sent_before_is_acknowledged_5_1_2() {
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

#[test]
fn other_streams_go_on_meanwhile_5_1_2() {
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

#[test]
fn data_of_other_streams_that_is_missing_defers_the_reset_5_2_2() {
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

#[test]
fn incoming_streams_are_reset_by_a_request_of_the_peer_5_2_3() {
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

#[test]
fn a_peer_with_data_to_send_first_says_so_4_4() {
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

#[test]
fn incoming_streams_that_are_at_0_need_no_reset_5_2_3() {
    let (mut w, _) = connected();
    reset(&mut w, 0, Incoming, &[3]);
    w.run(secs(1));
    assert_eq!(talk(&w)[1], (1, "response nothing to do".into()));
    assert_eq!(resets(&w.events(0), Incoming), [(vec![3], NothingToDo)]);
    assert_eq!(resets(&w.events(1), Outgoing), []);
}

#[test]
fn both_directions_share_a_chunk_and_so_do_their_answers_3_1() {
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

#[test]
fn a_response_and_a_reset_of_ours_leave_in_one_chunk_appendix_a() {
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

#[test]
fn all_numbers_begin_anew_after_an_association_reset_5_2_4() {
    let (mut w, [a, b]) = connected();
    let mut ledger = Ledger::default();
    for round in 0..3 {
        traffic(&mut w, &mut ledger);
        w.ends[0].reset_association(w.now, a).expect("reset");
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
    // Those of the side that asked moved by half of the numbers each time (G1).
    let sent = w.sent(0, ChunkType::DATA);
    let tsns: Vec<_> = sent.iter().flat_map(|p| p.data()).map(|d| d.tsn).collect();
    let jumps = tsns
        .windows(2)
        .filter(|t| t[1].since(t[0]) >= 1 << 30 && t[0].since(t[1]) >= 1 << 30);
    assert_eq!(jumps.count(), 3);
}

#[test]
fn an_association_is_reset_once_in_thirty_seconds_5_1_4() {
    let (mut w, [a, _]) = connected();
    w.ends[0].reset_association(w.now, a).expect("reset");
    w.run(secs(29));
    assert_eq!(
        w.ends[0].reset_association(w.now, a),
        Err(ReconfigError::TooSoon)
    );
    w.run(secs(1));
    assert_eq!(w.ends[0].reset_association(w.now, a), Ok(()));
}

#[test]
fn streams_are_added_in_both_directions_5_1_5_5_1_6() {
    let (mut w, [a, b]) = connected();
    let mut ledger = Ledger::default();
    traffic(&mut w, &mut ledger);
    w.ends[0].add_streams(w.now, a, 3, 0).expect("add");
    w.run(ms(100));
    assert_eq!(changes(&w.events(0)), [(13, 10, Performed)]);
    assert_eq!(changes(&w.events(1)), [(10, 13, Performed)]);
    w.ends[0].add_streams(w.now, a, 0, 2).expect("add");
    w.run(secs(1));
    assert_eq!(changes(&w.events(0)), [(13, 12, Performed)]);
    assert_eq!(changes(&w.events(1)), [(12, 13, Performed)]);
    w.ends[0].add_streams(w.now, a, 1, 1).expect("add");
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
    let said: Vec<(usize, &str)> = talk
        .iter()
        .map(|(end, word)| (*end, word.as_str()))
        .collect();
    assert_eq!(said[..5], expected);
}

#[test]
fn a_new_stream_is_not_used_before_the_answer_5_1_5() {
    let (mut w, [a, _]) = connected();
    w.ends[0].add_streams(w.now, a, 1, 0).expect("add");
    w.pump();
    let early = w.ends[0].send(w.now, a, SendOptions::on_stream(10), pattern(1));
    assert!(early.is_err());
}

#[test]
fn a_peer_without_the_extension_is_asked_for_nothing_5_1_1() {
    for offered in [[OFFERED, Extensions::NONE], [Extensions::NONE, OFFERED]] {
        let mut w = World::with(2, |end, config| {
            config.association.extensions = offered[end]
        });
        w.config.extensions = offered[0];
        let (a, _) = w.connect();
        let end = &mut w.ends[0];
        let refused = Err(ReconfigError::NotInForce);
        assert_eq!(end.reset_streams(w.now, a, Both, &[]), refused);
        assert_eq!(end.reset_association(w.now, a), refused);
        assert_eq!(end.add_streams(w.now, a, 1, 0), refused);
        w.run(secs(1));
        assert_eq!(talk(&w), []);
    }
}

#[test]
fn what_can_not_be_asked_for_is_refused_with_the_reason() {
    let (mut w, [a, _]) = connected();
    let now = w.now;
    let end = &mut w.ends[0];
    let list: Vec<StreamId> = (0..10).map(StreamId).chain([StreamId(10)]).collect();
    assert_eq!(
        end.reset_streams(now, a, Outgoing, &list),
        Err(ReconfigError::InvalidStream { streams: 10 })
    );
    assert_eq!(
        end.add_streams(now, a, 0, 0),
        Err(ReconfigError::NothingToAdd)
    );
    assert_eq!(
        end.add_streams(now, a, 65_526, 0),
        Err(ReconfigError::TooManyStreams { limit: 65_525 })
    );
    assert_eq!(end.add_streams(now, a, 1, 0), Ok(()));
    assert_eq!(
        end.add_streams(now, a, 1, 0),
        Err(ReconfigError::InProgress)
    );
    assert_eq!(
        end.reset_association(now, a),
        Err(ReconfigError::InProgress)
    );
    end.abort(now, a, b"").expect("abort");
    assert_eq!(
        end.add_streams(now, a, 1, 0),
        Err(ReconfigError::UnknownAssociation)
    );
}

#[test]
fn a_list_that_does_not_fit_into_a_packet_is_refused() {
    let many = |_: usize, config: &mut carrick_proto::AssociationConfig| {
        config.outbound_streams = 2000;
    };
    for (direction, overhead) in [(Outgoing, 20), (Both, 28)] {
        let (mut w, [a, _]) = connected_with(many);
        let list: Vec<StreamId> = (0..2000).map(StreamId).collect();
        let refused = w.ends[0].reset_streams(w.now, a, direction, &list);
        let Err(ReconfigError::ListTooLong { limit }) = refused else {
            panic!("{refused:?}");
        };
        assert!(limit * if direction == Both { 4 } else { 2 } + overhead <= 1500 - 32);
        assert!(limit > 350);
        let fits = w.ends[0].reset_streams(w.now, a, direction, &list[..limit]);
        assert_eq!(fits, Ok(()));
        w.run(secs(3));
        assert_eq!(resets(&w.events(0), Outgoing).len(), 1);
    }
}

#[test]
fn a_message_in_partial_delivery_ends_before_the_reset_5_2_2() {
    let (mut w, [a, b]) = connected_with(|_, config| config.receive_buffer = 4000);
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

#[test]
fn a_reset_on_a_host_with_two_paths_survives_the_loss_of_one_5_1_1() {
    let mut w = World::with(2, |_, config| config.association.extensions = OFFERED);
    w.config.extensions = OFFERED;
    let (a, _) = w.connect();
    w.events(0);
    w.kill(addresses(1)[0]);
    reset(&mut w, 0, Outgoing, &[1]);
    w.run(secs(3));
    assert_eq!(resets(&w.events(0), Outgoing), [(vec![1], Performed)]);
    assert_eq!(w.path(0, a, 0).error_count, 1, "the destination's error");
}

/// What a SACK does not say any more, its receiver takes for taken back (RFC 9260 section 6.2.1 D).
#[test]
fn a_sack_beside_a_long_request_leaves_no_gap_out_9260_6_2_1() {
    for streams in 690..=724_u16 {
        let (mut w, [a, b]) = connected_with(|_, config| {
            config.outbound_streams = 800;
            config.max_inbound_streams = 800;
            config.nagle = false;
            config.max_burst = 20;
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
        let sacks: Vec<_> = w.log.iter().filter_map(Seen::sack).collect();
        assert_eq!(sacks.len(), 1, "{streams}");
        assert_eq!(sacks[0].gap_ack_block_count(), 3, "{streams}");
        w.clear_rules();
        w.run(secs(20));
        assert_eq!(w.receive_lengths(0, a).len(), 8);
        assert_eq!(w.stats(1, b).counters.reneged, 0, "{streams}");
    }
}
