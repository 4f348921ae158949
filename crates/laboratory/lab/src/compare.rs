//! Comparison of a result with that of an earlier run: the rows that differ significantly.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::format;
use crate::result::{Column, Row, ScenarioResult, table};

/// Format number of the JSON that [`ScenarioResult::to_json`] writes; results of another format
/// cannot be compared.
pub(crate) const FORMAT: u32 = 1;

/// An earlier result, as parsed from its JSON.
#[derive(Clone, Debug, Deserialize)]
struct EarlierResult {
    version: String,
    scenario: String,
    seed: u64,
    repetitions: u64,
    rows: Vec<Row>,
}

/// Earlier results, one per scenario.
#[derive(Clone, Debug)]
pub struct EarlierResults {
    file: String,
    results: Vec<EarlierResult>,
}

/// One row in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRow {
    /// Stable identifier of the row.
    pub id: String,
    /// Label of the row.
    pub label: String,
    /// Unit of all numbers.
    pub unit: String,
    /// Mean of the earlier run.
    pub old: Option<f64>,
    /// Half width of its 95 % confidence interval.
    pub old_ci95: Option<f64>,
    /// Mean of this run.
    pub new: Option<f64>,
    /// Half width of its 95 % confidence interval.
    pub new_ci95: Option<f64>,
    /// `new` minus `old`.
    pub difference: Option<f64>,
    /// The two confidence intervals do not overlap, or only one of the runs has the row.
    pub outside: bool,
}

/// Rows of a scenario next to those of an earlier run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the earlier file.
    pub file: String,
    /// Version of the program that wrote it.
    pub version: String,
    /// Seed of the earlier run.
    pub seed: u64,
    /// Repetitions of the earlier run.
    pub repetitions: u64,
    /// Rows in the order of the new run, then rows that only the earlier run has.
    pub rows: Vec<ComparedRow>,
}

impl EarlierResults {
    /// Reads a scenario's JSON file of an earlier report, or the output of `carrick reproduce
    /// --json`.
    ///
    /// # Errors
    /// [`LabError::Read`] if it cannot be read, [`LabError::Choice`] if it is not a result or has
    /// another format.
    pub fn load(path: &Path) -> Result<Self, LabError> {
        let text = std::fs::read_to_string(path).map_err(LabError::read(path))?;
        Self::parse(&path.display().to_string(), &text)
    }

    fn parse(file: &str, text: &str) -> Result<Self, LabError> {
        let wrong = |what: String| LabError::Choice {
            what: format!("{file}: {what}"),
        };
        let advice = "give a scenario's .json of an earlier report, or the output of 'carrick reproduce --json'";
        let mut results: Vec<EarlierResult> = Vec::new();
        for value in serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>() {
            let value = value.map_err(|error| wrong(format!("is not JSON ({error}); {advice}")))?;
            if value.get("rows").is_none() || value.get("scenario").is_none() {
                return Err(wrong(format!("is not the result of a scenario; {advice}")));
            }
            let found = match value.get("format").and_then(serde_json::Value::as_u64) {
                Some(format) => format!("format {format}"),
                None => "no format number, as an older version wrote it".into(),
            };
            if found != format!("format {FORMAT}") {
                return Err(wrong(format!(
                    "has {found}, and this version compares format {FORMAT}: repeat the run with this version"
                )));
            }
            let old: EarlierResult = serde_json::from_value(value)
                .map_err(|error| wrong(format!("is incomplete ({error}); {advice}")))?;
            if results.iter().any(|other| other.scenario == old.scenario) {
                return Err(wrong(format!("contains scenario {} twice", old.scenario)));
            }
            results.push(old);
        }
        if results.is_empty() {
            return Err(wrong(format!("is empty; {advice}")));
        }
        Ok(Self {
            file: file.into(),
            results,
        })
    }

    /// Returns the names of the scenarios.
    pub fn scenarios(&self) -> impl Iterator<Item = &str> {
        self.results.iter().map(|old| old.scenario.as_str())
    }

    /// Compares a result with the earlier one. Returns `None` if there is none of that scenario.
    pub fn compare(&self, result: &ScenarioResult) -> Option<Comparison> {
        let mut all = self.results.iter();
        let old = all.find(|old| old.scenario == result.scenario)?;
        let same = |o: &Row, row: &Row| o.id == row.id && o.unit == row.unit;
        let find = |row: &Row| old.rows.iter().find(|o| same(o, row));
        let gone = |o: &&Row| !result.rows.iter().any(|row| same(o, row));
        let rows = result.rows.iter();
        let rows = rows.map(|row| compared(row, find(row), Some(row)));
        let gone = old.rows.iter().filter(gone);
        let rows = rows.chain(gone.map(|o| compared(o, Some(o), None)));
        Some(Comparison {
            file: self.file.clone(),
            version: old.version.clone(),
            seed: old.seed,
            repetitions: old.repetitions,
            rows: rows.collect(),
        })
    }
}

/// Compares a row of both runs, or of one of them.
fn compared(row: &Row, old: Option<&Row>, new: Option<&Row>) -> ComparedRow {
    let values = [old.and_then(|o| o.measured), new.and_then(|n| n.measured)];
    let intervals = [old.and_then(|o| o.ci95), new.and_then(|n| n.ci95)];
    let difference = values[0].zip(values[1]).map(|(old, new)| new - old);
    let outside = match (values, difference) {
        ([None, None], _) => false,
        (_, None) => true,
        ([old, _], Some(difference)) => {
            // A single run has no interval; numbers in JSON are exact.
            let width: f64 = intervals.iter().flatten().sum();
            difference.abs() > width + 1e-9 * old.unwrap_or(0.0).abs()
        }
    };
    ComparedRow {
        id: row.id.clone(),
        label: row.label.clone(),
        unit: row.unit.clone(),
        old: values[0],
        old_ci95: intervals[0],
        new: values[1],
        new_ci95: intervals[1],
        difference,
        outside,
    }
}

/// Columns of a comparison: label, unit, three numbers and the mark of a significant difference.
pub(crate) const COLUMNS: [Column<ComparedRow>; 6] = [
    ("", |row| row.label.clone()),
    ("unit", |row| row.unit.clone()),
    ("old", |row| with_interval(row.old, row.old_ci95)),
    ("new", |row| with_interval(row.new, row.new_ci95)),
    ("difference", |row| {
        format::or_absent(row.difference, signed)
    }),
    ("", |row| {
        String::from(if row.outside { "outside" } else { "" })
    }),
];

fn signed(difference: f64) -> String {
    let sign = if difference > 0.0 { "+" } else { "" };
    format!("{sign}{}", format::measured(difference))
}

/// Formats a mean with its interval, if it has one.
fn with_interval(mean: Option<f64>, ci95: Option<f64>) -> String {
    let text = format::or_absent(mean, format::measured);
    match format::interval_of(ci95, mean) {
        Some(interval) => format!("{text} ± {interval}"),
        None => text,
    }
}

impl Comparison {
    /// Returns the number of rows whose difference is outside of the intervals.
    pub fn outside(&self) -> usize {
        self.rows.iter().filter(|row| row.outside).count()
    }

    /// Summarizes the comparison in a sentence.
    pub fn summary(&self) -> String {
        format!(
            "Compared with {} (version {}, seed {}, {} repetitions): {} of {} rows differ significantly \
             (their 95 % confidence intervals do not overlap).",
            self.file,
            self.version,
            self.seed,
            self.repetitions,
            self.outside(),
            self.rows.len()
        )
    }

    /// Formats the rows as aligned lines for a terminal.
    pub fn to_table(&self, columns: usize) -> String {
        table(&COLUMNS, &self.rows, |_| "", columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::sample;

    fn earlier(text: &str) -> Result<EarlierResults, String> {
        EarlierResults::parse("old.json", text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_run_does_not_differ_from_itself() {
        let result = sample();
        let old = earlier(&result.to_json().to_string()).unwrap();
        assert_eq!(old.scenarios().collect::<Vec<_>>(), ["sample"]);
        let comparison = old.compare(&result).unwrap();
        assert_eq!((comparison.outside(), comparison.rows.len()), (0, 2));
        assert_eq!(comparison.rows[0].difference, Some(0.0));
        assert_eq!((comparison.seed, comparison.repetitions), (7, 3));
    }

    #[test]
    fn a_difference_counts_when_the_intervals_do_not_meet() {
        let mut result = sample();
        let old = earlier(&result.to_json().to_string()).unwrap();
        // Both intervals are about ± 24.8.
        for (shift, outside) in [(40.0, false), (60.0, true), (-60.0, true)] {
            result.rows[0] = Row::new("a.delay", "delay", "ms").measured(&[
                760.0 + shift,
                770.0 + shift,
                780.0 + shift,
            ]);
            let row = &old.compare(&result).unwrap().rows[0];
            assert_eq!(row.outside, outside, "{shift}");
            assert!((row.difference.unwrap() - shift).abs() < 1e-9);
        }
    }

    #[test]
    fn rows_of_only_one_run_are_significant() {
        let mut result = sample();
        let old = earlier(&result.to_json().to_string()).unwrap();
        result.rows[0].id = "new.delay".into();
        let comparison = old.compare(&result).unwrap();
        let ids: Vec<(&str, bool)> = comparison
            .rows
            .iter()
            .map(|r| (r.id.as_str(), r.outside))
            .collect();
        assert_eq!(
            ids,
            [("new.delay", true), ("b.delay", false), ("a.delay", true)]
        );
        for columns in [80, 100] {
            let table = comparison.to_table(columns);
            let fits = |line: &str| line.chars().count() <= columns;
            assert!(table.lines().all(fits), "{table}");
        }
        let table = comparison.to_table(100);
        assert_eq!(table.matches("outside").count(), 2, "{table}");
        assert!(comparison.summary().contains("2 of 3 rows"));
        result.scenario = "other".into();
        assert!(old.compare(&result).is_none());
    }

    #[test]
    fn errors_describe_the_wrong_file() {
        let json = sample().to_json();
        let mut other = json.clone();
        other["format"] = 2.into();
        let mut before = json.clone();
        before.as_object_mut().unwrap().remove("format");
        let mut torn = json.clone();
        torn.as_object_mut().unwrap().remove("seed");
        for (text, expected) in [
            (String::new(), "old.json: is empty"),
            ("<html>".into(), "is not JSON"),
            (json.to_string()[..40].into(), "is not JSON"),
            ("{\"a\": 1}".into(), "is not the result of a scenario"),
            (
                other.to_string(),
                "has format 2, and this version compares format 1",
            ),
            (before.to_string(), "has no format number"),
            (torn.to_string(), "is incomplete (missing field `seed`)"),
            (format!("{json}\n{json}"), "contains scenario sample twice"),
        ] {
            let error = earlier(&text).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        assert!(
            earlier(&format!("{json:#}\n")).is_ok(),
            "as in a report's directory"
        );
    }
}
