//! Notes: differences from the publication and their causes, with values from the data.

use super::rows::{independent_share, model_share, share};
use super::run::Shares;
use super::setup::{FLOW_SIZES, LONG, QUEUE, READING, SHARINGS, WINDOW, place};
use super::{FlowCell, Observed, Pair};
use crate::format::measured;
use crate::stats::{jain, mean};

/// Returns the paragraphs, in order.
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
    let worst = least(place::COUNTED);
    let of = |pair: &Pair| {
        format!(
            "{} bytes {} % (with random delays {} %; equation (6): {} %, by its square root {} %)",
            pair.size,
            measured(means(&pair.shares[place::UNCOUNTED], share)),
            measured(means(&pair.shares[place::DELAYED], share)),
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
        "Headers counted: the lowest mean of Jain’s index over all sizes is {}. Not counted, the small messages get: {}. The equation \
         compares two equal windows; in addition, a window of small messages grows faster by the same factor. Both flows often lose packets of one full queue \
         simultaneously. If losses occur in the two flows independently, the faster flow has more of them, and rates are proportional to the \
         square root of the growth: the control delays each packet at random by up to the time of a full packet before the shared link.",
        measured(worst),
        shown.join(", ")
    )
}

/// Describes the settings of a program, with the paper's flow and with themselves.
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
        "A program’s settings (`AssociationConfig::modern` without changes) count headers as well: two such flows have a Jain’s index of {} over the sizes. With \
         the TCP-like flow, which follows RFC 9260 as in the paper, the small messages get {} % of the link at an index of {}. This is not fair, and CUBIC \
         is the only cause: with RFC 9260’s congestion control in its place and everything else unchanged, they get {} % at {}. \
         After a loss, CUBIC recovers by time (K = ³√(0.3·W/0.4) s, 2.7 s for a window of 26 packets, half of the link’s), RFC 9260 by one packet per round \
         trip, which the full queue of {QUEUE} packets extends to 0.6 s. RFC 9438 (section 5.1) intends equal behaviour for short round trips or small windows, which is \
         not the case here: the longer the queue, the larger the share of CUBIC. Current TCP uses CUBIC, so that the rows of two such flows describe the share of a program \
         that competes with it; with “rfc9260” as its congestion control it shares equally with the older one.",
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
        "Single repetitions: each measures {} s, in which the two flows have few losses; the lowest index of one \
         repetition with headers counted is {}. The paper gives no index but mean rates over its seeds; the index of these means is at least {} in this experiment. \
         The rows contain the mean of the indices, which is stricter: a share that differs by d of 100 from one half costs 4·d²/10,000 regardless of which \
         flow gets more. Between seeds, the share differs by {} of 100 (standard deviation, maximum over all sizes); no size is unfair, and the \
         deviation decreases with the measurement time. --full measures {} s, as in the paper.",
        observed.lengths.measured.as_secs(),
        measured(least),
        measured(of_means.fold(1.0, f64::min)),
        measured(spread.fold(0.0, f64::max)),
        LONG.measured.as_secs(),
    )
}

/// Returns the standard deviation of a sample.
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
            "{} bytes with {extra} not shown per message of {size} (ratio {})",
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
        "Memory not shown: the ratio is {} to {} with 250 bytes per message, {} to {} with 50, over the sizes. Data that does not fit is \
         dropped and retransmitted after a timeout or as a probe; a peer that responds but has no memory is not \
         considered failed, so that the association persists. The window advertises w·e/(s+e) bytes for which there is no memory, with e bytes not shown per message \
         of s, and the ratio is highest if that is more than the {READING} bytes that the reader reads in an RTO.Min of a second: {}. \
         With small messages, the ratio therefore hardly depends on the amount not shown, and less than in the publication.",
        measured(low),
        measured(high),
        measured(least_low),
        measured(least_high),
        promised.join(", "),
    ))
}

fn silly(observed: &Observed) -> Option<String> {
    // Largest change caused by a switch over the sizes, in per cent.
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
        "Silly windows and Nagle: the publication has up to 20 % more load without avoidance at the sender. In this experiment its absence changes the load by at most {} % \
         over the sizes, and by {} % with Nagle’s algorithm disabled as well; avoidance at the receiver changes it by at most {} %. Each switch has its specified effect in this \
         network, but is masked by another one. The source always has another message to send, so that a packet cut short by the window never contains the last message: \
         Nagle’s algorithm delays it as avoidance at the sender does, and it is sent only without both. With memory not shown, the advertised \
         window does not approach zero with small messages ({} bytes are left with 100 bytes per message): useless transmissions are those that \
         slow start after a timeout sends beyond the memory freed by the reader, independently of the switches. Therefore the load with \
         avoidance is already that of the publication without it, 80 to 90 % of retransmissions with small messages.",
        most("extra50", "extra50.sws-receiver")?,
        most("extra50.sws-both-no-nagle", "extra50.sws-receiver-no-nagle")?,
        most("extra50", "extra50.sws-sender")?,
        WINDOW * 50 / 150,
    ))
}

/// Describes the cost of the two interpretations of the true window.
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
        "The true window has two interpretations, both in section 4.4 of the paper. According to its rule, the window is the remaining \
         memory: {} to {}, and only large messages come close to 1. This describes the contents of the buffer, but not the data that it permits: w bytes are \
         filled with w bytes of payload, which need more memory than there is ({}), and {} chunks were dropped. A sender that was \
         blocked by the window uses all of it at once, so that no update arrives in between. According to its purpose, memory must not be exhausted before \
         the window is zero: then the window is the payload that fits into the remaining memory, and with the same 250 bytes per message the ratio is {} \
         to {}, with {} chunks dropped. This is the default of this stack: {} to {} with its own memory cost of a message in this window, {} to {} with a program’s settings without changes; values below 1 result from data in the buffer at the start of the measurement. The paper does not specify \
         the smallest size in its Fig. 7; with the first interpretation no rule for updates or silly windows improves the small sizes, because the excess \
         is the same proportion of any window.",
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
