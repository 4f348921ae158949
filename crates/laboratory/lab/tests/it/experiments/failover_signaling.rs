//! The `failover-signaling` scenario: no message is lost at any user, and the limits of Q.706.

use std::sync::LazyLock;

use carrick_lab::ScenarioResult;

use super::{assert_complete_report, measured, row, run};

static RESULT: LazyLock<ScenarioResult> = LazyLock::new(|| run("failover-signaling", 1, 3));

const SETTINGS: [&str; 5] = ["pmr2", "pmr3", "pmr4", "pmr5", "best"];

/// RFC 9260, section 6.7, and RFC 4165, section 4.2.3
#[test]
fn users_get_each_message_once_and_in_order() {
    for layer in ["sctp", "m3ua", "m2pa", "link-set"] {
        let incomplete = row(&RESULT, &format!("{layer}.incomplete"));
        assert_eq!(incomplete.measured, Some(0.0), "{layer}");
    }
}

/// Limit of Q.706: up to 4 retransmissions.
#[test]
fn the_limit_holds_up_to_four_retransmissions() {
    for (what, layers) in [
        ("failover", &["sctp", "m3ua", "m2pa"][..]),
        ("interruption", &["link-set"][..]),
    ] {
        for layer in layers {
            for setting in SETTINGS {
                let row = row(&RESULT, &format!("{setting}.{layer}.{what}"));
                let longest = row.values.iter().copied().fold(0.0, f64::max);
                assert!(longest > 100.0, "{}: {longest}", row.id);
                assert_eq!(longest > 800.0, setting == "pmr5", "{}", row.id);
                assert_eq!(longest > 800.0, !row.note.is_empty(), "{}", row.id);
            }
        }
    }
}

/// The link fails after the sum of the timeouts, and the changeover follows.
#[test]
fn a_changeover_follows_the_loss_of_the_link() {
    for (setting, timeouts) in [("pmr2", 380.0), ("pmr3", 530.0), ("pmr4", 680.0)] {
        let of = |what| measured(&RESULT, &format!("{setting}.link-set.{what}"));
        assert!(
            (timeouts..timeouts + 60.0).contains(&of("lost")),
            "{setting}"
        );
        assert!(of("interruption") > of("lost"), "{setting}");
        assert!(of("transfer") > of("interruption"), "{setting}");
    }
}

#[test]
fn the_report_has_every_row_and_figure() {
    assert_complete_report(&RESULT, &[]);
}
