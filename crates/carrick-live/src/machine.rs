//! What this host can do, and how it is.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use carrick_lab::live::{LatePackets, ProbeResult, StallReport};
use carrick_livenet::{Accuracy, LiveNetwork, Plan, Standstills, Stood};
use carrick_netsim::NetworkBuilder;

use crate::error::Error;

/// Rate in bit/s and delay of the link that is measured beside the runs: enough packets for a
/// quantile, too few to be in the way.
const PROBED: (u64, Duration) = (2_000_000, Duration::from_millis(20));
/// The longest that delay is measured, and again the rate.
const PROBING: Duration = Duration::from_secs(10);

/// Whether live networks can be built here.
///
/// # Errors
/// [`Error::NotRoot`], or what is missing.
pub fn check() -> Result<(), Error> {
    let name = format!("check-{}", std::process::id());
    let built = LiveNetwork::start(&name, || {
        let mut builder = NetworkBuilder::new(0);
        let host = builder.add_host("host");
        builder.add_interface(host, [[10, 0, 0, 1].into()]);
        Ok(Plan::new(builder.build()?, [host]))
    });
    match built {
        Ok(_) => Ok(()),
        Err(carrick_livenet::Error::System { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Err(Error::NotRoot)
        }
        Err(error) => Err(error.into()),
    }
}

/// Cores, and the threads that wanted one during the last minute, if the system says so.
pub(crate) fn load() -> (usize, Option<f64>) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|text| text.split(' ').next()?.parse().ok());
    (cores, load)
}

/// Measures how exact links are while others run.
pub(crate) struct Probing {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<ProbeResult>>>,
}

impl Probing {
    /// Begins to measure, for so long at most.
    pub(crate) fn begin(most: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = thread::spawn(move || probe(most, &told));
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Whether all is measured.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until all is measured; nothing if it could not be.
    pub(crate) fn end(mut self) -> Option<ProbeResult> {
        self.thread.take()?.join().ok()?
    }
}

impl Drop for Probing {
    /// Whoever goes before the end leaves no network behind.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it measured is not wanted any more.
            let _ = thread.join();
        }
    }
}

/// Measures how exact links are, for so long at most, on a network of its own.
fn probe(most: Duration, stop: &Arc<AtomicBool>) -> Option<ProbeResult> {
    let (rate, delay) = PROBED;
    // Both parts, and the silences after them.
    let each = (most / 3).min(PROBING);
    let accuracy = Accuracy::measure(rate, delay, each, stop).ok()?;
    Some(ProbeResult {
        delay_median: accuracy.delay.median,
        delay_p99: accuracy.delay.p99,
        rate_error: accuracy.rate.relative() * 100.0,
        packets: accuracy.delay.packets,
        late: LatePackets {
            packets: accuracy.delay.later.packets,
            during_stalls: accuracy.delay.later.while_it_stood,
        },
    })
}

/// What the machine did, in the report's words.
pub(crate) fn stood(standstills: &Standstills, ordinary: Option<String>) -> StallReport {
    let stood = Stood::of(standstills);
    StallReport {
        observed: stood.watched,
        total: stood.total / 1e3,
        longest: stood.longest,
        no_priority: ordinary.or(stood.ordinary),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_cores_and_a_load() {
        let (cores, load) = load();
        assert!(cores > 0);
        assert!(load.is_some_and(|load| load >= 0.0));
    }
}
