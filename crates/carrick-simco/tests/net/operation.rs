use std::time::Duration;

use carrick_simco::client::{Client, ClientError, ClientEvent, RequestError};
use carrick_simco::daemon::Settings;
use carrick_simco::message::NegativeReply;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Box3, Transport, config, pinhole, soon, text};

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
    let _ = alice.status(carrick_simco::message::PolicyRuleId(99)).await;
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

#[tokio::test]
async fn the_audit_log_has_a_line_of_json_for_each_event() {
    let folder = crate::support::Folder::new();
    let path = folder.file("audit.json");
    let middlebox = Box3::start(&format!("audit = {:?}", path.display().to_string())).await;
    let alice = middlebox.client(Transport::Tls, "alice").await;
    let rule = alice.enable(pinhole(1, 100)).await.unwrap();
    let id = rule.id();
    alice
        .extend(id, carrick_simco::message::Lifetime(50))
        .await
        .unwrap();
    rule.close().await.unwrap();
    let _ = alice.status(id).await;
    alice.end().await;
    middlebox.daemon.stop().await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let events: Vec<&str> = lines.iter().map(|l| l["event"].as_str().unwrap()).collect();
    let expected = [
        "session-opened",
        "rule-granted",
        "lifetime-changed",
        "rule-ended",
        "refused",
        "session-closed",
    ];
    assert_eq!(events, expected, "{text}");
    assert!(
        lines[0]["peer"]
            .as_str()
            .unwrap()
            .starts_with("tls 127.0.0.1:")
    );
    assert_eq!(lines[1]["internal"], "10.0.0.1:1001");
    assert_eq!(lines[1]["kind"], "enabled");
    let peers = lines
        .iter()
        .filter(|line| line["session"].is_u64() && line["event"] != "refused");
    assert!(peers.clone().count() == 2 && peers.clone().all(|line| line["peer"].is_string()));
    assert_eq!(
        (&lines[1]["agent"], &lines[1]["direction"]),
        (&"alice".into(), &"both".into())
    );
    assert_eq!(lines[3]["reason"], "requested");
    assert_eq!(
        (&lines[4]["code"], &lines[4]["request"]),
        (&"0x0343".into(), &"PRS".into())
    );
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
    let line: Value = soon("the line", async {
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(line) = text.lines().next() {
                return serde_json::from_str(line).unwrap();
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(line["reason"], "disconnected");
    assert_eq!(line["peer"], format!("tcp {from}"));
}
