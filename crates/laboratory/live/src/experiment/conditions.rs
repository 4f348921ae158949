//! Conditions of the runs on this machine: required privileges, load, accuracy of the emulation, stalls.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use carrick_lab::live::{LatePackets, ProbeResult, StallReport};
use carrick_netsim::NetworkBuilder;

use crate::accuracy::{HostStalls, LinkAccuracy, StallIntervals};
use crate::error::Error;
use crate::network::{LiveNetwork, NetworkPlan};

/// Rate in bit/s and delay of the link that is measured beside the runs: enough packets for a quantile, and
/// little load.
const PROBED_LINK: (u64, Duration) = (2_000_000, Duration::from_millis(20));
/// Maximum time for which the delay is measured, and again for the rate.
const MAX_PROBING: Duration = Duration::from_secs(10);

/// Checks that live networks can be built on this machine.
///
/// # Errors
/// [`Error::NotRoot`], or the error of building a network.
pub fn check_support() -> Result<(), Error> {
    let name = format!("check-{}", std::process::id());
    let built = LiveNetwork::start(&name, || {
        let mut builder = NetworkBuilder::new(0);
        let host = builder.add_host("host");
        builder.add_interface(host, [[10, 0, 0, 1].into()]);
        Ok(NetworkPlan::new(builder.build()?, [host]))
    });
    match built {
        Ok(_) => Ok(()),
        Err(Error::System { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
            Err(Error::NotRoot)
        }
        Err(error) => Err(error),
    }
}

/// Returns the number of cores and the load average of the last minute, if the system reports it.
pub(crate) fn load() -> (usize, Option<f64>) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|text| text.split(' ').next()?.parse().ok());
    (cores, load)
}

/// Measurement of a link's accuracy beside the runs.
pub(crate) struct Probing {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<ProbeResult>>>,
}

impl Probing {
    /// Starts a measurement of at most `limit`.
    pub(crate) fn start(limit: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || probe(limit, &stopped));
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Returns true if the measurement is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the result; `None` if the measurement failed.
    pub(crate) fn finish(mut self) -> Option<ProbeResult> {
        self.thread.take()?.join().ok()?
    }
}

impl Drop for Probing {
    /// Stops the measurement and waits until its network is removed.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The result is not needed.
            let _ = thread.join();
        }
    }
}

/// Measures a link's accuracy on a separate network, for at most `limit`.
fn probe(limit: Duration, stop: &Arc<AtomicBool>) -> Option<ProbeResult> {
    let (rate, delay) = PROBED_LINK;
    // One third each for the delay, the rate, and the silence that ends each of them.
    let each = (limit / 3).min(MAX_PROBING);
    let accuracy = LinkAccuracy::measure(rate, delay, each, stop).ok()?;
    Some(ProbeResult {
        delay_median: accuracy.delay.median,
        delay_p99: accuracy.delay.p99,
        rate_error: accuracy.rate.relative() * 100.0,
        packets: accuracy.delay.packets,
        late: LatePackets {
            packets: accuracy.delay.lateness.packets,
            during_stalls: accuracy.delay.lateness.due_to_stalls,
        },
    })
}

/// Summarizes the stalls for the report, with the reason why the emulator had no real-time priority, if it
/// had none.
pub(crate) fn summarize(stalls: &StallIntervals, without_real_time: Option<String>) -> StallReport {
    let stalls = HostStalls::from(stalls);
    StallReport {
        observed: stalls.observed,
        total: stalls.total / 1e3,
        longest: stalls.longest,
        no_priority: without_real_time.or(stalls.without_real_time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_load_are_available() {
        let (cores, load) = load();
        assert!(cores > 0);
        assert!(load.is_some_and(|load| load >= 0.0));
    }
}
