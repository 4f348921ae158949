//! `carrick run` with statically linked programs, which it supervises by seccomp: the checks of the C program, and
//! Go programs with the published SCTP modules. Without a compiler the tests pass with a message.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::socket_programs::{Served, compile, directory, run_check};
use crate::support::{Running, run, start_in};

/// Far longer than a daemon needs to notice that a program has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compiles the C program statically, once.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let options = ["-DSUPERVISED", "-static"];
        compile("cc", &options, "carrick-static-checks")
    };
    BUILT.get_or_init(build).as_deref()
}

/// Compiles the C program dynamically, for supervision, once.
fn dynamic_program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || compile("cc", &["-DSUPERVISED"], "carrick-supervised-checks");
    BUILT.get_or_init(build).as_deref()
}

macro_rules! checks {
    ($($test:ident: $name:literal,)*) => {$(
        #[test]
        fn $test() {
            if let Some(program) = program() {
                run_check(&[], program, $name);
            }
        }
    )*};
}

checks! {
    messages_are_echoed_by_a_forked_server: "echo",
    large_messages_are_read_in_parts: "parts",
    a_message_that_fits_is_read_by_one_call: "whole",
    two_processes_share_an_association: "shared",
    a_refused_connect_can_be_repeated: "refused",
    exec_keeps_an_association: "exec",
    accept_without_room_loses_no_association: "crammed",
    a_branch_without_room_loses_no_association: "unbranched",
    messages_of_one_call_arrive_one_by_one: "several",
    each_message_is_an_edge: "edges",
    blocking_calls_end_by_time_and_signal: "times",
    ancillary_data_and_notifications_arrive: "attributes",
    refused_messages_are_errors_of_their_call: "refusals",
    the_end_of_an_association_is_notified: "last",
    a_full_send_buffer_blocks_until_the_peer_reads: "pressure",
    dup2_over_a_descriptor_ends_its_association: "replaced",
    errors_are_those_of_linux: "errors",
    a_killed_program_aborts_if_it_lingers_for_zero: "aborted",
    a_forked_child_keeps_the_association: "forgotten",
    duplicates_are_descriptors_of_the_socket: "duplicates",
    signals_lose_no_message: "interrupted",
    closed_sockets_leave_nothing: "leak",
    the_association_of_a_killed_program_ends: "killed",
    one_to_many_sockets_have_many_peers: "many",
    one_to_many_messages_may_be_large: "large",
    unread_messages_of_a_branch_go_with_it: "branched",
}

#[test]
fn musl_programs_run() {
    let options = ["-DSUPERVISED", "-static", "-idirafter", "/usr/include"];
    let machine = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let options = [&options[..], &["-idirafter", &machine]].concat();
    if let Some(program) = compile("musl-gcc", &options, "carrick-musl-checks") {
        for name in ["echo", "attributes", "interrupted"] {
            run_check(&[], &program, name);
        }
    }
}

#[test]
fn dynamic_programs_run_under_supervision() {
    if let Some(program) = dynamic_program() {
        for name in ["echo", "exec", "many"] {
            run_check(&["--seccomp"], program, name);
        }
    }
}

#[test]
fn a_static_program_executes_a_dynamic_one() {
    let (Some(program), Some(other)) = (program(), dynamic_program()) else {
        return;
    };
    let served = Served::start("executed");
    let other = [("CHECKS_EXECUTED", other.to_str().unwrap())];
    let command = ["run", "--daemon", &served.socket, "--"];
    let arguments = [&command[..], &[program.to_str().unwrap(), "exec"]].concat();
    let input = std::process::Stdio::null();
    let running = start_in(input, &other, env!("CARGO_BIN_EXE_carrick"), &arguments);
    let finished = running.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    assert_eq!(served.end().code, Some(0));
}

/// Starts the C program with two connected sockets at a daemon.
fn connected(served: &Served, program: &Path) -> Running {
    let mut running = served.start_program(&[program.to_str().unwrap(), "orphaned"]);
    running.json_line();
    running
}

/// Waits until no socket is left at a daemon.
fn wait_for_no_sockets(served: &Served) {
    let start = Instant::now();
    loop {
        let listed = run(&["ss", "--daemon", &served.socket, "-a", "--json"]);
        assert_eq!(listed.code, Some(0), "{}", listed.errors);
        if listed.json().is_empty() {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{listed:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_program_leaves_nothing() {
    let Some(program) = program() else {
        return;
    };
    let served = Served::start("killed-program");
    let running = connected(&served, program);
    let children = format!("/proc/{0}/task/{0}/children", running.id());
    let children = std::fs::read_to_string(children).unwrap();
    let child = children.trim().parse().unwrap();
    kill(Pid::from_raw(child), Signal::SIGKILL).unwrap();
    assert_eq!(running.finish().code, Some(128 + 9));
    wait_for_no_sockets(&served);
    assert_eq!(served.end().code, Some(0));
}

#[test]
fn a_killed_supervisor_leaves_nothing() {
    let Some(program) = program() else {
        return;
    };
    let served = Served::start("killed-supervisor");
    let mut running = connected(&served, program);
    running.kill();
    // The program has ended, too: its output is at its end. Its call may have returned before the kernel killed it.
    let line = running.error_line();
    assert!(
        line.is_empty() || line.contains("Function not implemented"),
        "{line}"
    );
    assert!(line.is_empty() || running.error_line().is_empty());
    wait_for_no_sockets(&served);
    assert_eq!(served.end().code, Some(0));
}

#[test]
fn a_killed_daemon_resets_associations() {
    let Some(program) = program() else {
        return;
    };
    let mut served = Served::start("killed-daemon");
    let running = connected(&served, program);
    served.daemon.kill();
    let finished = running.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    std::fs::remove_file(&served.socket).unwrap();
}

#[test]
fn a_second_supervisor_is_refused() {
    let Some(program) = program() else {
        return;
    };
    let carrick = env!("CARGO_BIN_EXE_carrick");
    let program = program.to_str().unwrap();
    let served = Served::start("second");
    let command = ["run", "--daemon", &served.socket];
    let arguments = [
        &command[..],
        &["--seccomp", "--", carrick],
        &command,
        &["--", program],
    ];
    let refused = run(&arguments.concat());
    refused.assert_failed(1, "another carrick run supervises this process");
    assert_eq!(served.end().code, Some(0));
}

/// Builds a Go program without cgo, and runs its server and 8 clients by one daemon.
fn run_go(module: &str) {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/programs/go");
    let program = directory().join(format!("carrick-go-{module}"));
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(Path::new(sources).join(module))
        .env("CGO_ENABLED", "0")
        .status();
    match built {
        Ok(status) => assert!(status.success(), "{module} does not build"),
        Err(error) => {
            println!("skipped: no Go: {error}");
            return;
        }
    }
    let program = program.to_str().unwrap();
    let served = Served::start(module);
    let mut server = served.start_program(&[program, "server"]);
    let port = server.json_line()["port"].to_string();
    let client = served.start_program(&[program, "client", &port]).finish();
    assert_eq!(client.code, Some(0), "{}", client.errors);
    let server = server.finish();
    assert_eq!(server.code, Some(0), "{}", server.errors);
    wait_for_no_sockets(&served);
    assert_eq!(served.end().code, Some(0));
}

#[test]
fn go_programs_with_ishidawataru_sctp_run() {
    run_go("ishidawataru");
}

#[test]
fn go_programs_with_free5gc_sctp_run() {
    run_go("free5gc");
}
