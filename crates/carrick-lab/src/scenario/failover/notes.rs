//! What differs from the publication and why, in words that the data fill in.

use super::rows::{PUBLISHED, counts, false_failovers, propagation, values};
use super::setup::{BEST, LOADS, PATH_MAX_RETRANS, SECOND_PIPE, VARIANTS, millis};
use super::{Cell, Observed};
use crate::format::{given, measured};
use crate::stats::mean;

/// The paragraphs, in order.
pub(super) fn notes(observed: &Observed) -> Vec<String> {
    vec![
        mechanism(),
        cases(observed),
        occurrences(observed),
        limits(observed),
        best(observed),
    ]
}

fn mechanism() -> String {
    format!(
        "How the times come about: the last SACK arrives 32.8 ms after the first lost message was sent and starts T3-rtx \
         anew; 80 ms later 12 messages leave on the other path. New messages still go to the primary. Its T3-rtx \
         starts with the first of them, at 120 ms, and then runs 150 ms each time. In such an interval 15 \
         messages come and 6 leave: after a timeout the window is one packet, in bytes as the paper’s \
         implementation counts it, so that messages wait 90 ms longer with each step of Path.Max.Retrans, which is \
         the published slope. RFC 9260 section 7.2.3 asks for one packet in flight, however small; with that rule \
         (the default here) the messages of the interval wait for its end. The propagation is {} ms.",
        given(propagation())
    )
}

fn cases(observed: &Observed) -> String {
    let differences = |group: usize| {
        let each = observed
            .quiet
            .iter()
            .zip(&PUBLISHED)
            .filter_map(|(cell, published)| {
                let case = [
                    super::run::Case::A,
                    super::run::Case::B,
                    super::run::Case::C,
                ][group];
                let mean = mean(&values(cell, |f| (f.case == case).then_some(f.time)))?;
                Some(format!("{:+.0}", mean - published.failover[group]))
            });
        let each: Vec<String> = each.collect();
        if each.is_empty() {
            "an unknown number of".into()
        } else {
            each.join(", ")
        }
    };
    format!(
        "Cases B and C are slower than A by rules of Linux 2.6, which the paper measured, and which RFC 9260 does not have: \
         addresses are not verified (RFC 2960), so that nothing is known of the other path and its RTO is 80 ms; \
         retransmissions take turns, to the next path when T3-rtx expires on the one that has the turn; and while some wait for the window of \
         their path, no new data leaves on any. In B and C the last of the three packets that the first timeout sends again is \
         not acknowledged at once. T3-rtx of the other path expires for it, makes that path’s window one packet, and its two messages wait for the \
         primary. At the primary’s second timeout they and the six messages of the interval are more than that window; new data \
         waits a round trip of 51 ms for them, and T3-rtx of the primary starts that much later. With RFC 9260’s rules B and C take \
         as long as A. Against the published means A differs by {} ms for the four settings, B by {} ms and C by {} ms. The \
         published C is 20 ms, two messages, above B in every setting: from the first message that is sent again, as the paper’s text \
         says, both take the same, as here; from the last message that arrived before the break, which a log of the applications \
         shows, B is 10 ms less and C 10 ms more.",
        differences(0),
        differences(1),
        differences(2)
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
        "The cases A, B and C occurred {here} times (published: {there}). The moments of the break are evenly spread over 20 ms; \
         the way back breaks {} ms after the way there, which the share of C is taken from, and nothing else.",
        millis(SECOND_PIPE)
    )
}

fn limits(observed: &Observed) -> String {
    let holds = |value: fn(&super::run::Failover) -> f64, limit: f64| {
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
         for the 48 to 72 ms of a full queue and for the repair of a loss; RACK repairs losses of retransmissions \
         too, and a SACK for each packet keeps a lone message from waiting 200 ms for its acknowledgement, which \
         is more than any RTO here: that is what makes the paper’s SACK rule cause timeouts where messages come \
         in bursts. A tail loss probe would put T3-rtx off, and is off.",
        measured(mean(&values(&observed.quiet[index], |f| Some(f.time))).unwrap_or_default()),
        loads.join(", "),
    )
}
