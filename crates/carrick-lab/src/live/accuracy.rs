//! How exactly the links were kept while scenarios ran in real time.

use std::time::Duration;

use serde::Serialize;

use crate::stats::Sorted;

/// How late the network handed packets to the hosts, over all packets of the runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lateness {
    /// In ms.
    all: Vec<f64>,
    /// When packets beyond the limit were due, and when they were handed over.
    beyond: Vec<(Duration, Duration)>,
}

impl Lateness {
    /// One packet was due and handed over at these times.
    pub fn add(&mut self, due: Duration, handed: Duration) {
        let ms = handed.saturating_sub(due).as_secs_f64() * 1e3;
        self.all.push(ms);
        if ms > DELAY_TARGET {
            self.beyond.push((due, handed));
        }
    }

    /// The mean in ms.
    pub fn mean(&self) -> f64 {
        self.all.iter().sum::<f64>() / self.all.len().max(1) as f64
    }

    /// A quantile in ms, 0 if there are no packets.
    pub fn quantile(&self, share: f64) -> f64 {
        let sorted = Sorted::new(self.all.clone());
        sorted.quantile(share).unwrap_or_default()
    }

    /// All of another one as well, whose times are later by `shift`.
    pub fn append(&mut self, other: &Self, shift: Duration) {
        self.all.extend_from_slice(&other.all);
        let shifted = other.beyond.iter();
        self.beyond
            .extend(shifted.map(|(due, handed)| (*due + shift, *handed + shift)));
    }

    /// The packets that were later than is wanted, and how many of them `excuse` says the machine made late,
    /// given when each was due, when it was handed over, and what is wanted.
    pub fn later(&self, excuse: impl Fn(Duration, Duration, Duration) -> bool) -> Later {
        let wanted = Duration::from_secs_f64(DELAY_TARGET / 1e3);
        let excused = |(due, handed): &&(Duration, Duration)| excuse(*due, *handed, wanted);
        Later {
            packets: self.beyond.len(),
            while_it_stood: self.beyond.iter().filter(excused).count(),
        }
    }
}

/// Packets that were later than is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Later {
    /// How many.
    pub packets: usize,
    /// Those of them that would have been in time but for the time in which the machine itself stood.
    pub while_it_stood: usize,
}

impl Later {
    /// Their share of so many packets, the machine's aside.
    fn share(&self, all: usize) -> f64 {
        self.packets.saturating_sub(self.while_it_stood) as f64 / all.max(1) as f64
    }

    /// Whether no more than a hundredth of so many packets are among them, the machine's aside or not.
    fn is_kept(&self, all: usize, but_for_the_machine: bool) -> bool {
        let excused = if but_for_the_machine {
            self.while_it_stood
        } else {
            0
        };
        self.packets.saturating_sub(excused) * 100 <= all
    }
}

/// What the machine itself did during the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Seconds that it was watched.
    pub watched: f64,
    /// Seconds in which a core stood still, of all pauses of more than 0.1 ms.
    pub stood: f64,
    /// The longest pause, in ms.
    pub longest: f64,
    /// Why the threads that had to be in time had no real-time priority, if so.
    pub ordinary: Option<String>,
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
    /// Packets of the probes.
    pub packets: usize,
    /// Those that were later than is wanted.
    pub later: Later,
}

/// How exact the runs of a scenario were.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Packets that were handed to hosts.
    pub packets: usize,
    /// Whether the links were right, whatever the machine did: half of the packets, and of the probes, were at
    /// most 0.5 ms late, 95 % of them but for the machine's pauses, and the rate was within 1 %.
    pub right: bool,
    /// How late they were: median, in ms.
    pub late_median: f64,
    /// The same at 99 %.
    pub late_p99: f64,
    /// Those that were later than is wanted.
    pub later: Later,
    /// What the machine did; `None` if it was not watched.
    pub machine: Option<Machine>,
    /// What probes showed meanwhile; `None` if there was no time for them.
    pub probe: Option<Probe>,
    /// Threads that wanted to run when the runs began, on average over a minute.
    pub load: Option<f64>,
    /// Cores.
    pub cores: usize,
}

/// The largest delay beyond the configured one, in ms.
const DELAY_TARGET: f64 = 0.5;
/// The share of packets beyond it, the machine's aside, that a link has which is right on a busy machine.
const MOST_LATE: f64 = 0.05;
/// The largest error of the rate, in per cent.
const RATE_TARGET: f64 = 1.0;

impl Accuracy {
    /// The accuracy of runs, of whose packets `later` were too late.
    pub fn new(
        lateness: Lateness,
        (later, machine): (Later, Option<Machine>),
        probe: Option<Probe>,
        (cores, load): (usize, Option<f64>),
    ) -> Self {
        let sorted = Sorted::new(lateness.all);
        let quantile = |share| sorted.quantile(share).unwrap_or_default();
        let mut accuracy = Self {
            packets: sorted.values().len(),
            right: false,
            late_median: quantile(0.5),
            late_p99: quantile(0.99),
            later,
            machine,
            probe,
            load,
            cores,
        };
        accuracy.right = accuracy.is_right();
        accuracy
    }

    fn is_right(&self) -> bool {
        let probe = |probe: &Probe| {
            probe.delay_median <= DELAY_TARGET
                && probe.later.share(probe.packets) <= MOST_LATE
                && probe.rate_error.abs() <= RATE_TARGET
        };
        self.late_median <= DELAY_TARGET
            && self.later.share(self.packets) <= MOST_LATE
            && self.probe.as_ref().is_none_or(probe)
    }

    /// Whether 99 % of the packets, and the rate, were as exact as is wanted.
    pub fn is_good(&self) -> bool {
        self.is_kept(false)
    }

    /// The same without the packets that the machine made late.
    pub fn is_good_but_for_the_machine(&self) -> bool {
        self.is_kept(true)
    }

    fn is_kept(&self, but_for_the_machine: bool) -> bool {
        let probe = |probe: &Probe| {
            let delay = probe.later.is_kept(probe.packets, but_for_the_machine);
            delay && probe.rate_error.abs() <= RATE_TARGET
        };
        let packets = self.later.is_kept(self.packets, but_for_the_machine);
        packets && self.probe.as_ref().is_none_or(probe)
    }

    /// In words.
    pub fn describe(&self) -> String {
        let mut sentences = vec![format!(
            "Accuracy during the runs: {} packets were handed over {:.3} ms (median) and {:.3} ms (99 %) after the \
             configured time, {}.",
            self.packets,
            self.late_median,
            self.late_p99,
            self.later.describe(),
        )];
        if let Some(probe) = &self.probe {
            sentences.push(format!(
                "Probes from host to host on a link of their own, {} of them, were {:.3} ms (median) and {:.3} ms (99 %) late, \
                 {}; the rate of a full link differed by {:+.3} %.",
                probe.packets,
                probe.delay_median,
                probe.delay_p99,
                probe.later.describe(),
                probe.rate_error
            ));
        }
        sentences.extend(self.machine.as_ref().map(Machine::describe));
        let verdict = match (self.is_good(), self.is_good_but_for_the_machine()) {
            (true, _) => "kept.",
            (false, true) => "not kept, but for the moments when the machine stood.",
            (false, false) => "not kept, also without the moments when the machine stood.",
        };
        sentences.push(format!(
            "Wanted are {DELAY_TARGET} ms for 99 % of the packets, and {RATE_TARGET} %: {verdict}"
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

impl Later {
    fn describe(&self) -> String {
        format!(
            "{} more than {DELAY_TARGET} ms, {} of these because the machine stood",
            self.packets, self.while_it_stood
        )
    }
}

impl Machine {
    fn describe(&self) -> String {
        let stood = format!(
            "A thread on each core that does nothing but wake up saw the machine itself stand still for {:.3} s of {:.0} s, at \
             most for {:.1} ms.",
            self.stood, self.watched, self.longest
        );
        match &self.ordinary {
            None => stood,
            Some(why) => format!(
                "{stood} The threads that forward and watch had no real-time priority ({why}), so that this is other work as well."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred packets, and so many that were 2 ms late.
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

    const PROBE: Probe = Probe {
        delay_median: 0.1,
        delay_p99: 0.4,
        rate_error: -0.2,
        packets: 100,
        later: Later {
            packets: 1,
            while_it_stood: 0,
        },
    };

    fn accuracy(late: u64, excused: u64, probe: Probe) -> Accuracy {
        let lateness = lateness(late);
        let stood = Duration::from_millis(10 * excused);
        let later = lateness.later(|due, handed, wanted| handed > due + wanted && due < stood);
        Accuracy::new(lateness, (later, None), Some(probe), (2, Some(0.3)))
    }

    #[test]
    fn a_hundredth_of_the_packets_may_be_late() {
        let good = accuracy(1, 0, PROBE);
        assert!(good.is_good() && good.packets == 101);
        assert!(good.describe().contains(": kept.") && !good.describe().contains("busy"));
        assert!(good.right && accuracy(5, 0, PROBE).right, "a busy machine");
        assert!(!accuracy(6, 0, PROBE).right && accuracy(6, 1, PROBE).right);
        let late = accuracy(2, 0, PROBE);
        assert!(!late.is_good() && !late.is_good_but_for_the_machine());
        assert!(late.describe().contains("not kept, also without"));
    }

    #[test]
    fn packets_that_the_machine_made_late_are_counted_and_told_apart() {
        let stood = accuracy(5, 4, PROBE);
        let expected = Later {
            packets: 5,
            while_it_stood: 4,
        };
        assert_eq!(stood.later, expected);
        assert!(!stood.is_good() && stood.is_good_but_for_the_machine());
        assert!(stood.describe().contains("not kept, but for"));
        assert!(!accuracy(5, 3, PROBE).is_good_but_for_the_machine());
    }

    #[test]
    fn late_probes_wrong_rates_and_busy_machines_are_told() {
        let later = Later {
            packets: 2,
            while_it_stood: 0,
        };
        for probe in [
            Probe { later, ..PROBE },
            Probe {
                rate_error: -1.1,
                ..PROBE
            },
        ] {
            assert!(!accuracy(0, 0, probe).is_good_but_for_the_machine());
        }
        for probe in [
            Probe {
                delay_median: 1.1,
                ..PROBE
            },
            Probe {
                rate_error: 1.1,
                ..PROBE
            },
        ] {
            assert!(!accuracy(0, 0, probe).right, "the link itself is wrong");
        }
        let busy = Accuracy {
            load: Some(3.0),
            machine: Some(Machine {
                watched: 10.0,
                stood: 0.05,
                longest: 12.0,
                ordinary: Some("it is refused".into()),
            }),
            ..accuracy(0, 0, PROBE)
        };
        let text = busy.describe();
        assert!(
            text.contains("busy")
                && text.contains("0.050 s of 10 s")
                && text.contains("it is refused")
        );
    }
}
