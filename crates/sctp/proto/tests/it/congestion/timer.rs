//! T3-rtx and the RTO (sections 6.3, 7.2.3).

use carrick_proto::{PathId, SendOptions};

use crate::common::*;
use crate::congestion::support::*;

/// RFC 9260, section 7.2.3
#[test]
fn a_timeout_leaves_one_packet_in_flight() {
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

/// RFC 9260, section 7.2.3
#[test]
fn one_small_packet_is_sent_after_a_timeout() {
    let mut f = Flow::with(|c| c.transmission.nagle = false);
    f.send(1, 100);
    f.send(1, FULL);
    f.send(10, 100);
    assert_eq!(f.run(secs(1)), [[0]], "the second does not fit");
    assert_eq!(f.path().flight_size, 116);
    assert!(f.send(5, 100).is_empty());
    assert_eq!(f.sack(1, &[])[0], [1]);
}

/// RFC 9260, section 6.3.3, rule E3
#[test]
fn the_earliest_chunks_share_one_retransmission() {
    let mut f = Flow::with(|c| c.transmission.nagle = false);
    for _ in 0..30 {
        f.send(1, 100);
    }
    let again = f.run(secs(1));
    let expected: Vec<u32> = (0..12).collect();
    assert_eq!(again, [expected], "12 chunks of 116 bytes");
}

/// RFC 9260, section 6.3.3, rule E2
#[test]
fn each_timeout_doubles_the_rto_up_to_rto_max() {
    let mut f = Flow::with(|c| {
        c.paths.association_max_retrans = 20;
        c.paths.path_max_retrans = 20;
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

/// RFC 9260, section 7.2.3
#[test]
fn a_timeout_in_fast_recovery_enters_slow_start() {
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

/// RFC 9260, section 6.3.2, rule R3
#[test]
fn t3_restarts_when_the_earliest_tsn_is_acknowledged() {
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

/// RFC 9260, section 6.3.2, rule R2
#[test]
fn t3_stops_when_all_data_is_acknowledged() {
    let mut f = Flow::new();
    f.send(3, FULL);
    f.sack(3, &[]);
    f.run(secs(600));
    assert_eq!(f.w.stats(0, f.id).counters.t3_expirations, 0);
}

/// RFC 9260, section 6.1
#[test]
fn sending_new_data_does_not_restart_t3() {
    let mut f = Flow::with(|c| c.transmission.nagle = false);
    f.send(1, 100);
    for _ in 0..9 {
        f.run(ms(100));
        f.send(1, 100);
    }
    assert_eq!(f.run(ms(100))[0][0], 0, "one RTO after the first");
}

/// RFC 9260, section 6.1
#[test]
fn retransmitting_the_earliest_chunk_restarts_t3() {
    let mut f = Flow::new();
    let (acked, _) = f.grow(16);
    f.run(ms(900));
    lose_one(&mut f, acked);
    assert_eq!(f.fast_retransmissions(), 1);
    assert!(f.run(ms(999)).is_empty());
    assert_eq!(f.run(ms(1))[0][0], acked);
}

/// RFC 9260, section 6.3.1, rule C5
#[test]
fn a_retransmitted_chunk_gives_no_rtt() {
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

/// RFC 9260, section 6.3.1, rule C5
#[test]
fn a_chunk_above_a_retransmitted_one_gives_no_rtt() {
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

/// RFC 9260, section 6.3.1, rule C4
#[test]
fn the_rtt_is_measured_once_per_round_trip() {
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

/// RFC 9260, section 6.3.2, rule R2
#[test]
fn a_refused_probe_leaves_no_timer() {
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
