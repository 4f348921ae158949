//! Simulated disk that crashes on demand.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use crate::state::storage::Storage;

/// State that survives a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Crash {
    /// The process dies; the system continues.
    Kill,
    /// Power failure: unsynced data survive in part (in eighths), names are the old ones.
    Power(usize),
    /// Power failure after the names were stored.
    PowerAfterNames(usize),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    data: Vec<u8>,
    durable: usize,
}

#[derive(Clone, Debug, Default)]
struct Inner {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Number of operations until the crash.
    left: Option<usize>,
    /// Part of an interrupted write that is stored, in eighths.
    part: usize,
    crashed: bool,
}

/// Simulated disk. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Rc<RefCell<Inner>>);

impl Disk {
    /// Crashes after this number of operations; a write interrupted by the crash stores a part of
    /// `eighths`.
    pub(super) fn crash_after(&self, operations: usize, eighths: usize) {
        let mut inner = self.0.borrow_mut();
        inner.left = Some(operations);
        inner.part = eighths;
    }

    /// Returns the disk as found after a crash.
    pub(super) fn after(&self, crash: Crash) -> Self {
        let mut inner = self.0.borrow().clone();
        inner.left = None;
        match crash {
            Crash::Kill => {}
            Crash::Power(eighths) | Crash::PowerAfterNames(eighths) => {
                if let Crash::Power(_) = crash {
                    inner.names = inner.durable_names.clone();
                }
                for inode in &mut inner.inodes {
                    let rest = inode.data.len() - inode.durable;
                    inode.data.truncate(inode.durable + rest * eighths / 8);
                }
            }
        }
        Self(Rc::new(RefCell::new(inner)))
    }

    /// Returns whether an operation has failed.
    pub(super) fn crashed(&self) -> bool {
        self.0.borrow().crashed
    }

    pub(super) fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let inner = self.0.borrow();
        let inode = *inner.names.get(name)?;
        Some(inner.inodes[inode].data.clone())
    }

    /// Returns a disk with one file.
    pub(super) fn holding(name: &str, data: Vec<u8>) -> Self {
        let durable = data.len();
        let names = BTreeMap::from([(name.to_owned(), 0)]);
        Self(Rc::new(RefCell::new(Inner {
            inodes: vec![Inode { data, durable }],
            names: names.clone(),
            durable_names: names,
            ..Inner::default()
        })))
    }

    fn operate(&self) -> io::Result<std::cell::RefMut<'_, Inner>> {
        let mut inner = self.0.borrow_mut();
        match &mut inner.left {
            Some(0) => {
                inner.crashed = true;
                Err(io::Error::other("crash"))
            }
            Some(left) => {
                *left -= 1;
                Ok(inner)
            }
            None => Ok(inner),
        }
    }
}

impl Storage for Disk {
    type File = usize;

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(name)
    }

    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        drop(self.operate()?);
        Ok(self.contents(name))
    }

    fn create(&mut self, name: &str) -> io::Result<usize> {
        let mut inner = self.operate()?;
        inner.inodes.push(Inode::default());
        let inode = inner.inodes.len() - 1;
        inner.names.insert(name.to_owned(), inode);
        Ok(inode)
    }

    fn append(&mut self, file: &mut usize, octets: &[u8]) -> io::Result<()> {
        let whole = self.operate().map(drop);
        let mut inner = self.0.borrow_mut();
        let length = match whole {
            Ok(()) => octets.len(),
            Err(_) => octets.len() * inner.part / 8,
        };
        inner.inodes[*file]
            .data
            .extend_from_slice(&octets[..length]);
        // The process crashes only once.
        inner.part = 0;
        whole
    }

    fn sync(&mut self, file: &mut usize) -> io::Result<()> {
        let mut inner = self.operate()?;
        let inode = &mut inner.inodes[*file];
        inode.durable = inode.data.len();
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.operate()?;
        let inode = inner.names.remove(from);
        let inode = inode.ok_or_else(|| io::Error::other("no such file"))?;
        inner.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        let mut inner = self.operate()?;
        inner.durable_names = inner.names.clone();
        Ok(())
    }
}
