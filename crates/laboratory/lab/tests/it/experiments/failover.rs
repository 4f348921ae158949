//! The `failover` scenario through the public interface: its rows, its bounds, reproducibility.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use carrick_lab::report::{RunInfo, to_html};
use carrick_lab::{Row, ScenarioResult};

use super::{assert_complete_report, first_values, row, run};

static RESULT: LazyLock<ScenarioResult> = LazyLock::new(|| run("failover", 1, 20));

/// Returns the rows of the published table.
fn published_cells() -> impl Iterator<Item = &'static Row> {
    let cells = [
        "failover-a",
        "failover-b",
        "failover-c",
        "failover",
        "transfer-a",
        "transfer-bc",
    ];
    (2..=5).flat_map(move |retrans| cells.map(|cell| row(&RESULT, &format!("pmr{retrans}.{cell}"))))
}

#[test]
fn every_published_cell_is_measured() {
    for row in published_cells() {
        assert!(
            row.published.is_some() && row.measured.is_some(),
            "{}",
            row.id
        );
        assert!(row.measured >= row.bound, "{}", row.id);
    }
    assert_eq!(row(&RESULT, "pmr2.failover-b").published, Some(464.0));
    assert_eq!(row(&RESULT, "pmr5.transfer-a").published, Some(543.0));
}

#[test]
fn differences_from_the_published_mean_have_a_note() {
    for row in RESULT.rows.iter().filter(|row| row.published.is_some()) {
        let (measured, published) = (row.measured.unwrap_or(0.0), row.published.unwrap_or(1.0));
        let off = (measured / published - 1.0).abs() > 0.05;
        assert_eq!(
            off,
            !row.note.is_empty(),
            "{}: {measured} {published}",
            row.id
        );
    }
}

#[test]
fn published_times_are_met_within_five_per_cent() {
    for row in published_cells() {
        let ratio = row.measured.expect("measured") / row.published.expect("published");
        assert!((ratio - 1.0).abs() < 0.05, "{}: {ratio}", row.id);
    }
}

#[test]
fn the_best_settings_avoid_false_failovers() {
    let best = row(&RESULT, "best.failover").measured.expect("measured");
    assert!(best < 200.0, "{best}");
    for load in ["bursts", "concurrent", "congested"] {
        let row = row(&RESULT, &format!("{load}.best.false-failovers"));
        assert_eq!(row.measured, Some(0.0), "{load}");
    }
    // Cross traffic may take a packet of the other path, which costs another timeout.
    for load in ["bursts", "concurrent", "congested"] {
        let loaded = row(&RESULT, &format!("{load}.best.failover")).median;
        assert!(
            loaded.is_some_and(|time| time < 200.0),
            "{load}: {loaded:?}"
        );
    }
}

#[test]
fn identical_minutes_are_counted_once() {
    for (load, runs) in [
        ("", 1),
        ("bursts.", 1),
        ("concurrent.", 20),
        ("congested.", 20),
    ] {
        let row = row(&RESULT, &format!("{load}best.false-failovers"));
        assert_eq!(row.n, runs, "{load}");
        assert_eq!(row.note.contains("One run"), runs == 1, "{}", row.note);
    }
}

#[test]
fn no_row_is_below_its_bound() {
    for row in &RESULT.rows {
        if let (Some(measured), Some(bound)) = (row.measured, row.bound) {
            assert!(measured >= bound, "{}: {measured} {bound}", row.id);
        }
    }
}

#[test]
fn short_timeouts_cause_false_failovers() {
    let quick = row(&RESULT, "congested.quick.false-failovers").measured;
    assert!(quick > Some(0.0), "{quick:?}");
}

/// Without cross traffic runs do not depend on random numbers.
#[test]
fn values_are_those_before_the_move_to_a_folder() {
    let text = include_str!("../fixtures/failover.json");
    let before: BTreeMap<String, Vec<f64>> = serde_json::from_str(text).expect("valid");
    assert_eq!(before.len(), 55);
    for (id, values) in before {
        let row = row(&RESULT, &id);
        let same = row
            .values
            .iter()
            .zip(&values)
            .all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(
            same && row.values.len() == values.len(),
            "{id}: {:?}",
            row.values
        );
    }
}

#[test]
fn the_result_contains_the_files_of_the_experiment() {
    let names: Vec<&str> = RESULT.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "scenario.toml",
            "published.toml",
            "figures.toml",
            "report.md"
        ]
    );
    let html = to_html(&RunInfo::new(1), std::slice::from_ref(&*RESULT));
    for (name, text) in &RESULT.files {
        let line = text
            .lines()
            .find(|line| line.len() > 40)
            .expect("a long line");
        let line = line.replace('&', "&amp;").replace('"', "&quot;");
        assert!(html.contains(line.trim()), "{name}: {line}");
    }
}

/// The results of the seed used above are fixed.
#[test]
fn another_seed_gives_other_results() {
    assert_ne!(first_values(&run("failover", 4, 1)), first_values(&RESULT));
}

#[test]
fn the_report_has_every_row_and_figure() {
    assert_complete_report(&RESULT, &[]);
}
