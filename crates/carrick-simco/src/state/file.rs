//! The journal of a real middlebox.

use std::path::Path;

use super::log::Log;
use super::storage::Folder;
use super::{Journal, Moment, Recovered, RuleChange, StateError};

/// A journal in a folder of the system, which no other middlebox may have at the same time.
///
/// It has one file, `rules`: what was granted when it was written, and the changes since. When the
/// changes are more than that, the file is written anew under another name, and put in the old one's
/// place. Memory and disk are within a small factor of what the rules need.
#[derive(Debug)]
pub struct FileJournal {
    log: Log<Folder>,
}

impl FileJournal {
    /// Opens the journal in a folder, which is made if it isn't there, with what an earlier life left.
    /// `salt` goes into the checksums of what is written; it has to be random, as the system gives it,
    /// so that no agent can know it.
    ///
    /// # Errors
    /// When another middlebox has it, when the file is not of this version or damaged other than by a
    /// crash, and the system's. Nothing was changed then.
    pub fn open(folder: &Path, salt: [u8; 8]) -> Result<(Self, Recovered), StateError> {
        let (log, recovered) = Log::open(Folder::open(folder)?, salt)?;
        Ok((Self { log }, recovered))
    }
}

impl Journal for FileJournal {
    fn record(&mut self, at: &Moment, change: &RuleChange<'_>) {
        self.log.record(at, change);
    }

    fn commit(&mut self) -> Result<(), StateError> {
        self.log.commit()
    }
}
