//! What differs from the publication and why, in words that the data fill in.

use super::rows::{independent_share, model_share, share};
use super::run::Shares;
use super::setup::{FLOW_SIZES, LONG, QUEUE, READING, SHARINGS, WINDOW, place};
use super::{FlowCell, Observed, Pair};
use crate::format::measured;
use crate::stats::{jain, mean};

/// The paragraphs, in order.
pub(super) fn notes(observed: &Observed) -> Vec<String> {
    let mut notes = vec![fairness(observed), program(observed), repetitions(observed)];
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
    let least = |sharing: usize| {
        let all = observed.pairs.iter();
        all.map(|pair| means(&pair.shares[sharing], Shares::jain))
            .fold(1.0, f64::min)
    };
    let (worst, in_step) = (least(place::COUNTED), least(place::COUNTED_IN_STEP));
    let of = |pair: &Pair| {
        format!(
            "{} bytes {} % (in step {} %; equation (6): {} %, by the square root of it {} %)",
            pair.size,
            measured(means(&pair.shares[place::UNCOUNTED], share)),
            measured(means(&pair.shares[place::IN_STEP], share)),
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
        "Headers counted: the least mean Jain’s index of all sizes is {}, and {} without the random delay, as in the paper’s network. Not counted, the small messages take: {}. The equation \
         compares two equal windows, and a window of small messages also grows that much faster. Where losses fall on the \
         two flows independently, as with the random delays here, the faster one meets more of them, and rates go with the \
         square root of the growth. The control has no random delay, so that both lose in step or one always \
         loses, by the order of packets at the full queue.",
        measured(worst),
        measured(in_step),
        shown.join(", ")
    )
}

/// The settings that a program gets, beside the paper's flow and beside themselves.
fn program(observed: &Observed) -> String {
    let range = |sharing: usize, value: fn(&Shares) -> f64| {
        let pairs = observed.pairs.iter();
        let with = pairs.filter(|pair| SHARINGS[sharing].has(pair.size));
        let [low, high] = with
            .map(|pair| means(&pair.shares[sharing], value))
            .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], mean| {
                [low.min(mean), high.max(mean)]
            });
        format!("{} to {}", measured(low), measured(high))
    };
    format!(
        "A program’s settings (`AssociationConfig::modern`, nothing set) count headers as well: two such flows have a Jain’s index of {} over the sizes. Beside \
         the TCP-like flow, which is RFC 9260’s as in the paper, the small messages take {} % of the link at an index of {}; that is not fair, and CUBIC \
         alone is why: with RFC 9260’s congestion control in its place and all else as it is, they take {} % at {}. \
         After a loss CUBIC comes back by the clock (K = ³√(0.3·W/0.4) s, 2.7 s for a window of 26 packets, which is half of the link’s), RFC 9260 by one packet a round \
         trip, which the full queue of {QUEUE} packets makes 0.6 s long here. RFC 9438 (section 5.1) has CUBIC behave as they do where round trips are short or windows small, and \
         not here: the longer the queue, the more it takes. The TCP of today is CUBIC, so that the rows of two such flows are what a program meets \
         beside it; with “rfc9260” for its congestion control it shares evenly with the older one.",
        range(place::BEST_PAIR, Shares::jain),
        range(place::BEST, share),
        range(place::BEST, Shares::jain),
        range(place::WITHOUT_CUBIC, share),
        range(place::WITHOUT_CUBIC, Shares::jain),
    )
}

fn repetitions(observed: &Observed) -> String {
    let all = observed
        .pairs
        .iter()
        .flat_map(|pair| &pair.shares[place::COUNTED]);
    let least = all.map(Shares::jain).fold(1.0, f64::min);
    let of_means = observed.pairs.iter().filter_map(|pair| {
        let rate = |flow: usize| {
            let rates: Vec<f64> = pair.shares[place::COUNTED]
                .iter()
                .map(|s| s.network[flow])
                .collect();
            mean(&rates)
        };
        jain(&[rate(0)?, rate(1)?])
    });
    let spread = observed.pairs.iter().filter_map(|pair| {
        let shares: Vec<f64> = pair.shares[place::COUNTED].iter().map(share).collect();
        deviation(&shares)
    });
    format!(
        "Single repetitions: each measures {} s, in which the two flows do not lose often; the least index of one \
         repetition with headers counted is {}. The paper has no index but mean rates over its seeds; the index of those is at least {} here. \
         The rows have the mean of the indexes, which is stricter: a share that differs by d of 100 from one half costs 4·d²/10,000 whichever \
         flow has more. By seeds, the share differs by {} of 100 (standard deviation, the most of all sizes); no size is unfair, and the \
         deviation goes down with the time that is measured. --full measures {} s, as the paper does.",
        observed.lengths.measured.as_secs(),
        measured(least),
        measured(of_means.fold(1.0, f64::min)),
        measured(spread.fold(0.0, f64::max)),
        LONG.measured.as_secs(),
    )
}

/// The standard deviation of a sample.
fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
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
    let of = |extra: usize, place: usize| {
        let cell = observed.flow(&format!("extra{extra}"))?;
        let ratios: Vec<f64> = cell.loads[place].iter().map(|load| load.ratio).collect();
        let size = FLOW_SIZES[place];
        Some(format!(
            "{} bytes for {extra} hidden in {size} (ratio {})",
            WINDOW * extra / (size + extra),
            measured(mean(&ratios)?)
        ))
    };
    let shown = [(50, 6), (100, 6), (150, 6), (250, 6), (50, 2), (250, 2)];
    let promised: Vec<String> = shown
        .into_iter()
        .filter_map(|(extra, place)| of(extra, place))
        .collect();
    Some(format!(
        "Memory not shown: {} to {} with 250 bytes a message, {} to {} with 50, over the sizes. What does not fit is \
         dropped and sent again after a timeout or as a probe; a peer that answers but has no room is no \
         failure here, so that the association lives on. The window promises w·e/(s+e) bytes that there is no memory for, with e hidden bytes in a message \
         of s, and the ratio is at its most where that is more than the {READING} bytes which the reader takes in an RTO.Min of a second: {}. \
         So with small messages it hardly matters how much is hidden, and less than the publication shows.",
        measured(low),
        measured(high),
        measured(least_low),
        measured(least_high),
        promised.join(", "),
    ))
}

fn silly(observed: &Observed) -> Option<String> {
    // The most that a switch changes over the sizes, in percent.
    let most = |with: &str, without: &str| {
        let [with, without] = [observed.flow(with)?, observed.flow(without)?];
        let mut most: f64 = 0.0;
        for (a, b) in with.loads.iter().zip(&without.loads) {
            let [a, b] = [a, b].map(|loads| {
                let ratios: Vec<f64> = loads.iter().map(|load| load.ratio).collect();
                mean(&ratios)
            });
            most = most.max((b? / a? - 1.0).abs());
        }
        Some(measured(100.0 * most))
    };
    Some(format!(
        "Silly windows and Nagle: the publication has up to 20 % more load without avoidance at the sender. Here its absence changes the load by {} % at most, \
         over the sizes, and by {} % where Nagle’s algorithm is off as well; the receiver’s changes it by {} % at most. Each switch does what it should in this \
         network, and another one hides it. The source always has more to send, so that a packet which the window cuts short never holds the last of it: \
         Nagle’s algorithm holds it back as avoidance at the sender does, and only without both it leaves. And where memory is hidden, the window \
         that is announced never comes near zero with small messages ({} bytes are left of it with 100 bytes in a message): what is sent in vain is what \
         a timeout’s slow start sends beyond the memory that the reader has made free, whatever the switches say. So the load with \
         avoidance is that of the publication without it already, 80 to 90 % of retransmissions with small messages.",
        most("extra50", "extra50.sws-receiver")?,
        most("extra50.sws-both-no-nagle", "extra50.sws-receiver-no-nagle")?,
        most("extra50", "extra50.sws-sender")?,
        WINDOW * 50 / 150,
    ))
}

/// What the invitations of the two windows cost, and what comes of it.
fn truth(observed: &Observed) -> Option<String> {
    let memory = observed.flow("memory-left.sws-both")?;
    let truth = observed.flow("true.sws-both")?;
    let best = observed.flow("best")?;
    let as_it_is = observed.flow("best-as-it-is")?;
    let [low, high] = range(memory);
    let [true_low, true_high] = range(truth);
    let [best_low, best_high] = range(best);
    let [least, most] = range(as_it_is);
    let dropped = |cell: &FlowCell| {
        cell.loads
            .iter()
            .flatten()
            .map(|load| load.dropped)
            .sum::<u64>()
    };
    let overdrawn = [FLOW_SIZES[0], FLOW_SIZES[3], FLOW_SIZES[6]].map(|size| {
        let times = (size + memory.flow.extra) as f64 / size as f64;
        format!("{} times at {size} bytes", measured(times))
    });
    Some(format!(
        "The true window can be read in two ways, both in section 4.4 of the paper. As its rule says it, the window is the memory that \
         is left: {} to {}, and only large messages come near 1. It is true of what is in the buffer, not of what it invites: w bytes are \
         filled with w bytes of payload, which take more memory than there is ({}), and {} chunks were dropped. A sender that has \
         waited for the window uses all of it at once, so that no update comes in between. As its aim says it, memory must not run out before \
         the window is zero: then the window is the payload that fits into what is left, and with the same 250 bytes a message the ratio is {} \
         to {}, with {} chunks dropped. That is the default here: {} to {} with its own cost of a message in this window, {} to {} with a program’s settings and nothing set; below 1 is what was in the buffer when measuring began. The paper does not say \
         which sizes its Fig. 7 begins with; with the first reading no rule for updates or silly windows mends the small ones, because the excess \
         is the same share of any window.",
        measured(low),
        measured(high),
        overdrawn.join(", "),
        dropped(memory),
        measured(true_low),
        measured(true_high),
        dropped(truth),
        measured(best_low),
        measured(best_high),
        measured(least),
        measured(most),
    ))
}
