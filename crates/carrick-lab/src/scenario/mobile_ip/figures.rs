//! Figures: throughput over loss, and deliveries during changes of the network.

use super::rows::{PUBLISHED_ONE, PUBLISHED_TCP, PUBLISHED_TWO, move_label};
use super::run::Configuration;
use super::setup::{LOSSES, Stack, capacity, direct_capacity, square_root_law};
use super::{FAILURE_STACKS, Job, MOVES, Observed};
use crate::figure::{Axis, Figure, Point, Reference, Series, SeriesKind};
use crate::format::measured;
use crate::stats::Summary;

/// End of the figure of the failure in s: later than the end of a transfer without a failure.
pub(super) const FAILURE_END: f64 = 180.0;
/// Maximum number of points of a curve.
const POINTS: usize = 600;

/// Returns all figures, in order.
pub(super) fn figures(observed: &Observed) -> Vec<Figure> {
    vec![
        throughput(observed),
        both_links(observed),
        failure(observed),
        handovers(
            observed,
            Stack::Standard,
            "handovers-standard",
            "Handovers with RFC 9260’s settings",
            4.0,
        ),
        handovers(
            observed,
            Stack::Best,
            "handovers-best",
            "Handovers with the best settings",
            1.0,
        ),
    ]
}

/// Throughput of a job over the loss.
fn carried(observed: &Observed, label: &str, style: usize, job: &dyn Fn(f64) -> Job) -> Series {
    let points = LOSSES.iter().filter_map(|loss| {
        let values = observed.values(job(*loss), |m| m.throughput);
        let summary = Summary::of(&values)?;
        Some(Point {
            x: loss * 100.0,
            y: summary.mean,
            error: summary.ci95.unwrap_or(0.0),
        })
    });
    Series::new(label, SeriesKind::ErrorBars, style, points.collect())
}

/// The stack's own settings with new data on one link and on both.
fn both_links(observed: &Observed) -> Figure {
    let transfer = |stack| move |loss| Job::Transfer(Configuration::Two, stack, loss);
    let bound = LOSSES.map(|loss| {
        let carried = capacity() * (1.0 - loss) + direct_capacity();
        Point::new(loss * 100.0, carried)
    });
    Figure {
        id: "both-links".into(),
        title: "Best settings: new data on one link and on both".into(),
        caption: "12 MB to the mobile node, with 95 % confidence intervals. The second link has no loss; the bound is the rate of \
                   user data on both links, less the loss on the first."
            .into(),
        x: Axis::linear("loss on the first link", "%").range(0.0, 5.5),
        y: Axis::linear("throughput", "Mbit/s").range(0.0, 3.25),
        series: vec![
            carried(observed, "both links", 2, &transfer(Stack::Concurrent)),
            carried(observed, "one link", 0, &transfer(Stack::Best)),
            Series::new("bound", SeriesKind::Line, 7, bound.to_vec()),
        ],
        references: Vec::new(),
    }
}

fn throughput(observed: &Observed) -> Figure {
    let curve = |label: &str, style, job: &dyn Fn(f64) -> Job| carried(observed, label, style, job);
    let published = |label: &str, style, values: [Option<f64>; 4]| {
        let points = LOSSES.iter().zip(values);
        let points = points.filter_map(|(loss, value)| Some(Point::new(loss * 100.0, value?)));
        Series::new(label, SeriesKind::Points, style, points.collect())
    };
    // Up to the capacity of the link.
    let law = (1..=55).map(|tenths| f64::from(tenths) / 10.0);
    let law =
        law.map(|percent| Point::new(percent, square_root_law(percent / 100.0).min(capacity())));
    Figure {
        id: "throughput".into(),
        title: "Throughput over loss (the paper’s Tables 1 and 2)".into(),
        caption: "12 MB to the mobile node. Curves: measured, with 95 % confidence intervals. Marks only: \
                   published. √(1.5/p): throughput of a window that is halved on each loss, with a round trip without queueing."
            .into(),
        x: Axis::linear("loss", "%").range(0.0, 5.5),
        y: Axis::linear("throughput", "Mbit/s").range(0.0, 1.75),
        series: vec![
            curve("configuration 1", 0, &|loss| {
                Job::Transfer(Configuration::One, Stack::Paper, loss)
            }),
            curve("configuration 2", 1, &|loss| {
                Job::Transfer(Configuration::Two, Stack::Paper, loss)
            }),
            curve("best settings, one link", 2, &|loss| {
                Job::Transfer(Configuration::Two, Stack::Best, loss)
            }),
            curve("TCP", 6, &Job::Tcp),
            Series::new("√(1.5/p) per round trip", SeriesKind::Line, 7, law.collect()),
            published("published, configuration 1", 3, PUBLISHED_ONE.map(Some)),
            published("published, configuration 2", 4, PUBLISHED_TWO),
            published("published, TCP", 5, PUBLISHED_TCP.map(Some)),
        ],
        references: vec![Reference {
            y: capacity(),
            label: format!("capacity of one link {}", measured(capacity())),
        }],
    }
}

/// Deliveries in the first repetition as a curve, scaled and reduced.
fn progress(
    observed: &Observed,
    job: Job,
    label: &str,
    style: usize,
    (range, unit): ([f64; 2], f64),
) -> Series {
    let first = observed.of(job).first();
    let points = first.map_or(&[][..], |m| &m.progress);
    let shown = |p: &&(f64, f64)| (range[0]..=range[1]).contains(&p.0);
    let points: Vec<(f64, f64)> = points.iter().filter(shown).copied().collect();
    let step = points.len().div_ceil(POINTS).max(1);
    // The ends of a delivery gap are always kept.
    let kept = |n: &usize| {
        let near = |m: usize| points.get(m).map(|p| p.0);
        let lone = match (near(n.wrapping_sub(1)), near(*n), near(n + 1)) {
            (Some(before), Some(now), Some(after)) => now - before > 0.1 || after - now > 0.1,
            _ => true,
        };
        n.is_multiple_of(step) || lone
    };
    // The value remains until the next delivery, which may not occur.
    let held = points.last().map(|p| (range[1], p.1));
    let points = (0..points.len()).filter(kept).map(|n| points[n]);
    let points = points.chain(held).map(|(x, y)| Point::new(x, y / unit));
    Series::new(label, SeriesKind::Step, style, points.collect())
}

fn failure(observed: &Observed) -> Figure {
    let series = FAILURE_STACKS
        .into_iter()
        .enumerate()
        .map(|(style, stack)| {
            let scale = ([-5.0, FAILURE_END], 1000.0);
            progress(observed, Job::Failure(stack), stack.label(), style, scale)
        });
    Figure {
        id: "failure".into(),
        title: "Configuration 3: the primary path fails".into(),
        caption: "Messages delivered since the failure, in the first repetition. With SACKs sent to the other \
                   path on duplicates, no further message is delivered until the association is lost."
            .into(),
        x: Axis::linear("time since the failure", "s").range(-5.0, FAILURE_END),
        y: Axis::linear("messages delivered", "thousands").from(-1.0),
        series: series.collect(),
        references: Vec::new(),
    }
}

fn handovers(observed: &Observed, stack: Stack, id: &str, title: &str, end: f64) -> Figure {
    let series = MOVES.into_iter().enumerate().map(|(style, kind)| {
        let job = Job::Handover(kind, stack);
        progress(observed, job, move_label(kind), style, ([-0.25, end], 1.0))
    });
    Figure {
        id: id.into(),
        title: title.into(),
        caption: "Messages of the steady flow delivered since the event, in the first repetition. Time 0: the node leaves the first \
                   network, or that network fails; with make before break, the second network becomes available at this time."
            .into(),
        x: Axis::linear("time since the event", "s").range(-0.25, end),
        y: Axis::linear("messages delivered", "").from(-50.0),
        series: series.collect(),
        references: Vec::new(),
    }
}
