//! Connection of this process to the daemon.

use std::ffi::c_int;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use carrick_ipc::{
    DAEMON_VARIABLE, Description, MAX_REPLY, Reply, Request, SYSTEM_SOCKET, user_socket,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with, sockopt,
};

use crate::lock::ProcessLock;

/// Lowest number of the connection's descriptor, above those that programs usually get.
const LOWEST: c_int = 500;

static LOCK: ProcessLock = ProcessLock::new();
/// Descriptor of the connection, or -1; written under the lock.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);
/// Identifier of the process that opened the connection. A child process opens another one.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// Cookie of the connection's socket (`SO_COOKIE`), which shows whether the program has closed the descriptor.
static COOKIE: AtomicU64 = AtomicU64::new(0);

/// Answer of the daemon.
#[derive(Debug)]
pub(crate) struct DaemonReply {
    /// 0, or an error number.
    pub(crate) error: c_int,
    pub(crate) result: c_int,
    pub(crate) description: Description,
    pub(crate) value: Vec<u8>,
    pub(crate) attached: Option<OwnedFd>,
}

/// Returns whether a descriptor is the connection to the daemon.
pub(crate) fn is_connection(fd: c_int) -> bool {
    CONNECTION.load(Ordering::Relaxed) == fd && OWNER.load(Ordering::Relaxed) == own_process()
}

/// Sends a request and waits for the answer. A descriptor in the answer is closed by `exec` if
/// `close_on_exec` is set.
///
/// # Errors
/// No daemon answers.
pub(crate) fn request(
    request: &Request<'_>,
    attached: Option<BorrowedFd<'_>>,
    close_on_exec: bool,
) -> Result<DaemonReply, Errno> {
    request_with(request, attached.as_slice(), close_on_exec)
}

/// As [`request`], with two descriptors at most.
///
/// A request is repeated once, on a new connection: the daemon may have been replaced since the last one, and the program may
/// have closed a descriptor that it does not know. The connection is recognised by its cookie, so that a program that uses the
/// number for another file gets no frames of this crate on it.
pub(crate) fn request_with(
    request: &Request<'_>,
    attached: &[BorrowedFd<'_>],
    close_on_exec: bool,
) -> Result<DaemonReply, Errno> {
    let _held = LOCK.hold();
    let known = current();
    let answer = match known {
        Some(connection) => exchange(connection, request, attached, close_on_exec),
        None => Err(Errno::PIPE),
    };
    match answer {
        // The daemon has ended, or has been started again.
        Err(_) => {
            let connection = open()?;
            match exchange(connection, request, attached, close_on_exec) {
                Err(Errno::PERM) => {
                    // The daemon takes files of connections that it has accepted.
                    exchange(connection, &Request::Describe, &[], close_on_exec)?;
                    exchange(connection, request, attached, close_on_exec)
                }
                answer => answer,
            }
        }
        answer => answer,
    }
}

fn own_process() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// Returns the connection, unless the program has closed it or belongs to the parent.
fn current() -> Option<BorrowedFd<'static>> {
    let number = CONNECTION.load(Ordering::Relaxed);
    if number < 0 || OWNER.load(Ordering::Relaxed) != own_process() {
        return None;
    }
    // SAFETY: the number is not negative. The descriptor stays open, unless the program closes it, which
    // the cookie shows.
    let connection = unsafe { BorrowedFd::borrow_raw(number) };
    let cookie = COOKIE.load(Ordering::Relaxed);
    (sockopt::socket_cookie(connection) == Ok(cookie)).then_some(connection)
}

/// Opens the connection, unless there is one, while the process can reach the control socket.
pub(crate) fn open_ahead() {
    let _held = LOCK.hold();
    if current().is_none() {
        // The next request tries again, and has the error.
        let _ = open();
    }
}

/// Opens a connection, which replaces the one before.
fn open() -> Result<BorrowedFd<'static>, Errno> {
    let address = SocketAddrUnix::new(path())?;
    let old = current();
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    connect(&socket, &address)?;
    let socket = rustix::io::fcntl_dupfd_cloexec(&socket, LOWEST).unwrap_or(socket);
    COOKIE.store(sockopt::socket_cookie(&socket)?, Ordering::Relaxed);
    if let Some(old) = old {
        // SAFETY: the descriptor is this library's, and nothing uses it after this.
        drop(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(old.as_raw_fd()) });
    }
    let number = socket.into_raw_fd();
    CONNECTION.store(number, Ordering::Relaxed);
    OWNER.store(own_process(), Ordering::Relaxed);
    // SAFETY: the descriptor is open, as above.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Control socket of a process that does not have it in its environment.
static DAEMON: OnceLock<String> = OnceLock::new();

/// Sets the path of the daemon's control socket, once.
pub(crate) fn use_daemon(path: &Path) {
    let _ = DAEMON.set(path.to_string_lossy().into_owned());
}

fn path() -> String {
    if let Some(path) = DAEMON.get() {
        return path.clone();
    }
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    variable(DAEMON_VARIABLE)
        .or_else(|| variable("XDG_RUNTIME_DIR").map(|directory| user_socket(&directory)))
        .unwrap_or_else(|| SYSTEM_SOCKET.into())
}

fn exchange(
    connection: BorrowedFd<'_>,
    request: &Request<'_>,
    attached: &[BorrowedFd<'_>],
    close_on_exec: bool,
) -> Result<DaemonReply, Errno> {
    let (bytes, data) = request.encode();
    let parts = [IoSlice::new(&bytes), IoSlice::new(data)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !attached.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(attached));
    }
    // Signals are blocked.
    sendmsg(connection, &parts, &mut control, SendFlags::NOSIGNAL)?;

    let mut buffer = vec![0; MAX_REPLY];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = if close_on_exec {
        RecvFlags::CMSG_CLOEXEC
    } else {
        RecvFlags::empty()
    };
    let received = recvmsg(
        connection,
        &mut [IoSliceMut::new(&mut buffer)],
        &mut control,
        flags,
    )?;
    let attached = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let reply = Reply::decode(&buffer[..received.bytes]).map_err(|_| Errno::PIPE)?;
    Ok(DaemonReply {
        error: reply.error,
        result: reply.result,
        description: reply.description,
        value: reply.value.to_vec(),
        attached,
    })
}
