//! What a probe is, who answers it, and what the host refuses.

use carrick_proto::{PathMtuDiscovery, PathMtuState};
use carrick_wire::{Chunk, ChunkType};

use crate::common::*;
use crate::path_mtu::support::*;

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
fn a_peer_that_does_not_know_padding_answers_all_the_same_rfc_4820_3() {
    let mut w = searching_server();
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
    let mut w = searching_server();
    let (peer, id) = Puppet::new().connect(&mut w);
    let mut value = vec![0, 1, 0, 16];
    value.extend([7; 8]);
    value.extend([0; 4]);
    peer.say(&mut w, |p| p.heartbeat_ack(&value));
    assert_eq!(w.path(0, id, 0).mtu, 1200);
    assert_eq!(w.path(0, id, 0).mtu_probes_answered, 0);
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
                refuse(&mut w, probe, probe.route.local);
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
    // From an address that is not there any more: on neither.
    let before = [0, 1].map(|p| probes_sent(&w, a, p));
    let probe = pending(&w, 0);
    for gone in [None, Some(ip("10.9.9.9"))] {
        refuse(&mut w, &probe, gone);
        w.run(ms(100));
        assert_eq!([0, 1].map(|p| probes_sent(&w, a, p)), before);
    }
    // Those of the second one, until its search has found its end.
    for _ in 0..40 {
        let probe = pending(&w, 1);
        refuse(&mut w, &probe, Some(probe.source()));
        w.run(ms(100));
        if complete(&w)[1] {
            break;
        }
    }
    assert_eq!(complete(&w), [false, true], "without a timer");
    assert_eq!(w.path(0, a, 1).mtu, 1500);
}
