//! `carrick run` and `carrick daemon`: unmodified programs on Carrick's sockets, over loopback. The C
//! program has one check for each test; without a C compiler the tests pass with a message.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::Pid;

use crate::support::{Finished, Running, start, start_with};

/// Builds the preload library and the C program, once. `None` without a C compiler.
pub(crate) fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    build_library();
    compile("cc", &[], "carrick-sockets-checks")
}

/// Compiles the C program with options of the compiler. `None` without the compiler.
pub(crate) fn compile(compiler: &str, options: &[&str], name: &str) -> Option<PathBuf> {
    let program = directory().join(name);
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/command/programs/sockets.c"
    );
    let compiled = Command::new(compiler)
        .args(["-O1", "-Wall", "-Werror"])
        .args(options)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "{source} does not compile"),
        Err(error) => {
            println!("skipped: no C compiler {compiler}: {error}");
            return None;
        }
    }
    Some(program)
}

/// Returns the directory of the built program.
pub(crate) fn directory() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_carrick")).parent().unwrap()
}

/// Builds the preload library.
pub(crate) fn build_library() {
    build_package("carrick-preload");
}

/// A test does not depend on a library for other languages, so it is built here, in the same profile, unless
/// `CARRICK_LIBRARIES_BUILT` states that the whole workspace is built: a package alone has other features of its
/// dependencies, which would be compiled again.
pub(crate) fn build_package(name: &str) {
    if std::env::var_os("CARRICK_LIBRARIES_BUILT").is_some() {
        return;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--quiet", "-p", name]);
    cargo.args([
        "--manifest-path",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
    ]);
    cargo.arg("--target-dir").arg(directory().parent().unwrap());
    if directory().ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success());
}

/// Runs a check of the C program with a daemon for it alone.
pub(crate) fn check(name: &str) {
    check_on(&["127.0.0.1"], name);
}

/// Runs a check with a daemon of these addresses.
fn check_on(addresses: &[&str], name: &str) {
    if let Some(program) = program() {
        succeeds(addresses, &[program.to_str().unwrap(), name]);
    }
}

/// Runs a check with options of `carrick run`.
pub(crate) fn run_check(options: &[&str], program: &Path, name: &str) {
    let program = [options, &["--", program.to_str().unwrap(), name]].concat();
    runs(&["127.0.0.1"], &program);
}

/// Runs a program with a daemon for it alone, and returns what it has written to standard error.
fn succeeds(addresses: &[&str], program: &[&str]) -> String {
    runs(addresses, &[&["--"], program].concat())
}

/// Runs a program, after options of `carrick run` and `--`.
fn runs(addresses: &[&str], program: &[&str]) -> String {
    let port = free_port().to_string();
    let mut arguments = vec!["run", "--udp-port", &port];
    for address in addresses {
        arguments.extend(["--bind", address]);
    }
    arguments.extend(program);
    let finished = crate::support::run(&arguments);
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    finished.errors
}

/// Returns a UDP port that was free on the loopback address just now.
pub(crate) fn free_port() -> u16 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

#[test]
fn messages_are_echoed_by_a_forked_server() {
    check("echo");
}

#[test]
fn large_messages_are_read_in_parts() {
    check("parts");
}

#[test]
fn a_message_that_fits_is_read_by_one_call() {
    check("whole");
}

#[test]
fn two_processes_share_an_association() {
    check("shared");
}

#[test]
fn a_refused_connect_can_be_repeated() {
    check("refused");
}

#[test]
fn exec_keeps_an_association() {
    check("exec");
}

/// `EMFILE` of Linux's `accept(2)`
#[test]
fn accept_without_room_loses_no_association() {
    check("crammed");
}

#[test]
fn malformed_frames_end_the_descriptor() {
    check("garbage");
}

#[test]
fn system_calls_by_number_reach_carrick() {
    check("syscalls");
}

#[test]
fn other_names_of_functions_reach_carrick() {
    check("names");
}

#[test]
fn a_file_is_sent_in_messages() {
    check("file");
}

#[test]
fn a_passed_descriptor_is_recognised() {
    check("passed");
}

#[test]
fn dup2_over_a_descriptor_ends_its_association() {
    check("replaced");
}

/// RFC 6458, sections 4.1.2 and 9.1; RFC 5061, section 5.3
#[test]
fn addresses_are_mapped_listed_added_and_removed() {
    check_on(&["127.0.0.1", "127.0.0.2", "::1"], "addresses");
}

#[test]
fn errors_are_those_of_linux() {
    check("errors");
}

/// Runs the check of `CARRICK_SOCKETS` with a value, and returns what it has written to standard error.
fn selected(value: &str) -> String {
    let Some(program) = program() else {
        return String::new();
    };
    let variable = format!("CARRICK_SOCKETS={value}");
    let command = ["env", &variable, program.to_str().unwrap(), "selection"];
    succeeds(&["127.0.0.1"], &command)
}

#[test]
fn no_socket_is_carricks_if_never_is_selected() {
    assert_eq!(selected("never"), "");
}

#[test]
fn missing_selects_what_the_kernel_does_not_have() {
    assert_eq!(selected("missing"), "");
}

#[test]
fn an_unknown_selection_is_reported_once() {
    let errors = selected("sometimes");
    let begin = "carrick: CARRICK_SOCKETS is neither always, missing nor never, but \"sometimes\"";
    assert!(program().is_none() || errors.starts_with(begin), "{errors}");
    assert!(errors.lines().count() <= 1, "{errors}");
}

#[test]
fn each_message_is_an_edge() {
    check("edges");
}

#[test]
fn blocking_calls_end_by_time_and_signal() {
    check("times");
}

/// RFC 6458, sections 5.3.2 and 6.1.5
#[test]
fn ancillary_data_and_notifications_arrive() {
    check("attributes");
}

/// RFC 6458, sections 8.1.11 and 8.1.31
#[test]
fn refused_messages_are_errors_of_their_call() {
    check("refusals");
}

/// RFC 6458, section 6.1.1
#[test]
fn the_end_of_an_association_is_notified() {
    check("last");
}

#[test]
fn a_full_send_buffer_blocks_until_the_peer_reads() {
    check("pressure");
}

#[test]
fn duplicates_are_descriptors_of_the_socket() {
    check("duplicates");
}

#[test]
fn signals_lose_no_message() {
    check("interrupted");
}

#[test]
fn closed_sockets_leave_nothing() {
    check("leak");
}

#[test]
fn the_association_of_a_killed_program_ends() {
    check("killed");
}

/// RFC 6458, sections 3 and 9.2
#[test]
fn one_to_many_sockets_have_many_peers() {
    check("many");
}

#[test]
fn one_to_many_messages_may_be_large() {
    check("large");
}

/// RFC 6458, section 9.2
#[test]
fn unread_messages_of_a_branch_go_with_it() {
    check("branched");
}

#[test]
fn a_killed_daemon_resets_associations() {
    let Some(program) = program() else {
        return;
    };
    let mut served = Served::start("killed");
    let mut running = served.start_program(&[program.to_str().unwrap(), "orphaned"]);
    running.json_line();
    served.daemon.kill();
    let finished = running.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    std::fs::remove_file(&served.socket).unwrap();
}

#[test]
fn the_sockets_of_programs_are_listed() {
    let Some(program) = program() else {
        return;
    };
    let mut served = Served::start("list");
    let mut running = served.start_program(&[program.to_str().unwrap(), "orphaned"]);
    running.json_line();
    let list = |options: &[&str]| {
        let command = ["ss", "--daemon", &served.socket];
        let listed = crate::support::run(&[&command, options].concat());
        assert_eq!(listed.code, Some(0), "{}", listed.errors);
        let out = String::from_utf8(listed.out).unwrap();
        out.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    let count =
        |lines: &[String], begin: &str| lines.iter().filter(|l| l.starts_with(begin)).count();
    let associations = list(&["--info"]);
    assert_eq!(count(&associations, "ESTAB"), 2, "{associations:#?}");
    assert_eq!(
        count(
            &associations,
            "    127.0.0.1 -> 127.0.0.1 primary active udp:"
        ),
        2
    );
    assert_eq!(list(&["-l"]).len(), 1, "the titles");
    assert_eq!(list(&["-a"]).len(), 3);
    let table = list(&["--proc", "assocs"]);
    assert_eq!(count(&table, "0000000"), 2, "{table:#?}");
    assert!(table[1].contains("<-> *127.0.0.1 \t"), "{table:#?}");
    assert_eq!(list(&["--proc", "remaddr"]).len(), 3);
    assert_eq!(list(&["--proc", "eps"]).len(), 1, "the titles");
    assert_eq!(list(&["-a", "--json"]).len(), 2);
    let details = list(&["-S", "-n", "-e", "-p", "-m"]);
    let words = ["users:((\"", "pid=", "uid:", "ino:", "skmem:(r", "rb", "tb"];
    for line in &details[1..] {
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
    for line in list(&["-a", "--json"]) {
        let row: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(
            row["local"][0].as_str().unwrap().starts_with("127.0.0.1:"),
            "{line}"
        );
    }
    served.daemon.kill();
    running.finish();
    std::fs::remove_file(&served.socket).unwrap();
    let refused = crate::support::run(&["ss", "--daemon", &served.socket]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.errors.contains("carrick daemon"),
        "{}",
        refused.errors
    );
}

/// Programs that use one daemon.
pub(crate) struct Served {
    pub(crate) daemon: Running,
    pub(crate) socket: String,
    /// UDP port.
    pub(crate) port: String,
}

impl Served {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_limited(name, 1024)
    }

    /// Starts a daemon with a limit of file descriptors.
    pub(crate) fn start_limited(name: &str, descriptors: u32) -> Self {
        Self::start_with_options(name, descriptors, &[])
    }

    /// Starts a daemon with a limit of file descriptors and further options.
    pub(crate) fn start_with_options(name: &str, descriptors: u32, options: &[&str]) -> Self {
        build_library();
        let socket = directory().join(format!("carrick-test-{name}-{}", std::process::id()));
        let socket = socket.to_str().unwrap().to_owned();
        let port = free_port().to_string();
        let mut daemon = start_with(
            "sh",
            &[
                &[
                    "-c",
                    "ulimit -n \"$1\"; shift; exec \"$@\"",
                    "sh",
                    &descriptors.to_string(),
                    env!("CARGO_BIN_EXE_carrick"),
                    "daemon",
                    "--socket",
                    &socket,
                    "--udp-port",
                    &port,
                    "--bind",
                    "127.0.0.1",
                ],
                options,
            ]
            .concat(),
        );
        let line = daemon.error_line();
        assert!(line.contains(&format!("UDP port {port}")), "{line}");
        Self {
            daemon,
            socket,
            port,
        }
    }

    pub(crate) fn start_program(&self, arguments: &[&str]) -> Running {
        let mut all = vec!["run", "--daemon", &self.socket, "--"];
        all.extend(arguments);
        start(&all)
    }

    pub(crate) fn end(self) -> Finished {
        self.daemon.interrupt();
        self.daemon.finish()
    }
}

#[test]
fn a_daemon_without_file_descriptors_recovers() {
    use std::os::fd::AsRawFd;

    let Some(program) = program() else {
        return;
    };
    let mut served = Served::start_limited("descriptors", 40);
    let address = UnixAddr::new(Path::new(&served.socket)).unwrap();
    let clients: Vec<_> = (0..60)
        .map(|_| {
            let kind = SockType::SeqPacket;
            let client = socket(AddressFamily::Unix, kind, SockFlag::empty(), None).unwrap();
            connect(client.as_raw_fd(), &address).unwrap();
            client
        })
        .collect();
    let line = served.daemon.error_line();
    assert!(
        line.contains("warn carrick: a program of user") && line.contains("ulimit -n"),
        "{line}"
    );
    drop(clients);
    let mut tries = 0;
    loop {
        let program = served.start_program(&[program.to_str().unwrap(), "echo"]);
        let finished = program.finish();
        if finished.code == Some(0) {
            break;
        }
        // Refused while the daemon has not seen yet that the clients are gone.
        let refused = finished.errors.contains("Protocol not supported");
        tries += 1;
        assert!(refused && tries < 10, "{}", finished.errors);
    }
    let errors = served.end().errors;
    assert!(errors.lines().count() < 20 + tries, "{errors}");
}

#[test]
fn each_signal_ends_a_daemon() {
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM] {
        let served = Served::start("signal");
        served.daemon.signal(signal);
        let finished = served.daemon.finish();
        assert_eq!(finished.code, Some(0), "{signal}: {}", finished.errors);
        assert!(!Path::new(&served.socket).exists(), "{signal}");
    }
}

#[test]
fn a_taken_udp_port_names_the_options_of_a_daemon() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let network = ["--udp-port", &port, "--bind", "127.0.0.1"];
    let free = directory().join(format!("carrick-test-taken-{}", std::process::id()));
    let daemon = ["daemon", "--socket", free.to_str().unwrap()];
    build_library();
    for arguments in [
        [&daemon[..], &network[..]].concat(),
        [&["run"][..], &network[..], &["--", "true"][..]].concat(),
    ] {
        let finished = crate::support::run(&arguments);
        finished.assert_failed(1, "--udp-port N here and --peer-udp-port N at the peer");
    }
}

#[test]
fn the_exit_code_is_that_of_the_program() {
    let served = Served::start("exit");
    for (script, code) in [("exit 7", Some(7)), ("kill -TERM $$", None)] {
        let finished = served.start_program(&["sh", "-c", script]).finish();
        assert_eq!(finished.code, code, "{}", finished.errors);
    }
    served.end();
    let port = free_port().to_string();
    for (script, code) in [("exit 7", 7), ("kill -TERM $$", 143)] {
        let finished = crate::support::run(&[
            "run",
            "--udp-port",
            &port,
            "--bind",
            "127.0.0.1",
            "--",
            "sh",
            "-c",
            script,
        ]);
        assert_eq!(finished.code, Some(code), "{}", finished.errors);
    }
}

#[test]
fn without_a_daemon_the_reason_is_reported() {
    build_library();
    let finished = crate::support::run(&["run", "--daemon", "/nonexistent/socket", "--", "true"]);
    assert_eq!(finished.code, Some(1));
    assert!(
        finished
            .errors
            .contains("no daemon answers on /nonexistent/socket"),
        "{}",
        finished.errors
    );
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
    let finished = client.finish();
    let out = String::from_utf8(finished.out).unwrap();
    assert_eq!(
        finished.code,
        Some(0),
        "{options:?}: {out} {}",
        finished.errors
    );
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let received = report["end"]["sum_received"]["bytes"].as_u64().unwrap();
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
struct Hosts {
    names: [String; 2],
}

impl Hosts {
    fn new() -> Self {
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
    fn start(&self, host: usize, options: &[&str], program: &[&str]) -> Running {
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
        let finished = hosts.start(1, options, &client).finish();
        let out = String::from_utf8(finished.out).unwrap();
        assert_eq!(
            finished.code,
            Some(0),
            "{options:?}: {out} {}",
            finished.errors
        );
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        let received = report["end"]["sum_received"]["bytes"].as_u64().unwrap();
        assert!(received > 1_000_000, "{options:?}: {received} bytes");
        assert_eq!(server.finish().code, Some(0));
    }
}

/// 1,000 sockets of 50 processes, opened, used, forked and closed in random order: neither a descriptor nor an
/// association is left. `CARRICK_CHURN_ROUNDS` rounds of 10 s (1, in the long run 60).
#[test]
#[ignore = "needs python3"]
fn a_thousand_sockets_leave_nothing() {
    const CHURN: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/command/programs/churn.py"
    );
    let served = Served::start_limited("churn", 4096);
    let descriptors = || {
        let list = std::fs::read_dir(format!("/proc/{}/fd", served.daemon.id()));
        list.unwrap().count()
    };
    let listed = || {
        let finished = crate::support::run(&["ss", "--daemon", &served.socket, "-a", "--json"]);
        assert_eq!(finished.code, Some(0), "{}", finished.errors);
        String::from_utf8(finished.out).unwrap()
    };
    // The connection of the last request may still be open just after it.
    let pause = || std::thread::sleep(std::time::Duration::from_millis(500));
    // A complete exchange, so that the daemon has started.
    assert_eq!(listed(), "");
    pause();
    let before = descriptors();
    // A peer that was killed in the middle of a shutdown is noticed by Association.Max.Retrans.
    let limit = std::time::Duration::from_secs(120);
    let rounds = std::env::var("CARRICK_CHURN_ROUNDS").map_or(1, |text| text.parse().unwrap());
    for round in 1..=rounds {
        let program = served.start_program(&["python3", CHURN, "10", &round.to_string()]);
        let finished = program.finish();
        assert_eq!(finished.code, Some(0), "round {round}: {}", finished.errors);
        let begin = std::time::Instant::now();
        loop {
            pause();
            let (open, left) = (descriptors(), listed());
            if open <= before && left.is_empty() {
                break;
            }
            assert!(
                begin.elapsed() < limit,
                "round {round}: {open} of {before} descriptors, and sockets:\n{left}"
            );
        }
    }
    served.end();
}

/// docs/containers.md: the example files have options that exist, and the toolchain of Cargo.toml.
#[test]
fn commands_of_container_examples_are_valid() {
    let dockerfile = include_str!("../../../../docs/examples/container/Dockerfile");
    let files = [
        dockerfile,
        include_str!("../../../../docs/examples/container/compose.yaml"),
        include_str!("../../../../docs/examples/container/pod.yaml"),
    ];
    let mut commands = 0;
    for line in files.iter().flat_map(|file| file.lines()) {
        let list = line
            .split_once('[')
            .and_then(|(_, list)| list.split_once(']'));
        let words = list.map_or("", |(list, _)| list).split(',');
        let words: Vec<&str> = words.map(|word| word.trim_matches([' ', '"'])).collect();
        if !words[0].ends_with("/carrick") {
            continue;
        }
        let options = words[1..].iter().take_while(|word| **word != "--").copied();
        let arguments: Vec<&str> = options.chain(["--help"]).collect();
        let finished = crate::support::run(&arguments);
        assert_eq!(finished.code, Some(0), "{line}: {}", finished.errors);
        commands += 1;
    }
    assert_eq!(commands, 3);
    let toolchain = concat!("FROM rust:", env!("CARGO_PKG_RUST_VERSION"), "-");
    assert!(dockerfile.contains(toolchain), "{toolchain}");
}

/// Files that every user can read, as in an image. Removed when dropped.
struct Image(PathBuf);

impl Image {
    fn new() -> Self {
        build_library();
        let image =
            Self(std::env::temp_dir().join(format!("carrick-image-{}", std::process::id())));
        std::fs::create_dir(&image.0).unwrap();
        for file in ["carrick", "libcarrick_preload.so"] {
            std::fs::copy(directory().join(file), image.0.join(file)).unwrap();
        }
        image
    }

    /// Starts a program as the first process of a container without capabilities, of an unprivileged user.
    fn start(&self, network: &str, program: &[&str]) -> Running {
        let carrick = self.0.join("carrick");
        let namespaces = ["--pid", "--fork", "--mount-proc"];
        let rights = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        let capabilities = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];
        let mut arguments = vec!["netns", "exec", network, "unshare"];
        arguments.extend(namespaces);
        arguments.push("setpriv");
        arguments.extend(rights);
        arguments.extend(capabilities);
        arguments.extend([carrick.to_str().unwrap(), "run", "--"]);
        arguments.extend(program);
        start_with("ip", &arguments)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
#[ignore = "needs root"]
fn ports_of_root_are_refused_to_other_users() {
    let Some(program) = program() else {
        return;
    };
    let image = Image::new();
    let check = image.0.join("checks");
    std::fs::copy(program, &check).unwrap();
    let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let port = free_port().to_string();
    let carrick = image.0.join("carrick");
    let run = ["run", "--udp-port", &port, "--bind", "127.0.0.1", "--"];
    let command = [carrick.to_str().unwrap()];
    let program = [check.to_str().unwrap(), "privileged"];
    let arguments = [&user[..], &command, &run, &program].concat();
    let finished = start_with("setpriv", &arguments).finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
}

/// docs/containers.md: no capability is needed, and a container that was killed starts again.
#[test]
#[ignore = "needs root and iperf3 (interop/install.sh)"]
fn iperf3_runs_in_containers() {
    let (image, hosts) = (Image::new(), Hosts::new());
    let [a, b] = &hosts.names;
    let mut killed = image.start(a, &["sh", "-c", "echo '{}'; sleep 60"]);
    killed.json_line();
    let unshare = killed.id();
    let first = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"));
    let first = Pid::from_raw(first.unwrap().trim().parse().unwrap());
    kill(first, Signal::SIGKILL).unwrap();
    killed.finish_unread();
    let server = image.start(a, &["iperf3", "-s", "-1"]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let client = ["iperf3", "--sctp", "-c", "192.0.2.1", "-t", "2", "-J"];
    let finished = image.start(b, &client).finish();
    let out = String::from_utf8(finished.out).unwrap();
    assert_eq!(finished.code, Some(0), "{out} {}", finished.errors);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let received = report["end"]["sum_received"]["bytes"].as_u64().unwrap();
    assert!(received > 1_000_000, "{received} bytes");
    assert_eq!(server.finish().code, Some(0));
}
