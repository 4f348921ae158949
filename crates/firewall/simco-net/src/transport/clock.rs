//! Clock of the state machines.

use std::time::SystemTime;

use tokio::time::Instant;

use crate::transport::boot;
use carrick_simco::Time;
use carrick_simco::state::ClockReadings;

/// Converts between the runtime's clock and [`Time`], which starts with this clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// Boot identifier, if moments include the boot time.
    boot: Option<[u8; 16]>,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
            boot: None,
        }
    }

    /// Adds the boot time of the host to moments, if available.
    #[must_use]
    pub fn with_boot_time(self) -> Self {
        Self {
            boot: boot::current(),
            ..self
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// Returns the current time with the wall clock.
    pub fn moment(&self) -> ClockReadings {
        #[expect(
            clippy::disallowed_methods,
            reason = "the only place that reads the wall clock"
        )]
        let wall = SystemTime::now();
        ClockReadings {
            time: self.now(),
            wall,
            boot: self.boot.and_then(boot::time),
        }
    }

    /// Converts a time to an instant.
    pub fn instant(&self, time: Time) -> Instant {
        self.start + time.since(Time::ZERO)
    }

    /// Sleeps until this time, or forever without one.
    pub async fn sleep_until(&self, time: Option<Time>) {
        match time {
            Some(time) => tokio::time::sleep_until(self.instant(time)).await,
            None => std::future::pending().await,
        }
    }
}
