//! The figures: delays over message numbers as in the paper, and their distributions.

use super::Observed;
use super::measure::{Measures, Parts, Shown, mean_parts};
use super::setup::{Bound, MODIFIED, STANDARD, UNREDUCED, UNREDUCED_MODIFIED, VARIANTS, Variant};
use super::tcp;
use crate::figure::{Axis, Figure, Kind, Point, Reference, Series};
use crate::format::{given, measured};
use crate::stats::{Sorted, mean};

/// All figures, in order.
pub(super) fn figures(observed: &Observed) -> Vec<Figure> {
    let [standard, modified, ..] = &observed.variants;
    let [_, _, _, unreduced, unreduced_modified] = &observed.variants;
    vec![
        messages(
            "delay-tcp",
            "TCP on W′: delay of each message (the paper’s Fig. 7)",
            (tcp::bound(), &observed.tcp),
            870.0,
        ),
        messages(
            "delay-standard",
            "SCTP: delay of each message (the paper’s Fig. 9)",
            (published_bound(&STANDARD), standard),
            765.0,
        ),
        messages(
            "delay-modified",
            "SCTP with gap reports on W″: delay of each message (the paper’s Fig. 10)",
            (published_bound(&MODIFIED), modified),
            527.0,
        ),
        messages(
            "delay-unreduced",
            "Control: window kept on loss (the paper’s Fig. 9)",
            (published_bound(&UNREDUCED), unreduced),
            765.0,
        ),
        messages(
            "delay-unreduced-modified",
            "Control: window kept, gap reports on W″ (the paper’s Fig. 10)",
            (published_bound(&UNREDUCED_MODIFIED), unreduced_modified),
            527.0,
        ),
        distribution(
            observed,
            "recovery-distribution",
            "Delay of retransmitted messages from the first transmission",
            Parts::recovery,
        ),
        distribution(
            observed,
            "delay-distribution",
            "Delay of retransmitted messages from SEND",
            Parts::delay,
        ),
    ]
}

fn published_bound(variant: &Variant) -> f64 {
    Bound::published(variant).total()
}

/// The delay over the message number in a part of the first repetition.
fn messages(
    id: &str,
    title: &str,
    (bound, measures): (f64, &[Measures]),
    published: f64,
) -> Figure {
    let shown = measures.first().map_or(&[][..], |m| &m.shown);
    let point = |s: &Shown| Point::new(s.number as f64, s.delay);
    let lost: Vec<&Shown> = shown.iter().filter(|s| s.retransmitted).collect();
    let delays: Vec<f64> = lost.iter().map(|s| s.delay).collect();
    let mean = mean(&delays).map(|mean| Reference {
        y: mean,
        label: format!("mean here {}", measured(mean)),
    });
    Figure {
        id: id.into(),
        title: title.into(),
        caption: format!(
            "From SEND to delivery, in the first repetition, from its first loss after message {}. Lines: the \
             mean of the retransmitted messages shown, and the published mean. The mean of all repetitions is \
             {} ms, the published bound {} ms.",
            super::SHOWN_FROM,
            measured(mean_parts(measures).delay()),
            given(bound)
        ),
        x: Axis::linear("message number", "").range(
            shown.first().map_or(0.0, |s| s.number as f64),
            shown.last().map_or(1.0, |s| s.number as f64 + 1.0),
        ),
        y: Axis::linear("delay", "ms").from(0.0),
        series: vec![
            Series {
                label: "each message".into(),
                kind: Kind::Trace,
                style: 0,
                points: shown.iter().map(point).collect(),
            },
            Series {
                label: "retransmitted".into(),
                kind: Kind::Points,
                style: 1,
                points: lost.into_iter().map(point).collect(),
            },
        ],
        references: mean
            .into_iter()
            .chain([Reference {
                y: published,
                label: format!("published {}", given(published)),
            }])
            .collect(),
    }
}

/// Share of retransmitted messages up to a delay.
fn distribution(observed: &Observed, id: &str, title: &str, value: fn(&Parts) -> f64) -> Figure {
    let sorted: Vec<Sorted> = observed
        .variants
        .iter()
        .map(|measures| {
            let all = measures
                .iter()
                .flat_map(|m| m.retransmitted.iter().map(value));
            Sorted::new(all.collect())
        })
        .collect();
    let quantile = |p: f64| sorted.iter().filter_map(move |s| s.quantile(p));
    let end = quantile(0.99).fold(0.0, f64::max);
    let begin = quantile(0.0).fold(end, f64::min);
    // Waiting in the sender spreads over decades.
    let axis = if end > 20.0 * begin {
        Axis::log("delay", "ms")
    } else {
        Axis::linear("delay", "ms")
    };
    let (begin, end) = (
        (begin / 100.0).floor() * 100.0,
        (end / 100.0).ceil() * 100.0,
    );
    Figure {
        id: id.into(),
        title: title.into(),
        caption:
            "Share of the retransmitted messages of all repetitions that took no longer; the axis \
                  ends at the largest 99 % quantile."
                .into(),
        x: axis.range(begin.max(1.0), end.max(begin + 100.0)),
        y: Axis::linear("share", "").range(0.0, 1.0),
        series: VARIANTS
            .iter()
            .zip(&sorted)
            .enumerate()
            .map(|(style, (variant, sorted))| Series {
                label: variant.label.into(),
                kind: Kind::Step,
                style,
                points: sorted
                    .distribution(400)
                    .into_iter()
                    .map(|(x, y)| Point::new(x, y))
                    .collect(),
            })
            .collect(),
        references: Vec::new(),
    }
}
