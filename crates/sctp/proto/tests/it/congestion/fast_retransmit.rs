//! Missing reports, fast retransmit and Fast Recovery (section 7.2.4).

use crate::common::*;
use crate::congestion::support::*;

/// RFC 9260, section 7.2.4
#[test]
fn fast_retransmit_needs_the_configured_reports() {
    for reports in [3, 4] {
        let mut f = Flow::with(|c| c.research.policies.missing_reports = reports);
        f.send(20, FULL);
        for n in 1..u32::from(reports) {
            let released = f.sack(0, &[(1, n)]);
            assert!(!released.iter().any(|p| p[0] == 0), "report {n}");
            assert_eq!(f.fast_retransmissions(), 0);
        }
        let cwnd = f.path().cwnd;
        let released = f.sack(0, &[(1, u32::from(reports))]);
        assert_eq!(released[0], [0], "at once, before new data");
        assert_eq!(f.fast_retransmissions(), 1);
        // The SACK doesn't advance the Cumulative TSN Ack Point, but cwnd grows first: it was used.
        let grown = cwnd + PMDCS;
        let halved = (grown / 2).max(4 * PMDCS);
        assert_eq!(f.windows(), (halved, halved));
        assert_eq!(f.path().partial_bytes_acked, 0);
    }
}

/// RFC 9260, section 7.2.4
#[test]
fn only_newly_acknowledged_chunks_report_missing() {
    let mut f = Flow::new();
    f.send(20, FULL);
    for _ in 0..10 {
        f.sack(0, &[(1, 1)]);
    }
    assert_eq!(
        f.fast_retransmissions(),
        0,
        "ten identical SACKs report once"
    );
    f.sack(0, &[(1, 2)]);
    assert_eq!(f.fast_retransmissions(), 0);
    f.sack(0, &[(1, 3)]);
    assert_eq!(f.fast_retransmissions(), 1);
}

/// RFC 9260, section 7.2.4
#[test]
fn chunks_above_the_htna_are_not_reported_missing() {
    let mut f = Flow::new();
    f.grow_and_drain(20);
    let s = f.w.stats(0, f.id).counters.data_chunks_sent as u32;
    f.send(30, 700);
    f.sack(s, &[(s + 6, s + 6)]);
    assert!(f.w.stats(0, f.id).outstanding_chunks > 7);
    // News below s + 5 only: s + 5 is missing in each of these, but above the news.
    for n in 1..=4 {
        f.sack(s, &[(s + 1, s + n), (s + 6, s + 6)]);
    }
    let lost: Vec<u32> =
        f.w.log
            .iter()
            .filter(|p| p.from == 0)
            .flat_map(|p| f.p.numbers(std::slice::from_ref(p)))
            .filter(|n| *n == s || *n == s + 5)
            .collect();
    assert_eq!(lost, [s, s + 5, s], "s again, s + 5 not");
}

/// RFC 9260, section 7.2.4
#[test]
fn a_gap_below_the_window_is_repaired_in_one_packet() {
    // The K chunks that fit into one packet are retransmitted at once, later chunks when cwnd allows.
    let mut f = Flow::new();
    let (acked, sent) = f.grow(20);
    // Eight chunks lost.
    for n in 0..2 {
        let released = f.sack(acked, &[(acked + 8, acked + 8 + n)]);
        assert!(released.iter().all(|p| p[0] >= sent));
    }
    let released = f.sack(acked, &[(acked + 8, acked + 10)]);
    assert_eq!(released, [[acked]], "one packet for any cwnd");
    assert!(f.path().flight_size > f.path().cwnd + PMDCS);
    // The rest waits until the flight is below cwnd.
    let mut next = acked + 1;
    for n in 11.. {
        let released = f.sack(acked, &[(acked + 8, acked + n)]);
        if let Some(first) = released.first() {
            assert_eq!(*first, [next], "before new data");
            assert!(f.path().flight_size < f.path().cwnd + PMDCS);
            next += 1;
        }
        if next == acked + 8 || acked + n + 1 == sent {
            break;
        }
    }
    assert_eq!(next, acked + 8);
}

/// RFC 9260, section 6.1, rule B
#[test]
fn a_fast_retransmission_adds_no_data_beyond_cwnd() {
    // Two chunks fit into a packet, one is lost: there is room for a new one, but not in cwnd.
    let mut f = Flow::new();
    let (acked, sent) = f.grow_with(20, 700);
    f.sack(acked, &[(acked + 1, acked + 1)]);
    f.sack(acked, &[(acked + 1, acked + 2)]);
    let released = f.sack(acked, &[(acked + 1, acked + 3)]);
    assert_eq!(released, [[acked]]);
    assert!(f.path().flight_size > f.path().cwnd + PMDCS);
    assert!(sent > acked + 20);
}

/// RFC 9260, section 6.1
#[test]
fn a_retransmission_packet_is_filled_with_new_data() {
    let mut f = Flow::new();
    assert_eq!(f.send(1, 700), [[0]]);
    assert!(f.send(1, 700).is_empty(), "Nagle's algorithm");
    assert_eq!(f.run(secs(1)), [[0, 1]]);
}

/// RFC 9260, section 7.2.4
#[test]
fn fast_recovery_halves_once_until_its_exit_point() {
    let mut f = Flow::new();
    let (acked, mut sent) = f.grow(32);
    let note = |released: Vec<Vec<u32>>, sent: &mut u32| {
        *sent = released
            .iter()
            .flatten()
            .map(|n| n + 1)
            .fold(*sent, u32::max);
    };
    let exit = {
        let released = lose_one(&mut f, acked);
        assert_eq!(released[0], [acked]);
        note(released, &mut sent);
        // The highest outstanding TSN when the third report came; new data may have left since.
        sent
    };
    let entered = f.windows();
    // A second chunk is lost: it is sent again without another cut.
    let second = acked + 4;
    for n in 1..=3 {
        let released = f.sack(acked, &[(acked + 1, acked + 3), (second + 1, second + n)]);
        note(released, &mut sent);
    }
    assert_eq!(f.windows(), entered);
    // The first is repaired: Fast Recovery continues, cwnd does not grow.
    let released = f.sack(second, &[(second + 1, exit - 2)]);
    assert_eq!(released[0], [second], "marked before, now allowed");
    note(released, &mut sent);
    let released = f.sack(exit - 1, &[]);
    note(released, &mut sent);
    assert_eq!(f.windows(), entered, "one chunk short of the exit point");
    assert_eq!(f.fast_retransmissions(), 2);
    // All up to the exit point: the window may grow and be cut again.
    let oldest = |f: &Flow, sent| sent - f.w.stats(0, f.id).outstanding_chunks as u32;
    while f.windows() == entered {
        let count = (oldest(&f, sent) + 1).max(exit);
        let released = f.sack(count, &[]);
        note(released, &mut sent);
    }
    let cwnd = f.path().cwnd;
    assert!(cwnd > entered.0);
    let acked = oldest(&f, sent);
    assert_eq!(lose_one(&mut f, acked)[0], [acked]);
    assert!((cwnd / 2..cwnd * 2 / 3).contains(&f.path().cwnd));
}

/// RFC 9260, section 7.2.4
#[test]
fn in_fast_recovery_each_advance_reports_missing() {
    let mut f = Flow::new();
    let (acked, _) = f.grow(32);
    lose_one(&mut f, acked);
    assert_eq!(f.fast_retransmissions(), 1);
    // Another loss above gets two reports from news above it.
    let y = acked + 20;
    f.sack(acked, &[(acked + 1, y - 1), (y + 1, y + 1)]);
    f.sack(acked, &[(acked + 1, y - 1), (y + 1, y + 2)]);
    assert_eq!(f.fast_retransmissions(), 1);
    // The third: the cumulative TSN advances, the news (the first chunk) is below y.
    let released = f.sack(y, &[(y + 1, y + 2)]);
    assert_eq!(released[0], [y]);
    assert_eq!(f.fast_retransmissions(), 2);
}

/// RFC 9260, section 7.2.4
#[test]
fn a_chunk_is_fast_retransmitted_only_once() {
    let mut f = Flow::new();
    let (acked, _) = f.grow(32);
    assert_eq!(lose_one(&mut f, acked)[0], [acked]);
    for n in 4..=20 {
        let released = f.sack(acked, &[(acked + 1, acked + n)]);
        assert!(!released.iter().flatten().any(|n| *n == acked));
    }
    assert_eq!(f.fast_retransmissions(), 1);
    // T3-rtx brings it.
    assert_eq!(f.run(secs(2))[0][0], acked);
    assert_eq!(f.w.stats(0, f.id).counters.t3_expirations, 1);
}

/// RFC 9260, section 7.2.4
#[test]
fn several_lost_chunks_share_a_packet() {
    let mut f = Flow::new();
    let (acked, _) = f.grow_with(20, 300);
    for n in 0..2 {
        f.sack(acked, &[(acked + 8, acked + 8 + n)]);
    }
    let released = f.sack(acked, &[(acked + 8, acked + 10)]);
    // 316 bytes each: four of the eight.
    let first: Vec<u32> = (acked..acked + 4).collect();
    assert_eq!(released, [first]);
}
