//! Rows of the table.

use super::run::{Case, Failover};
use super::setup::{BEST, LOADS, Load, PATH_MAX_RETRANS, VARIANTS, Variant, millis};
use super::{Cell, Observed};
use crate::format;
use crate::result::Row;
use crate::stats::Sorted;

/// Published times for one Path.Max.Retrans in ms: failover in the cases A, B and C, longest
/// transfer in A and in B and C; and the frequency of each case.
pub(super) struct Published {
    pub(super) failover: [f64; 3],
    pub(super) transfer: [f64; 2],
    pub(super) count: [u32; 3],
}

/// Published values in the order of [`PATH_MAX_RETRANS`].
pub(super) const PUBLISHED: [Published; 4] = [
    Published {
        failover: [422.0, 464.0, 484.0],
        transfer: [272.0, 324.0],
        count: [19, 14, 7],
    },
    Published {
        failover: [573.0, 622.0, 642.0],
        transfer: [363.0, 422.0],
        count: [20, 17, 3],
    },
    Published {
        failover: [723.0, 772.0, 792.0],
        transfer: [452.0, 512.0],
        count: [23, 13, 4],
    },
    Published {
        failover: [874.0, 923.0, 943.0],
        transfer: [543.0, 603.0],
        count: [17, 17, 6],
    },
];

impl Published {
    /// Returns the mean of the published runs.
    pub(super) fn mean_failover(&self) -> f64 {
        weighted(&self.failover, &self.count)
    }

    /// Returns the mean of the published longest transfers.
    pub(super) fn mean_transfer(&self) -> f64 {
        let [a, others] = self.transfer;
        weighted(&[a, others, others], &self.count)
    }
}

fn weighted(values: &[f64; 3], counts: &[u32; 3]) -> f64 {
    let sum: f64 = values
        .iter()
        .zip(counts)
        .map(|(v, c)| v * f64::from(*c))
        .sum();
    sum / f64::from(counts.iter().sum::<u32>())
}

/// Lower bound of the longest transfer in ms: RTO.Max and the propagation delay.
pub(super) const TRANSFER_BOUND: f64 = 170.0;
/// Largest relative difference from the published mean that needs no note.
const TOLERANCE: f64 = 0.05;

/// Returns all rows, in the order of the table.
pub(super) fn rows(observed: &Observed) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((variant, cell), published) in VARIANTS.iter().zip(&observed.quiet).zip(&PUBLISHED) {
        rows.extend(paper_rows(variant, cell, published));
    }
    for (variant, cell) in VARIANTS
        .iter()
        .zip(&observed.quiet)
        .skip(PATH_MAX_RETRANS.len())
    {
        rows.extend(own_rows(variant, cell));
    }
    for (load, cells) in LOADS.iter().zip(&observed.loaded) {
        for (variant, cell) in VARIANTS.iter().zip(cells) {
            rows.extend(loaded_rows(*load, variant, cell));
        }
    }
    rows
}

fn paper_rows(variant: &Variant, cell: &Cell, published: &Published) -> Vec<Row> {
    let mut rows = Vec::new();
    for (case, value) in [Case::A, Case::B, Case::C]
        .into_iter()
        .zip(published.failover)
    {
        let values = values(cell, |f| (f.case == case).then_some(f.time));
        let id = format!("{}.failover-{}", variant.id, letter(case).to_lowercase());
        let label = format!("{}: failover time, case {}", variant.label, letter(case));
        let row = Row::new(&id, &label, "ms").at_least(variant.bound());
        rows.push(compared(row.published(value), &values, ON_CASES));
    }
    // In case A the last message that arrived is the first that is retransmitted.
    for (case, value) in [Case::B, Case::C].into_iter().zip(&published.failover[1..]) {
        let values = values(cell, |f| {
            (f.case == case).then_some(f.from_arrived).flatten()
        });
        let (label, letter) = (variant.label, letter(case));
        let id = format!("{}.failover-{}-arrived", variant.id, letter.to_lowercase());
        let label =
            format!("{label}: failover time from the last message that arrived, case {letter}");
        let row = Row::new(&id, &label, "ms")
            .at_least(variant.bound())
            .published(*value)
            .not_compared("another reading of the value above");
        rows.push(compared(row, &values, ON_CASES));
    }
    let mean = values(cell, |f| Some(f.time));
    let row = Row::new(
        &format!("{}.failover", variant.id),
        &format!("{}: failover time, mean", variant.label),
        "ms",
    );
    rows.push(compared(
        row.at_least(variant.bound())
            .published(published.mean_failover()),
        &mean,
        if counts(cell).contains(&0) {
            "not every case occurred in this number of repetitions."
        } else {
            ON_CASES
        },
    ));
    let groups = [(true, "a", "case A"), (false, "bc", "cases B and C")];
    for ((is_a, id, name), value) in groups.into_iter().zip(published.transfer) {
        let values = values(cell, |f| {
            ((f.case == Case::A) == is_a).then_some(f.max_transfer)
        });
        let id = format!("{}.transfer-{id}", variant.id);
        let label = format!("{}: longest transfer, {name}", variant.label);
        let row = Row::new(&id, &label, "ms").at_least(TRANSFER_BOUND);
        rows.push(compared(row.published(value), &values, ON_CASES));
    }
    rows
}

/// Reference to the note that explains most differences.
const ON_CASES: &str = "see the note on cases B and C.";

/// Adds the measured values to a row, and the reason if they differ from the published value.
fn compared(row: Row, values: &[f64], why: &str) -> Row {
    let row = row.measured(values);
    let (Some(mean), Some(published)) = (row.measured, row.published) else {
        return row.note("This case did not occur in this number of repetitions.");
    };
    let difference = mean / published - 1.0;
    if difference.abs() <= TOLERANCE {
        return row;
    }
    row.note(&format!(
        "{:+.1} % from the published mean: {why}",
        100.0 * difference
    ))
}

fn own_rows(variant: &Variant, cell: &Cell) -> Vec<Row> {
    let times = values(cell, |f| Some(f.time));
    let transfers = values(cell, |f| Some(f.max_transfer));
    let false_ones = false_failovers(cell);
    let [_, min, max] = variant.rto;
    let mut failover = Row::new(
        &format!("{}.failover", variant.id),
        &format!("{}: failover time", variant.label),
        "ms",
    )
    .at_least(variant.bound())
    .measured(&times);
    if variant.id == BEST.id {
        failover = failover.note(&format!(
            "RFC 7829 with PFMR 0, RTO.Min {min} ms and RTO.Max {max} ms, a SACK for each packet, RACK. Bound: \
             the timeout; it is counted from the last received SACK, about {} ms after the first lost message.",
            format::measured(times.first().map_or(0.0, |t| t - variant.bound())),
        ));
    }
    vec![
        failover,
        Row::new(
            &format!("{}.transfer", variant.id),
            &format!("{}: longest transfer", variant.label),
            "ms",
        )
        // With the potentially failed state, the first timeout retransmits it on the other path.
        .at_least(min as f64 + propagation())
        .measured(&transfers),
        false_row(variant, Load::Quiet, &false_ones, cell),
    ]
}

fn loaded_rows(load: Load, variant: &Variant, cell: &Cell) -> Vec<Row> {
    let times = values(cell, |f| Some(f.time));
    let missing = cell.breaks.len() - times.len();
    let mut failover = Row::new(
        &format!("{}.{}.failover", load.id(), variant.id),
        &format!("{}, {}: failover time", load.label(), variant.label),
        "ms",
    )
    .at_least(variant.bound())
    .measured(&times);
    if times.len() > 1 {
        let sorted = Sorted::new(times.clone());
        let quantile = |share: f64| {
            sorted
                .quantile(share)
                .map_or_else(String::new, format::measured)
        };
        failover = failover.note(&format!(
            "Repetitions: median {} ms, 90 % quantile {} ms, longest {} ms.",
            quantile(0.5),
            quantile(0.9),
            quantile(1.0)
        ));
    }
    if missing > 0 {
        failover = failover.note(&format!(
            "In {missing} of {} repetitions data had left the primary path before the failure.",
            cell.breaks.len()
        ));
    }
    if times.iter().any(|time| *time < variant.bound()) {
        failover = failover.note(
            "Below the bound if the longest transfer was that of a message retransmitted before the last timeout.",
        );
    }
    vec![
        failover,
        false_row(variant, load, &false_failovers(cell), cell),
    ]
}

/// Returns the prefix of the identifiers of a variant's rows under a load.
pub(super) fn name(load: Load, variant: &Variant) -> String {
    match load {
        Load::Quiet => variant.id.into(),
        _ => format!("{}.{}", load.id(), variant.id),
    }
}

fn false_row(variant: &Variant, load: Load, values: &[f64], cell: &Cell) -> Row {
    let label = match load {
        Load::Quiet => variant.label.to_string(),
        _ => format!("{}, {}", load.label(), variant.label),
    };
    let timeouts: u64 = cell.watched.iter().map(|w| w.timeouts).sum();
    let longest = cell
        .watched
        .iter()
        .map(|w| w.max_transfer)
        .fold(0.0, f64::max);
    let row = Row::new(
        &format!("{}.false-failovers", name(load, variant)),
        &format!("{label}: false failovers"),
        "per min",
    )
    .at_least(0.0)
    .measured(values)
    .note(&format!(
        "{timeouts} timeouts in {} min without a path failure; the longest transfer took {} ms.",
        values.len(),
        format::measured(longest)
    ));
    if load.is_random() {
        row
    } else {
        row.note("One run, which does not depend on the seed.")
    }
}

/// Returns the number of times data left the primary path in each minute without a failure.
pub(super) fn false_failovers(cell: &Cell) -> Vec<f64> {
    let counts = cell.watched.iter().map(|w| w.false_failovers as f64);
    counts.collect()
}

/// Returns one value per path failure, for those that have one.
pub(super) fn values(cell: &Cell, value: impl Fn(&Failover) -> Option<f64>) -> Vec<f64> {
    cell.failovers().filter_map(value).collect()
}

fn letter(case: Case) -> &'static str {
    match case {
        Case::A => "A",
        Case::B => "B",
        Case::C => "C",
    }
}

/// Returns the frequency of each case.
pub(super) fn counts(cell: &Cell) -> [usize; 3] {
    [Case::A, Case::B, Case::C].map(|case| cell.failovers().filter(|f| f.case == case).count())
}

/// Returns the one-way propagation delay in ms, for texts.
pub(super) fn propagation() -> f64 {
    millis(super::setup::DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_means_are_weighted_by_frequency() {
        let first = &PUBLISHED[0];
        assert!((first.mean_failover() - 447.55).abs() < 0.01);
        for published in &PUBLISHED {
            assert_eq!(published.count.iter().sum::<u32>(), 40);
        }
    }

    #[test]
    fn large_differences_have_a_note() {
        let row = |value| {
            compared(
                Row::new("a", "b", "ms").published(100.0),
                &[value],
                ON_CASES,
            )
        };
        assert!(row(104.9).note.is_empty());
        assert!(row(94.0).note.starts_with("-6.0 %"));
        let none = compared(Row::new("a", "b", "ms").published(100.0), &[], ON_CASES);
        assert!(none.note.contains("did not occur"));
    }
}
