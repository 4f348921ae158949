//! Rule counters in the metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use carrick_simco::message::{Lifetime, NatMode, Parity, PrrParameters, ReserveRequest};
use carrick_simco_net::client::Client;
use carrick_simco_net::daemon::{Daemon, DaemonSettings, StoredState};

use crate::blocked_backend::BlockedBackend;
use crate::support::{TestFolder, Transport, block, config, in_time, pinhole, target, text};

#[tokio::test]
async fn rule_counters_are_read_once_for_many_scrapes() {
    let folder = TestFolder::new();
    let settings = DaemonSettings::parse("f", &text(&folder, "rule-traffic = 3")).unwrap();
    let backend = BlockedBackend::default();
    let (readings, closed) = (Arc::clone(&backend.readings), Arc::clone(&backend.closed));
    closed.store(true, Ordering::SeqCst);
    let daemon = Daemon::start(&settings, Box::new(backend), StoredState::none());
    let daemon = Arc::new(daemon.await.unwrap());
    let to = target(daemon.bound(), &folder.file("cert.pem"), Transport::Sctp);
    let alice = in_time("connect", Client::connect(config(to, "alice")))
        .await
        .unwrap();
    let mut rules = Vec::new();
    for number in 0..5 {
        rules.push(alice.enable(pinhole(number, 100)).await.unwrap());
    }
    let scrapes: Vec<_> = (0..8)
        .map(|_| {
            let daemon = Arc::clone(&daemon);
            tokio::spawn(async move { daemon.metrics().await.unwrap() })
        })
        .collect();
    while readings.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Requests do not wait for the reading in progress.
    for _ in 0..20 {
        alice.status(rules[0].id()).await.unwrap();
    }
    assert!(scrapes.iter().all(|scrape| !scrape.is_finished()));
    assert_eq!(
        readings.load(Ordering::SeqCst),
        1,
        "one reading for all eight scrapes"
    );
    closed.store(false, Ordering::SeqCst);
    for scrape in scrapes {
        let text = in_time("metrics", scrape).await.unwrap();
        for (n, rule) in (1..).zip(&rules[..3]) {
            let labels = format!("{{rule=\"{}\",agent=\"alice\"}}", rule.id());
            for line in [
                format!("carrick_simco_rule_packets_total{labels} {n}"),
                format!("carrick_simco_rule_octets_total{labels} {}", 100 * n),
            ] {
                assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
            }
        }
        let shown = text.matches("carrick_simco_rule_packets_total{").count();
        assert_eq!(shown, 3, "no more rules than configured");
    }
    // Later it is read again; without the key it is not read.
    let before = readings.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    daemon.metrics().await.unwrap();
    assert_eq!(readings.load(Ordering::SeqCst), before + 1);
    daemon
        .reload(DaemonSettings::parse("f", &text(&folder, "")).unwrap())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(
        !daemon
            .metrics()
            .await
            .unwrap()
            .contains("rule_packets_total")
    );
    assert_eq!(readings.load(Ordering::SeqCst), before + 1);
}

#[tokio::test]
async fn blocked_and_passed_traffic_are_separate() {
    let folder = TestFolder::new();
    let settings = DaemonSettings::parse("f", &text(&folder, "rule-traffic = 3")).unwrap();
    let daemon = Daemon::start(
        &settings,
        Box::new(BlockedBackend::default()),
        StoredState::none(),
    );
    let daemon = daemon.await.unwrap();
    let to = target(daemon.bound(), &folder.file("cert.pem"), Transport::Sctp);
    let noc = in_time("connect", Client::connect(config(to, "noc")))
        .await
        .unwrap();
    let parameters = PrrParameters {
        nat_mode: NatMode::Traditional,
        parity: Parity::Any,
        inside: None,
        outside: None,
        protocol: 17,
        ports: 1,
    };
    let reservation = ReserveRequest {
        parameters,
        lifetime: Lifetime(100),
        group: None,
    };
    let _reserved = noc.reserve(reservation).await.unwrap();
    let first = noc.enable(pinhole(1, 100)).await.unwrap();
    let blocking = noc.prohibit(block(2, 100)).await.unwrap();
    let second = noc.enable(pinhole(3, 100)).await.unwrap();
    let reported = daemon.metrics().await.unwrap();
    let mut reported: Vec<_> = reported
        .lines()
        .filter(|line| line.starts_with("carrick_simco_rule_"))
        .collect();
    reported.sort_unstable();
    let line = |what: &str, rule, count| {
        format!("carrick_simco_rule_{what}_total{{rule=\"{rule}\",agent=\"noc\"}} {count}")
    };
    let [first, blocking, second] = [first.id(), blocking.id(), second.id()];
    assert_eq!(
        reported,
        [
            line("blocked_octets", blocking, 200),
            line("blocked_packets", blocking, 2),
            line("octets", first, 100),
            line("octets", second, 300),
            line("packets", first, 1),
            line("packets", second, 3),
        ]
    );
}
