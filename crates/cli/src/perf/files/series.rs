//! Statistics over time for the report, in bounded memory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::MeasurementSide;
use crate::perf::delay::DelaySummary;
use crate::perf::interval::Interval;
use crate::perf::request::MeasurementRequest;

/// Maximum number of points of a series. More points than these are merged in pairs.
const MAX_POINTS: usize = 2000;

/// Maximum time of an interval in seconds: a transfer takes at most 24 h, and stalls may prolong it.
const MAX_TIME: f64 = 1e6;

/// Maximum time between two neighbours without an interval in between, as a share of an interval.
const MAX_GAP: f64 = 0.5;

/// Maximum number of series of each kind.
pub(super) const MAX_SERIES: usize = 256;

/// Point of a series that can be merged with the next one.
pub(super) trait MergedPoint: Clone {
    /// Returns start and end of the interval.
    fn interval(&self) -> (f64, f64);

    /// Returns the point of both intervals.
    fn merged(&self, next: &Self) -> Self;

    /// Returns the middle of the interval, where the figures draw it.
    fn time(&self) -> f64 {
        let (start, end) = self.interval();
        f64::midpoint(start, end)
    }
}

/// Points in the order of time.
#[derive(Debug)]
pub(super) struct BoundedSeries<T> {
    points: Vec<T>,
    /// Number of intervals that are merged to each point.
    stride: usize,
    /// Number of intervals in the last point.
    in_last: usize,
}

impl<T> Default for BoundedSeries<T> {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            stride: 1,
            in_last: 0,
        }
    }
}

impl<T: MergedPoint> BoundedSeries<T> {
    pub(super) fn push(&mut self, point: T) {
        if self.in_last > 0 && self.in_last < self.stride {
            if let Some(last) = self.points.last_mut() {
                *last = last.merged(&point);
            }
            self.in_last += 1;
            return;
        }
        if self.points.len() == MAX_POINTS {
            let (pairs, _) = self.points.as_chunks::<2>();
            self.points = pairs
                .iter()
                .map(|[first, next]| first.merged(next))
                .collect();
            self.stride *= 2;
        }
        self.points.push(point);
        self.in_last = 1;
    }

    pub(super) fn points(&self) -> &[T] {
        &self.points
    }

    /// Returns the times and values of the points; those of `None` are left out. A value that is no number is between
    /// points that are no neighbours, so that a line is interrupted there.
    pub(super) fn values(&self, value: impl Fn(&T) -> Option<f64>) -> Vec<(f64, f64)> {
        let mut values = Vec::new();
        let mut end = None;
        for point in &self.points {
            let (start, next_end) = point.interval();
            if let Some(end) = end.replace(next_end)
                && start - end > MAX_GAP * (next_end - start)
            {
                values.push((f64::midpoint(end, start), f64::NAN));
            }
            values.extend(value(point).map(|value| (point.time(), value)));
        }
        values
    }
}

/// Delays of an interval, in seconds. Merged intervals have the exact mean and maximum, and the larger p99.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct DelayPoint {
    messages: u64,
    pub(super) mean: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl From<DelaySummary> for DelayPoint {
    fn from(delay: DelaySummary) -> Self {
        Self {
            messages: delay.messages,
            mean: delay.mean,
            p99: delay.p99,
            max: delay.max,
        }
    }
}

impl DelayPoint {
    fn merged(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (Some(a), Some(b)) = (a, b) else {
            return a.or(b);
        };
        let messages = a.messages.saturating_add(b.messages).max(1);
        let sum = a.mean * a.messages as f64 + b.mean * b.messages as f64;
        Some(Self {
            messages,
            mean: sum / messages as f64,
            p99: a.p99.max(b.p99),
            max: a.max.max(b.max),
        })
    }
}

/// Flow in an interval of its receiver, or of its requester.
#[derive(Clone, Debug)]
pub(super) struct FlowPoint {
    start: f64,
    end: f64,
    bytes: u64,
    pub(super) delay: Option<DelayPoint>,
}

impl FlowPoint {
    pub(super) fn bits_per_second(&self) -> f64 {
        let seconds = self.end - self.start;
        if seconds > 0.0 {
            self.bytes as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }

    /// Returns whether the interval is long enough for a rate: the last one may be much shorter.
    pub(super) fn has_rate(&self, length: f64) -> bool {
        self.end - self.start > 0.5 * length
    }
}

impl MergedPoint for FlowPoint {
    fn interval(&self) -> (f64, f64) {
        (self.start, self.end)
    }

    fn merged(&self, next: &Self) -> Self {
        Self {
            start: self.start,
            end: next.end,
            bytes: self.bytes.saturating_add(next.bytes),
            delay: DelayPoint::merged(self.delay, next.delay),
        }
    }
}

/// Association in an interval of a side that sends.
#[derive(Clone, Debug)]
pub(super) struct SenderPoint {
    start: f64,
    end: f64,
    pub(super) retransmissions: u64,
    pub(super) path: Option<IpAddr>,
    pub(super) path_changes: u64,
}

impl MergedPoint for SenderPoint {
    fn interval(&self) -> (f64, f64) {
        (self.start, self.end)
    }

    fn merged(&self, next: &Self) -> Self {
        Self {
            start: self.start,
            end: next.end,
            retransmissions: self.retransmissions.saturating_add(next.retransmissions),
            path: next.path.or(self.path),
            path_changes: self.path_changes.saturating_add(next.path_changes),
        }
    }
}

/// Association and flow, by their numbers from 1.
pub(super) type FlowKey = (u64, u16);

/// Statistics of a measurement over time.
#[derive(Debug, Default)]
pub(super) struct MeasurementSeries {
    pub(super) data: BTreeMap<FlowKey, BoundedSeries<FlowPoint>>,
    pub(super) responses: BTreeMap<FlowKey, BoundedSeries<FlowPoint>>,
    pub(super) senders: BTreeMap<(u64, MeasurementSide), BoundedSeries<SenderPoint>>,
}

impl MeasurementSeries {
    /// Adds an interval of a side of the association with this number. Flows above the limit, and impossible times, are left
    /// out.
    pub(super) fn interval(
        &mut self,
        (association, side): (u64, MeasurementSide),
        request: &MeasurementRequest,
        interval: &Interval,
    ) {
        // The times of the server are those of a peer.
        if !(0.0..=MAX_TIME).contains(&interval.end)
            || !(0.0..=interval.end).contains(&interval.start)
        {
            return;
        }
        let role = side.role(request);
        for (requested, flow) in request.flows().iter().zip(&interval.flows) {
            let key = (association, flow.flow);
            let point = |bytes, delay: Option<DelaySummary>| FlowPoint {
                start: interval.start,
                end: interval.end,
                bytes,
                delay: delay.map(DelayPoint::from),
            };
            if requested.direction == role.inbound {
                add(&mut self.data, key, point(flow.received.bytes, flow.delay));
            } else if requested.respond.is_some() {
                let point = point(flow.responses.bytes, flow.response_time);
                add(&mut self.responses, key, point);
            }
        }
        let responds = |flow: &crate::perf::flow::Flow| flow.respond.is_some();
        if role.sends || request.flows.iter().any(responds) {
            let point = SenderPoint {
                start: interval.start,
                end: interval.end,
                retransmissions: interval.retransmissions,
                path: interval.path,
                path_changes: interval.path_changes,
            };
            add(&mut self.senders, (association, side), point);
        }
    }

    /// Returns the paths of new data.
    pub(super) fn paths(&self) -> BTreeSet<IpAddr> {
        let points = self.senders.values().flat_map(|own| own.points());
        points.filter_map(|point| point.path).collect()
    }
}

fn add<K: Ord, T: MergedPoint>(all: &mut BTreeMap<K, BoundedSeries<T>>, key: K, point: T) {
    if all.len() < MAX_SERIES || all.contains_key(&key) {
        all.entry(key).or_default().push(point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(start: u32, delay: f64) -> FlowPoint {
        let delay = DelayPoint {
            messages: 1,
            mean: delay,
            p99: delay,
            max: delay,
        };
        FlowPoint {
            start: start.into(),
            end: (start + 1).into(),
            bytes: 125,
            delay: Some(delay),
        }
    }

    /// A day of intervals of 0.1 s: no point is lost, and the rate stays the same.
    #[test]
    fn long_series_are_merged() {
        let mut series = BoundedSeries::default();
        let intervals = 864_000;
        for number in 0..intervals {
            series.push(point(number, f64::from(number % 100)));
        }
        let points = series.points();
        assert!(
            (MAX_POINTS / 2..=MAX_POINTS).contains(&points.len()),
            "{}",
            points.len()
        );
        let bytes: u64 = points.iter().map(|own| own.bytes).sum();
        assert_eq!(bytes, u64::from(intervals) * 125);
        assert!(points[0].start.abs() < 1e-9);
        for pair in points.windows(2) {
            assert!((pair[0].end - pair[1].start).abs() < 1e-9, "{pair:?}");
        }
        for point in points {
            assert!((point.bits_per_second() - 1000.0).abs() < 1e-6);
        }
        let delay = points[0].delay.unwrap();
        assert!((delay.max - 99.0).abs() < 1e-9 && delay.p99 <= delay.max);
    }

    #[test]
    fn short_series_are_not_merged() {
        let mut series = BoundedSeries::default();
        (0..MAX_POINTS as u32).for_each(|number| series.push(point(number, 1.0)));
        assert_eq!(series.points().len(), MAX_POINTS);
    }

    #[test]
    fn merged_delays_have_their_mean() {
        let [mut a, b] = [point(0, 1.0), point(1, 4.0)];
        a.delay.as_mut().unwrap().messages = 2;
        let merged = a.merged(&b).delay.unwrap();
        assert!((merged.mean - 2.0).abs() < 1e-9 && (merged.max - 4.0).abs() < 1e-9);
        let without = FlowPoint { delay: None, ..b };
        assert_eq!(a.merged(&without).delay, a.delay);
    }
}
