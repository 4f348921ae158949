//! Comparison of an experiment with an earlier run, as a part of its section.

use maud::{Markup, html};

use super::section::LONG;
use super::{table, unit};
use crate::compare::{COLUMNS, Comparison};

pub(super) fn section(comparison: &Comparison) -> Markup {
    let long = comparison.rows.len() > LONG;
    let [_, _, numbers @ .., (_, mark)] = &COLUMNS;
    let headings: Vec<&str> = numbers.iter().map(|(heading, _)| *heading).collect();
    html! {
        p { (comparison.summary()) }
        (table("results compared", long, &headings, &[""], html! {
            @for row in &comparison.rows {
                tbody data-compared=(row.id) {
                    tr {
                        th scope="row" { (row.label) (unit(&row.unit)) }
                        @for (_, text) in numbers { td.number { (text(row)) } }
                        td { (mark(row)) }
                    }
                }
            }
        }))
    }
}
