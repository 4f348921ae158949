//! Packet filter that another program removes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carrick_simco::Time;
use carrick_simco::backend::{Backend, BackendError, Element, MemoryBackend};
use carrick_simco::message::Lifetime;
use carrick_simco_net::daemon::{Daemon, DaemonError, Settings, State};

use crate::support::{Folder, soon, text};

/// As long as it is there.
#[derive(Default)]
struct Removable {
    inner: MemoryBackend,
    gone: Arc<AtomicBool>,
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
        if self.gone.load(Ordering::SeqCst) {
            Err(BackendError::Gone)
        } else {
            Ok(())
        }
    }
}

#[tokio::test]
async fn missing_packet_filter_stops_the_middlebox() {
    let folder = Folder::new();
    let settings = Settings::parse(&text(&folder, "")).unwrap();
    let backend = Removable::default();
    let gone = Arc::clone(&backend.gone);
    let started = Daemon::start(&settings, Box::new(backend), State::none()).await;
    let mut daemon = started.unwrap();
    daemon.metrics().await.unwrap();
    gone.store(true, Ordering::SeqCst);
    let ended = soon("the end", daemon.ended()).await;
    let Err(error @ DaemonError::Gone(_)) = ended else {
        panic!("{ended:?}");
    };
    assert!(error.to_string().contains("nft flush ruleset"));
}
