//! How often the peer may take back what it reported in gap blocks (RFC 9260 section 6.2.1: reneging).
//!
//! A SACK of a few bytes can take back tens of thousands of chunks, and the next one can report them
//! again, so that work would have no relation to what is received. For each chunk that is sent, some may
//! be taken back (SACKs that overtake each other look the same), and besides as many as may be
//! outstanding. A peer that does so more often is believed what it acknowledges cumulatively and what
//! it promises to keep, and nothing else, until all that is outstanding then is acknowledged; what it
//! is missing is sent again by T3-rtx.

use super::{MAX_OUTSTANDING, Sender};

/// Chunks that may be taken back for each transmission.
const PER_TRANSMISSION: u64 = 16;

/// How far the peer's gap blocks are believed.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// Chunks that were taken back.
    taken_back: u64,
    /// Nothing in gap blocks is believed until this index is acknowledged cumulatively.
    lost_until: Option<u64>,
}

impl Trust {
    /// A SACK with this cumulative index came; says whether its gap blocks count.
    fn regain(&mut self, cumulative: u64) -> bool {
        if self.lost_until.is_some_and(|until| cumulative >= until) {
            self.lost_until = None;
        }
        self.lost_until.is_none()
    }

    /// So many chunks were taken back now, and so many transmissions were made in all; the highest of the
    /// chunks is the one before `next`.
    fn judge(&mut self, taken_back: u64, transmissions: u64, next: u64) {
        self.taken_back += taken_back;
        let allowed = PER_TRANSMISSION * transmissions + MAX_OUTSTANDING as u64;
        if self.lost_until.is_none() && self.taken_back > allowed {
            self.lost_until = Some(next - 1);
            // What cost the trust doesn't cost it once more.
            self.taken_back = allowed;
        }
    }
}

impl Sender {
    /// Whether gap blocks above this cumulative index count.
    pub(super) fn is_peer_trusted(&mut self, cumulative: u64) -> bool {
        self.trust.regain(cumulative)
    }

    /// A SACK has been processed, which took back so many chunks; the next new chunk gets the index
    /// `next`.
    pub(super) fn judge_peer(&mut self, taken_back: u64, next: u64) {
        self.trust.judge(taken_back, self.outstanding.sent(), next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_blocks_count_again_when_all_that_was_outstanding_is_acknowledged_6_2_1() {
        let mut trust = Trust::default();
        trust.judge(MAX_OUTSTANDING as u64 + 10 * PER_TRANSMISSION, 10, 11);
        assert!(trust.regain(0), "no more often than allowed");
        trust.judge(1, 10, 11);
        assert!(!trust.regain(0) && !trust.regain(9));
        assert!(trust.regain(10));
        for _ in 0..3 {
            trust.judge(0, 10, 11);
            assert!(trust.regain(10), "nothing more was taken back");
        }
        trust.judge(2 * PER_TRANSMISSION, 12, 13);
        assert!(trust.regain(10), "more has been sent");
        trust.judge(1, 12, 13);
        assert!(!trust.regain(11) && trust.regain(12), "once more too often");
    }
}
