//! `carrick cat` with several associations, processes, descriptions of messages, DTLS and authentication.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::{Finished, Running, run, start};

/// SCTP port of all tests; their UDP ports differ.
const PORT: &str = "7";

/// Starts a listener on loopback and a UDP port that the system selects, and returns it with that port.
fn listen(more: &[&str]) -> (Running, String) {
    let arguments = ["cat", "-l", PORT, "--udp-port", "0", "--bind", "127.0.0.1"];
    let mut listener = start(&[&arguments[..], more].concat());
    let line = listener.error_line_with("listening");
    let udp_port = line.trim_end().rsplit(' ').next().unwrap().to_owned();
    (listener, udp_port)
}

fn connect(udp_port: &str, more: &[&str]) -> Running {
    let arguments = ["cat", "127.0.0.1", PORT, "--peer-udp-port", udp_port];
    start(&[&arguments[..], more].concat())
}

fn succeeded(side: &Finished) {
    assert_eq!(side.code, Some(0), "{side:?}");
}

fn text(output: &[u8]) -> &str {
    std::str::from_utf8(output).unwrap()
}

/// Returns a new folder for files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn keep_open_serves_peers_at_once_and_in_turn() {
    let (mut listener, udp_port) = listen(&["--keep-open", "--json", "-v"]);
    let mut peers = [(); 2].map(|()| connect(&udp_port, &["-q", "60"]));
    for peer in &mut peers {
        listener.error_line_with("connected");
        peer.feed(b"hello\n".to_vec());
    }
    let mut numbers = [(); 2].map(|()| {
        let line = listener.json_line();
        assert_eq!(line["hex"], "68656c6c6f0a");
        line["association"].as_u64().unwrap()
    });
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
    drop(peers);
    let mut later = connect(&udp_port, &[]);
    later.feed(b"later\n".to_vec());
    succeeded(&later.finish());
    let line = listener.json_line();
    assert_eq!(
        (&line["hex"], &line["association"]),
        (&"6c617465720a".into(), &3.into())
    );
    listener.terminate();
    succeeded(&listener.finish());
}

#[test]
fn the_input_of_keep_open_is_sent_to_all_peers() {
    let (mut listener, udp_port) = listen(&["-k", "--verbose", "--input", "json"]);
    let mut peers = [(); 3].map(|()| {
        let peer = connect(&udp_port, &["--recv-only"]);
        listener.error_line_with("connected");
        peer
    });
    let input = "{\"text\":\"all\\n\"}\n{\"text\":\"second\\n\",\"association\":2}\n{\"text\":\"end\\n\"}\n";
    listener.feed(input.into());
    for (number, peer) in peers.iter_mut().enumerate() {
        peer.wait_for_output("all");
        if number == 1 {
            peer.wait_for_output("second");
        }
        peer.wait_for_output("end");
    }
    // The end of the input ends no association, and a signal ends all of them gracefully.
    assert!(peers.iter_mut().all(|peer| !peer.has_ended()));
    listener.terminate();
    succeeded(&listener.finish());
    for peer in peers {
        succeeded(&peer.finish());
    }
}

#[test]
fn associations_beyond_the_limit_are_refused() {
    let (mut listener, udp_port) = listen(&["-k", "--max-associations", "1", "-v"]);
    let first = connect(&udp_port, &["-q", "60"]);
    listener.error_line_with("connected");
    let second = connect(&udp_port, &["--recv-only"]).finish();
    second.assert_failed(1, "too many associations");
    drop(first);
}

#[test]
fn a_process_answers_each_association() {
    let (listener, udp_port) = listen(&["-k", "--exec", "sed -u s/^/>/"]);
    for lines in [&b"one\ntwo\n"[..], b"three\n"] {
        let mut client = connect(&udp_port, &["-q", "1"]);
        client.feed(lines.to_vec());
        let client = client.finish();
        succeeded(&client);
        let expected: Vec<_> = text(lines).lines().map(|l| format!(">{l}")).collect();
        assert_eq!(text(&client.out).lines().collect::<Vec<_>>(), expected);
    }
    listener.terminate();
    succeeded(&listener.finish());
}

#[test]
fn the_end_of_a_process_shuts_the_association_down() {
    let (listener, udp_port) = listen(&[
        "--sh-exec",
        "echo $CARRICK_PEER_ADDRESSES; echo warning >&2",
    ]);
    let client = connect(&udp_port, &["--recv-only"]).finish();
    succeeded(&client);
    assert_eq!(text(&client.out), "127.0.0.1\n");
    let listener = listener.finish();
    succeeded(&listener);
    assert!(listener.errors.contains("warning\n"), "{listener:?}");
}

#[test]
fn a_signal_terminates_processes() {
    let script = "trap 'echo ended >&2; exit' TERM; echo $$; while :; do sleep 0.05; done";
    let (listener, udp_port) = listen(&["-k", "-c", script]);
    let mut client = connect(&udp_port, &["--recv-only", "--hex"]);
    client.wait_for_output("bytes");
    listener.terminate();
    let listener = listener.finish();
    succeeded(&listener);
    assert!(listener.errors.contains("ended\n"), "{listener:?}");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let refused = run(&["cat", "--listen", "7", "--exec", "no-such-program x"]);
    refused.assert_failed(2, "--exec: \"no-such-program\" is not an executable file");
}

/// Objects that `--json` writes are valid input of `--input json`, and keep the attributes of messages.
#[test]
fn json_output_is_valid_input() {
    let first = [
        r#"{"stream":3,"ppid":60,"hex":"0015"}"#,
        r#"{"stream":1,"ppid":3,"unordered":true,"text":"m3ua"}"#,
        r#"{"text":"plain","lifetime":"10s"}"#,
    ];
    let transfer = |input: Vec<u8>| {
        let (mut listener, udp_port) = listen(&["--recv-only", "--json"]);
        listener.read_on();
        let mut client = connect(&udp_port, &["--input", "json"]);
        client.feed(input);
        succeeded(&client.finish());
        listener.finish()
    };
    let once = transfer(first.join("\n").into());
    let twice = transfer(once.out.clone());
    let attributes = |side: &Finished| -> Vec<Value> {
        let pick = |line: Value| {
            Value::from(
                ["stream", "ppid", "unordered", "hex"]
                    .map(|n| line[n].clone())
                    .to_vec(),
            )
        };
        let mut all: Vec<_> = side.json().into_iter().map(pick).collect();
        // Unordered messages may be delivered earlier.
        all.sort_by_key(|line| line[3].to_string());
        all
    };
    assert_eq!(attributes(&once), attributes(&twice));
    let expected = [
        serde_json::json!([3, 60, false, "0015"]),
        serde_json::json!([1, 3, true, "6d337561"]),
        serde_json::json!([0, 0, false, "706c61696e"]),
    ];
    assert_eq!(attributes(&once), expected);
}

#[test]
fn invalid_descriptions_name_their_line() {
    for (form, input, words, received) in [
        (
            "json",
            "{\"text\":\"a\"}\n{\"text\":5}\n",
            "line 2: text: expected a text in quotes",
            "a",
        ),
        (
            "json",
            "{\"text\":\"a\",\"stream\":900}\n",
            "line 1 of the input: stream 900: no such stream",
            "",
        ),
        (
            "hex",
            "00\n0g\n",
            "line 2: expected hexadecimal digits",
            "\0",
        ),
    ] {
        let (listener, udp_port) = listen(&["--recv-only"]);
        let mut client = connect(&udp_port, &["--input", form]);
        client.feed(input.into());
        client.finish().assert_failed(1, words);
        // What preceded the line was delivered.
        let listener = listener.finish();
        succeeded(&listener);
        assert_eq!(text(&listener.out), received);
    }
}

#[test]
fn hexadecimal_input_is_a_message_a_line() {
    let (mut listener, udp_port) = listen(&["--recv-only", "--hex"]);
    listener.read_on();
    let mut client = connect(&udp_port, &["--input", "hex", "--ppid", "60"]);
    client.feed(b"# NGSetupRequest\n00 15 00\nff\n".to_vec());
    succeeded(&client.finish());
    let listener = listener.finish();
    let expected = "stream 0 ssn 0 ppid 60 3 bytes: 001500\nstream 0 ssn 1 ppid 60 1 bytes: ff\n";
    assert_eq!(text(&listener.out), expected);
}

/// A framing delimits messages on both sides.
#[test]
fn a_framing_is_written_as_it_was_read() {
    let (mut listener, udp_port) = listen(&["--recv-only", "--framing", "length16"]);
    listener.read_on();
    let mut client = connect(&udp_port, &["--framing", "length16"]);
    let input = b"\x00\x01a\x00\x02bc";
    client.feed(input.to_vec());
    succeeded(&client.finish());
    assert_eq!(listener.finish().out, input);
}

/// RFC 3758, section 4.1: a peer that does not read lets lifetimes expire.
#[test]
fn messages_beyond_their_lifetime_are_abandoned() {
    let (listener, udp_port) = listen(&["--recv-only", "--receive-buffer", "20k"]);
    let options = ["--lifetime", "200ms", "--size", "10k", "-q", "2"];
    let mut client = connect(&udp_port, &options);
    client.feed(vec![b'x'; 2_000_000]);
    let line = client.error_line_with("messages were abandoned");
    let count = line.split_whitespace().nth(1).unwrap();
    assert!(count.parse::<u32>().unwrap() > 0, "{line}");
    drop(listener);
}

#[test]
fn a_peer_without_partial_reliability_is_reported() {
    let (listener, udp_port) = listen(&["--recv-only", "--prsctp-enable=false"]);
    let mut client = connect(&udp_port, &["--max-retransmissions", "0"]);
    client.feed(b"a\n".to_vec());
    let client = client.finish();
    succeeded(&client);
    assert!(
        client.errors.contains("does not offer partial reliability"),
        "{client:?}"
    );
    let listener = listener.finish();
    assert_eq!(listener.out, b"a\n");
}

/// RFC 4895: with a shared key on both sides messages arrive, with different keys none does, and both sides state why.
#[test]
fn shared_keys_authenticate_messages() {
    let folder = folder("auth_keys");
    let file = folder.join("keys");
    fs::write(
        &file,
        "# of both sides\n1: 00112233445566778899aabbccddeeff\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let (listener, udp_port) = listen(&["--recv-only", "--auth-key-file", file]);
    let key = ["--auth-key", "1:00112233445566778899aabbccddeeff"];
    let mut client = connect(&udp_port, &key);
    client.feed(b"authentic\n".to_vec());
    succeeded(&client.finish());
    let listener = listener.finish();
    succeeded(&listener);
    assert_eq!(listener.out, b"authentic\n");

    let (listener, udp_port) = listen(&["--recv-only", "--auth-key-file", file]);
    let mut client = connect(&udp_port, &["--auth-key", "1:ff"]);
    client.feed(b"forged\n".to_vec());
    client
        .finish()
        .assert_failed(1, "AUTH chunks have an invalid HMAC");
    let listener = listener.finish();
    assert_eq!(listener.out, b"", "{listener:?}");
    listener.assert_failed(1, "of 127.0.0.1 were refused, because");
}

#[test]
fn a_peer_without_authentication_is_refused() {
    let (listener, udp_port) = listen(&["--recv-only"]);
    let client = connect(&udp_port, &["--auth-chunks", "data,sack"]).finish();
    client.assert_failed(1, "does not offer authentication");
    drop(listener);
    let secret = run(&["cat", "-l", "7", "--auth-key", "1:secret"]);
    secret.assert_failed(2, "key 1: expected hexadecimal digits");
    run(&["cat", "-l", "7", "--auth-chunks", "init"]).assert_failed(2, "cannot be authenticated");
}

/// Makes a certificate with its key, as the manual has it, and returns the path of its file.
fn certificate(folder: &std::path::Path, name: &str) -> String {
    let path = folder
        .join(format!("{name}.pem"))
        .to_str()
        .unwrap()
        .to_owned();
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args(["-days", "30", "-subj", "/CN=carrick", "-keyout", &path])
        .stderr(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(made.status.success());
    let key = fs::read_to_string(&path).unwrap();
    fs::write(&path, key + text(&made.stdout)).unwrap();
    path
}

/// RFC 8261: peers identify each other by their certificates.
#[test]
fn dtls_peers_need_the_trusted_certificate() {
    let folder = folder("dtls_cat");
    let [one, two, other] = ["one", "two", "other"].map(|name| certificate(&folder, name));
    let listening = [
        "--dtls",
        "--certificate",
        &one,
        "--trust",
        &two,
        "--recv-only",
    ];
    let connecting = ["--dtls", "--certificate", &two, "-v", "--trust"];
    let (mut listener, udp_port) = listen(&listening);
    listener.read_on();
    let mut client = connect(&udp_port, &[&connecting[..], &[&one]].concat());
    client.feed(b"secret\n".to_vec());
    let client = client.finish();
    succeeded(&client);
    let words = "certificate has the SHA-256 fingerprint";
    assert!(client.errors.contains(words), "{client:?}");
    let listener = listener.finish();
    succeeded(&listener);
    assert_eq!(listener.out, b"secret\n");

    let (listener, udp_port) = listen(&listening);
    let mut client = connect(&udp_port, &[&connecting[..], &[&other]].concat());
    client.close_input();
    client.finish().assert_failed(1, "certificate");
    listener.interrupt();
    assert_eq!(listener.finish().out, b"");

    // The listener refuses this one, and both state it.
    let (mut listener, udp_port) = listen(&listening);
    let third = ["--dtls", "--certificate", &other, "--trust", &one];
    let mut client = connect(&udp_port, &third);
    client.close_input();
    let refused = listener.error_line_with("was refused");
    assert!(refused.contains("is none of --trust"), "{refused}");
    client
        .finish()
        .assert_failed(1, "refused this side's certificate");
    listener.interrupt();
    assert_eq!(listener.finish().out, b"");
}

#[test]
fn errors_of_dtls_options_name_the_file() {
    run(&["cat", "-l", "7", "--dtls"]).assert_failed(2, "--trust");
    let listen = ["cat", "-l", "7", "--dtls", "--trust"];
    run(&[&listen[..], &["no-such.pem"]].concat()).assert_failed(2, "--trust no-such.pem: neither");
    let file = folder("dtls_errors").join("empty.pem");
    fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    run(&[&listen[..], &[file]].concat()).assert_failed(2, "no certificate in PEM");
    let own = run(&[&listen[..], &["any", "--certificate", file]].concat());
    own.assert_failed(2, "--certificate");
}

/// The commands of a pipeline end as well, although `sleep` does not read its input.
#[test]
fn a_killed_program_leaves_no_processes() {
    let file = folder("killed_exec").join("pid");
    let line = format!(
        "sleep 600 | sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait",
        file.display()
    );
    let (mut listener, udp_port) = listen(&["--sh-exec", &line]);
    let client = connect(&udp_port, &["--recv-only"]);
    let read = || fs::read_to_string(&file).ok();
    let id = std::iter::repeat_with(read)
        .inspect(|_| std::thread::sleep(std::time::Duration::from_millis(10)))
        .take(3000)
        .find_map(|id| id)
        .expect("the process starts");
    let process = std::path::Path::new("/proc").join(id.trim());
    assert!(process.exists());
    listener.kill();
    // A process that waits for its parent to reap it has no command line.
    let has_ended = || fs::read(process.join("cmdline")).is_ok_and(|line| line.is_empty());
    let mut ended = false;
    for _ in 0..3000 {
        ended = has_ended() || !process.exists();
        if ended {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(ended, "{}", process.display());
    drop(client);
}
