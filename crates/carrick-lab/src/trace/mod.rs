//! Trace of one association of one run, from the event log of its protocol core.

mod figures;
mod history;

use std::path::Path;
use std::time::Duration;

use carrick_proto::AssociationId;

use crate::result::{ScenarioResult, Setting};
use crate::sctp_host::EventLog;

use history::AssociationHistory;

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

/// An association of a completed run.
pub(crate) struct TracedAssociation<'r> {
    /// Name of the scenario.
    pub(crate) scenario: &'r str,
    /// Name of the cell, if it has one.
    pub(crate) cell: Option<String>,
    /// Command that repeats the run.
    pub(crate) command: String,
    pub(crate) seed: u64,
    /// Names of the sending and the receiving host.
    pub(crate) ends: [&'r str; 2],
    /// Event log of the sender's core.
    pub(crate) log: &'r EventLog,
    pub(crate) id: AssociationId,
    /// Virtual time of the end of the run.
    pub(crate) end: Duration,
}

impl TracedAssociation<'_> {
    /// Draws the sequence of chunks, and for each path the windows, the round-trip times and the
    /// states.
    pub(crate) fn draw(self, wanted: &TraceOptions<'_>) -> ScenarioResult {
        let range = [wanted.from, wanted.to.unwrap_or(self.end)];
        let history = AssociationHistory::of(self.log, self.id, range);
        let [from, to] = self.ends;
        let mut settings = vec![
            Setting::new("command", self.command),
            Setting::new("association", format!("from {from} to {to}")),
            Setting::new("repetition", wanted.repetition.to_string()),
        ];
        settings.extend(self.cell.map(|cell| Setting::new("cell", cell)));
        let name = format!("{}-trace", self.scenario);
        let question = format!("How did the association from {from} to {to} behave?");
        ScenarioResult {
            rows: history.rows(),
            figures: history.figures(range),
            settings,
            ..ScenarioResult::empty(&name, &question, self.seed, 1)
        }
    }
}
