//! Metrics of an endpoint, as Prometheus and the facade `metrics` have them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use carrick::{Endpoint, MetricsCollector, NamedCounter, SendOptions, record_metrics};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::support::*;

/// Associates two endpoints, and sends three messages from the client. Returns the server, which has received them.
async fn transferred() -> (
    Endpoint,
    Endpoint,
    (carrick::Association, carrick::Association),
) {
    let (client, server) = (endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"]));
    let (near, mut far) = associate(&client, &server, &["127.0.0.1"]).await;
    for _ in 0..3 {
        near.send("message", SendOptions::on_stream(0))
            .await
            .unwrap();
    }
    for _ in 0..3 {
        soon("a message", far.recv()).await.unwrap().unwrap();
    }
    (client, server, (near, far))
}

/// RFC 3873, section 3
#[tokio::test]
async fn a_registry_has_the_metrics_of_an_endpoint() {
    let (_client, server, _ends) = transferred().await;
    let collector = MetricsCollector::default();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector.clone()));
    let page = || {
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        page
    };
    assert!(
        page().contains("carrick_sctp_curr_estab 0\n"),
        "no update yet"
    );
    collector.update(server.metrics().await.unwrap());
    let page = page();
    for line in [
        "# TYPE carrick_sctp_curr_estab gauge\n",
        "carrick_sctp_curr_estab 1\n",
        "carrick_sctp_associations{state=\"established\"} 1\n",
        "carrick_sctp_paths{state=\"active\"} 1\n",
        "carrick_sctp_paths{state=\"inactive\"} 0\n",
        "# TYPE carrick_sctp_passive_estabs counter\n",
        "carrick_sctp_passive_estabs_total 1\n",
        "carrick_sctp_in_order_chunks_total 3\n",
        "carrick_sctp_user_data_received_bytes_total 21\n",
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
}

/// The dashboard and the alert rules apply to programs as well.
#[test]
fn names_are_those_of_the_daemon() {
    let collector = MetricsCollector::default();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    let mut page = String::new();
    encode(&mut page, &registry).unwrap();
    let manual = include_str!("../../../../../docs/sockets.md");
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut count = 0;
    for line in types {
        let (name, kind) = line.split_once(' ').unwrap();
        let suffix = if kind == "counter" { "_total" } else { "" };
        let row = format!("| `{name}{suffix}");
        assert!(manual.contains(&row), "{row}");
        count += 1;
    }
    assert_eq!(
        count,
        4 + carrick::EndpointMetrics::default().counters().len()
    );
}

/// Values of a recorder, by name and labels.
#[derive(Clone, Default)]
struct Values(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Values {
    fn of(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<String> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        let mut values = self.0.lock().unwrap();
        Arc::clone(values.entry(name).or_default())
    }

    fn get(&self, name: &str) -> Option<u64> {
        let values = self.0.lock().unwrap();
        values.get(name).map(|value| value.load(Ordering::Relaxed))
    }
}

impl Recorder for Values {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.of(key))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test]
async fn the_facade_has_the_same_values() {
    let (_client, server, _ends) = transferred().await;
    let of_server = server.metrics().await.unwrap();
    let values = Values::default();
    metrics::with_local_recorder(&values, || {
        record_metrics(&of_server, &[("endpoint", "s1")]);
    });
    for NamedCounter { name, value, .. } in of_server.counters() {
        let recorded = values.get(&format!("carrick_sctp_{name}{{endpoint=s1}}"));
        assert_eq!(recorded, Some(value), "{name}");
    }
    let paths = values.get("carrick_sctp_paths{endpoint=s1,state=active}");
    assert_eq!(paths, Some(1f64.to_bits()));
}
