//! Descriptors of this process: which are Carrick's, and their descriptions.
//!
//! A program may close a descriptor in ways that this crate does not see, and the number may then belong
//! to another file. So a known descriptor is recognised by its cookie (`SO_COOKIE`) with each call. An
//! unknown one, after `exec` for example, is identified by a request to the daemon, once.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use carrick_ipc::{Description, Request};
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::client;

/// Number of descriptors with an entry; those above are identified with each call.
const ENTRIES: usize = 1 << 16;
/// Cookie of a descriptor that has not been identified.
const UNKNOWN: u64 = 0;
/// Cookie of a descriptor that is not Carrick's.
const OTHER: u64 = u64::MAX;

static COOKIES: [AtomicU64; ENTRIES] = [const { AtomicU64::new(UNKNOWN) }; ENTRIES];
static DESCRIPTIONS: [AtomicU64; ENTRIES] = [const { AtomicU64::new(0) }; ENTRIES];

/// Set if descriptors that are not Carrick's are remembered.
static REMEMBERS_OTHERS: AtomicBool = AtomicBool::new(false);

/// Remembers descriptors that are not Carrick's from now on, so that calls on them cost nothing more. The program has to
/// close and duplicate all descriptors by the functions of this crate.
pub fn remember_other_descriptors() {
    REMEMBERS_OTHERS.store(true, Ordering::Relaxed);
}

fn entry(fd: c_int) -> Option<usize> {
    usize::try_from(fd).ok().filter(|fd| *fd < ENTRIES)
}

/// Returns the description of a descriptor of Carrick; `None` for other descriptors.
pub(crate) fn find(fd: c_int) -> Option<Description> {
    if fd < 0 {
        return None;
    }
    let known = entry(fd).map_or(UNKNOWN, |at| COOKIES[at].load(Ordering::Acquire));
    if known == OTHER {
        return None;
    }
    // SAFETY: the number is not negative, and the descriptor is only used in system calls, which report
    // one that is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    if known != UNKNOWN && sockopt::socket_cookie(borrowed) == Ok(known) {
        let bits = entry(fd).map_or(0, |at| DESCRIPTIONS[at].load(Ordering::Relaxed));
        return Some(Description::from_bits(bits));
    }
    identify(borrowed)
}

/// Returns the cookie and the description of a descriptor of Carrick that has been identified.
pub(crate) fn known(fd: c_int) -> Option<(u64, Description)> {
    let at = entry(fd)?;
    let cookie = COOKIES[at].load(Ordering::Acquire);
    if [UNKNOWN, OTHER].contains(&cookie) {
        return None;
    }
    // SAFETY: the number is not negative; a system call reports a descriptor that is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let bits = DESCRIPTIONS[at].load(Ordering::Relaxed);
    let is_same = sockopt::socket_cookie(borrowed) == Ok(cookie);
    is_same.then(|| (cookie, Description::from_bits(bits)))
}

/// Identifies a descriptor by a request to the daemon.
///
/// Only pairs of the kind that the daemon creates are asked about, and never the connection itself: the request would pass
/// it to the daemon on itself. A number that is not open is not remembered as one of another file, because the next
/// `socket` may return it.
fn identify(fd: BorrowedFd<'_>) -> Option<Description> {
    let number = fd.as_raw_fd();
    let domain = match sockopt::socket_domain(fd) {
        // Not open: the number may become Carrick's.
        Err(rustix::io::Errno::BADF) => return None,
        domain => domain,
    };
    let is_pair = domain == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(fd) == Ok(SocketType::SEQPACKET)
        && !client::is_connection(number);
    let described = is_pair.then(|| client::request(&Request::Describe, Some(fd), false));
    match described {
        Some(Ok(answer)) if answer.error == 0 => {
            insert(fd, answer.description);
            Some(answer.description)
        }
        _ => {
            if let Some(at) = entry(number)
                && REMEMBERS_OTHERS.load(Ordering::Relaxed)
            {
                COOKIES[at].store(OTHER, Ordering::Release);
            }
            None
        }
    }
}

/// Stores the description of a descriptor of Carrick.
pub(crate) fn insert(fd: BorrowedFd<'_>, description: Description) {
    if let Ok(cookie) = sockopt::socket_cookie(fd) {
        restore(fd.as_raw_fd(), cookie, description);
    }
}

/// Stores the description of a descriptor of Carrick with this cookie.
///
/// The description is stored first, and read after the cookie: a thread that finds the new cookie finds a description that
/// is not older.
pub(crate) fn restore(fd: c_int, cookie: u64, description: Description) {
    if let Some(at) = entry(fd) {
        DESCRIPTIONS[at].store(description.to_bits(), Ordering::Relaxed);
        COOKIES[at].store(cookie, Ordering::Release);
    }
}

/// Returns the last description that was stored for a number.
pub(crate) fn stored(fd: c_int) -> Option<Description> {
    let bits = entry(fd).map(|at| DESCRIPTIONS[at].load(Ordering::Relaxed));
    bits.map(Description::from_bits)
}

/// Removes a number that is closed or replaced.
pub(crate) fn forget(fd: c_int) {
    if let Some(at) = entry(fd) {
        COOKIES[at].store(UNKNOWN, Ordering::Release);
    }
}

/// Removes the numbers of a range.
pub(crate) fn forget_range(first: u32, last: u32) {
    for cookie in COOKIES.iter().take(last as usize + 1).skip(first as usize) {
        cookie.store(UNKNOWN, Ordering::Release);
    }
}

/// Adds a duplicate of a descriptor.
pub(crate) fn copy(from: c_int, to: c_int) {
    let Some(to) = entry(to) else {
        return;
    };
    let (cookie, bits) = entry(from).map_or((UNKNOWN, 0), |from| {
        (
            COOKIES[from].load(Ordering::Acquire),
            DESCRIPTIONS[from].load(Ordering::Relaxed),
        )
    });
    DESCRIPTIONS[to].store(bits, Ordering::Relaxed);
    COOKIES[to].store(cookie, Ordering::Release);
}
