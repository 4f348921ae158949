//! Explicit congestion notification (RFC 4960 appendix A, whose chunk numbers RFC 9260 keeps; RFC
//! 3168).
//!
//! Packets with new DATA are sent as ECN-capable. The receiver of a packet marked "congestion
//! experienced" puts an ECNE in front of its SACKs until a CWR reports that the sender has reduced its
//! window for it, which the sender does once for each window of data.

use carrick_wire::{Cwr, Ecne, PacketBuilder, Tsn};

use super::{Association, Context, Reply};
use crate::path::PathId;
use crate::route::{Ecn, Route};

/// Bytes of an ECNE.
const ECNE_LEN: usize = 8;

/// The farthest above the cumulative TSN that a peer can have sent.
const REACH: u32 = 0xffff;

/// Congestion marks of both directions.
#[derive(Debug, Default)]
pub(super) struct EcnState {
    /// Lowest TSN of the last marked packet; echoed to the peer until its CWR.
    echo: Option<Tsn>,
    /// Highest TSN sent when the window was last reduced for an ECNE, and its index: TSNs wrap while
    /// nothing is marked for long.
    reduced: Option<(Tsn, u64)>,
}

impl EcnState {
    /// Returns whether the window was reduced after this TSN was sent; `last` is the last TSN that was
    /// sent.
    fn has_reduced_for(&self, lowest: Tsn, last: (Tsn, u64)) -> bool {
        let index = last.1.saturating_sub(u64::from(last.0.since(lowest)));
        self.reduced.is_some_and(|reduced| index <= reduced.1)
    }
}

impl Association {
    /// Returns the ECN field of a packet with DATA; `fresh` if nothing in it was sent before.
    pub(super) fn ecn_field(&self, path: PathId, fresh: bool) -> Ecn {
        if self.extensions.ecn && fresh && self.paths[path].ect.is_usable() {
            Ecn::Capable0
        } else {
            Ecn::NotCapable
        }
    }

    /// Records the ECN field of a packet with DATA, whose lowest TSN this is.
    pub(super) fn note_congestion_mark(&mut self, route: &Route, lowest: Tsn) {
        if !self.extensions.ecn || route.ecn != Ecn::CongestionExperienced {
            return;
        }
        self.counters.congestion_marks_received += 1;
        let cumulative = self.receiver.cumulative_tsn();
        if lowest.is_after(cumulative) && lowest.since(cumulative) > REACH {
            // From before the peer's TSNs changed: no CWR would ever answer it.
            return;
        }
        if self.ecn.echo.is_none_or(|echo| lowest.is_after(echo)) {
            self.ecn.echo = Some(lowest);
        }
    }

    /// Bytes of the ECNE that goes before a SACK, if there is one to send.
    pub(super) fn ecne_len(&self) -> usize {
        self.ecn.echo.map_or(0, |_| ECNE_LEN)
    }

    /// Puts an ECNE into a packet that a SACK follows in.
    pub(super) fn write_ecne(&mut self, packet: &mut PacketBuilder<'_>) {
        if let Some(lowest) = self.ecn.echo
            && packet.fits(ECNE_LEN)
        {
            packet.ecne(lowest);
            self.counters.ecnes_sent += 1;
        }
    }

    /// ECNE: the peer received a marked packet. The window of its path is reduced unless that was done
    /// after the packet was sent; a CWR is sent in any case.
    pub(super) fn on_ecne(&mut self, ecne: Ecne, route: &Route, cx: &mut Context<'_>) {
        self.counters.ecnes_received += 1;
        let lowest = ecne.lowest_tsn;
        let sent = self.sender.last_sent();
        let Some(last_sent) = sent.filter(|last| !lowest.is_after(*last)) else {
            // It was never sent.
            return;
        };
        let last_sent = (last_sent, self.sender.last_index());
        if !self.ecn.has_reduced_for(lowest, last_sent) {
            let arrived_on = self.path_of(route).unwrap_or(self.paths.current());
            if self.sender.reduce_for_mark(
                lowest,
                arrived_on,
                cx.now,
                &mut self.paths,
                &mut self.trace,
            ) {
                self.counters.congestion_mark_reductions += 1;
            }
            self.ecn.reduced = Some(last_sent);
        }
        if let Some((tsn, _)) = self.ecn.reduced
            && !self.replies.is_full()
            && !self.replies.has_cwr()
        {
            let route = self.answer_route(route);
            self.push_reply(route, Reply::Cwr(tsn));
        }
    }

    /// Forgets the marks of the peer's packets after its TSNs changed (RFC 6525 section 5.2.4).
    pub(super) fn forget_congestion_marks(&mut self) {
        self.ecn.echo = None;
    }

    /// Ends the reductions for marks from before the TSNs of this side changed.
    pub(super) fn renumber_congestion_marks(&mut self) {
        let last = (self.sender.last_tsn(), self.sender.last_index());
        self.ecn.reduced = self.ecn.reduced.and(Some(last));
        self.replies.remove_cwr();
    }

    /// CWR: the peer reduced its window for all marks up to this TSN.
    pub(super) fn on_cwr(&mut self, cwr: Cwr) {
        self.counters.cwrs_received += 1;
        self.ecn.echo = self.ecn.echo.filter(|echo| echo.is_after(cwr.lowest_tsn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4960, appendix A
    #[test]
    fn reduction_is_forgotten_when_tsns_wrap() {
        let then = Tsn::new(1000);
        let state = EcnState {
            echo: None,
            reduced: Some((then, 50)),
        };
        assert!(state.has_reduced_for(then, (then, 50)));
        assert!(state.has_reduced_for(then.minus(3), (then.plus(2), 52)));
        assert!(!state.has_reduced_for(then.plus(1), (then.plus(2), 52)));
        for later in [
            1_u64 << 31,
            (1 << 31) + 5,
            (1 << 32) - 1,
            1 << 32,
            (1 << 33) + 7,
        ] {
            let last = (then.plus(later as u32), 50 + later);
            assert!(!state.has_reduced_for(last.0, last), "{later}");
            assert!(!state.has_reduced_for(last.0.minus(2), last), "{later}");
        }
        // A TSN that was never sent, from a misbehaving peer: like the first one.
        assert!(state.has_reduced_for(then.minus(900), (then, 50)));
    }
}
