//! The section of a scenario in the report.

use std::fmt::Write;

use crate::format;
use crate::markup::escape;
use crate::result::{Row, ScenarioResult, Setting, Split, Verdict};

/// Setting with the command that repeats a run other than one of `carrick reproduce`.
const COMMAND: &str = "command";
/// Rows above which a table is scrollable and the section has links to its parts.
pub(super) const LONG: usize = 30;

const FIGURES: &str = "Figures";
pub(super) const LIVE: &str = "Simulated and live";
pub(super) const COMPARED: &str = "Compared with an earlier run";
const NOTES: &str = "Differences and their causes";
const SETTINGS: &str = "Settings for a repetition";

pub(super) fn section(out: &mut String, result: &ScenarioResult) {
    let _ = writeln!(
        out,
        "<section id=\"{name}\">\n<h2>{name}</h2>\n<p class=\"question\">{}</p>",
        escape(&result.question),
        name = escape(&result.scenario),
    );
    if let Some(publication) = &result.publication {
        let citation = publication.citation();
        let _ = writeln!(out, "<p><cite>{}</cite>.</p>", escape(&citation));
    }
    let _ = writeln!(
        out,
        "<p class=\"soft\">{}, seed {}.</p>",
        escape(&result.extent()),
        result.seed,
    );
    if result.tally().compared > 0 {
        let sentence = result.tally().sentence();
        let _ = writeln!(out, "<p>{}</p>", escape(&sentence));
    }
    let parts = parts(result);
    if result.rows.len() > LONG {
        contents(out, result, &parts);
    }
    if !result.drawing.is_empty() {
        let _ = writeln!(
            out,
            "<figure class=\"network\">{}<figcaption>{}</figcaption></figure>",
            result.drawing.to_svg(false),
            escape(&result.drawing.description)
        );
    }
    heading(out, result, "table", parts[0].1);
    table(out, &result.rows);
    figures(out, result);
    for split in &result.splits {
        split_table(out, split);
    }
    if let Some(live) = &result.live {
        heading(out, result, "live", LIVE);
        super::live::section(out, live);
    }
    if let Some(comparison) = &result.compared {
        heading(out, result, "compared", COMPARED);
        super::compared::section(out, comparison);
    }
    if !result.notes.is_empty() {
        heading(out, result, "notes", NOTES);
        out.push_str("<ul>\n");
        for note in &result.notes {
            let _ = writeln!(out, "<li>{}</li>", escape(note));
        }
        out.push_str("</ul>\n");
    }
    repeat(out, result);
    out.push_str("</section>\n");
}

/// Identifier and title of a linked part of the section.
type SectionPart = (&'static str, &'static str);

/// Returns the parts of a result in order; the table is the first.
fn parts(result: &ScenarioResult) -> Vec<SectionPart> {
    let published = result.rows.iter().any(|row| row.published.is_some());
    let table = if published {
        "Published and measured"
    } else {
        "Measured"
    };
    let all = [
        (true, ("table", table)),
        (!result.figures.is_empty(), ("figures", FIGURES)),
        (result.live.is_some(), ("live", LIVE)),
        (result.compared.is_some(), ("compared", COMPARED)),
        (!result.notes.is_empty(), ("notes", NOTES)),
        (true, ("settings", SETTINGS)),
    ];
    let there = all.into_iter().filter(|(there, _)| *there);
    there.map(|(_, place)| place).collect()
}

/// Writes links to the parts.
fn contents(out: &mut String, result: &ScenarioResult, parts: &[SectionPart]) {
    let name = escape(&result.scenario);
    let links: Vec<String> = parts
        .iter()
        .map(|(id, title)| format!("<a href=\"#{name}-{id}\">{title}</a>"))
        .collect();
    let _ = writeln!(out, "<p class=\"parts\">{}</p>", links.join(" · "));
}

/// Writes the heading of a part.
pub(super) fn heading(out: &mut String, result: &ScenarioResult, id: &str, title: &str) {
    let name = escape(&result.scenario);
    let _ = writeln!(out, "<h3 id=\"{name}-{id}\">{title}</h3>");
}

fn table(out: &mut String, rows: &[Row]) {
    let long = if rows.len() > LONG { " long" } else { "" };
    let _ = writeln!(
        out,
        "<div class=\"scroll{long}\" tabindex=\"0\"><table class=\"results\">\n<thead><tr><th></th>\
         <th class=\"number\">published</th><th class=\"number\">bound</th>\
         <th class=\"number\">mean</th><th class=\"number\">median</th>\
         <th class=\"number\">± 95 %</th><th class=\"number\">n</th><th>verdict</th></tr></thead>",
    );
    for row in rows {
        let cell =
            |value: Option<f64>, show: fn(f64) -> String| value.map_or_else(|| "–".into(), show);
        let interval = match (row.ci95, row.measured) {
            (Some(ci95), Some(measured)) => format!("± {}", format::interval(ci95, measured)),
            _ => String::new(),
        };
        let _ = writeln!(
            out,
            "<tbody data-row=\"{}\"><tr><th scope=\"row\">{}{}</th>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number measured\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{interval}</td><td class=\"number\">{}</td>\
             <td class=\"verdict {}\">{}</td></tr>",
            escape(&row.id),
            escape(&row.label),
            unit(&row.unit),
            cell(row.published, format::given),
            row.bound_text().unwrap_or_else(|| "–".into()),
            cell(row.measured, format::measured),
            cell(row.median, format::measured),
            row.n,
            row.verdict().map_or("", Verdict::name),
            verdict_text(row),
        );
        let not_compared = row.not_compared.as_deref();
        let reason = not_compared.map_or_else(String::new, |why| format!("Not compared: {why}. "));
        if !row.note.is_empty() || !reason.is_empty() {
            let note = escape(&row.note);
            let reason = escape(&reason);
            let _ = writeln!(
                out,
                "<tr class=\"note\"><td colspan=\"8\">{reason}{note}</td></tr>"
            );
        }
        out.push_str("</tbody>\n");
    }
    out.push_str("</table></div>\n");
}

/// Formats a verdict with the difference from the published value.
fn verdict_text(row: &Row) -> String {
    let Some(verdict) = row.verdict() else {
        return String::new();
    };
    let difference = match verdict {
        Verdict::NotCompared => None,
        _ => row.difference(),
    };
    let difference = difference.map_or_else(String::new, |text| format!("{text}, "));
    format!("{difference}{}", verdict.words())
}

/// Formats a row's unit after its label.
pub(super) fn unit(unit: &str) -> String {
    if unit.is_empty() {
        return String::new();
    }
    format!(" <span class=\"soft\">[{}]</span>", escape(unit))
}

fn figures(out: &mut String, result: &ScenarioResult) {
    if result.figures.is_empty() {
        return;
    }
    heading(out, result, "figures", FIGURES);
    out.push_str("<div class=\"figures\">\n");
    for figure in &result.figures {
        let _ = writeln!(
            out,
            "<figure><figcaption><b>{}</b></figcaption>{}<figcaption>{}</figcaption></figure>",
            escape(&figure.title),
            figure.to_svg(false),
            escape(&figure.caption)
        );
    }
    out.push_str("</div>\n");
}

fn split_table(out: &mut String, split: &Split) {
    let _ = write!(
        out,
        "<h3>{} [{}]</h3>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"split\">\n<thead><tr><th></th>",
        escape(&split.title),
        escape(&split.unit)
    );
    for part in &split.parts {
        let _ = write!(out, "<th class=\"number\">{}</th>", escape(part));
    }
    out.push_str("<th class=\"number\">total</th></tr></thead>\n<tbody>\n");
    for line in &split.lines {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&line.label));
        // On a narrow screen each part is on a separate line with its name.
        for (name, part) in split.parts.iter().zip(&line.parts) {
            let (name, part) = (escape(name), format::measured(*part));
            let _ = write!(out, "<td class=\"number\" data-part=\"{name}\">{part}</td>");
        }
        let total = format::measured(line.total());
        let _ = writeln!(
            out,
            "<td class=\"number measured\" data-part=\"total\">{total}</td></tr>"
        );
    }
    out.push_str("</tbody></table></div>\n");
}

fn repeat(out: &mut String, result: &ScenarioResult) {
    let command = result
        .settings
        .iter()
        .find(|setting| setting.name == COMMAND);
    let command = command.map_or_else(|| result.command(), |setting| setting.value.clone());
    heading(out, result, "settings", SETTINGS);
    let _ = writeln!(out, "<p><code>{}</code></p>", escape(&command));
    let others = result
        .settings
        .iter()
        .filter(|setting| setting.name != COMMAND);
    let others: Vec<Setting> = others.cloned().collect();
    settings(out, &others);
}

/// Writes the settings as a table.
pub(super) fn settings(out: &mut String, settings: &[Setting]) {
    if settings.is_empty() {
        return;
    }
    out.push_str("<div class=\"scroll\" tabindex=\"0\"><table>\n<tbody>\n");
    for setting in settings {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
            escape(&setting.name),
            escape(&setting.value)
        );
    }
    out.push_str("</tbody></table></div>\n");
}
