//! How exactly the links were kept while scenarios ran in real time.

use serde::Serialize;

use crate::stats::Sorted;

/// How late the network handed packets to the hosts, in ms, over all packets of the runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lateness(Vec<f64>);

impl Lateness {
    /// One packet was this late.
    pub fn add(&mut self, ms: f64) {
        self.0.push(ms);
    }

    /// All of another one as well.
    pub fn append(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }
}

/// What probes between two hosts of a network of their own showed at the same time: all that the
/// host's kernel and its other work add is in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// How much later than configured a packet arrived: median, in ms.
    pub delay_median: f64,
    /// The same at 99 %.
    pub delay_p99: f64,
    /// Measured over configured rate, less 1, in per cent.
    pub rate_error: f64,
}

/// How exact the runs of a scenario were.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Packets that were handed to hosts.
    pub packets: usize,
    /// How late they were: median, in ms.
    pub late_median: f64,
    /// The same at 99 %.
    pub late_p99: f64,
    /// What probes showed meanwhile; `None` if there was no time for them.
    pub probe: Option<Probe>,
    /// Threads that wanted to run when the runs began, on average over a minute.
    pub load: Option<f64>,
    /// Cores.
    pub cores: usize,
}

/// The largest delay beyond the configured one, in ms.
const DELAY_TARGET: f64 = 0.5;
/// The largest error of the rate, in per cent.
const RATE_TARGET: f64 = 1.0;

impl Accuracy {
    /// The accuracy of runs.
    pub fn new(lateness: Lateness, probe: Option<Probe>, load: Option<f64>, cores: usize) -> Self {
        let sorted = Sorted::new(lateness.0);
        let quantile = |share| sorted.quantile(share).unwrap_or_default();
        Self {
            packets: sorted.values().len(),
            late_median: quantile(0.5),
            late_p99: quantile(0.99),
            probe,
            load,
            cores,
        }
    }

    /// Whether 99 % of the packets, and the rate, were as exact as is wanted.
    pub fn is_good(&self) -> bool {
        let probe = |probe: &Probe| {
            probe.delay_p99 <= DELAY_TARGET && probe.rate_error.abs() <= RATE_TARGET
        };
        self.late_p99 <= DELAY_TARGET && self.probe.as_ref().is_none_or(probe)
    }

    /// In words.
    pub fn describe(&self) -> String {
        let mut sentences = vec![format!(
            "Accuracy during the runs: {} packets were handed over {:.3} ms (median) and {:.3} ms (99 %) after the \
             configured time.",
            self.packets, self.late_median, self.late_p99
        )];
        if let Some(probe) = &self.probe {
            sentences.push(format!(
                "Probes from host to host on a link of their own were {:.3} ms (median) and {:.3} ms (99 %) late, the \
                 rate of a full link differed by {:+.3} %.",
                probe.delay_median, probe.delay_p99, probe.rate_error
            ));
        }
        sentences.push(format!(
            "Wanted are {DELAY_TARGET} ms and {RATE_TARGET} %: {}",
            if self.is_good() { "kept." } else { "not kept." }
        ));
        if let Some(load) = self.load.filter(|load| *load > self.cores as f64 / 2.0) {
            sentences.push(format!(
                "This machine was busy with other work when the runs began (load {load:.1} on {} cores).",
                self.cores
            ));
        }
        sentences.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lateness(ms: f64) -> Lateness {
        let mut all = Lateness::default();
        let mut one = Lateness::default();
        one.add(ms);
        for _ in 0..100 {
            all.append(&one);
        }
        all
    }

    const PROBE: Probe = Probe {
        delay_median: 0.1,
        delay_p99: 0.4,
        rate_error: -0.2,
    };

    #[test]
    fn late_packets_late_probes_and_wrong_rates_are_not_good() {
        let good = Accuracy::new(lateness(0.2), Some(PROBE), Some(0.3), 2);
        assert!(good.is_good() && good.packets == 100);
        assert!(good.describe().contains("kept.") && !good.describe().contains("busy"));
        let late = Accuracy::new(lateness(0.6), Some(PROBE), Some(3.0), 2);
        assert!(!late.is_good());
        assert!(late.describe().contains("not kept.") && late.describe().contains("busy"));
        for probe in [
            Probe {
                delay_p99: 0.6,
                ..PROBE
            },
            Probe {
                rate_error: -1.1,
                ..PROBE
            },
        ] {
            assert!(!Accuracy::new(lateness(0.2), Some(probe), None, 2).is_good());
        }
    }
}
