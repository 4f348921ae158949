//! Figures of the paper, by their numbers.

use super::model;
use super::rows::{model_share, uncounted_goodput, yield_of};
use super::run::Shares;
use super::setup::{FLOW_SIZES, FULL, RATE, WINDOW, place, sizes};
use super::{FlowCell, Observed, Pair};
use crate::figure::{Axis, Figure, Point, Reference, Series, SeriesKind};
use crate::stats::Summary;

/// Returns all figures, in order.
pub(super) fn figures(observed: &Observed) -> Vec<Figure> {
    let ids = |list: &[&str]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
    let extras = super::setup::EXTRA.map(|extra| format!("extra{extra}"));
    vec![
        transport(observed),
        goodput(
            observed,
            false,
            "goodput-uncounted",
            "Goodput, headers not counted (the paper’s Fig. 3)",
        ),
        goodput(
            observed,
            true,
            "goodput-counted",
            "Goodput, headers counted (the paper’s Fig. 4)",
        ),
        fairness(observed),
        ratio(
            observed,
            "hidden-memory",
            "Memory not reflected in the window (the paper’s Fig. 5)",
            &extras,
        ),
        ratio(
            observed,
            "silly-windows",
            "Silly window avoidance with 50 bytes not shown (the paper’s Fig. 6)",
            &ids(&[
                "extra50",
                "extra50.sws-sender",
                "extra50.sws-receiver",
                "extra50.sws-none",
                "extra50.sws-receiver-no-nagle",
                "extra50.sws-none-no-nagle",
            ]),
        ),
        ratio(
            observed,
            "true-window",
            "True window (the paper’s Fig. 7), and the default",
            &ids(&[
                "memory-left.sws-both",
                "true.sws-both",
                "true.sws-none",
                "true.sws-both-no-nagle",
                "true.sws-none-no-nagle",
                "best",
                "best-as-it-is",
            ]),
        ),
        accepted(observed),
    ]
}

fn point(x: usize, values: &[f64]) -> Option<Point> {
    let summary = Summary::of(values)?;
    Some(Point {
        x: x as f64,
        y: summary.mean,
        error: summary.ci95.unwrap_or(0.0),
    })
}

fn over_sizes(observed: &Observed, sharing: usize, value: impl Fn(&Shares) -> f64) -> Vec<Point> {
    let values = |pair: &Pair| {
        let values: Vec<f64> = pair.shares[sharing].iter().map(&value).collect();
        point(pair.size, &values)
    };
    observed.pairs.iter().filter_map(values).collect()
}

fn modelled(value: impl Fn(usize) -> f64) -> Vec<Point> {
    sizes()
        .map(|size| Point::new(size as f64, value(size)))
        .collect()
}

fn kbits(bits: f64) -> f64 {
    bits / 1e3
}

fn transport(observed: &Observed) -> Figure {
    let rate = RATE as f64 / 1e3;
    Figure {
        id: "transport".into(),
        title: "Link usage of small messages (the paper’s Fig. 2)".into(),
        caption: "All bytes on the link, headers and retransmissions included, with 95 % confidence intervals. Dashed without \
                   marks: equation (6) for two equal windows; the line is half of the link rate."
            .into(),
        x: Axis::linear("message size", "byte").range(0.0, 210.0),
        y: Axis::linear("throughput", "kbit/s").range(0.0, rate),
        series: vec![
            Series::new("headers counted", SeriesKind::ErrorBars, 0, over_sizes(observed, place::COUNTED, |s| kbits(s.network[0]))),
            Series::new("not counted", SeriesKind::ErrorBars, 1, over_sizes(observed, place::UNCOUNTED, |s| kbits(s.network[0]))),
            Series::new(
                "not counted, random delays",
                SeriesKind::ErrorBars,
                3,
                over_sizes(observed, place::DELAYED, |s| kbits(s.network[0])),
            ),
            Series::new(
                "equation (6)",
                SeriesKind::Line,
                2,
                modelled(|size| rate * model_share(size, false) / 100.0),
            ),
        ],
        references: vec![Reference {
            y: rate / 2.0,
            label: "half".into(),
        }],
    }
}

fn goodput(observed: &Observed, counted: bool, id: &str, title: &str) -> Figure {
    let half = RATE as f64 / 2e3;
    let sharing = if counted {
        place::COUNTED
    } else {
        place::UNCOUNTED
    };
    let mut series = vec![
        Series::new(
            "small messages",
            SeriesKind::ErrorBars,
            0,
            over_sizes(observed, sharing, |s| kbits(s.application[0])),
        ),
        Series::new(
            "TCP-like flow",
            SeriesKind::ErrorBars,
            1,
            over_sizes(observed, sharing, |s| kbits(s.application[1])),
        ),
        Series::new(
            "even share, small",
            SeriesKind::Line,
            2,
            modelled(|size| half * yield_of(size)),
        ),
        Series::new(
            "even share, TCP-like",
            SeriesKind::Line,
            3,
            modelled(|_| half * yield_of(FULL)),
        ),
    ];
    if !counted {
        let rates = |flow: usize| modelled(move |size| kbits(uncounted_goodput(size)[flow]));
        series.push(Series::new(
            "equation (7), small",
            SeriesKind::Line,
            4,
            rates(0),
        ));
        series.push(Series::new(
            "equation (7), TCP-like",
            SeriesKind::Line,
            5,
            rates(1),
        ));
    }
    Figure {
        id: id.into(),
        title: title.into(),
        caption: format!(
            "User data delivered, with 95 % confidence intervals, and the rate with an equal share of the link by \
                     equations (4) and (5).{} The steps result from padding and from the number of chunks in a packet.",
            if counted {
                ""
            } else {
                " Equation (7): rate of two equal windows without headers, with their link usage by equation (6)."
            }
        ),
        x: Axis::linear("message size", "byte").range(0.0, 210.0),
        y: Axis::linear("goodput", "kbit/s").range(0.0, 700.0),
        series,
        references: Vec::new(),
    }
}

fn fairness(observed: &Observed) -> Figure {
    Figure {
        id: "fairness".into(),
        title: "Jain’s index over the message size".into(),
        caption: "Index of the link usage of the two flows; mean of the repetitions with 95 % confidence intervals.".into(),
        x: Axis::linear("message size", "byte").range(0.0, 210.0),
        y: Axis::linear("Jain’s index", "").range(0.5, 1.0),
        series: vec![
            Series::new("headers counted", SeriesKind::ErrorBars, 0, over_sizes(observed, place::COUNTED, Shares::jain)),
            Series::new("not counted", SeriesKind::ErrorBars, 1, over_sizes(observed, place::UNCOUNTED, Shares::jain)),
            Series::new(
                "a program’s settings, beside the TCP-like flow",
                SeriesKind::ErrorBars,
                2,
                over_sizes(observed, place::BEST, Shares::jain),
            ),
            Series::new(
                "a program’s settings, both flows",
                SeriesKind::ErrorBars,
                3,
                over_sizes(observed, place::BEST_PAIR, Shares::jain),
            ),
        ],
        references: Vec::new(),
    }
}

fn ratios(cell: &FlowCell) -> Vec<Point> {
    let sizes = FLOW_SIZES.iter().zip(&cell.loads);
    let points = sizes.filter_map(|(size, loads)| {
        let values: Vec<f64> = loads.iter().map(|load| load.ratio).collect();
        point(*size, &values)
    });
    points.collect()
}

fn ratio(observed: &Observed, id: &str, title: &str, flows: &[String]) -> Figure {
    let cells = flows.iter().filter_map(|id| observed.flow(id));
    Figure {
        id: id.into(),
        title: title.into(),
        caption: "Bytes of messages sent, retransmissions included, relative to the bytes read by the slow reader, with 95 % \
                   confidence intervals."
            .into(),
        x: Axis::log("message size", "byte").range(10.0, 2000.0),
        y: Axis::linear("transmitted / delivered", "").range(0.9, 2.3),
        series: cells
            .enumerate()
            .map(|(style, cell)| Series::new(&cell.flow.label, SeriesKind::ErrorBars, style, ratios(cell)))
            .collect(),
        references: Vec::new(),
    }
}

fn accepted(observed: &Observed) -> Figure {
    let kernel = |rule: fn(usize, usize) -> usize| -> Vec<Point> {
        let sizes = FLOW_SIZES.iter();
        sizes
            .map(|size| Point::new(*size as f64, rule(WINDOW, *size) as f64))
            .collect()
    };
    let here = |id: &str| -> Vec<Point> {
        let cell = observed.flow(id);
        let accepted = cell.map_or(&[][..], |cell| &cell.accepted);
        let sizes = FLOW_SIZES.iter().zip(accepted);
        sizes
            .map(|(size, n)| Point::new(*size as f64, *n as f64))
            .collect()
    };
    Figure {
        id: "accepted".into(),
        title: "Messages accepted without a reader (the paper’s section 4.2)".into(),
        caption: "With a window of 65,535 bytes: by equations (9) to (11) for kernels of the time, and measured. Equation (9) is used with \
                   the smaller of its limits, and equation (10) is extended above 176 bytes, its upper limit."
            .into(),
        x: Axis::log("message size", "byte").range(10.0, 2000.0),
        y: Axis::log("messages", "").range(10.0, 10_000.0),
        series: vec![
            Series::new("FreeBSD 7.0 (9)", SeriesKind::Line, 1, kernel(model::freebsd)),
            Series::new("Linux 2.6.25 (10)", SeriesKind::Line, 2, kernel(model::linux)),
            Series::new("OpenSolaris (11)", SeriesKind::Line, 3, kernel(model::solaris)),
            Series::new("here, default", SeriesKind::Points, 0, here("best")),
        ],
        references: Vec::new(),
    }
}
