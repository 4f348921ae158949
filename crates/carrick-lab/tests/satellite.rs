//! The `satellite` scenario as a program sees it: the same seed gives the same result, the parts
//! add up, the report shows every row.

use std::sync::OnceLock;

use carrick_lab::report::{RunInfo, to_html};
use carrick_lab::scenario::{Silent, select};
use carrick_lab::{RunOptions, ScenarioResult, to_csv};

fn run(seed: u64) -> ScenarioResult {
    let scenarios = select(&["satellite".to_string()]).expect("the scenario exists");
    let options = RunOptions {
        seed,
        reps: Some(3),
        full: false,
    };
    scenarios[0]
        .run(&options, &Silent)
        .expect("the scenario runs")
}

fn result() -> &'static ScenarioResult {
    static RESULT: OnceLock<ScenarioResult> = OnceLock::new();
    RESULT.get_or_init(|| run(7))
}

fn measured(result: &ScenarioResult, id: &str) -> f64 {
    let row = result.rows.iter().find(|row| row.id == id);
    let value = row.and_then(|row| row.measured);
    value.unwrap_or_else(|| panic!("{id} was not measured"))
}

#[test]
fn the_same_seed_gives_the_same_result_and_another_another() {
    assert_eq!(run(7).to_json().to_string(), result().to_json().to_string());
    assert_ne!(run(8).rows, result().rows);
}

#[test]
fn the_promised_rows_are_there() {
    for variant in ["standard", "modified", "best"] {
        for what in ["delay", "recovery", "throughput"] {
            let id = format!("{variant}.{what}");
            let row = result().rows.iter().find(|row| row.id == id);
            let row = row.unwrap_or_else(|| panic!("no row {id}"));
            assert!(row.measured.is_some() && row.ci95.is_some(), "{id}");
            assert_eq!(row.n, 3, "{id}");
        }
    }
    for what in ["throughput", "delay", "recovery", "lossy.throughput"] {
        let id = format!("tcp.{what}");
        let row = result().rows.iter().find(|row| row.id == id);
        assert!(
            row.is_some_and(|row| row.measured.is_some() && row.n == 3),
            "{id}"
        );
    }
    let published = |id: &str| {
        result()
            .rows
            .iter()
            .find(|row| row.id == id)
            .and_then(|row| row.published)
    };
    assert_eq!(published("tcp.throughput"), Some(18.0));
    assert_eq!(published("tcp.delay"), Some(870.0));
    assert_eq!(published("standard.delay"), Some(765.0));
    assert_eq!(published("modified.delay"), Some(527.0));
    assert_eq!(published("gain.delay"), Some(238.0));
    assert_eq!(published("error-free.throughput"), Some(52.0));
}

#[test]
fn the_best_settings_are_within_a_tenth_of_what_the_network_allows() {
    let row = |id: &str| {
        let row = result().rows.iter().find(|row| row.id == id);
        let row = row.expect("it is there");
        (row.measured.expect("measured"), row.bound.expect("a bound"))
    };
    let (recovery, bound) = row("best.recovery");
    assert!(recovery <= 1.1 * bound, "{recovery} and {bound}");
    let (throughput, load) = row("best.throughput");
    assert!(throughput >= 0.9 * load, "{throughput} and {load}");
}

#[test]
fn the_split_adds_up_to_the_mean_delay() {
    let split = &result().splits[0];
    let variants = [
        "standard",
        "modified",
        "best",
        "unreduced",
        "unreduced-modified",
    ];
    assert_eq!(split.lines.len(), variants.len());
    for (line, id) in split.lines.iter().zip(variants) {
        let delay = measured(result(), &format!("{id}.delay"));
        assert!(
            (line.total() - delay).abs() < 1e-6,
            "{id}: {} and {delay}",
            line.total()
        );
        assert!(line.parts.iter().all(|part| *part >= 0.0), "{id}");
        if id.starts_with("unreduced") {
            continue;
        }
        let recovery = measured(result(), &format!("{id}.recovery"));
        let without_waiting: f64 = line.parts[1..].iter().sum();
        assert!((without_waiting - recovery).abs() < 1e-6, "{id}");
    }
}

#[test]
fn tcp_on_the_satellite_alone_is_slower_than_sctp_on_both() {
    for what in ["throughput", "recovery"] {
        let [tcp, sctp] = ["tcp", "standard"].map(|id| measured(result(), &format!("{id}.{what}")));
        assert_eq!(what == "throughput", tcp < sctp, "{what}: {tcp} {sctp}");
    }
    // There, back and there again.
    assert!(measured(result(), "tcp.recovery") >= 750.0);
}

#[test]
fn gap_reports_on_the_fast_path_are_sooner() {
    let gain = measured(result(), "standard.recovery") - measured(result(), "modified.recovery");
    assert!((gain - measured(result(), "gain.recovery")).abs() < 1e-6);
    assert!(gain > 0.0, "{gain}");
}

#[test]
fn report_and_csv_contain_every_row() {
    let html = to_html(&RunInfo::new(7), std::slice::from_ref(result()));
    let csv = to_csv(&result().rows);
    for row in &result().rows {
        assert!(
            html.contains(&format!("data-row=\"{}\"", row.id)),
            "{}",
            row.id
        );
        assert!(csv.contains(&format!("\r\n{},", row.id)), "{}", row.id);
    }
    for figure in &result().figures {
        assert!(html.contains(&figure.title), "{}", figure.id);
        assert!(
            figure.series.iter().any(|s| !s.points.is_empty()),
            "{} is empty",
            figure.id
        );
    }
    assert!(!html.contains("NaN"));
}

#[test]
fn json_fields_are_those_that_programs_rely_on() {
    let json = result().to_json();
    assert_eq!(
        (json["scenario"].as_str(), json["seed"].as_u64()),
        (Some("satellite"), Some(7))
    );
    for row in json["rows"].as_array().expect("rows") {
        for field in ["id", "label", "unit", "note"] {
            assert!(row[field].is_string(), "{field} of {row}");
        }
        for field in ["bound", "published", "measured", "ci95"] {
            assert!(
                row[field].is_number() || row[field].is_null(),
                "{field} of {row}"
            );
        }
        assert!(row["n"].is_u64());
    }
}
