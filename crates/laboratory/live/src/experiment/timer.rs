//! Timer with a resolution below one millisecond, which is that of the runtime's timers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Timer of the kernel.
#[derive(Debug)]
pub(crate) struct PreciseTimer(AsyncFd<Timer>);

#[derive(Debug)]
struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl PreciseTimer {
    /// Creates a timer that is not set, on the current runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        // The newer function requires that the descriptor stays the same, which is so here.
        #[expect(deprecated, reason = "the newer function is unsafe")]
        let readable = AsyncFd::with_interest(Timer(timer), Interest::READABLE)?;
        Ok(Self(readable))
    }

    /// Waits until `due`, never less. Cancel-safe.
    pub(crate) async fn wait(&self, due: Instant) -> io::Result<()> {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let timer = &self.0.get_ref().0;
            // Setting the timer clears an earlier expiration.
            timer.set(
                Expiration::OneShot(TimeSpec::from_duration(left)),
                TimerSetTimeFlags::empty(),
            )?;
            let mut guard = self.0.readable().await?;
            // The descriptor may have become readable by an earlier expiration; the loop checks the time.
            let _ = guard.try_io(|timer| Ok(timer.get_ref().0.wait()?));
        }
    }

    /// Waits until `due`, but not longer than `most`.
    pub(crate) async fn wait_at_most(
        &self,
        due: Option<Instant>,
        most: Duration,
    ) -> io::Result<()> {
        let latest = Instant::now() + most;
        self.wait(due.map_or(latest, |due| due.min(latest))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_timer_is_never_early_and_can_be_set_again() {
        let timer = PreciseTimer::new().unwrap();
        let long = Instant::now() + Duration::from_secs(3600);
        for micros in [1, 300, 2000] {
            let most = Duration::from_micros(micros);
            let begin = Instant::now();
            timer.wait_at_most(Some(long), most).await.unwrap();
            assert!(begin.elapsed() >= most);
            // Cancelled before it expires.
            let soon = Duration::from_millis(1);
            let cancelled = tokio::time::timeout(soon, timer.wait(long)).await;
            assert!(cancelled.is_err());
        }
        let past = Instant::now();
        timer.wait(past).await.unwrap();
    }
}
