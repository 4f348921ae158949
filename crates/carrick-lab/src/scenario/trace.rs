//! Trace of one association of one run of a published experiment.

use super::{RunOptions, Scenario, no_cell};
use crate::capture::{Capture, SenderLog, SenderLogs};
use crate::error::LabError;
use crate::result::ScenarioResult;
use crate::trace::{TraceOptions, TracedAssociation};

/// Runs one repetition of a cell as [`Scenario::run`] does and draws an association: the sequence
/// of its chunks, and for each path the windows, the round-trip times and the states.
///
/// # Errors
/// [`LabError::Choice`] if the cell, repetition or flow does not exist, or does not use SCTP;
/// otherwise see [`Scenario::run`].
pub fn trace(
    scenario: &dyn Scenario,
    cell: &str,
    options: &RunOptions,
    wanted: &TraceOptions<'_>,
) -> Result<ScenarioResult, LabError> {
    let cells = scenario.cells();
    if !cells.iter().any(|own| own == cell) {
        return Err(choice(no_cell(cell, &cells)));
    }
    let (name, repetition) = (scenario.name(), wanted.repetition);
    let repetitions = scenario.repetitions(options);
    if repetition >= repetitions {
        return Err(choice(format!(
            "there is no repetition {repetition} of scenario '{name}'; there are {repetitions}, from 0 on"
        )));
    }
    let sender_logs = SenderLogs::default();
    let capture = Capture::recording(wanted.capture, &sender_logs);
    let run = scenario.replay((cell, repetition), options, capture);
    run.map_err(|what| LabError::Simulation {
        scenario: name.into(),
        what: format!("{cell}, repetition {repetition}: {what}"),
    })?;
    let flows = sender_logs.flows.borrow();
    let sender = flow(&flows, wanted.flow, cell)?;
    let log = sender.log.borrow();
    let Some(first) = log.states.first() else {
        return Err(choice("the association was never set up".into()));
    };
    let traced = TracedAssociation {
        scenario: name,
        cell: Some(cell.into()),
        command: command(name, cell, sender.flow, options, repetitions, repetition),
        seed: options.seed,
        ends: sender.ends,
        log: &log,
        id: first.association,
        end: sender_logs.end.get().since_start(),
    };
    Ok(traced.draw(wanted))
}

/// Returns the flow of this name, or the first one.
fn flow<'t>(
    flows: &'t [SenderLog],
    name: Option<&str>,
    cell: &str,
) -> Result<&'t SenderLog, LabError> {
    if flows.is_empty() {
        return Err(choice(format!(
            "no flow of cell '{cell}' uses SCTP; only SCTP flows can be traced"
        )));
    }
    let found = flows
        .iter()
        .find(|own| name.is_none_or(|name| name == own.flow));
    found.ok_or_else(|| {
        let known: Vec<&str> = flows.iter().map(|own| own.flow).collect();
        let name = name.unwrap_or_default();
        choice(format!(
            "there is no flow '{name}' in cell '{cell}'; known: {}",
            known.join(", ")
        ))
    })
}

/// Returns the command that repeats the trace.
fn command(
    name: &str,
    cell: &str,
    flow: &str,
    options: &RunOptions,
    repetitions: u64,
    repetition: u64,
) -> String {
    let full = if options.full { " --full" } else { "" };
    format!(
        "carrick lab trace {name} --cell {cell} --flow {flow} --seed {}{full} --reps {repetitions} --repetition {repetition}",
        options.seed
    )
}

fn choice(what: String) -> LabError {
    LabError::Choice { what }
}
