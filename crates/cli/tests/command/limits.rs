//! Few file descriptors: one line of error, and no panic.

use crate::support::start_with;

/// Runs a subcommand with this limit of open files until it ends, at most 2 s.
fn run_limited(limit: u32, arguments: &[&str]) -> (Option<i32>, String) {
    let script = "ulimit -n \"$1\"; shift; exec timeout -s KILL 2 \"$@\"";
    let limit = limit.to_string();
    let command = ["-c", script, "sh", &limit, env!("CARGO_BIN_EXE_carrick")];
    let mut running = start_with("sh", &[&command[..], arguments].concat());
    running.close_input();
    let finished = running.finish();
    (finished.code, finished.errors)
}

#[test]
fn few_descriptors_are_an_error_in_a_line() {
    let directory = std::env::temp_dir().join(format!("carrick-limits-{}", std::process::id()));
    let out = directory.to_str().unwrap();
    let control = format!("{out}/control");
    let subcommands: [&[&str]; 10] = [
        &["cat", "-l", "7", "--udp-port", "0", "--bind", "127.0.0.1"],
        &["cat", "127.0.0.1", "7", "--connect-timeout", "100ms"],
        &["cat", "localhost", "7", "--connect-timeout", "100ms"],
        &["perf", "server", "--udp-port", "0", "--bind", "127.0.0.1"],
        &["perf", "client", "127.0.0.1", "--connect-timeout", "100ms"],
        &["simco", "agent", "--middlebox", "tcp://127.0.0.1:9", "list"],
        &[
            "simco",
            "load",
            "--middlebox",
            "sctp://127.0.0.1:9",
            "--timeout",
            "1s",
        ],
        &[
            "daemon",
            "--socket",
            &control,
            "--udp-port",
            "0",
            "--bind",
            "127.0.0.1",
        ],
        &["lab", "run", "satellite", "--reps", "1"],
        &["reproduce", "nothing", "--out", out],
    ];
    for arguments in subcommands {
        for limit in 3..=14 {
            let (code, errors) = run_limited(limit, arguments);
            let about = format!("{arguments:?} with {limit}: {code:?} {errors}");
            assert!(!errors.contains("panicked"), "{about}");
            // 101 is a panic, 134 an abort. A subcommand that waits for a peer is killed.
            assert!(!matches!(code, Some(101 | 134)), "{about}");
            let lines = errors.lines().filter(|line| {
                !line.contains("listening on")
                    && !line.contains("waiting for")
                    && !line.contains("running")
                    && !line.contains("serving")
            });
            let lines = lines.count();
            assert!(lines <= 1, "{about}");
            if code == Some(1) {
                assert_eq!(lines, 1, "{about}");
            }
        }
    }
    // The directory exists only if the limit allows writing.
    let _ = std::fs::remove_dir_all(directory);
}
