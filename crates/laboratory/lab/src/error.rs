//! Errors of the laboratory.

use std::io;
use std::path::{Path, PathBuf};

/// Reason why a run was not completed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The requested experiment does not exist.
    #[error("there is no experiment '{name}'; known: {known}, or a folder such as ./{name}")]
    UnknownExperiment {
        /// Name requested.
        name: String,
        /// Existing names.
        known: String,
    },
    /// A simulation did not reach the state that the scenario requires: a fault of the stack or of
    /// the scenario.
    #[error("scenario {scenario}: {what} (please report it with the seed)")]
    Simulation {
        /// Name of the scenario.
        scenario: String,
        /// Description of the fault.
        what: String,
    },
    /// A capture file of a simulation could not be written.
    #[error("{0}")]
    Capture(String),
    /// The caller stopped the run.
    #[error("stopped")]
    Stopped,
    /// A scenario file is invalid.
    #[error("{0}")]
    File(crate::file::FileError),
    /// The caller requested an unknown or impossible option.
    #[error("{what}")]
    Choice {
        /// Description of the option and its possible values.
        what: String,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file of the report could not be written.
    #[error("cannot write {}: {source}; choose another directory", path.display())]
    Write {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl LabError {
    /// Returns the conversion of errors of reading `path`.
    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self + use<'_> {
        move |source| Self::Read {
            path: path.into(),
            source,
        }
    }

    /// Returns the conversion of errors of writing `path`.
    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Self + use<'_> {
        move |source| Self::Write {
            path: path.into(),
            source,
        }
    }
}
