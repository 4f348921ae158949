//! Two endpoints: negotiation, loss, resets, and random scenarios.

use carrick_proto::{
    AssociationConfig, AssociationId, Event, Extensions, Reliability, SendOptions, StreamDirection,
    StreamId,
};
use carrick_wire::ChunkType;
use proptest::prelude::*;

use super::OFFERED;
use crate::common::abandonment::scenario;
use crate::common::*;

/// The payload that fills a packet.
const FULL: usize = 1448;

fn offering(offered: [Extensions; 2]) -> (World, AssociationId, AssociationId) {
    let configs =
        offered.map(|extensions| AssociationConfig::rfc9260().with(|c| c.extensions = extensions));
    World::pair(configs).connected()
}

fn once(stream: u16, unordered: bool) -> SendOptions {
    SendOptions {
        stream: StreamId(stream),
        unordered,
        reliability: Reliability::Retransmissions(0),
        ..SendOptions::default()
    }
}

/// Drops the packets of endpoint 0 with user data of this stream, up to `limit` of them.
fn lose_stream(w: &mut World, stream: u16, limit: usize) {
    let mut lost = 0;
    w.rule(move |seen| {
        let hit =
            seen.from == 0 && lost < limit && seen.user_data().iter().any(|d| d.stream == stream);
        lost += usize::from(hit);
        if hit { Verdict::Drop } else { Verdict::Pass }
    });
}

fn first_bytes(w: &mut World, end: usize, id: AssociationId) -> Vec<(u16, u8)> {
    let all = w.receive(end, id);
    all.iter()
        .map(|m| (m.stream.0, m.payload.clone().into_bytes()[0]))
        .collect()
}

/// RFC 8260, section 2.3.1
#[test]
fn both_sides_need_i_data_and_i_forward_tsn() {
    let without = Extensions {
        interleaved_partial_reliability: false,
        ..OFFERED
    };
    let no_i_data = Extensions {
        interleaving: false,
        ..OFFERED
    };
    let no_forward_tsn = Extensions {
        partial_reliability: false,
        ..OFFERED
    };
    // In use: interleaving, partial reliability, and both together.
    for (ours, theirs, expected) in [
        (OFFERED, OFFERED, (true, true, true)),
        (OFFERED, no_forward_tsn, (true, true, true)),
        (no_forward_tsn, OFFERED, (true, true, true)),
        (OFFERED, without, (true, false, false)),
        (without, OFFERED, (true, false, false)),
        (OFFERED, no_i_data, (false, true, false)),
        (no_i_data, OFFERED, (false, true, false)),
        (no_i_data, no_forward_tsn, (false, false, false)),
    ] {
        let (w, a, b) = offering([ours, theirs]);
        for found in [w.stats(0, a).extensions, w.stats(1, b).extensions] {
            let found = (
                found.interleaving,
                found.partial_reliability,
                found.interleaved_partial_reliability,
            );
            assert_eq!(found, expected, "{ours:?} {theirs:?}");
        }
    }
}

/// RFC 8260, section 2.3.1
#[test]
fn without_i_forward_tsn_begun_messages_are_reliable() {
    let without = Extensions {
        interleaved_partial_reliability: false,
        ..OFFERED
    };
    let (mut w, a, b) = offering([OFFERED, without]);
    lose_stream(&mut w, 0, 3);
    for n in 0..3 {
        w.send_with(0, a, once(0, false), vec![n; 3 * FULL]);
    }
    w.run(secs(30));
    assert_eq!(first_bytes(&mut w, 1, b), [(0, 0), (0, 1), (0, 2)]);
    assert_eq!(w.stats(0, a).counters.forward_tsns_sent, 0);
    assert_eq!(w.stats(0, a).abandoned.total().sent, 0);
}

/// RFC 8260, section 2.3.1
#[test]
fn messages_are_abandoned_between_foreign_fragments() {
    for unordered in [false, true] {
        let (mut w, a, b) = offering([OFFERED; 2]);
        lose_stream(&mut w, 1, 2);
        for n in 0..4 {
            w.send_with(0, a, once(1, unordered), vec![n; 4 * FULL]);
            w.send(0, a, 2, vec![n; 3 * FULL]);
        }
        w.run(secs(10));
        let arrived = first_bytes(&mut w, 1, b);
        let of = |stream| -> Vec<u8> {
            let found = arrived.iter().filter(|m| m.0 == stream);
            found.map(|m| m.1).collect()
        };
        assert_eq!(of(2), [0, 1, 2, 3], "the reliable ones");
        let kept = of(1);
        assert!(!kept.is_empty() && kept.len() < 4, "{kept:?}");
        assert!(kept.is_sorted());
        let lost = w.events(0);
        let lost = lost.iter().filter(|e| matches!(e, Event::SendFailed(_)));
        assert_eq!(lost.count(), 4 - kept.len());
        assert!(!w.sent(0, ChunkType::I_FORWARD_TSN).is_empty());
        assert!(w.sent(0, ChunkType::FORWARD_TSN).is_empty());
        assert_eq!(w.stats(0, a).outstanding_chunks, 0);
        assert_eq!(w.stats(1, b).receive_buffer_bytes, 0);
    }
}

/// RFC 3758, section 3.5
#[test]
fn a_lost_i_forward_tsn_only_delays() {
    for lost in 1..5 {
        let (mut w, a, b) = offering([OFFERED; 2]);
        w.lose(0, ChunkType::I_FORWARD_TSN, lost);
        w.lose_data(0, &[0]);
        w.send_with(0, a, once(0, false), vec![0; FULL]);
        for n in 1..4 {
            w.send(0, a, 0, vec![n; FULL]);
        }
        w.run(secs(60));
        assert_eq!(first_bytes(&mut w, 1, b), [(0, 1), (0, 2), (0, 3)]);
        assert!(w.sent(0, ChunkType::I_FORWARD_TSN).len() > lost);
        assert_eq!(w.stats(0, a).outstanding_chunks, 0);
    }
}

/// RFC 8260, section 2.3.2
#[test]
fn reset_streams_begin_at_mid_0_after_skipping() {
    for unordered in [false, true] {
        let (mut w, a, b) = offering([OFFERED; 2]);
        lose_stream(&mut w, 1, 3);
        w.lose(0, ChunkType::I_FORWARD_TSN, 1);
        for n in 0..3 {
            w.send_with(0, a, once(1, unordered), vec![n; 2 * FULL]);
        }
        let reset = w
            .change(0, a)
            .reset_streams(StreamDirection::Outgoing, &[StreamId(1)]);
        reset.expect("reset");
        for n in 10..13 {
            let options = SendOptions {
                unordered,
                ..SendOptions::on_stream(1)
            };
            w.send_with(0, a, options, vec![n; 2 * FULL]);
        }
        w.run(secs(60));
        let all = w.receive(1, b);
        let late: Vec<_> = all
            .iter()
            .map(|m| {
                (
                    m.payload.clone().into_bytes()[0],
                    m.mid.expect("I-DATA").value(),
                )
            })
            .filter(|(n, _)| *n >= 10)
            .collect();
        assert_eq!(late, [(10, 0), (11, 1), (12, 2)]);
        assert!(w.stats(0, a).abandoned.total().sent > 0);
        assert_eq!(w.stats(1, b).receive_buffer_bytes, 0);
    }
}

/// RFC 6525, section 5.2.4
#[test]
fn a_tsn_reset_forgets_skipped_mids() {
    for lost in 0..3 {
        let (mut w, a, b) = offering([OFFERED; 2]);
        lose_stream(&mut w, 1, 3);
        w.lose(0, ChunkType::I_FORWARD_TSN, lost);
        for n in 0..3 {
            w.send_with(0, a, once(1, n == 1), vec![n; 2 * FULL]);
        }
        w.change(0, a).reset_association().expect("reset");
        for n in 10..13 {
            w.send_with(0, a, SendOptions::on_stream(1), vec![n; 2 * FULL]);
        }
        w.run(secs(60));
        let late: Vec<_> = first_bytes(&mut w, 1, b);
        let late: Vec<u8> = late.into_iter().map(|m| m.1).filter(|n| *n >= 10).collect();
        assert_eq!(late, [10, 11, 12]);
        w.send_with(0, a, once(1, true), vec![20; 10]);
        w.run(secs(5));
        assert_eq!(first_bytes(&mut w, 1, b), [(1, 20)]);
        assert_eq!(w.stats(1, b).receive_buffer_bytes, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// RFC 8260, section 2.3.1
    #[test]
    fn reliable_messages_arrive_once_and_in_order(scenario in scenario()) {
        let mut run = scenario.begin(OFFERED)?;
        let (a, b) = (run.a, run.b);
        run.until(|w| {
            let stats = w.stats(0, a);
            stats.outstanding_chunks == 0 && stats.queued_messages == 0
        });
        let w = &mut run.w;
        prop_assert_eq!(w.stats(0, a).outstanding_chunks, 0);
        prop_assert_eq!(w.stats(1, b).receive_buffer_bytes, 0, "nothing is left");
        w.ends[0].shutdown(w.now, a).unwrap();
        w.run(secs(600));
        run.check()?;
    }
}
