//! The `firewall` scenario through the public interface.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use carrick_lab::ScenarioResult;
use carrick_simco::model::ResponseTimeModel;

use super::{assert_complete_report, measured, row, run};

static RESULT: LazyLock<ScenarioResult> = LazyLock::new(|| run("firewall", 1, 1));

#[test]
fn every_cell_of_the_published_table_is_measured() {
    for loss in ["0", "0.5", "1", "2", "3", "5", "7", "10"] {
        for streams in [1, 2, 3, 4, 6, 8, 10] {
            let id = format!("sctp.p{loss}.n{streams}.mean");
            let row = row(&RESULT, &id);
            let model = row.published.expect("the model");
            assert!(
                row.measured
                    .is_some_and(|mean| mean > row.bound.expect("a bound") * 0.999)
            );
            let expected = ResponseTimeModel::paper(loss.parse::<f64>().expect("a number") / 100.0);
            let expected = expected.response(streams);
            assert!((model - expected).abs() < 1e-9, "{id}: {model}, {expected}");
        }
    }
    for loss in ["0", "0.5", "1", "2", "3", "5", "7", "10"] {
        assert!(
            measured(&RESULT, &format!("tcp.p{loss}.n1.mean")) > 20.5,
            "{loss}"
        );
    }
    let empty: Vec<&str> = RESULT
        .rows
        .iter()
        .filter(|row| row.measured.is_none())
        .map(|row| row.id.as_str())
        .collect();
    assert!(empty.is_empty(), "{empty:?}");
}

#[test]
fn lossless_cells_match_the_model() {
    for streams in [1, 6, 10] {
        let mean = measured(&RESULT, &format!("sctp.p0.n{streams}.mean"));
        assert!((mean / 20.5 - 1.0).abs() < 0.005, "{mean}");
    }
}

#[test]
fn tcp_is_slower_than_one_stream_with_loss() {
    for loss in ["1", "2", "3", "5", "7", "10"] {
        let [tcp, sctp] =
            ["tcp", "sctp"].map(|what| measured(&RESULT, &format!("{what}.p{loss}.n1.mean")));
        assert!(tcp > sctp, "{loss} %: {tcp} and {sctp}");
    }
    for quantile in ["50", "90", "99", "99.9"] {
        assert!(measured(&RESULT, &format!("tcp.p1.n1.q{quantile}")) > 20.5);
    }
}

/// Section 5.2: why TCP of Linux holds data back, which the paper leaves open
#[test]
fn windows_in_packets_hold_small_messages_back() {
    let mean = |cell: &str| measured(&RESULT, &format!("{cell}.n1.mean"));
    assert!((mean("tcp.p0") / mean("bytes.p0") - 1.0).abs() < 0.001);
    for loss in ["p2", "p3", "p5"] {
        let [packets, bytes] = ["tcp", "bytes"].map(|own| mean(&format!("{own}.{loss}")));
        assert!(packets > bytes, "{loss}: {packets} and {bytes}");
    }
    let tail = measured(&RESULT, "tcp.p1.n1.q99");
    assert!(
        (60.0..200.0).contains(&tail),
        "published: about 100 ms, {tail}"
    );
}

/// Fig. 4
#[test]
fn the_answer_signal_waits_for_the_pinhole() {
    for cell in ["sctp.p1.n6", "tcp.p5.n1"] {
        let value = |what: &str| measured(&RESULT, &format!("{cell}.{what}"));
        assert!((value("answer") - value("mean") - 20.0).abs() < 1e-9);
        assert!(value("answer99") > value("answer"), "{cell}");
    }
}

#[test]
fn up_to_six_streams_shorten_response_times() {
    for loss in ["3", "5", "7", "10"] {
        let [one, two, six, ten] =
            [1, 2, 6, 10].map(|n| measured(&RESULT, &format!("sctp.p{loss}.n{n}.mean")));
        assert!(one > two && two > six, "{loss} %: {one}, {two}, {six}");
        assert!((ten / six - 1.0).abs() < 0.1, "{loss} %: {six} and {ten}");
    }
}

/// The control rows have the model in their notes.
#[test]
fn notes_have_the_value_of_the_model() {
    for (loss, streams) in [(1_u8, 1), (2, 6), (5, 1), (5, 6)] {
        let model = ResponseTimeModel::paper(f64::from(loss) / 100.0).response(streams);
        for variant in ["once", "best"] {
            let note = &row(&RESULT, &format!("{variant}.p{loss}.n{streams}.mean")).note;
            let start = format!("The model: {model:.3} ms. ");
            assert!(note.starts_with(&start), "{start}: {note}");
        }
    }
}

/// Every transaction over SCTP succeeds.
#[test]
fn no_transaction_fails_over_sctp() {
    for row in RESULT.rows.iter().filter(|row| !row.id.starts_with("tcp")) {
        assert!(!row.note.contains("failed"), "{}: {}", row.id, row.note);
    }
}

/// The values and notes of a run of each cell, as measured before the experiment became a folder.
#[test]
fn values_are_those_before_the_move_to_a_folder() {
    let text = include_str!("../fixtures/firewall.json");
    let before: BTreeMap<String, (Vec<f64>, String)> = serde_json::from_str(text).expect("valid");
    for (id, (values, note)) in before {
        let row = row(&RESULT, &id);
        let same = row
            .values
            .iter()
            .zip(&values)
            .all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(
            same && row.values.len() == values.len(),
            "{id}: {:?}, before {values:?}",
            row.values
        );
        assert_eq!(row.note, note, "{id}");
    }
}

#[test]
fn rows_for_figures_are_not_in_the_table() {
    assert!(RESULT.rows.iter().all(|row| row.id != "tcp.p2.n1.q99"));
    let figure = RESULT
        .figures
        .iter()
        .find(|own| own.id == "response-quantile-99");
    let series = &figure.expect("drawn").series;
    let points: Vec<usize> = series.iter().map(|own| own.points.len()).collect();
    assert_eq!(points, [8, 8, 4, 8]);
}

#[test]
fn the_report_has_every_row_and_figure() {
    assert_complete_report(&RESULT, &[]);
    assert_eq!(RESULT.figures.len(), 6);
}
