//! Lock of a process that a child process never inherits.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::net::sockopt::socket_cookie;
use rustix::thread::futex;

/// Lock. Its value is twice the identifier of the process that holds it, plus 1 if a thread waits. After
/// `fork` the value in the child is the parent's, which the child ignores.
pub(crate) struct ProcessLock(AtomicU32);

/// Holder of a lock. Signals are blocked, so that no signal handler waits for a lock that its thread holds.
pub(crate) struct LockGuard<'a> {
    lock: &'a ProcessLock,
    signals: libc::sigset_t,
}

impl ProcessLock {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Holds the lock, with all signals blocked.
    ///
    /// A lock of the standard library would stay locked in a child process if another thread of its parent held it at
    /// `fork`, and nothing would ever unlock it there. The identifier of the holder's process in the value shows that. A
    /// thread that has waited takes the lock as one with waiters, since it cannot know whether it was the only one.
    pub(crate) fn hold(&self) -> LockGuard<'_> {
        let signals = block_signals();
        let own = (rustix::process::getpid().as_raw_nonzero().get() as u32) << 1;
        let mut wanted = own;
        loop {
            let current = self.0.load(Ordering::Relaxed);
            if current == 0 || current & !1 != own {
                let taken = self.0.compare_exchange_weak(
                    current,
                    wanted,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    return LockGuard {
                        lock: self,
                        signals,
                    };
                }
                continue;
            }
            let waits = own | 1;
            if current == waits
                || self
                    .0
                    .compare_exchange(current, waits, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                // A change of the value ends the wait as well.
                let _ = futex::wait(&self.0, futex::Flags::PRIVATE, waits, None);
                wanted = waits;
            }
        }
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        if self.lock.0.swap(0, Ordering::Release) & 1 != 0 {
            let _ = futex::wake(&self.lock.0, futex::Flags::PRIVATE, 1);
        }
        // SAFETY: the set is the one that the kernel returned.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.signals, null_mut()) };
    }
}

fn block_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: `sigfillset` writes the first set, and `pthread_sigmask` the second one; with valid
    // arguments neither fails.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Locks of the sockets of this process, by their cookies, which duplicates of a descriptor share.
static SOCKETS: [ProcessLock; 64] = [const { ProcessLock::new() }; 64];

/// Exclusive right to read from a descriptor, or to write several frames, among the threads of this
/// process and among the processes that share the descriptor. Among processes it is a record lock on the
/// socket, which the kernel releases when its holder ends.
pub(crate) struct ExclusiveAccess<'a> {
    fd: BorrowedFd<'a>,
    _held: LockGuard<'static>,
}

impl<'a> ExclusiveAccess<'a> {
    pub(crate) fn new(fd: BorrowedFd<'a>) -> Self {
        let cookie = socket_cookie(fd).unwrap_or(0);
        let held = SOCKETS[cookie as usize % SOCKETS.len()].hold();
        // Signals are blocked, so that only a deadlock of other locks of the program's makes it fail.
        let _ = fcntl_lock(fd, FlockOperation::LockExclusive);
        Self { fd, _held: held }
    }
}

impl Drop for ExclusiveAccess<'_> {
    fn drop(&mut self) {
        let _ = fcntl_lock(self.fd, FlockOperation::Unlock);
    }
}
