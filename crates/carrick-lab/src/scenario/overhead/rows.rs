//! Rows of the table.

use super::model;
use super::run::Shares;
use super::setup::{
    COUNTED, DELAY, EXTRA, FLOW_SIZES, FULL, FlowControlSetting, QUEUE, RATE, SHARINGS, Settings,
    Sharing, WINDOW,
};
use super::{FlowCell, Observed, Pair};
use crate::format;
use crate::result::Row;
use crate::stats::Sorted;

/// Sizes of the second part for which every type of flow control has a row; those in a figure of
/// the paper have one for each size.
const ROW_SIZES: [usize; 3] = [100, 700, 1000];

/// Prefix of the identifiers of the flows in the paper's Fig. 6.
const FIGURE_6: &str = "extra50";

/// Returns all rows, in the order of the table.
pub(super) fn rows(observed: &Observed) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, sharing) in SHARINGS.iter().enumerate() {
        for pair in observed.pairs.iter().filter(|pair| sharing.has(pair.size)) {
            rows.extend(pair_rows(pair, sharing, &pair.shares[index]));
        }
    }
    for cell in &observed.flows {
        rows.extend(flow_rows(observed, cell));
    }
    if let Some(best) = observed.flow("best") {
        rows.extend(accepted_rows(best));
    }
    rows
}

/// Returns the window of each flow in bytes if the link and its queue are shared equally.
pub(super) fn fair_window() -> usize {
    let wire = RATE as f64 / 8.0 * (2.0 * DELAY.as_secs_f64());
    usize::midpoint(wire as usize, QUEUE * model::MTU)
}

/// Returns the link share of small messages in per cent if both flows had the same window:
/// equations (4) and (6).
pub(super) fn model_share(size: usize, counted: bool) -> f64 {
    let window = fair_window();
    let small = model::network_bytes(window, size, counted) as f64;
    let full = model::network_bytes(window, FULL, counted) as f64;
    100.0 * small / (small + full)
}

/// Returns the user bytes per byte of the network: equations (5) and (4).
pub(super) fn yield_of(size: usize) -> f64 {
    let window = fair_window();
    let user = model::application_bytes(window, size, true) as f64;
    user / model::network_bytes(window, size, true) as f64
}

/// Returns the application rates in bit/s of the flow with messages of `size` bytes and of the
/// TCP-like flow, if both have the same window without headers and fill the link together:
/// equations (7) and (6).
pub(super) fn uncounted_goodput(size: usize) -> [f64; 2] {
    let window = fair_window();
    let flows = [size, FULL];
    let network = flows.map(|size| model::network_bytes(window, size, false) as f64);
    let of_a_byte = RATE as f64 / (network[0] + network[1]);
    flows.map(|size| model::application_bytes(window, size, false) as f64 * of_a_byte)
}

/// Returns the share if each flow's rate is proportional to the square root of its window's growth,
/// as with independent losses of the flows (the rate is then √(growth / loss) per round trip).
pub(super) fn independent_share(size: usize) -> f64 {
    let share = model_share(size, false) / 100.0;
    let growth = (share / (1.0 - share)).sqrt();
    100.0 * growth / (1.0 + growth)
}

/// Returns the measured share.
pub(super) fn share(shares: &Shares) -> f64 {
    100.0 * shares.network[0] / (shares.network[0] + shares.network[1])
}

/// Identifier of the paper's flows with headers counted.
const COUNTED_ID: &str = "counted";

/// Reason why a program's settings get more than half of the link with the TCP-like flow.
const CUBIC: &str = "The cause is CUBIC, not the headers: see the note on a program’s settings.";

fn pair_rows(pair: &Pair, sharing: &Sharing, shares: &[Shares]) -> [Row; 2] {
    let (id, label, counted) = (sharing.id, sharing.label, sharing.counts_headers());
    let size = pair.size;
    let taken: Vec<f64> = shares.iter().map(share).collect();
    let fairness: Vec<f64> = shares.iter().map(Shares::jain).collect();
    let mut share = Row::new(
        &format!("{id}.{size}.share"),
        &format!("{size} bytes, {label}: share of the link"),
        "%",
    )
    .modelled(model_share(size, counted))
    .measured(&taken)
    .note(&spread(&taken));
    let mut jain = Row::new(
        &format!("{id}.{size}.jain"),
        &format!("{size} bytes, {label}: Jain’s index"),
        "",
    )
    .at_most(1.0)
    .measured(&fairness)
    .note(&spread(&fairness));
    // The paper's two flows have the same congestion control.
    if counted && sharing.settings[0] == sharing.settings[1] {
        share = share.published(50.0);
        if id != COUNTED_ID {
            share = share.not_compared("the paper has no such pair of flows");
        }
    }
    if size == 10 && id == "counted" {
        share = share.note("Bound: equations (4) and (6) for two equal windows.");
        jain = jain.note(
            "Mean of the index of each repetition. These are RFC 9260’s settings; those of a program are in the rows “best”.",
        );
    }
    if sharing.settings == [Settings::Modern, COUNTED] {
        share = share.note(CUBIC);
        jain = jain.note(CUBIC);
    }
    if id == "counted" && jain.measured.is_some_and(|mean| mean < 0.99) {
        jain = jain.note("Below 0.99: see the note on single repetitions.");
    }
    [share, jain]
}

/// Minimum number of repetitions for quantiles.
const SPREAD: usize = 20;

/// Describes the distribution of the repetitions, if there are enough of them.
fn spread(values: &[f64]) -> String {
    if values.len() < SPREAD {
        return String::new();
    }
    let sorted = Sorted::new(values.to_vec());
    let quantiles = [0.05, 0.5, 0.95].map(|share| sorted.quantile(share).unwrap_or(f64::NAN));
    let [low, median, high] = quantiles.map(format::measured);
    format!("By seeds: 5 % quantile {low}, median {median}, 95 % {high}.")
}

fn flow_rows(observed: &Observed, cell: &FlowCell) -> Vec<Row> {
    let flow = &cell.flow;
    let whole = [
        "best",
        "best-as-it-is",
        "true.sws-both",
        "memory-left.sws-both",
    ];
    let hidden = EXTRA.map(|extra| format!("extra{extra}"));
    let all = whole.contains(&flow.id.as_str()) || hidden.contains(&flow.id);
    let mut rows = Vec::new();
    for (place, size) in FLOW_SIZES.iter().enumerate() {
        if !all && !ROW_SIZES.contains(size) {
            continue;
        }
        let loads = &cell.loads[place];
        let ratios: Vec<f64> = loads.iter().map(|load| load.ratio).collect();
        let dropped: u64 = loads.iter().map(|load| load.dropped).sum();
        let row = Row::new(
            &format!("{}.{size}", flow.id),
            &format!("{}, {size} bytes: transmitted to delivered", flow.label),
            "",
        )
        // The ratio without retransmissions; within a window of time it can be a little less.
        .modelled(1.0)
        .measured(&ratios)
        .note(&format!(
            "{dropped} chunks were dropped for lack of memory."
        ));
        rows.push(match flow.id.as_str() {
            "extra250" if *size == ROW_SIZES[0] => row
                .published(2.0)
                .note("Published: almost 2, and never 1 at any size."),
            "true.sws-both" => row
                .published(1.0)
                .not_compared("the paper's simulator announces the memory that is left"),
            "memory-left.sws-both" => row.published(1.0).note(if cell_is_off(&ratios) {
                "See the note on the true window."
            } else {
                ""
            }),
            _ => switched(flow, row),
        });
        rows.extend(without_the_senders(observed, cell, place));
    }
    rows
}

/// Describes the published effect of the switches in Fig. 6, for flows with a switch off.
fn switched(flow: &FlowControlSetting, row: Row) -> Row {
    if !flow.id.starts_with(FIGURE_6) {
        return row;
    }
    match (flow.avoidance, flow.nagle) {
        ([true, true], true) => row,
        ([true, true], false) => row.note(
            "Published: Nagle’s algorithm has an effect only without avoidance at the sender.",
        ),
        ([true, false], _) => row.note(
            "Published: the receiver’s avoidance has a smaller effect. It applies if less than two packets of the window are left, which is the case with \
             messages of 1000 bytes and more.",
        ),
        ([false, _], true) => row.note("Published: up to 20 % more than with it, see the next row."),
        ([false, _], false) => row.published(1.85).note(
            "Published: without Nagle’s algorithm and avoidance at the sender retransmissions remain at 80 to 90 %, interpreted as a proportion of the delivered data.",
        ),
    }
}

/// Relative change of the load without avoidance at the sender, for sizes with a published value.
fn without_the_senders(observed: &Observed, cell: &FlowCell, place: usize) -> Option<Row> {
    let flow = &cell.flow;
    let [false, receiver] = flow.avoidance else {
        return None;
    };
    let with = observed.flows.iter().find(|with| {
        let with = &with.flow;
        with.id.starts_with(FIGURE_6)
            && flow.id.starts_with(FIGURE_6)
            && (with.avoidance, with.nagle) == ([true, receiver], flow.nagle)
    })?;
    // Both have the same seeds.
    let pairs = cell.loads[place].iter().zip(&with.loads[place]);
    let more: Vec<f64> = pairs
        .map(|(without, with)| 100.0 * (without.ratio / with.ratio - 1.0))
        .collect();
    let size = FLOW_SIZES[place];
    let row = Row::new(
        &format!("{}.{size}.more", flow.id),
        &format!(
            "{}, {size} bytes: load increase without avoidance at the sender",
            flow.label
        ),
        "%",
    );
    let row = row.published(20.0).measured(&more);
    let row = if flow.nagle {
        row
    } else {
        row.not_compared("published with Nagle’s algorithm")
    };
    Some(row.note(if flow.nagle {
        "Published: up to 20 % over the sizes. Here Nagle’s algorithm delays the same packets, see the note on silly windows."
    } else {
        "Published: up to 20 % over the sizes. Here timeouts determine the load, see the note on silly windows."
    }))
}

fn cell_is_off(ratios: &[f64]) -> bool {
    crate::stats::mean(ratios).is_some_and(|mean| mean > 1.01)
}

fn accepted_rows(best: &FlowCell) -> Vec<Row> {
    let sizes = FLOW_SIZES.iter().zip(&best.accepted);
    sizes
        .map(|(size, accepted)| {
            Row::new(
                &format!("accepted.best.{size}"),
                &format!("default settings, window of 65,535 bytes, {size} bytes: accepted without a reader"),
                "messages",
            )
            // A message is accepted if any memory is left.
            .modelled((WINDOW / (size + best.flow.extra) + 1) as f64)
            .measured(&[*accepted as f64])
            .note(&format!(
                "Window of {WINDOW} bytes with {} bytes of memory per message in addition. By equations (9) to (11): FreeBSD 7.0 {}, Linux 2.6.25 {}, \
                 OpenSolaris {}. Equation (9) is used with the smaller of its two limits, while “max” is printed; equation (10) \
                 holds below 176 bytes, and above it the payload alone uses up the window.",
                best.flow.extra,
                model::freebsd(WINDOW, *size),
                model::linux(WINDOW, *size),
                model::solaris(WINDOW, *size),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_favours_small_messages_without_headers() {
        for size in [10, 50, 100, 200] {
            assert!((model_share(size, true) - 50.0).abs() < 3.0, "{size}");
        }
        assert!(model_share(10, false) > 70.0);
        assert!(model_share(10, false) > model_share(100, false));
        let independent = independent_share(10);
        assert!(independent > 55.0 && independent < model_share(10, false));
    }

    #[test]
    fn goodput_without_headers_follows_the_model() {
        for size in [10, 50, 100, 200] {
            let [small, full] = uncounted_goodput(size);
            // Link usage, with the bytes of headers.
            let taken = small / yield_of(size) + full / yield_of(FULL);
            assert!((taken / RATE as f64 - 1.0).abs() < 0.01, "{size}: {taken}");
            let share = 100.0 * small / yield_of(size) / taken;
            assert!(
                (share - model_share(size, false)).abs() < 0.5,
                "{size}: {share}"
            );
            let half = RATE as f64 / 2.0;
            assert!(
                small > half * yield_of(size),
                "{size}: more than an equal share"
            );
            assert!(
                full < half * yield_of(FULL),
                "{size}: less than an equal share"
            );
        }
        let [small, full] = uncounted_goodput(FULL);
        assert!((small - full).abs() < 1e-6);
    }
}
