//! Metrics over HTTP.

use carrick_simco::message::PolicyRuleId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{TestMiddlebox, Transport, in_time, pinhole};

#[tokio::test]
async fn metrics_are_served_over_http() {
    let middlebox = TestMiddlebox::start("metrics = \"127.0.0.1:0\"").await;
    let alice = middlebox.client(Transport::Sctp, "alice").await;
    let _rule = alice.enable(pinhole(1, 100)).await.unwrap();
    let _ = alice.status(PolicyRuleId(99)).await;
    let address = middlebox.daemon.bound().metrics.unwrap();
    let ask = async |method: &str, path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        in_time("answer", stream.read_to_string(&mut answer))
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
    // An idle connection does not block others.
    let _silent = TcpStream::connect(address).await.unwrap();
    assert!(get("/metrics").await.starts_with("HTTP/1.1 200"));
}
