//! The figures: the paper's 10 and 11, and the quantiles.

use super::rows::QUANTILES;
use super::setup::{BEST, Cell, LOSSES, PAPER, STREAMS, TCP};
use super::{Observation, Observed};
use crate::figure::{Axis, Figure, Kind, Point, Series};
use crate::stats::Summary;

/// The longest response time over the loss that is drawn, in ms.
const HIGHEST: f64 = 120.0;

/// All figures, in order.
pub(super) fn figures(observed: &Observed) -> Vec<Figure> {
    vec![
        over_loss(observed),
        over_streams(observed),
        quantiles(observed),
    ]
}

fn measured(observation: &Observation, x: f64) -> Point {
    let summary = Summary::of(&observation.means());
    Point {
        x,
        y: summary.map_or(f64::NAN, |s| s.mean),
        error: summary.and_then(|s| s.ci95).unwrap_or(0.0),
    }
}

/// Response time over loss, with several streams.
fn over_loss(observed: &Observed) -> Figure {
    let shown = [1, 2, 4, 6];
    let curve = |(style, streams): (usize, u16)| {
        let percent = |loss: &u32| f64::from(*loss) / 10.0;
        let points = LOSSES.iter().filter_map(|loss| {
            let observation = observed.find(&PAPER, *loss, streams)?;
            Some(measured(observation, percent(loss)))
        });
        let model = (0..=100).map(|loss| Cell { loss, streams });
        [
            Series {
                label: String::new(),
                kind: Kind::Trace,
                style,
                points: model
                    .map(|cell| Point::new(cell.percent(), cell.model()))
                    .collect(),
            },
            Series {
                label: match streams {
                    1 => "1 stream".into(),
                    n => format!("{n} streams"),
                },
                kind: Kind::ErrorBars,
                style,
                points: points.collect(),
            },
        ]
    };
    let tcp = LOSSES.iter().filter_map(|loss| {
        let observation = observed.find(&TCP, *loss, 1)?;
        Some(measured(observation, f64::from(*loss) / 10.0))
    });
    // Above this TCP leaves the figure, as it does in the paper's.
    let shown_tcp = tcp.filter(|point| point.y <= HIGHEST);
    let tcp = Series {
        label: "TCP".into(),
        kind: Kind::ErrorBars,
        style: shown.len(),
        points: shown_tcp.collect(),
    };
    Figure {
        id: "response-over-loss".into(),
        title: "SIMCO response time over packet loss (the paper’s Fig. 10)".into(),
        caption:
            "Mean response time of PER requests with its 95 % confidence interval. Thin lines: the \
                  model, equation (4). TCP is drawn as far as it stays below 120 ms."
                .into(),
        x: Axis::linear("packet loss", "%").range(0.0, 10.0),
        y: Axis::linear("response time", "ms").from(0.0),
        series: shown
            .into_iter()
            .enumerate()
            .flat_map(curve)
            .chain([tcp])
            .collect(),
        references: Vec::new(),
    }
}

/// Response time over the number of streams, with several losses.
fn over_streams(observed: &Observed) -> Figure {
    let curve = |(style, loss): (usize, u32)| {
        let points = STREAMS.iter().filter_map(|streams| {
            let observation = observed.find(&PAPER, loss, *streams)?;
            Some(measured(observation, f64::from(*streams)))
        });
        let model = (1..=10).map(|streams| Cell { loss, streams });
        [
            Series {
                label: String::new(),
                kind: Kind::Trace,
                style,
                points: model
                    .map(|cell| Point::new(f64::from(cell.streams), cell.model()))
                    .collect(),
            },
            Series {
                label: format!("{} % loss", f64::from(loss) / 10.0),
                kind: Kind::ErrorBars,
                style,
                points: points.collect(),
            },
        ]
    };
    Figure {
        id: "response-over-streams".into(),
        title: "SIMCO response time over the number of streams (the paper’s Fig. 11)".into(),
        caption:
            "Mean response time of PER requests with its 95 % confidence interval. Thin lines: the \
                  model, equation (4)."
                .into(),
        x: Axis::linear("stream pairs", "").range(1.0, 10.0),
        y: Axis::linear("response time", "ms").from(0.0),
        series: [5, 10, 20, 30, 50]
            .into_iter()
            .enumerate()
            .flat_map(curve)
            .collect(),
        references: Vec::new(),
    }
}

/// Quantiles over loss, with one stream and with six.
fn quantiles(observed: &Observed) -> Figure {
    let shown = [(&PAPER, 1), (&PAPER, 6), (&BEST, 6)];
    let named = |variant: &str, streams: u16| match streams {
        1 => format!("{variant}, 1 stream"),
        n => format!("{variant}, {n} streams"),
    };
    let mut series = Vec::new();
    for (style, (share, name)) in QUANTILES.into_iter().enumerate().skip(1) {
        for (variant, streams) in shown {
            let points = LOSSES.iter().filter_map(|loss| {
                let observation = observed.find(variant, *loss, streams)?;
                Some(Point::new(
                    f64::from(*loss) / 10.0,
                    observation.quantile(share),
                ))
            });
            series.push(Series {
                label: format!("{name} %: {}", named(variant.label, streams)),
                kind: if variant.id == BEST.id {
                    Kind::Points
                } else {
                    Kind::Line
                },
                style: 2 * (style - 1) + usize::from(streams != 1),
                points: points.collect(),
            });
        }
    }
    Figure {
        id: "response-quantiles".into(),
        title: "Quantiles of the SIMCO response time".into(),
        caption:
            "90, 99 and 99.9 % quantiles of all PER requests of all repetitions. Marks alone: the \
                  stack’s best settings."
                .into(),
        x: Axis::linear("packet loss", "%").range(0.0, 10.0),
        y: Axis::log("response time", "ms"),
        series,
        references: Vec::new(),
    }
}
