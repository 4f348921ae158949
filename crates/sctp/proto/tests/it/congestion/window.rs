//! Growth of the congestion window, and the packets that it permits (sections 6.1, 7.2.1, 7.2.2).

use crate::common::*;
use crate::congestion::support::*;

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

/// RFC 9260, section 7.2.1
#[test]
fn the_initial_cwnd_depends_on_mtu_and_family() {
    for (v6, mtu, cwnd) in [
        (false, 1500, 4404),
        (false, 576, 4 * 544),
        (false, 9000, 2 * 8968),
        (true, 1500, 4344),
        (true, 1280, 4344),
    ] {
        let own = if v6 { ip("fd00::1") } else { addresses(0)[0] };
        let mut w = World::with(1, |_, config| config.local_addresses = vec![own]);
        w.config.mtu.path_mtu = mtu;
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
        let packets = p.receive(&mut w).len();
        let pmdcs = mtu - if v6 { 52 } else { 32 };
        assert_eq!(packets, cwnd.div_ceil(pmdcs), "IPv6 {v6}, MTU {mtu}");
    }
}

/// RFC 9260, section 7.2.1
#[test]
fn slow_start_adds_at_most_one_pmdcs_per_sack() {
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

    let mut f = Flow::with(|c| c.transmission.nagle = false);
    f.send(1, 84);
    f.send(20, FULL);
    f.sack(1, &[]);
    assert_eq!(f.path().cwnd, 4404 + 100, "only what was acknowledged");
}

/// RFC 9260, section 7.2.1
#[test]
fn slow_start_may_add_l_times_pmdcs() {
    let mut f = Flow::with(|c| c.transmission.slow_start_limit = 2);
    f.send(20, FULL);
    f.sack(3, &[]);
    assert_eq!(f.path().cwnd, 4404 + 2 * PMDCS);
}

/// RFC 9260, section 7.2.1
#[test]
fn an_unused_cwnd_does_not_grow() {
    let mut f = Flow::new();
    for n in 0..20 {
        assert_eq!(f.send(2, FULL).len(), 2);
        f.sack(2 * n + 2, &[]);
    }
    assert_eq!(f.path().cwnd, 4404);
}

/// RFC 9260, section 7.2.1
#[test]
fn slow_start_doubles_with_any_message_size() {
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

/// RFC 9260, section 7.2.1
#[test]
fn an_idle_cwnd_halves_each_rto_to_four_packets() {
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

/// RFC 9260, section 7.2.1
#[test]
fn idleness_never_raises_the_cwnd() {
    let mut f = Flow::new();
    f.send(3, FULL);
    f.run(ms(1000));
    f.sack(3, &[]);
    assert_eq!(f.path().cwnd, 2 * PMDCS);
    f.run(secs(100));
    f.send(1, FULL);
    assert_eq!(f.path().cwnd, 2 * PMDCS);
}

/// RFC 9260, section 6.1, rule B
#[test]
fn one_packet_may_exceed_the_cwnd() {
    // Four chunks of 1016 bytes leave 340 of 4404: a fifth may go, a sixth may not.
    let mut f = Flow::new();
    assert_eq!(f.send(20, 1000).len(), 5);
    assert_eq!(f.path().flight_size, 5 * 1016);
    assert!(f.path().flight_size < f.path().cwnd + PMDCS);

    let mut f = Flow::new();
    assert_eq!(f.send(20, FULL).len(), 3, "a full window is not exceeded");
}

/// RFC 9260, section 7.2
#[test]
fn headers_and_padding_count_against_the_cwnd() {
    let mut f = Flow::with(|c| c.transmission.nagle = false);
    f.send(1000, 1);
    // 20 bytes each; the last packet may exceed the window.
    let flight = f.path().flight_size;
    assert_eq!(flight % 20, 0);
    assert!((4404..4404 + PMDCS).contains(&flight), "{flight}");
    assert_eq!(f.w.stats(0, f.id).outstanding_bytes, flight / 20);
}

/// RFC 9260, section 6.1, rule D
#[test]
fn a_burst_has_at_most_max_burst_packets() {
    for max_burst in [3, 4, 7] {
        let mut f = Flow::with(|c| c.transmission.max_burst = max_burst);
        let mut sent = f.send(400, FULL).len() as u32;
        let mut acked = 0;
        while f.path().cwnd < 40 * PMDCS {
            acked = (acked + 2).min(sent);
            let released = f.sack(acked, &[]).len() as u32;
            assert!(released <= max_burst, "{released} packets");
            sent += released;
        }
        // The window is open wide, and nothing is in flight.
        let mut f = Flow::with(|c| c.transmission.max_burst = max_burst);
        f.grow_and_drain(20);
        f.run(ms(1));
        assert_eq!(f.send(100, FULL).len(), max_burst as usize);
        assert!(f.path().cwnd > 10 * PMDCS, "cwnd itself is not changed");
    }
}

/// RFC 9260, section 7.2.2
#[test]
fn congestion_avoidance_adds_one_pmdcs_per_rtt() {
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

/// RFC 9260, section 7.2.2
#[test]
fn partial_bytes_acked_resets_when_all_is_acked() {
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

/// RFC 9260, section 6.1, rule A
#[test]
fn a_cwnd_used_only_by_window_probes_decays() {
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
