//! Words, signs, numbers and lists of a script, and the places of errors.

use std::net::IpAddr;

use super::{MAX_DEPTH, Parsed, Parser, SyntaxError};
use crate::model::{Position, Value};

impl<'a> Parser<'a> {
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn position(&self) -> Position {
        let line = self.line_starts.partition_point(|start| *start <= self.at);
        let start = self.line_starts[line - 1];
        Position {
            line,
            column: self.text[start..self.at].chars().count() + 1,
        }
    }

    pub(super) fn error(&self, message: impl Into<String>) -> SyntaxError {
        let mut message = message.into();
        if message.starts_with("expected") {
            message.push_str(", found ");
            message.push_str(&self.found());
        }
        SyntaxError {
            position: self.position(),
            message,
        }
    }

    /// Returns the next word or sign for a message.
    fn found(&self) -> String {
        let Some(first) = self.peek() else {
            return "the end of the script".into();
        };
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let word: String = if is_word(first) {
            self.rest().chars().take_while(|c| is_word(*c)).collect()
        } else {
            first.to_string()
        };
        match word.as_str() {
            "\n" | "\r" => "the end of the line".into(),
            _ => format!("`{word}`"),
        }
    }

    /// Skips white space and comments.
    pub(super) fn skip(&mut self) -> Parsed<()> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = self.rest();
            if rest.starts_with("//") || rest.starts_with('#') {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let end = rest.find("*/");
                let end = end.ok_or_else(|| self.error("the comment has no end `*/`"))?;
                self.at += end + 2;
            } else if blank == 0 {
                return Ok(());
            }
        }
    }

    /// Skips a sign or word, white space before it included, if it is next.
    pub(super) fn take(&mut self, sign: &str) -> Parsed<bool> {
        let start = self.at;
        self.skip()?;
        let is_next = self.rest().starts_with(sign);
        self.at = if is_next { self.at + sign.len() } else { start };
        Ok(is_next)
    }

    /// Skips a word if it is next.
    pub(super) fn take_word(&mut self, word: &str) -> Parsed<bool> {
        self.skip()?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let behind = self.rest().strip_prefix(word);
        let is_next = behind.is_some_and(|behind| !behind.starts_with(is_part));
        self.at += if is_next { word.len() } else { 0 };
        Ok(is_next)
    }

    pub(super) fn expect(&mut self, sign: &str) -> Parsed<()> {
        if self.take(sign)? {
            return Ok(());
        }
        self.skip()?;
        Err(self.error(format!("expected `{sign}`")))
    }

    pub(super) fn word(&mut self, what: &str) -> Parsed<&'a str> {
        self.skip()?;
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        if len == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.error(format!("expected {what}")));
        }
        self.at += len;
        Ok(&rest[..len])
    }

    /// Parses a word with dashes, as in `I-FORWARD-TSN`.
    pub(super) fn dashed_word(&mut self, what: &str) -> Parsed<&'a str> {
        let mut len = self.word(what)?.len();
        let start = self.at - len;
        while self.rest().starts_with('-')
            && self.rest()[1..].starts_with(|c: char| c.is_ascii_uppercase())
        {
            self.at += 1;
            len += 1 + self.word(what)?.len();
        }
        Ok(&self.text[start..start + len])
    }

    /// Parses an integer: decimal, with `0x` hexadecimal.
    pub(super) fn integer(&mut self, what: &str) -> Parsed<i64> {
        self.skip()?;
        let negative = self.rest().starts_with('-');
        let start = self.at;
        self.at += usize::from(negative);
        let rest = self.rest();
        let len = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let digits = &rest[..len];
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(u64::cast_signed),
            None => digits.parse::<i64>().ok(),
        };
        let Some(value) = value else {
            self.at = start;
            return Err(self.error(format!("expected {what}")));
        };
        self.at += len;
        Ok(if negative { -value } else { value })
    }

    pub(super) fn unsigned(&mut self, what: &str, max: u64) -> Parsed<u64> {
        self.skip()?;
        let start = self.at;
        let value = self.integer(what)?;
        match u64::try_from(value) {
            Ok(value) if value <= max => Ok(value),
            _ => {
                self.at = start;
                Err(self.error(format!("{value} is out of range: {what}, 0 to {max}")))
            }
        }
    }

    pub(super) fn address(&mut self, what: &str) -> Parsed<IpAddr> {
        self.skip()?;
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        // The colon behind an address ends it.
        let candidates = [&rest[..len], rest[..len].trim_end_matches(':')];
        for text in candidates {
            if let Ok(address) = text.parse() {
                self.at += text.len();
                return Ok(address);
            }
        }
        Err(self.error(format!("expected {what}")))
    }

    /// Parses `...`, a variable or a number.
    pub(super) fn number(&mut self, max: u64) -> Parsed<Value> {
        if let Some(value) = self.wildcard()? {
            return Ok(value);
        }
        Ok(Value::Number(self.unsigned("a number", max)?))
    }

    pub(super) fn wildcard(&mut self) -> Parsed<Option<Value>> {
        if self.take("...")? {
            return Ok(Some(Value::Any));
        }
        if self.take("$")? {
            return Ok(Some(Value::Variable(
                self.word("the name of a variable")?.to_owned(),
            )));
        }
        Ok(None)
    }

    pub(super) fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(format!("values are nested deeper than {MAX_DEPTH}")));
        }
        Ok(())
    }

    /// Parses a list in brackets.
    pub(super) fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut list = Vec::new();
        self.expect("[")?;
        if self.take("]")? {
            return Ok(list);
        }
        loop {
            self.skip()?;
            list.push(element(self)?);
            if !self.take(",")? {
                self.expect("]")?;
                return Ok(list);
            }
        }
    }

    /// Parses a text in quotes, with the escapes of C.
    pub(super) fn string(&mut self) -> Parsed<Vec<u8>> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut out = Vec::new();
        let mut at = self.at + 1;
        loop {
            let Some(byte) = bytes.get(at) else {
                self.at = start;
                return Err(self.error("the text has no end `\"`"));
            };
            match byte {
                b'"' => break,
                b'\\' => {
                    at += 1;
                    match bytes.get(at) {
                        Some(b'n') => out.push(b'\n'),
                        Some(b'r') => out.push(b'\r'),
                        Some(b't') => out.push(b'\t'),
                        Some(b'0') => out.push(0),
                        Some(b'x') => {
                            let digits = self.text.get(at + 1..at + 3);
                            let byte = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
                            out.push(byte.ok_or_else(|| self.error("`\\x` needs two digits"))?);
                            at += 2;
                        }
                        Some(other) => out.push(*other),
                        None => {}
                    }
                }
                other => out.push(*other),
            }
            at += 1;
        }
        self.at = at + 1;
        Ok(out)
    }
}
