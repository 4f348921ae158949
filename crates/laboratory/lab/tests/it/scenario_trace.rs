//! Traces of an association: figures of the core's event log, and captures.

use std::fs;
use std::time::Duration;

use carrick_lab::figure::{Figure, Point};
use carrick_lab::file::{Experiment, ScenarioFile};
use carrick_lab::{RunOptions, ScenarioResult, Silent, TraceOptions};

fn scenario(name: &str) -> ScenarioFile {
    let experiment = Experiment::published(name).expect("it is published");
    experiment.scenario().clone()
}

fn failover(wanted: &TraceOptions<'_>) -> ScenarioResult {
    let file = scenario("failover");
    file.trace(&RunOptions::default(), 0, wanted)
        .expect("it runs")
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
fn a_failover_is_visible_in_every_figure() {
    let result = failover(&around_the_break());
    let sequence = figure(&result, "sequence");
    let (first, again) = (
        series(sequence, "first transmission, path 0"),
        series(sequence, "retransmission, path 1"),
    );
    assert!(first.iter().all(|p| p.x < 9.5) && again.iter().all(|p| p.x > 9.0));
    let acknowledged = series(sequence, "cumulative");
    assert!(acknowledged.is_sorted_by(|a, b| a.x < b.x && a.y < b.y));
    // RTO.Min 80 ms, RTO.Max 150 ms, one timeout more than Path.Max.Retrans 2: 80, 150, 150.
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
fn all_values_are_in_the_selected_time_range() {
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
    // A constant window is drawn to the end.
    let cwnd = series(figure(&result, "path1-window"), "cwnd");
    assert!((cwnd.last().expect("a window").x - 11.0).abs() < 1e-9);
}

#[test]
fn outstanding_data_stays_within_the_window() {
    let file = scenario("satellite");
    let wanted = TraceOptions {
        to: Some(Duration::from_secs(100)),
        ..TraceOptions::default()
    };
    let result = file
        .trace(&RunOptions::default(), 0, &wanted)
        .expect("it runs");
    let windows = figure(&result, "path0-window");
    let (cwnd, outstanding) = (series(windows, "cwnd"), series(windows, "outstanding"));
    let largest = |points: &[Point]| points.iter().map(|p| p.y).fold(0.0, f64::max);
    assert!(largest(outstanding) <= largest(cwnd) + 1.5);
    assert!(largest(outstanding) > 0.9 * largest(cwnd));
    assert!(!series(figure(&result, "sequence"), "gap acknowledgement").is_empty());
    assert!(!series(figure(&result, "sequence"), "marked as lost").is_empty());
}

#[test]
fn every_interface_has_its_own_capture() {
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
        // Nothing passes the interfaces to the hosts of cross traffic in this cell.
        if bytes.len() < 200 {
            continue;
        }
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
fn errors_list_the_existing_cells_and_flows() {
    let file = scenario("satellite");
    let error = |cell: usize, wanted: &TraceOptions<'_>| {
        file.trace(&RunOptions::default(), cell, wanted)
            .unwrap_err()
            .to_string()
    };
    let any = TraceOptions::default();
    let cells = file.cells().count();
    assert_eq!(
        error(cells, &any),
        format!("there is no cell {cells}; there are {cells}, from 0 on")
    );
    let flow = TraceOptions {
        flow: Some("x"),
        ..any
    };
    assert_eq!(
        error(0, &flow),
        "there is no flow 'x' over SCTP in cell 'standard'; known: messages"
    );
    let tcp = file.cells().position(|cell| cell.name() == "tcp");
    let tcp = error(tcp.expect("the cell exists"), &any);
    assert!(tcp.contains("uses SCTP"), "{tcp}");
}

/// Traces a cell of a built-in experiment.
fn experiment(
    name: &str,
    cell: &str,
    options: &RunOptions,
    wanted: &TraceOptions<'_>,
) -> Result<ScenarioResult, String> {
    let experiment = Experiment::published(name).expect("there is one");
    let traced = experiment.trace(cell, options, wanted);
    traced.map_err(|error| error.to_string())
}

#[track_caller]
fn row(result: &ScenarioResult, id: &str) -> f64 {
    let found = result.rows.iter().find(|row| row.id == id);
    let found = found.unwrap_or_else(|| panic!("no row {id}"));
    found.measured.expect("it was measured")
}

#[test]
fn every_experiment_has_a_trace() {
    let one = RunOptions {
        reps: Some(1),
        ..RunOptions::default()
    };
    let cells = [
        ("satellite", "standard", "messages"),
        ("firewall", "sctp.p1.n6", "requests"),
        ("firewall", "sctp.p1.n6", "replies"),
        ("mobile-ip", "config2.5", "transfer"),
        ("mobile-ip", "best.make-before-break", "messages"),
        ("failover", "pmr2.failover", "messages"),
        ("overhead", "counted.100", "messages"),
        ("overhead", "counted.100", "full-packets"),
        ("overhead", "extra250.1000", "messages"),
        ("overhead", "accepted.best.1000", "messages"),
    ];
    for (name, cell, flow) in cells {
        let wanted = TraceOptions {
            flow: Some(flow),
            ..TraceOptions::default()
        };
        let result = experiment(name, cell, &one, &wanted).expect(cell);
        assert!(row(&result, "path0.first") > 30.0, "{cell} {flow}");
        assert!(row(&result, "path0.cwnd") > 1.0, "{cell} {flow}");
        for wanted in ["sequence", "path0-window", "path0-rtt", "states"] {
            let drawn = &figure(&result, wanted).series;
            assert!(
                drawn.iter().any(|series| !series.points.is_empty()),
                "{cell} {flow}: {wanted}"
            );
        }
        let command = result.settings.iter().find(|own| own.name == "command");
        let command = &command.expect("a command").value;
        assert!(
            command.contains(&format!("lab trace {name} --cell {cell} --flow {flow}")),
            "{command}"
        );
    }
}

/// The failover time in a trace is that of the table.
#[test]
fn the_trace_has_the_failover_time_of_the_table() {
    let reps = |reps| RunOptions {
        reps: Some(reps),
        ..RunOptions::default()
    };
    let experiment_of = Experiment::published("failover").expect("there is one");
    let counted = experiment_of.run(&reps(1), &Silent).expect("it runs");
    let result = experiment(
        "failover",
        "pmr2.failover",
        &reps(1),
        &TraceOptions::default(),
    );
    let result = result.expect("it runs");
    let sequence = figure(&result, "sequence");
    let again = series(sequence, "retransmission, path 1");
    let first = series(sequence, "first transmission, path 0");
    let start = first.iter().find(|p| p.y.to_bits() == again[0].y.to_bits());
    let begin = start.expect("the first retransmission").x;
    // The message with the longest transfer is one of those retransmitted on the other path.
    let time = row(&counted, "pmr2.failover") / 1e3;
    let ends = again.iter().any(|p| (p.x - begin - time).abs() < 1e-6);
    assert!(ends, "{time} s after {begin} nothing was retransmitted");
    // The failure of another repetition has another time.
    let moments = [0, 1].map(|repetition| {
        let wanted = TraceOptions {
            repetition,
            ..TraceOptions::default()
        };
        let result = experiment("failover", "pmr2.failover", &reps(2), &wanted);
        let result = result.expect("it runs");
        series(figure(&result, "path0-window"), "T3-rtx")[0].x
    });
    assert!((moments[0] - moments[1]).abs() > 1e-3, "{moments:?}");
}

#[test]
fn experiment_errors_list_the_existing_cells() {
    let options = RunOptions::default();
    let any = TraceOptions::default();
    let error =
        |name, cell, wanted| experiment(name, cell, &options, wanted).expect_err("it is refused");
    let cell = error("failover", "pmr9", &any);
    assert!(
        cell.starts_with("there is no cell 'pmr9'; there are pmr2.failover, "),
        "{cell}"
    );
    assert!(error("failover", "all", &any).starts_with("there is no cell 'all'"));
    let tcp = error("satellite", "tcp.error-free", &any);
    assert!(tcp.contains("uses SCTP"), "{tcp}");
    let flow = TraceOptions {
        flow: Some("x"),
        ..any
    };
    assert_eq!(
        error("overhead", "accepted.best.1000", &flow),
        "there is no flow 'x' over SCTP in cell 'accepted.best.1000'; known: messages"
    );
    let late = TraceOptions {
        repetition: 20,
        ..any
    };
    assert_eq!(
        error("failover", "pmr2.failover", &late),
        "there is no repetition 20 of experiment 'failover'; there are 10, from 0 on"
    );
}
