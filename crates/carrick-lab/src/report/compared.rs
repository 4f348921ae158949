//! Comparison of an experiment with an earlier run, as a part of its section.

use maud::{Markup, html};

use super::section::LONG;
use super::{table, unit};
use crate::compare::Comparison;

pub(super) fn section(comparison: &Comparison) -> Markup {
    let long = comparison.rows.len() > LONG;
    let numbers = ["old", "new", "difference"];
    html! {
        p { (comparison.summary()) }
        (table("results compared", long, &numbers, &[""], html! {
            @for row in &comparison.rows {
                tbody data-compared=(row.id) {
                    tr {
                        th scope="row" { (row.label) (unit(&row.unit)) }
                        td.number { (row.old_text()) }
                        td.number { (row.new_text()) }
                        td.number { (row.difference_text()) }
                        td { (row.outside_text()) }
                    }
                }
            }
        }))
    }
}
