//! The `overhead` scenario through the public interface: its rows, the results of the defaults,
//! reproducibility.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use carrick_lab::ScenarioResult;

use super::{assert_complete_report, measured, row, run};

const FLOW_SIZES: [usize; 8] = [20, 50, 100, 200, 400, 700, 1000, 1400];

static RESULT: LazyLock<ScenarioResult> = LazyLock::new(|| run("overhead", 7, 1));

#[test]
fn every_size_has_its_rows() {
    for (kind, least) in [
        ("counted", 0.9),
        ("uncounted", 0.5),
        ("delayed", 0.5),
        ("best-beside", 0.5),
        ("best-pair", 0.8),
    ] {
        for size in [10, 20, 50, 100, 200] {
            let jain = measured(&RESULT, &format!("{kind}.{size}.jain"));
            assert!((least..=1.0).contains(&jain), "{kind} {size}: {jain}");
            let share = measured(&RESULT, &format!("{kind}.{size}.share"));
            assert!((0.0..=100.0).contains(&share), "{kind} {size}: {share}");
        }
    }
    assert!(RESULT.rows.iter().all(|row| row.measured.is_some()));
}

#[test]
fn uncounted_headers_favour_the_smallest_messages() {
    let mean = |kind: &str| {
        let sizes = [10, 20];
        sizes
            .map(|size| measured(&RESULT, &format!("{kind}.{size}.share")))
            .iter()
            .sum::<f64>()
            / 2.0
    };
    assert!(mean("uncounted") > mean("counted"));
    assert!(mean("uncounted") > 50.0);
}

#[test]
fn the_defaults_avoid_useless_transmissions() {
    for size in FLOW_SIZES {
        for flow in ["best", "best-as-it-is"] {
            let ratio = measured(&RESULT, &format!("{flow}.{size}"));
            assert!((ratio - 1.0).abs() < 0.03, "{flow} {size}: {ratio}");
        }
    }
}

#[test]
fn cubic_causes_the_unequal_share_of_a_program() {
    let mean = |kind: &str| {
        let sizes = [10, 50, 100, 200];
        let shares = sizes.map(|size| measured(&RESULT, &format!("{kind}.{size}.share")));
        shares.iter().sum::<f64>() / shares.len() as f64
    };
    let fair = mean("best-pair").max(mean("without-cubic"));
    assert!(mean("best-beside") > fair + 5.0);
    for size in [10, 200] {
        let row = row(&RESULT, &format!("best-beside.{size}.jain"));
        assert!(row.note.contains("CUBIC"), "{}", row.note);
        assert!(row.published.is_none());
    }
}

/// With large messages, window updates that cross a probe cause duplicates.
#[test]
fn the_true_window_causes_only_duplicate_probes() {
    for size in FLOW_SIZES {
        let ratio = measured(&RESULT, &format!("true.sws-both.{size}"));
        let most = if size < 1000 { 1.03 } else { 1.06 };
        assert!((0.97..most).contains(&ratio), "{size}: {ratio}");
    }
}

#[test]
fn remaining_memory_suffices_for_large_messages() {
    for size in FLOW_SIZES {
        let ratio = measured(&RESULT, &format!("memory-left.sws-both.{size}"));
        let expected = match size {
            20 | 50 => 1.5..2.1,
            100 => 1.05..1.5,
            _ => 0.97..1.1,
        };
        assert!(expected.contains(&ratio), "{size}: {ratio}");
    }
}

/// Section 4.4: the sender cannot know which memory is free.
#[test]
fn known_memory_of_chunks_does_not_prevent_drops() {
    for size in FLOW_SIZES {
        let known = measured(&RESULT, &format!("known250.{size}"));
        assert!(known > 1.2, "{size}: {known}");
    }
}

#[test]
fn values_are_those_before_the_move_to_a_folder() {
    let text = include_str!("../fixtures/overhead.json");
    let before: BTreeMap<String, f64> = serde_json::from_str(text).expect("valid");
    assert_eq!(before.len(), 185);
    for (id, value) in before {
        let now = measured(&RESULT, &id);
        assert!((now - value).abs() < 1e-6, "{id}: {now}, before {value}");
    }
}

/// A full run has twenty sizes, a short one five.
#[test]
fn other_sizes_are_those_of_a_full_run() {
    assert!(RESULT.rows.iter().all(|row| row.id != "counted.30.share"));
    let transport = RESULT.figures.iter().find(|own| own.id == "transport");
    let series = &transport.expect("drawn").series;
    let points: Vec<usize> = series.iter().map(|own| own.points.len()).collect();
    assert_eq!(points, [5, 5, 5, 20], "the model has all sizes");
}

#[test]
fn memory_not_shown_causes_useless_transmissions() {
    for size in FLOW_SIZES {
        let hidden = measured(&RESULT, &format!("extra250.{size}"));
        assert!(hidden > 1.5, "{size}: {hidden}");
    }
    let almost = row(&RESULT, "extra250.100");
    assert_eq!(almost.published_text().as_deref(), Some("1.9–2"));
}

#[test]
fn every_flow_control_switch_has_an_effect() {
    // Runs of one seed are identical to the last bit if a switch has no effect.
    let differ = |with: &str, without: &str| {
        let of = |id: &str, size: usize| measured(&RESULT, &format!("{id}.{size}")).to_bits();
        [100, 700, 1000]
            .into_iter()
            .any(|size| of(with, size) != of(without, size))
    };
    let [both, receivers] = ["extra50.sws-both-no-nagle", "extra50.sws-receiver-no-nagle"];
    assert!(differ(both, receivers), "the sender’s avoidance");
    assert!(differ("extra50.sws-receiver", receivers), "Nagle");
    assert!(differ("extra50", "extra50.sws-sender"), "the receiver’s");
    assert_eq!(row(&RESULT, "extra50.saved").published, Some(20.0));
    for size in [100, 700, 1000] {
        for flow in ["extra50.sws-receiver", receivers] {
            assert!(measured(&RESULT, &format!("{flow}.{size}.saved")).is_finite());
        }
        let without = row(&RESULT, &format!("{receivers}.{size}"));
        assert_eq!(without.published_text().as_deref(), Some("1.8–1.9"));
    }
}

#[test]
fn accepted_messages_fit_into_the_memory() {
    let cells = ["best", "gap"].into_iter();
    for (cell, size) in cells.flat_map(|cell| FLOW_SIZES.map(|size| (cell, size))) {
        let row = row(&RESULT, &format!("accepted.{cell}.{size}"));
        let most = row.bound.expect("a bound");
        assert!(
            row.measured
                .is_some_and(|taken| taken <= most && taken > 0.9 * most),
            "{row:?}"
        );
        assert!(row.note.contains("FreeBSD"));
    }
}

#[test]
fn the_report_has_every_row_and_figure() {
    assert_complete_report(&RESULT, &[]);
}
