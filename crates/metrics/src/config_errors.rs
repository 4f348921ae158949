//! Errors of configuration files (TOML) in one form: `FILE, line N: KEY: REASON`.
//!
//! The reason has the value as it is in the file, and what is accepted. The messages of serde and of the parser, which
//! name types of Rust, are translated.

use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longest key or value that is quoted, in characters.
const MAX_QUOTED: usize = 80;

/// Configuration file with its text. Locates errors.
#[derive(Clone, Copy, Debug)]
pub struct ConfigText<'a> {
    file: &'a str,
    text: &'a str,
    secrets: &'a [&'a str],
}

/// Error of a configuration file. `Display` writes file, line, key and reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocatedError {
    /// Path of the file.
    pub file: String,
    /// Line, from 1 on; `None` for an error of the whole file.
    pub line: Option<usize>,
    /// Key as it is in the file, or header of the table; may be empty.
    pub key: String,
    /// Description of the error, with the value and what is accepted.
    pub reason: String,
}

impl fmt::Display for LocatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        f.write_str(": ")?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for LocatedError {}

impl<'a> ConfigText<'a> {
    /// Returns the file of this path with this text.
    pub const fn new(file: &'a str, text: &'a str) -> Self {
        Self {
            file,
            text,
            secrets: &[],
        }
    }

    /// Sets the keys whose values no error quotes.
    #[must_use]
    pub const fn secrets(mut self, keys: &'a [&'a str]) -> Self {
        self.secrets = keys;
        self
    }

    /// Parses the file.
    ///
    /// # Errors
    /// The first error of the form, or of a key or value.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, LocatedError> {
        toml::from_str(self.text).map_err(|error| {
            let names = match (error.message(), error.span()) {
                ("wanted string or table", Some(span)) => self.names::<T>(span),
                _ => None,
            };
            let message = names.as_deref().unwrap_or(error.message());
            self.of_parser(error.span(), message)
        })
    }

    /// Returns the error that lists the names which the value at these octets may have: that of an unknown name there,
    /// because the parser lists none for a value that is no text.
    fn names<T: DeserializeOwned>(&self, span: Range<usize>) -> Option<String> {
        let mut text = self.text.to_owned();
        text.replace_range(span, "\"?\"");
        let error = toml::from_str::<T>(&text).err()?;
        let message = error.message();
        message
            .starts_with("unknown variant ")
            .then(|| message.to_owned())
    }

    /// Returns an error of the value at these octets of the text.
    pub fn at(&self, span: Range<usize>, reason: impl Into<String>) -> LocatedError {
        let key = match self.entry(&span) {
            Some(entry) => self.shown(&entry),
            None => self.key_of_line(span.start),
        };
        self.error(Some(span.start), key, reason.into())
    }

    /// Returns an error of the key with this path, such as `limits.rules` or `agents[1].key`. A key that the file does
    /// not have has the line of its table.
    pub fn of_key(&self, path: &str, reason: impl Into<String>) -> LocatedError {
        let steps: Vec<&str> = path.split(['.', '[']).collect();
        let last = steps.iter().rev().find(|step| !step.ends_with(']'));
        let last = last.copied().unwrap_or_default();
        let found = DeTable::parse(self.text)
            .ok()
            .and_then(|root| find(root.get_ref(), &steps));
        match found {
            Some(span) => self.error(Some(span.start), last.to_owned(), reason.into()),
            None => self.error(None, path.to_owned(), reason.into()),
        }
    }

    fn error(&self, start: Option<usize>, key: String, reason: String) -> LocatedError {
        let before = start.and_then(|start| self.text.get(..start));
        LocatedError {
            file: self.file.to_owned(),
            line: before.map(|before| before.matches('\n').count() + 1),
            key,
            reason,
        }
    }

    /// Returns an error of the TOML parser, or of serde.
    fn of_parser(&self, span: Option<Range<usize>>, message: &str) -> LocatedError {
        let message = message.lines().collect::<Vec<_>>().join("; ");
        let Some(span) = span else {
            return self.error(None, String::new(), message);
        };
        if let Some(name) = quoted_after(&message, "missing field ") {
            return self.missing(&span, name);
        }
        let entry = if message.starts_with("unknown variant ") {
            // Of a table the span is its first key.
            self.value_around(&span)
        } else {
            self.entry(&span)
        };
        let key = entry.as_ref().map(|entry| self.shown(entry));
        let key = key.unwrap_or_else(|| self.key_of_line(span.start));
        let reason = if message.starts_with("unknown field ") {
            match message.split_once(", expected ") {
                Some((_, known)) => format!("unknown key; expected {}", known.replace('`', "")),
                None => "unknown key; this table has no keys".into(),
            }
        } else if message == "duplicate key" {
            "the table has this key twice".into()
        } else if message.starts_with("string values must be quoted") {
            "a text needs quotes, and a value must follow the =".into()
        } else if let Some(entry) = entry {
            self.invalid(&entry, &key, &message)
        } else {
            message.replace('`', "\"")
        };
        self.error(Some(span.start), key, reason)
    }

    /// Returns the reason of an invalid value.
    fn invalid(&self, entry: &KeyEntry, key: &str, message: &str) -> String {
        if self.header(&entry.value).is_some() && !is_of_serde(message) {
            // The check of a table names its keys.
            return message.to_owned();
        }
        let value = if self.secrets.contains(&key) {
            "the value".into()
        } else {
            quoted(self.text.get(entry.value.clone()).unwrap_or_default())
        };
        reason_of_value(&value, message)
    }

    /// Returns the error of a table without a mandatory key.
    fn missing(&self, span: &Range<usize>, name: &str) -> LocatedError {
        // The span of the top of the file is empty, or the whole text.
        let is_top = span.is_empty() || span.end - span.start >= self.text.trim_end().len();
        match self.entry(span) {
            Some(entry) if !is_top || self.header(span).is_some() => {
                let reason = format!("key {name} is missing");
                self.error(Some(span.start), self.shown(&entry), reason)
            }
            _ => self.error(
                None,
                name.to_owned(),
                "missing: the file needs this key or table".into(),
            ),
        }
    }

    /// Returns the innermost key, or the innermost value, that has a span; `None` for the whole file, and if the text is
    /// not TOML.
    fn entry(&self, span: &Range<usize>) -> Option<KeyEntry> {
        let root = DeTable::parse(self.text).ok()?;
        let mut entries = Vec::new();
        collect(root.get_ref(), &mut entries);
        if let Some(at) = entries.iter().position(|entry| entry.key == *span) {
            return Some(entries.swap_remove(at));
        }
        around(entries, span)
    }

    /// Returns the innermost value that has a span.
    fn value_around(&self, span: &Range<usize>) -> Option<KeyEntry> {
        let root = DeTable::parse(self.text).ok()?;
        let mut entries = Vec::new();
        collect(root.get_ref(), &mut entries);
        around(entries, span)
    }

    /// Returns the key of an entry as it is in the file, or the header of its table.
    fn shown(&self, entry: &KeyEntry) -> String {
        let header = self.header(&entry.value);
        let key = || self.text.get(entry.key.clone());
        quoted(header.or_else(key).unwrap_or_default())
    }

    /// Returns the header of a table, whose span it is.
    fn header(&self, span: &Range<usize>) -> Option<&str> {
        let before = self.text.get(..span.start)?;
        let is_first = before
            .rsplit('\n')
            .next()
            .is_some_and(|line| line.trim().is_empty());
        let header = self.text.get(span.clone())?;
        let is_whole = header.ends_with(']') && !header.contains('\n');
        (is_first && is_whole && is_header(header)).then_some(header)
    }

    /// Returns the key or the header of the line at this octet, of a text that may be no TOML.
    fn key_of_line(&self, start: usize) -> String {
        let before = self.text.get(..start).unwrap_or_default();
        let number = before.matches('\n').count() + 1;
        // Values of several lines have their key above.
        let lines: Vec<&str> = self.text.lines().take(number).map(str::trim).collect();
        let key = lines.iter().rev().find_map(|line| key_of(line));
        quoted(key.or(lines.last().copied()).unwrap_or_default())
    }
}

/// Spans of a key and of its value, or of an item of its list.
struct KeyEntry {
    key: Range<usize>,
    value: Range<usize>,
}

/// Returns the entry with the shortest value that has a span.
fn around(entries: Vec<KeyEntry>, span: &Range<usize>) -> Option<KeyEntry> {
    let has = |entry: &KeyEntry| entry.value.start <= span.start && span.end <= entry.value.end;
    let around = entries.into_iter().filter(has);
    around.min_by_key(|entry| entry.value.len())
}

/// Collects all entries of a table and of its values.
fn collect(table: &DeTable<'_>, entries: &mut Vec<KeyEntry>) {
    for (key, value) in table {
        collect_value(&key.span(), value, entries);
    }
}

fn collect_value(key: &Range<usize>, value: &Spanned<DeValue<'_>>, entries: &mut Vec<KeyEntry>) {
    entries.push(KeyEntry {
        key: key.clone(),
        value: value.span(),
    });
    match value.get_ref() {
        DeValue::Table(table) => collect(table, entries),
        DeValue::Array(items) => {
            for item in items {
                collect_value(key, item, entries);
            }
        }
        _ => {}
    }
}

/// Returns the span of the key at the end of a path, or of the last table on it.
fn find(root: &DeTable<'_>, steps: &[&str]) -> Option<Range<usize>> {
    let mut found = None;
    let mut table = Some(root);
    let mut list: Option<&toml::de::DeArray<'_>> = None;
    for step in steps {
        let value = if let Some(index) = step.strip_suffix(']') {
            let index: usize = index.parse().ok()?;
            let item = list.and_then(|list| list.get(index));
            item.map(|item| (item.span(), item))
        } else {
            let entry = table.and_then(|table| {
                let mut entries = table.iter();
                entries.find(|(key, _)| key.get_ref() == step)
            });
            entry.map(|(key, value)| (key.span(), value))
        };
        let Some((span, value)) = value else { break };
        found = Some(span);
        (table, list) = match value.get_ref() {
            DeValue::Table(table) => (Some(table), None),
            DeValue::Array(items) => (None, Some(items)),
            _ => (None, None),
        };
    }
    found
}

/// Beginnings of serde's errors of values that have another type.
const OF_TYPE: [&str; 3] = ["invalid type: ", "invalid value: ", "invalid length "];

/// Returns whether a message is one of serde's, not of the parser of a value.
fn is_of_serde(message: &str) -> bool {
    let starts = |with: &str| message.starts_with(with);
    OF_TYPE.into_iter().any(starts) || starts("unknown variant ")
}

/// Returns the reason of a value that serde or a parser of the value refuses.
fn reason_of_value(value: &str, message: &str) -> String {
    if OF_TYPE.iter().any(|kind| message.starts_with(kind))
        && let Some((_, expected)) = message.rsplit_once(", expected ")
    {
        return format!("{value} is invalid; expected {}", in_plain_words(expected));
    }
    if message.starts_with("unknown variant ")
        && let Some((_, known)) = message.split_once(", expected ")
    {
        let known = known.replace('`', "\"");
        return format!("{value} is invalid; expected {known}");
    }
    let syntax = message.strip_prefix("invalid ");
    if let Some(what) = syntax.and_then(|what| what.strip_suffix(" syntax")) {
        return format!("{value} is invalid; expected {}", in_plain_words(what));
    }
    if message.starts_with("data did not match any variant") {
        return format!("{value} is invalid");
    }
    // The parser of the value may quote it.
    if value.starts_with('"') && message.contains(value) {
        return message.to_owned();
    }
    format!("{value} is invalid; {message}")
}

/// Translates what serde expects of a value.
fn in_plain_words(expected: &str) -> String {
    let range = |from: i128, to: i128| format!("a whole number from {from} to {to}");
    let least = |from: u8| format!("a whole number, at least {from}");
    match expected {
        "u8" => range(0, u8::MAX.into()),
        "u16" => range(0, u16::MAX.into()),
        "u32" => range(0, u32::MAX.into()),
        "i32" => range(i32::MIN.into(), i32::MAX.into()),
        "u64" | "usize" => least(0),
        "i64" | "isize" => "a whole number".into(),
        "a nonzero u16" => range(1, u16::MAX.into()),
        "a nonzero u32" => range(1, u32::MAX.into()),
        "a nonzero u64" | "a nonzero usize" => least(1),
        "f32" | "f64" => "a number".into(),
        "a string" => "a text in quotes".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "a list in brackets".into(),
        "path string" => "a path in quotes".into(),
        "IP address" | "IPv4 address" | "IPv6 address" => {
            format!("an {expected} such as {}", example_address(expected))
        }
        "socket address" => {
            "an address with its port such as \"192.0.2.1:2905\" or \"[2001:db8::1]:2905\"".into()
        }
        "a map" => "a table".into(),
        _ if expected.starts_with("struct ") => "a table".into(),
        _ => expected.replace('`', "\""),
    }
}

fn example_address(expected: &str) -> &'static str {
    match expected {
        "IPv4 address" => "\"192.0.2.1\"",
        "IPv6 address" => "\"2001:db8::1\"",
        _ => "\"192.0.2.1\" or \"2001:db8::1\"",
    }
}

/// Returns the name in backquotes after these words.
fn quoted_after<'m>(message: &'m str, words: &str) -> Option<&'m str> {
    message.strip_prefix(words)?.split('`').nth(1)
}

/// Returns a key or value of the file in one line, cut if it is long.
fn quoted(text: &str) -> String {
    let line = text.trim().lines().map(str::trim).collect::<Vec<_>>();
    let line = line.join(" ");
    if line.chars().count() <= MAX_QUOTED {
        return line;
    }
    let cut: String = line.chars().take(MAX_QUOTED - 3).collect();
    format!("{cut}...")
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
    use std::collections::BTreeMap;
    use std::net::{IpAddr, SocketAddr};
    use std::num::{NonZeroU16, NonZeroUsize};
    use std::path::PathBuf;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct File {
        small: u8,
        port: u16,
        count: Option<NonZeroUsize>,
        own: Option<NonZeroU16>,
        offset: i32,
        path: PathBuf,
        at: Option<SocketAddr>,
        addresses: Vec<IpAddr>,
        on: bool,
        share: f64,
        log: Format,
        table: Option<Table>,
        tables: Vec<Table>,
        key: String,
        names: BTreeMap<String, u8>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Format {
        #[default]
        Text,
        Json,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "parsed for its errors")]
    struct Table {
        name: String,
        inner: Option<Vec<Inner>>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "parsed for its errors")]
    struct Inner {
        x: u8,
    }

    fn error(text: &str) -> String {
        let config = ConfigText::new("f", text).secrets(&["key"]);
        config.parse::<File>().unwrap_err().to_string()
    }

    /// Changes of a file, or files, that are wrong, and the beginnings of their errors.
    const WRONG: &[(&str, &str)] = &[
        (
            "port = 70000",
            "f, line 1: port: 70000 is invalid; expected a whole number from 0 to 65535",
        ),
        (
            "\nport = \"x\"",
            "f, line 2: port: \"x\" is invalid; expected a whole number from 0 to 65535",
        ),
        (
            "port = 99999999999999999999",
            "f, line 1: port: 99999999999999999999 is invalid; expected a whole number",
        ),
        (
            "small = -1",
            "f, line 1: small: -1 is invalid; expected a whole number from 0 to 255",
        ),
        (
            "count = 0",
            "f, line 1: count: 0 is invalid; expected a whole number, at least 1",
        ),
        (
            "own = 0",
            "f, line 1: own: 0 is invalid; expected a whole number from 1 to 65535",
        ),
        (
            "offset = 3000000000",
            "f, line 1: offset: 3000000000 is invalid; expected a whole number from -2147483648",
        ),
        (
            "path = 3",
            "f, line 1: path: 3 is invalid; expected a path in quotes",
        ),
        (
            "at = \"192.0.2.1\"",
            "f, line 1: at: \"192.0.2.1\" is invalid; expected an address with its port such as",
        ),
        (
            "at = 3",
            "f, line 1: at: 3 is invalid; expected an address with its port such as",
        ),
        (
            "addresses = [\n  \"192.0.2.1\",\n  \"x\",\n]",
            "f, line 3: addresses: \"x\" is invalid; expected an IP address such as",
        ),
        (
            "addresses = \"192.0.2.1\"",
            "f, line 1: addresses: \"192.0.2.1\" is invalid; expected a list in brackets",
        ),
        (
            "on = \"yes\"",
            "f, line 1: on: \"yes\" is invalid; expected true or false",
        ),
        (
            "share = \"x\"",
            "f, line 1: share: \"x\" is invalid; expected a number",
        ),
        (
            "log = \"xml\"",
            "f, line 1: log: \"xml\" is invalid; expected \"text\" or \"json\"",
        ),
        (
            "table = 3",
            "f, line 1: table: 3 is invalid; expected a table",
        ),
        (
            "log = { x = 1 }",
            "f, line 1: log: { x = 1 } is invalid; expected \"text\" or \"json\"",
        ),
        (
            "log = 3",
            "f, line 1: log: 3 is invalid; expected \"text\" or \"json\"",
        ),
        (
            "names = 3",
            "f, line 1: names: 3 is invalid; expected a table",
        ),
        (
            "key = 12345678",
            "f, line 1: key: the value is invalid; expected a text in quotes",
        ),
        (
            "tables = [{ name = \"a\", inner = [{ x = 300 }] }]",
            "f, line 1: x: 300 is invalid; expected a whole number from 0 to 255",
        ),
    ];

    #[test]
    fn values_are_shown_with_what_is_accepted() {
        for (text, expected) in WRONG {
            let error = error(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn unknown_and_repeated_keys_are_named() {
        for (text, expected) in [
            (
                "prt = 1",
                "f, line 1: prt: unknown key; expected one of small, port, ",
            ),
            (
                "[table]\nnme = 1",
                "f, line 2: nme: unknown key; expected name or inner",
            ),
            (
                "[tabel]\n",
                "f, line 1: [tabel]: unknown key; expected one of small, port, ",
            ),
            (
                "port = 1\nport = 2",
                "f, line 2: port: the table has this key twice",
            ),
        ] {
            let error = error(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn missing_keys_have_the_line_of_their_table() {
        for (text, expected) in [
            (
                "port = 1\n[table]\n",
                "f, line 2: [table]: key name is missing",
            ),
            (
                "[[tables]]\nname = \"a\"\n[[tables]]\n",
                "f, line 3: [[tables]]: key name is missing",
            ),
            (
                "tables = [\n {},\n]",
                "f, line 2: tables: key name is missing",
            ),
        ] {
            assert_eq!(error(text), expected);
        }
        for text in ["", "y = 3", "\n[t]\nx = 3\n", "[t]\nx = 3\n"] {
            let missing = ConfigText::new("f", text).parse::<Inner>().unwrap_err();
            let expected = "f: x: missing: the file needs this key or table";
            assert_eq!(missing.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn errors_of_the_syntax_have_line_and_key() {
        for (text, expected) in [
            (
                "port =\n",
                "f, line 1: port: a text needs quotes, and a value must follow the =",
            ),
            (
                "\nkey = x\n",
                "f, line 2: key: a text needs quotes, and a value must follow the =",
            ),
            (
                "port = 1\n[table\n",
                "f, line 2: [table: unclosed table, expected \"]\"",
            ),
            ("a b\n", "f, line 1: a b: "),
            (
                "addresses = [\n \"a = b\",\n # c = d\n [,]\n]",
                "f, line 4: addresses: ",
            ),
        ] {
            let error = error(text);
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let long = "é".repeat(1000);
        assert!(error(&long).chars().count() < 250);
    }

    #[test]
    fn errors_of_checks_have_line_and_key() {
        let text = "port = 1\n[limits]\nrules = 0\n[[agents]]\nname = \"a\"\n[[agents]]\nrights = [\"x\"]\n";
        let config = ConfigText::new("f", text);
        for (path, expected) in [
            ("limits.rules", "f, line 3: rules: why"),
            ("limits.sessions", "f, line 2: sessions: why"),
            ("agents[1].rights", "f, line 7: rights: why"),
            ("agents[1].key", "f, line 6: key: why"),
            ("backend", "f: backend: why"),
        ] {
            assert_eq!(config.of_key(path, "why").to_string(), expected);
        }
        let at = text.find("\"x\"").unwrap();
        let error = config.at(at..at + 3, "why");
        assert_eq!(error.to_string(), "f, line 7: rights: why");
    }
}
