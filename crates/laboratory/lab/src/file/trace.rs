//! Trace of one association of one run of a file.

use super::ScenarioFile;
use super::model::{Flow, Model, NodeStack};
use super::run::Extras;
use crate::error::LabError;
use crate::options::RunOptions;
use crate::result::{ScenarioResult, Setting};
use crate::trace::{AssociationHistory, TraceOptions};

impl ScenarioFile {
    /// Runs one repetition of one cell and draws an association: the sequence of its chunks, and
    /// for each path the windows, the round-trip times and the states.
    ///
    /// # Errors
    /// [`LabError::Choice`] if the cell or flow does not exist, or the flow does not use SCTP; otherwise if the
    /// simulation fails.
    pub fn trace(
        &self,
        options: &RunOptions,
        number: usize,
        wanted: &TraceOptions<'_>,
    ) -> Result<ScenarioResult, LabError> {
        let extras = Extras {
            log: true,
            capture: wanted.capture,
            ..Extras::default()
        };
        let outcome = self.run_one(number, wanted.repetition, options, extras)?;
        let (cell, model) = &self.cells[number];
        let name = match cell.name() {
            "" => number.to_string(),
            name => name.to_owned(),
        };
        let flows = model.flows.iter();
        let traced = flows.filter_map(|flow| {
            let [from, to] = flow.ends;
            let host = outcome.logs.iter().find(|log| log.host == from)?;
            let known = host.associations.iter().find(|(_, peer)| *peer == to)?;
            Some((flow, known.0, &host.log))
        });
        let known: Vec<_> = traced.collect();
        let is_wanted = |flow: &Flow| wanted.flow.is_none_or(|name| name == flow.name);
        let found = known.iter().find(|(flow, ..)| is_wanted(flow));
        let Some(&(flow, id, log)) = found else {
            let names: Vec<&str> = known.iter().map(|(flow, ..)| flow.name.as_str()).collect();
            return Err(no_flow(model, &name, wanted.flow, &names));
        };
        let [from, to] = flow.ends;
        let (path, seed, repetition) = (&self.path, options.seed, wanted.repetition);
        let full = if options.full { " --full" } else { "" };
        let command = format!(
            "carrick lab trace {path} --cell {name} --flow {} --seed {seed}{full} --reps {} --repetition {repetition}",
            flow.name,
            self.repetitions(options)
        );
        let [from, to] = [from, to].map(|node| &model.nodes[node].name);
        let mut settings = vec![
            Setting::new("command", command),
            Setting::new("association", format!("from {from} to {to}")),
            Setting::new("repetition", repetition.to_string()),
        ];
        settings.extend(match cell.label() {
            "" => None,
            label if cell.name().is_empty() => {
                Some(Setting::new("cell", format!("{name}: {label}")))
            }
            _ => Some(Setting::new("cell", name)),
        });
        let range = [wanted.from, wanted.to.unwrap_or(outcome.end.since_start())];
        let history = AssociationHistory::of(log, id, range);
        let question = format!("How did the association from {from} to {to} behave?");
        Ok(ScenarioResult {
            rows: history.rows(),
            figures: history.figures(range),
            settings,
            ..ScenarioResult::empty(&format!("{}-trace", self.name), &question, seed, 1)
        })
    }
}

/// Returns the error of a flow that cannot be traced, with the names of those that can.
fn no_flow(model: &Model, cell: &str, name: Option<&str>, known: &[&str]) -> LabError {
    let is_sctp = |flow: &Flow| matches!(model.nodes[flow.ends[0]].kind, NodeStack::Sctp(_));
    let what = if !model.flows.iter().any(is_sctp) {
        format!("no flow of cell '{cell}' uses SCTP; only SCTP flows can be traced")
    } else if known.is_empty() {
        "the association was never set up".into()
    } else {
        format!(
            "there is no flow '{}' over SCTP in cell '{cell}'; known: {}",
            name.unwrap_or_default(),
            known.join(", ")
        )
    };
    LabError::Choice { what }
}
