//! The report: one self-contained HTML file, for screens of any width, light or dark, and for
//! print.

mod compared;
mod live;
mod section;

use std::fmt::Write;

use crate::figure;
use crate::markup::escape;
use crate::result::{ScenarioResult, TOLERANCE, TOLERANCE_POINTS, Tally};

const STYLE: &str = include_str!("style.css");

/// Description of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// Version of the program.
    pub version: String,
    /// Seed of the run.
    pub seed: u64,
    /// Heading of the report.
    pub title: String,
}

impl RunInfo {
    /// Returns the description of a run of this version with `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
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
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Carrick: {title}</title>\n\
         <style>\n{STYLE}{}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n\
         <p class=\"soft\">Carrick {}, in virtual time, seed {}. The same version and seed give the \
         same numbers with any number of cores, and on every machine whose mathematical functions agree \
         to the last bit. Measured values are means of independent repetitions with \
         their 95 % confidence interval (Student’s t); n is the number of repetitions. \
         A bound is a lower limit (≥), an upper limit (≤) or the value of a model (≈). A published value is reproduced if the measured mean \
         differs by at most {TOLERANCE} % of it ({TOLERANCE_POINTS} percentage points of a value in per cent); “interval” says that it is \
         also within the 95 % interval, “short” that the interval is too wide to decide.</p>\n",
        figure::STYLE,
        escape(&info.version),
        info.seed,
        title = escape(&info.title),
    );
    if results.len() > 1 {
        contents(&mut out, results);
    }
    for result in results {
        section::section(&mut out, result);
    }
    fitted(&mut out, results);
    out.push_str("</body>\n</html>\n");
    out
}

/// Writes the counts of all verdicts, and a list of the scenarios with their own.
fn contents(out: &mut String, results: &[ScenarioResult]) {
    let tallies = results.iter().map(ScenarioResult::tally);
    let total = tallies.fold(Tally::default(), Tally::and);
    if total.compared > 0 {
        let sentence = total.sentence();
        let _ = writeln!(out, "<p id=\"summary\"><b>{}</b></p>", escape(&sentence));
    }
    out.push_str("<ul>\n");
    for result in results {
        let name = escape(&result.scenario);
        let question = escape(&result.question);
        let _ = write!(out, "<li><a href=\"#{name}\">{name}</a>: {question}");
        if result.tally().compared > 0 {
            let line = result.verdict_line();
            let _ = write!(out, "<br>{}", escape(&line));
        }
        out.push_str("</li>\n");
    }
    out.push_str("</ul>\n");
}

/// Writes the settings that were chosen by published values, as one table of all scenarios.
fn fitted(out: &mut String, results: &[ScenarioResult]) {
    if results.iter().all(|result| result.fitted.is_empty()) {
        return;
    }
    out.push_str(
        "<section id=\"fitted\">\n<h2>Settings chosen by published values</h2>\n\
         <p>The papers leave these open. Every other setting is the paper’s, or has its reason beside it.</p>\n\
         <div class=\"scroll\" tabindex=\"0\"><table class=\"split\">\n<thead><tr><th></th><th>setting</th><th>chosen by</th>\
         <th>alternatives</th></tr></thead>\n<tbody>\n",
    );
    for result in results {
        for setting in &result.fitted {
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\">{}</th><td data-part=\"setting\">{}</td>\
                 <td data-part=\"chosen by\">{}</td><td data-part=\"alternatives\">{}</td></tr>",
                escape(&result.scenario),
                escape(setting.setting),
                escape(setting.chosen_by),
                escape(setting.alternatives)
            );
        }
    }
    out.push_str("</tbody></table></div>\n</section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::sample;

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
