//! Counters of a flow: messages and bytes, times without messages, responses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::protocol::TransferAmount;

/// Number of messages and bytes so far. One task counts.
#[derive(Debug, Default)]
pub(super) struct TransferTally {
    bytes: AtomicU64,
    messages: AtomicU64,
}

impl TransferTally {
    /// Counts bytes; `complete` ends a message.
    pub(super) fn add(&self, bytes: usize, complete: bool) {
        self.add_all(bytes as u64, u64::from(complete));
    }

    /// Counts messages with this many bytes together.
    pub(super) fn add_all(&self, bytes: u64, messages: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.messages.fetch_add(messages, Ordering::Relaxed);
    }

    pub(super) fn amount(&self) -> TransferAmount {
        TransferAmount {
            bytes: self.bytes.load(Ordering::Relaxed),
            messages: self.messages.load(Ordering::Relaxed),
        }
    }
}

/// Longest time between two messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InterruptionTimer {
    last: Option<Instant>,
    longest: Duration,
}

impl InterruptionTimer {
    /// Records a message. The time before the first one is no interruption.
    pub(super) fn message(&mut self, now: Instant) {
        if let Some(last) = self.last {
            self.longest = self.longest.max(now.saturating_duration_since(last));
        }
        self.last = Some(now);
    }

    pub(super) fn longest(&self) -> Duration {
        self.longest
    }
}

/// Permits to send requests that wait for the response to the previous one: one at first, then one for each response.
#[derive(Debug)]
pub(super) struct ResponsePermits(Semaphore);

impl ResponsePermits {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(1))
    }

    /// Adds a permit for a response. A peer that sends responses without requests adds no more than one unused permit.
    pub(super) fn add(&self) {
        if self.0.available_permits() == 0 {
            self.0.add_permits(1);
        }
    }

    /// Waits for a permit and uses it.
    pub(super) async fn take(&self) {
        // The semaphore is never closed.
        if let Ok(permit) = self.0.acquire().await {
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time before the first message is no interruption.
    #[test]
    fn interruptions_are_between_messages() {
        let start = Instant::now();
        let mut timer = InterruptionTimer::default();
        assert_eq!(timer.longest(), Duration::ZERO);
        for time in [500, 510, 900, 910] {
            timer.message(start + Duration::from_millis(time));
        }
        assert_eq!(timer.longest(), Duration::from_millis(390));
    }

    #[tokio::test]
    async fn requests_wait_for_responses() {
        let permits = ResponsePermits::new();
        permits.take().await;
        let mut next = std::pin::pin!(permits.take());
        let is_ready = |polled: std::task::Poll<()>| polled.is_ready();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(!is_ready(next.as_mut().poll(&mut context)));
        (0..3).for_each(|_| permits.add());
        assert!(is_ready(next.as_mut().poll(&mut context)));
    }
}
