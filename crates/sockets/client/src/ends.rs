//! Descriptors that have ended: calls on them need no request to the daemon any more.
//!
//! An end is remembered only when the kernel reports that the pair has hung up, from where nothing follows on it, and by
//! the cookie of the descriptor, which is never used again. A place is that of the last descriptor with its number;
//! without one, the call is a request as before.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

/// Number of descriptors that are remembered.
const PLACES: usize = 1 << 12;
/// Bit of the cookie of a descriptor whose daemon has ended.
const DAEMON: u64 = 1 << 63;

static ENDS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

/// Kind of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The association, and the program has been notified of its error.
    Association,
    /// The daemon: each call fails with `ECONNRESET`.
    Daemon,
}

fn place(cookie: u64) -> &'static AtomicU64 {
    &ENDS[cookie as usize % PLACES]
}

/// Returns the end of a descriptor that was remembered.
pub(crate) fn of(fd: BorrowedFd<'_>) -> Option<End> {
    let cookie = sockopt::socket_cookie(fd).ok()?;
    match place(cookie).load(Ordering::Relaxed) {
        found if found == cookie => Some(End::Association),
        found if found == cookie | DAEMON => Some(End::Daemon),
        _ => None,
    }
}

/// Remembers the end of a descriptor, if its pair has hung up.
pub(crate) fn remember(fd: BorrowedFd<'_>, end: End) {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    let is_polled = poll(&mut polled, Some(&Timespec::default())).is_ok();
    let has_hung_up = is_polled && polled[0].revents().contains(PollFlags::HUP);
    if let (true, Ok(cookie)) = (has_hung_up, sockopt::socket_cookie(fd)) {
        let bits = match end {
            End::Association => cookie,
            End::Daemon => cookie | DAEMON,
        };
        place(cookie).store(bits, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn an_end_is_that_of_a_pair_that_has_hung_up() {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let pair = || socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        for end in [End::Association, End::Daemon] {
            let (ours, theirs) = pair();
            remember(theirs.as_fd(), end);
            assert_eq!(of(theirs.as_fd()), None, "it is open");
            drop(ours);
            remember(theirs.as_fd(), end);
            let duplicate = theirs.try_clone().unwrap();
            assert_eq!(of(duplicate.as_fd()), Some(end));
            assert_eq!(of(pair().0.as_fd()), None, "another one");
        }
    }
}
