//! Checks of the program's pointers, where this crate uses memory that the kernel would use: calls with pointers to
//! memory that the process does not have fail with `EFAULT`, as those of the kernel do.
//!
//! Buffers of data are not checked here if they are passed to the kernel as they are. The checks are system calls that
//! fail, and change nothing: no signal handler takes part, and filters of system calls permit them wherever threads run.

use std::ffi::{c_long, c_void};

use rustix::io::Errno;

use crate::next;

/// Size of the smallest page in bytes.
const PAGE: usize = 4096;
/// `FUTEX_WAKE_OP` with `FUTEX_PRIVATE_FLAG`
const WAKE_OPERATION: c_long = 5 | 128;
/// `FUTEX_OP_ADD` of 0, compared with 0 (`FUTEX_OP_CMP_EQ`).
const ADD_NOTHING: c_long = 1 << 28;

/// Checks that the process can read memory.
///
/// # Errors
/// `EFAULT`
pub(crate) fn check_readable(start: *const c_void, len: usize) -> Result<(), Errno> {
    check(start.expose_provenance(), len, |address| {
        // A mask at the address, unless that is null, is read before the operation, which does not exist, is refused.
        [
            libc::SYS_rt_sigprocmask,
            -1,
            (address & !7).max(8) as c_long,
            0,
            8,
            0,
            0,
        ]
    })
}

/// Checks that the process can read and write memory.
///
/// # Errors
/// `EFAULT`
pub(crate) fn check_writable(start: *const c_void, len: usize) -> Result<(), Errno> {
    let no_waiter = 0_u32;
    let waker = (&raw const no_waiter).expose_provenance() as c_long;
    check(start.expose_provenance(), len, |address| {
        [
            libc::SYS_futex,
            waker,
            WAKE_OPERATION,
            0,
            0,
            (address & !3) as c_long,
            ADD_NOTHING,
        ]
    })
}

/// Checks one address of each page of a range by a system call, which is given by its number and arguments.
///
/// A copy that faults cannot be caught in a library: a handler of `SIGSEGV` is the program's. Access is that of pages, so
/// that an address of each page is enough. Memory that another thread unmaps after the check still faults, as a program's own
/// access would.
fn check(start: usize, len: usize, probe: impl Fn(usize) -> [c_long; 7]) -> Result<(), Errno> {
    let Some(last) = len.checked_sub(1) else {
        return Ok(());
    };
    let last = start.checked_add(last).ok_or(Errno::FAULT)?;
    // SAFETY: libc returns the location of the thread's `errno`, which calls that succeed shall not change.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let mut address = start;
    let mut checked = Ok(());
    while checked.is_ok() && address <= last {
        let [number, arguments @ ..] = probe(address);
        // SAFETY: the call has no effect, whatever the address is.
        let failed = unsafe { next::syscall(number, arguments) } < 0;
        // SAFETY: as above.
        if failed && unsafe { *errno } == libc::EFAULT {
            checked = Err(Errno::FAULT);
        }
        address = (address / PAGE + 1) * PAGE;
    }
    // SAFETY: as above.
    unsafe { *errno = before };
    checked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns two pages with an access.
    fn pages(access: i32) -> *mut c_void {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the mapping is new.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE, access, kind, -1, 0) };
        assert_ne!(mapped, libc::MAP_FAILED);
        mapped
    }

    #[test]
    fn memory_is_checked_page_by_page() {
        let own = [7_u8; 3 * PAGE];
        assert_eq!(check_readable(own.as_ptr().cast(), own.len()), Ok(()));
        assert_eq!(check_writable(own[1..].as_ptr().cast(), 4097), Ok(()));
        assert!(own.iter().all(|byte| *byte == 7), "nothing is changed");
        let (none, constant) = (pages(libc::PROT_NONE), pages(libc::PROT_READ));
        assert_eq!(check_readable(none, 1), Err(Errno::FAULT));
        assert_eq!(check_writable(none, 1), Err(Errno::FAULT));
        assert_eq!(check_readable(constant, 2 * PAGE), Ok(()));
        assert_eq!(check_writable(constant, 1), Err(Errno::FAULT));
        for null in [0, 8] {
            let null = std::ptr::without_provenance::<c_void>(null);
            assert_eq!(check_readable(null, 1), Err(Errno::FAULT));
            assert_eq!(check_readable(null, 0), Ok(()));
            assert_eq!(check_readable(null, usize::MAX), Err(Errno::FAULT));
        }
        // The range ends in a page without access.
        let both = pages(libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the page is part of the mapping, and nothing uses it.
        let changed = unsafe { libc::mprotect(both.byte_add(PAGE), PAGE, libc::PROT_NONE) };
        assert_eq!(changed, 0);
        let end = both.wrapping_byte_add(PAGE - 5);
        assert_eq!(check_writable(end, 5), Ok(()));
        assert_eq!(check_writable(end, 6), Err(Errno::FAULT));
        assert_eq!(check_readable(end, 6), Err(Errno::FAULT));
    }

    #[test]
    fn a_check_does_not_change_errno() {
        // SAFETY: libc returns the location of the thread's `errno`.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        unsafe { *errno = 42 };
        assert_eq!(check_readable(std::ptr::null(), 1), Err(Errno::FAULT));
        // SAFETY: as above.
        assert_eq!(unsafe { *errno }, 42);
    }
}
