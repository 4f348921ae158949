//! A TOML document as a tree with line numbers and the order of keys.
//!
//! A sweep replaces values in the tree before it is parsed. Errors are located at the line of the
//! value, in the file or in the sweep.

use toml::de::{DeArray, DeTable, DeValue};

use super::error::FileError;

/// A value and its line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Number(f64),
    Flag(bool),
    List(Vec<Node>),
    /// Entries in the order of the file.
    Table(Vec<(String, Node)>),
}

impl Node {
    /// Describes the value for error messages: `"10 ms"`, `a table`.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("{text:?}"),
            Value::Integer(number) => number.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::List(_) => "a list".into(),
            Value::Table(_) => "a table".into(),
        }
    }

    /// Returns the value as a label, without quotes.
    pub(super) fn shown(&self) -> String {
        match &self.value {
            Value::Text(text) => text.clone(),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Self::shown).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Table(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, node)| format!("{key} = {}", node.shown()))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            _ => self.describe(),
        }
    }

    /// Removes the line numbers: the value is not part of a file.
    pub(super) fn forget_lines(&mut self) {
        self.line = 0;
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(Self::forget_lines),
            Value::Table(entries) => entries.iter_mut().for_each(|(_, own)| own.forget_lines()),
            _ => {}
        }
    }

    /// Returns the value of a number, if it is one.
    pub(super) fn number(&self) -> Option<f64> {
        match self.value {
            Value::Integer(number) => Some(number as f64),
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the value with its texts replaced.
    pub(super) fn with_texts(&self, replace: &impl Fn(&str) -> String) -> Self {
        let value = match &self.value {
            Value::Text(text) => Value::Text(replace(text)),
            Value::List(items) => {
                Value::List(items.iter().map(|own| own.with_texts(replace)).collect())
            }
            Value::Table(entries) => {
                let entry = |(key, own): &(String, Self)| (key.clone(), own.with_texts(replace));
                Value::Table(entries.iter().map(entry).collect())
            }
            other => other.clone(),
        };
        Self {
            line: self.line,
            value,
        }
    }

    /// Returns the value of a key, if this is a table that has it.
    pub(super) fn entry(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, n)| n),
            _ => None,
        }
    }

    /// Replaces the value of every key that `path` matches; a `*` matches
    /// any text of a key. A missing key is
    /// added to an existing table. Returns the full paths of the keys.
    pub(super) fn replace(&mut self, path: &[&str], new: &Self) -> Vec<Vec<String>> {
        let mut places = Vec::new();
        self.replace_below(path, new, &mut Vec::new(), &mut places);
        places
    }

    /// Returns the number of keys of a path, from its beginning, that exist.
    pub(super) fn depth_of(&self, path: &[&str]) -> usize {
        let Some((&key, rest)) = path.split_first() else {
            return 0;
        };
        let of = |node: &Self| 1 + node.depth_of(rest);
        match &self.value {
            Value::Table(entries) => {
                let matching = entries.iter().filter(|(name, _)| matches(key, name));
                matching.map(|(_, node)| of(node)).max().unwrap_or(0)
            }
            Value::List(items) => {
                let number = key.parse::<usize>().ok();
                number.and_then(|n| items.get(n)).map_or(0, of)
            }
            _ => 0,
        }
    }

    fn replace_below(
        &mut self,
        path: &[&str],
        new: &Self,
        above: &mut Vec<String>,
        places: &mut Vec<Vec<String>>,
    ) {
        let Some((&key, rest)) = path.split_first() else {
            *self = new.clone();
            places.push(above.clone());
            return;
        };
        let mut below = |name: &str, node: &mut Self| {
            above.push(name.into());
            node.replace_below(rest, new, above, places);
            above.pop();
        };
        match &mut self.value {
            Value::Table(entries) => {
                if !key.contains('*')
                    && rest.is_empty()
                    && entries.iter().all(|(own, _)| own != key)
                {
                    entries.push((key.into(), new.clone()));
                }
                for (name, node) in entries {
                    if matches(key, name) {
                        below(name, node);
                    }
                }
            }
            Value::List(items) => {
                let number = key.parse::<usize>().ok();
                if let Some(item) = number.and_then(|number| items.get_mut(number)) {
                    below(key, item);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a pattern matches a name; one `*` in it matches any text.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            let rest = name.strip_prefix(start);
            rest.is_some_and(|rest| rest.ends_with(end))
        }
        None => pattern == name,
    }
}

/// Parses a document.
pub(super) fn parse(text: &str) -> Result<Node, FileError> {
    let lines = LineStarts::new(text);
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(0, |span| lines.of(span.start));
        let what = match (
            error.message(),
            error.span().and_then(|span| text.get(span)),
        ) {
            ("duplicate key", Some(key)) => {
                format!("{} exists already; expected each name once", key.trim())
            }
            (message, _) if message.starts_with("string values must be quoted") => {
                "a text needs quotes, and a value must follow the =".into()
            }
            (message, _) => message.replace('\n', "; ").replace('`', "\""),
        };
        FileError::new(line, "", what)
    })?;
    let value = Value::Table(lines.table(table.get_ref())?);
    Ok(Node { line: 1, value })
}

/// Offsets of the line starts.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn new(text: &str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(breaks).collect())
    }

    fn of(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }

    fn table(&self, table: &DeTable<'_>) -> Result<Vec<(String, Node)>, FileError> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let node = |(key, value): (
            &toml::Spanned<std::borrow::Cow<'_, str>>,
            &toml::Spanned<DeValue<'_>>,
        )| {
            let line = self.of(key.span().start);
            let name = key.get_ref().to_string();
            let value = self.value(value.get_ref(), line, &name)?;
            Ok((name, Node { line, value }))
        };
        entries.into_iter().map(node).collect()
    }

    fn list(&self, list: &DeArray<'_>, key: &str) -> Result<Vec<Node>, FileError> {
        let node = |item: &toml::Spanned<DeValue<'_>>| {
            let line = self.of(item.span().start);
            let value = self.value(item.get_ref(), line, key)?;
            Ok(Node { line, value })
        };
        list.iter().map(node).collect()
    }

    fn value(&self, value: &DeValue<'_>, line: usize, key: &str) -> Result<Value, FileError> {
        let wrong = |what: &str| FileError::new(line, key, what);
        Ok(match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                Value::Integer(parsed.map_err(|_| wrong("the number is too large"))?)
            }
            DeValue::Float(number) => {
                let parsed: Result<f64, _> = number.as_str().parse();
                let finite = parsed.ok().filter(|n| n.is_finite());
                Value::Number(finite.ok_or_else(|| wrong("expected a finite number"))?)
            }
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Datetime(_) => {
                return Err(wrong(
                    "dates are not supported; write times such as \"10 ms\"",
                ));
            }
            DeValue::Array(list) => Value::List(self.list(list, key)?),
            DeValue::Table(table) => Value::Table(self.table(table)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "b = 1\n[t.z]\nx = \"y\"\n[t.a]\nx = [1,\n 2]\n";

    #[test]
    fn keys_keep_their_order_and_lines() {
        let tree = parse(TEXT).unwrap();
        let t = tree.entry("t").unwrap();
        let Value::Table(entries) = &t.value else {
            panic!("no table")
        };
        let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["z", "a"]);
        let list = t.entry("a").unwrap().entry("x").unwrap();
        assert_eq!(list.line, 5);
        let Value::List(items) = &list.value else {
            panic!("no list")
        };
        assert_eq!((items[0].line, items[1].line), (5, 6));
    }

    #[test]
    fn a_star_matches_every_key() {
        let mut tree = parse(TEXT).unwrap();
        let new = Node {
            line: 9,
            value: Value::Flag(true),
        };
        assert_eq!(
            tree.replace(&["t", "*", "x"], &new),
            [["t", "z", "x"], ["t", "a", "x"]]
        );
        assert_eq!(
            tree.replace(&["t", "*", "new"], &new),
            [["t", "z", "new"], ["t", "a", "new"]]
        );
        assert_eq!(tree.replace(&["t", "a", "x", "1"], &new).len(), 0);
        assert_eq!(tree.replace(&["u", "x"], &new).len(), 0);
        assert_eq!(
            tree.entry("t").unwrap().entry("z").unwrap().entry("x"),
            Some(&new)
        );
    }

    #[test]
    fn syntax_errors_have_their_line() {
        let error = parse("a = 1\nb = \n").unwrap_err();
        assert_eq!(error.line, 2, "{error}");
    }
}
