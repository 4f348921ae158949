//! Notes: differences from the publication and their causes, with values from the data.

use super::rows::{PUBLISHED, counts, false_failovers, propagation, values};
use super::run::{Case, Failover};
use super::setup::{
    BEST, INTERVAL, LOADS, PATH_MAX_RETRANS, PERIOD, RTO, SECOND_PIPE, VARIANTS, millis,
};
use super::{Cell, Observed};
use crate::format::{given, measured};
use crate::stats::mean;

/// Returns the paragraphs, in order.
pub(super) fn notes(observed: &Observed) -> Vec<String> {
    vec![
        mechanism(observed),
        cases(observed),
        occurrences(observed),
        limits(observed),
        best(observed),
    ]
}

/// Formats the differences of a mean between successive values of Path.Max.Retrans, in ms.
fn steps(observed: &Observed, value: fn(&Failover) -> f64) -> String {
    let cells = observed.quiet.iter().take(PATH_MAX_RETRANS.len());
    let means: Vec<f64> = cells
        .filter_map(|cell| mean(&values(cell, |f| Some(value(f)))))
        .collect();
    let each: Vec<String> = means
        .windows(2)
        .map(|pair| format!("{:.0}", pair[1] - pair[0]))
        .collect();
    each.join(", ")
}

fn mechanism(observed: &Observed) -> String {
    let [_, min, max] = RTO;
    let published: Vec<String> = PUBLISHED
        .windows(2)
        .map(|pair| format!("{:.0}", pair[1].mean_transfer() - pair[0].mean_transfer()))
        .collect();
    format!(
        "How the failover times arise: the last SACK arrives some time after the first lost message was sent, and restarts T3-rtx; \
         {min} ms later the outstanding data is retransmitted on the other path. New messages are still sent to the primary path. Its T3-rtx \
         is started by the first of them with a doubled RTO, and then expires after {max} ms each time. In such an interval {} messages arrive from the user, and only some \
         of them are sent: after a timeout the window is one packet, counted in bytes as in the paper’s \
         implementation. Therefore the delay of messages increases with Path.Max.Retrans: the longest transfer by {} ms per step, \
         published {} ms; the failover time by {} ms. RFC 9260, section 7.2.3, permits one packet in flight, of any size; with that rule \
         (the default of this stack) the messages of the interval wait for its end. The propagation delay is {} ms.",
        max / INTERVAL.as_millis() as u64,
        steps(observed, |f| f.max_transfer),
        published.join(", "),
        steps(observed, |f| f.time),
        given(propagation())
    )
}

/// Formats the differences between measured and published means of a case, for each
/// Path.Max.Retrans.
fn differences(
    observed: &Observed,
    group: usize,
    value: impl Fn(&Failover) -> Option<f64>,
) -> String {
    let case = [Case::A, Case::B, Case::C][group];
    let cells = observed.quiet.iter().zip(&PUBLISHED);
    let each = cells.filter_map(|(cell, published)| {
        let own = values(cell, |f| (f.case == case).then(|| value(f)).flatten());
        Some(format!("{:+.0}", mean(&own)? - published.failover[group]))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() {
        "an unknown number of".into()
    } else {
        each.join(", ")
    }
}

fn cases(observed: &Observed) -> String {
    let own = |group| differences(observed, group, |f| Some(f.time));
    let arrived = |group| differences(observed, group, |f| f.from_arrived);
    let [published_b, published_c] = [1, 2].map(|group: usize| PUBLISHED[0].failover[group]);
    format!(
        "Cases B and C are slower than A because of rules of Linux 2.6, the stack of the paper, which RFC 9260 does not have: \
         addresses are not confirmed (RFC 2960), so that the other path has no RTT measurement and its RTO is RTO.Initial; \
         retransmissions alternate, moving to the next path when T3-rtx expires on the current one; and while retransmissions wait for the window of \
         their path, no new data is sent on any path. In B and C the last packet that the first timeout retransmits is \
         not acknowledged immediately. T3-rtx of the other path expires for it and reduces that path’s window to one packet, and its messages wait for the \
         primary. At the second timeout of the primary, these messages and those of the interval exceed that window; new data \
         waits for one round trip, and T3-rtx of the primary starts that much later. With the rules of RFC 9260, B and C take \
         as long as A. The differences from the published means are {} ms for A with the four settings, {} ms for B and {} ms for C. The \
         published C is {} ms, the interval of two messages, above B with every setting. Counted from the first retransmitted message, as the paper’s text \
         specifies, both take the same time, as here. Counted from the last message that arrived before the failure, which application logs \
         contain, B is one message interval shorter and C one longer; by that definition, given in separate rows, the differences are {} ms for B and {} ms for C.",
        own(0),
        own(1),
        own(2),
        given(published_c - published_b),
        arrived(1),
        arrived(2),
    )
}

fn occurrences(observed: &Observed) -> String {
    let sum = |counts: &mut dyn Iterator<Item = [usize; 3]>| {
        counts.fold([0; 3], |sum, c| {
            [sum[0] + c[0], sum[1] + c[1], sum[2] + c[2]]
        })
    };
    let here = sum(&mut observed
        .quiet
        .iter()
        .take(PATH_MAX_RETRANS.len())
        .map(counts));
    let there = sum(&mut PUBLISHED.iter().map(|p| p.count.map(|c| c as usize)));
    let listed = |[a, b, c]: [usize; 3]| format!("{a}, {b} and {c}");
    let (here, there) = (listed(here), listed(there));
    format!(
        "The cases A, B and C occurred {here} times (published: {there}). The times of the failure are evenly spread over {} ms; \
         the backward direction fails {} ms after the forward direction, which was derived from the published proportion of C.",
        given(millis(PERIOD)),
        given(millis(SECOND_PIPE))
    )
}

fn limits(observed: &Observed) -> String {
    let holds = |value: fn(&Failover) -> f64, limit: f64| {
        let cells = observed.quiet.iter().zip(PATH_MAX_RETRANS);
        let all =
            cells.filter(|(cell, _)| values(cell, |f| Some(value(f))).iter().all(|v| *v <= limit));
        let names: Vec<String> = all.map(|(_, retrans)| retrans.to_string()).collect();
        if names.is_empty() {
            "none".into()
        } else {
            names.join(", ")
        }
    };
    format!(
        "The limit of 800 ms in Q.706 is met in every repetition with Path.Max.Retrans {}; the limit of 600 ms per message with {} (published: up to 4).",
        holds(|f| f.time, 800.0),
        holds(|f| f.max_transfer, 600.0)
    )
}

fn best(observed: &Observed) -> String {
    let index = VARIANTS.iter().position(|v| v.id == BEST.id).unwrap_or(0);
    let rate = |cell: &Cell| mean(&false_failovers(cell)).unwrap_or_default();
    let loads: Vec<String> = LOADS
        .iter()
        .zip(&observed.loaded)
        .map(|(load, cells)| format!("{} {}", measured(rate(&cells[index])), load.label()))
        .collect();
    format!(
        "Best settings: {} ms. False failovers per minute: {}. One timeout moves the data (RFC 7829), and it is long enough \
         for a full queue and for the recovery of a loss. RACK recovers lost retransmissions, \
         too, and a SACK for each packet avoids that a single message waits {} ms for its acknowledgement, which \
         is longer than any RTO here: this delay is the cause of timeouts with the paper’s SACK rule if messages are sent \
         in bursts. A tail loss probe would delay T3-rtx, and is disabled.",
        measured(mean(&values(&observed.quiet[index], |f| Some(f.time))).unwrap_or_default()),
        loads.join(", "),
        VARIANTS[0].config().timers.sack_delay.as_millis(),
    )
}
