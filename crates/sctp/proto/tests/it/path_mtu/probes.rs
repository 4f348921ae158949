//! Format of probes, their answers, and probes that the host refuses.

use carrick_proto::{PathMtuDiscovery, PathMtuState};
use carrick_wire::{Chunk, ChunkType};

use crate::common::*;
use crate::path_mtu::support::*;

/// RFC 8899, section 6.2.1.2
#[test]
fn a_probe_is_a_padded_heartbeat_with_df() {
    let (w, ..) = searched(1400);
    for probe in w.log.iter().filter(|p| p.probe) {
        assert_eq!(probe.kinds(), [ChunkType::HEARTBEAT, ChunkType::PAD]);
        assert!(!probe.may_fragment);
        let chunks = probe.chunks();
        assert!(matches!(&chunks[0], Chunk::Heartbeat(h) if h.info.len() >= 8));
    }
}

/// RFC 4820, section 3
#[test]
fn a_peer_that_lacks_pad_answers_probes() {
    let mut w = searching_server();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let bytes = peer.build(peer.peer_tag, |p| p.cookie_echo(&cookie));
    w.inject(0, &peer.route(), bytes);
    let id = w.association(0);
    // The two high bits of PAD mean: skip the chunk silently and process the next.
    assert_eq!(ChunkType::PAD.0 >> 6, 2);
    let mut packets = peer.receive(&mut w);
    for _ in 0..10 {
        let Some(probe) = packets.iter().find(|p| p.probe).cloned() else {
            break;
        };
        packets = peer.answer_heartbeat(&mut w, &probe);
    }
    assert_eq!(w.path(0, id, 0).mtu, 9000);
    assert_eq!(
        w.path(0, id, 0).mtu_discovery,
        Some(PathMtuState::SearchComplete)
    );
}

/// RFC 4820, section 3
#[test]
fn a_pad_chunk_is_skipped_silently() {
    let mut w = World::new();
    let (peer, _) = Puppet::new().connect(&mut w);
    let answers = peer.send(&mut w, |p| {
        p.heartbeat(b"are you there");
        p.pad(1000);
    });
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::HEARTBEAT_ACK]);
}

/// RFC 8899, section 6.2.1.2
#[test]
fn only_the_nonce_of_a_probe_confirms_it() {
    let mut w = searching_server();
    let (peer, id) = Puppet::new().connect(&mut w);
    let mut value = vec![0, 1, 0, 16];
    value.extend([7; 8]);
    value.extend([0; 4]);
    peer.send(&mut w, |p| p.heartbeat_ack(&value));
    assert_eq!(w.path(0, id, 0).mtu, 1200);
    assert_eq!(w.path(0, id, 0).mtu_probes_answered, 0);
}

/// RFC 8899, section 3
#[test]
fn a_probe_refused_by_the_host_fails_at_once() {
    let mut w = searching(|_| {});
    // The interface takes 1500 bytes.
    let (a, _) = {
        let a = w.begin_connect(&[addresses(1)[0]]);
        w.narrow(0, 1500);
        let mut refused = Vec::new();
        for _ in 0..2000 {
            w.run(ms(1));
            let new: Vec<SentPacket> = w
                .log
                .iter()
                .filter(|p| p.probe && p.lost)
                .cloned()
                .collect();
            for probe in new.iter().skip(refused.len()) {
                refuse(&mut w, probe, probe.route.local, None);
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

/// RFC 8899, section 5.2
#[test]
fn a_refused_probe_counts_on_its_path_only() {
    // Two ways to one address of the peer, from two addresses of this side, and a search on each.
    let mut w = World::with(2, |end, config| config.local_addresses.truncate(2 - end));
    w.config.paths.monitor_pairs = true;
    w.config.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default());
    // Packets above 1500 bytes are lost, and not detected before their timer.
    w.narrow(0, 1500);
    let (a, _) = w.connect();
    w.run(ms(100));
    let pending = |w: &World, source: usize| {
        let from = |p: &&SentPacket| p.probe && p.lost && p.source() == addresses(0)[source];
        w.log.iter().rfind(from).cloned().expect("a probe")
    };
    let complete = |w: &World| {
        [0, 1].map(|p| w.path(0, a, p).mtu_discovery == Some(PathMtuState::SearchComplete))
    };
    // From an address that is not there any more: on neither.
    let before = [0, 1].map(|p| probes_sent(&w, a, p));
    let probe = pending(&w, 0);
    for gone in [None, Some(ip("10.9.9.9"))] {
        refuse(&mut w, &probe, gone, None);
        w.run(ms(100));
        assert_eq!([0, 1].map(|p| probes_sent(&w, a, p)), before);
    }
    // Probes of the second path, until its search is complete.
    for _ in 0..40 {
        let probe = pending(&w, 1);
        refuse(&mut w, &probe, Some(probe.source()), None);
        w.run(ms(100));
        if complete(&w)[1] {
            break;
        }
    }
    assert_eq!(complete(&w), [false, true], "without a timer");
    assert_eq!(w.path(0, a, 1).mtu, 1500);
}
