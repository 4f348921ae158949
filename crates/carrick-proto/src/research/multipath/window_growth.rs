//! Growth of the congestion window of each path when several carry data (Iyengar et al. 2006, CUC and
//! `CUCv2`).
//!
//! RFC 4960 lets a window grow only when the Cumulative TSN Ack Point advances, which the slowest path
//! decides; CUC has a pseudo-cumulative point for each path instead. RFC 9260 (section 7.2.1) has
//! dropped that condition, so that windows grow with several paths as with one. CUC is here for
//! comparison with what was published, and for who wants the older caution: no growth while a path
//! has a gap.

/// Which acknowledgements let the window of a path grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowGrowth {
    /// All that acknowledge data of the path (RFC 9260 section 7.2.1).
    AnyAcknowledgement,
    /// Those that acknowledge the oldest transmission in flight on the path, be it the first one of
    /// its chunk or not (`CUCv2`).
    PseudoCumulative,
}

impl WindowGrowth {
    /// Whether a SACK that acknowledged data of a path lets its window grow.
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
    fn a_gap_on_the_path_stops_growth_only_with_a_pseudo_cumulative_point() {
        assert!(WindowGrowth::AnyAcknowledgement.permits(false));
        assert!(WindowGrowth::PseudoCumulative.permits(true));
        assert!(!WindowGrowth::PseudoCumulative.permits(false));
    }
}
