//! iperf3 of Debian on Carrick's sockets.

use std::process::Command;

use crate::socket_programs::{Served, build_library, free_port};
use crate::support::{Finished, Running};

/// Returns the bytes that the server of iperf3 has received, from the report of the client.
fn received(client: Finished, options: &[&str]) -> u64 {
    let out = String::from_utf8(client.out).unwrap();
    assert_eq!(client.code, Some(0), "{options:?}: {out} {}", client.errors);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    report["end"]["sum_received"]["bytes"].as_u64().unwrap()
}

/// Runs iperf3 of the Debian package in both roles over loopback, with these options of the client. Returns what was
/// received, in bytes, and the rows of the associations that were listed meanwhile.
fn iperf3(name: &str, options: &[&str]) -> (u64, Vec<serde_json::Value>) {
    let served = Served::start(name);
    let port = free_port().to_string();
    let mut server = served.start_program(&[
        "iperf3",
        "-s",
        "--forceflush",
        "-p",
        &port,
        "-B",
        "127.0.0.1",
        "-1",
    ]);
    server.wait_for_output("Server listening");
    let client = [
        "iperf3",
        "--sctp",
        "-c",
        "127.0.0.1",
        "-p",
        &port,
        "-t",
        "2",
        "-J",
    ];
    let mut client = served.start_program(&[&client[..], options].concat());
    let mut rows = Vec::new();
    // The data association of the client has other streams than the control association, which is TCP.
    while rows.is_empty() && !client.has_ended() {
        let listed = crate::support::run(&["ss", "--daemon", &served.socket, "--json"]);
        let lines = String::from_utf8(listed.out).unwrap();
        let all = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        rows = all
            .filter(|row: &serde_json::Value| row["state"] == "Established")
            .collect();
    }
    let received = received(client.finish(), options);
    assert_eq!(server.finish().code, Some(0));
    served.end();
    (received, rows)
}

#[test]
#[ignore = "needs iperf3 (interop/install.sh)"]
fn iperf3_runs_unchanged() {
    let (received, _) = iperf3("iperf3", &[]);
    assert!(received > 1_000_000, "{received} bytes");
}

#[test]
#[ignore = "needs iperf3 (interop/install.sh)"]
fn iperf3_runs_in_reverse() {
    let (received, _) = iperf3("iperf3-reverse", &["-R"]);
    assert!(received > 1_000_000, "{received} bytes");
}

/// iperf3 3.12 takes the number of `--nstreams` for the rate as well.
#[test]
#[ignore = "needs iperf3 (interop/install.sh)"]
fn iperf3_runs_with_streams() {
    let (received, rows) = iperf3("iperf3-streams", &["--nstreams", "7", "-b", "0"]);
    assert!(received > 1_000_000, "{received} bytes");
    let has_streams = |row: &serde_json::Value| row["stats"]["outbound_streams"] == 7;
    assert!(rows.iter().any(has_streams), "{rows:#?}");
}

/// `SO_SNDBUF` and `SO_RCVBUF`, which Linux doubles
#[test]
#[ignore = "needs iperf3 (interop/install.sh)"]
fn iperf3_runs_with_buffers_of_a_size() {
    let (received, rows) = iperf3("iperf3-buffers", &["-w", "100K"]);
    assert!(received > 1_000_000, "{received} bytes");
    let has_size = |row: &serde_json::Value| {
        let setting = |name: &str| row["settings"][name].as_u64().unwrap();
        setting("send_buffer") == 204_800 && setting("receive_buffer") == 204_800
    };
    assert!(rows.iter().any(has_size), "{rows:#?}");
}

/// Two hosts: network namespaces that a pair of interfaces connects. Removed when dropped.
pub(crate) struct Hosts {
    pub(crate) names: [String; 2],
}

impl Hosts {
    pub(crate) fn new() -> Self {
        let id = std::process::id();
        let hosts = Self {
            names: ["a", "b"].map(|side| format!("carrick-{side}-{id}")),
        };
        let [a, b] = &hosts.names;
        ip(&["netns", "add", a]);
        ip(&["netns", "add", b]);
        ip(&[
            "link", "add", "veth0", "netns", a, "type", "veth", "peer", "name", "veth0", "netns", b,
        ]);
        for (name, address) in [(a, "192.0.2.1/24"), (b, "192.0.2.2/24")] {
            ip(&["-n", name, "address", "add", address, "dev", "veth0"]);
            ip(&["-n", name, "link", "set", "veth0", "up"]);
            ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        hosts
    }

    /// Starts a program with a daemon for it alone on one of the hosts.
    pub(crate) fn start(&self, host: usize, options: &[&str], program: &[&str]) -> Running {
        let carrick = env!("CARGO_BIN_EXE_carrick");
        let mut arguments = vec!["netns", "exec", &self.names[host], carrick, "run"];
        arguments.extend(options);
        arguments.push("--");
        arguments.extend(program);
        crate::support::start_with("ip", &arguments)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().unwrap();
    assert!(status.success(), "ip {arguments:?}");
}

/// iperf3 between two hosts, each with a daemon, in UDP and on plain IP.
#[test]
#[ignore = "needs root and iperf3 (interop/install.sh)"]
fn iperf3_runs_between_hosts() {
    build_library();
    let hosts = Hosts::new();
    for options in [&[][..], &["--raw"][..]] {
        let server = hosts.start(0, options, &["iperf3", "-s", "-1"]);
        std::thread::sleep(std::time::Duration::from_millis(500));
        let client = ["iperf3", "--sctp", "-c", "192.0.2.1", "-t", "2", "-J"];
        let client = hosts.start(1, options, &client).finish();
        let received = received(client, options);
        assert!(received > 1_000_000, "{options:?}: {received} bytes");
        assert_eq!(server.finish().code, Some(0));
    }
}

/// Two terminals of one host, without a daemon and without an option: the second program has another UDP port, and
/// reaches the first at 9899.
#[test]
#[ignore = "needs root and iperf3 (interop/install.sh)"]
fn two_runs_on_one_host_reach_each_other() {
    build_library();
    let hosts = Hosts::new();
    for peer in ["127.0.0.1", "192.0.2.1"] {
        let mut server = hosts.start(0, &[], &["iperf3", "-s", "--forceflush", "-1"]);
        server.wait_for_output("Server listening");
        let client = ["iperf3", "--sctp", "-c", peer, "-t", "1", "-J"];
        let client = hosts.start(0, &[], &client).finish();
        let notice = "another program of this host has UDP port 9899";
        assert!(client.errors.contains(notice), "{}", client.errors);
        let received = received(client, &[peer]);
        assert!(received > 1_000_000, "{peer}: {received} bytes");
        assert_eq!(server.finish().code, Some(0));
    }
}
