//! The state machines' time on this host.

use std::time::SystemTime;

use tokio::time::Instant;

use crate::Time;
use crate::state::Moment;
use crate::transport::boot;

/// Translates between the runtime's clock and [`Time`], which begins with the clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// The host's run, of the clock that tells moments by it.
    boot: Option<[u8; 16]>,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
            boot: None,
        }
    }

    /// The same, whose moments are by the host's clock too, where there is one.
    #[must_use]
    pub fn with_boot_time(self) -> Self {
        Self {
            boot: boot::this(),
            ..self
        }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// The time now, and what the clock on the wall shows.
    pub fn moment(&self) -> Moment {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is where the wall's time comes from"
        )]
        let wall = SystemTime::now();
        Moment {
            time: self.now(),
            wall,
            boot: self.boot.and_then(boot::time),
        }
    }

    /// When it is this time.
    pub fn instant(&self, time: Time) -> Instant {
        self.start + time.since(Time::ZERO)
    }

    /// Sleeps until then; for ever without a time.
    pub async fn sleep_until(&self, time: Option<Time>) {
        match time {
            Some(time) => tokio::time::sleep_until(self.instant(time)).await,
            None => std::future::pending().await,
        }
    }
}
