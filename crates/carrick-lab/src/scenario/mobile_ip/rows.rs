//! The table of the scenario.

use std::time::Duration;

use super::run::{Configuration, Measures, Move};
use super::setup::{
    CAPACITY_NOTE, DELAY, GAP, LOSSES, Stack, capacity, millis, round_trip, transmission,
};
use super::{CONTROL, FAILURE_STACKS, HANDOVER_STACKS, Job, MOVES, Observed};
use crate::format;
use crate::result::Row;

/// Published throughput in Mbit/s, by loss.
pub(super) const PUBLISHED_TCP: [f64; 4] = [1.32, 1.08, 0.72, 0.35];
pub(super) const PUBLISHED_ONE: [f64; 4] = [1.525, 1.225, 0.855, 0.481];
pub(super) const PUBLISHED_TWO: [Option<f64>; 4] = [Some(1.525), Some(1.375), None, Some(0.68)];
/// How far configuration 1 may be from the published column.
const NEAR: f64 = 0.1;

/// All rows, in the order of the table.
pub(super) fn rows(observed: &Observed) -> Vec<Row> {
    let mut rows = Vec::new();
    for number in 0..LOSSES.len() {
        rows.push(tcp(observed, number));
    }
    for number in 0..LOSSES.len() {
        rows.push(configuration_1(observed, number));
    }
    for number in 0..LOSSES.len() {
        rows.push(configuration_2(observed, number));
    }
    for number in [1, 2, 3] {
        rows.push(gain(observed, number));
    }
    for number in 0..LOSSES.len() {
        rows.push(best(observed, number));
    }
    rows.extend(CONTROL.map(|number| control(observed, LOSSES[number])));
    for stack in FAILURE_STACKS {
        rows.extend(failure(observed, stack));
    }
    for stack in HANDOVER_STACKS {
        rows.extend(MOVES.map(|kind| interruption(observed, kind, stack)));
    }
    rows
}

/// A loss as it is written: "1 %", and as it is named in a row: "1".
pub(super) fn percent(loss: f64) -> String {
    format::given(loss * 100.0)
}

fn tcp(observed: &Observed, number: usize) -> Row {
    let loss = LOSSES[number];
    let row = Row::new(
        &format!("tcp.{}.throughput", percent(loss)),
        &format!("TCP in configuration 1, {} % loss", percent(loss)),
        "Mbit/s",
    )
    .published(PUBLISHED_TCP[number])
    .measured(&observed.values(Job::Tcp(loss), |m| m.throughput));
    if number == 0 {
        row.note("smoltcp here, FTP over the kernels of 2002 there: see the note on TCP.")
    } else {
        row
    }
}

fn configuration_1(observed: &Observed, number: usize) -> Row {
    let loss = LOSSES[number];
    let values = observed.throughput(Configuration::One, Stack::Paper, loss);
    let published = PUBLISHED_ONE[number];
    let row = Row::new(
        &format!("config1.{}.throughput", percent(loss)),
        &format!("configuration 1, {} % loss", percent(loss)),
        "Mbit/s",
    )
    .bound(capacity() * (1.0 - loss))
    .published(published)
    .measured(&values);
    let difference = row.measured.map_or(0.0, |m| m / published - 1.0);
    let verdict = if difference.abs() <= NEAR {
        "within 10 %"
    } else {
        "outside 10 %"
    };
    let row = row.note(&format!("{:+.1} %: {verdict}.", difference * 100.0));
    if number == 0 {
        row.note(CAPACITY_NOTE)
    } else {
        row
    }
}

fn configuration_2(observed: &Observed, number: usize) -> Row {
    let loss = LOSSES[number];
    let values = observed.throughput(Configuration::Two, Stack::Paper, loss);
    let mut row = Row::new(
        &format!("config2.{}.throughput", percent(loss)),
        &format!("configuration 2, {} % loss", percent(loss)),
        "Mbit/s",
    )
    .measured(&values);
    row.published = PUBLISHED_TWO[number];
    row
}

/// The gain of a second link in each repetition, in percent.
fn gain(observed: &Observed, number: usize) -> Row {
    let loss = LOSSES[number];
    let [one, two] = [Configuration::One, Configuration::Two]
        .map(|configuration| observed.throughput(configuration, Stack::Paper, loss));
    let gains: Vec<f64> = one
        .iter()
        .zip(&two)
        .map(|(a, b)| (b / a - 1.0) * 100.0)
        .collect();
    let mut row = Row::new(
        &format!("gain.{}", percent(loss)),
        &format!("gain of the second link, {} % loss", percent(loss)),
        "%",
    )
    .measured(&gains);
    row.published = PUBLISHED_TWO[number].map(|two| (two / PUBLISHED_ONE[number] - 1.0) * 100.0);
    match (row.measured, row.published) {
        (Some(measured), Some(published)) if measured < published => {
            row.note("Less than published; the notes say why.")
        }
        _ => row,
    }
}

fn best(observed: &Observed, number: usize) -> Row {
    let loss = LOSSES[number];
    let values = observed.throughput(Configuration::Two, Stack::Best, loss);
    let row = Row::new(
        &format!("best.{}.throughput", percent(loss)),
        &format!("best settings on both links, {} % loss", percent(loss)),
        "Mbit/s",
    )
    .bound(capacity() * (2.0 - loss))
    .measured(&values);
    if number == 0 {
        row.note("Bound: what both links carry; new data takes one of them.")
    } else {
        row
    }
}

fn control(observed: &Observed, loss: f64) -> Row {
    let values = observed.throughput(Configuration::Two, Stack::WindowKept, loss);
    Row::new(
        &format!("control.{}.throughput", percent(loss)),
        &format!(
            "control: configuration 2, window kept, {} % loss",
            percent(loss)
        ),
        "Mbit/s",
    )
    .measured(&values)
    .note("A fast retransmission leaves the window as it is, against RFC 2960 and RFC 9260.")
}

fn failure(observed: &Observed, stack: Stack) -> Vec<Row> {
    let job = Job::Failure(stack);
    let id = |what: &str| format!("config3.{}.{what}", stack.id());
    let label = |what: &str| format!("configuration 3, {}: {what}", stack.label());
    let all = observed.of(job);
    let delivered = observed.values(job, |m| m.delivered * 100.0);
    let mut rows = vec![
        Row::new(&id("delivered"), &label("delivered"), "%")
            .bound(100.0)
            .measured(&delivered),
    ];
    let lost: Vec<f64> = all.iter().filter_map(|m| m.lost_after).collect();
    if !lost.is_empty() {
        let note = format!(
            "{} of {} associations were lost, this long after the failure.",
            lost.len(),
            all.len()
        );
        let row = Row::new(&id("lost-after"), &label("association lost after"), "s");
        rows.push(row.measured(&lost).note(&note));
    }
    if lost.len() < all.len() {
        let survivors = |value: fn(&Measures) -> f64| -> Vec<f64> {
            let survived = all.iter().filter(|m| m.lost_after.is_none());
            survived.map(value).collect()
        };
        let row = Row::new(&id("silence"), &label("longest silence"), "ms");
        rows.push(row.measured(&survivors(|m| m.interruption)));
    }
    rows
}

/// The name of a handover for people.
pub(super) fn move_label(kind: Move) -> &'static str {
    match kind {
        Move::Reregistration => "Mobile IP re-registration",
        Move::Failover => "multi-homed failover",
        Move::BreakBeforeMake => "ASCONF handover",
        Move::MakeBeforeBreak => "ASCONF, make before break",
    }
}

pub(super) fn move_id(kind: Move) -> &'static str {
    match kind {
        Move::Reregistration => "re-registration",
        Move::Failover => "failover",
        Move::BreakBeforeMake => "asconf",
        Move::MakeBeforeBreak => "make-before-break",
    }
}

/// What physics allows at best, in ms.
fn least(kind: Move) -> f64 {
    let bound = match kind {
        // The gap; solicitation and advertisement over the air; the request to the home agent; the
        // first packet from there.
        Move::Reregistration => GAP + Duration::from_millis(2 * 2 + 26 + 26),
        // An acknowledgement is missing after a round trip; then the data go the other way.
        Move::Failover => round_trip() + DELAY,
        // The gap; the news there, and data back.
        Move::BreakBeforeMake => GAP + DELAY * 2,
        Move::MakeBeforeBreak => Duration::ZERO,
    };
    millis(bound)
}

fn interruption(observed: &Observed, kind: Move, stack: Stack) -> Row {
    let values = observed.values(Job::Handover(kind, stack), |m| m.interruption);
    let row = Row::new(
        &format!("{}.{}.interruption", stack.id(), move_id(kind)),
        &format!("{}, {}: interruption", move_label(kind), stack.label()),
        "ms",
    )
    .bound(least(kind))
    .measured(&values);
    if kind != Move::MakeBeforeBreak {
        return row;
    }
    let rtt = millis(round_trip());
    let side = match row.measured {
        Some(measured) if measured < rtt => "Less",
        _ => "Not less",
    };
    let flight = millis(transmission());
    row.note(&format!(
        "{side} than one round trip of {} ms, {flight} ms of it the transmission of a full packet.",
        format::given(rtt)
    ))
}
