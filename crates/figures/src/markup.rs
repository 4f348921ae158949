//! Escaping of text in HTML and SVG, so that no text of a scenario becomes markup.

use std::borrow::Cow;

/// Escapes `text` for element content and quoted attributes of HTML and SVG. Characters that XML
/// 1.0 does not allow become U+FFFD.
pub fn escape(text: &str) -> Cow<'_, str> {
    let allowed = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    if text
        .chars()
        .all(|c| allowed(c) && !matches!(c, '&' | '<' | '>' | '"' | '\''))
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if allowed(c) => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            escape("<a href=\"x\">'&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;"
        );
        assert_eq!(escape("a\u{0}b\n"), "a\u{fffd}b\n");
        assert!(matches!(escape("W' → W''"), Cow::Owned(_)));
        assert!(matches!(escape("plain – text"), Cow::Borrowed(_)));
    }
}
