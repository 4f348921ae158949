//! Comparison of a scenario with an earlier run, as a part of its section.

use std::fmt::Write;

use super::section::{LONG, unit};
use crate::compare::Comparison;
use crate::markup::escape;

pub(super) fn section(out: &mut String, comparison: &Comparison) {
    let long = if comparison.rows.len() > LONG {
        " long"
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "<p>{}</p>\n\
         <div class=\"scroll{long}\" tabindex=\"0\"><table class=\"results compared\">\n<thead><tr><th></th>\
         <th class=\"number\">old</th><th class=\"number\">new</th>\
         <th class=\"number\">difference</th><th></th></tr></thead>",
        escape(&comparison.summary())
    );
    for row in &comparison.rows {
        let [old, new, difference, outside] = row.cells();
        let _ = writeln!(
            out,
            "<tbody data-compared=\"{}\"><tr><th scope=\"row\">{}{}</th>\
             <td class=\"number\">{old}</td><td class=\"number\">{new}</td>\
             <td class=\"number\">{difference}</td><td>{outside}</td></tr></tbody>",
            escape(&row.id),
            escape(&row.label),
            unit(&row.unit),
        );
    }
    out.push_str("</table></div>\n");
}
