//! Partial reliability with losses, closed windows, failover and shutdown.

use carrick_proto::{Event, Reliability, SendOptions, StreamId};
use carrick_wire::ChunkType;
use proptest::prelude::*;

use crate::common::abandonment::scenario;
use crate::common::*;
use crate::partial_reliability::support::*;

/// RFC 9260, section 6.1
#[test]
fn window_probing_continues_with_abandoned_probes() {
    let (mut w, peer, id) = puppet(true, 1500);
    w.send(0, id, 0, message(0, 1000));
    peer.receive(&mut w);
    peer.sack(&mut w, peer.endpoint_tsn(0), 0, &[]);
    for n in 1..4 {
        w.send_with(
            0,
            id,
            with(Reliability::Retransmissions(0), u64::from(n)),
            message(n, 500),
        );
    }
    w.send(0, id, 0, message(9, 500));
    let mut cumulative = peer.endpoint_tsn(0);
    let mut probed = Vec::new();
    // Every probe is dropped for lack of room; FORWARD-TSN is taken, the window stays closed.
    for _ in 0..200 {
        w.run(ms(500));
        let packets = peer.receive(&mut w);
        for packet in &packets {
            probed.extend(packet.data().iter().map(|d| d.payload[0]));
        }
        if let Some((point, _)) = forwards(&packets).pop() {
            cumulative = point;
        }
        if !packets.is_empty() {
            peer.sack(&mut w, cumulative, 0, &[]);
        }
    }
    probed.dedup();
    assert_eq!(
        probed,
        [1, 2, 3, 9],
        "each message is a probe once, the reliable one repeatedly"
    );
    assert_eq!(contexts(&w.events(0)), [1, 2, 3]);
    let answers = peer.sack(&mut w, cumulative, 10_000, &[]);
    assert_eq!(answers.iter().map(|p| p.data().len()).sum::<usize>(), 1);
    assert_eq!(w.stats(0, id).error_count, 0, "the peer is reachable");
}

/// RFC 3758, section 3.5
#[test]
fn lost_forward_tsns_only_delay() {
    // Every pattern of loss of the first five.
    for pattern in 0..32_u32 {
        let (mut w, a, b) = connected();
        w.lose_data(0, &[2, 3]);
        let mut met = 0;
        w.rule(move |seen| {
            if seen.from != 0 || !seen.has(ChunkType::FORWARD_TSN) {
                return Verdict::Pass;
            }
            met += 1;
            if met <= 5 && pattern >> (met - 1) & 1 == 1 {
                Verdict::Drop
            } else {
                Verdict::Pass
            }
        });
        for n in 0..20 {
            let reliability = if n % 2 == 0 {
                Reliability::Full
            } else {
                Reliability::Retransmissions(0)
            };
            w.send_with(0, a, with(reliability, u64::from(n)), message(n, FULL));
        }
        w.run(secs(200));
        let got = numbers(&mut w, 1, b);
        let lost = contexts(&w.events(0));
        assert!(lost.contains(&3), "{lost:?}");
        let expected: Vec<u8> = (0..20).filter(|n| got.contains(n)).collect();
        assert_eq!(got, expected, "in order");
        assert!((0..20).step_by(2).all(|n| got.contains(&n)), "{got:?}");
        assert!((0..20).all(|n| got.contains(&n) || lost.contains(&u64::from(n))));
        assert_eq!(w.stats(0, a).outstanding_chunks, 0);
    }
}

/// RFC 3758, section 3.5
#[test]
fn abandonment_in_a_burst_of_loss_leaves_no_state() {
    for burst in 1..50_u64 {
        let (mut w, a, b) = connected();
        let (from, to) = (w.now + ms(25), w.now + ms(25 + burst * 100));
        w.rule(move |seen| {
            let lost = seen.from == 0 && (from..to).contains(&seen.time);
            if lost { Verdict::Drop } else { Verdict::Pass }
        });
        for n in 0..60 {
            let reliability = match n % 4 {
                0 => Reliability::Full,
                1 => Reliability::Retransmissions(1),
                2 => timed(700),
                _ => Reliability::Retransmissions(0),
            };
            let options = SendOptions {
                stream: StreamId(u16::from(n % 3)),
                ..with(reliability, u64::from(n))
            };
            w.send_with(0, a, options, message(n, 1 + usize::from(n) * 97));
        }
        w.run(secs(1000));
        let got = numbers(&mut w, 1, b);
        assert!(
            (0..60).step_by(4).all(|n| got.contains(&n)),
            "burst {burst}: {got:?}"
        );
        let (stats, path) = (w.stats(0, a), w.path(0, a, 0));
        assert_eq!((stats.outstanding_chunks, stats.outstanding_bytes), (0, 0));
        assert_eq!((stats.send_buffer_bytes, path.flight_size), (0, 0));
        let reported = contexts(&w.events(0)).len() as u64;
        assert_eq!(
            reported,
            stats.abandoned.total().sent + stats.abandoned.total().unsent
        );
        assert_eq!(w.stats(1, b).receive_buffer_bytes, 0);
    }
}

/// RFC 9260, section 6.4
#[test]
fn abandonment_follows_failover() {
    let mut w = World::with(2, |_, config| config.association.extensions = PARTIAL);
    w.config.extensions = PARTIAL;
    let (a, b) = w.connect();
    w.block(addresses(1)[0]);
    for n in 0..6 {
        let reliability = if n == 5 {
            Reliability::Full
        } else {
            Reliability::Retransmissions(0)
        };
        w.send_with(0, a, with(reliability, u64::from(n)), message(n, FULL));
    }
    w.run(secs(30));
    let got = numbers(&mut w, 1, b);
    assert_eq!(got.last(), Some(&5), "{got:?}");
    assert_eq!(got.len() + contexts(&w.events(0)).len(), 6);
    let stats = w.stats(0, a);
    assert_eq!((stats.outstanding_chunks, stats.error_count), (0, 0));
    assert!(
        w.path(0, a, 0).error_count > 0,
        "the failed path keeps its error count"
    );
    let on_the_other = w
        .log
        .iter()
        .filter(|p| p.has(ChunkType::FORWARD_TSN) && !p.lost);
    assert!(on_the_other.count() > 0);
    // Messages that are abandoned only; the blocked path still fails.
    for round in 0..40 {
        w.send_with(
            0,
            a,
            with(Reliability::Retransmissions(0), 0),
            message(round, 100),
        );
        w.run(secs(3));
    }
    assert!(!w.path(0, a, 0).status.active);
    assert!(!w.ends[0].associations().collect::<Vec<_>>().is_empty());
}

/// Abandoned data counts as acknowledged; the FORWARD-TSN leaves in front of SHUTDOWN or SHUTDOWN
/// ACK, and again with each of them.
///
/// RFC 3758, section 3.5, rule A2
/// RFC 9260, section 9.2
#[test]
fn abandoned_data_does_not_hold_up_a_shutdown() {
    for by in 0..2 {
        let (mut w, a, b) = connected();
        w.lose(0, ChunkType::DATA, 1);
        w.lose(0, ChunkType::FORWARD_TSN, 2);
        let unreliable = with(Reliability::Retransmissions(0), 4);
        w.send_with(0, a, unreliable, message(0, 100));
        let start = w.now;
        w.ends[by].shutdown(w.now, [a, b][by]).unwrap();
        w.run(secs(20));
        assert_eq!(w.states(), [None, None]);
        let kind = [ChunkType::SHUTDOWN, ChunkType::SHUTDOWN_ACK][by];
        let all = w.sent(0, kind);
        assert!(all.len() >= 3, "two were lost");
        for packet in &all {
            assert_eq!(packet.kinds(), [ChunkType::FORWARD_TSN, kind]);
        }
        assert!(all[0].time <= start + ms(1100), "T3-rtx has abandoned it");
        let events = w.events(0);
        assert_eq!(contexts(&events), [4]);
        let end = Event::Closed(carrick_proto::CloseReason::Shutdown);
        assert_eq!(events.last(), Some(&end));
    }
}

/// The association ends although the peer never acknowledges the FORWARD-TSN.
///
/// RFC 3758, section 3.5, rule A2
/// RFC 9260, section 9.2
#[test]
fn an_ignored_forward_tsn_does_not_delay_shutdown() {
    let (mut w, peer, id) = puppet(true, 10_000);
    w.send_with(0, id, with(timed(500), 1), message(1, 100));
    w.run(secs(2));
    peer.receive(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    let sent = peer.receive(&mut w);
    assert_eq!(sent.len(), 1);
    let kinds = [ChunkType::FORWARD_TSN, ChunkType::SHUTDOWN];
    assert_eq!(sent[0].kinds(), kinds);
    w.run(secs(3));
    let again = peer.receive(&mut w);
    assert!(!again.is_empty() && again.iter().all(|p| p.kinds() == kinds));
    peer.send(&mut w, |p| p.shutdown_ack());
    let end = Event::Closed(carrick_proto::CloseReason::Shutdown);
    assert_eq!(w.events(0).last(), Some(&end));
}

/// A peer may still discard data that a Gap Ack Block acknowledged, so SHUTDOWN waits for the
/// cumulative TSN.
///
/// RFC 9260, section 6.2.1
/// RFC 9260, section 9.2
#[test]
fn a_shutdown_waits_for_gap_acked_data() {
    let (mut w, peer, id) = puppet(true, 10_000);
    w.send_with(0, id, with(timed(500), 1), message(1, 100));
    w.send(0, id, 0, message(2, 100));
    peer.receive(&mut w);
    peer.sack(&mut w, peer.endpoint_tsn(0).previous(), 10_000, &[(2, 2)]);
    w.run(secs(2));
    let forward = forwards(&peer.receive(&mut w));
    assert_eq!(forward.last().map(|f| f.0), Some(peer.endpoint_tsn(0)));
    w.ends[0].shutdown(w.now, id).unwrap();
    let sent = peer.receive(&mut w);
    assert!(sent.iter().all(|p| !p.has(ChunkType::SHUTDOWN)));
    let answers = peer.sack(&mut w, peer.endpoint_tsn(1), 10_000, &[]);
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN]);
}

/// RFC 7496, section 3
#[test]
fn messages_queued_in_set_up_keep_their_policy() {
    let mut w = World::with(2, |_, c| {
        c.local_addresses.truncate(1);
        c.association.extensions = PARTIAL;
    });
    w.config.extensions = PARTIAL;
    w.lose(0, ChunkType::INIT, 2);
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send_with(0, a, with(timed(100), 1), message(1, 100));
    w.send_with(
        0,
        a,
        with(Reliability::Retransmissions(3), 2),
        message(2, 100),
    );
    w.run(secs(10));
    let b = w.association(1);
    assert_eq!(numbers(&mut w, 1, b), [2]);
    assert_eq!(contexts(&w.events(0)), [1]);
}

/// RFC 3758, section 3.5, rule C4
#[test]
fn over_32768_messages_of_a_stream_can_be_skipped() {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = PARTIAL;
        config.association.buffers.receive_buffer = 1 << 30;
        config.association.buffers.receive_buffer_chunks = 1 << 20;
        config.association.buffers.message_overhead = 0;
    });
    w.config.extensions = PARTIAL;
    w.config.buffers.send_buffer_messages = 1 << 20;
    w.config.transmission.max_burst = 100_000;
    w.config.transmission.slow_start_limit = 1000;
    w.discard_log = true;
    let (a, b) = w.connect();
    // The first is lost for long; so are FORWARD-TSNs and all that is above.
    w.block(addresses(1)[0]);
    for _ in 0..64_000 {
        w.send_with(0, a, with(timed(60_000), 0), message(1, 1));
    }
    w.run(secs(59));
    w.unblock(addresses(1)[0]);
    w.run(secs(100));
    w.send(0, a, 0, message(9, 1));
    w.run(secs(100));
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
    let got = numbers(&mut w, 1, b);
    assert_eq!(got.last(), Some(&9));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// RFC 3758, section 3.5
    #[test]
    fn reliable_messages_arrive_once_and_in_order(scenario in scenario()) {
        let mut run = scenario.begin(PARTIAL)?;
        run.w.ends[0].shutdown(run.w.now, run.a).unwrap();
        run.until(|w| w.ends.iter().all(|e| e.associations().count() == 0));
        run.check()?;
    }
}
