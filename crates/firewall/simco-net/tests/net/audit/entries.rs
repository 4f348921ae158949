//! Contents of the lines of the audit log.

use carrick_simco::backend::{MemoryBackend, MemoryLimits};
use carrick_simco::message::{Lifetime, PolicyRuleId};
use carrick_simco_net::client::{Client, ClientEvent};
use carrick_simco_net::daemon::{Daemon, DaemonSettings, StoredState};
use serde_json::Value;
use tokio::net::TcpStream;

use super::{audit_lines, audit_lines_with, events};
use crate::support::{
    TestMiddlebox, Transport, backend, block, config, in_time, pinhole, target, text,
};

#[tokio::test]
async fn each_event_has_a_json_line() {
    let folder = crate::support::TestFolder::new();
    let path = folder.file("audit.json");
    let middlebox =
        TestMiddlebox::start(&format!("audit = {:?}", path.display().to_string())).await;
    let alice = middlebox.client(Transport::Tls, "alice").await;
    let rule = alice.enable(pinhole(1, 100)).await.unwrap();
    let id = rule.id();
    alice.extend(id, Lifetime(50)).await.unwrap();
    rule.close().await.unwrap();
    let _ = alice.status(id).await;
    alice.end().await;
    let same = DaemonSettings::parse("f", &text(&middlebox.folder, "")).unwrap();
    let same = DaemonSettings {
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
    // Each line about a rule has its identifier, its properties and its lifetime.
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
async fn audit_log_names_agent_and_owner() {
    let folder = crate::support::TestFolder::new();
    let path = folder.file("audit.json");
    let middlebox =
        TestMiddlebox::start(&format!("audit = {:?}", path.display().to_string())).await;
    let alice = middlebox.client(Transport::Sctp, "alice").await;
    let noc = middlebox.client(Transport::Tcp, "noc").await;
    let of_alice = async |n| alice.enable_once(pinhole(n, 100)).await.unwrap().rule;
    let (changed, ended, blocked) = (of_alice(1).await, of_alice(2).await, of_alice(3).await);
    noc.extend(changed, Lifetime(30)).await.unwrap();
    noc.extend(ended, Lifetime(0)).await.unwrap();
    let block = noc.prohibit(block(3, 40)).await.unwrap();
    let refused = alice.enable_once(pinhole(3, 77)).await;
    assert!(refused.is_err());
    let mut reported = alice.events();
    let short = alice.enable_once(pinhole(4, 1)).await.unwrap().rule;
    in_time("its end", async {
        let end = Lifetime(0);
        let end = ClientEvent::Rule {
            rule: short,
            lifetime: end,
        };
        while reported.next().await.unwrap() != end {}
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
    // An agent other than the owner changed, ended and blocked: the lines name it and its session.
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
    // The refused request and its lifetime.
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
    // Expiry: the line names the owner and no agent.
    let expired = line("rule-ended", short.0);
    assert_eq!(
        (&expired["reason"], &expired["owner"], &expired["agent"]),
        (&"expired".into(), &"alice".into(), &Value::Null)
    );
}

#[tokio::test]
async fn backend_refusals_are_logged_and_counted() {
    let folder = crate::support::TestFolder::new();
    let path = folder.file("audit.json");
    let more = format!("audit = {:?}", path.display().to_string());
    let settings = DaemonSettings::parse("f", &crate::support::text(&folder, &more)).unwrap();
    let backend = MemoryBackend::new(MemoryLimits {
        elements: 1,
        blocks: 0,
    });
    let daemon = Daemon::start(&settings, Box::new(backend), StoredState::none());
    let middlebox = TestMiddlebox {
        daemon: daemon.await.unwrap(),
        folder,
    };
    let bob = middlebox.client(Transport::Tcp, "bob").await;
    let noc = middlebox.client(Transport::Tcp, "noc").await;
    bob.enable_once(pinhole(1, 100)).await.unwrap();
    assert!(bob.enable_once(pinhole(2, 100)).await.is_err());
    assert!(noc.prohibit(block(2, 100)).await.is_err());
    // Refusals by the middlebox itself have no failure.
    assert!(noc.status(PolicyRuleId(99)).await.is_err());
    let lines = audit_lines_with(&path, "refused", 3).await;
    let refused = lines.iter().filter(|line| line["event"] == "refused");
    let reported = refused.map(|line| {
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
    assert_eq!(reported.collect::<Vec<_>>(), expected);
    let refusals = middlebox
        .metric("carrick_simco_backend_refusals_total ")
        .await;
    assert_eq!(refusals, 2);
}

#[tokio::test]
async fn rules_expired_during_downtime_are_logged() {
    let folder = crate::support::TestFolder::new();
    let (path, state) = (folder.file("audit.json"), folder.file("state"));
    let more = format!("audit = {:?}", path.display().to_string());
    let mut settings = DaemonSettings::parse("f", &text(&folder, &more)).unwrap();
    let start = async |settings: &DaemonSettings| {
        let state = StoredState::open(Some(&state)).unwrap();
        Daemon::start(settings, backend(), state).await.unwrap()
    };
    let daemon = start(&settings).await;
    let target = target(daemon.bound(), &folder.file("cert.pem"), Transport::Tcp);
    let bob = Client::connect(config(target, "bob")).await.unwrap();
    let rule = bob.enable_once(pinhole(1, 6)).await.unwrap().rule;
    drop(bob);
    daemon.stop().await.unwrap();
    // Its owner was removed from the configuration, too, and is named nevertheless.
    settings.agents.retain(|agent| agent.name != "bob");
    tokio::time::sleep(std::time::Duration::from_secs(7)).await;
    start(&settings).await.stop().await.unwrap();
    let lines = audit_lines(&path);
    let ended = lines.iter().find(|l| l["event"] == "rule-ended").unwrap();
    assert_eq!(
        (&ended["rule"], &ended["owner"]),
        (&rule.0.into(), &"bob".into())
    );
    assert_eq!(ended["reason"], "lifetime expired");
}

#[tokio::test]
async fn broken_connection_is_logged_with_its_agent() {
    let folder = crate::support::TestFolder::new();
    let path = folder.file("audit.json");
    let middlebox =
        TestMiddlebox::start(&format!("audit = {:?}", path.display().to_string())).await;
    let to = middlebox.daemon.bound().tcp[0];
    let stream = TcpStream::connect(to).await.unwrap();
    let from = stream.local_addr().unwrap();
    drop(stream);
    let lines = audit_lines_with(&path, "session-closed", 1).await;
    let line = &lines[1];
    assert_eq!(line["reason"], "disconnected");
    assert_eq!(line["peer"], format!("tcp {from}"));
}
