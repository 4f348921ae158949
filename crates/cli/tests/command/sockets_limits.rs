//! Programs and a host that use up what a daemon has, or end badly: each ends in an error at that program alone.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use nix::unistd::Uid;

use crate::socket_programs::{Served, check, directory, free_port, program};
use crate::support::{Running, run, start, start_in, start_with};

/// Limit of file descriptors with room for a few programs.
const DESCRIPTORS: u32 = 64;

/// Starts a daemon with few file descriptors. Returns the address of its metrics as well.
fn few_descriptors(name: &str) -> (Served, String) {
    let options = ["--metrics", "127.0.0.1:0"];
    let mut served = Served::start_with_options(name, DESCRIPTORS, &options);
    let line = served.daemon.error_line();
    let (_, address) = line.split_once("metrics http://").expect("an address");
    let address = address.trim().trim_end_matches("/metrics").to_owned();
    (served, address)
}

/// Returns a metric.
fn metric(address: &str, name: &str) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let mut values = text.lines().filter_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix(' ')?;
        value.parse().ok()
    });
    values.next().unwrap_or_else(|| panic!("{name} in {text}"))
}

/// Options of `setpriv` for another user.
pub(crate) const ANOTHER_USER: [&str; 2] = ["--clear-groups", "--reuid=65534"];

/// Returns whether a command can be run as another user: not without root, or where that user cannot read the programs.
pub(crate) fn has_another_user() -> bool {
    let reads = ["test", "-x", env!("CARGO_BIN_EXE_carrick")];
    let has = Uid::effective().is_root()
        && start_with("setpriv", &[&ANOTHER_USER[..], &reads].concat())
            .finish()
            .code
            == Some(0);
    if !has {
        println!("skipped: no other user");
    }
    has
}

/// Runs a check as another user, whom the daemon serves although one has taken all that it could. Skipped without
/// root, or where that user cannot read the programs.
fn another_user_is_served(served: &Served) {
    let Some(program) = program() else {
        return;
    };
    if !has_another_user() {
        return;
    }
    let library = directory().join("libcarrick_preload.so");
    let variables = [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("CARRICK_DAEMON", served.socket.as_str()),
    ];
    let arguments = [&ANOTHER_USER[..], &[program.to_str().unwrap(), "echo"]].concat();
    let finished = start_in(Stdio::null(), &variables, "setpriv", &arguments).finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
}

#[test]
fn sockets_beyond_the_limit_leave_nothing() {
    let Some(program) = program() else {
        return;
    };
    let (mut served, address) = few_descriptors("exhaust");
    let mut running = served.start_program(&[program.to_str().unwrap(), "exhaust"]);
    let count = running.json_line().as_u64().unwrap();
    assert!((10..u64::from(DESCRIPTORS) / 2).contains(&count), "{count}");
    let line = served
        .daemon
        .error_line_with("cannot open a socket of user");
    assert!(line.contains("ulimit -n"), "{line}");
    assert_eq!(metric(&address, "carrick_sctp_sockets"), count);
    let failures = metric(&address, "carrick_sctp_descriptor_failures_total");
    assert_eq!(failures, 100);
    another_user_is_served(&served);
    running.close_input();
    assert_eq!(running.finish().code, Some(0));
    let errors = served.end().errors;
    let of_limit = |line: &&str| line.contains("cannot open");
    let lines = errors.lines().filter(of_limit).count();
    assert!(lines < 5, "one line a minute: {errors}");
}

#[test]
fn branches_without_room_leave_nothing() {
    let Some(program) = program() else {
        return;
    };
    let (served, address) = few_descriptors("unbranched");
    let mut running = served.start_program(&[program.to_str().unwrap(), "unbranched"]);
    running.json_line();
    for name in ["carrick_sctp_sockets", "carrick_sctp_descriptors"] {
        assert_eq!(metric(&address, name), 2, "{name}");
    }
    running.close_input();
    let finished = running.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    assert_eq!(served.end().code, Some(0));
}

#[test]
fn a_flood_leaves_descriptors_to_other_users() {
    let Some(program) = program() else {
        return;
    };
    let (mut served, address) = few_descriptors("hoard");
    let program = program.to_str().unwrap();
    let mut hoard = served.start_program(&[program, "hoard"]);
    let port = hoard.json_line().to_string();
    let own = free_port().to_string();
    let mut crowd = start_in(
        Stdio::piped(),
        &[("PORT", port.as_str())],
        env!("CARGO_BIN_EXE_carrick"),
        &[
            "run",
            "--bind",
            "127.0.0.1",
            "--udp-port",
            &own,
            "--peer-udp-port",
            &served.port,
            "--",
            program,
            "crowd",
        ],
    );
    crowd.json_line();
    served
        .daemon
        .error_line_with("cannot open a socket of user");
    assert!(metric(&address, "carrick_sctp_descriptor_failures_total") > 0);
    let descriptors = metric(&address, "carrick_sctp_descriptors");
    assert!(descriptors < u64::from(DESCRIPTORS) / 2, "{descriptors}");
    // None was refused: those without a descriptor wait in the backlog.
    assert_eq!(metric(&address, "carrick_sctp_curr_estab"), 35);
    another_user_is_served(&served);
    for mut running in [crowd, hoard] {
        running.close_input();
        running.finish();
    }
    let errors = served.end().errors;
    let of_limit = |line: &&str| line.contains("cannot open");
    let lines = errors.lines().filter(of_limit).count();
    assert!(lines < 5, "one line a minute: {errors}");
}

#[test]
fn a_killed_daemon_ends_the_calls_of_all_programs() {
    let Some(program) = program() else {
        return;
    };
    let mut served = Served::start("orphans");
    let mut running = served.start_program(&[program.to_str().unwrap(), "orphans"]);
    running.json_line();
    served.daemon.kill();
    let finished = running.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    std::fs::remove_file(&served.socket).unwrap();
}

/// RFC 6458, section 8.1.4
#[test]
fn a_killed_program_aborts_if_it_lingers_for_zero() {
    check("aborted");
}

#[test]
fn a_forked_child_keeps_the_association() {
    check("forgotten");
}

/// `/dev/full` accepts nothing, as a full disk.
#[test]
fn a_full_disk_ends_a_capture_alone() {
    let Some(program) = program() else {
        return;
    };
    let served = Served::start("full");
    let capture: Running = start(&[
        "capture",
        "--daemon",
        &served.socket,
        "--write",
        "/dev/full",
    ]);
    let finished = capture.finish();
    assert_eq!(finished.code, Some(1));
    assert!(
        finished.errors.contains("/dev/full") && finished.errors.contains("No space left"),
        "{}",
        finished.errors
    );
    let echo = served.start_program(&[program.to_str().unwrap(), "echo"]);
    let finished = echo.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    assert_eq!(served.end().code, Some(0));
}

#[test]
fn a_daemon_without_room_for_its_log_continues() {
    let Some(program) = program() else {
        return;
    };
    let socket = directory().join(format!("carrick-test-log-{}", std::process::id()));
    let port = free_port().to_string();
    let daemon = start_with(
        "sh",
        &[
            "-c",
            "exec \"$@\" 2> /dev/full",
            "sh",
            env!("CARGO_BIN_EXE_carrick"),
            "daemon",
            "--socket",
            socket.to_str().unwrap(),
            "--udp-port",
            &port,
            "--bind",
            "127.0.0.1",
        ],
    );
    wait_for(&socket);
    // A malformed frame is logged.
    for name in ["garbage", "echo"] {
        let program = program.to_str().unwrap();
        let command = [
            "run",
            "--daemon",
            socket.to_str().unwrap(),
            "--",
            program,
            name,
        ];
        let finished = run(&command);
        assert_eq!(finished.code, Some(0), "{}", finished.errors);
    }
    daemon.interrupt();
    assert_eq!(daemon.finish().code, Some(0));
}

/// Waits until a daemon answers.
fn wait_for(socket: &Path) {
    while run(&["ss", "--daemon", socket.to_str().unwrap()]).code != Some(0) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
