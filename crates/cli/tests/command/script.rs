//! `carrick script`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Finished, run, start};

const PASSING: &str = "// RFC 9260, section 8.4: an answer to a packet out of the blue
+0 < sctp(tag=7): SHUTDOWN_ACK[flgs=0]
+0 > sctp(tag=7): SHUTDOWN_COMPLETE[flgs=T]
";

/// Creates an empty directory for a test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory");
    path
}

fn written(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).expect("written");
    path.to_str().expect("a path").into()
}

fn output(finished: &Finished) -> &str {
    std::str::from_utf8(&finished.out).expect("text")
}

#[test]
fn a_passing_script_is_a_line_of_tap() {
    let file = written(&directory("script-pass"), "ok.pkt", PASSING);
    let finished = run(&["script", &file]);
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    let title = "RFC 9260, section 8.4: an answer to a packet out of the blue";
    assert_eq!(
        output(&finished),
        format!("TAP version 13\n1..1\nok 1 - {file}: {title}\n")
    );
    assert_eq!(finished.errors, "");
}

#[test]
fn a_failure_shows_the_packets_beside_each_other() {
    let text = PASSING.replace("SHUTDOWN_COMPLETE[flgs=T]", "SHUTDOWN_COMPLETE[flgs=0]");
    let file = written(&directory("script-fail"), "fail.pkt", &text);
    let finished = run(&["script", &file]);
    assert_eq!(finished.code, Some(1));
    let expected = format!(
        "  ---
  message: \"chunk 1 (SHUTDOWN_COMPLETE), flgs differs: expected 0, sent 1\"
  at: {file}:3:1
  time: 0
  field: \"chunk 1 (SHUTDOWN_COMPLETE), flgs\"
  expected: \"0.000 > sctp(tag=7): SHUTDOWN_COMPLETE[flgs=0]\"
  actual:   \"0.000 > sctp(tag=7): SHUTDOWN_COMPLETE[flgs=T]\"
  ...
"
    );
    assert!(
        output(&finished).ends_with(&expected),
        "{}",
        output(&finished)
    );
    assert_eq!(finished.errors, "carrick: 1 of 1 scripts failed\n");
    let json: Value = serde_json::from_slice(&run(&["script", "--json", &file]).out).expect("JSON");
    assert_eq!((&json["passed"], &json["line"]), (&false.into(), &3.into()));
    assert_eq!(json["field"], "chunk 1 (SHUTDOWN_COMPLETE), flgs");
}

#[test]
fn a_syntax_error_has_line_and_column() {
    let text = PASSING.replace("SHUTDOWN_ACK[flgs=0]", "SHUTDOWN_ACK[flags=0]");
    let file = written(&directory("script-syntax"), "wrong.pkt", &text);
    let finished = run(&["script", &file]);
    assert_eq!(finished.code, Some(1));
    let expected = format!(
        "TAP version 13\n1..1\nnot ok 1 - {file}\n  ---\n  \
         message: \"expected a field of SHUTDOWN_ACK (flgs, len), found `flags`\"\n  at: {file}:2:32\n  ...\n"
    );
    assert_eq!(output(&finished), expected);
    let json: Value = serde_json::from_slice(&run(&["script", "--json", &file]).out).expect("JSON");
    assert_eq!((&json["line"], &json["column"]), (&2.into(), &32.into()));
}

#[test]
fn lines_without_an_effect_are_notes() {
    let text = format!("--speed=1000\n`ifconfig tun0 up`\n{PASSING}");
    let file = written(&directory("script-notes"), "notes.pkt", &text);
    let finished = run(&["script", &file]);
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    let expected = format!(
        "TAP version 13\n1..1\nok 1 - {file}\n# {file}:1:1: --speed has no effect\n\
         # {file}:2:1: not run: `ifconfig tun0 up`\n"
    );
    assert_eq!(output(&finished), expected);
    let json: Value = serde_json::from_slice(&run(&["script", "--json", &file]).out).expect("JSON");
    assert_eq!(json["notes"][0], "1:1: --speed has no effect");
}

#[test]
fn a_packet_behind_the_last_line_is_a_note() {
    let text = PASSING.lines().take(2).collect::<Vec<_>>().join("\n");
    let file = written(&directory("script-end"), "end.pkt", &text);
    let finished = run(&["script", &file]);
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    let note = format!(
        "# {file}:2:1: the stack sent a packet that is not expected after the last event: 0.000 > 192.168.0.1"
    );
    assert!(output(&finished).contains(&note), "{}", output(&finished));
    let strict = run(&["script", "--strict-end", &file]);
    assert_eq!(strict.code, Some(1));
    assert!(output(&strict).starts_with("TAP version 13\n1..1\nnot ok 1"));
}

#[test]
fn lines_of_the_chosen_system_are_run() {
    let text = format!("#ifdef FreeBSD\n{PASSING}#else\n+0 close(1) = -1 EBADF\n#endif\n");
    let file = written(&directory("script-system"), "system.pkt", &text);
    let packets = |arguments: &[&str]| {
        let finished = run(&[&["script", "--json"], arguments, &[&file]].concat());
        let json: Value = serde_json::from_slice(&finished.out).expect("JSON");
        json["packets"].as_u64()
    };
    assert_eq!(packets(&[]), Some(0));
    assert_eq!(packets(&["--system", "linux"]), Some(0));
    assert_eq!(packets(&["--system", "freebsd"]), Some(2));
}

/// RTO.Initial of the presets
const RTO_INITIAL: &str = "+0.0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0.0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0.0 connect(3, ..., ...) = -1 EINPROGRESS
+0.0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
+0.2 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
";

#[test]
fn the_option_precedes_the_preset_of_a_script() {
    let directory = directory("script-preset");
    let plain = written(&directory, "plain.pkt", RTO_INITIAL);
    let text = format!("--preset=signaling\n{RTO_INITIAL}");
    let signaling = written(&directory, "signaling.pkt", &text);
    let code = |arguments: &[&str]| run(&[&["script"], arguments].concat()).code;
    assert_eq!(code(&[&plain]), Some(1));
    assert_eq!(code(&["--preset", "signaling", &plain]), Some(0));
    assert_eq!(code(&[&signaling]), Some(0));
    assert_eq!(code(&["--preset", "rfc9260", &signaling]), Some(1));
    assert_eq!(code(&["--preset", "recommended", &signaling]), Some(1));
    let unknown = run(&["script", "--preset", "fast", &plain]);
    let names = "expected recommended, signaling or rfc9260";
    assert!(unknown.errors.contains(names), "{}", unknown.errors);
    // The parameters of another stack are its own.
    let peer = ["--preset", "signaling", "--peer", "127.0.0.1:7", &plain];
    assert_eq!(code(&peer), Some(2));
}

#[test]
fn scripts_of_a_directory_are_run_in_order() {
    let directory = directory("script-directory");
    fs::create_dir(directory.join("b")).expect("a directory");
    let names = ["b/2.pkt", "a.pkt", "c.pkt", "b/1.pkt"];
    for name in names {
        written(&directory, name, PASSING);
    }
    written(&directory, "notes.txt", "no script");
    let finished = run(&["script", directory.to_str().expect("a path")]);
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    let lines: Vec<&str> = output(&finished).lines().collect();
    assert_eq!(lines[..2], ["TAP version 13", "1..4"]);
    for (line, name) in lines[2..]
        .iter()
        .zip(["a.pkt", "b/1.pkt", "b/2.pkt", "c.pkt"])
    {
        assert!(
            line.starts_with("ok ") && line.contains(&format!("/{name}: ")),
            "{line}"
        );
    }
}

#[test]
fn a_capture_has_the_expected_packets_as_comments() {
    let directory = directory("script-capture");
    let file = written(&directory, "ok.pkt", PASSING);
    let capture = directory.join("out.pcapng");
    let finished = run(&[
        "script",
        "--pcapng",
        capture.to_str().expect("a path"),
        &file,
    ]);
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    let bytes = fs::read(&capture).expect("a capture");
    assert_eq!(bytes[..4], [0x0A, 0x0D, 0x0D, 0x0A]);
    for text in [
        "ok.pkt",
        "line 2: < sctp(tag=7): SHUTDOWN_ACK[flgs=0]",
        "line 3: > sctp(tag=7): SHUTDOWN_COMPLETE[flgs=T]",
    ] {
        let mut parts = bytes.windows(text.len());
        assert!(parts.any(|part| part == text.as_bytes()), "{text}");
    }
}

#[test]
fn wrong_paths_are_usage_errors() {
    let empty = directory("script-empty");
    let path = empty.to_str().expect("a path");
    let finished = run(&["script", path]);
    finished.assert_failed(2, &format!("no scripts (*.pkt) in {path}"));
    let finished = run(&["script", "/no/such.pkt"]);
    finished.assert_failed(2, "cannot read /no/such.pkt: No such file");
    run(&["script"]).assert_failed(2, "required arguments were not provided");
}

const HEARTBEAT: &str = "// RFC 9260, section 8.3: a HEARTBEAT is answered
+0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < sctp: INIT[flgs=0, tag=1, a_rwnd=65536, os=2, is=2, tsn=10]
* > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=..., is=..., tsn=100, ...]
+0 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
* > sctp: COOKIE_ACK[flgs=0]
+0 < sctp: HEARTBEAT[flgs=0, HEARTBEAT_INFORMATION[len=12, val=\"probe 17\"]]
* > sctp: HEARTBEAT_ACK[flgs=0, HEARTBEAT_INFORMATION[len=12, val=\"probe 17\"]]
";

/// Runs three scripts against a server of Carrick: one that passes, one that fails, one that is skipped.
fn run_against_a_server(name: &str, server: &[&str], options: &[&str]) {
    let mut server = start(&[&["perf", "server", "--json"], server].concat());
    let listening = server.json_line();
    let udp = listening["udp_port"].to_string();
    let address = listening["addresses"][0].as_str().expect("an address");
    let port = listening["port"].as_u64().expect("a port") as u16;
    let peer = SocketAddr::new(address.parse().expect("an address"), port).to_string();
    let directory = directory(name);
    written(&directory, "1.pkt", HEARTBEAT);
    let wrong = HEARTBEAT.replace(
        "* > sctp: HEARTBEAT_ACK",
        "* > sctp: ABORT[]; HEARTBEAT_ACK",
    );
    written(&directory, "2.pkt", &wrong);
    written(
        &directory,
        "3.pkt",
        &format!("{HEARTBEAT}+0 write(3, ..., 10) = 10\n"),
    );
    let path = directory.to_str().expect("a path");
    let options: Vec<&str> = options
        .iter()
        .map(|option| if *option == "UDP" { &udp } else { *option })
        .collect();
    let finished = run(&[&["script", "--peer", &peer, path], &options[..]].concat());
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let lines: Vec<&str> = output(&finished).lines().collect();
    assert_eq!(lines[..2], ["TAP version 13", "1..3"]);
    assert!(lines[2].starts_with("ok 1 - "), "{lines:?}");
    assert!(lines[3].starts_with("not ok 2 - "), "{lines:?}");
    let difference = "  message: \"chunk 1 differs: expected ABORT, sent HEARTBEAT_ACK\"";
    assert_eq!(lines[5], difference);
    let last = lines[lines.len() - 1];
    assert!(last.starts_with("ok 3 - "), "{lines:?}");
    assert!(
        last.ends_with("# SKIP line 11: write is a call of the other program"),
        "{lines:?}"
    );
}

/// RFC 6951, section 5.1
#[test]
fn another_stack_is_reached_by_its_address() {
    let server = ["--bind", "127.0.0.1", "--udp-port", "0"];
    run_against_a_server("script-peer", &server, &["--udp", "UDP"]);
}

/// RFC 9260, section 1.3
#[test]
#[ignore = "needs root"]
fn another_stack_is_reached_on_plain_ip() {
    for (name, address) in [("script-raw-4", "127.0.0.1"), ("script-raw-6", "::1")] {
        run_against_a_server(name, &["--bind", address, "--raw"], &["--raw"]);
    }
}
