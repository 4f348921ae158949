//! Detection of losses before T3-rtx expires. `tx/loss/` has the detectors.

/// How losses are found before T3-rtx expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// By SACKs that report a chunk missing (RFC 9260 section 7.2.4): after
    /// [`Policies::missing_reports`](super::Policies::missing_reports) of them, once for each chunk unless
    /// [`Policies::repeated_fast_retransmit`](super::Policies::repeated_fast_retransmit) is set.
    MissingReports,
    /// The rule of RFC 2960: each SACK that reports a chunk missing counts, even without newly
    /// acknowledged data. The count restarts with each fast retransmission, and each of them reduces
    /// the window of the path where the chunk was last sent. There is no Fast Recovery, so that SACKs
    /// for chunks in flight reduce the window several times per round trip for one loss. For
    /// experiments (paper `mobile-ip`).
    EveryReport,
    /// By time: a chunk is lost when one sent later on the same path has been acknowledged, and then
    /// as much time has passed as reordering may take (RACK, RFC 8985). Finds losses of
    /// retransmissions too.
    Rack,
}

portable_enum! { LossDetection { 0: MissingReports, 1: EveryReport, 2: Rack } }
