//! Requests of both sides at the same time.

use carrick_proto::{AssociationId, ReconfigOutcome, StreamDirection};
use carrick_wire::ReconfigResult;

use crate::common::*;
use crate::reconfiguration::support::*;

use ReconfigOutcome::{NothingToDo, Performed, RequestInProgress};
use StreamDirection::{Both, Incoming, Outgoing};

/// Two endpoints that have both used streams 1 and 2.
fn used() -> (World, [AssociationId; 2], Ledger) {
    let (mut w, ids) = connected();
    let mut ledger = Ledger::default();
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    w.run(secs(1));
    (w, ids, ledger)
}

fn traffic(w: &mut World, ledger: &mut Ledger) {
    for (end, stream) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        ledger.send(w, end, stream, 3);
    }
}

fn finish(w: &mut World, ledger: &mut Ledger) {
    traffic(w, ledger);
    ledger.finish(w);
    w.run(secs(120));
    for end in [0, 1] {
        let id = w.association(end);
        let refused = w.change(end, id).add_streams(0, 0);
        assert_eq!(
            refused,
            Err(carrick_proto::ReconfigError::NothingToAdd),
            "nothing is under way"
        );
    }
}

/// RFC 6525, section 5.2.2
#[test]
fn both_reset_their_outgoing_streams() {
    let (mut w, _, mut ledger) = used();
    reset(&mut w, 0, Outgoing, &[1]);
    reset(&mut w, 1, Outgoing, &[]);
    finish(&mut w, &mut ledger);
    let expected = [vec![(vec![1], Performed)], vec![(vec![], Performed)]];
    for end in [0, 1] {
        let events = w.events(end);
        assert_eq!(resets(&events, Outgoing), expected[end]);
        assert_eq!(resets(&events, Incoming), expected[1 - end]);
    }
    assert_eq!(ledger.ssns[0][&2], [0, 1, 2, 0, 1, 2]);
    assert_eq!(ledger.ssns[1][&2], [0, 1, 2, 3, 4, 5]);
}

/// RFC 6525, section 5.2.3
#[test]
fn an_outgoing_reset_covers_the_incoming_request() {
    let (mut w, _, mut ledger) = used();
    reset(&mut w, 0, Outgoing, &[1, 2]);
    reset(&mut w, 1, Incoming, &[2]);
    finish(&mut w, &mut ledger);
    assert_eq!(resets(&w.events(0), Outgoing), [(vec![1, 2], Performed)]);
    assert_eq!(
        resets(&w.events(1), Incoming),
        [(vec![1, 2], Performed), (vec![2], NothingToDo)]
    );
}

/// RFC 6525, section 5.2.3
#[test]
fn streams_not_covered_are_reset_afterwards() {
    let (mut w, _, mut ledger) = used();
    reset(&mut w, 0, Outgoing, &[1]);
    reset(&mut w, 1, Incoming, &[1, 2]);
    finish(&mut w, &mut ledger);
    let expected = [(vec![1], Performed), (vec![1, 2], Performed)];
    assert_eq!(resets(&w.events(0), Outgoing), expected);
    assert_eq!(resets(&w.events(1), Incoming), expected);
}

/// RFC 6525, section 5.2.3
#[test]
fn both_sides_reset_all_streams_at_once() {
    let (mut w, _, mut ledger) = used();
    reset(&mut w, 0, Both, &[]);
    reset(&mut w, 1, Both, &[]);
    finish(&mut w, &mut ledger);
    for end in [0, 1] {
        let events = w.events(end);
        assert_eq!(resets(&events, Outgoing), [(vec![], Performed)]);
        let reported = resets(&events, Incoming);
        assert_eq!(reported, [(vec![], Performed), (vec![], NothingToDo)]);
    }
}

/// RFC 6525, section 4.4
#[test]
fn mutual_waiting_is_answered_with_an_error() {
    let (mut w, [a, b], mut ledger) = used();
    reset(&mut w, 0, Incoming, &[1]);
    reset(&mut w, 1, Incoming, &[1]);
    finish(&mut w, &mut ledger);
    for end in [0, 1] {
        let reported = resets(&w.events(end), Incoming);
        assert_eq!(reported, [(vec![1], RequestInProgress)]);
    }
    w.change(0, a).add_streams(0, 1).expect("add");
    w.change(1, b).add_streams(0, 1).expect("add");
    finish(&mut w, &mut ledger);
    for end in [0, 1] {
        assert_eq!(changes(&w.events(end)), [(10, 10, RequestInProgress)]);
    }
}

/// RFC 6525, section 5.2.5
#[test]
fn both_sides_add_streams_at_once() {
    let (mut w, [a, b], mut ledger) = used();
    w.change(0, a).add_streams(2, 0).expect("add");
    w.change(1, b).add_streams(3, 0).expect("add");
    finish(&mut w, &mut ledger);
    assert_eq!(changes(&w.events(0)).last(), Some(&(12, 13, Performed)));
    assert_eq!(changes(&w.events(1)).last(), Some(&(13, 12, Performed)));
}

/// RFC 6525, section 5.2.4
#[test]
fn simultaneous_association_resets_are_refused() {
    let (mut w, [a, b], mut ledger) = used();
    w.change(0, a).reset_association().expect("reset");
    w.change(1, b).reset_association().expect("reset");
    finish(&mut w, &mut ledger);
    for end in [0, 1] {
        assert_eq!(renumberings(&w.events(end)), [RequestInProgress]);
    }
    assert_eq!(ledger.ssns[1][&1], [0, 1, 2, 3, 4, 5]);
}

/// RFC 6525, section 5.2.4
#[test]
fn an_association_reset_waits_for_the_peers_data() {
    let (mut w, [a, b], mut ledger) = used();
    ledger.send(&mut w, 1, 1, 60);
    w.run(ms(15));
    w.change(0, a).reset_association().expect("reset");
    w.run(ms(40));
    ledger.send(&mut w, 1, 1, 5);
    assert_eq!(talk(&w).last(), Some(&(1, "response in progress".into())));
    assert!(w.stats(1, b).queued_messages >= 5);
    finish(&mut w, &mut ledger);
    for end in [0, 1] {
        assert_eq!(renumberings(&w.events(end)), [Performed]);
    }
    assert_eq!(ledger.ssns[0][&1][63..66], [0, 1, 2]);
}

/// RFC 6525, section 5.2.7
#[test]
fn data_after_a_reset_waits_for_the_response() {
    let (mut w, [a, b], mut ledger) = used();
    w.lose(1, carrick_wire::ChunkType::RE_CONFIG, 1);
    w.change(0, a).reset_association().expect("reset");
    w.run(ms(100));
    assert_eq!(renumberings(&w.events(1)), [Performed]);
    // SSN 0 again, at a side that expects 3.
    ledger.send(&mut w, 1, 1, 3);
    w.run(ms(400));
    assert!(w.stats(0, a).receive_buffer_bytes > 0, "it arrived");
    assert!(w.receive(0, a).is_empty());
    assert_eq!(w.stats(1, b).outstanding_chunks, 0);
    finish(&mut w, &mut ledger);
    assert_eq!(ledger.ssns[0][&1], [0, 1, 2, 0, 1, 2, 3, 4, 5]);
}

/// RFC 6525, section 5.2.7
#[test]
fn a_reset_by_a_peer_with_data_in_flight_succeeds() {
    let (mut w, mut p) = with_partner(|_| {});
    p.puppet.data(&mut w, 1, 0, b"first");
    w.change(0, p.id).reset_association().expect("reset");
    p.receive(&mut w);
    // SSN 1 is lost for good: the peer gives it up (G3). The next ones are from after the reset.
    p.puppet.tsn = p.puppet.tsn.next();
    let next = p.puppet.tsn;
    p.puppet.data(&mut w, 1, 0, b"second");
    p.puppet.data(&mut w, 1, 1, b"third");
    let next_tsns = Some(carrick_wire::NextTsns {
        sender: next,
        receiver: p.puppet.endpoint_tsn(77),
    });
    assert_eq!(w.receive(0, p.id).len(), 1, "the later messages wait");
    p.answer(&mut w, p.theirs, ReconfigResult::PERFORMED, next_tsns);
    assert_eq!(renumberings(&w.events(0)), [Performed]);
    let got = w.receive(0, p.id);
    let payloads: Vec<_> = got.iter().map(|m| m.payload.clone().into_bytes()).collect();
    assert_eq!(payloads, ["second", "third"]);
    let answers = p.puppet.data(&mut w, 1, 2, b"fourth");
    w.run(secs(1));
    assert_eq!(w.receive(0, p.id).len(), 1);
    drop(answers);
    w.send(0, p.id, 1, "mine");
    let sent = p.puppet.receive(&mut w);
    assert!(p.puppet.numbers(&sent).contains(&77));
}

/// RFC 6525, section 5.2.4
#[test]
fn a_reset_waits_for_more_data_than_the_buffer() {
    let small = |_: usize, config: &mut carrick_proto::AssociationConfig| {
        config.buffers.receive_buffer = 10_000;
    };
    let (mut w, [a, _]) = connected_with(small);
    let mut ledger = Ledger::default();
    ledger.send(&mut w, 1, 1, 60);
    w.run(ms(15));
    w.change(0, a).reset_association().expect("reset");
    ledger.send(&mut w, 1, 1, 5);
    ledger.finish(&mut w);
    w.run(secs(60));
    for end in [0, 1] {
        assert_eq!(renumberings(&w.events(end)), [Performed]);
    }
    ledger.send(&mut w, 1, 1, 5);
    ledger.finish(&mut w);
}

/// RFC 6525, section 5.2.4
#[test]
fn a_message_above_the_buffer_allows_a_reset() {
    let small = |_: usize, config: &mut carrick_proto::AssociationConfig| {
        config.buffers.receive_buffer = 4000;
    };
    let (mut w, [a, b]) = connected_with(small);
    w.change(0, a).reset_association().expect("reset");
    w.send(1, b, 1, pattern(30_000));
    let mut bytes = 0;
    let arrived = w.run_until(secs(100), |w| {
        bytes += w.receive_lengths(0, a).iter().sum::<usize>();
        bytes == 30_000
    });
    assert!(arrived, "{bytes}");
    w.run(secs(100));
    for end in [0, 1] {
        assert_eq!(renumberings(&w.events(end)), [Performed]);
    }
}
