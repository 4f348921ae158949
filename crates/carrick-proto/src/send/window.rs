//! The peer's receive window as the sender sees it, and probing when it is closed (RFC 9260
//! sections 6.1 A and 6.2.1).

use core::time::Duration;

use crate::time::Time;

#[derive(Debug)]
pub(crate) struct PeerWindow {
    /// What may still be sent.
    rwnd: usize,
    /// The largest window the peer has shown.
    largest: usize,
    /// When the closed window is probed.
    probe_at: Option<Time>,
    /// The timer expired: one chunk may leave although the window is closed.
    probe_now: bool,
    /// What is outstanding was sent into the closed window, or found it closed: it goes again
    /// when the window opens.
    probing: bool,
    /// A SACK came since the last timeout that had no room for what is outstanding.
    refused: bool,
}

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

    /// B: data left.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.rwnd = self.rwnd.saturating_sub(bytes);
    }

    /// C: data was marked for retransmission.
    pub(crate) fn marked(&mut self, bytes: usize) {
        self.rwnd = self.rwnd.saturating_add(bytes).min(self.largest);
    }

    /// D ii: a SACK came. `next` is the payload of the next new chunk, `first` that of the first
    /// outstanding one. Returns whether a window that was being probed has opened.
    pub(crate) fn on_sack(
        &mut self,
        a_rwnd: u32,
        in_flight: usize,
        next: usize,
        first: Option<usize>,
    ) -> bool {
        let announced = a_rwnd as usize;
        self.largest = self.largest.max(announced);
        self.rwnd = announced.saturating_sub(in_flight);
        if has_room(announced, next) {
            self.probe_at = None;
            self.probe_now = false;
        }
        self.refused = first.is_some_and(|first| !has_room(announced, first));
        let opened = self.probing && !self.refused;
        self.probing &= self.refused;
        opened
    }

    /// The window is closed and nothing is in flight: the first probe leaves after one RTO.
    pub(crate) fn arm_probe(&mut self, now: Time, rto: Duration) {
        if self.probe_at.is_none() && !self.probe_now {
            self.probe_at = Some(now + rto);
        }
    }

    /// The window is open, but not for the next chunk: the probe leaves without delay.
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

    /// The peer has no room for what is outstanding.
    pub(crate) fn is_probing(&self) -> bool {
        self.probing
    }

    /// T3-rtx expired. Returns whether the peer answers and just has no room, for a probe or for
    /// what left while the window was open: the timeout is no error then.
    pub(crate) fn is_refusing(&mut self) -> bool {
        let refused = core::mem::take(&mut self.refused);
        self.probing |= refused;
        refused
    }
}

/// A window of 1 is no room: that is what a receiver announces instead of a silly window.
fn has_room(announced: usize, payload: usize) -> bool {
    announced >= payload.max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_rules_of_section_6_2_1() {
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
    fn probing_goes_on_until_the_window_opens() {
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
    fn what_the_peer_refused_counts_as_a_probe_only_if_it_said_so() {
        let mut w = PeerWindow::new(1000);
        w.on_sack(1000, 10, 100, Some(10));
        assert!(!w.is_refusing(), "there is room: it was lost");
        w.on_sack(1, 10, 100, Some(10));
        assert!(w.is_refusing() && w.is_probing());
        w.on_sack(0, 0, 100, None);
        assert!(!w.is_probing(), "it was taken");
    }
}
