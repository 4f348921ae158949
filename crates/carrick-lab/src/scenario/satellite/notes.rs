//! Notes: differences from the publication and their causes, with values from the data.

use super::Observed;
use super::measure::{Measures, PARTS, Parts, mean_parts};
use super::setup::{
    BEST, Bound, FAR_DELAY, KBYTE, LOAD, LOSS, MODIFIED, RFC, RFC_MODIFIED, SEND_BUFFER, STANDARD,
    Variant, kbytes, millis,
};
use crate::format::{given, measured};
use crate::stats::{Sorted, mean};
use crate::tcp_host::LIMITS;

/// Describes the differences of a mean delay from the equation, the largest part first.
pub(super) fn difference(variant: &Variant, measures: &[Measures]) -> String {
    let bound = Bound::own(variant);
    let least = [0.0, bound.detection, bound.transfer, 0.0];
    let mut parts: Vec<(f64, &str)> = mean_parts(measures)
        .0
        .iter()
        .zip(least)
        .zip(PARTS)
        .map(|((part, least), name)| (part - least, name))
        .collect();
    parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let texts: Vec<String> = parts
        .iter()
        .filter(|(excess, _)| excess.abs() >= 0.5)
        .map(|(excess, name)| format!("{excess:+.1} ms {name}"))
        .collect();
    format!("Relative to the equation: {}.", texts.join(", "))
}

/// Returns the paragraphs, in order.
pub(super) fn notes(observed: &Observed) -> Vec<String> {
    let [standard, modified, _, rfc, rfc_modified, ..] = &observed.variants;
    let throughput = |measures: &[Measures]| {
        measures.iter().map(|m| m.throughput).sum::<f64>() / measures.len() as f64
    };
    let mut notes = Vec::new();
    for (variant, measures) in [
        (&STANDARD, standard),
        (&MODIFIED, modified),
        (&RFC, rfc),
        (&RFC_MODIFIED, rfc_modified),
    ] {
        let parts = mean_parts(measures);
        let waits: Vec<f64> = measures.iter().map(|m| m.wait).collect();
        notes.push(format!(
            "{}: {} ms from SEND (median of the messages {} ms), {} ms from the first transmission. {} In single repetitions the mean waiting time of all \
                         messages was between {} and {} ms.",
            variant.label,
            measured(parts.delay()),
            measured(median_delay(measures)),
            measured(parts.recovery()),
            difference(variant, measures),
            measured(waits.iter().copied().fold(f64::INFINITY, f64::min)),
            measured(waits.iter().copied().fold(0.0, f64::max)),
        ));
    }
    notes.push(window_rules(observed));
    notes.push(format!(
        "Throughput: {} KByte/s of the {} offered; by RFC 9260 {}.",
        measured(throughput(standard)),
        LOAD / KBYTE as u64,
        measured(throughput(rfc)),
    ));
    notes.push(best(observed));
    notes.push(tcp(observed));
    notes.push(counts(observed));
    let shortest = observed.variants.iter().flatten();
    let shortest = shortest
        .filter_map(|m| m.shortest_round_trip)
        .fold(f64::INFINITY, f64::min);
    notes.push(format!(
        "The shortest round-trip sample of W′ in all runs is {} ms: {}.",
        measured(shortest),
        if shortest >= 2.0 * millis(FAR_DELAY) {
            "no SACK received over W″ was used as a sample"
        } else {
            "a SACK received over W″ was used as a sample, which is an error"
        }
    ));
    notes.push(
        "Loss detection can be faster than the equations predict if queued messages are sent in a \
                 burst: the four messages after a lost one then follow at less than an interval."
            .into(),
    );
    notes
}

/// Describes the contribution of each setting to the best ones.
fn best(observed: &Observed) -> String {
    let [_, _, best, _, _, one_path, modern, spilling] = &observed.variants;
    let delay = |measures: &[Measures]| measured(mean_parts(measures).delay());
    let wait = |measures: &[Measures]| measured(mean_parts(measures).0[0]);
    let share = |measures: &[Measures]| {
        let lost: usize = measures.iter().map(|m| m.retransmitted.len()).sum();
        let all = observed.messages * measures.len() as u64;
        measured(lost as f64 / (all as f64 * LOSS) * 100.0)
    };
    format!(
        "Best settings, step by step, from SEND: RFC 9260 with three missing reports, a SACK for each packet, gap reports and retransmissions \
         on W″: {} ms, of which {} ms are waiting for the window of W′. RACK, PRR and CUBIC, the defaults of programs: {} ms, {} ms of it \
         waiting; CUBIC returns to its window earlier. A window that is reduced by losses always delays some data on W′; sending this data on W″ \
         (concurrent multipath, the primary first) with CUBIC: {} ms without waiting, but CUBIC’s window of W″, which has no losses, fills its queue, \
         in which retransmissions wait, too, and only {} % of the messages remain on W′. With RFC 9260’s windows on both: {} ms, {} ms of it waiting, \
         and {} % remain. Both proportions are estimated from the losses.",
        delay(one_path),
        wait(one_path),
        delay(modern),
        wait(modern),
        delay(spilling),
        share(spilling),
        delay(best),
        wait(best),
        share(best),
    )
}

/// Describes TCP in this experiment, and the parts of its delays.
fn tcp(observed: &Observed) -> String {
    let parts = mean_parts(&observed.tcp);
    let [wait, detection, transfer, _] = parts.0;
    format!(
        "TCP: with loss its throughput is {} KByte/s of the offered {}, so that a retransmitted message waits {} ms in the sender on \
         average; from its first transmission it takes {} ms, of which {} ms pass before the last \
         retransmission is sent and {} ms after it. {}",
        measured(kbytes(mean(&observed.tcp_lossy).unwrap_or_default())),
        LOAD / KBYTE as u64,
        measured(wait),
        measured(parts.recovery()),
        measured(detection),
        measured(transfer),
        LIMITS,
    )
}

/// Returns the median delay of all retransmitted messages, in ms.
fn median_delay(measures: &[Measures]) -> f64 {
    let all = measures
        .iter()
        .flat_map(|m| m.retransmitted.iter().map(Parts::delay));
    Sorted::new(all.collect()).quantile(0.5).unwrap_or_default()
}

/// Describes the window rules of the paper's implementation, and waiting in the sender without them.
fn window_rules(observed: &Observed) -> String {
    format!(
        "According to the paper, losses had no significant effect on the congestion window of W′ (section 4.3). Two rules of its \
         implementation, sctplib, explain that. A fast retransmission halves the window of the path on which the SACK arrived (function \
         fc_fast_retransmission of its first public revision, b98e542 of 2003-05-16), with gap reports on W″ never that of W′. \
         And before July 2002 each SACK with gap reports acknowledged all bytes above the gap again (change log of 2002-07-26), so that the count of outstanding \
         bytes fell to 0 and a halved window held nothing back. The version of the paper is not public; the second rule is a model: each SACK reduces the outstanding bytes \
         that the window limits by all that are reported above the gap, and they count right again when nothing is outstanding. By RFC 9260, each loss \
         halves the window of W′; with {} % loss and a round trip of {} ms such a window carries {} KByte/s of the offered {}, so that \
         messages wait in the send buffer, and SEND waits for room in it. The delay by RFC 9260 then grows with the buffer, here {SEND_BUFFER} bytes. \
         Without a limit of the buffer the queue is not stationary, and its mean depends on the duration of the flow.",
        given(LOSS * 100.0),
        given(2.0 * millis(FAR_DELAY)),
        measured(kbytes(mean(&observed.lossy).unwrap_or_default())),
        LOAD / KBYTE as u64,
    )
}

/// Describes the frequency of repeated and of unnecessary retransmissions, and of timeouts.
fn counts(observed: &Observed) -> String {
    let [standard, modified, best, ..] = &observed.variants;
    let share = |measures: &[Measures], of: fn(&Measures) -> usize| {
        let all: usize = measures.iter().map(|m| m.retransmitted.len()).sum();
        let part: usize = measures.iter().map(of).sum();
        100.0 * part as f64 / all.max(1) as f64
    };
    let timeouts = |measures: &[Measures]| measures.iter().map(|m| m.timeouts).sum::<u64>();
    format!(
        "Retransmitted messages sent three times or more: {:.2} % ({}), {:.2} % ({}), {:.2} % ({}). Retransmitted \
                 although the first transmission arrived: {:.2} %, {:.2} %, {:.2} %. Expirations of T3-rtx: {}, {}, {}.",
        share(standard, |m| m.again),
        STANDARD.label,
        share(modified, |m| m.again),
        MODIFIED.label,
        share(best, |m| m.again),
        BEST.label,
        share(standard, |m| m.needless),
        share(modified, |m| m.needless),
        share(best, |m| m.needless),
        timeouts(standard),
        timeouts(modified),
        timeouts(best),
    )
}
