//! Text that a peer sent, made safe to print.

use core::fmt::{self, Write as _};

/// Limit of characters, escapes included.
const MAX_SHOWN: usize = 256;

/// Displays octets of a peer as one line of at most 256 characters.
///
/// Characters that could change the output of a terminal or log around them are escaped: control
/// characters and line breaks (CWE-117, CWE-150), characters of zero width, and those that change the
/// writing direction. Octets that are no UTF-8 are shown as `\xNN`, a backslash as `\\`; longer text ends with
/// `...`. Error messages of this library show text of a peer in this form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerText<'a>(&'a [u8]);

impl<'a> PeerText<'a> {
    /// Wraps text or octets as they arrived.
    pub fn new<T: AsRef<[u8]> + ?Sized>(text: &'a T) -> Self {
        Self(text.as_ref())
    }
}

impl fmt::Display for PeerText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Limited {
            left: MAX_SHOWN - ELLIPSIS.len(),
            is_cut: false,
            out: f,
        };
        match show(self.0, &mut out) {
            Err(_) if out.is_cut => out.out.write_str(ELLIPSIS),
            shown => shown,
        }
    }
}

const ELLIPSIS: &str = "...";

fn show(octets: &[u8], out: &mut Limited<'_, '_>) -> fmt::Result {
    for chunk in octets.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '"' => out.write_char(c)?,
                // Escapes all that Unicode does not call printable, formatting characters included.
                _ => out.write_escape(c.escape_debug())?,
            }
        }
        for octet in chunk.invalid() {
            out.write_escape(octet.escape_ascii().map(char::from))?;
        }
    }
    Ok(())
}

/// Passes on a limited number of characters, and then fails.
struct Limited<'o, 'f> {
    /// Characters that have room.
    left: usize,
    /// A character found no room.
    is_cut: bool,
    out: &'o mut fmt::Formatter<'f>,
}

impl Limited<'_, '_> {
    /// Writes an escape sequence whole or not at all.
    fn write_escape(&mut self, escape: impl Iterator<Item = char> + Clone) -> fmt::Result {
        let len = escape.clone().count();
        if len > self.left {
            self.is_cut = true;
            return Err(fmt::Error);
        }
        self.left -= len;
        let mut escape = escape;
        escape.try_for_each(|c| self.out.write_char(c))
    }

    fn write_char(&mut self, c: char) -> fmt::Result {
        self.write_escape(core::iter::once(c))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};

    use super::*;

    fn shown(octets: &(impl AsRef<[u8]> + ?Sized)) -> String {
        PeerText::new(octets).to_string()
    }

    #[test]
    fn plain_text_is_shown_as_it_is() {
        for text in ["", "busy", "it's \"full\", 50 % – später", "満員"] {
            assert_eq!(shown(text), text);
        }
    }

    /// Nothing of Unicode's control and formatting characters passes, nor a separator but the space.
    #[test]
    fn control_and_formatting_characters_are_escaped() {
        let every = (0..=0x0010_ffff).filter_map(char::from_u32);
        let unsafe_ones = every.filter(|c| {
            c.is_control()
                || (c.is_whitespace() && *c != ' ')
                || matches!(c,
                    '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                    | '\u{e0000}'..='\u{e0fff}' | '\u{e000}'..='\u{f8ff}')
        });
        for c in unsafe_ones {
            let shown = shown(&c.to_string());
            assert!(
                shown.starts_with('\\') && shown.is_ascii(),
                "{c:?}: {shown}"
            );
        }
        assert_eq!(shown("\x1b]0;x\x07\r\n"), "\\u{1b}]0;x\\u{7}\\r\\n");
        assert_eq!(shown(b"\xff\xc3("), "\\xff\\xc3(");
        // What looks like an escape was sent so.
        assert_eq!(shown("\\n"), "\\\\n");
    }

    #[test]
    fn long_text_is_cut_at_a_whole_character() {
        assert_eq!(shown(&[b'x'; 253]).len(), 253);
        for text in ["x".repeat(300), "\x1b".repeat(1024), "満".repeat(1024)] {
            let shown = shown(&text);
            assert!(shown.chars().count() <= MAX_SHOWN, "{shown}");
            let rest = shown.strip_suffix("...").unwrap();
            assert!(rest.ends_with(['x', '}', '満']), "{shown}");
        }
    }
}
