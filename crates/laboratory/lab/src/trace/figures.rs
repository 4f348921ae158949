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
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut row = |id: &str, label: &str, unit: &str, value: f64| {
            rows.push(Row::new(id, label, unit).measured(&[value]));
        };
        for (id, path) in &self.paths {
            let (n, remote) = (id.0, &path.remote);
            let largest = path.cwnd.iter().map(|p| p.y).fold(0.0, f64::max);
            let count = |points: &[Point]| points.len() as f64;
            for (id, label, unit, value) in [
                ("first", "first transmissions", "chunks", count(&path.first)),
                ("again", "retransmissions", "chunks", count(&path.again)),
                (
                    "timeouts",
                    "expirations of T3-rtx",
                    "timeouts",
                    count(&path.timeouts),
                ),
                ("cwnd", "largest cwnd", "kB", largest),
            ] {
                let label = format!("path {n} ({remote}): {label}");
                row(&format!("path{n}.{id}"), &label, unit, value);
            }
        }
        let losses = "chunks marked as lost before T3-rtx";
        row("losses", losses, "chunks", self.losses.len() as f64);
        let gaps = "chunks acknowledged by gap blocks";
        row("gaps", gaps, "chunks", self.gaps.len() as f64);
        rows
    }

    pub(crate) fn figures(&self, [from, to]: [Duration; 2]) -> Vec<Figure> {
        let time = Figure {
            x: Axis::linear("time", "s").range(from.as_secs_f64(), to.as_secs_f64()),
            ..Figure::default()
        };
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

    fn sequence(&self, time: &Figure) -> Figure {
        let points = |label: &str, style, points: &[Point]| {
            Series::new(label, SeriesKind::Points, style, points.to_vec())
        };
        let acknowledged = "cumulative acknowledgement";
        let cumulative = self.cumulative.clone();
        let mut all = vec![Series::new(acknowledged, SeriesKind::Step, 5, cumulative)];
        for (place, (id, path)) in self.paths.iter().enumerate() {
            let label = format!("first transmission, path {}", id.0);
            all.push(points(&label, 2 * place, &path.first));
        }
        all.push(points("gap acknowledgement", 5, &self.gaps));
        for (place, (id, path)) in self.paths.iter().enumerate() {
            let label = format!("retransmission, path {}", id.0);
            all.push(points(&label, 2 * place + 1, &path.again));
        }
        all.push(points("marked as lost", 4, &self.losses));
        all.retain(|series| !series.points.is_empty());
        Figure {
            id: "sequence".into(),
            title: "TSNs over time".into(),
            caption:
                "Transmissions of chunks and their acknowledgements at the sender; chunks are counted from 1."
                    .into(),
            y: Axis::linear("TSN", "chunks from the first"),
            series: all,
            ..time.clone()
        }
    }

    fn states(&self, time: &Figure) -> Figure {
        let series = self.paths.iter().enumerate().map(|(place, (id, path))| {
            let label = format!("path {} ({})", id.0, path.remote);
            Series::new(label, SeriesKind::Step, place, path.states.clone())
        });
        Figure {
            id: "states".into(),
            title: "States of the paths".into(),
            caption: "States at the sender.".into(),
            y: Axis::named("state", &STATES),
            series: series.collect(),
            ..time.clone()
        }
    }
}

fn windows(id: PathId, path: &PathLog, time: &Figure) -> Figure {
    let both = path.cwnd.iter().chain(&path.outstanding);
    let largest = both.map(|p| p.y).fold(0.0, f64::max);
    // Before the first loss, ssthresh is above the amount of data sent.
    let bounded = |p: &Point| Point::new(p.x, if p.y > 1.5 * largest { f64::NAN } else { p.y });
    let ssthresh = path.ssthresh.iter().map(bounded).collect();
    let timeouts = path.timeouts.clone();
    let mut all = vec![
        Series::new(
            "outstanding",
            SeriesKind::Trace,
            2,
            steps(&path.outstanding),
        ),
        Series::new("cwnd", SeriesKind::Step, 0, path.cwnd.clone()),
        Series::new("ssthresh", SeriesKind::Step, 1, ssthresh),
        Series::new("T3-rtx expired", SeriesKind::Points, 3, timeouts),
    ];
    all.retain(|series| series.points.iter().any(|p| p.y.is_finite()));
    Figure {
        id: format!("path{}-window", id.0),
        title: format!("Windows of path {} ({})", id.0, path.remote),
        caption:
            "Congestion window, slow-start threshold if within the range, and outstanding bytes."
                .into(),
        y: Axis::linear("bytes", "kB").from(0.0),
        series: all,
        ..time.clone()
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

fn times(id: PathId, path: &PathLog, time: &Figure) -> Figure {
    let samples = path.round_trips.clone();
    let mut series = vec![
        Series::new("RTO", SeriesKind::Step, 1, path.rto.clone()),
        Series::new("round trip of data", SeriesKind::Points, 0, samples),
    ];
    series.retain(|series| !series.points.is_empty());
    Figure {
        id: format!("path{}-rtt", id.0),
        title: format!("Round trips of path {} ({})", id.0, path.remote),
        caption: "Round-trip time samples of data, and the retransmission timeout, which heartbeats also update."
            .into(),
        y: Axis::linear("time", "ms").from(0.0),
        series,
        ..time.clone()
    }
}
