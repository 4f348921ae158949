//! Loss recovery with RACK-TLP (RFC 8985), proportional rate reduction (RFC 6937) and the undoing
//! of spurious reductions (RFC 4015).

use crate::common;

use carrick_proto::research::{LossDetection, Policies};
use carrick_proto::{AssociationId, PathStats, SendOptions};
use carrick_wire::{ChunkType, GapAckBlock};
use common::*;

const PMDCS: usize = 1468;
const FULL: usize = PMDCS - 16;

/// RACK-TLP with all that goes with it, and RFC 9260's congestion control.
fn by_time() -> Policies {
    Policies {
        loss_detection: LossDetection::Rack,
        tail_loss_probe: true,
        proportional_rate_reduction: true,
        undo_spurious: true,
        ..Policies::default()
    }
}

/// Two endpoints, the first of which uses these policies.
fn connected_with(policies: Policies) -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.buffers.receive_buffer = 8 << 20;
    });
    w.config.research.policies = policies;
    w.config.buffers.send_buffer = 1 << 26;
    w.config.paths.heartbeat = false;
    w.config.transmission.max_burst = 10;
    let (a, b) = w.connect();
    (w, a, b)
}

/// Brings cwnd up to more than ten packets and measures the round trip.
fn warm_up(w: &mut World, a: AssociationId, b: AssociationId) {
    for _ in 0..100 {
        w.send(0, a, 0, pattern(FULL));
    }
    assert!(w.run_until(secs(5), |w| w.stats(0, a).outstanding_chunks == 0));
    assert_eq!(w.receive(1, b).len(), 100);
    assert!(w.path(0, a, 0).cwnd > 12 * PMDCS);
    w.log.clear();
}

fn timeouts(w: &World, id: AssociationId) -> u64 {
    w.stats(0, id).counters.t3_expirations
}

// ---- Against an endpoint ----

/// RFC 8985, section 6.2
#[test]
fn a_lost_retransmission_is_detected_by_rack() {
    for (policies, expected) in [(by_time(), 0), (Policies::default(), 2)] {
        let (mut w, a, b) = connected_with(policies.clone());
        warm_up(&mut w, a, b);
        // One chunk is lost three times.
        let mut lost = None;
        let mut times = 0;
        w.rule(move |seen| {
            if seen.from != 0 || times == 3 || !seen.has(ChunkType::DATA) {
                return Verdict::Pass;
            }
            let tsns: Vec<_> = seen.data().iter().map(|d| d.tsn).collect();
            let tsn = *lost.get_or_insert(tsns[0]);
            if tsns.contains(&tsn) {
                times += 1;
                return Verdict::Drop;
            }
            Verdict::Pass
        });
        for _ in 0..200 {
            w.send(0, a, 0, pattern(FULL));
        }
        w.run(secs(30));
        assert_eq!(w.receive(1, b).len(), 200);
        assert_eq!(timeouts(&w, a), expected, "{policies:?}");
    }
}

/// RFC 8985, section 7.3
#[test]
fn a_lost_tail_is_repaired_without_a_timeout() {
    for lost in 1..=10_u64 {
        for (policies, expected) in [(by_time(), 0), (Policies::default(), 1)] {
            let (mut w, a, b) = connected_with(policies);
            warm_up(&mut w, a, b);
            let tail: Vec<u64> = (10 - lost..10).collect();
            w.lose_data(0, &tail);
            for _ in 0..10 {
                w.send(0, a, 0, pattern(FULL));
            }
            let start = w.now;
            assert!(w.run_until(secs(20), |w| w.stats(0, a).outstanding_chunks == 0));
            assert_eq!(w.receive(1, b).len(), 10);
            assert_eq!(timeouts(&w, a), expected, "{lost} lost");
            let took = w.now - start;
            println!("the last {lost} of 10 packets lost: {took:?}, {expected} timeouts");
            if expected == 0 {
                assert!(w.now - start < ms(500), "{lost}: {:?}", w.now - start);
            }
        }
    }
}

/// RFC 8985, section 7.3
#[test]
fn a_tail_with_a_lost_probe_is_left_to_t3() {
    let (mut w, a, b) = connected_with(by_time());
    warm_up(&mut w, a, b);
    // The last of ten, and its copy.
    let mut seen_last = 0;
    let mut sent = 0;
    w.rule(move |seen| {
        if seen.from != 0 || !seen.has(ChunkType::DATA) {
            return Verdict::Pass;
        }
        sent += 1;
        seen_last += u32::from(sent >= 10);
        if (1..=2).contains(&seen_last) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    for _ in 0..10 {
        w.send(0, a, 0, pattern(FULL));
    }
    assert!(w.run_until(secs(20), |w| w.stats(0, a).outstanding_chunks == 0));
    assert_eq!(w.receive(1, b).len(), 10);
    let counters = w.stats(0, a).counters;
    assert_eq!((counters.tail_loss_probes, counters.t3_expirations), (1, 1));
    // The probe is a retransmission as well.
    let others = counters.timeout_retransmissions + counters.fast_retransmissions;
    assert_eq!(counters.retransmissions, others + 1);
}

/// RFC 8985, section 6.2
#[test]
fn scattered_losses_need_no_timeout() {
    let (mut w, a, b) = connected_with(by_time());
    w.discard_log = true;
    let mut count = 0_u32;
    w.rule(move |seen| {
        if seen.from != 0 || !seen.has(ChunkType::DATA) {
            return Verdict::Pass;
        }
        count += 1;
        // Retransmissions are lost as well as anything else; single ones and runs of three.
        if count.is_multiple_of(29) || count % 97 < 3 {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    for _ in 0..3000 {
        w.send(0, a, 0, pattern(FULL));
    }
    let mut got = 0;
    assert!(w.run_until(secs(600), |w| {
        got += w.receive(1, b).len();
        got == 3000 && w.stats(0, a).outstanding_chunks == 0
    }));
    assert_eq!(timeouts(&w, a), 0);
    let counters = w.stats(0, a).counters;
    assert_eq!(
        w.stats(1, b).counters.duplicates_received,
        counters.undone_reductions
    );
}

/// RFC 9260, section 8.2
#[test]
fn a_failed_path_still_fails_over() {
    let mut w = World::new();
    w.config.research.policies = by_time();
    w.config.paths.path_max_retrans = 2;
    let (a, b) = w.connect();
    w.block(addresses(1)[0]);
    for _ in 0..20 {
        w.send(0, a, 0, pattern(FULL));
    }
    w.run(secs(60));
    assert_eq!(w.receive(1, b).len(), 20);
    assert!(!w.path(0, a, 0).status.active);
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
}

/// RFC 8985, section 6.2
#[test]
fn reordering_grows_the_window() {
    let (mut w, a, b) = connected_with(by_time());
    w.latency = ms(50);
    w.discard_log = true;
    // Every fifth packet is a third of the round trip late.
    let mut count = 0_u32;
    w.rule(move |seen| {
        if seen.from != 0 || !seen.has(ChunkType::DATA) {
            return Verdict::Pass;
        }
        count += 1;
        if count.is_multiple_of(5) {
            Verdict::Delay(ms(35))
        } else {
            Verdict::Pass
        }
    });
    let transfer = |w: &mut World| {
        let before = w.stats(0, a).counters.fast_retransmissions;
        for _ in 0..2000 {
            w.send(0, a, 0, pattern(FULL));
        }
        w.run(secs(60));
        assert_eq!(w.receive(1, b).len(), 2000);
        w.stats(0, a).counters.fast_retransmissions - before
    };
    let first = transfer(&mut w);
    let second = transfer(&mut w);
    assert!(first > 0, "35 ms are more than a quarter of 100 ms");
    assert!(second * 10 <= first, "{second} of {first}");
    assert_eq!(timeouts(&w, a), 0);
}

// ---- Against a puppet ----

struct Flow {
    w: World,
    p: Puppet,
    id: AssociationId,
}

impl Flow {
    fn new(policies: Policies) -> Self {
        let mut w = World::single_homed();
        w.config.buffers.send_buffer = 1 << 26;
        w.config.paths.heartbeat = false;
        w.config.research.policies = policies;
        let mut p = Puppet::new();
        p.a_rwnd = 1 << 30;
        let (p, id) = p.accept(&mut w);
        let mut flow = Self { w, p, id };
        // The set-up took no time: many round trips of 100 ms outweigh it.
        for chunk in 0..60 {
            flow.send(1, 100);
            flow.w.run(ms(100));
            flow.sack(chunk + 1, &[], &[]);
        }
        flow
    }

    fn path(&self) -> PathStats {
        self.w.path(0, self.id, 0)
    }

    fn data(&self, packets: &[SentPacket]) -> Vec<u32> {
        self.p.numbers(packets)
    }

    fn send(&mut self, count: usize, size: usize) -> Vec<u32> {
        for _ in 0..count {
            let options = SendOptions {
                no_delay: true,
                ..SendOptions::default()
            };
            self.w.send_with(0, self.id, options, pattern(size));
        }
        let replies = self.p.receive(&mut self.w);
        self.data(&replies)
    }

    /// A SACK for the first `count` chunks with gap blocks and duplicates, all counted from 0.
    fn sack(&mut self, count: u32, gaps: &[(u32, u32)], duplicates: &[u32]) -> Vec<u32> {
        let cumulative = self.p.endpoint_tsn(count.wrapping_sub(1));
        let offset = |chunk: u32| u16::try_from(chunk + 1 - count).expect("a gap");
        let gaps: Vec<_> = gaps
            .iter()
            .map(|g| GapAckBlock {
                start: offset(g.0),
                end: offset(g.1),
            })
            .collect();
        let duplicates: Vec<_> = duplicates.iter().map(|d| self.p.endpoint_tsn(*d)).collect();
        let a_rwnd = self.p.a_rwnd;
        let replies = self.p.send(&mut self.w, |p| {
            p.sack(cumulative, a_rwnd, gaps.into_iter(), duplicates.into_iter());
        });
        self.data(&replies)
    }

    /// Runs for this long; returns the packets that leave.
    fn run(&mut self, millis: u64) -> Vec<SentPacket> {
        self.w.run(ms(millis));
        self.p.receive(&mut self.w)
    }

    /// Sends full packets with an RTT of 100 ms until this number is in flight; returns the
    /// number of the first of them. More messages wait in the queue.
    fn grow(&mut self, packets: u32) -> u32 {
        let mut next = self.send(20 * packets as usize, FULL).len() as u32;
        next += 60;
        let mut acked = 60;
        while next - acked < packets {
            self.w.run(ms(100));
            let until = next;
            while acked < until {
                acked = (acked + 2).min(until);
                next += self.sack(acked, &[], &[]).len() as u32;
            }
        }
        acked
    }

    fn undone(&self) -> u64 {
        self.w.stats(0, self.id).counters.undone_reductions
    }
}

/// RFC 8985, section 6.2
#[test]
fn a_chunk_waits_a_quarter_rtt_for_a_later_one() {
    let mut f = Flow::new(by_time());
    let first = f.grow(8);
    f.w.run(ms(100));
    // One packet above the gap: not three.
    f.sack(first, &[(first + 1, first + 1)], &[]);
    assert!(f.run(24).is_empty());
    let replies = f.run(2);
    assert_eq!(f.data(&replies), [first], "by the timer");
    assert_eq!(f.w.stats(0, f.id).counters.t3_expirations, 0);
}

/// RFC 8985, section 6.2
#[test]
fn three_packets_above_a_gap_trigger_retransmission() {
    let mut f = Flow::new(by_time());
    let first = f.grow(8);
    f.w.run(ms(100));
    assert!(
        !f.sack(first, &[(first + 1, first + 2)], &[])
            .contains(&first)
    );
    let replies = f.sack(first, &[(first + 1, first + 3)], &[]);
    assert_eq!(replies.first(), Some(&first));
}

/// RFC 9260, section 3.3.4
#[test]
fn chunks_beyond_a_full_sack_are_not_lost() {
    let mut f = Flow::new(by_time());
    let first = f.grow(40);
    f.w.run(ms(100));
    // Every other packet is lost, and the peer reports at most 16 gaps; all other packets arrived.
    let blocks: Vec<_> = (0..16)
        .map(|n| (first + 2 * n + 1, first + 2 * n + 1))
        .collect();
    f.sack(first, &blocks, &[]);
    f.w.run(ms(100));
    let mut sent = Vec::new();
    for n in 1..16 {
        // The retransmissions arrive one by one; still there are more gaps than fit.
        let blocks: Vec<_> = (n..n + 16)
            .map(|n| (first + 2 * n + 1, first + 2 * n + 1))
            .collect();
        sent.extend(f.sack(first + 2 * n, &blocks[..16.min(40 / 2 - n as usize)], &[]));
    }
    assert!(sent.iter().all(|c| c % 2 == first % 2 || *c >= first + 40));
    assert!(f.w.stats(0, f.id).counters.fast_retransmissions <= 20);
}

/// RFC 4015, section 3.2
#[test]
fn a_spurious_fast_retransmission_is_undone() {
    let mut f = Flow::new(by_time());
    let first = f.grow(16);
    f.w.run(ms(100));
    let before = f.path();
    let replies = f.sack(first, &[(first + 1, first + 6)], &[]);
    assert_eq!(replies.first(), Some(&first));
    let reduced = f.path();
    assert!(reduced.cwnd <= before.cwnd / 2 + PMDCS);
    // The original arrived late, then the copy.
    f.sack(first + 7, &[], &[]);
    assert_eq!(f.undone(), 0);
    f.sack(first + 7, &[], &[first]);
    assert_eq!(f.undone(), 1);
    assert!(f.path().cwnd >= before.cwnd && f.path().ssthresh >= before.ssthresh);
}

/// RFC 4015, section 3.2
#[test]
fn reductions_are_not_undone_by_default() {
    let mut f = Flow::new(Policies {
        undo_spurious: false,
        ..by_time()
    });
    let first = f.grow(16);
    f.w.run(ms(100));
    f.sack(first, &[(first + 1, first + 6)], &[]);
    let reduced = f.path().cwnd;
    f.sack(first + 7, &[], &[first]);
    assert_eq!((f.undone(), f.path().cwnd), (0, reduced));
}

/// RFC 4015, section 3.2
#[test]
fn a_necessary_copy_keeps_the_reduction() {
    let mut f = Flow::new(by_time());
    let first = f.grow(16);
    f.w.run(ms(100));
    // Two are lost, and only one copy was needless.
    let mut again = f.sack(first, &[(first + 2, first + 8)], &[]);
    again.extend(f.sack(first, &[(first + 2, first + 10)], &[]));
    assert_eq!(again[..2], [first, first + 1]);
    let reduced = f.path().cwnd;
    f.w.run(ms(100));
    f.sack(first + 11, &[], &[first]);
    assert_eq!(f.undone(), 0);
    assert!(f.path().cwnd <= reduced + PMDCS);
}

/// RFC 4015, section 3.2
#[test]
fn a_spurious_timeout_is_undone() {
    for policies in [
        Policies {
            tail_loss_probe: false,
            ..by_time()
        },
        // With missing reports, too.
        Policies {
            undo_spurious: true,
            ..Policies::default()
        },
    ] {
        let mut f = Flow::new(policies.clone());
        let first = f.grow(16);
        let before = f.path();
        // The path stalls for longer than the RTO.
        let replies = f.run(1100);
        assert_eq!(f.data(&replies), [first]);
        assert_eq!(f.path().cwnd, PMDCS);
        let all = first + f.w.stats(0, f.id).outstanding_chunks as u32;
        f.sack(all, &[], &[]);
        assert_eq!(f.undone(), 0);
        f.sack(all, &[], &[first]);
        assert_eq!(f.undone(), 1);
        assert!(f.path().cwnd >= before.cwnd, "{policies:?}");
    }
}

/// RFC 8985, section 7.3
#[test]
fn a_probe_is_the_last_chunk_with_the_i_bit() {
    let mut f = Flow::new(by_time());
    let first = 60;
    let sent = f.send(3, FULL);
    assert_eq!(sent, [first, first + 1, first + 2]);
    assert!(f.run(199).is_empty(), "two round trips");
    let replies = f.run(2);
    assert_eq!(f.data(&replies), [first + 2]);
    assert!(replies[0].data()[0].flags.immediate);
    assert!(f.run(900).is_empty(), "one probe only");
    assert_eq!(f.w.stats(0, f.id).counters.tail_loss_probes, 1);
}

/// RFC 8985, section 7.2
#[test]
fn a_probe_for_one_packet_awaits_a_delayed_sack() {
    let mut f = Flow::new(by_time());
    let first = 60;
    f.send(1, FULL);
    assert!(f.run(399).is_empty(), "two round trips and SACK.Delay");
    let replies = f.run(2);
    assert_eq!(f.data(&replies), [first]);
}

/// RFC 8985, section 7.3
#[test]
fn a_probe_prefers_new_data_whatever_the_window() {
    let mut f = Flow::new(by_time());
    let first = f.grow(8);
    let flight = f.path().flight_size;
    assert!(flight >= f.path().cwnd);
    let replies = f.run(250);
    let sent = f.data(&replies);
    assert_eq!(sent.len(), 1);
    assert!(sent[0] > first);
    assert_eq!(
        f.path().flight_size,
        flight + PMDCS,
        "one packet beyond the window"
    );
}

/// RFC 8985, section 7.4.2
#[test]
fn a_loss_repaired_by_a_probe_reduces_the_cwnd() {
    for needless in [false, true] {
        let mut f = Flow::new(by_time());
        f.grow(16);
        // All that waits leaves.
        let mut next = f.w.stats(0, f.id).counters.data_chunks_sent as u32;
        while f.w.stats(0, f.id).queued_messages > 0 {
            f.w.run(ms(100));
            next += f.sack(next, &[], &[]).len() as u32;
        }
        f.w.run(ms(100));
        f.sack(next - 1, &[], &[]);
        let before = f.path().cwnd;
        let replies = f.run(401);
        assert_eq!(f.data(&replies), [next - 1]);
        f.w.run(ms(100));
        let duplicates: &[u32] = if needless { &[next - 1] } else { &[] };
        f.sack(next, &[], duplicates);
        assert_eq!(f.path().cwnd < before, !needless);
        // A reduction whose chunk is reported afterwards is undone.
        f.sack(next, &[], &[next - 1]);
        assert_eq!(f.path().cwnd, before);
    }
}

/// RFC 6937, section 3
#[test]
fn prr_reduces_the_flight_in_proportion() {
    let mut f = Flow::new(by_time());
    let first = f.grow(40);
    let flight = 40;
    f.w.run(ms(100));
    let mut sent = Vec::new();
    for n in 1..flight {
        let released = f.sack(first, &[(first + 1, first + n)], &[]).len();
        assert!(n < 4 || released <= 2, "no burst");
        sent.push(released);
    }
    let (early, late) = sent[3..].split_at(sent[3..].len() / 2);
    let (early, late): (usize, usize) = (early.iter().sum(), late.iter().sum());
    assert!(early.abs_diff(late) <= 2, "evenly: {sent:?}");
    let cwnd = f.path().cwnd;
    assert!(f.path().flight_size.abs_diff(cwnd) <= 2 * PMDCS);
    // At once: nothing for half of the round trip, then one for one.
    let mut f = Flow::new(Policies {
        proportional_rate_reduction: false,
        ..by_time()
    });
    let first = f.grow(40);
    f.w.run(ms(100));
    let mut early = 0;
    for n in 1..flight / 2 {
        early += f
            .sack(first, &[(first + 1, first + n)], &[])
            .iter()
            .filter(|c| **c != first)
            .count();
    }
    assert!(early <= 4, "{early}");
}
