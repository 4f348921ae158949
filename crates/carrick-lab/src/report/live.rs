//! Results of live runs, as a part of the section of a scenario.

use std::fmt::Write;

use super::section::settings;
use crate::format;
use crate::markup::escape;
use crate::result::{Agreement, LiveResult, LiveRow};

pub(super) fn section(out: &mut String, live: &LiveResult) {
    if !live.rows.is_empty() {
        out.push_str(
            "<p class=\"soft\">The same network in real time, between network namespaces of one host, with sockets \
             and the kernel’s TCP. Simulated values have the same number and length of runs and the same seeds. \
             n is the number of live runs; live values differ from run to run.</p>\n",
        );
        table(out, &live.rows);
    }
    out.push_str("<ul>\n");
    for remark in live.remarks() {
        let _ = writeln!(out, "<li>{}</li>", escape(&remark));
    }
    out.push_str("</ul>\n");
    settings(out, &live.settings);
}

/// Returns the difference, and the kind of agreement if the values are not close.
fn differs(row: &LiveRow) -> String {
    let difference = row
        .difference
        .map_or_else(|| "–".into(), |d| format!("{d:+.1} %"));
    match row.agreement.filter(|known| *known != Agreement::Close) {
        None => difference,
        Some(known) => format!("{difference} <span class=\"soft\">{}</span>", known.words()),
    }
}

fn table(out: &mut String, rows: &[LiveRow]) {
    out.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"results live\">\n<thead><tr><th></th>\
         <th class=\"number\">published</th><th class=\"number\">simulated</th>\
         <th class=\"number\">live</th><th class=\"number\">± 95 %</th>\
         <th class=\"number\">difference</th></tr></thead>\n",
    );
    for row in rows {
        let cell =
            |value: Option<f64>, show: fn(f64) -> String| value.map_or_else(|| "–".into(), show);
        let interval = match (row.ci95, row.live) {
            (Some(ci95), Some(live)) => format!("± {}", format::interval(ci95, live)),
            _ => String::new(),
        };
        let _ = writeln!(
            out,
            "<tbody data-live=\"{}\"><tr><th scope=\"row\">{} <span class=\"soft\">[{}, n {}]</span></th>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number measured\">{}</td><td class=\"number\">{interval}</td>\
             <td class=\"number\">{}</td></tr>",
            escape(&row.id),
            escape(&row.label),
            escape(&row.unit),
            row.n,
            cell(row.published, format::given),
            cell(row.simulated, format::measured),
            cell(row.live, format::measured),
            differs(row),
        );
        if !row.note.is_empty() {
            let note = escape(&row.note);
            let _ = writeln!(out, "<tr class=\"note\"><td colspan=\"6\">{note}</td></tr>");
        }
        out.push_str("</tbody>\n");
    }
    out.push_str("</table></div>\n");
}
