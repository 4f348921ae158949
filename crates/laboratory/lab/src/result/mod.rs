//! Results of a scenario next to published values: rows, and their JSON, CSV and terminal formats.

mod csv;
mod live;
mod table;
mod verdict;

use std::collections::BTreeMap;

use carrick_figures::Drawing;
use carrick_figures::figure::Figure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use carrick_figures::csv::field;
pub use carrick_figures::text::wrap;
pub use csv::{live_to_csv, repetitions_to_csv, to_csv};
pub(crate) use live::LiveValues;
#[cfg(test)]
pub(crate) use live::tests::sample as live_sample;
pub use live::{Agreement, LiveResult, LiveRow};
pub(crate) use table::table;
pub use table::{COLUMNS, live_to_table, to_plain_table, to_table};
pub(crate) use verdict::{TOLERANCE, TOLERANCE_POINTS};
pub use verdict::{Tally, Verdict};

use crate::compare::{Comparison, FORMAT};
use crate::file::Cell;
use crate::format;
use crate::publication::{FittedSetting, Publication};
use crate::stats::{Sorted, Summary};

/// Heading of a column, and the text of a cell.
pub(crate) type Column<T> = (&'static str, fn(&T) -> String);

/// Relation of the bound of a row to the measured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoundKind {
    /// The least possible value, of a delay for example.
    Lower,
    /// The greatest possible value, of a rate for example.
    Upper,
    /// The value that a model predicts.
    Model,
}

impl BoundKind {
    /// Returns the relation of the measured value to the bound.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Lower => "≥",
            Self::Upper => "≤",
            Self::Model => "≈",
        }
    }
}

/// One line of a scenario's table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Stable identifier, such as `standard.delay`.
    pub id: String,
    /// Label of the row.
    pub label: String,
    /// Unit of all numbers of the row.
    pub unit: String,
    /// Theoretical bound or value.
    pub bound: Option<f64>,
    /// Relation of the bound to the measured value; `None` without a bound.
    pub bound_kind: Option<BoundKind>,
    /// Published value; the lower end, if the publication gives a range.
    pub published: Option<f64>,
    /// Upper end of a published range, such as 1.9 of "80 to 90 % more".
    pub published_to: Option<f64>,
    /// Reason why the row is no reproduction of its published value; `None` if it is one.
    pub not_compared: Option<String>,
    /// Mean of the repetitions.
    pub measured: Option<f64>,
    /// Median of the repetitions; `None` with fewer than two.
    pub median: Option<f64>,
    /// Half width of the mean's 95 % confidence interval; `None` with fewer than two repetitions.
    pub ci95: Option<f64>,
    /// Number of independent repetitions.
    pub n: u64,
    /// Value of each repetition that has one, in the order of their numbers.
    pub values: Vec<f64>,
    /// Numbers of these repetitions, from 0.
    pub repetitions: Vec<u64>,
    /// Name of the cell that was measured; `None` for a row that is computed from others, or of an experiment
    /// without cells.
    pub cell: Option<String>,
    /// Swept keys of the cell and their values.
    pub swept: BTreeMap<String, String>,
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
    pub fn bounded(mut self, kind: BoundKind, bound: f64) -> Self {
        (self.bound, self.bound_kind) = (Some(bound), Some(kind));
        self
    }

    /// Returns the bound with its sign, such as "≥ 708".
    pub fn bound_text(&self) -> Option<String> {
        let bound = format::bound(self.bound?);
        let kind = self.bound_kind?;
        Some(format!("{} {bound}", kind.sign()))
    }

    /// Returns the published value as text, such as "765" or "1.8–1.9".
    pub fn published_text(&self) -> Option<String> {
        let ends = [self.published, self.published_to];
        let ends = ends.into_iter().flatten().map(format::given);
        Some(ends.collect::<Vec<_>>().join("–")).filter(|text| !text.is_empty())
    }

    /// Returns the published value nearest to the measured one.
    pub(crate) fn nearest_published(&self) -> Option<f64> {
        let from = self.published?;
        let to = self.published_to.unwrap_or(from);
        Some(self.measured.unwrap_or(from).clamp(from, to))
    }

    /// Sets the measured values, one per repetition; without values the cell stays empty.
    #[must_use]
    pub fn measured(mut self, repetitions: &[f64]) -> Self {
        let summary = Summary::of(repetitions);
        self.measured = summary.map(|s| s.mean);
        self.ci95 = summary.and_then(|s| s.ci95);
        self.n = repetitions.len() as u64;
        self.values = repetitions.to_vec();
        self.repetitions = (0..self.n).collect();
        self.median = (repetitions.len() > 1)
            .then(|| Sorted::new(repetitions.to_vec()).quantile(0.5))
            .flatten();
        self
    }

    /// Sets the measured values of a cell: that of each repetition that has one.
    pub(crate) fn measured_in(self, cell: &Cell, repetitions: &[Option<f64>]) -> Self {
        let numbered = (0..).zip(repetitions);
        let (numbers, values): (Vec<u64>, Vec<f64>) = numbered
            .filter_map(|(number, value)| Some((number, (*value)?)))
            .unzip();
        Self {
            repetitions: numbers,
            cell: Some(cell.name().into()),
            swept: cell
                .values()
                .iter()
                .filter(|(_, value)| !value.is_empty())
                .cloned()
                .collect(),
            ..self.measured(&values)
        }
    }

    /// Returns the value of a repetition, if it has one.
    pub(crate) fn value_in(&self, repetition: u64) -> Option<f64> {
        let place = self.repetitions.iter().position(|own| *own == repetition)?;
        self.values.get(place).copied()
    }

    /// Returns the row with its verdict as JSON.
    fn to_json(&self) -> Value {
        let mut json = to_value(self);
        json["verdict"] = to_value(self.verdict());
        json
    }

    /// Appends a note to earlier ones.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        append(&mut self.note, note);
        self
    }
}

/// Converts a value, all of whose keys are texts, to JSON.
fn to_value(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Appends a sentence to a note.
fn append(note: &mut String, sentence: &str) {
    if !note.is_empty() && !sentence.is_empty() {
        note.push(' ');
    }
    note.push_str(sentence);
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
#[derive(Clone, Debug, Default, Serialize)]
pub struct ScenarioResult {
    /// Name of the scenario.
    pub scenario: String,
    /// Question of the experiment.
    #[serde(skip)]
    pub question: String,
    /// Publication that is repeated; `None` for scenario files and traces.
    pub publication: Option<Publication>,
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
    /// Figures of the report.
    #[serde(skip)]
    pub figures: Vec<Figure>,
    /// Drawing of the network.
    #[serde(skip)]
    pub drawing: Drawing,
    /// Means divided into parts.
    pub splits: Vec<Split>,
    /// Differences from the publication and their causes, a paragraph each.
    pub notes: Vec<String>,
    /// Settings needed to repeat the run.
    pub settings: Vec<Setting>,
    /// Settings that were chosen by published values.
    pub fitted: Vec<FittedSetting>,
    /// Names and texts of the files that describe the experiment, with which others repeat it.
    #[serde(skip)]
    pub files: Vec<(String, String)>,
    /// Results of live runs, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveResult>,
    /// Comparison with an earlier run, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Comparison>,
}

impl ScenarioResult {
    /// Returns an empty result.
    pub fn empty(scenario: &str, question: &str, seed: u64, repetitions: u64) -> Self {
        Self {
            scenario: scenario.into(),
            question: question.into(),
            seed,
            repetitions,
            ..Self::default()
        }
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

    /// Returns the result as JSON, as `docs/results.md` describes it.
    pub fn to_json(&self) -> Value {
        let mut json = to_value(self);
        json["format"] = FORMAT.into();
        json["version"] = env!("CARGO_PKG_VERSION").into();
        json["verdicts"] = to_value(self.tally());
        json["rows"] = self.rows.iter().map(Row::to_json).collect();
        json
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

    impl Row {
        /// Sets the published value.
        pub(crate) fn published(self, published: f64) -> Self {
            Self {
                published: Some(published),
                ..self
            }
        }
    }

    pub(crate) fn sample() -> ScenarioResult {
        ScenarioResult {
            full_repetitions: Some(30),
            rows: vec![
                Row::new("a.delay", "delay, \"first\"", "ms")
                    .bounded(BoundKind::Lower, 708.0)
                    .published(765.0)
                    .measured(&[760.0, 770.0, 780.0])
                    .note("one <note>"),
                Row::new("b.delay", "delay of W″", "ms").note("not measured"),
            ],
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
            ..ScenarioResult::empty("sample", "Is a < b & c?", 7, 3)
        }
    }

    #[test]
    fn json_has_verdicts_and_null_for_absent_values() {
        let json = sample().to_json();
        assert_eq!(json["scenario"], "sample");
        assert_eq!(json["seed"], 7);
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0]["bound_kind"], "lower");
        assert_eq!(rows[0]["verdict"], "within-interval");
        assert_eq!(rows[0]["values"], serde_json::json!([760.0, 770.0, 780.0]));
        assert_eq!(json["verdicts"]["within_interval"], 1);
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
        (result.full, result.full_repetitions) = (true, None);
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

    /// Collects the names of all fields.
    fn keys(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (key, value) in fields {
                    found.push(key.clone());
                    // The parts of the accuracy are those of `carrick lab accuracy --json`.
                    if key != "accuracy" {
                        keys(value, found);
                    }
                }
            }
            serde_json::Value::Array(values) => values.iter().for_each(|v| keys(v, found)),
            _ => {}
        }
    }

    /// docs/results.md.
    #[test]
    fn every_key_of_the_json_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/results.md");
        let text = std::fs::read_to_string(path).expect("the description exists");
        let mut result = sample();
        result.publication = Some(Publication {
            authors: "a".into(),
            title: "b".into(),
            place: "c".into(),
            year: 2001,
            published_is: String::new(),
        });
        result.fitted = vec![FittedSetting {
            setting: "a".into(),
            chosen_by: "b".into(),
            alternatives: "c".into(),
        }];
        result.live = Some(live::tests::sample());
        let mut found = Vec::new();
        keys(&result.to_json(), &mut found);
        assert!(found.len() > 40, "{found:?}");
        for key in found {
            assert!(text.contains(&format!("`{key}`")), "{key}");
        }
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
