//! What can go wrong in the laboratory, sorted by whose fault it is.

use std::io;
use std::path::PathBuf;

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The caller asked for a scenario that does not exist.
    #[error("there is no scenario '{name}'; known: {known}")]
    UnknownScenario {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A simulation did not do what the scenario needs: a fault of the stack or of the scenario.
    #[error("scenario {scenario}: {what} (please report it with the seed)")]
    Simulation {
        /// The scenario.
        scenario: String,
        /// What happened.
        what: String,
    },
    /// Something in a scenario file is wrong.
    #[error("{0}")]
    File(crate::file::FileError),
    /// The caller chose what there is not.
    #[error("{what}")]
    Choice {
        /// What, and what there is.
        what: String,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the report could not be written.
    #[error("cannot write {}: {source}; choose another directory", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
