//! The report: one self-contained HTML file, for screens of any width, light or dark, and for
//! print.

mod compared;
mod live;
mod section;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::result::{Row, ScenarioResult, TOLERANCE, TOLERANCE_POINTS, Tally};
use carrick_figures::{PAGE_STYLE, STYLE};

/// Description of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// Seed of the run.
    pub seed: u64,
    /// Heading of the report.
    pub title: String,
}

impl RunInfo {
    /// Returns the description of a run of this version with `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            title: "Published results, reproduced".into(),
        }
    }

    /// Sets the heading.
    #[must_use]
    pub fn titled(mut self, title: &str) -> Self {
        self.title = title.into();
        self
    }
}

/// Renders the report of a run as an HTML document.
pub fn to_html(info: &RunInfo, results: &[ScenarioResult]) -> String {
    let has = |value: fn(&Row) -> bool| results.iter().any(|result| result.rows.iter().any(value));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Carrick: " (info.title) }
                style { (PreEscaped(PAGE_STYLE)) (PreEscaped(STYLE)) }
            }
            body {
                h1 { (info.title) }
                p.soft {
                    "Carrick " (env!("CARGO_PKG_VERSION")) ", in virtual time, seed " (info.seed)
                    ". The same version and seed give the same numbers with any number of cores, and on every machine \
                     whose mathematical functions agree to the last bit. Measured values are means of independent \
                     repetitions with their 95 % confidence interval (Student’s t); n is the number of repetitions."
                    @if has(|row| row.bound.is_some()) {
                        " A bound is a lower limit (≥), an upper limit (≤) or the value of a model (≈)."
                    }
                    @if has(|row| row.published.is_some()) {
                        " A published value is reproduced if the measured mean differs by at most "
                        (TOLERANCE) " % of it (" (TOLERANCE_POINTS)
                        " percentage points of a value in per cent); “interval”: it is also within the 95 % \
                         interval; “short”: the interval is too wide to decide."
                    }
                }
                @if results.len() > 1 { (contents(results)) }
                @for result in results { (section::section(result)) }
                (fitted(results))
            }
        }
    };
    page.into_string()
}

/// Returns the counts of all verdicts, and a list of the experiments with their own.
fn contents(results: &[ScenarioResult]) -> Markup {
    let tallies = results.iter().map(ScenarioResult::tally);
    let total = tallies.fold(Tally::default(), Tally::and);
    html! {
        @if total.compared > 0 {
            p #summary { b { (total.sentence()) } }
        }
        ul {
            @for result in results {
                li {
                    a href={ "#" (result.scenario) } { (result.scenario) }
                    ": " (result.question)
                    @if result.tally().compared > 0 { br; (result.verdict_line()) }
                }
            }
        }
    }
}

/// Returns the settings that were chosen by published values, as one table of all experiments.
fn fitted(results: &[ScenarioResult]) -> Markup {
    let headings = ["setting", "chosen by", "alternatives"];
    let all = results.iter();
    let all = all.flat_map(|result| result.fitted.iter().map(move |own| (&result.scenario, own)));
    let rows: Vec<_> = all.collect();
    html! {
        @if !rows.is_empty() {
            section #fitted {
                h2 { "Settings chosen by published values" }
                p { "The papers leave these open. Every other setting is the paper’s, or has its reason beside it." }
                (table("split", false, &[], &headings, html! {
                    tbody {
                        @for (name, setting) in rows {
                            tr {
                                th scope="row" { (name) }
                                td data-part=(headings[0]) { (setting.setting) }
                                td data-part=(headings[1]) { (setting.chosen_by) }
                                td data-part=(headings[2]) { (setting.alternatives) }
                            }
                        }
                    }
                }))
            }
        }
    }
}

/// Returns a table whose first column has labels, then columns of numbers, then columns of texts. It scrolls on a
/// narrow screen, and, if it is `long`, also vertically.
fn table(
    class: &str,
    long: bool,
    numbers: &[&str],
    texts: &[&str],
    body: impl maud::Render,
) -> Markup {
    html! {
        div.scroll.long[long] tabindex="0" {
            table class=(class) {
                thead {
                    tr {
                        th {}
                        @for heading in numbers { th.number { (heading) } }
                        @for heading in texts { th { (heading) } }
                    }
                }
                (body)
            }
        }
    }
}

/// Returns a unit after a label.
fn unit(unit: &str) -> Markup {
    html! {
        @if !unit.is_empty() { " " span.soft { "[" (unit) "]" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::sample;
    use carrick_figures::escape;

    #[test]
    fn every_row_split_note_and_setting_is_in_the_report() {
        let result = sample();
        let html = to_html(&RunInfo::new(7), std::slice::from_ref(&result));
        for row in &result.rows {
            assert!(html.contains(escape(&row.label).as_ref()), "{}", row.id);
            assert!(html.contains(escape(&row.note).as_ref()), "{}", row.id);
            assert!(html.contains(&format!("data-row=\"{}\"", row.id)));
        }
        for text in [
            "770.0",
            "± 24.8",
            ">765<",
            ">≥ 708<",
            "within-interval",
            "It differs.",
            "1.536 Mbit/s",
        ] {
            assert!(html.contains(text), "{text}");
        }
        assert!(html.contains("shortened run: 3 repetitions; --full runs 30"));
        assert!(html.contains("carrick reproduce sample --seed 7 --reps 3"));
        assert!(html.contains("Is a &lt; b &amp; c?"));
    }

    /// A scenario has no paper.
    #[test]
    fn columns_without_values_are_left_out() {
        let mut result = sample();
        let page = |result: &ScenarioResult| {
            let html = to_html(&RunInfo::new(7), std::slice::from_ref(result));
            let (_, body) = html.split_once("<body>").unwrap();
            let named = |name: &str| body.contains(&format!(">{name}</th>"));
            let columns = ["published", "bound", "mean", "verdict"].map(named);
            (
                columns,
                body.matches("<td").count(),
                body.contains("A published value"),
            )
        };
        let (columns, cells, _) = page(&result);
        assert_eq!(columns, [true; 4]);
        for row in &mut result.rows {
            (row.published, row.bound, row.bound_kind) = (None, None, None);
        }
        let (left, fewer, explained) = page(&result);
        assert_eq!(left, [false, false, true, false]);
        assert_eq!(cells - fewer, 3 * result.rows.len());
        assert!(!explained, "no column needs it");
    }

    #[test]
    fn live_rows_notes_and_settings_are_in_the_report() {
        let mut result = sample();
        let live = crate::result::live_sample();
        result.live = Some(live.clone());
        let html = to_html(&RunInfo::new(7), std::slice::from_ref(&result));
        for row in &live.rows {
            assert!(html.contains(&format!("data-live=\"{}\"", row.id)));
            assert!(html.contains(escape(&row.label).as_ref()), "{}", row.id);
            assert!(html.contains(escape(&row.note).as_ref()), "{}", row.id);
        }
        for text in ["Simulated and live", "+2.0 %", "n 2]", "hosts &amp; a half"] {
            assert!(html.contains(text), "{text}");
        }
        result.live = None;
        let html = to_html(&RunInfo::new(7), &[result]);
        assert!(!html.contains("Simulated and live"));
    }

    #[test]
    fn long_tables_scroll_and_have_links() {
        let mut result = sample();
        let info = RunInfo::new(7);
        let html = to_html(&info, std::slice::from_ref(&result));
        assert!(!html.contains("scroll long") && !html.contains("class=\"parts\""));
        let row = result.rows[0].clone();
        result.rows.extend(std::iter::repeat_n(row, 50));
        result.live = Some(crate::result::live_sample());
        let html = to_html(&info, &[result]);
        assert!(html.contains("scroll long"));
        let parts = html.split("href=\"#sample-").skip(1);
        let ids: Vec<&str> = parts.filter_map(|part| part.split('"').next()).collect();
        assert_eq!(ids, ["table", "live", "notes", "settings"]);
        for id in ids {
            assert!(html.contains(&format!("id=\"sample-{id}\"")), "{id}");
        }
    }

    #[test]
    fn the_report_is_self_contained_without_scripts() {
        let html = to_html(&RunInfo::new(1), &[sample(), sample()]);
        for outside in ["<script", "src=", "http://", "https://", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(
            html.contains("href=\"#sample\""),
            "several scenarios have a list"
        );
    }
}
