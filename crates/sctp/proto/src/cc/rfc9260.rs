//! Congestion control of RFC 9260: slow start, congestion avoidance with `partial_bytes_acked`, and halving
//! after a loss (sections 7.2.1 to 7.2.3).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Acknowledged, Algorithm, CongestionEvent, Controller, Parameters, initial_window};
use crate::time::Time;

/// Minimum of ssthresh after a loss, in PMDCS (RFC 9260, section 7.2.3).
const FLOOR: usize = 4;

/// Algorithm of RFC 9260, section 7.2.
#[derive(Clone, Copy, Debug)]
pub struct Rfc9260;

impl Algorithm for Rfc9260 {
    fn name(&self) -> &'static str {
        "rfc9260"
    }

    fn start(&self, parameters: Parameters) -> Box<dyn Controller> {
        Box::new(Window::new(parameters, FLOOR))
    }

    fn import(&self, now: Time, state: &[u8]) -> Option<Box<dyn Controller>> {
        super::import::<Window>(now, state)
    }
}

#[derive(Debug)]
pub(super) struct Window {
    parameters: Parameters,
    /// Minimum of ssthresh after a loss, in PMDCS.
    floor: usize,
    pub(super) cwnd: usize,
    ssthresh: usize,
    partial_bytes_acked: usize,
    /// ssthresh has been set for the current idle period (section 7.2.1).
    idle: bool,
    /// cwnd and ssthresh in bytes before the last reduction, for [`Controller::on_undo`].
    before: Option<(usize, usize)>,
}

portable_struct! { Window { parameters, floor, cwnd, ssthresh, partial_bytes_acked, idle, before } }

impl Window {
    pub(super) fn new(parameters: Parameters, floor: usize) -> Self {
        let mut window = Self {
            parameters,
            floor,
            cwnd: 0,
            ssthresh: 0,
            partial_bytes_acked: 0,
            idle: false,
            before: None,
        };
        window.reset();
        window
    }

    fn halved(&self) -> usize {
        (self.cwnd / 2).max(self.floor * self.parameters.pmdcs)
    }
}

impl Controller for Window {
    fn window(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn partial_bytes_acked(&self) -> usize {
        self.partial_bytes_acked
    }

    fn on_ack(&mut self, acknowledged: &Acknowledged) {
        self.idle = false;
        let utilized = acknowledged.flight_before >= self.cwnd;
        let pmdcs = self.parameters.pmdcs;
        if self.cwnd <= self.ssthresh {
            if utilized && !acknowledged.fast_recovery {
                self.cwnd += acknowledged
                    .bytes
                    .min(self.parameters.slow_start_limit as usize * pmdcs);
            }
        } else {
            self.partial_bytes_acked += acknowledged.bytes;
            if self.partial_bytes_acked >= self.cwnd {
                if utilized {
                    self.partial_bytes_acked -= self.cwnd;
                    if !acknowledged.fast_recovery {
                        self.cwnd += pmdcs;
                    }
                } else {
                    self.partial_bytes_acked = self.cwnd;
                }
            }
        }
        if acknowledged.all_acknowledged {
            self.partial_bytes_acked = 0;
        }
    }

    fn on_congestion(&mut self, event: CongestionEvent) {
        self.before = Some((self.cwnd, self.ssthresh));
        self.ssthresh = self.halved();
        self.cwnd = match event {
            CongestionEvent::Loss | CongestionEvent::Ecn => self.ssthresh,
            CongestionEvent::Timeout => self.parameters.pmdcs,
        };
        self.partial_bytes_acked = 0;
    }

    fn on_undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.before.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    fn on_idle(&mut self, rtos: u32) {
        let floor = self.floor * self.parameters.pmdcs;
        for _ in 0..rtos {
            // Idleness never increases a window that a loss reduced below the minimum.
            if self.cwnd <= floor {
                break;
            }
            if !self.idle {
                self.ssthresh = self.cwnd;
                self.idle = true;
            }
            self.cwnd = self.halved();
        }
    }

    fn set_pmdcs(&mut self, pmdcs: usize) {
        self.parameters.pmdcs = pmdcs;
        self.cwnd = self.cwnd.max(pmdcs);
    }

    fn reset(&mut self) {
        self.cwnd = initial_window(&self.parameters);
        self.ssthresh = usize::MAX;
        self.partial_bytes_acked = 0;
        self.idle = false;
        self.before = None;
    }

    fn export(&self, now: Time) -> Option<Vec<u8>> {
        super::export(self, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PMDCS: usize = 1452;

    fn of(parameters: Parameters) -> Window {
        Window::new(parameters, FLOOR)
    }

    fn window() -> Window {
        of(Parameters {
            pmdcs: PMDCS,
            ipv6: false,
            slow_start_limit: 1,
        })
    }

    fn ack(bytes: usize, flight_before: usize) -> Acknowledged {
        Acknowledged {
            bytes,
            flight_before,
            ..Acknowledged::default()
        }
    }

    /// RFC 9260, section 7.2.1
    #[test]
    fn the_initial_window_depends_on_the_pmdcs() {
        assert_eq!(window().window(), 4404);
        assert_eq!(
            of(Parameters {
                pmdcs: 1432,
                ipv6: true,
                slow_start_limit: 1
            })
            .window(),
            4344
        );
        assert_eq!(
            of(Parameters {
                pmdcs: 500,
                ipv6: false,
                slow_start_limit: 1
            })
            .window(),
            2000
        );
        assert_eq!(
            of(Parameters {
                pmdcs: 8952,
                ipv6: false,
                slow_start_limit: 1
            })
            .window(),
            17904
        );
    }

    /// RFC 9260, section 7.2.1
    #[test]
    fn slow_start_grows_by_at_most_one_pmdcs_per_sack() {
        let mut w = window();
        w.on_ack(&ack(2 * PMDCS, 4404));
        assert_eq!(w.window(), 4404 + PMDCS);
        w.on_ack(&ack(100, 4404 + PMDCS));
        assert_eq!(w.window(), 4404 + PMDCS + 100);
        let before = w.window();
        w.on_ack(&ack(PMDCS, before - 1));
        assert_eq!(w.window(), before, "not fully used");
        w.on_ack(&Acknowledged {
            fast_recovery: true,
            ..ack(PMDCS, before)
        });
        assert_eq!(w.window(), before, "no growth in Fast Recovery");
    }

    /// RFC 9260, section 7.2.2
    #[test]
    fn congestion_avoidance_adds_one_pmdcs_per_window() {
        let mut w = window();
        w.cwnd = 10 * PMDCS;
        w.on_congestion(CongestionEvent::Loss);
        assert_eq!((w.window(), w.ssthresh()), (5 * PMDCS, 5 * PMDCS));
        w.cwnd += 1;
        let start = w.window();
        for _ in 0..5 {
            w.on_ack(&ack(PMDCS, start));
        }
        assert_eq!(w.window(), start, "one byte short of a window");
        w.on_ack(&ack(PMDCS, start));
        assert_eq!(w.window(), start + PMDCS);
        assert_eq!(w.partial_bytes_acked(), 6 * PMDCS - start);
    }

    #[test]
    fn unused_credit_is_capped_at_one_window() {
        let mut w = window();
        w.cwnd = 10 * PMDCS;
        w.on_congestion(CongestionEvent::Loss);
        w.cwnd += 1;
        for _ in 0..50 {
            w.on_ack(&ack(PMDCS, PMDCS));
        }
        assert_eq!(w.partial_bytes_acked(), w.window());
        w.on_ack(&Acknowledged {
            all_acknowledged: true,
            ..ack(PMDCS, PMDCS)
        });
        assert_eq!(w.partial_bytes_acked(), 0);
    }

    /// RFC 9260, section 7.2.3
    #[test]
    fn losses_halve_ssthresh_down_to_four_packets() {
        let mut w = window();
        w.cwnd = 20 * PMDCS;
        w.on_congestion(CongestionEvent::Timeout);
        assert_eq!((w.window(), w.ssthresh()), (PMDCS, 10 * PMDCS));
        w.on_congestion(CongestionEvent::Loss);
        assert_eq!(
            (w.window(), w.ssthresh()),
            (4 * PMDCS, 4 * PMDCS),
            "not below four packets"
        );
    }

    #[test]
    fn a_reduction_that_was_needless_is_undone_once() {
        let mut w = window();
        w.cwnd = 20 * PMDCS;
        w.on_congestion(CongestionEvent::Timeout);
        w.on_undo();
        assert_eq!((w.window(), w.ssthresh()), (20 * PMDCS, usize::MAX));
        w.on_congestion(CongestionEvent::Loss);
        w.cwnd = 30 * PMDCS;
        w.on_undo();
        assert_eq!(w.window(), 30 * PMDCS, "never to a smaller one");
        w.on_congestion(CongestionEvent::Loss);
        w.on_undo();
        w.cwnd = PMDCS;
        w.on_undo();
        assert_eq!(w.window(), PMDCS);
    }

    /// RFC 9260, section 7.2.1
    #[test]
    fn idleness_halves_the_window_down_to_four_packets() {
        let mut w = window();
        w.cwnd = 40 * PMDCS;
        w.on_idle(1);
        assert_eq!((w.window(), w.ssthresh()), (20 * PMDCS, 40 * PMDCS));
        w.on_idle(9);
        assert_eq!((w.window(), w.ssthresh()), (4 * PMDCS, 40 * PMDCS));
        w.on_congestion(CongestionEvent::Timeout);
        w.on_idle(3);
        assert_eq!(w.window(), PMDCS);
    }
}
