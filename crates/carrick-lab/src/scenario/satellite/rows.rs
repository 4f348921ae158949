//! Rows of the table.

use super::Observed;
use super::measure::{Measures, Parts, mean_parts};
use super::notes::difference;
use super::setup::{
    BEST, Bound, DRAWN, FAR_DELAY, KBYTE, LOAD, NEAR_DELAY, VARIANTS, Variant, emission_times,
    kbytes, millis,
};
use super::tcp;
use crate::format;
use crate::result::Row;

/// Published values of a variant.
struct Published {
    delay: Option<f64>,
    throughput: Option<f64>,
    /// Range in which the delay is expected: from the published bound to 5 % above the published
    /// mean.
    expected: Option<[f64; 2]>,
}

fn published(variant: &Variant) -> Published {
    let known = |delay: f64| Published {
        delay: Some(delay),
        throughput: None,
        expected: Some([Bound::published(variant).total(), delay * 1.05]),
    };
    match variant.id {
        "standard" => Published {
            throughput: Some(29.0),
            ..known(765.0)
        },
        "modified" => known(527.0),
        "rfc" => Published {
            expected: None,
            throughput: Some(29.0),
            ..known(765.0)
        },
        "rfc-modified" => Published {
            expected: None,
            ..known(527.0)
        },
        _ => Published {
            delay: None,
            throughput: None,
            expected: None,
        },
    }
}

/// Largest expected relative difference of the best settings from the bound of the network.
const NEAR: f64 = 0.1;

/// Published gain of the modification, and its expected range.
const GAIN: f64 = 238.0;
const GAIN_EXPECTED: [f64; 2] = [200.0, 260.0];

/// Returns all rows, in the order of the table.
pub(super) fn rows(observed: &Observed) -> Vec<Row> {
    let [standard, modified, best, rfc, rfc_modified, ..] = &VARIANTS;
    let [s, m, b, r, rm, ..] = &observed.variants;
    let mut rows = variant_rows(standard, s);
    rows.extend(variant_rows(modified, m));
    rows.extend(gain_rows("gain", "gain of gap reports on W″", s, m));
    rows.push(error_free(observed));
    rows.extend(tcp_rows(observed));
    rows.extend(variant_rows(rfc, r));
    rows.extend(variant_rows(rfc_modified, rm));
    rows.extend(gain_rows("rfc-gain", "gain by RFC 9260", r, rm));
    rows.push(lossy(observed));
    rows.extend(variant_rows(best, b));
    let steps = VARIANTS.iter().zip(&observed.variants).skip(DRAWN);
    rows.extend(steps.map(|(variant, measures)| step_row(variant, measures)));
    rows
}

fn error_free(observed: &Observed) -> Row {
    let window = super::setup::STANDARD.window;
    let round_trip = 2.0 * millis(FAR_DELAY) + millis(emission_times()[0]);
    Row::new(
        "error-free.throughput",
        "SCTP: error-free maximum throughput",
        "KByte/s",
    )
    .at_most(kbytes(window as f64 / round_trip * 1e3))
    .published(52.0)
    .measured(&[kbytes(observed.error_free)])
    .note(&format!(
        "Bound: the receive window of {window} bytes per round trip. Deterministic, hence one run."
    ))
}

fn lossy(observed: &Observed) -> Row {
    let values: Vec<f64> = observed.lossy.iter().map(|rate| kbytes(*rate)).collect();
    Row::new(
        "lossy.throughput",
        "SCTP by RFC 9260: maximum throughput with loss",
        "KByte/s",
    )
    .measured(&values)
    .note(&format!("Saturated; the load is {}.", LOAD / KBYTE as u64))
}

/// Rows of TCP on W' only.
fn tcp_rows(observed: &Observed) -> Vec<Row> {
    let measures = &observed.tcp;
    let lossy: Vec<f64> = observed
        .tcp_lossy
        .iter()
        .map(|rate| kbytes(*rate))
        .collect();
    let throughput: Vec<f64> = measures.iter().map(|m| m.throughput).collect();
    let bound = tcp::bound();
    let sent_again: usize = measures.iter().map(|m| m.retransmitted.len()).sum();
    let window = super::setup::STANDARD.window;
    vec![
        Row::new(
            "tcp.error-free.throughput",
            "TCP on W′: error-free maximum throughput",
            "KByte/s",
        )
        .at_most(kbytes(
            window as f64 / (2.0 * millis(FAR_DELAY) + millis(tcp::emission_time())) * 1e3,
        ))
        .published(52.0)
        .measured(&[kbytes(observed.tcp_error_free)])
        .note("The same receive window as SCTP’s. Deterministic, hence one run."),
        Row::new(
            "tcp.lossy.throughput",
            "TCP on W′: maximum throughput with loss",
            "KByte/s",
        )
        .measured(&lossy),
        Row::new("tcp.throughput", "TCP on W′: mean throughput", "KByte/s")
            .at_most(kbytes(LOAD as f64))
            .published(18.0)
            .measured(&throughput)
            .note("As for SCTP, until the last delivery."),
        Row::new(
            "tcp.delay",
            "TCP on W′: delay of a retransmitted message",
            "ms",
        )
        .at_least(bound)
        .published(870.0)
        .not_compared("published is a lower limit")
        .measured(&per_repetition(measures, Parts::delay))
        .note(&format!(
            "{sent_again} retransmitted messages. Published: at least 870 ms. TCP carries less than the load, so that messages wait in \
             the send buffer and SEND for room in it."
        )),
        Row::new(
            "tcp.recovery",
            "TCP on W′: the same from the first transmission",
            "ms",
        )
        .at_least(bound)
        .measured(&per_repetition(measures, Parts::recovery))
        .note("The bound applies to this value: loss, three duplicate ACKs, retransmission."),
    ]
}

fn variant_rows(variant: &Variant, measures: &[Measures]) -> Vec<Row> {
    let recovery = per_repetition(measures, Parts::recovery);
    let label = variant.label;
    let bound = bound(variant);
    vec![
        delay_row(variant, measures),
        Row::new(
            &format!("{}.recovery", variant.id),
            &format!("{label}: the same from the first transmission"),
            "ms",
        )
        .at_least(bound.total())
        .measured(&recovery)
        .note(&recovery_note(variant, &recovery, bound.total())),
        throughput_row(variant, measures),
    ]
}

fn recovery_note(variant: &Variant, recovery: &[f64], bound: f64) -> String {
    match (variant.id, crate::stats::mean(recovery)) {
        ("standard", _) => {
            "The equations do not include waiting in the sender and apply to this value.".into()
        }
        ("best", Some(mean)) => verdict(mean, bound),
        _ => String::new(),
    }
}

fn verdict(mean: f64, bound: f64) -> String {
    let verdict = if mean <= (1.0 + NEAR) * bound {
        "within"
    } else {
        "not within"
    };
    let percent = (mean / bound - 1.0) * 100.0;
    format!("{percent:+.1} %: {verdict} 10 % of the bound of this network.")
}

/// Row of a step to the best settings.
fn step_row(variant: &Variant, measures: &[Measures]) -> Row {
    let values = per_repetition(measures, Parts::delay);
    let parts = mean_parts(measures).0;
    Row::new(
        &format!("{}.delay", variant.id),
        &format!("{}: delay of a retransmitted message", variant.label),
        "ms",
    )
    .at_least(Bound::own(variant).total())
    .measured(&values)
    .note(&format!(
        "{} ms of it are waiting in the sender, {} ms loss detection, {} ms retransmission.",
        format::measured(parts[0]),
        format::measured(parts[1]),
        format::measured(parts[2]),
    ))
}

/// Returns the bound of a variant; for variants with published values, the one that these fit.
fn bound(variant: &Variant) -> Bound {
    if variant.id == BEST.id {
        Bound::own(variant)
    } else {
        Bound::published(variant)
    }
}

fn delay_row(variant: &Variant, measures: &[Measures]) -> Row {
    let values = per_repetition(measures, Parts::delay);
    let published = published(variant);
    let own = Bound::own(variant).total();
    let lost: usize = measures.iter().map(|m| m.retransmitted.len()).sum();
    let mut row = Row::new(
        &format!("{}.delay", variant.id),
        &format!("{}: delay of a retransmitted message", variant.label),
        "ms",
    )
    .at_least(bound(variant).total())
    .measured(&values)
    .note(&format!("{lost} retransmitted messages."));
    row.published = published.delay;
    row = not_the_paper(variant, row);
    if variant.id == BEST.id {
        let verdict = row
            .measured
            .map_or_else(String::new, |mean| verdict(mean, own));
        let least = Bound::with_one_report(variant).total();
        let above = row
            .measured
            .map_or(f64::NAN, |mean| 100.0 * (mean / least - 1.0));
        return row.note(&verdict).note(&format!(
            "Bound: the paper’s equation with this network’s delays and transmission times. It includes waiting for three missing \
                         reports, for which RACK waits, too, unless a quarter of the minimum round trip ends earlier. The bound of propagation and transmission \
                         alone, with a single report, is {} ms; the measured value is {} % above it.",
            format::measured(least),
            format::measured(above)
        ));
    }
    row = row.note(&format!(
        "The bound with this run’s own interval and packet length: {} ms.",
        format::measured(own)
    ));
    if let (Some(mean), Some([low, high])) = (row.measured, published.expected)
        && !(low..=high).contains(&mean)
    {
        row = row.note(&outside(mean, [low, high]));
        row = row.note(&difference(variant, measures));
    }
    row
}

fn throughput_row(variant: &Variant, measures: &[Measures]) -> Row {
    let values: Vec<f64> = measures.iter().map(|m| m.throughput).collect();
    let mut row = Row::new(
        &format!("{}.throughput", variant.id),
        &format!("{}: mean throughput", variant.label),
        "KByte/s",
    )
    .at_most(kbytes(LOAD as f64))
    .measured(&values);
    if variant.id == "standard" {
        row = row.note(
            "User data delivered, divided by the time from the first SEND to the last delivery; bound: the load.",
        );
    }
    row.published = published(variant).throughput;
    not_the_paper(variant, row)
}

/// Excludes the rows of variants by RFC 9260 from the comparison.
fn not_the_paper(variant: &Variant, row: Row) -> Row {
    if row.published.is_some() && !variant.sctplib {
        return row.not_compared("RFC 9260 instead of the paper’s implementation");
    }
    row
}

/// Rows of the paired differences between repetitions with the same losses.
fn gain_rows(id: &str, label: &str, without: &[Measures], with: &[Measures]) -> Vec<Row> {
    let gain = |value: fn(&Parts) -> f64| -> Vec<f64> {
        let pairs = without.iter().zip(with);
        pairs
            .filter_map(|(a, b)| Some(value(&a.mean_parts()?) - value(&b.mean_parts()?)))
            .collect()
    };
    let bound = millis(FAR_DELAY) - millis(NEAR_DELAY);
    let mut delay = Row::new(&format!("{id}.delay"), label, "ms")
        .at_least(bound)
        .published(GAIN)
        .measured(&gain(Parts::delay))
        .note("Paired differences of repetitions with the same seed.");
    if id != "gain" {
        delay = delay.not_compared("RFC 9260 instead of the paper’s implementation");
    } else if let Some(mean) = delay.measured
        && !(GAIN_EXPECTED[0]..=GAIN_EXPECTED[1]).contains(&mean)
    {
        let waits = [without, with].map(mean_wait);
        delay = delay.note(&outside(mean, GAIN_EXPECTED)).note(&format!(
            "{} ms of it result from less waiting in the sender.",
            format::measured(waits[0] - waits[1])
        ));
    }
    let recovery = Row::new(
        &format!("{id}.recovery"),
        &format!("{label}, from the first transmission"),
        "ms",
    )
    .at_least(bound)
    .measured(&gain(Parts::recovery));
    vec![delay, recovery]
}

/// Returns the mean waiting time of retransmitted messages in the sender, over the repetitions.
fn mean_wait(measures: &[Measures]) -> f64 {
    let waits = per_repetition(measures, |parts| parts.0[0]);
    crate::stats::mean(&waits).unwrap_or_default()
}

fn outside(mean: f64, [low, high]: [f64; 2]) -> String {
    format!(
        "{} the expected {} to {} ms.",
        if mean < low { "Below" } else { "Above" },
        format::given(low),
        format::given(high)
    )
}

/// Returns one value per repetition: that of the mean retransmitted message.
fn per_repetition(measures: &[Measures], value: impl Fn(&Parts) -> f64) -> Vec<f64> {
    let means = measures.iter().filter_map(Measures::mean_parts);
    means.map(|parts| value(&parts)).collect()
}
