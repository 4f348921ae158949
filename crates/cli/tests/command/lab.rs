//! `carrick lab run` and `sweep`, and the options --compare and --capture of `carrick reproduce`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Finished, run, start, start_in};

const SMALL: &str = r#"
duration = "5 s"
measure = ["goodput"]
[hosts.a]
addresses = { l = "10.0.0.1" }
[hosts.b]
addresses = { l = "10.0.0.2" }
[links.l]
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "10 ms"
[flows.f]
from = "a"
to = "b"
kind = "bulk"
size = "500 bytes"
[[sweep]]
"links.l.loss" = ["0 %", "1 %", "2 %"]
"#;

/// Creates an empty directory for a test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory");
    path
}

fn text(finished: &Finished) -> &str {
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    std::str::from_utf8(&finished.out).expect("text")
}

fn written(directory: &Path, text: &str) -> String {
    let path = directory.join("small.toml");
    fs::write(&path, text).expect("written");
    path.to_str().expect("a path").into()
}

#[test]
fn a_simulation_that_a_signal_ends_leaves_no_captures() {
    let directory = directory("stopped");
    let file = written(&directory, &SMALL.replace("5 s", "10000000 s"));
    let captures = directory.join("captures");
    let run = ["lab", "run", &file, "--capture"];
    let mut running = start(&[&run[..], &[captures.to_str().unwrap()]].concat());
    assert!(running.error_line().contains("running 3 simulations"));
    while fs::read_dir(&captures).map_or(0, Iterator::count) == 0 {
        thread::sleep(Duration::from_millis(10));
    }
    running.interrupt();
    let ended = running.finish();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.errors.ends_with("carrick: stopped\n"), "{ended:?}");
    for cell in fs::read_dir(&captures).unwrap() {
        let left = fs::read_dir(cell.unwrap().path()).unwrap();
        assert_eq!(left.count(), 0);
    }
}

#[test]
fn cells_are_listed_by_the_names_that_options_take() {
    let directory = directory("cells");
    let file = written(&directory, SMALL);
    assert_eq!(
        text(&run(&["lab", "cells", &file])),
        "0  loss 0 %\n1  loss 1 %\n2  loss 2 %\n"
    );
    let json = run(&["lab", "cells", "failover", "--json"]);
    let lines: Vec<Value> = text(&json)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let named = |name: &str| lines.iter().find(|line| line["name"] == name);
    assert_eq!(
        named("pmr2.failover").map(|cell| cell["live"].is_boolean()),
        Some(true)
    );
    let out = directory.join("trace");
    let out = out.to_str().expect("a path");
    let traced = run(&["lab", "trace", &file, "--cell", "loss 1 %", "--out", out]);
    assert!(text(&traced).contains("first transmissions"));
}

#[test]
fn a_file_is_run_as_table_json_and_csv() {
    let directory = directory("lab-run");
    let file = written(&directory, SMALL);
    let table = run(&["lab", "run", &file]);
    assert!(
        text(&table).contains("loss 1 %: goodput"),
        "{}",
        text(&table)
    );
    let json = run(&["lab", "run", &file, "--json", "--seed", "3"]);
    let json: Value = serde_json::from_str(text(&json)).expect("JSON");
    assert_eq!(
        (&json["seed"], json["rows"].as_array().map(Vec::len)),
        (&3.into(), Some(3))
    );
    let csv = run(&["lab", "run", &file, "--csv"]);
    assert_eq!(text(&csv).lines().count(), 4);
    let out = directory.join("out");
    let with_report = run(&["lab", "run", &file, "--out", out.to_str().expect("a path")]);
    text(&with_report);
    let report = fs::read_to_string(out.join("report.html")).expect("a report");
    assert!(report.contains("carrick lab run") && !report.contains("carrick reproduce"));
}

#[test]
fn a_wrong_file_is_the_callers_fault_in_one_line() {
    let directory = directory("lab-wrong");
    let file = written(&directory, &SMALL.replace("\"10 ms\"", "10"));
    let refused = run(&["lab", "run", &file]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused
            .errors
            .contains("small.toml, line 11: links.l.delay: 10 is invalid; expected a time"),
        "{}",
        refused.errors
    );
    assert_eq!(refused.errors.lines().count(), 1);
    let unknown = run(&["lab", "trace", "overheads"]);
    assert_eq!(unknown.code, Some(2));
    assert!(
        unknown.errors.contains("there is no file overheads")
            && unknown.errors.contains("satellite"),
        "{}",
        unknown.errors
    );
    fs::write(
        directory.join("bytes.toml"),
        b"title = \"x\"\nseed = \"\xff\"\n",
    )
    .expect("written");
    let bytes = run(&[
        "lab",
        "run",
        directory.join("bytes.toml").to_str().expect("a path"),
    ]);
    assert_eq!(bytes.code, Some(2));
    assert!(
        bytes
            .errors
            .contains("bytes.toml, line 2: contains a byte that is not text"),
        "{}",
        bytes.errors
    );
    let missing = run(&["lab", "run", "none.toml"]);
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.errors.contains("cannot read none.toml"),
        "{}",
        missing.errors
    );
}

#[test]
fn shards_are_run_one_by_one_and_merged() {
    let directory = directory("lab-sweep");
    let file = written(&directory, SMALL);
    let out = directory.join("parts");
    let out = out.to_str().expect("a path");
    let early = run(&["lab", "sweep", &file, "--out", out, "--shard", "1/2"]);
    assert!(
        text(&early).contains("2 runs added to 0"),
        "{}",
        text(&early)
    );
    let refused = run(&["lab", "sweep", &file, "--out", out, "--merge"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.errors.contains("only 2 of 3 runs exist"),
        "{}",
        refused.errors
    );
    text(&run(&[
        "lab", "sweep", &file, "--out", out, "--shard", "2/2",
    ]));
    let again = run(&["lab", "sweep", &file, "--out", out, "--shard", "1/2"]);
    assert!(
        text(&again).contains("0 runs added to 2"),
        "{}",
        text(&again)
    );
    let merged = run(&["lab", "sweep", &file, "--out", out, "--merge", "--csv"]);
    let whole = run(&["lab", "run", &file, "--csv"]);
    assert_eq!(text(&merged), text(&whole));
}

#[test]
fn the_shard_of_a_schedulers_task_is_found() {
    let directory = directory("lab-shard");
    let file = written(&directory, SMALL);
    let out = directory.join("parts");
    let out = out.to_str().expect("a path");
    let arguments = ["lab", "sweep", &file, "--out", out, "--shard", "auto"];
    let variables = [("PBS_ARRAY_INDEX", "2"), ("PBS_ARRAY_COUNT", "2")];
    let run = |variables: &[(&str, &str)]| {
        let program = env!("CARGO_BIN_EXE_carrick");
        start_in(Stdio::null(), variables, program, &arguments).finish()
    };
    let second = run(&variables);
    assert!(
        text(&second).contains("small-2-of-2.csv: 1 runs added to 0"),
        "{}",
        text(&second)
    );
    let refused = run(&variables[..1]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.errors.contains("PBS_ARRAY_COUNT is not set"),
        "{}",
        refused.errors
    );
}

#[test]
fn a_reproduction_is_compared_with_an_earlier_one() {
    let directory = directory("lab-compare");
    let out = directory.to_str().expect("a path");
    let old = directory.join("failover.json");
    let old = old.to_str().expect("a path");
    text(&run(&[
        "reproduce",
        "failover",
        "--reps",
        "1",
        "--out",
        out,
    ]));
    let kept = directory.join("old.json");
    fs::copy(old, &kept).expect("copied");
    let kept = kept.to_str().expect("a path");
    let same = run(&[
        "reproduce",
        "failover",
        "--reps",
        "1",
        "--out",
        out,
        "--compare",
        kept,
        "--json",
    ]);
    let json: Value = serde_json::from_str(text(&same)).expect("JSON");
    let rows = json["compared"]["rows"].as_array().expect("compared rows");
    assert_eq!(rows.len(), json["rows"].as_array().map_or(0, Vec::len));
    assert!(
        rows.iter().all(|row| row["outside"] == false),
        "the same seed"
    );
    let report = fs::read_to_string(directory.join("report.html")).expect("a report");
    assert!(report.contains("Compared with an earlier run"));
    let other = run(&["reproduce", "overhead", "--compare", kept, "--out", out]);
    assert_eq!(other.code, Some(2));
    assert!(
        other
            .errors
            .contains("has results of failover, which is not run"),
        "{}",
        other.errors
    );
    let wrong = run(&[
        "reproduce",
        "failover",
        "--compare",
        "Cargo.toml",
        "--out",
        out,
    ]);
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.errors.contains("Cargo.toml: is not JSON"),
        "{}",
        wrong.errors
    );
}

/// Returns the captures in a directory, with their sizes.
fn captures(directory: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(directory).expect("captures");
    let sized = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, entry.metadata().expect("its size").len())
    };
    entries
        .map(|entry| sized(entry.expect("an entry")))
        .collect()
}

#[test]
fn the_cells_of_a_reproduction_are_captured_by_name() {
    let directory = directory("lab-capture");
    let [out, into] = ["out", "captures"].map(|name| directory.join(name));
    let [out, path] = [&out, &into].map(|path| path.to_str().expect("a path"));
    let reproduce = ["reproduce", "failover", "--reps", "1", "--out", out];
    let captured = |cells: &[&str]| {
        let mut arguments = reproduce.to_vec();
        arguments.extend(["--capture", path]);
        arguments.extend(cells.iter().flat_map(|cell| ["--cell", cell]));
        run(&arguments)
    };
    text(&captured(&[]));
    let first = captures(&into.join("failover/pmr2.failover"));
    assert_eq!(first.len(), 26, "{first:?}");
    let host = |(name, size): &&(String, u64)| name.starts_with("source") && *size > 10_000;
    assert_eq!(first.iter().filter(host).count(), 2, "{first:?}");
    text(&captured(&["best.false-failovers", "pmr3.failover"]));
    for cell in ["best.false-failovers", "pmr3.failover"] {
        assert_eq!(
            captures(&into.join("failover").join(cell)).len(),
            first.len()
        );
    }
    let refused = captured(&["pmr9.failover"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused
            .errors
            .contains("there is no cell 'pmr9.failover'; there are pmr2.failover, "),
        "{}",
        refused.errors
    );
}

#[test]
fn a_cell_of_an_experiment_itself_is_drawn() {
    let directory = directory("lab-trace-experiment");
    let [out, into] = ["out", "captures"].map(|name| directory.join(name));
    let [out_path, path] = [&out, &into].map(|path| path.to_str().expect("a path"));
    let drawn = |name: &str, more: &[&str]| {
        let mut arguments = vec!["lab", "trace", name, "--out", out_path];
        arguments.extend(more);
        run(&arguments)
    };
    // The name of a cell selects the experiment, a number the scenario file of the same name.
    let cell = ["--cell", "pmr2.failover", "--from", "8s", "--to", "11s"];
    let traced = drawn(
        "failover",
        &[&cell[..], &["--capture", path, "--json"]].concat(),
    );
    let json: Value = serde_json::from_str(text(&traced)).expect("JSON");
    let rows = json["result"]["rows"].as_array().expect("rows");
    let again = rows.iter().find(|row| row["id"] == "path1.again");
    assert!(
        again.and_then(|row| row["measured"].as_f64()) > Some(5.0),
        "{rows:?}"
    );
    assert_eq!(captures(&into).len(), 26);
    let svg = fs::read_to_string(out.join("failover-trace-sequence.svg")).expect("a figure");
    assert!(svg.contains("retransmission, path 1"));
    let report = fs::read_to_string(out.join("report.html")).expect("a page");
    assert!(
        report.contains("carrick lab trace failover --cell pmr2.failover"),
        "no command"
    );
    // An experiment without a file of its name, and its second flow.
    let second = [
        "--cell",
        "counted.200",
        "--flow",
        "full-packets",
        "--to",
        "20s",
    ];
    let table = drawn("overhead", &second);
    assert!(
        text(&table).contains("first transmissions"),
        "{}",
        text(&table)
    );

    let refused = drawn("failover", &["--cell", "pmr9.failover"]);
    refused.assert_failed(
        2,
        "there is no cell 'pmr9.failover'; there are pmr2.failover, ",
    );
    let file = written(&directory, SMALL);
    let refused = drawn(&file, &["--cell", "pmr2.failover"]);
    refused.assert_failed(2, "there is no cell 'pmr2.failover'; there are 0 (");
    let refused = drawn("failover", &["--full"]);
    refused.assert_failed(2, "--full requires a cell of a published experiment");
}
