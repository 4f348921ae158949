//! Repeated fast retransmission of a chunk, which RFC 2960 leaves open and RFC 9260 forbids, and
//! the per-SACK counters of RFC 2960.

use crate::common;

use carrick_proto::research::{LossDetection, Multipath, Policies, ReportScope};
use carrick_proto::{AssociationId, PathStats};
use carrick_wire::ChunkType;
use common::*;

const FULL: usize = 1452;

fn repeats(repeated: bool, scope: ReportScope) -> Policies {
    Policies {
        repeated_fast_retransmit: repeated,
        multipath: Multipath {
            report_scope: scope,
            ..Multipath::default()
        },
        ..Policies::default()
    }
}

/// RFC 2960's counters with its four reports.
fn counters() -> Policies {
    Policies {
        loss_detection: LossDetection::EveryReport,
        missing_reports: 4,
        ..Policies::default()
    }
}

fn warmed_up(policies: Policies) -> (World, AssociationId, AssociationId) {
    let mut w = World::single_homed();
    w.config.research.policies = policies;
    w.config.buffers.send_buffer = 1 << 26;
    w.config.paths.heartbeat = false;
    let (a, b) = w.connect();
    for _ in 0..50 {
        w.send(0, a, 0, pattern(FULL));
    }
    assert!(w.run_until(secs(9), |w| w.stats(0, a).outstanding_chunks == 0));
    assert_eq!(w.receive(1, b).len(), 50);
    (w, a, b)
}

/// Drops the next chunk this number of times and sends 200. Returns timeouts, and transmissions
/// of the chunk.
fn lose(repeated: bool, times: usize) -> (u64, usize, PathStats) {
    lose_with(repeats(repeated, ReportScope::Association), times)
}

fn lose_with(policies: Policies, times: usize) -> (u64, usize, PathStats) {
    let (mut w, a, b) = warmed_up(policies);
    w.log.clear();
    let (mut lost, mut left) = (None, times);
    w.rule(move |seen| {
        if seen.from != 0 || left == 0 || !seen.has(ChunkType::DATA) {
            return Verdict::Pass;
        }
        let tsns: Vec<_> = seen.data().iter().map(|d| d.tsn).collect();
        if tsns.contains(lost.get_or_insert(tsns[0])) {
            left -= 1;
            return Verdict::Drop;
        }
        Verdict::Pass
    });
    for _ in 0..200 {
        w.send(0, a, 0, pattern(FULL));
    }
    w.run(secs(30));
    assert_eq!(w.receive(1, b).len(), 200);
    let data: Vec<_> = w
        .sent(0, ChunkType::DATA)
        .into_iter()
        .flat_map(|s| s.data())
        .collect();
    let first = data[0].tsn;
    let sent = data.iter().filter(|d| d.tsn == first).count();
    let timeouts = w.stats(0, a).counters.t3_expirations;
    (timeouts, sent, w.path(0, a, 0))
}

/// RFC 9260, section 7.2.4
#[test]
fn a_lost_retransmission_waits_for_t3_by_default() {
    let (timeouts, sent, _) = lose(false, 2);
    assert_eq!((timeouts, sent), (1, 3));
}

/// RFC 9260, section 7.2.4
#[test]
fn a_chosen_policy_repeats_fast_retransmit() {
    for scope in [ReportScope::Association, ReportScope::Path] {
        for times in 1..=3 {
            let (timeouts, sent, _) = lose_with(repeats(true, scope), times);
            assert_eq!((timeouts, sent), (0, times + 1), "{scope:?} {times}");
        }
    }
}

/// RFC 9260, section 7.2.4
#[test]
fn an_arrived_retransmission_is_not_repeated() {
    for repeated in [false, true] {
        let (timeouts, sent, path) = lose(repeated, 1);
        assert_eq!((timeouts, sent), (0, 2));
        assert_eq!(path.flight_size, 0);
    }
}

/// RFC 2960, section 7.2.4
#[test]
fn rfc_2960_counters_repeat_per_round_trip() {
    let (timeouts, sent, path) = lose_with(counters(), 1);
    assert_eq!(timeouts, 0);
    assert!(sent > 3, "sent {sent} times");
    assert_eq!(path.flight_size, 0);
    let (_, once, standard) = lose(true, 1);
    assert_eq!(once, 2, "Fast Recovery and RFC 9260's counting");
    assert!(
        path.ssthresh < standard.ssthresh,
        "each fast retransmission halves ssthresh"
    );
}

/// RFC 2960, section 7.2.4
#[test]
fn rfc_2960_counters_repeat_without_t3() {
    for times in 1..=3 {
        let (timeouts, sent, _) = lose_with(counters(), times);
        assert_eq!(timeouts, 0);
        assert!(sent > times, "{sent}");
    }
}
