//! Trace of one association of one run, from the event log of its protocol core.

mod figures;
mod history;

use std::path::Path;
use std::time::Duration;

pub(crate) use history::AssociationHistory;

/// Selection of an association of a run of a cell, and of a time range.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceOptions<'a> {
    /// Repetition of the cell.
    pub repetition: u64,
    /// Flow whose association is traced at its sender; the first one if `None`.
    pub flow: Option<&'a str>,
    /// Start of the time range.
    pub from: Duration,
    /// End of the time range; the end of the run if `None`.
    pub to: Option<Duration>,
    /// Directory for a capture of each interface.
    pub capture: Option<&'a Path>,
}
