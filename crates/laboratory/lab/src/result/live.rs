//! Results of live runs, next to simulated ones.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Setting, append};
use crate::format;
use crate::live::Accuracy;
use crate::stats::Summary;

/// Largest difference between live and simulated values that needs no explanation, in per cent.
const TOLERANCE: f64 = 5.0;

/// Relation of a live value to the simulated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// The values differ by at most 5 %.
    Close,
    /// They differ by more, but their 95 % intervals overlap.
    Interval,
    /// The live value is one of a different stack than the simulated one: the kernel's TCP.
    OtherStack,
    /// The live value is larger by the measured lateness of the network.
    Late,
    /// There was only one run, without an interval, and the values differ by more than 5 %.
    Once,
    /// They differ without a known reason.
    Apart,
}

impl Agreement {
    /// Returns a short description for tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::Close => "agrees",
            Self::Interval => "intervals overlap",
            Self::OtherStack => "another TCP",
            Self::Late => "network late",
            Self::Once => "run once",
            Self::Apart => "apart",
        }
    }
}

/// One value: live, simulated and published.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveRow {
    /// Stable identifier, such as `standard.recovery.udp`.
    pub id: String,
    /// Label of the row.
    pub label: String,
    /// Unit of all numbers of the row except `difference`.
    pub unit: String,
    /// Published value.
    pub published: Option<f64>,
    /// Mean of simulations of the same number and length, with the same seeds.
    pub simulated: Option<f64>,
    /// Half width of the simulated 95 % confidence interval; `None` with fewer than two runs.
    pub simulated_ci95: Option<f64>,
    /// Mean of the live runs.
    pub live: Option<f64>,
    /// Half width of the live 95 % confidence interval; `None` with fewer than two runs.
    pub ci95: Option<f64>,
    /// Number of live runs.
    pub n: u64,
    /// Live divided by simulated, minus 1, in per cent.
    pub difference: Option<f64>,
    /// Half width of the 95 % confidence interval of the paired differences between live and
    /// simulated.
    #[serde(skip)]
    uncertainty: Option<f64>,
    /// Relation of the two values; `None` if one is missing.
    pub agreement: Option<Agreement>,
    /// Reason for a difference of more than 5 %.
    pub note: String,
}

impl LiveRow {
    /// Returns a row of simulated and live values, one per repetition.
    pub fn new(id: &str, label: &str, unit: &str, simulated: &[f64], live: &[f64]) -> Self {
        let pairs: Vec<f64> = simulated.iter().zip(live).map(|(s, l)| l - s).collect();
        let [simulation, summary] = [simulated, live].map(Summary::of);
        let simulated = simulation.map(|s| s.mean);
        let both = simulation.zip(summary);
        let agreement = both.map(|(simulation, live)| agreement_of(simulation, live, 0.0));
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
            simulated_ci95: simulation.and_then(|s| s.ci95),
            agreement,
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

    /// Sets the published value.
    #[must_use]
    pub fn published(mut self, published: Option<f64>) -> Self {
        self.published = published;
        self
    }

    /// Appends a note.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        append(&mut self.note, note);
        self
    }

    /// Sets the lateness of the network measured in these runs, in the unit of the row, by which
    /// the live value is larger.
    #[must_use]
    pub fn delayed_by(mut self, late: f64) -> Self {
        let (Some(live), Some(simulated)) = (self.live, self.simulated) else {
            return self;
        };
        let [simulation, live] = [(simulated, self.simulated_ci95), (live, self.ci95)]
            .map(|(mean, ci95)| Summary { mean, ci95 });
        let without = agreement_of(simulation, live, late);
        if self.agreement == Some(Agreement::Apart) && without != Agreement::Apart {
            self.agreement = Some(Agreement::Late);
            let unit = self.unit.clone();
            return self.note(&format!(
                "The network was {} {unit} late, as measured in these runs.",
                format::measured(late)
            ));
        }
        self
    }

    /// Marks the row as one of a different stack than the simulated one; `why` describes the
    /// differences.
    #[must_use]
    pub fn another_stack(mut self, why: &str) -> Self {
        let differs = self.agreement.filter(|known| *known != Agreement::Close);
        self.agreement = differs.map_or(self.agreement, |_| Some(Agreement::OtherStack));
        if self.differs() { self.note(why) } else { self }
    }

    /// Appends the reason for a difference, if the difference requires one.
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
                    "Not significant: the mean paired difference is {sign} ± {} {}.",
                    format::measured(uncertainty),
                    self.unit
                );
                self.note(&text)
            }
            _ => self,
        };
        let row = match row.agreement {
            Some(Agreement::Apart) => {
                row.note("The difference exceeds the intervals; no measured quantity explains it.")
            }
            _ => row,
        };
        row.note(why)
    }

    /// Returns whether live and simulated values differ by more than 5 %.
    pub fn differs(&self) -> bool {
        self.difference.is_some_and(|d| d.abs() > TOLERANCE)
    }
}

/// Determines the relation of two means; the live one may be larger by `late` for a known reason.
fn agreement_of(simulated: Summary, live: Summary, late: f64) -> Agreement {
    let difference = live.mean - simulated.mean;
    let difference = (difference - late.clamp(0.0, difference.max(0.0))).abs();
    if difference <= TOLERANCE / 100.0 * simulated.mean.abs() {
        return Agreement::Close;
    }
    match (simulated.ci95, live.ci95) {
        (Some(one), Some(other)) if difference <= one + other => Agreement::Interval,
        (_, Some(_)) => Agreement::Apart,
        (_, None) => Agreement::Once,
    }
}

/// Results of all live runs of a scenario, or the reason why there are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveResult {
    /// Rows of the table.
    pub rows: Vec<LiveRow>,
    /// Accuracy of the runs.
    pub accuracy: Option<Accuracy>,
    /// Notes, a paragraph each.
    pub notes: Vec<String>,
    /// Settings needed to repeat the runs.
    pub settings: Vec<Setting>,
    /// Values of the runs of an experiment that has no simulation.
    #[serde(skip)]
    pub(crate) values: LiveValues,
}

/// Values of live runs, by cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LiveValues {
    /// For each cell the values of all columns in each run; `None` where a measure is not defined.
    pub(crate) cells: Vec<Vec<Vec<Option<f64>>>>,
    /// Cells without a run, with the reason.
    pub(crate) absent: BTreeMap<usize, String>,
}

impl LiveValues {
    /// Returns the values of cells all of which may have run.
    pub(crate) fn of_cells(cells: Vec<Vec<Vec<Option<f64>>>>) -> Self {
        Self {
            cells,
            ..Self::default()
        }
    }
}

impl LiveResult {
    /// Returns the result of a scenario that is not run live, with the reason.
    pub fn none(reason: &str) -> Self {
        Self {
            notes: vec![format!("Not run in real time: {reason}")],
            ..Self::default()
        }
    }

    /// Returns the title of the part of a report.
    pub fn title(&self) -> &'static str {
        if self.rows.is_empty() {
            "Live runs"
        } else {
            "Simulated and live"
        }
    }

    /// Returns the remarks below the table.
    pub fn remarks(&self) -> Vec<String> {
        let accuracy = self.accuracy.as_ref().map(Accuracy::describe);
        let agreement = (!self.rows.is_empty()).then(|| self.agreement());
        agreement
            .into_iter()
            .chain(accuracy)
            .chain(self.notes.iter().cloned())
            .collect()
    }

    /// Summarizes the number of rows in which live and simulated values agree, and lists the rows
    /// in which they do not.
    fn agreement(&self) -> String {
        let of = |wanted: Agreement| {
            let rows = self.rows.iter();
            rows.filter(move |row| row.agreement == Some(wanted))
        };
        let count = |wanted| of(wanted).count();
        let mut text = format!(
            "Live and simulated values agree within {TOLERANCE} % in {} rows, and by overlapping 95 % intervals in {}; in {} rows the kernel’s TCP \
             is compared with a different simulated TCP",
            count(Agreement::Close),
            count(Agreement::Interval),
            count(Agreement::OtherStack),
        );
        for (kind, what) in [
            (Agreement::Late, "larger by the lateness of the network"),
            (Agreement::Once, "run only once and not close"),
            (Agreement::Apart, "different without a known reason"),
        ] {
            let ids: Vec<&str> = of(kind).map(|row| row.id.as_str()).collect();
            if !ids.is_empty() {
                text.extend(["; ", what, ": ", &ids.join(", ")]);
            }
        }
        text.push('.');
        text
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
            values: LiveValues::default(),
        }
    }

    #[test]
    fn differences_are_relative_to_the_simulated_value() {
        let rows = sample().rows;
        assert!((rows[0].difference.unwrap() - 2.0).abs() < 1e-9);
        assert!((rows[1].difference.unwrap() + 20.0).abs() < 1e-9);
        let nothing = LiveRow::new("a", "b", "c", &[], &[1.0]);
        assert_eq!(nothing.difference, None);
        assert_eq!(LiveRow::new("a", "b", "c", &[0.0], &[1.0]).difference, None);
    }

    #[test]
    fn reasons_are_added_to_significant_differences() {
        let row = |simulated: &[f64], live: &[f64]| {
            LiveRow::new("a", "b", "ms", simulated, live).because("Why.")
        };
        assert_eq!(row(&[100.0], &[104.9]).note, "");
        assert_eq!(row(&[100.0], &[94.0]).note, "Why.");
        // The repetitions differ from each other, but the paired differences are all equal.
        assert_eq!(row(&[50.0, 150.0], &[56.0, 156.1]).note, "Why.");
        let uncertain = row(&[100.0, 100.0], &[90.0, 125.0]).note;
        assert!(
            uncertain.starts_with("Not significant") && uncertain.contains("7.50 ±"),
            "{uncertain}"
        );
        assert!(uncertain.ends_with("Why."), "{uncertain}");
    }

    #[test]
    fn close_values_or_overlapping_intervals_agree() {
        let row = |simulated: &[f64], live: &[f64]| LiveRow::new("a", "b", "ms", simulated, live);
        let known = |row: LiveRow| row.agreement;
        assert_eq!(known(row(&[100.0], &[105.0])), Some(Agreement::Close));
        assert_eq!(known(row(&[100.0], &[94.0])), Some(Agreement::Once));
        let wide = row(&[90.0, 110.0], &[120.0, 121.0]);
        assert_eq!(wide.agreement, Some(Agreement::Interval));
        // 110 is not within 5 % of 100, with both known to 0.1.
        let (simulated, live) = ([99.99, 100.0, 100.01], [109.99, 110.0, 110.01]);
        let apart = row(&simulated, &live).because("Why.");
        assert_eq!(apart.agreement, Some(Agreement::Apart));
        assert!(
            apart.note.contains("no measured quantity explains it"),
            "{apart:?}"
        );
        let tcp = row(&simulated, &live).another_stack("It has SACK.");
        assert_eq!(tcp.agreement, Some(Agreement::OtherStack));
        assert_eq!(tcp.note, "It has SACK.");
        let late = row(&simulated, &live).delayed_by(6.0);
        assert_eq!(late.agreement, Some(Agreement::Late));
        let early = row(&live, &simulated).delayed_by(60.0);
        assert_eq!(
            early.agreement,
            Some(Agreement::Apart),
            "lateness does not explain a smaller value"
        );
        let little = row(&simulated, &live).delayed_by(1.0);
        assert_eq!(little.agreement, Some(Agreement::Apart));
        assert_eq!(known(row(&[], &[1.0])), None);
        assert_eq!(known(row(&[0.0], &[0.0])), Some(Agreement::Close));
        let result = LiveResult {
            rows: vec![apart, tcp, wide],
            ..LiveResult::default()
        };
        let remark = &result.remarks()[0];
        assert!(
            remark.contains("in 0 rows") && remark.contains("intervals in 1"),
            "{remark}"
        );
        assert!(
            remark.contains("different without a known reason: a."),
            "{remark}"
        );
    }

    #[test]
    fn a_result_without_runs_has_a_reason() {
        let none = LiveResult::none("it takes a day.");
        assert_eq!(none.remarks(), ["Not run in real time: it takes a day."]);
    }
}
