//! `--event-log` of the commands with endpoints.

use std::path::PathBuf;

use serde_json::Value;

use crate::socket_programs::free_port;
use crate::support::{run, start};

/// Returns a path that no other test uses.
pub(crate) fn log_path(name: &str) -> PathBuf {
    let name = format!("carrick-event-log-{name}-{}", std::process::id());
    std::env::temp_dir().join(name)
}

/// Reads and removes a log.
pub(crate) fn read(path: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::remove_file(path).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(crate) fn named(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .filter_map(|line| line["name"].as_str())
        .collect()
}

#[test]
fn a_log_has_the_life_of_an_association() {
    let path = log_path("cat");
    let file = path.to_str().unwrap();
    let mut listener = start(&[
        "cat",
        "--listen",
        "7",
        "--udp-port",
        "0",
        "--bind",
        "127.0.0.1",
        "--verbose",
    ]);
    let line = listener.error_line();
    let port = line.trim_end().rsplit(' ').next().unwrap().to_owned();
    listener.read_on();
    let arguments = [
        "cat",
        "127.0.0.1",
        "7",
        "--peer-udp-port",
        &port,
        "--event-log",
        file,
    ];
    let mut client = start(&arguments);
    client.feed(b"text\n".to_vec());
    assert_eq!(client.finish().code, Some(0));
    assert_eq!(listener.finish().code, Some(0));
    let lines = read(&path);
    assert_eq!(lines[0]["schema"], "carrick-events");
    assert_eq!(lines[0]["version"], 1);
    let names = named(&lines);
    assert_eq!(names.first(), Some(&"association:begun"));
    assert_eq!(names.last(), Some(&"association:ended"));
    assert!(!names.contains(&"chunk:sent"), "a detail");
    let is_state = |line: &&Value| line["name"] == "association:state";
    let states = lines.iter().filter(is_state);
    let states: Vec<_> = states
        .map(|line| line["data"]["to"].as_str().unwrap())
        .collect();
    assert!(
        states.starts_with(&["COOKIE-WAIT", "COOKIE-ECHOED", "ESTABLISHED"]),
        "{states:?}"
    );
    assert_eq!(states.last(), Some(&"CLOSED"));
    let events = &lines[1..];
    assert!(
        events
            .iter()
            .all(|line| line["trace"] == events[0]["trace"])
    );
    assert!(events.is_sorted_by_key(|line| line["time"].as_f64().map(f64::to_bits)));
}

/// Each run begins with a header.
#[test]
fn a_log_is_appended_to() {
    let path = log_path("append");
    let file = path.to_str().unwrap();
    for _ in 0..2 {
        // No endpoint listens there.
        let refused = run(&[
            "cat",
            "127.0.0.1",
            "7",
            "--peer-udp-port",
            "9",
            "--event-log",
            file,
            "--event-log-chunks",
        ]);
        assert_ne!(refused.code, Some(0));
    }
    let lines = read(&path);
    let headers = lines
        .iter()
        .filter(|line| line["schema"] == "carrick-events");
    assert_eq!(headers.count(), 2);
    let ends = named(&lines);
    assert_eq!(
        ends.iter()
            .filter(|name| **name == "association:ended")
            .count(),
        2
    );
}

#[test]
fn a_log_that_cannot_be_written_is_an_error() {
    let refused = run(&["cat", "--listen", "7", "--event-log", "/nonexistent/log"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.errors.contains("event log /nonexistent/log: "),
        "{}",
        refused.errors
    );
}

#[test]
fn checking_a_configuration_opens_no_log() {
    let path = log_path("check");
    let config = log_path("check-config");
    std::fs::write(&config, format!("event-log = {path:?}\n")).unwrap();
    let checked = run(&["daemon", "--check", "--config", config.to_str().unwrap()]);
    assert_eq!(checked.code, Some(0), "{}", checked.errors);
    assert!(!path.exists());
    std::fs::remove_file(&config).unwrap();
}

/// Both ends are sockets of one program.
#[test]
#[ignore = "needs python3"]
fn sockets_of_programs_are_logged() {
    const PROGRAM: &str = "
import socket
a, b = [socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132) for _ in range(2)]
a.bind(('127.0.0.1', 0))
a.listen(1)
b.connect(a.getsockname())
c, _ = a.accept()
b.send(b'text')
assert c.recv(9) == b'text'
b.close()
assert c.recv(9) == b''
";
    let path = log_path("run");
    let file = path.to_str().unwrap();
    let port = free_port().to_string();
    let ports = ["--udp-port", &port, "--peer-udp-port", &port];
    let program = ["--event-log", file, "--", "python3", "-c", PROGRAM];
    let finished = run(&[&["run"], &ports[..], &program].concat());
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    let lines = read(&path);
    let established = lines
        .iter()
        .filter(|line| line["name"] == "association:established");
    let accepted: Vec<_> = established
        .map(|line| line["data"]["accepted"].as_bool())
        .collect();
    assert_eq!(accepted.len(), 2);
    assert!(accepted.contains(&Some(true)) && accepted.contains(&Some(false)));
    let traces: std::collections::BTreeSet<_> = lines
        .iter()
        .filter_map(|line| line["trace"].as_str())
        .collect();
    assert_eq!(traces.len(), 2, "{traces:?}");
}
