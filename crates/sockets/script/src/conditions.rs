//! Conditional lines of scripts for several systems: `#ifdef`, `#ifndef`, `#else` and `#endif`.

use std::borrow::Cow;

use crate::model::{Position, System};
use crate::parser::SyntaxError;

/// Conditional line that has no `#endif` yet.
struct OpenCondition {
    position: Position,
    /// The lines behind it are part of the script.
    is_taken: bool,
    has_else: bool,
}

/// Returns the text with the conditional lines, and those whose condition does not hold, empty. All other
/// lines keep their place.
pub(crate) fn select(text: &str, system: System) -> Result<Cow<'_, str>, SyntaxError> {
    if !text.lines().any(|line| directive(line).is_some()) {
        return Ok(text.into());
    }
    let mut selected = String::with_capacity(text.len());
    let mut open: Vec<OpenCondition> = Vec::new();
    // Conditions around this line that do not hold.
    let mut refused = 0_usize;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let position = Position {
            line: index + 1,
            column: line.len() - line.trim_start().len() + 1,
        };
        let error = |message: String| Err(SyntaxError { position, message });
        match directive(line) {
            Some((word @ ("#ifdef" | "#ifndef"), name)) => {
                if name.is_empty() {
                    return error(format!("{word} needs a name: Linux or FreeBSD"));
                }
                let is_taken = (word == "#ifdef") == name.eq_ignore_ascii_case(system.name());
                refused += usize::from(!is_taken);
                open.push(OpenCondition {
                    position,
                    is_taken,
                    has_else: false,
                });
            }
            Some((word @ "#else", _)) => match open.last_mut() {
                Some(condition) if !condition.has_else => {
                    condition.is_taken = !condition.is_taken;
                    condition.has_else = true;
                    refused = if condition.is_taken {
                        refused - 1
                    } else {
                        refused + 1
                    };
                }
                _ => return error(format!("{word} has no #ifdef or #ifndef")),
            },
            Some((word, _)) => match open.pop() {
                Some(condition) => refused -= usize::from(!condition.is_taken),
                None => return error(format!("{word} has no #ifdef or #ifndef")),
            },
            None if refused == 0 => {
                selected.push_str(line);
                continue;
            }
            None => {}
        }
        if line.ends_with('\n') {
            selected.push('\n');
        }
    }
    match open.pop() {
        Some(OpenCondition { position, .. }) => Err(SyntaxError {
            position,
            message: "the condition has no #endif".into(),
        }),
        None => Ok(selected.into()),
    }
}

/// Returns the conditional word of a line and the name behind it.
fn directive(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    let word = words.next()?;
    let is_known = matches!(word, "#ifdef" | "#ifndef" | "#else" | "#endif");
    is_known.then(|| (word, words.next().unwrap_or_default()))
}
