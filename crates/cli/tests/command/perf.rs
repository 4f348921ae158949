//! Measurements: the requested data arrives, and both sides report the same numbers.

#[cfg(target_os = "linux")]
use std::io::Write;

use nix::sys::signal::Signal;
use serde_json::Value;

#[cfg(target_os = "linux")]
use crate::paths::{Hosts, start_on};
use crate::support::{Finished, Running, free_udp_port, run, start};

/// Starts a server on a UDP port that the system selects; returns it with the arguments to reach it.
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) udp_port: String,
}

pub(crate) fn server(addresses: &[&str], more: &[&str]) -> Server {
    let mut arguments = vec!["perf", "server", "--json", "--udp-port", "0"];
    for address in addresses {
        arguments.extend(["--bind", address]);
    }
    arguments.extend(more);
    let mut running = start(&arguments);
    let listening = running.json_line();
    assert_eq!(listening["event"], "listening");
    assert_eq!(listening["through_daemon"], false);
    assert_eq!(listening["addresses"], serde_json::json!(addresses));
    Server {
        running,
        udp_port: listening["udp_port"].to_string(),
    }
}

pub(crate) fn client(peers: &str, server: &Server, more: &[&str]) -> Finished {
    let mut arguments = vec!["perf", "client", peers, "-J"];
    arguments.extend(["--peer-udp-port", &server.udp_port]);
    arguments.extend(more);
    run(&arguments)
}

/// Returns the only summary in the output of a successful side.
pub(crate) fn summary(side: &Finished) -> Value {
    assert_eq!(side.code, Some(0), "{side:?}");
    assert_eq!(side.errors, "");
    let lines = side.json();
    let mut found = lines.iter().filter(|line| line["event"] == "summary");
    let summary = found.next().unwrap();
    assert!(found.next().is_none());
    summary.clone()
}

/// Runs a measurement, asserts that both sides report the same numbers, and returns them.
pub(crate) fn measure(addresses: &[&str], more: &[&str]) -> Value {
    let server = server(addresses, &["--once"]);
    let client = client(&addresses.join(","), &server, more);
    let of_client = summary(&client);
    let of_server = summary(&server.running.finish());
    assert_eq!(of_client, of_server);
    let cost = |side: &str| of_client[side]["cpu_user"].as_f64().unwrap();
    assert!(cost("client") >= 0.0 && cost("server") >= 0.0);
    of_client
}

fn bytes(summary: &Value, direction: &str) -> Option<u64> {
    summary[direction]["bytes"].as_u64()
}

fn messages(summary: &Value, direction: &str) -> Option<u64> {
    summary[direction]["messages"].as_u64()
}

#[test]
fn the_server_receives_the_requested_data() {
    let summary = measure(&["127.0.0.1"], &["--bytes", "10000001", "--size", "64K"]);
    assert_eq!(bytes(&summary, "to_server"), Some(10_000_001));
    assert_eq!(messages(&summary, "to_server"), Some(153));
    assert_eq!(summary["to_client"], Value::Null);
    assert!(summary["cpu_seconds_per_gb"].as_f64().unwrap() > 0.0);
    assert!(summary["client"]["packets_sent"].as_u64().unwrap() > 6000);
}

#[test]
fn client_receives_in_reverse_mode() {
    let arguments = ["--bytes", "3M", "--size", "1000", "--reverse"];
    let summary = measure(&["127.0.0.1"], &arguments);
    assert_eq!(bytes(&summary, "to_client"), Some(3 << 20));
    assert_eq!(messages(&summary, "to_client"), Some(3146));
    assert_eq!(summary["to_server"], Value::Null);
}

#[test]
fn both_directions_at_once_on_many_streams() {
    let arguments = [
        "--bytes",
        "5MB",
        "--size",
        "10k",
        "--bidir",
        "--streams",
        "100",
    ];
    let summary = measure(&["127.0.0.1"], &arguments);
    for direction in ["to_server", "to_client"] {
        assert_eq!(bytes(&summary, direction), Some(5_000_000));
        assert_eq!(messages(&summary, direction), Some(489));
    }
    assert_eq!(summary["request"]["streams"], 100);
}

#[test]
fn all_data_arrives_at_a_rate() {
    for direction in ["--unordered", "--reverse", "--bidir"] {
        let load = ["-n", "300001", "-s", "1000", "-b", "20M", direction];
        let summary = measure(&["127.0.0.1"], &load);
        assert_eq!(summary["request"]["bitrate"], 20_000_000);
        let (to_server, to_client) = match direction {
            "--unordered" => (Some(300_001), None),
            "--reverse" => (None, Some(300_001)),
            _ => (Some(300_001), Some(300_001)),
        };
        assert_eq!(bytes(&summary, "to_server"), to_server);
        assert_eq!(bytes(&summary, "to_client"), to_client);
    }
}

/// Ten messages per second: the last one is due at 1 s. No delay of this host makes them more.
#[test]
fn senders_do_not_exceed_their_rate() {
    let load = ["-t", "1", "-s", "1000", "-b", "80k", "--bidir"];
    let summary = measure(&["127.0.0.1"], &load);
    for direction in ["to_server", "to_client"] {
        let sent = messages(&summary, direction).unwrap();
        assert!((1..=12).contains(&sent), "{direction}: {sent}");
    }
}

#[test]
fn bidirectional_messages_may_fill_the_send_queue() {
    for size in ["256K", "1M"] {
        let arguments = ["--bytes", "60M", "--size", size, "--bidir"];
        let summary = measure(&["127.0.0.1"], &arguments);
        for direction in ["to_server", "to_client"] {
            assert_eq!(bytes(&summary, direction), Some(60 << 20));
        }
    }
}

#[test]
fn several_addresses_are_several_paths() {
    let addresses = ["127.0.0.1", "127.0.0.2"];
    let server = server(&addresses, &["--once"]);
    let local = ["--bind", "127.0.0.3", "--bind", "127.0.0.4"];
    let load = ["--bytes", "2M", "--unordered"];
    let client = client(
        "127.0.0.1,127.0.0.2",
        &server,
        &[&local[..], &load].concat(),
    );
    assert_eq!(bytes(&summary(&client), "to_server"), Some(2 << 20));
    assert_eq!(client.json()[0]["peers"], serde_json::json!(addresses));
    let server = server.running.finish();
    let of_server = server.json();
    let begin = of_server.iter().find(|l| l["event"] == "begin").unwrap();
    let mut peers: Vec<&str> = begin["peers"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    peers.sort_unstable();
    assert_eq!(peers, ["127.0.0.3", "127.0.0.4"]);
}

#[test]
fn all_paths_at_once_carry_the_same_bytes() {
    for control in ["--multipath", "--multipath=uncoupled"] {
        let server = server(&["127.0.0.1", "127.0.0.2"], &["--once"]);
        let local = ["--bind", "127.0.0.3", "--bind", "127.0.0.4"];
        let load = ["--bytes", "4M", control];
        let peers = "127.0.0.1,127.0.0.2";
        let client = client(peers, &server, &[&local[..], &load].concat());
        assert_eq!(bytes(&summary(&client), "to_server"), Some(4 << 20));
    }
    let unknown = ["perf", "client", "127.0.0.1", "--multipath=half"];
    run(&unknown).assert_failed(2, "see --help");
}

#[test]
fn messages_larger_than_all_buffers_arrive() {
    let arguments = ["--bytes", "9MB", "--size", "8M", "--receive-buffer", "100k"];
    let summary = measure(&["127.0.0.1"], &arguments);
    assert_eq!(bytes(&summary, "to_server"), Some(9_000_000));
    assert_eq!(messages(&summary, "to_server"), Some(2));
}

#[test]
fn nothing_can_be_measured_too() {
    let summary = measure(&["127.0.0.1"], &["--bytes", "0", "--bidir"]);
    assert_eq!(bytes(&summary, "to_server"), Some(0));
    assert_eq!(bytes(&summary, "to_client"), Some(0));
    assert_eq!(summary["cpu_seconds_per_gb"], Value::Null);
}

/// Returns the bytes of each interval in a direction.
fn intervals(side: &Finished, direction: &str) -> Vec<u64> {
    let lines = side.json();
    let intervals = lines.iter().filter(|line| line["event"] == "interval");
    intervals
        .map(|line| line[direction]["bytes"].as_u64().unwrap())
        .collect()
}

#[test]
fn intervals_add_up_to_the_result() {
    for (length, direction) in [("1", "--unordered"), ("0.1", "--bidir"), ("60s", "-R")] {
        let server = server(&["127.0.0.1"], &["--once", "--interval", length]);
        let load = ["-t", "1.5", "-b", "40M", "-i", length, direction];
        let client = client("127.0.0.1", &server, &load);
        let summary = summary(&client);
        let server = server.running.finish();
        for (direction, sender, receiver) in [
            ("to_server", &client, &server),
            ("to_client", &server, &client),
        ] {
            let total = bytes(&summary, direction).unwrap_or_default();
            let (sent, received) = (intervals(sender, "sent"), intervals(receiver, "received"));
            assert!(!sent.is_empty() && !received.is_empty());
            assert_eq!(sent.iter().sum::<u64>(), total, "{length} {direction}");
            assert_eq!(received.iter().sum::<u64>(), total, "{length} {direction}");
            let lines = events(receiver, "interval");
            let delays = lines.iter().map(|line| line["delay"]["messages"].as_u64());
            let delays: u64 = delays.map(Option::unwrap_or_default).sum();
            assert_eq!(delays, messages(&summary, direction).unwrap_or_default());
        }
        // The last interval is the shortest.
        let count = intervals(&client, "sent").len();
        assert_eq!(count > 1, length != "60s", "{count}");
    }
}

/// Returns the lines of a side with an event.
pub(crate) fn events(side: &Finished, event: &str) -> Vec<Value> {
    let mut lines = side.json();
    lines.retain(|line| line["event"] == event);
    lines
}

/// A server with `--once` ends after all associations of its client.
#[test]
fn parallel_associations_have_a_sum() {
    let server = server(&["127.0.0.1"], &["--once"]);
    let load = [
        "-P", "3", "-n", "200001", "-b", "4M", "-s", "1000", "--bidir",
    ];
    let client = client("127.0.0.1", &server, &[&load[..], &["-i", "0.1"]].concat());
    assert_eq!(client.code, Some(0), "{client:?}");
    let server = server.running.finish();
    assert_eq!(server.code, Some(0), "{server:?}");
    let of_client = events(&client, "summary");
    assert_eq!((of_client.len(), events(&server, "summary").len()), (3, 3));
    let mut tests: Vec<_> = of_client
        .iter()
        .filter_map(|l| l["test"].as_u64())
        .collect();
    tests.sort_unstable();
    assert_eq!(tests, [1, 2, 3]);
    let sum = events(&client, "sum");
    assert_eq!(sum.len(), 1);
    assert_eq!(sum[0]["associations"], 3);
    for direction in ["to_server", "to_client"] {
        assert!(
            of_client
                .iter()
                .all(|l| bytes(l, direction) == Some(200_001))
        );
        assert_eq!(bytes(&sum[0], direction), Some(600_003));
    }
    for direction in ["sent", "received"] {
        let total = |event: &str| -> u64 {
            let lines = events(&client, event);
            let bytes = lines.iter().map(|l| l[direction]["bytes"].as_u64());
            bytes.map(Option::unwrap).sum()
        };
        assert_eq!(total("interval"), 600_003);
        assert_eq!(total("interval_sum"), 600_003);
    }
}

/// Both sides report what each association, and the client what all have transferred.
#[test]
fn an_interrupt_ends_parallel_associations() {
    let mut server = server(&["127.0.0.1"], &["--once"]);
    let load = [
        "perf",
        "client",
        "127.0.0.1",
        "--json",
        "-t",
        "60",
        "-P",
        "2",
    ];
    let port = ["--peer-udp-port", &server.udp_port, "-R"];
    let mut client = start(&[&load[..], &port].concat());
    while client.json_line()["event"] != "interval_sum" {}
    while server.running.json_line()["event"] != "interval" {}
    client.terminate();
    let client = client.finish();
    client.assert_failed(1, "interrupted by SIGTERM");
    let parts = events(&client, "interrupted");
    assert_eq!(parts.len(), 2);
    let received = |line: &Value| line["received"]["bytes"].as_u64().unwrap();
    let sum = events(&client, "interrupted_sum");
    let of_parts: u64 = parts.iter().map(received).sum();
    assert_eq!(received(&sum[0]), of_parts);
    for part in &parts {
        assert!(received(part) > 0 && part["sent"].is_null());
        assert!(part["delay"]["messages"].as_u64().unwrap() > 0, "{part}");
        assert!(part["cost"]["packets_received"].as_u64().unwrap() > 0);
    }
    server
        .running
        .finish()
        .assert_failed(1, "the peer aborted it");
}

/// Starts `carrick cat` with these control messages to a server.
#[cfg(target_os = "linux")]
fn control_messages(server: &Server, messages: &[Value]) -> (Running, std::process::ChildStdin) {
    let cat = ["cat", "127.0.0.1", "5201", "--ppid", "1129333553"];
    let mut cat = start(&[&cat[..], &["--peer-udp-port", &server.udp_port]].concat());
    let mut input = cat.input();
    for message in messages {
        writeln!(input, "{message}").unwrap();
    }
    (cat, input)
}

/// Returns a request for 1000 bytes to the client.
#[cfg(target_os = "linux")]
fn request(parallel: u16) -> Value {
    serde_json::json!({
        "kind": "request", "version": 3, "direction": "to_client", "extent": {"bytes": 1000}, "size": 1000,
        "streams": 1, "unordered": false, "bitrate": 0, "omit": 0, "parallel": parallel, "group": 1,
    })
}

/// A client that did not make all of its associations is still the only one.
#[test]
#[cfg(target_os = "linux")]
fn a_server_with_once_refuses_other_clients() {
    let mut server = server(&["127.0.0.1"], &["--once"]);
    let (cat, input) = control_messages(&server, &[request(2)]);
    assert_eq!(server.running.json_line()["event"], "begin");
    for _ in 0..2 {
        let refused = client("127.0.0.1", &server, &["-n", "1"]);
        refused.assert_failed(1, "the server measures with another client only (--once)");
    }
    drop(input);
    assert!(cat.finish().code.is_some());
    assert_eq!(server.running.finish().code, Some(1));
}

#[test]
#[cfg(target_os = "linux")]
fn impossible_numbers_of_a_client_do_no_harm() {
    let mut server = server(&["127.0.0.1"], &["--once"]);
    let most = u64::MAX;
    let messages = [
        request(1),
        serde_json::json!({"kind": "clock_request"}),
        serde_json::json!({"kind": "start", "offset": i64::MIN, "round_trip": most}),
        serde_json::json!({
            "kind": "received", "bytes": most, "messages": most, "seconds": -1e308,
            "longest_interruption": 1e308, "delay": null,
        }),
        serde_json::json!({
            "kind": "summary", "cpu_user": 1e308, "cpu_system": 1e308, "cpu_shared": true, "retransmissions": most,
            "timeout_retransmissions": most, "fast_retransmissions": most, "dropped_for_buffer": most,
            "packets_sent": most, "packets_received": most,
        }),
    ];
    let (cat, input) = control_messages(&server, &messages);
    let mut line = server.running.json_line();
    while line["event"] != "summary" {
        line = server.running.json_line();
    }
    assert_eq!(line["to_client"]["bytes"], most);
    drop(input);
    assert!(cat.finish().code.is_some());
    assert_eq!(server.running.finish().code, Some(0));
}

/// Each message with at least 8 bytes and at most 1 MiB has a delay, also if it arrives in parts.
#[test]
fn delays_are_measured_in_each_direction() {
    // The last message of 1000 bytes at most has 1 byte, and no sending time.
    for (size, count, timed) in [
        ("1000", 301, 300),
        ("1M", 1, 1),
        ("7", 42_858, 0),
        ("2M", 1, 0),
    ] {
        let small = ["--receive-buffer", "100k", "--bidir"];
        let load = ["-n", "300001", "-s", size];
        let summary = measure(&["127.0.0.1"], &[&load[..], &small].concat());
        for direction in ["to_server", "to_client"] {
            assert_eq!(messages(&summary, direction), Some(count));
            let delay = &summary[direction]["delay"];
            if timed == 0 {
                assert_eq!(*delay, Value::Null, "{size}");
                continue;
            }
            assert_eq!(delay["messages"], timed);
            let steps = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"];
            let steps = steps.map(|name| delay[name].as_f64().unwrap());
            assert!(steps.is_sorted(), "{delay}");
            let mean = delay["mean"].as_f64().unwrap();
            assert!((steps[0]..=steps[6]).contains(&mean), "{delay}");
        }
        let clocks = |name: &str| summary["clocks"][name].as_f64().unwrap();
        assert!(clocks("round_trip") > 0.0);
        assert!(clocks("uncertainty") * 2.0 >= clocks("round_trip"));
        // Both sides have the same clock.
        assert!(clocks("offset").abs() < 1.0);
    }
}

/// Returns the intervals of a side that are omitted, or those that are not.
fn interval_lines(side: &Finished, omitted: bool) -> Vec<Value> {
    let mut lines = side.json();
    lines.retain(|line| line["event"] == "interval" && line["omitted"] == omitted);
    lines
}

#[test]
fn the_omitted_time_is_not_in_the_result() {
    for direction in ["--unordered", "--reverse", "--bidir"] {
        let server = server(&["127.0.0.1"], &["--once", "-i", "0.3"]);
        let load = ["-t", "1", "-b", "20M", "-i", "0.3", "-O", "0.7", direction];
        let client = client("127.0.0.1", &server, &load);
        let summary = summary(&client);
        let server = server.running.finish();
        for (direction, receiver) in [("to_server", &server), ("to_client", &client)] {
            let Some(total) = bytes(&summary, direction) else {
                continue;
            };
            let sum = |omitted| -> u64 {
                let lines = interval_lines(receiver, omitted);
                let bytes = lines.iter().map(|l| l["received"]["bytes"].as_u64());
                bytes.map(Option::unwrap).sum()
            };
            assert!(sum(true) > 0, "nothing was omitted");
            assert_eq!(sum(false), total, "{direction}");
        }
        // An interval is omitted or not, never in part.
        for side in [&client, &server] {
            let last = interval_lines(side, true).pop().unwrap();
            let first = interval_lines(side, false).remove(0);
            assert_eq!(last["end"], first["start"]);
            assert!(last["end"].as_f64() >= Some(0.7), "{last}");
        }
    }
}

#[test]
fn intervals_can_be_turned_off() {
    let server = server(&["127.0.0.1"], &["--once", "-i", "0"]);
    let load = ["-t", "1.2", "-i", "0"];
    let client = client("127.0.0.1", &server, &load);
    assert!(bytes(&summary(&client), "to_server").unwrap() > 0);
    assert!(intervals(&client, "sent").is_empty());
    assert!(intervals(&server.running.finish(), "received").is_empty());
}

#[test]
fn a_server_survives_invalid_requests() {
    let mut server = server(&["127.0.0.1"], &[]);
    let load = ["--bytes", "1M", "--streams", "65534"];
    assert_eq!(
        bytes(&summary(&client("127.0.0.1", &server, &load)), "to_server"),
        Some(1 << 20)
    );
    // The peer sends a message that is no request.
    let mut other = start(&[
        "cat",
        "127.0.0.1",
        "5201",
        "--peer-udp-port",
        &server.udp_port,
    ]);
    other.feed(b"hello\n".to_vec());
    assert!(other.finish().code.is_some());
    let load = ["--bytes", "1M", "--size", "64"];
    assert_eq!(
        bytes(&summary(&client("127.0.0.1", &server, &load)), "to_server"),
        Some(1 << 20)
    );
    let mut results = Vec::new();
    while results.len() < 3 {
        let line = server.running.json_line();
        if line["event"] == "summary" || line["event"] == "failed" {
            results.push((line["event"].clone(), line["test"].clone()));
        }
    }
    let results = serde_json::to_value(results).unwrap();
    assert_eq!(
        results,
        serde_json::json!([["summary", 1], ["failed", 2], ["summary", 3]])
    );
}

#[test]
fn text_is_for_people() {
    let server = server(&["127.0.0.1"], &["--once"]);
    let arguments = [
        "perf",
        "client",
        "127.0.0.1",
        "-n",
        "1M",
        "--peer-udp-port",
        &server.udp_port,
    ];
    let client = run(&arguments);
    assert_eq!(client.code, Some(0), "{client:?}");
    let text = String::from_utf8(client.out).unwrap();
    assert!(text.contains("[1] to server:    1.05 MB"), "{text}");
    assert!(text.contains("CPU per GB"), "{text}");
}

#[test]
fn an_interrupt_ends_the_other_side() {
    for interrupt_server in [true, false] {
        let server = server(&["127.0.0.1"], &["--once"]);
        let port = ["--peer-udp-port", &server.udp_port];
        let load = ["perf", "client", "127.0.0.1", "--json", "--seconds", "60"];
        let mut client = start(&[&load[..], &port].concat());
        assert_eq!(client.json_line()["event"], "begin");
        assert_eq!(client.json_line()["event"], "interval");
        let (this, other) = if interrupt_server {
            (server.running, client)
        } else {
            (client, server.running)
        };
        this.interrupt();
        let this = this.finish();
        this.assert_failed(1, "interrupted");
        let lines = this.json();
        let mut events = lines.iter();
        let last = events.find(|line| line["event"] == "interrupted").unwrap();
        let (done, not) = if interrupt_server {
            (&last["received"], &last["sent"])
        } else {
            (&last["sent"], &last["received"])
        };
        assert!(done["bytes"].as_u64().unwrap() > 0, "{last}");
        assert!(not.is_null(), "{last}");
        other.finish().assert_failed(1, "the peer aborted it");
    }
}

#[test]
fn the_error_names_a_peer_that_does_not_answer() {
    let port = free_udp_port();
    let client = run(&[
        "perf",
        "client",
        "127.0.0.1",
        "--peer-udp-port",
        &port,
        "--connect-timeout",
        "500ms",
    ]);
    client.assert_failed(1, "127.0.0.1");
}

#[test]
fn a_peer_that_is_no_server_is_named() {
    let cat = ["cat", "-l", "5001", "--udp-port", "0", "--recv-only"];
    let mut listener = start(&[&cat[..], &["--bind", "127.0.0.1"]].concat());
    let line = listener.error_line();
    let udp_port = line.trim_end().rsplit(' ').next().unwrap();
    let options = ["--port", "5001", "--connect-timeout", "500ms"];
    let client = ["perf", "client", "127.0.0.1", "--peer-udp-port", udp_port];
    let client = run(&[&client[..], &options].concat());
    client.assert_failed(1, "is it carrick perf server?");
}

#[test]
fn a_misspelt_subcommand_is_corrected() {
    run(&["prf"]).assert_failed(2, "'perf'");
}

#[test]
fn wrong_command_lines_are_refused() {
    for wrong in [
        &["perf", "client", "127.0.0.1", "--size", "0"][..],
        &["perf", "client", "127.0.0.1", "--size", "2G"],
        &["perf", "client", "127.0.0.1", "--streams", "0"],
        &["perf", "client", "127.0.0.1", "-P", "0"],
        &["perf", "client", "127.0.0.1", "-P", "129"],
        &["perf", "client", "127.0.0.1", "--reverse", "--bidir"],
        &["perf", "client", "127.0.0.1", "--bitrate", "fast"],
        &["perf", "client", "127.0.0.1", "--omit", "1", "--bytes", "1"],
        &["perf", "client", "127.0.0.1", "--seconds", "86401"],
        &["perf", "client", "127.0.0.1", "--interval", "0.05"],
        &["perf", "server", "--interval", "86401"],
        &[
            "perf",
            "client",
            "127.0.0.1",
            "--bytes",
            "1",
            "--seconds",
            "1",
        ],
        &["perf", "server", "--raw", "--udp-port", "1"],
        &["perf", "server", "--rto-min", "soon"],
    ] {
        run(wrong).assert_failed(2, "see --help");
    }
    let client = ["perf", "client", "127.0.0.1", "-P", "3", "--size", "1G"];
    run(&client).assert_failed(2, "use a smaller --size or --parallel");
    let client = [
        "perf",
        "client",
        "127.0.0.1",
        "-P",
        "2",
        "--udp-port",
        "9900",
    ];
    run(&client).assert_failed(2, "--udp-port");
    let client = ["perf", "client", "127.0.0.1", "-n", "1T", "--bitrate", "1M"];
    run(&client).assert_failed(2, "fewer --bytes or a higher --bitrate");
    let crossed = run(&[
        "perf",
        "server",
        "--bind",
        "127.0.0.1",
        "--udp-port",
        "0",
        "--rto-min",
        "9s",
        "--rto-max",
        "1s",
    ]);
    crossed.assert_failed(2, "--rto-min of 9s exceeds --rto-max, which is 1s");
    let elsewhere = run(&["perf", "server", "--bind", "192.0.2.1", "--udp-port", "0"]);
    elsewhere.assert_failed(1, "192.0.2.1 is not an address of this host");
}

/// Reads the lines of a side up to the one with a text.
fn lines_until(side: &mut Running, text: &str) -> Vec<Value> {
    let mut lines = vec![];
    loop {
        lines.push(side.json_line());
        let last = lines[lines.len() - 1]["text"].as_str();
        if last.is_some_and(|last| last.contains(text)) {
            return lines;
        }
    }
}

/// Starts a measurement of a minute; returns its server and client once data is on its way.
fn measuring(more: &[&str]) -> (Running, Running) {
    let mut server = server(&["127.0.0.1"], &[&["--once"], more].concat());
    let client = ["perf", "client", "127.0.0.1", "--json", "-t", "60"];
    let client = [&client[..], &["--peer-udp-port", &server.udp_port]].concat();
    let mut client = start(&[&client[..], more].concat());
    assert_eq!(client.json_line()["event"], "begin");
    assert_eq!(server.running.json_line()["event"], "begin");
    assert_eq!(client.json_line()["event"], "interval");
    (server.running, client)
}

/// A peer that stops and continues is reported twice; intervals continue.
#[test]
fn a_silent_peer_is_reported_once() {
    for silent in ["server", "client"] {
        let (server, client) = measuring(&[]);
        let (stopped, mut other) = match silent {
            "server" => (server, client),
            _ => (client, server),
        };
        stopped.signal(Signal::SIGSTOP);
        lines_until(&mut other, "no packet from the peer for");
        stopped.signal(Signal::SIGCONT);
        let lines = lines_until(&mut other, "the peer responds again after");
        let expected = |line: &Value| match line["event"].as_str() {
            Some("interval") => true,
            event => event == Some("notification") && !line.to_string().contains("no packet"),
        };
        let (_, before) = lines.split_last().unwrap();
        assert!(before.iter().all(expected), "{silent}: {lines:?}");
        let intervals = before.iter().filter(|line| line["event"] == "interval");
        assert!(intervals.count() > 0, "{silent}: {lines:?}");
    }
}

/// Each association of a client has an endpoint; all of them write the same event log and capture.
#[test]
fn parallel_associations_share_the_files() {
    let name = |what: &str| {
        let name = format!("carrick-parallel-{what}-{}", std::process::id());
        std::env::temp_dir().join(name).to_str().unwrap().to_owned()
    };
    let [log, capture] = ["log", "capture"].map(name);
    let server = server(&["127.0.0.1"], &["--once"]);
    let files = ["--event-log", &log, "--capture", &capture];
    let load = ["-P", "2", "-n", "1000", "-s", "1000"];
    let client = client("127.0.0.1", &server, &[&load[..], &files].concat());
    assert_eq!(client.code, Some(0), "{client:?}");
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(text.matches("\"schema\"").count(), 1, "{text}");
    for trace in ["\"trace\":\"0-", "\"trace\":\"1-"] {
        assert!(text.contains(trace), "{text}");
    }
    // A section header of pcapng, and the data of both.
    let packets = std::fs::read(&capture).unwrap();
    assert_eq!(packets[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(packets.len() > 2 * 1000, "{}", packets.len());
    for file in [log, capture] {
        std::fs::remove_file(file).unwrap();
    }
}

/// A client that only receives has no data whose retransmission would show the end. What it has received is reported.
#[test]
fn a_receiver_notices_the_end_of_its_server() {
    let mut server = server(&["127.0.0.1"], &["--once"]);
    let client = ["perf", "client", "127.0.0.1", "--json", "-t", "60", "-R"];
    let late = ["--hb-interval", "24h", "--peer-udp-port", &server.udp_port];
    let mut client = start(&[&client[..], &late].concat());
    while client.json_line()["event"] != "interval" {}
    server.running.kill();
    let client = client.finish();
    assert_eq!(client.code, Some(1), "{client:?}");
    let partial = &events(&client, "interrupted")[0];
    let received: u64 = intervals(&client, "received").iter().sum();
    assert!(partial["received"]["bytes"].as_u64().unwrap() >= received);
    let failed = &events(&client, "failed")[0]["reason"];
    assert!(
        client.errors.contains(failed.as_str().unwrap()),
        "{client:?}"
    );
}

/// Each association reports what it has transferred, and the sum follows.
#[test]
fn all_associations_report_the_end_of_their_server() {
    let mut server = server(&["127.0.0.1"], &[]);
    let client = [
        "perf",
        "client",
        "127.0.0.1",
        "--json",
        "-t",
        "60",
        "-P",
        "3",
        "-b",
        "8M",
    ];
    let mut client = start(&[&client[..], &["--peer-udp-port", &server.udp_port]].concat());
    while client.json_line()["event"] != "interval_sum" {}
    server.running.kill();
    let client = client.finish();
    assert_eq!(client.code, Some(1), "{client:?}");
    for event in ["interrupted", "failed"] {
        let mut tests: Vec<_> = events(&client, event)
            .iter()
            .map(|e| e["test"].as_u64())
            .collect();
        tests.sort_unstable();
        assert_eq!(tests, [Some(1), Some(2), Some(3)], "{event}");
    }
    let sum = &events(&client, "interrupted_sum")[0];
    assert_ne!(sum["sent"]["bytes"], 0, "{sum}");
    assert_ne!(sum["cost"]["packets_sent"], 0, "{sum}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_with_once_ignores_strays() {
    let mut server = server(&["127.0.0.1"], &["--once"]);
    let (stray, input) = control_messages(&server, &["no request".into()]);
    assert_eq!(server.running.json_line()["event"], "failed");
    drop(input);
    stray.finish();
    let client = client("127.0.0.1", &server, &["-n", "1"]);
    assert_eq!(client.code, Some(0), "{client:?}");
    assert_eq!(server.running.finish().code, Some(0));
}

/// A peer that vanishes ends the measurement with an error.
#[test]
fn a_vanished_peer_ends_the_measurement() {
    let times = [
        "--rto-min",
        "1s",
        "--rto-max",
        "1s",
        "--hb-interval",
        "100ms",
    ];
    let retransmissions = ["--association-max-retrans", "2", "--path-max-retrans", "2"];
    for vanishes in ["server", "client"] {
        let (server, client) = measuring(&[&times[..], &retransmissions].concat());
        let (vanished, other) = match vanishes {
            "server" => (server, client),
            _ => (client, server),
        };
        vanished.signal(Signal::SIGSTOP);
        let other = other.finish();
        assert_eq!(other.code, Some(1), "{other:?}");
        let error = "the peer no longer answers on any of its addresses";
        assert!(other.errors.contains(error), "{other:?}");
        drop(vanished);
    }
}

/// The path that carries the data is cut: no message is lost, and the interval in which another path takes over is
/// marked.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "needs root"]
fn a_failover_is_marked_in_its_interval() {
    let hosts = Hosts::new();
    let far = ["--bind", "10.78.0.2", "--bind", "10.78.1.2"];
    let server = ["perf", "server", "--once", "--json"];
    let mut server = start_on(&hosts.far, &[&server[..], &far].concat());
    assert_eq!(server.json_line()["event"], "listening");
    let client = ["perf", "client", "10.78.0.2,10.78.1.2", "--json"];
    let load = ["-t", "8", "-b", "1M", "-s", "1000", "-i", "0.5"];
    let near = ["--bind", "10.78.0.1", "--bind", "10.78.1.1"];
    let mut client = start_on(&hosts.near, &[&client[..], &load, &near].concat());
    let mut first = Value::Null;
    while first["event"] != "interval" {
        first = client.json_line();
    }
    assert_eq!(first["path"], "10.78.0.2", "{first}");
    hosts.cut(0);
    let client = client.finish();
    let server = server.finish();
    assert!(hosts.lost() > 0);
    let result = summary(&client);
    let more: u64 = intervals(&client, "sent").iter().sum();
    let sent = first["sent"]["bytes"].as_u64().unwrap() + more;
    assert_eq!(bytes(&result, "to_server"), Some(sent), "{result}");
    let lines = events(&client, "interval");
    let changes = lines.iter().map(|i| i["path_changes"].as_u64().unwrap());
    let mut notified = events(&client, "notification");
    notified.retain(|line| line["kind"] == "current-changed");
    assert_eq!(changes.sum::<u64>(), notified.len() as u64);
    let marked = lines.iter().find(|i| i["path_changes"] == 1).unwrap();
    assert_eq!(marked["path"], "10.78.1.2", "{marked}");
    println!(
        "measured: longest interruption {} s, delay {}",
        result["to_server"]["longest_interruption"], result["to_server"]["delay"]
    );
    assert_eq!(summary(&server), result);
}
