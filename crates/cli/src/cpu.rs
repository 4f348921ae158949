//! CPU time of this process and of those that it ran.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// CPU seconds since the start of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuTime {
    pub(crate) user: f64,
    pub(crate) system: f64,
}

impl CpuTime {
    /// Returns the CPU time used so far; zero if the system does not report it.
    pub(crate) fn now() -> Self {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    /// Returns the CPU time of all children that have ended and were waited for, and of their children.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_children() -> Self {
        Self::of(UsageWho::RUSAGE_CHILDREN)
    }

    fn of(who: UsageWho) -> Self {
        getrusage(who).map_or(Self::default(), |usage| Self {
            user: seconds(usage.user_time()),
            system: seconds(usage.system_time()),
        })
    }

    /// Returns the sum of both kinds in seconds.
    #[cfg(target_os = "linux")]
    pub(crate) fn total(self) -> f64 {
        self.user + self.system
    }

    /// Returns the CPU time used since `start`.
    pub(crate) fn since(self, start: Self) -> Self {
        Self {
            user: self.user - start.user,
            system: self.system - start.system,
        }
    }
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6
}
