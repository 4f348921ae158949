//! BBR, version 3 (draft-ietf-ccwg-bbr-06): a model of the path instead of a window that losses reduce. The
//! model has the highest delivery rate, the lowest round-trip time, and the bounds that losses suggest; packets
//! are paced at the rate, and the window bounds the data in flight by a multiple of rate times round-trip time.
//!
//! - `model`: the path model (sections 5.5 and 2.9 to 2.12)
//! - `phases`: the state machine (section 5.3)
//!
//! Differences from the draft:
//!
//! - The rate includes the headers of DATA chunks where the association counts them.
//! - Random times (section 5.3.3.8) are derived from the time of a SACK and the bytes delivered, so that equal
//!   runs are equal.
//! - The short-term bounds after a loss allow for the share of the rate at which the data left, by the pacing below
//!   the rate (section 2.5), in the drain, after a probe for bandwidth or while the RTT is probed, so that random
//!   losses do not reduce them while the path delivers all that it gets.
//! - An ECN mark, for which the draft leaves the response open (section 3.7), counts as a loss, and as too
//!   much data in flight while the sender probes for bandwidth.

mod model;
mod phases;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::time::Duration;

use super::{
    Acknowledged, CongestionEvent, Controller, DeliverySample, PacketLost, PacketSent, Parameters,
    initial_window,
};
use crate::time::Time;
use model::{PACED_SHARE, PathModel, percent};
use phases::{BandwidthProbe, FullPipe, Phase, RttProbe};

/// Window at least, in PMDCS: enough for a peer that acknowledges every second packet (section 2.8).
const MIN_PIPE_WINDOW: usize = 4;
/// Time in which a quantum of packets leaves at the pacing rate, and its limit in bytes (section 5.6.3).
const QUANTUM_TIME: Duration = Duration::from_millis(1);
const MAX_QUANTUM: usize = 65_536;

/// BBR, version 3: rate-based, paced, tolerant of random losses up to 2 % in a round trip.
#[derive(Clone, Copy, Debug)]
pub struct Bbr;

algorithm! { Bbr: "bbr", BbrController, is_rate_based }

/// Model bounds, window and phase before a loss, for a loss that was none (section 5.5.11).
#[derive(Clone, Copy, Debug)]
struct BeforeLoss {
    bounds: model::Bounds,
    /// Phase that the loss ended, if it did.
    phase: Option<Phase>,
}

portable_struct! { BeforeLoss { bounds, phase } }

/// BBR's state of one path.
#[derive(Clone, Copy, Debug)]
struct BbrController {
    parameters: Parameters,
    model: PathModel,
    phase: Phase,
    full_pipe: FullPipe,
    bandwidth_probe: BandwidthProbe,
    rtt_probe: RttProbe,
    cwnd: usize,
    /// Bytes per second; `None` before the first sample.
    pacing_rate: Option<u64>,
    /// Largest window without reductions for the repair of losses or for the probe of the RTT (section 5.6.4.4).
    prior_cwnd: usize,
    /// Losses are being repaired.
    repairing: bool,
    before_loss: Option<BeforeLoss>,
    /// Transmission restarted after an idle time, and nothing of it was acknowledged (section 5.4.1).
    restarting: bool,
    /// Round trip in which the drain began (section 2.7).
    drain_start: u64,
    /// Time of the last SACK.
    last_ack: Time,
}

portable_struct! {
    BbrController {
        parameters, model, phase, full_pipe, bandwidth_probe, rtt_probe, cwnd, pacing_rate, prior_cwnd,
        repairing, before_loss, restarting, drain_start, last_ack,
    }
}

impl BbrController {
    fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            model: PathModel::default(),
            phase: Phase::Startup,
            full_pipe: FullPipe::default(),
            bandwidth_probe: BandwidthProbe::default(),
            rtt_probe: RttProbe::default(),
            cwnd: initial_window(&parameters),
            pacing_rate: None,
            prior_cwnd: 0,
            repairing: false,
            before_loss: None,
            restarting: false,
            drain_start: 0,
            last_ack: Time::ZERO,
        }
    }

    /// Sets the pacing rate to a percentage of the modelled rate; in start-up only to a higher one (section
    /// 5.6.2). The first rate carries the initial window in a round trip.
    fn pace(&mut self, gain: u64) {
        let rate = percent(self.model.rate(), gain);
        let initial = self.model.min_rtt().map(|rtt| {
            let nanos = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX).max(1);
            let window = initial_window(&self.parameters) as u64 * 1_000_000_000;
            percent(window / nanos, Phase::Startup.pacing_gain())
        });
        let present = self.pacing_rate.or(initial).unwrap_or(0);
        let rate = percent(rate, PACED_SHARE);
        let rate = if self.full_pipe.reached {
            rate
        } else {
            rate.max(present)
        };
        if rate > 0 {
            // A packet per second at least.
            self.pacing_rate = Some(rate.max(self.parameters.pmdcs as u64));
        }
    }

    /// Bytes that leave together at the pacing rate (section 5.6.3).
    fn quantum(&self) -> usize {
        let rate = self.pacing_rate.unwrap_or(0);
        let bytes = rate / 1000 * u64::try_from(QUANTUM_TIME.as_millis()).unwrap_or(1);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        bytes.min(MAX_QUANTUM).max(2 * self.parameters.pmdcs)
    }

    fn min_window(&self) -> usize {
        MIN_PIPE_WINDOW * self.parameters.pmdcs
    }

    /// Raises a volume of data to what offload and delayed SACKs need (`QuantizationBudget`, section 5.6.4.2).
    fn with_budget(&self, bytes: usize) -> usize {
        let bytes = bytes.max(self.quantum()).max(self.min_window());
        match self.phase {
            Phase::ProbeUp => bytes.saturating_add(2 * self.parameters.pmdcs),
            _ => bytes,
        }
    }

    /// Product of a rate and the lowest RTT, times a gain in percent (`BDPMultiple`, section 5.6.4.2).
    fn product(&self, rate: u64, gain: u64) -> usize {
        let initial = initial_window(&self.parameters);
        self.model.product(rate, gain).unwrap_or(initial)
    }

    /// Data in flight that is wanted: the product, unless losses reduced the window (section 5.3.3.8).
    fn target_flight(&self) -> usize {
        self.product(self.model.rate(), 100).min(self.cwnd)
    }

    /// Long-term bound of the data in flight without the share that is left to other flows (section 5.3.3.9).
    fn flight_with_headroom(&self) -> usize {
        self.model
            .bounds
            .with_headroom(self.parameters.pmdcs, self.min_window())
    }

    /// Keeps the window for the end of the repair, or of the probe of the RTT (`SaveCwnd`, section 5.6.4.4).
    fn save_window(&mut self) {
        self.prior_cwnd = if self.repairing || self.phase == Phase::ProbeRtt {
            self.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }

    fn restore_window(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// Window of the probe of the RTT (section 5.6.4.5).
    fn rtt_probe_window(&self) -> usize {
        let bytes = self.product(self.model.rate(), Phase::ProbeRtt.window_gain());
        bytes.max(self.min_window())
    }

    /// Moves the window towards what the model needs, by no more than was acknowledged (section 5.6.4.6), within
    /// the bounds of the model (section 5.6.4.7).
    fn update_window(&mut self, sample: &DeliverySample) {
        let newly = sample.newly_acknowledged;
        let wanted = self.product(self.model.rate(), self.phase.window_gain());
        let wanted = self.with_budget(wanted.saturating_add(self.model.extra_acknowledged()));
        if self.full_pipe.reached {
            self.cwnd = self.cwnd.saturating_add(newly).min(wanted);
        } else if self.cwnd < wanted
            || sample.total_delivered < initial_window(&self.parameters) as u64
        {
            self.cwnd = self.cwnd.saturating_add(newly);
        }
        self.cwnd = self.cwnd.max(self.min_window());
        if self.phase == Phase::ProbeRtt {
            self.cwnd = self.cwnd.min(self.rtt_probe_window());
        }
        let longterm = match self.phase {
            Phase::Startup | Phase::Drain => usize::MAX,
            Phase::ProbeDown | Phase::ProbeRefill | Phase::ProbeUp => {
                self.model.bounds.longterm_flight
            }
            Phase::ProbeCruise | Phase::ProbeRtt => self.flight_with_headroom(),
        };
        let bound = longterm.min(self.model.bounds.shortterm_flight);
        self.cwnd = self.cwnd.min(bound.max(self.min_window()));
    }

    /// Records a loss. The first one of a repair saves what is to be restored if none was a loss (`NoteLoss`,
    /// section 5.5.10.2; section 5.5.11.1).
    fn note_loss(&mut self) {
        self.model.note_loss();
        self.save_window();
        if !self.repairing {
            self.repairing = true;
            self.before_loss = Some(BeforeLoss {
                bounds: self.model.bounds,
                phase: None,
            });
        }
    }
}

impl Controller for BbrController {
    fn window(&self) -> usize {
        self.cwnd
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.pacing_rate
    }

    /// Restarts from idle (`HandleRestartFromIdle`, section 5.4.1).
    fn on_sent(&mut self, sent: &PacketSent) {
        if sent.flight_before > 0 || !sent.app_limited {
            return;
        }
        self.restarting = true;
        self.model.restart_aggregation(sent.now);
        if self.phase.is_bandwidth_cycle() {
            self.pace(100);
        } else if self.phase == Phase::ProbeRtt {
            self.end_rtt_probe(sent.now);
        }
    }

    /// Takes the steps of section 5.2.3:
    ///
    /// 1. Update the signals of this round trip, the highest rate, and once in a round trip with losses the
    ///    short-term bounds (`UpdateLatestDeliverySignals`, `UpdateCongestionSignals`).
    /// 2. Estimate the aggregation of acknowledgements (`UpdateACKAggregation`).
    /// 3. End start-up and drain (`CheckFullBWReached`, `CheckStartupDone`, `CheckDrainDone`).
    /// 4. Move through the cycle of bandwidth probes (`UpdateProbeBWCyclePhase`).
    /// 5. Update the lowest RTT, and begin or end its probe (`UpdateMinRTT`, `CheckProbeRTT`).
    /// 6. Begin a round trip's signals (`AdvanceLatestDeliverySignals`).
    /// 7. Set pacing rate and window (`UpdateControlParameters`).
    fn on_ack(&mut self, acknowledged: &Acknowledged) {
        let Some(sample) = acknowledged.delivery else {
            return;
        };
        if self.repairing && !acknowledged.repairing {
            self.repairing = false;
            self.restore_window();
        }
        let sample = self.rtt_probe.limited(sample);
        let share_before = self.phase.sent_share();
        let now = acknowledged.now;
        self.last_ack = now;
        // 1.
        self.model.on_sample(&sample, acknowledged.window_limited);
        if self.model.ends_lossy_round() && !self.phase.accelerates() {
            self.model.reduce_bounds(self.cwnd);
        }
        self.model.end_loss_round();
        // 2.
        let steady = self.full_pipe.reached;
        self.model
            .update_aggregation(sample.newly_acknowledged, self.cwnd, steady, now);
        // 3.
        self.check_full_pipe(&sample);
        self.check_start_up(&sample, acknowledged);
        self.check_drain(acknowledged);
        // 4.
        self.advance_cycle(&sample, acknowledged);
        // 5.
        self.model.update_min_rtt(sample.rtt, now);
        self.check_rtt_probe(&sample, acknowledged);
        // 6.
        self.model.begin_loss_round(&sample);
        // 7.
        self.pace(self.phase.pacing_gain());
        // What is in flight at the end of a slower phase left in it.
        let share = share_before.min(self.phase.sent_share());
        self.model.record_share(share, acknowledged.flight);
        self.update_window(&sample);
    }

    /// Lowers the long-term bound if the losses of a bandwidth probe are too many (`HandleLostPacket`, section
    /// 5.5.10.2).
    fn on_lost(&mut self, lost: &PacketLost) {
        self.note_loss();
        if !lost.adjacent {
            self.model.count_lost_range();
        }
        if self.bandwidth_probe.is_sample && model::is_too_high(lost.lost, lost.flight_at_departure)
        {
            let flight = model::flight_at_loss(lost);
            self.on_flight_too_high(flight, lost.app_limited, lost.now);
        }
    }

    fn on_congestion(&mut self, event: CongestionEvent) {
        match event {
            CongestionEvent::Loss => self.note_loss(),
            CongestionEvent::Ecn => {
                self.model.note_loss();
                self.leave_probe_for_mark();
            }
            CongestionEvent::Timeout => {
                self.note_loss();
                self.cwnd = self.parameters.pmdcs;
            }
        }
    }

    /// Restores what losses changed that were none (section 5.5.11.2).
    fn on_undo(&mut self) {
        self.repairing = false;
        self.restore_window();
        self.model.forget_losses();
        self.full_pipe.restart(0);
        let Some(before) = self.before_loss.take() else {
            return;
        };
        self.model.bounds.raise_to(&before.bounds);
        self.resume(before.phase);
    }

    /// Keeps the window: packets are paced after an idle time (section 5.4.2).
    fn on_idle(&mut self, _: u32) {}

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
