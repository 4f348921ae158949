//! Lines of `carrick top`: a heading, sums, and a line for each association and path.

use std::fmt::Display;

use console::Style;

use super::sample::{AssociationSample, PathSample};
use crate::ss::{self, PathState};
use crate::units::decimal_prefix;

/// Returns the lines, at most as many as the screen has rows. What has no room is counted.
pub(super) fn lines(
    time: &impl Display,
    associations: &[AssociationSample],
    rows: Option<usize>,
) -> Vec<String> {
    let paths = associations.iter().flat_map(|one| &one.paths);
    let not_active = paths
        .clone()
        .filter(|path| path.state != PathState::ACTIVE)
        .count();
    // The sum of nothing is -0.
    let sum = |of: fn(&AssociationSample) -> Option<f64>| {
        associations
            .iter()
            .map(of)
            .sum::<Option<f64>>()
            .map(|sum| sum + 0.0)
    };
    let mut lines = vec![
        format!(
            "{time}  {} of {}, {not_active} of them not active",
            counted(paths.count(), "path"),
            counted(associations.len(), "association"),
        ),
        format!(
            "Sent {}bit/s, received {}bit/s, {} retransmissions a second",
            rate(sum(|one| one.sent)),
            rate(sum(|one| one.received)),
            number(sum(|one| one.retransmissions)),
        ),
        String::new(),
        Style::new().bold().apply_to(HEADING).to_string(),
    ];
    let mut shown = 0;
    for one in associations {
        let needed = 1 + one.paths.len();
        // The line of those that are left, and that of the cursor.
        if shown > 0 && rows.is_some_and(|rows| lines.len() + needed + 2 > rows) {
            break;
        }
        lines.push(association(one));
        lines.extend(one.paths.iter().map(path));
        shown += 1;
    }
    let left = associations.len() - shown;
    if left > 0 {
        lines.push(format!("{} more", counted(left, "association")));
    }
    lines
}

const HEADING: &str =
    "State                    Sent   Received   Messages  Rtx/s  Peer, association, process";

fn association(one: &AssociationSample) -> String {
    let messages = format!(
        "{}/{}",
        number(one.messages_sent),
        number(one.messages_received)
    );
    format!(
        "{:<18} {:>10} {:>10} {messages:>10} {:>6}  {}, {}, {}",
        ss::state(&one.state),
        rate(one.sent),
        rate(one.received),
        number(one.retransmissions),
        one.peer.as_deref().unwrap_or("-"),
        one.association,
        one.process
            .map_or("-".into(), |process| process.to_string()),
    )
}

fn path(path: &PathSample) -> String {
    let style = match path.state {
        PathState::ACTIVE => Style::new(),
        PathState::POTENTIALLY_FAILED => Style::new().yellow(),
        _ => Style::new().red(),
    };
    let mark = if path.is_current { '>' } else { ' ' };
    let state = style.apply_to(format!("{mark}{:<17}", path.state));
    let errors = match path.error_count {
        0 => String::new(),
        count => format!(", {}", counted(count as usize, "error")),
    };
    format!(
        "{state} {:>10} {:>10} {:>10} {:>6}   {} -> {}{}{errors}",
        rate(path.sent),
        rate(path.received),
        path.srtt.map_or("-".into(), |srtt| format!("{srtt:.1} ms")),
        number(path.lost_chunks),
        path.local.as_deref().unwrap_or("*"),
        path.remote,
        if path.is_primary { ", primary" } else { "" },
    )
}

fn rate(bits: Option<f64>) -> String {
    bits.map_or("- ".into(), decimal_prefix)
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.0}"))
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::top::sample::tests::row;
    use crate::top::sample::{Counts, sample};

    fn sampled(count: i64) -> Vec<AssociationSample> {
        let rows: Vec<_> = (1..=count)
            .map(|number| row(number, 125_000, number != 1))
            .collect();
        sample(&rows, Some(Duration::from_secs(1)), &mut Counts::default())
    }

    #[test]
    fn each_association_has_a_line_and_its_paths() {
        let lines = lines(&"now", &sampled(2), None);
        assert_eq!(
            lines[0],
            "now  4 paths of 2 associations, 1 of them not active"
        );
        assert_eq!(
            lines[1],
            "Sent 2.00 Mbit/s, received 0 bit/s, 6 retransmissions a second"
        );
        assert_eq!(lines.len(), 4 + 2 * 3);
        assert!(
            lines[4].starts_with("ESTAB                  1.00 M         0      1250/0      3  "),
            "{}",
            lines[4]
        );
        assert!(lines[4].ends_with("  10.0.0.2:5000, 1, 7"), "{}", lines[4]);
        assert!(
            lines[5].ends_with("   10.0.0.1 -> 10.0.0.2, primary"),
            "{}",
            lines[5]
        );
        assert!(lines[6].contains(" inactive "), "{}", lines[6]);
    }

    #[test]
    fn an_idle_daemon_has_rates_of_zero() {
        let lines = lines(&"now", &[], None);
        assert_eq!(
            lines[1],
            "Sent 0 bit/s, received 0 bit/s, 0 retransmissions a second"
        );
    }

    #[test]
    fn a_screen_has_what_it_has_room_for() {
        for rows in [10, 24, 50] {
            let lines = lines(&"now", &sampled(40), Some(rows));
            assert!(lines.len() < rows, "{} of {rows}", lines.len());
            assert!(lines.len() + 4 > rows, "{} of {rows}", lines.len());
            let shown = (lines.len() - 5) / 3;
            assert_eq!(
                lines.last().unwrap(),
                &format!("{} associations more", 40 - shown)
            );
        }
    }
}
