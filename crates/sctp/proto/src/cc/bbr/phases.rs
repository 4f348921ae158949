//! BBR's state machine: start-up, drain, the cycle of probes for bandwidth, and the probe of the RTT
//! (draft-ietf-ccwg-bbr-06, section 5.3).

use core::time::Duration;

use super::BbrController;
use super::model::{self, percent_of};
use crate::cc::{Acknowledged, DeliverySample};
use crate::time::Time;

/// Rounds without growth after which the pipe counts as full, and the growth in percent (section 5.3.1.2).
const FULL_PIPE_ROUNDS: u32 = 3;
const GROWTH: u64 = 125;
/// Ranges of lost packets in a round trip with which start-up may end (`BBRStartupFullLossCnt`, section
/// 5.3.1.3).
const STARTUP_LOST_RANGES: u32 = 6;
/// Round trips after which the drain ends in any case (section 5.3.2).
const DRAIN_ROUNDS: u64 = 3;
/// Least time between probes for bandwidth, and the random time that is added (section 5.3.3.8).
const PROBE_WAIT: Duration = Duration::from_secs(2);
const RANDOM_WAIT_NANOS: u64 = 1_000_000_000;
/// Most round trips between probes for bandwidth, for flows that are controlled by losses (section 5.3.3.8).
const MAX_ROUNDS: usize = 63;
/// Doublings of the growth of the long-term bound at most (section 5.3.3.9).
const MAX_DOUBLINGS: u32 = 30;
/// Time for which a probe of the RTT keeps the data in flight low (`ProbeRTTDuration`, section 2.16.2).
const RTT_PROBE_TIME: Duration = Duration::from_millis(200);

/// State of BBR (section 5.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Doubles the rate each round trip.
    Startup,
    /// Empties the queue that start-up left.
    Drain,
    /// Empties the queue that a probe for bandwidth left (`ProbeBW_DOWN`).
    ProbeDown,
    /// Sends at the rate of the model (`ProbeBW_CRUISE`).
    ProbeCruise,
    /// Fills the path before a probe (`ProbeBW_REFILL`).
    ProbeRefill,
    /// Probes for more bandwidth (`ProbeBW_UP`).
    ProbeUp,
    /// Sends little, to measure the RTT without a queue.
    ProbeRtt,
}

portable_enum! {
    Phase {
        0: Startup, 1: Drain, 2: ProbeDown, 3: ProbeCruise, 4: ProbeRefill, 5: ProbeUp, 6: ProbeRtt,
    }
}

impl Phase {
    /// Pacing rate in percent of the modelled rate (section 5.6.1).
    pub(super) fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => 277,
            Self::Drain => 50,
            Self::ProbeDown => 90,
            Self::ProbeCruise | Self::ProbeRefill | Self::ProbeRtt => 100,
            Self::ProbeUp => 125,
        }
    }

    /// Window in percent of the product of rate and RTT (section 5.6.1).
    pub(super) fn window_gain(self) -> u64 {
        match self {
            Self::ProbeUp => 225,
            Self::ProbeRtt => 50,
            _ => 200,
        }
    }

    /// Share of the modelled rate at which packets leave, in percent: that of the pacing rate, or of the window.
    pub(super) fn sent_share(self) -> u64 {
        self.pacing_gain().min(self.window_gain()).min(100)
    }

    /// Returns whether the phase is one of the cycle of probes for bandwidth (`IsInAProbeBWState`).
    pub(super) fn is_bandwidth_cycle(self) -> bool {
        matches!(
            self,
            Self::ProbeDown | Self::ProbeCruise | Self::ProbeRefill | Self::ProbeUp
        )
    }

    /// Returns whether the sender looks for more bandwidth (`IsProbingBW`).
    pub(super) fn accelerates(self) -> bool {
        matches!(self, Self::Startup | Self::ProbeRefill | Self::ProbeUp)
    }
}

/// Search for the moment in which a higher rate delivers no more (section 5.3.1.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    /// Rate that is to grow.
    rate: u64,
    /// Round trips in which it did not.
    rounds: u32,
    /// The present search has ended (`full_bw_now`).
    now: bool,
    /// The path was full once (`full_bw_reached`).
    pub(super) reached: bool,
}

portable_struct! { FullPipe { rate, rounds, now, reached } }

impl FullPipe {
    /// Begins another search (`ResetFullBW`) above this rate.
    pub(super) fn restart(&mut self, rate: u64) {
        (self.rate, self.rounds, self.now) = (rate, 0, false);
    }
}

/// Purpose for which acknowledged packets were sent (`ack_phase`, section 2.14).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum AckPhase {
    /// No probe.
    #[default]
    Init,
    /// Filling of the path.
    Refilling,
    /// Begin of a probe.
    ProbeStarting,
    /// Probe.
    ProbeFeedback,
    /// Probe that has ended.
    ProbeStopping,
}

portable_enum! {
    AckPhase { 0: Init, 1: Refilling, 2: ProbeStarting, 3: ProbeFeedback, 4: ProbeStopping }
}

/// State of the cycle of probes for bandwidth (section 2.14).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BandwidthProbe {
    ack_phase: AckPhase,
    /// Acknowledged data was sent by a probe that has not gone too high.
    pub(super) is_sample: bool,
    /// The last probe went too high (`prev_probe_too_high`).
    too_high: bool,
    /// The last probe stopped at the bound of the one before (`prev_probe_precautionary`).
    precautionary: bool,
    /// Bytes acknowledged since the long-term bound grew, and those for a growth by a packet; `None` while it
    /// does not grow.
    acknowledged: usize,
    per_increase: Option<usize>,
    /// Round trips for which the bound has grown.
    rounds: u32,
    /// Begin of the cycle, and time after which the next probe begins.
    since: Time,
    wait: Duration,
}

portable_struct! {
    BandwidthProbe {
        ack_phase, is_sample, too_high, precautionary, acknowledged, per_increase, rounds, since, wait,
    }
}

/// Probe of the RTT (section 5.3.4).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RttProbe {
    /// Earliest end; `None` until little enough is in flight.
    done_at: Option<Time>,
    /// A round trip has passed since then.
    round_done: bool,
    /// Delivered bytes up to which samples are limited by the probe (`MarkConnectionAppLimited`).
    limited_until: u64,
}

portable_struct! { RttProbe { done_at, round_done, limited_until } }

impl RttProbe {
    /// Returns a sample that counts as limited by the user's data if the probe limited it.
    pub(super) fn limited(&self, sample: DeliverySample) -> DeliverySample {
        DeliverySample {
            app_limited: sample.app_limited || sample.prior_delivered < self.limited_until,
            ..sample
        }
    }
}

impl BbrController {
    /// Looks once a round trip whether the rate still grows (`CheckFullBWReached`, section 5.3.1.2).
    pub(super) fn check_full_pipe(&mut self, sample: &DeliverySample) {
        let pipe = &mut self.full_pipe;
        if pipe.now || !self.model.ends_round() || sample.app_limited {
            return;
        }
        let rate = sample.rate.unwrap_or(0);
        if rate >= model::percent(pipe.rate, GROWTH) {
            pipe.restart(rate);
            return;
        }
        pipe.rounds += 1;
        pipe.now = pipe.rounds >= FULL_PIPE_ROUNDS;
        pipe.reached |= pipe.now;
    }

    /// Ends start-up if the path is full, or if it loses too much (`CheckStartupDone`, section 5.3.1).
    pub(super) fn check_start_up(&mut self, sample: &DeliverySample, acknowledged: &Acknowledged) {
        if self.phase != Phase::Startup {
            return;
        }
        let lossy = acknowledged.repairing
            && self.model.lost_ranges_at_end() >= STARTUP_LOST_RANGES
            && model::is_too_high(sample.lost, sample.flight_at_departure);
        if lossy && !self.full_pipe.reached {
            self.end_start_up_by_loss();
        }
        if self.full_pipe.reached {
            self.enter_drain();
        }
    }

    fn enter_drain(&mut self) {
        self.phase = Phase::Drain;
        self.drain_start = self.model.rounds();
    }

    /// Records that losses show a full path.
    fn end_start_up_by_loss(&mut self) {
        if let Some(before) = &mut self.before_loss {
            before.phase = Some(Phase::Startup);
        }
        self.full_pipe.reached = true;
        let product = self.product(self.model.rate(), 100);
        self.model.bounds.longterm_flight = product.max(self.model.latest_delivered());
    }

    /// Ends the drain once no more than the path holds is in flight (`CheckDrainDone`, section 5.3.2).
    pub(super) fn check_drain(&mut self, acknowledged: &Acknowledged) {
        if self.phase != Phase::Drain {
            return;
        }
        let held = self.with_budget(self.product(self.model.rate(), 100));
        let late = self.model.rounds() > self.drain_start + DRAIN_ROUNDS;
        if acknowledged.flight <= held || late {
            self.start_probe_down(acknowledged.now);
        }
    }

    /// Moves through the cycle of probes for bandwidth (`UpdateProbeBWCyclePhase`, section 5.3.3.9).
    pub(super) fn advance_cycle(&mut self, sample: &DeliverySample, acknowledged: &Acknowledged) {
        if !self.full_pipe.reached || self.adapt_longterm_bound(sample) {
            return;
        }
        let (now, phase) = (acknowledged.now, self.phase);
        match phase {
            Phase::ProbeDown | Phase::ProbeCruise if self.is_time_to_probe(now) => {
                self.start_refill();
            }
            Phase::ProbeDown if self.is_time_to_cruise(acknowledged.flight) => {
                self.phase = Phase::ProbeCruise;
            }
            Phase::ProbeRefill if self.model.ends_round() => {
                self.bandwidth_probe.is_sample = true;
                self.start_probe_up(sample.rate.unwrap_or(0));
            }
            Phase::ProbeUp if self.is_time_to_go_down(sample, acknowledged.flight) => {
                self.bandwidth_probe.too_high = false;
                self.start_probe_down(now);
            }
            _ => {}
        }
    }

    /// Begins the cycle: less than the path delivers (`StartProbeBW_DOWN`).
    fn start_probe_down(&mut self, now: Time) {
        self.model.reset_signals();
        let random = random(now, self.model.delivered());
        self.model.set_rounds_since_probe(random & 1);
        let probe = &mut self.bandwidth_probe;
        probe.per_increase = None;
        probe.wait = PROBE_WAIT + Duration::from_nanos((random >> 1) % RANDOM_WAIT_NANOS);
        probe.since = now;
        probe.ack_phase = AckPhase::ProbeStopping;
        self.model.start_round();
        self.phase = Phase::ProbeDown;
    }

    /// Fills the path before a probe; losses so far do not count (`StartProbeBW_REFILL`).
    fn start_refill(&mut self) {
        self.model.bounds.reset_shortterm();
        let probe = &mut self.bandwidth_probe;
        (probe.rounds, probe.acknowledged, probe.precautionary) = (0, 0, false);
        probe.ack_phase = AckPhase::Refilling;
        self.model.start_round();
        self.phase = Phase::ProbeRefill;
    }

    /// Begins a probe: more than the path delivers (`StartProbeBW_UP`).
    fn start_probe_up(&mut self, rate: u64) {
        self.bandwidth_probe.ack_phase = AckPhase::ProbeStarting;
        self.model.start_round();
        self.full_pipe.restart(rate);
        self.phase = Phase::ProbeUp;
        self.raise_slope();
    }

    /// Doubles the growth of the long-term bound (`RaiseInflightLongtermSlope`).
    fn raise_slope(&mut self) {
        let probe = &mut self.bandwidth_probe;
        let growth = 1_usize << probe.rounds;
        probe.rounds = (probe.rounds + 1).min(MAX_DOUBLINGS);
        probe.per_increase = Some((self.cwnd / growth).max(self.parameters.pmdcs));
    }

    /// Returns whether the next probe begins (`IsTimeToProbeBW`).
    fn is_time_to_probe(&self, now: Time) -> bool {
        let probe = &self.bandwidth_probe;
        let packets = self.target_flight() / self.parameters.pmdcs.max(1);
        now.since(probe.since) > probe.wait
            || self.model.rounds_since_probe() >= packets.min(MAX_ROUNDS) as u64
    }

    /// Returns whether the queue of the last probe is empty (`IsTimeToCruise`).
    fn is_time_to_cruise(&self, flight: usize) -> bool {
        let held = self.with_budget(self.product(self.model.highest_rate(), 100));
        flight <= self.flight_with_headroom().min(held)
    }

    /// Returns whether the probe ends (`IsTimeToGoDown`, section 5.3.3.7).
    fn is_time_to_go_down(&mut self, sample: &DeliverySample, flight: usize) -> bool {
        let bound = self.model.bounds.longterm_flight;
        if self.bandwidth_probe.too_high && flight >= bound {
            self.bandwidth_probe.precautionary = true;
            return true;
        }
        if self.model.is_window_limited() && self.cwnd >= bound {
            self.full_pipe.restart(sample.rate.unwrap_or(0));
            return false;
        }
        self.full_pipe.now
    }

    /// Moves the highest rate and the long-term bound with what a probe shows (`AdaptLongTermModel`). Returns
    /// whether it moved the cycle.
    fn adapt_longterm_bound(&mut self, sample: &DeliverySample) -> bool {
        let in_cycle = self.phase.is_bandwidth_cycle();
        if self.model.ends_round() {
            match self.bandwidth_probe.ack_phase {
                AckPhase::ProbeStarting => {
                    self.bandwidth_probe.ack_phase = AckPhase::ProbeFeedback;
                }
                AckPhase::ProbeStopping => {
                    self.bandwidth_probe.is_sample = false;
                    self.bandwidth_probe.ack_phase = AckPhase::Init;
                    if in_cycle && !sample.app_limited {
                        self.model.end_rate_cycle();
                    }
                    let probe = &self.bandwidth_probe;
                    if in_cycle && probe.precautionary && !probe.too_high {
                        self.start_refill();
                        return true;
                    }
                }
                _ => {}
            }
        }
        let bounds = &mut self.model.bounds;
        if !model::is_too_high(sample.lost, sample.flight_at_departure)
            && bounds.longterm_flight != usize::MAX
        {
            bounds.longterm_flight = bounds.longterm_flight.max(sample.flight_at_departure);
            if self.phase == Phase::ProbeUp {
                self.raise_longterm_bound(sample.newly_acknowledged);
            }
        }
        false
    }

    /// Raises the long-term bound while it limits the probe (`ProbeInflightLongtermUpward`).
    fn raise_longterm_bound(&mut self, newly: usize) {
        if !self.model.is_window_limited() || self.cwnd < self.model.bounds.longterm_flight {
            return;
        }
        let probe = &mut self.bandwidth_probe;
        if let Some(per_increase) = probe.per_increase {
            probe.acknowledged += newly;
            let packets = probe.acknowledged / per_increase;
            probe.acknowledged %= per_increase;
            let bounds = &mut self.model.bounds;
            bounds.longterm_flight = bounds
                .longterm_flight
                .saturating_add(packets * self.parameters.pmdcs);
        }
        if self.model.ends_round() {
            self.raise_slope();
        }
    }

    /// Lowers the long-term bound to the data in flight with which a probe lost too much, and ends the probe
    /// (`HandleInflightTooHigh`, section 5.5.10.2).
    pub(super) fn on_flight_too_high(&mut self, flight: usize, app_limited: bool, now: Time) {
        self.bandwidth_probe.too_high = true;
        self.bandwidth_probe.is_sample = false;
        if !app_limited {
            let least = percent_of(self.target_flight(), model::REDUCTION);
            self.model.bounds.longterm_flight = flight.max(least);
        }
        if self.phase == Phase::ProbeUp {
            if let Some(before) = &mut self.before_loss {
                before.phase = Some(Phase::ProbeUp);
            }
            self.start_probe_down(now);
        }
    }

    /// Responds to an ECN mark: ends start-up, or a probe for bandwidth.
    pub(super) fn leave_probe_for_mark(&mut self) {
        match self.phase {
            Phase::Startup => {
                self.end_start_up_by_loss();
                self.enter_drain();
            }
            _ if self.bandwidth_probe.is_sample => {
                let now = self.last_ack;
                self.on_flight_too_high(0, false, now);
            }
            _ => {}
        }
    }

    /// Returns to the phase that a spurious loss ended (section 5.5.11.2).
    pub(super) fn resume(&mut self, phase: Option<Phase>) {
        match phase {
            Some(Phase::Startup) if self.phase != Phase::Startup => {
                self.full_pipe.reached = false;
                if self.phase != Phase::ProbeRtt {
                    self.phase = Phase::Startup;
                }
            }
            Some(Phase::ProbeUp) if !matches!(self.phase, Phase::ProbeUp | Phase::ProbeRtt) => {
                self.start_refill();
            }
            _ => {}
        }
    }

    /// Begins, continues or ends the probe of the RTT (`CheckProbeRTT`, section 5.3.4.3).
    pub(super) fn check_rtt_probe(&mut self, sample: &DeliverySample, acknowledged: &Acknowledged) {
        if self.phase != Phase::ProbeRtt && self.model.rtt_expired() && !self.restarting {
            self.save_window();
            self.phase = Phase::ProbeRtt;
            self.rtt_probe.done_at = None;
            self.bandwidth_probe.ack_phase = AckPhase::ProbeStopping;
            self.model.start_round();
        }
        if self.phase == Phase::ProbeRtt {
            self.continue_rtt_probe(acknowledged);
        }
        if sample.delivered > 0 {
            self.restarting = false;
        }
    }

    /// Waits until little is in flight, then for the time of the probe and for a round trip (`HandleProbeRTT`).
    fn continue_rtt_probe(&mut self, acknowledged: &Acknowledged) {
        let now = acknowledged.now;
        self.rtt_probe.limited_until = self.model.delivered() + acknowledged.flight as u64;
        if self.rtt_probe.done_at.is_none() {
            if acknowledged.flight <= self.rtt_probe_window() {
                self.rtt_probe.done_at = Some(now + RTT_PROBE_TIME);
                self.rtt_probe.round_done = false;
                self.model.start_round();
            }
        } else {
            self.rtt_probe.round_done |= self.model.ends_round();
            if self.rtt_probe.round_done {
                self.end_rtt_probe(now);
            }
        }
    }

    /// Ends the probe of the RTT after its time (`CheckProbeRTTDone`): cruises, or continues start-up (section
    /// 5.3.4.4).
    pub(super) fn end_rtt_probe(&mut self, now: Time) {
        if self.rtt_probe.done_at.is_none_or(|at| now <= at) {
            return;
        }
        self.model.rtt_probed(now);
        self.restore_window();
        self.model.bounds.reset_shortterm();
        if self.full_pipe.reached {
            self.start_probe_down(now);
            self.phase = Phase::ProbeCruise;
        } else {
            self.phase = Phase::Startup;
        }
    }
}

/// Returns a number that differs between flows: a mix of the time of a SACK and the bytes delivered (the
/// finalizer of `SplitMix64`).
fn random(now: Time, delivered: u64) -> u64 {
    let mut z = now.as_nanos() ^ delivered.rotate_left(32);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
