//! One association of one run, drawn from the core's own event log.

mod figures;
mod story;

use std::path::Path;
use std::time::Duration;

use carrick_proto::AssociationId;

use crate::result::{ScenarioResult, Setting};
use crate::sctp_host::EventLog;

use story::Story;

/// Which association of which run of a cell to draw, and which part of its life.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceOptions<'a> {
    /// The repetition of the cell.
    pub repetition: u64,
    /// The flow whose association is drawn, as its sender sees it; the first one when `None`.
    pub flow: Option<&'a str>,
    /// From when on.
    pub from: Duration,
    /// Until when; to the end of the run when `None`.
    pub to: Option<Duration>,
    /// Where to write a capture of each interface.
    pub capture: Option<&'a Path>,
}

/// An association of a run that is over.
pub(crate) struct Traced<'r> {
    /// The scenario's name.
    pub(crate) scenario: &'r str,
    /// The cell's name, if it has one.
    pub(crate) cell: Option<String>,
    /// What runs it again.
    pub(crate) command: String,
    pub(crate) seed: u64,
    /// Who sends and who receives.
    pub(crate) ends: [&'r str; 2],
    /// What the sender's core told.
    pub(crate) log: &'r EventLog,
    pub(crate) id: AssociationId,
    /// Virtual time of the end.
    pub(crate) end: Duration,
}

impl Traced<'_> {
    /// The sequence of its chunks, and for each path the windows, the round-trip times and the states.
    pub(crate) fn draw(self, wanted: &TraceOptions<'_>) -> ScenarioResult {
        let range = [wanted.from, wanted.to.unwrap_or(self.end)];
        let story = Story::of(self.log, self.id, range);
        let [from, to] = self.ends;
        let mut settings = vec![
            Setting::new("command", self.command),
            Setting::new("association", format!("from {from} to {to}")),
            Setting::new("repetition", wanted.repetition.to_string()),
        ];
        settings.extend(self.cell.map(|cell| Setting::new("cell", cell)));
        ScenarioResult {
            scenario: format!("{}-trace", self.scenario),
            question: format!("What did the association from {from} to {to} do?"),
            seed: self.seed,
            repetitions: 1,
            full: false,
            full_repetitions: None,
            rows: story.rows(),
            figures: story.figures(range),
            drawing: crate::drawing::Drawing::default(),
            splits: Vec::new(),
            live: None,
            compared: None,
            notes: Vec::new(),
            settings,
        }
    }
}
