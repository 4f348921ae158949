//! Who wants the metrics. What rules have let pass is asked of the packet filter on another thread, by
//! one scrape at a time: the task that owns the state machine waits for none of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, oneshot};
use tokio::time::Instant;

use super::AcceptFailures;
use super::core::Input;
use super::metrics;
use crate::backend::Meter;
use crate::middlebox::MeteredRule;

/// How long what was read is told again.
const FRESH: Duration = Duration::from_secs(1);

/// How long a scrape waits for what rules have let pass, before it does without: less than the
/// time that a request has.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the core has to tell.
pub(super) struct Scrape {
    pub(super) text: String,
    /// The rules whose traffic is shown, and what reads it.
    pub(super) traffic: Option<(Vec<MeteredRule>, Meter)>,
}

/// Asks for the metrics.
#[derive(Clone)]
pub(super) struct Scraper {
    core: mpsc::Sender<Input>,
    accept_failures: AcceptFailures,
    last: Arc<Mutex<Last>>,
}

/// What was read last.
#[derive(Default)]
struct Last {
    at: Option<Instant>,
    text: String,
}

impl Scraper {
    pub(super) fn new(core: mpsc::Sender<Input>, accept_failures: AcceptFailures) -> Self {
        Self {
            core,
            accept_failures,
            last: Arc::default(),
        }
    }

    /// The metrics; `None` without a core.
    pub(super) async fn text(&self) -> Option<String> {
        let traffic = self.traffic().await;
        let mut text = self.counts().await?;
        text.push_str(&traffic);
        Some(text)
    }

    /// All but what rules have let pass.
    async fn counts(&self) -> Option<String> {
        let mut text = ask(&self.core, false).await?.text;
        text.push_str(&metrics::accept_failures(self.accept_failures.total()));
        Some(text)
    }

    /// The metrics, without what rules have let pass if that takes too long.
    pub(super) async fn text_in_time(&self) -> Option<String> {
        match tokio::time::timeout(PATIENCE, self.text()).await {
            Ok(text) => text,
            Err(_) => self.counts().await,
        }
    }

    /// What rules have let pass.
    async fn traffic(&self) -> String {
        // Whoever comes meanwhile waits, and is told the same.
        let last = Arc::clone(&self.last).lock_owned().await;
        if last.at.is_some_and(|at| at.elapsed() < FRESH) {
            return last.text.clone();
        }
        // In a task of its own: if nobody waits any more, no other begins before it is done.
        let reading = tokio::spawn(read(self.core.clone(), last));
        reading.await.unwrap_or_default()
    }
}

async fn ask(core: &mpsc::Sender<Input>, traffic: bool) -> Option<Scrape> {
    let (answer, answered) = oneshot::channel();
    core.send(Input::Metrics { traffic, answer }).await.ok()?;
    answered.await.ok()
}

/// Asks the packet filter.
async fn read(core: mpsc::Sender<Input>, mut last: OwnedMutexGuard<Last>) -> String {
    let traffic = ask(&core, true).await.and_then(|scrape| scrape.traffic);
    last.text = match traffic {
        Some((rules, meter)) => {
            let read = tokio::task::spawn_blocking(meter).await;
            // What the packet filter does not tell is not shown.
            let counted = read.ok().and_then(Result::ok).unwrap_or_default();
            metrics::traffic(&rules, &counted)
        }
        None => String::new(),
    };
    last.at = Some(Instant::now());
    last.text.clone()
}
