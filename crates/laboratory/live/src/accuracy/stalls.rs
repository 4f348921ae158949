//! Stalls of the machine: times in which a core ran no thread of this host, because the hypervisor ran
//! another guest or the kernel did not schedule.
//!
//! On each core a thread with a higher priority than the emulator's wakes up periodically and measures how
//! late it is. It does not detect a stall within its sleep, so that the result is a lower bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use nix::unistd::Pid;

use crate::error::Error;
use crate::scheduling::{STALL_MONITOR, set_real_time};

/// Period in which a thread wakes up.
const PERIOD: Duration = Duration::from_micros(250);
/// Minimum length of a stall; waking up takes up to this time without one.
const MIN_STALL: Duration = Duration::from_micros(100);
/// Maximum number of stalls recorded for each core; the thread stops there.
const MAX_STALLS: usize = 1 << 20;

/// Detects stalls of the machine until [`Self::finish`].
#[derive(Debug)]
pub struct StallMonitor {
    begin: Instant,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<CoreStalls>>,
}

/// Stalls of one core.
#[derive(Debug, Default)]
struct CoreStalls {
    stalls: Vec<(Duration, Duration)>,
    without_real_time: Option<String>,
}

impl StallMonitor {
    /// Starts a thread on each core; times are relative to `epoch`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(epoch: Instant) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for core in cores() {
            let stop = stop.clone();
            let thread = thread::Builder::new().name("stall monitor".into());
            let started = thread.spawn(move || monitor(core, epoch, &stop));
            threads.push(started.map_err(Error::system("starting a stall monitor thread"))?);
        }
        Ok(Self {
            begin: Instant::now(),
            stop,
            threads,
        })
    }

    /// Stops the threads and returns the stalls of all cores.
    pub fn finish(mut self) -> StallIntervals {
        let observed = self.begin.elapsed();
        self.stop.store(true, Ordering::Relaxed);
        let mut stalls = Vec::new();
        let mut without_real_time = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has no result.
            let Ok(core) = thread.join() else { continue };
            stalls.extend(core.stalls);
            without_real_time = without_real_time.or(core.without_real_time);
        }
        StallIntervals::new(observed, stalls, without_real_time)
    }
}

impl Drop for StallMonitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Cores that this process may use.
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0));
    let is_in = |set: &CpuSet, core: &usize| set.is_set(*core).unwrap_or(false);
    allowed.map_or_else(
        |_| Vec::new(),
        |set| {
            (0..CpuSet::count())
                .filter(|core| is_in(&set, core))
                .collect()
        },
    )
}

fn monitor(core: usize, epoch: Instant, stop: &AtomicBool) -> CoreStalls {
    let mut only = CpuSet::new();
    // If the affinity cannot be set, the thread monitors the core on which it is scheduled.
    let _ = only
        .set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &only));
    let mut result = CoreStalls {
        without_real_time: set_real_time(STALL_MONITOR).err(),
        ..CoreStalls::default()
    };
    let clock = ClockId::CLOCK_MONOTONIC;
    let now = || clock_gettime(clock).map(Duration::from);
    let Ok(begin) = now() else { return result };
    // Clock reading at `epoch`.
    let zero = begin.saturating_sub(epoch.elapsed());
    let mut due = begin;
    while !stop.load(Ordering::Relaxed) && result.stalls.len() < MAX_STALLS {
        due += PERIOD;
        let until = TimeSpec::from_duration(due);
        match clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &until) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return result,
        }
        let Ok(woke) = now() else { return result };
        if woke.saturating_sub(due) > MIN_STALL {
            let since = |time: Duration| time.saturating_sub(zero);
            result.stalls.push((since(due), since(woke)));
        }
        due = due.max(woke);
    }
    result
}

/// Times in which at least one core of the machine was stalled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StallIntervals {
    /// Begin and end of each stall, in order, without overlap.
    stalls: Vec<(Duration, Duration)>,
    /// Length of the observation.
    pub observed: Duration,
    /// Reason why a monitoring thread had no real-time priority, if one had none; other load then counts as
    /// stalls, too.
    pub without_real_time: Option<String>,
}

impl StallIntervals {
    /// Merges stalls, which may overlap and be in any order.
    pub fn new(
        observed: Duration,
        mut stalls: Vec<(Duration, Duration)>,
        without_real_time: Option<String>,
    ) -> Self {
        stalls.sort_unstable();
        let mut merged: Vec<(Duration, Duration)> = Vec::new();
        for (from, until) in stalls {
            match merged.last_mut().filter(|(_, end)| *end >= from) {
                Some((_, end)) => *end = until.max(*end),
                None => merged.push((from, until)),
            }
        }
        Self {
            stalls: merged,
            observed,
            without_real_time,
        }
    }

    /// Sum of all stalls.
    pub fn total(&self) -> Duration {
        self.lengths().sum()
    }

    /// Length of the longest stall.
    pub fn longest(&self) -> Duration {
        self.lengths().max().unwrap_or_default()
    }

    fn lengths(&self) -> impl Iterator<Item = Duration> + '_ {
        let stalls = self.stalls.iter();
        stalls.map(|(from, until)| until.saturating_sub(*from))
    }

    /// Sum of the stalls between `from` and `until`.
    pub fn within(&self, from: Duration, until: Duration) -> Duration {
        let first = self.stalls.partition_point(|(_, end)| *end <= from);
        let here = self.stalls[first..].iter();
        here.take_while(|(begin, _)| *begin < until)
            .map(|(begin, end)| (*end).min(until).saturating_sub((*begin).max(from)))
            .sum()
    }

    /// Returns true if an event that was due at `due` and happened at `done` would have been at most `limit`
    /// late without the stalls in between.
    pub fn explain_lateness(&self, due: Duration, done: Duration, limit: Duration) -> bool {
        let late = done.saturating_sub(due);
        late.saturating_sub(self.within(due, done)) <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn intervals(stalls: &[(u64, u64)]) -> StallIntervals {
        let stalls = stalls.iter().map(|(a, b)| (ms(*a), ms(*b))).collect();
        StallIntervals::new(ms(100), stalls, None)
    }

    #[test]
    fn overlapping_stalls_count_once() {
        let stalls = intervals(&[(50, 60), (10, 20), (15, 30), (12, 13), (30, 31)]);
        assert_eq!(stalls.total(), ms(31));
        assert_eq!(stalls.longest(), ms(21));
        for (from, until, expected) in [
            (0, 100, 31),
            (0, 10, 0),
            (0, 15, 5),
            (20, 55, 16),
            (31, 50, 0),
            (60, 90, 0),
            (25, 26, 1),
        ] {
            assert_eq!(
                stalls.within(ms(from), ms(until)),
                ms(expected),
                "{from} {until}"
            );
        }
    }

    #[test]
    fn stalls_explain_lateness_up_to_their_length() {
        let stalls = intervals(&[(10, 20)]);
        let explain = |due, done| stalls.explain_lateness(ms(due), ms(done), ms(1));
        assert!(explain(9, 20), "11 ms late, 10 ms stalled");
        assert!(!explain(8, 20), "12 ms late, 10 ms stalled");
        assert!(explain(15, 21));
        assert!(!explain(20, 25), "the stall was before");
        assert!(!explain(2, 9), "the stall was later");
        assert!(explain(2, 3), "within the limit");
    }

    #[test]
    fn stalls_are_within_the_observation() {
        let epoch = Instant::now();
        let monitor = StallMonitor::start(epoch).expect("threads can be started");
        thread::sleep(ms(20));
        let stalls = monitor.finish();
        assert!(stalls.observed >= ms(20));
        assert!(stalls.within(Duration::ZERO, epoch.elapsed()) <= epoch.elapsed());
        assert!(stalls.longest() <= stalls.total());
    }
}
