//! The experiments through the public interface: their rows, reproducibility, the published
//! effects, and completeness of the report.

mod failover;
mod failover_signaling;
mod firewall;
mod mobile_ip;
mod overhead;
mod satellite;

use carrick_lab::file::Experiment;
use carrick_lab::report::{RunInfo, to_html};
use carrick_lab::{Row, RunOptions, ScenarioResult, Silent, to_csv};

/// Runs an experiment briefly.
fn run(name: &str, seed: u64, reps: u64) -> ScenarioResult {
    let experiment = Experiment::published(name).expect("the experiment exists");
    let options = RunOptions {
        seed,
        reps: Some(reps),
        full: false,
    };
    experiment
        .run(&options, &Silent)
        .expect("the experiment runs")
}

fn row<'a>(result: &'a ScenarioResult, id: &str) -> &'a Row {
    let row = result.rows.iter().find(|row| row.id == id);
    row.unwrap_or_else(|| panic!("no row {id}"))
}

fn measured(result: &ScenarioResult, id: &str) -> f64 {
    let value = row(result, id).measured;
    value.unwrap_or_else(|| panic!("{id} was not measured"))
}

/// Returns the value of the first repetition of each row.
fn first_values(result: &ScenarioResult) -> Vec<Option<f64>> {
    let first = |row: &Row| row.values.first().copied();
    result.rows.iter().map(first).collect()
}

/// Asserts that report and CSV have every row, and that every series of every figure is drawn
/// except those that may be empty.
fn assert_complete_report(result: &ScenarioResult, may_be_empty: &[&str]) {
    let html = to_html(&RunInfo::new(result.seed), std::slice::from_ref(result));
    let csv = to_csv(&result.rows);
    for row in &result.rows {
        let cell = format!("data-row=\"{}\"", row.id);
        assert!(html.contains(&cell), "{}", row.id);
        assert!(csv.contains(&format!("\r\n{},", row.id)), "{}", row.id);
        assert!(row.measured.is_some() || !row.note.is_empty(), "{}", row.id);
    }
    for figure in &result.figures {
        assert!(html.contains(&figure.title), "{}", figure.id);
        for series in &figure.series {
            let drawn = !series.points.is_empty() || may_be_empty.contains(&series.label.as_str());
            assert!(drawn, "{}: {}", figure.id, series.label);
        }
    }
    assert!(!html.contains("NaN"));
}
