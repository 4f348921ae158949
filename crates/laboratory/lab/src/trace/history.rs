//! History of an association: its events in chronological order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carrick_proto::{AssociationId, ObservedEvent, PathId, Time, Tsn};

use crate::figure::Point;
use carrick_hosts::sctp::EventLog;

/// History of one path.
#[derive(Debug, Default)]
pub(super) struct PathLog {
    /// Address of the peer.
    pub(super) remote: String,
    /// First transmissions: time in s and number of the chunk.
    pub(super) first: Vec<Point>,
    pub(super) again: Vec<Point>,
    pub(super) cwnd: Vec<Point>,
    pub(super) ssthresh: Vec<Point>,
    pub(super) outstanding: Vec<Point>,
    pub(super) round_trips: Vec<Point>,
    pub(super) rto: Vec<Point>,
    pub(super) timeouts: Vec<Point>,
    pub(super) states: Vec<Point>,
}

/// History of an association.
#[derive(Debug, Default)]
pub(crate) struct AssociationHistory {
    pub(super) paths: BTreeMap<PathId, PathLog>,
    /// Highest cumulatively acknowledged chunk.
    pub(super) cumulative: Vec<Point>,
    /// Chunks acknowledged by Gap Ack Blocks.
    pub(super) gaps: Vec<Point>,
    pub(super) losses: Vec<Point>,
    /// Acknowledged chunks above the cumulative one.
    pub(super) above: BTreeSet<u32>,
    /// First chunk that is not acknowledged.
    pub(super) next: u32,
    pub(super) first: Option<Tsn>,
}

impl AssociationHistory {
    /// Reads the history of an association in a time range from a log.
    pub(crate) fn of(log: &EventLog, id: AssociationId, [from, to]: [Duration; 2]) -> Self {
        let mut history = Self::default();
        let within = |time: Time| (from..=to).contains(&time.since(Time::ZERO));
        for change in log.states.iter().filter(|own| own.association == id) {
            let path = history.paths.entry(change.path).or_default();
            path.remote = change.remote.to_string();
            // The first of the states has number 1.
            let value = f64::from(change.state as u8 + 1);
            let point = Point::new(change.time.as_secs_f64(), value);
            path.states.push(point);
        }
        for record in log.records.iter().filter(|own| own.association == id) {
            history.take(record.time, &record.event, within(record.time));
        }
        let range = [from, to].map(|time| time.as_secs_f64());
        for path in history.paths.values_mut() {
            let lists = [
                &mut path.states,
                &mut path.cwnd,
                &mut path.ssthresh,
                &mut path.outstanding,
                &mut path.rto,
            ];
            for list in lists {
                keep(list, range);
            }
        }
        history
    }

    /// Returns the number of a chunk, counted from 1.
    fn number(&mut self, tsn: Tsn) -> u32 {
        let first = *self.first.get_or_insert(tsn);
        tsn.since(first).wrapping_add(1)
    }

    fn take(&mut self, time: Time, event: &ObservedEvent, shown: bool) {
        let at = |y: f64| Point::new(time.as_secs_f64(), y);
        match *event {
            ObservedEvent::ChunkAcknowledged { tsn } => {
                let number = self.number(tsn);
                self.acknowledged(number, at, shown);
            }
            ObservedEvent::LossDetected { tsn, .. } => {
                let number = self.number(tsn);
                if shown {
                    self.losses.push(at(f64::from(number)));
                }
            }
            ObservedEvent::ChunkSent {
                tsn,
                path,
                transmission,
                ..
            } => {
                let number = at(f64::from(self.number(tsn)));
                self.path(path, shown, |path| match transmission {
                    0 | 1 => path.first.push(number),
                    _ => path.again.push(number),
                });
            }
            ObservedEvent::Timeout { path } => {
                self.path(path, shown, |path| path.timeouts.push(at(0.0)));
            }
            ObservedEvent::Window {
                path,
                cwnd,
                ssthresh,
                flight_size,
            } => self.path(path, true, |path| {
                let kilobytes = |bytes: usize| at(bytes as f64 / 1e3);
                changed(&mut path.cwnd, kilobytes(cwnd));
                changed(&mut path.ssthresh, kilobytes(ssthresh));
                changed(&mut path.outstanding, kilobytes(flight_size));
            }),
            ObservedEvent::RoundTrip { path, sample } => {
                let sample = at(sample.as_nanos() as f64 / 1e6);
                self.path(path, shown, |path| path.round_trips.push(sample));
            }
            ObservedEvent::Rto { path, rto } => {
                let rto = at(rto.as_nanos() as f64 / 1e6);
                self.path(path, true, |path| path.rto.push(rto));
            }
            _ => {}
        }
    }

    /// Adds to the log of a path, if it exists and the event is shown.
    fn path(&mut self, path: PathId, shown: bool, add: impl FnOnce(&mut PathLog)) {
        if let Some(path) = self.paths.get_mut(&path).filter(|_| shown) {
            add(path);
        }
    }

    /// Records the acknowledgement of a chunk: by the Cumulative TSN Ack if all before are
    /// acknowledged, else by a Gap Ack Block.
    fn acknowledged(&mut self, number: u32, at: impl Fn(f64) -> Point, shown: bool) {
        self.above.insert(number);
        let before = self.next;
        while self.above.remove(&(self.next + 1)) {
            self.next += 1;
        }
        if !shown {
            return;
        }
        if self.next > before {
            // Several chunks of one SACK form one step.
            let point = at(f64::from(self.next));
            match self.cumulative.last_mut() {
                Some(last) if last.x.to_bits() == point.x.to_bits() => *last = point,
                _ => self.cumulative.push(point),
            }
        } else {
            self.gaps.push(at(f64::from(number)));
        }
    }
}

/// Clips a list of values, each valid until the next one, to a time range: the value in effect at
/// the start is kept, and the last one is valid until the end.
fn keep(points: &mut Vec<Point>, [from, to]: [f64; 2]) {
    points.retain(|point| point.x <= to);
    let before = points.partition_point(|point| point.x < from);
    points.drain(..before.saturating_sub(1));
    if let Some(first) = points.first_mut() {
        first.x = first.x.max(from);
    }
    if let Some(last) = points.last().copied() {
        points.push(Point::new(to, last.y));
    }
}

/// Adds a point if the value changed.
fn changed(points: &mut Vec<Point>, point: Point) {
    match points.last_mut() {
        Some(last) if last.y.to_bits() == point.y.to_bits() => {}
        Some(last) if last.x.to_bits() == point.x.to_bits() => *last = point,
        _ => points.push(point),
    }
}
