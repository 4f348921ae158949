//! Common part of the coupled congestion controllers: the window of RFC 9260, section 7.2. A [`Rule`]
//! computes its growth and its reduction from the state of all paths.
//!
//! In congestion avoidance the window grows with each acknowledged byte, and fractions of a byte are
//! carried over. RFC 9260 adds one PMDCS after a whole window instead; the sum is the same, and the account
//! in fractions allows growth of any size. As in RFC 9260, a window grows only while it is fully used, and
//! not during Fast Recovery.

use alloc::vec::Vec;
use core::fmt::Debug;
use core::time::Duration;

use super::{Acknowledged, CongestionEvent, Controller, Member, Parameters, initial_window};
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::time::Time;

/// Fractions per byte in the account of growth.
pub(super) const FRACTION: i128 = 1 << 16;

/// Rule by which the windows of an association's paths depend on each other.
pub(super) trait Rule: Debug + Default + Portable + Send + 'static {
    /// Records the state of all paths that carry data, this one at `own`.
    fn observe(&mut self, members: &[Member], own: usize);
    /// Returns the growth in slow start for this number of acknowledged bytes, in bytes.
    fn slow_start(&self, bytes: usize) -> usize {
        bytes
    }
    /// Returns the growth in congestion avoidance, in [`FRACTION`]s of a byte; it may be negative.
    fn avoidance(&self, bytes: usize, cwnd: usize, pmdcs: usize) -> i128;
    /// Returns the window after a loss, in bytes.
    fn reduced(&self, cwnd: usize, pmdcs: usize) -> usize {
        (cwnd / 2).max(4 * pmdcs)
    }
    /// Records the acknowledgement of data of this path.
    fn on_acknowledged(&mut self, bytes: usize) {
        let _ = bytes;
    }
    /// Records the loss of data of this path.
    fn on_lost(&mut self) {}
    /// Implements [`Controller::between_losses`].
    fn between_losses(&self) -> u64 {
        0
    }
}

/// Returns the rate of a path in bytes per second: its window by its round-trip time.
pub(super) fn rate(member: &Member) -> u128 {
    member.cwnd as u128 * 1_000_000 / micros(member.rtt)
}

/// Returns a round-trip time in microseconds, at least 1.
pub(super) fn micros(rtt: Duration) -> u128 {
    rtt.as_micros().max(1)
}

#[derive(Debug)]
pub(super) struct Window<R> {
    parameters: Parameters,
    pub(super) cwnd: usize,
    pub(super) ssthresh: usize,
    /// Growth not yet added to the window, in [`FRACTION`]s of a byte.
    credit: i128,
    idle: bool,
    /// cwnd and ssthresh in bytes before the last reduction, for [`Controller::on_undo`].
    before: Option<(usize, usize)>,
    pub(super) rule: R,
}

impl<R: Rule> Portable for Window<R> {
    fn write(&self, out: &mut ExportWriter) {
        let Self {
            parameters,
            cwnd,
            ssthresh,
            credit,
            idle,
            before,
            rule,
        } = self;
        parameters.write(out);
        cwnd.write(out);
        ssthresh.write(out);
        credit.write(out);
        idle.write(out);
        before.write(out);
        rule.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        Ok(Self {
            parameters: Portable::read(input)?,
            cwnd: Portable::read(input)?,
            ssthresh: Portable::read(input)?,
            credit: Portable::read(input)?,
            idle: Portable::read(input)?,
            before: Portable::read(input)?,
            rule: Portable::read(input)?,
        })
    }
}

impl<R: Rule> Window<R> {
    pub(super) fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            cwnd: initial_window(&parameters),
            ssthresh: usize::MAX,
            credit: 0,
            idle: false,
            before: None,
            rule: R::default(),
        }
    }

    fn reduce(&mut self) {
        self.before = Some((self.cwnd, self.ssthresh));
        self.ssthresh = self.rule.reduced(self.cwnd, self.parameters.pmdcs);
        self.credit = 0;
        self.rule.on_lost();
    }

    fn avoid_congestion(&mut self, bytes: usize) {
        let pmdcs = self.parameters.pmdcs;
        self.credit += self.rule.avoidance(bytes, self.cwnd, pmdcs);
        let whole = self.credit.div_euclid(FRACTION);
        self.credit = self.credit.rem_euclid(FRACTION);
        let change = isize::try_from(whole).unwrap_or(isize::MAX);
        self.cwnd = self.cwnd.saturating_add_signed(change).max(pmdcs);
        // Keeps a window that the rule reduced in congestion avoidance.
        self.ssthresh = self.ssthresh.min(self.cwnd - 1);
    }
}

impl<R: Rule> Controller for Window<R> {
    fn window(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn on_members(&mut self, members: &[Member], own: usize) {
        self.rule.observe(members, own);
    }

    fn between_losses(&self) -> u64 {
        self.rule.between_losses()
    }

    fn on_ack(&mut self, acknowledged: &Acknowledged) {
        self.idle = false;
        self.rule.on_acknowledged(acknowledged.bytes);
        if acknowledged.flight_before < self.cwnd || acknowledged.fast_recovery {
            return;
        }
        if self.cwnd <= self.ssthresh {
            let limit = self.parameters.slow_start_limit as usize * self.parameters.pmdcs;
            self.cwnd += self.rule.slow_start(acknowledged.bytes.min(limit));
        } else {
            self.avoid_congestion(acknowledged.bytes);
        }
    }

    fn on_congestion(&mut self, event: CongestionEvent) {
        self.reduce();
        self.cwnd = match event {
            CongestionEvent::Loss | CongestionEvent::Ecn => self.ssthresh,
            CongestionEvent::Timeout => self.parameters.pmdcs,
        };
    }

    fn on_undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.before.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
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
pub(super) mod tests {
    use super::*;

    pub(crate) const PMDCS: usize = 1000;

    pub(crate) fn member(cwnd: usize, rtt_ms: u64) -> Member {
        Member {
            cwnd,
            ssthresh: cwnd,
            rtt: Duration::from_millis(rtt_ms),
            between_losses: 0,
        }
    }

    /// Returns a window in congestion avoidance for the path at `own` of these paths.
    pub(crate) fn window<R: Rule>(members: &[Member], own: usize) -> Window<R> {
        let mut window = Window::new(Parameters {
            pmdcs: PMDCS,
            ipv6: false,
            slow_start_limit: 1,
        });
        window.cwnd = members[own].cwnd;
        window.ssthresh = members[own].cwnd - 1;
        window.on_members(members, own);
        window
    }

    /// Returns the growth in bytes when a whole window is acknowledged, packet by packet.
    pub(crate) fn round<R: Rule>(window: &mut Window<R>) -> isize {
        let before = window.cwnd;
        for _ in 0..before / PMDCS {
            window.on_ack(&Acknowledged {
                bytes: PMDCS,
                flight_before: window.cwnd,
                ..Acknowledged::default()
            });
        }
        window.cwnd as isize - before as isize
    }

    #[derive(Debug, Default)]
    struct Half;

    impl Portable for Half {
        fn write(&self, _: &mut ExportWriter) {}

        fn read(_: &mut ExportReader<'_>) -> Result<Self, ImportError> {
            Ok(Self)
        }
    }

    impl Rule for Half {
        fn observe(&mut self, _: &[Member], _: usize) {}

        fn avoidance(&self, bytes: usize, _: usize, _: usize) -> i128 {
            bytes as i128 * FRACTION / 3000
        }
    }

    #[test]
    fn fractions_of_a_byte_are_carried_over() {
        let mut w = window::<Half>(&[member(9 * PMDCS, 100)], 0);
        assert_eq!(
            round(&mut w),
            2,
            "9 thirds, all but the last one of which is whole"
        );
        let unused = Acknowledged {
            bytes: 100 * PMDCS,
            flight_before: 10,
            ..Acknowledged::default()
        };
        let before = w.cwnd;
        w.on_ack(&unused);
        assert_eq!(w.cwnd, before, "not fully used");
        w.on_congestion(CongestionEvent::Timeout);
        assert_eq!((w.cwnd, w.ssthresh), (PMDCS, before / 2));
        w.on_undo();
        assert_eq!(w.cwnd, before);
        w.on_idle(9);
        assert_eq!((w.cwnd, w.ssthresh), (4 * PMDCS, before));
    }
}
