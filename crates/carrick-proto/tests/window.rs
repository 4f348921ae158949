//! The receive window from both sides (RFC 9260 sections 6.1 A, 6.2, 6.2.1).

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use carrick_proto::policy::WindowAnnouncement;
use carrick_proto::{AssociationConfig, AssociationId, AssociationStats, CloseReason, Event};
use carrick_wire::{ChunkType, Tsn};
use common::*;

/// Endpoint 0, which holds nothing back, sends to a puppet that starts with this window.
fn to_puppet(
    a_rwnd: u32,
    change: impl FnOnce(&mut AssociationConfig),
) -> (World, Puppet, AssociationId) {
    let mut w = World::single_homed();
    w.config.heartbeat = false;
    w.config.nagle = false;
    w.config.sender_sws_avoidance = false;
    w.config.send_buffer = 1 << 24;
    change(&mut w.config);
    let mut p = Puppet::new();
    p.a_rwnd = a_rwnd;
    let (p, id) = p.accept(&mut w);
    (w, p, id)
}

/// A puppet sends to endpoint 0, which has this configuration.
fn from_puppet(change: impl FnOnce(&mut AssociationConfig)) -> (World, Puppet, AssociationId) {
    let mut change = Some(change);
    let mut w = World::with(1, |_, config| {
        config.local_addresses.truncate(1);
        config.association.heartbeat = false;
        if let Some(change) = change.take() {
            change(&mut config.association);
        }
    });
    let (p, id) = Puppet::new().connect(&mut w);
    (w, p, id)
}

/// Two endpoints; the receiver, endpoint 1, has this receive buffer.
fn pair(receive_buffer: usize) -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |end, config| {
        config.local_addresses.truncate(1);
        if end == 1 {
            config.association.receive_buffer = receive_buffer;
        }
    });
    w.config.send_buffer = 1 << 24;
    let (a, b) = w.connect();
    (w, a, b)
}

/// Runs, and lets the puppet answer each packet with DATA as the closure wants.
fn serve(
    w: &mut World,
    p: &Puppet,
    duration: Duration,
    mut answer: impl FnMut(&mut World, &Puppet, &Seen),
) {
    let until = w.now + duration;
    while w.now < until {
        let rest = until - w.now;
        w.run_until(rest, |w| !w.to_puppets.is_empty());
        for packet in p.hear(w) {
            if packet.has(ChunkType::DATA) {
                answer(w, p, &packet);
            }
        }
    }
}

/// When packets with DATA left, in ms after `since`.
fn data_times(w: &World, since: carrick_proto::Time) -> Vec<u64> {
    w.sent(0, ChunkType::DATA)
        .iter()
        .filter(|p| p.time >= since)
        .map(|p| (p.time - since).as_millis() as u64)
        .collect()
}

fn errors(w: &World, id: AssociationId) -> (u32, u32) {
    (w.stats(0, id).error_count, w.path(0, id, 0).error_count)
}

/// The windows in the SACKs of an endpoint.
fn windows(w: &World, end: usize) -> Vec<u32> {
    let sacks = w.sent(end, ChunkType::SACK);
    sacks.iter().map(|p| p.sack().unwrap().a_rwnd).collect()
}

// ---- The sender: sections 6.1 A and 6.2.1 ----

#[test]
fn the_sender_keeps_to_the_window_6_2_1() {
    let (mut w, p, id) = to_puppet(3500, |_| {});
    for _ in 0..10 {
        w.send(0, id, 0, pattern(1000));
    }
    assert_eq!(p.numbers(&p.hear(&mut w)), [0, 1, 2]);
    assert_eq!(w.stats(0, id).peer_rwnd, 500);
    // 3000 announced, 2000 still on their way.
    let released = p.sack(&mut w, p.theirs(0), 3000, &[]);
    assert_eq!(p.numbers(&released), [3]);
    assert_eq!(w.stats(0, id).peer_rwnd, 0);
    // Gap blocks count as well: 1000 are outstanding after this.
    let released = p.sack(&mut w, p.theirs(0), 2500, &[(2, 3)]);
    assert_eq!(p.numbers(&released), [4]);
    assert_eq!(w.stats(0, id).peer_rwnd, 500);
}

#[test]
fn an_older_sack_does_not_change_the_window_6_2_1_d_i() {
    let (mut w, p, id) = to_puppet(3000, |_| {});
    for _ in 0..10 {
        w.send(0, id, 0, pattern(1000));
    }
    p.sack(&mut w, p.theirs(1), 1000, &[]);
    assert_eq!(w.stats(0, id).peer_rwnd, 0);
    assert!(p.sack(&mut w, p.theirs(0), 100_000, &[]).is_empty());
    assert_eq!(w.stats(0, id).peer_rwnd, 0);
}

#[test]
fn marked_data_gives_its_window_back_6_2_1_c() {
    let (mut w, p, id) = to_puppet(3000, |_| {});
    for _ in 0..3 {
        w.send(0, id, 0, pattern(1000));
    }
    p.hear(&mut w);
    assert_eq!(w.stats(0, id).peer_rwnd, 0);
    w.run(secs(1));
    // Three are marked, one is sent again.
    assert_eq!(p.numbers(&p.hear(&mut w)), [0]);
    assert_eq!(w.stats(0, id).peer_rwnd, 2000);
}

#[test]
fn the_first_probe_leaves_after_one_rto_and_the_interval_doubles_6_1_a() {
    let (mut w, p, id) = to_puppet(2000, |_| {});
    for _ in 0..10 {
        w.send(0, id, 0, pattern(1000));
    }
    p.hear(&mut w);
    p.sack(&mut w, p.theirs(1), 0, &[]);
    let closed = w.now;
    let cwnd = w.path(0, id, 0).cwnd;
    serve(&mut w, &p, secs(400), |w, p, packet| {
        assert_eq!(p.numbers(std::slice::from_ref(packet)), [2], "one chunk");
        p.sack(w, p.theirs(1), 0, &[]);
    });
    let mut at = closed;
    let waits = w.sent(0, ChunkType::DATA).into_iter().skip(2).map(|p| {
        let wait = p.time - at;
        at = p.time;
        wait.as_secs()
    });
    let waits: Vec<u64> = waits.collect();
    assert_eq!(waits, [1, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]);
    assert_eq!(errors(&w, id), (0, 0), "the peer answers");
    assert_eq!(w.path(0, id, 0).cwnd, cwnd, "probing does not change it");
}

#[test]
fn probing_with_answers_goes_on_for_ever_6_1_a() {
    let (mut w, p, id) = to_puppet(4096, |_| {});
    for _ in 0..10 {
        w.send(0, id, 0, pattern(1000));
    }
    p.hear(&mut w);
    p.sack(&mut w, p.theirs(3), 0, &[]);
    serve(&mut w, &p, secs(24 * 3600), |w, p, _| {
        p.sack(w, p.theirs(3), 0, &[]);
    });
    assert!(w.path(0, id, 0).status.active);
    assert_eq!(errors(&w, id), (0, 0));
    let released = p.sack(&mut w, p.theirs(3), 100_000, &[]);
    assert_eq!(p.numbers(&released)[0], 4, "at once");
}

#[test]
fn probing_without_answers_counts_errors_6_1_a_8_1() {
    let (mut w, p, id) = to_puppet(2000, |_| {});
    for _ in 0..10 {
        w.send(0, id, 0, pattern(1000));
    }
    p.hear(&mut w);
    p.sack(&mut w, p.theirs(1), 0, &[]);
    let mut answers = 3;
    serve(&mut w, &p, secs(1000), |w, p, _| {
        if answers > 0 {
            answers -= 1;
            p.sack(w, p.theirs(1), 0, &[]);
        }
    });
    let probes = p.numbers(&w.log).iter().filter(|n| **n == 2).count();
    assert_eq!(probes, 3 + 11, "Association.Max.Retrans is 10");
    let closed = w.events(0).into_iter().find_map(|e| match e {
        Event::Closed(reason) => Some(reason),
        _ => None,
    });
    assert_eq!(closed, Some(CloseReason::PeerUnreachable));
}

#[test]
fn data_dropped_for_want_of_room_is_a_probe_too_6_1_a() {
    // The chunks left while the window was open, but the peer had no room for them: small ones
    // cost it more than their payload. It answers each retransmission.
    let (mut w, p, id) = to_puppet(10_000, |_| {});
    for _ in 0..20 {
        w.send(0, id, 0, pattern(10));
    }
    p.hear(&mut w);
    p.sack(&mut w, p.theirs(9), 0, &[]);
    serve(&mut w, &p, secs(24 * 3600), |w, p, _| {
        p.sack(w, p.theirs(9), 0, &[]);
    });
    assert_eq!(errors(&w, id), (0, 0));
    assert!(w.path(0, id, 0).status.active);
    let released = p.sack(&mut w, p.theirs(9), 10_000, &[]);
    let numbers = p.numbers(&released);
    assert_eq!(numbers.first(), Some(&10), "at once");
}

#[test]
fn a_peer_without_room_gets_one_packet_at_a_time_6_1_a() {
    let (mut w, p, id) = to_puppet(10_000, |_| {});
    for _ in 0..5 {
        w.send(0, id, 0, pattern(1000));
    }
    p.hear(&mut w);
    p.sack(&mut w, p.theirs(1), 0, &[]);
    // Three are outstanding, and cwnd has room for them.
    serve(&mut w, &p, secs(30), |w, p, packet| {
        assert_eq!(p.numbers(std::slice::from_ref(packet)), [2]);
        assert!(p.sack(w, p.theirs(1), 0, &[]).is_empty());
    });
    // One is taken, although the window stays closed: the next is tried.
    let released = p.sack(&mut w, p.theirs(2), 0, &[]);
    assert_eq!(p.numbers(&released), [3]);
    assert_eq!(released.len(), 1);
    let released = p.sack(&mut w, p.theirs(2), 10_000, &[]);
    assert_eq!(p.numbers(&released), [3, 4], "all when there is room");
}

#[test]
fn a_lost_window_update_stops_nothing_6_1_a() {
    let (mut w, a, b) = pair(10_000);
    // Every SACK that only opens the window is lost.
    let last = Rc::new(Cell::new((Tsn::new(0), 0)));
    let updates = Rc::new(Cell::new(0));
    let lost = Rc::clone(&updates);
    w.rule(move |seen| {
        if seen.from != 1 {
            return Fate::Pass;
        }
        let Some(sack) = seen.sack() else {
            return Fate::Pass;
        };
        let (tsn, window) = last.replace((sack.cumulative_tsn_ack, sack.a_rwnd));
        if tsn == sack.cumulative_tsn_ack && window < sack.a_rwnd {
            lost.set(lost.get() + 1);
            return Fate::Drop;
        }
        Fate::Pass
    });
    for _ in 0..100 {
        w.send(0, a, 0, pattern(1000));
    }
    let mut received = 0;
    for _ in 0..1000 {
        w.run(secs(10));
        received += w.receive(1, b).len();
        assert_eq!(w.stats(0, a).error_count, 0);
        if received == 100 {
            break;
        }
    }
    assert_eq!(received, 100);
    assert!(updates.get() > 5, "{} updates lost", updates.get());
    assert!(w.stats(0, a).counters.window_probes > 5);
}

#[test]
fn no_scraps_are_sent_into_a_small_window_6_1_a() {
    for avoid in [true, false] {
        let (mut w, p, id) = to_puppet(6000, |c| c.sender_sws_avoidance = avoid);
        for _ in 0..40 {
            w.send(0, id, 0, pattern(300));
        }
        p.hear(&mut w);
        let sent = w.stats(0, id).outstanding_chunks as u32;
        let released = p.sack(&mut w, p.theirs(sent - 1), 700, &[]);
        assert_eq!(released.is_empty(), avoid);
        if avoid {
            // Not for ever: after an RTO one leaves.
            let before = w.now + ms(1);
            w.run(secs(1));
            assert_eq!(data_times(&w, before), [999]);
        }
    }
}

#[test]
fn a_small_window_takes_what_is_all_there_is_6_1_a() {
    let (mut w, p, id) = to_puppet(6000, |c| c.sender_sws_avoidance = true);
    w.send(0, id, 0, pattern(4000));
    p.hear(&mut w);
    p.sack(&mut w, p.theirs(2), 700, &[]);
    w.send(0, id, 0, pattern(300));
    assert_eq!(p.hear(&mut w).len(), 1, "not silly: nothing else waits");
}

#[test]
fn an_announced_window_that_shrinks_is_respected_6_2_1_d_ii() {
    let (mut w, p, id) = to_puppet(100_000, |_| {});
    for _ in 0..30 {
        w.send(0, id, 0, pattern(1000));
    }
    p.hear(&mut w);
    // Less is announced than is on its way.
    assert!(p.sack(&mut w, p.theirs(0), 100, &[]).is_empty());
    assert_eq!(w.stats(0, id).peer_rwnd, 0);
}

#[test]
fn data_the_peer_took_back_is_sent_again_6_2_1_d_iii() {
    let (mut w, p, id) = to_puppet(100_000, |_| {});
    for _ in 0..3 {
        w.send(0, id, 0, pattern(1000));
    }
    p.hear(&mut w);
    p.sack(&mut w, p.theirs(0), 100_000, &[(2, 2)]);
    assert_eq!(w.stats(0, id).outstanding_bytes, 1000);
    // Chunk 2 was acknowledged in a gap block and is not any more; chunk 1 is.
    let released = p.sack(&mut w, p.theirs(1), 100_000, &[]);
    assert!(released.is_empty(), "one missing report only");
    assert_eq!(w.stats(0, id).outstanding_bytes, 1000);
    assert_eq!(w.stats(0, id).counters.reneged, 1);
    // T3-rtx runs (R4 of section 6.3.2).
    w.run(secs(1));
    assert_eq!(p.numbers(&p.hear(&mut w)), [2]);
    p.sack(&mut w, p.theirs(2), 100_000, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

#[test]
fn data_taken_back_needs_its_missing_reports_6_2_1_d_iii() {
    let (mut w, p, id) = to_puppet(1_000_000, |_| {});
    for _ in 0..20 {
        w.send(0, id, 0, pattern(700));
    }
    p.hear(&mut w);
    // Chunk 1 is there in three SACKs that make three reports for chunk 0.
    for n in 2..=4 {
        p.sack(&mut w, p.theirs(0), 1_000_000, &[(1, n)]);
    }
    assert_eq!(w.stats(0, id).counters.fast_retransmissions, 0);
    // It is taken back: one report; two more follow.
    p.sack(&mut w, p.theirs(0), 1_000_000, &[(2, 4)]);
    assert_eq!(w.stats(0, id).counters.reneged, 1);
    assert_eq!(w.stats(0, id).counters.fast_retransmissions, 0, "one");
    p.sack(&mut w, p.theirs(0), 1_000_000, &[(2, 5)]);
    assert_eq!(w.stats(0, id).counters.fast_retransmissions, 0, "two");
    let released = p.sack(&mut w, p.theirs(0), 1_000_000, &[(2, 6)]);
    assert_eq!(p.numbers(&released).first(), Some(&1), "three");
}

// ---- The receiver: section 6.2 ----

/// Whether the announced window and what is held are the whole buffer, or the window is small.
fn truthful(stats: &AssociationStats, window: u32, buffer: usize) -> bool {
    window <= 1 || window as usize + stats.receive_buffer_bytes == buffer
}

#[test]
fn the_window_counts_what_small_messages_cost_6_2_b() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.receive_buffer = 100_000;
        c.policies.window_announcement = WindowAnnouncement::True;
    });
    for n in 0..200 {
        p.data(&mut w, 0, n, b"x");
    }
    w.run(secs(1));
    let last = *windows(&w, 0).last().unwrap();
    assert_eq!(last, 100_000 - 200 * 129);
    assert!(truthful(&w.stats(0, id), last, 100_000));
    let messages = w.receive(0, id);
    assert_eq!(messages.len(), 200);
    assert_eq!(w.stats(0, id).a_rwnd, 100_000);
}

#[test]
fn a_flood_of_small_messages_stays_within_the_buffer_6_2() {
    let (mut w, mut p, id) = from_puppet(|c| c.receive_buffer = 50_000);
    w.forget = true;
    for n in 0..5000_u32 {
        // Whatever the window says, in order and out of order.
        if n % 2 == 1 {
            p.tsn = p.tsn.next();
        }
        p.data(&mut w, (n % 10) as u16, (n / 10) as u16, b"x");
        assert!(w.stats(0, id).receive_buffer_bytes < 50_000 + 1500);
    }
    let stats = w.stats(0, id);
    assert_eq!(stats.a_rwnd, 0);
    assert!(stats.counters.dropped_for_buffer > 4000);
}

#[test]
fn the_number_of_chunks_is_bounded_6_2() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.receive_buffer_chunks = 100;
        c.message_overhead = 0;
    });
    for n in 0..500 {
        p.data(&mut w, 0, n, b"x");
    }
    let stats = w.stats(0, id);
    assert_eq!((stats.receive_buffer_bytes, stats.a_rwnd), (100, 0));
    assert_eq!(stats.counters.dropped_for_buffer, 400);
    assert_eq!(w.receive(0, id).len(), 100);
}

#[test]
fn a_full_receiver_drops_new_data_and_says_so_at_once_6_2() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.receive_buffer = 4000;
        c.message_overhead = 0;
    });
    for n in 0..4 {
        p.data(&mut w, 0, n, &pattern(1000));
    }
    assert_eq!(w.stats(0, id).a_rwnd, 0);
    for n in 4..8 {
        let answers = p.data(&mut w, 0, n, &pattern(1000));
        assert_eq!(answers.len(), 1, "immediately");
        let sack = answers[0].sack().expect("a SACK");
        assert_eq!(sack.a_rwnd, 0);
        assert_eq!(sack.cumulative_tsn_ack, Tsn::new(1003));
        assert_eq!(sack.gap_ack_blocks().count(), 0, "not accepted");
    }
    assert_eq!(w.stats(0, id).counters.dropped_for_buffer, 4);
    assert_eq!(w.receive_lengths(0, id), [1000; 4]);
}

#[test]
fn a_full_receiver_takes_what_fills_a_gap_for_the_highest_tsn_6_2() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.receive_buffer = 4000;
        c.message_overhead = 0;
    });
    let first = p.tsn;
    p.tsn = first.next();
    for n in 1..5 {
        p.data(&mut w, 0, n, &pattern(1000));
    }
    assert_eq!(w.stats(0, id).a_rwnd, 0);
    let mut missing = p.clone();
    missing.tsn = first;
    let answers = missing.data(&mut w, 0, 0, &pattern(900));
    let sack = answers[0].sack().expect("immediately");
    assert_eq!(sack.cumulative_tsn_ack, first.plus(3));
    assert_eq!(sack.gap_ack_blocks().count(), 0, "the highest was dropped");
    assert!(sack.a_rwnd <= 1, "{}", sack.a_rwnd);
    assert_eq!(w.receive_lengths(0, id), [900, 1000, 1000, 1000]);
    // It is taken when it comes again.
    let mut again = p.clone();
    again.tsn = first.plus(4);
    again.data(&mut w, 0, 4, &pattern(1000));
    assert_eq!(w.receive_lengths(0, id), [1000]);
}

#[test]
fn what_was_acknowledged_cumulatively_is_never_dropped_6_2() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.receive_buffer = 4000;
        c.message_overhead = 0;
    });
    for n in 0..4 {
        p.data(&mut w, 0, n, &pattern(1000));
    }
    // Full of messages that wait for the user; a gap and then what fills it.
    let gap = p.tsn;
    p.tsn = gap.next();
    p.data(&mut w, 0, 5, &pattern(10));
    p.tsn = gap;
    p.data(&mut w, 0, 4, &pattern(10));
    assert_eq!(w.receive_lengths(0, id), [1000; 4]);
}

#[test]
fn no_silly_window_is_announced_6_2() {
    let (mut w, mut p, id) = from_puppet(|c| c.receive_buffer = 20_000);
    for n in 0..40 {
        p.data(&mut w, 0, n, &pattern(500));
        if n % 8 == 7 {
            w.ends[0].receive(id);
            w.pump();
        }
    }
    w.run(secs(1));
    let windows = windows(&w, 0);
    assert!(windows.iter().all(|w| *w <= 1 || *w >= 3000), "{windows:?}");
    assert!(windows.iter().any(|w| *w <= 1));
}

#[test]
fn window_updates_come_with_each_quarter_of_the_buffer_6_2() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.receive_buffer = 100_000;
        c.message_overhead = 0;
    });
    for n in 0..100 {
        p.data(&mut w, 0, n, &pattern(1000));
    }
    w.run(secs(1));
    assert_eq!(*windows(&w, 0).last().unwrap(), 0);
    w.log.clear();
    for _ in 0..100 {
        w.ends[0].receive(id).expect("a message");
        w.pump();
    }
    assert_eq!(windows(&w, 0), [25_000, 50_000, 75_000, 100_000]);
}

#[test]
fn the_window_opens_again_and_all_arrives_6_2() {
    for size in [1, 10, 100, 1000, 5000] {
        let (mut w, a, b) = pair(20_000);
        for _ in 0..400 {
            w.send(0, a, 0, pattern(size));
        }
        let mut received = Vec::new();
        for _ in 0..2000 {
            w.run(ms(300));
            received.extend(w.receive_lengths(1, b));
            if received.iter().sum::<usize>() == 400 * size {
                break;
            }
        }
        assert_eq!(received.iter().sum::<usize>(), 400 * size, "size {size}");
        assert_eq!(w.stats(0, a).error_count, 0);
    }
}

#[test]
fn a_user_who_reads_nothing_for_a_day_loses_nothing_6_1_a() {
    for size in [1, 10, 100, 1000] {
        let (mut w, a, b) = pair(20_000);
        w.forget = true;
        for _ in 0..1000 {
            w.send(0, a, 0, pattern(size));
        }
        w.run(secs(24 * 3600));
        let held = w.stats(1, b).receive_buffer_bytes;
        assert!(held < 20_000 + 1500, "{held} bytes of 20000");
        let events = w.events(0);
        let failed = |e: &&Event| {
            matches!(
                e,
                Event::PathFailed(_) | Event::NoProgress | Event::Closed(_)
            )
        };
        assert_eq!(events.iter().find(failed), None, "size {size}");
        assert_eq!(errors(&w, a), (0, 0));
        let mut received = 0;
        for _ in 0..5000 {
            received += w.receive(1, b).len();
            if received == 1000 {
                break;
            }
            w.run(ms(100));
        }
        assert_eq!(received, 1000, "size {size}");
    }
}

/// Chunks that had to be dropped when a sender filled the window of a user who reads nothing.
fn dropped_when_filled(announcement: WindowAnnouncement, size: usize) -> u64 {
    let mut w = World::with(2, |end, config| {
        config.local_addresses.truncate(1);
        if end == 1 {
            config.association.receive_buffer = 400_000;
            config.association.policies.window_announcement = announcement;
        }
    });
    w.config.send_buffer = 1 << 24;
    let (a, b) = w.connect();
    for _ in 0..2_000_000 / size {
        w.send(0, a, 0, pattern(size));
    }
    // The window is full long before the first probe.
    w.run(ms(900));
    let stats = w.stats(1, b);
    assert!(stats.a_rwnd < 3000, "{stats:?}");
    stats.counters.dropped_for_buffer
}

#[test]
fn a_window_that_fits_never_makes_the_peer_send_twice() {
    for size in [200, 1000, 1452, 20_000] {
        let dropped = dropped_when_filled(WindowAnnouncement::Fitting, size);
        assert_eq!(dropped, 0, "messages of {size}");
    }
    assert!(dropped_when_filled(WindowAnnouncement::True, 1000) > 0);
}

#[test]
fn a_silly_window_is_probed_although_sacks_keep_coming_6_1_a() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.max_payload = Some(100);
    });
    let mut peer = Puppet::new();
    peer.a_rwnd = 10_000;
    let (peer, a) = peer.connect(&mut w);
    w.send(0, a, 0, pattern(100));
    peer.hear(&mut w);
    peer.sack(&mut w, peer.theirs(0), 1000, &[]);
    // There is room for chunks, but not for a packet of them.
    w.send(0, a, 0, pattern(16_000));
    let mut probes = 0;
    for _ in 0..10 {
        w.run(ms(300));
        probes += peer.numbers(&peer.hear(&mut w)).len();
        peer.sack(&mut w, peer.theirs(probes as u32), 1000, &[]);
    }
    assert!((1..=4).contains(&probes), "{probes} probes in 3 s");
}

#[test]
fn a_window_that_packets_of_small_chunks_fill_is_not_silly_6_1_a() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.max_payload = Some(7);
    });
    let mut peer = Puppet::new();
    peer.a_rwnd = 10_000;
    let (peer, a) = peer.connect(&mut w);
    w.send(0, a, 0, pattern(7));
    peer.hear(&mut w);
    peer.sack(&mut w, peer.theirs(0), 1037, &[]);
    // One message, but it leaves in chunks of 7 bytes, and each has a header.
    w.send(0, a, 0, pattern(7000));
    let chunks = peer.numbers(&peer.hear(&mut w)).len();
    assert!(chunks > 100, "{chunks} chunks");
}
