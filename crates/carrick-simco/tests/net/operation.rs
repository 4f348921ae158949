use std::time::Duration;

use carrick_simco::backend::{MemoryBackend, MemoryLimits};
use carrick_simco::client::{Client, ClientError, ClientEvent, RequestError};
use carrick_simco::daemon::{Daemon, Settings, State};
use carrick_simco::message::{Lifetime, NegativeReply, PolicyRuleId};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Box3, Transport, backend, block, config, pinhole, soon, target, text};

#[tokio::test]
async fn a_reload_changes_agents_and_drops_no_session() {
    let middlebox = Box3::start("").await;
    let alice = middlebox.client(Transport::Sctp, "alice").await;
    let bob = middlebox.client(Transport::Tcp, "bob").await;
    let kept = alice.enable(pinhole(1, 100)).await.unwrap();
    let orphan = bob.enable(pinhole(2, 100)).await.unwrap().id();
    let (mut of_alice, mut of_bob) = (alice.events(), bob.events());
    // Bob goes, Carol comes, Alice may no longer reserve and has a smaller quota.
    let old = text(&middlebox.folder, "");
    let new = old.replace("name = \"bob\"", "name = \"carol\"").replace(
        "max-rules = 50",
        "max-rules = 1\nrights = [\"enable\", \"list\"]",
    );
    let fixed = middlebox
        .daemon
        .reload(Settings::parse(&new).unwrap())
        .await
        .unwrap();
    assert_eq!(fixed, Vec::<String>::new());
    let ended = soon("AST", of_bob.next()).await.unwrap();
    assert!(matches!(ended, ClientEvent::Closed(_)), "{ended:?}");
    let quota = alice.enable(pinhole(3, 100)).await.err();
    assert_eq!(
        quota,
        Some(RequestError::Refused(NegativeReply::NoResources))
    );
    let right = alice.status(kept.id()).await.err();
    let refused = RequestError::Refused(NegativeReply::AgentNotAuthorized);
    assert_eq!(right, Some(refused));
    assert_eq!(alice.list().await.unwrap(), [kept.id()]);
    let quiet = tokio::time::timeout(Duration::ZERO, of_alice.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    // The rules of who is gone live out their lives; who comes with that key is somebody else.
    let mut carol = config(middlebox.target(Transport::Tls), "bob");
    let refused = soon("refused", Client::connect(carol.clone())).await.err();
    assert!(
        matches!(refused, Some(ClientError::Session(_))),
        "{refused:?}"
    );
    let credentials = carol.settings.credentials.as_mut().unwrap();
    credentials.agent = carrick_simco::session::Identity::new("carol").unwrap();
    let carol = soon("connect", Client::connect(carol)).await.unwrap();
    assert_eq!(carol.list().await.unwrap(), []);
    let noc = middlebox.client(Transport::Tcp, "noc").await;
    assert_eq!(noc.list().await.unwrap(), [kept.id(), orphan]);
    // What is wrong changes nothing; what needs a restart is told.
    let wrong = Settings::parse(&new.replace("\"list\"", "\"x\"")).unwrap();
    assert!(middlebox.daemon.reload(wrong).await.is_err());
    let elsewhere = new.replace("tcp = [\"127.0.0.1:0\"]", "tcp = [\"127.0.0.2:0\"]");
    let there = Settings::parse(&elsewhere).unwrap();
    assert_eq!(middlebox.daemon.reload(there).await.unwrap(), ["listen"]);
    // It is compared with what runs, not with what was read last.
    let reload = async |text: &str| {
        middlebox
            .daemon
            .reload(Settings::parse(text).unwrap())
            .await
    };
    assert_eq!(reload(&elsewhere).await.unwrap(), ["listen"]);
    assert!(reload(&new).await.unwrap().is_empty());
}

#[tokio::test]
async fn metrics_are_served_over_http() {
    let middlebox = Box3::start("metrics = \"127.0.0.1:0\"").await;
    let alice = middlebox.client(Transport::Sctp, "alice").await;
    let _rule = alice.enable(pinhole(1, 100)).await.unwrap();
    let _ = alice.status(PolicyRuleId(99)).await;
    let address = middlebox.daemon.bound().metrics.unwrap();
    let ask = async |method: &str, path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        soon("answer", stream.read_to_string(&mut answer))
            .await
            .unwrap();
        answer
    };
    let get = async |path: &str| ask("GET", path).await;
    let answer = get("/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for line in [
        "carrick_simco_rules 1",
        "carrick_simco_sessions 1",
        "carrick_simco_transactions_total{type=\"PER\",result=\"accepted\"} 1",
        "carrick_simco_transactions_total{type=\"PRS\",result=\"refused\",code=\"0x0343\",\
         reason=\"specified policy rule does not exist\"} 1",
        "carrick_simco_agent_rules{agent=\"alice\"} 1",
        "carrick_simco_agent_sessions{agent=\"bob\"} 0",
        "carrick_simco_agent_transactions_total{agent=\"alice\",result=\"refused\"} 1",
        "carrick_simco_request_seconds_count 4",
    ] {
        assert!(
            answer.lines().any(|found| found == line),
            "{line} in\n{answer}"
        );
    }
    assert!(get("/other").await.starts_with("HTTP/1.1 404"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains(&format!("content-length: {}", body.len())),
        "{head}"
    );
    let head = ask("HEAD", "/metrics").await;
    assert!(
        head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let other = ask("POST", "/metrics").await;
    assert!(
        other.starts_with("HTTP/1.1 405") && other.contains("allow: GET, HEAD"),
        "{other}"
    );
    let long = get(&"x".repeat(20_000)).await;
    assert!(long.is_empty() || long.starts_with("HTTP/1.1 4"), "{long}");
    // One who asks and says nothing more is in nobody's way.
    let _silent = TcpStream::connect(address).await.unwrap();
    assert!(get("/metrics").await.starts_with("HTTP/1.1 200"));
}

/// The lines of an audit log that nobody writes to any more.
fn audit_lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines();
    lines.map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// The lines of an audit log when so many of them are of that event.
async fn audit_lines_with(path: &std::path::Path, event: &str, count: usize) -> Vec<Value> {
    let of_event = |lines: &[Value]| events(lines).iter().filter(|e| **e == event).count();
    soon(event, async {
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            // The last may not be whole yet.
            let lines = text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            let lines: Vec<Value> = lines.map(|l| serde_json::from_str(l).unwrap()).collect();
            if of_event(&lines) >= count {
                return lines;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

fn events(lines: &[Value]) -> Vec<&str> {
    let events = lines.iter().map(|line| line["event"].as_str().unwrap());
    events.collect()
}

#[tokio::test]
async fn the_audit_log_has_a_line_of_json_for_each_event() {
    let folder = crate::support::Folder::new();
    let path = folder.file("audit.json");
    let middlebox = Box3::start(&format!("audit = {:?}", path.display().to_string())).await;
    let alice = middlebox.client(Transport::Tls, "alice").await;
    let rule = alice.enable(pinhole(1, 100)).await.unwrap();
    let id = rule.id();
    alice.extend(id, Lifetime(50)).await.unwrap();
    rule.close().await.unwrap();
    let _ = alice.status(id).await;
    alice.end().await;
    let same = Settings::parse(&text(&middlebox.folder, "")).unwrap();
    let same = Settings {
        audit: Some(path.clone()),
        ..same
    };
    middlebox.daemon.reload(same).await.unwrap();
    middlebox.daemon.stop().await.unwrap();
    let lines = audit_lines(&path);
    let expected = [
        "started",
        "session-opened",
        "rule-granted",
        "lifetime-changed",
        "rule-ended",
        "refused",
        "session-closed",
        "reloaded",
        "stopped",
    ];
    assert_eq!(events(&lines), expected, "{lines:?}");
    assert_eq!(lines[0]["count"], 0);
    let peer = lines[1]["peer"].as_str().unwrap();
    assert!(peer.starts_with("tls 127.0.0.1:"));
    for line in &lines[1..7] {
        assert_eq!(
            (&line["agent"], &line["peer"]),
            (&"alice".into(), &peer.into()),
            "{line}"
        );
        assert_eq!(line["session"], lines[1]["session"]);
    }
    // Each line of a rule says which and what, and for how long.
    for (line, request, lifetime) in [
        (&lines[2], "PER", Value::from(100)),
        (&lines[3], "PLC", Value::from(50)),
        (&lines[4], "PLC", Value::Null),
    ] {
        assert_eq!(line["rule"], id.0, "{line}");
        assert_eq!(
            (&line["request"], &line["lifetime"], &line["owner"]),
            (&request.into(), &lifetime, &"alice".into()),
            "{line}"
        );
        assert_eq!(
            (&line["internal"], &line["external"], &line["kind"]),
            (
                &"10.0.0.1:1001".into(),
                &"192.0.2.1:5000".into(),
                &"enabled".into()
            ),
            "{line}"
        );
        assert_eq!(
            (&line["direction"], &line["protocol"]),
            (&"both".into(), &17.into())
        );
        assert!(line["group"].is_u64(), "{line}");
    }
    assert_eq!(lines[4]["reason"], "requested");
    assert_eq!(
        (&lines[5]["code"], &lines[5]["request"], &lines[5]["rule"]),
        (&"0x0343".into(), &"PRS".into(), &id.0.into())
    );
}

#[tokio::test]
async fn the_audit_log_tells_who_did_it_to_whose_rule() {
    let folder = crate::support::Folder::new();
    let path = folder.file("audit.json");
    let middlebox = Box3::start(&format!("audit = {:?}", path.display().to_string())).await;
    let alice = middlebox.client(Transport::Sctp, "alice").await;
    let noc = middlebox.client(Transport::Tcp, "noc").await;
    let of_alice = async |n| alice.enable_once(pinhole(n, 100)).await.unwrap().rule;
    let (changed, ended, blocked) = (of_alice(1).await, of_alice(2).await, of_alice(3).await);
    noc.extend(changed, Lifetime(30)).await.unwrap();
    noc.extend(ended, Lifetime(0)).await.unwrap();
    let block = noc.prohibit(block(3, 40)).await.unwrap();
    let refused = alice.enable_once(pinhole(3, 77)).await;
    assert!(refused.is_err());
    let mut told = alice.events();
    let short = alice.enable_once(pinhole(4, 1)).await.unwrap().rule;
    soon("its end", async {
        let end = Lifetime(0);
        let end = ClientEvent::Rule {
            rule: short,
            lifetime: end,
        };
        while told.next().await.unwrap() != end {}
    })
    .await;
    let lines = audit_lines_with(&path, "rule-ended", 3).await;
    let line = |event: &str, rule: u32| {
        let found = lines
            .iter()
            .find(|l| l["event"] == event && l["rule"] == rule);
        found.unwrap_or_else(|| panic!("{event} {rule} in {lines:#?}"))
    };
    let session = |name: &str| {
        let mut of_name = lines
            .iter()
            .filter(|l| l["event"] == "session-opened" && l["agent"] == name);
        of_name.next().unwrap()["session"].clone()
    };
    // Another than the owner changed, ended and blocked: it is named, with its session.
    for (line, request) in [
        (line("lifetime-changed", changed.0), "PLC"),
        (line("rule-ended", ended.0), "PLC"),
        (line("rule-ended", blocked.0), "PDR"),
    ] {
        assert_eq!(
            (&line["agent"], &line["owner"], &line["request"]),
            (&"noc".into(), &"alice".into(), &request.into())
        );
        assert_eq!(line["session"], session("noc"), "{line}");
        assert!(line["peer"].as_str().unwrap().starts_with("tcp "), "{line}");
    }
    assert_eq!(line("lifetime-changed", changed.0)["lifetime"], 30);
    assert_eq!(line("rule-ended", blocked.0)["disabled-by"], block.id().0);
    let granted = line("rule-granted", block.id().0);
    assert_eq!(
        (&granted["kind"], &granted["lifetime"]),
        (&"disabled".into(), &40.into())
    );
    // What was refused, and for how long it was wanted.
    let refused = lines.iter().find(|l| l["event"] == "refused").unwrap();
    assert_eq!(
        (&refused["agent"], &refused["request"], &refused["lifetime"]),
        (&"alice".into(), &"PER".into(), &77.into())
    );
    assert_eq!(
        (&refused["internal"], &refused["code"]),
        (&"10.0.0.1:1003".into(), &"0x0350".into())
    );
    assert_eq!(refused["session"], session("alice"));
    // Nobody did it: the owner is told, and no agent.
    let expired = line("rule-ended", short.0);
    assert_eq!(
        (&expired["reason"], &expired["owner"], &expired["agent"]),
        (&"expired".into(), &"alice".into(), &Value::Null)
    );
}

#[tokio::test]
async fn what_the_packet_filter_refuses_is_in_the_audit_log_with_who_asked_and_counted() {
    let folder = crate::support::Folder::new();
    let path = folder.file("audit.json");
    let more = format!("audit = {:?}", path.display().to_string());
    let settings = Settings::parse(&crate::support::text(&folder, &more)).unwrap();
    let backend = MemoryBackend::new(MemoryLimits {
        elements: 1,
        blocks: 0,
    });
    let daemon = Daemon::start(&settings, Box::new(backend), State::none());
    let middlebox = Box3 {
        daemon: daemon.await.unwrap(),
        folder,
    };
    let bob = middlebox.client(Transport::Tcp, "bob").await;
    let noc = middlebox.client(Transport::Tcp, "noc").await;
    bob.enable_once(pinhole(1, 100)).await.unwrap();
    assert!(bob.enable_once(pinhole(2, 100)).await.is_err());
    assert!(noc.prohibit(block(2, 100)).await.is_err());
    // What the middlebox refuses by itself has no failure.
    assert!(noc.status(PolicyRuleId(99)).await.is_err());
    let lines = audit_lines_with(&path, "refused", 3).await;
    let refused = lines.iter().filter(|line| line["event"] == "refused");
    let told = refused.map(|line| {
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        [
            text("agent"),
            text("request"),
            text("code"),
            text("failure"),
        ]
    });
    let full = "the packet filter is full";
    let expected = [
        ["bob", "PER", "0x0342", full],
        ["noc", "PDR", "0x0342", full],
        ["noc", "PRS", "0x0343", ""],
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let refusals = middlebox
        .metric("carrick_simco_backend_refusals_total ")
        .await;
    assert_eq!(refusals, 2);
}

#[tokio::test]
async fn the_audit_log_tells_which_rules_ended_while_the_middlebox_was_away() {
    let folder = crate::support::Folder::new();
    let (path, state) = (folder.file("audit.json"), folder.file("state"));
    let more = format!("audit = {:?}", path.display().to_string());
    let mut settings = Settings::parse(&text(&folder, &more)).unwrap();
    let start = async |settings: &Settings| {
        let state = State::open(Some(&state)).unwrap();
        Daemon::start(settings, backend(), state).await.unwrap()
    };
    let daemon = start(&settings).await;
    let target = target(daemon.bound(), &folder.file("cert.pem"), Transport::Tcp);
    let bob = Client::connect(config(target, "bob")).await.unwrap();
    let rule = bob.enable_once(pinhole(1, 6)).await.unwrap().rule;
    drop(bob);
    daemon.stop().await.unwrap();
    // Its owner has gone too, and is named all the same.
    settings.agents.retain(|agent| agent.name != "bob");
    tokio::time::sleep(std::time::Duration::from_secs(7)).await;
    start(&settings).await.stop().await.unwrap();
    let lines = audit_lines(&path);
    let ended = lines.iter().find(|l| l["event"] == "rule-ended").unwrap();
    assert_eq!(
        (&ended["rule"], &ended["owner"]),
        (&rule.0.into(), &"bob".into())
    );
    assert_eq!(ended["reason"], "its lifetime is over");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_audit_log_that_cannot_be_written_holds_up_nothing_and_lines_wait() {
    let mut middlebox = Box3::start("audit = \"/dev/full\"").await;
    let mut troubles = middlebox.daemon.troubles().unwrap();
    let alice = middlebox.client(Transport::Tcp, "alice").await;
    let rule = alice.enable_once(pinhole(1, 100)).await.unwrap().rule;
    let told = soon("trouble", troubles.recv()).await.unwrap().to_string();
    assert!(told.contains("/dev/full"), "{told}");
    assert!(middlebox.metric("carrick_simco_audit_failures_total").await > 0);
    // Another file, and nothing is missing.
    let path = middlebox.folder.file("audit.json");
    let settings = Settings::parse(&text(&middlebox.folder, "")).unwrap();
    let settings = Settings {
        audit: Some(path.clone()),
        ..settings
    };
    middlebox.daemon.reload(settings).await.unwrap();
    let lines = audit_lines_with(&path, "reloaded", 1).await;
    assert_eq!(
        events(&lines),
        ["started", "session-opened", "rule-granted", "reloaded"]
    );
    assert_eq!(lines[2]["rule"], rule.0);
    assert_eq!(middlebox.metric("carrick_simco_audit_lost_total").await, 0);
}

#[tokio::test]
async fn the_audit_log_tells_whose_connection_broke() {
    let folder = crate::support::Folder::new();
    let path = folder.file("audit.json");
    let middlebox = Box3::start(&format!("audit = {:?}", path.display().to_string())).await;
    let to = middlebox.daemon.bound().tcp[0];
    let stream = TcpStream::connect(to).await.unwrap();
    let from = stream.local_addr().unwrap();
    drop(stream);
    let lines = audit_lines_with(&path, "session-closed", 1).await;
    let line = &lines[1];
    assert_eq!(line["reason"], "disconnected");
    assert_eq!(line["peer"], format!("tcp {from}"));
}

#[tokio::test]
async fn a_reload_takes_raised_limits_on_every_transport() {
    let limits = "limits = { sessions = 1, half-open = 1, half-open-per-address = 1 }";
    let middlebox = Box3::start(limits).await;
    let mut clients = vec![middlebox.client(Transport::Tcp, "noc").await];
    let refused = Client::connect(config(middlebox.target(Transport::Tls), "bob"));
    assert!(soon("refused", refused).await.is_err(), "one session");
    let more = "limits = { sessions = 100, half-open = 200, half-open-per-address = 200 }";
    let new = text(&middlebox.folder, more);
    let new = new.replace("name = \"noc\"", "name = \"noc\"\nmax-sessions = 100");
    let settings = Settings::parse(&new).unwrap();
    let fixed = middlebox.daemon.reload(settings).await.unwrap();
    assert_eq!(fixed, Vec::<String>::new());
    // More than the associations that the endpoint was made for: 66.
    for _ in 0..70 {
        clients.push(middlebox.client(Transport::Sctp, "noc").await);
    }
    // Set-ups of TLS that are silent: more than one of an address may be under way.
    let tls = middlebox.daemon.bound().tls[0];
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(TcpStream::connect(tls).await.unwrap());
    }
    clients.push(middlebox.client(Transport::Tls, "noc").await);
    let mut one = [0; 1];
    for stream in &mut silent {
        let closed = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut one)).await;
        assert!(closed.is_err(), "given up for a later one");
    }
}

#[tokio::test]
async fn a_reload_exchanges_the_certificate_and_sessions_go_on() {
    let middlebox = Box3::start("").await;
    let before = middlebox.target(Transport::Tls);
    let alice = middlebox.client(Transport::Tls, "alice").await;
    let rule = alice.enable(pinhole(1, 100)).await.unwrap();
    // The same file names, another certificate.
    let folder = crate::support::Folder::new();
    let _ = text(&folder, "");
    for name in ["cert.pem", "key.pem"] {
        std::fs::copy(folder.file(name), middlebox.folder.file(name)).unwrap();
    }
    let settings = Settings::parse(&text(&middlebox.folder, "")).unwrap();
    let fixed = middlebox.daemon.reload(settings).await.unwrap();
    assert_eq!(fixed, Vec::<String>::new());
    // Who trusts the old one comes no more; who trusts the new one does.
    let old = soon("refused", Client::connect(config(before, "bob"))).await;
    assert!(matches!(old.err(), Some(ClientError::Connect { .. })));
    let bob = middlebox.client(Transport::Tls, "bob").await;
    assert_eq!(bob.list().await.unwrap(), []);
    assert_eq!(alice.list().await.unwrap(), [rule.id()]);
    // What is no certificate changes nothing.
    std::fs::write(middlebox.folder.file("cert.pem"), "none").unwrap();
    let settings = Settings::parse(&text(&middlebox.folder, "")).unwrap();
    assert!(middlebox.daemon.reload(settings).await.is_err());
    std::fs::copy(folder.file("cert.pem"), middlebox.folder.file("cert.pem")).unwrap();
    middlebox.client(Transport::Tls, "noc").await;
}

/// What is given to the one who asks for a rule that does not exist.
async fn refused_often(client: &Client, times: usize) {
    let asking = (0..times).map(|_| client.status(PolicyRuleId(99)));
    for asked in asking {
        assert!(soon("refusal", asked).await.is_err());
    }
}

#[tokio::test]
async fn strangers_and_refusals_do_not_fill_the_audit_log() {
    let folder = crate::support::Folder::new();
    let path = folder.file("audit.json");
    let middlebox = Box3::start(&format!("audit = {:?}", path.display().to_string())).await;
    let to = middlebox.daemon.bound().tcp[0];
    for _ in 0..300 {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut nothing = Vec::new();
        let closed = stream.read_to_end(&mut nothing);
        assert_eq!(soon("its end", closed).await.unwrap(), 0);
    }
    let alice = middlebox.client(Transport::Tcp, "alice").await;
    refused_often(&alice, 1000).await;
    // What others do has its lines all the same, and so has what is granted to her.
    let bob = middlebox.client(Transport::Tcp, "bob").await;
    refused_often(&bob, 3).await;
    let rule = alice.enable_once(pinhole(1, 100)).await.unwrap().rule;
    let suppressed = middlebox
        .metric("carrick_simco_audit_suppressed_total")
        .await;
    middlebox.daemon.stop().await.unwrap();
    let lines = audit_lines(&path);
    let count = |event: &str, agent: Value| {
        let of = |l: &&Value| l["event"] == event && l["agent"] == agent;
        lines.iter().filter(of).count() as u64
    };
    let told = |agent: Value| -> u64 {
        let of = |l: &&Value| l["event"] == "suppressed" && l["agent"] == agent;
        let counts = lines
            .iter()
            .filter(of)
            .map(|l| l["count"].as_u64().unwrap());
        counts.sum()
    };
    let (strangers, refusals) = (
        count("session-closed", Value::Null),
        count("refused", "alice".into()),
    );
    // Some come back while it runs, of which a slow machine has more.
    assert!((20..150).contains(&strangers), "{strangers}");
    assert!((100..500).contains(&refusals), "{refusals}");
    assert_eq!(strangers + told(Value::Null), 300, "all are counted");
    assert_eq!(refusals + told("alice".into()), 1000);
    assert_eq!(suppressed, told(Value::Null) + told("alice".into()));
    assert_eq!(count("refused", "bob".into()), 3);
    let granted = lines.iter().find(|l| l["event"] == "rule-granted");
    assert_eq!(granted.unwrap()["rule"], rule.0);
    assert_eq!(events(&lines).last(), Some(&"stopped"));
}

/// A pipe that somebody has open and does not read, full to the last octet.
#[cfg(target_os = "linux")]
fn full_pipe(path: &std::path::Path) -> std::fs::File {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
    let mut options = std::fs::OpenOptions::new();
    // Whoever opens a pipe for both waits for nobody.
    let mut pipe = options
        .read(true)
        .write(true)
        .custom_flags(0o4000)
        .open(path)
        .unwrap();
    for length in [4096, 1] {
        while pipe.write(&vec![b'x'; length]).is_ok() {}
    }
    pipe
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_audit_log_that_takes_nothing_holds_up_no_agent() {
    use std::io::Read as _;
    let folder = crate::support::Folder::new();
    let path = folder.file("pipe");
    let mut pipe = full_pipe(&path);
    let mut middlebox = Box3::start(&format!("audit = {:?}", path.display().to_string())).await;
    let mut troubles = middlebox.daemon.troubles().unwrap();
    let alice = middlebox.client(Transport::Tcp, "alice").await;
    let rule = alice.enable_once(pinhole(1, 100)).await.unwrap().rule;
    let told = soon("trouble", troubles.recv()).await.unwrap().to_string();
    assert!(told.contains("pipe"), "{told}");
    alice.extend(rule, Lifetime(50)).await.unwrap();
    // It is read at last, and nothing is missing.
    let mut read = Vec::new();
    let lines = soon("the lines", async {
        loop {
            let mut octets = [0; 4096];
            if let Ok(count) = pipe.read(&mut octets) {
                read.extend_from_slice(&octets[..count]);
            }
            let text = String::from_utf8_lossy(&read);
            if text.contains("lifetime-changed") && text.ends_with('\n') {
                return text.trim_start_matches('x').to_owned();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let lines: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let expected = [
        "started",
        "session-opened",
        "rule-granted",
        "lifetime-changed",
    ];
    assert_eq!(events(&lines), expected);
    // One that nobody has open is no log, and the old one stays.
    let nobody = folder.file("nobody");
    drop(full_pipe(&nobody));
    let settings = Settings::parse(&text(&middlebox.folder, "")).unwrap();
    let settings = Settings {
        audit: Some(nobody),
        ..settings
    };
    let refused = soon("the reload", middlebox.daemon.reload(settings)).await;
    assert!(refused.unwrap_err().to_string().contains("nobody reads"));
    alice.list().await.unwrap();
}
