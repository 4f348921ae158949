//! Growth of the congestion window of each path when several carry data (Iyengar et al. 2006, CUC and
//! `CUCv2`).
//!
//! In RFC 4960 a window grows only when the Cumulative TSN Ack Point advances, which depends on the slowest
//! path; CUC has a pseudo-cumulative point for each path instead. RFC 9260 (section 7.2.1) dropped that
//! condition, so that windows grow with several paths as with one. CUC is implemented for comparison with
//! published results, and for users who prefer the more conservative rule: no growth while a path has a
//! gap.

/// Acknowledgements that let the window of a path grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowGrowth {
    /// All acknowledgements of data of the path (RFC 9260, section 7.2.1).
    AnyAcknowledgement,
    /// Acknowledgements of the oldest transmission in flight on the path, be it an original or a
    /// retransmission (`CUCv2`).
    PseudoCumulative,
}

portable_enum! { WindowGrowth { 0: AnyAcknowledgement, 1: PseudoCumulative } }

impl WindowGrowth {
    /// Returns whether a SACK that acknowledges data of a path lets its window grow.
    pub(crate) fn permits(self, oldest_acknowledged: bool) -> bool {
        match self {
            Self::AnyAcknowledgement => true,
            Self::PseudoCumulative => oldest_acknowledged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_stops_growth_with_a_pseudo_cumulative_point() {
        assert!(WindowGrowth::AnyAcknowledgement.permits(false));
        assert!(WindowGrowth::PseudoCumulative.permits(true));
        assert!(!WindowGrowth::PseudoCumulative.permits(false));
    }
}
