//! The kernel's side of user notification: installation of the filter, and requests on the listener.
//!
//! The unsafe code of this crate: no crate has these calls (`seccompiler` has no notification, and
//! `libseccomp` binds a C library).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong};
use std::fmt;
use std::io;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::ptr::null;

use libc::{
    SECCOMP_ADDFD_FLAG_SETFD, SECCOMP_FILTER_FLAG_NEW_LISTENER,
    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SECCOMP_IOCTL_NOTIF_ADDFD,
    SECCOMP_IOCTL_NOTIF_ID_VALID, SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND,
    SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_SET_MODE_FILTER, SECCOMP_USER_NOTIF_FLAG_CONTINUE,
    seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp, sock_filter, sock_fprog,
};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Lets the kernel switch to the thread that it wakes (`SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`, Linux 6.6).
const SYNC_WAKE_UP: u64 = 1;

/// Restarts the call of a thread with a pending signal, or lets it return `EINTR`, as its `SA_RESTART` has it. The
/// kernel handles it before the thread returns to the program.
pub(crate) const RESTART: c_int = 512;

/// Flags of the filter. Without the second one, a signal would end a call whose message was taken.
const FLAGS: c_ulong = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

/// Reason why the kernel cannot supervise a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsupported {
    /// The kernel is older than 5.19, or has no seccomp.
    Kernel,
    /// The architecture is neither x86-64 nor 64-bit Arm.
    Architecture,
    /// The process may not take descriptors from another one (`pidfd_getfd`).
    Descriptors,
    /// The limit of open files is below the reserved numbers.
    OpenFiles,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => {
                "this kernel has no seccomp user notification that waits for the supervisor: Linux 5.19 or later is needed"
            }
            Self::Architecture => "this architecture is not supported: x86-64 or 64-bit Arm is needed",
            Self::Descriptors => {
                "the system call pidfd_getfd is not permitted: in a container, add the capability SYS_PTRACE or a seccomp profile that allows the call"
            }
            Self::OpenFiles => "the limit of open files is below 1024: raise it (ulimit -H -n)",
        })
    }
}

impl std::error::Error for Unsupported {}

/// Returns whether the kernel supports the filter.
pub(crate) fn is_supported() -> bool {
    // SAFETY: the kernel checks the flags, and then fails to read a program at address 0.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SECCOMP_SET_MODE_FILTER,
            FLAGS,
            null::<sock_fprog>(),
        )
    };
    failed == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Starts a program under a filter. It ends with this process.
///
/// Only the process itself can install its filter, after `fork` and in front of `exec`, where nothing may be allocated. The
/// listener then has to get to the parent: by a datagram socket pair, whose calls the filter allows, since a call that it
/// notifies of would wait for a supervisor that does not have the listener yet. The child closes its copy before `exec`.
pub(crate) fn spawn(
    command: &mut Command,
    filter: Vec<sock_filter>,
) -> io::Result<(Child, Listener)> {
    let (own, theirs) = UnixDatagram::pair()?;
    let parent = rustix::process::getpid();
    // SAFETY: the closure makes system calls only, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            if rustix::process::getppid() != Some(parent) {
                // The parent has ended before.
                return Err(Errno::SRCH.into());
            }
            let listener = install(&filter)?;
            let descriptors = [listener.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
            let byte = [IoSlice::new(&[0])];
            rustix::net::sendmsg(&theirs, &byte, &mut control, SendFlags::empty())?;
            Ok(())
        });
    }
    let child = command.spawn()?;
    Ok((child, Listener(receive_descriptor(&own)?)))
}

/// Installs the filter in this thread, and returns its listener.
fn install(filter: &[sock_filter]) -> io::Result<OwnedFd> {
    let program = sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel only reads the program, which has the length given.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::syscall(
            libc::SYS_seccomp,
            SECCOMP_SET_MODE_FILTER,
            FLAGS,
            &raw const program,
        );
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd as c_int))
    }
}

fn receive_descriptor(from: &UnixDatagram) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    rustix::net::recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.ok_or_else(|| Errno::MFILE.into())
}

/// Call of a thread that waits for a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notification {
    pub(crate) id: u64,
    /// Identifier of the thread.
    pub(crate) thread: i32,
    /// Number of the call.
    pub(crate) number: c_int,
    pub(crate) arguments: [u64; 6],
}

impl Notification {
    /// Returns an argument of type `int`.
    pub(crate) fn int(&self, at: usize) -> c_int {
        self.arguments[at] as c_int
    }
}

/// Reply to a notification.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    Value(i64),
    Error(Errno),
    /// A signal is pending, see [`RESTART`].
    Restart,
    /// The kernel performs the call.
    Continue,
}

/// Listener of a filter.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener {
    /// # Safety
    /// The argument is of the type of the request.
    unsafe fn request<T>(&self, request: libc::Ioctl, argument: *mut T) -> Result<c_int, Errno> {
        // SAFETY: as above.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if result >= 0 {
            return Ok(result);
        }
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }

    /// Lets the kernel prefer the thread that waits for a reply. Older kernels do not know that.
    pub(crate) fn prefer_wake_up(&self) {
        // SAFETY: the request has its argument by value.
        unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                SYNC_WAKE_UP,
            )
        };
    }

    /// Waits for a notification.
    ///
    /// # Errors
    /// `ENOENT`: the thread has ended before its notification was received, or no thread is left.
    pub(crate) fn receive(&self) -> Result<Notification, Errno> {
        // SAFETY: a structure of integers, which the kernel wants to be zero.
        let mut received: seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is that of the request.
        unsafe { self.request(SECCOMP_IOCTL_NOTIF_RECV, &raw mut received)? };
        Ok(Notification {
            id: received.id,
            thread: received.pid as i32,
            number: received.data.nr,
            arguments: received.data.args,
        })
    }

    /// Returns whether the thread still waits for the reply.
    pub(crate) fn is_valid(&self, notification: &Notification) -> bool {
        let mut id = notification.id;
        // SAFETY: the argument is that of the request.
        unsafe { self.request(SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id) }.is_ok()
    }

    /// Replies to a notification, if its thread still waits.
    pub(crate) fn reply(&self, notification: &Notification, reply: Reply) {
        let (val, error, flags) = match reply {
            Reply::Value(value) => (value, 0, 0),
            Reply::Error(error) => (0, -error.raw_os_error(), 0),
            Reply::Restart => (0, -RESTART, 0),
            Reply::Continue => (0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        };
        let mut sent = seccomp_notif_resp {
            id: notification.id,
            val,
            error,
            flags,
        };
        // A thread that was killed needs no reply.
        // SAFETY: the structure is that of the request.
        let _ = unsafe { self.request(SECCOMP_IOCTL_NOTIF_SEND, &raw mut sent) };
    }

    /// Adds a descriptor to the program at a number, and replaces the one that is there.
    pub(crate) fn add(
        &self,
        notification: &Notification,
        fd: BorrowedFd<'_>,
        number: u32,
        close_on_exec: bool,
    ) -> Result<c_int, Errno> {
        let mut added = seccomp_notif_addfd {
            id: notification.id,
            flags: SECCOMP_ADDFD_FLAG_SETFD as u32,
            srcfd: fd.as_raw_fd() as u32,
            newfd: number,
            newfd_flags: if close_on_exec {
                libc::O_CLOEXEC as u32
            } else {
                0
            },
        };
        // SAFETY: the structure is that of the request.
        unsafe { self.request(SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut added) }
    }
}
