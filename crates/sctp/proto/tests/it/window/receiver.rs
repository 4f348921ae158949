//! The receiver stays within its buffer and advertises the remaining window (section 6.2).

use carrick_proto::research::WindowAnnouncement;
use carrick_proto::{AssociationConfig, AssociationId, AssociationStats, Event};
use carrick_wire::{ChunkType, Tsn};

use crate::common::*;
use crate::window::support::*;

/// The windows in the SACKs of an endpoint.
fn windows(w: &World, end: usize) -> Vec<u32> {
    let sacks = w.sent(end, ChunkType::SACK);
    sacks.iter().map(|p| p.sack().unwrap().a_rwnd).collect()
}

/// A puppet sends to endpoint 0, which has this configuration.
fn from_puppet(change: impl FnOnce(&mut AssociationConfig)) -> (World, Puppet, AssociationId) {
    let mut change = Some(change);
    let mut w = World::with(1, |_, config| {
        config.local_addresses.truncate(1);
        config.association.paths.heartbeat = false;
        if let Some(change) = change.take() {
            change(&mut config.association);
        }
    });
    let (p, id) = Puppet::new().connect(&mut w);
    (w, p, id)
}

// ---- The receiver: section 6.2 ----

/// Returns whether the advertised window and the data held fill the buffer, or the window is small.
fn truthful(stats: &AssociationStats, window: u32, buffer: usize) -> bool {
    window <= 1 || window as usize + stats.receive_buffer_bytes == buffer
}

/// RFC 9260, section 6.2, rule B
#[test]
fn the_window_counts_overhead_of_small_messages() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.buffers.receive_buffer = 100_000;
        c.research.policies.window_announcement = WindowAnnouncement::True;
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

/// RFC 9260, section 6.2
#[test]
fn small_messages_stay_within_the_receive_buffer() {
    let (mut w, mut p, id) = from_puppet(|c| c.buffers.receive_buffer = 50_000);
    w.discard_log = true;
    for n in 0..5000_u32 {
        // Regardless of the advertised window, in order and out of order.
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

/// RFC 9260, section 6.2
#[test]
fn the_number_of_chunks_is_bounded() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.buffers.receive_buffer_chunks = 100;
        c.buffers.message_overhead = 0;
    });
    for n in 0..500 {
        p.data(&mut w, 0, n, b"x");
    }
    let stats = w.stats(0, id);
    assert_eq!((stats.receive_buffer_bytes, stats.a_rwnd), (100, 0));
    assert_eq!(stats.counters.dropped_for_buffer, 400);
    assert_eq!(w.receive(0, id).len(), 100);
}

/// RFC 9260, section 6.2
#[test]
fn a_full_receiver_drops_new_data_and_sacks_at_once() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.buffers.receive_buffer = 4000;
        c.buffers.message_overhead = 0;
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

/// Paper `overhead`, section 4.2: an application that does not read, and a missing first TSN
#[test]
fn as_many_chunks_are_accepted_behind_a_gap() {
    for size in [20, 100, 1000, 1400] {
        let accepted = [false, true].map(|gap| {
            let (mut w, mut p, id) = from_puppet(|c| {
                c.buffers.receive_buffer = 65_535;
                c.buffers.message_overhead = 128;
            });
            if gap {
                p.tsn = p.tsn.next();
            }
            for n in 0..600 {
                p.data(&mut w, 0, n + u16::from(gap), &pattern(size));
            }
            let stats = w.stats(0, id);
            assert_eq!(stats.a_rwnd, 0, "{size}");
            stats.counters.data_chunks_received
        });
        // A chunk is accepted while any memory is left.
        let expected = 65_535 / (size as u64 + 128) + 1;
        assert_eq!(accepted, [expected; 2], "{size}");
    }
}

/// RFC 9260, section 6.2
#[test]
fn a_full_receiver_prefers_data_that_fills_a_gap() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.buffers.receive_buffer = 4000;
        c.buffers.message_overhead = 0;
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
    assert_eq!(
        sack.gap_ack_blocks().count(),
        0,
        "the highest TSN was dropped"
    );
    assert!(sack.a_rwnd <= 1, "{}", sack.a_rwnd);
    assert_eq!(w.receive_lengths(0, id), [900, 1000, 1000, 1000]);
    // It is taken when it comes again.
    let mut again = p.clone();
    again.tsn = first.plus(4);
    again.data(&mut w, 0, 4, &pattern(1000));
    assert_eq!(w.receive_lengths(0, id), [1000]);
}

/// RFC 9260, section 6.2
#[test]
fn cumulatively_acknowledged_data_is_never_dropped() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.buffers.receive_buffer = 4000;
        c.buffers.message_overhead = 0;
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

/// RFC 9260, section 6.2
#[test]
fn no_silly_window_is_advertised() {
    let (mut w, mut p, id) = from_puppet(|c| c.buffers.receive_buffer = 20_000);
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

/// RFC 9260, section 6.2
#[test]
fn window_updates_follow_each_quarter_of_the_buffer() {
    let (mut w, mut p, id) = from_puppet(|c| {
        c.buffers.receive_buffer = 100_000;
        c.buffers.message_overhead = 0;
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

/// RFC 9260, section 6.2
#[test]
fn the_window_reopens_and_all_data_arrives() {
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

/// RFC 9260, section 6.1, rule A
#[test]
fn a_user_idle_for_a_day_loses_nothing() {
    for size in [1, 10, 100, 1000] {
        let (mut w, a, b) = pair(20_000);
        w.discard_log = true;
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
