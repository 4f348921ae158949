//! Tests of rate-based congestion control.

use alloc::boxed::Box;
use core::time::Duration;

use super::{
    Acknowledged, Algorithm, CongestionEvent, Controller, DeliverySample, Parameters, RateBased,
};
use crate::time::Time;

const PMDCS: usize = 1000;

/// A path with an RTT of 100 ms, one SACK for each round trip.
struct Flow {
    controller: Box<dyn Controller>,
    now: Time,
    delivered: u64,
}

impl Flow {
    fn new() -> Self {
        let controller = RateBased.start(Parameters {
            pmdcs: PMDCS,
            ipv6: false,
            slow_start_limit: 1,
        });
        Self {
            controller,
            now: Time::ZERO,
            delivered: 0,
        }
    }

    /// A round trip with this delivery rate, in packets per second.
    fn round(&mut self, packets: u64, app_limited: bool) {
        let rtt = Duration::from_millis(100);
        let bytes = packets as usize * PMDCS / 10;
        let prior_delivered = self.delivered;
        self.delivered += bytes as u64;
        self.now += rtt;
        self.controller.on_ack(&Acknowledged {
            bytes,
            flight_before: bytes,
            now: self.now,
            delivery: Some(DeliverySample {
                newly_acknowledged: bytes,
                total_delivered: self.delivered,
                prior_delivered,
                delivered: bytes as u64,
                interval: rtt,
                rate: Some(packets * PMDCS as u64),
                app_limited,
                flight_at_departure: bytes,
                lost: 0,
                rtt: Some(rtt),
            }),
            ..Acknowledged::default()
        });
    }

    /// A flow that has left start-up at 1000 packets per second.
    fn steady() -> Self {
        let mut flow = Self::new();
        (0..8).for_each(|n| flow.round((100 << n).min(1000), false));
        flow
    }

    /// Pacing rate in packets per second.
    fn pacing(&self) -> u64 {
        self.controller.pacing_rate().unwrap() / PMDCS as u64
    }

    /// Lowest and highest pacing rate of eight round trips.
    fn cycle(&mut self, packets: u64) -> (u64, u64) {
        let rates = [0; 8].map(|_| {
            self.round(packets, false);
            self.pacing()
        });
        let lowest = rates.into_iter().min().unwrap_or_default();
        (lowest, rates.into_iter().max().unwrap_or_default())
    }
}

#[test]
fn start_up_ends_when_the_rate_stops_growing() {
    let mut flow = Flow::new();
    assert_eq!(flow.controller.pacing_rate(), None);
    for packets in [100, 200, 400, 800, 1000] {
        flow.round(packets, false);
        assert_eq!(flow.pacing(), packets * 289 / 100);
    }
    (0..3).for_each(|_| flow.round(1000, false));
    // The drain ends at once with one bandwidth-delay product in flight.
    assert_eq!(flow.cycle(1000), (750, 1250));
    assert_eq!(flow.controller.window(), 200 * PMDCS, "twice the product");
}

#[test]
fn an_app_limited_rate_does_not_lower_the_estimate() {
    let mut flow = Flow::steady();
    let window = flow.controller.window();
    let pacing = flow.pacing();
    (0..50).for_each(|_| flow.round(10, true));
    assert_eq!((flow.pacing(), flow.controller.window()), (pacing, window));
    flow.round(2000, true);
    assert_eq!(flow.pacing(), 2 * pacing, "a higher one raises it");
}

#[test]
fn the_estimate_follows_a_falling_delivery_rate() {
    let mut flow = Flow::steady();
    (0..16).for_each(|_| flow.round(500, false));
    assert_eq!(flow.cycle(500), (375, 625));
}

/// RFC 9260, section 7.2.3; RFC 8511
#[test]
fn timeouts_and_marks_reduce_the_rate_losses_do_not() {
    let mut flow = Flow::steady();
    let (rate, window) = (flow.pacing(), flow.controller.window());
    flow.controller.on_congestion(CongestionEvent::Loss);
    assert_eq!((flow.pacing(), flow.controller.window()), (rate, window));
    flow.controller.on_congestion(CongestionEvent::Ecn);
    assert_eq!(flow.pacing(), 850 * 35 / 100, "drains the queue");
    flow.controller.on_undo();
    flow.round(1000, false);
    let (rate, window) = (flow.pacing(), flow.controller.window());
    flow.controller.on_congestion(CongestionEvent::Timeout);
    assert_eq!((flow.pacing(), flow.controller.window()), (rate / 2, PMDCS));
    flow.controller.on_undo();
    assert_eq!((flow.pacing(), flow.controller.window()), (rate, window));
}

/// RFC 9260, section 7.2.1
#[test]
fn an_idle_path_halves_its_window() {
    let mut flow = Flow::steady();
    let window = flow.controller.window();
    flow.controller.on_idle(1);
    assert_eq!(flow.controller.window(), window / 2);
    flow.controller.on_idle(64);
    assert_eq!(flow.controller.window(), 4 * PMDCS);
    flow.controller.reset();
    assert_eq!(flow.controller.pacing_rate(), None);
    assert_eq!(flow.controller.window(), 4000);
}
