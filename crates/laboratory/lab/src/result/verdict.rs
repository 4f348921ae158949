//! Verdict for each published value, and their counts.

use std::fmt::Write;

use serde::Serialize;

use super::{Row, ScenarioResult};
use crate::format;

/// Largest difference of a measured from a published value that counts as reproduced, in per cent of
/// the published value.
pub(crate) const TOLERANCE: f64 = 5.0;
/// The same for values in per cent, in percentage points.
pub(crate) const TOLERANCE_POINTS: f64 = 3.0;

/// Relation of a measured to a published value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The published value is within the 95 % confidence interval, which is no wider than the
    /// tolerance on either side.
    WithinInterval,
    /// The values differ by at most the tolerance.
    WithinTolerance,
    /// The interval exceeds the tolerance and reaches into it: more repetitions would decide.
    Undecided,
    /// The values differ by more than the tolerance.
    Differs,
    /// The row names a published value for which it is no reproduction: a control, another reading.
    NotCompared,
}

impl Verdict {
    /// Returns the name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Self::WithinInterval => "within-interval",
            Self::WithinTolerance => "within-tolerance",
            Self::Undecided => "undecided",
            Self::Differs => "differs",
            Self::NotCompared => "not-compared",
        }
    }

    /// Returns a short description for tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::WithinInterval => "interval",
            Self::WithinTolerance => "tolerance",
            Self::Undecided => "short",
            Self::Differs => "differs",
            Self::NotCompared => "–",
        }
    }
}

impl Row {
    /// Returns the verdict; `None` without a published value.
    pub fn verdict(&self) -> Option<Verdict> {
        let published = self.nearest_published()?;
        let Some(measured) = self.measured.filter(|_| self.not_compared.is_none()) else {
            return Some(Verdict::NotCompared);
        };
        let tolerance = self.tolerance(published);
        let difference = (measured - published).abs();
        // A deterministic run has no interval.
        let interval = self.ci95.unwrap_or(0.0);
        Some(
            if interval > tolerance && difference <= tolerance + interval {
                Verdict::Undecided
            } else if difference <= interval {
                Verdict::WithinInterval
            } else if difference <= tolerance {
                Verdict::WithinTolerance
            } else {
                Verdict::Differs
            },
        )
    }

    /// Largest difference from a published value that counts as reproduced.
    fn tolerance(&self, published: f64) -> f64 {
        match self.unit.as_str() {
            "%" => TOLERANCE_POINTS,
            _ => published.abs() * TOLERANCE / 100.0,
        }
    }

    /// Distance of the measured from the published value, in tolerances.
    fn distance(&self) -> f64 {
        let values = self.measured.zip(self.nearest_published());
        values.map_or(0.0, |(m, p)| (m - p).abs() / self.tolerance(p))
    }

    /// Returns the difference from the published value as text, such as "+2.3 %".
    pub fn difference(&self) -> Option<String> {
        let (measured, published) = (self.measured?, self.nearest_published()?);
        Some(if self.unit == "%" {
            format!("{:+.1} points", measured - published)
        } else {
            format!("{:+.1} %", 100.0 * (measured / published - 1.0))
        })
    }
}

/// Counts of verdicts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Published values that a row reproduces or fails to: the sum of the next four.
    pub compared: u64,
    /// Verdicts [`Verdict::WithinInterval`].
    pub within_interval: u64,
    /// Verdicts [`Verdict::WithinTolerance`].
    pub within_tolerance: u64,
    /// Identifiers of the rows with [`Verdict::Undecided`].
    pub undecided: Vec<String>,
    /// Identifiers of the rows with [`Verdict::Differs`].
    pub differ: Vec<String>,
    /// Verdicts [`Verdict::NotCompared`].
    pub not_compared: u64,
}

impl Tally {
    /// Counts the verdicts of rows.
    pub fn of(rows: &[Row]) -> Self {
        let mut tally = Self::default();
        for row in rows {
            match row.verdict() {
                None => continue,
                Some(Verdict::NotCompared) => {
                    tally.not_compared += 1;
                    continue;
                }
                Some(Verdict::WithinInterval) => tally.within_interval += 1,
                Some(Verdict::WithinTolerance) => tally.within_tolerance += 1,
                Some(Verdict::Undecided) => tally.undecided.push(row.id.clone()),
                Some(Verdict::Differs) => tally.differ.push(row.id.clone()),
            }
            tally.compared += 1;
        }
        tally
    }

    /// Adds the counts of another result.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.compared += other.compared;
        self.within_interval += other.within_interval;
        self.within_tolerance += other.within_tolerance;
        self.undecided.extend(other.undecided);
        self.differ.extend(other.differ);
        self.not_compared += other.not_compared;
        self
    }

    /// Returns the number of reproduced values.
    pub fn reproduced(&self) -> u64 {
        self.within_interval + self.within_tolerance
    }

    /// Returns the counts as a sentence, such as "Reproduced 61 of 66 published values: …".
    pub fn sentence(&self) -> String {
        let mut text = format!(
            "Reproduced {} of {} published values: {} within the 95 % interval of their measurement, {} within {TOLERANCE} % \
             ({TOLERANCE_POINTS} points of values in per cent)",
            self.reproduced(),
            self.compared,
            self.within_interval,
            self.within_tolerance,
        );
        if !self.undecided.is_empty() {
            let _ = write!(
                text,
                "; {} undecided, because the interval is wider",
                self.undecided.len()
            );
        }
        if !self.differ.is_empty() {
            let _ = write!(text, "; {} differ", self.differ.len());
        }
        text + "."
    }
}

impl ScenarioResult {
    /// Returns the counts of verdicts of this scenario.
    pub fn tally(&self) -> Tally {
        Tally::of(&self.rows)
    }

    /// Returns the verdicts as a line: counts, then the rows that differ most.
    pub fn verdict_line(&self) -> String {
        const NAMED: usize = 2;
        let tally = self.tally();
        if tally.compared == 0 {
            return "no published values".into();
        }
        let mut text = format!("{} of {} reproduced", tally.reproduced(), tally.compared);
        if !tally.undecided.is_empty() {
            let _ = write!(text, ", {} undecided", tally.undecided.len());
        }
        if tally.differ.is_empty() {
            return text;
        }
        let mut differ: Vec<&Row> = self
            .rows
            .iter()
            .filter(|row| row.verdict() == Some(Verdict::Differs))
            .collect();
        differ.sort_by(|a, b| b.distance().total_cmp(&a.distance()));
        let named: Vec<String> = differ
            .iter()
            .take(NAMED)
            .map(|row| {
                let measured = row.measured.map_or_else(String::new, format::measured);
                let space = if row.unit.is_empty() { "" } else { " " };
                let published = row.published_text().unwrap_or_default();
                format!("{} {measured}{space}{} [{published}]", row.id, row.unit)
            })
            .collect();
        let more = differ.len() - named.len();
        let _ = write!(text, ", {} differ: {}", differ.len(), named.join(", "));
        if more > 0 {
            let _ = write!(text, ", and {more} more");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(unit: &str, published: f64, values: &[f64]) -> Option<Verdict> {
        let row = Row::new("a", "b", unit).published(published);
        row.measured(values).verdict()
    }

    #[test]
    fn a_published_range_counts_by_its_nearest_end() {
        let row = Row {
            published_to: Some(1.9),
            ..Row::new("a", "b", "").published(1.8)
        };
        let verdict = |value: f64| row.clone().measured(&[value]).verdict();
        assert_eq!(verdict(1.85), Some(Verdict::WithinInterval));
        assert_eq!(verdict(1.94), Some(Verdict::WithinTolerance));
        assert_eq!(verdict(1.7), Some(Verdict::Differs));
        let measured = row.measured(&[1.71]);
        assert_eq!(measured.difference().as_deref(), Some("-5.0 %"));
        assert_eq!(measured.published_text().as_deref(), Some("1.8–1.9"));
    }

    #[test]
    fn verdicts_follow_interval_and_tolerance() {
        // Half widths: 2.48, 24.8 and 0.
        assert_eq!(
            verdict("ms", 102.0, &[100.0, 101.0, 102.0]),
            Some(Verdict::WithinInterval)
        );
        assert_eq!(
            verdict("ms", 104.0, &[100.0, 101.0, 102.0]),
            Some(Verdict::WithinTolerance)
        );
        assert_eq!(
            verdict("ms", 110.0, &[100.0, 101.0, 102.0]),
            Some(Verdict::Differs)
        );
        assert_eq!(
            verdict("ms", 101.0, &[91.0, 101.0, 111.0]),
            Some(Verdict::Undecided)
        );
        assert_eq!(
            verdict("ms", 110.0, &[91.0, 101.0, 111.0]),
            Some(Verdict::Undecided)
        );
        assert_eq!(
            verdict("ms", 200.0, &[91.0, 101.0, 111.0]),
            Some(Verdict::Differs)
        );
        assert_eq!(
            verdict("ms", 104.0, &[100.0]),
            Some(Verdict::WithinTolerance)
        );
    }

    #[test]
    fn values_in_per_cent_are_compared_in_points() {
        assert_eq!(verdict("%", 12.0, &[14.9]), Some(Verdict::WithinTolerance));
        assert_eq!(verdict("%", 50.0, &[53.1]), Some(Verdict::Differs));
        let row = Row::new("a", "b", "%").published(50.0).measured(&[53.1]);
        assert_eq!(row.difference().as_deref(), Some("+3.1 points"));
    }

    #[test]
    fn rows_without_a_published_value_have_no_verdict() {
        assert_eq!(Row::new("a", "b", "ms").measured(&[1.0]).verdict(), None);
        let control = Row::new("a", "b", "ms").published(1.0).measured(&[9.0]);
        let control = Row {
            not_compared: Some("a control".into()),
            ..control
        };
        assert_eq!(control.verdict(), Some(Verdict::NotCompared));
        let missing = Row::new("a", "b", "ms").published(1.0).measured(&[]);
        assert_eq!(missing.verdict(), Some(Verdict::NotCompared));
    }

    #[test]
    fn counts_name_the_differences() {
        let row =
            |id: &str, value: f64| Row::new(id, "b", "ms").published(100.0).measured(&[value]);
        let mut result = crate::result::tests::sample();
        result.rows = vec![
            row("good", 101.0),
            row("high", 120.0),
            row("higher", 200.0),
            Row {
                not_compared: Some("a control".into()),
                ..row("control", 900.0)
            },
            Row::new("wide", "b", "ms")
                .published(100.0)
                .measured(&[80.0, 120.0]),
        ];
        let tally = result.tally();
        assert_eq!(
            (tally.compared, tally.reproduced(), tally.not_compared),
            (4, 1, 1)
        );
        assert_eq!(tally.differ, ["high", "higher"]);
        assert_eq!(
            result.verdict_line(),
            "1 of 4 reproduced, 1 undecided, 2 differ: higher 200.0 ms [100], high 120.0 ms [100]"
        );
        assert!(
            tally
                .clone()
                .and(tally)
                .sentence()
                .starts_with("Reproduced 2 of 8 published values")
        );
    }
}
