//! What can be wrong in a scenario file: where, which key, and what was expected.

use std::fmt;

/// A mistake in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// The key with the tables around it, such as `links.far.delay`; may be empty.
    pub key: String,
    /// What is wrong and what was expected.
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
            write!(f, ":{}", self.line)?;
        }
        f.write_str(": ")?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for FileError {}
