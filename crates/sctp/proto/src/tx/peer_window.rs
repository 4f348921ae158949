//! Peer's receive window, and probes of a closed window (RFC 9260, section 6.1, A, and section 6.2.1).

use core::time::Duration;

use crate::time::Time;

/// Peer's receive window.
#[derive(Debug)]
pub(crate) struct PeerWindow {
    /// Bytes that may be sent.
    rwnd: usize,
    /// Largest window that the peer has advertised.
    largest: usize,
    /// Expiry of the window probe timer.
    probe_at: Option<Time>,
    /// One chunk may leave although the window is closed.
    probe_now: bool,
    /// Outstanding data was sent as a probe, or found the window closed; it is sent again when the window
    /// opens.
    probing: bool,
    /// Since the last timeout, a SACK advertised no room for what is outstanding.
    refused: bool,
}

portable_struct! { PeerWindow { rwnd, largest, probe_at, probe_now, probing, refused } }

impl PeerWindow {
    pub(crate) fn new(a_rwnd: u32) -> Self {
        let rwnd = a_rwnd as usize;
        Self {
            rwnd,
            largest: rwnd,
            probe_at: None,
            probe_now: false,
            probing: false,
            refused: false,
        }
    }

    pub(crate) fn rwnd(&self) -> usize {
        self.rwnd
    }

    pub(crate) fn largest(&self) -> usize {
        self.largest
    }

    /// Subtracts bytes that were sent (RFC 9260, section 6.2.1, B).
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.rwnd = self.rwnd.saturating_sub(bytes);
    }

    /// Adds bytes that were marked for retransmission (RFC 9260, section 6.2.1, C).
    pub(crate) fn marked(&mut self, bytes: usize) {
        self.rwnd = self.rwnd.saturating_add(bytes).min(self.largest);
    }

    /// Processes the `a_rwnd` of a SACK (RFC 9260, section 6.2.1, D ii). `next` is the payload of the next new
    /// chunk, `first` that of the first outstanding one. Returns whether a probed window has opened.
    pub(crate) fn on_sack(
        &mut self,
        a_rwnd: u32,
        in_flight: usize,
        next: usize,
        first: Option<usize>,
    ) -> bool {
        let advertised = a_rwnd as usize;
        self.largest = self.largest.max(advertised);
        self.rwnd = advertised.saturating_sub(in_flight);
        if has_room(advertised, next) {
            self.probe_at = None;
            self.probe_now = false;
        }
        self.refused = first.is_some_and(|first| !has_room(advertised, first));
        let opened = self.probing && !self.refused;
        self.probing &= self.refused;
        opened
    }

    /// Starts the probe timer: the window is closed and nothing is in flight.
    pub(crate) fn arm_probe(&mut self, now: Time, rto: Duration) {
        if self.probe_at.is_none() && !self.probe_now {
            self.probe_at = Some(now + rto);
        }
    }

    /// Makes a probe due without delay: the window is open, but too small for the next chunk.
    pub(crate) fn probe_at_once(&mut self) {
        self.probe_at = None;
        self.probe_now = true;
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.probe_at
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_at = None;
            self.probe_now = true;
        }
    }

    pub(crate) fn probe_is_due(&self) -> bool {
        self.probe_now
    }

    pub(crate) fn probe_sent(&mut self) {
        self.probe_now = false;
        self.probing = true;
    }

    /// Returns whether the peer had no room for what is outstanding.
    pub(crate) fn is_probing(&self) -> bool {
        self.probing
    }

    /// Handles the expiry of T3-rtx. Returns whether the peer responds and has no room, for a probe or for data
    /// sent while the window was open: then the timeout is no error.
    pub(crate) fn is_refusing(&mut self) -> bool {
        let refused = core::mem::take(&mut self.refused);
        self.probing |= refused;
        refused
    }
}

/// Returns whether the window has room for a payload. A receiver advertises 1 instead of a silly window.
fn has_room(advertised: usize, payload: usize) -> bool {
    advertised >= payload.max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_counts_sent_and_marked_bytes() {
        let mut w = PeerWindow::new(1000);
        w.sent(300);
        assert_eq!(w.rwnd(), 700);
        w.marked(300);
        assert_eq!(w.rwnd(), 1000);
        assert!(!w.on_sack(2000, 500, 100, None));
        assert_eq!((w.rwnd(), w.largest()), (1500, 2000));
        w.sent(5000);
        assert_eq!(w.rwnd(), 0);
    }

    #[test]
    fn a_closed_window_is_probed_until_it_opens() {
        let mut w = PeerWindow::new(0);
        w.arm_probe(Time::ZERO, Duration::from_secs(1));
        w.handle_timeout(Time::from_millis(999));
        assert!(!w.probe_is_due());
        w.handle_timeout(Time::from_millis(1000));
        assert!(w.probe_is_due());
        w.probe_sent();
        assert!(!w.is_refusing(), "no SACK came: a timeout is an error");
        w.on_sack(0, 10, 100, Some(10));
        assert!(w.is_refusing());
        assert!(!w.is_refusing(), "no SACK came since");
        assert!(
            w.on_sack(5000, 10, 100, Some(10)),
            "it opened while a probe was out"
        );
        assert!(!w.on_sack(5000, 10, 100, Some(10)));
    }

    #[test]
    fn refused_data_counts_as_a_probe() {
        let mut w = PeerWindow::new(1000);
        w.on_sack(1000, 10, 100, Some(10));
        assert!(!w.is_refusing(), "there is room: it was lost");
        w.on_sack(1, 10, 100, Some(10));
        assert!(w.is_refusing() && w.is_probing());
        w.on_sack(0, 0, 100, None);
        assert!(!w.is_probing(), "the probe was acknowledged");
    }
}
