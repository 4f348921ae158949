//! Place of an error in a configuration file.

use std::ops::Range;

/// Longest key that is quoted, in characters.
const MAX_KEY: usize = 80;

/// Returns an error of a TOML parser in one line: number of the line, its key or table, message.
///
/// `span` is the parser's, in octets of `text`. An error of the whole file, such as a missing table, has no place.
pub fn located_error(text: &str, span: Option<Range<usize>>, message: &str) -> String {
    let message = message.lines().collect::<Vec<_>>().join("; ");
    match span.and_then(|span| place(text, &span)) {
        Some((number, key)) if key.is_empty() => format!("line {number}: {message}"),
        Some((number, key)) => format!("line {number}, {key}: {message}"),
        None => message,
    }
}

/// Returns the line of a span and the key or table whose value it is in; nothing for a span of the whole file.
fn place(text: &str, span: &Range<usize>) -> Option<(usize, String)> {
    let is_header = text.get(span.clone()).is_some_and(|it| it.starts_with('['));
    if span.start == 0 && (span.is_empty() || span.end >= text.trim_end().len()) && !is_header {
        return None;
    }
    let before = text.get(..span.start)?;
    let number = before.matches('\n').count() + 1;
    // Values of several lines have their key above.
    let lines: Vec<&str> = text.lines().take(number).map(str::trim).collect();
    let key = lines.iter().rev().find_map(|line| key_of(line));
    let key = key.or(lines.last().copied()).unwrap_or_default();
    Some((number, key.chars().take(MAX_KEY).collect()))
}

/// Returns the key that a line gives a value, or the table that it begins.
fn key_of(line: &str) -> Option<&str> {
    if line.starts_with('#') {
        return None;
    }
    let bare =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '"' | '\'' | ' ');
    match line.split_once('=') {
        Some((key, _)) if key.chars().all(bare) && is_whole(key) => Some(key.trim()),
        _ if is_header(line) => Some(line),
        _ => None,
    }
}

/// Returns whether every quotation in a key is closed.
fn is_whole(key: &str) -> bool {
    ['"', '\'']
        .iter()
        .all(|quote| key.matches(*quote).count() % 2 == 0)
}

/// Returns whether a line begins a table: `[name]`, `[[name]]`, also without the end. Arrays in arrays are none.
fn is_header(line: &str) -> bool {
    let name = line.trim_start_matches('[');
    name.len() < line.len() && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(text: &str, value: &str) -> String {
        let start = text.find(value).unwrap();
        located_error(text, Some(start..start + value.len()), "wrong")
    }

    #[test]
    fn errors_name_line_and_key() {
        assert_eq!(located("a = 1\nb = 2\n", "2"), "line 2, b: wrong");
        assert_eq!(located("\n[[asp]]\n", "[[asp]]"), "line 2, [[asp]]: wrong");
        assert_eq!(located("[[asp]]", "[[asp]]"), "line 1, [[asp]]: wrong");
        assert_eq!(located("\n\"a b\" = 2\n", "2"), "line 2, \"a b\": wrong");
        assert_eq!(located("\nx", "\n"), "line 1: wrong");
        assert_eq!(located("[asp\n", "asp"), "line 1, [asp: wrong");
        assert_eq!(located("a b\n", "b"), "line 1, a b: wrong");
    }

    #[test]
    fn items_in_several_lines_name_their_key() {
        let text = "list = [\n \"a = b\",\n # c = d\n [\"x\"],\n]\n";
        assert_eq!(located(text, "x"), "line 4, list: wrong");
        let text = "[t]\nlist = [\n [[3]],\n]\n";
        assert_eq!(located(text, "3"), "line 3, list: wrong");
    }

    #[test]
    fn errors_of_the_whole_file_have_no_place() {
        for text in ["", "a = 1\n", "a = 1\n\n"] {
            let error = located_error(text, Some(0..text.len()), "missing");
            assert_eq!(error, "missing");
            assert_eq!(located_error(text, Some(0..0), "missing"), "missing");
        }
        assert_eq!(located_error("a = 1", None, "one\ntwo"), "one; two");
    }

    #[test]
    fn long_keys_are_cut() {
        let text = "é".repeat(1000);
        let error = located_error(&text, Some(2..4), "wrong");
        assert_eq!(error.chars().count(), "line 1, : wrong".len() + MAX_KEY);
    }
}
