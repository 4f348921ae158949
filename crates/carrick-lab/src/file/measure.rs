//! Measures, and their computation from the records of the programs.

use crate::stats::{Sorted, mean};
use crate::switch::{self, MessageTransmission, PathChange, PathChangeInput};

/// A measure of each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// A measure of a flow.
    Flow(FlowMeasure),
    /// A measure of a link, given by its index.
    Link(usize, LinkMeasure),
    /// Jain's index of the goodputs of all flows.
    Fairness,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowMeasure {
    Goodput,
    DelayMean,
    DelayP50,
    DelayP90,
    DelayP99,
    DelayP999,
    DelayMax,
    DelayRetransmitted,
    Delivered,
    Abandoned,
    Refused,
    Retransmissions,
    Timeouts,
    SentPerDelivered,
    Dropped,
    Interruption,
    Failover,
    FailoverTransfer,
    Failovers,
    Completion,
    Survived,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkMeasure {
    Utilization,
    Dropped,
    Fairness,
}

/// Name in files, label, unit.
const FLOW: [(FlowMeasure, &str, &str, &str); 21] = [
    (FlowMeasure::Goodput, "goodput", "goodput", "kbit/s"),
    (FlowMeasure::DelayMean, "delay.mean", "mean delay", "ms"),
    (FlowMeasure::DelayP50, "delay.p50", "median delay", "ms"),
    (
        FlowMeasure::DelayP90,
        "delay.p90",
        "90 % quantile of the delay",
        "ms",
    ),
    (
        FlowMeasure::DelayP99,
        "delay.p99",
        "99 % quantile of the delay",
        "ms",
    ),
    (
        FlowMeasure::DelayP999,
        "delay.p99.9",
        "99.9 % quantile of the delay",
        "ms",
    ),
    (FlowMeasure::DelayMax, "delay.max", "longest delay", "ms"),
    (
        FlowMeasure::DelayRetransmitted,
        "delay.retransmitted",
        "mean delay of retransmitted messages",
        "ms",
    ),
    (
        FlowMeasure::Delivered,
        "delivered",
        "messages delivered",
        "messages",
    ),
    (
        FlowMeasure::Abandoned,
        "abandoned",
        "messages abandoned",
        "messages",
    ),
    (
        FlowMeasure::Refused,
        "refused",
        "messages that found the send buffer full",
        "messages",
    ),
    (
        FlowMeasure::Retransmissions,
        "retransmissions",
        "retransmissions",
        "chunks",
    ),
    (
        FlowMeasure::Timeouts,
        "timeouts",
        "expirations of T3-rtx",
        "timeouts",
    ),
    (
        FlowMeasure::SentPerDelivered,
        "sent_per_delivered",
        "bytes transmitted per byte delivered",
        "ratio",
    ),
    (
        FlowMeasure::Dropped,
        "dropped",
        "chunks dropped by the receiver for lack of memory",
        "chunks",
    ),
    (
        FlowMeasure::Interruption,
        "interruption",
        "longest pause between deliveries",
        "ms",
    ),
    (FlowMeasure::Failover, "failover", "failover time", "ms"),
    (
        FlowMeasure::FailoverTransfer,
        "failover.transfer",
        "longest message transfer during the failover",
        "ms",
    ),
    (
        FlowMeasure::Failovers,
        "failovers",
        "failovers of data from the primary path",
        "times",
    ),
    (
        FlowMeasure::Completion,
        "completion",
        "time until complete delivery",
        "s",
    ),
    (
        FlowMeasure::Survived,
        "survived",
        "associations alive at the end",
        "share",
    ),
];

const LINK: [(LinkMeasure, &str, &str, &str); 3] = [
    (LinkMeasure::Utilization, "utilization", "utilization", "%"),
    (
        LinkMeasure::Dropped,
        "dropped",
        "packets dropped",
        "packets",
    ),
    (
        LinkMeasure::Fairness,
        "fairness",
        "Jain’s index of the bytes carried",
        "index",
    ),
];

impl Measure {
    /// Returns the default measures.
    pub(super) fn usual() -> Vec<Self> {
        use FlowMeasure as F;
        [
            F::Goodput,
            F::DelayMean,
            F::DelayP50,
            F::DelayP90,
            F::DelayP99,
            F::DelayP999,
            F::Retransmissions,
        ]
        .map(Self::Flow)
        .into()
    }

    /// Returns the measure of this name, given the names of the links.
    pub(super) fn named<'n>(name: &str, mut links: impl Iterator<Item = &'n str>) -> Option<Self> {
        if name == "fairness" {
            return Some(Self::Fairness);
        }
        if let Some((measure, ..)) = FLOW.iter().find(|(_, own, ..)| *own == name) {
            return Some(Self::Flow(*measure));
        }
        let (link, measure) = name.strip_prefix("links.")?.rsplit_once('.')?;
        let link = links.position(|own| own == link)?;
        let (measure, ..) = LINK.iter().find(|(_, own, ..)| *own == measure)?;
        Some(Self::Link(link, *measure))
    }

    /// Returns all names.
    pub(super) fn names() -> Vec<String> {
        let flow = FLOW.iter().map(|(_, name, ..)| (*name).to_owned());
        let link = LINK
            .iter()
            .map(|(_, name, ..)| format!("links.LINK.{name}"));
        flow.chain(link).chain(["fairness".into()]).collect()
    }

    /// Returns name, label and unit; `link` returns the name of a link.
    pub(super) fn describe<'n>(
        self,
        link: impl Fn(usize) -> &'n str,
    ) -> (String, String, &'static str) {
        match self {
            Self::Fairness => (
                "fairness".into(),
                "Jain’s index of the goodputs".into(),
                "index",
            ),
            Self::Flow(measure) => {
                let found = FLOW.iter().find(|(own, ..)| *own == measure);
                let (_, name, label, unit) = found.unwrap_or(&FLOW[0]);
                ((*name).into(), (*label).into(), unit)
            }
            Self::Link(number, measure) => {
                let found = LINK.iter().find(|(own, ..)| *own == measure);
                let (_, name, label, unit) = found.unwrap_or(&LINK[0]);
                let link = link(number);
                (
                    format!("links.{link}.{name}"),
                    format!("link {link}: {label}"),
                    unit,
                )
            }
        }
    }

    /// Returns whether the measure needs the core's event log.
    pub(super) fn needs_trace(self) -> bool {
        matches!(
            self,
            Self::Flow(
                FlowMeasure::DelayRetransmitted
                    | FlowMeasure::Failover
                    | FlowMeasure::FailoverTransfer
                    | FlowMeasure::SentPerDelivered
            )
        )
    }
}

/// One transmission of a part of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Transmission {
    pub(super) sent: MessageTransmission,
    pub(super) bytes: usize,
    /// Retransmission.
    pub(super) again: bool,
}

/// Record of a flow in a run. Times are in nanoseconds from the start.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowRecord {
    /// Time of the SEND of each message, by its number.
    pub(super) sends: Vec<u64>,
    /// Number and time of each delivery; of the responses, if there are any.
    pub(super) deliveries: Vec<(u64, u64)>,
    /// Transmissions; recorded only if a measure needs them.
    pub(super) transmissions: Vec<Transmission>,
    pub(super) refused: u64,
    pub(super) abandoned: u64,
    /// Retransmissions after the warm-up; `None` if the stack does not report them.
    pub(super) retransmissions: Option<u64>,
    pub(super) timeouts: Option<u64>,
    pub(super) dropped: Option<u64>,
    pub(super) failovers: Option<u64>,
    pub(super) closed: bool,
}

/// Measurement window of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Start in nanoseconds.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Time of the first scheduled change.
    pub(super) change: Option<u64>,
}

impl FlowRecord {
    /// Returns the delays in ms of messages sent in the window, with their numbers.
    fn delays(&self, window: &Window) -> impl Iterator<Item = (u64, f64)> {
        self.deliveries.iter().filter_map(move |(number, time)| {
            let sent = *self.sends.get(*number as usize)?;
            (sent >= window.from).then(|| (*number, time.saturating_sub(sent) as f64 / 1e6))
        })
    }

    fn delivered(&self, window: &Window) -> impl Iterator<Item = u64> {
        let range = window.from..=window.to;
        self.deliveries
            .iter()
            .map(|(_, time)| *time)
            .filter(move |time| range.contains(time))
    }

    /// Returns the rate of user data in kbit/s: for a finite flow from its first message to its
    /// last delivery, for any other over the whole window.
    pub(super) fn goodput(&self, size: usize, finite: bool, window: &Window) -> Option<f64> {
        let count = self.delivered(window).count();
        let (from, to) = if finite {
            let from = self.sends.first().copied()?.max(window.from);
            (from, self.delivered(window).max().unwrap_or(window.to))
        } else {
            (window.from, window.to)
        };
        (to > from).then(|| (count * size) as f64 * 8.0 * 1e6 / (to - from) as f64)
    }

    /// Computes a measure; `None` if it is not defined in the run.
    pub(super) fn measure(
        &self,
        what: FlowMeasure,
        size: usize,
        finite: bool,
        window: &Window,
    ) -> Option<f64> {
        let quantile = |p| {
            let delays = self.delays(window).map(|(_, delay)| delay);
            Sorted::new(delays.collect()).quantile(p)
        };
        let count = |value: Option<u64>| value.map(|n| n as f64);
        match what {
            FlowMeasure::Goodput => self.goodput(size, finite, window),
            FlowMeasure::DelayMean => {
                let delays: Vec<f64> = self.delays(window).map(|(_, delay)| delay).collect();
                mean(&delays)
            }
            FlowMeasure::DelayP50 => quantile(0.5),
            FlowMeasure::DelayP90 => quantile(0.9),
            FlowMeasure::DelayP99 => quantile(0.99),
            FlowMeasure::DelayP999 => quantile(0.999),
            FlowMeasure::DelayMax => quantile(1.0),
            FlowMeasure::DelayRetransmitted => self.delay_of_retransmitted(window),
            FlowMeasure::Delivered => Some(self.delivered(window).count() as f64),
            FlowMeasure::Abandoned => Some(self.abandoned as f64),
            FlowMeasure::Refused => Some(self.refused as f64),
            FlowMeasure::Retransmissions => count(self.retransmissions),
            FlowMeasure::Timeouts => count(self.timeouts),
            FlowMeasure::Dropped => count(self.dropped),
            FlowMeasure::Failovers => count(self.failovers),
            FlowMeasure::SentPerDelivered => {
                let range = window.from..=window.to;
                let sent = self
                    .transmissions
                    .iter()
                    .filter(|t| range.contains(&t.sent.time));
                let sent: usize = sent.map(|t| t.bytes).sum();
                let delivered = self.delivered(window).count() * size;
                (delivered > 0 && sent > 0).then(|| sent as f64 / delivered as f64)
            }
            FlowMeasure::Interruption => self.interruption(window),
            FlowMeasure::Failover => self.failover(window).map(|s| s.time() as f64 / 1e6),
            FlowMeasure::FailoverTransfer => self.failover(window).map(|s| s.transfer as f64 / 1e6),
            FlowMeasure::Completion => {
                let (first, last) = (
                    self.sends.first()?,
                    self.deliveries.iter().map(|d| d.1).max()?,
                );
                let all = finite && self.deliveries.len() >= self.sends.len();
                all.then(|| last.saturating_sub(*first) as f64 / 1e9)
            }
            FlowMeasure::Survived => Some(f64::from(u8::from(!self.closed))),
        }
    }

    fn delay_of_retransmitted(&self, window: &Window) -> Option<f64> {
        let mut again = vec![false; self.sends.len()];
        for t in self.transmissions.iter().filter(|t| t.again) {
            if let Some(again) = again.get_mut(t.sent.message as usize) {
                *again = true;
            }
        }
        let delays = self
            .delays(window)
            .filter(|(number, _)| again[*number as usize]);
        let delays: Vec<f64> = delays.map(|(_, delay)| delay).collect();
        mean(&delays)
    }

    /// Returns the longest interval in ms without a delivery. It includes the interval from the
    /// start of the window, or of the flow if that is later, and the interval to the end of the
    /// window if the flow had not ended. It is the whole window if the flow could not start for
    /// lack of an association.
    fn interruption(&self, window: &Window) -> Option<f64> {
        let begin = match self.sends.first() {
            Some(first) => window.from.max(*first),
            None if self.closed => window.from,
            None => return None,
        };
        let mut times: Vec<u64> = self.delivered(window).collect();
        times.push(begin);
        times.sort_unstable();
        if self.closed || self.deliveries.len() < self.sends.len() {
            times.push(window.to);
        }
        let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
        pauses.max().map(|pause| pause as f64 / 1e6)
    }

    /// Returns the failover time after the first change, and the longest message transfer during
    /// it.
    fn failover(&self, window: &Window) -> Option<PathChange> {
        let record = PathChangeInput {
            sends: &self.sends,
            transmissions: &self
                .transmissions
                .iter()
                .map(|t| t.sent)
                .collect::<Vec<_>>(),
            deliveries: &self.deliveries,
        };
        switch::measure(record, window.change?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        from: 0,
        to: 10_000_000_000,
        change: None,
    };

    #[test]
    fn names_of_measures_are_unique() {
        let links = ["a.b", "c"];
        for name in Measure::names() {
            let name = name.replace("LINK", "a.b");
            let measure = Measure::named(&name, links.into_iter()).expect(&name);
            assert_eq!(measure.describe(|n| links[n]).0, name);
        }
        assert_eq!(Measure::named("delay", links.into_iter()), None);
        assert_eq!(Measure::named("links.d.dropped", links.into_iter()), None);
    }

    #[test]
    fn delays_are_counted_from_send() {
        let record = FlowRecord {
            sends: vec![1_000_000_000, 2_000_000_000, 3_000_000_000],
            deliveries: vec![(0, 1_100_000_000), (2, 3_300_000_000)],
            ..FlowRecord::default()
        };
        let measure = |what, finite| record.measure(what, 1000, finite, &WINDOW);
        assert_eq!(measure(FlowMeasure::DelayMean, true), Some(200.0));
        assert_eq!(measure(FlowMeasure::DelayMax, true), Some(300.0));
        let rate = measure(FlowMeasure::Goodput, true).unwrap();
        assert!((rate - 16.0 / 2.3).abs() < 1e-9, "{rate}");
        assert_eq!(measure(FlowMeasure::Goodput, false), Some(1.6));
        assert_eq!(measure(FlowMeasure::Interruption, false), Some(6700.0));
        assert_eq!(
            measure(FlowMeasure::Completion, true),
            None,
            "one is missing"
        );
        assert_eq!(measure(FlowMeasure::Timeouts, true), None, "not reported");
    }

    #[test]
    fn a_failover_is_detected_if_only_sacks_were_lost() {
        let sent = |message, ms: u64, alternate| Transmission {
            sent: MessageTransmission {
                message,
                time: ms * 1_000_000,
                alternate,
            },
            bytes: 250,
            again: false,
        };
        let record = FlowRecord {
            sends: vec![990_000_000, 1_200_000_000],
            deliveries: vec![(0, 1_012_000_000), (1, 1_222_000_000)],
            transmissions: vec![
                sent(0, 990, false),
                sent(0, 1110, true),
                sent(1, 1200, true),
            ],
            ..FlowRecord::default()
        };
        let window = Window {
            change: Some(999_000_000),
            ..WINDOW
        };
        let measure = |what| record.measure(what, 250, true, &window);
        assert_eq!(measure(FlowMeasure::Failover), Some(210.0));
        assert_eq!(measure(FlowMeasure::FailoverTransfer), Some(22.0));
        let unchanged = record.measure(FlowMeasure::Failover, 250, true, &WINDOW);
        assert_eq!(unchanged, None, "nothing changed");
    }
}
