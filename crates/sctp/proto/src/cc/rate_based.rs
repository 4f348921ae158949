//! Plain rate-based congestion control: the model of BBR (draft-ietf-ccwg-bbr) without its states for loss and
//! for the minimum RTT. The delivery rate of the bottleneck is the highest that was sampled lately, the window
//! twice the product of that rate and of the lowest RTT, and packets are paced around the rate:
//!
//! 1. Start-up at a high gain, until the rate has not grown by a quarter in three round trips.
//! 2. Drain of the queue that start-up left.
//! 3. Rounds at the rate, one in eight above it to probe for more, and the next one below it.
//!
//! A loss changes nothing. An ECN mark reduces the rate (factor of RFC 8511), and the queue is drained. T3-rtx
//! halves the rate and closes the window (RFC 9260, section 7.2.3).

use alloc::vec::Vec;
use core::time::Duration;

use super::{Acknowledged, CongestionEvent, Controller, Parameters, initial_window};
use crate::time::Time;

/// Gains in percent of the delivery rate. Start-up doubles the rate in each round trip: 2 / ln 2.
const STARTUP: u64 = 289;
const DRAIN: u64 = 35;
const CYCLE: [u64; 8] = [125, 75, 100, 100, 100, 100, 100, 100];
/// Window in percent of the bandwidth-delay product, after start-up.
const WINDOW: u64 = 200;
/// Time after which the lowest round-trip time expires. The highest rate expires after a cycle.
const RTT_TIME: Duration = Duration::from_secs(10);
/// Window at least, in PMDCS: enough for a peer that delays its SACKs.
const FLOOR: usize = 4;

/// Plain rate-based congestion control, paced.
#[derive(Clone, Copy, Debug)]
pub struct RateBased;

algorithm! { RateBased: "rate-based", Model, is_rate_based }

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Startup,
    Drain,
    Cycle,
}

portable_enum! { Phase { 0: Startup, 1: Drain, 2: Cycle } }

#[derive(Clone, Copy, Debug)]
struct Model {
    parameters: Parameters,
    cwnd: usize,
    phase: Phase,
    /// Rate that is to grow by a quarter, and the rounds in which it did not; three end start-up.
    growth: (u64, u32),
    /// Highest delivery rate of the current and of the last interval, in bytes per second.
    rates: [u64; 2],
    /// Lowest RTT, likewise.
    rtts: [Duration; 2],
    rtt_since: Time,
    /// Rounds that are not app-limited.
    rounds: usize,
    /// Delivered bytes at which the round ends.
    round_end: u64,
    /// `cwnd` and `rates` before the last reduction.
    before: Option<(usize, [u64; 2])>,
}

portable_struct! {
    Model {
        parameters, cwnd, phase, growth, rates, rtts, rtt_since, rounds, round_end, before,
    }
}

impl Model {
    fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            cwnd: initial_window(&parameters),
            phase: Phase::Startup,
            growth: (0, 0),
            rates: [0; 2],
            rtts: [Duration::MAX; 2],
            rtt_since: Time::ZERO,
            rounds: 0,
            round_end: 0,
            before: None,
        }
    }

    fn rate(&self) -> u64 {
        self.rates[0].max(self.rates[1])
    }

    /// Bandwidth-delay product in bytes, times a gain in percent.
    fn product(&self, gain: u64) -> usize {
        let rtt = self.rtts[0].min(self.rtts[1]).as_nanos().min(1 << 40);
        let bytes = u128::from(self.rate()) * rtt * u128::from(gain) / 100_000_000_000;
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    fn scale(&mut self, percent: u64) {
        self.before = Some((self.cwnd, self.rates));
        self.rates = self.rates.map(|rate| rate / 100 * percent);
    }

    /// Ends a round that is not app-limited.
    fn end_round(&mut self) {
        self.rounds += 1;
        if self.rounds.is_multiple_of(CYCLE.len()) {
            self.rates = [0, self.rates[0]];
        }
        let (rate, growth) = (self.rate(), &mut self.growth);
        growth.1 += 1;
        if rate >= growth.0 / 4 * 5 {
            *growth = (rate, 0);
        } else if self.phase == Phase::Startup && growth.1 >= 3 {
            self.phase = Phase::Drain;
        }
    }
}

impl Controller for Model {
    fn window(&self) -> usize {
        self.cwnd
    }

    fn pacing_rate(&self) -> Option<u64> {
        let gain = match self.phase {
            Phase::Startup => STARTUP,
            Phase::Drain => DRAIN,
            Phase::Cycle => CYCLE[self.rounds % CYCLE.len()],
        };
        // One packet per second at least; none before the first sample.
        let rate = (self.rate() / 100 * gain).max(self.parameters.pmdcs as u64);
        (self.rate() > 0).then_some(rate)
    }

    fn on_ack(&mut self, acknowledged: &Acknowledged) {
        let Some(sample) = acknowledged.delivery else {
            return;
        };
        if acknowledged.now.since(self.rtt_since) > RTT_TIME {
            self.rtts = [Duration::MAX, self.rtts[0]];
            self.rtt_since = acknowledged.now;
        }
        self.rtts[0] = sample.rtt.map_or(self.rtts[0], |rtt| rtt.min(self.rtts[0]));
        let rate = sample.rate.unwrap_or(0);
        if !sample.app_limited || rate > self.rate() {
            self.rates[0] = self.rates[0].max(rate);
        }
        if sample.prior_delivered >= self.round_end {
            self.round_end = sample.total_delivered;
            if !sample.app_limited {
                self.end_round();
            }
        }
        if self.phase == Phase::Drain && acknowledged.flight_before <= self.product(100) {
            self.phase = Phase::Cycle;
        }
        let starts = self.phase == Phase::Startup;
        let target = self.product(if starts { STARTUP } else { WINDOW });
        let floor = FLOOR * self.parameters.pmdcs;
        self.cwnd = (self.cwnd + acknowledged.bytes).min(target.max(floor));
    }

    fn on_congestion(&mut self, event: CongestionEvent) {
        match event {
            CongestionEvent::Loss => self.before = None,
            CongestionEvent::Ecn => {
                self.scale(85);
                self.phase = Phase::Drain;
            }
            CongestionEvent::Timeout => {
                self.scale(50);
                self.cwnd = self.parameters.pmdcs;
            }
        }
    }

    fn on_undo(&mut self) {
        if let Some((cwnd, rates)) = self.before.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.rates = [0, 1].map(|at| self.rates[at].max(rates[at]));
        }
    }

    fn on_idle(&mut self, rtos: u32) {
        let floor = (FLOOR * self.parameters.pmdcs).min(self.cwnd);
        self.cwnd = self.cwnd.checked_shr(rtos).unwrap_or(0).max(floor);
    }

    fn set_pmdcs(&mut self, pmdcs: usize) {
        self.parameters.pmdcs = pmdcs;
        self.cwnd = self.cwnd.max(pmdcs);
    }

    fn reset(&mut self) {
        *self = Self::new(self.parameters);
    }

    fn export(&self, now: Time) -> Option<Vec<u8>> {
        super::export(self, now)
    }
}
