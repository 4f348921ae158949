//! `carrick daemon` as a service: configuration file, log, notifications and socket activation. The service
//! manager is the test.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
};
use serde_json::Value;

use crate::socket_programs::build_library;
use crate::support::{Running, free_udp_port, run, start, start_in};

/// Folder of a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("carrick-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file and returns its path.
    fn write(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Reads the next line of a log in JSON; returns its level and message.
fn entry(daemon: &mut Running) -> (String, String) {
    let line = daemon.error_line();
    let value: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
    assert!(value["time"].as_str().unwrap().ends_with('Z'), "{line}");
    let text = |name: &str| value[name].as_str().unwrap().to_owned();
    (text("level"), text("message"))
}

#[test]
fn a_daemon_reads_its_configuration() {
    let folder = Folder::new("config");
    let (socket, port) = (folder.path("socket"), free_udp_port());
    let config = folder.write(
        "daemon.toml",
        &format!(
            "socket = \"{socket}\"\nmetrics = \"127.0.0.1:0\"\nlog = \"json\"\nlinger = \"1s\"\n\
             [network]\naddresses = [\"127.0.0.1\"]\nudp-port = {port}\n\
             [limits]\nassociations = 7\n"
        ),
    );
    let checked = run(&["daemon", "--config", &config, "--check"]);
    assert_eq!(checked.code, Some(0), "{}", checked.errors);
    assert!(!Path::new(&socket).exists());
    let mut daemon = start(&["daemon", "--config", &config]);
    let (level, message) = entry(&mut daemon);
    assert_eq!(level, "info");
    assert_eq!(message, format!("serving {socket} on UDP port {port}"));
    let (_, message) = entry(&mut daemon);
    let address = message.strip_prefix("metrics http://").unwrap();
    let mut stream = TcpStream::connect(address.trim_end_matches("/metrics")).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\ncarrick_sctp_max_assocs 7\n"), "{answer}");
    daemon.terminate();
    let (level, message) = entry(&mut daemon);
    assert_eq!((&*level, &*message), ("info", "ending after SIGTERM"));
    assert_eq!(daemon.finish().code, Some(0));
    assert!(!Path::new(&socket).exists());
}

#[test]
fn errors_of_the_configuration_name_their_place() {
    let folder = Folder::new("wrong");
    let config = folder.write("daemon.toml", "log = \"json\"\n[network]\nudp-prt = 1\n");
    let finished = run(&["daemon", "--config", &config]);
    finished.assert_failed(
        1,
        "daemon.toml, line 3: udp-prt: unknown key; expected one of",
    );
    let missing = folder.path("missing.toml");
    run(&["daemon", "--config", &missing]).assert_failed(1, "cannot read");
}

#[test]
fn a_check_covers_the_files_of_the_daemon() {
    let folder = Folder::new("files");
    let missing = folder.path("none");
    let log = format!("event-log = \"{missing}/events.jsonl\"\n");
    let socket = format!("socket = \"{missing}/socket\"\n");
    let long = format!("socket = \"{}\"\n", folder.path(&"s".repeat(100)));
    let create = format!("folder {missing} does not exist: create it");
    for (text, words) in [
        (log, &*create),
        (socket, &create),
        (long, "and the limit is 107"),
    ] {
        let config = folder.write("daemon.toml", &text);
        run(&["daemon", "--config", &config, "--check"]).assert_failed(1, words);
    }
    let config = folder.write(
        "daemon.toml",
        &format!("socket = \"{}\"\n", folder.path("socket")),
    );
    let check = ["daemon", "--config", &config, "--check"];
    let option = format!("{missing}/events.jsonl");
    run(&[&check[..], &["--event-log", &option]].concat()).assert_failed(1, &create);
    let checked = run(&check);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let long = folder.path(&"s".repeat(100));
    for command in [
        &["daemon", "--socket"][..],
        &["ss", "--daemon"],
        &["capture", "--write", "-", "--daemon"],
    ] {
        run(&[command, &[&long]].concat()).assert_failed(1, "bytes, and the limit is 107");
    }
    run(&["run", "--daemon", &long, "--", "true"]).assert_failed(1, "bytes, and the limit is 107");
}

#[test]
fn a_json_log_has_the_reason_of_a_failure() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = Folder::new("failure");
    let socket = folder.path("socket");
    let network = ["--udp-port", &port, "--bind", "127.0.0.1"];
    let options = ["daemon", "--log", "json", "--socket", &socket];
    let mut daemon = start(&[&options[..], &network].concat());
    let (level, message) = entry(&mut daemon);
    assert_eq!(level, "error");
    assert!(message.contains(&format!("UDP port {port}")), "{message}");
    let finished = daemon.finish();
    assert_eq!((finished.code, &*finished.errors), (Some(1), ""));
}

/// The directory of a default path is Carrick's own, and is created.
#[test]
fn the_directory_of_a_given_socket_must_exist() {
    let folder = Folder::new("directory");
    let socket = folder.path("missing/socket");
    let network = ["--udp-port=0", "--bind=127.0.0.1"];
    run(&[&["daemon", "--socket", &socket], &network[..]].concat()).assert_failed(
        1,
        &format!(
            "cannot open the control socket {socket}: directory {} does not exist: create it, or choose",
            folder.path("missing")
        ),
    );
    assert!(!Path::new(&folder.path("missing")).exists());
    let own = [
        ("XDG_RUNTIME_DIR", &*folder.path("")),
        ("CARRICK_DAEMON", ""),
    ];
    let carrick = env!("CARGO_BIN_EXE_carrick");
    let arguments = [&["daemon"], &network[..]].concat();
    let mut daemon = start_in(Stdio::null(), &own, carrick, &arguments);
    let line = daemon.error_line();
    assert!(line.contains("carrick/socket on UDP port"), "{line}");
    daemon.terminate();
    assert_eq!(daemon.finish().code, Some(0));
}

/// The manager's end of a notification socket.
fn manager(path: &str) -> UnixDatagram {
    let manager = UnixDatagram::bind(path).unwrap();
    let limit = Some(Duration::from_secs(60));
    manager.set_read_timeout(limit).unwrap();
    manager
}

fn notification(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 100];
    let len = manager.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..len].to_vec()).unwrap()
}

/// `sd_notify(3)`
#[test]
fn the_service_manager_is_notified() {
    let folder = Folder::new("notify");
    let (socket, notify) = (folder.path("socket"), folder.path("notify"));
    let manager = manager(&notify);
    let port = free_udp_port();
    let daemon = start_in(
        Stdio::null(),
        &[("NOTIFY_SOCKET", &notify)],
        env!("CARGO_BIN_EXE_carrick"),
        &[
            "daemon",
            "--socket",
            &socket,
            "--udp-port",
            &port,
            "--bind=127.0.0.1",
        ],
    );
    assert_eq!(notification(&manager), "READY=1");
    let listed = run(&["ss", "--daemon", &socket]);
    assert_eq!(listed.code, Some(0), "ready: {}", listed.errors);
    let counters = run(&["ss", "--daemon", &socket, "--proc", "snmp"]);
    let text = String::from_utf8(counters.out).unwrap();
    let first = format!("{:<32}\t0", "SctpCurrEstab");
    assert_eq!(text.lines().next(), Some(&*first), "{}", counters.errors);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(notification(&manager), "STOPPING=1");
    let finished = daemon.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    assert!(!Path::new(&socket).exists());
}

/// Starts a daemon with descriptor 3 from its input, and `LISTEN_FDS`.
fn start_activated(input: Stdio, notify: &str, socket: &str, port: &str) -> Running {
    start_in(
        input,
        &[("NOTIFY_SOCKET", notify), ("LISTEN_FDS", "1")],
        "sh",
        &[
            "-c",
            "LISTEN_PID=$$; export LISTEN_PID; exec \"$@\" 3<&0 0</dev/null",
            "sh",
            env!("CARGO_BIN_EXE_carrick"),
            "daemon",
            "--socket",
            socket,
            "--udp-port",
            port,
            "--bind=127.0.0.1",
        ],
    )
}

/// `sd_listen_fds(3)`
#[test]
fn a_passed_control_socket_is_served() {
    let folder = Folder::new("activated");
    let (path, notify) = (folder.path("passed"), folder.path("notify"));
    let manager = manager(&notify);
    let seqpacket = |flags| socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
    let listening = seqpacket(SockFlag::SOCK_CLOEXEC);
    let address = UnixAddr::new(Path::new(&path)).unwrap();
    bind(listening.as_raw_fd(), &address).unwrap();
    listen(&listening, Backlog::new(5).unwrap()).unwrap();
    // A program connects before the daemon runs.
    let early = seqpacket(SockFlag::SOCK_CLOEXEC);
    connect(early.as_raw_fd(), &address).unwrap();
    let own = folder.path("own");
    let passed = listening.try_clone().unwrap();
    let mut daemon = start_activated(passed.into(), &notify, &own, &free_udp_port());
    assert_eq!(notification(&manager), "READY=1");
    let line = daemon.error_line();
    assert!(line.contains(&format!("serving {path} on")), "{line}");
    assert!(!Path::new(&own).exists());
    let listed = run(&["ss", "--daemon", &path]);
    assert_eq!(listed.code, Some(0), "{}", listed.errors);
    daemon.terminate();
    assert_eq!(notification(&manager), "STOPPING=1");
    let finished = daemon.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    assert!(Path::new(&path).exists(), "the manager has the socket");
    connect(seqpacket(SockFlag::SOCK_CLOEXEC).as_raw_fd(), &address).unwrap();
}

#[test]
fn a_passed_socket_of_another_type_is_refused() {
    let folder = Folder::new("foreign");
    let path = folder.path("stream");
    let stream = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let passed = std::os::fd::OwnedFd::from(stream);
    let notify = folder.path("notify");
    let own = folder.path("own");
    let daemon = start_activated(passed.into(), &notify, &own, &free_udp_port());
    let finished = daemon.finish();
    finished.assert_failed(1, "set ListenSequentialPacket=");
}

#[test]
fn the_units_are_valid() {
    let unit = include_str!("../../../../docs/examples/carrick-daemon.service");
    let limit = unit.lines().find_map(|l| l.strip_prefix("LimitNOFILE="));
    let limit: usize = limit.unwrap().parse().unwrap();
    // The default limits of one user, and the files of the daemon itself.
    assert!(limit >= 2 * (8192 + 1024 + 64), "{limit}");
    let folder = Folder::new("units");
    // The installed program need not exist.
    let program = env!("CARGO_BIN_EXE_carrick");
    let unit = unit.replace("/usr/local/bin/carrick", program);
    let service = folder.write("carrick-daemon.service", &unit);
    let socket = include_str!("../../../../docs/examples/carrick-daemon.socket");
    let socket = folder.write("carrick-daemon.socket", socket);
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no", &service, &socket])
        .output();
    match verified {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}");
            assert!(!errors.contains("carrick-daemon"), "{errors}");
        }
        Err(error) => println!("skipped: no systemd-analyze: {error}"),
    }
}

/// Prints RTO.Min of a new socket, then of one that the program has set to 321 ms.
const PRINT_RTO_MIN: &str = "import socket, struct
rto_min = lambda s: struct.unpack('iIII', s.getsockopt(132, 0, 16))[3]
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
print(rto_min(s))
s.setsockopt(132, 0, struct.pack('iIII', 0, 0, 0, 321))
print(rto_min(s))
";

/// Returns what a program prints that runs with these options of `carrick run`.
fn printed_rto_min(options: &[&str]) -> String {
    let program = ["--", "python3", "-c", PRINT_RTO_MIN];
    let finished = run(&[&["run"], options, &program].concat());
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    String::from_utf8(finished.out).unwrap()
}

#[test]
fn hang_up_reloads_the_defaults_of_sockets() {
    build_library();
    let folder = Folder::new("defaults");
    let (socket, port) = (folder.path("socket"), free_udp_port());
    let write = |defaults: &str| {
        let network = format!("[network]\naddresses = [\"127.0.0.1\"]\nudp-port = {port}\n");
        let text = format!("socket = \"{socket}\"\nlog = \"json\"\n{network}[defaults]\n");
        folder.write("daemon.toml", &(text + defaults))
    };
    let config = write("rto-min = \"100ms\"\n");
    let mut daemon = start(&["daemon", "--config", &config]);
    assert!(entry(&mut daemon).1.starts_with("serving "));
    let program = ["--daemon", &*socket];
    assert_eq!(printed_rto_min(&program), "100\n321\n");
    write("preset = \"signaling\"\n");
    daemon.hang_up();
    let reloaded = ("info".to_owned(), "defaults reloaded".to_owned());
    assert_eq!(entry(&mut daemon), reloaded);
    assert_eq!(printed_rto_min(&program), "150\n321\n");
    // The values of before remain.
    for (defaults, place) in [
        ("rto-min = 100\n", "line 7: rto-min: 100 is invalid"),
        (
            "rto-max = \"500ms\"\n",
            "line 7: rto-max: rto-min of 1s exceeds",
        ),
    ] {
        write(defaults);
        daemon.hang_up();
        let (level, message) = entry(&mut daemon);
        assert_eq!(level, "warn");
        assert!(message.starts_with("configuration not reloaded: "));
        assert!(message.contains(place), "{message}");
        assert_eq!(printed_rto_min(&program), "150\n321\n");
    }
    daemon.terminate();
    assert!(entry(&mut daemon).1.starts_with("ending after SIGTERM"));
    assert_eq!(daemon.finish().code, Some(0));
}

#[test]
fn options_of_run_are_defaults_of_sockets() {
    build_library();
    let port = free_udp_port();
    let network = ["--udp-port", &*port, "--bind", "127.0.0.1"];
    let printed = |options: &[&str]| printed_rto_min(&[&network, options].concat());
    assert_eq!(printed(&["--preset", "signaling"]), "150\n321\n");
    let options = ["--preset", "signaling", "--rto-min", "200ms"];
    assert_eq!(printed(&options), "200\n321\n");
}
