//! Live runs of an experiment: the flow of a cell in UDP and on plain IP, or over the kernel's TCP, beside its
//! simulation.

use std::fmt::Write as _;

use super::super::build::Repetition;
use super::super::live::{Carrier, LiveCell};
use super::super::{CellRuns, ScenarioFile};
use super::Experiment;
use super::rows::{Published, RowTemplate, ValueSource};
use crate::error::LabError;
use crate::live::{Lateness, LivePlan, RunOutcome, shortfalls};
use crate::options::RunOptions;
use crate::parallel;
use crate::result::{LiveResult, LiveRow, LiveValues, Row, Setting};
use crate::stats::mean;

pub(super) fn plan(
    experiment: &Experiment,
    options: &RunOptions,
) -> Result<LivePlan, &'static str> {
    let file = &experiment.0.file;
    let all = file.live_cells()?;
    let mut runs = Vec::new();
    for number in 0..file.live_repetitions(options) {
        for cell in &all {
            let name = file.cells[cell.cell].0.name();
            let name = format!("{name}.{}.{number}", cell.carrier.suffix());
            runs.push(file.live_run(cell, repetition(file, number, options), name)?);
        }
    }
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    let (experiment, options) = (experiment.clone(), *options);
    Ok(LivePlan {
        runs,
        at_once: file.head.live.at_once,
        conclude: Box::new(move |outcomes| {
            if experiment.is_live_only() {
                Ok(conclude_alone(
                    &experiment,
                    &all,
                    &options,
                    &names,
                    &outcomes,
                ))
            } else {
                conclude(&experiment, &all, &options, &names, &outcomes)
            }
        }),
    })
}

fn repetition(file: &ScenarioFile, number: u64, options: &RunOptions) -> Repetition {
    Repetition {
        seed: options.seed,
        number,
        count: file.live_repetitions(options),
    }
}

/// Evaluates the outcomes of the runs, which are ordered by repetition, then by cell.
fn conclude(
    experiment: &Experiment,
    all: &[LiveCell],
    options: &RunOptions,
    names: &[String],
    outcomes: &[RunOutcome],
) -> Result<LiveResult, LabError> {
    let contents = &*experiment.0;
    let file = &contents.file;
    let repetitions = file.live_repetitions(options);
    let of = |run: usize| {
        let number = (run / all.len()) as u64;
        (&all[run % all.len()], repetition(file, number, options))
    };
    // The simulation has the seed and the moment of the live run.
    let simulations = parallel::run(names.len(), |run| {
        let (cell, repetition) = of(run);
        file.live_simulation(cell, repetition)
    });
    let mut notes = shortfalls(names, outcomes);
    let mut stacks: Vec<StackRuns> = Vec::new();
    for (run, simulated) in simulations.into_iter().enumerate() {
        let simulated = simulated.map_err(|what| LabError::Simulation {
            scenario: file.name.clone(),
            what,
        })?;
        let (cell, repetition) = of(run);
        let record = outcomes[run].record();
        let live = record.map(|record| file.live_values(cell, repetition, record));
        let live = live.transpose().unwrap_or_else(|what| {
            notes.push(format!("The run {} failed: {what}.", names[run]));
            None
        });
        let place = stacks.iter().position(|own| own.carrier == cell.carrier);
        let place = place.unwrap_or_else(|| {
            stacks.push(StackRuns::new(cell.carrier, file));
            stacks.len() - 1
        });
        let own = &mut stacks[place];
        own.is_shared |= cell.flows.len() > 1;
        let lateness = record.filter(|_| live.is_some());
        own.lateness[cell.cell].extend(lateness.map(|record| record.lateness.clone()));
        // A run without values keeps the numbers of the later ones.
        own.live[cell.cell].push(live.unwrap_or_else(|| vec![None; simulated.len()]));
        own.simulated[cell.cell].push(simulated);
    }
    notes.push(
        "Transmissions and arrivals are recorded between the hosts’ kernels and the network."
            .into(),
    );
    notes.extend(file.head.live.notes.iter().cloned());
    Ok(LiveResult {
        rows: rows(file, &contents.published, &stacks),
        accuracy: None,
        notes,
        settings: settings(file, all, repetitions),
        ..LiveResult::default()
    })
}

/// Evaluates the outcomes of runs that have no simulation, which are ordered by repetition, then by cell.
fn conclude_alone(
    experiment: &Experiment,
    all: &[LiveCell],
    options: &RunOptions,
    names: &[String],
    outcomes: &[RunOutcome],
) -> LiveResult {
    let file = &experiment.0.file;
    let mut values = LiveValues {
        cells: vec![Vec::new(); file.cells.len()],
        ..LiveValues::default()
    };
    let mut notes = shortfalls(names, outcomes);
    for (run, outcome) in outcomes.iter().enumerate() {
        let cell = &all[run % all.len()];
        let number = (run / all.len()) as u64;
        let measured = match outcome {
            RunOutcome::Ran(record) => {
                file.live_values(cell, repetition(file, number, options), record)
            }
            RunOutcome::Missing(what) | RunOutcome::Failed(what) => Err(what.clone()),
        };
        match measured {
            Ok(own) => values.cells[cell.cell].push(own),
            Err(what) => {
                if outcome.record().is_some() {
                    notes.push(format!("The run {} failed: {what}.", names[run]));
                }
                values.absent.entry(cell.cell).or_insert(what);
            }
        }
    }
    values
        .absent
        .retain(|cell, _| values.cells[*cell].is_empty());
    notes.extend(file.head.live.notes.iter().cloned());
    let runs = format!(
        "{} repetitions, each in a separate network, {} at the same time",
        file.live_repetitions(options),
        file.head.live.at_once
    );
    LiveResult {
        notes,
        settings: vec![Setting::new("live runs", runs)],
        values,
        ..LiveResult::default()
    }
}

fn settings(file: &ScenarioFile, all: &[LiveCell], repetitions: u64) -> Vec<Setting> {
    let live = &file.head.live;
    let mut runs = format!(
        "{repetitions} repetitions, each in a separate network, {} at the same time; changes of the network have the \
         times of the simulation, counted from the first message",
        live.at_once
    );
    if let Some(messages) = live.messages {
        let _ = write!(runs, "; at most {messages} messages, live and simulated");
    }
    if let Some(duration) = live.duration {
        let seconds = duration.as_secs_f64();
        let _ = write!(
            runs,
            "; flows without an end run for {seconds} s, live and simulated"
        );
    }
    let mut all_settings = vec![Setting::new("live runs", runs)];
    let is_tcp = |cell: &LiveCell| matches!(cell.carrier, Carrier::Kernel(_));
    if !all.iter().all(is_tcp) {
        all_settings.push(Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, 8 bytes more per packet) and on \
             plain IP",
        ));
    }
    if all.iter().any(is_tcp) {
        all_settings.push(Setting::new(
            "live TCP",
            "the kernel’s TCP with its defaults, TCP_NODELAY, and, where the simulated hosts have TCP, their segments, \
             receive window and send buffer (SO_SNDBUF); compared with the same congestion control if the simulator \
             has it",
        ));
    }
    all_settings
}

/// Values of all runs over a stack, live and simulated.
struct StackRuns {
    carrier: Carrier,
    /// A run has several flows.
    is_shared: bool,
    /// Values by cell and repetition.
    live: Vec<CellRuns>,
    simulated: Vec<CellRuns>,
    /// Lateness of the network by cell and complete run.
    lateness: Vec<Vec<Lateness>>,
}

impl StackRuns {
    fn new(carrier: Carrier, file: &ScenarioFile) -> Self {
        let cells = file.cells.len();
        Self {
            carrier,
            is_shared: false,
            live: vec![Vec::new(); cells],
            simulated: vec![Vec::new(); cells],
            lateness: vec![Vec::new(); cells],
        }
    }

    /// Returns a row of measured values, given the rows with the live and with the simulated ones.
    fn row(
        &self,
        file: &ScenarioFile,
        template: &RowTemplate,
        live: &Row,
        simulated: &Row,
    ) -> LiveRow {
        let values = live.repetitions.iter().zip(&live.values);
        let both = values.filter_map(|(number, live)| Some((*live, simulated.value_in(*number)?)));
        let (values, simulated): (Vec<f64>, Vec<f64>) = both.unzip();
        let carrier = self.carrier;
        let is_kernel = matches!(carrier, Carrier::Kernel(_));
        let on = if self.is_shared && is_kernel {
            "on IP beside "
        } else {
            ""
        };
        let id = format!("{}.{}", live.id, carrier.suffix());
        let label = format!("{}, {on}{}", live.label, carrier.label());
        let row = LiveRow::new(&id, &label, &live.unit, &simulated, &values);
        let row = row.published(live.published);
        let own = template.live.as_deref().filter(|text| !text.is_empty());
        if is_kernel {
            return row.another_stack(own.unwrap_or(&file.head.live.because_tcp));
        }
        let why = own.unwrap_or(&file.head.live.because);
        match self.lateness(file, template) {
            Some(late) => row.delayed_by(late).because(why),
            None => row.because(why),
        }
    }

    /// Returns the mean lateness of the network in ms by which the live values of a measured row are larger.
    fn lateness(&self, file: &ScenarioFile, template: &RowTemplate) -> Option<f64> {
        let runs = self.lateness[template.measured()?.cell].iter();
        let late = runs.map(|lateness| template.lateness(file, lateness));
        mean(&late.collect::<Option<Vec<f64>>>()?)
    }
}

/// Returns each row that is measured live over each stack over which it was measured. Rows over the means of others
/// are not.
fn rows(file: &ScenarioFile, published: &Published, stacks: &[StackRuns]) -> Vec<LiveRow> {
    let measured =
        |own: &StackRuns| [&own.live, &own.simulated].map(|cells| published.measured(file, cells));
    let measured: Vec<[Vec<Row>; 2]> = stacks.iter().map(measured).collect();
    let mut all = Vec::new();
    for (number, template) in published.rows.iter().enumerate() {
        let of_means = matches!(template.source, ValueSource::Computed { paired: false, .. });
        if template.live.is_none() || of_means {
            continue;
        }
        for (stack, [live, simulated]) in stacks.iter().zip(&measured) {
            if published.has_runs(template, &stack.live) {
                all.push(stack.row(file, template, &live[number], &simulated[number]));
            }
        }
    }
    all
}
