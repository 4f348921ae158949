//! What can be measured, and how it comes out of what the programs noted.

use crate::stats::{Sorted, mean};
use crate::switch::{self, Noted, Sent, Switch};

/// Something that is measured in each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Of each flow.
    Flow(OfFlow),
    /// Of a link, by its number.
    Link(usize, OfLink),
    /// Jain's index of the goodputs of all flows.
    Fairness,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfFlow {
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
pub(super) enum OfLink {
    Utilization,
    Dropped,
    Fairness,
}

/// Name in files, name for people, unit.
const FLOW: [(OfFlow, &str, &str, &str); 21] = [
    (OfFlow::Goodput, "goodput", "goodput", "kbit/s"),
    (OfFlow::DelayMean, "delay.mean", "mean delay", "ms"),
    (OfFlow::DelayP50, "delay.p50", "median delay", "ms"),
    (
        OfFlow::DelayP90,
        "delay.p90",
        "90 % quantile of the delay",
        "ms",
    ),
    (
        OfFlow::DelayP99,
        "delay.p99",
        "99 % quantile of the delay",
        "ms",
    ),
    (
        OfFlow::DelayP999,
        "delay.p99.9",
        "99.9 % quantile of the delay",
        "ms",
    ),
    (OfFlow::DelayMax, "delay.max", "longest delay", "ms"),
    (
        OfFlow::DelayRetransmitted,
        "delay.retransmitted",
        "mean delay of retransmitted messages",
        "ms",
    ),
    (
        OfFlow::Delivered,
        "delivered",
        "messages delivered",
        "messages",
    ),
    (
        OfFlow::Abandoned,
        "abandoned",
        "messages abandoned",
        "messages",
    ),
    (
        OfFlow::Refused,
        "refused",
        "messages that found the send buffer full",
        "messages",
    ),
    (
        OfFlow::Retransmissions,
        "retransmissions",
        "retransmissions",
        "chunks",
    ),
    (
        OfFlow::Timeouts,
        "timeouts",
        "expirations of T3-rtx",
        "timeouts",
    ),
    (
        OfFlow::SentPerDelivered,
        "sent_per_delivered",
        "bytes transmitted per byte delivered",
        "ratio",
    ),
    (
        OfFlow::Dropped,
        "dropped",
        "chunks that the receiver had no memory for",
        "chunks",
    ),
    (
        OfFlow::Interruption,
        "interruption",
        "longest pause between deliveries",
        "ms",
    ),
    (OfFlow::Failover, "failover", "failover time", "ms"),
    (
        OfFlow::FailoverTransfer,
        "failover.transfer",
        "longest transfer in the failover",
        "ms",
    ),
    (
        OfFlow::Failovers,
        "failovers",
        "times that data left the primary",
        "times",
    ),
    (
        OfFlow::Completion,
        "completion",
        "time until all was delivered",
        "s",
    ),
    (
        OfFlow::Survived,
        "survived",
        "associations alive at the end",
        "share",
    ),
];

const LINK: [(OfLink, &str, &str, &str); 3] = [
    (OfLink::Utilization, "utilization", "utilization", "%"),
    (OfLink::Dropped, "dropped", "packets dropped", "packets"),
    (
        OfLink::Fairness,
        "fairness",
        "Jain’s index of the bytes carried",
        "index",
    ),
];

impl Measure {
    /// What is measured where a file does not say.
    pub(super) fn usual() -> Vec<Self> {
        use OfFlow as F;
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

    /// The measure of this name, given the names of the links.
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

    /// All names.
    pub(super) fn names() -> Vec<String> {
        let flow = FLOW.iter().map(|(_, name, ..)| (*name).to_owned());
        let link = LINK
            .iter()
            .map(|(_, name, ..)| format!("links.LINK.{name}"));
        flow.chain(link).chain(["fairness".into()]).collect()
    }

    /// Name in files, name for people, unit; `link` gives a link's name.
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

    /// It needs the core's event log.
    pub(super) fn needs_trace(self) -> bool {
        matches!(
            self,
            Self::Flow(
                OfFlow::DelayRetransmitted
                    | OfFlow::Failover
                    | OfFlow::FailoverTransfer
                    | OfFlow::SentPerDelivered
            )
        )
    }
}

/// One transmission of a part of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Transmission {
    pub(super) sent: Sent,
    pub(super) bytes: usize,
    /// It had been sent before.
    pub(super) again: bool,
}

/// What one run noted of one flow. Times are nanoseconds from the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// When each message was given to SEND, by its number.
    pub(super) sends: Vec<u64>,
    /// Number and time of each delivery; of a response, if there are any.
    pub(super) deliveries: Vec<(u64, u64)>,
    /// Only where a measure needs them.
    pub(super) transmissions: Vec<Transmission>,
    pub(super) refused: u64,
    pub(super) abandoned: u64,
    /// From the end of the warm-up on; `None` where the stack doesn't tell.
    pub(super) retransmissions: Option<u64>,
    pub(super) timeouts: Option<u64>,
    pub(super) dropped: Option<u64>,
    pub(super) failovers: Option<u64>,
    pub(super) closed: bool,
}

/// The time that is measured, and what else all flows have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Nanoseconds.
    pub(super) from: u64,
    pub(super) to: u64,
    /// When the first scheduled change happened.
    pub(super) change: Option<u64>,
}

impl Record {
    /// The delays in ms of messages sent in the window, with their numbers.
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

    /// User data in kbit/s: of a flow with an end from its first message to its last delivery, of
    /// any other over the whole window.
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

    /// One number, or none if the run has none of it.
    pub(super) fn measure(
        &self,
        what: OfFlow,
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
            OfFlow::Goodput => self.goodput(size, finite, window),
            OfFlow::DelayMean => {
                let delays: Vec<f64> = self.delays(window).map(|(_, delay)| delay).collect();
                mean(&delays)
            }
            OfFlow::DelayP50 => quantile(0.5),
            OfFlow::DelayP90 => quantile(0.9),
            OfFlow::DelayP99 => quantile(0.99),
            OfFlow::DelayP999 => quantile(0.999),
            OfFlow::DelayMax => quantile(1.0),
            OfFlow::DelayRetransmitted => self.delay_of_retransmitted(window),
            OfFlow::Delivered => Some(self.delivered(window).count() as f64),
            OfFlow::Abandoned => Some(self.abandoned as f64),
            OfFlow::Refused => Some(self.refused as f64),
            OfFlow::Retransmissions => count(self.retransmissions),
            OfFlow::Timeouts => count(self.timeouts),
            OfFlow::Dropped => count(self.dropped),
            OfFlow::Failovers => count(self.failovers),
            OfFlow::SentPerDelivered => {
                let range = window.from..=window.to;
                let sent = self
                    .transmissions
                    .iter()
                    .filter(|t| range.contains(&t.sent.time));
                let sent: usize = sent.map(|t| t.bytes).sum();
                let delivered = self.delivered(window).count() * size;
                (delivered > 0 && sent > 0).then(|| sent as f64 / delivered as f64)
            }
            OfFlow::Interruption => self.interruption(window),
            OfFlow::Failover => self.failover(window).map(|s| s.time() as f64 / 1e6),
            OfFlow::FailoverTransfer => self.failover(window).map(|s| s.transfer as f64 / 1e6),
            OfFlow::Completion => {
                let (first, last) = (
                    self.sends.first()?,
                    self.deliveries.iter().map(|d| d.1).max()?,
                );
                let all = finite && self.deliveries.len() >= self.sends.len();
                all.then(|| last.saturating_sub(*first) as f64 / 1e9)
            }
            OfFlow::Survived => Some(f64::from(u8::from(!self.closed))),
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

    /// The longest pause in ms between two deliveries; also from the beginning of the window, or of
    /// the flow if that is later, and to the end of the window if the flow was to go on. All of the
    /// window if the flow could not begin for want of an association.
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

    /// After the first change: the failover time, and the longest transfer in it.
    fn failover(&self, window: &Window) -> Option<Switch> {
        let noted = Noted {
            sends: &self.sends,
            transmissions: &self
                .transmissions
                .iter()
                .map(|t| t.sent)
                .collect::<Vec<_>>(),
            deliveries: &self.deliveries,
        };
        switch::measure(noted, window.change?).ok()
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
    fn every_name_is_its_own() {
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
    fn delays_count_from_send_and_goodput_by_the_kind_of_flow() {
        let record = Record {
            sends: vec![1_000_000_000, 2_000_000_000, 3_000_000_000],
            deliveries: vec![(0, 1_100_000_000), (2, 3_300_000_000)],
            ..Record::default()
        };
        let measure = |what, finite| record.measure(what, 1000, finite, &WINDOW);
        assert_eq!(measure(OfFlow::DelayMean, true), Some(200.0));
        assert_eq!(measure(OfFlow::DelayMax, true), Some(300.0));
        let rate = measure(OfFlow::Goodput, true).unwrap();
        assert!((rate - 16.0 / 2.3).abs() < 1e-9, "{rate}");
        assert_eq!(measure(OfFlow::Goodput, false), Some(1.6));
        assert_eq!(measure(OfFlow::Interruption, false), Some(6700.0));
        assert_eq!(measure(OfFlow::Completion, true), None, "one is missing");
        assert_eq!(measure(OfFlow::Timeouts, true), None, "not told");
    }

    #[test]
    fn a_failover_is_also_seen_where_only_sacks_were_lost() {
        let sent = |message, ms: u64, alternate| Transmission {
            sent: Sent {
                message,
                time: ms * 1_000_000,
                alternate,
            },
            bytes: 250,
            again: false,
        };
        let record = Record {
            sends: vec![990_000_000, 1_200_000_000],
            deliveries: vec![(0, 1_012_000_000), (1, 1_222_000_000)],
            transmissions: vec![
                sent(0, 990, false),
                sent(0, 1110, true),
                sent(1, 1200, true),
            ],
            ..Record::default()
        };
        let window = Window {
            change: Some(999_000_000),
            ..WINDOW
        };
        let measure = |what| record.measure(what, 250, true, &window);
        assert_eq!(measure(OfFlow::Failover), Some(210.0));
        assert_eq!(measure(OfFlow::FailoverTransfer), Some(22.0));
        let unchanged = record.measure(OfFlow::Failover, 250, true, &WINDOW);
        assert_eq!(unchanged, None, "nothing changed");
    }
}
