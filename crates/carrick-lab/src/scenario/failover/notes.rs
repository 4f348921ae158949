//! What differs from the publication and why, in words that the data fill in.

use super::rows::{PUBLISHED, counts, false_failovers, propagation, values};
use super::run::{Case, Failover};
use super::setup::{
    BEST, INTERVAL, LOADS, PATH_MAX_RETRANS, PERIOD, RTO, SECOND_PIPE, VARIANTS, millis,
};
use super::{Cell, Observed};
use crate::format::{given, measured};
use crate::stats::mean;

/// The paragraphs, in order.
pub(super) fn notes(observed: &Observed) -> Vec<String> {
    vec![
        mechanism(observed),
        cases(observed),
        occurrences(observed),
        limits(observed),
        best(observed),
    ]
}

/// How much longer a mean gets with each step of Path.Max.Retrans, in ms.
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
        "How the times come about: the last SACK arrives some time after the first lost message was sent and starts T3-rtx \
         anew; {min} ms later what is outstanding leaves on the other path. New messages still go to the primary. Its T3-rtx \
         starts with the first of them, doubled, and then runs {max} ms each time. In such an interval {} messages come and only some \
         of them leave: after a timeout the window is one packet, in bytes as the paper’s \
         implementation counts it. So messages wait longer with each step of Path.Max.Retrans: the longest transfer grows by {} ms, as \
         published by {}; the failover time by {} ms. RFC 9260 section 7.2.3 asks for one packet in flight, however small; with that rule \
         (the default here) the messages of the interval wait for its end. The propagation is {} ms.",
        max / INTERVAL.as_millis() as u64,
        steps(observed, |f| f.max_transfer),
        published.join(", "),
        steps(observed, |f| f.time),
        given(propagation())
    )
}

/// How far the means of a case are from the published ones, for each Path.Max.Retrans.
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
        "Cases B and C are slower than A by rules of Linux 2.6, which the paper measured, and which RFC 9260 does not have: \
         addresses are not verified (RFC 2960), so that nothing is known of the other path and its RTO is RTO.Initial; \
         retransmissions take turns, to the next path when T3-rtx expires on the one that has the turn; and while some wait for the window of \
         their path, no new data leaves on any. In B and C the last packet that the first timeout sends again is \
         not acknowledged at once. T3-rtx of the other path expires for it, makes that path’s window one packet, and its messages wait for the \
         primary. At the primary’s second timeout they and those of the interval are more than that window; new data \
         waits a round trip for them, and T3-rtx of the primary starts that much later. With RFC 9260’s rules B and C take \
         as long as A. Against the published means A differs by {} ms for the four settings, B by {} ms and C by {} ms. The \
         published C is {} ms, two messages, above B in every setting: from the first message that is sent again, as the paper’s text \
         says, both take the same, as here. From the last message that arrived before the break, which a log of the applications \
         shows, B is a message less and C one more; by that definition, in rows of their own, B differs by {} ms and C by {} ms.",
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
        "The cases A, B and C occurred {here} times (published: {there}). The moments of the break are evenly spread over {} ms; \
         the way back breaks {} ms after the way there, chosen by the published share of C.",
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
        "Limits: 800 ms of Q.706 hold in every repetition for Path.Max.Retrans {}; 600 ms a message for {} (published: up to 4).",
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
        "Best: {} ms. False failovers a minute: {}. One timeout moves the data (RFC 7829), and it is long enough \
         for a full queue and for the repair of a loss; RACK repairs losses of retransmissions \
         too, and a SACK for each packet keeps a lone message from waiting {} ms for its acknowledgement, which \
         is more than any RTO here: that is what makes the paper’s SACK rule cause timeouts where messages come \
         in bursts. A tail loss probe would put T3-rtx off, and is off.",
        measured(mean(&values(&observed.quiet[index], |f| Some(f.time))).unwrap_or_default()),
        loads.join(", "),
        VARIANTS[0].config().timers.sack_delay.as_millis(),
    )
}
