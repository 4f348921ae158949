//! File system operations of the rule file, as a trait, so that tests can simulate crashes.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::StateError;
use crate::private_files;

/// Folder with files.
pub(super) trait Storage {
    /// File opened for appending.
    type File;

    /// Returns the path of a file, for error messages.
    fn path(&self, name: &str) -> PathBuf;

    /// Reads a whole file; `None` if there is none.
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Creates an empty file, replacing one of the same name.
    fn create(&mut self, name: &str) -> io::Result<Self::File>;

    /// Appends octets to a file.
    fn append(&mut self, file: &mut Self::File, octets: &[u8]) -> io::Result<()>;

    /// Makes the contents of a file durable.
    fn sync(&mut self, file: &mut Self::File) -> io::Result<()>;

    /// Replaces a file atomically by another.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Makes names in the folder durable.
    fn sync_folder(&mut self) -> io::Result<()>;
}

/// Folder of the file system, locked against other middleboxes.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Holds the lock, which the system releases even after a crash.
    _lock: File,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, StateError> {
        let failed = |what| {
            move |source| StateError::Io {
                what,
                path: path.to_owned(),
                source,
            }
        };
        private_files::make_folder(path).map_err(failed("make the folder"))?;
        let lock = private_files::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("lock"));
        let lock = lock.map_err(failed("open the lock in"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(StateError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed("lock")(source)),
        }
    }
}

impl Storage for Folder {
    type File = File;

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(self.path.join(name)) {
            Ok(octets) => Ok(Some(octets)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&mut self, name: &str) -> io::Result<File> {
        let mut options = private_files::options();
        options.write(true).create(true).truncate(true);
        options.open(self.path.join(name))
    }

    fn append(&mut self, file: &mut File, octets: &[u8]) -> io::Result<()> {
        file.write_all(octets)
    }

    fn sync(&mut self, file: &mut File) -> io::Result<()> {
        file.sync_data()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}
