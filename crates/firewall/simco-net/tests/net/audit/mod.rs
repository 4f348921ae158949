//! The audit log: a line of JSON for each event.

mod entries;
mod flood;
// These need /dev/full, and a pipe that a single process opens for reading and writing.
#[cfg(target_os = "linux")]
mod write_errors;

use std::time::Duration;

use serde_json::Value;

use crate::support::in_time;

/// Reads the lines of an audit log that is no longer written.
fn audit_lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines();
    lines.map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// Waits until the audit log has `count` lines of an event and returns its lines.
async fn audit_lines_with(path: &std::path::Path, event: &str, count: usize) -> Vec<Value> {
    let of_event = |lines: &[Value]| events(lines).iter().filter(|e| **e == event).count();
    in_time(event, async {
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            // The last line may be incomplete.
            let lines = text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            let lines: Vec<Value> = lines.map(|l| serde_json::from_str(l).unwrap()).collect();
            if of_event(&lines) >= count {
                return lines;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

fn events(lines: &[Value]) -> Vec<&str> {
    let events = lines.iter().map(|line| line["event"].as_str().unwrap());
    events.collect()
}
