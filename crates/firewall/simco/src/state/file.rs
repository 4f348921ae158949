//! Journal in a folder of the file system.

use std::path::Path;

use super::log::RuleLog;
use super::storage::Folder;
use super::{ClockReadings, Journal, RecoveredState, RuleChange, StateError};

/// Journal in a folder, locked against other middleboxes.
///
/// Its file `rules` has the rules granted when it was written, and the changes since. When the changes
/// exceed the rules, the file is rewritten under another name and replaces the old one. Memory and
/// disk use are within a small factor of the rules' size.
#[derive(Debug)]
pub struct FileJournal {
    log: RuleLog<Folder>,
}

impl FileJournal {
    /// Opens the journal in a folder, which is created if it is missing, and reads the state of an
    /// earlier run. `salt` is part of the checksums; it must be random, so that agents can't know it.
    ///
    /// # Errors
    /// When another middlebox uses the folder, when the file has another version or is damaged in a
    /// way that a crash does not cause, and errors of the system. Nothing was changed then.
    pub fn open(folder: &Path, salt: [u8; 8]) -> Result<(Self, RecoveredState), StateError> {
        let (log, recovered) = RuleLog::open(Folder::open(folder)?, salt)?;
        Ok((Self { log }, recovered))
    }
}

impl Journal for FileJournal {
    fn record(&mut self, at: &ClockReadings, change: &RuleChange<'_>) {
        self.log.record(at, change);
    }

    fn commit(&mut self) -> Result<(), StateError> {
        self.log.commit()
    }
}
