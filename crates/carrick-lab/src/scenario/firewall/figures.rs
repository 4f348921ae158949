//! Figures: the paper's Fig. 10 and 11, and quantiles.

use super::rows::QUANTILES;
use super::setup::{BEST, Cell, LOSSES, PAPER, STREAMS, TCP};
use super::{Observation, Observed};
use crate::figure::{Axis, Figure, Point, Series, SeriesKind};
use crate::stats::Summary;

/// Largest response time drawn over the loss, in ms.
const HIGHEST: f64 = 120.0;

/// Returns all figures, in order.
pub(super) fn figures(observed: &Observed) -> Vec<Figure> {
    // The quantiles share one axis for comparison.
    let last = QUANTILES[QUANTILES.len() - 1].0;
    let all = observed.observations.iter();
    let highest = all.map(|o| o.quantile(last)).fold(100.0, f64::max);
    let highest = 10f64.powf(highest.log10().ceil());
    let mut figures = vec![over_loss(observed), over_streams(observed)];
    figures.extend(QUANTILES.map(|which| quantile(observed, which, highest)));
    figures
}

fn measured(observation: &Observation, x: f64) -> Point {
    let summary = Summary::of(&observation.means());
    Point {
        x,
        y: summary.map_or(f64::NAN, |s| s.mean),
        error: summary.and_then(|s| s.ci95).unwrap_or(0.0),
    }
}

/// Returns a thin curve of the model; the legend contains the first one.
fn modelled(label: &str, style: usize, points: Vec<Point>) -> Series {
    let series = Series::new(
        format!("model (thin), {label}"),
        SeriesKind::Trace,
        style,
        points,
    );
    if style == 0 {
        series
    } else {
        series.unlisted()
    }
}

/// Response time over loss, for several numbers of streams.
fn over_loss(observed: &Observed) -> Figure {
    let shown = [1, 2, 4, 6];
    let curve = |(style, streams): (usize, u16)| {
        let percent = |loss: &u32| f64::from(*loss) / 10.0;
        let points = LOSSES.iter().filter_map(|loss| {
            let observation = observed.find(&PAPER, *loss, streams)?;
            Some(measured(observation, percent(loss)))
        });
        let model = (0..=100).map(|loss| Cell { loss, streams });
        let label = match streams {
            1 => "1 stream".into(),
            n => format!("{n} streams"),
        };
        let model = model.map(|cell| Point::new(cell.percent(), cell.model()));
        [
            modelled(&label, style, model.collect()),
            Series::new(label, SeriesKind::ErrorBars, style, points.collect()),
        ]
    };
    let tcp = LOSSES.iter().filter_map(|loss| {
        let observation = observed.find(&TCP, *loss, 1)?;
        Some(measured(observation, f64::from(*loss) / 10.0))
    });
    // Larger values of TCP are outside of the figure, as in the paper.
    let shown_tcp = tcp.filter(|point| point.y <= HIGHEST);
    let tcp = Series::new(
        "TCP",
        SeriesKind::ErrorBars,
        shown.len(),
        shown_tcp.collect(),
    );
    Figure {
        id: "response-over-loss".into(),
        title: "SIMCO response time over packet loss (the paper’s Fig. 10)".into(),
        caption:
            "Mean response time of PER requests with its 95 % confidence interval. Thin lines: the \
                  model, equation (4). TCP is drawn up to 120 ms."
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

/// Response time over the number of streams, for several loss rates.
fn over_streams(observed: &Observed) -> Figure {
    let curve = |(style, loss): (usize, u32)| {
        let points = STREAMS.iter().filter_map(|streams| {
            let observation = observed.find(&PAPER, loss, *streams)?;
            Some(measured(observation, f64::from(*streams)))
        });
        let model = (1..=10).map(|streams| Cell { loss, streams });
        let label = format!("{} % loss", f64::from(loss) / 10.0);
        let model = model.map(|cell| Point::new(f64::from(cell.streams), cell.model()));
        [
            modelled(&label, style, model.collect()),
            Series::new(label, SeriesKind::ErrorBars, style, points.collect()),
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

/// Quantile over loss: SCTP with one stream and with six, and TCP.
fn quantile(observed: &Observed, (share, name): (f64, &str), highest: f64) -> Figure {
    let shown = [
        ("SCTP, 1 stream", &PAPER, 1),
        ("SCTP, 6 streams", &PAPER, 6),
        ("best settings, 6 streams", &BEST, 6),
        ("TCP", &TCP, 1),
    ];
    let series = shown.into_iter().enumerate();
    let series = series.map(|(style, (label, variant, streams))| {
        let points = LOSSES.iter().filter_map(|loss| {
            let observation = observed.find(variant, *loss, streams)?;
            let percent = f64::from(*loss) / 10.0;
            Some(Point::new(percent, observation.quantile(share)))
        });
        Series::new(label, SeriesKind::ErrorBars, style, points.collect())
    });
    Figure {
        id: format!("response-quantile-{}", name.replace('.', "-")),
        title: format!("SIMCO response time: {name} % quantile"),
        caption: format!(
            "{name} % quantile of the response times of PER requests over all repetitions."
        ),
        x: Axis::linear("packet loss", "%").range(0.0, 10.0),
        y: Axis::log("response time", "ms").range(10.0, highest),
        series: series.collect(),
        references: Vec::new(),
    }
}
