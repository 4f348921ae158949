//! Floods of events in the audit log.

use carrick_simco::message::PolicyRuleId;
use carrick_simco_net::client::Client;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{audit_lines, events};
use crate::support::{TestMiddlebox, Transport, in_time, pinhole};

/// Reply to a request for a rule that does not exist.
async fn refused_often(client: &Client, times: usize) {
    let asking = (0..times).map(|_| client.status(PolicyRuleId(99)));
    for asked in asking {
        assert!(in_time("refusal", asked).await.is_err());
    }
}

#[tokio::test]
async fn audit_lines_of_floods_are_limited() {
    let folder = crate::support::TestFolder::new();
    let path = folder.file("audit.json");
    let middlebox =
        TestMiddlebox::start(&format!("audit = {:?}", path.display().to_string())).await;
    let to = middlebox.daemon.bound().tcp[0];
    for _ in 0..300 {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut nothing = Vec::new();
        let closed = stream.read_to_end(&mut nothing);
        assert_eq!(in_time("its end", closed).await.unwrap(), 0);
    }
    let alice = middlebox.client(Transport::Tcp, "alice").await;
    refused_often(&alice, 1000).await;
    // Events of other agents and granted rules still have their lines.
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
    let reported = |agent: Value| -> u64 {
        let of = |l: &&Value| l["event"] == "suppressed" && l["agent"] == agent;
        let counts = lines
            .iter()
            .filter(of)
            .map(|l| l["count"].as_u64().unwrap());
        counts.sum()
    };
    let (unauthenticated, refusals) = (
        count("session-closed", Value::Null),
        count("refused", "alice".into()),
    );
    // Lines are allowed again during the test, more of them on a slow machine.
    assert!((20..150).contains(&unauthenticated), "{unauthenticated}");
    assert!((100..500).contains(&refusals), "{refusals}");
    assert_eq!(
        unauthenticated + reported(Value::Null),
        300,
        "each connection is logged or counted"
    );
    assert_eq!(refusals + reported("alice".into()), 1000);
    assert_eq!(suppressed, reported(Value::Null) + reported("alice".into()));
    assert_eq!(count("refused", "bob".into()), 3);
    let granted = lines.iter().find(|l| l["event"] == "rule-granted");
    assert_eq!(granted.unwrap()["rule"], rule.0);
    assert_eq!(events(&lines).last(), Some(&"stopped"));
}
