//! Shutdown, abort and restart during a re-configuration.

use carrick_proto::{
    CloseReason, Event, Extensions, ReconfigError, ReconfigOutcome, Reliability, SendOptions,
    StreamDirection,
};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::reconfiguration::support::*;

use StreamDirection::{Both, Incoming, Outgoing};

/// RFC 9260, section 9.2
#[test]
fn messages_awaiting_a_reset_precede_the_shutdown() {
    for (loser, by) in [
        (0, [true, false]),
        (1, [true, false]),
        (0, [true, true]),
        (1, [false, true]),
    ] {
        let (mut w, ids) = connected();
        let mut ledger = Ledger::default();
        ledger.send(&mut w, 0, 1, 3);
        ledger.finish(&mut w);
        w.lose(loser, ChunkType::RE_CONFIG, 2);
        reset(&mut w, 0, Outgoing, &[1]);
        ledger.send(&mut w, 0, 1, 3);
        for (end, id) in ids.into_iter().enumerate() {
            if by[end] {
                w.ends[end].shutdown(w.now, id).expect("shutdown");
            }
        }
        ledger.finish(&mut w);
        w.run(secs(60));
        assert_eq!(ledger.ssns[1][&1], [0, 1, 2, 0, 1, 2]);
        for end in [0, 1] {
            assert_eq!(
                w.events(end).last(),
                Some(&Event::Closed(CloseReason::Shutdown))
            );
        }
    }
}

/// RFC 9260, section 9.2
#[test]
fn messages_awaiting_a_tsn_reset_precede_the_shutdown() {
    for by in [[true, false], [false, true], [true, true]] {
        let (mut w, ids) = connected();
        let mut ledger = Ledger::default();
        ledger.send(&mut w, 0, 1, 3);
        w.lose(1, ChunkType::RE_CONFIG, 2);
        w.change(0, ids[0]).reset_association().expect("reset");
        ledger.send(&mut w, 0, 1, 3);
        ledger.send(&mut w, 1, 1, 3);
        w.run(ms(100));
        for (end, id) in ids.into_iter().enumerate() {
            if by[end] {
                w.ends[end].shutdown(w.now, id).expect("shutdown");
            }
        }
        ledger.finish(&mut w);
        w.run(secs(60));
        for end in [0, 1] {
            assert_eq!(
                w.events(end).last(),
                Some(&Event::Closed(CloseReason::Shutdown))
            );
        }
    }
}

/// RFC 9260, section 9.2
#[test]
fn a_request_without_data_does_not_delay_shutdown() {
    for direction in [Outgoing, Incoming, Both] {
        let (mut w, ids) = connected();
        w.lose(1, ChunkType::RE_CONFIG, 100);
        reset(&mut w, 0, direction, &[1]);
        w.run(ms(100));
        w.ends[0].shutdown(w.now, ids[0]).expect("shutdown");
        w.run(ms(500));
        assert_eq!(
            w.events(0).last(),
            Some(&Event::Closed(CloseReason::Shutdown))
        );
    }
}

/// RFC 9260, section 9.2
#[test]
fn requests_while_shutting_down_are_refused() {
    let (mut w, [a, b]) = connected();
    w.lose_data(0, &[0]);
    w.send(0, a, 1, pattern(10));
    w.ends[0].shutdown(w.now, a).expect("shutdown");
    let refused = w.change(0, a).reset_streams(Outgoing, &[]);
    assert_eq!(refused, Err(ReconfigError::WrongState));
    // A reset that needs a request of the side that shuts down is denied.
    reset(&mut w, 1, Incoming, &[1]);
    w.run(ms(100));
    let denied = (vec![1], ReconfigOutcome::Denied);
    assert_eq!(resets(&w.events(1), Incoming), [denied]);
    assert_eq!(w.change(1, b).add_streams(1, 0), Ok(()));
}

/// RFC 9260, section 5.2.4
#[test]
fn a_restart_cancels_requests() {
    let (mut w, ids) = connected();
    w.send(0, ids[0], 1, pattern(10));
    w.run(secs(1));
    w.receive(1, ids[1]);
    w.lose(0, ChunkType::RE_CONFIG, 100);
    reset(&mut w, 0, Both, &[1]);
    w.send(0, ids[0], 1, pattern(20));
    w.run(ms(100));
    // The peer loses its state and connects again.
    let mut config = carrick_proto::EndpointConfig::new(port(1), vec![addresses(1)[0]], [77; 32]);
    config.association.extensions = OFFERED;
    w.ends[1] = carrick_proto::Endpoint::new(config).expect("valid");
    w.config.extensions = OFFERED;
    w.begin_connect_from(1, &[addresses(0)[0]], port(0));
    w.run(secs(3));
    let events = w.events(0);
    assert!(events.contains(&Event::Restarted));
    let failed = events
        .iter()
        .filter(|e| matches!(e, Event::SendFailed(f) if f.unsent.len() == 20));
    assert_eq!(failed.count(), 1, "the queued message is returned");
    w.clear_rules();
    w.log.clear();
    reset(&mut w, 0, Outgoing, &[1]);
    w.run(secs(1));
    let performed = ReconfigOutcome::Performed;
    assert_eq!(resets(&w.events(0), Outgoing), [(vec![1], performed)]);
    let mut ledger = Ledger::default();
    ledger.send(&mut w, 0, 1, 3);
    ledger.finish(&mut w);
}

/// RFC 9260, section 9.1
#[test]
fn an_abort_returns_messages_awaiting_a_reset() {
    let (mut w, ids) = connected();
    w.lose(0, ChunkType::RE_CONFIG, 100);
    reset(&mut w, 0, Outgoing, &[1]);
    w.send(0, ids[0], 1, pattern(20));
    w.ends[1].abort(w.now, ids[1], b"enough").expect("abort");
    w.run(secs(1));
    let events = w.events(0);
    let failed = events
        .iter()
        .filter(|e| matches!(e, Event::SendFailed(f) if f.unsent.len() == 20));
    assert_eq!(failed.count(), 1);
}

/// RFC 9260, section 9.2
#[test]
fn data_awaiting_a_response_is_delivered_at_shutdown() {
    let (mut w, ids) = connected();
    w.lose(1, ChunkType::RE_CONFIG, 1);
    w.change(0, ids[0]).reset_association().expect("reset");
    let mut ledger = Ledger::default();
    ledger.send(&mut w, 1, 1, 3);
    w.run(ms(100));
    w.ends[1].shutdown(w.now, ids[1]).expect("shutdown");
    ledger.finish(&mut w);
    w.run(secs(60));
    for end in [0, 1] {
        assert_eq!(
            w.events(end).last(),
            Some(&Event::Closed(CloseReason::Shutdown))
        );
    }
}

/// RFC 9260, section 6.2
#[test]
fn acknowledged_data_is_delivered_at_an_abort() {
    for interleaving in [false, true] {
        let (mut w, ids) = connected_with(|_, config| {
            config.extensions = Extensions {
                interleaving,
                partial_reliability: true,
                interleaved_partial_reliability: interleaving,
                ..OFFERED
            };
        });
        for len in 1..=3 {
            w.send(1, ids[1], 1, pattern(len));
        }
        w.run(secs(1));
        assert_eq!(w.receive_lengths(0, ids[0]), [1, 2, 3]);
        // An unordered message is abandoned, and its number is skipped.
        let unordered = SendOptions {
            unordered: true,
            reliability: Reliability::Retransmissions(0),
            ..SendOptions::on_stream(2)
        };
        let data = [ChunkType::DATA, ChunkType::I_DATA][usize::from(interleaving)];
        w.lose(1, data, 1);
        w.send_with(1, ids[1], unordered, pattern(9));
        w.run(secs(10));
        assert_eq!(w.stats(1, ids[1]).counters.forward_tsns_sent, 1);
        w.clear_rules();

        // The peer resets everything, and its answer is lost.
        w.lose(1, ChunkType::RE_CONFIG, usize::MAX);
        w.change(0, ids[0]).reset_association().expect("reset");
        w.run(ms(50));
        assert_eq!(renumberings(&w.events(1)), [ReconfigOutcome::Performed]);
        w.send(1, ids[1], 1, pattern(4));
        w.send(1, ids[1], 3, pattern(5));
        w.send_with(1, ids[1], unordered, pattern(6));
        // With several chunks, after the first stream was reset.
        w.send(1, ids[1], 1, pattern(4000));
        w.run(ms(300));
        assert_eq!(w.stats(1, ids[1]).outstanding_chunks, 0, "acknowledged");
        assert_eq!(
            w.receive_lengths(0, ids[0]),
            [0; 0],
            "may precede the reset, so it is not delivered"
        );
        w.ends[1].abort(w.now, ids[1], b"enough").expect("abort");
        w.run(ms(50));
        let mut lengths = w.receive_lengths(0, ids[0]);
        let ordered: Vec<_> = lengths.iter().copied().filter(|l| l % 4 == 0).collect();
        assert_eq!(
            ordered,
            [4, 4000],
            "{lengths:?}, interleaving {interleaving}"
        );
        lengths.sort_unstable();
        assert_eq!(lengths, [4, 5, 6, 4000], "interleaving {interleaving}");
    }
}
