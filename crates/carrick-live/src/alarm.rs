//! A timer that is exact: the runtime's counts whole milliseconds, and programs ask for less.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A timer of the kernel.
#[derive(Debug)]
pub(crate) struct Alarm(AsyncFd<Timer>);

#[derive(Debug)]
struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Alarm {
    /// A timer that is not set, on the current runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        // A timer keeps its descriptor for as long as it lives, which is what the newer one asks for.
        #[expect(deprecated, reason = "the newer function is unsafe")]
        let readable = AsyncFd::with_interest(Timer(timer), Interest::READABLE)?;
        Ok(Self(readable))
    }

    /// Until that moment, and not before. Cancel-safe.
    pub(crate) async fn wait(&self, due: Instant) -> io::Result<()> {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let timer = &self.0.get_ref().0;
            // Setting it forgets that it had expired.
            timer.set(
                Expiration::OneShot(TimeSpec::from_duration(left)),
                TimerSetTimeFlags::empty(),
            )?;
            let mut guard = self.0.readable().await?;
            // What was expired before it was set may have been told only now.
            let _ = guard.try_io(|timer| Ok(timer.get_ref().0.wait()?));
        }
    }

    /// Until that moment, or for this long if there is none or it is later.
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
    async fn it_is_never_early_and_forgets_what_it_was_set_to() {
        let alarm = Alarm::new().unwrap();
        let long = Instant::now() + Duration::from_secs(3600);
        for micros in [1, 300, 2000] {
            let most = Duration::from_micros(micros);
            let begin = Instant::now();
            alarm.wait_at_most(Some(long), most).await.unwrap();
            assert!(begin.elapsed() >= most);
            // Given up half-way.
            let soon = Duration::from_millis(1);
            let given_up = tokio::time::timeout(soon, alarm.wait(long)).await;
            assert!(given_up.is_err());
        }
        let past = Instant::now();
        alarm.wait(past).await.unwrap();
    }
}
