//! CUBIC (RFC 8312, RFC 9438) with `HyStart++` (RFC 9406), in whole numbers: the same on every machine.
//!
//! The window is a cubic function of the time since the last reduction. The function is flat around the
//! window before that reduction, and the window is never smaller than with the additive increase of
//! RFC 9260. Initial window, minimum window and idleness follow RFC 9260, section 7.2.1.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::hystart::{CSS_GROWTH_DIVISOR, HyStart, Pace};
use super::{Acknowledged, CongestionEvent, Controller, Parameters, initial_window};
use crate::time::Time;

/// Limit of the growth per SACK in slow start, in packets (L of RFC 9406, section 4.3, without pacing).
const LIMIT: u32 = 8;
/// Window after a loss, in tenths of the window before it (beta of RFC 9438, section 4.6).
const BETA: usize = 7;
/// Additive increase that is fair with `BETA`, in packets per round trip (alpha of RFC 9438, section 4.3):
/// 3 (1 - 0.7) / (1 + 0.7) = 9/17.
const ALPHA: (u128, u128) = (9, 17);
/// Fractions per byte in the estimate of the additive window.
const FRACTION: u128 = 1 << 10;

/// The algorithm of RFC 9438, with `HyStart++` in its first slow start.
#[derive(Clone, Copy, Debug)]
pub struct Cubic;

algorithm! { Cubic: "cubic", Window }

/// Congestion avoidance since the last reduction.
#[derive(Debug)]
struct Epoch {
    start: Time,
    /// Time from `start` to the plateau of the function, in milliseconds (K).
    k: u64,
    /// Window at the plateau, in bytes.
    plateau: usize,
    /// Window that additive increase would have reached, in [`FRACTION`]s of a byte.
    additive: u128,
    /// Growth not yet added to the window: bytes times the window.
    credit: u128,
}

portable_struct! { Epoch { start, k, plateau, additive, credit } }

/// State before a reduction, restored if the reduction was needless.
#[derive(Debug)]
struct Before {
    cwnd: usize,
    ssthresh: usize,
    largest: usize,
    epoch: Option<Box<Epoch>>,
}

portable_struct! { Before { cwnd, ssthresh, largest, epoch } }

#[derive(Debug)]
struct Window {
    parameters: Parameters,
    cwnd: usize,
    ssthresh: usize,
    hystart: HyStart,
    /// Window before the last reduction, in bytes (`W_max`); less if it had not reached the previous `W_max`
    /// (fast convergence), 0 before the first reduction.
    largest: usize,
    /// Window before the last reduction, in bytes.
    prior: usize,
    epoch: Option<Box<Epoch>>,
    srtt: Option<Duration>,
    last_ack: Time,
    idle: bool,
    before: Option<Box<Before>>,
}

portable_struct! {
    Window {
        parameters, cwnd, ssthresh, hystart, largest, prior, epoch, srtt, last_ack, idle, before,
    }
}

impl Window {
    fn new(parameters: Parameters) -> Self {
        let cwnd = initial_window(&parameters);
        Self {
            parameters,
            cwnd,
            ssthresh: usize::MAX,
            hystart: HyStart::default(),
            largest: 0,
            prior: 0,
            epoch: None,
            srtt: None,
            last_ack: Time::ZERO,
            idle: false,
            before: None,
        }
    }

    fn slow_start(&mut self, acknowledged: &Acknowledged) {
        let limit = LIMIT.max(self.parameters.slow_start_limit) as usize;
        let growth = acknowledged.bytes.min(limit * self.parameters.pmdcs);
        // Later slow starts end at ssthresh.
        let pace = if self.ssthresh == usize::MAX {
            self.hystart.on_ack(acknowledged)
        } else {
            Pace::Full
        };
        match pace {
            Pace::Full => self.cwnd += growth,
            Pace::Conservative => self.cwnd += growth / CSS_GROWTH_DIVISOR,
            Pace::Exit => self.ssthresh = self.cwnd,
        }
    }

    /// Grows the window in congestion avoidance (RFC 9438, sections 4.2 to 4.5).
    fn avoid_congestion(&mut self, acknowledged: &Acknowledged) {
        let pmdcs = self.parameters.pmdcs as u128;
        let (cwnd, now) = (self.cwnd, acknowledged.now);
        let largest = self.largest;
        let epoch = self.epoch.get_or_insert_with(|| {
            Box::new(Epoch {
                start: now,
                k: plateau_after(largest.saturating_sub(cwnd), pmdcs),
                plateau: largest.max(cwnd),
                additive: cwnd as u128 * FRACTION,
                credit: 0,
            })
        });
        let bytes = acknowledged.bytes as u128;
        let (alpha, of) = if epoch.additive < self.prior as u128 * FRACTION {
            ALPHA
        } else {
            (1, 1)
        };
        epoch.additive += FRACTION * bytes * pmdcs * alpha / (cwnd as u128 * of);
        let elapsed = now.since(epoch.start);
        let additive = usize::try_from(epoch.additive / FRACTION).unwrap_or(usize::MAX);
        if epoch.window(elapsed, pmdcs) < additive {
            self.cwnd = cwnd.max(additive);
            return;
        }
        let ahead = epoch.window(elapsed + self.srtt.unwrap_or_default(), pmdcs);
        let target = ahead.clamp(cwnd, cwnd + cwnd / 2);
        epoch.credit += (target - cwnd) as u128 * bytes;
        let growth = epoch.credit / cwnd as u128;
        epoch.credit %= cwnd as u128;
        self.cwnd = cwnd.saturating_add(usize::try_from(growth).unwrap_or(usize::MAX));
    }

    fn reduce(&mut self) {
        self.before = Some(Box::new(Before {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            largest: self.largest,
            epoch: self.epoch.take(),
        }));
        self.prior = self.cwnd;
        // Fast convergence (RFC 9438, section 4.7): a flow that loses below its previous window releases
        // capacity to other flows.
        self.largest = if self.cwnd < self.largest {
            self.cwnd / 20 * (10 + BETA)
        } else {
            self.cwnd
        };
        self.ssthresh = (self.cwnd / 10 * BETA).max(4 * self.parameters.pmdcs);
    }
}

impl Epoch {
    /// Returns the cubic function at this time since `start`, in bytes: the plateau plus C (t - K)^3 packets,
    /// C = 0.4.
    fn window(&self, at: Duration, pmdcs: u128) -> usize {
        // Limited to a day, so that the cube does not overflow.
        let at = u64::try_from(at.as_millis())
            .unwrap_or(u64::MAX)
            .min(86_400_000);
        let distance = u128::from(at.abs_diff(self.k));
        let bytes = distance.pow(3) * pmdcs * 2 / 5 / 1_000_000_000;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if at >= self.k {
            self.plateau.saturating_add(bytes)
        } else {
            self.plateau.saturating_sub(bytes)
        }
    }
}

/// Returns K in milliseconds: the cube root of the distance to the plateau, in packets, divided by C
/// (RFC 9438, section 4.2). `missing` is that distance in bytes.
fn plateau_after(missing: usize, pmdcs: u128) -> u64 {
    cube_root(missing as u128 * 1_000_000_000 * 5 / 2 / pmdcs.max(1))
}

/// Returns the largest number whose cube is at most `n`, determined bit by bit.
fn cube_root(n: u128) -> u64 {
    let mut root = 0_u128;
    // 2^42 cubed is 2^126.
    for bit in (0..=42).rev() {
        let candidate = root | 1 << bit;
        if candidate.checked_pow(3).is_some_and(|cube| cube <= n) {
            root = candidate;
        }
    }
    root as u64
}

impl Controller for Window {
    fn window(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn on_ack(&mut self, acknowledged: &Acknowledged) {
        self.idle = false;
        let now = acknowledged.now;
        if let Some(rtt) = acknowledged.rtt {
            self.srtt = Some(self.srtt.map_or(rtt, |s| s * 7 / 8 + rtt / 8));
        }
        let elapsed = now.since(core::mem::replace(&mut self.last_ack, now));
        if !acknowledged.window_limited || acknowledged.fast_recovery {
            // Excludes the time in which the window was not fully used (RFC 9438, section 4.2).
            if let Some(epoch) = &mut self.epoch {
                epoch.start += elapsed;
            }
        } else if self.cwnd < self.ssthresh {
            self.slow_start(acknowledged);
        } else {
            self.avoid_congestion(acknowledged);
        }
    }

    fn on_congestion(&mut self, event: CongestionEvent) {
        self.reduce();
        match event {
            CongestionEvent::Loss | CongestionEvent::Ecn => self.cwnd = self.ssthresh,
            CongestionEvent::Timeout => {
                self.cwnd = self.parameters.pmdcs;
                // The next epoch begins at its plateau (RFC 9438, section 4.8).
                self.largest = 0;
            }
        }
    }

    fn on_undo(&mut self) {
        if let Some(before) = self.before.take() {
            self.cwnd = self.cwnd.max(before.cwnd);
            self.ssthresh = self.ssthresh.max(before.ssthresh);
            self.largest = before.largest;
            self.epoch = before.epoch;
        }
    }

    fn on_idle(&mut self, rtos: u32) {
        let floor = 4 * self.parameters.pmdcs;
        for _ in 0..rtos {
            if self.cwnd <= floor {
                break;
            }
            if !self.idle {
                self.ssthresh = self.cwnd;
                self.idle = true;
            }
            self.cwnd = (self.cwnd / 2).max(floor);
            self.epoch = None;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const PMDCS: usize = 1000;

    /// Window after a loss, with a clock that advances by one round trip per acknowledged window.
    struct Flow {
        w: Window,
        now: Time,
    }

    impl Flow {
        fn after_loss(cwnd: usize) -> Self {
            let mut w = Window::new(Parameters {
                pmdcs: PMDCS,
                ipv6: false,
                slow_start_limit: 1,
            });
            w.cwnd = cwnd;
            w.on_congestion(CongestionEvent::Loss);
            let now = Time::from_millis(1000);
            w.last_ack = now;
            Self { w, now }
        }

        fn round(&mut self, rtt_ms: u64, window_limited: bool) {
            let rtt = Duration::from_millis(rtt_ms);
            self.now += rtt;
            let mut left = self.w.cwnd;
            while left > 0 {
                let bytes = left.min(2 * PMDCS);
                left -= bytes;
                self.w.on_ack(&Acknowledged {
                    bytes,
                    now: self.now,
                    rtt: Some(rtt),
                    window_limited,
                    ..Acknowledged::default()
                });
            }
        }

        fn rounds(&mut self, count: u32, rtt_ms: u64) {
            (0..count).for_each(|_| self.round(rtt_ms, true));
        }
    }

    #[test]
    fn cube_roots_are_exact() {
        for (n, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3)] {
            assert_eq!(cube_root(n), root);
        }
        for root in [1_u64 << 20, 12_345_678, (1 << 42) - 1] {
            let cube = u128::from(root).pow(3);
            assert_eq!((cube_root(cube - 1), cube_root(cube)), (root - 1, root));
        }
        assert!(cube_root(u128::MAX) > 1 << 42);
    }

    /// RFC 9438, section 4.2
    #[test]
    fn the_window_recovers_after_k_and_then_probes() {
        let mut f = Flow::after_loss(1000 * PMDCS);
        assert_eq!(f.w.cwnd, 700 * PMDCS);
        // K = (300 / 0.4)^(1/3) = 9.08 s.
        assert_eq!(plateau_after(300 * PMDCS, PMDCS as u128), 9085);
        f.rounds(45, 100);
        let half = f.w.cwnd;
        assert!((950 * PMDCS..970 * PMDCS).contains(&half), "{half}");
        f.rounds(45, 100);
        let whole = f.w.cwnd;
        assert!((995 * PMDCS..=1001 * PMDCS).contains(&whole), "{whole}");
        f.rounds(20, 100);
        assert!(f.w.cwnd < 1010 * PMDCS, "flat: {}", f.w.cwnd);
        f.rounds(90, 100);
        assert!(f.w.cwnd > 1300 * PMDCS, "steep: {}", f.w.cwnd);
    }

    /// RFC 9438, section 1
    #[test]
    fn the_growth_is_independent_of_the_round_trip_time() {
        let mut near = Flow::after_loss(5000 * PMDCS);
        let mut far = Flow::after_loss(5000 * PMDCS);
        near.rounds(500, 20);
        far.rounds(50, 200);
        let (near, far) = (near.w.cwnd, far.w.cwnd);
        assert!(near.abs_diff(far) < 60 * PMDCS, "{near} {far}");
    }

    /// RFC 9438, section 4.3
    #[test]
    fn a_small_window_grows_by_additive_increase() {
        let mut f = Flow::after_loss(20 * PMDCS);
        assert_eq!(f.w.cwnd, 14 * PMDCS);
        // 9/17 of a packet per round trip up to the window before the loss, then one packet.
        f.rounds(11, 10);
        let cwnd = f.w.cwnd;
        assert!((19 * PMDCS..=21 * PMDCS).contains(&cwnd), "{cwnd}");
        f.rounds(11, 10);
        assert!(f.w.cwnd > cwnd + 9 * PMDCS, "{}", f.w.cwnd);
    }

    /// RFC 9438, section 4.7
    #[test]
    fn a_loss_below_the_last_window_releases_capacity() {
        let mut f = Flow::after_loss(1000 * PMDCS);
        f.w.on_congestion(CongestionEvent::Loss);
        assert_eq!(f.w.largest, 595 * PMDCS);
        assert_eq!(f.w.cwnd, 490 * PMDCS);
    }

    /// RFC 9438, section 4.2
    #[test]
    fn an_unused_window_does_not_grow() {
        let mut f = Flow::after_loss(1000 * PMDCS);
        f.rounds(10, 100);
        let before = f.w.cwnd;
        (0..200).for_each(|_| f.round(100, false));
        assert_eq!(f.w.cwnd, before);
        f.rounds(1, 100);
        assert!(
            f.w.cwnd < before + 15 * PMDCS,
            "time without growth does not count"
        );
    }

    /// RFC 9438, section 4.9
    #[test]
    fn a_needless_reduction_is_undone_completely() {
        let mut f = Flow::after_loss(1000 * PMDCS);
        f.rounds(30, 100);
        let before = f.w.cwnd;
        f.w.on_congestion(CongestionEvent::Timeout);
        assert_eq!(f.w.cwnd, PMDCS);
        f.w.on_undo();
        assert_eq!((f.w.cwnd, f.w.largest), (before, 1000 * PMDCS));
        let mut other = Flow::after_loss(1000 * PMDCS);
        other.rounds(31, 100);
        f.rounds(1, 100);
        assert_eq!(f.w.cwnd, other.w.cwnd);
    }

    /// RFC 9438, section 4.8
    #[test]
    fn after_a_timeout_the_epoch_begins_at_its_plateau() {
        let mut f = Flow::after_loss(1000 * PMDCS);
        f.w.on_congestion(CongestionEvent::Timeout);
        f.rounds(10, 100);
        let epoch = f.w.epoch.expect("congestion avoidance");
        assert_eq!(epoch.k, 0);
        assert!(epoch.plateau >= f.w.ssthresh);
    }
}
