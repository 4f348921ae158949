//! Pacing of packets with DATA, in virtual time.

use std::sync::Arc;

use carrick_proto::cc::{
    Acknowledged, Algorithm, CongestionEvent, Controller, PacketSent, Parameters, RateBased,
};
use carrick_proto::research::Multipath;
use carrick_proto::{AssociationConfig, Time};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::congestion::support::*;

/// Two packets of DATA each millisecond: 40 in an RTT of 20 ms. The window leaves room for delayed SACKs.
const FIXED: FixedRate = FixedRate {
    rate: 2 * PMDCS as u64 * 1000,
    window: 60 * PMDCS,
    queued: 0,
};
/// Two packets each 2.9 s.
const SLOW: FixedRate = FixedRate {
    rate: 1000,
    ..FIXED
};

/// Window and pacing rate that never change.
#[derive(Clone, Copy, Debug)]
struct FixedRate {
    rate: u64,
    window: usize,
    /// Bytes for which data is queued all the time.
    queued: u64,
}

impl Algorithm for FixedRate {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn is_rate_based(&self) -> bool {
        true
    }

    fn start(&self, _: Parameters) -> Box<dyn Controller> {
        Box::new(*self)
    }
}

impl Controller for FixedRate {
    fn window(&self) -> usize {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.rate)
    }

    fn on_sent(&mut self, sent: &PacketSent) {
        assert!(sent.flight_before < self.window && sent.bytes <= PMDCS);
    }

    fn on_ack(&mut self, acknowledged: &Acknowledged) {
        let sample = acknowledged.delivery.expect("it is rate-based");
        assert_eq!(sample.newly_acknowledged, acknowledged.bytes);
        assert!(sample.delivered >= sample.newly_acknowledged as u64);
        // What a fixed delay delivers is what leaves: no more than the rate and two quanta.
        let most = self.rate as f64 * sample.interval.as_secs_f64() + 4.0 * PMDCS as f64;
        assert!(sample.delivered as f64 <= most, "{sample:?}");
        let is_queued = (1..self.queued).contains(&sample.prior_delivered);
        assert!(!(is_queued && sample.app_limited), "{sample:?}");
    }

    fn on_congestion(&mut self, _: CongestionEvent) {}
    fn on_idle(&mut self, _: u32) {}
    fn set_pmdcs(&mut self, _: usize) {}
    fn reset(&mut self) {}
}

/// Departures of packets with DATA to an address.
fn departures(w: &World, to: std::net::IpAddr) -> Vec<Time> {
    let data = w.log.iter().filter(|p| p.has(ChunkType::DATA));
    data.filter(|p| p.to() == to).map(|p| p.time).collect()
}

/// Asserts that no more than two packets leave in any millisecond, and that none leaves late.
fn assert_paced(departures: &[Time]) {
    for three in departures.windows(3) {
        assert!(three[2].since(three[0]) >= ms(1), "{three:?}");
        assert!(three[1].since(three[0]) <= ms(1), "{three:?}");
    }
}

/// Two endpoints with this number of addresses each, and with buffers that are no limit.
fn paced(paths: usize) -> World {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(paths);
        config.association.buffers.receive_buffer = 1 << 24;
    });
    w.config.research.policies.congestion = Arc::new(FIXED);
    w.config.buffers.send_buffer = 1 << 24;
    w
}

fn send_all(w: &mut World, messages: usize) {
    let (a, b) = w.connect();
    for _ in 0..messages {
        w.send(0, a, 0, pattern(FULL));
    }
    w.run(secs(5));
    assert_eq!(w.receive_lengths(1, b), vec![FULL; messages]);
}

#[test]
fn a_window_is_spread_over_a_round_trip() {
    let mut w = paced(1);
    send_all(&mut w, 200);
    let departures = departures(&w, addresses(1)[0]);
    assert_eq!(departures.len(), 200);
    // The first quantum is bundled with COOKIE ECHO or leaves behind it.
    assert_paced(&departures);
    let round_trip = departures[100]..departures[100] + ms(20);
    let sent = departures.iter().filter(|at| round_trip.contains(at));
    assert_eq!(sent.count(), 40, "the whole window");
}

/// draft-ietf-ccwg-bbr-06, section 4.1.2.4
#[test]
fn the_peers_window_is_no_limit_by_the_user() {
    for multipath in [Multipath::default(), Multipath::concurrent()] {
        let mut w = World::with(2, |_, config| {
            config.local_addresses.truncate(1);
            // A third of what leaves in a round trip.
            config.association.buffers.receive_buffer = 15 * PMDCS;
            config.association.buffers.max_receive_buffer = None;
        });
        w.config.research.policies.multipath = multipath;
        w.config.research.policies.congestion = Arc::new(FixedRate {
            queued: 150 * PMDCS as u64,
            ..FIXED
        });
        w.config.buffers.send_buffer = 1 << 24;
        let (a, b) = w.connect();
        for _ in 0..200 {
            w.send(0, a, 0, pattern(FULL));
        }
        let mut received = 0;
        for _ in 0..400 {
            w.run(ms(1));
            received += w.receive_lengths(1, b).len();
        }
        assert_eq!(received, 200);
        let last = departures(&w, addresses(1)[0])[199];
        assert!(
            last >= Time::from_millis(200),
            "the window limits: {last:?}"
        );
    }
}

#[test]
fn two_paced_paths_are_independent() {
    let mut w = paced(2);
    w.config.research.policies.multipath = Multipath::concurrent();
    let (a, b) = w.connect();
    w.run(secs(3));
    assert!(w.path(0, a, 1).status.confirmed);
    for _ in 0..200 {
        w.send(0, a, 0, pattern(FULL));
    }
    w.run(secs(5));
    assert_eq!(w.receive_lengths(1, b), vec![FULL; 200]);
    for to in addresses(1) {
        let departures = departures(&w, to);
        assert_eq!(departures.len(), 100, "half of the packets");
        assert_paced(&departures);
        let last = departures[99].since(departures[0]);
        assert!(last <= ms(50), "at the full rate: {last:?}");
    }
}

#[test]
fn the_departure_is_part_of_the_timeout() {
    let mut f = Flow::with(|c| c.research.policies.congestion = Arc::new(SLOW));
    assert_eq!(f.send(10, FULL), [[0], [1]], "a quantum");
    let start = f.w.now;
    f.sack(2, &[]);
    assert_eq!(f.path().flight_size, 0, "T3-rtx does not run");
    let departure = start + ms(2936);
    while f.w.now < departure {
        let next = f.w.ends[0].poll_timeout().expect("a departure");
        assert!(next <= departure, "{next:?}");
        assert!(f.receive().is_empty());
        f.w.run(next.since(f.w.now));
    }
    assert_eq!(f.receive(), [[2], [3]]);
}

/// RFC 9260, sections 6.2 and 8.3
#[test]
fn sacks_and_control_chunks_are_not_paced() {
    let mut f = Flow::with(|c| c.research.policies.congestion = Arc::new(SLOW));
    assert_eq!(f.send(10, FULL).len(), 2);
    f.sack(2, &[]);
    let answers = f.p.send(&mut f.w, |p| p.heartbeat(b"at once"));
    assert!(answers.iter().any(|p| p.has(ChunkType::HEARTBEAT_ACK)));
    let mut answers = f.p.data(&mut f.w, 0, 0, b"one");
    answers.extend(f.p.data(&mut f.w, 0, 1, b"two"));
    assert!(answers.iter().any(|p| p.has(ChunkType::SACK)));
    assert!(!answers.iter().any(|p| p.has(ChunkType::DATA)));
}

/// RFC 9260, section 6.3.3, rule E3
#[test]
fn a_retransmission_after_t3_is_not_paced() {
    let mut f = Flow::with(|c| c.research.policies.congestion = Arc::new(SLOW));
    assert_eq!(f.send(10, FULL), [[0], [1]]);
    assert_eq!(
        f.run(secs(1)),
        [[0]],
        "a paced packet would leave after 2.9 s"
    );
}

/// RFC 9260, section 7.2.4, step 3
#[test]
fn the_first_fast_retransmission_is_not_paced() {
    // Two packets each 100 ms.
    const RATE: FixedRate = FixedRate {
        rate: 20 * PMDCS as u64,
        ..SLOW
    };
    let mut f = Flow::with(|c| c.research.policies.congestion = Arc::new(RATE));
    assert_eq!(f.send(40, FULL).len(), 2);
    assert_eq!(f.run(ms(250)).len(), 4);
    assert_eq!(lose_one(&mut f, 0), [[0]]);
}

/// RFC 9260, section 7.2.3
#[test]
fn t3_expiry_halves_the_rate_and_closes_the_window() {
    let mut f = Flow::with(|c| c.research.policies.congestion = Arc::new(RateBased));
    assert_eq!(f.path().pacing_rate, None, "no sample yet");
    let mut sent = f.send(200, FULL).len() as u32;
    for _ in 0..6 {
        f.w.run(ms(20));
        sent += f.receive().len() as u32;
        sent += f.sack(sent, &[]).len() as u32;
    }
    f.run(ms(20));
    let (rate, cwnd) = (f.path().pacing_rate.expect("samples"), f.path().cwnd);
    assert!(cwnd > 10 * PMDCS, "{cwnd}");
    f.run(secs(1));
    let after = f.path().pacing_rate.expect("it is still known");
    assert!(after.abs_diff(rate / 2) <= rate / 50, "{rate} {after}");
    assert_eq!(f.path().cwnd, PMDCS);
}

/// RFC 9260, section 6.1
#[test]
fn other_controllers_are_not_paced() {
    let mut w = World::pair([AssociationConfig::rfc9260(), AssociationConfig::rfc9260()]);
    send_all(&mut w, 60);
    let id = w.association(0);
    assert_eq!(w.path(0, id, 0).pacing_rate, None);
    let departures = departures(&w, addresses(1)[0]);
    let burst = departures.windows(4).any(|four| four[0] == four[3]);
    assert!(burst, "a SACK releases several packets at once");
}
