//! `carrick bench`: results of all programs in the documented form, and no program that outlives it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Finished, run, start};

/// Directory of peer programs that is removed afterwards.
struct Peers(PathBuf);

impl Peers {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("carrick-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn add(self, name: &str, script: &str) -> Self {
        let file = self.0.join(name);
        fs::write(&file, format!("#!/bin/sh\ncase $1 in\n{script}\nesac\n")).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bench(peers: &Peers, arguments: &[&str]) -> Finished {
    run(&[&["bench", "--peers", peers.path()], arguments].concat())
}

fn document(finished: &Finished) -> Value {
    serde_json::from_slice(&finished.out).unwrap_or_else(|e| panic!("{finished:?}: {e}"))
}

/// Returns a program's result in a row.
fn result<'a>(document: &'a Value, row: &str, program: &str) -> &'a Value {
    let find = |among: &'a Value, name: &str| {
        let found = among.as_array().unwrap().iter().find(|o| o["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {document}"))
    };
    find(&find(&document["rows"], row)["programs"], program)
}

#[test]
fn bench_reports_values_and_ratios_of_all_programs() {
    let peers = Peers::new("empty");
    let arguments = [
        "bulk-64k",
        "round-trip",
        "--rounds",
        "1",
        "-t",
        "0.2",
        "--json",
    ];
    let finished = bench(&peers, &arguments);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let document = document(&finished);
    assert_eq!(
        (&document["rounds"], &document["peers"]),
        (&json!(1), &json!([]))
    );
    assert!(document["machine"]["cores"].as_u64().unwrap() > 0);
    for (row, programs, columns) in [
        (
            "bulk-64k",
            &["carrick", "tcp", "udp", "udp-offload"][..],
            &["cpu_seconds_per_gb", "megabytes_per_second"][..],
        ),
        (
            "round-trip",
            &["carrick", "tcp", "udp"],
            &["p50_us", "p99_us", "cpu_us"],
        ),
    ] {
        for column in columns {
            let median = |program: &str| {
                let values = &result(&document, row, program)[column];
                assert_eq!(values["values"], json!([values["median"]]));
                (
                    values["median"].as_f64().unwrap(),
                    values["ratio"].as_f64().unwrap(),
                )
            };
            let (carrick, one) = median("carrick");
            assert!((one - 1.0).abs() < 1e-9);
            for program in programs {
                let (value, ratio) = median(program);
                assert!(value > 0.0, "{row} {program} {column}");
                assert!((ratio * carrick - value).abs() < 1e-6 * value);
            }
        }
    }
}

#[test]
fn every_kind_of_row_has_values() {
    let peers = Peers::new("core");
    let rows = [
        "memory-100",
        "set-ups",
        "idle-memory",
        "long-link-loss-1",
        "clients",
    ];
    let more = ["--rounds", "2", "-t", "0.05", "--json"];
    let finished = bench(&peers, &[&rows[..], &more].concat());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let document = document(&finished);
    for (row, program, column, rounds) in [
        ("memory-100", "carrick-rfc9260", "cpu_ns_per_message", 2),
        ("set-ups", "carrick", "per_cpu_second", 2),
        ("idle-memory", "carrick", "bytes_used", 2),
        ("clients", "carrick-2", "megabytes_per_second", 2),
        // Virtual time gives the same result in each round.
        ("long-link-loss-1", "carrick-bbr", "percent_of_link", 1),
        (
            "long-link-loss-1",
            "carrick",
            "data_packets_per_cpu_second",
            1,
        ),
    ] {
        let values = result(&document, row, program)[column]["values"]
            .as_array()
            .unwrap();
        assert_eq!(values.len(), rounds, "{row}");
        assert!(
            values.iter().all(|value| value.as_f64().unwrap() > 0.0),
            "{row}"
        );
    }
}

#[test]
fn curves_have_ratios_to_their_first_point() {
    let peers = Peers::new("curves");
    let more = ["--rounds", "1", "-t", "0.02", "--json"];
    let rows = ["--curves", "size", "loss", "paths"];
    let finished = bench(&peers, &[&rows[..], &more].concat());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let document = document(&finished);
    for (row, first, last) in [
        ("size", "16", "1048576"),
        ("loss", "0", "1000"),
        ("paths", "1", "8"),
    ] {
        for (point, at_least) in [(first, 1.0), (last, 0.0)] {
            let cost = &result(&document, row, point)["cpu_ns_per_chunk"];
            assert!(cost["median"].as_f64().unwrap() > 0.0, "{row} {point}");
            assert!(cost["ratio"].as_f64().unwrap() >= at_least, "{row} {point}");
        }
    }
}

/// A peer that returns fixed numbers, and only if it gets the documented arguments.
const SCRIPT: &str = r#"
about) echo '{"about":"a script","verbs":["send","memory"]}' ;;
serve) echo '{"port":7}' ;;
send) [ "$2 $3 $4" = "127.0.0.1:7 100 0.1" ] && echo '{"bytes":1000000,"seconds":0.5}' ;;
memory) [ "$2 $3" = "100 0.1" ] && echo '{"messages":1000,"bytes":100000,"cpu_seconds":0.5}' ;;
*) exit 2 ;;"#;

#[test]
fn a_peer_program_takes_part_under_its_name() {
    let peers = Peers::new("script").add("other", SCRIPT);
    let rows = ["bulk-100", "memory-100", "round-trip"];
    let more = ["--rounds", "1", "-t", "0.1", "--json"];
    let finished = bench(&peers, &[&rows[..], &more].concat());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let document = document(&finished);
    assert_eq!(document["peers"][0]["about"], "a script");
    assert!(document["peers_not_found"]["quinn"].is_string());
    let bulk = result(&document, "bulk-100", "other");
    assert_eq!(bulk["megabytes_per_second"]["median"], 2.0);
    let memory = result(&document, "memory-100", "other");
    assert_eq!(memory["cpu_ns_per_message"]["median"], 500_000.0);
    assert!(memory["cpu_ns_per_message"]["ratio"].as_f64().unwrap() > 0.0);
    let list = bench(&peers, &["--list"]);
    let text = String::from_utf8(list.out).unwrap();
    assert!(text.contains("udp-offload, other"), "{text}");
    assert!(text.contains("other (a script)"), "{text}");
}

#[test]
fn a_failing_peer_leaves_the_other_results() {
    let script = SCRIPT.replace(
        "serve) echo '{\"port\":7}'",
        "serve) echo no port >&2; exit 3",
    );
    let peers = Peers::new("failing").add("broken", &script);
    let finished = bench(
        &peers,
        &["bulk-100", "--rounds", "1", "-t", "0.1", "--json"],
    );
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.errors.contains("no port"), "{finished:?}");
    assert!(
        finished.errors.contains("no result for broken of bulk-100"),
        "{finished:?}"
    );
    let document = document(&finished);
    let broken = result(&document, "bulk-100", "broken");
    assert!(broken["failed"].as_str().unwrap().contains("no port"));
    let tcp = result(&document, "bulk-100", "tcp");
    assert!(tcp["cpu_seconds_per_gb"]["median"].as_f64().unwrap() > 0.0);
}

#[test]
fn unknown_rows_and_directories_are_refused() {
    let unknown = run(&["bench", "bulk-2k"]);
    unknown.assert_failed(2, "\"bulk-2k\"; the rows are bulk-64k, no-offload,");
    run(&["bench", "--peers", "/nonexistent"]).assert_failed(2, "/nonexistent");
    run(&["bench", "--time", "0"]).assert_failed(2, "1 ms");
    run(&["bench", "--time", "31"]).assert_failed(2, "30 s");
}

/// Returns the numbers of the processes whose parent is this process.
fn children(parent: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap();
    let names = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_child = |id: &String| {
        let stat = fs::read_to_string(Path::new("/proc").join(id).join("stat"));
        // The name of the program, in brackets, may have any characters.
        let fields = stat
            .ok()
            .and_then(|stat| Some(stat.rsplit_once(')')?.1.to_owned()));
        let of = fields.and_then(|fields| fields.split_whitespace().nth(1)?.parse().ok());
        of == Some(parent)
    };
    names.filter(is_child).collect()
}

#[test]
fn sigterm_leaves_no_process() {
    let peers = Peers::new("signal");
    let running = start(&["bench", "bulk-64k", "-t", "30", "--peers", peers.path()]);
    let patience = Instant::now() + Duration::from_secs(60);
    let mut found = Vec::new();
    while found.len() < 2 {
        assert!(Instant::now() < patience, "server and client do not start");
        thread::sleep(Duration::from_millis(20));
        found = children(running.id());
    }
    running.terminate();
    let finished = running.finish();
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert_eq!(finished.errors, "carrick: interrupted by SIGTERM\n");
    for id in found {
        assert!(
            !Path::new("/proc").join(&id).exists(),
            "process {id} is left"
        );
    }
}
