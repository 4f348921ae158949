//! Files in memory with state for the next process of the daemon.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, memfd_create};
use rustix::io::{Errno, pread, write};

/// Returns a file in memory with this content, sealed against changes.
pub(crate) fn sealed(content: &[u8]) -> rustix::io::Result<OwnedFd> {
    let file = memfd_create(
        "carrick-state",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = write(&file, rest)?;
        rest = &rest[written..];
    }
    fcntl_add_seals(
        &file,
        SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL,
    )?;
    Ok(file)
}

/// Returns the content of a file in memory.
pub(crate) fn content(file: &OwnedFd) -> rustix::io::Result<Vec<u8>> {
    let size = usize::try_from(fstat(file)?.st_size).map_err(|_| Errno::FBIG)?;
    let mut bytes = vec![0; size];
    let mut done = 0;
    while done < size {
        match pread(file, &mut bytes[done..], done as u64)? {
            0 => return Err(Errno::IO),
            len => done += len,
        }
    }
    Ok(bytes)
}
