//! Congestion control and the retransmission timer (RFC 9260 sections 6.1 B to D, 6.3, 7.2).
//!
//! Most scenarios let an endpoint send to a puppet, whose SACKs say exactly what the rule is about.

mod common;

use std::time::Duration;

use carrick_proto::{AssociationConfig, AssociationId, PathId, PathStats, SendOptions};
use carrick_wire::ChunkType;
use common::*;

/// PMDCS of an IPv4 path with an MTU of 1500.
const PMDCS: usize = 1468;
/// A message whose chunk has PMDCS bytes.
const FULL: usize = PMDCS - 16;

/// An endpoint that sends to a puppet.
struct Flow {
    w: World,
    p: Puppet,
    id: AssociationId,
}

impl Flow {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut AssociationConfig)) -> Self {
        let mut w = World::single_homed();
        w.config.send_buffer = 1 << 26;
        w.config.heartbeat = false;
        change(&mut w.config);
        let mut p = Puppet::new();
        p.a_rwnd = 1 << 30;
        let (p, id) = p.accept(&mut w);
        Self { w, p, id }
    }

    /// The puppet sets up the association, so that nothing has been measured.
    fn unmeasured(rto_min: Duration) -> Self {
        let mut w = World::with(1, |_, config| {
            config.local_addresses.truncate(1);
            config.association.heartbeat = false;
            config.association.rto_min = rto_min;
        });
        let (p, id) = Puppet::new().connect(&mut w);
        Self { w, p, id }
    }

    fn path(&self) -> PathStats {
        self.w.path(0, self.id, 0)
    }

    fn windows(&self) -> (usize, usize) {
        (self.path().cwnd, self.path().ssthresh)
    }

    /// Gives messages to the sender; returns the chunks of each packet that leaves.
    fn send(&mut self, count: usize, size: usize) -> Vec<Vec<u32>> {
        self.send_with(SendOptions::default(), count, size)
    }

    fn send_with(&mut self, options: SendOptions, count: usize, size: usize) -> Vec<Vec<u32>> {
        for _ in 0..count {
            self.w.send_with(0, self.id, options, pattern(size));
        }
        self.hear()
    }

    /// The chunks, by number from 0, of each packet with DATA since this was last asked.
    fn hear(&mut self) -> Vec<Vec<u32>> {
        let heard = self.p.hear(&mut self.w);
        self.data(&heard)
    }

    fn data(&self, packets: &[Seen]) -> Vec<Vec<u32>> {
        packets
            .iter()
            .filter(|p| p.has(ChunkType::DATA))
            .map(|p| self.p.numbers(std::slice::from_ref(p)))
            .collect()
    }

    /// A SACK for the first `count` chunks; gap blocks count chunks from 0, both ends included.
    /// Returns the chunks of each packet that it releases.
    fn sack(&mut self, count: u32, gaps: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let cumulative = self.p.theirs(count.wrapping_sub(1));
        let offset = |chunk: u32| u16::try_from(chunk + 1 - count).expect("a gap");
        let gaps: Vec<_> = gaps.iter().map(|g| (offset(g.0), offset(g.1))).collect();
        let answers = self.p.sack(&mut self.w, cumulative, self.p.a_rwnd, &gaps);
        self.data(&answers)
    }

    fn run(&mut self, duration: Duration) -> Vec<Vec<u32>> {
        self.w.run(duration);
        self.hear()
    }

    /// Sends full packets, two to a SACK, until cwnd has this many; returns how many chunks were
    /// acknowledged and how many were sent. The queue is not empty afterwards.
    fn grow(&mut self, packets: usize) -> (u32, u32) {
        self.grow_with(packets, FULL)
    }

    fn grow_with(&mut self, packets: usize, size: usize) -> (u32, u32) {
        let chunks = PMDCS / (size + 16);
        let messages = 20 * packets * chunks;
        let mut sent = self.send(messages, size).iter().flatten().count();
        let mut acked = 0;
        while self.path().cwnd < packets * PMDCS {
            acked += 2 * chunks;
            sent += self.sack(acked as u32, &[]).iter().flatten().count();
            assert!(acked < messages, "cwnd does not grow");
        }
        let (acked, sent) = (acked as u32, sent as u32);
        (acked, sent)
    }

    /// Grows cwnd, then acknowledges everything.
    fn grow_and_drain(&mut self, packets: usize) -> u32 {
        let (_, mut sent) = self.grow(packets);
        loop {
            let more = self.sack(sent, &[]).len() as u32;
            if more == 0 {
                return sent;
            }
            sent += more;
        }
    }

    fn fast_retransmissions(&self) -> u64 {
        self.w.stats(0, self.id).counters.fast_retransmissions
    }
}

// ---- Section 7.2.1 ----

#[test]
fn the_initial_window_depends_on_the_mtu_and_the_family_7_2_1() {
    for (v6, mtu, cwnd) in [
        (false, 1500, 4404),
        (false, 576, 4 * 544),
        (false, 9000, 2 * 8968),
        (true, 1500, 4344),
        (true, 1280, 4344),
    ] {
        let own = if v6 { ip("fd00::1") } else { addresses(0)[0] };
        let mut w = World::with(1, |_, config| config.local_addresses = vec![own]);
        w.config.path_mtu = mtu;
        let mut p = Puppet::new();
        p.link.to = own;
        if v6 {
            p.link.from = ip("fd00::99");
        }
        let (p, id) = p.accept(&mut w);
        let path = w.path(0, id, 0);
        assert_eq!(path.cwnd, cwnd, "IPv6 {v6}, MTU {mtu}");
        assert!(path.ssthresh > 1 << 30, "arbitrarily high");
        for _ in 0..20 {
            w.send(0, id, 0, pattern(mtu - if v6 { 68 } else { 48 }));
        }
        let packets = p.hear(&mut w).len();
        let pmdcs = mtu - if v6 { 52 } else { 32 };
        assert_eq!(packets, cwnd.div_ceil(pmdcs), "IPv6 {v6}, MTU {mtu}");
    }
}

#[test]
fn slow_start_adds_what_was_acknowledged_but_one_pmdcs_at_most_7_2_1() {
    let mut f = Flow::new();
    assert_eq!(f.send(20, FULL), [[0], [1], [2]]);
    assert_eq!(
        f.sack(2, &[]).len(),
        3,
        "two acknowledged, one more allowed"
    );
    assert_eq!(f.path().cwnd, 4404 + PMDCS);
    f.sack(3, &[]);
    assert_eq!(f.path().cwnd, 4404 + 2 * PMDCS);

    let mut f = Flow::with(|c| c.nagle = false);
    f.send(1, 84);
    f.send(20, FULL);
    f.sack(1, &[]);
    assert_eq!(f.path().cwnd, 4404 + 100, "only what was acknowledged");
}

#[test]
fn the_limit_of_slow_start_is_l_times_pmdcs_7_2_1() {
    let mut f = Flow::with(|c| c.slow_start_limit = 2);
    f.send(20, FULL);
    f.sack(3, &[]);
    assert_eq!(f.path().cwnd, 4404 + 2 * PMDCS);
}

#[test]
fn a_window_that_is_not_used_does_not_grow_7_2_1() {
    let mut f = Flow::new();
    for n in 0..20 {
        assert_eq!(f.send(2, FULL).len(), 2);
        f.sack(2 * n + 2, &[]);
    }
    assert_eq!(f.path().cwnd, 4404);
}

#[test]
fn slow_start_doubles_each_round_trip_with_any_message_size_7_2_1() {
    // The test for full use must not be off by a chunk: sizes that don't divide the window.
    for size in [100, 500, 733, 1000, 1452, 5000] {
        let mut f = Flow::new();
        f.send(400_000 / size, size);
        let mut next = 0;
        let mut cwnd = f.path().cwnd;
        for _ in 0..4 {
            let outstanding = f.w.stats(0, f.id).outstanding_chunks as u32;
            let end = next + outstanding;
            // A SACK for about two packets each.
            let step = (2 * outstanding as usize * PMDCS / f.path().flight_size).max(1) as u32;
            while next < end {
                next = (next + step).min(end);
                f.sack(next, &[]);
            }
            let grown = f.path().cwnd as f64 / cwnd as f64;
            assert!(grown > 1.3 && grown <= 2.0, "size {size}: {grown}");
            cwnd = f.path().cwnd;
        }
    }
}

#[test]
fn an_idle_window_halves_each_rto_down_to_four_packets_7_2_1() {
    let mut f = Flow::new();
    f.grow_and_drain(64);
    let cwnd = f.path().cwnd;
    f.run(ms(999));
    assert_eq!(f.path().rto, secs(1));
    f.send(1, FULL);
    assert_eq!(f.path().cwnd, cwnd, "less than one RTO");

    let mut f = Flow::new();
    f.grow_and_drain(64);
    let cwnd = f.path().cwnd;
    f.run(ms(2100));
    f.send(1, FULL);
    assert_eq!(f.windows(), (cwnd / 4, cwnd));

    let mut f = Flow::new();
    f.grow_and_drain(64);
    let cwnd = f.path().cwnd;
    f.run(secs(3600));
    f.send(1, FULL);
    assert_eq!(f.windows(), (4 * PMDCS, cwnd));
}

#[test]
fn idleness_never_raises_a_window_7_2_1() {
    let mut f = Flow::new();
    f.send(3, FULL);
    f.run(ms(1000));
    f.sack(3, &[]);
    assert_eq!(f.path().cwnd, 2 * PMDCS);
    f.run(secs(100));
    f.send(1, FULL);
    assert_eq!(f.path().cwnd, 2 * PMDCS);
}

// ---- Rules B and D of section 6.1 ----

#[test]
fn one_packet_may_exceed_the_window_6_1_b() {
    // Four chunks of 1016 bytes leave 340 of 4404: a fifth may go, a sixth may not.
    let mut f = Flow::new();
    assert_eq!(f.send(20, 1000).len(), 5);
    assert_eq!(f.path().flight_size, 5 * 1016);
    assert!(f.path().flight_size < f.path().cwnd + PMDCS);

    let mut f = Flow::new();
    assert_eq!(f.send(20, FULL).len(), 3, "a full window is not exceeded");
}

#[test]
fn the_headers_and_padding_of_small_chunks_count_7_2() {
    let mut f = Flow::with(|c| c.nagle = false);
    f.send(1000, 1);
    // 20 bytes each; the last packet may exceed the window.
    let flight = f.path().flight_size;
    assert_eq!(flight % 20, 0);
    assert!((4404..4404 + PMDCS).contains(&flight), "{flight}");
    assert_eq!(f.w.stats(0, f.id).outstanding_bytes, flight / 20);
}

#[test]
fn a_burst_has_max_burst_packets_at_most_6_1_d() {
    for max_burst in [3, 4, 7] {
        let mut f = Flow::with(|c| c.max_burst = max_burst);
        let mut sent = f.send(400, FULL).len() as u32;
        let mut acked = 0;
        while f.path().cwnd < 40 * PMDCS {
            acked = (acked + 2).min(sent);
            let released = f.sack(acked, &[]).len() as u32;
            assert!(released <= max_burst, "{released} packets");
            sent += released;
        }
        // The window is open wide, and nothing is in flight.
        let mut f = Flow::with(|c| c.max_burst = max_burst);
        f.grow_and_drain(20);
        f.run(ms(1));
        assert_eq!(f.send(100, FULL).len(), max_burst as usize);
        assert!(f.path().cwnd > 10 * PMDCS, "cwnd itself is not changed");
    }
}

// ---- Section 7.2.2 ----

/// A flow in congestion avoidance: a loss at 32 packets, repaired.
fn avoiding() -> (Flow, u32) {
    let mut f = Flow::new();
    let (acked, sent) = f.grow(32);
    for n in 1..=3 {
        f.sack(acked, &[(acked + 1, acked + n)]);
    }
    assert_eq!(f.fast_retransmissions(), 1);
    let more = f.sack(sent, &[]);
    let sent = more.into_iter().flatten().max().unwrap() + 1;
    (f, sent)
}

#[test]
fn congestion_avoidance_adds_one_pmdcs_a_round_trip_7_2_2() {
    let (mut f, mut sent) = avoiding();
    let ssthresh = f.path().ssthresh;
    let mut acked = sent - f.w.stats(0, f.id).outstanding_chunks as u32;
    // Slow start as long as cwnd is not above ssthresh.
    while f.path().cwnd <= ssthresh {
        acked += 2;
        sent += f.sack(acked, &[]).len() as u32;
    }
    // The flight catches up with the window.
    while f.path().flight_size < f.path().cwnd {
        acked += 1;
        sent += f.sack(acked, &[]).len() as u32;
    }
    for _ in 0..6 {
        let before = f.path().cwnd;
        let end = sent;
        while acked < end {
            acked = (acked + 2).min(end);
            sent += f.sack(acked, &[]).len() as u32;
        }
        let grown = f.path().cwnd - before;
        assert!(grown <= PMDCS, "more than one PMDCS in a round trip");
        assert!(grown == PMDCS || f.path().partial_bytes_acked > f.path().cwnd / 2);
    }
    assert!(f.path().cwnd >= ssthresh + 5 * PMDCS);
    assert_eq!(f.path().ssthresh, ssthresh);
}

#[test]
fn partial_bytes_acked_is_forgotten_when_all_is_acknowledged_7_2_2() {
    let (mut f, _) = avoiding();
    let ssthresh = f.path().ssthresh;
    let mut sent = f.w.stats(0, f.id).counters.data_chunks_sent as u32;
    while f.path().cwnd <= ssthresh {
        let acked = sent - f.w.stats(0, f.id).outstanding_chunks as u32 + 2;
        sent += f.sack(acked, &[]).len() as u32;
    }
    let acked = sent - f.w.stats(0, f.id).outstanding_chunks as u32 + 2;
    sent += f.sack(acked, &[]).len() as u32;
    assert!(f.path().partial_bytes_acked > 0);
    loop {
        let more = f.sack(sent, &[]).len() as u32;
        if more == 0 {
            break;
        }
        sent += more;
    }
    assert_eq!(f.path().partial_bytes_acked, 0);
}

// ---- Section 7.2.4 ----

#[test]
fn fast_retransmit_needs_exactly_as_many_missing_reports_as_set_7_2_4() {
    for reports in [3, 4] {
        let mut f = Flow::with(|c| c.policies.missing_reports = reports);
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

#[test]
fn only_newly_acknowledged_chunks_make_a_missing_report_7_2_4() {
    let mut f = Flow::new();
    f.send(20, FULL);
    for _ in 0..10 {
        f.sack(0, &[(1, 1)]);
    }
    assert_eq!(f.fast_retransmissions(), 0, "the same news ten times");
    f.sack(0, &[(1, 2)]);
    assert_eq!(f.fast_retransmissions(), 0);
    f.sack(0, &[(1, 3)]);
    assert_eq!(f.fast_retransmissions(), 1);
}

#[test]
fn chunks_above_the_highest_newly_acknowledged_are_not_reported_7_2_4() {
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

#[test]
fn a_gap_acknowledged_below_the_window_is_repaired_in_one_packet_7_2_4() {
    // K chunks that fit into one packet go at once, the others when cwnd allows.
    let mut f = Flow::new();
    let (acked, sent) = f.grow(20);
    // Eight chunks lost.
    for n in 0..2 {
        let released = f.sack(acked, &[(acked + 8, acked + 8 + n)]);
        assert!(released.iter().all(|p| p[0] >= sent));
    }
    let released = f.sack(acked, &[(acked + 8, acked + 10)]);
    assert_eq!(released, [[acked]], "one packet whatever cwnd says");
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

#[test]
fn the_fast_retransmission_carries_no_new_data_beyond_the_window_6_1_b() {
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

#[test]
fn a_retransmission_within_the_window_is_filled_with_new_data_6_1() {
    let mut f = Flow::new();
    assert_eq!(f.send(1, 700), [[0]]);
    assert!(f.send(1, 700).is_empty(), "Nagle's algorithm");
    assert_eq!(f.run(secs(1)), [[0, 1]]);
}

/// Three missing reports for chunk `acked`; returns what the third releases.
fn lose_one(f: &mut Flow, acked: u32) -> Vec<Vec<u32>> {
    f.sack(acked, &[(acked + 1, acked + 1)]);
    f.sack(acked, &[(acked + 1, acked + 2)]);
    f.sack(acked, &[(acked + 1, acked + 3)])
}

#[test]
fn fast_recovery_halves_once_and_ends_at_its_exit_point_7_2_4() {
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
    // The first is repaired: Fast Recovery goes on, nothing grows.
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

#[test]
fn in_fast_recovery_each_advance_reports_all_that_is_missing_7_2_4() {
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

#[test]
fn a_chunk_is_fast_retransmitted_only_once_7_2_4() {
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

#[test]
fn several_lost_chunks_that_fit_go_in_one_packet_7_2_4() {
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

// ---- Sections 6.3.3 and 7.2.3 ----

#[test]
fn a_timeout_leaves_one_packet_in_flight_7_2_3() {
    let mut f = Flow::new();
    let (acked, sent) = f.grow(32);
    let cwnd = f.path().cwnd;
    let again = f.run(secs(1));
    assert_eq!(again, [[acked]], "one packet of what was outstanding");
    assert_eq!(f.windows(), (PMDCS, cwnd / 2));
    assert_eq!(f.path().flight_size, PMDCS);
    // A SACK that acknowledges nothing new releases nothing.
    assert!(f.sack(acked, &[]).is_empty());
    // Slow start: two packets, before all new data.
    let released = f.sack(acked + 1, &[]);
    assert_eq!(released, [[acked + 1], [acked + 2]]);
    assert_eq!(f.path().cwnd, 2 * PMDCS);
    let released = f.sack(acked + 3, &[]);
    assert_eq!(released.len(), 3);
    assert!(released.iter().flatten().all(|n| *n < sent));
}

#[test]
fn a_small_packet_after_a_timeout_is_alone_too_7_2_3() {
    let mut f = Flow::with(|c| c.nagle = false);
    f.send(1, 100);
    f.send(1, FULL);
    f.send(10, 100);
    assert_eq!(f.run(secs(1)), [[0]], "the second does not fit");
    assert_eq!(f.path().flight_size, 116);
    assert!(f.send(5, 100).is_empty());
    assert_eq!(f.sack(1, &[])[0], [1]);
}

#[test]
fn the_earliest_chunks_that_fit_are_sent_again_in_one_packet_6_3_3_e3() {
    let mut f = Flow::with(|c| c.nagle = false);
    for _ in 0..30 {
        f.send(1, 100);
    }
    let again = f.run(secs(1));
    let expected: Vec<u32> = (0..12).collect();
    assert_eq!(again, [expected], "12 chunks of 116 bytes");
}

#[test]
fn each_timeout_doubles_the_rto_up_to_its_maximum_6_3_3_e2() {
    let mut f = Flow::with(|c| {
        c.association_max_retrans = 20;
        c.path_max_retrans = 20;
    });
    f.send(1, 100);
    let mut waits = Vec::new();
    let mut at = f.w.now;
    for _ in 0..9 {
        let id = f.id;
        let before = f.w.stats(0, id).counters.t3_expirations;
        f.w.run_until(secs(100), |w| {
            w.stats(0, id).counters.t3_expirations > before
        });
        waits.push((f.w.now - at).as_secs());
        at = f.w.now;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!(f.path().cwnd, PMDCS);
    assert_eq!(f.path().ssthresh, 4 * PMDCS);
}

#[test]
fn slow_start_follows_a_timeout_in_fast_recovery_7_2_3() {
    let mut f = Flow::new();
    let (acked, sent) = f.grow(64);
    lose_one(&mut f, acked);
    // Everything after is lost, the retransmission as well.
    f.run(secs(1));
    assert_eq!(f.path().cwnd, PMDCS);
    let mut next = acked + 4;
    f.sack(next, &[]);
    for _ in 0..10 {
        let flight = (f.path().flight_size / PMDCS) as u32;
        next += flight;
        f.sack(next.min(sent), &[]);
        if next >= sent {
            break;
        }
    }
    assert!(
        f.path().cwnd > 8 * PMDCS,
        "{} after ten round trips",
        f.path().cwnd
    );
}

// ---- Section 6.3.2 ----

#[test]
fn the_timer_restarts_when_the_earliest_chunk_is_acknowledged_6_3_2_r3() {
    let mut f = Flow::new();
    f.send(10, FULL);
    f.run(ms(600));
    // Chunk 0 is the earliest: this restarts nothing.
    f.sack(0, &[(1, 1)]);
    assert_eq!(f.run(ms(401))[0], [0]);

    let mut f = Flow::new();
    f.send(10, FULL);
    f.run(ms(600));
    f.sack(1, &[]);
    f.run(ms(399));
    let rto = f.path().rto;
    f.run(ms(2));
    let expirations = f.w.stats(0, f.id).counters.t3_expirations;
    assert_eq!(expirations, 0, "restarted");
    assert_eq!(f.run(rto)[0], [1]);
}

#[test]
fn the_timer_stops_when_all_is_acknowledged_6_3_2_r2() {
    let mut f = Flow::new();
    f.send(3, FULL);
    f.sack(3, &[]);
    f.run(secs(600));
    assert_eq!(f.w.stats(0, f.id).counters.t3_expirations, 0);
}

#[test]
fn sending_more_does_not_restart_the_timer_6_1() {
    let mut f = Flow::with(|c| c.nagle = false);
    f.send(1, 100);
    for _ in 0..9 {
        f.run(ms(100));
        f.send(1, 100);
    }
    assert_eq!(f.run(ms(100))[0][0], 0, "one RTO after the first");
}

#[test]
fn retransmitting_the_earliest_chunk_restarts_the_timer_6_1() {
    let mut f = Flow::new();
    let (acked, _) = f.grow(16);
    f.run(ms(900));
    lose_one(&mut f, acked);
    assert_eq!(f.fast_retransmissions(), 1);
    assert!(f.run(ms(999)).is_empty());
    assert_eq!(f.run(ms(1))[0][0], acked);
}

// ---- Section 6.3.1 ----

#[test]
fn a_retransmitted_chunk_gives_no_round_trip_time_6_3_1_c5() {
    let mut f = Flow::unmeasured(secs(1));
    f.send(1, 100);
    f.run(ms(1200));
    f.sack(1, &[]);
    assert_eq!(f.path().srtt, None);
    assert_eq!(f.path().rto, secs(2), "still backed off");
    // New data measures, and the RTO collapses (section 6.3.3).
    f.send(1, 100);
    f.run(ms(300));
    f.sack(2, &[]);
    assert_eq!(f.path().srtt, Some(ms(300)));
    assert_eq!(f.path().rto, secs(1), "RTO.Min, from 900 ms");
}

#[test]
fn a_chunk_above_a_retransmitted_one_gives_no_round_trip_time_6_3_1_c5() {
    let mut f = Flow::new();
    f.grow_and_drain(16);
    f.send(8, FULL);
    let s = f.w.stats(0, f.id).counters.data_chunks_sent as u32 - 4;
    f.sack(s, &[]);
    let sent = f.w.stats(0, f.id).counters.data_chunks_sent as u32;
    let srtt = f.path().srtt;
    f.run(ms(100));
    // Chunk s is lost; chunks up to `sent` are out, the last one is being timed at most.
    lose_one(&mut f, s);
    f.run(ms(700));
    f.sack(sent, &[]);
    let after = f.path().srtt;
    assert!(
        after == srtt || after < Some(ms(100)),
        "{srtt:?} became {after:?}"
    );
}

#[test]
fn one_measurement_is_made_each_round_trip_6_3_1_c4() {
    let mut f = Flow::unmeasured(ms(10));
    f.send(3, FULL);
    f.run(ms(100));
    f.sack(1, &[]);
    assert_eq!(f.path().srtt, Some(ms(100)));
    assert_eq!(f.path().rto, ms(300));
    f.run(ms(50));
    f.sack(3, &[]);
    assert_eq!(f.path().srtt, Some(ms(100)), "the same round trip");
    f.send(3, FULL);
    f.run(ms(180));
    f.sack(6, &[]);
    assert_eq!(f.path().srtt, Some(ms(110)));
    assert_eq!(f.path().rto, ms(340));
}

// ---- Several paths ----

/// An endpoint with two confirmed paths to a puppet.
fn two_paths() -> (Flow, Puppet) {
    let mut w = World::new();
    w.config.send_buffer = 1 << 26;
    let mut p = Puppet::new();
    p.a_rwnd = 1 << 30;
    let id = p.begin_accept(&mut w);
    let mut second = p.clone();
    second.link.to = addresses(0)[1];
    second.link.from = ip("10.1.0.99");
    p.answer_init(&mut w, |i| {
        i.state_cookie(b"cookie");
        i.ip_address(p.link.from);
        i.ip_address(second.link.from);
    });
    let mut heard = p.say(&mut w, |packet| {
        packet.cookie_ack();
    });
    w.run(secs(3));
    heard.extend(p.hear(&mut w));
    for heartbeat in heard.iter().filter(|h| h.has(ChunkType::HEARTBEAT)) {
        let from = if heartbeat.to() == p.link.from {
            &p
        } else {
            &second
        };
        from.answer_heartbeat(&mut w, heartbeat);
    }
    assert!(w.path(0, id, 1).status.confirmed);
    second.peer_tag = p.peer_tag;
    second.peer_tsn = p.peer_tsn;
    (Flow { w, p, id }, second)
}

#[test]
fn each_path_has_its_own_window_7_2() {
    let (mut f, _) = two_paths();
    let on_second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    assert_eq!(f.send(3, FULL).len(), 3);
    assert_eq!(f.send_with(on_second, 3, FULL).len(), 3, "its own window");
    let flights = |f: &Flow| [0, 1].map(|p| f.w.path(0, f.id, p).flight_size);
    assert_eq!(flights(&f), [4404, 4404]);
    // A SACK gives each path what was sent to it, wherever it comes from.
    f.sack(1, &[(3, 4)]);
    assert_eq!(flights(&f), [2 * PMDCS, PMDCS]);
    let cwnds = [0, 1].map(|p| f.w.path(0, f.id, p).cwnd);
    assert_eq!(cwnds, [4404 + PMDCS; 2], "one PMDCS for each path");
}

#[test]
fn a_loss_on_one_path_leaves_the_others_alone_7_2_4() {
    let (mut f, _) = two_paths();
    let on_second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    f.send(1, FULL);
    f.send_with(on_second, 3, FULL);
    let before = f.w.path(0, f.id, 1);
    lose_one(&mut f, 0);
    assert_eq!(f.fast_retransmissions(), 1);
    let (first, second) = (f.path(), f.w.path(0, f.id, 1));
    assert_eq!((first.cwnd, first.ssthresh), (4 * PMDCS, 4 * PMDCS));
    assert_eq!(second.ssthresh, before.ssthresh);
    assert!(second.cwnd >= before.cwnd);
}

#[test]
fn a_timeout_on_one_path_leaves_the_others_alone_6_3_3() {
    let (mut f, _) = two_paths();
    let on_second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    f.send(3, FULL);
    f.run(ms(500));
    f.send_with(on_second, 1, FULL);
    let before = f.w.path(0, f.id, 1);
    let again = f.run(ms(500));
    assert!(again.iter().flatten().all(|n| *n < 3), "{again:?}");
    let (first, second) = (f.path(), f.w.path(0, f.id, 1));
    assert_eq!(
        (first.cwnd, first.rto, first.error_count),
        (PMDCS, secs(2), 1)
    );
    assert_eq!(
        (second.cwnd, second.ssthresh),
        (before.cwnd, before.ssthresh)
    );
    assert_eq!((second.rto, second.error_count), (secs(1), 0));
}

#[test]
fn a_sack_that_comes_another_way_measures_nothing_6_3_1() {
    let (mut f, second) = two_paths();
    let srtt = f.path().srtt;
    f.send(1, FULL);
    f.run(ms(700));
    second.sack(&mut f.w, f.p.theirs(0), 1 << 20, &[]);
    assert_eq!(f.w.stats(0, f.id).outstanding_chunks, 0);
    assert_eq!(f.path().srtt, srtt);
}

#[test]
fn a_refused_probe_does_not_leave_a_timer_behind_6_3_2_r2() {
    // The window opens, and the probe goes again on the other path: nothing is outstanding here.
    let (mut f, _) = two_paths();
    f.p.a_rwnd = 0;
    f.send(1, 100);
    f.sack(1, &[]);
    f.send(1, 100);
    assert_eq!(f.run(secs(1)), [[1]], "the probe");
    f.sack(1, &[]);
    f.p.a_rwnd = 1 << 20;
    assert_eq!(f.sack(1, &[]), [[1]]);
    let sent_on = f.w.log.last().expect("a packet").to();
    let other = u8::from(sent_on == f.p.link.from);
    assert_eq!(f.w.path(0, f.id, other).flight_size, 0);
    // Data that takes that path later has a whole RTO.
    f.run(ms(900));
    let options = SendOptions {
        path: Some(PathId(other)),
        no_delay: true,
        ..SendOptions::default()
    };
    assert_eq!(f.send_with(options, 1, 100), [[2]]);
    f.run(ms(999));
    assert_eq!(f.w.path(0, f.id, other).error_count, 0);
}

#[test]
fn a_window_that_only_probes_decays_6_1_a() {
    let mut f = Flow::new();
    let sent = f.grow_and_drain(64);
    assert!(f.path().cwnd > 60 * PMDCS);
    f.p.a_rwnd = 0;
    f.send(1, FULL);
    f.sack(sent + 1, &[]);
    f.send(1, FULL);
    for _ in 0..600 {
        if !f.run(ms(500)).is_empty() {
            f.sack(sent + 1, &[]);
        }
    }
    assert_eq!(f.path().error_count, 0);
    assert_eq!(f.path().cwnd, 4 * PMDCS);
}
