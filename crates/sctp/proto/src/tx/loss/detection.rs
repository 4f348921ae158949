//! Signals by which losses are detected.

/// Why a chunk is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LossSignal {
    /// T3-rtx expired.
    Timeout,
    /// Enough missing reports, or RACK.
    MissingReports,
}

portable_enum! { LossSignal { 0: Timeout, 1: MissingReports } }
