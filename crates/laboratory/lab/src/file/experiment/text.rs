//! `report.md`: question, settings and notes of an experiment in words.
//!
//! Markdown with the headings `## Question` (a paragraph), `## Settings` (a list of `name: value`) and
//! `## Notes` (paragraphs). Formulas in braces are filled in from the rows.

use super::super::error::FileError;
use super::formula::Operand;
use super::rows::{Published, of_rows};
use super::scope::Scope;
use super::template::Template;
use crate::result::{Row, Setting};

/// Contents of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportText {
    pub(super) question: String,
    settings: Vec<(String, Template)>,
    notes: Vec<Template>,
}

/// Names in texts beside the rows.
const NAMES: [&str; 2] = ["repetitions", "seconds"];

/// Values of the formulas in texts.
pub(super) struct ReportValues<'r> {
    pub(super) rows: &'r [Row],
    pub(super) repetitions: f64,
    /// Measured time of a run in s.
    pub(super) seconds: f64,
}

impl ReportValues<'_> {
    fn value(&self, operand: Operand<'_>) -> Option<f64> {
        match operand {
            Operand::Name("repetitions") => Some(self.repetitions),
            Operand::Name("seconds") => Some(self.seconds),
            _ => of_rows(self.rows, operand),
        }
    }
}

const HEADINGS: [&str; 3] = ["Question", "Settings", "Notes"];

/// A paragraph or list item, and its first line.
struct Block {
    line: usize,
    text: String,
}

impl ReportText {
    pub(super) fn parse(text: &str, published: &Published) -> Result<Self, FileError> {
        let mut all = Self::default();
        let scope = Scope {
            names: &|name| NAMES.contains(&name),
            rows: &|id| published.row(id).is_some(),
            expected: "rows in brackets, numbers, repetitions and seconds",
        };
        for (heading, blocks) in sections(text)? {
            for block in blocks {
                let wrong = |what: String| FileError::new(block.line, "", what);
                let template = |text: &str| scope.template(text).map_err(wrong);
                match heading {
                    "Question" if all.question.is_empty() => all.question.clone_from(&block.text),
                    "Question" => return Err(wrong("expected one paragraph".into())),
                    "Settings" => {
                        let item = block
                            .text
                            .strip_prefix("- ")
                            .and_then(|item| item.split_once(": "));
                        let (name, value) = item.ok_or_else(|| {
                            wrong("expected an item such as \"- queue: 6 packets\"".into())
                        })?;
                        all.settings.push((name.into(), template(value)?));
                    }
                    _ => all.notes.push(template(&block.text)?),
                }
            }
        }
        Ok(all)
    }

    pub(super) fn settings(&self, values: &ReportValues<'_>) -> Vec<Setting> {
        let setting = |(name, value): &(String, Template)| {
            Setting::new(name, value.fill(&|operand| values.value(operand)))
        };
        self.settings.iter().map(setting).collect()
    }

    pub(super) fn notes(&self, values: &ReportValues<'_>) -> Vec<String> {
        let note = |note: &Template| note.fill(&|operand| values.value(operand));
        self.notes.iter().map(note).collect()
    }
}

/// Returns the blocks below each heading of the second level. The title and what follows it are for readers
/// of the file.
fn sections(text: &str) -> Result<Vec<(&str, Vec<Block>)>, FileError> {
    let mut all: Vec<(&str, Vec<Block>)> = Vec::new();
    let mut ended = true;
    for (number, line) in text.lines().enumerate() {
        let line_number = number + 1;
        if let Some(heading) = line.strip_prefix("## ") {
            let heading = heading.trim();
            if !HEADINGS.contains(&heading) {
                let what = format!(
                    "{heading:?} is not a heading here; expected one of {}",
                    HEADINGS.join(", ")
                );
                return Err(FileError::new(line_number, "", what));
            }
            all.push((heading, Vec::new()));
            ended = true;
            continue;
        }
        let Some((_, blocks)) = all.last_mut() else {
            continue;
        };
        let line = line.trim();
        if line.is_empty() {
            ended = true;
            continue;
        }
        match blocks.last_mut() {
            Some(block) if !ended && !line.starts_with("- ") => {
                block.text.push(' ');
                block.text.push_str(line);
            }
            _ => blocks.push(Block {
                line: line_number,
                text: line.into(),
            }),
        }
        ended = false;
    }
    Ok(all)
}
