//! ICMP Packet Too Big (section 4.6.2).

use carrick_proto::{Extensions, PathMtuDiscovery, PathMtuState, Reliability, SendOptions};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::path_mtu::support::*;

/// RFC 8899, section 4.6.2
#[test]
fn packet_too_big_about_a_probe_gives_the_next_size() {
    let mut w = searching(|_| {});
    w.narrow(0, 1400);
    let (a, _) = w.connect();
    let probe = w.log.iter().rfind(|p| p.probe).cloned().expect("a probe");
    assert_eq!((probe.ip_len(), mtu(&w, a)), (1492, 1280));
    assert!(too_big(&mut w, &probe, 1400));
    assert_eq!(mtu(&w, a), 1280, "the reported size is probed first");
    w.run(ms(100));
    assert_eq!((mtu(&w, a), complete(&mut w, a)), (1400, true));
}

/// RFC 8899, section 4.6.2
#[test]
fn packet_too_big_about_data_returns_to_the_base() {
    let (mut w, a, b) = searched(1500);
    w.clear_rules();
    w.narrow(0, 1400);
    let data = data_in_flight(&mut w, a, 50_000);
    let since = w.now;
    assert!(too_big(&mut w, &data, 1400));
    assert_eq!((mtu(&w, a), state(&w, a)), (1200, PathMtuState::Base));
    assert!(w.run_until(secs(1), |w| complete(w, a)));
    assert_eq!(mtu(&w, a), 1400);
    assert!(w.now - since <= ms(100), "two round trips");
    w.run(secs(2));
    assert_eq!(w.receive_lengths(1, b), [50_000]);
    assert_eq!(
        w.stats(0, a).counters.t3_expirations,
        0,
        "sent again at once"
    );
}

/// RFC 3758, section 3.5, rule C5
#[test]
fn a_lost_forward_tsn_is_repeated_at_a_smaller_mtu() {
    let extensions = Extensions {
        partial_reliability: true,
        ..Extensions::NONE
    };
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = extensions;
    });
    w.config.extensions = extensions;
    w.config.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default());
    let (a, _) = w.connect();
    assert!(w.run_until(secs(120), |w| complete(w, a)));
    w.log.clear();
    // The data is lost, and so is the first FORWARD-TSN.
    let mut notified = 0;
    w.rule(move |seen| {
        let forward = seen.has(ChunkType::FORWARD_TSN);
        notified += u32::from(forward);
        let lost = seen.from == 0 && (seen.has(ChunkType::DATA) || forward && notified == 1);
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    let options = SendOptions {
        reliability: Reliability::Retransmissions(0),
        ..SendOptions::default()
    };
    w.send_with(0, a, options, pattern(1000));
    assert!(w.run_until(secs(10), |w| w.stats(0, a).counters.forward_tsns_sent == 1));
    let data = w.log.iter().find(|p| p.has(ChunkType::DATA)).cloned();
    assert!(too_big(&mut w, &data.expect("data"), 1300));
    w.run(secs(20));
    assert_eq!(w.stats(0, a).counters.forward_tsns_sent, 2);
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
}

/// RFC 8899, section 4.6.2
#[test]
fn invalid_packet_too_big_messages_are_ignored() {
    let (mut w, a, _) = searched(1400);
    let data = data_in_flight(&mut w, a, 10_000);
    for absurd in [
        0,
        1,
        67,
        68,
        575,
        1400,
        1401,
        1500,
        9000,
        65_535,
        usize::MAX,
    ] {
        assert!(!too_big(&mut w, &data, absurd), "{absurd}");
        assert_eq!((mtu(&w, a), complete(&mut w, a)), (1400, true), "{absurd}");
    }
    // Below the base, but possible: small packets, until the base was tried again.
    assert!(too_big(&mut w, &data, 600));
    assert_eq!((mtu(&w, a), state(&w, a)), (576, PathMtuState::Error));
    assert!(!too_big(&mut w, &data, 600), "once");
    assert!(w.run_until(secs(60), |w| mtu(w, a) == 1400));
}

/// `MIN_PLPMTU` < `PL_PTB_SIZE` < `BASE_PLPMTU`.
///
/// RFC 8899, section 4.6.2
#[test]
fn a_reported_size_below_the_base_is_found_at_once() {
    let (mut w, a, _) = searched(1400);
    let data = data_in_flight(&mut w, a, 10_000);
    w.clear_rules();
    w.narrow(0, 1000);
    w.log.clear();
    assert!(too_big(&mut w, &data, 1000));
    assert_eq!((mtu(&w, a), state(&w, a)), (576, PathMtuState::Error));
    assert!(w.run_until(secs(1), |w| complete(w, a)));
    assert_eq!((mtu(&w, a), probes(&w)), (1000, vec![576, 1000]));
    // A router reports it of the base, too.
    w.run(secs(10));
    let probe = w.log.iter().rev().find(|p| p.probe && p.ip_len() == 1200);
    let probe = probe.expect("the base is probed again").clone();
    too_big(&mut w, &probe, 1000);
    assert_eq!(mtu(&w, a), 1000);
}

/// RFC 9260, section 10, rule ICMP7
#[test]
fn refused_data_leaves_again_without_a_timer() {
    for discovers in [true, false] {
        for by_host in [true, false] {
            let mut w = World::single_homed();
            w.config.mtu.path_mtu_discovery = discovers.then(PathMtuDiscovery::default);
            w.narrow(0, 1500);
            let (a, b) = w.connect();
            if discovers {
                assert!(w.run_until(secs(120), |w| complete(w, a)));
            }
            w.clear_rules();
            w.narrow(0, 1400);
            let sent = data_in_flight(&mut w, a, 20_000);
            assert!(sent.ip_len() > 1400);
            if by_host {
                let local = sent.route.local;
                refuse(&mut w, &sent, local, Some(1400));
            } else {
                assert!(too_big(&mut w, &sent, 1400));
            }
            w.run(ms(900));
            let case = format!("discovery {discovers}, by the host {by_host}");
            assert!(mtu(&w, a) <= 1400, "{case}");
            assert_eq!(w.receive_lengths(1, b), [20_000], "{case}");
        }
    }
}
