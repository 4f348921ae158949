//! Fast retransmit of a chunk more than once: what RFC 2960 left open and RFC 9260 forbids; and what
//! RFC 2960's own counters do.

use crate::common;

use carrick_proto::policy::{LossDetection, Multipath, Policies, ReportScope};
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

fn world(policies: Policies) -> (World, AssociationId, AssociationId) {
    let mut w = World::single_homed();
    w.config.policies = policies;
    w.config.send_buffer = 1 << 26;
    w.config.heartbeat = false;
    let (a, b) = w.connect();
    for _ in 0..50 {
        w.send(0, a, 0, pattern(FULL));
    }
    assert!(w.run_until(secs(9), |w| w.stats(0, a).outstanding_chunks == 0));
    assert_eq!(w.receive(1, b).len(), 50);
    (w, a, b)
}

/// Loses the next chunk so often, and sends 200. Returns timeouts, and how often it was sent.
fn lose(repeated: bool, times: usize) -> (u64, usize, PathStats) {
    lose_with(repeats(repeated, ReportScope::Association), times)
}

fn lose_with(policies: Policies, times: usize) -> (u64, usize, PathStats) {
    let (mut w, a, b) = world(policies);
    w.log.clear();
    let (mut lost, mut left) = (None, times);
    w.rule(move |seen| {
        if seen.from != 0 || left == 0 || !seen.has(ChunkType::DATA) {
            return Fate::Pass;
        }
        let tsns: Vec<_> = seen.data().iter().map(|d| d.tsn).collect();
        if tsns.contains(lost.get_or_insert(tsns[0])) {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Pass
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

#[test]
fn a_lost_retransmission_waits_for_the_timer_by_default_7_2_4() {
    let (timeouts, sent, _) = lose(false, 2);
    assert_eq!((timeouts, sent), (1, 3));
}

#[test]
fn a_lost_retransmission_is_sent_again_after_as_many_reports_where_that_is_chosen() {
    for scope in [ReportScope::Association, ReportScope::Path] {
        for times in 1..=3 {
            let (timeouts, sent, _) = lose_with(repeats(true, scope), times);
            assert_eq!((timeouts, sent), (0, times + 1), "{scope:?} {times}");
        }
    }
}

#[test]
fn a_retransmission_that_arrives_is_not_sent_again() {
    for repeated in [false, true] {
        let (timeouts, sent, path) = lose(repeated, 1);
        assert_eq!((timeouts, sent), (0, 2));
        assert_eq!(path.flight_size, 0);
    }
}

#[test]
fn counters_of_rfc_2960_answer_one_loss_as_often_as_sacks_in_a_round_trip_report_it() {
    let (timeouts, sent, path) = lose_with(counters(), 1);
    assert_eq!(timeouts, 0);
    assert!(sent > 3, "sent {sent} times");
    assert_eq!(path.flight_size, 0);
    let (_, once, standard) = lose(true, 1);
    assert_eq!(once, 2, "Fast Recovery and RFC 9260's counting");
    assert!(path.ssthresh < standard.ssthresh, "halved each time");
}

#[test]
fn counters_of_rfc_2960_need_no_timer_for_a_lost_retransmission() {
    for times in 1..=3 {
        let (timeouts, sent, _) = lose_with(counters(), times);
        assert_eq!(timeouts, 0);
        assert!(sent > times, "{sent}");
    }
}
