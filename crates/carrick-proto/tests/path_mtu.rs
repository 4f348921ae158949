//! Path MTU discovery with probes (RFC 8899, for SCTP section 6.2.1).

mod common;

use carrick_proto::{
    AssociationId, Event, Extensions, IcmpInput, IcmpKind, PathId, PathMtuDiscovery, PathMtuState,
    Reliability, SendOptions, Transmit,
};
use carrick_wire::{Chunk, ChunkType};
use common::*;

/// Two single-homed endpoints, of which the first looks for the path MTU.
fn world(change: impl FnOnce(&mut PathMtuDiscovery)) -> World {
    let mut w = World::single_homed();
    let mut discovery = PathMtuDiscovery::default();
    change(&mut discovery);
    w.config.path_mtu_discovery = Some(discovery);
    w
}

/// Connected over links that take this much, after the search.
fn searched(mtu: usize) -> (World, AssociationId, AssociationId) {
    let mut w = world(|_| {});
    w.narrow(0, mtu);
    let (a, b) = w.connect();
    assert!(
        w.run_until(secs(120), |w| complete(w, a)),
        "{:?}",
        w.path(0, a, 0)
    );
    (w, a, b)
}

fn state(w: &World, a: AssociationId) -> PathMtuState {
    w.path(0, a, 0).mtu_discovery.expect("it is on")
}

fn complete(w: &mut World, a: AssociationId) -> bool {
    state(w, a) == PathMtuState::SearchComplete
}

fn mtu(w: &World, a: AssociationId) -> usize {
    w.path(0, a, 0).mtu
}

/// Sizes of the probes in the log.
fn probes(w: &World) -> Vec<usize> {
    let all = w.log.iter().filter(|p| p.probe);
    all.map(Seen::ip_len).collect()
}

/// Probes that left on a path.
fn probes_sent(w: &World, a: AssociationId, path: u8) -> u64 {
    w.path(0, a, path).mtu_probes_sent
}

fn too_big(w: &mut World, about: &Seen, mtu: usize) -> bool {
    let before = w.ends[0].stats().icmp_accepted;
    let input = IcmpInput {
        kind: IcmpKind::PacketTooBig { mtu },
        remote: about.to(),
        encapsulation: None,
        quoted: &about.bytes[..8],
    };
    w.ends[0].handle_icmp(w.now, &input);
    w.pump();
    w.ends[0].stats().icmp_accepted > before
}

#[test]
fn off_by_default_there_are_no_probes() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.run(secs(1000));
    assert_eq!(w.path(0, a, 0).mtu_discovery, None);
    assert_eq!(w.path(0, a, 0).mtu_probes_sent, 0);
    assert!(w.log.iter().all(|p| !p.probe && !p.has(ChunkType::PAD)));
}

#[test]
fn the_search_finds_what_the_narrowest_link_takes_5_3() {
    for link in [1200, 1204, 1280, 1400, 1492, 1500, 4352, 8996, 9000, 20_000] {
        let (w, a, _) = searched(link);
        assert_eq!(mtu(&w, a), link.min(9000), "probes: {:?}", probes(&w));
        let path = w.path(0, a, 0);
        assert_eq!(path.error_count, 0, "a lost probe is no error");
        assert_eq!(w.stats(0, a).error_count, 0);
        assert_eq!(path.cwnd, w.path(0, a, 0).cwnd);
    }
}

#[test]
fn the_search_finds_sizes_up_to_the_limit_that_was_set_5_1_2() {
    for (limit, link, found) in [
        (65_532, 65_000, 65_000),
        (1400, 9000, 1400),
        (4000, 1500, 1500),
    ] {
        let mut w = world(|d| d.max_probed_mtu = limit);
        w.narrow(0, link);
        let (a, _) = w.connect();
        assert!(w.run_until(secs(300), |w| complete(w, a)));
        assert_eq!(mtu(&w, a), found);
        assert!(probes(&w).iter().all(|p| *p <= limit));
    }
}

#[test]
fn common_sizes_come_first_and_each_costs_a_round_trip_5_3_2() {
    let mut w = world(|_| {});
    let (a, _) = w.connect();
    assert!(
        complete(&mut w, a),
        "within the second that the set-up took"
    );
    assert_eq!(probes(&w), [1200, 1280, 1492, 1500, 4352, 9000]);
}

#[test]
fn a_probe_is_a_heartbeat_with_padding_that_must_not_be_fragmented_6_2_1_2() {
    let (w, ..) = searched(1400);
    for probe in w.log.iter().filter(|p| p.probe) {
        assert_eq!(probe.kinds(), [ChunkType::HEARTBEAT, ChunkType::PAD]);
        assert!(!probe.may_fragment);
        let chunks = probe.chunks();
        assert!(matches!(&chunks[0], Chunk::Heartbeat(h) if h.info.len() >= 8));
    }
}

#[test]
fn a_size_counts_as_too_large_after_max_probes_5_1_2() {
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

#[test]
fn a_probe_that_is_lost_for_another_reason_changes_nothing_5_3() {
    let mut w = world(|_| {});
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
        if hit { Fate::Drop } else { Fate::Pass }
    });
    let (a, _) = w.connect();
    assert!(w.run_until(secs(60), |w| complete(w, a)));
    assert_eq!(mtu(&w, a), 9000);
    assert_eq!(w.path(0, a, 0).error_count, 0);
}

#[test]
fn data_fills_the_packets_that_were_found_7_3() {
    let (mut w, a, b) = searched(4352);
    w.log.clear();
    w.send(0, a, 0, pattern(100_000));
    w.run(secs(5));
    assert_eq!(w.receive_lengths(1, b), [100_000]);
    let largest = w.sent(0, ChunkType::DATA).iter().map(|p| p.ip_len()).max();
    assert_eq!(largest, Some(4352));
    assert_eq!(w.stats(0, a).counters.t3_expirations, 0);
}

#[test]
fn before_the_search_data_has_the_base_size_5_2() {
    let mut w = world(|_| {});
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send(0, a, 0, pattern(20_000));
    assert!(w.run_until(secs(1), |w| !w.sent(0, ChunkType::DATA).is_empty()));
    assert!(
        w.sent(0, ChunkType::DATA)
            .iter()
            .all(|p| p.ip_len() <= 1200)
    );
}

#[test]
fn a_peer_that_does_not_know_padding_answers_all_the_same_rfc_4820_3() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.path_mtu_discovery = Some(PathMtuDiscovery::default());
    });
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let bytes = peer.build(peer.peer_tag, |p| p.cookie_echo(&cookie));
    w.inject(0, &peer.route(), bytes);
    let id = w.only(0);
    // The two high bits of PAD say: skip it silently and go on.
    assert_eq!(ChunkType::PAD.0 >> 6, 2);
    let mut heard = peer.hear(&mut w);
    for _ in 0..10 {
        let Some(probe) = heard.iter().find(|p| p.probe).cloned() else {
            break;
        };
        heard = peer.answer_heartbeat(&mut w, &probe);
    }
    assert_eq!(w.path(0, id, 0).mtu, 9000);
    assert_eq!(
        w.path(0, id, 0).mtu_discovery,
        Some(PathMtuState::SearchComplete)
    );
}

#[test]
fn padding_is_skipped_without_a_word_rfc_4820_3() {
    let mut w = World::new();
    let (peer, _) = Puppet::new().connect(&mut w);
    let answers = peer.say(&mut w, |p| {
        p.heartbeat(b"are you there");
        p.pad(1000);
    });
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::HEARTBEAT_ACK]);
}

#[test]
fn only_the_nonce_of_a_probe_answers_it_6_2_1_2() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.path_mtu_discovery = Some(PathMtuDiscovery::default());
    });
    let (peer, id) = Puppet::new().connect(&mut w);
    let mut value = vec![0, 1, 0, 16];
    value.extend([7; 8]);
    value.extend([0; 4]);
    peer.say(&mut w, |p| p.heartbeat_ack(&value));
    assert_eq!(w.path(0, id, 0).mtu, 1200);
    assert_eq!(w.path(0, id, 0).mtu_probes_answered, 0);
}

/// Sends large messages for a while, from when the link takes only `link`; returns how long it took
/// until packets were small enough.
fn black_hole(link: usize) -> (World, AssociationId, AssociationId, std::time::Duration) {
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

#[test]
fn a_black_hole_is_passed_within_three_seconds_5_2() {
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

#[test]
fn lost_data_alone_is_no_black_hole_4_3() {
    let (mut w, a, b) = searched(1500);
    // All data is lost for three seconds, whatever its size; heartbeats and probes pass.
    let until = w.now + secs(3);
    w.rule(move |p| {
        if p.from == 0 && p.has(ChunkType::DATA) && p.time < until {
            Fate::Drop
        } else {
            Fate::Pass
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

#[test]
fn a_dead_path_is_no_black_hole_5_2() {
    let (mut w, a, b) = searched(1500);
    w.kill(addresses(1)[0]);
    w.send(0, a, 0, pattern(50_000));
    w.run(secs(10));
    assert_eq!(mtu(&w, a), 1500, "nothing is known about sizes");
    w.revive(addresses(1)[0]);
    w.run(secs(60));
    assert_eq!(w.receive_lengths(1, b), [50_000]);
    assert_eq!(
        (mtu(&w, a), state(&w, a)),
        (1500, PathMtuState::SearchComplete)
    );
}

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

#[test]
fn a_path_that_failed_begins_anew_5_2() {
    let (mut w, a, _) = searched(9000);
    w.kill(addresses(1)[0]);
    assert!(w.run_until(secs(600), |w| !w.path(0, a, 0).status.active));
    assert_eq!(state(&w, a), PathMtuState::Disabled);
    let sent = w.path(0, a, 0).mtu_probes_sent;
    w.run(secs(60));
    assert_eq!(w.path(0, a, 0).mtu_probes_sent, sent, "no probes");
    w.clear_rules();
    w.narrow(0, 1400);
    w.revive(addresses(1)[0]);
    assert!(w.run_until(secs(600), |w| w.path(0, a, 0).status.active));
    assert!(mtu(&w, a) <= 1280, "it may lead elsewhere");
    assert!(w.run_until(secs(120), |w| complete(w, a)));
    assert_eq!(mtu(&w, a), 1400);
}

#[test]
fn a_larger_size_is_looked_for_again_after_the_raise_timer_5_1_1() {
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

#[test]
fn an_idle_association_does_not_look_again_5_1_1() {
    let (mut w, a, _) = searched(1400);
    w.log.clear();
    w.run(secs(5000));
    assert_eq!(probes(&w), []);
    w.clear_rules();
    w.send(0, a, 0, pattern(100));
    w.run(secs(601));
    assert_eq!(mtu(&w, a), 9000);
}

#[test]
fn below_the_base_packets_are_small_until_it_passes_5_2() {
    let mut w = world(|_| {});
    w.narrow(0, 900);
    let (a, b) = w.connect();
    assert!(w.run_until(secs(20), |w| state(w, a) == PathMtuState::Error));
    assert_eq!(mtu(&w, a), 576);
    w.send(0, a, 0, pattern(10_000));
    w.run(secs(5));
    assert_eq!(w.receive_lengths(1, b), [10_000]);
    assert!(w.path(0, a, 0).status.active);
    w.clear_rules();
    assert!(w.run_until(secs(60), |w| complete(w, a)));
    assert_eq!(mtu(&w, a), 9000);
}

#[test]
fn packet_too_big_about_a_probe_is_the_next_size_4_6_2() {
    let mut w = world(|_| {});
    w.narrow(0, 1400);
    let (a, _) = w.connect();
    let probe = w.log.iter().rfind(|p| p.probe).cloned().expect("a probe");
    assert_eq!((probe.ip_len(), mtu(&w, a)), (1492, 1280));
    assert!(too_big(&mut w, &probe, 1400));
    assert_eq!(mtu(&w, a), 1280, "it is not believed before it was tried");
    w.run(ms(100));
    assert_eq!((mtu(&w, a), complete(&mut w, a)), (1400, true));
}

#[test]
fn packet_too_big_about_data_leads_down_to_the_base_and_up_again_4_6_2() {
    let (mut w, a, b) = searched(1500);
    w.clear_rules();
    w.narrow(0, 1400);
    w.send(0, a, 0, pattern(50_000));
    w.pump();
    let data = w
        .sent(0, ChunkType::DATA)
        .last()
        .copied()
        .cloned()
        .expect("data");
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

#[test]
fn a_lost_forward_tsn_is_repeated_though_the_path_mtu_shrank_rfc_3758_c5() {
    let extensions = Extensions {
        partial_reliability: true,
        ..Extensions::NONE
    };
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = extensions;
    });
    w.config.extensions = extensions;
    w.config.path_mtu_discovery = Some(PathMtuDiscovery::default());
    let (a, _) = w.connect();
    assert!(w.run_until(secs(120), |w| complete(w, a)));
    w.log.clear();
    // The data is lost, and so is the first FORWARD-TSN.
    let mut told = 0;
    w.rule(move |seen| {
        let forward = seen.has(ChunkType::FORWARD_TSN);
        told += u32::from(forward);
        let lost = seen.from == 0 && (seen.has(ChunkType::DATA) || forward && told == 1);
        if lost { Fate::Drop } else { Fate::Pass }
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

#[test]
fn absurd_packet_too_big_messages_are_ignored_4_6_2() {
    let (mut w, a, _) = searched(1400);
    w.send(0, a, 0, pattern(10_000));
    w.pump();
    let data = w
        .sent(0, ChunkType::DATA)
        .last()
        .copied()
        .cloned()
        .expect("data");
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
    assert!(w.run_until(secs(60), |w| complete(w, a)));
    assert_eq!(mtu(&w, a), 1400);
}

#[test]
fn a_probe_that_the_host_refuses_has_failed_at_once() {
    let mut w = world(|_| {});
    // The interface takes 1500 bytes.
    let (a, _) = {
        let a = w.begin_connect(&[addresses(1)[0]]);
        w.narrow(0, 1500);
        let mut refused = Vec::new();
        for _ in 0..2000 {
            w.run(ms(1));
            let new: Vec<Seen> = w
                .log
                .iter()
                .filter(|p| p.probe && p.lost)
                .cloned()
                .collect();
            for probe in new.iter().skip(refused.len()) {
                let transmit = Transmit {
                    route: probe.route,
                    len: probe.bytes.len(),
                    segment_size: None,
                    may_fragment: false,
                    probe: true,
                };
                let now = w.now;
                w.ends[0].handle_refused_probe(now, &transmit, &probe.bytes);
                refused.push(probe.ip_len());
            }
        }
        (a, refused)
    };
    assert!(complete(&mut w, a), "no timer was needed");
    assert_eq!(mtu(&w, a), 1500);
    let sent = probes(&w);
    let mut sizes = sent.clone();
    sizes.sort_unstable();
    sizes.dedup();
    assert_eq!(sizes.len(), sent.len(), "each size once: {sent:?}");
}

#[test]
fn a_refused_probe_counts_on_the_path_that_it_was_for_only_5_2() {
    // Two ways to one address of the peer, from two addresses of this side, and a search on each.
    let mut w = World::with(2, |end, config| config.local_addresses.truncate(2 - end));
    w.config.monitor_pairs = true;
    w.config.path_mtu_discovery = Some(PathMtuDiscovery::default());
    // What is larger than 1500 bytes does not pass, and is not missed before its timer.
    w.narrow(0, 1500);
    let (a, _) = w.connect();
    w.run(ms(100));
    let pending = |w: &World, source: usize| {
        let from = |p: &&Seen| p.probe && p.lost && p.source() == addresses(0)[source];
        w.log.iter().rfind(from).cloned().expect("a probe")
    };
    let complete = |w: &World| {
        [0, 1].map(|p| w.path(0, a, p).mtu_discovery == Some(PathMtuState::SearchComplete))
    };
    let refuse = |w: &mut World, probe: &Seen, local: Option<std::net::IpAddr>| {
        let transmit = Transmit {
            route: carrick_proto::Route {
                local,
                ..probe.route
            },
            len: probe.bytes.len(),
            segment_size: None,
            may_fragment: false,
            probe: true,
        };
        let now = w.now;
        w.ends[0].handle_refused_probe(now, &transmit, &probe.bytes);
        w.run(ms(100));
    };
    // From an address that is not there any more: on neither.
    let before = [0, 1].map(|p| probes_sent(&w, a, p));
    let probe = pending(&w, 0);
    for gone in [None, Some(ip("10.9.9.9"))] {
        refuse(&mut w, &probe, gone);
        assert_eq!([0, 1].map(|p| probes_sent(&w, a, p)), before);
    }
    // Those of the second one, until its search has found its end.
    for _ in 0..40 {
        let probe = pending(&w, 1);
        refuse(&mut w, &probe, Some(probe.source()));
        if complete(&w)[1] {
            break;
        }
    }
    assert_eq!(complete(&w), [false, true], "without a timer");
    assert_eq!(w.path(0, a, 1).mtu, 1500);
}

#[test]
fn what_the_driver_knows_limits_the_search() {
    let mut w = world(|_| {});
    let (a, _) = w.connect();
    assert_eq!(mtu(&w, a), 9000);
    w.log.clear();
    let now = w.now;
    w.ends[0].set_path_mtu(now, a, PathId(0), 1400).unwrap();
    assert_eq!(mtu(&w, a), 1400);
    w.run(secs(60));
    assert_eq!((mtu(&w, a), probes(&w)), (1400, vec![]));
}

#[test]
fn each_path_has_its_own_search_5_2() {
    let mut w = World::new();
    w.config.path_mtu_discovery = Some(PathMtuDiscovery::default());
    w.narrow(0, 1500);
    w.narrow(1, 1280);
    let (a, _) = w.connect();
    w.run(secs(120));
    assert_eq!([0, 1].map(|p| w.path(0, a, p).mtu), [1500, 1280]);
}

#[test]
fn on_ipv6_nothing_is_smaller_than_1280_5_1_2() {
    let v6 = |end: usize| ip(&format!("fd00::{}", end + 1));
    let mut w = World::with(2, |end, c| c.local_addresses = vec![v6(end)]);
    w.config.path_mtu_discovery = Some(PathMtuDiscovery::default());
    w.rule(|p| {
        if p.ip_len() > 1400 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    let a = w.begin_connect(&[v6(1)]);
    assert!(w.run_until(secs(60), |w| {
        w.path(0, a, 0).mtu_discovery == Some(PathMtuState::SearchComplete)
    }));
    assert_eq!(mtu(&w, a), 1400);
    assert!(probes(&w).iter().all(|p| *p >= 1280));
}

#[test]
fn a_configuration_out_of_range_is_refused_5_1() {
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
        let config = carrick_proto::AssociationConfig {
            path_mtu_discovery: Some(bad),
            ..Default::default()
        };
        assert!(config.validate().is_err(), "{bad:?}");
    }
}

#[test]
fn the_set_up_passes_a_link_that_does_not_take_the_base() {
    for icmp in [true, false] {
        let mut w = world(|_| {});
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
        let b = w.only(1);
        assert_eq!(w.receive_lengths(1, b), [10_000]);
    }
}
