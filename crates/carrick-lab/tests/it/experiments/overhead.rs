//! The `overhead` scenario as a program sees it: its rows, what the defaults give, the same result
//! each time.

use std::sync::LazyLock;

use carrick_lab::ScenarioResult;

use super::{assert_told, measured, row, run};

const FLOW_SIZES: [usize; 8] = [20, 50, 100, 200, 400, 700, 1000, 1400];

static RESULT: LazyLock<ScenarioResult> = LazyLock::new(|| run("overhead", 7, 1));

#[test]
fn every_size_has_its_rows() {
    for (kind, least) in [
        ("counted", 0.9),
        ("counted-in-step", 0.9),
        ("uncounted", 0.5),
        ("in-step", 0.5),
        ("best-beside", 0.5),
        ("best-pair", 0.8),
    ] {
        for size in (10..=200).step_by(10) {
            let jain = measured(&RESULT, &format!("{kind}.{size}.jain"));
            assert!((least..=1.0).contains(&jain), "{kind} {size}: {jain}");
            let share = measured(&RESULT, &format!("{kind}.{size}.share"));
            assert!((0.0..=100.0).contains(&share), "{kind} {size}: {share}");
        }
    }
    assert!(RESULT.rows.iter().all(|row| row.measured.is_some()));
}

#[test]
fn headers_that_do_not_count_give_the_smallest_messages_more() {
    let mean = |kind: &str| {
        let sizes = [10, 20, 30];
        sizes
            .map(|size| measured(&RESULT, &format!("{kind}.{size}.share")))
            .iter()
            .sum::<f64>()
            / 3.0
    };
    assert!(mean("uncounted") > mean("counted"));
    assert!(mean("uncounted") > 50.0);
}

#[test]
fn the_defaults_send_nothing_in_vain() {
    for size in FLOW_SIZES {
        for flow in ["best", "best-as-it-is"] {
            let ratio = measured(&RESULT, &format!("{flow}.{size}"));
            assert!((ratio - 1.0).abs() < 0.03, "{flow} {size}: {ratio}");
        }
    }
}

#[test]
fn cubic_and_not_the_headers_makes_a_program_take_more_than_half() {
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

#[test]
fn the_true_window_invites_what_fits_and_the_memory_that_is_left_more() {
    for size in FLOW_SIZES {
        let ratio = measured(&RESULT, &format!("true.sws-both.{size}"));
        assert!((ratio - 1.0).abs() < 0.03, "{size}: {ratio}");
    }
    for size in [20, 50, 100] {
        let ratio = measured(&RESULT, &format!("memory-left.sws-both.{size}"));
        assert!(ratio > 1.3, "{size}: {ratio}");
    }
}

#[test]
fn memory_that_the_window_hides_is_sent_for_in_vain() {
    for size in FLOW_SIZES {
        let hidden = measured(&RESULT, &format!("extra250.{size}"));
        assert!(hidden > 1.5, "{size}: {hidden}");
    }
    assert_eq!(row(&RESULT, "extra250.100").published, Some(2.0));
}

#[test]
fn each_switch_of_flow_control_changes_what_is_sent() {
    // Runs of one seed are the same to the last bit where a switch does nothing.
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
    for size in [100, 700, 1000] {
        for flow in ["extra50.sws-receiver", receivers] {
            let row = row(&RESULT, &format!("{flow}.{size}.more"));
            assert_eq!(row.published, Some(20.0));
            assert!(row.note.contains("Published: up to 20 %"), "{}", row.note);
        }
        let without = row(&RESULT, &format!("{receivers}.{size}"));
        assert_eq!(without.published, Some(1.85));
    }
}

#[test]
fn what_is_taken_while_nobody_reads_fits_into_the_memory() {
    for size in FLOW_SIZES {
        let row = row(&RESULT, &format!("accepted.best.{size}"));
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
fn the_same_seed_gives_the_same_result() {
    assert_eq!(
        run("overhead", 7, 1).to_json().to_string(),
        RESULT.to_json().to_string()
    );
}

#[test]
fn the_report_has_every_row_and_figure() {
    assert_told(&RESULT, &[]);
}
