//! BBR's model of a path: rate, round-trip time, aggregation of acknowledgements, and bounds that losses set
//! (draft-ietf-ccwg-bbr-06, section 5.5).

use core::time::Duration;

use crate::cc::{DeliverySample, PacketLost};
use crate::time::Time;

/// Factor of a reduction in a round trip with losses, in percent (`Beta`, section 2.8).
pub(super) const REDUCTION: u64 = 70;
/// Share of the long-term bound that is left to other flows, in percent (`Headroom`, section 2.8).
const HEADROOM: u64 = 15;
/// Losses of a round trip that are tolerated while probing, in percent (`LossThresh`, section 2.8).
const LOSS_THRESHOLD: u64 = 2;
/// Time after which the lowest RTT expires (`MinRTTFilterLen`, section 2.16.1).
const MIN_RTT_TIME: Duration = Duration::from_secs(10);
/// Time after which the lowest recent RTT is to be probed (`ProbeRTTInterval`, section 2.16.2).
const RTT_PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Round trips of each of the two intervals over which aggregation is remembered (`ExtraAckedFilterLen`, section
/// 2.12).
const AGGREGATION_ROUNDS: u64 = 5;
/// Share of the rate at which packets are paced, in percent: 1 less than the path delivers (section 2.5).
pub(super) const PACED_SHARE: u64 = 99;

/// Returns a percentage of a value.
pub(super) fn percent(value: u64, percent: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(percent) / 100;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Returns a percentage of a number of bytes.
pub(super) fn percent_of(bytes: usize, share: u64) -> usize {
    usize::try_from(percent(bytes as u64, share)).unwrap_or(usize::MAX)
}

/// Returns whether too much of the data that was in flight with a packet is lost (`IsInflightTooHigh`, section
/// 5.5.10.2).
pub(super) fn is_too_high(lost: u64, flight: usize) -> bool {
    lost > percent(flight as u64, LOSS_THRESHOLD)
}

/// Data in flight at which losses exceeded the threshold, within a lost packet (`InflightAtLoss`, section
/// 5.5.10.2).
pub(super) fn flight_at_loss(packet: &PacketLost) -> usize {
    let before = packet.flight_at_departure.saturating_sub(packet.bytes);
    let lost_before = packet.lost.saturating_sub(packet.bytes as u64);
    let tolerated = percent(before as u64, LOSS_THRESHOLD);
    let part = tolerated.saturating_sub(lost_before) * 100 / (100 - LOSS_THRESHOLD);
    before.saturating_add(usize::try_from(part).unwrap_or(usize::MAX))
}

/// Bounds that losses set: short-term ones until the next probe for bandwidth, a long-term one that probes
/// raise. The highest value stands for no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// `inflight_longterm`, in bytes.
    pub(super) longterm_flight: usize,
    /// `inflight_shortterm`, in bytes.
    pub(super) shortterm_flight: usize,
    /// `bw_shortterm`, in bytes per second.
    pub(super) shortterm_rate: u64,
}

portable_struct! { Bounds { longterm_flight, shortterm_flight, shortterm_rate } }

impl Default for Bounds {
    fn default() -> Self {
        Self {
            longterm_flight: usize::MAX,
            shortterm_flight: usize::MAX,
            shortterm_rate: u64::MAX,
        }
    }
}

impl Bounds {
    /// Removes the short-term bounds (`ResetShortTermModel`).
    pub(super) fn reset_shortterm(&mut self) {
        (self.shortterm_flight, self.shortterm_rate) = (usize::MAX, u64::MAX);
    }

    /// Long-term bound less the share of other flows, a packet at least (`InflightWithHeadroom`, section
    /// 5.3.3.9).
    pub(super) fn with_headroom(&self, pmdcs: usize, floor: usize) -> usize {
        if self.longterm_flight == usize::MAX {
            return usize::MAX;
        }
        let headroom = percent_of(self.longterm_flight, HEADROOM).max(pmdcs);
        self.longterm_flight.saturating_sub(headroom).max(floor)
    }

    /// Raises each bound to the one before a loss that was none.
    pub(super) fn raise_to(&mut self, before: &Self) {
        self.longterm_flight = self.longterm_flight.max(before.longterm_flight);
        self.shortterm_flight = self.shortterm_flight.max(before.shortterm_flight);
        self.shortterm_rate = self.shortterm_rate.max(before.shortterm_rate);
    }
}

/// Count of round trips, each of which ends with the first packet that left after the last one ended (section
/// 5.5.1).
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrips {
    count: u64,
    /// Delivered bytes with which the present one ends.
    end: u64,
    /// The last SACK ended one.
    ended: bool,
    /// The window limited transmission in this one, and in the one before.
    window_limited: [bool; 2],
}

portable_struct! { RoundTrips { count, end, ended, window_limited } }

/// Data that left at less than the modelled rate because the sender wanted so: in the drain, after a probe for
/// bandwidth, or while the RTT is probed.
#[derive(Clone, Copy, Debug, Default)]
struct Slowdown {
    /// Share of the modelled rate, in percent.
    share: u64,
    /// Delivered bytes when it began, and with which the last of this data is delivered.
    begin: u64,
    end: u64,
}

portable_struct! { Slowdown { share, begin, end } }

impl Slowdown {
    /// Returns the share of the modelled rate at which the data of a sample left, in percent; the whole if more was
    /// lost than is tolerated, since the path then counts as congested.
    fn share_of(&self, sample: &DeliverySample) -> u64 {
        let slow = (self.begin..self.end).contains(&sample.prior_delivered);
        if slow && !is_too_high(sample.lost, sample.flight_at_departure) {
            self.share
        } else {
            100
        }
    }
}

/// Delivery in a round trip: highest values of its samples.
#[derive(Clone, Copy, Debug, Default)]
struct LatestDelivery {
    /// Delivery rate (`bw_latest`), and bytes delivered in a sample (`inflight_latest`).
    rate: u64,
    delivered: u64,
    /// The same divided by the share of the modelled rate at which the data left.
    whole_rate: u64,
    whole_delivered: u64,
}

portable_struct! { LatestDelivery { rate, delivered, whole_rate, whole_delivered } }

impl LatestDelivery {
    fn of(sample: &DeliverySample, slowdown: &Slowdown) -> Self {
        let share = slowdown.share_of(sample).max(1) * PACED_SHARE;
        let whole = |value: u64| value.saturating_mul(10_000) / share;
        let (rate, delivered) = (sample.rate.unwrap_or(0), sample.delivered);
        Self {
            rate,
            delivered,
            whole_rate: whole(rate),
            whole_delivered: whole(delivered),
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            rate: self.rate.max(other.rate),
            delivered: self.delivered.max(other.delivered),
            whole_rate: self.whole_rate.max(other.whole_rate),
            whole_delivered: self.whole_delivered.max(other.whole_delivered),
        }
    }
}

/// Signals of the present round trip with or without losses (section 5.5.10.3).
#[derive(Clone, Copy, Debug, Default)]
struct RoundSignals {
    latest: LatestDelivery,
    /// Delivered bytes with which it ends.
    end: u64,
    /// The last SACK ended one.
    ended: bool,
    lost: bool,
    /// Ranges of packets that were found lost.
    lost_ranges: u32,
}

portable_struct! { RoundSignals { latest, end, ended, lost, lost_ranges } }

/// Lowest RTT of the last ten seconds, and of the last five for its probe (section 5.3.4.3).
#[derive(Clone, Copy, Debug, Default)]
struct LowestRtt {
    value: Option<(Duration, Time)>,
    recent: Option<(Duration, Time)>,
    /// `recent` was too old at the last SACK.
    expired: bool,
}

portable_struct! { LowestRtt { value, recent, expired } }

impl LowestRtt {
    fn update(&mut self, rtt: Option<Duration>, now: Time) {
        let is_old = |lowest: Option<(Duration, Time)>, time| {
            lowest.is_some_and(|(_, at)| now.since(at) > time)
        };
        self.expired = is_old(self.recent, RTT_PROBE_INTERVAL);
        if let Some(rtt) = rtt
            && self
                .recent
                .is_none_or(|(lowest, _)| rtt < lowest || self.expired)
        {
            self.recent = Some((rtt, now));
        }
        let lower = match (self.recent, self.value) {
            (Some((recent, _)), Some((value, _))) => recent < value,
            (recent, _) => recent.is_some(),
        };
        if lower || is_old(self.value, MIN_RTT_TIME) {
            self.value = self.recent;
        }
    }
}

/// Aggregation of acknowledgements: bytes that were acknowledged beyond what the rate explains (section 5.5.9).
#[derive(Clone, Copy, Debug, Default)]
struct Aggregation {
    since: Time,
    delivered: u64,
    /// Most extra bytes of this interval of round trips and of the one before.
    extra: [usize; 2],
    /// Round trip with which the present interval began.
    begin: u64,
}

portable_struct! { Aggregation { since, delivered, extra, begin } }

/// Model of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathModel {
    /// Bytes delivered in all.
    delivered: u64,
    rounds: RoundTrips,
    /// Round trips since the last probe for bandwidth.
    rounds_since_probe: u64,
    signals: RoundSignals,
    /// Highest delivery rate of this cycle of probes and of the one before, in bytes per second.
    rates: [u64; 2],
    pub(super) bounds: Bounds,
    rtt: LowestRtt,
    aggregation: Aggregation,
    slowdown: Slowdown,
}

portable_struct! {
    PathModel {
        delivered, rounds, rounds_since_probe, signals, rates, bounds, rtt, aggregation, slowdown,
    }
}

impl PathModel {
    /// Highest delivery rate (`max_bw`).
    pub(super) fn highest_rate(&self) -> u64 {
        self.rates[0].max(self.rates[1])
    }

    /// Rate that the sender may use (`bw`, section 5.5.10.3).
    pub(super) fn rate(&self) -> u64 {
        self.highest_rate().min(self.bounds.shortterm_rate)
    }

    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.rtt.value.map(|(rtt, _)| rtt)
    }

    /// Product of a rate and the lowest RTT, times a gain in percent; `None` before an RTT was measured.
    pub(super) fn product(&self, rate: u64, gain: u64) -> Option<usize> {
        let nanos = self.min_rtt()?.as_nanos().min(1 << 40);
        let bytes = u128::from(rate) * nanos * u128::from(gain) / 100_000_000_000;
        Some(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Bytes delivered in all.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Number of round trips.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.count
    }

    /// Returns whether the last SACK ended a round trip.
    pub(super) fn ends_round(&self) -> bool {
        self.rounds.ended
    }

    /// Ends the present round trip with what is delivered now (`StartRound`, section 5.5.1).
    pub(super) fn start_round(&mut self) {
        self.rounds.end = self.delivered;
    }

    /// Returns whether the window limited transmission in the last round trip.
    pub(super) fn is_window_limited(&self) -> bool {
        self.rounds.window_limited.contains(&true)
    }

    /// Round trips since the last probe for bandwidth.
    pub(super) fn rounds_since_probe(&self) -> u64 {
        self.rounds_since_probe
    }

    pub(super) fn set_rounds_since_probe(&mut self, rounds: u64) {
        self.rounds_since_probe = rounds;
    }

    /// Updates the signals of the round trip, the count of round trips and the highest rate
    /// (`UpdateLatestDeliverySignals`, `UpdateRound`, `UpdateMaxBw`).
    pub(super) fn on_sample(&mut self, sample: &DeliverySample, window_limited: bool) {
        self.delivered = sample.total_delivered;
        let rate = sample.rate.unwrap_or(0);
        let signals = &mut self.signals;
        let latest = LatestDelivery::of(sample, &self.slowdown);
        signals.latest = signals.latest.max(latest);
        signals.ended = sample.prior_delivered >= signals.end;
        if signals.ended {
            signals.end = self.delivered;
        }
        let rounds = &mut self.rounds;
        rounds.ended = sample.prior_delivered >= rounds.end;
        if rounds.ended {
            rounds.end = self.delivered;
            rounds.count += 1;
            rounds.window_limited = [false, rounds.window_limited[0]];
            self.rounds_since_probe += 1;
        }
        self.rounds.window_limited[0] |= window_limited;
        if rate >= self.highest_rate() || !sample.app_limited {
            self.rates[0] = self.rates[0].max(rate);
        }
    }

    /// Forgets the rates of the cycle before (`AdvanceMaxBwFilter`, section 5.5.6).
    pub(super) fn end_rate_cycle(&mut self) {
        // A cycle without a sample is none.
        if self.rates[0] > 0 {
            self.rates = [0, self.rates[0]];
        }
    }

    /// Records a loss; a round trip of signals begins with the first.
    pub(super) fn note_loss(&mut self) {
        if !self.signals.lost {
            self.signals.end = self.delivered;
        }
        self.signals.lost = true;
    }

    /// Counts a range of lost packets that does not continue the last one.
    pub(super) fn count_lost_range(&mut self) {
        self.signals.lost_ranges = self.signals.lost_ranges.saturating_add(1);
    }

    /// Ranges of packets that were lost in this round trip, which the last SACK ended; 0 if it did not.
    pub(super) fn lost_ranges_at_end(&self) -> u32 {
        if self.signals.ended {
            self.signals.lost_ranges
        } else {
            0
        }
    }

    /// Most bytes delivered in a sample of this round trip.
    pub(super) fn latest_delivered(&self) -> usize {
        usize::try_from(self.signals.latest.delivered).unwrap_or(usize::MAX)
    }

    /// Returns whether the last SACK ended a round trip with losses.
    pub(super) fn ends_lossy_round(&self) -> bool {
        self.signals.ended && self.signals.lost
    }

    /// Reduces the short-term bounds towards what the round trip delivered (`AdaptLowerBoundsFromCongestion`,
    /// section 5.5.10.3). A path that delivers all it gets delivers the share of the modelled rate at which packets
    /// left: that does not reduce the bounds. Otherwise a round trip with one random loss would, by 1 %, and after a
    /// probe for bandwidth by 11 %, where section 5.3.3.8.3 has a reduction by the share that was lost.
    pub(super) fn reduce_bounds(&mut self, cwnd: usize) {
        let latest = self.signals.latest;
        let reduced = |present: u64, latest: u64, whole: u64| {
            latest
                .max(whole.min(present))
                .max(percent(present, REDUCTION))
        };
        let highest = self.highest_rate();
        let bounds = &mut self.bounds;
        let present = match bounds.shortterm_rate {
            u64::MAX => highest,
            rate => rate,
        };
        bounds.shortterm_rate = reduced(present, latest.rate, latest.whole_rate);
        let present = match bounds.shortterm_flight {
            usize::MAX => cwnd,
            flight => flight,
        };
        let flight = reduced(present as u64, latest.delivered, latest.whole_delivered);
        bounds.shortterm_flight = usize::try_from(flight).unwrap_or(usize::MAX);
    }

    /// Records the share of the modelled rate at which packets leave from now on, in percent, with `flight` bytes in
    /// flight.
    pub(super) fn record_share(&mut self, share: u64, flight: usize) {
        let slowdown = &mut self.slowdown;
        if share >= 100 {
            return;
        }
        if slowdown.share != share || slowdown.end < self.delivered {
            (slowdown.share, slowdown.begin) = (share, self.delivered);
        }
        slowdown.end = self.delivered + flight as u64;
    }

    /// Forgets the losses of a round trip that ended.
    pub(super) fn end_loss_round(&mut self) {
        if self.signals.ended {
            self.signals.lost = false;
        }
    }

    /// Forgets the losses of the round trip: they were none.
    pub(super) fn forget_losses(&mut self) {
        (self.signals.lost, self.signals.lost_ranges) = (false, 0);
    }

    /// Begins the signals of the next round trip (`AdvanceLatestDeliverySignals`).
    pub(super) fn begin_loss_round(&mut self, sample: &DeliverySample) {
        if self.signals.ended {
            self.signals.latest = LatestDelivery::of(sample, &self.slowdown);
            self.signals.lost_ranges = 0;
        }
    }

    /// Forgets the signals (`ResetCongestionSignals`).
    pub(super) fn reset_signals(&mut self) {
        let end = self.signals.end;
        self.signals = RoundSignals {
            end,
            ..RoundSignals::default()
        };
    }

    /// Updates the lowest RTT.
    pub(super) fn update_min_rtt(&mut self, rtt: Option<Duration>, now: Time) {
        self.rtt.update(rtt, now);
    }

    /// Returns whether no RTT as low as the lowest recent one was measured for five seconds.
    pub(super) fn rtt_expired(&self) -> bool {
        self.rtt.expired
    }

    /// Records that the RTT was probed: the next probe is due after the interval.
    pub(super) fn rtt_probed(&mut self, now: Time) {
        if let Some((_, at)) = &mut self.rtt.recent {
            *at = now;
        }
    }

    /// Most bytes acknowledged lately beyond what the rate explains.
    pub(super) fn extra_acknowledged(&self) -> usize {
        self.aggregation.extra[0].max(self.aggregation.extra[1])
    }

    /// Begins the next interval in which acknowledgements are compared with the rate.
    pub(super) fn restart_aggregation(&mut self, now: Time) {
        (self.aggregation.since, self.aggregation.delivered) = (now, 0);
    }

    /// Compares what was acknowledged with what the rate explains (`UpdateACKAggregation`, section 5.5.9); in
    /// start-up, one round trip is remembered.
    pub(super) fn update_aggregation(
        &mut self,
        newly: usize,
        cwnd: usize,
        steady: bool,
        now: Time,
    ) {
        let nanos = now.since(self.aggregation.since).as_nanos().min(1 << 60);
        let expected = u128::from(self.rate()) * nanos / 1_000_000_000;
        let mut expected = u64::try_from(expected).unwrap_or(u64::MAX);
        if self.aggregation.delivered <= expected {
            self.restart_aggregation(now);
            expected = 0;
        }
        let round = self.rounds.count;
        let aggregation = &mut self.aggregation;
        aggregation.delivered += newly as u64;
        let extra = aggregation.delivered.saturating_sub(expected);
        let extra = usize::try_from(extra).unwrap_or(usize::MAX).min(cwnd);
        let length = if steady { AGGREGATION_ROUNDS } else { 1 };
        if round >= aggregation.begin + length {
            aggregation.begin = round;
            aggregation.extra = [0, aggregation.extra[0]];
        }
        aggregation.extra[0] = aggregation.extra[0].max(extra);
    }
}
