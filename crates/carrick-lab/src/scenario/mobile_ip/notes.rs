//! Notes: differences from the publication and their causes, with values from the data.

use super::rows::{PUBLISHED_ONE, PUBLISHED_TCP, PUBLISHED_TWO, percent};
use super::run::{Configuration, Move};
use super::setup::{
    ALTERNATIVE_DELAY, ALTERNATIVE_RTO, ALTERNATIVE_WINDOW, DELAY, LOSSES, MESSAGE, Stack,
    TRANSFER, millis, round_trip,
};
use super::tcp::PAUSE;
use super::{CONTROL, Job, LOSSY, Observed};
use crate::format::{given, measured};
use crate::stats::mean;
use crate::tcp_host::LIMITS;

/// Returns the paragraphs, in order.
pub(super) fn notes(observed: &Observed) -> Vec<String> {
    vec![
        tcp(observed),
        open_settings(observed),
        two_per_cent(observed),
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

/// Describes the settings that the paper leaves open, and what else fits its tables.
fn open_settings(observed: &Observed) -> String {
    let of = |configuration, stack, loss: f64| {
        average(observed, Job::Transfer(configuration, stack, loss), |m| {
            m.throughput
        })
    };
    let texts = |stack| {
        let each = CONTROL.map(|number| {
            let loss = LOSSES[number];
            let [one, two] = [Configuration::One, Configuration::Two]
                .map(|configuration| of(configuration, stack, loss));
            format!(
                "{} to {} Mbit/s ({:+.1} %) at {} % loss",
                measured(one),
                measured(two),
                (two / one - 1.0) * 100.0,
                percent(loss)
            )
        });
        each.join(", ")
    };
    let published = CONTROL.map(|number| {
        let (one, two) = (
            PUBLISHED_ONE[number],
            PUBLISHED_TWO[number].unwrap_or(f64::NAN),
        );
        format!(
            "{} to {} Mbit/s ({:+.1} %) at {} % loss",
            given(one),
            given(two),
            (two / one - 1.0) * 100.0,
            percent(LOSSES[number])
        )
    });
    let timeouts = |configuration| {
        let job = Job::Transfer(configuration, Stack::Paper, LOSSES[3]);
        measured(average(observed, job, |m| m.timeouts as f64))
    };
    format!(
        "What the paper leaves open: round trip, receive window and timeouts of its implementation, and the way of the acknowledgements. Published for \
         configurations 1 and 2: {}. With a round trip of {} ms over the home agent, and a way back of configuration 2 that is the triangle instead \
         of the reverse tunnel: {}. The text has both ways (section 3), and the routing of configuration 2 was provisioned by hand so that the Mobile IP \
         address is the source (section 4); that its acknowledgements took the triangle is inferred from the numbers. They then neither \
         take the long way nor are lost in the tunnel, which shortens every round trip. The second link also saves timeouts: at {} % loss T3-rtx expires {} times in \
         configuration 1 and {} times in configuration 2. The alternative has the reverse tunnel in both configurations, a round trip of {} ms, a \
         window of {} bytes and RTO.Min {} s: {}.",
        published.join(", "),
        given(millis(DELAY * 2)),
        texts(Stack::Paper),
        percent(LOSSES[3]),
        timeouts(Configuration::One),
        timeouts(Configuration::Two),
        given(millis(ALTERNATIVE_DELAY * 2)),
        ALTERNATIVE_WINDOW,
        ALTERNATIVE_RTO.as_secs_f64(),
        texts(Stack::Alternative),
    )
}

/// Describes the cell of configuration 1 that no setting fits together with its column.
fn two_per_cent(observed: &Observed) -> String {
    let job = |stack| Job::Transfer(Configuration::One, stack, LOSSES[2]);
    let of = |stack| measured(average(observed, job(stack), |m| m.throughput));
    format!(
        "Configuration 1 at 2 % loss is published with {} Mbit/s; measured are {} and, with the alternative, {}. By the square-root law from the \
         published value at 1 % loss it would be about {}. The paper mentions that real congestion occasionally affected its results (section 4); this cell is \
         probably one of these.",
        given(PUBLISHED_ONE[2]),
        of(Stack::Paper),
        of(Stack::Alternative),
        measured(PUBLISHED_ONE[1] / 2_f64.sqrt()),
    )
}

/// Describes the throughput of a window that is halved on each loss: the square-root law.
fn window_law(observed: &Observed) -> String {
    let texts = CONTROL.map(|number| {
        let loss = LOSSES[number];
        let job = Job::Transfer(Configuration::Two, Stack::WindowKept, loss);
        format!(
            "{} Mbit/s at {} % loss (configuration 2 with the window kept: {})",
            measured(law(1.5, loss)),
            percent(loss),
            measured(average(observed, job, |m| m.throughput)),
        )
    });
    format!(
        "A window that is halved on each loss has √(1.5/p) packets on average; with the {} ms of configuration 1 without queueing the throughput is {}.",
        given(millis(round_trip())),
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
