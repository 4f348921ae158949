//! Messages larger than the window (section 6.9).

use std::time::Duration;

use carrick_proto::MessagePart;

use crate::common::*;
use crate::data::support::*;

/// Sends one message through a small window; the receiver reads at this interval.
fn through_a_small_window(w: &mut World, size: usize, every: Duration) {
    let (a, b) = w.connect();
    w.discard_log = true;
    let expected = pattern(size);
    w.send(0, a, 7, expected.clone());
    let mut got = 0;
    let mut parts = Vec::new();
    let began = w.now;
    while got < size {
        w.run(every);
        assert!(w.now - began < secs(3000), "stuck after {got} bytes");
        let held = w.stats(1, b).receive_buffer_bytes;
        assert!(held < 110_000, "{held} bytes in a buffer of 100,000");
        for part in w.receive(1, b) {
            assert_eq!(part.stream.0, 7);
            parts.push((part.part, part.tsn));
            let payload = part.payload.into_bytes();
            assert_eq!(payload, expected[got..got + payload.len()]);
            got += payload.len();
        }
    }
    assert_eq!(parts[0].0, MessagePart::First);
    assert_eq!(parts.last().unwrap().0, MessagePart::Last);
    let middle = &parts[1..parts.len() - 1];
    assert!(middle.iter().all(|p| p.0 == MessagePart::Middle));
    assert!(parts.iter().all(|p| p.1 == parts[0].1), "one TSN for all");
    // The stream continues.
    w.send(0, a, 7, pattern(10));
    w.run(secs(2));
    assert_eq!(w.receive_lengths(1, b), [10]);
    assert_eq!(w.stats(0, a).error_count, 0);
}

fn small_window() -> World {
    World::with(2, |_, c| c.association.buffers.receive_buffer = 100_000)
}

/// RFC 9260, section 6.9
#[test]
fn a_10_mb_message_passes_a_100_kb_window() {
    through_a_small_window(&mut small_window(), 10_000_000, ms(50));
}

/// RFC 9260, section 6.9
#[test]
fn partial_delivery_survives_losses() {
    let mut w = small_window();
    let mut n = 0;
    w.rule(move |p| {
        n += 1;
        let lost = p.time > carrick_proto::Time::from_millis(2100) && n % 37 == 0;
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    through_a_small_window(&mut w, 2_000_000, ms(50));
}

/// RFC 9260, section 6.9
#[test]
fn partial_delivery_waits_for_a_slow_reader() {
    through_a_small_window(&mut small_window(), 1_000_000, secs(5));
}

/// RFC 9260, section 6.2
#[test]
fn a_fragment_lost_at_a_full_buffer_is_repaired() {
    // The receiver counts more than the sender, so the buffer is full before the window is. A
    // retransmission that fills a gap may push out the highest fragments, not all of them.
    let mut w = World::with(2, |_, c| {
        c.local_addresses.truncate(1);
        c.association.buffers.receive_buffer = 100_000;
    });
    let (a, b) = w.connect();
    w.log.clear();
    // Warm the window up, so that the whole buffer is in flight at once.
    for _ in 0..40 {
        w.send(0, a, 0, pattern(20_000));
        w.run(ms(100));
        w.receive(1, b);
    }
    w.log.clear();
    w.lose_data(0, &[0]);
    w.send(0, a, 0, pattern(150_000));
    let mut got = 0;
    for _ in 0..100 {
        w.run(ms(100));
        let all = w.receive(1, b);
        got += all.iter().map(|m| m.payload.len()).sum::<usize>();
    }
    assert_eq!(got, 150_000);
    let chunks = 150_000 / FULL + 1;
    let sent = w.data_sent(0);
    assert!(
        sent < chunks + 25,
        "{sent} chunks sent for a message of {chunks}"
    );
}
