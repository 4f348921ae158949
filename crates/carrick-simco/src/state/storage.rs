//! The few things that the rule file needs of a file system, so that tests can crash it.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::StateError;
use crate::private;

/// A folder with files.
pub(super) trait Storage {
    /// A file that is open for appending.
    type File;

    /// Where a file is, for error messages.
    fn path(&self, name: &str) -> PathBuf;

    /// All of a file; `None` if there is none.
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// A new empty file, in the place of one of the same name.
    fn create(&mut self, name: &str) -> io::Result<Self::File>;

    /// Puts octets at the end of a file.
    fn append(&mut self, file: &mut Self::File, octets: &[u8]) -> io::Result<()>;

    /// Makes the contents of a file durable.
    fn sync(&mut self, file: &mut Self::File) -> io::Result<()>;

    /// Puts a file in the place of another, at once.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Makes names in the folder durable.
    fn sync_folder(&mut self) -> io::Result<()>;
}

/// A folder of the system, locked against other middleboxes.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Held for its lock, which the system takes back even after a crash.
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
        private::make_folder(path).map_err(failed("make the folder"))?;
        let lock = private::options()
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
        let mut options = private::options();
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
