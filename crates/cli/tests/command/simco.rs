use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::event_log::{named, read as read_log};
use crate::support::{Finished, Running, run, start};

/// Configuration with its files, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("carrick-command-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Remains of a run with the same process ID.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("key"), "000102030405060708090a0b0c0d0e0f\n").unwrap();
        set_mode(&path.join("key"), 0o600);
        let folder = Self(path);
        folder.configure("rights = \"all\"");
        folder
    }

    fn configure(&self, agent: &str) {
        let config = format!(
            "name = \"box\"\n\
             [backend]\nkind = \"memory\"\n\
             [listen]\ntcp = [\"127.0.0.1:0\"]\n\
             sctp = {{ addresses = [\"127.0.0.1\"], port = 0, udp-port = 0 }}\n\
             [[agents]]\nname = \"pbx\"\nkey-file = \"key\"\n{agent}\n"
        );
        std::fs::write(self.0.join("box.toml"), config).unwrap();
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Returns the text of a log line of a daemon.
pub(crate) fn text_of(line: &str) -> &str {
    let words: Vec<&str> = line.trim().splitn(4, ' ').collect();
    let [time, level, "carrick:", text] = words[..] else {
        panic!("{line:?}");
    };
    assert!(time.starts_with("20") && time.ends_with('Z'), "{line:?}");
    assert!(["info", "warn", "error"].contains(&level), "{line:?}");
    text
}

/// Running middlebox with its addresses.
struct Middlebox {
    running: Running,
    sctp: Vec<String>,
    tcp: Vec<String>,
}

fn middlebox(folder: &Folder) -> Middlebox {
    let config = folder.file("box.toml");
    listening(start(&["simco", "middlebox", "--config", &config]))
}

/// Reads the addresses on which a middlebox listens.
fn listening(mut running: Running) -> Middlebox {
    let line = running.error_line();
    let numbers: Vec<&str> = text_of(&line).split_whitespace().collect();
    let ["sctp", "port", port, "in", "udp", "port", udp] = numbers[..] else {
        panic!("{line:?}");
    };
    let sctp = vec![
        format!("--middlebox=sctp://127.0.0.1:{port}"),
        format!("--udp-port={udp}"),
    ];
    let line = running.error_line();
    let address = text_of(&line).strip_prefix("tcp ").unwrap().to_owned();
    let tcp = vec![format!("--middlebox=tcp://{address}")];
    while !text_of(&running.error_line()).starts_with("started") {}
    Middlebox { running, sctp, tcp }
}

fn agent(folder: &Folder, place: &[String], request: &[&str]) -> Finished {
    let key = folder.file("key");
    run(&agent_line(&key, place, request))
}

/// Returns the command line of an agent.
fn agent_line<'a>(key: &'a str, place: &'a [String], request: &[&'a str]) -> Vec<&'a str> {
    let mut line = vec![
        "simco",
        "agent",
        "--json",
        "--name",
        "pbx",
        "--key-file",
        key,
    ];
    line.extend(place.iter().map(String::as_str));
    line.extend(request);
    line
}

fn answer(finished: &Finished) -> Value {
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished.json().remove(0)
}

#[test]
fn agent_opens_lists_and_closes_rules() {
    let folder = Folder::new("agent");
    let middlebox = middlebox(&folder);
    for place in [&middlebox.sctp, &middlebox.tcp] {
        let ask = |request: &[&str]| agent(&folder, place, request);
        let ends = [
            "--internal",
            "10.0.0.1:5000",
            "--external",
            "192.0.2.1:6000",
        ];
        let per = [&["per", "--ports", "2", "--lifetime", "100"][..], &ends].concat();
        let opened = answer(&ask(&per));
        assert_eq!(
            (&opened["kind"], &opened["lifetime"]),
            (&"enabled".into(), &100.into())
        );
        let rule = opened["rule"].to_string();
        let listed = answer(&ask(&["list", "--long"]));
        assert_eq!(listed["internal"], "10.0.0.1:5000+2");
        assert_eq!(listed["owner"], "pbx");
        assert_eq!(answer(&ask(&["plc", &rule, "50"]))["lifetime"], 50);
        assert_eq!(answer(&ask(&["plc", &rule, "0"]))["lifetime"], 0);
        ask(&["status", &rule]).assert_failed(1, "does not exist");
        let pdr = [&["pdr"][..], &ends].concat();
        let blocked = answer(&ask(&pdr));
        assert_eq!(blocked["kind"], "disabled");
        ask(&per).assert_failed(1, "conflict");
        let rule = blocked["rule"].to_string();
        assert_eq!(answer(&ask(&["plc", &rule, "0"]))["lifetime"], 0);
        assert_eq!(answer(&ask(&["list"]))["rules"], Value::Array(vec![]));
        let reserved = answer(&ask(&["prr"]));
        assert_eq!(reserved["kind"], "reserved");
        let rule = reserved["rule"].to_string();
        assert_eq!(answer(&ask(&["plc", &rule, "0"]))["lifetime"], 0);
    }
    middlebox.running.interrupt();
    assert_eq!(middlebox.running.finish().code, Some(0));
}

#[test]
fn associations_of_agents_are_logged() {
    let folder = Folder::new("event-log");
    let (config, of_middlebox) = (folder.file("box.toml"), folder.file("middlebox.log"));
    let line = [
        "simco",
        "middlebox",
        "--config",
        &config,
        "--event-log",
        &of_middlebox,
    ];
    let middlebox = listening(start(&line));
    let of_agent = folder.file("agent.log");
    let listed = agent(
        &folder,
        &middlebox.sctp,
        &["list", "--event-log", &of_agent],
    );
    assert_eq!(listed.code, Some(0), "{listed:?}");
    middlebox.running.interrupt();
    assert_eq!(middlebox.running.finish().code, Some(0));
    for path in [of_middlebox, of_agent] {
        let lines = read_log(&path.into());
        let names = named(&lines);
        assert_eq!(names.first(), Some(&"association:begun"));
        assert_eq!(names.last(), Some(&"association:ended"));
    }
}

/// RFC 9260, section 9.2
#[test]
fn sessions_end_by_a_shutdown() {
    let folder = Folder::new("shutdown");
    let (config, log) = (folder.file("box.toml"), folder.file("middlebox.log"));
    let line = [
        "simco",
        "middlebox",
        "--config",
        &config,
        "--event-log",
        &log,
    ];
    let middlebox = listening(start(&line));
    let key = folder.file("key");
    let listed = agent(&folder, &middlebox.sctp, &["list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut watching = start(&agent_line(&key, &middlebox.sctp, &["watch"]));
        assert_eq!(watching.json_line()["event"], "opened");
        watching.signal(signal);
        assert_eq!(watching.finish().code, Some(0));
    }
    let per = [
        "per",
        "--internal",
        "10.0.0.1:5000",
        "--external",
        "192.0.2.1:6000",
        "--hold",
    ];
    let mut holding = start(&agent_line(&key, &middlebox.sctp, &per));
    assert_eq!(holding.json_line()["kind"], "enabled");
    holding.signal(Signal::SIGTERM);
    assert_eq!(holding.finish().code, Some(0));
    let mut load = agent_line(&key, &middlebox.sctp, &["--time", "60s"]);
    load[1] = "load";
    let loading = start(&load);
    while std::fs::read_to_string(&log)
        .unwrap()
        .matches("association:established")
        .count()
        < 5
    {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    loading.signal(Signal::SIGTERM);
    loading.finish().assert_failed(1, "interrupted by SIGTERM");
    middlebox.running.interrupt();
    assert_eq!(middlebox.running.finish().code, Some(0));
    let lines = read_log(&log.into());
    let ended = lines
        .iter()
        .filter(|line| line["name"] == "association:ended");
    let reasons: Vec<&Value> = ended.map(|line| &line["data"]["reason"]).collect();
    assert_eq!(reasons, ["SHUTDOWN COMPLETE"; 5]);
}

#[test]
fn errors_of_a_key_file_have_its_line() {
    let folder = Folder::new("key-file");
    let key = folder.file("key");
    let place = ["--middlebox=tcp://127.0.0.1:1".to_owned()];
    std::fs::write(&key, "\n000102030405060708090a0b0c0d0e0g\n").unwrap();
    let expected =
        format!("carrick: {key}, line 2: character 32 is no digit; the key must be hexadecimal");
    agent(&folder, &place, &["list"]).assert_failed(1, &expected);
    std::fs::write(&key, "0001\n").unwrap();
    let expected = format!("carrick: {key}, line 1: the key has 4 hexadecimal digits; expected");
    agent(&folder, &place, &["list"]).assert_failed(1, &expected);
    set_mode(Path::new(&key), 0o644);
    agent(&folder, &place, &["list"]).assert_failed(
        1,
        &format!("carrick: {key}: readable or writable by every user"),
    );
    std::fs::remove_file(&key).unwrap();
    agent(&folder, &place, &["list"])
        .assert_failed(1, &format!("carrick: cannot read {key}: No such file"));
}

#[test]
fn a_check_covers_the_files_of_the_middlebox() {
    let folder = Folder::new("files");
    let config = folder.file("box.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let check = ["simco", "middlebox", "--check", "--config", &config];
    let missing = folder.file("none");
    for (key, words) in [
        (
            "audit = \"none/audit.json\"",
            format!("line 1: audit: {missing}/audit.json: folder {missing} does not exist"),
        ),
        ("audit = \".\"", "line 1: audit: ".into()),
        ("state = \"key/rules\"", "line 1: state: ".into()),
    ] {
        std::fs::write(&config, format!("{key}\n{text}")).unwrap();
        run(&check).assert_failed(1, &words);
    }
    std::fs::write(
        &config,
        format!("state = \"none/rules\"\naudit = \"audit.json\"\n{text}"),
    )
    .unwrap();
    let log = folder.file("none/events.jsonl");
    let with_log = [&check[..], &["--event-log", &log]].concat();
    run(&with_log).assert_failed(1, "/none does not exist: create it");
    let checked = run(&check);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(!Path::new(&missing).exists(), "a check creates nothing");
}

/// RFC 4540, section 8.4
#[test]
fn agent_watches_rules_and_enables_a_reservation() {
    let folder = Folder::new("watch");
    let middlebox = middlebox(&folder);
    let key = folder.file("key");
    for place in [&middlebox.sctp, &middlebox.tcp] {
        let ask = |request: &[&str]| answer(&agent(&folder, place, request));
        let mut watching = start(&agent_line(&key, place, &["watch"]));
        assert_eq!(watching.json_line()["event"], "opened");
        let reserved = ask(&["prr", "--ports", "2", "--lifetime", "100"]);
        let rule = reserved["rule"].to_string();
        let enabled = ask(&[
            "pea",
            &rule,
            "--internal",
            "10.0.0.1:5000",
            "--external",
            "192.0.2.1:6000",
            "--ports",
            "2",
            "--lifetime",
            "50",
        ]);
        assert_eq!(
            (&enabled["rule"], &enabled["kind"], &enabled["lifetime"]),
            (&reserved["rule"], &"enabled".into(), &50.into())
        );
        assert_eq!(ask(&["status", &rule])["external"], "192.0.2.1:6000+2");
        ask(&["plc", &rule, "30"]);
        ask(&["plc", &rule, "0"]);
        for (name, lifetime) in [
            ("changed", 100),
            ("changed", 50),
            ("changed", 30),
            ("ended", 0),
        ] {
            let event = watching.json_line();
            assert_eq!(
                (&event["event"], &event["rule"], &event["lifetime"]),
                (&name.into(), &reserved["rule"], &lifetime.into())
            );
        }
        watching.interrupt();
        assert_eq!(watching.finish().code, Some(0));
    }
    middlebox.running.interrupt();
    assert_eq!(middlebox.running.finish().code, Some(0));
}

#[test]
fn watch_prints_why_the_session_ended() {
    let folder = Folder::new("closed");
    let middlebox = middlebox(&folder);
    let key = folder.file("key");
    let mut watching = start(&agent_line(&key, &middlebox.tcp, &["watch"]));
    assert_eq!(watching.json_line()["event"], "opened");
    middlebox.running.interrupt();
    let event = watching.json_line();
    assert_eq!(
        (&event["event"], &event["reason"]),
        (&"closed".into(), &"terminated by the middlebox".into())
    );
    assert_eq!(middlebox.running.finish().code, Some(0));
    watching.interrupt();
    assert_eq!(watching.finish().code, Some(0));
}

#[test]
fn hold_prints_events_of_its_rule_only() {
    let folder = Folder::new("hold-alone");
    let middlebox = middlebox(&folder);
    let key = folder.file("key");
    let per = |port: &'static str, more: &[&'static str]| {
        let ends = ["per", "--internal", port, "--external", "192.0.2.1:6000"];
        [&ends, more].concat()
    };
    let held = per("10.0.0.1:5000", &["--hold", "--lifetime", "600"]);
    let mut holding = start(&agent_line(&key, &middlebox.tcp, &held));
    let rule = holding.json_line()["rule"].clone();
    // Another rule, which the agent may see as well, begins and ends.
    let ask = |request: &[&str]| answer(&agent(&folder, &middlebox.tcp, request));
    let other = ask(&per("10.0.0.1:5002", &[]))["rule"].to_string();
    ask(&["plc", &other, "0"]);
    ask(&["plc", &rule.to_string(), "0"]);
    let event = holding.json_line();
    assert_eq!((&event["event"], &event["rule"]), (&"ended".into(), &rule));
    assert_eq!(holding.finish().code, Some(1));
    middlebox.running.interrupt();
    assert_eq!(middlebox.running.finish().code, Some(0));
}

#[test]
fn sighup_reloads_the_configuration() {
    let folder = Folder::new("reload");
    let mut middlebox = middlebox(&folder);
    let list = || agent(&folder, &middlebox.tcp, &["list"]);
    answer(&list());
    folder.configure("rights = [\"enable\"]");
    middlebox.running.hang_up();
    let line = middlebox.running.error_line();
    assert!(line.contains("configuration reloaded"), "{line}");
    let list = agent(&folder, &middlebox.tcp, &["list"]);
    list.assert_failed(1, "not authorized");
    folder.configure("rights = [\"enabl\"]");
    middlebox.running.hang_up();
    let line = middlebox.running.error_line();
    assert!(
        line.contains("configuration not reloaded") && line.contains("enabl"),
        "{line}"
    );
    middlebox.running.interrupt();
    assert_eq!(middlebox.running.finish().code, Some(0));
}

#[test]
fn held_rule_ends_on_interrupt() {
    let folder = Folder::new("hold");
    let middlebox = middlebox(&folder);
    let list = || answer(&agent(&folder, &middlebox.tcp, &["list"]))["rules"].clone();
    let key = folder.file("key");
    // Several times, because two parts of the program handle the signal.
    for n in 0..8 {
        let port = format!("10.0.0.1:{}", 7000 + n);
        let mut line = vec![
            "simco",
            "agent",
            "--json",
            "--name",
            "pbx",
            "--key-file",
            &key,
        ];
        line.extend(middlebox.tcp.iter().map(String::as_str));
        line.extend([
            "per",
            "--hold",
            "--internal",
            &port,
            "--external",
            "192.0.2.1:80",
        ]);
        let mut holds = start(&line);
        assert_eq!(holds.json_line()["kind"], "enabled");
        assert_eq!(list().as_array().unwrap().len(), 1);
        let ending = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
        holds.signal(ending[n % ending.len()]);
        assert_eq!(holds.finish().code, Some(0));
        assert_eq!(list(), Value::Array(vec![]), "{n}");
    }
}

/// RFC 4540, section 8.3.1
#[test]
fn wildcards_in_both_directions_are_explained() {
    let folder = Folder::new("wildcard");
    let middlebox = middlebox(&folder);
    let per = |ends: &[&str]| agent(&folder, &middlebox.tcp, &[&["per"][..], ends].concat());
    let one = ["--internal", "10.0.0.1:5", "--external"];
    for external in ["any", "192.0.2.0/24:80", "192.0.2.1"] {
        let both = [&one[..], &[external]].concat();
        per(&both).assert_failed(2, "--direction");
        answer(&per(&[&both[..], &["--direction", "in"]].concat()));
    }
}

#[test]
fn configuration_errors_name_their_line() {
    let folder = Folder::new("wrong");
    let config = folder.file("box.toml");
    let right = run(&["simco", "middlebox", "--check", "--config", &config]);
    assert_eq!(right.code, Some(0), "{right:?}");
    folder.configure("right = 1");
    let wrong = run(&["simco", "middlebox", "--check", "--config", &config]);
    let expected = format!("carrick: {config}, line 10: right: unknown key; expected one of");
    wrong.assert_failed(1, &expected);
    let none = run(&["simco", "agent", "list"]);
    none.assert_failed(2, "--middlebox");
}

#[test]
#[cfg(target_os = "linux")]
fn unusable_outside_addresses_are_rejected_early() {
    let folder = Folder::new("pools");
    let config = folder.file("box.toml");
    let check = |pools: &str| {
        let text = format!(
            "name = \"box\"\nanonymous = \"pbx\"\n[listen]\ntcp = [\"127.0.0.1:0\"]\n[backend]\nkind = \"nftables\"\ntranslation = [{pools}]\n[[agents]]\nname = \"pbx\"\n"
        );
        std::fs::write(&config, text).unwrap();
        run(&["simco", "middlebox", "--check", "--config", &config])
    };
    let pool = |address: &str, first: u16, last: u16| {
        format!("{{ address = {address:?}, first-port = {first}, last-port = {last} }}")
    };
    let one = pool("192.0.2.1", 1000, 2000);
    for other in [pool("192.0.2.1", 2001, 3000), pool("192.0.2.2", 1000, 2000)] {
        let right = check(&format!("{one}, {other}"));
        assert_eq!(right.code, Some(0), "{right:?}");
    }
    let twice = check(&format!("{one}, {}", pool("192.0.2.1", 2000, 3000)));
    twice.assert_failed(1, "ports 2000 to 2000 of 192.0.2.1 are in two pools");
    check(&pool("0.0.0.0", 1000, 2000)).assert_failed(1, "cannot be an outside address");
}

#[test]
fn b2bua_rejects_unusable_settings_early() {
    let b2bua = |arguments: &str| {
        let common = "simco b2bua --middlebox tcp://127.0.0.1:1 --internal 10.0.0.0/8";
        let line: Vec<&str> = common.split(' ').chain(arguments.split(' ')).collect();
        run(&line)
    };
    for (arguments, error) in [
        ("--listen 127.0.0.1 --outer 192.0.2.1:5060", "ADDRESS:PORT"),
        (
            "--listen 0.0.0.0:5060 --outer 192.0.2.1:5060",
            "both sides reach",
        ),
        (
            "--listen 10.0.0.1:5060 --outer [fd00::1]:5060",
            "of one version",
        ),
        (
            "--listen 10.0.0.1:5060 --outer 192.0.2.1:5060 --probe 0s",
            "longer than 0",
        ),
        (
            "--listen 10.0.0.1:5060 --outer 192.0.2.1:5060 --status 0s",
            "longer than 0",
        ),
        (
            "--listen 10.0.0.1:5060 --outer 192.0.2.1:5060 --inner tcp://192.0.2.1:5070",
            "use UDP",
        ),
    ] {
        b2bua(arguments).assert_failed(2, error);
    }
}

#[test]
fn load_runs_without_failures() {
    let folder = Folder::new("load");
    let middlebox = middlebox(&folder);
    let key = folder.file("key");
    for place in [&middlebox.sctp, &middlebox.tcp] {
        let mut line = vec![
            "simco",
            "load",
            "--json",
            "--name",
            "pbx",
            "--key-file",
            &key,
        ];
        line.extend(place.iter().map(String::as_str));
        line.extend([
            "--rate",
            "200",
            "--hold",
            "1s",
            "--refresh",
            "500ms",
            "--lifetime",
            "60",
        ]);
        line.extend(["--warm-up", "200ms", "--time", "4s"]);
        let report = answer(&run(&line));
        for kind in ["enable", "refresh", "close"] {
            let count = report[kind]["count"].as_u64().unwrap();
            assert!(count > 100, "{kind}: {report}");
        }
        for kind in ["refused", "timed_out", "suppressed", "not_taken", "expired"] {
            assert_eq!(report["failures"][kind], 0, "{report}");
        }
        assert_eq!(report["transactions"], report["started"], "{report}");
        assert!(report["pinholes"].as_u64().unwrap() > 50, "{report}");
        // Opened, closed, and refreshed 1 / (e^(500 ms / 1 s) - 1) times on average.
        let offered = report["offered_per_second"].as_f64().unwrap();
        assert!((offered - 708.3).abs() < 0.1, "{report}");
    }
}

/// Starts a back-to-back user agent with much output and a middlebox; returns its SIP address.
#[cfg(target_os = "linux")]
fn talkative_b2bua(folder: &Folder, middlebox: &Middlebox) -> (Running, String) {
    let key = folder.file("key");
    let agent = ["simco", "b2bua", &middlebox.tcp[0], "--name", "pbx"];
    let calls = ["--listen", "127.0.0.1:0", "--internal", "10.0.0.0/8"];
    let more = ["--outer", "127.0.0.2:5060", "--json", "--status", "1ms"];
    let arguments = [&agent[..], &["--key-file", &key], &calls, &more].concat();
    let mut b2bua = start(&arguments);
    let line = b2bua.error_line();
    let address = text_of(&line).strip_prefix("sip udp and tcp ");
    let address = address.unwrap_or_else(|| panic!("{line:?}")).to_owned();
    (b2bua, address)
}

/// Returns true if it answers a number of requests, with a pause before each.
#[cfg(target_os = "linux")]
fn answers_options(address: &str, times: u32) -> bool {
    use std::time::Duration;
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).unwrap();
    let own = socket.local_addr().unwrap();
    (0..times).all(|n| {
        std::thread::sleep(Duration::from_millis(100));
        let asked = format!(
            "OPTIONS sip:agent@{address} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK-{n}\r\nFrom: <sip:a@{own}>;tag=1\r\nTo: <sip:agent@{address}>\r\nCall-ID: {n}\r\nCSeq: {n} OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        );
        socket.send_to(asked.as_bytes(), address).unwrap();
        let mut answer = [0; 2048];
        let length = socket.recv(&mut answer).unwrap_or(0);
        answer[..length].starts_with(b"SIP/2.0 200 ")
    })
}

#[test]
#[cfg(target_os = "linux")]
fn b2bua_survives_a_blocked_or_closed_output() {
    let folder = Folder::new("unread");
    let middlebox = middlebox(&folder);
    let (mut b2bua, address) = talkative_b2bua(&folder, &middlebox);
    assert_eq!(b2bua.json_line()["offered"], 0);
    b2bua.close_output();
    assert!(answers_options(&address, 5));
    b2bua.terminate();
    let finished = b2bua.finish();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let closed = "output closed by its reader";
    assert_eq!(finished.errors.matches(closed).count(), 1, "{finished:?}");
    // A pipe holds some hundred lines, and the queue a thousand.
    let (b2bua, address) = talkative_b2bua(&folder, &middlebox);
    assert!(answers_options(&address, 50));
    b2bua.hang_up();
    let finished = b2bua.finish_unread();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.errors.contains("lines lost"), "{finished:?}");
}
