//! Errors in a scenario file: line, key, and expected value.

use std::fmt;

/// An error in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Path of the file as given by the caller.
    pub file: String,
    /// Line, counted from 1; 0 for the whole file.
    pub line: usize,
    /// Key with the enclosing tables, such as `links.far.delay`; may be empty.
    pub key: String,
    /// Description of the error and the expected value.
    pub what: String,
}

impl FileError {
    pub(super) fn new(line: usize, key: &str, what: impl Into<String>) -> Self {
        Self {
            file: String::new(),
            line,
            key: key.into(),
            what: what.into(),
        }
    }

    pub(super) fn of_file(mut self, file: &str) -> Self {
        self.file = file.into();
        self
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ", line {}", self.line)?;
        }
        f.write_str(": ")?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for FileError {}
