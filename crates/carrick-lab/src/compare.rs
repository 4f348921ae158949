//! A result beside that of an earlier run: which rows differ by more than their intervals allow.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::format;
use crate::result::{Row, ScenarioResult, wrap};

/// The form of the JSON that [`ScenarioResult::to_json`] writes; another number can't be compared.
pub(crate) const FORMAT: u32 = 1;
/// Columns of the numbers behind a label.
const NUMBERS: usize = 58;
/// The label has so many at least.
const LABEL: usize = 16;

/// An earlier result, as its JSON has it.
#[derive(Clone, Debug, Deserialize)]
struct Old {
    format: u32,
    version: String,
    scenario: String,
    seed: u64,
    repetitions: u64,
    rows: Vec<OldRow>,
}

#[derive(Clone, Debug, Deserialize)]
struct OldRow {
    id: String,
    unit: String,
    measured: Option<f64>,
    ci95: Option<f64>,
}

/// Earlier results, one of each scenario.
#[derive(Clone, Debug)]
pub struct Earlier {
    file: String,
    results: Vec<Old>,
}

/// One row of both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRow {
    /// The row's stable name.
    pub id: String,
    /// The name for people.
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
    /// New less old.
    pub difference: Option<f64>,
    /// The two confidence intervals don't meet, or only one of the runs has the row.
    pub outside: bool,
}

/// A scenario's rows beside those of an earlier run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The earlier file.
    pub file: String,
    /// The version that wrote it.
    pub version: String,
    /// Its seed.
    pub seed: u64,
    /// Its repetitions.
    pub repetitions: u64,
    /// The rows in the order of the new run, then those that it has no more.
    pub rows: Vec<ComparedRow>,
}

impl Earlier {
    /// Reads a scenario's JSON file of an earlier report, or what `carrick reproduce --json` printed.
    ///
    /// # Errors
    /// [`LabError::Read`] if it can't be read, [`LabError::Choice`] if it is something else or of another
    /// form.
    pub fn load(path: &Path) -> Result<Self, LabError> {
        let text = std::fs::read_to_string(path).map_err(|source| LabError::Read {
            path: path.into(),
            source,
        })?;
        Self::parse(&path.display().to_string(), &text)
    }

    fn parse(file: &str, text: &str) -> Result<Self, LabError> {
        let wrong = |what: String| LabError::Choice {
            what: format!("{file}: {what}"),
        };
        let advice = "give a scenario's .json of an earlier report, or what 'carrick reproduce --json' printed";
        let mut results: Vec<Old> = Vec::new();
        for value in serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>() {
            let value = value.map_err(|error| wrong(format!("no JSON ({error}); {advice}")))?;
            if value.get("rows").is_none() || value.get("scenario").is_none() {
                return Err(wrong(format!("no result of a scenario; {advice}")));
            }
            match value.get("format").and_then(serde_json::Value::as_u64) {
                Some(format) if format == u64::from(FORMAT) => {}
                Some(format) => {
                    return Err(wrong(format!(
                        "of form {format}, and this version compares form {FORMAT}: run it again with this version"
                    )));
                }
                None => {
                    return Err(wrong(
                        "of a version that wrote no form into its results: run it again with this version".into(),
                    ));
                }
            }
            let old: Old = serde_json::from_value(value).map_err(|error| {
                wrong(format!("a result that is not whole ({error}); {advice}"))
            })?;
            debug_assert_eq!(old.format, FORMAT);
            if results.iter().any(|other| other.scenario == old.scenario) {
                return Err(wrong(format!("has scenario {} twice", old.scenario)));
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

    /// The scenarios in it.
    pub fn scenarios(&self) -> impl Iterator<Item = &str> {
        self.results.iter().map(|old| old.scenario.as_str())
    }

    /// A result beside the earlier one; `None` if that has no such scenario.
    pub fn compare(&self, result: &ScenarioResult) -> Option<Comparison> {
        let old = self
            .results
            .iter()
            .find(|old| old.scenario == result.scenario)?;
        let find = |row: &Row| {
            old.rows
                .iter()
                .find(|o| o.id == row.id && o.unit == row.unit)
        };
        let mut rows: Vec<ComparedRow> = result
            .rows
            .iter()
            .map(|row| compared(&row.id, &row.label, &row.unit, find(row), Some(row)))
            .collect();
        let gone = |o: &&OldRow| {
            !result
                .rows
                .iter()
                .any(|row| o.id == row.id && o.unit == row.unit)
        };
        rows.extend(
            old.rows
                .iter()
                .filter(gone)
                .map(|o| compared(&o.id, &o.id, &o.unit, Some(o), None)),
        );
        Some(Comparison {
            file: self.file.clone(),
            version: old.version.clone(),
            seed: old.seed,
            repetitions: old.repetitions,
            rows,
        })
    }
}

fn compared(
    id: &str,
    label: &str,
    unit: &str,
    old: Option<&OldRow>,
    new: Option<&Row>,
) -> ComparedRow {
    let values = [old.and_then(|o| o.measured), new.and_then(|n| n.measured)];
    let intervals = [old.and_then(|o| o.ci95), new.and_then(|n| n.ci95)];
    let difference = values[0].zip(values[1]).map(|(old, new)| new - old);
    let outside = match (values, difference) {
        ([None, None], _) => false,
        (_, None) => true,
        ([old, _], Some(difference)) => {
            // A single run has no interval; numbers that JSON carries are exact.
            let width: f64 = intervals.iter().flatten().sum();
            difference.abs() > width + 1e-9 * old.unwrap_or(0.0).abs()
        }
    };
    ComparedRow {
        id: id.into(),
        label: label.into(),
        unit: unit.into(),
        old: values[0],
        old_ci95: intervals[0],
        new: values[1],
        new_ci95: intervals[1],
        difference,
        outside,
    }
}

impl ComparedRow {
    /// Old, new and difference as they are printed, and whether it is outside.
    pub(crate) fn cells(&self) -> [String; 4] {
        let mean = |value: Option<f64>, ci95: Option<f64>| match (value, ci95) {
            (Some(mean), Some(ci95)) => {
                format!(
                    "{} ± {}",
                    format::measured(mean),
                    format::interval(ci95, mean)
                )
            }
            (Some(mean), None) => format::measured(mean),
            _ => "–".into(),
        };
        let difference = self.difference.map_or_else(
            || "–".into(),
            |d| {
                let sign = if d > 0.0 { "+" } else { "" };
                format!("{sign}{}", format::measured(d))
            },
        );
        [
            mean(self.old, self.old_ci95),
            mean(self.new, self.new_ci95),
            difference,
            if self.outside { "outside" } else { "" }.into(),
        ]
    }
}

impl Comparison {
    /// Rows whose difference is outside of the intervals.
    pub fn outside(&self) -> usize {
        self.rows.iter().filter(|row| row.outside).count()
    }

    /// What was compared with what came of it, in a sentence.
    pub fn summary(&self) -> String {
        format!(
            "Compared with {} (version {}, seed {}, {} repetitions): {} of {} rows differ by more than both 95 % \
             confidence intervals allow.",
            self.file,
            self.version,
            self.seed,
            self.repetitions,
            self.outside(),
            self.rows.len()
        )
    }

    /// The rows as aligned lines for a terminal.
    pub fn to_table(&self, columns: usize) -> String {
        use unicode_width::UnicodeWidthStr;

        let space = columns.saturating_sub(NUMBERS).max(LABEL);
        let mut out = String::new();
        let mut line = |label: &str, cells: [&str; 4]| {
            let mut parts = wrap(label, space).into_iter();
            let first = parts.next().unwrap_or_default();
            let pad = |text: &str, width: usize| " ".repeat(width.saturating_sub(text.width()));
            let mut text = format!("{first}{}", pad(&first, space));
            for (cell, width) in cells.into_iter().zip([19, 19, 10]) {
                let _ = write!(text, "{} {cell}", pad(cell, width - 1));
            }
            let _ = write!(text, "  {}", cells[3]);
            let _ = writeln!(out, "{}", text.trim_end());
            for rest in parts {
                let _ = writeln!(out, "{rest}");
            }
        };
        line("", ["old", "new", "difference", ""]);
        for row in &self.rows {
            let [old, new, difference, outside] = row.cells();
            let label = if row.unit.is_empty() {
                row.label.clone()
            } else {
                format!("{} [{}]", row.label, row.unit)
            };
            line(&label, [&old, &new, &difference, &outside]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::sample;

    fn earlier(text: &str) -> Result<Earlier, String> {
        Earlier::parse("old.json", text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_run_compared_with_itself_has_nothing_outside() {
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
    fn rows_of_one_run_only_are_outside() {
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
    fn a_wrong_file_is_told_what_it_is() {
        let json = sample().to_json();
        let mut other = json.clone();
        other["format"] = 2.into();
        let mut before = json.clone();
        before.as_object_mut().unwrap().remove("format");
        let mut torn = json.clone();
        torn.as_object_mut().unwrap().remove("seed");
        for (text, expected) in [
            (String::new(), "old.json: is empty"),
            ("<html>".into(), "no JSON"),
            (json.to_string()[..40].into(), "no JSON"),
            ("{\"a\": 1}".into(), "no result of a scenario"),
            (
                other.to_string(),
                "of form 2, and this version compares form 1",
            ),
            (before.to_string(), "wrote no form"),
            (torn.to_string(), "not whole (missing field `seed`)"),
            (format!("{json}\n{json}"), "has scenario sample twice"),
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
