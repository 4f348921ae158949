//! What a scenario measured in real time, beside the same simulated.

use serde::Serialize;

use super::Setting;
use crate::format;
use crate::live::Accuracy;
use crate::stats::Summary;

/// How far live and simulated values may differ without a reason, in per cent.
const TOLERANCE: f64 = 5.0;

/// How a live value stands to the simulated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// They differ by 5 % at most.
    Close,
    /// They differ by more, but their 95 % intervals overlap.
    Interval,
    /// The live one is of another stack than the simulated one: the kernel's TCP.
    OtherStack,
    /// It is larger by what the network was late, as was measured.
    Late,
    /// It was run once, so that it has no interval, and differs by more than 5 %.
    Once,
    /// They differ for no reason that is known.
    Apart,
}

impl Agreement {
    /// A word or two for tables.
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
    /// Half width of its 95 % confidence interval; `None` with fewer than two.
    pub simulated_ci95: Option<f64>,
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
    /// How the two stand to each other; `None` if one is missing.
    pub agreement: Option<Agreement>,
    /// Why it differs, where it does by more than 5 %.
    pub note: String,
}

impl LiveRow {
    /// A row of simulated and live values, one a repetition.
    pub fn new(id: &str, label: &str, unit: &str, simulated: &[f64], live: &[f64]) -> Self {
        let pairs: Vec<f64> = simulated.iter().zip(live).map(|(s, l)| l - s).collect();
        let twin = Summary::of(simulated);
        let simulated = twin.map(|s| s.mean);
        let summary = Summary::of(live);
        let agreement = twin.zip(summary);
        let agreement = agreement
            .map(|(twin, live)| agreement_of((twin.mean, twin.ci95), (live.mean, live.ci95), 0.0));
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
            simulated_ci95: twin.and_then(|s| s.ci95),
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

    /// The row of a value that is larger by this, in the row's unit, because the network handed packets over
    /// late, as was measured in these very runs.
    #[must_use]
    pub fn delayed_by(mut self, late: f64) -> Self {
        let (Some(live), Some(simulated)) = (self.live, self.simulated) else {
            return self;
        };
        let twin = (simulated, self.simulated_ci95);
        let without = agreement_of(twin, (live, self.ci95), late);
        if self.agreement == Some(Agreement::Apart) && without != Agreement::Apart {
            self.agreement = Some(Agreement::Late);
            let unit = self.unit.clone();
            return self.note(&format!(
                "The network was {} {unit} late, as was measured in these runs.",
                format::measured(late)
            ));
        }
        self
    }

    /// The row of another stack than the simulated one, with what is different in it.
    #[must_use]
    pub fn another_stack(mut self, why: &str) -> Self {
        let differs = self.agreement.filter(|known| *known != Agreement::Close);
        self.agreement = differs.map_or(self.agreement, |_| Some(Agreement::OtherStack));
        if self.differs() { self.note(why) } else { self }
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
        let row = match row.agreement {
            Some(Agreement::Apart) => {
                row.note("More than the intervals have, for no reason that was measured.")
            }
            _ => row,
        };
        row.note(why)
    }

    /// Live and simulated are more than 5 % apart.
    pub fn differs(&self) -> bool {
        self.difference.is_some_and(|d| d.abs() > TOLERANCE)
    }
}

/// A mean and the half width of its 95 % interval.
type Mean = (f64, Option<f64>);

/// How two means stand to each other, the live one being larger by up to `late` for a known reason.
fn agreement_of(simulated: Mean, live: Mean, late: f64) -> Agreement {
    let difference = live.0 - simulated.0;
    let difference = (difference - late.clamp(0.0, difference.max(0.0))).abs();
    if difference <= TOLERANCE / 100.0 * simulated.0.abs() {
        return Agreement::Close;
    }
    match (simulated.1, live.1) {
        (Some(one), Some(other)) if difference <= one + other => Agreement::Interval,
        (_, Some(_)) => Agreement::Apart,
        (_, None) => Agreement::Once,
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
        let agreement = (!self.rows.is_empty()).then(|| self.agreement());
        agreement
            .into_iter()
            .chain(accuracy)
            .chain(self.notes.iter().cloned())
            .collect()
    }

    /// In how many rows live and simulated agree, and in which they don't.
    fn agreement(&self) -> String {
        let of = |wanted: Agreement| {
            let rows = self.rows.iter();
            rows.filter(move |row| row.agreement == Some(wanted))
        };
        let count = |wanted| of(wanted).count();
        let mut text = format!(
            "Live and simulated agree within {TOLERANCE} % in {} rows, by overlapping 95 % intervals in {}; in {} the kernel’s TCP is \
             another than the simulated one",
            count(Agreement::Close),
            count(Agreement::Interval),
            count(Agreement::OtherStack),
        );
        for (kind, what) in [
            (Agreement::Late, "larger by what the network was late"),
            (Agreement::Once, "run once and not close"),
            (Agreement::Apart, "apart for no known reason"),
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
    fn values_agree_when_they_are_close_or_their_intervals_overlap() {
        let row = |simulated: &[f64], live: &[f64]| LiveRow::new("a", "b", "ms", simulated, live);
        let known = |row: LiveRow| row.agreement;
        assert_eq!(known(row(&[100.0], &[105.0])), Some(Agreement::Close));
        assert_eq!(known(row(&[100.0], &[94.0])), Some(Agreement::Once));
        let wide = row(&[90.0, 110.0], &[120.0, 121.0]);
        assert_eq!(wide.agreement, Some(Agreement::Interval));
        // 110 is not within 95 % of 100, each known to a tenth.
        let (simulated, live) = ([99.99, 100.0, 100.01], [109.99, 110.0, 110.01]);
        let apart = row(&simulated, &live).because("Why.");
        assert_eq!(apart.agreement, Some(Agreement::Apart));
        assert!(
            apart.note.contains("no reason that was measured"),
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
            "lateness makes nothing early"
        );
        let little = row(&simulated, &live).delayed_by(1.0);
        assert_eq!(little.agreement, Some(Agreement::Apart));
        assert_eq!(known(row(&[], &[1.0])), None);
        assert_eq!(known(row(&[0.0], &[0.0])), Some(Agreement::Close));
        let result = LiveResult {
            rows: vec![apart, tcp, wide],
            ..LiveResult::default()
        };
        let said = &result.remarks()[0];
        assert!(
            said.contains("in 0 rows") && said.contains("intervals in 1"),
            "{said}"
        );
        assert!(said.contains("apart for no known reason: a."), "{said}");
    }

    #[test]
    fn what_does_not_run_says_why() {
        let none = LiveResult::none("it takes a day.");
        assert_eq!(none.remarks(), ["Not run in real time: it takes a day."]);
    }
}
