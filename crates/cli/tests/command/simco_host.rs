//! Resources that a middlebox and a back-to-back user agent need of their host: a packet filter, private
//! files, file descriptors.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::simco::{Folder, set_mode, text_of};
use crate::support::{Running, run, start, start_with};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carrick");

/// Configuration with all files that a middlebox writes.
fn configure(folder: &Folder, backend: &str) -> String {
    let config = folder.file("box.toml");
    let text = format!(
        "name = \"box\"\nstate = \"lib/state\"\naudit = \"audit\"\nmetrics = \"127.0.0.1:0\"\n{backend}\n[listen]\ntcp = [\"127.0.0.1:0\"]\n[[agents]]\nname = \"pbx\"\nkey-file = \"key\"\n"
    );
    std::fs::write(&config, text).unwrap();
    config
}

const MEMORY: &str = "[backend]\nkind = \"memory\"";

/// Starts the program from a shell that runs this command first.
fn start_after(command: &str, arguments: &[&str]) -> Running {
    let script = format!("{command}; exec {PROGRAM} \"$@\"");
    start_with("sh", &[&["-c", &script, "sh"], arguments].concat())
}

/// Reads the log until a line contains this text; returns the line's text.
fn logged(running: &mut Running, wanted: &str) -> String {
    let mut read = Vec::new();
    loop {
        let line = running.error_line();
        assert!(!line.is_empty(), "no {wanted:?} in {read:?}");
        let text = text_of(&line).to_owned();
        if text.contains(wanted) {
            return text;
        }
        read.push(text);
    }
}

/// Returns the address after a word in the log.
fn address(running: &mut Running, word: &str) -> SocketAddr {
    let line = logged(running, word);
    let (_, rest) = line.split_once(word).unwrap();
    rest.trim_end_matches("/metrics").parse().unwrap()
}

fn metrics(at: SocketAddr) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn memory_backend_is_warned_about_at_start() {
    let folder = Folder::new("filters");
    let config = configure(&folder, "");
    let check = ["simco", "middlebox", "--check", "--config", &config];
    for line in [&check[..], &["simco", "middlebox", "--config", &config]] {
        run(line).assert_failed(
            1,
            "backend: missing: the file needs this key or table: give [backend]",
        );
    }
    let warning = "backend memory: packets are not filtered";
    configure(&folder, MEMORY);
    let checked = run(&check);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(String::from_utf8_lossy(&checked.out).contains(warning));
    let mut middlebox = start(&["simco", "middlebox", "--config", &config]);
    logged(&mut middlebox, warning);
    logged(&mut middlebox, "started");
    middlebox.terminate();
    logged(&mut middlebox, "stopping");
    logged(&mut middlebox, "stopped");
    assert_eq!(middlebox.finish().code, Some(0));
    configure(&folder, "[backend]\nkind = \"nftables\"");
    let checked = run(&check);
    assert!(!String::from_utf8_lossy(&checked.out).contains("filtered"));
}

#[test]
fn keys_that_other_users_can_read_are_refused() {
    let folder = Folder::new("modes");
    let config = configure(&folder, MEMORY);
    let key = folder.file("key");
    set_mode(Path::new(&key), 0o644);
    let at = ["--middlebox", "tcp://127.0.0.1:1", "--name", "pbx"];
    let agent = [&["simco", "agent"][..], &at, &["--key-file", &key, "list"]].concat();
    for line in [
        &["simco", "middlebox", "--check", "--config", &config][..],
        &["simco", "middlebox", "--config", &config],
        &agent,
    ] {
        run(line).assert_failed(1, "chmod o=");
    }
    set_mode(Path::new(&key), 0o640);
    let check = ["simco", "middlebox", "--check", "--config", &config];
    assert_eq!(
        run(&check).code,
        Some(0),
        "the group of a service may read it"
    );
}

#[test]
fn files_are_private_whatever_the_umask() {
    let folder = Folder::new("umask");
    let config = configure(&folder, MEMORY);
    let arguments = ["simco", "middlebox", "--config", &config];
    let mut middlebox = start_after("umask 0", &arguments);
    logged(&mut middlebox, "started");
    for (name, expected) in [
        ("lib", 0o700),
        ("lib/state", 0o700),
        ("lib/state/lock", 0o600),
        ("lib/state/rules", 0o600),
        ("audit", 0o600),
    ] {
        let metadata = std::fs::metadata(folder.file(name)).unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        assert_eq!(mode, expected, "{name}: {mode:o}");
    }
    middlebox.terminate();
    assert_eq!(middlebox.finish().code, Some(0));
}

#[test]
fn lack_of_file_descriptors_is_logged_and_counted() {
    let folder = Folder::new("descriptors");
    let config = configure(&folder, MEMORY);
    let arguments = ["simco", "middlebox", "--config", &config];
    let mut middlebox = start_after("ulimit -n 28", &arguments);
    let tcp = address(&mut middlebox, "tcp ");
    let metered = address(&mut middlebox, "metrics http://");
    let connections: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(tcp).unwrap()).collect();
    let line = logged(&mut middlebox, "cannot accept connections at");
    assert!(
        line.contains(&tcp.to_string()) && line.contains("LimitNOFILE"),
        "{line}"
    );
    drop(connections);
    let text = metrics(metered);
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("carrick_simco_accept_failures_total "));
    let count: u64 = count.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
    assert!(count > 0, "{text}");
    middlebox.terminate();
    assert_eq!(middlebox.finish().code, Some(0));
}

/// Returns the arguments of a back-to-back user agent at this middlebox.
fn b2bua<'a>(middlebox: &'a str, key: &'a str) -> Vec<&'a str> {
    let agent = ["simco", "b2bua", "--middlebox", middlebox, "--name", "pbx"];
    let calls = ["--listen", "127.0.0.1:0", "--internal", "10.0.0.0/8"];
    let more = [
        "--outer",
        "127.0.0.2:5060",
        "--metrics",
        "127.0.0.1:0",
        "--json",
    ];
    [&agent[..], &["--key-file", key], &calls, &more].concat()
}

#[test]
fn a_b2bua_logs_what_it_refuses_and_what_it_lacks() {
    let folder = Folder::new("refuses");
    let config = configure(&folder, MEMORY);
    let mut middlebox = start(&["simco", "middlebox", "--config", &config]);
    let tcp = address(&mut middlebox, "tcp ");
    let (at, key) = (format!("tcp://{tcp}"), folder.file("key"));
    let mut agent = start_after("ulimit -n 28", &b2bua(&at, &key));
    let sip = address(&mut agent, "sip udp and tcp ");
    let metered = address(&mut agent, "metrics http://");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let own = socket.local_addr().unwrap();
    let body = "v=0\r\no=- 1 1 IN IP4 127.0.0.2\r\ns=-\r\nc=IN IP4 127.0.0.2\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n";
    let invite = format!(
        "INVITE sip:b@{sip} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK-1\r\nFrom: <sip:a@{own}>;tag=1\r\nTo: <sip:b@{sip}>\r\nCall-ID: one\r\nCSeq: 1 INVITE\r\nContact: <sip:a@{own}>\r\nMax-Forwards: 70\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.send_to(invite.as_bytes(), sip).unwrap();
    let reason = "127.0.0.2 is a loopback address";
    let line = logged(&mut agent, "refused");
    assert!(
        line.contains("call one refused with 488") && line.contains(reason),
        "{line}"
    );
    let record: Value = agent.json_line();
    assert_eq!(record["status"], 488, "{record}");
    assert!(
        record["reason"].as_str().unwrap().contains(reason),
        "{record}"
    );
    let connections: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(sip).unwrap()).collect();
    logged(&mut agent, "cannot accept connections at");
    drop(connections);
    assert!(metrics(metered).contains("carrick_calls_accept_failures_total "));
    agent.terminate();
    logged(&mut agent, "stopped");
    assert_eq!(agent.finish().code, Some(0));
    middlebox.terminate();
    assert_eq!(middlebox.finish().code, Some(0));
}

/// The first run of docs/simco.md as it is written there, in a network namespace.
#[test]
fn the_first_run_of_the_manual_opens_a_pinhole() {
    let manual = include_str!("../../../../docs/simco.md");
    let (_, section) = manual.split_once("## First run").unwrap();
    let blocks: Vec<&str> = section.split("```").skip(1).step_by(2).take(3).collect();
    let [toml, key, commands] = blocks[..] else {
        panic!("{blocks:?}");
    };
    let folder = Folder::new("manual");
    let toml = toml.strip_prefix("toml\n").unwrap();
    std::fs::write(folder.file("box.toml"), toml).unwrap();
    let program = Path::new(PROGRAM).parent().unwrap().display();
    // The log reports to a person that the middlebox has started.
    let (alone, commands) = commands.trim().split_once('\n').unwrap();
    let commands = commands.replace(
        " &\n",
        " 2> log &\nuntil grep -q started log; do sleep 0.1; done\n",
    );
    let script = format!(
        "set -e\ncd '{}'\nPATH='{program}':$PATH\n{}\n{commands}\nkill %1\n",
        folder.file(""),
        key.trim()
    );
    let words: Vec<&str> = alone.split_whitespace().collect();
    let mut running = start_with(words[0], &[&words[1..], &["bash", "-mc", &script]].concat());
    running.close_input();
    let finished = running.finish();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let out = String::from_utf8_lossy(&finished.out);
    assert!(out.contains("enabled"), "{out}");
    // The elements as `nft` lists them.
    assert!(
        out.contains("10.0.0.1") && out.contains("table inet carrick"),
        "{out}"
    );
}
