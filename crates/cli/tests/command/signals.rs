//! Signals that end a program: each has the effect of Ctrl-C.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{Running, start, start_with};

const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Starts a side that listens on loopback; returns it with the UDP port that the system selected.
fn listen() -> (Running, String) {
    let listener = ["cat", "--listen", "7", "--udp-port", "0", "--recv-only"];
    let mut listener = start(&[&listener[..], &["-v", "--bind", "127.0.0.1"]].concat());
    let line = listener.error_line();
    let udp_port = line.trim_end().rsplit(' ').next().unwrap().to_owned();
    (listener, udp_port)
}

fn connect(udp_port: &str) -> Running {
    let client = ["cat", "127.0.0.1", "7", "-v", "--peer-udp-port", udp_port];
    start(&[&client[..], &["--recv-only"]].concat())
}

/// Starts both sides of an association and waits for the set-up.
fn established() -> (Running, Running) {
    let (mut listener, udp_port) = listen();
    let mut client = connect(&udp_port);
    assert!(listener.error_line().contains("connected"));
    assert!(client.error_line().contains("connected"));
    (client, listener)
}

/// RFC 9260, section 9.1: the peer gets an ABORT with a reason, for a signal to either side.
#[test]
fn each_signal_ends_cat_with_an_abort() {
    for signal in ENDING {
        for client_ends in [true, false] {
            let (client, listener) = established();
            let (ended, peer) = if client_ends {
                (client, listener)
            } else {
                (listener, client)
            };
            ended.signal(signal);
            ended.finish().assert_failed(1, signal.as_str());
            peer.finish().assert_failed(1, "the program was ended");
        }
    }
}

/// The peer of a measurement gets an ABORT with a reason, for a signal to either side.
#[test]
fn each_signal_ends_perf_with_an_abort() {
    for signal in ENDING {
        for client_ends in [true, false] {
            let server = ["perf", "server", "--once", "--json", "--udp-port", "0"];
            let mut server = start(&[&server[..], &["--bind", "127.0.0.1"]].concat());
            let udp_port = server.json_line()["udp_port"].to_string();
            let client = ["perf", "client", "127.0.0.1", "--json", "-t", "60"];
            let mut client = start(&[&client[..], &["--peer-udp-port", &udp_port]].concat());
            for side in [&mut server, &mut client] {
                assert_eq!(side.json_line()["event"], "begin");
            }
            // The measurement is running: both sides print intervals.
            assert_eq!(server.json_line()["event"], "interval");
            let (ended, peer) = if client_ends {
                (client, server)
            } else {
                (server, client)
            };
            ended.signal(signal);
            ended.finish().assert_failed(1, signal.as_str());
            peer.finish()
                .assert_failed(1, "the measurement was aborted");
        }
    }
}

/// A program that waits for a peer ends as well.
#[test]
fn each_signal_ends_a_listener() {
    for signal in ENDING {
        let (listener, _) = listen();
        listener.signal(signal);
        listener.finish().assert_failed(1, signal.as_str());
    }
}

/// SIGHUP has no effect if it was ignored at the start (`nohup`).
#[cfg(target_os = "linux")]
#[test]
fn an_ignored_hangup_ends_nothing() {
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    let carrick = env!("CARGO_BIN_EXE_carrick");
    let server = ["perf", "server", "--once", "--json", "--udp-port", "0"];
    let server = [
        &["-c", script, carrick],
        &server[..],
        &["--bind", "127.0.0.1"],
    ]
    .concat();
    let mut server = start_with("sh", &server);
    let udp_port = server.json_line()["udp_port"].to_string();
    server.signal(Signal::SIGHUP);
    let client = ["perf", "client", "127.0.0.1", "--json", "-n", "1M"];
    let client = start(&[&client[..], &["--peer-udp-port", &udp_port]].concat()).finish();
    assert_eq!(client.code, Some(0), "{client:?}");
    let server = server.finish();
    assert_eq!(server.code, Some(0), "{server:?}");
    let has_summary = |line: &Value| line["event"] == "summary";
    assert!(server.json().iter().any(has_summary), "{server:?}");
}
