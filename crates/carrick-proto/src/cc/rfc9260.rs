//! RFC 9260's own congestion control: slow start, congestion avoidance with
//! `partial_bytes_acked`, halving on loss (sections 7.2.1 to 7.2.3).

use alloc::boxed::Box;

use super::{Acknowledged, Algorithm, CongestionEvent, Controller, Parameters, initial_window};

/// The least that a loss leaves of ssthresh, in PMDCS.
const FLOOR: usize = 4;

/// The algorithm of RFC 9260 section 7.2.
#[derive(Clone, Copy, Debug)]
pub struct Rfc9260;

impl Algorithm for Rfc9260 {
    fn name(&self) -> &'static str {
        "rfc9260"
    }

    fn start(&self, parameters: Parameters) -> Box<dyn Controller> {
        Box::new(Window::new(parameters, FLOOR))
    }
}

#[derive(Debug)]
pub(super) struct Window {
    parameters: Parameters,
    /// The least that a loss leaves of ssthresh, in PMDCS.
    floor: usize,
    pub(super) cwnd: usize,
    ssthresh: usize,
    partial_bytes_acked: usize,
    /// The first idle adjustment since data was sent has been made (section 7.2.1).
    idle: bool,
    /// cwnd and ssthresh before the last reduction.
    before: Option<(usize, usize)>,
}

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
            // Idleness never raises a window that a loss made small.
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

    #[test]
    fn the_initial_window_is_that_of_section_7_2_1() {
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

    #[test]
    fn slow_start_grows_by_what_was_acknowledged_up_to_one_pmdcs_when_fully_used() {
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

    #[test]
    fn losses_and_timeouts_follow_section_7_2_3() {
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

    #[test]
    fn idleness_halves_down_to_four_packets_and_never_raises() {
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
