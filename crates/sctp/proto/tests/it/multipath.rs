//! Concurrent multipath transfer of new data, without support of the peer.

use crate::common;

use carrick_proto::research::{DataRoute, Multipath, Policies, WindowGrowth};
use carrick_proto::{Event, PathId, Reliability, SendOptions};
use carrick_wire::ChunkType;
use common::*;

const FULL: usize = 1452;

/// Two endpoints, of which the first uses both paths at once.
fn concurrent(base: Policies) -> World {
    let mut w = World::new();
    w.config.research.policies = Policies {
        multipath: Multipath::concurrent(),
        ..base
    };
    w
}

/// DATA chunks of endpoint 0 that went to each address of endpoint 1.
fn on_paths(w: &World) -> [usize; 2] {
    addresses(1).map(|address| {
        let to = w.log.iter().filter(|p| p.from == 0 && p.to() == address);
        to.map(|p| p.data().len()).sum()
    })
}

/// RFC 9260, section 6.4
#[test]
fn data_uses_one_path_by_default() {
    let mut w = World::new();
    let (a, _) = w.connect();
    (0..20).for_each(|_| w.send(0, a, 0, pattern(FULL)));
    w.run(secs(2));
    let [first, second] = on_paths(&w);
    assert!(first >= 20 && second == 0);
}

#[test]
fn both_paths_carry_data_without_peer_support() {
    for base in [Policies::default(), Policies::modern()] {
        let mut w = concurrent(base);
        let (a, b) = w.connect();
        (0..100).for_each(|_| w.send(0, a, 0, pattern(FULL)));
        w.run(secs(3));
        assert_eq!(w.receive(1, b).len(), 100);
        let [first, second] = on_paths(&w);
        assert_eq!(first + second, 100, "each chunk was sent once");
        assert!(first.abs_diff(second) <= 20, "{first} {second}");
        let stats = w.path(0, a, 1);
        assert_eq!(
            (stats.data_chunks_sent, stats.data_chunks_lost),
            (second as u64, 0)
        );
    }
}

/// RFC 9260, section 5.4
#[test]
fn an_unverified_path_carries_no_data() {
    let mut w = concurrent(Policies::default());
    let second = addresses(1)[1];
    w.rule(move |seen| {
        let probe = seen.to() == second && seen.has(ChunkType::HEARTBEAT);
        if probe { Verdict::Drop } else { Verdict::Pass }
    });
    let (a, b) = w.connect();
    assert!(!w.path(0, a, 1).status.confirmed);
    (0..50).for_each(|_| w.send(0, a, 0, pattern(FULL)));
    w.run(secs(3));
    assert_eq!(w.receive(1, b).len(), 50);
    assert_eq!(on_paths(&w)[1], 0);
}

/// RFC 9260, section 6.4
#[test]
fn a_message_keeps_its_path_while_usable() {
    let mut w = concurrent(Policies::default());
    let (a, b) = w.connect();
    let options = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    (0..40).for_each(|_| w.send_with(0, a, options, pattern(FULL)));
    w.run(secs(3));
    assert_eq!(w.receive(1, b).len(), 40);
    assert_eq!(on_paths(&w), [0, 40]);
}

/// RFC 7829, section 3.2
#[test]
fn a_potentially_failed_path_carries_no_data() {
    let mut w = concurrent(Policies::default());
    w.config.paths.potentially_failed_max_retrans = Some(0);
    let (a, b) = w.connect();
    w.block(addresses(1)[1]);
    (0..20).for_each(|_| w.send(0, a, 0, pattern(FULL)));
    assert!(w.run_until(secs(5), |w| w.path(0, a, 1).status.potentially_failed));
    let before = on_paths(&w)[1];
    (0..20).for_each(|_| w.send(0, a, 0, pattern(FULL)));
    w.run(secs(5));
    assert_eq!(on_paths(&w)[1], before);
    assert_eq!(
        w.receive(1, b).len(),
        40,
        "its data arrived on another path"
    );
}

/// RFC 9260, section 6.2.1
#[test]
fn an_overtaken_sack_revokes_nothing() {
    for base in [Policies::default(), Policies::modern()] {
        let mut w = concurrent(base);
        let (a, b) = w.connect();
        // The way back of the second path is slow, and one chunk of the first is lost, so that gaps
        // stay for a while.
        let slow = addresses(0)[1];
        w.rule(move |seen| {
            let late = seen.from == 1 && seen.to() == slow;
            if late {
                Verdict::Delay(ms(25))
            } else {
                Verdict::Pass
            }
        });
        w.lose_data(0, &[4]);
        (0..200).for_each(|_| w.send(0, a, 0, pattern(FULL)));
        w.run(secs(5));
        assert_eq!(w.receive(1, b).len(), 200);
        let counters = w.stats(0, a).counters;
        assert_eq!(counters.reneged, 0);
        let again = counters.fast_retransmissions + counters.timeout_retransmissions;
        assert_eq!(again, 1, "{counters:?}");
    }
}

/// RFC 9260, section 12.4
#[test]
fn a_sack_of_an_unsent_tsn_aborts() {
    let mut w = concurrent(Policies::default());
    let (p, id) = Puppet::new().connect(&mut w);
    w.send(0, id, 0, pattern(FULL));
    w.events(0);
    p.send(&mut w, |b| {
        b.sack(
            p.peer_tsn.plus(7),
            1 << 20,
            core::iter::empty(),
            core::iter::empty(),
        );
    });
    let closed = w
        .events(0)
        .into_iter()
        .any(|e| matches!(e, Event::Closed(_)));
    assert!(closed);
}

/// RFC 3758, section 3.5
#[test]
fn abandoned_messages_block_no_path() {
    for base in [Policies::default(), Policies::modern()] {
        let mut w = World::with(2, |_, end| {
            end.association.extensions.partial_reliability = true
        });
        w.config.research.policies = concurrent(base).config.research.policies;
        w.config.extensions.partial_reliability = true;
        let (a, b) = w.connect();
        w.lose_data(0, &[3, 8, 21, 22]);
        let options = SendOptions {
            reliability: Reliability::Retransmissions(0),
            ..SendOptions::default()
        };
        (0..60).for_each(|_| w.send_with(0, a, options, pattern(FULL)));
        w.run(secs(10));
        (0..10).for_each(|_| w.send(0, a, 0, pattern(100)));
        w.run(secs(3));
        assert_eq!(w.receive(1, b).len(), 56 + 10);
        let stats = w.stats(0, a);
        assert_eq!((stats.outstanding_chunks, stats.send_buffer_bytes), (0, 0));
        let [first, second] = on_paths(&w);
        assert!(first > 20 && second > 20, "{first} {second}");
    }
}

/// RFC 8985, section 7.3
#[test]
fn a_lost_tail_on_each_path_is_probed() {
    let mut w = concurrent(Policies::modern());
    let (a, b) = w.connect();
    w.lose_data(0, &[38, 39]);
    (0..40).for_each(|_| w.send(0, a, 0, pattern(FULL)));
    w.run(ms(900));
    assert_eq!(w.receive(1, b).len(), 40, "before T3-rtx could expire");
    let counters = w.stats(0, a).counters;
    assert_eq!(counters.t3_expirations, 0);
    assert!(counters.tail_loss_probes >= 1);
}

#[test]
fn slow_paths_stay_idle_while_the_fast_has_cwnd() {
    let mut w = concurrent(Policies::default());
    w.config.research.policies.multipath.data_route = DataRoute::FastestFirst;
    let slow = addresses(1)[1];
    w.rule(move |seen| {
        let late = seen.to() == slow || seen.to() == addresses(0)[1];
        if late {
            Verdict::Delay(ms(40))
        } else {
            Verdict::Pass
        }
    });
    let (a, b) = w.connect();
    for _ in 0..30 {
        w.send(0, a, 0, pattern(FULL));
        w.run(ms(50));
    }
    assert_eq!(w.receive(1, b).len(), 30);
    assert_eq!(on_paths(&w), [30, 0]);
}

#[test]
fn growth_by_pseudo_cumulative_tsn_fits_one_path() {
    let mut w = World::single_homed();
    w.config.research.policies.multipath.window_growth = WindowGrowth::PseudoCumulative;
    w.config.buffers.send_buffer = 1 << 20;
    let (a, b) = w.connect();
    (0..400).for_each(|_| w.send(0, a, 0, pattern(FULL)));
    let before = w.path(0, a, 0).cwnd;
    assert!(w.run_until(secs(9), |w| w.stats(0, a).outstanding_chunks == 0));
    assert_eq!(w.receive(1, b).len(), 400);
    assert!(
        w.path(0, a, 0).cwnd > 4 * before,
        "while data was in flight"
    );
}

/// RFC 9260, section 5.1, rule C
#[test]
fn data_follows_the_cookie_echo_with_several_paths() {
    // All of the peer's addresses are known and confirmed: the turn is another one's.
    for policies in [Policies::default(), Policies::modern()] {
        for route in [DataRoute::FastestFirst, DataRoute::RoundRobin] {
            let mut w = concurrent(policies.clone());
            w.config.research.policies.multipath.data_route = route;
            let a = w.begin_connect(&addresses(1));
            w.send(0, a, 0, pattern(200));
            (0..4).for_each(|_| w.send(0, a, 0, pattern(FULL)));
            w.run(secs(2));
            let echo = w.sent(0, ChunkType::COOKIE_ECHO)[0];
            assert!(echo.has(ChunkType::DATA), "{:?}", echo.kinds());
            assert_eq!(w.sent(0, ChunkType::COOKIE_ECHO).len(), 1);
            let b = w.association(1);
            assert_eq!(w.receive(1, b).len(), 5);
            assert_eq!(w.data_sent(0), 5, "each chunk was sent once");
            assert!(on_paths(&w).iter().all(|count| *count > 0));
        }
    }
}

/// RFC 9260, section 5.1, rule C
#[test]
fn a_message_for_another_path_waits_for_cookie_ack() {
    let mut w = concurrent(Policies::default());
    let a = w.begin_connect(&addresses(1));
    let options = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    w.send_with(0, a, options, pattern(200));
    w.run(secs(2));
    assert!(!w.sent(0, ChunkType::COOKIE_ECHO)[0].has(ChunkType::DATA));
    assert_eq!(on_paths(&w), [0, 1]);
}
