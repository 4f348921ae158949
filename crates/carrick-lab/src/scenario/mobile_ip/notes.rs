//! Notes: differences from the publication and their causes, with values from the data.

use super::rows::{PUBLISHED_ONE, PUBLISHED_TCP, PUBLISHED_TWO, percent};
use super::run::{Configuration, Move};
use super::setup::{LOSSES, MESSAGE, Stack, TIGHT_RTO, TIGHT_WINDOW, TRANSFER, millis, round_trip};
use super::tcp::PAUSE;
use super::{CONTROL, Job, LOSSY, Observed};
use crate::format::{given, measured};
use crate::stats::mean;
use crate::tcp_host::LIMITS;

/// Returns the paragraphs, in order.
pub(super) fn notes(observed: &Observed) -> Vec<String> {
    vec![
        tcp(observed),
        gains(observed),
        counters(observed),
        window_law(observed),
        collapse(observed),
        failover(observed),
        handovers(observed),
    ]
}

fn average(observed: &Observed, job: Job, value: impl Fn(&super::Measures) -> f64) -> f64 {
    mean(&observed.values(job, value)).unwrap_or_default()
}

fn tcp(observed: &Observed) -> String {
    let texts = LOSSES.map(|loss| {
        let rate = |job| average(observed, job, |m| m.throughput);
        let sctp = rate(Job::Transfer(Configuration::One, Stack::Paper, loss));
        let change = (sctp / rate(Job::Tcp(loss)) - 1.0) * 100.0;
        format!("{change:+.0} % at {} % loss", percent(loss))
    });
    let published = [0, 1, 2, 3].map(|number: usize| {
        let change = PUBLISHED_ONE[number] / PUBLISHED_TCP[number] - 1.0;
        format!("{:+.0} %", change * 100.0)
    });
    let pauses = LOSSY.map(|number| {
        let job = Job::Tcp(LOSSES[number]);
        let rate = average(observed, job, |m| m.throughput);
        let [times, paused] =
            [|m: &super::Measures| m.pauses.0 as f64, |m: &super::Measures| m.pauses.1]
                .map(|value| average(observed, job, value));
        let seconds = TRANSFER as f64 * 8.0 / 1e6 / rate;
        format!(
            "at {} % loss {} times for {} s of {} s, without which its throughput would be {} Mbit/s (law: {})",
            percent(LOSSES[number]),
            measured(times),
            measured(paused),
            measured(seconds),
            measured(TRANSFER as f64 * 8.0 / 1e6 / (seconds - paused)),
            measured(law(0.75, LOSSES[number])),
        )
    });
    format!(
        "TCP: the throughput of SCTP relative to TCP is {} (published: {}). The published TCP is that of kernels of \
         2002 whose settings the paper does not specify; their throughput without loss ({} Mbit/s) is limited by TCP, not by \
         the link. {LIMITS} It therefore pauses for {} ms or longer, {}. The law is √(0.75/p) packets per round trip: TCP counts \
         ACKs, one for two segments, while SCTP and the TCP-like flow count bytes and have √(1.5/p).",
        texts.join(", "),
        published.join(", "),
        given(PUBLISHED_TCP[0]),
        PAUSE.as_millis(),
        pauses.join("; "),
    )
}

/// Returns the throughput in Mbit/s of √(growth/p) packets per round trip without queueing.
fn law(growth: f64, loss: f64) -> f64 {
    (growth / loss).sqrt() * (MESSAGE * 8) as f64 / millis(round_trip()) / 1e3
}

/// Describes the effect of RFC 2960's counters of missing reports on the gain of the second link.
fn counters(observed: &Observed) -> String {
    let texts = LOSSY.map(|number| {
        let loss = LOSSES[number];
        let [one, two] = [Configuration::One, Configuration::Two].map(|configuration| {
            let job = Job::Transfer(configuration, Stack::Counters, loss);
            average(observed, job, |m| m.throughput)
        });
        format!(
            "{} % at {} % loss ({} to {} Mbit/s)",
            measured((two / one - 1.0) * 100.0),
            percent(loss),
            measured(one),
            measured(two)
        )
    });
    let gain = |(one, two): (&f64, &Option<f64>)| two.map(|two| two / one - 1.0);
    let published: Vec<String> = PUBLISHED_ONE
        .iter()
        .zip(&PUBLISHED_TWO)
        .filter_map(gain)
        .filter(|gain| *gain > 0.0)
        .map(|gain| format!("{:.0}", gain * 100.0))
        .collect();
    format!(
        "RFC 2960’s counters: in the RFC that the paper’s implementation is named after, every SACK increments the counters of all \
         missing chunks, a counter restarts after each fast retransmission, and each of these halves the window of the path on which \
         the chunk was last sent; Fast Recovery was added by RFC 4960. With one link, the SACKs of one round trip therefore halve the window several times for one loss. \
         With two links, the first retransmission moves the chunk to the second link, whose window the later reductions apply to, and which \
         is not the bottleneck. This is a gain of {}, published: {} %. This mechanism explains a gain beyond the timeouts \
         that the second link avoids, but not the paper’s values: with this round trip, configuration 1 falls below its published column. The paper does not specify whether its \
         implementation of 2002 had this rule.",
        texts.join(", "),
        published.join(" and ")
    )
}

/// Describes possible causes of the published gain of the second link, by the time that it saves.
fn gains(observed: &Observed) -> String {
    let seconds = |rate: f64| TRANSFER as f64 * 8.0 / 1e6 / rate;
    let (mut texts, mut each) = (Vec::new(), Vec::new());
    for (number, loss) in LOSSES.into_iter().enumerate() {
        let Some(two) = PUBLISHED_TWO[number].filter(|_| loss > 0.0) else {
            continue;
        };
        let jobs = [Configuration::One, Configuration::Two]
            .map(|configuration| Job::Transfer(configuration, Stack::Paper, loss));
        let [one_rate, two_rate] = jobs.map(|job| average(observed, job, |m| m.throughput));
        let timeouts = jobs.map(|job| average(observed, job, |m| m.timeouts as f64));
        let published = seconds(PUBLISHED_ONE[number]) - seconds(two);
        let own = seconds(one_rate) - seconds(two_rate);
        let losses = TRANSFER as f64 / MESSAGE as f64 * loss;
        each.push(format!(
            "{} ms at {} %",
            measured((published - own) * 1e3 / losses),
            percent(loss)
        ));
        texts.push(format!(
            "at {} % loss by {} s as published, by {} s as measured, where T3-rtx expires {} times in configuration 1 and {} \
             times in configuration 2",
            percent(loss),
            measured(published),
            measured(own),
            measured(timeouts[0]),
            measured(timeouts[1]),
        ));
    }
    let tight = CONTROL.map(|number| {
        let loss = LOSSES[number];
        let [one, two] = [Configuration::One, Configuration::Two].map(|configuration| {
            let job = Job::Transfer(configuration, Stack::Tight, loss);
            average(observed, job, |m| m.throughput)
        });
        format!(
            "{} % at {} % loss ({} to {} Mbit/s; published: {} %)",
            measured((two / one - 1.0) * 100.0),
            percent(loss),
            measured(one),
            measured(two),
            measured(
                (PUBLISHED_TWO[number].unwrap_or_default() / PUBLISHED_ONE[number] - 1.0) * 100.0
            ),
        )
    });
    format!(
        "Why the measured gain of the second link is smaller than published: the second link shortens the transfer {}. With the settings that the paper specifies, it \
         saves the timeouts only, because a retransmission is not lost again, and each timeout costs RTO.Min, one second; each loss still halves \
         the window of the first link. In addition the publication saves nearly the same time for each loss, {}, most of a round \
         trip, as if the sender were idle while a loss is recovered on one link. A receive window of hardly \
         more than a round trip has this effect: data received after the gap fills it, and over the second link, which has a shorter delay, the gap is closed earlier. With otherwise RFC \
         2960’s settings, a window of {} bytes and a minimum timeout of {} s (RFC 2960’s RTO.Initial), the gain of the second link is {}. \
         The paper specifies neither of the two; it names the reference implementation of RFC 2960’s author as its implementation, and does not give the \
         round trip either. The gain can therefore be explained, and configuration 2 has a gain at every loss rate; with the settings of configuration \
         1, which reproduce its published column, it is smaller, and no setting is adjusted for it.",
        texts.join("; "),
        each.join(" and "),
        TIGHT_WINDOW,
        TIGHT_RTO.as_secs(),
        tight.join(", "),
    )
}

/// Describes the throughput of a window that is halved on each loss: the square-root law.
fn window_law(observed: &Observed) -> String {
    let round_trip = millis(round_trip());
    let bits = (MESSAGE * 8) as f64;
    let texts = CONTROL.map(|number| {
        let loss = LOSSES[number];
        let published = PUBLISHED_TWO[number].unwrap_or_default();
        let packets = (1.5 / loss).sqrt();
        let kept = average(
            observed,
            Job::Transfer(Configuration::Two, Stack::WindowKept, loss),
            |m| m.throughput,
        );
        format!(
            "at {} % loss {} Mbit/s (published for configuration 2: {}, which fits {} ms; with the window kept: {})",
            percent(loss),
            measured(law(1.5, loss)),
            given(published),
            measured(packets * bits / published / 1e3),
            measured(kept),
        )
    });
    format!(
        "A window that is halved on each loss has √(1.5/p) packets on average; with a round trip of {} ms without queueing \
         the throughput is {}. The published columns of configurations 1 and 2 therefore do not follow one law with one round trip. \
         The round trip is not adjusted for either of them.",
        given(round_trip),
        texts.join("; ")
    )
}

fn collapse(observed: &Observed) -> String {
    let all = observed.of(Job::Failure(Stack::OldRule));
    let lost = all.iter().filter(|m| m.lost_after.is_some()).count();
    let survived = observed.of(Job::Failure(Stack::Paper));
    let alive = survived.iter().filter(|m| m.delivered >= 1.0).count();
    let silence = survived.iter().map(|m| m.interruption).fold(0.0, f64::max);
    format!(
        "Configuration 3: when the primary path fails, the data received by the mobile node and the state of the correspondent \
         differ by the lost SACKs. The first retransmission on the other path is a duplicate, so the \
         rule sends its SACK to the failed path; no other chunk may be sent after a timeout, and every retransmission is \
         a duplicate again. {lost} of {} associations ended in this way, by Association.Max.Retrans; according to the paper this is \
         the usual case. It does not occur if a SACK is sent that no duplicate preceded. With SACKs to the source of the \
         data, {alive} of {} transfers were completed. Their longest delivery gap is at most RTO.Max, {} s, while the failover of the handovers ends one timeout \
         earlier: the SACK after the first timeout acknowledges data that had arrived before the failure and was last sent on the primary path, whose error counter it \
         clears (section 8.2).",
        all.len(),
        survived.len(),
        measured(silence / 1e3),
    )
}

fn failover(observed: &Observed) -> String {
    let of = |stack| {
        average(observed, Job::Handover(Move::Failover, stack), |m| {
            m.interruption
        })
    };
    let standard = Stack::Standard.config();
    format!(
        "With the recommended settings the failover takes long because new data is sent to the failed path until \
         Path.Max.Retrans ({}) is exceeded: each timeout, doubled from RTO.Min ({} s), causes one retransmission on \
         the other path, and the longest timeout is {} s. With the potentially failed state (RFC 7829) after the first timeout and \
         RTO.Min of {} ms the interruption is {} ms. A silent failure cannot be distinguished from a pause without a timeout.",
        standard.paths.path_max_retrans,
        standard.timers.rto_min.as_secs(),
        measured(of(Stack::Standard) / 1e3),
        Stack::Best.config().timers.rto_min.as_millis(),
        measured(of(Stack::Best)),
    )
}

fn handovers(observed: &Observed) -> String {
    let part =
        |kind, stack, n: usize| average(observed, Job::Handover(kind, stack), |m| m.parts[n]);
    format!(
        "Mobile IP has updated the path after {} ms without the gap; the remaining interruption is caused by the transport, \
         which is not notified of the new path: T3-rtx after at least RTO.Min with the recommended settings ({} ms), \
         less with a tail loss probe and RTO.Min of {} ms ({} ms). ASCONF notifies the transport: the correspondent \
         verifies the new address by a HEARTBEAT, one round trip, and retransmits the data in flight at once. If both \
         networks overlap, nothing is lost; the remaining interruption is caused by the small initial window of a new path \
         (section 7.2.1), which waits for its first SACK.",
        measured(part(Move::Reregistration, Stack::Standard, 1)),
        measured(part(Move::Reregistration, Stack::Standard, 2)),
        Stack::Best.config().timers.rto_min.as_millis(),
        measured(part(Move::Reregistration, Stack::Best, 2)),
    )
}
