//! The `firewall` scenario through the public interface.

use std::sync::LazyLock;

use carrick_lab::ScenarioResult;

use super::{assert_complete_report, measured, row, run};

static RESULT: LazyLock<ScenarioResult> = LazyLock::new(|| run("firewall", 7, 1));

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
            assert!((20.5..59.0).contains(&model), "{id}: {model}");
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

#[test]
fn up_to_six_streams_shorten_response_times() {
    for loss in ["3", "5", "7", "10"] {
        let [one, two, six, ten] =
            [1, 2, 6, 10].map(|n| measured(&RESULT, &format!("sctp.p{loss}.n{n}.mean")));
        assert!(one > two && two > six, "{loss} %: {one}, {two}, {six}");
        assert!((ten / six - 1.0).abs() < 0.1, "{loss} %: {six} and {ten}");
    }
}

#[test]
fn the_report_has_every_row_and_figure() {
    assert_complete_report(&RESULT, &[]);
    assert_eq!(RESULT.figures.len(), 6);
}
