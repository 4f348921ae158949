//! After the search: black holes, failed paths, searches for larger sizes.

use std::time::Duration;

use carrick_proto::research::Policies;
use carrick_proto::{AssociationConfig, AssociationId, Event, PathMtuDiscovery, PathMtuState};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::path_mtu::support::*;

/// Sends large messages for a while, from when the link takes only `link`; returns how long it took
/// until packets were small enough.
fn black_hole(link: usize) -> (World, AssociationId, AssociationId, Duration) {
    let (mut w, a, b) = searched(1500);
    w.send(0, a, 0, pattern(50_000));
    w.run(secs(2));
    w.receive(1, b);
    w.events(0);
    w.clear_rules();
    w.narrow(0, link);
    let since = w.now;
    w.send(0, a, 0, pattern(50_000));
    assert!(w.run_until(secs(30), |w| mtu(w, a) <= link));
    let took = w.now - since;
    (w, a, b, took)
}

/// RFC 8899, section 5.2
#[test]
fn a_black_hole_is_passed_within_three_seconds() {
    for link in [1200, 1280, 1400] {
        let (mut w, a, b, took) = black_hole(link);
        // RTO.Min until T3-rtx, then the probe timer, which is the same.
        assert_eq!(took, secs(2), "RTO and PROBE_TIMER");
        w.run(secs(3));
        assert_eq!(
            w.receive_lengths(1, b),
            [50_000],
            "what was too large arrives, too"
        );
        assert!(w.run_until(secs(60), |w| complete(w, a)));
        assert_eq!(mtu(&w, a), link);
        let failed = |e: &Event| matches!(e, Event::PathFailed(_));
        assert!(!w.events(0).iter().any(failed));
    }
}

/// A large message on a link that got too narrow for it, and one of 100 bytes on another stream
/// each `every`; returns how long it took until the large one arrived.
fn black_hole_beside_small_messages(base: &AssociationConfig, every: Duration) -> Duration {
    let mut w = World::single_homed();
    w.config = base.clone().with(|c| {
        c.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default());
        c.transmission.nagle = false;
        c.streams.outbound_streams = 2;
    });
    w.narrow(0, 1500);
    let (a, b) = w.connect();
    assert!(w.run_until(secs(120), |w| complete(w, a)));
    w.send(0, a, 0, pattern(50_000));
    w.run(secs(2));
    w.receive(1, b);
    w.clear_rules();
    w.narrow(0, 1400);
    let since = w.now;
    w.send(0, a, 0, pattern(5_000));
    while w.now < since + secs(30) {
        w.send(0, a, 1, pattern(100));
        w.run(every);
        if w.receive_lengths(1, b).contains(&5_000) {
            assert!(mtu(&w, a) <= 1400);
            return w.now - since;
        }
    }
    panic!("not in 30 s: {:?}", w.stats(0, a).counters);
}

/// RFC 8899, section 5.2
#[test]
fn small_messages_hide_no_black_hole() {
    let rack = AssociationConfig::rfc9260().with(|c| c.research.policies = Policies::modern());
    let all = [
        AssociationConfig::rfc9260(),
        rack,
        AssociationConfig::modern(),
    ];
    for (number, base) in all.iter().enumerate() {
        for every in [5, 20, 100] {
            let took = black_hole_beside_small_messages(base, ms(every));
            assert!(
                took <= secs(3),
                "settings {number}, every {every} ms: {took:?}"
            );
        }
    }
}

/// RFC 8899, section 4.3
#[test]
fn lost_data_alone_is_no_black_hole() {
    let (mut w, a, b) = searched(1500);
    // All data is lost for three seconds, whatever its size; heartbeats and probes pass.
    let until = w.now + secs(3);
    w.rule(move |p| {
        if p.from == 0 && p.has(ChunkType::DATA) && p.time < until {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    w.send(0, a, 0, pattern(50_000));
    for _ in 0..2000 {
        w.run(ms(10));
        assert_eq!(mtu(&w, a), 1500);
    }
    assert_eq!(w.receive_lengths(1, b), [50_000]);
    assert!(complete(&mut w, a));
}

/// RFC 8899, section 5.2
#[test]
fn a_dead_path_is_no_black_hole() {
    let (mut w, a, b) = searched(1500);
    w.block(addresses(1)[0]);
    w.send(0, a, 0, pattern(50_000));
    w.run(secs(10));
    assert_eq!(mtu(&w, a), 1500, "nothing is known about sizes");
    w.unblock(addresses(1)[0]);
    w.run(secs(60));
    assert_eq!(w.receive_lengths(1, b), [50_000]);
    assert_eq!(
        (mtu(&w, a), state(&w, a)),
        (1500, PathMtuState::SearchComplete)
    );
}

/// RFC 8899, section 4.3
#[test]
fn small_data_needs_no_black_hole_detection() {
    let (mut w, a, _) = searched(1500);
    w.lose(0, ChunkType::DATA, 2);
    w.log.clear();
    w.send(0, a, 0, pattern(500));
    w.run(secs(10));
    assert_eq!(w.stats(0, a).counters.t3_expirations, 2);
    assert_eq!(probes(&w), []);
}

/// RFC 8899, section 5.2
#[test]
fn a_failed_path_restarts_discovery() {
    let (mut w, a, _) = searched(9000);
    w.block(addresses(1)[0]);
    assert!(w.run_until(secs(600), |w| !w.path(0, a, 0).status.active));
    assert_eq!(state(&w, a), PathMtuState::Disabled);
    let sent = w.path(0, a, 0).mtu_probes_sent;
    w.run(secs(60));
    assert_eq!(w.path(0, a, 0).mtu_probes_sent, sent, "no probes");
    w.clear_rules();
    w.narrow(0, 1400);
    w.unblock(addresses(1)[0]);
    assert!(w.run_until(secs(600), |w| w.path(0, a, 0).status.active));
    assert!(
        mtu(&w, a) <= 1280,
        "the restored path may have another PMTU"
    );
    assert!(w.run_until(secs(120), |w| complete(w, a)));
    assert_eq!(mtu(&w, a), 1400);
}

/// RFC 8899, section 5.1.1
#[test]
fn the_raise_timer_starts_another_search() {
    let (mut w, a, b) = searched(1400);
    w.clear_rules();
    w.log.clear();
    let since = w.now;
    while w.now < since + secs(590) {
        w.send(0, a, 0, pattern(100));
        w.run(secs(10));
        w.receive(1, b);
    }
    assert_eq!((mtu(&w, a), probes(&w)), (1400, vec![]));
    w.run(secs(20));
    assert_eq!(mtu(&w, a), 9000);
}

/// RFC 8899, section 5.3.1: as long as the next larger size is lost, no other one is probed.
#[test]
fn another_search_begins_with_the_next_size() {
    let (mut w, a, b) = searched(1400);
    w.log.clear();
    w.send(0, a, 0, pattern(100));
    w.run(secs(620));
    assert_eq!(w.receive_lengths(1, b), [100]);
    assert_eq!((mtu(&w, a), probes(&w)), (1400, vec![1404; 3]));
    assert!(complete(&mut w, a));
}

/// RFC 8899, section 5.1.1
#[test]
fn an_idle_association_starts_no_further_search() {
    let (mut w, a, _) = searched(1400);
    w.log.clear();
    w.run(secs(5000));
    assert_eq!(probes(&w), []);
    w.clear_rules();
    w.send(0, a, 0, pattern(100));
    w.run(secs(601));
    assert_eq!(mtu(&w, a), 9000);
}

/// ERROR is left when the smallest size is confirmed.
///
/// RFC 8899, section 5.2
#[test]
fn a_path_below_the_base_is_searched_from_below() {
    for link in [576, 600, 900, 1000, 1196] {
        let mut w = searching(|_| {});
        w.narrow(0, link);
        let (a, b) = w.connect();
        assert!(w.run_until(secs(20), |w| state(w, a) == PathMtuState::Error));
        assert_eq!(mtu(&w, a), 576, "a conservative size");
        w.send(0, a, 0, pattern(10_000));
        w.run(secs(60));
        assert_eq!(w.receive_lengths(1, b), [10_000]);
        assert_eq!(mtu(&w, a), link);
        let path = w.path(0, a, 0);
        assert!(path.status.active && path.error_count == 0);
        w.log.clear();
        w.send(0, a, 0, pattern(10_000));
        w.run(secs(2));
        let largest = w.sent(0, ChunkType::DATA).iter().map(|p| p.ip_len()).max();
        assert_eq!(largest, Some(link));
        assert_eq!(w.stats(0, a).counters.timeout_retransmissions, 0);
    }
}

/// The probe of the base may have been lost for a reason other than its size.
///
/// RFC 8899, section 5.1.1
#[test]
fn the_base_is_probed_again_after_the_search_below() {
    let mut w = searching(|_| {});
    w.narrow(0, 900);
    let (a, _) = w.connect();
    assert!(w.run_until(secs(60), |w| mtu(w, a) == 900 && complete(w, a)));
    w.clear_rules();
    assert!(w.run_until(secs(60), |w| mtu(w, a) == 9000));
}

/// Probes of a path that stays below the base become rare.
///
/// RFC 8899, section 5.1.1
#[test]
fn probes_of_the_base_become_rare() {
    let mut w = searching(|_| {});
    w.narrow(0, 900);
    let (a, _) = w.connect();
    w.run(secs(3600));
    assert_eq!(mtu(&w, a), 900);
    // 1, 2, 4 ... 512 seconds apart, three probes each, behind those of the search.
    let count = probes(&w).iter().filter(|size| **size >= 1200).count();
    assert!((20..50).contains(&count), "{count}");
    w.log.clear();
    w.run(secs(3600));
    assert!(probes(&w).len() <= 3 * 6, "{:?}", probes(&w));
}

/// A black hole below the base.
///
/// RFC 8899, section 4.3
#[test]
fn a_path_below_the_base_may_shrink() {
    let mut w = searching(|_| {});
    w.narrow(0, 1100);
    let (a, b) = w.connect();
    assert!(w.run_until(secs(60), |w| mtu(w, a) == 1100 && complete(w, a)));
    w.narrow(0, 800);
    w.send(0, a, 0, pattern(20_000));
    assert!(w.run_until(secs(100), |w| mtu(w, a) == 800 && complete(w, a)));
    w.run(secs(30));
    assert_eq!(w.receive_lengths(1, b), [20_000]);
    assert!(w.path(0, a, 0).status.active);
}

/// Neither the base nor the smallest size passes at first.
///
/// RFC 8899, section 5.2
#[test]
fn the_smallest_size_is_probed_again_too() {
    let mut w = searching(|_| {});
    w.rule(|p| {
        if p.probe {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    let (a, _) = w.connect();
    w.run(secs(60));
    assert_eq!((mtu(&w, a), state(&w, a)), (576, PathMtuState::Error));
    let sent = probes(&w);
    assert_eq!(sent[..6], [1200, 1200, 1200, 576, 576, 576]);
    assert!(sent.len() < 40, "{sent:?}");
    w.clear_rules();
    w.narrow(0, 1000);
    assert!(w.run_until(secs(120), |w| mtu(w, a) == 1000 && complete(w, a)));
}

/// Nothing is smaller than the base on IPv6.
///
/// RFC 8200, section 5
#[test]
fn on_ipv6_only_the_base_is_probed_again() {
    let mut w = World::with(2, |end, c| {
        c.local_addresses = vec![in_v6(addresses(end)[0])];
    });
    w.config.mtu.path_mtu_discovery = Some(carrick_proto::PathMtuDiscovery::default());
    w.rule(|p| {
        if p.probe {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    let a = w.begin_connect(&[in_v6(addresses(1)[0])]);
    w.run(secs(60));
    assert_eq!((mtu(&w, a), state(&w, a)), (1280, PathMtuState::Error));
    assert!(probes(&w).iter().all(|size| *size == 1280));
}
