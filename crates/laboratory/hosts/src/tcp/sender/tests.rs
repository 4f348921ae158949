//! Loss recovery of the sender, with segments of 1000 bytes.

// A list of one block is one.
#![allow(clippy::single_range_in_vec_init)]

use std::time::Duration;

use super::*;

const SMSS: u64 = 1000;

/// Sender with `data` bytes to send that has filled its window of `segments` segments.
struct Flow {
    sender: Sender,
    now: Time,
}

impl Flow {
    fn new(segments: u64, data: usize, sack: bool) -> Self {
        let address = "10.0.0.1".parse().expect("an address");
        let config = TcpConfig {
            send_buffer: 1 << 20,
            nagle: false,
            sack,
            ..TcpConfig::new(address, 1)
        };
        let mut sender = Sender::new(&config, SMSS as usize);
        sender.window = 1 << 20;
        let cwnd = (segments * SMSS) as usize;
        sender.congestion = CongestionWindow::Reno {
            smss: SMSS as usize,
            cwnd,
            ssthresh: cwnd,
        };
        sender.send(&vec![0; data]);
        let mut flow = Self {
            sender,
            now: Time::from_secs(1),
        };
        let sent = flow.sent();
        assert_eq!(
            sent.len() as u64,
            segments.min((data as u64).div_ceil(SMSS))
        );
        flow
    }

    /// Sends what the windows allow; returns the segments in units of 1000 bytes.
    fn sent(&mut self) -> Vec<u64> {
        let segments = std::iter::from_fn(|| self.sender.poll_segment(self.now, SMSS));
        let segments = segments.map(|range| {
            assert!(
                range.end - range.start <= SMSS && range.start % SMSS == 0,
                "{range:?}"
            );
            range.start / SMSS
        });
        segments.collect()
    }

    /// Acknowledges all segments below `ack`, and reports these as received; returns the segments sent then.
    fn ack(&mut self, ack: u64, sacked: &[Range<u64>]) -> Vec<u64> {
        self.now += Duration::from_millis(10);
        let bytes = |range: &Range<u64>| range.start * SMSS..range.end * SMSS;
        let blocks: Vec<_> = sacked.iter().map(bytes).collect();
        self.sender
            .handle_ack(self.now, ack * SMSS, 1 << 20, &blocks, true);
        self.sent()
    }

    fn time_out(&mut self) -> Vec<u64> {
        self.now = self.sender.timer.due.expect("the timer runs");
        self.sender.handle_timeout();
        self.sent()
    }

    fn cwnd(&self) -> u64 {
        self.sender.congestion.window() as u64 / SMSS
    }

    fn ssthresh(&self) -> u64 {
        match self.sender.congestion {
            CongestionWindow::Reno { ssthresh, .. } => ssthresh as u64 / SMSS,
            CongestionWindow::Cubic(_) => unreachable!("the flow has Reno"),
        }
    }

    /// Enters Fast Recovery after the loss of the first segment, without limited transmit.
    fn in_recovery(segments: u64, data: usize) -> Self {
        let mut flow = Self::new(segments, data, true);
        assert_eq!(flow.ack(0, &[1..4]), [0]);
        assert_eq!(flow.sender.phase, Phase::FastRecovery);
        flow
    }
}

/// RFC 6675, section 4: `NextSeg` (1), `IsLost` and `SetPipe`
#[test]
fn lost_segments_are_retransmitted_first() {
    let mut flow = Flow::new(10, 100_000, true);
    let none: [u64; 0] = [];
    // Segments 0 and 2 are lost.
    assert_eq!(flow.ack(0, &[1..2]), [10], "limited transmit");
    assert_eq!(flow.ack(0, &[3..4, 1..2]), [11], "limited transmit");
    assert_eq!(flow.ack(0, &[3..5, 1..2]), [0], "fast retransmit");
    // FlightSize is that without limited transmit.
    assert_eq!((flow.cwnd(), flow.ssthresh()), (5, 5));
    // Two SMSS are SACKed above segment 2: it is not lost; segment 0 counts as retransmitted.
    assert_eq!(flow.sender.lost_end(), SMSS);
    assert_eq!(flow.sender.pipe(), (1 + 1 + 7) * SMSS);
    assert_eq!(flow.ack(0, &[3..6, 1..2]), none);
    assert_eq!(flow.sender.lost_end(), 3 * SMSS);
    assert_eq!(flow.sender.pipe(), (1 + 6) * SMSS);
    assert_eq!(flow.ack(0, &[3..7, 1..2]), none);
    assert_eq!(flow.ack(0, &[3..8, 1..2]), none);
    assert_eq!(flow.ack(0, &[3..9, 1..2]), [2]);
}

/// RFC 6675, section 4: `NextSeg` (2)
#[test]
fn new_data_follows_lost_segments() {
    let mut flow = Flow::in_recovery(10, 100_000);
    assert_eq!(flow.sender.pipe(), (1 + 6) * SMSS);
    flow.ack(0, &[1..6]);
    assert_eq!(flow.ack(0, &[1..7]), [10]);
    assert_eq!(flow.ack(0, &[1..9]), [11, 12]);
}

/// RFC 6675, section 4: `NextSeg` (3)
#[test]
fn gaps_are_filled_without_new_data() {
    let mut flow = Flow::in_recovery(10, 10_000);
    // Segment 8 is missing, too, with one SMSS above it.
    assert_eq!(flow.ack(0, &[9..10, 1..8]), [8]);
    assert!(flow.sender.lost_end() <= 8 * SMSS);
    let none: [u64; 0] = [];
    assert_eq!(flow.sent(), none, "once");
}

/// RFC 6675, section 4: `NextSeg` (4)
#[test]
fn the_last_segment_is_rescued_once() {
    let mut flow = Flow::in_recovery(10, 10_000);
    let none: [u64; 0] = [];
    assert_eq!(flow.ack(0, &[1..7]), none);
    // A partial acknowledgement: segments 7 to 9 are lost, and no SACK can follow.
    assert_eq!(flow.ack(7, &[]), [9]);
    // The answer reports a gap below it.
    assert_eq!(flow.ack(7, &[9..10]), [7, 8]);
    assert_eq!(flow.ack(9, &[9..10]), none);
}

/// RFC 6675, section 4: a segment must not be retransmitted twice in one recovery
#[test]
fn a_lost_retransmission_waits_for_the_timer() {
    let mut flow = Flow::in_recovery(10, 100_000);
    let mut sent = Vec::new();
    for end in 5..=10 {
        sent.extend(flow.ack(0, &[1..end]));
    }
    for end in 11..20 {
        sent.extend(flow.ack(0, &[1..end]));
    }
    assert!(sent.iter().all(|segment| *segment >= 10), "{sent:?}");
    assert_eq!(flow.time_out(), [0]);
    assert_eq!((flow.cwnd(), flow.sender.phase), (1, Phase::Timeout));
}

/// RFC 6675, section 5, steps 1 and 2
#[test]
fn recovery_starts_by_sacked_bytes_or_duplicates() {
    let mut flow = Flow::new(10, 100_000, true);
    flow.ack(0, &[1..3]);
    assert_eq!(flow.sender.phase, Phase::Open, "two SMSS");
    let mut flow = Flow::new(10, 100_000, true);
    assert_eq!(flow.ack(0, &[1..4]), [0], "one ACK for three SMSS");
    // Segments below SMSS: three duplicate ACKs, though no byte is lost by `IsLost`.
    let mut flow = Flow::new(1, 0, true);
    for at in 0..6_u64 {
        flow.sender.send(&[0; 100]);
        let sent = flow.sender.poll_segment(flow.now, SMSS);
        assert_eq!(sent, Some(at * 100..at * 100 + 100));
    }
    for (end, phase) in [
        (200, Phase::Open),
        (300, Phase::Open),
        (400, Phase::FastRecovery),
    ] {
        flow.sender
            .handle_ack(flow.now, 0, 1 << 20, &[100..end], true);
        assert_eq!(flow.sender.phase, phase, "{end}");
    }
    assert_eq!(flow.sender.lost_end(), 0);
    assert_eq!(flow.sender.poll_segment(flow.now, SMSS), Some(0..100));
}

/// RFC 6675, section 2: a repeated report is not a duplicate acknowledgement
#[test]
fn acks_without_new_blocks_are_not_duplicates() {
    let mut flow = Flow::new(10, 100_000, true);
    for _ in 0..5 {
        flow.ack(0, &[1..2]);
    }
    assert_eq!((flow.sender.dup_acks, flow.sender.phase), (1, Phase::Open));
    flow.ack(0, &[]);
    assert_eq!(flow.sender.dup_acks, 1);
}

/// RFC 6675, section 5, step A
#[test]
fn recovery_ends_at_the_recovery_point() {
    let mut flow = Flow::in_recovery(10, 100_000);
    flow.ack(9, &[]);
    assert_eq!(flow.sender.phase, Phase::FastRecovery, "partial");
    assert_eq!(flow.cwnd(), 5);
    flow.ack(10, &[12..13]);
    assert_eq!(flow.sender.phase, Phase::Open);
    assert_eq!(flow.sender.sacked, [12_000..13_000], "kept");
    // Congestion avoidance: one SMSS per window of ACKs.
    for ack in 13..19 {
        flow.ack(ack, &[]);
    }
    assert_eq!(flow.cwnd(), 6);
}

/// RFC 6675, section 5.1
#[test]
fn a_timeout_delays_the_next_fast_recovery() {
    let mut flow = Flow::in_recovery(10, 100_000);
    assert_eq!(flow.time_out(), [0]);
    // What is reported as received again is not retransmitted; slow start.
    assert_eq!(flow.ack(4, &[6..8]), [4, 5]);
    assert_eq!(flow.sender.phase, Phase::Timeout);
    assert_eq!(flow.ack(4, &[6..9]), [] as [u64; 0], "no fast retransmit");
    assert_eq!(flow.ack(9, &[]), [9, 10, 11]);
    assert_eq!(flow.ack(10, &[]).len(), 2);
    assert_eq!(flow.sender.phase, Phase::Open);
}

/// RFC 5681, section 3.1: equation (4)
#[test]
fn repeated_timeouts_keep_the_threshold() {
    let mut flow = Flow::new(10, 100_000, true);
    let rto = |flow: &Flow| flow.sender.timer.due.expect("the timer runs") - flow.now;
    let first = rto(&flow);
    assert_eq!(flow.time_out(), [0]);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (1, 5));
    assert_eq!(rto(&flow), 2 * first);
    assert_eq!(flow.time_out(), [0]);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (1, 5));
    assert_eq!(rto(&flow), 4 * first);
}

/// RFC 5681, section 3.1
#[test]
fn slow_start_grows_by_a_segment_per_ack() {
    let mut flow = Flow::new(4, 100_000, true);
    flow.sender.congestion = CongestionWindow::new(TcpCongestion::Reno, SMSS as usize);
    assert_eq!(flow.cwnd(), 4, "initial window");
    flow.ack(2, &[]);
    assert_eq!(flow.cwnd(), 5);
    flow.ack(3, &[]);
    assert_eq!(flow.cwnd(), 6);
    for (smss, segments) in [(1095, 4), (1096, 3), (1460, 3), (2190, 3), (2191, 2)] {
        let window = CongestionWindow::new(TcpCongestion::Reno, smss);
        assert_eq!(window.window(), segments * smss, "{smss}");
    }
}

/// RFC 3042, section 2
/// RFC 5681, section 3.2
/// RFC 6582, section 3.2
#[test]
fn without_sack_partial_acks_retransmit() {
    let mut flow = Flow::new(10, 100_000, false);
    // Segments 0 and 4 are lost.
    assert_eq!(flow.ack(0, &[]), [10], "limited transmit");
    assert_eq!(flow.ack(0, &[]), [11], "limited transmit");
    assert_eq!(flow.ack(0, &[]), [0], "fast retransmit");
    assert_eq!(flow.cwnd(), 5);
    let sent: Vec<u64> = (0..7).flat_map(|_| flow.ack(0, &[])).collect();
    assert_eq!(sent, [12, 13, 14], "the window is inflated");
    assert_eq!(flow.ack(4, &[]), [4, 15], "partial acknowledgement");
    assert_eq!(flow.sender.phase, Phase::FastRecovery);
    flow.ack(13, &[]);
    assert_eq!((flow.sender.phase, flow.cwnd()), (Phase::Open, 5));
}

/// RFC 6582, section 3.2, step 1
#[test]
fn without_sack_old_duplicates_are_ignored() {
    let mut flow = Flow::new(10, 100_000, false);
    for _ in 0..3 {
        flow.ack(0, &[]);
    }
    let point = flow.sender.recovery_point / SMSS;
    flow.ack(point, &[]);
    for _ in 0..3 {
        flow.ack(point, &[]);
    }
    assert_eq!(flow.sender.phase, Phase::Open);
}

/// RFC 6298, section 3
#[test]
fn retransmitted_segments_are_not_timed() {
    let mut flow = Flow::new(4, 4000, true);
    flow.time_out();
    flow.now += Duration::from_secs(5);
    flow.sender.handle_ack(flow.now, SMSS, 1 << 20, &[], true);
    let doubled = flow.sender.timer.due.expect("the timer runs") - flow.now;
    assert_eq!(doubled, Duration::from_secs(2), "no sample, the RTO stays");
}

/// RFC 1122, section 4.2.3.4
#[test]
fn small_segments_are_held_by_nagle_and_the_window() {
    let mut flow = Flow::new(10, 1500, true);
    assert_eq!(flow.sender.next, 1500, "without Nagle's algorithm");
    flow.sender.nagle = true;
    flow.sender.send(&[0; 300]);
    assert_eq!(flow.sender.poll_segment(flow.now, SMSS), None);
    flow.sender.handle_ack(flow.now, 1500, 1 << 20, &[], true);
    assert_eq!(flow.sender.poll_segment(flow.now, SMSS), Some(1500..1800));
    // The peer's window cuts no segment, unless it is smaller than two segments.
    let mut flow = Flow::new(10, 0, true);
    flow.sender.window = 2500;
    flow.sender.send(&[0; 5000]);
    assert_eq!(flow.sent(), [0, 1]);
    flow.sender.window = 900;
    flow.sender.handle_ack(flow.now, 2000, 900, &[], true);
    assert_eq!(flow.sender.poll_segment(flow.now, SMSS), Some(2000..2900));
}

#[test]
fn windows_of_segments_hold_small_segments_back() {
    let small = |flow: &mut Flow| {
        flow.sender.send(&[0; 100]);
        flow.sender.poll_segment(flow.now, SMSS).is_some()
    };
    let mut flow = Flow::new(2, 0, true);
    flow.sender.counts_packets = true;
    assert_eq!([(); 3].map(|()| small(&mut flow)), [true, true, false]);
    assert_eq!(flow.sender.pipe(), 2 * SMSS);
    flow.sender.handle_ack(flow.now, 100, 1 << 20, &[], true);
    assert_eq!(flow.sender.poll_segment(flow.now, SMSS), Some(200..300));
    // The window grows only if it is full.
    let window = flow.sender.congestion.window();
    assert_eq!(window as u64, 2 * SMSS + SMSS / 2);
    flow.sender.handle_ack(flow.now, 300, 1 << 20, &[], true);
    assert!(small(&mut flow));
    flow.sender.handle_ack(flow.now, 400, 1 << 20, &[], true);
    assert_eq!(flow.sender.congestion.window(), window + 400);
}
