//! Accuracy of the emulated links during live runs.

use std::time::Duration;

use serde::Serialize;

use crate::stats::Sorted;

/// Lateness with which the network delivered packets to the hosts, over all packets of the runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Lateness of each packet in ms.
    all: Vec<f64>,
    /// Due time and delivery time of each packet beyond the limit.
    beyond: Vec<(Duration, Duration)>,
}

impl Lateness {
    /// Records a packet with its due time and its delivery time.
    pub fn add(&mut self, due: Duration, handed: Duration) {
        let ms = handed.saturating_sub(due).as_secs_f64() * 1e3;
        self.all.push(ms);
        if ms > DELAY_TARGET {
            self.beyond.push((due, handed));
        }
    }

    /// Returns the mean in ms.
    pub fn mean(&self) -> f64 {
        self.all.iter().sum::<f64>() / self.all.len().max(1) as f64
    }

    /// Returns a quantile in ms; 0 if there are no packets.
    pub fn quantile(&self, share: f64) -> f64 {
        let sorted = Sorted::new(self.all.clone());
        sorted.quantile(share).unwrap_or_default()
    }

    /// Appends the packets of another record, whose times are shifted by `shift`.
    pub fn append(&mut self, other: &Self, shift: Duration) {
        self.all.extend_from_slice(&other.all);
        let shifted = other.beyond.iter();
        self.beyond
            .extend(shifted.map(|(due, handed)| (*due + shift, *handed + shift)));
    }

    /// Counts the packets beyond the limit, and those of them that host stalls explain. `excuse`
    /// decides this from the due time, the delivery time and the limit.
    pub fn late(&self, excuse: impl Fn(Duration, Duration, Duration) -> bool) -> LatePackets {
        let wanted = Duration::from_secs_f64(DELAY_TARGET / 1e3);
        let excused = |(due, handed): &&(Duration, Duration)| excuse(*due, *handed, wanted);
        LatePackets {
            packets: self.beyond.len(),
            during_stalls: self.beyond.iter().filter(excused).count(),
        }
    }
}

/// Packets beyond the lateness limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatePackets {
    /// Number of packets.
    pub packets: usize,
    /// Number of these that would have been within the limit without host stalls.
    pub during_stalls: usize,
}

impl LatePackets {
    /// Returns their proportion of `all` packets, without those explained by host stalls.
    fn share(&self, all: usize) -> f64 {
        self.packets.saturating_sub(self.during_stalls) as f64 / all.max(1) as f64
    }

    /// Returns whether they are at most one per cent of `all` packets, with or without those
    /// explained by host stalls.
    fn is_kept(&self, all: usize, without_stalls: bool) -> bool {
        let excused = self.during_stalls * usize::from(without_stalls);
        self.packets.saturating_sub(excused) * 100 <= all
    }

    fn describe(&self) -> String {
        format!(
            "{} more than {DELAY_TARGET} ms, {} of these because of host stalls",
            self.packets, self.during_stalls
        )
    }
}

/// Stalls of the host during the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StallReport {
    /// Observation time in seconds.
    pub observed: f64,
    /// Seconds in which a core was stalled, summed over all stalls of more than 0.1 ms.
    pub total: f64,
    /// Longest stall in ms.
    pub longest: f64,
    /// Reason why the time-critical threads had no real-time priority, if they had none.
    pub no_priority: Option<String>,
}

/// Result of probe packets between two hosts of a separate network during the runs; it includes the
/// delays added by the host's kernel and other load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProbeResult {
    /// Median of the delay beyond the configured one, in ms.
    pub delay_median: f64,
    /// 99 % quantile of the delay beyond the configured one, in ms.
    pub delay_p99: f64,
    /// Measured rate divided by the configured rate, minus 1, in per cent.
    pub rate_error: f64,
    /// Number of probe packets.
    pub packets: usize,
    /// Probe packets beyond the lateness limit.
    pub late: LatePackets,
}

/// Accuracy of the runs of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Number of packets delivered to hosts.
    pub packets: usize,
    /// The links were correct regardless of host stalls: half of the packets, and of the probes,
    /// were at most 0.5 ms late, 95 % of them were so without host stalls, and the rate error was
    /// within 1 %.
    pub links_correct: bool,
    /// Median lateness in ms.
    pub late_median: f64,
    /// 99 % quantile of the lateness in ms.
    pub late_p99: f64,
    /// Packets beyond the lateness limit.
    pub late: LatePackets,
    /// Stalls of the host; `None` if they were not observed.
    pub stalls: Option<StallReport>,
    /// Result of the probes; `None` if there was not enough time for them.
    pub probe: Option<ProbeResult>,
    /// Load average over one minute at the start of the runs.
    pub load: Option<f64>,
    /// Number of cores.
    pub cores: usize,
}

/// Limit of the lateness in ms.
const DELAY_TARGET: f64 = 0.5;
/// Largest proportion of packets beyond the limit, without those explained by host stalls, on a
/// correct link.
const MOST_LATE: f64 = 0.05;
/// Limit of the rate error in per cent.
const RATE_TARGET: f64 = 1.0;

impl Accuracy {
    /// Computes the accuracy of runs with `late` packets beyond the limit.
    pub fn new(
        lateness: Lateness,
        (late, stalls): (LatePackets, Option<StallReport>),
        probe: Option<ProbeResult>,
        (cores, load): (usize, Option<f64>),
    ) -> Self {
        let sorted = Sorted::new(lateness.all);
        let quantile = |share| sorted.quantile(share).unwrap_or_default();
        let mut accuracy = Self {
            packets: sorted.values().len(),
            links_correct: false,
            late_median: quantile(0.5),
            late_p99: quantile(0.99),
            late,
            stalls,
            probe,
            load,
            cores,
        };
        accuracy.links_correct = accuracy.is_correct();
        accuracy
    }

    fn is_correct(&self) -> bool {
        self.meets(|late, packets| late.share(packets) <= MOST_LATE)
            && self.late_median <= DELAY_TARGET
            && self
                .probe
                .is_none_or(|probe| probe.delay_median <= DELAY_TARGET)
    }

    /// Returns whether the packets and the probes keep a limit, and the rate its own.
    fn meets(&self, limit: impl Fn(LatePackets, usize) -> bool) -> bool {
        let probe = |probe: ProbeResult| {
            limit(probe.late, probe.packets) && probe.rate_error.abs() <= RATE_TARGET
        };
        limit(self.late, self.packets) && self.probe.is_none_or(probe)
    }

    /// Returns whether 99 % of the packets, and the rate, were within the limits.
    pub fn is_good(&self) -> bool {
        self.meets(|late, packets| late.is_kept(packets, false))
    }

    /// Returns whether 99 % of the packets, without those explained by host stalls, and the rate
    /// were within the limits.
    pub fn is_good_without_stalls(&self) -> bool {
        self.meets(|late, packets| late.is_kept(packets, true))
    }

    /// Describes the accuracy in sentences.
    pub fn describe(&self) -> String {
        let mut sentences = vec![format!(
            "Accuracy during the runs: {} packets were delivered {:.3} ms (median) and {:.3} ms (99 %) after the \
             configured time, {}.",
            self.packets,
            self.late_median,
            self.late_p99,
            self.late.describe(),
        )];
        if let Some(probe) = &self.probe {
            sentences.push(format!(
                "{} probe packets on a separate link were {:.3} ms (median) and {:.3} ms (99 %) late, \
                 {}; the rate of a full link differed by {:+.3} %.",
                probe.packets,
                probe.delay_median,
                probe.delay_p99,
                probe.late.describe(),
                probe.rate_error
            ));
        }
        sentences.extend(self.stalls.as_ref().map(StallReport::describe));
        let verdict = match (self.is_good(), self.is_good_without_stalls()) {
            (true, _) => "kept.",
            (false, true) => "exceeded only because of host stalls.",
            (false, false) => "exceeded, even without host stalls.",
        };
        sentences.push(format!(
            "The limits of {DELAY_TARGET} ms for 99 % of the packets and of {RATE_TARGET} % were {verdict}"
        ));
        if let Some(load) = self.load.filter(|load| *load > self.cores as f64 / 2.0) {
            sentences.push(format!(
                "The host was under other load when the runs began (load {load:.1} on {} cores).",
                self.cores
            ));
        }
        sentences.join(" ")
    }
}

impl StallReport {
    fn describe(&self) -> String {
        let stalls = format!(
            "Threads on each core observed host stalls of {:.3} s in {:.0} s, the longest of \
             {:.1} ms.",
            self.total, self.observed, self.longest
        );
        match &self.no_priority {
            None => stalls,
            Some(why) => format!(
                "{stalls} The forwarding and observing threads had no real-time priority ({why}), so stalls include other load."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lateness of a hundred packets, `late` of which were 2 ms late.
    fn lateness(late: u64) -> Lateness {
        let us = Duration::from_micros;
        let mut all = Lateness::default();
        for number in 0..100 {
            let mut one = Lateness::default();
            one.add(us(1000), us(1200));
            all.append(&one, us(number));
        }
        for number in 0..late {
            all.add(us(number * 10_000), us(number * 10_000 + 2000));
        }
        all
    }

    const PROBE: ProbeResult = ProbeResult {
        delay_median: 0.1,
        delay_p99: 0.4,
        rate_error: -0.2,
        packets: 100,
        late: LatePackets {
            packets: 1,
            during_stalls: 0,
        },
    };

    fn accuracy(late: u64, excused: u64, probe: ProbeResult) -> Accuracy {
        let lateness = lateness(late);
        let stalled = Duration::from_millis(10 * excused);
        let late = lateness.late(|due, handed, wanted| handed > due + wanted && due < stalled);
        Accuracy::new(lateness, (late, None), Some(probe), (2, Some(0.3)))
    }

    #[test]
    fn one_per_cent_of_the_packets_may_be_late() {
        let good = accuracy(1, 0, PROBE);
        assert!(good.is_good() && good.packets == 101);
        assert!(
            good.describe().contains("were kept.") && !good.describe().contains("under other load")
        );
        assert!(
            good.links_correct && accuracy(5, 0, PROBE).links_correct,
            "a busy host"
        );
        assert!(!accuracy(6, 0, PROBE).links_correct && accuracy(6, 1, PROBE).links_correct);
        let late = accuracy(2, 0, PROBE);
        assert!(!late.is_good() && !late.is_good_without_stalls());
        assert!(late.describe().contains("exceeded, even without"));
    }

    #[test]
    fn packets_late_because_of_stalls_are_distinguished() {
        let stalled = accuracy(5, 4, PROBE);
        let expected = LatePackets {
            packets: 5,
            during_stalls: 4,
        };
        assert_eq!(stalled.late, expected);
        assert!(!stalled.is_good() && stalled.is_good_without_stalls());
        assert!(stalled.describe().contains("exceeded only because of"));
        assert!(!accuracy(5, 3, PROBE).is_good_without_stalls());
    }

    #[test]
    fn late_probes_wrong_rates_and_load_are_reported() {
        let late = LatePackets {
            packets: 2,
            during_stalls: 0,
        };
        for probe in [
            ProbeResult { late, ..PROBE },
            ProbeResult {
                rate_error: -1.1,
                ..PROBE
            },
        ] {
            assert!(!accuracy(0, 0, probe).is_good_without_stalls());
        }
        for probe in [
            ProbeResult {
                delay_median: 1.1,
                ..PROBE
            },
            ProbeResult {
                rate_error: 1.1,
                ..PROBE
            },
        ] {
            assert!(
                !accuracy(0, 0, probe).links_correct,
                "the link is not correct"
            );
        }
        let busy = Accuracy {
            load: Some(3.0),
            stalls: Some(StallReport {
                observed: 10.0,
                total: 0.05,
                longest: 12.0,
                no_priority: Some("it is refused".into()),
            }),
            ..accuracy(0, 0, PROBE)
        };
        let text = busy.describe();
        assert!(
            text.contains("under other load")
                && text.contains("0.050 s in 10 s")
                && text.contains("it is refused")
        );
    }
}
