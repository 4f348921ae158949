//! The clock of the task, and the timer that wakes it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use carrick_proto::Time;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Sleep;

/// Clock and timer of the task.
#[derive(Debug)]
pub(crate) struct TaskTimer {
    /// Moment of [`Time::ZERO`].
    epoch: Instant,
    sleep: Pin<Box<Sleep>>,
    /// Time for which the timer is set.
    armed: Option<Time>,
}

impl TaskTimer {
    /// Starts a clock, or continues that of a predecessor.
    pub(crate) fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            armed: None,
        }
    }

    pub(crate) fn now(&self) -> Time {
        let nanos = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(nanos)
    }

    /// Waits for a time; without one for nothing. Ready if it is already due.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, next: Option<Time>) -> Poll<()> {
        let Some(next) = next else {
            return Poll::Pending;
        };
        // A timer that moved to a later time, as T3-rtx does with every SACK, is set again when it fires.
        if self.armed.is_none_or(|at| next < at) {
            self.armed = Some(next);
            let at = self.epoch + Duration::from_nanos(next.as_nanos());
            self.sleep.as_mut().reset(at.into());
        }
        let fired = self.sleep.as_mut().poll(cx);
        if fired.is_ready() {
            self.armed = None;
        }
        fired
    }
}
/// Returns `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn clock() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
