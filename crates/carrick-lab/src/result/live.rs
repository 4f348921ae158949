//! What a scenario measured in real time, beside the same simulated.

use serde::Serialize;

use super::Setting;
use crate::format;
use crate::live::Accuracy;
use crate::stats::Summary;

/// How far live and simulated values may differ without a reason, in per cent.
const TOLERANCE: f64 = 5.0;

/// One value, live beside simulated and published.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveRow {
    /// Stable name for programs, such as `standard.recovery.udp`.
    pub id: String,
    /// The name for people.
    pub label: String,
    /// Unit of all numbers of the row but `difference`.
    pub unit: String,
    /// What was published.
    pub published: Option<f64>,
    /// Mean of simulations of the same extent, with the same seeds.
    pub simulated: Option<f64>,
    /// Mean of the runs in real time.
    pub live: Option<f64>,
    /// Half width of its 95 % confidence interval; `None` with fewer than two runs.
    pub ci95: Option<f64>,
    /// Number of runs in real time.
    pub n: u64,
    /// Live over simulated, less 1, in per cent.
    pub difference: Option<f64>,
    /// Half width of the 95 % confidence interval of live less simulated, repetition by repetition.
    #[serde(skip)]
    uncertainty: Option<f64>,
    /// Why it differs, where it does by more than 5 %.
    pub note: String,
}

impl LiveRow {
    /// A row of simulated and live values, one a repetition.
    pub fn new(id: &str, label: &str, unit: &str, simulated: &[f64], live: &[f64]) -> Self {
        let pairs: Vec<f64> = simulated.iter().zip(live).map(|(s, l)| l - s).collect();
        let simulated = Summary::of(simulated).map(|s| s.mean);
        let summary = Summary::of(live);
        let difference = match (simulated, summary) {
            (Some(simulated), Some(live)) if simulated != 0.0 => {
                Some((live.mean / simulated - 1.0) * 100.0)
            }
            _ => None,
        };
        Self {
            id: id.into(),
            label: label.into(),
            unit: unit.into(),
            simulated,
            live: summary.map(|s| s.mean),
            ci95: summary.and_then(|s| s.ci95),
            n: live.len() as u64,
            difference,
            uncertainty: (pairs.len() == live.len())
                .then(|| Summary::of(&pairs)?.ci95)
                .flatten(),
            ..Self::default()
        }
    }

    /// The row with a published value.
    #[must_use]
    pub fn published(mut self, published: Option<f64>) -> Self {
        self.published = published;
        self
    }

    /// The row with a note.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        if !self.note.is_empty() && !note.is_empty() {
            self.note.push(' ');
        }
        self.note.push_str(note);
        self
    }

    /// The row with the reason for a difference, if it is one that asks for a reason.
    #[must_use]
    pub fn because(self, why: &str) -> Self {
        if !self.differs() {
            return self;
        }
        let row = match (self.live, self.simulated, self.uncertainty) {
            (Some(live), Some(simulated), Some(uncertainty))
                if (live - simulated).abs() <= uncertainty =>
            {
                let sign = format::measured(live - simulated);
                let text = format!(
                    "Not certain: repetition by repetition the difference is {sign} ± {} {}.",
                    format::measured(uncertainty),
                    self.unit
                );
                self.note(&text)
            }
            _ => self,
        };
        row.note(why)
    }

    /// Live and simulated are more than 5 % apart.
    pub fn differs(&self) -> bool {
        self.difference.is_some_and(|d| d.abs() > TOLERANCE)
    }
}

/// All of a scenario's runs in real time, or why there are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveResult {
    /// The table.
    pub rows: Vec<LiveRow>,
    /// How exact the runs were.
    pub accuracy: Option<Accuracy>,
    /// What there is to say, a paragraph each.
    pub notes: Vec<String>,
    /// What is needed to repeat them.
    pub settings: Vec<Setting>,
}

impl LiveResult {
    /// Of a scenario that does not run live, for this reason.
    pub fn none(reason: &str) -> Self {
        Self {
            notes: vec![format!("Not run in real time: {reason}")],
            ..Self::default()
        }
    }

    /// What is to be said below the table.
    pub fn remarks(&self) -> Vec<String> {
        let accuracy = self.accuracy.as_ref().map(Accuracy::describe);
        accuracy
            .into_iter()
            .chain(self.notes.iter().cloned())
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> LiveResult {
        LiveResult {
            rows: vec![
                LiveRow::new("a.delay.udp", "delay, UDP", "ms", &[100.0], &[101.0, 103.0])
                    .published(Some(99.0)),
                LiveRow::new("a.delay.bbr", "delay, \"bbr\"", "ms", &[100.0], &[80.0])
                    .because("The kernel has <SACK>."),
            ],
            accuracy: None,
            notes: vec!["Three hosts & a half.".into()],
            settings: vec![Setting::new("runs", "2")],
        }
    }

    #[test]
    fn the_difference_is_in_per_cent_of_the_simulated_value() {
        let rows = sample().rows;
        assert!((rows[0].difference.unwrap() - 2.0).abs() < 1e-9);
        assert!((rows[1].difference.unwrap() + 20.0).abs() < 1e-9);
        let nothing = LiveRow::new("a", "b", "c", &[], &[1.0]);
        assert_eq!(nothing.difference, None);
        assert_eq!(LiveRow::new("a", "b", "c", &[0.0], &[1.0]).difference, None);
    }

    #[test]
    fn a_reason_is_given_where_it_is_asked_for() {
        let row = |simulated: &[f64], live: &[f64]| {
            LiveRow::new("a", "b", "ms", simulated, live).because("Why.")
        };
        assert_eq!(row(&[100.0], &[104.9]).note, "");
        assert_eq!(row(&[100.0], &[94.0]).note, "Why.");
        // The repetitions differ from each other, but live from simulated always in the same way.
        assert_eq!(row(&[50.0, 150.0], &[56.0, 156.1]).note, "Why.");
        let uncertain = row(&[100.0, 100.0], &[90.0, 125.0]).note;
        assert!(
            uncertain.starts_with("Not certain") && uncertain.contains("7.50 ±"),
            "{uncertain}"
        );
        assert!(uncertain.ends_with("Why."), "{uncertain}");
    }

    #[test]
    fn what_does_not_run_says_why() {
        let none = LiveResult::none("it takes a day.");
        assert_eq!(none.remarks(), ["Not run in real time: it takes a day."]);
    }
}
