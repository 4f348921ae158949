//! Figures: the paper's Fig. 3 and 4, and false failovers under congestion.

use super::Observed;
use super::rows::{PUBLISHED, TRANSFER_BOUND, false_failovers, values};
use super::run::Failover;
use super::setup::{BEST, LOADS, Load, PATH_MAX_RETRANS, VARIANTS, Variant};
use crate::figure::{Axis, Figure, Point, Reference, Series, SeriesKind, distributed};
use crate::stats::{Sorted, Summary, mean};

/// Returns all figures, in order.
pub(super) fn figures(observed: &Observed) -> Vec<Figure> {
    vec![
        failover(observed),
        transfer(observed),
        distribution(observed),
        trade(observed),
    ]
}

fn retrans(index: usize) -> f64 {
    f64::from(PATH_MAX_RETRANS[index])
}

fn measured(observed: &Observed, value: fn(&Failover) -> f64) -> Vec<Point> {
    let cells = observed.quiet.iter().take(PATH_MAX_RETRANS.len());
    let points = cells.enumerate().filter_map(|(index, cell)| {
        let summary = Summary::of(&values(cell, |f| Some(value(f))))?;
        Some(Point {
            x: retrans(index),
            y: summary.mean,
            error: summary.ci95.unwrap_or(0.0),
        })
    });
    points.collect()
}

fn best(observed: &Observed, value: fn(&Failover) -> f64) -> Option<f64> {
    let index = VARIANTS.iter().position(|v| v.id == BEST.id)?;
    mean(&values(&observed.quiet[index], |f| Some(value(f))))
}

fn published(groups: usize, value: impl Fn(usize, usize) -> f64) -> Vec<Point> {
    let all = (0..PATH_MAX_RETRANS.len()).flat_map(|i| (0..groups).map(move |g| (i, g)));
    all.map(|(i, g)| Point::new(retrans(i), value(i, g)))
        .collect()
}

fn level(y: f64) -> Vec<Point> {
    vec![Point::new(retrans(0), y), Point::new(retrans(3), y)]
}

fn failover(observed: &Observed) -> Figure {
    let bounds = (0..4).map(|i| Point::new(retrans(i), VARIANTS[i].bound()));
    Figure {
        id: "failover-time".into(),
        title: "Failover time over Path.Max.Retrans (the paper’s Fig. 3)".into(),
        caption: "Mean of all repetitions with its 95 % confidence interval; the published times of the groups A, B \
                  and C; the sum of the timeouts; and the limit of ITU-T Q.706."
            .into(),
        x: Axis::linear("Path.Max.Retrans", "").range(1.5, 5.5),
        y: Axis::linear("failover time", "ms").range(0.0, 1000.0),
        series: vec![
            Series::new("measured", SeriesKind::ErrorBars, 0, measured(observed, |f| f.time)),
            Series::new(
                "published",
                SeriesKind::Points,
                1,
                published(3, |i, g| PUBLISHED[i].failover[g]),
            ),
            Series::new("bound", SeriesKind::Line, 2, bounds.collect()),
            Series::new(
                "best settings",
                SeriesKind::Line,
                4,
                best(observed, |f| f.time).map(level).unwrap_or_default(),
            ),
        ],
        references: vec![Reference {
            y: 800.0,
            label: "Q.706: 800".into(),
        }],
    }
}

fn transfer(observed: &Observed) -> Figure {
    let limit = |y: f64| Reference {
        y,
        label: format!("ISUP/TCAP: {y}"),
    };
    Figure {
        id: "transfer-time".into(),
        title: "Longest transfer of a message over Path.Max.Retrans (the paper’s Fig. 4)".into(),
        caption: "From SEND to delivery; mean of all repetitions with its 95 % confidence interval, the published \
                  times of the groups, the bound (RTO.Max and propagation), and the range of the limits for ISUP and TCAP."
            .into(),
        x: Axis::linear("Path.Max.Retrans", "").range(1.5, 5.5),
        y: Axis::linear("longest transfer", "ms").range(0.0, 1100.0),
        series: vec![
            Series::new("measured", SeriesKind::ErrorBars, 0, measured(observed, |f| f.max_transfer)),
            Series::new(
                "published",
                SeriesKind::Points,
                1,
                published(2, |i, g| PUBLISHED[i].transfer[g]),
            ),
            Series::new("bound", SeriesKind::Line, 2, level(TRANSFER_BOUND)),
            Series::new(
                "best settings",
                SeriesKind::Line,
                4,
                best(observed, |f| f.max_transfer).map(level).unwrap_or_default(),
            ),
        ],
        references: vec![limit(600.0), limit(1000.0)],
    }
}

/// Distribution of the failover times of single failures.
fn distribution(observed: &Observed) -> Figure {
    let paper = |index: usize| {
        (
            index,
            format!("Path.Max.Retrans {}", PATH_MAX_RETRANS[index]),
        )
    };
    let best = VARIANTS.iter().position(|v| v.id == BEST.id);
    let shown = (0..PATH_MAX_RETRANS.len()).map(paper);
    let shown = shown.chain(best.map(|index| (index, BEST.label.into())));
    let series = shown.enumerate().map(|(style, (index, label))| {
        let times = values(&observed.quiet[index], |f| Some(f.time));
        distributed(&label, style, &Sorted::new(times))
    });
    Figure {
        id: "failover-distribution".into(),
        title: "Failover time: empirical distribution function".into(),
        caption: "Distribution over all path failures, without cross traffic; the steps are the cases A, B and C.".into(),
        x: Axis::linear("failover time", "ms").range(0.0, 1000.0),
        y: Axis::linear("proportion", "").range(0.0, 1.0),
        series: series.collect(),
        references: Vec::new(),
    }
}

/// Failover time against false failovers.
fn trade(observed: &Observed) -> Figure {
    let congested = LOADS.iter().position(|load| *load == Load::Congested);
    let cells = congested.map_or(&[][..], |index| &observed.loaded[index]);
    let point = |(index, variant): (usize, &Variant)| {
        let time = mean(&values(&observed.quiet[index], |f| Some(f.time)))?;
        let rate = Summary::of(&false_failovers(cells.get(index)?))?;
        let point = Point {
            x: time,
            y: rate.mean,
            error: rate.ci95.unwrap_or(0.0),
        };
        let label = if index < PATH_MAX_RETRANS.len() {
            "Path.Max.Retrans 2, 3, 4, 5"
        } else {
            variant.label
        };
        Some((label, point))
    };
    let mut all: Vec<Series> = Vec::new();
    for (label, point) in VARIANTS.iter().enumerate().filter_map(point) {
        match all.iter_mut().find(|s| s.label == label) {
            Some(known) => known.points.push(point),
            None => all.push(Series::new(
                label,
                SeriesKind::ErrorBars,
                all.len(),
                vec![point],
            )),
        }
    }
    Figure {
        id: "false-failovers".into(),
        title: "Failover time and false failovers under congestion".into(),
        caption: "Failover time without cross traffic, and the rate at which data leaves the primary path under congestion \
                   without a path failure, with the 95 % confidence interval."
            .into(),
        x: Axis::linear("failover time", "ms").range(0.0, 1000.0),
        y: Axis::linear("false failovers", "1/min").from(0.0),
        series: all,
        references: Vec::new(),
    }
}
