//! Loss recovery with RACK-TLP (RFC 8985), proportional rate reduction (RFC 6937) and the undoing of
//! needless reductions.

use crate::common;

use carrick_proto::policy::{LossDetection, Policies};
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

/// Two endpoints, the first of which recovers so.
fn world(policies: Policies) -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.receive_buffer = 8 << 20;
    });
    w.config.policies = policies;
    w.config.send_buffer = 1 << 26;
    w.config.heartbeat = false;
    w.config.max_burst = 10;
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

#[test]
fn a_lost_retransmission_is_found_lost_again_without_a_timeout_8985_6_2() {
    for (policies, expected) in [(by_time(), 0), (Policies::default(), 2)] {
        let (mut w, a, b) = world(policies);
        warm_up(&mut w, a, b);
        // One chunk is lost three times.
        let mut lost = None;
        let mut times = 0;
        w.rule(move |seen| {
            if seen.from != 0 || times == 3 || !seen.has(ChunkType::DATA) {
                return Fate::Pass;
            }
            let tsns: Vec<_> = seen.data().iter().map(|d| d.tsn).collect();
            let tsn = *lost.get_or_insert(tsns[0]);
            if tsns.contains(&tsn) {
                times += 1;
                return Fate::Drop;
            }
            Fate::Pass
        });
        for _ in 0..200 {
            w.send(0, a, 0, pattern(FULL));
        }
        w.run(secs(30));
        assert_eq!(w.receive(1, b).len(), 200);
        assert_eq!(timeouts(&w, a), expected, "{policies:?}");
    }
}

#[test]
fn a_lost_tail_is_repaired_without_a_timeout_8985_7() {
    for lost in 1..=10_u64 {
        for (policies, expected) in [(by_time(), 0), (Policies::default(), 1)] {
            let (mut w, a, b) = world(policies);
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

#[test]
fn a_tail_whose_probe_is_lost_too_is_left_to_the_timer_8985_7_3() {
    let (mut w, a, b) = world(by_time());
    warm_up(&mut w, a, b);
    // The last of ten, and its copy.
    let mut seen_last = 0;
    let mut sent = 0;
    w.rule(move |seen| {
        if seen.from != 0 || !seen.has(ChunkType::DATA) {
            return Fate::Pass;
        }
        sent += 1;
        seen_last += u32::from(sent >= 10);
        if (1..=2).contains(&seen_last) {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    for _ in 0..10 {
        w.send(0, a, 0, pattern(FULL));
    }
    assert!(w.run_until(secs(20), |w| w.stats(0, a).outstanding_chunks == 0));
    assert_eq!(w.receive(1, b).len(), 10);
    let counters = w.stats(0, a).counters;
    assert_eq!((counters.tail_loss_probes, counters.t3_expirations), (1, 1));
}

#[test]
fn losses_all_over_a_transfer_need_no_timeout_8985() {
    let (mut w, a, b) = world(by_time());
    w.forget = true;
    let mut count = 0_u32;
    w.rule(move |seen| {
        if seen.from != 0 || !seen.has(ChunkType::DATA) {
            return Fate::Pass;
        }
        count += 1;
        // Retransmissions are lost as well as anything else; single ones and runs of three.
        if count.is_multiple_of(29) || count % 97 < 3 {
            Fate::Drop
        } else {
            Fate::Pass
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

#[test]
fn a_path_that_died_still_fails_over_8_2() {
    let mut w = World::new();
    w.config.policies = by_time();
    w.config.path_max_retrans = 2;
    let (a, b) = w.connect();
    w.kill(addresses(1)[0]);
    for _ in 0..20 {
        w.send(0, a, 0, pattern(FULL));
    }
    w.run(secs(60));
    assert_eq!(w.receive(1, b).len(), 20);
    assert!(!w.path(0, a, 0).status.active);
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
}

#[test]
fn reordering_enlarges_the_window_until_nothing_is_sent_in_vain_8985_6_2() {
    let (mut w, a, b) = world(by_time());
    w.latency = ms(50);
    w.forget = true;
    // Every fifth packet is a third of the round trip late.
    let mut count = 0_u32;
    w.rule(move |seen| {
        if seen.from != 0 || !seen.has(ChunkType::DATA) {
            return Fate::Pass;
        }
        count += 1;
        if count.is_multiple_of(5) {
            Fate::Delay(ms(35))
        } else {
            Fate::Pass
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
        w.config.send_buffer = 1 << 26;
        w.config.heartbeat = false;
        w.config.policies = policies;
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

    fn data(&self, packets: &[Seen]) -> Vec<u32> {
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
        let heard = self.p.hear(&mut self.w);
        self.data(&heard)
    }

    /// A SACK for the first `count` chunks with gap blocks and duplicates, all counted from 0.
    fn sack(&mut self, count: u32, gaps: &[(u32, u32)], duplicates: &[u32]) -> Vec<u32> {
        let cumulative = self.p.theirs(count.wrapping_sub(1));
        let offset = |chunk: u32| u16::try_from(chunk + 1 - count).expect("a gap");
        let gaps: Vec<_> = gaps
            .iter()
            .map(|g| GapAckBlock {
                start: offset(g.0),
                end: offset(g.1),
            })
            .collect();
        let duplicates: Vec<_> = duplicates.iter().map(|d| self.p.theirs(*d)).collect();
        let a_rwnd = self.p.a_rwnd;
        let heard = self.p.say(&mut self.w, |p| {
            p.sack(cumulative, a_rwnd, gaps.into_iter(), duplicates.into_iter());
        });
        self.data(&heard)
    }

    /// Time passes; returns what leaves meanwhile.
    fn run(&mut self, millis: u64) -> Vec<Seen> {
        self.w.run(ms(millis));
        self.p.hear(&mut self.w)
    }

    /// Sends full packets with a round trip of 100 ms, until so many are in flight; returns the
    /// number of the first of them. More wait.
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

#[test]
fn a_chunk_waits_a_quarter_of_the_round_trip_for_a_later_one_8985_6_2() {
    let mut f = Flow::new(by_time());
    let first = f.grow(8);
    f.w.run(ms(100));
    // One packet above the gap: not three.
    f.sack(first, &[(first + 1, first + 1)], &[]);
    assert!(f.run(24).is_empty());
    let heard = f.run(2);
    assert_eq!(f.data(&heard), [first], "by the timer");
    assert_eq!(f.w.stats(0, f.id).counters.t3_expirations, 0);
}

#[test]
fn three_packets_above_the_gap_are_enough_8985_6_2() {
    let mut f = Flow::new(by_time());
    let first = f.grow(8);
    f.w.run(ms(100));
    assert!(
        !f.sack(first, &[(first + 1, first + 2)], &[])
            .contains(&first)
    );
    let heard = f.sack(first, &[(first + 1, first + 3)], &[]);
    assert_eq!(heard.first(), Some(&first));
}

#[test]
fn what_a_full_sack_cannot_tell_of_is_not_taken_for_lost_3_3_4() {
    let mut f = Flow::new(by_time());
    let first = f.grow(40);
    f.w.run(ms(100));
    // Every other packet is lost, and the peer tells of 16 gaps at most: the rest arrived.
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

#[test]
fn a_needless_fast_retransmission_is_undone_4015() {
    let mut f = Flow::new(by_time());
    let first = f.grow(16);
    f.w.run(ms(100));
    let before = f.path();
    let heard = f.sack(first, &[(first + 1, first + 6)], &[]);
    assert_eq!(heard.first(), Some(&first));
    let reduced = f.path();
    assert!(reduced.cwnd <= before.cwnd / 2 + PMDCS);
    // The original arrived late, then the copy.
    f.sack(first + 7, &[], &[]);
    assert_eq!(f.undone(), 0);
    f.sack(first + 7, &[], &[first]);
    assert_eq!(f.undone(), 1);
    assert!(f.path().cwnd >= before.cwnd && f.path().ssthresh >= before.ssthresh);
}

#[test]
fn without_the_policy_nothing_is_undone_4015() {
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

#[test]
fn one_copy_that_was_needed_keeps_the_reduction_4015() {
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

#[test]
fn a_needless_timeout_is_undone_4015() {
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
        let mut f = Flow::new(policies);
        let first = f.grow(16);
        let before = f.path();
        // The path stalls for longer than the RTO.
        let heard = f.run(1100);
        assert_eq!(f.data(&heard), [first]);
        assert_eq!(f.path().cwnd, PMDCS);
        let all = first + f.w.stats(0, f.id).outstanding_chunks as u32;
        f.sack(all, &[], &[]);
        assert_eq!(f.undone(), 0);
        f.sack(all, &[], &[first]);
        assert_eq!(f.undone(), 1);
        assert!(f.path().cwnd >= before.cwnd, "{policies:?}");
    }
}

#[test]
fn a_probe_is_the_last_chunk_and_asks_for_a_sack_at_once_8985_7_3() {
    let mut f = Flow::new(by_time());
    let first = 60;
    let sent = f.send(3, FULL);
    assert_eq!(sent, [first, first + 1, first + 2]);
    assert!(f.run(199).is_empty(), "two round trips");
    let heard = f.run(2);
    assert_eq!(f.data(&heard), [first + 2]);
    assert!(heard[0].data()[0].flags.immediate);
    assert!(f.run(900).is_empty(), "one probe only");
    assert_eq!(f.w.stats(0, f.id).counters.tail_loss_probes, 1);
}

#[test]
fn the_probe_for_one_packet_waits_for_a_delayed_sack_8985_7_2() {
    let mut f = Flow::new(by_time());
    let first = 60;
    f.send(1, FULL);
    assert!(f.run(399).is_empty(), "two round trips and SACK.Delay");
    let heard = f.run(2);
    assert_eq!(f.data(&heard), [first]);
}

#[test]
fn a_probe_is_new_data_if_there_is_some_whatever_the_window_8985_7_3() {
    let mut f = Flow::new(by_time());
    let first = f.grow(8);
    let flight = f.path().flight_size;
    assert!(flight >= f.path().cwnd);
    let heard = f.run(250);
    let sent = f.data(&heard);
    assert_eq!(sent.len(), 1);
    assert!(sent[0] > first);
    assert_eq!(
        f.path().flight_size,
        flight + PMDCS,
        "one packet beyond the window"
    );
}

#[test]
fn a_loss_that_the_probe_repaired_slows_down_unless_it_was_none_8985_7_4_2() {
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
        let heard = f.run(401);
        assert_eq!(f.data(&heard), [next - 1]);
        f.w.run(ms(100));
        let duplicates: &[u32] = if needless { &[next - 1] } else { &[] };
        f.sack(next, &[], duplicates);
        assert_eq!(f.path().cwnd < before, !needless);
        // What was reported only afterwards is undone.
        f.sack(next, &[], &[next - 1]);
        assert_eq!(f.path().cwnd, before);
    }
}

#[test]
fn the_flight_comes_down_in_proportion_6937() {
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
