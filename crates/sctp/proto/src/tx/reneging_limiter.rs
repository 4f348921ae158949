//! Bound of the work that reneging causes (RFC 9260, section 6.2.1).
//!
//! A SACK of a few bytes can renege on tens of thousands of chunks, and the next one can report them
//! again. A peer that discards what it has reported needs a further transmission of a chunk before it
//! can report, and renege on, that chunk again: so each transmission pays for one chunk. SACKs that
//! overtake each other look like reneging, too, but are about few chunks: some are free with each SACK.
//!
//! The Gap Ack Blocks of a peer that reneges more often are ignored, but for what an NR-SACK lists as
//! non-renegable, until everything that is outstanding then is acknowledged cumulatively. T3-rtx
//! repairs losses in the meantime.

use super::{MAX_OUTSTANDING, Sender};

/// Chunks that each SACK may renege on without charge: less work than a packet with data.
const FREE: u64 = 16;

/// Bounds the chunks that the peer reneges on.
#[derive(Debug, Default)]
pub(super) struct RenegingLimiter {
    /// Chunks that the peer may still renege on, at most as many as may be outstanding.
    credit: u64,
    /// Transmissions that have been added to the credit.
    credited: u64,
    /// Gap Ack Blocks are ignored until this index is acknowledged cumulatively.
    limited_until: Option<u64>,
}

portable_struct! { RenegingLimiter { credit, credited, limited_until } }

impl RenegingLimiter {
    /// Returns whether the Gap Ack Blocks of a SACK with this cumulative index are ignored.
    fn is_limited(&mut self, cumulative: u64) -> bool {
        self.limited_until = self.limited_until.filter(|until| cumulative < *until);
        self.limited_until.is_some()
    }

    /// Counts the chunks that a SACK reneged on. `transmissions` were made so far, and the next new chunk
    /// has the index `next`.
    fn record(&mut self, reneged: u64, transmissions: u64, next: u64) {
        let earned = transmissions - core::mem::replace(&mut self.credited, transmissions);
        self.credit = (self.credit + earned).min(MAX_OUTSTANDING as u64);
        let charged = reneged.saturating_sub(FREE);
        if charged > self.credit && self.limited_until.is_none() {
            self.limited_until = Some(next - 1);
        }
        self.credit = self.credit.saturating_sub(charged);
    }
}

impl Sender {
    /// Returns whether Gap Ack Blocks above this cumulative index are ignored.
    pub(super) fn ignores_gaps(&mut self, cumulative: u64) -> bool {
        self.reneging.is_limited(cumulative)
    }

    /// Counts the chunks that a SACK reneged on; the next new chunk has the index `next`.
    pub(super) fn record_reneging(&mut self, reneged: u64, next: u64) {
        self.reneging.record(reneged, self.outstanding.sent(), next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = MAX_OUTSTANDING as u64;

    /// RFC 9260, section 6.2.1
    #[test]
    fn gap_ack_blocks_are_ignored_until_all_data_is_acked() {
        let mut limiter = RenegingLimiter::default();
        limiter.record(10 + FREE, 10, 11);
        assert!(!limiter.is_limited(0), "each transmission pays for one");
        limiter.record(1 + FREE, 10, 11);
        assert!(limiter.is_limited(0) && limiter.is_limited(9));
        assert!(!limiter.is_limited(10));
        for _ in 0..1000 {
            limiter.record(FREE, 10, 11);
            assert!(
                !limiter.is_limited(10),
                "a few chunks per SACK are never limited"
            );
        }
        limiter.record(2 + FREE, 12, 13);
        assert!(!limiter.is_limited(10), "two more were sent");
        limiter.record(1 + FREE, 12, 13);
        assert!(limiter.is_limited(11) && !limiter.is_limited(12));
    }

    /// RFC 9260, section 6.2.1
    #[test]
    fn a_long_transfer_allows_reneging_on_one_window() {
        let mut limiter = RenegingLimiter::default();
        limiter.record(0, 100 * MAX, 100 * MAX + 1);
        limiter.record(MAX + FREE, 100 * MAX, 100 * MAX + 1);
        assert!(!limiter.is_limited(0));
        limiter.record(1 + FREE, 100 * MAX, 100 * MAX + 1);
        assert!(limiter.is_limited(0));
    }
}
