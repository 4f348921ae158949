//! Texts of figures and tables.

use unicode_width::UnicodeWidthStr;

/// Wraps `text` at spaces to lines of at most `width` columns; a longer word is on its own line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.width() + 1 + word.width() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

/// Removes the zeros at the end of the decimals of a number.
pub fn trimmed(text: &str) -> String {
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    };
    match text {
        "-0" => "0".into(),
        text => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_end_without_zeros() {
        for (number, text) in [
            ("1.500", "1.5"),
            ("2.000", "2"),
            ("100", "100"),
            ("-0.00", "0"),
        ] {
            assert_eq!(trimmed(number), text);
        }
    }

    #[test]
    fn wrapping_keeps_every_word() {
        let text = "one two three four five";
        let lines = wrap(text, 9);
        assert_eq!(lines.join(" "), text);
        assert!(lines.iter().all(|line| line.width() <= 9));
        assert!(wrap("", 9).is_empty());
    }
}
