//! Trace of one association of one run of a file.

use super::ScenarioFile;
use super::model::{Model, NodeStack};
use super::run::Extras;
use crate::error::LabError;
use crate::result::ScenarioResult;
use crate::scenario::RunOptions;
use crate::trace::{TraceOptions, TracedAssociation};

impl ScenarioFile {
    /// Runs one repetition of one cell and draws an association: the sequence of its chunks, and
    /// for each path the windows, the round-trip times and the states.
    ///
    /// # Errors
    /// If the cell or flow does not exist, the flow does not use SCTP, or the simulation fails.
    pub fn trace(
        &self,
        options: &RunOptions,
        number: usize,
        wanted: &TraceOptions<'_>,
    ) -> Result<ScenarioResult, LabError> {
        let Some((cell, model)) = self.cells.get(number) else {
            return Err(choice(format!(
                "there is no cell {number}; there are {}, from 0 on",
                self.cells.len()
            )));
        };
        let flow = self.flow(model, wanted.flow)?;
        let extras = Extras {
            log: true,
            capture: wanted.capture,
        };
        let outcome = self.run_one(number, wanted.repetition, options, extras)?;
        let [from, to] = model.flows[flow].ends;
        let log = outcome.logs.iter().find(|log| log.host == from);
        let found = log.and_then(|host| {
            let (id, _) = host.associations.iter().find(|(_, peer)| *peer == to)?;
            Some((*id, &host.log))
        });
        let Some((id, log)) = found else {
            return Err(choice("the association was never set up".into()));
        };
        let (path, seed, repetition) = (&self.path, options.seed, wanted.repetition);
        let traced = TracedAssociation {
            scenario: &self.name,
            cell: (!cell.label().is_empty()).then(|| format!("{number}: {}", cell.label())),
            command: format!(
                "carrick lab trace {path} --seed {seed} --reps {} --cell {number} --repetition {repetition}",
                self.repetitions(options)
            ),
            seed,
            ends: [from, to].map(|node| model.nodes[node].name.as_str()),
            log,
            id,
            end: outcome.end.since_start(),
        };
        Ok(traced.draw(wanted))
    }

    fn flow(&self, model: &Model, name: Option<&str>) -> Result<usize, LabError> {
        let has_log = |flow: usize| {
            matches!(
                model.nodes[model.flows[flow].ends[0]].kind,
                NodeStack::Sctp(_)
            )
        };
        let Some(name) = name else {
            let first = (0..model.flows.len()).find(|flow| has_log(*flow));
            return first.ok_or_else(|| choice(format!("{}: no flow uses SCTP", self.name)));
        };
        let found = model.flows.iter().position(|flow| flow.name == name);
        match found {
            Some(flow) if has_log(flow) => Ok(flow),
            Some(_) => Err(choice(format!(
                "flow '{name}' does not use SCTP; only SCTP flows can be traced"
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
