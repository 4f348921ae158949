//! Transfers with `carrick cat`.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::{Finished, Running, free_udp_port, run, start};

/// SCTP port of all tests; their UDP ports differ.
const PORT: &str = "7";

/// Starts a listener on a UDP port that the system selects, and returns it with that port.
fn listen(more: &[&str]) -> (Running, String) {
    let arguments = ["cat", "--listen", PORT, "--udp-port", "0", "--verbose"];
    let addresses = ["--bind", "127.0.0.1", "--bind", "127.0.0.2"];
    let mut listener = start(&[&arguments[..], &addresses, more].concat());
    let line = listener.error_line();
    let udp_port = line.trim_end().rsplit(' ').next().unwrap().to_owned();
    (listener, udp_port)
}

fn connect(udp_port: &str, more: &[&str]) -> Running {
    let arguments = [
        "cat",
        "127.0.0.1,127.0.0.2",
        PORT,
        "--peer-udp-port",
        udp_port,
    ];
    start(&[&arguments[..], more].concat())
}

/// Sends `input` to a listener, and returns the output of both sides.
fn transfer(input: &[u8], sender: &[&str], receiver: &[&str]) -> (Finished, Finished) {
    let (mut listener, udp_port) = listen(&[receiver, &["--recv-only"]].concat());
    listener.read_on();
    let mut client = connect(&udp_port, sender);
    client.feed(input.to_vec());
    (client.finish(), listener.finish())
}

fn succeeded(side: &Finished) {
    assert_eq!(side.code, Some(0), "{}", side.errors);
}

/// Returns bytes without a repeating pattern, so that a lost or swapped part changes them.
fn content(length: usize) -> Vec<u8> {
    let mut state: u32 = 1;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(length)
    .collect()
}

#[test]
fn file_is_received_unchanged() {
    let file = content(20_000_000);
    for sender in [&["--size", "64K"][..], &["--size", "999"], &[]] {
        let (client, listener) = transfer(&file, sender, &[]);
        succeeded(&client);
        succeeded(&listener);
        assert!(listener.out == file, "{sender:?}: differs");
        assert_eq!(client.out, b"");
    }
}

#[test]
fn the_listener_can_send_as_well() {
    let (mut listener, udp_port) = listen(&["--send-only", "--size", "10k"]);
    let mut client = connect(&udp_port, &["--recv-only"]);
    client.read_on();
    let file = content(1_000_000);
    listener.feed(file.clone());
    succeeded(&listener.finish());
    let client = client.finish();
    succeeded(&client);
    assert!(client.out == file);
}

#[test]
fn lines_become_messages_with_their_attributes() {
    let sender = ["--stream", "3", "--ppid", "46"];
    let (client, listener) = transfer(b"one\n\ntwo", &sender, &["--json"]);
    succeeded(&client);
    succeeded(&listener);
    let lines = listener.json();
    let hex: Vec<&str> = lines.iter().map(|l| l["hex"].as_str().unwrap()).collect();
    assert_eq!(hex, ["6f6e650a", "0a", "74776f"]);
    for (number, line) in lines.iter().enumerate() {
        assert_eq!((&line["stream"], &line["ppid"]), (&3.into(), &46.into()));
        assert_eq!(line["ssn"], number);
        assert_eq!(line["part"], "whole");
    }
}

#[test]
fn a_listener_without_address_accepts_on_loopback() {
    let mut listener = start(&["cat", "-l", PORT, "--udp-port", "0", "--recv-only"]);
    let line = listener.error_line();
    assert!(line.contains("127.0.0.1"), "{line}");
    let udp_port = line.trim_end().rsplit(' ').next().unwrap();
    let mut client = start(&["cat", "localhost", PORT, "--peer-udp-port", udp_port]);
    client.feed(b"hello\n".to_vec());
    succeeded(&client.finish());
    let listener = listener.finish();
    succeeded(&listener);
    assert_eq!(listener.out, b"hello\n");
}

#[test]
fn hexadecimal_is_a_line_a_message() {
    let (client, listener) = transfer(b"ab\n", &["--unordered"], &["--hex"]);
    succeeded(&client);
    assert_eq!(listener.out, b"stream 0 unordered ppid 0 3 bytes: 61620a\n");
}

#[test]
fn a_stream_beyond_the_default_is_requested() {
    let (client, listener) = transfer(b"x", &["--stream", "4000"], &["--json"]);
    succeeded(&client);
    assert_eq!(listener.json()[0]["stream"], 4000);
}

#[test]
fn empty_input_ends_gracefully() {
    let (client, listener) = transfer(b"", &[], &[]);
    succeeded(&client);
    succeeded(&listener);
    assert_eq!(listener.out, b"");
}

#[test]
fn ungraceful_end_is_an_error() {
    let (mut listener, udp_port) = listen(&["--recv-only"]);
    // Continues after the end of its input, so that the listener stays busy.
    let mut client = connect(&udp_port, &["-q", "60"]);
    client.feed(b"x\n".to_vec());
    assert!(listener.error_line().contains("connected"));
    let mut other = connect(&udp_port, &["--recv-only"]);
    other.close_input();
    let other = other.finish();
    other.assert_failed(1, "busy");
    drop(client);
    drop(listener);
}

/// RFC 9260, section 8.1
#[test]
fn messages_to_a_vanished_peer_are_counted() {
    let (mut listener, udp_port) = listen(&["--recv-only"]);
    let timers = ["--rto-min", "1s", "--rto-max", "1s"];
    let limits = ["--association-max-retrans", "2", "--path-max-retrans", "2"];
    let options = [&timers[..], &limits, &["--verbose"]].concat();
    let mut client = connect(&udp_port, &options);
    assert!(client.error_line().contains("connected"));
    assert!(listener.error_line().contains("connected"));
    listener.signal(Signal::SIGSTOP);
    client.feed(b"one\ntwo\nthree\n".to_vec());
    let client = client.finish();
    assert_eq!(client.code, Some(1), "{client:?}");
    let reason = "the peer no longer answers on any of its addresses";
    assert!(client.errors.contains(reason), "{client:?}");
    assert!(
        client.errors.contains("; 3 messages not delivered"),
        "{client:?}"
    );
    drop(listener);
}

#[test]
fn a_paused_reader_stops_the_sender_without_loss() {
    let file = content(5_000_000);
    let (mut listener, udp_port) = listen(&["--recv-only", "--receive-buffer", "100k"]);
    let rto = ["--rto-min", "300ms", "--rto-max", "300ms"];
    let mut client = connect(&udp_port, &[&["--size", "10k"][..], &rto].concat());
    client.feed(file.clone());
    // More window probes than Association.Max.Retrans, which is 10.
    std::thread::sleep(Duration::from_secs(6));
    listener.read_on();
    succeeded(&client.finish());
    let listener = listener.finish();
    succeeded(&listener);
    assert!(listener.out == file);
}

#[test]
fn an_interrupt_does_not_wait_for_blocked_output() {
    let (mut listener, udp_port) = listen(&["--recv-only"]);
    let mut client = connect(&udp_port, &["--size", "64K"]);
    client.feed(content(5_000_000));
    assert!(listener.error_line().contains("connected"));
    // By then the pipe is full and the writing thread blocks.
    std::thread::sleep(Duration::from_millis(500));
    listener.interrupt();
    listener.finish_unread().assert_failed(1, "interrupted");
    client.finish().assert_failed(1, "the program was ended");
}

#[test]
fn help_and_the_version_are_no_mistakes() {
    let features = "\nfeatures: dtls, lab, simco\n";
    for (argument, words) in [
        ("--help", "Usage: carrick"),
        ("-V", "carrick "),
        ("--version", std::env::consts::ARCH),
        ("--version", features),
    ] {
        let shown = run(&[argument]);
        succeeded(&shown);
        assert!(String::from_utf8(shown.out).unwrap().contains(words));
    }
}

/// The peer's text neither moves the cursor nor adds a line (CWE-117, CWE-150).
#[test]
fn text_of_the_peer_is_escaped() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let address = [127, 0, 0, 1].into();
        let config = carrick::Config::udp([address])
            .port(7)
            .encapsulation_port(0);
        let server = carrick::Endpoint::bind(config).unwrap();
        let udp_port = server.encapsulation_port().unwrap().to_string();
        let programs = [
            &["cat", "127.0.0.1", "7"][..],
            &["perf", "client", "127.0.0.1", "--port", "7"],
        ];
        for program in programs {
            let client = start(&[program, &["--peer-udp-port", &udp_port]].concat());
            let association = server.accept().await.unwrap().accept();
            association.abort("\x1b[31m\x1b]0;x\x07\ncarrick: connected\r\0 \u{202e}".as_bytes());
            let client = client.finish();
            client.assert_failed(
                1,
                "\\u{1b}[31m\\u{1b}]0;x\\u{7}\\ncarrick: connected\\r\\0 \\u{202e}",
            );
            let is_control = |c: char| c.is_control() && c != '\n';
            assert!(!client.errors.contains(is_control), "{client:?}");
            let out = String::from_utf8(client.out).unwrap();
            assert!(!out.contains(is_control), "{out:?}");
        }
    });
}

/// The error names the option for the UDP port: another SCTP port would not help.
#[test]
fn a_taken_udp_port_is_an_option() {
    let (_listener, udp_port) = listen(&["--recv-only"]);
    let second = ["cat", "--listen", "8", "--bind", "127.0.0.1"];
    let second = run(&[&second[..], &["--udp-port", &udp_port]].concat());
    second.assert_failed(1, "--udp-port N");
    second.assert_failed(1, "--peer-udp-port N");
    second.assert_failed(1, &format!("UDP port {udp_port}"));
}

/// RFC 9260, section 8.4: an ABORT without a cause, to an INIT for a port that no endpoint has.
#[test]
fn error_names_a_wrong_sctp_port() {
    let (_listener, udp_port) = listen(&["--recv-only"]);
    let client = ["cat", "127.0.0.1", "8", "--peer-udp-port", &udp_port];
    let client = run(&client);
    client.assert_failed(1, "127.0.0.1 port 8: ");
    client.assert_failed(1, "nothing listens on that SCTP port");
}

/// On plain IP the first process owns the port, so that the second one is refused.
#[test]
fn a_second_process_on_plain_ip_is_refused() {
    // Addresses of this process alone: a daemon may have all ports of 127.0.0.1.
    let [.., high, low] = std::process::id().to_be_bytes();
    let [address, own] = [68, 69].map(|network| format!("127.{network}.{high}.{low}"));
    let listener = [
        "cat",
        "-l",
        "5000",
        "--recv-only",
        "--raw",
        "--bind",
        &address,
    ];
    let mut first = start(&listener);
    let line = first.error_line();
    if line.contains("CAP_NET_RAW") {
        return;
    }
    assert!(line.contains("listening"), "{line}");
    run(&listener).assert_failed(1, &format!("SCTP port 5000 of {address} is in use"));
    // A wildcard address would be refused as well: of 127/8 the addresses of a host contain only one.
    let mut client = start(&["cat", &address, "5000", "--raw", "--bind", &own]);
    client.feed(b"hello\n".to_vec());
    succeeded(&client.finish());
    let first = first.finish();
    succeeded(&first);
    assert_eq!(first.out, b"hello\n");
}

#[test]
fn link_local_addresses_are_refused_at_once() {
    for bind in ["fe80::1%lo", "fe80::1"] {
        run(&["cat", "-l", "7", "--bind", bind]).assert_failed(2, "link-local");
    }
    for peer in ["fe80::1%lo", "fe80::1", "127.0.0.1,fe80::1%lo"] {
        run(&["cat", peer, "7"]).assert_failed(2, "link-local");
        run(&["perf", "client", peer]).assert_failed(2, "link-local");
    }
    let encap = ["cat", "127.0.0.1", "7", "--encap", "fe80::1=9899"];
    run(&encap).assert_failed(2, "link-local");
    let agent = [
        "simco",
        "agent",
        "--middlebox",
        "sctp://[fe80::1%lo]",
        "list",
    ];
    run(&agent).assert_failed(2, "link-local");
}

#[test]
fn usage_errors_are_one_line() {
    run(&["cat", "127.0.0.1"]).assert_failed(2, "port");
    for peer in ["224.0.0.1", "ff02::1", "255.255.255.255", "0.0.0.0", "::"] {
        run(&["cat", peer, "7"]).assert_failed(2, "is not the address of a host");
    }
    run(&["cat", "127.0.0.1", "x"]).assert_failed(2, "not a port");
    run(&["cat", "-l", "127.0.0.1", "7"]).assert_failed(2, "--bind");
    run(&["cat", "no such host", "7"]).assert_failed(1, "no such host");
    run(&["cat"]).assert_failed(2, "not provided: <HOST PORT>");
    run(&["cat", "-l", "7", "--stream", "65535"]).assert_failed(2, "65535 is not in 0..=65534");
    run(&["cat", "-l", "7", "-s", "0"]).assert_failed(2, "--size");
    run(&["cat", "-l", "7", "--sise", "1"]).assert_failed(2, "--sise");
    let port = free_udp_port();
    let silent = ["cat", "127.0.0.1", "7", "--peer-udp-port", &port];
    run(&[&silent[..], &["--connect-timeout", "500ms"]].concat()).assert_failed(1, "127.0.0.1");
    let v6 = ["cat", "::1", "7", "--bind", "127.0.0.1"];
    run(&v6).assert_failed(1, "family");
}
