//! `carrick reproduce --live`: required privileges, and its end.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::live_network::{captured, namespaces};
use crate::support::{run, start, start_with};

/// Returns the number of networks that other processes can find.
pub(crate) fn networks(prefix: &str) -> usize {
    let entries = fs::read_dir("/run/carrick-lab").into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with(prefix))
        .count()
}

/// Far longer than the time to build a network.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Waits until a host of a network exists; returns the path of its link.
pub(crate) fn wait_for_host(network: &str, host: &str) -> PathBuf {
    let begin = Instant::now();
    let link = Path::new("/run/carrick-lab").join(network).join(host);
    while !link.exists() {
        assert!(begin.elapsed() < TIMEOUT, "no network was built");
        thread::sleep(Duration::from_millis(1));
    }
    link
}

fn wait_for_networks(prefix: &str) {
    let begin = Instant::now();
    while networks(prefix) == 0 {
        assert!(begin.elapsed() < TIMEOUT, "no network was built");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Live commands without root fail with the reason.
#[test]
fn live_without_root_fails_with_advice() {
    let carrick = env!("CARGO_BIN_EXE_carrick");
    // A directory from which every user can start the program.
    let copy = std::env::temp_dir().join(format!("carrick-{}", std::process::id()));
    fs::copy(carrick, &copy).unwrap();
    let root = nix::unistd::geteuid().is_root();
    let unprivileged = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let refused = |arguments: &[&str]| {
        let mut refused = if root {
            let program = [copy.to_str().unwrap()];
            start_with(
                "setpriv",
                &[&unprivileged[..], &program, arguments].concat(),
            )
        } else {
            start(arguments)
        };
        refused.close_input();
        let refused = refused.finish();
        assert!(refused.out.is_empty(), "{refused:?}");
        refused
    };
    let sudo = refused(&["reproduce", "--live", "satellite"]);
    for other in [
        &["lab", "up", "failover"][..],
        &["lab", "shell", "failover", "source", "--", "true"],
        &["lab", "accuracy"],
    ] {
        refused(other).assert_failed(1, "need root");
    }
    fs::remove_file(&copy).unwrap();
    sudo.assert_failed(1, "with sudo");
}

#[test]
#[ignore = "needs root"]
fn live_removes_its_networks_after_a_signal() {
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
    // The simulations run before the live runs.
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
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.errors.contains("stopped"), "{ended:?}");
    assert_eq!(networks(&prefix), 0);
    assert!(!Path::new(out).join("report.html").exists());
}

/// Returns the namespaces of the hosts of networks.
fn namespaces_of(prefix: &str) -> BTreeSet<u64> {
    let networks = fs::read_dir("/run/carrick-lab").unwrap().flatten();
    let found = networks.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let hosts = found.flat_map(|network| fs::read_dir(network.path()).unwrap().flatten());
    hosts
        .map(|host| fs::metadata(host.path()).unwrap().ino())
        .collect()
}

#[test]
#[ignore = "needs root"]
fn live_start_removes_remains_of_a_killed_run() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-crash");
    let _ = fs::remove_dir_all(&out);
    let path = out.to_str().unwrap();
    let arguments = [
        "reproduce",
        "--live",
        "--reps",
        "1",
        "--out",
        path,
        "failover",
    ];
    let mut running = start(&arguments);
    let prefix = format!("failover-{}.", running.id());
    // All networks are running, and all flows have started.
    loop {
        let line = running.error_line();
        assert_ne!(line, "", "it ended");
        if line.contains("runs done") {
            break;
        }
    }
    let hosts = namespaces_of(&prefix);
    assert_eq!(hosts.len(), 2 * networks(&prefix));
    let inhabited = namespaces();
    assert!(hosts.iter().all(|host| inhabited.contains(host)));
    running.kill();
    // The kernel removes the namespaces; the links remain.
    let begin = Instant::now();
    while !namespaces().is_disjoint(&hosts) {
        assert!(
            begin.elapsed() < TIMEOUT,
            "a program is running in a namespace"
        );
        thread::sleep(Duration::from_millis(1));
    }
    assert!(networks(&prefix) > 0);
    assert!(!out.join("report.html").exists());
    let next = start(&arguments);
    wait_for_networks(&format!("failover-{}.", next.id()));
    assert_eq!(networks(&prefix), 0);
    next.interrupt();
    next.finish();
}

/// Runs the check of reports on a directory.
fn check(directory: &Path) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check_report.py");
    let check = Command::new("python3")
        .arg(script)
        .arg("--live")
        .arg(directory)
        .output()
        .unwrap();
    (
        check.status.success(),
        String::from_utf8(check.stdout).unwrap(),
    )
}

#[test]
#[ignore = "needs root"]
fn live_report_is_complete_and_agrees_with_simulation() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-report");
    let path = out.to_str().unwrap();
    let capture = out.join("capture");
    let _ = fs::remove_dir_all(&out);
    let arguments = [
        "reproduce",
        "--live",
        "--no-means",
        "--reps",
        "2",
        "--cell",
        "pmr2.failover",
        "--out",
        path,
    ];
    let capturing = ["--capture", capture.to_str().unwrap(), "failover"];
    let ran = run(&[&arguments[..], &capturing].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (right, message) = check(&out);
    assert!(right, "{message}");
    let json = out.join("failover.json");
    let result: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let rows = result["live"]["rows"].as_array().unwrap();
    let place = |id: &str| rows.iter().position(|row| row["id"] == id).unwrap();
    for way in ["udp", "raw"] {
        let times = ["best", "pmr2", "pmr3", "pmr4", "pmr5"]
            .map(|variant| &rows[place(&format!("{variant}.failover.{way}"))])
            .map(|row| row["live"].as_f64().unwrap());
        // A timer never expires early; how late it is depends on the machine's load. On a machine that stood still the
        // first timer may have been started before the path was cut, at most its timeout of 150 ms earlier.
        for (time, timeouts) in times.iter().zip([150.0, 380.0, 530.0, 680.0, 830.0]) {
            assert!(*time > timeouts - 150.0, "{way}: {times:?}");
        }
    }
    // Only the first repetitions of the selected cell were captured.
    let captures = fs::read_dir(capture.join("failover/live")).unwrap();
    let mut captures: Vec<_> = captures.map(|entry| entry.unwrap().file_name()).collect();
    captures.sort();
    assert_eq!(captures, ["pmr2.failover.raw.0", "pmr2.failover.udp.0"]);
    assert!(captured(&capture.join("failover/live/pmr2.failover.raw.0/source-1.pcapng")) > 1000);
    // A time below the timeout is detected, and so is a missing row.
    let spoilt = |spoil: &dyn Fn(&mut Vec<Value>)| {
        let mut result = result.clone();
        spoil(result["live"]["rows"].as_array_mut().unwrap());
        fs::write(&json, result.to_string()).unwrap();
        let (right, message) = check(&out);
        assert!(!right, "{message}");
        message
    };
    let number = place("best.failover.raw");
    let message = spoilt(&|rows| {
        // Too early, which no load explains.
        rows[number]["live"] = (rows[number]["simulated"].as_f64().unwrap() / 2.0).into();
        rows[number]["ci95"] = 1.0.into();
    });
    assert!(message.contains("best.failover.raw"), "{message}");
    let message = spoilt(&|rows| drop(rows.remove(number)));
    assert!(
        message.contains("no live row best.failover.raw"),
        "{message}"
    );
}
