//! The `satellite` scenario through the public interface: reproducibility, sums of the parts,
//! completeness of the report.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use carrick_lab::ScenarioResult;

use super::{assert_complete_report, first_values, measured, row, run};

static RESULT: LazyLock<ScenarioResult> = LazyLock::new(|| run("satellite", 1, 3));

#[test]
fn results_are_equal_for_equal_seeds_only() {
    let again = run("satellite", 1, 3);
    assert_eq!(again.to_json().to_string(), RESULT.to_json().to_string());
    assert_ne!(first_values(&run("satellite", 8, 1)), first_values(&RESULT));
}

/// Losses, and what else is random, have the seeds of the code before.
#[test]
fn values_are_those_before_the_move_to_a_folder() {
    let text = include_str!("../fixtures/satellite.json");
    let before: BTreeMap<String, Vec<f64>> = serde_json::from_str(text).expect("valid");
    for (id, values) in before {
        let row = row(&RESULT, &id);
        let pairs = row.values.iter().zip(&values);
        let same = pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(
            same && row.values.len() == values.len(),
            "{id}: {:?}, before {values:?}",
            row.values
        );
    }
}

/// The first repetition: 500 messages from before the first loss after message 1000.
#[test]
fn figures_show_single_messages() {
    let figure = |id: &str| {
        let found = RESULT.figures.iter().find(|figure| figure.id == id);
        found.expect(id)
    };
    let detail = figure("delay-modified");
    let [each, lost] = [0, 1].map(|n| &detail.series[n].points);
    assert_eq!(each.len(), 500);
    assert!(each[0].x > 900.0 && (each[49].x + 1.0 - lost[0].x).abs() < 1e-9);
    assert!(lost.iter().all(|point| each.contains(point)));
    assert_eq!(detail.references.len(), 3);
    assert_eq!(figure("delay-tcp-and-sctp").series[1].points.len(), 400);
    let all = &figure("delay-distribution").series;
    assert_eq!(all.len(), 5);
    assert!(all[0].points.len() > 200, "messages of all repetitions");
}

#[test]
fn all_rows_exist() {
    for variant in ["standard", "modified", "best"] {
        for what in ["delay", "recovery", "throughput"] {
            let id = format!("{variant}.{what}");
            let row = row(&RESULT, &id);
            assert!(row.measured.is_some() && row.ci95.is_some(), "{id}");
            assert_eq!(row.n, 3, "{id}");
        }
    }
    for what in ["throughput", "delay", "recovery", "lossy.throughput"] {
        let id = format!("tcp.{what}");
        assert!(
            row(&RESULT, &id).measured.is_some() && row(&RESULT, &id).n == 3,
            "{id}"
        );
    }
    let published = |id: &str| row(&RESULT, id).published;
    assert_eq!(published("tcp.throughput"), Some(18.0));
    assert_eq!(published("tcp.delay"), Some(870.0));
    assert_eq!(published("standard.delay"), Some(765.0));
    assert_eq!(published("modified.delay"), Some(527.0));
    assert_eq!(published("gain.delay"), Some(238.0));
    assert_eq!(published("error-free.throughput"), Some(52.0));
}

#[test]
fn the_best_settings_are_within_a_tenth_of_the_bound() {
    let of = |id: &str| {
        (
            measured(&RESULT, id),
            row(&RESULT, id).bound.expect("a bound"),
        )
    };
    for what in ["delay", "recovery"] {
        let (mean, bound) = of(&format!("best.{what}"));
        assert!(mean <= 1.1 * bound, "{what}: {mean} and {bound}");
    }
    let steps = ["step-rfc9260", "step-modern", "step-spill"];
    let best = measured(&RESULT, "best.delay");
    for step in steps.map(|step| measured(&RESULT, &format!("{step}.delay"))) {
        assert!(best < step, "{best} and {step}");
    }
    let (throughput, load) = of("best.throughput");
    assert!(throughput >= 0.9 * load, "{throughput} and {load}");
}

#[test]
fn sctplib_gives_delay_and_throughput_together() {
    let within = |id: &str, low, high| {
        let mean = measured(&RESULT, id);
        assert!((low..high).contains(&mean), "{id}: {mean}");
    };
    within("standard.delay", 708.0, 803.0);
    within("modified.delay", 483.0, 553.0);
    within("gain.delay", 225.0, 260.0);
    within("standard.throughput", 29.0, 30.0);
    let of = |id: &str| measured(&RESULT, id);
    assert!(of("standard.delay") < of("rfc.delay"));
    assert!(of("modified.delay") < of("rfc-modified.delay"));
}

#[test]
fn parts_add_up_to_the_mean_delay() {
    let split = &RESULT.splits[0];
    let variants = [
        "standard",
        "modified",
        "best",
        "rfc",
        "rfc-modified",
        "step-rfc9260",
        "step-modern",
        "step-spill",
    ];
    assert_eq!(split.lines.len(), variants.len());
    for (line, id) in split.lines.iter().zip(variants) {
        let delay = measured(&RESULT, &format!("{id}.delay"));
        assert!(
            (line.total() - delay).abs() < 1e-6,
            "{id}: {} and {delay}",
            line.total()
        );
        assert!(line.parts.iter().all(|part| *part >= 0.0), "{id}");
        if id.starts_with("step") {
            continue;
        }
        let recovery = measured(&RESULT, &format!("{id}.recovery"));
        let without_waiting: f64 = line.parts[1..].iter().sum();
        assert!((without_waiting - recovery).abs() < 1e-6, "{id}");
    }
}

#[test]
fn tcp_on_one_path_is_slower_than_sctp_on_both() {
    for what in ["throughput", "recovery"] {
        let [tcp, sctp] = ["tcp", "standard"].map(|id| measured(&RESULT, &format!("{id}.{what}")));
        assert_eq!(what == "throughput", tcp < sctp, "{what}: {tcp} {sctp}");
    }
    // Forward, back and forward again.
    assert!(measured(&RESULT, "tcp.recovery") >= 750.0);
}

#[test]
fn gap_reports_on_the_fast_path_shorten_the_delay() {
    let gain = measured(&RESULT, "standard.recovery") - measured(&RESULT, "modified.recovery");
    assert!((gain - measured(&RESULT, "gain.recovery")).abs() < 1e-6);
    assert!(gain > 0.0, "{gain}");
}

#[test]
fn report_and_csv_contain_every_row() {
    assert_complete_report(&RESULT, &[]);
}

#[test]
fn json_has_the_documented_fields() {
    let json = RESULT.to_json();
    assert_eq!(
        (json["scenario"].as_str(), json["seed"].as_u64()),
        (Some("satellite"), Some(1))
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
