//! `carrick run` and `carrick daemon`: unmodified programs on Carrick's sockets, over loopback. The C
//! program has one check for each test; without a C compiler the tests pass with a message.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::socket_programs::{
    Served, build_library, check, check_on, directory, free_port, program, succeeds,
};
use crate::sockets_limits::{ANOTHER_USER, has_another_user};

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

/// RFC 6458, section 9.2
#[test]
fn a_branch_without_room_loses_no_association() {
    check("unbranched");
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
fn messages_of_one_call_arrive_one_by_one() {
    check("several");
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

/// docs/sockets.md: each call after the end of the daemon fails with ECONNRESET.
#[test]
fn a_killed_daemon_resets_listening_sockets() {
    let Some(program) = program() else {
        return;
    };
    for mode in [&[][..], &["--seccomp"]] {
        let mut served = Served::start("deserted");
        let run = ["run", "--daemon", &served.socket];
        let command = ["--", program.to_str().unwrap(), "deserted"];
        let mut running = crate::support::start(&[&run[..], mode, &command].concat());
        running.json_line();
        served.daemon.kill();
        let finished = running.finish();
        assert_eq!(finished.code, Some(0), "{mode:?}: {}", finished.errors);
        std::fs::remove_file(&served.socket).unwrap();
    }
}

/// Programs that read again and again at the end of an association do not load the daemon.
#[test]
fn an_end_is_read_without_the_daemon() {
    let Some(program) = program() else {
        return;
    };
    for mode in [&[][..], &["--seccomp"]] {
        let served = Served::start("remembered");
        let run = ["run", "--daemon", &served.socket];
        let daemon = served.daemon.id().to_string();
        let command = ["--", program.to_str().unwrap(), "remembered", &daemon];
        let finished = crate::support::run(&[&run[..], mode, &command].concat());
        assert_eq!(finished.code, Some(0), "{mode:?}: {}", finished.errors);
    }
}

/// docs/sockets.md: `carrick run --end-with-daemon`
#[test]
fn a_program_can_end_with_its_daemon() {
    for mode in [&[][..], &["--seccomp"]] {
        let mut served = Served::start("ended-with");
        let run = ["run", "--daemon", &served.socket, "--end-with-daemon"];
        let command = ["--", "sh", "-c", "echo '{}'; exec sleep 600"];
        let mut running = crate::support::start(&[&run[..], mode, &command].concat());
        running.json_line();
        assert!(!running.has_ended());
        served.daemon.kill();
        let finished = running.finish();
        assert_eq!(
            finished.code,
            Some(128 + 15),
            "{mode:?}: {}",
            finished.errors
        );
        assert!(
            finished.errors.contains("the daemon has ended"),
            "{}",
            finished.errors
        );
        std::fs::remove_file(&served.socket).unwrap();
    }
}

/// A reader that has enough, as `head`, is no failure of a list.
fn closed_outputs_are_no_failures(socket: &str) {
    for command in [
        &["ss", "-a"][..],
        &["ss", "-a", "--json"],
        &["ss", "--proc", "assocs"],
        &["top"],
        &["top", "--json"],
    ] {
        let (_, output) = std::io::pipe().unwrap();
        let closed = std::process::Command::new(env!("CARGO_BIN_EXE_carrick"))
            .args(command)
            .args(["--daemon", socket])
            .stdout(output)
            .output()
            .unwrap();
        let errors = String::from_utf8(closed.stderr).unwrap();
        assert_eq!((closed.status.code(), &errors[..]), (Some(0), ""));
    }
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
            "    127.0.0.1 -> 127.0.0.1 primary current active errors:0 selected:127.0.0.1 udp:"
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
    let row: serde_json::Value = serde_json::from_str(&list(&["--json"])[0]).unwrap();
    let number = row["association"].to_string();
    if has_another_user() {
        let command = [
            env!("CARGO_BIN_EXE_carrick"),
            "ss",
            "--daemon",
            &served.socket,
        ];
        let command = [&ANOTHER_USER[..], &command, &["--kill", &number]].concat();
        let refused = crate::support::start_with("setpriv", &command).finish();
        refused.assert_failed(
            1,
            &format!("cannot abort association {number}: it is another user's"),
        );
    }
    let killed = list(&["-K", &number]);
    assert!(
        killed[0].starts_with(&format!("association {number}, port ")),
        "{killed:?}"
    );
    assert!(
        killed[0].ends_with(" is aborted; 0 bytes were not acknowledged"),
        "{killed:?}"
    );
    // The peer has the ABORT at once: it is in the same daemon.
    assert_eq!(list(&["--json"]), [""; 0]);
    let by = served.daemon.error_line_with("(carrick ss --kill)");
    assert!(by.contains(" has aborted the association of port "), "{by}");
    let log = served.daemon.error_line_with("ended by an administrator");
    assert!(log.contains(": ended: ABORT received: "), "{log}");
    let again = crate::support::run(&["ss", "--daemon", &served.socket, "--kill", &number]);
    let error = format!("cannot abort association {number}: the daemon has none of this number");
    again.assert_failed(1, &error);
    closed_outputs_are_no_failures(&served.socket);
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
    // Refused while the daemon has not closed all their connections yet: without one for itself, without a descriptor
    // for a socket, or without one for the socket of `accept`.
    let refusals = [
        "Protocol not supported",
        "Too many open files",
        "Connection reset by peer",
    ];
    let mut tries = 0;
    loop {
        let program = served.start_program(&[program.to_str().unwrap(), "echo"]);
        let finished = program.finish();
        if finished.code == Some(0) {
            break;
        }
        let errors = finished.errors;
        let is_refused = refusals.iter().any(|refusal| errors.contains(refusal));
        assert!(is_refused && tries < 100, "{errors}");
        std::thread::sleep(Duration::from_millis(100));
        tries += 1;
    }
    let errors = served.end().errors;
    let warnings = errors.lines().filter(|line| line.contains(" warn "));
    assert!(warnings.count() < 20 + tries, "{errors}");
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
fn options_of_another_daemon_are_refused() {
    build_library();
    let served = Served::start("refused");
    for (options, words) in [
        (&["--event-log", "a.jsonl"][..], "--event-log has no effect"),
        (&["--preset", "signaling"], "(its key defaults.preset)"),
        (
            &["--sack-timeout", "100ms"],
            "(its key defaults.sack-timeout)",
        ),
        (&["--ecn-enable=false"], "(its key defaults.ecn-enable)"),
        (
            &["--peer-udp-port", "9900"],
            "(its key network.peer-udp-port)",
        ),
        (&["--raw"], "(its key network.transport)"),
        (&["--foo"], "unexpected argument '--foo' found"),
    ] {
        let run = ["run", "--daemon", &served.socket];
        let finished = crate::support::run(&[&run[..], options, &["true"]].concat());
        finished.assert_failed(2, words);
        let environment = [("CARRICK_DAEMON", served.socket.as_str())];
        let line = [&["run"], options, &["--", "true"]].concat();
        let program = env!("CARGO_BIN_EXE_carrick");
        let mut running =
            crate::support::start_in(std::process::Stdio::piped(), &environment, program, &line);
        running.close_input();
        running.finish().assert_failed(2, words);
    }
    served.end();
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
    let listed = crate::support::run(&["ss", "--daemon", "/nonexistent/socket"]);
    listed.assert_failed(1, "/nonexistent/socket");
    assert_eq!(listed.out, b"");
}

/// The dynamic linker would run the program without Carrick.
#[test]
fn a_library_that_cannot_be_loaded_is_refused() {
    let carrick = env!("CARGO_BIN_EXE_carrick");
    let run = ["CARRICK_PRELOAD=/missing.so", carrick, "run", "--", "true"];
    let finished = crate::support::start_with("env", &run).finish();
    finished.assert_failed(1, "CARRICK_PRELOAD names /missing.so");
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
