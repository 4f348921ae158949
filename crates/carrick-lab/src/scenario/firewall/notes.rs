//! Notes: differences from the publication and their causes, with values from the data.

use carrick_simco::model::Model;

use super::Observed;
use super::rows::others;
use super::setup::{LOSSES, ONCE, PAPER, STREAMS, TCP, workload};
use crate::tcp_host::LIMITS;

/// Returns the paragraphs, in order.
pub(super) fn notes(observed: &Observed) -> Vec<String> {
    vec![
        agreement(observed),
        randomness(),
        again(observed),
        streams(observed),
        "The published column contains the model, equation (4), with d = 10 ms: the paper gives its measurements \
         only in figures, which “match very well” and are above the model for more than 1 % loss."
            .into(),
        tcp(observed),
    ]
}

/// Describes the difference between measurement and model.
fn agreement(observed: &Observed) -> String {
    let difference = |loss: u32| {
        let each = STREAMS
            .iter()
            .filter_map(|streams| observed.find(&PAPER, loss, *streams));
        let all: Vec<f64> = each
            .map(|o| (o.mean() / o.cell.model() - 1.0) * 100.0)
            .collect();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!(
            "{:.1} % loss: {least:+.1} to {most:+.1} %",
            f64::from(loss) / 10.0
        )
    };
    let all: Vec<String> = LOSSES.iter().map(|loss| difference(*loss)).collect();
    format!(
        "Measurements relative to the model, over all numbers of streams: {}.",
        all.join("; ")
    )
}

/// Describes the assumptions of the model that do not hold at any loss rate.
fn randomness() -> String {
    let demand = workload().demand();
    let exact = demand.exact_interval();
    let model = Model::paper(0.02);
    let closer = Model {
        interval: exact,
        ..model
    };
    // Messages of a Poisson process: those sent during the retransmission wait RTT/2 each on
    // average, and the three that reported the loss wait for each other.
    let (rtt, d) = (model.rtt, exact);
    let poisson = |p: f64| {
        let reports = 6.0 * d + 4.0 * rtt;
        rtt + 2.0 * p * (reports + rtt * rtt / (2.0 * d)) + model.processing
    };
    format!(
        "The model’s messages have a constant interval of 10 ms. In this experiment the intervals are random, {exact:.2} ms \
         on average by equation (1) (10 ms is the paper’s approximation). With one stream and 2 % loss the \
         model with that interval gives {:.2} ms instead of {:.2} ms; with random intervals, but without \
         the loss of SACKs and of retransmissions, the result is {:.2} ms.",
        closer.response(1),
        model.response(1),
        poisson(0.02),
    )
}

/// Describes the effect of repeated fast retransmissions.
fn again(observed: &Observed) -> String {
    let cell = |variant, loss| observed.find(variant, loss, 1);
    let (Some(paper), Some(once)) = (cell(&PAPER, 20), cell(&ONCE, 20)) else {
        return String::new();
    };
    format!(
        "With the rule of RFC 9260 that a chunk is fast retransmitted only once, a lost retransmission waits for \
         T3-rtx, whose RTO.Min is 1 s, and blocks all later messages of its stream: with 2 % loss and one stream \
         the mean is {:.1} ms, and T3-rtx expired {} times at the agent. This is far from the published curves. RFC 2960 had no such \
         rule, and the paper attributes values above the model to “multiple fast retransmits and timeouts”. Therefore \
         the rows with the paper’s settings fast retransmit again after three more missing reports: {:.1} ms and {} times. The \
         control rows follow RFC 9260.",
        once.mean(),
        once.timeouts(),
        paper.mean(),
        paper.timeouts(),
    )
}

/// Describes the number of streams required.
fn streams(observed: &Observed) -> String {
    let mean = |streams| {
        observed
            .find(&PAPER, 20, streams)
            .map(super::Observation::mean)
    };
    let (Some(one), Some(six), Some(ten)) = (mean(1), mean(6), mean(10)) else {
        return String::new();
    };
    let names: Vec<&str> = others().iter().map(|variant| variant.label).collect();
    format!(
        "Streams at 2 % loss: {one:.2} ms with 1 stream, {six:.2} ms with 6, {ten:.2} ms with 10; M = ⌈D/d⌉ is {}, and the closed \
         form (5) gives {}. Requests for new rules use the streams in turn, but later requests of a rule use its stream, so that the assignment to streams is partly \
         random. Other settings: {}.",
        Model::paper(0.02).streams(),
        workload().demand().streams(20.0),
        names.join("; "),
    )
}

/// Compares published statements about TCP with the measurements.
fn tcp(observed: &Observed) -> String {
    let means = |loss: &u32| {
        let of = |variant| Some(observed.find(variant, *loss, 1)?.mean());
        Some((*loss, of(&TCP)?, of(&PAPER)?))
    };
    let all: Vec<(u32, f64, f64)> = LOSSES.iter().filter_map(means).collect();
    let percent = |loss: u32| format!("{}", f64::from(loss) / 10.0);
    let lossy = || all.iter().filter(|(loss, ..)| *loss > 0);
    let not: Vec<String> = lossy()
        .filter(|(_, tcp, sctp)| tcp <= sctp)
        .map(|(loss, ..)| percent(*loss))
        .collect();
    let verdict = if not.is_empty() {
        "confirmed at every loss rate above 0".into()
    } else {
        format!("not confirmed at {} %", not.join(", "))
    };
    let times: Vec<String> = lossy()
        .map(|(loss, tcp, sctp)| {
            format!("{tcp:.0} instead of {sctp:.0} ms at {} %", percent(*loss))
        })
        .collect();
    format!(
        "TCP: published as slower than SCTP with one stream at every loss rate; {verdict} ({}). Without loss both take one \
         round trip. The published TCP is that of a kernel of 2005; current kernels outperform both. {LIMITS}",
        times.join(", ")
    )
}
