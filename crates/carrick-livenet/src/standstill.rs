//! When the machine itself stood still: a hypervisor that runs something else, or a kernel that lets no
//! thread run.
//!
//! On each core a thread of a higher priority than the emulator's sleeps until one moment after the other.
//! What it is late by is the machine's doing. It can't see a pause that falls into its sleep, so that what it
//! sees is the least of what there was.

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
use crate::scheduling::{WATCH, real_time};

/// Between two looks at the clock.
const PERIOD: Duration = Duration::from_micros(250);
/// Less than this is what waking up takes.
const SHORTEST: Duration = Duration::from_micros(100);
/// Pauses that are kept for each core; the machine of so many is of no use.
const MOST: usize = 1 << 20;

/// Watches the machine until it is told to end.
#[derive(Debug)]
pub struct Watch {
    begin: Instant,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Seen>>,
}

/// What one core's thread saw.
#[derive(Debug, Default)]
struct Seen {
    pauses: Vec<(Duration, Duration)>,
    ordinary: Option<String>,
}

impl Watch {
    /// Watches from now on; times are counted from `epoch`.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn start(epoch: Instant) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for core in cores() {
            let stop = stop.clone();
            let thread = thread::Builder::new().name("watch".into());
            let started = thread.spawn(move || look(core, epoch, &stop));
            threads.push(started.map_err(Error::system("the thread watch"))?);
        }
        Ok(Self {
            begin: Instant::now(),
            stop,
            threads,
        })
    }

    /// What was seen.
    pub fn end(mut self) -> Standstills {
        let watched = self.begin.elapsed();
        self.stop.store(true, Ordering::Relaxed);
        let mut pauses = Vec::new();
        let mut ordinary = None;
        for thread in self.threads.drain(..) {
            // One that panicked saw nothing.
            let Ok(seen) = thread.join() else { continue };
            pauses.extend(seen.pauses);
            ordinary = ordinary.or(seen.ordinary);
        }
        Standstills::new(watched, pauses, ordinary)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The cores that this process may use.
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

fn look(core: usize, epoch: Instant, stop: &AtomicBool) -> Seen {
    let mut only = CpuSet::new();
    // Without a core of its own it watches whichever it gets.
    let _ = only
        .set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &only));
    let mut seen = Seen {
        ordinary: real_time(WATCH).err(),
        ..Seen::default()
    };
    let clock = ClockId::CLOCK_MONOTONIC;
    let now = || clock_gettime(clock).map(Duration::from);
    let Ok(begin) = now() else { return seen };
    // The clock's time of `epoch`.
    let zero = begin.saturating_sub(epoch.elapsed());
    let mut due = begin;
    while !stop.load(Ordering::Relaxed) && seen.pauses.len() < MOST {
        due += PERIOD;
        let until = TimeSpec::from_duration(due);
        match clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &until) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return seen,
        }
        let Ok(woke) = now() else { return seen };
        if woke.saturating_sub(due) > SHORTEST {
            let since = |time: Duration| time.saturating_sub(zero);
            seen.pauses.push((since(due), since(woke)));
        }
        due = due.max(woke);
    }
    seen
}

/// The times in which a core of the machine stood still.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standstills {
    /// Apart from each other, in order: from and until.
    pauses: Vec<(Duration, Duration)>,
    /// How long it was watched.
    pub watched: Duration,
    /// Why the watching threads had no real-time priority, if they had none: then pauses are those of other
    /// work as well.
    pub ordinary: Option<String>,
}

impl Standstills {
    /// Of pauses in any order, which may overlap.
    pub fn new(
        watched: Duration,
        mut pauses: Vec<(Duration, Duration)>,
        ordinary: Option<String>,
    ) -> Self {
        pauses.sort_unstable();
        let mut apart: Vec<(Duration, Duration)> = Vec::new();
        for (from, until) in pauses {
            match apart.last_mut().filter(|(_, end)| *end >= from) {
                Some((_, end)) => *end = until.max(*end),
                None => apart.push((from, until)),
            }
        }
        Self {
            pauses: apart,
            watched,
            ordinary,
        }
    }

    /// All pauses together.
    pub fn total(&self) -> Duration {
        self.lengths().sum()
    }

    /// The longest.
    pub fn longest(&self) -> Duration {
        self.lengths().max().unwrap_or_default()
    }

    fn lengths(&self) -> impl Iterator<Item = Duration> + '_ {
        let pauses = self.pauses.iter();
        pauses.map(|(from, until)| until.saturating_sub(*from))
    }

    /// How long it stood in a span of time.
    pub fn within(&self, from: Duration, until: Duration) -> Duration {
        let first = self.pauses.partition_point(|(_, end)| *end <= from);
        let here = self.pauses[first..].iter();
        here.take_while(|(begin, _)| *begin < until)
            .map(|(begin, end)| (*end).min(until).saturating_sub((*begin).max(from)))
            .sum()
    }

    /// Whether something that was due at one time and done at a later one would have been in time, by
    /// `limit`, but for the machine.
    pub fn excuse(&self, due: Duration, done: Duration, limit: Duration) -> bool {
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

    fn stood(pauses: &[(u64, u64)]) -> Standstills {
        let pauses = pauses.iter().map(|(a, b)| (ms(*a), ms(*b))).collect();
        Standstills::new(ms(100), pauses, None)
    }

    #[test]
    fn pauses_of_several_cores_count_once() {
        let stood = stood(&[(50, 60), (10, 20), (15, 30), (12, 13), (30, 31)]);
        assert_eq!(stood.total(), ms(31));
        assert_eq!(stood.longest(), ms(21));
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
                stood.within(ms(from), ms(until)),
                ms(expected),
                "{from} {until}"
            );
        }
    }

    #[test]
    fn lateness_is_excused_as_far_as_the_machine_stood() {
        let stood = stood(&[(10, 20)]);
        // 11 ms late, 10 of them the machine's.
        assert!(stood.excuse(ms(9), ms(20), ms(1)));
        assert!(!stood.excuse(ms(8), ms(20), ms(1)), "2 ms are its own");
        assert!(stood.excuse(ms(15), ms(21), ms(1)));
        assert!(!stood.excuse(ms(20), ms(25), ms(1)), "it stood before");
        assert!(!stood.excuse(ms(2), ms(9), ms(1)), "it stood later");
        assert!(stood.excuse(ms(2), ms(3), ms(1)), "it was in time");
    }

    #[test]
    fn a_watch_sees_no_more_than_it_watched() {
        let epoch = Instant::now();
        let watch = Watch::start(epoch).expect("there are threads");
        thread::sleep(ms(20));
        let stood = watch.end();
        assert!(stood.watched >= ms(20));
        assert!(stood.within(Duration::ZERO, epoch.elapsed()) <= epoch.elapsed());
        assert!(stood.longest() <= stood.total());
    }
}
