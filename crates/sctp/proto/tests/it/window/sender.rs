//! The sender stays within the window and probes a closed one (sections 6.1 A, 6.2.1).

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use carrick_proto::research::SwsAvoidance;
use carrick_proto::{AssociationConfig, AssociationId, CloseReason, Event};

use carrick_wire::{ChunkType, Tsn};

use crate::common::*;
use crate::window::support::*;

/// Times of the packets with DATA, in ms after `since`.
fn data_times(w: &World, since: carrick_proto::Time) -> Vec<u64> {
    w.sent(0, ChunkType::DATA)
        .iter()
        .filter(|p| p.time >= since)
        .map(|p| (p.time - since).as_millis() as u64)
        .collect()
}

/// Runs; the closure answers each packet with DATA.
fn serve(
    w: &mut World,
    p: &Puppet,
    duration: Duration,
    mut answer: impl FnMut(&mut World, &Puppet, &SentPacket),
) {
    let until = w.now + duration;
    while w.now < until {
        let rest = until - w.now;
        w.run_until(rest, |w| !w.to_puppets.is_empty());
        for packet in p.receive(w) {
            if packet.has(ChunkType::DATA) {
                answer(w, p, &packet);
            }
        }
    }
}

/// Endpoint 0, without Nagle's algorithm, sends to a puppet that starts with this window.
fn to_puppet(
    a_rwnd: u32,
    change: impl FnOnce(&mut AssociationConfig),
) -> (World, Puppet, AssociationId) {
    let mut w = World::single_homed();
    w.config.paths.heartbeat = false;
    w.config.transmission.nagle = false;
    w.config.research.sender_sws_avoidance = SwsAvoidance::Off;
    w.config.buffers.send_buffer = 1 << 24;
    change(&mut w.config);
    let mut p = Puppet::new();
    p.a_rwnd = a_rwnd;
    let (p, id) = p.accept(&mut w);
    (w, p, id)
}

// ---- The sender: sections 6.1 A and 6.2.1 ----

/// RFC 1122, section 4.2.3.4
#[test]
fn nagle_waits_for_a_window_of_a_full_packet() {
    let sent = |nagle| {
        let (mut w, p, id) = to_puppet(3500, |config| config.transmission.nagle = nagle);
        // Three of them in a packet; ten always wait for more than one.
        for _ in 0..10 {
            w.send(0, id, 0, pattern(400));
        }
        let first = p.numbers(&p.receive(&mut w));
        let all = p.sack(&mut w, p.endpoint_tsn(first.len() as u32 - 1), 3500, &[]);
        (first, p.numbers(&all))
    };
    // 1100 bytes of the window are left behind two packets. The last message waits for more.
    assert_eq!(sent(true), ((0..6).collect(), (6..9).collect()));
    assert_eq!(sent(false), ((0..8).collect(), (8..10).collect()));
}

/// RFC 9260, section 6.2.1
#[test]
fn the_sender_keeps_to_the_window() {
    let (mut w, p, id) = to_puppet(3500, |_| {});
    for _ in 0..10 {
        w.send(0, id, 0, pattern(1000));
    }
    assert_eq!(p.numbers(&p.receive(&mut w)), [0, 1, 2]);
    assert_eq!(w.stats(0, id).peer_rwnd, 500);
    // 3000 announced, 2000 still on their way.
    let released = p.sack(&mut w, p.endpoint_tsn(0), 3000, &[]);
    assert_eq!(p.numbers(&released), [3]);
    assert_eq!(w.stats(0, id).peer_rwnd, 0);
    // Gap blocks count as well: 1000 are outstanding after this.
    let released = p.sack(&mut w, p.endpoint_tsn(0), 2500, &[(2, 3)]);
    assert_eq!(p.numbers(&released), [4]);
    assert_eq!(w.stats(0, id).peer_rwnd, 500);
}

/// RFC 9260, section 6.2.1, rule D i
#[test]
fn an_older_sack_does_not_change_the_window() {
    let (mut w, p, id) = to_puppet(3000, |_| {});
    for _ in 0..10 {
        w.send(0, id, 0, pattern(1000));
    }
    p.sack(&mut w, p.endpoint_tsn(1), 1000, &[]);
    assert_eq!(w.stats(0, id).peer_rwnd, 0);
    assert!(p.sack(&mut w, p.endpoint_tsn(0), 100_000, &[]).is_empty());
    assert_eq!(w.stats(0, id).peer_rwnd, 0);
}

/// RFC 9260, section 6.2.1, rule C
#[test]
fn marked_data_restores_the_window() {
    let (mut w, p, id) = to_puppet(3000, |_| {});
    for _ in 0..3 {
        w.send(0, id, 0, pattern(1000));
    }
    p.receive(&mut w);
    assert_eq!(w.stats(0, id).peer_rwnd, 0);
    w.run(secs(1));
    // Three are marked, one is sent again.
    assert_eq!(p.numbers(&p.receive(&mut w)), [0]);
    assert_eq!(w.stats(0, id).peer_rwnd, 2000);
}

/// RFC 9260, section 6.1, rule A
#[test]
fn window_probes_begin_after_an_rto_and_back_off() {
    let (mut w, p, id) = to_puppet(2000, |_| {});
    for _ in 0..10 {
        w.send(0, id, 0, pattern(1000));
    }
    p.receive(&mut w);
    p.sack(&mut w, p.endpoint_tsn(1), 0, &[]);
    let closed = w.now;
    let cwnd = w.path(0, id, 0).cwnd;
    serve(&mut w, &p, secs(400), |w, p, packet| {
        assert_eq!(p.numbers(std::slice::from_ref(packet)), [2], "one chunk");
        p.sack(w, p.endpoint_tsn(1), 0, &[]);
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

/// RFC 9260, section 6.1, rule A
#[test]
fn answered_window_probes_continue() {
    let (mut w, p, id) = to_puppet(4096, |_| {});
    for _ in 0..10 {
        w.send(0, id, 0, pattern(1000));
    }
    p.receive(&mut w);
    p.sack(&mut w, p.endpoint_tsn(3), 0, &[]);
    serve(&mut w, &p, secs(24 * 3600), |w, p, _| {
        p.sack(w, p.endpoint_tsn(3), 0, &[]);
    });
    assert!(w.path(0, id, 0).status.active);
    assert_eq!(errors(&w, id), (0, 0));
    let released = p.sack(&mut w, p.endpoint_tsn(3), 100_000, &[]);
    assert_eq!(p.numbers(&released)[0], 4, "at once");
}

/// RFC 9260, section 6.1, rule A
/// RFC 9260, section 8.1
#[test]
fn unanswered_window_probes_count_errors() {
    let (mut w, p, id) = to_puppet(2000, |_| {});
    for _ in 0..10 {
        w.send(0, id, 0, pattern(1000));
    }
    p.receive(&mut w);
    p.sack(&mut w, p.endpoint_tsn(1), 0, &[]);
    let mut answers = 3;
    serve(&mut w, &p, secs(1000), |w, p, _| {
        if answers > 0 {
            answers -= 1;
            p.sack(w, p.endpoint_tsn(1), 0, &[]);
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

/// RFC 9260, section 6.1, rule A
#[test]
fn data_dropped_for_lack_of_room_is_a_probe() {
    // The chunks left while the window was open, but the peer had no room for them: small ones
    // cost it more than their payload. It answers each retransmission.
    let (mut w, p, id) = to_puppet(10_000, |_| {});
    for _ in 0..20 {
        w.send(0, id, 0, pattern(10));
    }
    p.receive(&mut w);
    p.sack(&mut w, p.endpoint_tsn(9), 0, &[]);
    serve(&mut w, &p, secs(24 * 3600), |w, p, _| {
        p.sack(w, p.endpoint_tsn(9), 0, &[]);
    });
    assert_eq!(errors(&w, id), (0, 0));
    assert!(w.path(0, id, 0).status.active);
    let released = p.sack(&mut w, p.endpoint_tsn(9), 10_000, &[]);
    let numbers = p.numbers(&released);
    assert_eq!(numbers.first(), Some(&10), "at once");
}

/// RFC 9260, section 6.1, rule A
#[test]
fn a_peer_without_room_gets_one_packet_at_a_time() {
    let (mut w, p, id) = to_puppet(10_000, |_| {});
    for _ in 0..5 {
        w.send(0, id, 0, pattern(1000));
    }
    p.receive(&mut w);
    p.sack(&mut w, p.endpoint_tsn(1), 0, &[]);
    // Three are outstanding, and cwnd has room for them.
    serve(&mut w, &p, secs(30), |w, p, packet| {
        assert_eq!(p.numbers(std::slice::from_ref(packet)), [2]);
        assert!(p.sack(w, p.endpoint_tsn(1), 0, &[]).is_empty());
    });
    // One is taken, although the window stays closed: the next is tried.
    let released = p.sack(&mut w, p.endpoint_tsn(2), 0, &[]);
    assert_eq!(p.numbers(&released), [3]);
    assert_eq!(released.len(), 1);
    let released = p.sack(&mut w, p.endpoint_tsn(2), 10_000, &[]);
    assert_eq!(p.numbers(&released), [3, 4], "all when there is room");
}

/// RFC 9260, section 6.1, rule A
#[test]
fn a_lost_window_update_stalls_nothing() {
    let (mut w, a, b) = pair(10_000);
    // Every SACK that only opens the window is lost.
    let last = Rc::new(Cell::new((Tsn::new(0), 0)));
    let updates = Rc::new(Cell::new(0));
    let lost = Rc::clone(&updates);
    w.rule(move |seen| {
        if seen.from != 1 {
            return Verdict::Pass;
        }
        let Some(sack) = seen.sack() else {
            return Verdict::Pass;
        };
        let (tsn, window) = last.replace((sack.cumulative_tsn_ack, sack.a_rwnd));
        if tsn == sack.cumulative_tsn_ack && window < sack.a_rwnd {
            lost.set(lost.get() + 1);
            return Verdict::Drop;
        }
        Verdict::Pass
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

/// RFC 9260, section 6.1, rule A
#[test]
fn no_small_packets_are_sent_into_a_small_window() {
    for avoid in [SwsAvoidance::Packets, SwsAvoidance::Off] {
        let (mut w, p, id) = to_puppet(6000, |c| c.research.sender_sws_avoidance = avoid);
        for _ in 0..40 {
            w.send(0, id, 0, pattern(300));
        }
        p.receive(&mut w);
        let sent = w.stats(0, id).outstanding_chunks as u32;
        let released = p.sack(&mut w, p.endpoint_tsn(sent - 1), 700, &[]);
        let avoids = avoid != SwsAvoidance::Off;
        assert_eq!(released.is_empty(), avoids);
        if avoids {
            // After an RTO one is sent.
            let before = w.now + ms(1);
            w.run(secs(1));
            assert_eq!(data_times(&w, before), [999]);
        }
    }
}

/// Paper `overhead`: the rule of its simulator
#[test]
fn a_window_below_a_fixed_limit_is_not_used() {
    let below = SwsAvoidance::Below(3000);
    let (mut w, p, id) = to_puppet(64_000, |c| c.research.sender_sws_avoidance = below);
    for _ in 0..40 {
        w.send(0, id, 0, pattern(300));
    }
    p.receive(&mut w);
    let sent = w.stats(0, id).outstanding_chunks as u32;
    // The window left after what is outstanding counts: 2,999 bytes with one chunk of 300 outstanding.
    let released = p.sack(&mut w, p.endpoint_tsn(sent - 2), 3299, &[]);
    assert!(released.is_empty(), "{released:?}");
    let released = p.sack(&mut w, p.endpoint_tsn(sent - 2), 3300, &[]);
    assert!(!released.is_empty(), "3,000 bytes are left");
}

/// Paper `overhead`, section 4.4: the sender knows the memory of a chunk
#[test]
fn chunks_in_flight_take_their_memory_of_the_window() {
    let (mut w, p, id) = to_puppet(64_000, |c| c.research.peer_chunk_overhead = 200);
    for _ in 0..40 {
        w.send(0, id, 0, pattern(300));
    }
    p.receive(&mut w);
    let sent = w.stats(0, id).outstanding_chunks as u32;
    let released = p.sack(&mut w, p.endpoint_tsn(sent - 2), 4000, &[]);
    assert!(!released.is_empty());
    let stats = w.stats(0, id);
    assert_eq!(
        stats.peer_rwnd,
        4000 - stats.outstanding_chunks * (300 + 200)
    );
    assert!(stats.outstanding_chunks <= 8, "{stats:?}");
}

/// RFC 9260, section 6.1, rule A
#[test]
fn a_small_window_takes_all_remaining_data() {
    let (mut w, p, id) = to_puppet(6000, |c| {
        c.research.sender_sws_avoidance = SwsAvoidance::Packets
    });
    w.send(0, id, 0, pattern(4000));
    p.receive(&mut w);
    p.sack(&mut w, p.endpoint_tsn(2), 700, &[]);
    w.send(0, id, 0, pattern(300));
    assert_eq!(p.receive(&mut w).len(), 1, "not silly: nothing else waits");
}

/// RFC 9260, section 6.2.1, rule D ii
#[test]
fn a_shrinking_window_is_respected() {
    let (mut w, p, id) = to_puppet(100_000, |_| {});
    for _ in 0..30 {
        w.send(0, id, 0, pattern(1000));
    }
    p.receive(&mut w);
    // Less is announced than is on its way.
    assert!(p.sack(&mut w, p.endpoint_tsn(0), 100, &[]).is_empty());
    assert_eq!(w.stats(0, id).peer_rwnd, 0);
}

/// RFC 9260, section 6.2.1, rule D iii
#[test]
fn reneged_data_is_retransmitted() {
    let (mut w, p, id) = to_puppet(100_000, |_| {});
    for _ in 0..3 {
        w.send(0, id, 0, pattern(1000));
    }
    p.receive(&mut w);
    p.sack(&mut w, p.endpoint_tsn(0), 100_000, &[(2, 2)]);
    assert_eq!(w.stats(0, id).outstanding_bytes, 1000);
    // Chunk 2 was acknowledged in a gap block and is not any more; chunk 1 is.
    let released = p.sack(&mut w, p.endpoint_tsn(1), 100_000, &[]);
    assert!(released.is_empty(), "one missing report only");
    assert_eq!(w.stats(0, id).outstanding_bytes, 1000);
    assert_eq!(w.stats(0, id).counters.reneged, 1);
    // T3-rtx runs (R4 of section 6.3.2).
    w.run(secs(1));
    assert_eq!(p.numbers(&p.receive(&mut w)), [2]);
    p.sack(&mut w, p.endpoint_tsn(2), 100_000, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

/// A receiver that runs out of memory discards all that it has reported in gap blocks, twice.
///
/// RFC 9260, section 6.2.1
#[test]
fn a_reneged_window_is_retransmitted() {
    const CHUNKS: u32 = 90;
    let (mut w, p, id) = to_puppet(1 << 20, |c| c.transmission.nagle = false);
    for _ in 0..CHUNKS {
        w.send(0, id, 0, pattern(20));
    }
    p.receive(&mut w);
    let path = carrick_proto::PathId(0);
    w.change(0, id).set_heartbeat(path, false).unwrap();
    let before = p.endpoint_tsn(0).previous();
    for _ in 0..2 {
        p.sack(&mut w, before, 1 << 20, &[(2, CHUNKS as u16)]);
        assert_eq!(w.stats(0, id).outstanding_bytes, 20);
        p.sack(&mut w, before, 1 << 20, &[]);
        assert_eq!(w.stats(0, id).outstanding_bytes, 20 * CHUNKS as usize);
        w.run(secs(10));
        let again = p.numbers(&p.receive(&mut w));
        assert!(again.contains(&0));
    }
    let mut arrived = 0;
    while arrived < CHUNKS {
        w.run(secs(1));
        let mut again = p.receive(&mut w);
        again.extend(p.sack(&mut w, p.endpoint_tsn(arrived).previous(), 1 << 20, &[]));
        let highest = p.numbers(&again).into_iter().max();
        arrived = arrived.max(highest.map_or(0, |n| n + 1));
        assert!(
            w.now < carrick_proto::Time::from_millis(100_000),
            "data is still missing after 100 s"
        );
    }
    p.sack(&mut w, p.endpoint_tsn(arrived).previous(), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
    assert_eq!(w.stats(0, id).counters.reneged, 2 * u64::from(CHUNKS - 1));
}

/// RFC 9260, section 6.2.1, rule D iii
#[test]
fn reneged_data_needs_missing_reports() {
    let (mut w, p, id) = to_puppet(1_000_000, |_| {});
    for _ in 0..20 {
        w.send(0, id, 0, pattern(700));
    }
    p.receive(&mut w);
    // Chunk 1 is there in three SACKs that make three reports for chunk 0.
    for n in 2..=4 {
        p.sack(&mut w, p.endpoint_tsn(0), 1_000_000, &[(1, n)]);
    }
    assert_eq!(w.stats(0, id).counters.fast_retransmissions, 0);
    // The peer reneges on it: one report; two more follow.
    p.sack(&mut w, p.endpoint_tsn(0), 1_000_000, &[(2, 4)]);
    assert_eq!(w.stats(0, id).counters.reneged, 1);
    assert_eq!(w.stats(0, id).counters.fast_retransmissions, 0, "one");
    p.sack(&mut w, p.endpoint_tsn(0), 1_000_000, &[(2, 5)]);
    assert_eq!(w.stats(0, id).counters.fast_retransmissions, 0, "two");
    let released = p.sack(&mut w, p.endpoint_tsn(0), 1_000_000, &[(2, 6)]);
    assert_eq!(p.numbers(&released).first(), Some(&1), "three");
}
