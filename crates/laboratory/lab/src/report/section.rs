//! The section of an experiment in the report.

use maud::{Markup, PreEscaped, html};

use super::{table, unit};
use crate::format::{self, ABSENT, or_absent};
use crate::output;
use crate::result::{Row, ScenarioResult, Setting, Split, Verdict};

/// Setting with the command that repeats a run other than one of `carrick reproduce`.
const COMMAND: &str = "command";
/// Rows above which a table is scrollable and the section has links to its parts.
pub(super) const LONG: usize = 30;

/// A part of the section, which has a heading that links can have as their target.
struct SectionPart {
    id: &'static str,
    title: &'static str,
    contents: Markup,
}

pub(super) fn section(result: &ScenarioResult) -> Markup {
    let (name, tally) = (&result.scenario, result.tally());
    let parts = parts(result);
    html! {
        section id=(name) {
            h2 { (name) }
            p.question { (result.question) }
            @if let Some(publication) = &result.publication {
                p { cite { (publication.citation()) } "." }
            }
            p.soft { (result.extent()) ", seed " (result.seed) "." }
            @if tally.compared > 0 { p { (tally.sentence()) } }
            @if result.rows.len() > LONG {
                p.parts {
                    @for (number, part) in parts.iter().enumerate() {
                        @if number > 0 { " · " }
                        a href={ "#" (name) "-" (part.id) } { (part.title) }
                    }
                }
            }
            @if !result.drawing.is_empty() {
                figure.network {
                    (PreEscaped(result.drawing.to_svg(false)))
                    figcaption { (result.drawing.description) }
                }
            }
            @for part in parts {
                h3 id={ (name) "-" (part.id) } { (part.title) }
                (part.contents)
            }
        }
    }
}

/// Returns the parts of a result in order.
fn parts(result: &ScenarioResult) -> Vec<SectionPart> {
    let mut all = Vec::new();
    let mut add = |id, title, contents| {
        all.push(SectionPart {
            id,
            title,
            contents,
        });
    };
    let published = result.rows.iter().any(|row| row.published.is_some());
    let title = if published {
        "Published and measured"
    } else {
        "Measured"
    };
    let origin = result
        .publication
        .as_ref()
        .map_or("", |paper| &paper.published_is);
    let table = html! {
        @if !origin.is_empty() { p { "Published: " (origin) } }
        (results(&result.rows))
    };
    let splits = html! { @for split in &result.splits { (split_table(split)) } };
    if result.figures.is_empty() {
        add("table", title, html! { (table) (splits) });
    } else {
        add("table", title, table);
        add("figures", "Figures", html! { (figures(result)) (splits) });
    }
    if let Some(live) = &result.live {
        add("live", live.title(), super::live::section(live));
    }
    if let Some(comparison) = &result.compared {
        let contents = super::compared::section(comparison);
        add("compared", "Compared with an earlier run", contents);
    }
    if !result.notes.is_empty() {
        add("notes", "Differences and their causes", list(&result.notes));
    }
    add("settings", "Settings for a repetition", repeat(result));
    all
}

/// Returns paragraphs as a list.
pub(super) fn list(texts: &[String]) -> Markup {
    html! { ul { @for text in texts { li { (text) } } } }
}

/// Columns of the results that only some rows have.
#[derive(Clone, Copy)]
struct OptionalColumns {
    published: bool,
    bound: bool,
    verdict: bool,
}

impl OptionalColumns {
    fn of(rows: &[Row]) -> Self {
        let has = |column: fn(&Row) -> bool| rows.iter().any(column);
        Self {
            published: has(|row| row.published_text().is_some()),
            bound: has(|row| row.bound_text().is_some()),
            verdict: has(|row| row.verdict().is_some()),
        }
    }

    /// Returns the number of all columns of the table.
    fn count(self) -> usize {
        5 + [self.published, self.bound, self.verdict]
            .into_iter()
            .map(usize::from)
            .sum::<usize>()
    }
}

fn results(rows: &[Row]) -> Markup {
    let columns = OptionalColumns::of(rows);
    let optional = [(columns.published, "published"), (columns.bound, "bound")];
    let present = optional.into_iter().filter(|(is_present, _)| *is_present);
    let numbers: Vec<&str> = present
        .map(|(_, name)| name)
        .chain(["mean", "median", "± 95 %", "n"])
        .collect();
    let texts: &[&str] = if columns.verdict { &["verdict"] } else { &[] };
    table(
        "results",
        rows.len() > LONG,
        &numbers,
        texts,
        html! {
            @for row in rows { (table_row(row, columns)) }
        },
    )
}

fn table_row(row: &Row, columns: OptionalColumns) -> Markup {
    html! {
        tbody data-row=(row.id) {
            tr {
                th scope="row" { (row.label) (unit(&row.unit)) }
                @if columns.published {
                    td.number { (row.published_text().unwrap_or_else(|| ABSENT.into())) }
                }
                @if columns.bound {
                    td.number { (row.bound_text().unwrap_or_else(|| ABSENT.into())) }
                }
                td.number.measured { (or_absent(row.measured, format::measured)) }
                td.number { (or_absent(row.median, format::measured)) }
                td.number {
                    @if let Some(interval) = format::interval_of(row.ci95, row.measured) { "± " (interval) }
                }
                td.number { (row.n) }
                @if columns.verdict {
                    td class={ "verdict " (row.verdict().map_or("", Verdict::name)) } { (verdict_text(row)) }
                }
            }
            @if !row.note.is_empty() || row.not_compared.is_some() {
                tr.note {
                    td colspan=(columns.count()) {
                        @if let Some(why) = &row.not_compared { "Not compared: " (why) ". " }
                        (row.note)
                    }
                }
            }
        }
    }
}

/// Formats a verdict with the difference from the published value.
fn verdict_text(row: &Row) -> String {
    let Some(verdict) = row.verdict() else {
        return String::new();
    };
    match row.difference().filter(|_| verdict != Verdict::NotCompared) {
        Some(difference) => format!("{difference}, {}", verdict.words()),
        None => verdict.words().into(),
    }
}

fn figures(result: &ScenarioResult) -> Markup {
    html! {
        div.figures {
            @for figure in &result.figures {
                figure {
                    figcaption { b { (figure.title) } }
                    (PreEscaped(figure.to_svg(false)))
                    figcaption { (figure.caption) }
                }
            }
        }
    }
}

fn split_table(split: &Split) -> Markup {
    let parts = split.parts.iter().map(String::as_str);
    let numbers: Vec<&str> = parts.chain(["total"]).collect();
    html! {
        h3 { (split.title) " [" (split.unit) "]" }
        (table("split", false, &numbers, &[], html! {
            tbody {
                @for line in &split.lines {
                    tr {
                        th scope="row" { (line.label) }
                        // On a narrow screen each part is on a separate line with its name.
                        @for (name, part) in split.parts.iter().zip(&line.parts) {
                            td.number data-part=(name) { (format::measured(*part)) }
                        }
                        td.number.measured data-part="total" { (format::measured(line.total())) }
                    }
                }
            }
        }))
    }
}

/// Returns the command, the settings and the files with which the run is repeated.
fn repeat(result: &ScenarioResult) -> Markup {
    let is_command = |setting: &&Setting| setting.name == COMMAND;
    let command = result.settings.iter().find(is_command);
    let command = command.map_or_else(|| result.command(), |setting| setting.value.clone());
    html! {
        p { code { (command) } }
        (settings(result.settings.iter().filter(|setting| !is_command(setting))))
        @if !result.files.is_empty() {
            p {
                @if result.files.len() > 1 {
                    "The experiment is these files: in a folder of their own, "
                    code { "carrick reproduce FOLDER" } " runs them. "
                }
                "Beside the report:"
                @for (name, _) in &result.files {
                    " "
                    a href={ (percent_encoded(&output::folder_of_files(&result.scenario))) "/" (name) } { (name) }
                }
            }
        }
        @for (name, text) in &result.files {
            details {
                summary { code { (name) } }
                div.scroll tabindex="0" { pre { (text) } }
            }
        }
    }
}

/// Encodes a file's name as a segment of a relative URL (RFC 3986, section 2.1).
fn percent_encoded(name: &str) -> String {
    let encoded = |byte: u8| match char::from(byte) {
        c if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~') => c.to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(encoded).collect()
}

/// Returns the settings as a table.
pub(super) fn settings<'s>(settings: impl Iterator<Item = &'s Setting>) -> Markup {
    let mut settings = settings.peekable();
    html! {
        @if settings.peek().is_some() {
            div.scroll tabindex="0" {
                table {
                    tbody {
                        @for setting in settings {
                            tr { th scope="row" { (setting.name) } td { (setting.value) } }
                        }
                    }
                }
            }
        }
    }
}
