//! Identifiers of associations that programs may know from a daemon that was killed.
//!
//! A one-to-many socket outlasts its associations when it is restored. A program that still has the identifier of one
//! would send its messages to the peer of another association if that got the same identifier. So identifiers are reserved
//! in blocks, before they are used: a file in memory, which the service manager holds, has the end of the
//! last block, and the next process begins there.

use std::os::fd::OwnedFd;

use carrick_sockets::AssocId;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, pwrite};

use crate::memory_file::content;

/// Number of identifiers that are reserved at once.
const BLOCK: u32 = 1 << 16;
/// Number of reserved identifiers from which on others are reserved: more than one round of the task uses.
const MARGIN: u32 = BLOCK / 2;

/// Identifiers that are reserved.
#[derive(Debug)]
pub(crate) struct AssociationIds {
    file: OwnedFd,
    /// First identifier that is not reserved.
    end: AssocId,
}

impl AssociationIds {
    /// Reserves the first block, from the next identifier on.
    pub(crate) fn create(next: AssocId) -> rustix::io::Result<Self> {
        let file = memfd_create("carrick-associations", MemfdFlags::CLOEXEC)?;
        let mut ids = Self { file, end: next };
        ids.write(next.after(BLOCK))?;
        Ok(ids)
    }

    /// Continues the file of a process that was killed; `None` if it has no identifier. [`Self::end`] is the next one.
    pub(crate) fn adopt(file: OwnedFd) -> Option<Self> {
        let bytes = content(&file).ok()?;
        let number = i32::from_be_bytes(bytes.try_into().ok()?);
        let end = AssocId::from_number(number)?;
        Some(Self { file, end })
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Returns the first identifier that is not reserved.
    pub(crate) fn end(&self) -> AssocId {
        self.end
    }

    /// Reserves another block if the next identifier is close to the end of the last one.
    pub(crate) fn reserve(&mut self, next: AssocId) {
        // Identifiers beyond the end are more than a block in front of it.
        if !(MARGIN..=BLOCK).contains(&next.distance_to(self.end)) {
            // Without memory, the next round tries again.
            let _ = self.write(next.after(BLOCK));
        }
    }

    fn write(&mut self, end: AssocId) -> rustix::io::Result<()> {
        let bytes = end.number().to_be_bytes();
        if pwrite(&self.file, &bytes, 0)? != bytes.len() {
            return Err(Errno::IO);
        }
        self.end = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_reserved_before_they_are_used() {
        let first = AssocId::from_number(3).unwrap();
        let mut ids = AssociationIds::create(first).unwrap();
        let end = |ids: &AssociationIds| {
            let file = ids.file.try_clone().unwrap();
            AssociationIds::adopt(file).unwrap().end()
        };
        assert_eq!(end(&ids), first.after(BLOCK));
        ids.reserve(first.after(MARGIN));
        assert_eq!(end(&ids), first.after(BLOCK));
        ids.reserve(first.after(MARGIN + 1));
        assert_eq!(end(&ids), first.after(MARGIN + 1 + BLOCK));
        // The first identifier follows the last one.
        let last = AssocId::from_number(i32::MAX).unwrap();
        ids.reserve(last);
        assert_eq!(end(&ids).number(), 2 + BLOCK as i32);
        ids.reserve(last.after(1));
        assert_eq!(end(&ids), last.after(BLOCK));
    }
}
