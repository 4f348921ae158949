//! `carrick stp` with `carrick mtp` over loopback.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use serde_json::Value;

use crate::event_log::{log_path, named, read as read_log};
use crate::paths::{self, Hosts};
use crate::support::{Finished, Running, free_udp_port, run, start};

/// ASPs 1 and 2 share the load of point code 2-117-3, ASP 3 has 2-1-1.
const FILE: &str = r#"
metrics = "127.0.0.1:0"
[listen]
addresses = ["127.0.0.1"]
port = 0
udp-port = 0
[[asp]]
name = "hlr1"
addresses = ["127.0.0.1"]
identifier = 1
[[asp]]
name = "hlr2"
addresses = ["127.0.0.1"]
identifier = 2
[[asp]]
name = "msc"
addresses = ["127.0.0.1"]
identifier = 3
[[application-server]]
name = "hlr"
routing-context = 100
traffic-mode = "loadshare"
asps = ["hlr1", "hlr2"]
keys = [{ dpc = "2-117-3", si = [3] }]
[[application-server]]
name = "msc"
routing-context = 200
asps = ["msc"]
keys = [{ dpc = "2-1-1" }]
"#;

/// Configuration file that is removed at the end.
struct ConfigFile(PathBuf);

impl ConfigFile {
    fn write(name: &str, text: &str) -> Self {
        let file = format!("carrick-stp-{}-{name}.toml", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Running signal transfer point with its ports.
struct Stp {
    running: Running,
    port: String,
    udp_port: String,
    metrics: String,
    file: ConfigFile,
}

impl Stp {
    fn start(name: &str, text: &str) -> Self {
        Self::start_by(name, text, start)
    }

    /// Starts it with this function, such as on a host.
    fn start_by(name: &str, text: &str, start: impl FnOnce(&[&str]) -> Running) -> Self {
        let file = ConfigFile::write(name, text);
        let mut running = start(&["stp", "--config", file.path()]);
        let ports = wait_for(&mut running, "sctp port");
        let words: Vec<&str> = ports.split_whitespace().collect();
        let after = |word: &str| words[words.iter().position(|w| *w == word).unwrap() + 1];
        let port = after("port").to_owned();
        let udp_port = (*words.last().unwrap()).to_owned();
        let metrics = wait_for(&mut running, "metrics http://");
        let address = metrics.split("http://").nth(1).unwrap();
        let metrics = address.split('/').next().unwrap().to_owned();
        wait_for(&mut running, "started");
        Self {
            running,
            port,
            udp_port,
            metrics,
            file,
        }
    }

    /// Starts `carrick mtp` as an ASP.
    fn mtp(&self, command: &str, context: &str, identifier: &str, options: &[&str]) -> Running {
        let asp = ["mtp", command, "--gateway", "127.0.0.1", "--udp-port", "0"];
        let ports = ["--port", &self.port, "--peer-udp-port", &self.udp_port];
        let server = ["--routing-context", context, "--identifier", identifier];
        start(&[&asp[..], &ports[..], &server[..], options].concat())
    }

    /// Starts a receiver and waits until it is active.
    fn receiver(&self, context: &str, identifier: &str, options: &[&str]) -> Running {
        let mut receiver = self.mtp("receive", context, identifier, options);
        wait_for(&mut receiver, "is active");
        receiver
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: stp\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

/// Returns the next line of the error output with these words.
fn wait_for(running: &mut Running, words: &str) -> String {
    loop {
        let line = running.error_line();
        assert!(!line.is_empty(), "the output ended before {words:?}");
        if line.contains(words) {
            return line;
        }
    }
}

/// Returns the number of messages in the last line of a receiver.
fn received(finished: &Finished) -> u64 {
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let line = finished.errors.lines().last().unwrap();
    let number = line.split_whitespace().nth(1).unwrap();
    number.parse().unwrap_or_else(|_| panic!("{line}"))
}

const LABEL: [&str; 4] = ["--opc", "2-1-1", "--dpc", "2-117-3"];

#[test]
fn messages_are_received_as_they_were_sent() {
    let stp = Stp::start("lines", FILE);
    let mut text = stp.receiver("100", "1", &["--count", "2"]);
    let options = [&LABEL[..], &["--sls", "5", "01ab", "ff"]].concat();
    let sent = stp.mtp("send", "200", "3", &options).finish();
    assert_eq!(sent.code, Some(0), "{sent:?}");
    text.read_on();
    let text = text.finish();
    let lines = String::from_utf8(text.out.clone()).unwrap();
    let first = "2-1-1 > 2-117-3 si 3 ni 2 mp 0 sls 5: 01ab\n";
    assert_eq!(lines, first.to_owned() + &first.replace("01ab", "ff"));
    assert_eq!(received(&text), 2);

    let json = stp.receiver("100", "2", &["--count", "1", "--json"]);
    let options = [&LABEL[..], &["--format", "json"]].concat();
    let mut sender = stp.mtp("send", "200", "3", &options);
    sender.feed(b"{\"sls\": 7, \"mp\": 1, \"data\": \"00ff\"}\n".to_vec());
    let sent = sender.finish();
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let message = &json.finish().json()[0];
    assert_eq!(message["dpc"], "2-117-3");
    assert_eq!((&message["sls"], &message["mp"]), (&7.into(), &1.into()));
    assert_eq!(message["data"], "00ff");
    assert_eq!(message["routing_context"], 100);
}

#[test]
fn associations_of_asps_are_logged() {
    let path = log_path("stp");
    let log = ["--event-log", path.to_str().unwrap()];
    let start_with_log = |line: &[&str]| start(&[line, &log].concat());
    let mut stp = Stp::start_by("event-log", FILE, start_with_log);
    let receiver = stp.receiver("100", "1", &[]);
    // The endpoint is not changed by a reload, and has its log.
    stp.running.hang_up();
    wait_for(&mut stp.running, "configuration reloaded");
    receiver.terminate();
    assert_eq!(receiver.finish().code, Some(0));
    wait_for(&mut stp.running, "hlr1: ASP is down");
    stp.running.terminate();
    assert_eq!(stp.running.finish().code, Some(0));
    let lines = read_log(&path);
    let names = named(&lines);
    assert_eq!(names.first(), Some(&"association:begun"));
    assert_eq!(names.last(), Some(&"association:ended"));
}

#[test]
fn load_measures_messages_that_are_sent_back() {
    let stp = Stp::start("load", FILE);
    let echo = stp.receiver("100", "1", &["--echo", "--quiet"]);
    let options = [
        "--count", "5000", "--rate", "20000", "--time", "60", "--json",
    ];
    let load = stp.mtp("load", "200", "3", &[&LABEL[..], &options].concat());
    let load = load.finish();
    assert_eq!(load.code, Some(0), "{load:?}");
    let result = load.json().pop().unwrap();
    assert_eq!(result["event"], "result");
    assert_eq!(result["sent"], 5000);
    assert_eq!(result["received"], 5000);
    let delay = |name: &str| result["delay"][name].as_f64().unwrap();
    assert!(delay("p50_ms") <= delay("p99_ms") && delay("p99_ms") <= delay("max_ms"));
    let text = stp.metrics();
    for line in [
        "carrick_stp_sent_total{application_server=\"hlr\"} 5000\n",
        "carrick_stp_sent_octets_total{application_server=\"hlr\"} 500000\n",
        "carrick_stp_received_total{application_server=\"hlr\"} 5000\n",
        "carrick_stp_asp_active{application_server=\"hlr\",asp=\"hlr1\"} 1\n",
        "carrick_stp_destination_available{destination=\"2-117-3\"} 1\n",
        "carrick_stp_discarded_total{reason=\"no_route\"} 0\n",
        "carrick_stp_path_active{asp=\"hlr1\",address=\"127.0.0.1\"} 1\n",
        "carrick_stp_path_failures_total 0\n",
        "carrick_stp_events_suppressed_total 0\n",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    echo.terminate();
    assert_eq!(received(&echo.finish()), 5000);
}

/// RFC 4666, section 4.3.4.4
#[test]
fn an_asp_that_ends_under_load_loses_no_message() {
    let stp = Stp::start("failover", FILE);
    let first = stp.receiver("100", "1", &["--quiet"]);
    let second = stp.receiver("100", "2", &["--quiet"]);
    let options = [
        "--count", "30000", "--rate", "10000", "--time", "60", "--json",
    ];
    let mut load = stp.mtp("load", "200", "3", &[&LABEL[..], &options].concat());
    // A progress line: the load runs.
    assert_eq!(load.json_line()["event"], "interval");
    first.terminate();
    let first = received(&first.finish());
    let sent = load.finish().json().pop().unwrap();
    assert_eq!(sent["sent"], 30_000);
    second.terminate();
    let second = received(&second.finish());
    assert!(first > 0 && second > 0, "{first} {second}");
    assert_eq!(first + second, 30_000);
}

/// Serial number of a message of `carrick mtp load`, with its SLS.
fn serial(message: &Value) -> (u64, u64) {
    let data = message["data"].as_str().unwrap();
    let number = u64::from_str_radix(&data[16..32], 16).unwrap();
    (number, message["sls"].as_u64().unwrap())
}

/// Checks that the serial numbers rise within each SLS; returns the first one and their count.
fn check_order(messages: &[Value]) -> (u64, u64) {
    let mut last = [None; 16];
    for message in messages {
        let (number, sls) = serial(message);
        let last = &mut last[sls as usize];
        assert!(last.is_none_or(|last| last < number), "{number}");
        *last = Some(number);
    }
    let first = messages.iter().map(|message| serial(message).0).min();
    (first.unwrap(), messages.len() as u64)
}

/// RFC 4666, section 4.3.3: the ASP is killed without an ABORT, and returns from the same address and UDP port.
#[test]
fn a_crashed_asp_is_replaced_by_its_next_process() {
    let stp = Stp::start("crash", FILE);
    let udp_port = free_udp_port();
    let receiver = || {
        let asp = ["mtp", "receive", "--gateway", "127.0.0.1", "--json"];
        let ports = ["--port", &stp.port, "--peer-udp-port", &stp.udp_port];
        let own = ["--udp-port", &udp_port, "--routing-context", "100"];
        let mut receiver = start(&[&asp[..], &ports, &own, &["--identifier", "1"]].concat());
        wait_for(&mut receiver, "is active");
        receiver
    };
    let mut first = receiver();
    let options = [
        "--count", "8000", "--rate", "4000", "--time", "60", "--json",
    ];
    let mut load = stp.mtp("load", "200", "3", &[&LABEL[..], &options].concat());
    let mut before = vec![first.json_line()];
    while before.len() < 100 {
        before.push(first.json_line());
    }
    check_order(&before);
    first.kill();
    let mut second = receiver();
    second.read_on();
    load.read_on();
    let sent = load.finish().json().pop().unwrap();
    assert_eq!(sent["sent"], 8000);
    second.terminate();
    let after = second.finish();
    assert_eq!(after.code, Some(0), "{after:?}");
    // What its predecessor did not acknowledge is lost; nothing that follows is.
    let (first, count) = check_order(&after.json());
    assert!(first > 0 && first + count == 8000, "{count} from {first}");
}

/// RFC 4666, section 1.4.8: both ends are multi-homed, and a path fails.
#[test]
#[ignore = "needs root"]
fn a_cut_path_loses_no_message_of_an_asp() {
    let hosts = Hosts::new();
    let listen = "[listen]\naddresses = [\"10.78.0.2\", \"10.78.1.2\"]";
    let text = FILE.replace("[listen]\naddresses = [\"127.0.0.1\"]", listen);
    let text = text.replace("addresses = [\"127.0.0.1\"]", "");
    let stp = Stp::start_by("paths", &text, |line| paths::start_on(&hosts.far, line));
    let mtp = |command: &str, asp: [&str; 2], options: &[&str]| {
        let peer = ["mtp", command, "--gateway", "10.78.0.2,10.78.1.2"];
        let own = ["--bind", "10.78.0.1", "--bind", "10.78.1.1"];
        let ports = ["--port", &stp.port, "--peer-udp-port", &stp.udp_port];
        let asp = ["--routing-context", asp[0], "--identifier", asp[1]];
        let more = [&["--udp-port", "0", "--json"], options].concat();
        paths::start_on(
            &hosts.near,
            &[&peer[..], &own, &ports, &asp, &more].concat(),
        )
    };
    let mut receiver = mtp("receive", ["100", "1"], &["--echo"]);
    wait_for(&mut receiver, "is active");
    let options = ["--count", "12000", "--rate", "2000", "--time", "60"];
    let mut load = mtp("load", ["200", "3"], &[&LABEL[..], &options].concat());
    receiver.read_on();
    assert_eq!(load.json_line()["event"], "interval");
    hosts.cut(0);
    let result = load.finish().json().pop().unwrap();
    assert_eq!(
        (&result["sent"], &result["received"]),
        (&12_000.into(), &12_000.into())
    );
    receiver.terminate();
    let received = receiver.finish();
    assert_eq!(received.code, Some(0), "{received:?}");
    assert_eq!(check_order(&received.json()), (0, 12_000));
    let lost = hosts.lost();
    assert!(lost > 0, "the path that was cut had nothing to carry");
    println!(
        "measured: delay {}, {lost} packets on the cut path",
        result["delay"]
    );
}

/// RFC 4666, section 4.4
#[test]
fn a_registered_routing_key_gets_its_messages() {
    let stp = Stp::start("register", &format!("registration = \"new-keys\"\n{FILE}"));
    let asp = [
        "mtp",
        "receive",
        "--gateway",
        "127.0.0.1",
        "--udp-port",
        "0",
    ];
    let ports = ["--port", &stp.port, "--peer-udp-port", &stp.udp_port];
    let key = ["--identifier", "1", "--register", "4-1-1/3", "--count", "2"];
    let mut receiver = start(&[&asp[..], &ports, &key].concat());
    wait_for(&mut receiver, "is active");
    let options = ["--opc", "2-1-1", "--dpc", "4-1-1", "01", "02"];
    let sent = stp.mtp("send", "200", "3", &options).finish();
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert_eq!(received(&receiver.finish()), 2);
    run(&[&asp[..], &["--register", "4-1-1/16"]].concat()).assert_failed(2, "0 to 15");
}

/// RFC 4666, section 5.6
#[test]
fn messages_pass_to_and_from_an_ipsp() {
    let text = format!(
        "{FILE}[[link-set]]\nname = \"east\"\nipsp = \"double\"\nrouting-context = 20\n\
         local-routing-context = 10\npeers = [{{ addresses = [\"127.0.0.2\"], accept = true }}]\n\
         [[route]]\ndpc = \"3-0-0\"\nlink-set = \"east\"\n"
    );
    let stp = Stp::start("ipsp", &text);
    let ipsp = ["--ipsp", "double", "--local-routing-context", "20"];
    let ipsp = [&ipsp[..], &["--bind", "127.0.0.2"]].concat();
    let mut receiver = stp.mtp(
        "receive",
        "10",
        "9",
        &[&ipsp[..], &["--echo", "--quiet"]].concat(),
    );
    wait_for(&mut receiver, "is active");
    let label = ["--opc", "2-1-1", "--dpc", "3-0-0"];
    let options = ["--count", "2000", "--rate", "10000", "--json"];
    let load = stp.mtp("load", "200", "3", &[&label[..], &options].concat());
    let result = load.finish().json().pop().unwrap();
    assert_eq!(
        (&result["sent"], &result["received"]),
        (&2000.into(), &2000.into())
    );
    receiver.terminate();
    assert_eq!(received(&receiver.finish()), 2000);
}

/// RFC 4666, section 4.3.1: an IPSP that accepts the association of its peer
#[test]
fn messages_pass_between_two_ipsps() {
    let common = |command, local, remote| {
        let ipsp = [
            "mtp",
            command,
            "--ipsp",
            "double",
            "--gateway",
            remote,
            "--bind",
            local,
        ];
        [&ipsp[..], &["--udp-port", "0", "--connect-timeout", "60s"]].concat()
    };
    let contexts = |local, remote| {
        [
            "--local-routing-context",
            local,
            "--routing-context",
            remote,
        ]
    };
    let accepting = common("receive", "127.0.0.2", "127.0.0.1");
    let options = ["--accept", "--port", "2907", "--echo", "--quiet"];
    let mut receiver = start(&[&accepting[..], &contexts("10", "20"), &options].concat());
    let ports = wait_for(&mut receiver, "sctp port");
    let udp_port = ports.split_whitespace().last().unwrap();
    let label = ["--opc", "2-1-1", "--dpc", "3-0-0", "--port", "2907"];
    let connecting = common("load", "127.0.0.1", "127.0.0.2");
    let connecting = [&connecting[..], &label, &contexts("20", "10")].concat();
    let options = [
        "--peer-udp-port",
        udp_port,
        "--count",
        "500",
        "--rate",
        "10000",
        "--json",
    ];
    let load = run(&[&connecting[..], &options].concat());
    let result = load.json().pop().unwrap();
    assert_eq!(
        (&result["sent"], &result["received"]),
        (&500.into(), &500.into())
    );
    receiver.terminate();
    assert_eq!(received(&receiver.finish()), 500);
    let alone = ["mtp", "receive", "--gateway", "127.0.0.1", "--accept"];
    run(&alone).assert_failed(2, "--ipsp");
}

#[test]
fn a_reload_changes_the_configuration_or_nothing() {
    let mut stp = Stp::start("reload", FILE);
    let receiver = stp.receiver("100", "1", &[]);
    std::fs::write(&stp.file.0, FILE.replace("[listen]", "[lsten]")).unwrap();
    stp.running.hang_up();
    let refused = wait_for(&mut stp.running, "not reloaded");
    assert!(
        refused.contains("line 3") && refused.contains("lsten"),
        "{refused}"
    );
    let denied = "\n[[screening]]\naction = \"deny\"\nopc = \"2-1-1\"\nsi = [5]\n";
    std::fs::write(&stp.file.0, FILE.to_owned() + denied).unwrap();
    stp.running.hang_up();
    wait_for(&mut stp.running, "configuration reloaded");
    let send = |options: &[&str]| {
        let sent = stp.mtp("send", "200", "3", &[&LABEL[..], options].concat());
        let sent = sent.finish();
        assert_eq!(sent.code, Some(0), "{sent:?}");
    };
    send(&["--si", "5", "00"]);
    send(&["01"]);
    stp.running.signal(Signal::SIGUSR1);
    wait_for(&mut stp.running, "status: destination 2-117-3: available");
    stp.running.terminate();
    let stopped = stp.running.finish();
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(
        stopped.errors.contains("discarded, screened: 1"),
        "{stopped:?}"
    );
    assert!(
        stopped.errors.trim_end().ends_with("carrick: stopped"),
        "{stopped:?}"
    );
    receiver.terminate();
    let receiver = receiver.finish();
    assert_eq!(received(&receiver), 1);
    assert!(receiver.out.ends_with(b": 01\n"), "{receiver:?}");
}

#[test]
fn a_wrong_configuration_is_an_error_with_its_line() {
    for (from, to, words) in [
        ("[listen]", "[lsten]", "line 3"),
        ("routing-context = 200", "routing-context = 100", "line 27"),
        ("\"2-1-1\"", "\"9-1-1\"", "line 29"),
    ] {
        let file = ConfigFile::write("wrong", &FILE.replace(from, to));
        let wrong = run(&["stp", "--config", file.path(), "--check"]);
        wrong.assert_failed(1, words);
    }
    run(&["stp", "--config", "/nonexistent"]).assert_failed(1, "cannot read /nonexistent");
}

#[test]
fn wrong_options_are_usage_errors() {
    let base = ["mtp", "send", "--gateway", "127.0.0.1"];
    let run = |options: &[&str]| run(&[&base[..], options].concat());
    run(&["--opc", "8-0-0", "--dpc", "1", "00"]).assert_failed(2, "8-0-0");
    run(&["--opc", "1", "--dpc", "1", "0x"]).assert_failed(2, "no hexadecimal digit");
    let refused = [
        "--opc",
        "1",
        "--dpc",
        "1",
        "--peer-udp-port",
        "9",
        "--connect-timeout",
        "100ms",
    ];
    let refused = run(&[&refused[..], &["--udp-port", "0", "00"]].concat());
    refused.assert_failed(1, "not active at 127.0.0.1");
}

/// The configurations of the manual.
#[test]
fn configurations_of_the_manual_are_valid() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sigtran.md");
    let text = std::fs::read_to_string(manual).unwrap();
    let blocks = text.split("```toml\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    let mut count = 0;
    for block in blocks.filter(|block| block.contains("[listen]")) {
        let file = ConfigFile::write(&format!("manual{count}"), block);
        let checked = run(&["stp", "--config", file.path(), "--check"]);
        assert_eq!(checked.code, Some(0), "{checked:?}");
        count += 1;
    }
    assert_eq!(count, 6);
}

#[test]
fn the_example_and_the_unit_are_valid() {
    let example = include_str!("../../../../docs/examples/carrick-stp.toml");
    let file = ConfigFile::write("example", example);
    let checked = run(&["stp", "--config", file.path(), "--check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(!checked.errors.contains("warning"), "{checked:?}");
    let check = ["stp", "--config", file.path(), "--check"];
    let with_log = [&check[..], &["--event-log", "/nonexistent/events.jsonl"]].concat();
    run(&with_log).assert_failed(1, "folder /nonexistent does not exist: create it");
    let unit = include_str!("../../../../docs/examples/carrick-stp.service");
    // The installed program need not exist.
    let unit = unit.replace("/usr/local/bin/carrick", env!("CARGO_BIN_EXE_carrick"));
    let folder = std::env::temp_dir().join(format!("carrick-stp-unit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let service = folder.join("carrick-stp.service");
    std::fs::write(&service, unit).unwrap();
    let verified = std::process::Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&service)
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    match verified {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}");
            assert!(!errors.contains("carrick-stp"), "{errors}");
        }
        Err(error) => println!("skipped: no systemd-analyze: {error}"),
    }
}

#[test]
fn identity_by_number_alone_is_warned_of() {
    let text = FILE.replacen(
        "addresses = [\"127.0.0.1\"]\nidentifier = 1",
        "identifier = 1",
        1,
    );
    let file = ConfigFile::write("number", &text);
    let checked = run(&["stp", "--config", file.path(), "--check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let warning = "warning: ASP \"hlr1\" is recognized by its identifier alone";
    assert!(checked.errors.contains(warning), "{checked:?}");
}

/// RFC 4666, section 4.3.4.2
#[test]
fn an_asp_that_is_not_active_yet_ends_with_asp_down() {
    let mut stp = Stp::start("early-end", FILE);
    // The gateway refuses ASP Active for the application server of another ASP.
    let asp = stp.mtp("receive", "100", "3", &["--connect-timeout", "60m"]);
    wait_for(&mut stp.running, "msc: ASP is up");
    // The ASP knows it, too: it has requested ASP Active.
    wait_for(&mut stp.running, "msc: sent error 0x1a");
    asp.signal(Signal::SIGTERM);
    // ASP Down precedes the end of the association.
    wait_for(&mut stp.running, "msc: ASP is down");
    wait_for(&mut stp.running, "msc: disconnected: shut down");
    asp.finish().assert_failed(1, "interrupted by SIGTERM");
}
