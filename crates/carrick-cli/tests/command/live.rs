//! `carrick reproduce --live`: who may, and how it ends.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{run, start};

/// Networks that other processes can find.
fn networks(prefix: &str) -> usize {
    let entries = fs::read_dir("/run/carrick-lab").into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with(prefix))
        .count()
}

/// Far longer than it takes to build one.
const PATIENCE: Duration = Duration::from_secs(120);

fn wait_for_networks(prefix: &str) {
    let begin = Instant::now();
    while networks(prefix) == 0 {
        assert!(begin.elapsed() < PATIENCE, "no network was built");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn live_without_root_says_what_to_do_and_runs_nothing() {
    if nix::unistd::geteuid().is_root() {
        return;
    }
    let refused = run(&["reproduce", "--live", "satellite"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.errors.contains("sudo") && refused.errors.lines().count() == 1);
    assert!(refused.out.is_empty());
}

#[test]
#[ignore = "needs root"]
fn live_ends_with_a_signal_and_removes_its_networks() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-signal");
    let out = out.to_str().unwrap();
    let mut running = start(&[
        "reproduce",
        "--live",
        "--reps",
        "1",
        "--out",
        out,
        "satellite",
    ]);
    let prefix = format!("satellite-{}.", running.id());
    // Simulated first, then live.
    loop {
        let line = running.error_line();
        assert_ne!(line, "", "it ended");
        if line.contains("live:") {
            break;
        }
    }
    wait_for_networks(&prefix);
    running.interrupt();
    let ended = running.finish();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.errors.contains("stopped"), "{ended:?}");
    assert_eq!(networks(&prefix), 0);
    assert!(!Path::new(out).join("report.html").exists());
}

#[test]
#[ignore = "needs root"]
fn live_what_a_crash_left_is_removed_by_the_next_start() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-crash");
    let out = out.to_str().unwrap();
    let mut running = start(&[
        "reproduce",
        "--live",
        "--reps",
        "1",
        "--out",
        out,
        "failover",
    ]);
    let prefix = format!("failover-{}.", running.id());
    wait_for_networks(&prefix);
    running.kill();
    assert!(networks(&prefix) > 0, "nobody was there to remove it");
    let next = run(&["lab", "accuracy", "--time", "100ms", "--json"]);
    assert_eq!(next.code, Some(0), "{next:?}");
    assert_eq!(networks(&prefix), 0);
}
