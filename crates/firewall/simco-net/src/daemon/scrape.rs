//! Collects the metrics for a scrape. Rule counters are read from the packet filter on another thread,
//! by one scrape at a time, so that the task that owns the state machine never waits for them.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, oneshot};
use tokio::time::Instant;

use super::core::CoreInput;
use super::metrics;
use carrick_metrics::{AcceptFailures, encode_metrics};
use carrick_simco::backend::{Meter, Traffic};
use carrick_simco::middlebox::MeteredRule;

/// Time for which rule counters are served again without reading them.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Time that a scrape waits for the rule counters before it is answered without them. Shorter than the
/// time limit of an HTTP request.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// Metrics that the core supplies for one scrape.
pub(super) struct MetricsSnapshot {
    pub(super) registry: Registry,
    /// Rules whose traffic is shown, and the function that reads their counters.
    pub(super) traffic: Option<(Vec<MeteredRule>, Meter)>,
}

/// Rules with their counters.
type RuleTraffic = Arc<[(MeteredRule, Traffic)]>;

/// Answers scrapes.
#[derive(Clone)]
pub(super) struct Scraper {
    core: mpsc::Sender<CoreInput>,
    accept_failures: AcceptFailures,
    last: Arc<Mutex<LastReading>>,
}

/// The last reading of rule counters.
#[derive(Default)]
struct LastReading {
    at: Option<Instant>,
    traffic: RuleTraffic,
}

impl Scraper {
    pub(super) fn new(core: mpsc::Sender<CoreInput>, accept_failures: AcceptFailures) -> Self {
        Self {
            core,
            accept_failures,
            last: Arc::default(),
        }
    }

    /// Returns all metrics as text; `None` if the core has stopped.
    pub(super) async fn text(&self) -> Option<String> {
        let traffic = self.traffic().await;
        self.text_with(&traffic).await
    }

    async fn text_with(&self, traffic: &[(MeteredRule, Traffic)]) -> Option<String> {
        let mut registry = request(&self.core, false).await?.registry;
        metrics::register_accept_failures(&mut registry, self.accept_failures.total());
        metrics::register_traffic(&mut registry, traffic);
        Some(encode_metrics(&registry))
    }

    /// Returns the metrics, without rule counters if those take too long.
    pub(super) async fn text_in_time(&self) -> Option<String> {
        match tokio::time::timeout(READ_TIMEOUT, self.text()).await {
            Ok(text) => text,
            Err(_) => self.text_with(&[]).await,
        }
    }

    async fn traffic(&self) -> RuleTraffic {
        // Concurrent scrapes wait here and share one reading.
        let last = Arc::clone(&self.last).lock_owned().await;
        if last.at.is_some_and(|at| at.elapsed() < MAX_AGE) {
            return Arc::clone(&last.traffic);
        }
        // In a separate task: when a scrape is cancelled, the next one still waits for this reading.
        let reading = tokio::spawn(read(self.core.clone(), last));
        reading.await.unwrap_or_default()
    }
}

async fn request(core: &mpsc::Sender<CoreInput>, traffic: bool) -> Option<MetricsSnapshot> {
    let (answer, answered) = oneshot::channel();
    core.send(CoreInput::Metrics { traffic, answer })
        .await
        .ok()?;
    answered.await.ok()
}

/// Reads rule counters from the packet filter.
async fn read(
    core: mpsc::Sender<CoreInput>,
    mut last: OwnedMutexGuard<LastReading>,
) -> RuleTraffic {
    let traffic = request(&core, true).await.and_then(|scrape| scrape.traffic);
    last.traffic = match traffic {
        Some((rules, meter)) => {
            let read = tokio::task::spawn_blocking(meter).await;
            // Rules whose counters can't be read are not shown.
            let counted = read.ok().and_then(Result::ok).unwrap_or_default();
            rules.into_iter().zip(counted).collect()
        }
        None => RuleTraffic::default(),
    };
    last.at = Some(Instant::now());
    Arc::clone(&last.traffic)
}
