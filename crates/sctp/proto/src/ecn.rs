//! Explicit congestion notification (RFC 4960 appendix A, whose chunk numbers RFC 9260 keeps; RFC
//! 3168).
//!
//! Packets with new DATA are sent as ECN-capable. The receiver of a packet marked "congestion
//! experienced" puts an ECNE in front of its SACKs until a CWR reports that the sender has reduced its
//! window for it, which the sender does once for each window of data.

use carrick_wire::{PacketBuilder, Tsn};

/// Bytes of an ECNE.
const ECNE_LEN: usize = 8;

/// The farthest above the cumulative TSN that a peer can have sent.
const REACH: u32 = 0xffff;

/// Congestion marks of both directions of an association.
#[derive(Debug, Default)]
pub(crate) struct CongestionMarks {
    /// Lowest TSN of the last marked packet; echoed to the peer until its CWR.
    echo: Option<Tsn>,
    /// Highest TSN sent when the window was last reduced for an ECNE, and its index: TSNs wrap while
    /// nothing is marked for long.
    reduced: Option<(Tsn, u64)>,
}

portable_struct! { CongestionMarks { echo, reduced } }

/// Response to an ECNE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EcneResponse {
    /// The window is to be reduced, which was not done since the marked packet was sent.
    pub(crate) reduce: bool,
    /// TSN of the CWR, which is sent in any case.
    pub(crate) cwr: Tsn,
}

impl CongestionMarks {
    /// Records that a packet with DATA was marked; `lowest` is its lowest TSN, and `cumulative` the
    /// cumulative TSN received.
    pub(crate) fn on_marked_packet(&mut self, lowest: Tsn, cumulative: Tsn) {
        if lowest.is_after(cumulative) && lowest.since(cumulative) > REACH {
            // From before the peer's TSNs changed: no CWR would ever answer it.
            return;
        }
        if self.echo.is_none_or(|echo| lowest.is_after(echo)) {
            self.echo = Some(lowest);
        }
    }

    /// CWR: the peer reduced its window for all marks up to this TSN.
    pub(crate) fn on_cwr(&mut self, lowest: Tsn) {
        self.echo = self.echo.filter(|echo| echo.is_after(lowest));
    }

    /// Bytes of the ECNE that goes before a SACK, 0 without one.
    pub(crate) fn ecne_len(&self) -> usize {
        self.echo.map_or(0, |_| ECNE_LEN)
    }

    /// Puts the ECNE, if there is one, into a packet that a SACK follows in. Returns whether it did.
    pub(crate) fn write_ecne(&self, packet: &mut PacketBuilder<'_>) -> bool {
        let echo = self.echo.filter(|_| packet.fits(ECNE_LEN));
        if let Some(lowest) = echo {
            packet.ecne(lowest);
        }
        echo.is_some()
    }

    /// ECNE: the peer received a marked packet with this lowest TSN. `last` is the last TSN that was sent,
    /// with its index. Returns `None` if the packet was never sent.
    pub(crate) fn on_ecne(
        &mut self,
        lowest: Tsn,
        last: Option<(Tsn, u64)>,
    ) -> Option<EcneResponse> {
        let last = last.filter(|last| !lowest.is_after(last.0))?;
        let before = self.reduced.filter(|_| self.has_reduced_for(lowest, last));
        let (cwr, _) = *self.reduced.insert(before.unwrap_or(last));
        Some(EcneResponse {
            reduce: before.is_none(),
            cwr,
        })
    }

    /// Returns whether the window was reduced after this TSN was sent; `last` is the last TSN that was
    /// sent.
    fn has_reduced_for(&self, lowest: Tsn, last: (Tsn, u64)) -> bool {
        let index = last.1.saturating_sub(u64::from(last.0.since(lowest)));
        self.reduced.is_some_and(|reduced| index <= reduced.1)
    }

    /// Forgets the marks of the peer's packets after its TSNs changed (RFC 6525 section 5.2.4).
    pub(crate) fn forget_received(&mut self) {
        self.echo = None;
    }

    /// Ends the reductions for marks from before the TSNs of this side changed; `last` is as for
    /// [`Self::on_ecne`].
    pub(crate) fn renumber(&mut self, last: (Tsn, u64)) {
        self.reduced = self.reduced.and(Some(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4960, appendix A
    #[test]
    fn reduction_is_forgotten_when_tsns_wrap() {
        let then = Tsn::new(1000);
        let state = CongestionMarks {
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
