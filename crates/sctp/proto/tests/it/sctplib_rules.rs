//! Window rules of sctplib, the implementation of paper `satellite`, at a fast retransmission.

use crate::common;

use carrick_proto::AssociationId;
use carrick_proto::research::{GapAckCount, Policies, ReducedPath, SackRoute};
use common::*;

const FULL: usize = 1452;

/// Slows the first path down, so that the second has the lower round-trip time.
fn slow_first_path(packet: &SentPacket) -> Verdict {
    if [0, 1]
        .map(|end| addresses(end)[0])
        .contains(&packet.route.remote)
    {
        Verdict::Delay(ms(5))
    } else {
        Verdict::Pass
    }
}

/// Loses a chunk on the first path; returns the world at its fast retransmission, and the window before.
fn fast_retransmission(policies: Policies) -> (World, AssociationId, AssociationId, usize) {
    let mut w = World::with(2, |_, config| {
        config.association.research.policies = policies.clone();
    });
    w.config.research.policies = policies;
    w.config.buffers.send_buffer = 1 << 26;
    w.config.paths.heartbeat = false;
    w.rule(slow_first_path);
    let (a, b) = w.connect();
    for _ in 0..50 {
        w.send(0, a, 0, pattern(FULL));
    }
    assert!(w.run_until(secs(9), |w| w.stats(0, a).outstanding_chunks == 0));
    assert_eq!(w.receive(1, b).len(), 50);
    let before = w.path(0, a, 0).cwnd;
    w.clear_rules();
    w.lose(0, carrick_wire::ChunkType::DATA, 1);
    w.rule(slow_first_path);
    for _ in 0..400 {
        w.send(0, a, 0, pattern(FULL));
    }
    let retransmitted = |w: &mut World| w.stats(0, a).counters.fast_retransmissions > 0;
    assert!(w.run_until(secs(9), retransmitted));
    (w, a, b, before)
}

/// RFC 9260, section 7.2.4
#[test]
fn a_loss_reduces_the_window_of_its_path() {
    let policies = Policies {
        sack_route: SackRoute::LowestRttForGaps,
        ..Policies::default()
    };
    let (w, a, _, before) = fast_retransmission(policies);
    assert!(w.path(0, a, 0).cwnd < before);
}

#[test]
fn the_window_of_the_sacks_path_is_reduced() {
    let policies = Policies {
        sack_route: SackRoute::LowestRttForGaps,
        reduced_path: ReducedPath::OfSack,
        ..Policies::default()
    };
    let (mut w, a, b, before) = fast_retransmission(policies);
    let paths = [0, 1].map(|path| w.path(0, a, path));
    assert!(paths[0].cwnd >= before);
    assert!(paths[1].ssthresh < paths[0].ssthresh);
    w.run(secs(60));
    assert_eq!(w.receive(1, b).len(), 400);
}

/// Bytes in flight above the reduced window, a few ms after a fast retransmission.
fn excess(gap_ack_count: GapAckCount) -> usize {
    let policies = Policies {
        gap_ack_count,
        ..Policies::default()
    };
    let (mut w, a, b, before) = fast_retransmission(policies);
    w.run(ms(5));
    let path = w.path(0, a, 0);
    assert!(path.cwnd < before);
    w.run(secs(60));
    assert_eq!(w.receive(1, b).len(), 400, "all is delivered in the end");
    path.flight_size.saturating_sub(path.cwnd)
}

/// RFC 9260, section 6.1
#[test]
fn a_reduced_window_limits_what_is_in_flight() {
    assert!(excess(GapAckCount::Once) < FULL);
}

#[test]
fn gap_acks_counted_again_open_a_reduced_window() {
    assert!(excess(GapAckCount::EverySack) > FULL);
}
