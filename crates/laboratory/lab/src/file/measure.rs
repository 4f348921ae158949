//! Measures, and their computation from the records of the programs.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use carrick_proto::Tsn;

use super::path_change::{self, PathChange};
use super::program::Transactions;
use crate::live::Lateness;
use crate::stats::{Sorted, mean};
use carrick_hosts::tcp::Segment;

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

/// Record from which a measure of a flow is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasureSource {
    /// Messages sent and delivered.
    Deliveries,
    /// Transmissions and arrivals, in the core's event log.
    Transmissions,
    /// State and counters of the association, whatever its messages are.
    Association,
}

/// Defines the measures of flows, each with its record, its name in files, its unit and its label.
macro_rules! flow_measures {
    ($($measure:ident, $source:ident, $name:literal, $unit:literal, $label:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum FlowMeasure {
            $($measure,)+
        }

        /// Measure, record, name, label, unit.
        const FLOW: &[(FlowMeasure, MeasureSource, &str, &str, &str)] = &[
            $((FlowMeasure::$measure, MeasureSource::$source, $name, $label, $unit),)+
        ];
    };
}

flow_measures! {
    Goodput, Deliveries, "goodput", "kbit/s", "goodput";
    DelayMean, Deliveries, "delay.mean", "ms", "mean delay";
    DelayP50, Deliveries, "delay.p50", "ms", "median delay";
    DelayP90, Deliveries, "delay.p90", "ms", "90 % quantile of the delay";
    DelayP99, Deliveries, "delay.p99", "ms", "99 % quantile of the delay";
    DelayP999, Deliveries, "delay.p99.9", "ms", "99.9 % quantile of the delay";
    DelayMax, Deliveries, "delay.max", "ms", "longest delay";
    DelayWaiting, Transmissions, "delay.waiting", "ms", "mean waiting time in the sender";
    DelayRetransmitted, Transmissions, "delay.retransmitted", "ms", "mean delay of retransmitted messages";
    DelayEarly, Deliveries, "delay.early", "ms", "mean delay of the first half";
    DelayLate, Deliveries, "delay.late", "ms", "mean delay of the second half";
    RetransmittedP50, Transmissions, "delay.retransmitted.p50", "ms", "median delay of retransmitted messages";
    RetransmittedWaiting, Transmissions, "delay.retransmitted.waiting", "ms",
        "retransmitted messages: waiting in the sender";
    RetransmittedDetection, Transmissions, "delay.retransmitted.detection", "ms",
        "retransmitted messages: loss detection";
    RetransmittedTransfer, Transmissions, "delay.retransmitted.transfer", "ms",
        "retransmitted messages: retransmission";
    RetransmittedResequencing, Transmissions, "delay.retransmitted.resequencing", "ms",
        "retransmitted messages: resequencing";
    RetransmittedRecovery, Transmissions, "delay.retransmitted.recovery", "ms",
        "retransmitted messages: delay from the first transmission";
    Retransmitted, Transmissions, "retransmitted", "messages", "retransmitted messages";
    RetransmittedAgain, Transmissions, "retransmitted.again", "messages", "messages sent three times or more";
    RetransmittedNeedlessly, Transmissions, "retransmitted.needlessly", "messages",
        "retransmitted messages that had arrived by the first transmission";
    RoundTripMin, Transmissions, "round_trip.min", "ms", "shortest round-trip sample of the primary path";
    Delivered, Deliveries, "delivered", "messages", "messages delivered";
    DeliveredShare, Deliveries, "delivered.share", "%", "messages delivered";
    Misdelivered, Deliveries, "misdelivered", "messages", "messages delivered twice or out of order";
    Pending, Deliveries, "pending", "messages", "messages not yet delivered at the end";
    PendingMean, Deliveries, "pending.mean", "messages", "mean number of messages not yet delivered";
    Abandoned, Deliveries, "abandoned", "messages", "messages abandoned";
    Refused, Deliveries, "refused", "messages", "messages that found the send buffer full";
    Retransmissions, Association, "retransmissions", "chunks", "retransmissions";
    Timeouts, Association, "timeouts", "timeouts", "expirations of T3-rtx";
    SentPerDelivered, Transmissions, "sent_per_delivered", "ratio", "bytes transmitted per byte delivered";
    ChunksPerMessage, Association, "chunks_per_message", "ratio", "DATA chunks transmitted per message delivered";
    Dropped, Association, "dropped", "chunks", "chunks dropped by the receiver for lack of memory";
    Accepted, Association, "accepted", "chunks", "DATA chunks accepted by the receiver";
    Throughput, Association, "throughput", "kbit/s", "IP packets into the receiver";
    Interruption, Deliveries, "interruption", "ms", "longest pause between deliveries";
    InterruptionAfterChange, Deliveries, "interruption.change", "ms",
        "longest pause between deliveries after the change";
    Disturbance, Deliveries, "disturbance", "ms",
        "time from the change until messages are in time again";
    InterruptionDetached, Deliveries, "interruption.detached", "ms", "pause after the change: until a link is up";
    InterruptionLocating, Deliveries, "interruption.locating", "ms",
        "pause after the change: until the new location is known";
    InterruptionResuming, Deliveries, "interruption.resuming", "ms",
        "pause after the change: until the next delivery";
    Pauses, Deliveries, "pauses", "times", "pauses between deliveries";
    PausesTotal, Deliveries, "pauses.total", "s", "sum of the pauses between deliveries";
    Failover, Transmissions, "failover", "ms", "failover time";
    FailoverTransfer, Transmissions, "failover.transfer", "ms", "longest message transfer during the failover";
    FailoverUnreported, Transmissions, "failover.unreported", "messages",
        "messages that arrived after the last received SACK";
    FailoverFromArrived, Transmissions, "failover.arrived", "ms", "failover time from the last message that arrived";
    Failovers, Association, "failovers", "times", "failovers of data from the primary path";
    Completion, Deliveries, "completion", "s", "time until complete delivery";
    Lost, Association, "lost", "s", "association lost after the change";
    Survived, Association, "survived", "share", "associations alive at the end";
}

impl FlowMeasure {
    /// Returns the probability of a quantile of the delay, if the measure is one.
    pub(super) fn quantile(self) -> Option<f64> {
        Some(match self {
            Self::DelayP50 => 0.5,
            Self::DelayP90 => 0.9,
            Self::DelayP99 => 0.99,
            Self::DelayP999 => 0.999,
            Self::DelayMax => 1.0,
            _ => return None,
        })
    }

    /// Returns whether the measure is a mean over messages.
    pub(super) fn is_mean(self) -> bool {
        matches!(
            self,
            Self::DelayMean
                | Self::DelayWaiting
                | Self::DelayRetransmitted
                | Self::RetransmittedWaiting
                | Self::RetransmittedDetection
                | Self::RetransmittedTransfer
                | Self::RetransmittedResequencing
                | Self::RetransmittedRecovery
        )
    }

    fn source(self) -> MeasureSource {
        // The table has the order of the measures.
        FLOW[self as usize].1
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkMeasure {
    Utilization,
    Dropped,
    Fairness,
}

/// Measure, name, label, unit.
const LINK: [(LinkMeasure, &str, &str, &str); 3] = {
    use LinkMeasure as L;
    [
        (L::Utilization, "utilization", "utilization", "%"),
        (L::Dropped, "dropped", "packets dropped", "packets"),
        (
            L::Fairness,
            "fairness",
            "Jain’s index of the bytes carried",
            "index",
        ),
    ]
};

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
        if let Some((measure, ..)) = FLOW.iter().find(|(_, _, own, ..)| *own == name) {
            return Some(Self::Flow(*measure));
        }
        let (link, measure) = name.strip_prefix("links.")?.rsplit_once('.')?;
        let link = links.position(|own| own == link)?;
        let (measure, ..) = LINK.iter().find(|(_, own, ..)| *own == measure)?;
        Some(Self::Link(link, *measure))
    }

    /// Returns all names.
    pub(super) fn names() -> Vec<String> {
        let flow = FLOW.iter().map(|(_, _, name, ..)| (*name).to_owned());
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
                let (_, _, name, label, unit) = &FLOW[measure as usize];
                ((*name).into(), (*label).into(), unit)
            }
            Self::Link(number, measure) => {
                let (_, name, label, unit) = LINK[measure as usize];
                let link = link(number);
                (
                    format!("links.{link}.{name}"),
                    format!("link {link}: {label}"),
                    unit,
                )
            }
        }
    }

    /// Returns the lateness of the network by which a measure of single packets in a live run is larger, in ms;
    /// `None` if the measure is no delay.
    pub(super) fn lateness(self, lateness: &Lateness) -> Option<f64> {
        let Self::Flow(measure) = self else {
            return None;
        };
        match measure {
            FlowMeasure::DelayMean => Some(lateness.mean()),
            _ => measure.quantile().map(|share| lateness.quantile(share)),
        }
    }

    /// Returns whether the measure needs the core's event log.
    pub(super) fn needs_trace(self) -> bool {
        matches!(self, Self::Flow(measure) if measure.source() == MeasureSource::Transmissions)
    }
}

/// One transmission of a part of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Transmission {
    pub(super) message: u64,
    /// Time in nanoseconds from the start.
    pub(super) time: u64,
    /// The transmission was not on the primary path.
    pub(super) alternate: bool,
    /// TSN of the chunk; `None` for TCP.
    pub(super) tsn: Option<Tsn>,
    pub(super) bytes: usize,
    /// The transmission is a retransmission.
    pub(super) again: bool,
}

impl Transmission {
    /// Returns the transmissions of the messages of `size` bytes that have a part in a segment of TCP.
    pub(super) fn of_segment(segment: &Segment, size: u64) -> impl Iterator<Item = Self> + use<> {
        let Segment {
            time,
            offset,
            len,
            again,
        } = *segment;
        let first = offset / size;
        let last = (offset + len as u64).saturating_sub(1) / size;
        (first..=last).map(move |message| Self {
            message,
            time: time.as_nanos(),
            alternate: false,
            tsn: None,
            // The bytes of a segment with several messages are counted for the first.
            bytes: if message == first { len } else { 0 },
            again,
        })
    }
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
    /// First arrival of each chunk of the association; recorded with the transmissions.
    pub(super) arrivals: Vec<(Tsn, u64)>,
    /// Times at which data left the primary path, and at which it returned.
    pub(super) left: Vec<u64>,
    pub(super) returned: Vec<u64>,
    pub(super) refused: u64,
    pub(super) abandoned: u64,
    /// Number of messages of a flow with an end.
    pub(super) wanted: Option<u64>,
    /// Retransmissions after the warm-up; `None` if the stack does not report them.
    pub(super) retransmissions: Option<u64>,
    pub(super) timeouts: Option<u64>,
    pub(super) dropped: Option<u64>,
    /// DATA chunks sent after the warm-up, retransmissions included; `None` for a stack without chunks.
    pub(super) chunks: Option<u64>,
    /// Messages that the user can read at the end.
    pub(super) accepted: Option<u64>,
    /// Bytes of IP packets into the receiving host after the warm-up.
    pub(super) bytes_received: u64,
    /// Shortest round-trip sample of the primary path; recorded with the transmissions.
    pub(super) shortest_round_trip: Option<u64>,
    /// Failovers after the warm-up; `None` if the stack has no paths.
    pub(super) failovers: Option<u64>,
    pub(super) closed: bool,
    /// Time at which the association was lost.
    pub(super) lost: Option<u64>,
    /// Times at which a home agent had registered an end of the flow, or the peer had acknowledged its new
    /// address.
    pub(super) located: Vec<u64>,
    /// Histories of the delivered messages, computed once.
    pub(super) histories: OnceCell<Vec<MessageHistory>>,
    /// Transactions of SIMCO, instead of messages.
    pub(super) transactions: Option<Box<Transactions>>,
}

/// History of a delivered message whose transmissions were recorded. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MessageHistory {
    pub(super) number: u64,
    /// Time of the SEND.
    pub(super) send: u64,
    /// First transmission of any of its chunks.
    first: u64,
    /// Arrival of the last of its chunks to arrive, and the last transmission of that chunk before it; `None`
    /// for a stack without chunks.
    arrival: Option<Arrival>,
    delivery: u64,
    /// Largest number of transmissions of one of its chunks.
    transmissions: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Arrival {
    time: u64,
    sent: u64,
    /// The first transmission of the chunk arrived.
    first: bool,
}

fn millis(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e6
}

impl MessageHistory {
    /// Returns the time from SEND to delivery in ms.
    pub(super) fn delay(&self) -> f64 {
        millis(self.send, self.delivery)
    }

    /// Returns whether a chunk of the message was sent more than once.
    pub(super) fn retransmitted(&self) -> bool {
        self.transmissions > 1
    }

    /// Returns what a measure of transmissions is the mean of, in ms; `None` if the message does not count or has
    /// no such value.
    fn sample(&self, what: FlowMeasure) -> Option<f64> {
        let (from, to) = match what {
            FlowMeasure::DelayWaiting => (self.send, self.first),
            _ if !self.retransmitted() => return None,
            FlowMeasure::DelayRetransmitted => (self.send, self.delivery),
            FlowMeasure::RetransmittedWaiting => (self.send, self.first),
            FlowMeasure::RetransmittedRecovery => (self.first, self.delivery),
            FlowMeasure::RetransmittedDetection => (self.first, self.arrival?.sent),
            FlowMeasure::RetransmittedTransfer => (self.arrival?.sent, self.arrival?.time),
            FlowMeasure::RetransmittedResequencing => (self.arrival?.time, self.delivery),
            _ => return None,
        };
        Some(millis(from, to))
    }
}

/// Measurement window of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Start in nanoseconds.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Time of the first scheduled change.
    pub(super) change: Option<u64>,
    /// Time of the first scheduled change with which a link is up again.
    pub(super) up: Option<u64>,
    /// Shortest time without a delivery that is a pause.
    pub(super) pause: u64,
}

impl FlowRecord {
    /// Returns the times of the deliveries and the delays in ms of messages sent in the window.
    fn delays(&self, window: &Window) -> impl Iterator<Item = (u64, f64)> {
        self.deliveries.iter().filter_map(move |(number, time)| {
            let sent = *self.sends.get(*number as usize)?;
            (sent >= window.from).then_some((*time, millis(sent, *time)))
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
        if let Some(transactions) = &self.transactions
            && what.source() != MeasureSource::Association
        {
            return transactions.measure(what);
        }
        let delays = || self.delays(window).map(|(_, delay)| delay);
        if let Some(share) = what.quantile() {
            return Sorted::new(delays().collect()).quantile(share);
        }
        let middle = window.from + window.to.saturating_sub(window.from) / 2;
        let half = |late: bool| {
            let all = self.delays(window);
            let own = all.filter(|(time, _)| (*time > middle) == late);
            mean(&own.map(|(_, delay)| delay).collect::<Vec<f64>>())
        };
        let count = |value: Option<u64>| value.map(|n| n as f64);
        let messages = |is: &dyn Fn(&MessageHistory) -> bool| {
            Some(self.histories(window).filter(|message| is(message)).count() as f64)
        };
        match what {
            _ if what.is_mean() => mean(&self.samples(what, window)),
            FlowMeasure::Goodput => self.goodput(size, finite, window),
            FlowMeasure::DelayEarly => half(false),
            FlowMeasure::DelayLate => half(true),
            FlowMeasure::Pending => {
                Some(self.sends.len().saturating_sub(self.deliveries.len()) as f64)
            }
            FlowMeasure::PendingMean => {
                let ms = window.to.saturating_sub(window.from) as f64 / 1e6;
                (ms > 0.0).then(|| delays().sum::<f64>() / ms)
            }
            FlowMeasure::RetransmittedP50 => {
                let delays = self.samples(FlowMeasure::DelayRetransmitted, window);
                Sorted::new(delays).quantile(0.5)
            }
            FlowMeasure::Retransmitted => messages(&MessageHistory::retransmitted),
            FlowMeasure::RetransmittedAgain => messages(&|message| message.transmissions > 2),
            // A stack without chunks reports no arrivals.
            FlowMeasure::RetransmittedNeedlessly if self.arrivals.is_empty() => None,
            FlowMeasure::RetransmittedNeedlessly => messages(&|message| {
                message.retransmitted() && message.arrival.is_some_and(|arrival| arrival.first)
            }),
            FlowMeasure::RoundTripMin => self.shortest_round_trip.map(|time| time as f64 / 1e6),
            FlowMeasure::Delivered => Some(self.delivered(window).count() as f64),
            FlowMeasure::DeliveredShare => {
                let share = 100.0 * self.delivered(window).count() as f64 / self.all() as f64;
                (self.all() > 0).then_some(share)
            }
            FlowMeasure::Misdelivered => {
                let numbers = self.deliveries.iter().map(|(number, _)| *number);
                let pairs = numbers.clone().zip(numbers.skip(1));
                Some(pairs.filter(|(before, next)| next <= before).count() as f64)
            }
            FlowMeasure::Abandoned => Some(self.abandoned as f64),
            FlowMeasure::Refused => Some(self.refused as f64),
            FlowMeasure::Retransmissions => count(self.retransmissions),
            FlowMeasure::Timeouts => count(self.timeouts),
            FlowMeasure::Dropped => count(self.dropped),
            FlowMeasure::Accepted => count(self.accepted),
            FlowMeasure::ChunksPerMessage => {
                let messages = self.delivered(window).count();
                let chunks = self.chunks.filter(|_| messages > 0)?;
                Some(chunks as f64 / messages as f64)
            }
            FlowMeasure::Throughput => {
                let seconds = window.to.saturating_sub(window.from) as f64 / 1e9;
                (seconds > 0.0).then(|| self.bytes_received as f64 * 8.0 / 1e3 / seconds)
            }
            FlowMeasure::Failovers => count(self.failovers),
            FlowMeasure::SentPerDelivered => {
                let range = window.from..=window.to;
                let sent = self.transmissions.iter();
                let sent = sent.filter(|t| range.contains(&t.time));
                let sent: usize = sent.map(|t| t.bytes).sum();
                let delivered = self.delivered(window).count() * size;
                (delivered > 0 && sent > 0).then(|| sent as f64 / delivered as f64)
            }
            FlowMeasure::Interruption => self.interruption(window),
            FlowMeasure::InterruptionAfterChange => {
                self.after_change(window).map(|(from, to)| millis(from, to))
            }
            FlowMeasure::Disturbance => self.disturbance(window),
            FlowMeasure::InterruptionDetached
            | FlowMeasure::InterruptionLocating
            | FlowMeasure::InterruptionResuming => self.part(what, window),
            FlowMeasure::Pauses => Some(self.pauses(window).count() as f64),
            FlowMeasure::PausesTotal => Some(self.pauses(window).sum::<u64>() as f64 / 1e9),
            FlowMeasure::Failover
            | FlowMeasure::FailoverTransfer
            | FlowMeasure::FailoverUnreported
            | FlowMeasure::FailoverFromArrived => self.of_failover(what, window),
            FlowMeasure::Completion => {
                let first = self.sends.first()?;
                let last = self.deliveries.iter().map(|d| d.1).max()?;
                let all = finite && self.deliveries.len() >= self.sends.len();
                all.then(|| last.saturating_sub(*first) as f64 / 1e9)
            }
            FlowMeasure::Lost => Some(self.lost?.saturating_sub(window.change?) as f64 / 1e9),
            FlowMeasure::Survived => Some(f64::from(u8::from(!self.closed))),
            // Quantiles and means are above.
            _ => None,
        }
    }

    /// Computes a measure of the change of path after a failure.
    fn of_failover(&self, what: FlowMeasure, window: &Window) -> Option<f64> {
        let change = self.failover(window)?;
        Some(match what {
            FlowMeasure::FailoverTransfer => change.transfer as f64 / 1e6,
            FlowMeasure::FailoverUnreported => {
                let arrived = self.arrived(change.again);
                arrived.filter(|n| *n >= change.first).count() as f64
            }
            FlowMeasure::FailoverFromArrived => {
                let last = self.arrived(change.again).max()?;
                let mut sent = self.transmissions.iter();
                let first = sent.find(|sent| sent.message == last)?;
                change.resent.saturating_sub(first.time) as f64 / 1e6
            }
            _ => change.time() as f64 / 1e6,
        })
    }

    /// Returns the histories of the delivered messages whose transmissions were recorded.
    pub(super) fn histories(&self, window: &Window) -> impl Iterator<Item = &MessageHistory> {
        let all = self.histories.get_or_init(|| self.all_histories());
        all.iter().filter(|message| message.send >= window.from)
    }

    fn all_histories(&self) -> Vec<MessageHistory> {
        let mut arrivals = BTreeMap::new();
        for (tsn, time) in &self.arrivals {
            arrivals.entry(tsn.value()).or_insert(*time);
        }
        let mut sent: Vec<Vec<&Transmission>> = vec![Vec::new(); self.sends.len()];
        for transmission in &self.transmissions {
            if let Some(own) = sent.get_mut(transmission.message as usize) {
                own.push(transmission);
            }
        }
        let history = |(number, delivery): &(u64, u64)| {
            let sent = &sent[usize::try_from(*number).ok().filter(|n| *n < sent.len())?];
            let chunk = |tsn| sent.iter().filter(move |t| t.tsn == tsn);
            let arrived = sent.iter().filter_map(|t| {
                let time = *arrivals.get(&t.tsn?.value())?;
                Some((time, t.tsn))
            });
            // Of chunks that arrive together, the last one sent counts.
            let arrival = arrived
                .max_by_key(|(time, _)| *time)
                .and_then(|(time, tsn)| {
                    let last = chunk(tsn).rfind(|t| t.time <= time)?.time;
                    let first = chunk(tsn).next()?.time == last;
                    Some(Arrival {
                        time,
                        sent: last,
                        first,
                    })
                });
            let transmissions = match sent.first()?.tsn {
                Some(_) => sent.iter().map(|t| chunk(t.tsn).count()).max()?,
                // Segments may begin and end anywhere in a message.
                None => 1 + sent.iter().filter(|t| t.again).count(),
            };
            Some(MessageHistory {
                number: *number,
                send: self.sends[*number as usize],
                first: sent.first()?.time,
                arrival,
                delivery: *delivery,
                transmissions: transmissions as u32,
            })
        };
        self.deliveries.iter().filter_map(history).collect()
    }

    /// Returns the values of the messages of which a measure is the mean.
    pub(super) fn samples(&self, what: FlowMeasure, window: &Window) -> Vec<f64> {
        if what == FlowMeasure::DelayMean {
            return self.delays(window).map(|(_, delay)| delay).collect();
        }
        let messages = self.histories(window);
        messages
            .filter_map(|message| message.sample(what))
            .collect()
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

    /// Returns the number of messages of the flow, or of those sent if it has no end.
    fn all(&self) -> u64 {
        self.wanted.unwrap_or(self.sends.len() as u64)
    }

    /// Returns the times without a delivery that are pauses.
    fn pauses(&self, window: &Window) -> impl Iterator<Item = u64> {
        let times: Vec<u64> = self.delivered(window).collect();
        let pauses = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let long: Vec<u64> = pauses.filter(|pause| *pause >= window.pause).collect();
        long.into_iter()
    }

    /// Returns begin and end of the longest time without a delivery after the first change. It may begin before
    /// the change, with the last delivery, and ends with the window if messages are missing.
    fn after_change(&self, window: &Window) -> Option<(u64, u64)> {
        let change = window.change?;
        let times = self.deliveries.iter().map(|(_, time)| *time);
        let mut from = times.clone().filter(|time| *time <= change).max();
        let from = from.get_or_insert(change);
        let mut later: Vec<u64> = times.filter(|time| *time > change).collect();
        if self.all() > self.deliveries.len() as u64 {
            later.push(window.to);
        }
        let mut longest = None;
        for time in later {
            if longest.is_none_or(|(begin, end)| time.saturating_sub(*from) > end - begin) {
                longest = Some((*from, time.max(*from)));
            }
            *from = time;
        }
        longest
    }

    /// Returns the time in ms from the first change to the last late delivery before some that are not; `None` if a
    /// message was not delivered. Late is a delay that exceeds the shortest one by a pause.
    fn disturbance(&self, window: &Window) -> Option<f64> {
        /// Number of deliveries in time that end a disturbance. A later one has another cause, such as a stalled host.
        const IN_TIME: usize = 50;
        let change = window.change?;
        if self.all() > self.deliveries.len() as u64 {
            return None;
        }
        let delays: Vec<(u64, f64)> = self.delays(window).collect();
        let shortest = delays.iter().map(|(_, delay)| *delay).reduce(f64::min)?;
        let is_late = |delay: f64| delay >= shortest + window.pause as f64 / 1e6;
        let mut last = None;
        let mut in_time = 0;
        for (time, delay) in delays.into_iter().filter(|(time, _)| *time > change) {
            if is_late(delay) {
                (last, in_time) = (Some(time), 0);
            } else {
                in_time += 1;
            }
            if last.is_some() && in_time == IN_TIME {
                break;
            }
        }
        Some(last.map_or(0.0, |last| millis(change, last)))
    }

    /// Returns a part of the longest time without a delivery after the first change, in ms.
    fn part(&self, part: FlowMeasure, window: &Window) -> Option<f64> {
        let (begin, end) = self.after_change(window)?;
        let change = window.change?;
        let covered = window.up.unwrap_or(change).clamp(begin, end);
        let located = self.located.iter().find(|time| **time > change);
        let known = located.map_or(covered, |time| (*time).clamp(covered, end));
        Some(match part {
            FlowMeasure::InterruptionDetached => millis(begin, covered),
            FlowMeasure::InterruptionLocating => millis(covered, known),
            _ => millis(known, end),
        })
    }

    /// Returns the messages of which a chunk had arrived before `by`.
    fn arrived(&self, by: u64) -> impl Iterator<Item = u64> {
        let arrived = self.arrivals.iter().filter(move |(_, time)| *time < by);
        let arrived: BTreeSet<u32> = arrived.map(|(tsn, _)| tsn.value()).collect();
        let sent = self.transmissions.iter().filter_map(|t| Some((t.tsn?, t)));
        let messages: BTreeSet<u64> = sent
            .filter(|(tsn, _)| arrived.contains(&tsn.value()))
            .map(|(_, t)| t.message)
            .collect();
        messages.into_iter()
    }

    /// Returns the failover time after the first change, and the longest message transfer during
    /// it; `None` if data had left the primary path before.
    fn failover(&self, window: &Window) -> Option<PathChange> {
        let change = window.change?;
        let before = |moments: &[u64]| moments.iter().filter(|time| **time < change).count();
        if before(&self.left) > before(&self.returned) {
            return None;
        }
        path_change::measure(self, change).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        from: 0,
        to: 10_000_000_000,
        change: None,
        up: None,
        pause: 1_000_000_000,
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
        assert_eq!(measure(FlowMeasure::DelayEarly, true), Some(200.0));
        assert_eq!(measure(FlowMeasure::DelayLate, true), None);
        assert_eq!(measure(FlowMeasure::Pending, true), Some(1.0));
        let mean = measure(FlowMeasure::PendingMean, true).unwrap();
        assert!((mean - 0.04).abs() < 1e-9, "{mean}");
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

    fn transmission(message: u64, tsn: Option<u32>, ms: u64, again: bool) -> Transmission {
        Transmission {
            message,
            time: ms * 1_000_000,
            alternate: false,
            tsn: tsn.map(Tsn::new),
            bytes: 1000,
            again,
        }
    }

    #[test]
    fn parts_of_retransmitted_messages_add_up() {
        let ms = |ms: u64| ms * 1_000_000;
        // The third message has two chunks, of which the first is lost twice.
        let record = FlowRecord {
            sends: [0, 100, 200, 1000].map(ms).into(),
            deliveries: [(0, 255), (1, 900), (2, 2000)]
                .map(|(number, time)| (number, ms(time)))
                .into(),
            transmissions: vec![
                transmission(0, Some(1), 0, false),
                transmission(1, Some(2), 150, false),
                transmission(2, Some(3), 210, false),
                transmission(2, Some(4), 220, false),
                transmission(1, Some(2), 800, true),
                transmission(2, Some(3), 900, true),
                transmission(2, Some(3), 1700, true),
                // Chunk 2 arrived before its second retransmission.
                transmission(1, Some(2), 895, true),
                transmission(3, Some(5), 1000, false),
            ],
            arrivals: [(1, 255), (2, 890), (4, 470), (3, 1790)]
                .map(|(tsn, time)| (Tsn::new(tsn), ms(time)))
                .into(),
            ..FlowRecord::default()
        };
        let measure = |what| record.measure(what, 1000, true, &WINDOW);
        let parts = [
            FlowMeasure::RetransmittedWaiting,
            FlowMeasure::RetransmittedDetection,
            FlowMeasure::RetransmittedTransfer,
            FlowMeasure::RetransmittedResequencing,
        ];
        let parts = parts.map(measure);
        assert_eq!(parts, [30.0, 1070.0, 90.0, 110.0].map(Some));
        assert_eq!(measure(FlowMeasure::DelayRetransmitted), Some(1300.0));
        assert_eq!(measure(FlowMeasure::RetransmittedRecovery), Some(1270.0));
        assert_eq!(measure(FlowMeasure::DelayWaiting), Some(20.0));
        assert_eq!(measure(FlowMeasure::Retransmitted), Some(2.0));
        assert_eq!(measure(FlowMeasure::RetransmittedP50), Some(1300.0));
        assert_eq!(measure(FlowMeasure::RetransmittedAgain), Some(2.0));
        assert_eq!(measure(FlowMeasure::RetransmittedNeedlessly), Some(0.0));
        let samples = record.samples(FlowMeasure::DelayRetransmitted, &WINDOW);
        assert_eq!(samples, [800.0, 1800.0]);
        let late = Window {
            from: ms(150),
            ..WINDOW
        };
        let waiting = record.measure(FlowMeasure::DelayWaiting, 1000, true, &late);
        assert_eq!(waiting, Some(10.0), "messages of the window");
    }

    #[test]
    fn segments_have_no_time_of_arrival() {
        let record = FlowRecord {
            sends: vec![0, 0],
            deliveries: vec![(0, 900_000_000), (1, 900_000_000)],
            transmissions: vec![
                transmission(0, None, 10, false),
                transmission(1, None, 20, false),
                transmission(0, None, 600, true),
            ],
            ..FlowRecord::default()
        };
        let measure = |what| record.measure(what, 1000, true, &WINDOW);
        assert_eq!(measure(FlowMeasure::Retransmitted), Some(1.0));
        assert_eq!(measure(FlowMeasure::RetransmittedRecovery), Some(890.0));
        assert_eq!(measure(FlowMeasure::RetransmittedWaiting), Some(10.0));
        assert_eq!(measure(FlowMeasure::RetransmittedDetection), None);
    }

    #[test]
    fn a_disturbance_ends_before_messages_in_time() {
        let ms = |ms: u64| ms * 1_000_000;
        // A message every 10 ms takes 5 ms. Messages 10 to 19 wait for a failover, the last one for another reason.
        let delay = |number: u64| match number {
            10..20 => 300 - 10 * number,
            99 => 80,
            _ => 5,
        };
        let deliveries = |count: u64| (0..count).map(|n| (n, ms(10 * n + delay(n))));
        let mut record = FlowRecord {
            sends: (0..100).map(|number| ms(10 * number)).collect(),
            deliveries: deliveries(100).collect(),
            ..FlowRecord::default()
        };
        let window = Window {
            change: Some(ms(98)),
            pause: ms(50),
            to: ms(2000),
            ..WINDOW
        };
        let measure = |record: &FlowRecord, window: &Window| {
            record.measure(FlowMeasure::Disturbance, 1000, true, window)
        };
        assert_eq!(measure(&record, &window), Some(202.0));
        let long = Window {
            pause: ms(400),
            ..window
        };
        assert_eq!(measure(&record, &long), Some(0.0), "no message is late");
        record.deliveries = deliveries(99).collect();
        assert_eq!(measure(&record, &window), None, "a message is missing");
    }

    #[test]
    fn parts_of_an_interruption_add_up() {
        let ms = |ms: u64| ms * 1_000_000;
        let mut record = FlowRecord {
            sends: [0; 6].into(),
            deliveries: (0..).zip([10, 20, 300, 310, 500, 510].map(ms)).collect(),
            located: [15, 120].map(ms).into(),
            ..FlowRecord::default()
        };
        let at = |change, up: Option<u64>| Window {
            change: Some(ms(change)),
            up: up.map(ms),
            to: ms(2000),
            pause: ms(190),
            ..WINDOW
        };
        let measure =
            |record: &FlowRecord, what, window: &Window| record.measure(what, 1000, true, window);
        let parts = [
            FlowMeasure::InterruptionDetached,
            FlowMeasure::InterruptionLocating,
            FlowMeasure::InterruptionResuming,
        ];
        let whole = FlowMeasure::InterruptionAfterChange;
        let of = |record: &FlowRecord, window: &Window| {
            (
                measure(record, whole, window),
                parts.map(|part| measure(record, part, window)),
            )
        };
        let moved = at(25, Some(100));
        let expected = (Some(280.0), [80.0, 20.0, 180.0].map(Some));
        assert_eq!(of(&record, &moved), expected, "from the last delivery");
        let expected = (Some(190.0), [0.0, 0.0, 190.0].map(Some));
        assert_eq!(of(&record, &at(305, None)), expected);
        assert_eq!(measure(&record, FlowMeasure::Pauses, &moved), Some(2.0));
        assert_eq!(
            measure(&record, FlowMeasure::PausesTotal, &moved),
            Some(0.47)
        );
        assert_eq!(measure(&record, whole, &WINDOW), None, "nothing changed");

        record.sends.push(ms(400));
        let pause = measure(&record, whole, &at(305, None));
        assert_eq!(pause, Some(1490.0), "no delivery follows");
        let share = measure(&record, FlowMeasure::DeliveredShare, &WINDOW);
        assert_eq!(share, Some(600.0 / 7.0));
        record.wanted = Some(12);
        let share = measure(&record, FlowMeasure::DeliveredShare, &WINDOW);
        assert_eq!(share, Some(50.0), "of all messages of the flow");
        record.lost = Some(ms(1025));
        assert_eq!(measure(&record, FlowMeasure::Lost, &moved), Some(1.0));
    }

    #[test]
    fn a_failover_is_detected_if_only_sacks_were_lost() {
        let sent = |message, ms: u64, alternate| Transmission {
            message,
            time: ms * 1_000_000,
            alternate,
            tsn: None,
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
