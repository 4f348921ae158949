//! Figures and counts of an association's history.

use std::time::Duration;

use carrick_proto::PathId;

use super::history::{AssociationHistory, PathLog};
use crate::figure::{Axis, Figure, Point, Series, SeriesKind};
use crate::result::Row;

/// States of a path, numbered from 1 in the history.
const STATES: [&str; 5] = [
    "unconfirmed",
    "inactive",
    "potentially failed",
    "active",
    "primary",
];

impl AssociationHistory {
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut row = |id: &str, label: &str, unit: &str, value: f64| {
            rows.push(Row::new(id, label, unit).measured(&[value]));
        };
        for (id, path) in &self.paths {
            let (n, remote) = (id.0, path.remote);
            let mut count = |id: &str, label: &str, unit: &str, values: &[Point]| {
                let label = format!("path {n} ({remote}): {label}");
                row(&format!("path{n}.{id}"), &label, unit, values.len() as f64);
            };
            count("first", "first transmissions", "chunks", &path.first);
            count("again", "retransmissions", "chunks", &path.again);
            count(
                "timeouts",
                "expirations of T3-rtx",
                "timeouts",
                &path.timeouts,
            );
            let most = path.cwnd.iter().map(|p| p.y).fold(0.0, f64::max);
            row(
                &format!("path{n}.cwnd"),
                &format!("path {n} ({remote}): largest cwnd"),
                "kB",
                most,
            );
        }
        row(
            "losses",
            "chunks marked as lost before T3-rtx",
            "chunks",
            self.losses.len() as f64,
        );
        row(
            "gaps",
            "chunks acknowledged by gap blocks",
            "chunks",
            self.gaps.len() as f64,
        );
        rows
    }

    pub(super) fn figures(&self, [from, to]: [Duration; 2]) -> Vec<Figure> {
        let time = Axis::linear("time", "s").range(from.as_secs_f64(), to.as_secs_f64());
        let mut figures = vec![self.sequence(&time)];
        for (id, path) in &self.paths {
            if path.outstanding.iter().any(|p| p.y > 0.0) {
                figures.push(windows(*id, path, &time));
            }
            if !path.rto.is_empty() {
                figures.push(times(*id, path, &time));
            }
        }
        figures.push(self.states(&time));
        figures
    }

    fn sequence(&self, time: &Axis) -> Figure {
        let series = |label: String, kind, style, points: &[Point]| {
            Series::new(label, kind, style, points.to_vec())
        };
        let mut all = Vec::new();
        if !self.cumulative.is_empty() {
            all.push(series(
                "cumulative acknowledgement".into(),
                SeriesKind::Step,
                5,
                &self.cumulative,
            ));
        }
        for (place, (id, path)) in self.paths.iter().enumerate() {
            if !path.first.is_empty() {
                let label = format!("first transmission, path {}", id.0);
                all.push(series(label, SeriesKind::Points, 2 * place, &path.first));
            }
        }
        if !self.gaps.is_empty() {
            all.push(series(
                "gap acknowledgement".into(),
                SeriesKind::Points,
                5,
                &self.gaps,
            ));
        }
        for (place, (id, path)) in self.paths.iter().enumerate() {
            if !path.again.is_empty() {
                let label = format!("retransmission, path {}", id.0);
                all.push(series(
                    label,
                    SeriesKind::Points,
                    2 * place + 1,
                    &path.again,
                ));
            }
        }
        if !self.losses.is_empty() {
            all.push(series(
                "marked as lost".into(),
                SeriesKind::Points,
                4,
                &self.losses,
            ));
        }
        Figure {
            id: "sequence".into(),
            title: "TSNs over time".into(),
            caption:
                "Transmissions of chunks and their acknowledgements at the sender; chunks are counted from 1."
                    .into(),
            x: time.clone(),
            y: Axis::linear("TSN", "chunks from the first"),
            series: all,
            references: Vec::new(),
        }
    }

    fn states(&self, time: &Axis) -> Figure {
        let series = self.paths.iter().enumerate().map(|(place, (id, path))| {
            let label = format!("path {} ({})", id.0, path.remote);
            Series::new(label, SeriesKind::Step, place, path.states.clone())
        });
        Figure {
            id: "states".into(),
            title: "States of the paths".into(),
            caption: "States at the sender.".into(),
            x: time.clone(),
            y: Axis::named("state", &STATES),
            series: series.collect(),
            references: Vec::new(),
        }
    }
}

fn windows(id: PathId, path: &PathLog, time: &Axis) -> Figure {
    let largest = path
        .cwnd
        .iter()
        .chain(&path.outstanding)
        .map(|p| p.y)
        .fold(0.0, f64::max);
    // Before the first loss, ssthresh is above the amount of data sent.
    let bounded: Vec<Point> = path
        .ssthresh
        .iter()
        .map(|p| Point::new(p.x, if p.y > 1.5 * largest { f64::NAN } else { p.y }))
        .collect();
    let mut all = vec![
        Series::new(
            "outstanding",
            SeriesKind::Trace,
            2,
            steps(&path.outstanding),
        ),
        Series::new("cwnd", SeriesKind::Step, 0, path.cwnd.clone()),
    ];
    if bounded.iter().any(|p| p.y.is_finite()) {
        all.push(Series::new("ssthresh", SeriesKind::Step, 1, bounded));
    }
    let timeouts: Vec<Point> = path.timeouts.clone();
    if !timeouts.is_empty() {
        all.push(Series::new(
            "T3-rtx expired",
            SeriesKind::Points,
            3,
            timeouts,
        ));
    }
    Figure {
        id: format!("path{}-window", id.0),
        title: format!("Windows of path {} ({})", id.0, path.remote),
        caption:
            "Congestion window, slow-start threshold if within the range, and outstanding bytes."
                .into(),
        x: time.clone(),
        y: Axis::linear("bytes", "kB").from(0.0),
        series: all,
        references: Vec::new(),
    }
}

/// Returns a thin line that keeps each value until the next point.
fn steps(points: &[Point]) -> Vec<Point> {
    let mut all = Vec::with_capacity(2 * points.len());
    let mut before: Option<Point> = None;
    for point in points {
        all.extend(before.map(|before| Point::new(point.x, before.y)));
        all.push(*point);
        before = Some(*point);
    }
    all
}

fn times(id: PathId, path: &PathLog, time: &Axis) -> Figure {
    let mut series = vec![Series::new("RTO", SeriesKind::Step, 1, path.rto.clone())];
    if !path.round_trips.is_empty() {
        let samples = path.round_trips.clone();
        series.push(Series::new(
            "round trip of data",
            SeriesKind::Points,
            0,
            samples,
        ));
    }
    Figure {
        id: format!("path{}-rtt", id.0),
        title: format!("Round trips of path {} ({})", id.0, path.remote),
        caption: "Round-trip time samples of data, and the retransmission timeout, which heartbeats also update."
            .into(),
        x: time.clone(),
        y: Axis::linear("time", "ms").from(0.0),
        series,
        references: Vec::new(),
    }
}
