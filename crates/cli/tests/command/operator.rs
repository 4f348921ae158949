//! A path or a daemon that fails, as an operator sees it: `carrick ss`, log and metrics of the daemon, `carrick cat`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::paths::{Hosts, start_on};
use crate::support::{Finished, Running, free_udp_port, run, start, start_with};

/// Server of unmodified programs: it reads the messages of one association.
const SERVER: &str = "
import socket
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
listener.bind(('0.0.0.0', 5000))
listener.listen()
print('listening', flush=True)
peer, _ = listener.accept()
while peer.recv(65536):
    pass
";

/// Client that sends a message each 100 ms until its input ends.
const CLIENT: &str = "
import select, socket, sys
peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
peer.connect(('10.78.0.2', 5000))
print('connected', flush=True)
while not select.select([sys.stdin], [], [], 0.1)[0]:
    peer.send(b'message')
";

/// Client that sends a message when its input ends, and reads.
const WAITING_CLIENT: &str = "
import socket, sys
peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
peer.connect(('10.78.0.2', 5000))
print('connected', flush=True)
sys.stdin.read()
peer.send(b'message')
peer.recv(65536)
";

/// Time within which anything happens. A path has its first timeout after a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Daemon in a network namespace.
struct Host {
    name: String,
    daemon: Running,
    socket: String,
}

impl Host {
    fn start(name: &str, options: &[&str]) -> Self {
        let socket = std::env::temp_dir().join(format!("carrick-{name}"));
        let socket = socket.to_str().unwrap().to_owned();
        let arguments = ["daemon", "--socket", &socket];
        let mut daemon = start_on(name, &[&arguments[..], options].concat());
        assert!(daemon.error_line().contains("serving"));
        Self {
            name: name.to_owned(),
            daemon,
            socket,
        }
    }

    fn start_program(&self, program: &str) -> Running {
        let carrick = env!("CARGO_BIN_EXE_carrick");
        let line = ["netns", "exec", &self.name, carrick, "run", "--daemon"];
        let program = [&self.socket, "--", "python3", "-c", program];
        start_with("ip", &[&line[..], &program].concat())
    }

    /// Returns the lines of `carrick ss` after the titles.
    fn list(&self, options: &[&str]) -> Vec<String> {
        let listed = run(&[&["ss", "--daemon", &self.socket], options].concat());
        assert_eq!(listed.code, Some(0), "{}", listed.errors);
        let out = String::from_utf8(listed.out).unwrap();
        out.lines().map(str::to_owned).collect()
    }

    /// Reads the log up to a line with these words, and returns the line.
    fn logged(&mut self, words: &str) -> String {
        self.daemon.error_line_with(words)
    }
}

fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the metrics of the daemon that logged this line with their address.
fn metrics(host: &str, line: &str) -> String {
    let (_, address) = line.trim_end().split_once("metrics ").unwrap();
    let read =
        "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())";
    let program = ["netns", "exec", host, "python3", "-c", read, address];
    let done = Command::new("ip").args(program).output().unwrap();
    String::from_utf8(done.stdout).unwrap()
}

/// RFC 7829: with the defaults a path is potentially failed after its first timeout, and programs are not
/// notified of it.
#[test]
#[ignore = "needs root"]
fn a_failing_path_is_shown_from_its_first_timeout() {
    crate::socket_programs::build_library();
    let hosts = Hosts::new();
    let far = Host::start(&hosts.far, &[]);
    let options = ["--metrics", "127.0.0.1:0", "--metrics-associations", "5"];
    let mut near = Host::start(&hosts.near, &options);
    let address = near.logged("metrics http");
    let mut server = far.start_program(SERVER);
    server.wait_for_output("listening");
    let bound = far.list(&["-l"]);
    assert!(bound[1].contains(" 0.0.0.0:5000 "), "{bound:#?}");
    let mut client = near.start_program(CLIENT);
    client.wait_for_output("connected");
    let line = near.logged("established by this host");
    let paths = ": path 10.78.0.1 -> 10.78.0.2, path 10.78.1.1 -> 10.78.1.2";
    assert!(line.trim_end().ends_with(paths), "{line}");
    let active = "    10.78.0.1 -> 10.78.0.2 primary current active errors:0 selected:10.78.0.1 ";
    let begins = |lines: &[String], begin: &str| lines.iter().any(|line| line.starts_with(begin));
    wait_for("a path that is confirmed", || {
        let lines = near.list(&["-i"]);
        let second = "    10.78.1.1 -> 10.78.1.2 active errors:0 selected:10.78.1.1 ";
        (begins(&lines, active) && begins(&lines, second)).then_some(())
    });
    let users = near.list(&["-p"]);
    assert!(users[1].contains("users:((\"python3\",pid="), "{users:#?}");
    let mut events = start(&["ss", "--daemon", &near.socket, "--events", "--json"]);
    let mut texts = start(&["ss", "--daemon", &near.socket, "-E"]);
    for reader in [&mut events, &mut texts] {
        assert!(reader.error_line().contains("events of the daemon on "));
    }
    hosts.cut(0);
    let event = events.json_line();
    assert_eq!(event["event"]["kind"], "potentially-failed");
    assert_eq!(event["event"]["path"]["destination"], "10.78.0.2");
    texts.wait_for_output("path 10.78.0.1 -> 10.78.0.2 is potentially failed: error count 1, ");
    let line = near.logged("is potentially failed");
    let words = "path 10.78.0.1 -> 10.78.0.2 is potentially failed: error count 1, ";
    assert!(line.contains(words), "{line}");
    let line = near.logged("carries new data");
    let words =
        "path 10.78.1.1 -> 10.78.1.2 carries new data, the primary path is 10.78.0.1 -> 10.78.0.2";
    assert!(line.trim_end().ends_with(words), "{line}");
    let lines = near.list(&["-i"]);
    let failing = "    10.78.0.1 -> 10.78.0.2 primary potentially-failed errors:";
    let other = "    10.78.1.1 -> 10.78.1.2 current active errors:0 ";
    assert!(
        begins(&lines, failing) && begins(&lines, other),
        "{lines:#?}"
    );
    let row: Value = serde_json::from_str(&near.list(&["--json"])[0]).unwrap();
    assert_eq!(row["paths"][0]["status"]["potentially_failed"], true);
    assert_eq!(row["paths"][0]["selected"], "10.78.0.1");
    assert_ne!(row["paths"][0]["error_count"], 0);
    assert_ne!(row["stats"]["primary"], row["stats"]["current"]);
    let top = ["top", "--daemon", &near.socket, "--count", "1"];
    let object = run(&[&top[..], &["--json"]].concat());
    let object: Value = serde_json::from_slice(&object.out).unwrap();
    let association = &object["associations"][0];
    assert_ne!(association["messages_sent"], 0.0, "of ten a second");
    let is_current = [false, true].map(Value::from);
    assert_eq!(association["paths"][0]["state"], "potentially failed");
    for (path, is_current) in is_current.iter().enumerate() {
        assert_eq!(&association["paths"][path]["is_current"], is_current);
    }
    let shown = String::from_utf8(run(&top).out).unwrap();
    let heading = "  2 paths of 1 association, 1 of them not active\n";
    assert!(shown.contains(heading), "{shown}");
    let text = metrics(&hosts.near, &address);
    for sample in [
        "carrick_sctp_paths{state=\"potentially-failed\"} 1\n",
        "carrick_sctp_path_events_total{event=\"potentially-failed\"} 1\n",
        ",peer=\"10.78.0.2:5000\",state=\"established\"} 1\n",
        "source=\"10.78.0.1\",selected_source=\"10.78.0.1\",state=\"potentially-failed\",primary=\"true\",current=\"false\"} 1\n",
    ] {
        assert!(text.contains(sample), "{sample} in\n{text}");
    }
    client.close_input();
    near.logged(": ended: SHUTDOWN COMPLETE");
    texts.wait_for_output(": ended: SHUTDOWN COMPLETE");
    texts.interrupt();
    assert_eq!(texts.finish().code, Some(0));
    assert_eq!(client.finish().code, Some(0));
    assert_eq!(server.finish().code, Some(0));
    for host in [near, far] {
        host.daemon.terminate();
        assert_eq!(host.daemon.finish().code, Some(0));
    }
    events.finish().assert_failed(1, "the daemon has ended");
}

/// RFC 9260, section 8.4, rule 8: the daemon of a server on plain IP is killed and started again. Its peers are
/// notified by the ABORT to their next packet, not by the end of their retransmissions.
#[test]
#[ignore = "needs root"]
fn a_restart_of_a_killed_daemon_resets_its_peers() {
    if Path::new("/proc/net/sctp").exists() {
        println!("skipped: the kernel has SCTP, and aborts associations on plain IP");
        return;
    }
    crate::socket_programs::build_library();
    let hosts = Hosts::new();
    let mut far = Host::start(&hosts.far, &["--raw"]);
    let mut near = Host::start(&hosts.near, &["--raw"]);
    let mut server = far.start_program(SERVER);
    server.wait_for_output("listening");
    let mut client = near.start_program(WAITING_CLIENT);
    client.wait_for_output("connected");
    let line = near.logged("established by this host");
    let paths = ": path 10.78.0.1 -> 10.78.0.2, path 10.78.1.1 -> 10.78.1.2";
    assert!(line.trim_end().ends_with(paths), "{line}");
    far.daemon.kill();
    let restarted = Host::start(&hosts.far, &["--raw"]);
    client.close_input();
    let line = near.logged(": ended: ");
    assert!(line.contains(": ended: ABORT received: "), "{line}");
    for program in [client, server] {
        let finished = program.finish();
        assert_eq!(finished.code, Some(1), "{}", finished.errors);
        let error = "ConnectionResetError: [Errno 104]";
        assert!(finished.errors.contains(error), "{}", finished.errors);
    }
    for host in [near, restarted] {
        host.daemon.terminate();
        assert_eq!(host.daemon.finish().code, Some(0));
    }
}

/// The lines of `cat -v` are those of the daemon's log.
#[test]
#[ignore = "needs root"]
fn cat_reports_a_path_that_fails() {
    let hosts = Hosts::new();
    let listen = ["cat", "--listen", "7", "--recv-only", "-v"];
    let mut server = start_on(&hosts.far, &listen);
    assert!(server.error_line().contains("listening on"));
    let connect = ["cat", "10.78.0.2,10.78.1.2", "7", "-v"];
    let times = [
        "--rto-initial",
        "200ms",
        "--rto-min",
        "200ms",
        "--rto-max",
        "200ms",
    ];
    let retransmissions = ["--path-max-retrans", "0"];
    let mut client = start_on(
        &hosts.near,
        &[&connect[..], &times, &retransmissions].concat(),
    );
    let mut input = client.input();
    assert!(client.error_line().starts_with("carrick: connected with "));
    std::io::Write::write_all(&mut input, b"first\n").unwrap();
    server.wait_for_output("first");
    hosts.cut(0);
    std::io::Write::write_all(&mut input, b"second\n").unwrap();
    server.wait_for_output("second");
    drop(input);
    let client = client.finish();
    assert_eq!(client.code, Some(0), "{client:?}");
    for line in [
        "carrick: path to 10.78.0.2 is inactive: error count 1, ",
        "carrick: path 10.78.1.1 -> 10.78.1.2 carries new data, the primary path is 10.78.0.1 -> 10.78.0.2\n",
        "carrick: ended: SHUTDOWN COMPLETE\n",
    ] {
        assert!(client.errors.contains(line), "{line} in\n{}", client.errors);
    }
}

#[test]
fn cat_reports_the_end_as_an_object() {
    let port = free_udp_port();
    let listen = ["cat", "--listen", "7", "--recv-only", "-v", "--json"];
    let network = ["--bind", "127.0.0.1", "--udp-port", &port];
    let mut listener = start(&[&listen[..], &network].concat());
    assert!(listener.error_line().contains("listening on"));
    let to = ["--peer-udp-port", &port, "--udp-port", "0"];
    let mut client = start(&[&["cat", "127.0.0.1", "7"], &to[..]].concat());
    client.close_input();
    assert_eq!(client.finish().code, Some(0));
    let Finished { code, errors, .. } = listener.finish();
    assert_eq!(code, Some(0), "{errors}");
    let objects: Vec<Value> = errors
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects[0]["kind"], "connected");
    let ended = objects.last().unwrap();
    assert_eq!(ended["kind"], "ended");
    assert_eq!(ended["text"], "ended: SHUTDOWN COMPLETE");
}
