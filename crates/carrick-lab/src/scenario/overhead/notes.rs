//! What differs from the publication and why, in words that the data fill in.

use super::rows::{independent_share, model_share, share};
use super::run::Shares;
use super::setup::FLOW_SIZES;
use super::{FlowCell, Observed, Pair};
use crate::format::{given, measured};
use crate::stats::mean;

/// The paragraphs, in order.
pub(super) fn notes(observed: &Observed) -> Vec<String> {
    let mut notes = vec![fairness(observed), repetitions(observed)];
    notes.extend(hidden(observed));
    notes.extend(silly(observed));
    notes.extend(truth(observed));
    notes
}

fn means(shares: &[Shares], value: fn(&Shares) -> f64) -> f64 {
    let values: Vec<f64> = shares.iter().map(value).collect();
    mean(&values).unwrap_or_default()
}

fn fairness(observed: &Observed) -> String {
    let worst = observed
        .pairs
        .iter()
        .map(|pair| means(&pair.shares[0], Shares::jain))
        .fold(1.0, f64::min);
    let of = |pair: &Pair| {
        format!(
            "{} bytes {} % (in step {} %; equation (6): {} %, by the square root of it {} %)",
            pair.size,
            measured(means(&pair.shares[1], share)),
            measured(means(&pair.shares[2], share)),
            measured(model_share(pair.size, false)),
            measured(independent_share(pair.size)),
        )
    };
    let shown: Vec<String> = observed
        .pairs
        .iter()
        .filter(|p| [10, 50, 200].contains(&p.size))
        .map(of)
        .collect();
    format!(
        "Headers counted: the least mean Jain’s index of all sizes is {}. Not counted, the small messages take: {}. The equation \
         compares two equal windows, and a window of small messages also grows that much faster. Where losses fall on the \
         two flows independently, as with the random delays here, the faster one meets more of them, and rates go with the \
         square root of the growth. The control has no random delay, so that both lose in step or one always \
         loses, by the order of packets at the full queue.",
        measured(worst),
        shown.join(", ")
    )
}

fn repetitions(observed: &Observed) -> String {
    let all = observed.pairs.iter().flat_map(|pair| &pair.shares[0]);
    let least = all.map(Shares::jain).fold(1.0, f64::min);
    format!(
        "Single repetitions: each measures {} s, in which the two flows lose some dozen times; the least index of one \
         repetition with headers counted is {}. --full measures 400 s, as the paper does.",
        observed.duration.as_secs(),
        measured(least)
    )
}

fn range(cell: &FlowCell) -> [f64; 2] {
    let means = cell.loads.iter().filter_map(|loads| {
        let values: Vec<f64> = loads.iter().map(|load| load.ratio).collect();
        mean(&values)
    });
    means.fold([f64::INFINITY, 0.0], |[low, high], m| {
        [low.min(m), high.max(m)]
    })
}

fn hidden(observed: &Observed) -> Option<String> {
    let [low, high] = range(observed.flow("extra250")?);
    let [least_low, least_high] = range(observed.flow("extra50")?);
    Some(format!(
        "Memory not shown: {} to {} with 250 bytes a message, {} to {} with 50, over the sizes. What does not fit is \
         dropped and sent again after a timeout or as a probe; a peer that answers but has no room is no \
         failure here, so that the association lives on.",
        measured(low),
        measured(high),
        measured(least_low),
        measured(least_high)
    ))
}

fn silly(observed: &Observed) -> Option<String> {
    let with = observed.flow("extra50")?;
    let without = observed.flow("extra50.sws-none-no-nagle")?;
    let mut most: f64 = 0.0;
    for (a, b) in with.loads.iter().zip(&without.loads) {
        let means = [a, b].map(|loads| mean(&loads.iter().map(|l| l.ratio).collect::<Vec<_>>()));
        if let [Some(a), Some(b)] = means {
            most = most.max((b / a - 1.0).abs());
        }
    }
    Some(format!(
        "Silly windows and Nagle: without all three the ratio changes by {} % at most (published: up to 20 % more without \
         avoidance at the sender). These sources always have more to send, so Nagle’s algorithm never waits; and a \
         message is sent whole or not at all, so that there are no scraps of it: what is left to avoidance \
         is only how many messages a packet carries.",
        measured(100.0 * most)
    ))
}

fn truth(observed: &Observed) -> Option<String> {
    let truth = observed.flow("true.sws-both")?;
    let best = observed.flow("best")?;
    let [low, high] = range(truth);
    let [best_low, best_high] = range(best);
    let dropped: u64 = best.loads.iter().flatten().map(|load| load.dropped).sum();
    Some(format!(
        "The true window: announcing the memory that is left gives {} to {}, and only large messages come near 1. It is true of \
         what is in the buffer, not of what it invites: {} bytes left are filled with that much payload, and each \
         message of {} bytes then costs 250 more. In the paper a sender that “cannot follow closely” was corrected by \
         regular updates; a sender here uses all of a window at once. The default announces what fits of messages as \
         large as the last ones: {} to {}, {dropped} chunks dropped in all runs. That is ratio 1 without a knob.",
        measured(low),
        measured(high),
        given(3000.0),
        FLOW_SIZES[0],
        measured(best_low),
        measured(best_high),
    ))
}
