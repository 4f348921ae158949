//! The choice of a loss detector, and the signals by which losses are known.

/// How losses are found before T3-rtx expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// By SACKs that report a chunk missing (RFC 9260 section 7.2.4), as many of them as
    /// [`crate::research::Policies::missing_reports`] says, and once for each chunk unless
    /// [`crate::research::Policies::repeated_fast_retransmit`] says otherwise.
    MissingReports,
    /// The same as RFC 2960 had it: every SACK that reports a chunk missing counts, also one that
    /// acknowledges nothing new, the count begins again with each fast retransmission, and each of
    /// them reduces the window of the path where the chunk was last sent. There is no Fast
    /// Recovery, so that SACKs for what was in flight answer one loss several times in a round
    /// trip. For experiments (paper `mobile-ip`).
    EveryReport,
    /// By time: a chunk is lost when one sent later on the same path has been acknowledged, and then
    /// as much time has passed as reordering may take (RACK, RFC 8985). Finds losses of
    /// retransmissions too.
    Rack,
}

portable_enum! { LossDetection { 0: MissingReports, 1: EveryReport, 2: Rack } }

/// Why a chunk is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LossSignal {
    /// T3-rtx expired.
    Timeout,
    /// Enough missing reports, or RACK.
    MissingReports,
}

portable_enum! { LossSignal { 0: Timeout, 1: MissingReports } }
