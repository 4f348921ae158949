//! Handover of `carrick daemon` to a successor, below unmodified Python programs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::socket_programs::{Served, build_library, directory, free_port};
use crate::support::{Finished, Running, start, start_with};

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/command/programs/handover.py"
);
const MANAGER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/command/programs/service_manager.py"
);
/// Associations of the test.
const ASSOCIATIONS: &str = "20";

/// Far longer than the manager needs to hold a listening socket.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns whether Python runs.
pub(crate) fn has_python() -> bool {
    let version = Command::new("python3").arg("--version").output();
    let found = version.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: no python3");
    }
    found
}

/// Starts the command with these options of the daemon.
fn successor(served: &Served, options: &[&str]) -> Running {
    let mut arguments = vec!["daemon", "--take-over", "--socket", &served.socket];
    arguments.extend(["--udp-port", &served.port, "--bind", "127.0.0.1"]);
    arguments.extend(options);
    start(&arguments)
}

/// Waits until the successor has taken over, and the predecessor has ended.
fn take_over(served: &mut Served) {
    let mut next = successor(served, &[]);
    let line = next.error_line();
    assert!(line.contains("serving"), "{line}");
    let line = next.error_line();
    assert!(line.contains("took over 40 associations"), "{line}");
    let finished = std::mem::replace(&mut served.daemon, next).finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    assert!(
        finished.errors.contains("handed over to process"),
        "{}",
        finished.errors
    );
}

/// Programs with traffic in both directions, in lines of what they have received.
struct Programs {
    server: Running,
    client: Running,
}

impl Programs {
    fn start(served: &Served, port: &str) -> Self {
        let mut server = served.start_program(&["python3", PROGRAM, "server", port, ASSOCIATIONS]);
        server.json_line();
        let client = served.start_program(&["python3", PROGRAM, "client", port, ASSOCIATIONS]);
        Self { server, client }
    }

    /// Waits until each association has received another batch in both directions. Programs may print a line
    /// for messages from before the call.
    fn advance(&mut self) {
        for _ in 0..2 {
            self.server.json_line();
            self.client.json_line();
        }
    }

    /// Ends the traffic, and compares what was sent with what was received.
    fn end(mut self) {
        self.client.feed(b"end\n".to_vec());
        let [server, client] = [self.server, self.client].map(Running::finish);
        let last = |finished: &Finished| {
            assert_eq!(finished.code, Some(0), "{}", finished.errors);
            finished.json().pop().expect("a line")
        };
        let (server, client) = (last(&server), last(&client));
        let sorted = |value: &serde_json::Value| {
            let numbers = value.as_array().unwrap().iter();
            let mut numbers: Vec<u64> = numbers.map(|n| n.as_u64().unwrap()).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(sorted(&server["sent"]), sorted(&client["received"]));
        assert_eq!(sorted(&client["sent"]), sorted(&server["received"]));
        assert_eq!(sorted(&client["sent"]).len(), 20);
    }
}

/// 20 associations with traffic in both directions, and three successors: every message arrives once and in order.
#[test]
fn a_handover_loses_no_message() {
    if !has_python() {
        return;
    }
    let mut served = Served::start("handover");
    let mut programs = Programs::start(&served, "5301");
    for _ in 0..3 {
        programs.advance();
        take_over(&mut served);
    }
    programs.advance();
    programs.end();
    let socket = served.socket.clone();
    let finished = served.end();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    assert!(
        !Path::new(&socket).exists(),
        "the last one removes the path"
    );
}

/// A successor with another UDP port is refused; both name the reason, and programs notice nothing.
#[test]
fn a_refused_handover_changes_nothing() {
    if !has_python() {
        return;
    }
    let mut served = Served::start("refused-handover");
    let mut programs = Programs::start(&served, "5302");
    programs.advance();
    let mut arguments = vec!["daemon", "--take-over", "--socket", &served.socket];
    arguments.extend(["--udp-port", "9", "--bind", "127.0.0.1"]);
    let refused = crate::support::run(&arguments);
    assert_eq!(refused.code, Some(1), "{}", refused.errors);
    let reason = "UDP port in its configuration differs";
    assert!(refused.errors.contains(reason), "{}", refused.errors);
    let line = served.daemon.error_line_with("has not taken over");
    assert!(line.contains(reason), "{line}");
    programs.advance();
    take_over(&mut served);
    programs.advance();
    programs.end();
    served.end();
}

#[test]
fn without_a_daemon_nothing_is_taken_over() {
    let refused =
        crate::support::run(&["daemon", "--take-over", "--socket", "/nonexistent/socket"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.errors.contains("start one without --take-over"),
        "{}",
        refused.errors
    );
}

/// SIGUSR2, as `systemctl reload` sends it: the successor is a child of the daemon.
#[test]
fn a_signal_starts_a_successor() {
    let mut served = Served::start("signalled");
    served.daemon.signal(Signal::SIGUSR2);
    let mut line = String::new();
    while !line.contains("handed over to process") {
        line = served.daemon.error_line();
        assert!(!line.is_empty(), "the daemon ended");
    }
    let process = line.rsplit(' ').next().unwrap().trim().parse().unwrap();
    let listed = crate::support::run(&["ss", "--daemon", &served.socket]);
    assert_eq!(listed.code, Some(0), "{}", listed.errors);
    kill(Pid::from_raw(process), Signal::SIGTERM).unwrap();
    // Its output ends with that of the successor.
    let finished = served.daemon.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    assert!(
        finished.errors.contains("ending after SIGTERM"),
        "{}",
        finished.errors
    );
}

/// Daemon below a service manager, and the input of the manager, a line of which restarts the daemon.
pub(crate) struct Managed {
    pub(crate) served: Served,
    commands: ChildStdin,
    pub(crate) folder: PathBuf,
}

impl Managed {
    fn start(name: &str) -> Self {
        Self::start_with(name, "")
    }

    /// Starts the daemon with further lines of its configuration.
    pub(crate) fn start_with(name: &str, settings: &str) -> Self {
        build_library();
        let folder = directory().join(format!("carrick-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let (socket, notify, config) = (path("socket"), path("notify"), path("daemon.toml"));
        let port = free_port().to_string();
        configure(&folder, &port, settings);
        let daemon = [env!("CARGO_BIN_EXE_carrick"), "daemon", "--socket", &socket];
        let options = [&daemon[..], &["--config", &config]].concat();
        let mut daemon = start_with("python3", &[&[MANAGER, &notify], &options[..]].concat());
        assert_eq!(daemon.json_line()["passed"], 0);
        let commands = daemon.input();
        let served = Served {
            daemon,
            socket,
            port,
        };
        Self {
            served,
            commands,
            folder,
        }
    }

    /// Sends the manager a command.
    fn command(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    /// Kills the daemon and waits until the manager has started it again. Returns the number of descriptors that the
    /// manager has passed.
    pub(crate) fn kill(&mut self) -> u64 {
        self.command("kill");
        self.served.daemon.json_line()["passed"].as_u64().unwrap()
    }

    /// Kills the daemon during a planned restart, when the manager has got this number of messages, and waits until it has
    /// started again.
    pub(crate) fn interrupt(&mut self, messages: usize) {
        self.command(&format!("interrupt {messages}"));
        // A line before may be that of what was released.
        while self.served.daemon.json_line().get("ready").is_none() {}
    }

    /// Lets a successor take over, and waits until it is the process of the service.
    pub(crate) fn reload(&mut self) {
        self.command("reload");
        let ready = self.served.daemon.json_line();
        assert_eq!(ready["passed"], 0, "{ready}");
    }

    /// Waits until the names of what the manager holds are as expected.
    fn wait_for_names(&mut self, expected: impl Fn(&[&str]) -> bool) {
        let start = Instant::now();
        loop {
            self.command("list");
            let line = self.served.daemon.json_line();
            let names = line["held"].as_object().unwrap().keys();
            let names = names.filter(|name| name.starts_with("carrick-listener-"));
            if expected(&names.map(String::as_str).collect::<Vec<_>>()) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{line}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the manager holds this number of listening sockets, each with its record.
    pub(crate) fn wait_for_listeners(&mut self, count: usize) {
        let is_record = |name: &&&str| name.ends_with("-1") || name.ends_with("-2");
        self.wait_for_names(|names| {
            names.iter().filter(is_record).count() == count && names.len() == 2 * count
        });
    }

    /// Waits until the manager holds a listening socket whose record has a name with this end.
    pub(crate) fn wait_for_records(&mut self, end: &str) {
        self.wait_for_names(|names| names.len() == 2 && names.iter().any(|n| n.ends_with(end)));
    }

    /// Restarts the daemon and waits until it is ready.
    pub(crate) fn restart(&mut self, associations: u64) {
        self.command("restart");
        let released = self.served.daemon.json_line();
        let ready = self.served.daemon.json_line();
        assert_eq!(released["released"], ready["passed"]);
        // Both ends of each association, besides the sockets of the network and of the daemon.
        let least = 2 * associations;
        assert!(ready["passed"].as_u64() > Some(least), "{ready}");
    }

    /// Ends the daemon; returns its log.
    pub(crate) fn end(self) -> String {
        drop(self.commands);
        let finished = self.served.daemon.finish();
        std::fs::remove_dir_all(self.folder).unwrap();
        assert_eq!(finished.code, Some(0), "{}", finished.errors);
        finished.errors
    }
}

/// Writes the configuration of a daemon on loopback.
fn configure(folder: &Path, port: &str, settings: &str) {
    let network =
        format!("[network]\naddresses = [\"127.0.0.1\"]\nudp-port = {port}\n{settings}\n");
    std::fs::write(folder.join("daemon.toml"), network).unwrap();
}

/// `FDSTORE` of `sd_notify(3)`: the service manager holds all sockets while no daemon runs, three times. It
/// passes them in another order each time.
#[test]
fn a_restart_by_the_service_manager_loses_no_message() {
    if !has_python() {
        return;
    }
    let mut managed = Managed::start("held");
    let mut programs = Programs::start(&managed.served, "5303");
    for _ in 0..3 {
        programs.advance();
        managed.restart(20);
    }
    programs.advance();
    programs.end();
    let log = managed.end();
    let taken = log.matches("took over 40 associations");
    assert_eq!(taken.count(), 3, "{log}");
}

/// The next process has another UDP port: it serves new programs, and those of its predecessor get an error.
#[test]
fn a_restart_with_another_port_ends_associations() {
    if !has_python() {
        return;
    }
    let mut managed = Managed::start("changed");
    let mut programs = Programs::start(&managed.served, "5304");
    programs.advance();
    managed.served.port = free_port().to_string();
    configure(&managed.folder, &managed.served.port, "");
    managed.restart(20);
    for program in [programs.server, programs.client] {
        let finished = program.finish();
        assert_eq!(finished.code, Some(1), "{}", finished.errors);
        assert!(
            finished.errors.contains("ConnectionResetError"),
            "{}",
            finished.errors
        );
    }
    let mut programs = Programs::start(&managed.served, "5305");
    programs.advance();
    programs.end();
    let log = managed.end();
    let reason =
        "the sockets of the previous process are not continued: the transport or the UDP port";
    assert!(log.contains(reason), "{log}");
    assert!(!log.contains("took over"), "{log}");
}

/// Without a manager that holds the sockets, SIGUSR1 ends the daemon as SIGTERM does.
#[test]
fn a_restart_without_a_manager_ends_associations() {
    let served = Served::start("unheld");
    served.daemon.signal(Signal::SIGUSR1);
    let finished = served.daemon.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    let reason = "does not hold the sockets: there is none (NOTIFY_SOCKET)";
    assert!(finished.errors.contains(reason), "{}", finished.errors);
}
