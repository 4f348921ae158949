//! Results of live runs, as a part of the section of an experiment.

use maud::{Markup, html};

use super::section::{list, settings};
use super::table;
use crate::format::{self, or_absent};
use crate::result::{Agreement, LiveResult, LiveRow};

pub(super) fn section(live: &LiveResult) -> Markup {
    let numbers = ["published", "simulated", "live", "± 95 %", "difference"];
    html! {
        @if !live.rows.is_empty() {
            p.soft {
                "The same network in real time, between network namespaces of one host, with sockets and the kernel’s \
                 TCP. Simulated values have the same number and length of runs and the same seeds. n is the number of \
                 live runs; live values differ from run to run."
            }
            (table("results live", false, &numbers, &[], html! {
                @for row in &live.rows { (table_row(row)) }
            }))
        }
        (list(&live.remarks()))
        (settings(live.settings.iter()))
    }
}

fn table_row(row: &LiveRow) -> Markup {
    let differs = row.agreement.filter(|known| *known != Agreement::Close);
    html! {
        tbody data-live=(row.id) {
            tr {
                th scope="row" {
                    (row.label) " " span.soft { "[" (row.unit) ", n " (row.n) "]" }
                }
                td.number { (or_absent(row.published, format::given)) }
                td.number { (or_absent(row.simulated, format::measured)) }
                td.number.measured { (or_absent(row.live, format::measured)) }
                td.number {
                    @if let Some(interval) = format::interval_of(row.ci95, row.live) { "± " (interval) }
                }
                // The kind of agreement, too, if the values are not close.
                td.number {
                    (or_absent(row.difference, |d| format!("{d:+.1} %")))
                    @if let Some(known) = differs { " " span.soft { (known.words()) } }
                }
            }
            @if !row.note.is_empty() {
                tr.note { td colspan="6" { (row.note) } }
            }
        }
    }
}
