//! Statistics of intervals of a measurement.

use std::net::IpAddr;
use std::time::Instant;

use carrick::{AssociationStats, PathStats};
use serde::Serialize;

use super::protocol::TransferAmount;
use super::session::TransferRole;
use crate::units::decimal_prefix;

/// Amount transferred in one direction in an interval.
#[derive(Clone, Copy, Debug, Serialize)]
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

    pub(super) fn text(&self) -> String {
        format!(
            "{:>9}B {:>9}bit/s {:>9}msg/s",
            decimal_prefix(self.amount.bytes as f64),
            decimal_prefix(self.bits_per_second),
            decimal_prefix(self.messages_per_second)
        )
    }
}

/// Statistics of one interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Interval {
    start: f64,
    end: f64,
    /// The interval is not part of the result.
    omitted: bool,
    /// Messages accepted by the protocol.
    sent: Rate,
    received: Rate,
    retransmissions: u64,
    /// Path of new data.
    path: Option<IpAddr>,
    cwnd: usize,
    /// Smoothed round-trip time in seconds.
    srtt: Option<f64>,
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
        }
    }

    /// Returns whether anything was transferred since the last call of [`Self::step`].
    pub(super) fn has_more(&self, sent: TransferAmount, received: TransferAmount) -> bool {
        sent != self.sent || received != self.received
    }

    /// Returns the statistics since the last call; without those of paths if the association has ended.
    pub(super) fn step(
        &mut self,
        sent: TransferAmount,
        received: TransferAmount,
        stats: Option<&AssociationStats>,
        paths: &[PathStats],
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
            retransmissions: retransmissions - self.retransmissions,
            path: path.map(|p| p.remote),
            cwnd: path.map_or(0, |p| p.cwnd),
            srtt: path.and_then(|p| p.srtt).map(|t| t.as_secs_f64()),
        };
        (self.last, self.sent, self.received) = (end, sent, received);
        self.retransmissions = retransmissions;
        interval
    }
}

impl Interval {
    pub(super) fn text(&self, test: u64, role: TransferRole) -> String {
        let time = format!("[{test}] {:7.2}-{:7.2} s", self.start, self.end);
        let mut lines = Vec::new();
        let omitted = if self.omitted { "  (omitted)" } else { "" };
        if role.receives {
            lines.push(format!(
                "{time}  received {}{omitted}\n",
                self.received.text()
            ));
        }
        if role.sends {
            let srtt = self.srtt.map(|s| format!("  srtt {:.3} ms", s * 1000.0));
            let path = self.path.map(|p| format!("  to {p}"));
            lines.push(format!(
                "{time}  sent     {}  {} retransmitted  cwnd {}B{}{}{omitted}\n",
                self.sent.text(),
                self.retransmissions,
                decimal_prefix(self.cwnd as f64),
                srtt.unwrap_or_default(),
                path.unwrap_or_default()
            ));
        }
        lines.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_up_without_statistics() {
        let amount = |bytes| TransferAmount { bytes, messages: 1 };
        let mut progress = Progress::new(Instant::now(), false);
        let none = TransferAmount::default();
        assert!(!progress.has_more(none, none));
        let first = progress.step(amount(7), none, None, &[]);
        assert!(progress.has_more(amount(10), none));
        let second = progress.step(amount(10), amount(3), None, &[]);
        assert!(!progress.has_more(amount(10), amount(3)));
        assert_eq!(first.sent.amount.bytes + second.sent.amount.bytes, 10);
        assert_eq!(second.received.amount, amount(3));
        assert!(first.end <= second.start);
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
