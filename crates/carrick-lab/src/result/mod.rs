//! Results of a scenario next to published values: rows, and their JSON, CSV and terminal formats.

mod csv;
mod live;
mod table;

use serde::Serialize;

pub(crate) use csv::{field, record};
pub use csv::{live_to_csv, to_csv};
#[cfg(test)]
pub(crate) use live::tests::sample as live_sample;
pub use live::{Agreement, LiveResult, LiveRow};
pub use table::{COLUMNS, live_to_table, to_plain_table, to_table, wrap};

use crate::compare::{Comparison, FORMAT};
use crate::drawing::Drawing;
use crate::figure::Figure;
use crate::scenario::RunOptions;
use crate::stats::Summary;

/// One line of a scenario's table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Stable identifier, such as `standard.delay`.
    pub id: String,
    /// Label of the row.
    pub label: String,
    /// Unit of all numbers of the row.
    pub unit: String,
    /// Theoretical bound: a lower bound of a delay, an upper bound of a rate.
    pub bound: Option<f64>,
    /// Published value.
    pub published: Option<f64>,
    /// Mean of the repetitions.
    pub measured: Option<f64>,
    /// Half width of the mean's 95 % confidence interval; `None` with fewer than two repetitions.
    pub ci95: Option<f64>,
    /// Number of independent repetitions.
    pub n: u64,
    /// Method of the measurement, and reason for a difference.
    pub note: String,
}

impl Row {
    /// Returns a row without numbers.
    pub fn new(id: &str, label: &str, unit: &str) -> Self {
        Self {
            id: id.into(),
            label: label.into(),
            unit: unit.into(),
            ..Self::default()
        }
    }

    /// Sets the bound.
    #[must_use]
    pub fn bound(mut self, bound: f64) -> Self {
        self.bound = Some(bound);
        self
    }

    /// Sets the published value.
    #[must_use]
    pub fn published(mut self, published: f64) -> Self {
        self.published = Some(published);
        self
    }

    /// Sets the measured values, one per repetition; without values the cell stays empty.
    #[must_use]
    pub fn measured(mut self, repetitions: &[f64]) -> Self {
        let summary = Summary::of(repetitions);
        self.measured = summary.map(|s| s.mean);
        self.ci95 = summary.and_then(|s| s.ci95);
        self.n = repetitions.len() as u64;
        self
    }

    /// Appends a note to earlier ones.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        if !self.note.is_empty() && !note.is_empty() {
            self.note.push(' ');
        }
        self.note.push_str(note);
        self
    }
}

/// Means divided into parts: one line per variant, one column per part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Split {
    /// Name of the quantity.
    pub title: String,
    /// Unit of all values.
    pub unit: String,
    /// Names of the parts, in order.
    pub parts: Vec<String>,
    /// Lines, one per variant.
    pub lines: Vec<SplitLine>,
}

/// One line of a [`Split`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SplitLine {
    /// Name of the variant.
    pub label: String,
    /// Mean of each part.
    pub parts: Vec<f64>,
}

impl SplitLine {
    /// Returns the sum of the parts.
    pub fn total(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// A setting needed to repeat the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Name of the setting.
    pub name: String,
    /// Value with its unit, and the reason where there was a choice.
    pub value: String,
}

impl Setting {
    /// Returns a setting with a name and a value.
    pub fn new(name: &str, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// Complete result of a scenario.
#[derive(Clone, Debug)]
pub struct ScenarioResult {
    /// Name of the scenario.
    pub scenario: String,
    /// Question of the experiment.
    pub question: String,
    /// Seed of the run.
    pub seed: u64,
    /// Repetitions of each variant.
    pub repetitions: u64,
    /// The run was started with `--full`.
    pub full: bool,
    /// Number of repetitions of `--full`, if this run is shorter, in number or in length.
    pub full_repetitions: Option<u64>,
    /// Rows of the table.
    pub rows: Vec<Row>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Drawing of the network.
    pub drawing: Drawing,
    /// Means divided into parts.
    pub splits: Vec<Split>,
    /// Differences from the publication and their causes, a paragraph each.
    pub notes: Vec<String>,
    /// Settings needed to repeat the run.
    pub settings: Vec<Setting>,
    /// Results of live runs, if requested.
    pub live: Option<LiveResult>,
    /// Comparison with an earlier run, if requested.
    pub compared: Option<Comparison>,
}

/// Machine-readable part of a result.
#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    version: &'a str,
    scenario: &'a str,
    seed: u64,
    rows: &'a [Row],
    repetitions: u64,
    full: bool,
    full_repetitions: Option<u64>,
    splits: &'a [Split],
    notes: &'a [String],
    settings: &'a [Setting],
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<&'a LiveResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<&'a Comparison>,
}

impl ScenarioResult {
    /// Returns an empty result.
    pub fn of(scenario: &str, question: &str, seed: u64, repetitions: u64) -> Self {
        Self {
            scenario: scenario.into(),
            question: question.into(),
            seed,
            repetitions,
            full: false,
            full_repetitions: None,
            rows: Vec::new(),
            figures: Vec::new(),
            drawing: Drawing::default(),
            splits: Vec::new(),
            notes: Vec::new(),
            settings: Vec::new(),
            live: None,
            compared: None,
        }
    }

    /// Sets the number of repetitions of `--full` (`shortened_from`) if the run with these options
    /// is shorter.
    #[must_use]
    pub fn extended(mut self, options: &RunOptions, shortened_from: Option<u64>) -> Self {
        self.full = options.full;
        self.full_repetitions = shortened_from;
        self
    }

    /// Returns the command that repeats the run. Values of live runs are not reproducible, but
    /// their settings are.
    pub fn command(&self) -> String {
        let full = if self.full { " --full" } else { "" };
        let live = if self.live.is_some() { " --live" } else { "" };
        format!(
            "carrick reproduce {} --seed {}{full} --reps {}{live}",
            self.scenario, self.seed, self.repetitions
        )
    }

    /// Returns the result as JSON: `{"format": 1, "version", "scenario", "seed", "rows": [{"id",
    /// "label", "unit", "bound", "published", "measured", "ci95", "n", "note"}], …}`; an absent
    /// number is `null`. `"full"` is true after a run with `--full`, and `"full_repetitions"` is a
    /// number if the run is shorter than that. After live runs there is `"live"`, with the fields
    /// of [`LiveResult`]; after a comparison `"compared"`, with those of [`Comparison`].
    pub fn to_json(&self) -> serde_json::Value {
        let document = Document {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            scenario: &self.scenario,
            seed: self.seed,
            rows: &self.rows,
            repetitions: self.repetitions,
            full: self.full,
            full_repetitions: self.full_repetitions,
            splits: &self.splits,
            notes: &self.notes,
            settings: &self.settings,
            live: self.live.as_ref(),
            compared: self.compared.as_ref(),
        };
        serde_json::to_value(document).unwrap_or_default()
    }

    /// Returns the number of repetitions as text, and the fact that a run is shortened.
    pub fn extent(&self) -> String {
        let plural = if self.repetitions == 1 { "" } else { "s" };
        let own = format!("{} repetition{plural}", self.repetitions);
        match self.full_repetitions {
            Some(full) => format!("shortened run: {own}; --full runs {full}"),
            None => own,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> ScenarioResult {
        ScenarioResult {
            scenario: "sample".into(),
            question: "Is a < b & c?".into(),
            seed: 7,
            repetitions: 3,
            full: false,
            full_repetitions: Some(30),
            rows: vec![
                Row::new("a.delay", "delay, \"first\"", "ms")
                    .bound(708.0)
                    .published(765.0)
                    .measured(&[760.0, 770.0, 780.0])
                    .note("one <note>"),
                Row::new("b.delay", "delay of W″", "ms").note("not measured"),
            ],
            figures: Vec::new(),
            drawing: Drawing::default(),
            splits: vec![Split {
                title: "Parts".into(),
                unit: "ms".into(),
                parts: vec!["queue".into(), "way".into()],
                lines: vec![SplitLine {
                    label: "a".into(),
                    parts: vec![20.0, 750.0],
                }],
            }],
            notes: vec!["It differs.".into()],
            settings: vec![Setting::new("rate", "1.536 Mbit/s")],
            live: None,
            compared: None,
        }
    }

    #[test]
    fn json_has_all_fields_and_null_for_absent_values() {
        let json = sample().to_json();
        assert_eq!(json["scenario"], "sample");
        assert_eq!(json["seed"], 7);
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2);
        let fields = [
            "id",
            "label",
            "unit",
            "bound",
            "published",
            "measured",
            "ci95",
            "n",
            "note",
        ];
        for row in rows {
            for field in fields {
                assert!(row.get(field).is_some(), "{field} is missing");
            }
            assert_eq!(row.as_object().unwrap().len(), fields.len());
        }
        assert_eq!(rows[0]["measured"], 770.0);
        assert_eq!(rows[0]["n"], 3);
        assert!(rows[1]["measured"].is_null() && rows[1]["ci95"].is_null());
        assert_eq!(rows[1]["n"], 0);
    }

    #[test]
    fn results_have_their_command_and_extent() {
        let mut result = sample();
        assert_eq!(
            result.command(),
            "carrick reproduce sample --seed 7 --reps 3"
        );
        assert_eq!(result.to_json()["full"], false);
        assert_eq!(result.to_json()["full_repetitions"], 30);
        let options = RunOptions {
            full: true,
            ..RunOptions::default()
        };
        result = result.extended(&options, None);
        result.live = Some(live::tests::sample());
        assert_eq!(
            result.command(),
            "carrick reproduce sample --seed 7 --full --reps 3 --live"
        );
        assert_eq!(result.to_json()["full"], true);
        assert!(result.to_json()["full_repetitions"].is_null());
        assert_eq!(result.extent(), "3 repetitions");
    }

    #[test]
    fn json_has_live_results_only_after_a_live_run() {
        let mut result = sample();
        assert!(result.to_json().get("live").is_none());
        result.live = Some(live::tests::sample());
        let live = &result.to_json()["live"];
        assert_eq!(live["rows"][0]["simulated"], 100.0);
        assert_eq!(live["rows"][0]["live"], 102.0);
        assert!(live["rows"][1]["ci95"].is_null() && live["accuracy"].is_null());
    }

    #[test]
    fn notes_are_joined() {
        let row = Row::new("a", "b", "c").note("one").note("").note("two");
        assert_eq!(row.note, "one two");
    }

    #[test]
    fn one_repetition_has_no_interval() {
        let row = Row::new("a", "b", "c").measured(&[1.0]);
        assert_eq!((row.measured, row.ci95, row.n), (Some(1.0), None, 1));
    }
}
