//! Metrics of endpoints for Prometheus and for the facade `metrics`. Names are those of the daemon's metrics, so that
//! its dashboard and its alert rules apply to programs as well.

use carrick_proto::{EndpointMetrics, StateName};

/// Gauge: name, explanation, and a value for each state, or one without a state.
struct NamedGauge {
    name: &'static str,
    help: &'static str,
    values: Vec<(Option<&'static str>, usize)>,
}

/// Begin of all names.
const PREFIX: &str = "carrick_sctp_";

fn gauges(metrics: &EndpointMetrics) -> [NamedGauge; 4] {
    let states = StateName::ALIVE.map(|state| {
        let count = metrics.states.get(&state).copied().unwrap_or(0);
        (Some(state.name()), count)
    });
    let paths = metrics.paths.by_name().into_iter();
    [
        NamedGauge {
            name: "curr_estab",
            help: "Associations in ESTABLISHED, SHUTDOWN-RECEIVED or SHUTDOWN-PENDING (sctpCurrEstab)",
            values: vec![(None, metrics.established())],
        },
        NamedGauge {
            name: "receive_memory_bytes",
            help: "Received data that programs have not read",
            values: vec![(None, metrics.endpoint.receive_memory)],
        },
        NamedGauge {
            name: "associations",
            help: "Associations by state",
            values: states.to_vec(),
        },
        NamedGauge {
            name: "paths",
            help: "Paths of associations by state",
            values: paths.map(|(state, count)| (Some(state), count)).collect(),
        },
    ]
}

/// Collector of `prometheus-client`, which encodes the [`EndpointMetrics`] of the last [`update`](Self::update).
/// Clones share them.
///
/// Names begin with `carrick_sctp_` and are listed with [the daemon's metrics]; register the collector in a registry
/// without a prefix. Several endpoints of a program are added (`+=`), or have a collector and a label each
/// (`Registry::sub_registry_with_label`).
///
/// ```
/// use carrick::{Config, Endpoint, MetricsCollector};
/// use prometheus_client::{encoding::text::encode, registry::Registry};
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let endpoint = Endpoint::bind(Config::udp([[127, 0, 0, 1].into()]).encapsulation_port(0))?;
///     let collector = MetricsCollector::default();
///     let mut registry = Registry::default();
///     registry.register_collector(Box::new(collector.clone()));
///
///     // For each request of Prometheus:
///     collector.update(endpoint.metrics().await?);
///     let mut page = String::new();
///     encode(&mut page, &registry)?;
///     assert!(page.contains("carrick_sctp_paths{state=\"potentially-failed\"} 0\n"));
///     Ok(())
/// }
/// ```
///
/// [the daemon's metrics]: https://github.com/carrick-sctp/carrick/blob/main/docs/sockets.md#metrics
#[cfg(feature = "prometheus")]
#[derive(Clone, Debug, Default)]
pub struct MetricsCollector(std::sync::Arc<std::sync::Mutex<EndpointMetrics>>);

#[cfg(feature = "prometheus")]
mod prometheus {
    use std::fmt;
    use std::sync::PoisonError;

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
    use prometheus_client::metrics::MetricType;
    use prometheus_client::metrics::counter::ConstCounter;
    use prometheus_client::metrics::gauge::ConstGauge;

    use super::{EndpointMetrics, MetricsCollector, PREFIX, gauges};

    impl MetricsCollector {
        /// Sets what is encoded from now on.
        pub fn update(&self, metrics: EndpointMetrics) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = metrics;
        }
    }

    impl Collector for MetricsCollector {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let metrics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for gauge in gauges(&metrics) {
                let name = format!("{PREFIX}{}", gauge.name);
                let mut of_gauge =
                    encoder.encode_descriptor(&name, gauge.help, None, MetricType::Gauge)?;
                for (state, value) in gauge.values {
                    let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
                    let Some(state) = state else {
                        value.encode(of_gauge)?;
                        break;
                    };
                    value.encode(of_gauge.encode_family(&[("state", state)])?)?;
                }
            }
            for counter in metrics.counters() {
                let name = format!("{PREFIX}{}", counter.name);
                let of_counter =
                    encoder.encode_descriptor(&name, counter.help, None, MetricType::Counter)?;
                ConstCounter::new(counter.value).encode(of_counter)?;
            }
            Ok(())
        }
    }
}

/// Sets the counters and gauges of the facade `metrics` to these values, with `labels` such as the name of an endpoint.
///
/// Names are those of the daemon's metrics, and begin with `carrick_sctp_`. Call it in intervals, such as every ten
/// seconds, or before each request of an exporter.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carrick::{Config, Endpoint, record_metrics};
///
/// let endpoint = Endpoint::bind(Config::udp([[127, 0, 0, 1].into()]).encapsulation_port(0))?;
/// record_metrics(&endpoint.metrics().await?, &[("endpoint", "s1")]);
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "metrics")]
pub fn record_metrics(values: &EndpointMetrics, labels: &[(&'static str, &'static str)]) {
    for gauge in gauges(values) {
        let name = format!("{PREFIX}{}", gauge.name);
        metrics::describe_gauge!(name.clone(), gauge.help);
        for (state, value) in gauge.values {
            let mut all = labels.to_vec();
            all.extend(state.map(|state| ("state", state)));
            metrics::gauge!(name.clone(), &all).set(value as f64);
        }
    }
    for counter in values.counters() {
        let name = format!("{PREFIX}{}", counter.name);
        metrics::describe_counter!(name.clone(), counter.help);
        metrics::counter!(name, labels).absolute(counter.value);
    }
}
