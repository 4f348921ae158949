//! Statistics of intervals of a measurement.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use carrick::{AssociationStats, PathStats};
use serde::{Deserialize, Serialize};

use super::delay::DelaySummary;
use super::protocol::TransferAmount;
use super::session::TransferRole;
use crate::units::decimal_prefix;

/// Amount transferred in one direction in an interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Rate {
    #[serde(flatten)]
    amount: TransferAmount,
    bits_per_second: f64,
    messages_per_second: f64,
}

impl Rate {
    pub(super) fn new(amount: TransferAmount, seconds: f64) -> Self {
        let per_second = |n: f64| if seconds > 0.0 { n / seconds } else { 0.0 };
        Self {
            amount,
            bits_per_second: per_second(amount.bytes as f64 * 8.0),
            messages_per_second: per_second(amount.messages as f64),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.amount.bytes
    }

    pub(super) fn bits_per_second(&self) -> f64 {
        self.bits_per_second
    }

    pub(super) fn messages(&self) -> u64 {
        self.amount.messages
    }

    /// Returns the rate of both amounts together over this time.
    pub(super) fn with(&self, other: &Self, seconds: f64) -> Self {
        Self::new(self.amount + other.amount, seconds)
    }

    pub(super) fn text(&self) -> String {
        format!(
            "{:>9}B {:>9}bit/s {:>9}msg/s",
            decimal_prefix(self.amount.bytes as f64),
            decimal_prefix(self.bits_per_second),
            decimal_prefix(self.messages_per_second)
        )
    }
}

/// Statistics of a flow in one interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct FlowInterval {
    /// Number of the flow, from 1.
    pub(super) flow: u16,
    /// Messages accepted by the protocol.
    pub(super) sent: TransferAmount,
    pub(super) received: TransferAmount,
    /// Delays of the received messages.
    pub(super) delay: Option<DelaySummary>,
    /// Responses received.
    pub(super) responses: TransferAmount,
    pub(super) response_time: Option<DelaySummary>,
}

/// Statistics of one interval.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Interval {
    pub(super) start: f64,
    pub(super) end: f64,
    /// The interval is not part of the result.
    pub(super) omitted: bool,
    /// Messages accepted by the protocol.
    pub(super) sent: Rate,
    pub(super) received: Rate,
    /// Delays of the received messages.
    pub(super) delay: Option<DelaySummary>,
    pub(super) retransmissions: u64,
    /// Number of times that another path began to carry new data.
    pub(super) path_changes: u64,
    /// Path of new data.
    pub(super) path: Option<IpAddr>,
    pub(super) cwnd: usize,
    /// Smoothed round-trip time in seconds.
    pub(super) srtt: Option<f64>,
    /// Statistics of each flow, if the client has specified flows or wants the server's statistics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) flows: Vec<FlowInterval>,
}

/// Statistics of an interval of several associations.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct SumInterval {
    start: f64,
    end: f64,
    omitted: bool,
    sent: Rate,
    received: Rate,
    retransmissions: u64,
}

/// Adds the intervals of several associations up. A sum is complete when each has reported an interval, or one of them
/// reports a second one, because the other ones have ended or their peers are silent.
#[derive(Debug)]
pub(super) struct IntervalSum {
    associations: usize,
    intervals: BTreeMap<u64, Interval>,
}

impl IntervalSum {
    pub(super) fn new(associations: usize) -> Self {
        Self {
            associations,
            intervals: BTreeMap::new(),
        }
    }

    /// Adds an interval of the association with this number, and returns the sums that are complete.
    pub(super) fn add(&mut self, test: u64, interval: Interval) -> Vec<SumInterval> {
        let mut sums = Vec::new();
        if self.intervals.contains_key(&test) {
            sums.extend(self.take());
        }
        self.intervals.insert(test, interval);
        if self.intervals.len() == self.associations {
            sums.extend(self.take());
        }
        sums
    }

    /// Returns the sum of the intervals that are not part of an earlier one; `None` without any.
    pub(super) fn take(&mut self) -> Option<SumInterval> {
        let intervals = std::mem::take(&mut self.intervals);
        let all = || intervals.values();
        let start = all().map(|i| i.start).reduce(f64::min)?;
        let end = all().map(|i| i.end).reduce(f64::max)?;
        let sum = |amount: fn(&Interval) -> TransferAmount| {
            let sum = all().map(amount).reduce(|a, b| a + b);
            Rate::new(sum.unwrap_or_default(), end - start)
        };
        Some(SumInterval {
            start,
            end,
            omitted: all().all(|i| i.omitted),
            sent: sum(|i| i.sent.amount),
            received: sum(|i| i.received.amount),
            retransmissions: all().map(|i| i.retransmissions).sum(),
        })
    }
}

/// Divides a measurement into intervals.
#[derive(Debug)]
pub(super) struct Progress {
    start: Instant,
    /// Intervals that end now are not part of the result.
    pub(super) omitting: bool,
    last: f64,
    sent: TransferAmount,
    received: TransferAmount,
    retransmissions: u64,
    path_changes: u64,
    /// Totals of each flow at the last call of [`Self::step`].
    flows: Vec<FlowInterval>,
}

impl Progress {
    pub(super) fn new(start: Instant, omitting: bool) -> Self {
        Self {
            start,
            omitting,
            last: 0.0,
            sent: TransferAmount::default(),
            received: TransferAmount::default(),
            retransmissions: 0,
            path_changes: 0,
            flows: Vec::new(),
        }
    }

    /// Returns whether anything was transferred since the last call of [`Self::step`].
    pub(super) fn has_more(
        &self,
        sent: TransferAmount,
        received: TransferAmount,
        responses: TransferAmount,
    ) -> bool {
        let reported = self.flows.iter().map(|flow| flow.responses);
        let reported = reported.fold(TransferAmount::default(), |a, b| a + b);
        sent != self.sent || received != self.received || responses != reported
    }

    /// Records that another path carries new data.
    pub(super) fn path_changed(&mut self) {
        self.path_changes += 1;
    }

    /// Returns the statistics since the last call; without those of paths if the association has ended.
    pub(super) fn step(
        &mut self,
        sent: TransferAmount,
        received: TransferAmount,
        delay: Option<DelaySummary>,
        stats: Option<&AssociationStats>,
        paths: &[PathStats],
        flows: Vec<FlowInterval>,
    ) -> Interval {
        let end = self.start.elapsed().as_secs_f64();
        let seconds = end - self.last;
        let retransmissions = stats.map_or(self.retransmissions, |s| s.counters.retransmissions);
        let current = stats.and_then(|s| s.current);
        let path = paths.iter().find(|p| Some(p.id) == current);
        let interval = Interval {
            start: self.last,
            end,
            omitted: self.omitting,
            sent: Rate::new(sent.since(self.sent), seconds),
            received: Rate::new(received.since(self.received), seconds),
            delay,
            retransmissions: retransmissions - self.retransmissions,
            path_changes: std::mem::take(&mut self.path_changes),
            path: path.map(|p| p.remote),
            cwnd: path.map_or(0, |p| p.cwnd),
            srtt: path.and_then(|p| p.srtt).map(|t| t.as_secs_f64()),
            flows: self.step_flows(flows),
        };
        (self.last, self.sent, self.received) = (end, sent, received);
        self.retransmissions = retransmissions;
        interval
    }
}

impl Progress {
    /// Returns the statistics of flows since the last call, of their totals.
    fn step_flows(&mut self, totals: Vec<FlowInterval>) -> Vec<FlowInterval> {
        let mut flows = totals.clone();
        for (flow, earlier) in flows.iter_mut().zip(&self.flows) {
            flow.sent = flow.sent.since(earlier.sent);
            flow.received = flow.received.since(earlier.received);
            flow.responses = flow.responses.since(earlier.responses);
        }
        self.flows = totals;
        flows
    }
}

impl SumInterval {
    pub(super) fn text(&self, role: TransferRole) -> String {
        let time = format!("[SUM] {:7.2}-{:7.2} s", self.start, self.end);
        let omitted = if self.omitted { "  (omitted)" } else { "" };
        let received = format!("{time}  received {}{omitted}\n", self.received.text());
        let sent = self.sent.text();
        let sent = format!(
            "{time}  sent     {sent}  {} retransmitted{omitted}\n",
            self.retransmissions
        );
        let received = if role.receives { &received } else { "" };
        let sent = if role.sends { &sent } else { "" };
        format!("{received}{sent}")
    }
}

impl Interval {
    pub(super) fn text(&self, test: u64, role: TransferRole) -> String {
        let time = format!("[{test}] {:7.2}-{:7.2} s", self.start, self.end);
        let mut lines = Vec::new();
        let omitted = if self.omitted { "  (omitted)" } else { "" };
        if role.receives {
            let delay = self.delay.map(|d| format!("  {}", d.short_text()));
            lines.push(format!(
                "{time}  received {}{}{omitted}\n",
                self.received.text(),
                delay.unwrap_or_default()
            ));
        }
        if role.sends {
            let srtt = self.srtt.map(|s| format!("  srtt {:.3} ms", s * 1000.0));
            let path_changes = match self.path_changes {
                0 => String::new(),
                1 => "  1 path change".into(),
                changes => format!("  {changes} path changes"),
            };
            let path = self.path.map(|p| format!("  to {p}"));
            lines.push(format!(
                "{time}  sent     {}  {} retransmitted  cwnd {}B{}{}{}{omitted}\n",
                self.sent.text(),
                self.retransmissions,
                decimal_prefix(self.cwnd as f64),
                srtt.unwrap_or_default(),
                path.unwrap_or_default(),
                path_changes
            ));
        }
        lines.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second association ends before the third interval.
    #[test]
    fn sums_have_each_interval_once() {
        let amount = |bytes| TransferAmount { bytes, messages: 1 };
        let none = TransferAmount::default();
        let mut progress = [1, 2].map(|_| Progress::new(Instant::now(), false));
        let mut interval = |index: usize, bytes| {
            progress[index].step(amount(bytes), none, None, None, &[], Vec::new())
        };
        let mut sum = IntervalSum::new(2);
        assert!(sum.take().is_none());
        assert!(sum.add(1, interval(0, 10)).is_empty());
        let complete = sum.add(2, interval(1, 100));
        assert_eq!(complete.len(), 1);
        assert_eq!(complete[0].sent.amount.bytes, 110);
        assert_eq!(complete[0].sent.amount.messages, 2);
        assert!(sum.add(1, interval(0, 11)).is_empty());
        let of_one = sum.add(1, interval(0, 13));
        assert_eq!(of_one.len(), 1);
        assert_eq!(of_one[0].sent.amount.bytes, 1);
        assert_eq!(sum.take().unwrap().sent.amount.bytes, 2);
        assert!(sum.take().is_none());
    }

    #[test]
    fn path_changes_are_marked_in_their_interval() {
        let none = TransferAmount::default();
        let sender = TransferRole {
            sends: true,
            receives: false,
            inbound: crate::perf::flow::FlowDirection::ToClient,
        };
        let mut progress = Progress::new(Instant::now(), false);
        let mut step = |changes| {
            (0..changes).for_each(|_| progress.path_changed());
            progress
                .step(none, none, None, None, &[], Vec::new())
                .text(1, sender)
        };
        assert!(!step(0).contains("change"));
        assert!(step(1).contains("  1 path change\n"));
        assert!(step(2).contains("  2 path changes\n"));
        assert!(!step(0).contains("change"), "it is counted once");
    }

    #[test]
    fn intervals_add_up_without_statistics() {
        let amount = |bytes| TransferAmount { bytes, messages: 1 };
        let mut progress = Progress::new(Instant::now(), false);
        let none = TransferAmount::default();
        assert!(!progress.has_more(none, none, none));
        let first = progress.step(amount(7), none, None, None, &[], Vec::new());
        assert!(progress.has_more(amount(10), none, none));
        let second = progress.step(amount(10), amount(3), None, None, &[], Vec::new());
        assert!(!progress.has_more(amount(10), amount(3), none));
        assert_eq!(first.sent.amount.bytes + second.sent.amount.bytes, 10);
        assert_eq!(second.received.amount, amount(3));
        assert!(first.end <= second.start);
    }

    #[test]
    fn flows_have_what_they_transferred_since_the_last() {
        let amount = |messages| TransferAmount {
            bytes: 10 * messages,
            messages,
        };
        let total = |messages| FlowInterval {
            flow: 1,
            sent: amount(messages),
            received: amount(2 * messages),
            delay: None,
            responses: amount(3 * messages),
            response_time: None,
        };
        let mut progress = Progress::new(Instant::now(), false);
        let none = TransferAmount::default();
        let mut step = |messages| {
            progress
                .step(none, none, None, None, &[], vec![total(messages)])
                .flows
        };
        assert_eq!(step(4), [total(4)]);
        assert_eq!(step(9), [total(5)]);
        assert_eq!(step(9), [total(0)]);
    }

    #[test]
    fn a_rate_over_no_time_is_zero() {
        let amount = TransferAmount {
            bytes: 10,
            messages: 1,
        };
        assert!(Rate::new(amount, 0.0).bits_per_second.abs() < f64::EPSILON);
        assert!((Rate::new(amount, 2.0).bits_per_second - 40.0).abs() < f64::EPSILON);
    }
}
