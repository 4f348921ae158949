//! One association of one run, drawn from the core's own event log.

mod figures;
mod story;

use std::path::Path;
use std::time::Duration;

use super::ScenarioFile;
use super::model::{Kind, Model};
use super::run::Extras;
use crate::error::LabError;
use crate::result::{ScenarioResult, Setting};
use crate::scenario::RunOptions;

use story::Story;

/// Which association to draw, and which part of its life.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceOptions<'a> {
    /// The cell of the sweep.
    pub cell: usize,
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

impl ScenarioFile {
    /// Runs one repetition of one cell and draws an association: the sequence of its chunks, and for
    /// each path the windows, the round-trip times and the states.
    ///
    /// # Errors
    /// If there is no such cell or flow, the flow's stack tells nothing, or the simulation fails.
    pub fn trace(
        &self,
        options: &RunOptions,
        wanted: &TraceOptions<'_>,
    ) -> Result<ScenarioResult, LabError> {
        let Some((cell, model)) = self.cells.get(wanted.cell) else {
            return Err(choice(format!(
                "there is no cell {}; there are {}, from 0 on",
                wanted.cell,
                self.cells.len()
            )));
        };
        let flow = self.flow(model, wanted.flow)?;
        let extras = Extras {
            log: true,
            capture: wanted.capture,
        };
        let outcome = self.run_one(wanted.cell, wanted.repetition, options, extras)?;
        let [from, to] = model.flows[flow].ends;
        let log = outcome.logs.into_iter().find(|log| log.host == from);
        let found = log.and_then(|host| {
            let (id, _) = host.associations.iter().find(|(_, peer)| *peer == to)?;
            Some((*id, host.log))
        });
        let Some((id, log)) = found else {
            return Err(choice("the association was never set up".into()));
        };
        let until = wanted.to.unwrap_or_else(|| outcome.end.since_start());
        let story = Story::of(&log, id, [wanted.from, until]);
        let names = [from, to].map(|node| model.nodes[node].name.as_str());
        let (path, seed) = (&self.path, options.seed);
        let (cell_number, number) = (wanted.cell, wanted.repetition);
        let command = format!(
            "carrick lab trace {path} --seed {seed} --reps {} --cell {cell_number} --repetition {number}",
            self.repetitions(options)
        );
        let mut settings = vec![
            Setting::new("command", command),
            Setting::new("association", format!("from {} to {}", names[0], names[1])),
            Setting::new("repetition", wanted.repetition.to_string()),
        ];
        if !cell.label().is_empty() {
            settings.push(Setting::new(
                "cell",
                format!("{}: {}", wanted.cell, cell.label()),
            ));
        }
        Ok(ScenarioResult {
            scenario: format!("{}-trace", self.name),
            question: format!(
                "What did the association from {} to {} do?",
                names[0], names[1]
            ),
            seed: options.seed,
            repetitions: 1,
            full_repetitions: None,
            rows: story.rows(),
            figures: story.figures([wanted.from, until]),
            drawing: crate::drawing::Drawing::default(),
            splits: Vec::new(),
            live: None,
            compared: None,
            notes: Vec::new(),
            settings,
        })
    }

    fn flow(&self, model: &Model, name: Option<&str>) -> Result<usize, LabError> {
        let tells =
            |flow: usize| matches!(model.nodes[model.flows[flow].ends[0]].kind, Kind::Sctp(_));
        let Some(name) = name else {
            let first = (0..model.flows.len()).find(|flow| tells(*flow));
            return first.ok_or_else(|| choice(format!("{}: no flow runs over SCTP", self.name)));
        };
        let found = model.flows.iter().position(|flow| flow.name == name);
        match found {
            Some(flow) if tells(flow) => Ok(flow),
            Some(_) => Err(choice(format!(
                "flow '{name}' does not run over SCTP, and others tell nothing"
            ))),
            None => {
                let known: Vec<&str> = model.flows.iter().map(|flow| flow.name.as_str()).collect();
                Err(choice(format!(
                    "there is no flow '{name}'; known: {}",
                    known.join(", ")
                )))
            }
        }
    }
}

fn choice(what: String) -> LabError {
    LabError::Choice { what }
}
