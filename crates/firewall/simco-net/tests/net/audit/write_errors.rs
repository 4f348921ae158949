//! Audit logs that can't be written, and pipes without a reader.

use std::time::Duration;

use carrick_simco::message::Lifetime;
use carrick_simco_net::daemon::DaemonSettings;
use serde_json::Value;

use super::{audit_lines_with, events};
use crate::support::{TestMiddlebox, Transport, in_time, pinhole, text};

#[tokio::test]
async fn full_disk_delays_no_agent() {
    let mut middlebox = TestMiddlebox::start("audit = \"/dev/full\"").await;
    let mut errors = middlebox.daemon.errors().unwrap();
    let alice = middlebox.client(Transport::Tcp, "alice").await;
    let rule = alice.enable_once(pinhole(1, 100)).await.unwrap().rule;
    let reported = in_time("error", errors.recv()).await.unwrap().to_string();
    assert!(reported.contains("/dev/full"), "{reported}");
    assert!(middlebox.metric("carrick_simco_audit_failures_total").await > 0);
    // Another file gets all lines.
    let path = middlebox.folder.file("audit.json");
    let settings = DaemonSettings::parse("f", &text(&middlebox.folder, "")).unwrap();
    let settings = DaemonSettings {
        audit: Some(path.clone()),
        ..settings
    };
    middlebox.daemon.reload(settings).await.unwrap();
    let lines = audit_lines_with(&path, "reloaded", 1).await;
    assert_eq!(
        events(&lines),
        ["started", "session-opened", "rule-granted", "reloaded"]
    );
    assert_eq!(lines[2]["rule"], rule.0);
    assert_eq!(middlebox.metric("carrick_simco_audit_lost_total").await, 0);
}

/// Full pipe that is open but not read.
fn full_pipe(path: &std::path::Path) -> std::fs::File {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
    let mut options = std::fs::OpenOptions::new();
    // Opening a pipe for both directions does not block.
    let mut pipe = options
        .read(true)
        .write(true)
        .custom_flags(0o4000)
        .open(path)
        .unwrap();
    for length in [4096, 1] {
        while pipe.write(&vec![b'x'; length]).is_ok() {}
    }
    pipe
}

#[tokio::test]
async fn full_pipe_delays_no_agent() {
    use std::io::Read as _;
    let folder = crate::support::TestFolder::new();
    let path = folder.file("pipe");
    let mut pipe = full_pipe(&path);
    let mut middlebox =
        TestMiddlebox::start(&format!("audit = {:?}", path.display().to_string())).await;
    let mut errors = middlebox.daemon.errors().unwrap();
    let alice = middlebox.client(Transport::Tcp, "alice").await;
    let rule = alice.enable_once(pinhole(1, 100)).await.unwrap().rule;
    let reported = in_time("error", errors.recv()).await.unwrap().to_string();
    assert!(reported.contains("pipe"), "{reported}");
    alice.extend(rule, Lifetime(50)).await.unwrap();
    // Once read, the pipe gets all lines.
    let mut read = Vec::new();
    let lines = in_time("the lines", async {
        loop {
            let mut octets = [0; 4096];
            if let Ok(count) = pipe.read(&mut octets) {
                read.extend_from_slice(&octets[..count]);
            }
            let text = String::from_utf8_lossy(&read);
            if text.contains("lifetime-changed") && text.ends_with('\n') {
                return text.trim_start_matches('x').to_owned();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let lines: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let expected = [
        "started",
        "session-opened",
        "rule-granted",
        "lifetime-changed",
    ];
    assert_eq!(events(&lines), expected);
    // A pipe without a reader is rejected, and the old log is kept.
    let unread = folder.file("unread");
    drop(full_pipe(&unread));
    let settings = DaemonSettings::parse("f", &text(&middlebox.folder, "")).unwrap();
    let settings = DaemonSettings {
        audit: Some(unread),
        ..settings
    };
    let refused = in_time("the reload", middlebox.daemon.reload(settings)).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("without a reader")
    );
    alice.list().await.unwrap();
}
