//! Rows of the table.

use std::time::Duration;

use super::run::{Configuration, Measures, Move};
use super::setup::{
    CAPACITY_NOTE, DELAY, GAP, LOSSES, Stack, capacity, direct_capacity, millis, round_trip,
    transmission,
};
use super::{CONTROL, FAILURE_STACKS, HANDOVER_STACKS, Job, LOSSY, MOVES, Observed};
use crate::format;
use crate::result::Row;
use crate::stats::Sorted;

/// Published throughput in Mbit/s, by loss.
pub(super) const PUBLISHED_TCP: [f64; 4] = [1.32, 1.08, 0.72, 0.35];
pub(super) const PUBLISHED_ONE: [f64; 4] = [1.525, 1.225, 0.855, 0.481];
pub(super) const PUBLISHED_TWO: [Option<f64>; 4] = [Some(1.525), Some(1.375), None, Some(0.68)];
/// Largest expected relative difference of configuration 1 from the published column.
const NEAR: f64 = 0.1;

/// Returns all rows, in the order of the table.
pub(super) fn rows(observed: &Observed) -> Vec<Row> {
    let mut rows = Vec::new();
    for number in 0..LOSSES.len() {
        rows.push(tcp(observed, number));
    }
    for number in 0..LOSSES.len() {
        rows.push(tcp_like(observed, number));
    }
    for number in 0..LOSSES.len() {
        rows.push(configuration_1(observed, number));
    }
    for number in 0..LOSSES.len() {
        rows.push(configuration_2(observed, number));
    }
    rows.extend(LOSSY.map(|number| gain(observed, number, Stack::Paper)));
    for configuration in [Configuration::One, Configuration::Two] {
        let row = |number| alternative(observed, configuration, number);
        rows.extend(LOSSY.map(row));
    }
    rows.extend(LOSSY.map(|number| gain(observed, number, Stack::Alternative)));
    for stack in [Stack::Concurrent, Stack::Best] {
        for number in 0..LOSSES.len() {
            rows.push(best(observed, number, stack));
        }
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

/// Formats a loss in per cent, as in labels and identifiers: "1".
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
        row.note(
            "Measured with smoltcp, published for FTP over kernels of 2002: see the note on TCP.",
        )
    } else {
        row
    }
}

/// The laboratory's model of a current TCP, as in `overhead`.
fn tcp_like(observed: &Observed, number: usize) -> Row {
    let loss = LOSSES[number];
    let values = observed.throughput(Configuration::One, Stack::TcpLike, loss);
    let row = Row::new(
        &format!("tcp-like.{}.throughput", percent(loss)),
        &format!("TCP-like flow in configuration 1, {} % loss", percent(loss)),
        "Mbit/s",
    )
    .published(PUBLISHED_TCP[number])
    .not_compared("a model of TCP, not TCP")
    .measured(&values);
    if number == 0 {
        row.note("An association with full packets and the rules of RFC 9260, as in overhead: a model of TCP with SACK recovery and byte counting.")
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
    .at_most(capacity() * (1.0 - loss))
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

/// Either configuration with the alternative settings.
fn alternative(observed: &Observed, configuration: Configuration, number: usize) -> Row {
    let stack = Stack::Alternative;
    let loss = LOSSES[number];
    let (n, published) = match configuration {
        Configuration::One => (1, Some(PUBLISHED_ONE[number])),
        _ => (2, PUBLISHED_TWO[number]),
    };
    let mut row = Row::new(
        &format!("{}{n}.{}.throughput", stack.id(), percent(loss)),
        &format!(
            "configuration {n}, {}, {} % loss",
            stack.label(),
            percent(loss)
        ),
        "Mbit/s",
    )
    .not_compared("an alternative to the rows above")
    .measured(&observed.throughput(configuration, stack, loss));
    row.published = published;
    if n == 1 && number == LOSSY[0] {
        row = row.note(
            "Reverse tunnel in both configurations: see the note on what the paper leaves open.",
        );
    }
    row
}

/// Gain of a second link in per cent: the ratio of the means, and the paired differences of the
/// repetitions in per cent of configuration 1's mean.
fn gain(observed: &Observed, number: usize, stack: Stack) -> Row {
    let loss = LOSSES[number];
    let [one, two] = [Configuration::One, Configuration::Two]
        .map(|configuration| observed.throughput(configuration, stack, loss));
    let mean = crate::stats::mean(&one).unwrap_or(f64::NAN);
    let pairs = one.iter().zip(&two);
    let gains: Vec<f64> = pairs.map(|(a, b)| (b - a) / mean * 100.0).collect();
    let (prefix, with) = match stack {
        Stack::Paper => ("gain".into(), String::new()),
        _ => (
            format!("{}-gain", stack.id()),
            format!(", {}", stack.label()),
        ),
    };
    let mut row = Row::new(
        &format!("{prefix}.{}", percent(loss)),
        &format!("gain of the second link{with}, {} % loss", percent(loss)),
        "%",
    )
    .measured(&gains);
    row.published = PUBLISHED_TWO[number].map(|two| (two / PUBLISHED_ONE[number] - 1.0) * 100.0);
    if stack != Stack::Paper {
        row = row.not_compared("an alternative to the rows above");
    }
    row
}

/// Throughput of the two links with the stack's own settings: new data on both, and on the first
/// only.
fn best(observed: &Observed, number: usize, stack: Stack) -> Row {
    let loss = LOSSES[number];
    let values = observed.throughput(Configuration::Two, stack, loss);
    let both = stack == Stack::Concurrent;
    let [id, label] = if both {
        ["best", "best settings on both links"]
    } else {
        ["one-link", "step to best: new data on one link"]
    };
    let first = capacity() * (1.0 - loss);
    let bound = first + if both { direct_capacity() } else { 0.0 };
    let row = Row::new(
        &format!("{id}.{}.throughput", percent(loss)),
        &format!("{label}, {} % loss", percent(loss)),
        "Mbit/s",
    )
    .measured(&values);
    // With one link retransmissions on the other are carried in addition.
    let row = if both {
        row.at_most(bound)
    } else {
        row.modelled(bound)
    };
    let row = match row.measured {
        Some(mean) if both => row.note(&format!(
            "{} % of the bound.",
            format::measured(100.0 * mean / bound)
        )),
        _ => row,
    };
    match (number, both) {
        (0, true) => row.note(
            "Bound: rate of user data on both links, less the loss on the first. Concurrent multipath, RACK, PRR and \
             CUBIC on each path, retransmissions on the path with the least loss.",
        ),
        (0, false) => row.note(
            "The same without concurrent multipath: the second link carries retransmissions only. Model: rate of the first link; \
             retransmissions are carried in addition.",
        ),
        _ => row,
    }
}

/// Describes the distribution of the repetitions.
fn spread(values: &[f64]) -> String {
    let sorted = Sorted::new(values.to_vec());
    let quantile = |share: f64| {
        sorted
            .quantile(share)
            .map_or_else(String::new, format::measured)
    };
    format!(
        "Repetitions: median {} ms, 90 % quantile {} ms, longest {} ms.",
        quantile(0.5),
        quantile(0.9),
        quantile(1.0)
    )
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
    .note("A fast retransmission does not reduce the window, contrary to RFC 2960 and RFC 9260.")
}

fn failure(observed: &Observed, stack: Stack) -> Vec<Row> {
    let job = Job::Failure(stack);
    let id = |what: &str| format!("config3.{}.{what}", stack.id());
    let label = |what: &str| format!("configuration 3, {}: {what}", stack.label());
    let all = observed.of(job);
    let delivered = observed.values(job, |m| m.delivered * 100.0);
    let mut rows = vec![
        Row::new(&id("delivered"), &label("delivered"), "%")
            .at_most(100.0)
            .measured(&delivered),
    ];
    let lost: Vec<f64> = all.iter().filter_map(|m| m.lost_after).collect();
    if !lost.is_empty() {
        let note = format!(
            "{} of {} associations were lost, at this time after the failure.",
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
        let row = Row::new(&id("silence"), &label("longest delivery gap"), "ms");
        let silences = survivors(|m| m.interruption);
        rows.push(row.measured(&silences).note(&spread(&silences)));
    }
    rows
}

/// Returns the label of a handover.
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

/// Returns the physical lower bound in ms.
fn least(kind: Move) -> f64 {
    let bound = match kind {
        // The gap; solicitation and advertisement on the radio link; the request to the home agent;
        // the first packet from there.
        Move::Reregistration => GAP + Duration::from_millis(2 * 2 + 26 + 26),
        // A missing acknowledgement is detected after a round trip; then the data is sent on the
        // other path.
        Move::Failover => round_trip() + DELAY,
        // The gap; the announcement of the address, and data back.
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
    .at_least(least(kind))
    .measured(&values)
    .note(&spread(&values));
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
