//! Packet filter that another program removes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carrick_simco::Time;
use carrick_simco::backend::{Backend, BackendError, Element, MemoryBackend};
use carrick_simco::message::Lifetime;
use carrick_simco_net::daemon::{Daemon, DaemonError, DaemonSettings, StoredState};

use crate::support::{TestFolder, in_time, text};

/// Packet filter that fails its check once `removed` is set.
#[derive(Default)]
struct Removable {
    inner: MemoryBackend,
    removed: Arc<AtomicBool>,
}

impl Backend for Removable {
    fn add(&mut self, now: Time, what: &[Element], life: Lifetime) -> Result<(), BackendError> {
        self.inner.add(now, what, life)
    }

    fn extend(&mut self, now: Time, what: &[Element], life: Lifetime) -> Result<(), BackendError> {
        self.inner.extend(now, what, life)
    }

    fn remove(&mut self, now: Time, what: &[Element]) -> Result<(), BackendError> {
        self.inner.remove(now, what)
    }

    fn check(&mut self) -> Result<(), BackendError> {
        if self.removed.load(Ordering::SeqCst) {
            Err(BackendError::NotEnforced)
        } else {
            Ok(())
        }
    }
}

#[tokio::test]
async fn missing_packet_filter_stops_the_middlebox() {
    let folder = TestFolder::new();
    let settings = DaemonSettings::parse("f", &text(&folder, "")).unwrap();
    let backend = Removable::default();
    let removed = Arc::clone(&backend.removed);
    let started = Daemon::start(&settings, Box::new(backend), StoredState::none()).await;
    let mut daemon = started.unwrap();
    daemon.metrics().await.unwrap();
    removed.store(true, Ordering::SeqCst);
    let ended = in_time("the end", daemon.ended()).await;
    let Err(error @ DaemonError::NotEnforced(_)) = ended else {
        panic!("{ended:?}");
    };
    assert!(error.to_string().contains("nft flush ruleset"));
}
