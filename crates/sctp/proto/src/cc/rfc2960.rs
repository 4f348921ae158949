//! Congestion control of RFC 2960 with its differences from RFC 9260: the window is at least two packets
//! after a loss instead of four (section 7.2.3), starts at two packets (section 7.2.1), and grows only with
//! SACKs that advance the Cumulative TSN Ack Point (sections 7.2.1 and 7.2.2), thus not while a gap is
//! being repaired. Used by paper `mobile-ip`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::rfc9260::Window;
use super::{Acknowledged, Algorithm, CongestionEvent, Controller, Parameters};
use crate::time::Time;

/// Initial window, and minimum of ssthresh after a loss, in PMDCS (RFC 2960, sections 7.2.1 and 7.2.3).
const FLOOR: usize = 2;

/// Algorithm of RFC 2960, section 7.2.
#[derive(Clone, Copy, Debug)]
pub struct Rfc2960;

impl Algorithm for Rfc2960 {
    fn name(&self) -> &'static str {
        "rfc2960"
    }

    fn start(&self, parameters: Parameters) -> Box<dyn Controller> {
        let mut window = OldWindow {
            window: Window::new(parameters, FLOOR),
            pmdcs: parameters.pmdcs,
        };
        window.reset();
        Box::new(window)
    }

    fn import(&self, now: Time, state: &[u8]) -> Option<Box<dyn Controller>> {
        super::import::<OldWindow>(now, state)
    }
}

#[derive(Debug)]
struct OldWindow {
    window: Window,
    pmdcs: usize,
}

portable_struct! { OldWindow { window, pmdcs } }

impl Controller for OldWindow {
    fn window(&self) -> usize {
        self.window.window()
    }

    fn ssthresh(&self) -> usize {
        self.window.ssthresh()
    }

    fn partial_bytes_acked(&self) -> usize {
        self.window.partial_bytes_acked()
    }

    fn on_ack(&mut self, acknowledged: &Acknowledged) {
        let bytes = if acknowledged.advanced {
            acknowledged.bytes
        } else {
            0
        };
        self.window.on_ack(&Acknowledged {
            bytes,
            ..*acknowledged
        });
    }

    fn on_congestion(&mut self, event: CongestionEvent) {
        self.window.on_congestion(event);
    }

    fn on_undo(&mut self) {
        self.window.on_undo();
    }

    fn on_idle(&mut self, rtos: u32) {
        self.window.on_idle(rtos);
    }

    fn set_pmdcs(&mut self, pmdcs: usize) {
        self.pmdcs = pmdcs;
        self.window.set_pmdcs(pmdcs);
    }

    fn reset(&mut self) {
        self.window.reset();
        self.window.cwnd = FLOOR * self.pmdcs;
    }

    fn export(&self, now: Time) -> Option<Vec<u8>> {
        super::export(self, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PMDCS: usize = 1452;

    fn window() -> Box<dyn Controller> {
        Rfc2960.start(Parameters {
            pmdcs: PMDCS,
            ipv6: false,
            slow_start_limit: 1,
        })
    }

    /// RFC 2960, section 7.2.1
    /// RFC 2960, section 7.2.3
    #[test]
    fn the_window_starts_at_two_packets_and_keeps_two() {
        let mut w = window();
        assert_eq!(w.window(), 2 * PMDCS);
        w.on_congestion(CongestionEvent::Loss);
        assert_eq!((w.window(), w.ssthresh()), (2 * PMDCS, 2 * PMDCS));
        w.on_congestion(CongestionEvent::Timeout);
        assert_eq!((w.window(), w.ssthresh()), (PMDCS, 2 * PMDCS));
    }

    #[test]
    fn a_window_grows_only_with_the_cumulative_tsn() {
        let mut w = window();
        let ack = |advanced, flight_before| Acknowledged {
            bytes: PMDCS,
            flight_before,
            advanced,
            ..Acknowledged::default()
        };
        w.on_ack(&ack(false, 2 * PMDCS));
        assert_eq!(w.window(), 2 * PMDCS);
        w.on_ack(&ack(true, 2 * PMDCS));
        assert_eq!(w.window(), 3 * PMDCS);
        w.on_congestion(CongestionEvent::Loss);
        w.on_ack(&ack(true, 2 * PMDCS));
        assert_eq!(w.partial_bytes_acked(), 0, "slow start up to ssthresh");
        w.on_ack(&ack(false, 3 * PMDCS));
        assert_eq!(w.partial_bytes_acked(), 0);
        w.on_ack(&ack(true, 3 * PMDCS));
        assert_eq!(w.partial_bytes_acked(), PMDCS);
    }
}
