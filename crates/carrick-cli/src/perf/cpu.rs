//! CPU time of this process.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// CPU seconds since the start of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuTime {
    pub(super) user: f64,
    pub(super) system: f64,
}

impl CpuTime {
    /// Returns the CPU time used so far; zero if the system does not report it.
    pub(super) fn now() -> Self {
        getrusage(UsageWho::RUSAGE_SELF).map_or(Self::default(), |usage| Self {
            user: seconds(usage.user_time()),
            system: seconds(usage.system_time()),
        })
    }

    /// Returns the CPU time used since `start`.
    pub(super) fn since(self, start: Self) -> Self {
        Self {
            user: self.user - start.user,
            system: self.system - start.system,
        }
    }
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6
}
