//! Files of a client of `carrick perf`: their numbers are those of the result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::perf::{client, server, summary};
use crate::support::{run, start};

/// Folder for the files of a test; removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("carrick-perf-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Row = BTreeMap<String, String>;

/// Reads a table whose fields need no quotes.
fn rows(path: impl AsRef<Path>) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.split_terminator("\r\n").map(|line| line.split(','));
    let columns: Vec<_> = lines.next().unwrap().collect();
    let row = |line: std::str::Split<'_, char>| {
        let fields: Vec<_> = line.collect();
        assert_eq!(fields.len(), columns.len(), "{fields:?}");
        let named = columns.iter().zip(fields);
        named
            .map(|(c, f)| ((*c).to_owned(), f.to_owned()))
            .collect()
    };
    lines.map(row).collect()
}

/// Returns the sum of a column of the rows with these values.
fn total(rows: &[Row], values: &[(&str, &str)], column: &str) -> u64 {
    let fits = |row: &&Row| values.iter().all(|(name, value)| row[*name] == *value);
    let chosen = rows.iter().filter(fits);
    chosen.map(|row| row[column].parse::<u64>().unwrap()).sum()
}

#[test]
fn csv_rows_add_up_to_the_result() {
    let folder = Folder::new("csv");
    let csv = folder.file("out.csv");
    let server = server(&["127.0.0.1"], &["--once", "-i", "0"]);
    let load = [
        "--csv",
        &csv,
        "-i",
        "0.1",
        "--flow",
        "size=100,interval=5ms,messages=70,respond=50",
        "--flow",
        "stream=2,size=300,interval=10ms,messages=40,reverse",
    ];
    let client = client("127.0.0.1", &server, &load);
    let result = summary(&client);
    assert_eq!(server.running.finish().code, Some(0));
    let rows = rows(&csv);
    for (side, flow, role, messages, bytes) in [
        ("client", "1", "sender", 70, 7000),
        ("server", "1", "receiver", 70, 7000),
        ("client", "2", "receiver", 40, 12_000),
        ("server", "2", "sender", 40, 12_000),
    ] {
        let of = [("side", side), ("flow", flow), ("role", role)];
        assert_eq!(total(&rows, &of, "messages"), messages, "{of:?}");
        assert_eq!(total(&rows, &of, "bytes"), bytes, "{of:?}");
    }
    assert_eq!(total(&rows, &[("side", "client")], "responses"), 70);
    for row in &rows {
        assert_eq!(row["seed"], result["request"]["seed"].to_string());
        let is_delayed = row["role"] == "receiver" && row["messages"] != "0";
        assert_eq!(!row["delay_p99_s"].is_empty(), is_delayed, "{row:?}");
        assert_eq!(
            !row["response_time_p50_s"].is_empty(),
            row["responses"] != "0"
        );
    }
}

/// The second file has the quantiles of the result.
#[test]
fn delays_have_the_quantiles_of_the_result() {
    let folder = Folder::new("delays");
    let csv = folder.file("out.csv");
    let server = server(&["127.0.0.1"], &["--once"]);
    let load = ["--csv", &csv, "-n", "300000", "-s", "1000", "--bidir"];
    let result = summary(&client("127.0.0.1", &server, &load));
    assert_eq!(server.running.finish().code, Some(0));
    let rows = rows(folder.file("out.delays.csv"));
    for (flow, direction) in [("1", "to_server"), ("2", "to_client")] {
        let own = rows.iter().filter(|row| row["flow"] == flow);
        let own: BTreeMap<_, _> = own
            .map(|row| {
                assert_eq!(
                    (&row["direction"][..], &row["measure"][..]),
                    (direction, "delay")
                );
                (
                    row["quantile"].clone(),
                    row["seconds"].parse::<f64>().unwrap(),
                )
            })
            .collect();
        assert_eq!(own.len(), 38);
        let delay = &result[direction]["delay"];
        for (level, name) in [("0.5000", "p50"), ("0.9900", "p99"), ("0.9999", "p99_99")] {
            assert_eq!(delay[name].as_f64(), Some(own[level]), "{name}");
        }
        // A histogram with three digits.
        let max = delay["max"].as_f64().unwrap();
        assert!((own["1.0000"] - max).abs() <= max / 500.0);
    }
}

#[test]
fn parallel_associations_have_their_rows() {
    let folder = Folder::new("parallel");
    let csv = folder.file("out.csv");
    let server = server(&["127.0.0.1"], &["--once"]);
    let load = ["-P", "3", "--csv", &csv, "-n", "30000", "-s", "1000"];
    let client = client("127.0.0.1", &server, &load);
    assert_eq!(client.code, Some(0), "{client:?}");
    let rows = rows(&csv);
    for association in ["1", "2", "3"] {
        for side in ["client", "server"] {
            let own = [("association", association), ("side", side)];
            assert_eq!(total(&rows, &own, "messages"), 30, "{own:?}");
        }
    }
}

#[test]
fn the_report_has_the_result_and_its_figures() {
    let folder = Folder::new("report");
    let report = folder.file("report.html");
    let server = server(&["127.0.0.1"], &["--once"]);
    let load = [
        "--report",
        &report,
        "-i",
        "0.1",
        "--flow",
        "size=100,interval=5ms,messages=71,respond=50",
        "--flow",
        "stream=2,size=300,interval=5ms,messages=72,reverse",
    ];
    let client = client("127.0.0.1", &server, &load);
    summary(&client);
    assert_eq!(server.running.finish().code, Some(0));
    let html = std::fs::read_to_string(&report).unwrap();
    for text in [
        "size=100,interval=5ms,messages=71,respond=50",
        "flow 1 to server, responses",
        "<td class=\"number\" data-part=\"messages\">71</td>",
        "<td class=\"number\" data-part=\"messages\">72</td>",
        "Rate received",
        "One-way delay over time",
        "Response time over time",
        "Distribution of delays",
        "carrick perf client 127.0.0.1 -J",
        "Server: ",
        "</html>",
    ] {
        assert!(html.contains(text), "{text:?} is missing");
    }
    assert!(!html.contains("not complete") && !html.contains("<script"));
}

#[test]
fn an_interrupted_measurement_has_a_report() {
    let folder = Folder::new("interrupted");
    let [report, csv] = ["report.html", "out.csv"].map(|name| folder.file(name));
    let server = server(&["127.0.0.1"], &["--once"]);
    let client = ["perf", "client", "127.0.0.1", "--json", "-t", "60", "-R"];
    let files = ["--report", &report, "--csv", &csv, "-i", "0.1"];
    let port = ["--peer-udp-port", &server.udp_port];
    let mut client = start(&[&client[..], &files, &port].concat());
    while client.json_line()["event"] != "interval" {}
    client.interrupt();
    client.finish().assert_failed(1, "interrupted");
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.contains("The measurement is not complete: "), "{html}");
    assert!(html.contains("Rate received"));
    let delays = rows(folder.file("out.delays.csv"));
    assert!(delays.iter().all(|row| row["direction"] == "to_client"));
    assert_eq!(delays.len(), 38);
    let rows = rows(&csv);
    assert!(total(&rows, &[("role", "receiver")], "bytes") > 0);
    server.running.finish();
}

#[test]
fn impossible_files_are_refused_before_the_transfer() {
    let folder = Folder::new("refused");
    let csv = folder.file("missing/out.csv");
    let server = server(&["127.0.0.1"], &[]);
    let refused = client("127.0.0.1", &server, &["--csv", &csv]);
    refused.assert_failed(1, "missing does not exist: create it");
    let report = client("127.0.0.1", &server, &["--report", &csv]);
    report.assert_failed(1, "missing does not exist: create it");
    let csv = folder.file("out.csv");
    let none = ["perf", "client", "127.0.0.1", "-i", "0", "--csv", &csv];
    run(&none).assert_failed(2, "use an --interval of 0.1 s to 24 h");
    assert!(!Path::new(&csv).exists());
}

/// Nothing listens on the port.
#[test]
fn earlier_files_outlast_a_failed_connection() {
    let folder = Folder::new("kept");
    let files = ["out.csv", "out.delays.csv", "report.html"].map(|name| folder.file(name));
    for file in &files {
        std::fs::write(file, "earlier").unwrap();
    }
    let [csv, _, report] = &files;
    let port = crate::support::free_udp_port();
    let client = ["perf", "client", "127.0.0.1", "--peer-udp-port", &port];
    let client = run(&[&client[..], &["--csv", csv, "--report", report]].concat());
    assert_eq!(client.code, Some(1), "{client:?}");
    for file in &files {
        assert_eq!(std::fs::read_to_string(file).unwrap(), "earlier", "{file}");
    }
}
