//! What this host can do, and how it is.

use std::io;
use std::num::NonZero;
use std::thread;
use std::time::Duration;

use carrick_lab::live::{Later, Machine, Probe};
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

/// Measures how exact links are, for so long at most, on a network of its own.
pub(crate) fn probe(most: Duration) -> Option<Probe> {
    let (rate, delay) = PROBED;
    // Both parts, and the silences after them.
    let each = (most / 3).min(PROBING);
    let accuracy = Accuracy::measure(rate, delay, each).ok()?;
    Some(Probe {
        delay_median: accuracy.delay.median,
        delay_p99: accuracy.delay.p99,
        rate_error: accuracy.rate.relative() * 100.0,
        packets: accuracy.delay.packets,
        later: Later {
            packets: accuracy.delay.later.packets,
            while_it_stood: accuracy.delay.later.while_it_stood,
        },
    })
}

/// What the machine did, in the report's words.
pub(crate) fn stood(standstills: &Standstills, ordinary: Option<String>) -> Machine {
    let stood = Stood::of(standstills);
    Machine {
        watched: stood.watched,
        stood: stood.total / 1e3,
        longest: stood.longest,
        ordinary: ordinary.or(stood.ordinary),
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
