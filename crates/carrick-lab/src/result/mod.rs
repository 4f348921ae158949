//! What a scenario measured, beside what was published: rows, and their JSON, CSV and terminal form.

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
    /// Stable name for programs, such as `standard.delay`.
    pub id: String,
    /// The name for people.
    pub label: String,
    /// Unit of all numbers of the row.
    pub unit: String,
    /// What theory allows at best: a lower bound of a delay, an upper bound of a rate.
    pub bound: Option<f64>,
    /// What was published.
    pub published: Option<f64>,
    /// Mean of the repetitions.
    pub measured: Option<f64>,
    /// Half width of the mean's 95 % confidence interval; `None` with fewer than two repetitions.
    pub ci95: Option<f64>,
    /// Number of independent repetitions.
    pub n: u64,
    /// How it was measured, and why it differs.
    pub note: String,
}

impl Row {
    /// A row without numbers yet.
    pub fn new(id: &str, label: &str, unit: &str) -> Self {
        Self {
            id: id.into(),
            label: label.into(),
            unit: unit.into(),
            ..Self::default()
        }
    }

    /// The row with a bound.
    #[must_use]
    pub fn bound(mut self, bound: f64) -> Self {
        self.bound = Some(bound);
        self
    }

    /// The row with a published value.
    #[must_use]
    pub fn published(mut self, published: f64) -> Self {
        self.published = Some(published);
        self
    }

    /// The row with one measured value a repetition; none leaves the cell empty.
    #[must_use]
    pub fn measured(mut self, repetitions: &[f64]) -> Self {
        let summary = Summary::of(repetitions);
        self.measured = summary.map(|s| s.mean);
        self.ci95 = summary.and_then(|s| s.ci95);
        self.n = repetitions.len() as u64;
        self
    }

    /// The row with a note; a former note stays before it.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        if !self.note.is_empty() && !note.is_empty() {
            self.note.push(' ');
        }
        self.note.push_str(note);
        self
    }
}

/// A mean taken apart: one line a variant, one column a part, and what the parts add up to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Split {
    /// What is taken apart.
    pub title: String,
    /// Unit of all values.
    pub unit: String,
    /// Names of the parts, in order.
    pub parts: Vec<String>,
    /// The lines.
    pub lines: Vec<SplitLine>,
}

/// One line of a [`Split`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SplitLine {
    /// The variant.
    pub label: String,
    /// Mean of each part.
    pub parts: Vec<f64>,
}

impl SplitLine {
    /// The sum of the parts.
    pub fn total(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// A setting, for whoever wants to repeat the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value with unit, and the reason where there was a choice.
    pub value: String,
}

impl Setting {
    /// A setting from its two texts.
    pub fn new(name: &str, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// All that a scenario hands back.
#[derive(Clone, Debug)]
pub struct ScenarioResult {
    /// Name of the scenario.
    pub scenario: String,
    /// The question it answers.
    pub question: String,
    /// Seed of the run.
    pub seed: u64,
    /// Repetitions of each variant.
    pub repetitions: u64,
    /// `--full` was asked for.
    pub full: bool,
    /// Less than what `--full` runs, in number or in length: how many repetitions that has.
    pub full_repetitions: Option<u64>,
    /// The table.
    pub rows: Vec<Row>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The network.
    pub drawing: Drawing,
    /// Means taken apart.
    pub splits: Vec<Split>,
    /// What differs from the publication and why, a paragraph each.
    pub notes: Vec<String>,
    /// What is needed to repeat the run.
    pub settings: Vec<Setting>,
    /// The same in real time, if that was asked for.
    pub live: Option<LiveResult>,
    /// The rows beside those of an earlier run, if that was asked for.
    pub compared: Option<Comparison>,
}

/// The machine-readable part of a result.
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
    /// A result with nothing in it yet.
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

    /// The result of a run with these options, which has fewer or shorter repetitions than the
    /// `shortened_from` of `--full`, if that is some.
    #[must_use]
    pub fn extended(mut self, options: &RunOptions, shortened_from: Option<u64>) -> Self {
        self.full = options.full;
        self.full_repetitions = shortened_from;
        self
    }

    /// The command that runs it again. Real time does not repeat itself, but its settings do.
    pub fn command(&self) -> String {
        let full = if self.full { " --full" } else { "" };
        let live = if self.live.is_some() { " --live" } else { "" };
        format!(
            "carrick reproduce {} --seed {}{full} --reps {}{live}",
            self.scenario, self.seed, self.repetitions
        )
    }

    /// The result as JSON: `{"format": 1, "version", "scenario", "seed", "rows": [{"id", "label", "unit", "bound",
    /// "published", "measured", "ci95", "n", "note"}], …}`, an absent number as `null`. `"full"` says whether
    /// `--full` was given, and `"full_repetitions"` is a number where the run is shorter than that. After a run in
    /// real time there is `"live"`, with the fields of [`LiveResult`]; after a comparison `"compared"`, with those of
    /// [`Comparison`].
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

    /// How many repetitions were run, and whether that is a shortened run.
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
    fn json_has_the_promised_fields_and_null_for_what_is_absent() {
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
    fn a_result_says_how_it_is_repeated_and_whether_it_is_shortened() {
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
