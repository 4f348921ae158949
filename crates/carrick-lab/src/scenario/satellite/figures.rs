//! Figures: delays over message numbers as in the paper, and their distributions.

use super::Observed;
use super::measure::{Measures, Parts, Shown, mean_parts};
use super::setup::{Bound, DRAWN, MODIFIED, RFC, RFC_MODIFIED, STANDARD, VARIANTS, Variant};
use super::tcp;
use crate::figure::{Axis, Figure, Point, Reference, Series, SeriesKind, distributed};
use crate::format::{given, measured};
use crate::stats::{Sorted, mean};

/// Returns all figures, in order.
pub(super) fn figures(observed: &Observed) -> Vec<Figure> {
    let [standard, modified, _, rfc, rfc_modified, ..] = &observed.variants;
    vec![
        both(
            (&observed.tcp, standard),
            "delay-tcp-and-sctp",
            "TCP on W′ and SCTP: delay of the messages (the paper’s Fig. 7)",
            "From SEND to delivery, in the complete first repetition; of each group of 25 messages the one with the longest delay. \
                     The program waits while the send buffer is full, so that the delay is limited by it and returns to \
                     that of W′ without loss.",
            |measures| &measures.course,
        ),
        both(
            (&observed.tcp, standard),
            "delay-tcp-and-sctp-detail",
            "TCP on W′ and SCTP: detail (the paper’s Fig. 8)",
            "From SEND to delivery, in the first repetition, each message from the first loss after message 1000.",
            |measures| &measures.shown,
        ),
        messages(
            "delay-standard",
            "SCTP: delay of each message (the paper’s Fig. 9)",
            (published_bound(&STANDARD), standard),
            765.0,
            None,
        ),
        messages(
            "delay-modified",
            "SCTP with gap reports on W″: delay of each message (the paper’s Fig. 10)",
            (published_bound(&MODIFIED), modified),
            527.0,
            Some(standard),
        ),
        messages(
            "delay-rfc",
            "SCTP by RFC 9260: delay of each message",
            (published_bound(&RFC), rfc),
            765.0,
            None,
        ),
        messages(
            "delay-rfc-modified",
            "SCTP by RFC 9260, gap reports on W″: delay of each message",
            (published_bound(&RFC_MODIFIED), rfc_modified),
            527.0,
            Some(rfc),
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

fn point(shown: &Shown) -> Point {
    Point::new(shown.number as f64, shown.delay)
}

/// TCP and SCTP over the message number, in the first repetition. TCP's queue requires a
/// logarithmic axis.
fn both(
    (tcp, sctp): (&[Measures], &[Measures]),
    id: &str,
    title: &str,
    caption: &str,
    shown: fn(&Measures) -> &Vec<Shown>,
) -> Figure {
    let curve = |label, style, measures: &[Measures]| {
        let shown = measures.first().map_or(&[][..], |first| shown(first));
        Series::new(
            label,
            SeriesKind::Line,
            style,
            shown.iter().map(point).collect(),
        )
    };
    let numbers = [tcp, sctp]
        .into_iter()
        .filter_map(|measures| measures.first());
    let numbers = numbers.flat_map(|measures| shown(measures).iter().map(|s| s.number as f64));
    let (first, last) = numbers.fold((f64::MAX, 0.0_f64), |(first, last), number| {
        (first.min(number), last.max(number))
    });
    Figure {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        x: Axis::linear("message number", "").range(first, last.max(first + 1.0)),
        y: Axis::log("delay", "ms").from(100.0),
        series: vec![curve("TCP", 1, tcp), curve("SCTP", 0, sctp)],
        references: vec![Reference {
            y: tcp::bound(),
            label: format!("bound of TCP {}", given(tcp::bound())),
        }],
    }
}

/// Mean of the retransmitted messages in the figure.
fn mean_shown(measures: &[Measures], label: &str) -> Option<Reference> {
    let shown = measures.first().map_or(&[][..], |m| &m.shown);
    let lost = shown.iter().filter(|s| s.retransmitted);
    let mean = mean(&lost.map(|s| s.delay).collect::<Vec<_>>())?;
    Some(Reference {
        y: mean,
        label: format!("{label} {}", measured(mean)),
    })
}

/// Delay over the message number in a part of the first repetition, with the mean without the
/// modification for comparison.
fn messages(
    id: &str,
    title: &str,
    (bound, measures): (f64, &[Measures]),
    published: f64,
    unmodified: Option<&[Measures]>,
) -> Figure {
    let shown = measures.first().map_or(&[][..], |m| &m.shown);
    let lost = shown.iter().filter(|s| s.retransmitted);
    let without = unmodified.and_then(|measures| mean_shown(measures, "mean without it"));
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
            Series::new(
                "each message",
                SeriesKind::Trace,
                0,
                shown.iter().map(point).collect(),
            ),
            Series::new(
                "retransmitted",
                SeriesKind::Points,
                1,
                lost.map(point).collect(),
            ),
        ],
        references: mean_shown(measures, "measured mean")
            .into_iter()
            .chain([Reference {
                y: published,
                label: format!("published {}", given(published)),
            }])
            .chain(without)
            .collect(),
    }
}

/// Distribution of the delays of retransmitted messages.
fn distribution(observed: &Observed, id: &str, title: &str, value: fn(&Parts) -> f64) -> Figure {
    let sorted: Vec<Sorted> = observed
        .variants
        .iter()
        .take(DRAWN)
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
    // Waiting times in the sender extend over decades.
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
        caption: "Distribution over the retransmitted messages of all repetitions; the axis \
                         ends at the largest 99 % quantile."
            .into(),
        x: axis.range(begin.max(1.0), end.max(begin + 100.0)),
        y: Axis::linear("proportion", "").range(0.0, 1.0),
        series: VARIANTS
            .iter()
            .zip(&sorted)
            .enumerate()
            .map(|(style, (variant, sorted))| distributed(variant.label, style, sorted))
            .collect(),
        references: Vec::new(),
    }
}
