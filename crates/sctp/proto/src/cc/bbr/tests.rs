//! Tests of BBR, one SACK for each round trip.

use core::time::Duration;

use super::model::{Bounds, flight_at_loss, is_too_high};
use super::{Bbr, BbrController, Phase};
use crate::cc::{
    Acknowledged, Algorithm, CongestionEvent, Controller, DeliverySample, PacketLost, PacketSent,
    Parameters,
};
use crate::time::Time;

const PMDCS: usize = 1000;
const RTT: Duration = Duration::from_millis(100);
/// Packets in an RTT at the rate of the link.
const PRODUCT: usize = 100;

const PARAMETERS: Parameters = Parameters {
    pmdcs: PMDCS,
    ipv6: false,
    slow_start_limit: 1,
};

/// Report of a SACK on a round trip.
#[derive(Clone, Copy)]
struct Round {
    /// Packets delivered in an RTT.
    packets: usize,
    /// Packets in flight after the SACK.
    flight: usize,
    /// Packets lost since the newest acknowledged packet left.
    lost: usize,
    app_limited: bool,
    window_limited: bool,
    repairing: bool,
    rtt: Duration,
}

impl Default for Round {
    fn default() -> Self {
        Self {
            packets: PRODUCT,
            flight: PRODUCT,
            lost: 0,
            app_limited: false,
            window_limited: false,
            repairing: false,
            rtt: RTT,
        }
    }
}

struct Flow {
    bbr: BbrController,
    now: Time,
    delivered: u64,
    lost: u64,
}

impl Flow {
    fn new() -> Self {
        Self {
            bbr: BbrController::new(PARAMETERS),
            now: Time::ZERO,
            delivered: 0,
            lost: 0,
        }
    }

    fn round(&mut self, round: Round) {
        let bytes = round.packets * PMDCS;
        let prior_delivered = self.delivered;
        self.delivered += bytes as u64;
        self.now += RTT;
        self.bbr.on_ack(&Acknowledged {
            bytes,
            flight_before: bytes,
            flight: round.flight * PMDCS,
            now: self.now,
            window_limited: round.window_limited,
            repairing: round.repairing,
            delivery: Some(DeliverySample {
                newly_acknowledged: bytes,
                total_delivered: self.delivered,
                prior_delivered,
                delivered: bytes as u64,
                interval: RTT,
                rate: Some(10 * bytes as u64),
                app_limited: round.app_limited,
                flight_at_departure: round.flight * PMDCS,
                lost: (round.lost * PMDCS) as u64,
                rtt: Some(round.rtt),
            }),
            ..Acknowledged::default()
        });
    }

    /// Rounds at the rate of the link until this phase; fails after 100.
    fn until(&mut self, phase: Phase) {
        for _ in 0..100 {
            let flight = match self.bbr.phase {
                present if present == phase => return,
                Phase::ProbeRtt => PRODUCT / 2,
                _ => PRODUCT,
            };
            self.round(Round {
                flight,
                ..Round::default()
            });
        }
        panic!("{:?} instead of {phase:?}", self.bbr.phase);
    }

    /// A flow that has found the rate of the link.
    fn steady() -> Self {
        let mut flow = Self::new();
        for packets in [10, 20, 40, 80] {
            flow.round(Round {
                packets,
                ..Round::default()
            });
        }
        flow.until(Phase::ProbeCruise);
        flow
    }

    /// Packets that are found lost, of which this number was in flight.
    fn lose(&mut self, packets: usize, flight: usize) {
        for n in 1..=packets {
            self.lost += PMDCS as u64;
            self.bbr.on_lost(&PacketLost {
                now: self.now,
                bytes: PMDCS,
                flight_at_departure: flight * PMDCS,
                lost: (n * PMDCS) as u64,
                app_limited: false,
                adjacent: false,
            });
        }
        self.bbr.on_congestion(CongestionEvent::Loss);
    }

    /// Pacing rate in percent of the link's, rounded.
    fn pacing(&self) -> u64 {
        let rate = self.bbr.pacing_rate().expect("samples");
        (rate * 100 + 500_000) / 1_000_000
    }

    fn window(&self) -> usize {
        self.bbr.window() / PMDCS
    }
}

/// draft-ietf-ccwg-bbr-06, section 5.3.1.2
#[test]
fn start_up_ends_when_the_rate_stops_growing() {
    let mut flow = Flow::new();
    assert_eq!((flow.bbr.pacing_rate(), flow.bbr.window()), (None, 4000));
    for packets in [10, 20, 40, 80, 100] {
        flow.round(Round {
            packets,
            flight: 2 * packets,
            ..Round::default()
        });
        assert_eq!(flow.bbr.phase, Phase::Startup);
        assert_eq!(flow.pacing(), (packets as u64 * 277 * 99 + 5000) / 10_000);
    }
    let queued = Round {
        flight: 200,
        ..Round::default()
    };
    for _ in 0..2 {
        flow.round(queued);
        assert_eq!(flow.bbr.phase, Phase::Startup);
    }
    flow.round(queued);
    assert_eq!((flow.bbr.phase, flow.pacing()), (Phase::Drain, 50));
    assert_eq!(
        flow.window(),
        200 + flow.bbr.model.extra_acknowledged() / PMDCS
    );
    flow.round(queued);
    assert_eq!(flow.bbr.phase, Phase::Drain);
    flow.round(Round::default());
    assert_eq!(flow.bbr.phase, Phase::ProbeCruise, "the queue is empty");
}

/// draft-ietf-ccwg-bbr-06, section 5.3.1.2
#[test]
fn app_limited_rounds_do_not_end_start_up() {
    let mut flow = Flow::new();
    for _ in 0..20 {
        flow.round(Round {
            packets: 10,
            app_limited: true,
            ..Round::default()
        });
    }
    assert_eq!(flow.bbr.phase, Phase::Startup);
}

/// draft-ietf-ccwg-bbr-06, section 5.3.1.3
#[test]
fn start_up_ends_with_many_losses() {
    for (ranges, ends) in [(5, false), (6, true)] {
        let mut flow = Flow::new();
        for packets in [10, 20, 40] {
            flow.round(Round {
                packets,
                ..Round::default()
            });
        }
        flow.lose(ranges, 100);
        flow.round(Round {
            packets: 60,
            lost: ranges,
            repairing: true,
            ..Round::default()
        });
        assert_eq!(flow.bbr.full_pipe.reached, ends, "{ranges}");
        let bound = flow.bbr.model.bounds.longterm_flight;
        assert_eq!(bound, if ends { 60 * PMDCS } else { usize::MAX });
    }
}

/// draft-ietf-ccwg-bbr-06, sections 5.3.3 and 5.6.1
#[test]
fn the_cycle_probes_and_drains() {
    let mut flow = Flow::steady();
    assert_eq!(flow.pacing(), 99);
    let since = flow.now;
    flow.until(Phase::ProbeRefill);
    let waited = flow.now.since(since);
    assert!((1900..=3200).contains(&waited.as_millis()), "{waited:?}");
    assert_eq!(flow.pacing(), 99);
    flow.round(Round::default());
    assert_eq!((flow.bbr.phase, flow.pacing()), (Phase::ProbeUp, 124));
    assert!(flow.window() > 225, "{}", flow.window());
    // Three round trips without growth.
    for _ in 0..2 {
        flow.round(Round {
            flight: 125,
            ..Round::default()
        });
        assert_eq!(flow.bbr.phase, Phase::ProbeUp);
    }
    flow.round(Round {
        flight: 125,
        ..Round::default()
    });
    assert_eq!((flow.bbr.phase, flow.pacing()), (Phase::ProbeDown, 89));
    flow.round(Round {
        flight: 110,
        ..Round::default()
    });
    assert_eq!(flow.bbr.phase, Phase::ProbeDown, "a queue is left");
    flow.round(Round::default());
    assert_eq!(flow.bbr.phase, Phase::ProbeCruise);
}

/// draft-ietf-ccwg-bbr-06, section 5.5.3
#[test]
fn a_probe_finds_more_bandwidth() {
    let mut flow = Flow::steady();
    flow.until(Phase::ProbeUp);
    for packets in [125, 156, 195] {
        flow.round(Round {
            packets,
            ..Round::default()
        });
        assert_eq!(flow.bbr.phase, Phase::ProbeUp, "the rate grows");
    }
    assert_eq!(flow.pacing(), 195 * 124 / 100);
}

/// draft-ietf-ccwg-bbr-06, section 5.5.6
#[test]
fn a_lower_rate_counts_after_two_cycles() {
    let mut flow = Flow::steady();
    let halved = |packets| Round {
        packets,
        flight: packets,
        ..Round::default()
    };
    let mut cycles = 0;
    let mut before = flow.bbr.phase;
    for _ in 0..200 {
        flow.round(halved(50));
        cycles += u32::from(before != Phase::ProbeUp && flow.bbr.phase == Phase::ProbeUp);
        before = flow.bbr.phase;
        if flow.bbr.model.highest_rate() == 500_000 {
            break;
        }
        assert_eq!(flow.bbr.model.highest_rate(), 1_000_000);
    }
    assert_eq!(flow.bbr.model.highest_rate(), 500_000);
    assert!((1..=2).contains(&cycles), "{cycles}");
}

/// draft-ietf-ccwg-bbr-06, section 5.5.10.3
#[test]
fn losses_lower_short_term_bounds_until_a_probe() {
    let mut flow = Flow::steady();
    flow.round(Round::default());
    flow.lose(1, PRODUCT);
    let delivers_less = Round {
        packets: 90,
        repairing: true,
        ..Round::default()
    };
    // The round trip that ends with what was sent before the loss; its rate is the highest.
    flow.round(delivers_less);
    assert_eq!(flow.bbr.model.bounds.shortterm_rate, 1_000_000);
    flow.lose(1, PRODUCT);
    flow.round(delivers_less);
    assert_eq!(flow.bbr.model.bounds.shortterm_rate, 909_090);
    assert_eq!(flow.pacing(), 90);
    // No more than 30 % in a round trip.
    flow.lose(1, PRODUCT);
    for _ in 0..2 {
        flow.round(Round {
            packets: 10,
            repairing: true,
            ..Round::default()
        });
    }
    assert_eq!(flow.bbr.model.bounds.shortterm_rate, 909_090);
    flow.lose(1, PRODUCT);
    flow.round(Round {
        packets: 10,
        repairing: true,
        ..Round::default()
    });
    assert_eq!(flow.bbr.model.bounds.shortterm_rate, 636_363);
    assert_eq!(flow.bbr.model.bounds.longterm_flight, usize::MAX);
    flow.until(Phase::ProbeRefill);
    assert_eq!(flow.bbr.model.bounds.shortterm_rate, u64::MAX);
    assert_eq!(flow.pacing(), 99);
}

/// The draft paces 1 % below the rate, section 2.5.
#[test]
fn random_losses_do_not_lower_the_bounds() {
    let mut flow = Flow::steady();
    flow.round(Round::default());
    for _ in 0..10 {
        flow.lose(1, PRODUCT);
        flow.round(Round {
            packets: 99,
            repairing: true,
            ..Round::default()
        });
    }
    assert_eq!(flow.bbr.model.bounds.shortterm_rate, 1_000_000);
}

/// A flow whose probe for bandwidth has ended.
fn after_a_probe() -> Flow {
    let mut flow = Flow::steady();
    flow.until(Phase::ProbeUp);
    flow.until(Phase::ProbeDown);
    flow
}

/// A round trip that finds losses and leaves a queue.
fn lossy(packets: usize, lost: usize) -> Round {
    Round {
        packets,
        flight: 110,
        lost,
        repairing: true,
        ..Round::default()
    }
}

/// The path loses nothing of what a slower phase does not send, section 5.3.3.8.3.
#[test]
fn losses_after_a_probe_keep_the_bounds() {
    let mut flow = after_a_probe();
    // The path delivers all that is paced at 90 %.
    for _ in 0..3 {
        flow.lose(1, PRODUCT);
        flow.round(lossy(90, 1));
        assert_eq!(flow.bbr.model.bounds.shortterm_rate, 1_000_000);
    }
    for _ in 0..2 {
        flow.lose(1, PRODUCT);
        flow.round(lossy(80, 1));
    }
    assert_eq!(flow.bbr.phase, Phase::ProbeDown);
    // 80 of 89.1 that left.
    assert_eq!(flow.bbr.model.bounds.shortterm_rate, 897_867);
    // What left while cruising counts as a whole.
    flow.round(Round::default());
    assert_eq!(flow.bbr.phase, Phase::ProbeCruise);
    for _ in 0..5 {
        flow.lose(1, PRODUCT);
        flow.round(lossy(80, 1));
    }
    assert_eq!(flow.bbr.model.bounds.shortterm_rate, 808_080);
}

/// draft-ietf-ccwg-bbr-06, section 5.5.10.3
#[test]
fn many_losses_after_a_probe_lower_the_bounds() {
    let mut flow = after_a_probe();
    for _ in 0..2 {
        flow.lose(3, PRODUCT);
        flow.round(lossy(90, 3));
    }
    assert_eq!(flow.bbr.phase, Phase::ProbeDown);
    assert_eq!(flow.bbr.model.bounds.shortterm_rate, 909_090);
}

/// The path loses nothing of what the probe's window holds back, sections 5.3.3.8.3 and 5.3.4.
#[test]
fn losses_after_an_rtt_probe_keep_the_bounds() {
    let mut flow = Flow::steady();
    flow.until(Phase::ProbeRtt);
    let halved = Round {
        packets: 50,
        flight: 50,
        repairing: true,
        ..Round::default()
    };
    while flow.bbr.phase == Phase::ProbeRtt {
        flow.lose(1, PRODUCT);
        flow.round(halved);
    }
    // A loss of the last round trip of the probe, found after it.
    flow.lose(1, PRODUCT);
    flow.round(halved);
    assert_eq!(flow.bbr.phase, Phase::ProbeCruise);
    assert_eq!(flow.bbr.model.bounds.shortterm_rate, 1_000_000);
    assert_eq!(flow.pacing(), 99);
}

/// draft-ietf-ccwg-bbr-06, section 5.5.10.2
#[test]
fn a_probe_that_loses_too_much_bounds_the_flight() {
    let mut flow = Flow::steady();
    flow.until(Phase::ProbeUp);
    flow.lose(2, 120);
    assert_eq!(flow.bbr.phase, Phase::ProbeUp, "2 of 120 are tolerated");
    flow.bbr.on_lost(&PacketLost {
        now: flow.now,
        bytes: PMDCS,
        flight_at_departure: 120 * PMDCS,
        lost: 3000,
        app_limited: false,
        adjacent: true,
    });
    assert_eq!(flow.bbr.phase, Phase::ProbeDown);
    let bound = flow.bbr.model.bounds.longterm_flight;
    assert!((119_000..=120_000).contains(&bound), "{bound}");
    // The next probe stops at the bound, the one after it holds the bound and raises it.
    flow.until(Phase::ProbeUp);
    flow.round(Round {
        flight: 120,
        ..Round::default()
    });
    assert_eq!(flow.bbr.phase, Phase::ProbeDown, "a precaution");
    flow.round(Round::default());
    assert_eq!(flow.bbr.phase, Phase::ProbeRefill, "without a cruise");
    flow.round(Round::default());
    for _ in 0..2 {
        flow.round(Round {
            flight: 119,
            window_limited: true,
            ..Round::default()
        });
        assert_eq!(flow.bbr.phase, Phase::ProbeUp);
    }
    let raised = flow.bbr.model.bounds.longterm_flight;
    assert!(raised > bound, "{raised}");
}

/// draft-ietf-ccwg-bbr-06, section 5.6.4.7
#[test]
fn the_bound_leaves_headroom_while_cruising() {
    let mut flow = Flow::steady();
    flow.bbr.model.bounds.longterm_flight = 100 * PMDCS;
    flow.round(Round {
        flight: 80,
        ..Round::default()
    });
    assert_eq!((flow.bbr.phase, flow.window()), (Phase::ProbeCruise, 85));
    assert_eq!(flow.bbr.model.bounds.with_headroom(PMDCS, 0), 85 * PMDCS);
}

/// draft-ietf-ccwg-bbr-06, section 5.3.4
#[test]
fn the_rtt_is_probed_after_five_seconds() {
    let mut flow = Flow::steady();
    let longer = Round {
        rtt: RTT + Duration::from_millis(1),
        ..Round::default()
    };
    while flow.bbr.phase != Phase::ProbeRtt {
        flow.round(longer);
        assert!(flow.now <= Time::from_millis(6000), "{:?}", flow.now);
    }
    assert!(flow.now > Time::from_millis(5000));
    assert_eq!(flow.window(), 50, "half of the product");
    flow.round(Round {
        flight: 60,
        ..longer
    });
    let held = Round {
        packets: 50,
        flight: 50,
        ..Round::default()
    };
    let since = flow.now;
    while flow.bbr.phase == Phase::ProbeRtt {
        assert_eq!(flow.window(), 50);
        flow.round(held);
    }
    let took = flow.now.since(since + RTT);
    assert!((200..=300).contains(&took.as_millis()), "{took:?}");
    assert_eq!(flow.bbr.phase, Phase::ProbeCruise);
    assert!(flow.window() >= 200, "restored: {}", flow.window());
    assert_eq!(flow.bbr.model.highest_rate(), 1_000_000);
    flow.round(Round {
        packets: 50,
        ..held
    });
    assert_eq!(flow.pacing(), 99, "samples of the probe do not count");
}

/// draft-ietf-ccwg-bbr-06, section 5.3.4.2
#[test]
fn an_idle_time_makes_up_for_a_probe_of_the_rtt() {
    let mut flow = Flow::steady();
    flow.now += Duration::from_secs(20);
    flow.bbr.on_sent(&PacketSent {
        now: flow.now,
        bytes: PMDCS,
        flight_before: 0,
        app_limited: true,
    });
    assert_eq!(flow.pacing(), 99);
    flow.round(Round::default());
    assert_ne!(flow.bbr.phase, Phase::ProbeRtt);
    flow.bbr.on_idle(64);
    assert!(flow.window() >= 200, "{}", flow.window());
}

/// draft-ietf-ccwg-bbr-06, section 5.6.4.4
#[test]
fn a_timeout_closes_the_window_until_the_repair() {
    let mut flow = Flow::steady();
    let window = flow.window();
    flow.bbr.on_congestion(CongestionEvent::Timeout);
    assert_eq!(flow.window(), 1);
    flow.round(Round {
        packets: 1,
        flight: 1,
        repairing: true,
        ..Round::default()
    });
    assert_eq!(flow.window(), 4);
    flow.round(Round::default());
    let after = flow.window();
    assert!(after >= window, "restored: {after} of {window}");
}

/// draft-ietf-ccwg-bbr-06, section 5.5.11.2
#[test]
fn a_spurious_loss_is_undone() {
    let mut flow = Flow::steady();
    flow.until(Phase::ProbeUp);
    let window = flow.window();
    flow.lose(5, 120);
    assert_eq!(flow.bbr.phase, Phase::ProbeDown);
    flow.round(Round {
        repairing: true,
        ..Round::default()
    });
    assert!(flow.window() < window);
    flow.bbr.on_undo();
    assert_eq!(flow.bbr.phase, Phase::ProbeRefill);
    assert_eq!(flow.bbr.model.bounds, Bounds::default());
    assert_eq!(flow.window(), window);
}

/// draft-ietf-ccwg-bbr-06, section 3.7
#[test]
fn a_mark_counts_as_congestion() {
    let mut flow = Flow::new();
    flow.round(Round {
        packets: 50,
        ..Round::default()
    });
    flow.bbr.on_congestion(CongestionEvent::Ecn);
    assert_eq!(flow.bbr.phase, Phase::Drain, "start-up ends");
    assert_eq!(flow.bbr.model.bounds.longterm_flight, 50 * PMDCS);
    let mut flow = Flow::steady();
    flow.until(Phase::ProbeUp);
    flow.bbr.on_congestion(CongestionEvent::Ecn);
    assert_eq!(flow.bbr.phase, Phase::ProbeDown);
    assert_eq!(flow.bbr.model.bounds.longterm_flight, 70 * PMDCS);
    let mut flow = Flow::steady();
    flow.bbr.on_congestion(CongestionEvent::Ecn);
    for _ in 0..2 {
        flow.round(Round {
            packets: 90,
            ..Round::default()
        });
    }
    assert!(flow.bbr.model.bounds.shortterm_rate <= 1_000_000);
}

/// draft-ietf-ccwg-bbr-06, section 5.5.9
#[test]
fn aggregated_acknowledgements_widen_the_window() {
    let mut flow = Flow::steady();
    let bytes = 400 * PMDCS;
    flow.bbr
        .model
        .update_aggregation(bytes, bytes, true, flow.now);
    assert!(flow.bbr.model.extra_acknowledged() >= 300 * PMDCS);
    // Less than the rate explains ends the interval.
    for packets in [10, 10, 10, 10, 10, 99, 99, 99, 99, 99, 99, 99, 99] {
        flow.round(Round {
            packets,
            ..Round::default()
        });
    }
    let left = flow.bbr.model.extra_acknowledged();
    assert!(
        left <= PRODUCT * PMDCS,
        "forgotten after ten round trips: {left}"
    );
}

/// draft-ietf-ccwg-bbr-06, section 5.5.10.2
#[test]
fn the_flight_at_which_losses_were_too_many() {
    assert!(!is_too_high(2000, 100_000) && is_too_high(2001, 100_000));
    let lost = |bytes, flight_at_departure, lost| PacketLost {
        now: Time::ZERO,
        bytes,
        flight_at_departure,
        lost,
        app_limited: false,
        adjacent: false,
    };
    // 1 % was lost of 90,000 bytes before the packet: (1800 - 900) / 0.98 of it are tolerated.
    assert_eq!(flight_at_loss(&lost(10_000, 100_000, 10_900)), 90_918);
    assert_eq!(flight_at_loss(&lost(1000, 100_000, 50_000)), 99_000);
}

#[test]
fn the_state_continues_after_a_handover() {
    let mut flow = Flow::steady();
    flow.until(Phase::ProbeUp);
    flow.lose(1, PRODUCT);
    let state = flow.bbr.export(flow.now).expect("it is exported");
    let mut imported = Bbr.import(flow.now, &state).expect("it is BBR's");
    assert_eq!(imported.window(), flow.bbr.window());
    assert_eq!(imported.pacing_rate(), flow.bbr.pacing_rate());
    assert_eq!(imported.export(flow.now), Some(state));
    imported.reset();
    assert_eq!((imported.window(), imported.pacing_rate()), (4000, None));
}
