//! Congestion control of control experiments, not a proposal: no reduction by a fast retransmission, which
//! section 7.2.4 of RFC 2960 and of RFC 9260 requires.

use carrick_proto::cc::{
    Acknowledged, Algorithm, CongestionEvent, Controller, Parameters, Rfc9260,
};

/// RFC 9260's congestion control without its reaction to missing reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowKept;

impl Algorithm for WindowKept {
    fn name(&self) -> &'static str {
        "window-kept"
    }

    fn start(&self, parameters: Parameters) -> Box<dyn Controller> {
        Box::new(Kept(Rfc9260.start(parameters)))
    }
}

#[derive(Debug)]
struct Kept(Box<dyn Controller>);

impl Controller for Kept {
    fn window(&self) -> usize {
        self.0.window()
    }

    fn ssthresh(&self) -> usize {
        self.0.ssthresh()
    }

    fn partial_bytes_acked(&self) -> usize {
        self.0.partial_bytes_acked()
    }

    fn on_ack(&mut self, acknowledged: &Acknowledged) {
        self.0.on_ack(acknowledged);
    }

    fn on_congestion(&mut self, event: CongestionEvent) {
        if event == CongestionEvent::Timeout {
            self.0.on_congestion(event);
        }
    }

    fn on_undo(&mut self) {
        self.0.on_undo();
    }

    fn on_idle(&mut self, rtos: u32) {
        self.0.on_idle(rtos);
    }

    fn set_pmdcs(&mut self, pmdcs: usize) {
        self.0.set_pmdcs(pmdcs);
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_timeouts_reduce_the_window() {
        let mut window = WindowKept.start(Parameters {
            pmdcs: 1452,
            ipv6: false,
            slow_start_limit: 1,
        });
        let before = window.window();
        window.on_congestion(CongestionEvent::Loss);
        assert_eq!(window.window(), before);
        window.on_congestion(CongestionEvent::Timeout);
        assert!(window.window() < before);
    }
}
