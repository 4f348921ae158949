//! `carrick reproduce --live`: who may, and how it ends.

use std::fs;
use std::path::Path;

use crate::support::{run, start};

/// Networks that other processes can find.
fn networks(prefix: &str) -> usize {
    let entries = fs::read_dir("/run/carrick-lab").into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with(prefix))
        .count()
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
    // Simulated first, then live.
    while !running.error_line().contains("live:") {}
    while networks("satellite.") == 0 {
        std::thread::yield_now();
    }
    running.interrupt();
    let ended = running.finish();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.errors.contains("stopped"), "{ended:?}");
    assert_eq!(networks("satellite."), 0);
    assert!(!Path::new(out).join("report.html").exists());
}
