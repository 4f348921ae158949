//! Order of the probed sizes, and the result of the search.

use carrick_proto::{PathId, PathMtuDiscovery, PathMtuState};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::path_mtu::support::*;

/// RFC 8899, section 5.2
#[test]
fn no_tail_loss_probe_is_sent_by_default() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.run(secs(1000));
    assert_eq!(w.path(0, a, 0).mtu_discovery, None);
    assert_eq!(w.path(0, a, 0).mtu_probes_sent, 0);
    assert!(w.log.iter().all(|p| !p.probe && !p.has(ChunkType::PAD)));
}

/// RFC 8899, section 5.3
#[test]
fn the_search_finds_the_mtu_of_the_narrowest_link() {
    for link in [1200, 1204, 1280, 1400, 1492, 1500, 4352, 8996, 9000, 20_000] {
        let (w, a, _) = searched(link);
        assert_eq!(mtu(&w, a), link.min(9000), "probes: {:?}", probes(&w));
        let path = w.path(0, a, 0);
        assert_eq!(path.error_count, 0, "a lost probe is no error");
        assert_eq!(w.stats(0, a).error_count, 0);
        assert_eq!(path.cwnd, w.path(0, a, 0).cwnd);
    }
}

/// RFC 8899, section 5.1.2
#[test]
fn the_search_ends_at_the_configured_limit() {
    for (limit, link, found) in [
        (65_532, 65_000, 65_000),
        (1400, 9000, 1400),
        (4000, 1500, 1500),
    ] {
        let mut w = searching(|d| d.max_probed_mtu = limit);
        w.narrow(0, link);
        let (a, _) = w.connect();
        assert!(w.run_until(secs(300), |w| complete(w, a)));
        assert_eq!(mtu(&w, a), found);
        assert!(probes(&w).iter().all(|p| *p <= limit));
    }
}

/// RFC 8899, section 5.3.2
#[test]
fn common_sizes_are_probed_first() {
    let mut w = searching(|_| {});
    let (a, _) = w.connect();
    assert!(
        complete(&mut w, a),
        "within the second that the set-up took"
    );
    assert_eq!(probes(&w), [1200, 1280, 1492, 1500, 4352, 9000]);
}

/// RFC 8899, section 5.1.2
#[test]
fn a_size_is_too_large_after_max_probes() {
    let (w, ..) = searched(1500);
    let sent = probes(&w);
    let count = |size| sent.iter().filter(|p| **p == size).count();
    assert_eq!((count(1500), count(4352)), (1, 3), "{sent:?}");
    let times: Vec<_> = w
        .log
        .iter()
        .filter(|p| p.probe && p.ip_len() == 4352)
        .collect();
    assert!(
        times.windows(2).all(|t| t[1].time - t[0].time >= secs(1)),
        "PROBE_TIMER"
    );
}

/// RFC 8899, section 5.3
#[test]
fn a_probe_lost_for_another_reason_changes_nothing() {
    let mut w = searching(|_| {});
    let mut lost = 0;
    w.rule(move |p| {
        // Two of each size, in either direction.
        let hit = p.probe && lost < 2;
        lost = if hit {
            lost + 1
        } else if p.probe {
            0
        } else {
            lost
        };
        if hit { Verdict::Drop } else { Verdict::Pass }
    });
    let (a, _) = w.connect();
    assert!(w.run_until(secs(60), |w| complete(w, a)));
    assert_eq!(mtu(&w, a), 9000);
    assert_eq!(w.path(0, a, 0).error_count, 0);
}

/// RFC 9260, section 7.3
#[test]
fn data_fills_packets_of_the_discovered_size() {
    let (mut w, a, b) = searched(4352);
    w.log.clear();
    w.send(0, a, 0, pattern(100_000));
    w.run(secs(5));
    assert_eq!(w.receive_lengths(1, b), [100_000]);
    let largest = w.sent(0, ChunkType::DATA).iter().map(|p| p.ip_len()).max();
    assert_eq!(largest, Some(4352));
    assert_eq!(w.stats(0, a).counters.t3_expirations, 0);
}

/// RFC 8899, section 5.2
#[test]
fn before_the_search_data_has_the_base_size() {
    let mut w = searching(|_| {});
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send(0, a, 0, pattern(20_000));
    assert!(w.run_until(secs(1), |w| !w.sent(0, ChunkType::DATA).is_empty()));
    assert!(
        w.sent(0, ChunkType::DATA)
            .iter()
            .all(|p| p.ip_len() <= 1200)
    );
}

/// RFC 8899, section 5.1.2
#[test]
fn the_interface_mtu_limits_the_search() {
    let mut w = searching(|_| {});
    let (a, _) = w.connect();
    assert_eq!(mtu(&w, a), 9000);
    w.log.clear();
    w.change(0, a).set_path_mtu(PathId(0), 1400).unwrap();
    assert_eq!(mtu(&w, a), 1400);
    w.run(secs(60));
    assert_eq!((mtu(&w, a), probes(&w)), (1400, vec![]));
}

/// RFC 8899, section 5.2
#[test]
fn each_path_has_its_own_search() {
    let mut w = World::new();
    w.config.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default());
    w.narrow(0, 1500);
    w.narrow(1, 1280);
    let (a, _) = w.connect();
    w.run(secs(120));
    assert_eq!([0, 1].map(|p| w.path(0, a, p).mtu), [1500, 1280]);
}

/// RFC 8899, section 5.1.2
#[test]
fn ipv6_sizes_are_at_least_1280_bytes() {
    let v6 = |end: usize| ip(&format!("fd00::{}", end + 1));
    let mut w = World::with(2, |end, c| c.local_addresses = vec![v6(end)]);
    w.config.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default());
    w.rule(|p| {
        if p.ip_len() > 1400 {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    let a = w.begin_connect(&[v6(1)]);
    assert!(w.run_until(secs(60), |w| {
        w.path(0, a, 0).mtu_discovery == Some(PathMtuState::SearchComplete)
    }));
    assert_eq!(mtu(&w, a), 1400);
    assert!(probes(&w).iter().all(|p| *p >= 1280));
}

/// RFC 8899, section 5.1
#[test]
fn a_configuration_out_of_range_is_refused() {
    let good = PathMtuDiscovery::default();
    assert_eq!(good.validate(), Ok(()));
    for bad in [
        PathMtuDiscovery {
            base_mtu: 500,
            ..good
        },
        PathMtuDiscovery {
            max_probed_mtu: 1100,
            ..good
        },
        PathMtuDiscovery {
            max_probed_mtu: 70_000,
            ..good
        },
        PathMtuDiscovery {
            max_probes: 0,
            ..good
        },
        PathMtuDiscovery {
            probe_timer: ms(999),
            ..good
        },
        PathMtuDiscovery {
            raise_timer: ms(10),
            ..good
        },
    ] {
        let config = carrick_proto::AssociationConfig::rfc9260()
            .with(|c| c.mtu.path_mtu_discovery = Some(bad));
        assert!(config.validate().is_err(), "{bad:?}");
    }
}

/// RFC 8899, section 5.2
#[test]
fn the_set_up_passes_a_link_below_the_base() {
    for icmp in [true, false] {
        let mut w = searching(|_| {});
        w.narrow(0, 1000);
        let a = w.begin_connect(&[addresses(1)[0]]);
        w.send(0, a, 0, pattern(10_000));
        // The first COOKIE ECHO has data behind it and is too large.
        w.run(ms(50));
        let echo = w.sent(0, ChunkType::COOKIE_ECHO)[0].clone();
        assert!(echo.has(ChunkType::DATA) && echo.lost);
        if icmp {
            assert!(too_big(&mut w, &echo, 1000));
            assert_eq!(mtu(&w, a), 576);
        }
        assert!(w.run_until(secs(2), |w| w.states() == [Some("Established"); 2]));
        assert!(w.run_until(secs(20), |w| state(w, a) == PathMtuState::Error));
        w.run(secs(20));
        let b = w.association(1);
        assert_eq!(w.receive_lengths(1, b), [10_000]);
    }
}
