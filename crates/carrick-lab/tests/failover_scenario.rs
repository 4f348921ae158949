//! The `failover` scenario as a program sees it: its rows, its bounds, the same result each time.

use std::sync::OnceLock;

use carrick_lab::report::{RunInfo, to_html};
use carrick_lab::scenario::{Silent, select};
use carrick_lab::{Row, RunOptions, ScenarioResult};

fn run(seed: u64, reps: u64) -> ScenarioResult {
    let scenarios = select(&["failover".to_string()]).expect("the scenario exists");
    let options = RunOptions {
        seed,
        reps: Some(reps),
        full: false,
    };
    scenarios[0]
        .run(&options, &Silent)
        .expect("the scenario runs")
}

fn result() -> &'static ScenarioResult {
    static RESULT: OnceLock<ScenarioResult> = OnceLock::new();
    RESULT.get_or_init(|| run(7, 8))
}

fn row(id: &str) -> &'static Row {
    let row = result().rows.iter().find(|row| row.id == id);
    row.unwrap_or_else(|| panic!("no row {id}"))
}

#[test]
fn every_published_cell_has_a_measured_one() {
    for retrans in 2..=5 {
        for what in [
            "failover-a",
            "failover-b",
            "failover-c",
            "failover",
            "transfer-a",
            "transfer-bc",
        ] {
            let row = row(&format!("pmr{retrans}.{what}"));
            assert!(
                row.published.is_some() && row.measured.is_some(),
                "{}",
                row.id
            );
            assert!(row.measured >= row.bound, "{}", row.id);
        }
    }
    assert_eq!(row("pmr2.failover-b").published, Some(464.0));
    assert_eq!(row("pmr5.transfer-a").published, Some(543.0));
}

#[test]
fn cells_off_the_published_mean_say_so() {
    for row in result().rows.iter().filter(|row| row.published.is_some()) {
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
fn every_published_time_is_met_within_five_percent() {
    for retrans in 2..=5 {
        for what in [
            "failover-a",
            "failover-b",
            "failover-c",
            "failover",
            "transfer-a",
            "transfer-bc",
        ] {
            let row = row(&format!("pmr{retrans}.{what}"));
            let ratio = row.measured.expect("measured") / row.published.expect("published");
            assert!((ratio - 1.0).abs() < 0.05, "{}: {ratio}", row.id);
        }
    }
}

#[test]
fn the_best_settings_are_fast_and_take_no_congestion_for_a_break() {
    let best = row("best.failover").measured.expect("measured");
    assert!(best < 200.0, "{best}");
    for load in ["bursts", "concurrent", "congested"] {
        let row = row(&format!("{load}.best.false-failovers"));
        assert_eq!(row.measured, Some(0.0), "{load}");
        assert_eq!(row.n, 8);
    }
}

#[test]
fn one_quick_timeout_takes_congestion_for_a_break() {
    let quick = row("congested.quick.false-failovers").measured;
    assert!(quick > Some(0.0), "{quick:?}");
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let json = |seed| run(seed, 1).to_json().to_string();
    assert_eq!(json(3), json(3));
    assert_ne!(json(3), json(4));
}

#[test]
fn the_report_has_every_row_and_figure() {
    let html = to_html(&RunInfo::new(7), std::slice::from_ref(result()));
    for row in &result().rows {
        assert!(
            html.contains(&format!("data-row=\"{}\"", row.id)),
            "{}",
            row.id
        );
        assert!(row.measured.is_some() || !row.note.is_empty(), "{}", row.id);
    }
    for figure in &result().figures {
        assert!(html.contains(&figure.title), "{}", figure.id);
        assert!(
            figure.series.iter().all(|s| !s.points.is_empty()),
            "{}",
            figure.id
        );
    }
    assert!(!html.contains("NaN"));
}
