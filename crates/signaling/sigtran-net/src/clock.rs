//! Clock of the state machines.

use carrick_proto::Time;
use tokio::time::Instant;

/// Converts between the runtime's clock and [`Time`], which starts with this clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// Sleeps until this time, or forever without one.
    pub(crate) async fn sleep_until(&self, time: Option<Time>) {
        match time {
            Some(time) => tokio::time::sleep_until(self.start + time.since(Time::ZERO)).await,
            None => std::future::pending().await,
        }
    }
}
