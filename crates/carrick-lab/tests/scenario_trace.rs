//! What an association did, drawn from the core's event log, and captured.

use std::fs;
use std::time::Duration;

use carrick_lab::figure::{Figure, Point};
use carrick_lab::file::{ScenarioFile, TraceOptions};
use carrick_lab::{RunOptions, ScenarioResult};

fn failover(wanted: &TraceOptions<'_>) -> ScenarioResult {
    let file = ScenarioFile::built_in("failover").expect("it is built in");
    file.trace(&RunOptions::default(), wanted).expect("it runs")
}

fn around_the_break() -> TraceOptions<'static> {
    TraceOptions {
        from: Duration::from_millis(8500),
        to: Some(Duration::from_secs(11)),
        ..TraceOptions::default()
    }
}

#[track_caller]
fn figure<'r>(result: &'r ScenarioResult, id: &str) -> &'r Figure {
    let found = result.figures.iter().find(|figure| figure.id == id);
    found.unwrap_or_else(|| panic!("no figure {id}"))
}

#[track_caller]
fn series<'f>(figure: &'f Figure, label: &str) -> &'f [Point] {
    let found = figure
        .series
        .iter()
        .find(|series| series.label.starts_with(label));
    &found
        .unwrap_or_else(|| panic!("{}: no {label}", figure.id))
        .points
}

#[test]
fn a_failover_is_seen_in_sequence_windows_timeouts_and_states() {
    let result = failover(&around_the_break());
    let sequence = figure(&result, "sequence");
    let (first, again) = (
        series(sequence, "first transmission, path 0"),
        series(sequence, "retransmission, path 1"),
    );
    assert!(first.iter().all(|p| p.x < 9.5) && again.iter().all(|p| p.x > 9.0));
    let acknowledged = series(sequence, "cumulative");
    assert!(acknowledged.is_sorted_by(|a, b| a.x < b.x && a.y < b.y));
    // RTO.Min 80 ms, RTO.Max 150 ms, two timeouts more than Path.Max.Retrans 2 allows: 80, 150, 150.
    let rto = series(figure(&result, "path0-rtt"), "RTO");
    let span = |value: f64| rto.iter().any(|p| (p.y - value).abs() < 1e-9);
    assert!(span(80.0) && span(150.0), "{rto:?}");
    let timeouts = series(figure(&result, "path0-window"), "T3-rtx");
    assert_eq!(timeouts.len(), 3);
    let states = figure(&result, "states");
    let last = |label| series(states, label).last().expect("a state").y;
    assert_eq!(
        (last("path 0"), last("path 1")),
        (2.0, 5.0),
        "inactive, primary"
    );
    let inactive = series(states, "path 0")
        .iter()
        .find(|p| p.y < 3.0)
        .expect("it failed");
    assert!(
        (inactive.x - timeouts[2].x).abs() < 1e-9,
        "at the third timeout"
    );
}

#[test]
fn every_value_lies_in_the_range_that_is_drawn() {
    let result = failover(&around_the_break());
    for figure in &result.figures {
        assert!(
            !figure.x.unit.is_empty() && (!figure.y.unit.is_empty() || !figure.y.names.is_empty()),
            "{}",
            figure.id
        );
        for series in &figure.series {
            let outside = series.points.iter().find(|p| !(8.5..=11.0).contains(&p.x));
            assert_eq!(outside, None, "{}: {}", figure.id, series.label);
        }
    }
    // A window that is never left is drawn to the end.
    let cwnd = series(figure(&result, "path1-window"), "cwnd");
    assert!((cwnd.last().expect("a window").x - 11.0).abs() < 1e-9);
}

#[test]
fn outstanding_bytes_never_exceed_the_window_by_a_packet() {
    let file = ScenarioFile::built_in("satellite").expect("it is built in");
    let wanted = TraceOptions {
        to: Some(Duration::from_secs(100)),
        ..TraceOptions::default()
    };
    let result = file
        .trace(&RunOptions::default(), &wanted)
        .expect("it runs");
    let windows = figure(&result, "path0-window");
    let (cwnd, outstanding) = (series(windows, "cwnd"), series(windows, "outstanding"));
    let largest = |points: &[Point]| points.iter().map(|p| p.y).fold(0.0, f64::max);
    assert!(largest(outstanding) <= largest(cwnd) + 1.5);
    assert!(largest(outstanding) > 0.9 * largest(cwnd));
    assert!(!series(figure(&result, "sequence"), "gap acknowledgement").is_empty());
    assert!(!series(figure(&result, "sequence"), "found lost").is_empty());
}

#[test]
fn each_interface_is_captured_into_a_file_of_its_own() {
    let directory = std::env::temp_dir().join(format!("carrick-trace-{}", std::process::id()));
    let wanted = TraceOptions {
        capture: Some(&directory),
        ..around_the_break()
    };
    failover(&wanted);
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).expect("the directory") {
        let path = entry.expect("an entry").path();
        let bytes = fs::read(&path).expect("a capture");
        assert_eq!(
            bytes[..4],
            0x0A0D_0D0A_u32.to_le_bytes(),
            "a pcapng section"
        );
        assert!(
            bytes.len() > 10_000,
            "{}: {} bytes",
            path.display(),
            bytes.len()
        );
        names.extend(
            path.file_name()
                .and_then(|name| name.to_str())
                .map(String::from),
        );
    }
    names.sort();
    assert_eq!(names.len(), 12, "six links with two ends: {names:?}");
    assert_eq!(names[0], "destination-0.pcapng");
    fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn a_wrong_choice_is_answered_with_what_there_is() {
    let file = ScenarioFile::built_in("satellite").expect("it is built in");
    let error = |wanted: &TraceOptions<'_>| {
        file.trace(&RunOptions::default(), wanted)
            .unwrap_err()
            .to_string()
    };
    let cell = TraceOptions {
        cell: 9,
        ..TraceOptions::default()
    };
    assert_eq!(error(&cell), "there is no cell 9; there are 4, from 0 on");
    let flow = TraceOptions {
        flow: Some("x"),
        ..TraceOptions::default()
    };
    assert_eq!(error(&flow), "there is no flow 'x'; known: messages");
    let tcp = TraceOptions {
        cell: 3,
        ..TraceOptions::default()
    };
    assert!(
        error(&tcp).contains("no flow runs over SCTP"),
        "{}",
        error(&tcp)
    );
}
