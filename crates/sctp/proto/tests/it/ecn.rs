//! Explicit congestion notification (RFC 4960 appendix A, RFC 3168).

use crate::common;

use carrick_proto::{AssociationId, Ecn, Extensions, StreamDirection, StreamId};
use carrick_wire::{Chunk, ChunkType, Tsn};
use common::*;

const ECN: Extensions = Extensions {
    ecn: true,
    ..Extensions::NONE
};

/// Payload of a full DATA chunk.
const FULL: usize = 1452;

fn pair(ours: Extensions, theirs: Extensions) -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = theirs;
    });
    w.config.extensions = ours;
    let (a, b) = w.connect();
    (w, a, b)
}

/// Marks packets with DATA of endpoint 0 that are ECN-capable, by their number among those.
fn mark(w: &mut World, which: impl Fn(u32) -> bool + 'static) {
    let mut count = 0;
    w.rule(move |seen| {
        if seen.from != 0 || seen.route.ecn == Ecn::NotCapable {
            return Verdict::Pass;
        }
        count += 1;
        if which(count) {
            Verdict::Mark
        } else {
            Verdict::Pass
        }
    });
}

fn lowest(seen: &SentPacket, kind: ChunkType) -> Option<Tsn> {
    seen.chunks().into_iter().find_map(|chunk| match chunk {
        Chunk::Ecne(ecne) if kind == ChunkType::ECNE => Some(ecne.lowest_tsn),
        Chunk::Cwr(cwr) if kind == ChunkType::CWR => Some(cwr.lowest_tsn),
        _ => None,
    })
}

fn transfer(w: &mut World, a: AssociationId, b: AssociationId, messages: usize) {
    for _ in 0..messages {
        w.send(0, a, 0, pattern(FULL));
    }
    let mut received = 0;
    assert!(w.run_until(secs(600), |w| {
        received += w.receive(1, b).len();
        received == messages
    }));
}

/// RFC 4960, appendix A
#[test]
fn an_ecne_halves_the_cwnd_without_retransmission() {
    let (mut w, a, b) = pair(ECN, ECN);
    transfer(&mut w, a, b, 60);
    let before = w.path(0, a, 0).cwnd;
    mark(&mut w, |n| n == 1);
    transfer(&mut w, a, b, 60);
    let path = w.path(0, a, 0);
    assert_eq!(path.ssthresh, (before / 2).max(4 * 1468));
    let counters = w.stats(0, a).counters;
    assert_eq!(counters.congestion_mark_reductions, 1);
    assert_eq!(w.stats(1, b).counters.congestion_marks_received, 1);
    assert_eq!(
        counters.fast_retransmissions + counters.timeout_retransmissions,
        0
    );
    assert_eq!(
        w.sent(0, ChunkType::CWR).len(),
        w.sent(1, ChunkType::ECNE).len()
    );
}

/// RFC 4960, appendix A
#[test]
fn each_ecne_and_cwr_is_counted() {
    let (mut w, a, b) = pair(ECN, ECN);
    mark(&mut w, |n| n % 20 == 0);
    transfer(&mut w, a, b, 400);
    w.run(secs(1));
    let (ours, theirs) = (w.stats(0, a).counters, w.stats(1, b).counters);
    let count = |from, kind| w.sent(from, kind).len() as u64;
    let (ecnes, cwrs) = (count(1, ChunkType::ECNE), count(0, ChunkType::CWR));
    assert!(ecnes > 5 && cwrs > 5, "{ecnes} {cwrs}");
    assert_eq!((theirs.ecnes_sent, ours.ecnes_received), (ecnes, ecnes));
    assert_eq!((ours.cwrs_sent, theirs.cwrs_received), (cwrs, cwrs));
    assert_eq!((ours.ecnes_sent, theirs.cwrs_sent), (0, 0));
}

/// RFC 4960, appendix A
#[test]
fn marks_within_one_window_reduce_once() {
    let (mut w, a, b) = pair(ECN, ECN);
    transfer(&mut w, a, b, 60);
    // After a pause, Max.Burst packets leave before the first ECNE comes.
    w.run(ms(500));
    mark(&mut w, |n| n <= 4);
    transfer(&mut w, a, b, 60);
    assert_eq!(w.stats(1, b).counters.congestion_marks_received, 4);
    assert_eq!(w.stats(0, a).counters.congestion_mark_reductions, 1);
}

/// RFC 4960, appendix A
#[test]
fn each_marked_window_reduces_again() {
    let (mut w, a, b) = pair(ECN, ECN);
    transfer(&mut w, a, b, 60);
    mark(&mut w, |_| true);
    transfer(&mut w, a, b, 100);
    assert!(w.stats(0, a).counters.congestion_mark_reductions > 2);
    assert!(w.path(0, a, 0).cwnd <= 5 * 1468, "near the floor");
}

/// RFC 4960, appendix A
#[test]
fn ecne_accompanies_each_sack_until_cwr() {
    for lost in 0..4 {
        let (mut w, a, b) = pair(ECN, ECN);
        transfer(&mut w, a, b, 20);
        w.lose(0, ChunkType::CWR, lost);
        mark(&mut w, |n| n == 1);
        w.log.clear();
        transfer(&mut w, a, b, 40);
        w.run(secs(2));
        let echoes = w.sent(1, ChunkType::ECNE);
        assert!(echoes.len() > lost, "{lost} lost");
        let marked = lowest(echoes[0], ChunkType::ECNE);
        for echo in &echoes {
            assert_eq!(lowest(echo, ChunkType::ECNE), marked);
            assert_eq!(echo.kinds(), [ChunkType::ECNE, ChunkType::SACK]);
        }
        let arrived = w
            .sent(0, ChunkType::CWR)
            .into_iter()
            .find(|s| !s.lost)
            .expect("a CWR");
        let last = echoes.last().expect("an ECNE").time;
        assert!(last <= arrived.time + w.latency, "none after the CWR");
        assert_eq!(w.stats(0, a).counters.congestion_mark_reductions, 1);
    }
}

/// RFC 4960, appendix A
#[test]
fn a_lost_ecne_is_repeated() {
    for lost in 1..4 {
        let (mut w, a, b) = pair(ECN, ECN);
        transfer(&mut w, a, b, 20);
        w.lose(1, ChunkType::ECNE, lost);
        mark(&mut w, |n| n == 1);
        transfer(&mut w, a, b, 60);
        assert_eq!(
            w.stats(0, a).counters.congestion_mark_reductions,
            1,
            "{lost}"
        );
    }
}

/// RFC 3168, section 6.1.5
#[test]
fn only_new_data_is_ecn_capable() {
    let (mut w, a, b) = pair(ECN, ECN);
    w.lose_data(0, &[5, 6, 12]);
    transfer(&mut w, a, b, 60);
    let mut seen_tsns = std::collections::BTreeSet::new();
    let mut again = 0;
    for seen in &w.log {
        let fresh = seen
            .data()
            .iter()
            .filter(|d| seen_tsns.insert(d.tsn.value()))
            .count();
        let capable = seen.route.ecn == Ecn::Capable0;
        if seen.from != 0 || seen.data().is_empty() {
            assert_eq!(seen.route.ecn, Ecn::NotCapable, "{:?}", seen.kinds());
        } else if fresh == seen.data().len() {
            assert!(capable);
        } else {
            assert!(!capable);
            again += 1;
        }
    }
    assert!(again >= 3, "{again} packets with retransmissions");
}

/// RFC 4960, appendix A
#[test]
fn no_packet_is_ect_without_negotiation() {
    for (ours, theirs) in [(ECN, Extensions::NONE), (Extensions::NONE, ECN)] {
        let (mut w, a, b) = pair(ours, theirs);
        transfer(&mut w, a, b, 20);
        assert!(w.log.iter().all(|seen| seen.route.ecn == Ecn::NotCapable));
        assert!(!w.stats(0, a).extensions.ecn);
    }
}

/// RFC 4960, appendix A
#[test]
fn a_path_dropping_ect_packets_still_carries_data() {
    let (mut w, a, b) = pair(ECN, ECN);
    w.rule(|seen| match seen.route.ecn {
        Ecn::NotCapable => Verdict::Pass,
        _ => Verdict::Drop,
    });
    transfer(&mut w, a, b, 60);
    assert_eq!(
        w.stats(0, a).counters.t3_expirations,
        2,
        "later packets are not ECN-capable"
    );
    assert_eq!(w.stats(0, a).error_count, 0);
}

/// RFC 6525, section 5.2.4
#[test]
fn ecn_counts_restart_after_a_tsn_reset() {
    let both = Extensions {
        reconfiguration: true,
        ..ECN
    };
    // Marked last before the reset with no CWR getting through, or with all in order.
    for cwrs_lost in [0, 1000] {
        let (mut w, a, b) = pair(both, both);
        transfer(&mut w, a, b, 60);
        w.lose(0, ChunkType::CWR, cwrs_lost);
        mark(&mut w, |n| n == 1);
        transfer(&mut w, a, b, 60);
        assert_eq!(w.stats(0, a).counters.congestion_mark_reductions, 1);
        w.change(0, a).reset_association().expect("reset");
        w.run(secs(2));
        w.clear_rules();
        w.log.clear();
        transfer(&mut w, a, b, 60);
        assert_eq!(
            w.stats(0, a).counters.congestion_mark_reductions,
            1,
            "none for a mark from before"
        );
        assert!(w.sent(1, ChunkType::ECNE).is_empty(), "nor reported again");
        mark(&mut w, |n| n == 1);
        transfer(&mut w, a, b, 60);
        assert_eq!(w.stats(0, a).counters.congestion_mark_reductions, 2);
    }
}

/// RFC 4960, appendix A
#[test]
fn an_ecne_for_an_unsent_tsn_changes_nothing() {
    let mut w = World::with(2, |_, config| config.association.extensions = ECN);
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |p| p.ecn_capable());
    peer.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    peer.send(&mut w, |p| p.cookie_echo(&cookie));
    let id = w.association(0);
    assert!(w.stats(0, id).extensions.ecn);
    for ahead in [0, 1, 1 << 30] {
        let answers = peer.send(&mut w, |p| p.ecne(peer.peer_tsn.plus(ahead)));
        assert!(answers.is_empty());
        peer.send(&mut w, |p| p.cwr(peer.tsn.plus(ahead)));
    }
    assert_eq!(w.stats(0, id).counters.congestion_mark_reductions, 0);
    // Below what it has acknowledged: answered each time. The first window is below what a
    // reduction would leave.
    w.send(0, id, 0, pattern(10));
    peer.receive(&mut w);
    peer.sack(&mut w, peer.peer_tsn, 100_000, &[]);
    let before = w.path(0, id, 0);
    for _ in 0..3 {
        let answers = peer.send(&mut w, |p| p.ecne(peer.peer_tsn));
        assert_eq!(answers[0].kinds(), [ChunkType::CWR]);
    }
    assert_eq!(w.stats(0, id).counters.congestion_mark_reductions, 0);
    assert_eq!(w.path(0, id, 0).cwnd, before.cwnd);
}

/// RFC 4895, section 6.2
#[test]
fn an_ecne_beside_re_config_is_authenticated() {
    // The peer requires authentication of ECNE only.
    let offered = Extensions {
        authentication: true,
        reconfiguration: true,
        ..ECN
    };
    for asks in [0, 1] {
        let mut w = World::with(2, |end, config| {
            config.local_addresses.truncate(1);
            config.association.extensions = offered;
            if end == 0 {
                config.association.security.authentication.required = vec![ChunkType::ECNE];
            }
        });
        w.config.extensions = offered;
        w.config.security.authentication.required = vec![ChunkType::ECNE];
        let (a, b) = w.connect();
        mark(&mut w, |_| true);
        // ECNE is repeated until a CWR arrives.
        w.lose(0, ChunkType::CWR, usize::MAX);
        w.log.clear();
        // The first SACK leaves at once, and a request of a reset waits for it. The second is
        // delayed, and goes with what leaves before.
        let waits: &[u64] = if asks == 0 { &[12] } else { &[50, 12] };
        for &wait in waits {
            w.send(0, a, 0, pattern(100));
            w.run(ms(wait));
        }
        let marks = w.stats(1, b).counters.congestion_marks_received;
        assert_eq!(marks, waits.len() as u64);
        let id = [a, b][asks];
        w.change(asks, id)
            .reset_streams(StreamDirection::Outgoing, &[StreamId(1)])
            .unwrap();
        w.run(ms(100));
        let notified = w.sent(1, ChunkType::ECNE);
        assert!(
            notified.iter().any(|s| s.has(ChunkType::RE_CONFIG)),
            "{asks}"
        );
        for seen in notified {
            assert_eq!(seen.kinds()[0], ChunkType::AUTH, "{:?}", seen.kinds());
        }
        assert!(w.stats(0, a).counters.ecnes_received > 0);
    }
}
