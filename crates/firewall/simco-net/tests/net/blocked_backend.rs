//! Packet filter that blocks reading of rule counters on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use carrick_simco::Time;
use carrick_simco::backend::{
    Backend, BackendError, Element, MemoryBackend, Meter, Reservation, Traffic,
};
use carrick_simco::message::{Lifetime, PrrParameters};

/// Blocks readings while `closed` is set. Then the rules have passed 1, 2, 3... packets of 100 octets.
#[derive(Default)]
pub(crate) struct BlockedBackend {
    inner: MemoryBackend,
    /// Number of readings, finished or in progress.
    pub(crate) readings: Arc<AtomicUsize>,
    pub(crate) closed: Arc<AtomicBool>,
}

impl Backend for BlockedBackend {
    fn add(&mut self, now: Time, e: &[Element], life: Lifetime) -> Result<(), BackendError> {
        self.inner.add(now, e, life)
    }

    fn extend(&mut self, now: Time, e: &[Element], life: Lifetime) -> Result<(), BackendError> {
        self.inner.extend(now, e, life)
    }

    fn remove(&mut self, now: Time, e: &[Element]) -> Result<(), BackendError> {
        self.inner.remove(now, e)
    }

    fn reserve(&mut self, wanted: &PrrParameters) -> Result<Reservation, BackendError> {
        self.inner.reserve(wanted)
    }

    fn meter(&mut self, rules: &[Vec<Element>]) -> Option<Meter> {
        let (count, readings) = (rules.len() as u64, Arc::clone(&self.readings));
        let closed = Arc::clone(&self.closed);
        Some(Box::new(move || {
            readings.fetch_add(1, Ordering::SeqCst);
            while closed.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let counted = (1..=count).map(|n| Traffic {
                packets: n,
                octets: 100 * n,
            });
            Ok(counted.collect())
        }))
    }
}
