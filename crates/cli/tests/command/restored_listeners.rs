//! `carrick daemon` is killed and started again by a service manager that holds the listening sockets of programs.

use std::io::Write;
use std::process::ChildStdin;

use serde_json::{Value, json};

use crate::handover::{Managed, has_python};
use crate::socket_programs::program;
use crate::support::{Running, start};

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/command/programs/listener.py"
);

/// Server that waits in `accept`, and the input with its commands.
struct Server {
    running: Running,
    commands: ChildStdin,
}

impl Server {
    fn start(managed: &Managed, port: &str) -> Self {
        Self::start_as("server", managed, port)
    }

    fn start_as(role: &str, managed: &Managed, port: &str) -> Self {
        let command = ["python3", PROGRAM, role, port];
        let mut running = managed.served.start_program(&command);
        running.json_line();
        let commands = running.input();
        Self { running, commands }
    }

    /// Sends a command, and returns its line.
    fn command(&mut self, command: &str) -> Value {
        writeln!(self.commands, "{command}").unwrap();
        self.running.json_line()
    }
}

/// Starts a client, whose message the server of the port echoes.
fn client(managed: &Managed, port: &str) -> Running {
    let command = ["python3", PROGRAM, "client", port];
    let mut client = managed.served.start_program(&command);
    assert_eq!(client.json_line(), json!({"echoed": "message"}));
    client
}

/// docs/sockets.md: a pending `accept` continues, associations end with ECONNRESET.
#[test]
fn a_pending_accept_outlasts_a_killed_daemon() {
    if !has_python() {
        return;
    }
    let mut managed = Managed::start_with("killed-accept", "");
    let mut server = Server::start(&managed, "5310");
    let mut clients = Vec::new();
    for number in 1..=3 {
        clients.push(client(&managed, "5310"));
        let inherited = json!({"accepted": number, "nodelay": 1, "streams": [3, 7]});
        assert_eq!(server.running.json_line(), inherited);
        managed.wait_for_listeners(1);
        if number < 3 {
            assert_eq!(managed.kill(), 2);
            let reset = json!({"failed": number, "error": "ECONNRESET"});
            assert_eq!(server.running.json_line(), reset);
        }
    }
    let address = json!({"address": ["127.0.0.1", 5310]});
    assert_eq!(server.command("names"), address);
    let log = managed.end();
    let restored = log.matches("1 listening sockets of the previous process restored");
    assert_eq!(restored.count(), 2, "{log}");
    let mut last = [server.running.json_line(), server.running.json_line()];
    last.sort_by_key(|line| line.get("accept").is_none());
    assert_eq!(last[0], json!({"accept": "ECONNRESET"}), "an orderly end");
}

/// The manager's record follows options that are set later.
#[test]
fn options_set_after_listen_are_restored() {
    if !has_python() {
        return;
    }
    let mut managed = Managed::start_with("killed-options", "");
    let mut server = Server::start(&managed, "5311");
    managed.wait_for_listeners(1);
    assert_eq!(server.command("delay"), json!({"nodelay": 0}));
    managed.wait_for_records("-2");
    assert_eq!(managed.kill(), 2);
    let _client = client(&managed, "5311");
    let inherited = json!({"accepted": 1, "nodelay": 0, "streams": [3, 7]});
    assert_eq!(server.running.json_line(), inherited);
    managed.end();
}

#[test]
fn a_closed_listener_is_not_restored() {
    if !has_python() {
        return;
    }
    let mut managed = Managed::start_with("killed-closed", "");
    let start = |port: &&str| Server::start_as("idle", &managed, port);
    let [mut first, second] = ["5312", "5313"].each_ref().map(start);
    managed.wait_for_listeners(2);
    assert_eq!(first.command("close"), json!({"closed": 5312}));
    managed.wait_for_listeners(1);
    assert_eq!(managed.kill(), 2);
    drop(second);
    managed.wait_for_listeners(0);
    let log = managed.end();
    assert!(log.contains("1 listening sockets"), "{log}");
}

/// The manager's socket has room for ten messages: each socket is held once, with one record.
#[test]
fn listeners_beyond_the_queue_of_messages_are_held() {
    if !has_python() {
        return;
    }
    let mut managed = Managed::start_with("killed-several", "");
    let _server = Server::start_as("several", &managed, "5400");
    managed.wait_for_listeners(40);
    for _ in 0..2 {
        assert_eq!(managed.kill(), 2 * 40);
        for port in ["5400", "5439"] {
            client(&managed, port);
        }
    }
    managed.end();
}

/// A user alone gets half of `limits.stored-listeners`; another listener takes the place of one that is closed.
#[test]
fn listeners_of_a_user_beyond_a_limit_are_not_held() {
    if !has_python() {
        return;
    }
    let settings = "[limits]\nstored-listeners = 4";
    let mut managed = Managed::start_with("killed-limit", settings);
    let ports = ["5314", "5315", "5316"];
    let [first, second, mut third] = ports.map(|port| Server::start(&managed, port));
    managed.wait_for_listeners(2);
    drop(first);
    managed.wait_for_listeners(2);
    drop(second);
    managed.wait_for_listeners(1);
    let _client = client(&managed, "5316");
    third.running.json_line();
    assert_eq!(managed.kill(), 2);
    let reset = json!({"failed": 1, "error": "ECONNRESET"});
    assert_eq!(third.running.json_line(), reset);
    let log = managed.end();
    let reported = log.matches(
        "the service manager holds 2 of this user and 2 of all users; limits.stored-listeners",
    );
    assert_eq!(reported.count(), 1, "{log}");
}

/// Another process has the address that the daemon would have to use: its program gets the error of before.
#[test]
fn a_listener_without_its_address_ends() {
    if !has_python() {
        return;
    }
    let mut managed = Managed::start_with("killed-address", "");
    let mut server = Server::start(&managed, "5317");
    managed.wait_for_listeners(1);
    let port = &managed.served.port;
    let elsewhere = format!("[network]\naddresses = [\"::1\"]\nudp-port = {port}\n");
    std::fs::write(managed.folder.join("daemon.toml"), elsewhere).unwrap();
    assert_eq!(managed.kill(), 2);
    assert_eq!(server.running.json_line(), json!({"accept": "ECONNRESET"}));
    managed.wait_for_listeners(0);
    let log = managed.end();
    let reason = "at port 5317, 127.0.0.1 is not restored: ";
    assert!(log.contains(reason), "{log}");
}

/// The state of a planned restart contains the listening sockets; those of the manager are removed before.
#[test]
fn a_kill_after_a_planned_restart_is_survived() {
    if !has_python() {
        return;
    }
    let mut managed = Managed::start_with("killed-restarted", "");
    let mut server = Server::start(&managed, "5318");
    let _client = client(&managed, "5318");
    server.running.json_line();
    managed.wait_for_listeners(1);
    managed.restart(1);
    managed.wait_for_listeners(1);
    assert_eq!(managed.kill(), 2);
    let reset = json!({"failed": 1, "error": "ECONNRESET"});
    assert_eq!(server.running.json_line(), reset);
    let _client = client(&managed, "5318");
    assert_eq!(server.running.json_line()["accepted"], 2);
    managed.end();
}

/// The manager holds listening sockets also while it gets the state of all sockets.
#[test]
fn a_kill_during_a_planned_restart_is_survived() {
    if !has_python() {
        return;
    }
    let mut managed = Managed::start_with("killed-restarting", "");
    let _server = Server::start(&managed, "5321");
    for messages in 0..3 {
        managed.wait_for_listeners(1);
        managed.interrupt(messages);
        client(&managed, "5321");
    }
    managed.end();
}

/// A successor replaces the records of its predecessor.
#[test]
fn a_kill_after_a_handover_is_survived() {
    if !has_python() {
        return;
    }
    let mut managed = Managed::start_with("killed-successor", "");
    let mut server = Server::start(&managed, "5320");
    managed.wait_for_listeners(1);
    managed.reload();
    managed.wait_for_records("-2");
    assert_eq!(managed.kill(), 2);
    let _client = client(&managed, "5320");
    assert_eq!(server.running.json_line()["accepted"], 1);
    managed.end();
}

/// A one-to-many socket is restored without its associations, and their identifiers are not those of later ones.
#[test]
fn a_pending_recvfrom_outlasts_a_killed_daemon() {
    if !has_python() {
        return;
    }
    let mut managed = Managed::start_with("killed-many", "");
    let mut server = Server::start_as("many", &managed, "5319");
    let mut seen = Vec::new();
    for round in 0..3 {
        managed.wait_for_listeners(1);
        if round > 0 {
            // The file with the identifiers is passed as well.
            assert_eq!(managed.kill(), 3);
        }
        let _client = client(&managed, "5319");
        let line = server.running.json_line();
        let found = line["identifiers"].as_array().unwrap();
        assert_eq!(found.len(), 1, "{line}");
        seen.push(found[0].as_u64().unwrap());
    }
    assert!(
        seen[0] + 60_000 < seen[1] && seen[1] + 60_000 < seen[2],
        "{seen:?}"
    );
    managed.end();
}

/// A server that waits in `epoll_wait`, preloaded and supervised: the listening socket reports nothing before another
/// association comes.
#[test]
fn a_pending_epoll_wait_outlasts_a_killed_daemon() {
    let Some(program) = program().filter(|_| has_python()) else {
        return;
    };
    for mode in [&[][..], &["--seccomp"]] {
        let mut managed = Managed::start_with("killed-epoll", "");
        let run = ["run", "--daemon", &managed.served.socket];
        let command = ["--", program.to_str().unwrap(), "restored"];
        let mut server = start(&[&run[..], mode, &command].concat());
        let port = server.json_line()["port"].to_string();
        let _first = client(&managed, &port);
        managed.wait_for_listeners(1);
        assert_eq!(server.json_line(), json!({"accepted": 1}), "{mode:?}");
        assert_eq!(managed.kill(), 2);
        assert_eq!(server.json_line(), json!({"reset": 1}), "{mode:?}");
        let _second = client(&managed, &port);
        let finished = server.finish();
        assert_eq!(finished.code, Some(0), "{mode:?}: {}", finished.errors);
        managed.end();
    }
}
