//! Timers and probes of paths that have nothing, or only a probe, in flight.

use carrick_proto::research::RetransmissionRoute;
use carrick_proto::{Event, PathId, SendOptions};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::paths::support::*;

/// RFC 9260, section 6.1, rule A
#[test]
fn the_end_of_a_closed_window_is_no_path_error() {
    let mut w = World::with(2, |_, c| c.association.buffers.receive_buffer = 5000);
    let (a, b) = w.connect();
    for _ in 0..20 {
        w.send(0, a, 0, pattern(1000));
    }
    w.run(secs(20));
    let mut got = w.receive(1, b).len();
    // The probe that the peer had dropped goes out again; no timer of it may stay behind.
    for _ in 0..10 {
        w.run(secs(3));
        got += w.receive(1, b).len();
    }
    assert_eq!(got, 20);
    for path in 0..2 {
        let path = w.path(0, a, path);
        assert!(path.cwnd >= 4404, "{path:?}");
        assert_eq!(path.error_count, 0);
    }
    assert_eq!(w.stats(0, a).error_count, 0);
    assert!(
        !w.events(0)
            .iter()
            .any(|e| matches!(e, Event::PathFailed(_)))
    );
}

/// RFC 9260, section 6.3.2
#[test]
fn an_idle_path_timer_is_no_error() {
    let mut w = World::new();
    let mut config = w.config.clone();
    config.research.policies.retransmission_route = RetransmissionRoute::AllOnAlternate;
    w.config = config;
    let (a, b) = w.connect();
    // Everything that was on the first path is found lost by reports and moves to the second.
    w.lose_data(0, &[0, 1, 2]);
    let on = |path| SendOptions {
        path: Some(PathId(path)),
        no_delay: true,
        ..SendOptions::default()
    };
    for _ in 0..3 {
        w.send_with(0, a, on(0), pattern(1400));
    }
    w.pump();
    for _ in 0..4 {
        w.send_with(0, a, on(1), pattern(1400));
        w.pump();
    }
    w.run(secs(10));
    assert_eq!(w.receive(1, b).len(), 7);
    assert_eq!(w.stats(0, a).counters.t3_expirations, 0);
    assert_eq!(w.path(0, a, 0).error_count, 0);
}

/// RFC 9260, section 6.4.1
#[test]
fn alternating_losses_on_both_paths_recover() {
    for seed in 0..20_u64 {
        let mut w = World::new();
        let (a, b) = w.connect();
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        w.rule(move |_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if x % 7 == 0 {
                Verdict::Drop
            } else {
                Verdict::Pass
            }
        });
        for i in 0..60 {
            let options = SendOptions {
                path: Some(PathId(i % 2)),
                ..SendOptions::on_stream(u16::from(i % 5))
            };
            w.send_with(0, a, options, pattern(2500));
        }
        w.run(secs(300));
        assert_eq!(w.receive(1, b).len(), 60, "seed {seed}");
    }
}

/// RFC 9260, section 6.1, rule A
#[test]
fn a_moved_window_probe_leaves_no_timer() {
    let mut w = World::new();
    let (peer, id) = verified(&mut w);
    for path in 0..2 {
        w.change(0, id).set_heartbeat(PathId(path), false).unwrap();
    }
    w.send(0, id, 0, pattern(1000));
    peer.sack(&mut w, peer.endpoint_tsn(0), 0, &[]);
    w.send(0, id, 0, pattern(1000));
    w.run(ms(1500));
    let probes = peer.receive(&mut w);
    assert_eq!(peer.numbers(&probes), [1], "a probe after one RTO");
    // The peer had no room for it, and then it has.
    peer.sack(&mut w, peer.endpoint_tsn(0), 0, &[]);
    let again = peer.sack(&mut w, peer.endpoint_tsn(0), 100_000, &[]);
    assert_eq!(peer.numbers(&again), [1]);
    // Longer than the rest of the old timer, shorter than the new one.
    w.run(ms(900));
    peer.sack(&mut w, peer.endpoint_tsn(1), 100_000, &[]);
    w.run(secs(20));
    assert_eq!(w.stats(0, id).counters.t3_expirations, 0);
    assert_eq!(
        (w.path(0, id, 0).error_count, w.path(0, id, 1).error_count),
        (0, 0)
    );
    assert_eq!(w.path(0, id, 0).cwnd, 4404);
}

/// RFC 9260, section 6.1, rule A
#[test]
fn data_above_the_window_stays_on_its_path() {
    let mut w = World::with(2, |_, c| c.association.buffers.receive_buffer = 100_000);
    let (a, b) = w.connect();
    for _ in 0..30 {
        w.send(0, a, 0, pattern(10_000));
    }
    // A path that stops answering while the window is closed is no place for what was refused.
    w.run(secs(20));
    w.block(addresses(1)[1]);
    w.run(secs(40));
    w.log.clear();
    let mut got = 0;
    for _ in 0..20 {
        got += w.receive_lengths(1, b).iter().sum::<usize>();
        w.run(secs(1));
    }
    assert_eq!(got, 300_000);
    let data = w.sent(0, ChunkType::DATA);
    assert!(data.iter().all(|p| p.to() == addresses(1)[0]));
}
