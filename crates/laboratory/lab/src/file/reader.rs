//! Typed access to the keys of a tree, with detection of unknown keys.

use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::FileError;
use super::tree::{Node, Value};
use super::units;

/// A table whose keys are being read.
#[derive(Debug)]
pub(super) struct Section<'a> {
    path: String,
    line: usize,
    entries: &'a [(String, Node)],
    asked: RefCell<Vec<&'static str>>,
}

/// Sets the fields of a value to what the keys of the same names have, as far as the table has these keys.
macro_rules! keys {
    ($section:expr, $target:expr, $read:expr; $($field:ident),+ $(,)?) => {
        $($section.set(stringify!($field), &mut $target.$field, $read)?;)+
    };
}
pub(super) use keys;

/// A type whose values have one form in files, or names.
pub(super) trait FromItem: Sized {
    fn from_item(item: &Item<'_>) -> Result<Self, FileError>;
}

/// Gives the variants of types their names in files.
macro_rules! names {
    ($($type:ty { $($name:literal: $variant:ident),+ $(,)? })+) => {
        $(impl FromItem for $type {
            fn from_item(item: &Item<'_>) -> Result<Self, FileError> {
                item.choice(&[$(($name, <$type>::$variant)),+])
            }
        })+
    };
}
pub(super) use names;

impl FromItem for bool {
    fn from_item(item: &Item<'_>) -> Result<Self, FileError> {
        match item.node.value {
            Value::Flag(flag) => Ok(flag),
            _ => Err(item.wrong("true or false")),
        }
    }
}

impl FromItem for Duration {
    fn from_item(item: &Item<'_>) -> Result<Self, FileError> {
        let expected = "a time such as \"10 ms\" (ns, us, ms, s, min, h)";
        item.quantity(units::time, expected)
    }
}

impl FromItem for String {
    fn from_item(item: &Item<'_>) -> Result<Self, FileError> {
        item.text().map(Into::into)
    }
}

impl FromItem for IpAddr {
    fn from_item(item: &Item<'_>) -> Result<Self, FileError> {
        let parsed = item.text().ok().and_then(|text| text.parse().ok());
        parsed.ok_or_else(|| item.wrong("an IP address such as \"10.0.0.1\""))
    }
}

impl FromItem for u32 {
    fn from_item(item: &Item<'_>) -> Result<Self, FileError> {
        item.whole(0..=u64::from(Self::MAX))
    }
}

impl FromItem for f64 {
    fn from_item(item: &Item<'_>) -> Result<Self, FileError> {
        item.node.number().ok_or_else(|| item.wrong("a number"))
    }
}

/// A list in brackets.
impl<T: FromItem> FromItem for Vec<T> {
    fn from_item(item: &Item<'_>) -> Result<Self, FileError> {
        item.each(T::from_item)
    }
}

/// A value, or "none".
impl<T: FromItem> FromItem for Option<T> {
    fn from_item(item: &Item<'_>) -> Result<Self, FileError> {
        item.optional(T::from_item)
    }
}

/// A value with its key.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    pub(super) path: String,
    pub(super) node: &'a Node,
}

impl<'a> Section<'a> {
    /// Returns the whole document as a section.
    pub(super) fn root(node: &'a Node) -> Result<Self, FileError> {
        let path = String::new();
        Item { path, node }.section()
    }

    /// Returns the value of a key, if it exists.
    pub(super) fn get(&self, key: &'static str) -> Option<Item<'a>> {
        self.asked.borrow_mut().push(key);
        let (_, node) = self.entries.iter().find(|(name, _)| name == key)?;
        let path = self.child(key);
        Some(Item { path, node })
    }

    /// Returns the value of a mandatory key.
    pub(super) fn need(&self, key: &'static str, expected: &str) -> Result<Item<'a>, FileError> {
        self.get(key).ok_or_else(|| {
            let what = format!("missing; expected {expected}");
            FileError::new(self.line, &self.child(key), what)
        })
    }

    /// Reads the value of a mandatory key.
    pub(super) fn needed<T>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&Item<'a>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        read(&self.need(key, expected)?)
    }

    /// Reads the value of a key, if it exists.
    pub(super) fn value<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&Item<'a>) -> Result<T, FileError>,
    ) -> Result<Option<T>, FileError> {
        self.get(key).as_ref().map(read).transpose()
    }

    /// Reads the value of a key; `default` if it does not exist.
    pub(super) fn value_or<T>(
        &self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Item<'a>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        Ok(self.value(key, read)?.unwrap_or(default))
    }

    /// Sets `target` to the value of a key, if it exists.
    pub(super) fn set<T>(
        &self,
        key: &'static str,
        target: &mut T,
        read: impl FnOnce(&Item<'a>) -> Result<T, FileError>,
    ) -> Result<(), FileError> {
        if let Some(item) = self.get(key) {
            *target = read(&item)?;
        }
        Ok(())
    }

    /// Returns the tables below a key with their names, in the order of the file.
    pub(super) fn tables(&self, key: &'static str) -> Result<Vec<(&'a str, Self)>, FileError> {
        let Some(item) = self.get(key) else {
            return Ok(Vec::new());
        };
        if !item.is_table() {
            return Err(item.wrong(&format!("tables such as [{key}.name]")));
        }
        let tables = item.entries()?.into_iter();
        tables
            .map(|(name, own)| Ok((name, own.section()?)))
            .collect()
    }

    /// Returns the existing keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// Returns an error about the table.
    pub(super) fn error(&self, what: impl Into<String>) -> FileError {
        FileError::new(self.line, &self.path, what)
    }

    /// Rejects unknown keys.
    pub(super) fn finish(&self) -> Result<(), FileError> {
        let mut asked = self.asked.borrow().clone();
        let unknown = |(name, _): &&(String, Node)| !asked.contains(&name.as_str());
        let Some((name, node)) = self.entries.iter().find(unknown) else {
            return Ok(());
        };
        asked.sort_unstable();
        asked.dedup();
        let what = format!("unknown key; expected one of {}", asked.join(", "));
        Err(FileError::new(node.line, &self.child(name), what))
    }

    fn child(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.into()
        } else {
            format!("{}.{key}", self.path)
        }
    }
}

impl<'a> Item<'a> {
    /// Returns an error with the value found and the value expected.
    pub(super) fn wrong(&self, expected: &str) -> FileError {
        let what = format!("{} is invalid; expected {expected}", self.node.describe());
        self.error(what)
    }

    /// Returns an error about this value.
    pub(super) fn error(&self, what: impl Into<String>) -> FileError {
        FileError::new(self.node.line, &self.path, what)
    }

    pub(super) fn text(&self) -> Result<&'a str, FileError> {
        match &self.node.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong("a text in quotes")),
        }
    }

    /// Parses a value of a type that has one form.
    pub(super) fn read<T: FromItem>(&self) -> Result<T, FileError> {
        T::from_item(self)
    }

    /// Parses a value, or `None` for "none".
    pub(super) fn optional<T>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, FileError>,
    ) -> Result<Option<T>, FileError> {
        match &self.node.value {
            Value::Text(text) if text == "none" => Ok(None),
            _ => read(self).map(Some).map_err(|mut error| {
                // Errors inside the value are reported as they are.
                if error.key == self.path {
                    error.what.push_str(", or \"none\"");
                }
                error
            }),
        }
    }

    pub(super) fn rate(&self) -> Result<f64, FileError> {
        let expected = "a rate above 0 such as \"1.5 Mbit/s\" (bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s)";
        self.quantity(units::rate, expected)
    }

    /// Parses bytes, with a unit or as a plain number, of any type that has all numbers of the range.
    pub(super) fn size<T: TryFrom<u64>>(&self, range: RangeInclusive<u64>) -> Result<T, FileError> {
        let size = match &self.node.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) => units::size(text),
            _ => None,
        };
        let size = size.filter(|size| range.contains(size));
        size.and_then(|size| T::try_from(size).ok()).ok_or_else(|| {
            let (from, to) = range.into_inner();
            self.wrong(&format!(
                "a size such as \"1000 bytes\" or \"64 KiB\" (bytes, kB, MB, GB, KiB, MiB, GiB), {}",
                limits(from, to)
            ))
        })
    }

    /// Parses a number of packets, with or without the unit.
    pub(super) fn packets(&self) -> Result<u64, FileError> {
        let count = match &self.node.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) => units::packets(text),
            _ => None,
        };
        count.ok_or_else(|| self.wrong("a number such as \"6 packets\""))
    }

    /// Parses a probability or proportion, as `1 %` or as a number from 0 to 1.
    pub(super) fn share(&self) -> Result<f64, FileError> {
        let share = match &self.node.value {
            Value::Text(text) => units::share(text),
            _ => self.node.number().filter(|n| (0.0..=1.0).contains(n)),
        };
        share.ok_or_else(|| self.wrong("a share such as \"1 %\" or 0.01, from 0 to 1"))
    }

    /// Parses a whole number of any type that has all numbers of the range.
    pub(super) fn whole<T: TryFrom<u64>>(
        &self,
        range: RangeInclusive<u64>,
    ) -> Result<T, FileError> {
        let number = match self.node.value {
            Value::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let number = number.filter(|n| range.contains(n));
        number.and_then(|n| T::try_from(n).ok()).ok_or_else(|| {
            let (from, to) = range.into_inner();
            self.wrong(&format!("a whole number, {}", limits(from, to)))
        })
    }

    pub(super) fn number(&self, range: RangeInclusive<f64>) -> Result<f64, FileError> {
        let number = self.node.number().filter(|n| range.contains(n));
        number.ok_or_else(|| {
            self.wrong(&format!(
                "a number from {} to {}",
                range.start(),
                range.end()
            ))
        })
    }

    /// Parses one of several names.
    pub(super) fn choice<T: Clone>(&self, choices: &[(&str, T)]) -> Result<T, FileError> {
        let text = self.text().ok();
        let found = choices.iter().find(|(name, _)| text == Some(name));
        found.map(|(_, value)| value.clone()).ok_or_else(|| {
            let names: Vec<String> = choices
                .iter()
                .map(|(name, _)| format!("\"{name}\""))
                .collect();
            self.wrong(&format!("one of {}", names.join(", ")))
        })
    }

    pub(super) fn list(&self) -> Result<Vec<Self>, FileError> {
        let Value::List(items) = &self.node.value else {
            return Err(self.wrong("a list in brackets"));
        };
        let item = |(n, node)| Self {
            path: format!("{}[{n}]", self.path),
            node,
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// Returns the entries of a list that is written as tables.
    pub(super) fn tables(&self, such_as: &str) -> Result<Vec<Self>, FileError> {
        let list = self.list();
        list.map_err(|_| self.wrong(&format!("tables such as {such_as}")))
    }

    /// Parses each entry of a list.
    pub(super) fn each<T>(
        &self,
        read: impl FnMut(&Self) -> Result<T, FileError>,
    ) -> Result<Vec<T>, FileError> {
        self.list()?.iter().map(read).collect()
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.node.value, Value::Table(_))
    }

    pub(super) fn section(&self) -> Result<Section<'a>, FileError> {
        match &self.node.value {
            Value::Table(entries) => Ok(Section {
                path: self.path.clone(),
                line: self.node.line,
                entries,
                asked: RefCell::new(Vec::new()),
            }),
            _ => Err(self.wrong("a table")),
        }
    }

    /// Parses a table with no other keys than those that `read` asks for.
    pub(super) fn table<T>(
        &self,
        read: impl FnOnce(&Section<'a>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let section = self.section()?;
        let value = read(&section)?;
        section.finish()?;
        Ok(value)
    }

    /// Returns the entries of a table with their keys.
    pub(super) fn entries(&self) -> Result<Vec<(&'a str, Self)>, FileError> {
        let Value::Table(entries) = &self.node.value else {
            return Err(self.wrong("a table"));
        };
        let entry = |(key, node): &'a (String, Node)| {
            let path = format!("{}.{key}", self.path);
            (key.as_str(), Self { path, node })
        };
        Ok(entries.iter().map(entry).collect())
    }

    fn quantity<T>(&self, read: fn(&str) -> Option<T>, expected: &str) -> Result<T, FileError> {
        match &self.node.value {
            Value::Text(text) => read(text).ok_or_else(|| self.wrong(expected)),
            _ => Err(self.wrong(expected)),
        }
    }
}

fn limits(from: u64, to: u64) -> String {
    if to >= i64::MAX as u64 {
        format!("at least {from}")
    } else {
        format!("{from} to {to}")
    }
}
