//! Rows of the table.

use super::run::grows;
use super::setup::{BEST, Cell, DELAY, ONCE, PAPER, PROCESSING, RATE, TCP, Variant};
use super::{Observation, Observed};
use crate::result::Row;

/// Probabilities of the quantiles in the table, with their names.
pub(super) const QUANTILES: [(f64, &str); 4] =
    [(0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9")];

/// Largest loss, in per mille, at which measurement and model are expected to agree.
const AGREEING: u32 = 20;
/// Loss, in per mille, above which the published TCP could not carry the load.
const LOST_BY_TCP: u32 = 70;
/// Largest expected relative difference between measurement and model.
const TOLERANCE: f64 = 0.03;

/// Returns the physical lower bound in ms: a round trip with the processing and the transmission of
/// a PER request and its reply, 104 and 112 octets with the headers of DATA, SCTP and IP.
pub(super) fn bound() -> f64 {
    bound_of([104.0, 112.0])
}

/// Returns the lower bound with the header of TCP, which is 8 octets shorter than those of SCTP and
/// DATA.
fn tcp_bound() -> f64 {
    bound_of([96.0, 104.0])
}

fn bound_of(octets: [f64; 2]) -> f64 {
    let emission = (octets[0] + octets[1]) * 8.0 / RATE as f64;
    (2.0 * DELAY.as_secs_f64() + PROCESSING.as_secs_f64() + emission) * 1e3
}

/// Returns all rows, in the order of the table.
pub(super) fn rows(observed: &Observed) -> Vec<Row> {
    let all = observed.observations.iter();
    let mut rows: Vec<Row> = all
        .map(|observation| mean_row(observed, observation))
        .collect();
    for streams in [1, 6] {
        if let Some(observation) = observed.find(&PAPER, 10, streams) {
            rows.extend(quantile_rows(observation));
        }
        if let Some(observation) = observed.find(&BEST, 10, streams) {
            rows.extend(quantile_rows(observation));
        }
    }
    if let Some(observation) = observed.find(&TCP, 10, 1) {
        rows.extend(quantile_rows(observation));
    }
    rows
}

/// Returns the name of a cell, the prefix of the identifiers of its rows.
pub(super) fn name(variant: &Variant, Cell { loss, streams }: Cell) -> String {
    format!("{}.p{}.n{streams}", variant.id, f64::from(loss) / 10.0)
}

fn id(observation: &Observation, what: &str) -> String {
    format!("{}.{what}", name(observation.variant, observation.cell))
}

fn label(observation: &Observation) -> String {
    let cell = observation.cell;
    let streams = match cell.streams {
        _ if observation.variant.id == TCP.id => String::new(),
        1 => ", 1 stream".into(),
        n => format!(", {n} streams"),
    };
    format!(
        "{}: {} % loss{streams}",
        observation.variant.label,
        cell.percent()
    )
}

/// Compares TCP with SCTP with one stream.
fn tcp_row(row: Row, observed: &Observed, observation: &Observation) -> Row {
    let cell = observation.cell;
    let sctp = observed.find(&PAPER, cell.loss, 1);
    let mean = sctp.map_or(f64::NAN, Observation::mean);
    let side = if observation.mean() > mean {
        "Slower than"
    } else {
        "Not slower than"
    };
    let row = row.note(&format!("{side} SCTP with one stream: {mean:.2} ms."));
    let waiting: usize = observation.runs.iter().map(|run| run.waiting).sum();
    let usual: f64 = observation.runs.iter().map(|run| run.usual).sum();
    let failures: u64 = observation.runs.iter().map(|r| r.measures.failures()).sum();
    if grows(&observation.runs) || failures > 0 {
        return row.note(&format!(
            "The load is not carried: at the end {waiting} requests are pending, while {usual:.0} arrive in a response time, and \
             {failures} transactions failed; the backlog grows with the duration.",
        ));
    }
    if cell.loss <= LOST_BY_TCP {
        return row;
    }
    row.note(&format!(
        "The load is carried, in contrast to the publication: at the end {waiting} requests are pending, while {usual:.0} arrive in a response \
         time, and none failed.",
    ))
}

fn mean_row(observed: &Observed, observation: &Observation) -> Row {
    let cell = observation.cell;
    let model = cell.model();
    let row = Row::new(&id(observation, "mean"), &label(observation), "ms")
        .at_least(bound())
        .measured(&observation.means());
    if observation.variant.id == TCP.id {
        return tcp_row(row.at_least(tcp_bound()), observed, observation);
    }
    if observation.variant.id != PAPER.id {
        let requests = observation.together().enable.count();
        return row.note(&format!(
            "The model: {model:.3} ms. {requests} requests; T3-rtx expired {} times.",
            observation.timeouts()
        ));
    }
    let mut row = row.published(model);
    if let Some(mean) = row.measured {
        let difference = mean / model - 1.0;
        row = row.note(&format!(
            "{:+.1} % relative to the model.",
            difference * 100.0
        ));
        if cell.loss <= AGREEING && difference.abs() > TOLERANCE {
            row = row.note("This exceeds the expected 3 %.");
        }
        let uncertain = row.ci95.unwrap_or(f64::INFINITY);
        if cell.loss > 10 && mean + uncertain < model {
            row = row.note("Below the model, while the publication is above it.");
        }
    }
    row
}

fn quantile_rows(observation: &Observation) -> Vec<Row> {
    let row = |(share, name): (f64, &str)| {
        let each = observation.runs.iter();
        let quantiles = each.filter_map(|run| run.measures.enable.quantile(share));
        let values: Vec<f64> = quantiles.map(|time| time.as_secs_f64() * 1e3).collect();
        let label = format!("{}: {name} % quantile", label(observation));
        let row = Row::new(&id(observation, &format!("q{name}")), &label, "ms").measured(&values);
        match (observation.variant.id == TCP.id, name) {
            (true, "99") => row
                .published(100.0)
                .note("Published: about 100 ms with Linux 2.6.11."),
            _ => row,
        }
    };
    QUANTILES.into_iter().map(row).collect()
}

/// Returns the settings of the control rows and of the best rows.
pub(super) fn others() -> [&'static super::Variant; 2] {
    [&ONCE, &BEST]
}
