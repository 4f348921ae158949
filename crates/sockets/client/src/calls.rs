//! Calls on descriptors of Carrick, other than those that pass messages.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use carrick_ipc::{Description, Property, Request, SOCKETS_VARIABLE};
use carrick_sockets::linux::{
    AF_INET, AF_INET6, IPPROTO_SCTP, OptionInput, SCTP_SOCKOPT_CONNECTX, SCTP_SOCKOPT_CONNECTX_OLD,
    SCTP_SOCKOPT_CONNECTX3, SCTP_SOCKOPT_PEELOFF, SCTP_SOCKOPT_PEELOFF_FLAGS, SO_ERROR,
    SO_RCVTIMEO, SO_SNDTIMEO, SOCK_SEQPACKET, SOCK_STREAM, SOL_SOCKET,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, FdFlags};
use rustix::net::sockopt::{Timeout, socket_timeout};
use rustix::net::{RecvFlags, recv};

use crate::client::{self, DaemonReply};
use crate::ends::{self, End};
use crate::lock::ExclusiveAccess;
use crate::{memory, next, receive, table};

/// Limit of the time in which the next process of a service continues listening sockets.
const RESTART: Duration = Duration::from_secs(5);
/// Interval between attempts to reach it.
const PAUSE: Duration = Duration::from_millis(50);

/// Selection of the SCTP sockets that Carrick serves.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SocketSelection {
    Always = 1,
    /// Only sockets whose type the kernel does not support.
    Missing,
    Never,
}

/// Returns the selection of the environment (`CARRICK_SOCKETS`), which is read once.
pub(crate) fn choice() -> SocketSelection {
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        1 => return SocketSelection::Always,
        2 => return SocketSelection::Missing,
        3 => return SocketSelection::Never,
        _ => {}
    }
    let given = std::env::var_os(SOCKETS_VARIABLE).unwrap_or_default();
    let choice = match given.to_str() {
        Some("missing") => SocketSelection::Missing,
        Some("never") => SocketSelection::Never,
        Some("always" | "") => SocketSelection::Always,
        _ => {
            let line = format!(
                "carrick: {SOCKETS_VARIABLE} is neither always, missing nor never, but {:?}: all SCTP sockets are \
                 Carrick's\n",
                given.to_string_lossy()
            );
            // The program may have closed standard error.
            let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
            SocketSelection::Always
        }
    };
    KNOWN.store(choice as u8, Ordering::Relaxed);
    choice
}

/// Returns whether the arguments of `socket` are those of an SCTP socket.
pub(crate) fn is_sctp(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    let kind = kind & 0xf;
    let style = kind == SOCK_STREAM || kind == SOCK_SEQPACKET;
    let sctp = protocol == IPPROTO_SCTP || protocol == 0 && kind == SOCK_SEQPACKET;
    matches!(domain, AF_INET | AF_INET6) && style && sctp
}

/// Creates a socket. Returns the error of a kernel without SCTP if no daemon answers.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int, Errno> {
    let (fd, description) = new_socket(domain, kind, protocol)?;
    Ok(take(fd, description, kind & libc::SOCK_NONBLOCK != 0))
}

/// Creates a socket that has no entry in the table.
pub(crate) fn new_socket(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> Result<(OwnedFd, Description), Errno> {
    let request = Request::Socket {
        domain,
        kind: kind & 0xf,
        protocol,
    };
    let unsupported = if kind & 0xf == SOCK_STREAM {
        Errno::PROTONOSUPPORT
    } else {
        Errno::SOCKTNOSUPPORT
    };
    let close_on_exec = kind & libc::SOCK_CLOEXEC != 0;
    let answer = client::request(&request, None, close_on_exec).map_err(|_| unsupported)?;
    check(answer.error)?;
    let fd = answer.attached.ok_or(Errno::MFILE)?;
    Ok((fd, answer.description))
}

/// Adds a new descriptor to the table, and returns its number to the program.
pub(crate) fn take(fd: OwnedFd, description: Description, nonblocking: bool) -> c_int {
    use std::os::fd::AsFd;
    if nonblocking {
        set_nonblocking(fd.as_fd());
    }
    table::insert(fd.as_fd(), description);
    fd.into_raw_fd()
}

pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) {
    if let Ok(flags) = fcntl_getfl(fd) {
        // The flag is valid for every file.
        let _ = fcntl_setfl(fd, flags | OFlags::NONBLOCK);
    }
}

fn check(error: c_int) -> Result<(), Errno> {
    match error {
        0 => Ok(()),
        number => Err(Errno::from_raw_os_error(number)),
    }
}

/// Performs a request on a descriptor, and stores its new description.
pub(crate) fn call(fd: BorrowedFd<'_>, request: &Request<'_>) -> Result<DaemonReply, Errno> {
    let answer = ask(fd, request)?;
    check(answer.error)?;
    Ok(answer)
}

/// Performs a request on a descriptor, with the file of a message, and stores its new description.
pub(crate) fn call_with(
    fd: BorrowedFd<'_>,
    request: &Request<'_>,
    message: BorrowedFd<'_>,
) -> Result<DaemonReply, Errno> {
    let answer = ask_with(fd, request, &[fd, message])?;
    check(answer.error)?;
    Ok(answer)
}

/// Performs a request on a descriptor, and stores its new description. An error of the call is part of the reply.
fn ask(fd: BorrowedFd<'_>, request: &Request<'_>) -> Result<DaemonReply, Errno> {
    ask_with(fd, request, &[fd])
}

fn ask_with(
    fd: BorrowedFd<'_>,
    request: &Request<'_>,
    attached: &[BorrowedFd<'_>],
) -> Result<DaemonReply, Errno> {
    if ends::of(fd) == Some(End::Daemon) {
        return Err(Errno::CONNRESET);
    }
    let answer = request_patiently(fd, request, attached).map_err(|error| {
        if is_absent(error) {
            ends::remember(fd, End::Daemon);
        }
        // Without a daemon, the association is lost as with a peer that was restarted.
        Errno::CONNRESET
    })?;
    if answer.error == libc::ENOTSOCK {
        // Another daemon has taken its place.
        ends::remember(fd, End::Daemon);
        return Err(Errno::CONNRESET);
    }
    table::insert(fd, answer.description);
    Ok(answer)
}

/// Returns whether an error means that there is no daemon.
fn is_absent(error: Errno) -> bool {
    matches!(error, Errno::CONNREFUSED | Errno::NOENT)
}

/// Sends a request about a descriptor. While there is no daemon and the pair is open, the service manager keeps the
/// daemon's end of a listening socket: its next process continues the descriptor, so that the request is repeated.
fn request_patiently(
    fd: BorrowedFd<'_>,
    request: &Request<'_>,
    attached: &[BorrowedFd<'_>],
) -> Result<DaemonReply, Errno> {
    let mut answer = client::request_with(request, attached, false);
    for _ in 0..RESTART.as_millis() / PAUSE.as_millis() {
        if !matches!(answer, Err(error) if is_absent(error)) {
            break;
        }
        let hang_up = PollFd::from_borrowed_fd(fd, PollFlags::empty());
        if wait_for(hang_up, Some(PAUSE), Errno::AGAIN) != Err(Errno::AGAIN) {
            break;
        }
        answer = client::request_with(request, attached, false);
    }
    answer
}

/// Returns and clears the pending error of a socket.
pub(crate) fn error_of(fd: BorrowedFd<'_>) -> Option<Errno> {
    take_error(fd).err()
}

/// Clears the pending error of a socket, which is the error of this call, or returns the description of the socket.
pub(crate) fn take_error(fd: BorrowedFd<'_>) -> Result<Description, Errno> {
    let request = Request::GetOption {
        level: SOL_SOCKET,
        name: SO_ERROR,
        buffer: &[0; 4],
    };
    let answer = call(fd, &request)?;
    let number = answer
        .value
        .first_chunk()
        .map_or(0, |v| i32::from_ne_bytes(*v));
    check(number)?;
    Ok(answer.description)
}

/// Checks that a message can arrive, before a call waits for one: the socket has an association, or accepts some.
///
/// # Errors
/// `ENOTCONN` as on Linux, or the pending error.
pub(crate) fn check_source(fd: BorrowedFd<'_>, socket: Description) -> Result<(), Errno> {
    let can_receive = [
        Property::Listening,
        Property::Connecting,
        Property::Established,
    ];
    if can_receive.iter().any(|property| socket.has(*property)) {
        // The end of an association ends the wait.
        return Ok(());
    }
    let answer = call(fd, &Request::Describe)?;
    if answer.value.first() != Some(&carrick_ipc::NO_SOURCE) || receive::is_readable(fd) {
        return Ok(());
    }
    check(answer.result)?;
    Err(Errno::NOTCONN)
}

pub(crate) fn is_nonblocking(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

/// Waits until a descriptor is writable, at most for the time of `SO_SNDTIMEO`; then `late` is the error.
pub(crate) fn wait_writable(fd: BorrowedFd<'_>, late: Errno) -> Result<(), Errno> {
    let wait = PollFd::from_borrowed_fd(fd, PollFlags::OUT);
    wait_for(wait, socket_timeout(fd, Timeout::Send).ok().flatten(), late)
}

fn wait_for(wait: PollFd<'_>, limit: Option<Duration>, late: Errno) -> Result<(), Errno> {
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    });
    match poll(&mut [wait], limit.as_ref())? {
        0 => Err(late),
        _ => Ok(()),
    }
}

/// Starts an association and waits for it if the descriptor blocks. Returns its identifier with the
/// result.
pub(crate) fn connect(fd: BorrowedFd<'_>, addresses: &[u8]) -> (c_int, Result<(), Errno>) {
    let answer = match start_connect(fd, addresses) {
        Ok(answer) => answer,
        Err(error) => return (0, Err(error)),
    };
    if answer.description.has(Property::OneToMany) {
        let done = match (check(answer.error), answer.attached) {
            (Err(Errno::INPROGRESS), Some(result)) => wait_setup(fd, &result),
            (done, _) => done,
        };
        return (answer.result, done);
    }
    if let Some(new) = &answer.attached
        && let Err(error) = replace(fd, new, answer.description)
    {
        return (answer.result, Err(error));
    }
    let done = match check(answer.error) {
        // The set-up never completes at once.
        Err(Errno::INPROGRESS) => wait_connected(fd),
        done => done,
    };
    (answer.result, done)
}

/// Starts an association. The reply has the error of the call, and a descriptor attached in two cases: the result of
/// a set-up of a one-to-many socket that blocks, or the pair that replaces the one of a socket with one association.
pub(crate) fn start_connect(fd: BorrowedFd<'_>, addresses: &[u8]) -> Result<DaemonReply, Errno> {
    ask(fd, &Request::Connect { addresses })
}

fn wait_connected(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    if is_nonblocking(fd) {
        return Err(Errno::INPROGRESS);
    }
    wait_writable(fd, Errno::INPROGRESS)?;
    connected(fd)
}

/// Returns the result of the set-up of the only association, when the descriptor is writable.
pub(crate) fn connected(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // The error stays pending, as on Linux.
    let answer = call(fd, &Request::Describe)?;
    check(answer.result)?;
    let has = |property| answer.description.has(property);
    if has(Property::Connecting) || has(Property::Established) || has(Property::WriteClosed) {
        return Ok(());
    }
    // Another thread has read the error.
    Err(Errno::CONNREFUSED)
}

/// Waits for the end of the associations of a closed socket, at most for the time of `SO_LINGER`. Does not wait if
/// another descriptor refers to the socket. A signal ends the wait, as on Linux.
pub(crate) fn linger(cookie: u64) {
    // Without an answer, the daemon has ended with all associations.
    let answer = client::request(&Request::Linger { cookie }, None, true);
    let Ok(Some((closing, seconds))) = answer.map(|a| Some((a.attached?, a.result))) else {
        return;
    };
    let limit = Timespec {
        tv_sec: seconds.into(),
        tv_nsec: 0,
    };
    let _ = poll(&mut [PollFd::new(&closing, PollFlags::IN)], Some(&limit));
}

/// Waits for the result of the set-up of an association of a one-to-many socket.
fn wait_setup(fd: BorrowedFd<'_>, result: &OwnedFd) -> Result<(), Errno> {
    let wait = PollFd::new(result, PollFlags::IN);
    let limit = socket_timeout(fd, Timeout::Send).ok().flatten();
    wait_for(wait, limit, Errno::INPROGRESS)?;
    set_up(result)
}

/// Reads the result of the set-up of an association of a one-to-many socket; `EAGAIN` before it is known.
pub(crate) fn set_up(result: &OwnedFd) -> Result<(), Errno> {
    let mut number = [0; 4];
    match recv(result, &mut number, RecvFlags::DONTWAIT)? {
        (4, _) => check(i32::from_ne_bytes(number)),
        // The daemon has ended.
        _ => Err(Errno::CONNRESET),
    }
}

/// Replaces a descriptor whose pair cannot be used again; the number remains.
///
/// The pair of a set-up that failed has hung up, and the kernel has no way to open one again, whereas a program may call
/// `connect` again on its descriptor. `dup3` replaces the file in one step, so that no other thread gets the number in
/// between; other duplicates of the descriptor keep the old pair.
fn replace(fd: BorrowedFd<'_>, new: &OwnedFd, description: Description) -> Result<(), Errno> {
    let kept = rustix::io::fcntl_getfd(fd)?;
    copy_settings(fd, new)?;
    let flags = if kept.contains(FdFlags::CLOEXEC) {
        libc::O_CLOEXEC
    } else {
        0
    };
    // SAFETY: both descriptors are open; the number is the program's, before and after.
    if unsafe { next::dup3(new.as_raw_fd(), fd.as_raw_fd(), flags) } < 0 {
        return Err(Errno::BADF);
    }
    table::insert(fd, description);
    Ok(())
}

/// Copies the settings of a pair that the kernel keeps to the pair that replaces it.
pub(crate) fn copy_settings(fd: BorrowedFd<'_>, new: &OwnedFd) -> Result<(), Errno> {
    if is_nonblocking(fd) {
        fcntl_setfl(new, fcntl_getfl(new)? | OFlags::NONBLOCK)?;
    }
    for limit in [Timeout::Recv, Timeout::Send] {
        let timeout = socket_timeout(fd, limit)?;
        rustix::net::sockopt::set_socket_timeout(new, limit, timeout)?;
    }
    Ok(())
}

/// `accept4`
pub(crate) fn accept(
    fd: BorrowedFd<'_>,
    socket: Description,
    flags: c_int,
) -> Result<(c_int, Option<std::net::SocketAddr>), Errno> {
    check_accept(fd, socket, flags)?;
    let accepted = receive::accept(fd, flags & libc::SOCK_CLOEXEC != 0, true)?;
    let number = take(
        accepted.fd,
        accepted.description,
        flags & libc::SOCK_NONBLOCK != 0,
    );
    Ok((number, accepted.peer))
}

/// Checks the arguments of `accept4` and the state of the socket.
pub(crate) fn check_accept(
    fd: BorrowedFd<'_>,
    mut socket: Description,
    flags: c_int,
) -> Result<(), Errno> {
    if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
        return Err(Errno::INVAL);
    }
    if !socket.has(Property::Listening) {
        // Another process may have made it listen.
        socket = call(fd, &Request::Describe)?.description;
    }
    if socket.has(Property::OneToMany) {
        return Err(Errno::OPNOTSUPP);
    }
    if !socket.has(Property::Listening) {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// Limit of the value of an option in bytes.
pub(crate) const MAX_VALUE: usize = 1 << 16;

/// `getsockopt` with a buffer of `size` bytes, of which `given` are the first, up to the end of the fields that the option
/// reads ([`OptionInput`]). Nothing else of the buffer leaves the process. Returns the value and the result, also of a
/// call that has a value and fails.
pub(crate) fn get_option(
    fd: BorrowedFd<'_>,
    (level, name): (c_int, c_int),
    given: &[u8],
    size: usize,
) -> Result<(Vec<u8>, Result<c_int, Errno>), Errno> {
    match (level, name) {
        (IPPROTO_SCTP, SCTP_SOCKOPT_PEELOFF | SCTP_SOCKOPT_PEELOFF_FLAGS) => {
            // As on Linux, the result is the descriptor.
            return peel_off(fd, name, given).map(|(value, number)| (value, Ok(number)));
        }
        (IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX3) => return connect_list(fd, given),
        _ => {}
    }
    if (level, name) == (SOL_SOCKET, SO_ERROR) {
        // The pair reports the error of a set-up that failed until it is read there as well.
        let _ = rustix::net::sockopt::socket_error(fd);
    }
    let buffer = OptionInput::of(level, name).copy(given, size.min(MAX_VALUE));
    let request = Request::GetOption {
        level,
        name,
        buffer: &buffer,
    };
    Ok((call(fd, &request)?.value, Ok(0)))
}

/// Returns whether an option branches an association off (`sctp_peeloff`).
pub(crate) fn is_branching(level: c_int, name: c_int) -> bool {
    level == IPPROTO_SCTP && matches!(name, SCTP_SOCKOPT_PEELOFF | SCTP_SOCKOPT_PEELOFF_FLAGS)
}

/// Returns whether an option of level `IPPROTO_SCTP` is a call rather than a value: it has a pointer, returns a descriptor,
/// or waits.
pub(crate) fn is_special(name: c_int) -> bool {
    matches!(
        name,
        SCTP_SOCKOPT_PEELOFF
            | SCTP_SOCKOPT_PEELOFF_FLAGS
            | SCTP_SOCKOPT_CONNECTX
            | SCTP_SOCKOPT_CONNECTX_OLD
            | SCTP_SOCKOPT_CONNECTX3
    )
}

/// `sctp_peeloff`: the value is `struct sctp_peeloff_arg`, or `sctp_peeloff_flags_arg`. Returns it with the
/// number of the new descriptor.
fn peel_off(fd: BorrowedFd<'_>, name: c_int, buffer: &[u8]) -> Result<(Vec<u8>, c_int), Errno> {
    let (branched, flags) = branch_off(fd, name, buffer)?;
    // The description is that of the socket that it was branched off from.
    let number = take(
        branched,
        Description::default(),
        flags & libc::SOCK_NONBLOCK != 0,
    );
    table::forget(number);
    let mut value = buffer.to_vec();
    value[4..8].copy_from_slice(&number.to_ne_bytes());
    Ok((value, number))
}

/// Branches an association off by the value of an option, of 8 bytes at least. Returns its descriptor with the flags
/// that it shall have.
pub(crate) fn branch_off(
    fd: BorrowedFd<'_>,
    name: c_int,
    buffer: &[u8],
) -> Result<(OwnedFd, c_int), Errno> {
    let word = |at: usize| {
        let part = buffer.get(at..at + 4).and_then(|part| part.first_chunk());
        part.map(|part| i32::from_ne_bytes(*part))
            .ok_or(Errno::INVAL)
    };
    let association = word(0)?;
    word(4)?;
    let flags = if name == SCTP_SOCKOPT_PEELOFF_FLAGS {
        word(8)?
    } else {
        0
    };
    let request = Request::Peeloff { association };
    check_room()?;
    let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
    let answer = {
        // The daemon takes messages from the descriptor and passes them again, in their order.
        let _exclusive = ExclusiveAccess::new(fd);
        client::request(&request, Some(fd), close_on_exec)
    };
    let answer = answer.map_err(|_| Errno::CONNRESET)?;
    check(answer.error)?;
    let branched = answer.attached.ok_or(Errno::MFILE)?;
    Ok((branched, flags))
}

/// Checks that the process has room for another descriptor. Without it the kernel drops the one that comes with a frame
/// or a reply, and with it the association.
///
/// # Errors
/// `EMFILE` and `ENFILE`, as those calls of the kernel return at once that open a descriptor.
pub(crate) fn check_room() -> Result<(), Errno> {
    // No duplicate of a socket: closing one would release the record lock of another thread ([`ExclusiveAccess`]).
    eventfd(0, EventfdFlags::CLOEXEC).map(drop)
}

/// `sctp_connectx` of libsctp: the value is `struct sctp_getaddrs_old` with a pointer to the addresses;
/// the association's identifier takes the place of the first field.
fn connect_list(
    fd: BorrowedFd<'_>,
    buffer: &[u8],
) -> Result<(Vec<u8>, Result<c_int, Errno>), Errno> {
    let size = buffer.get(4..8).and_then(|part| part.first_chunk());
    let size = size.map(|part| i32::from_ne_bytes(*part));
    let pointer = buffer.get(8..16).and_then(|part| part.first_chunk());
    let pointer = pointer.map(|part| usize::from_ne_bytes(*part));
    let (Some(size), Some(pointer)) = (size, pointer) else {
        return Err(Errno::INVAL);
    };
    let size = usize::try_from(size).map_err(|_| Errno::INVAL)?;
    if size == 0 || size > MAX_VALUE {
        return Err(Errno::INVAL);
    }
    let addresses = std::ptr::with_exposed_provenance::<u8>(pointer);
    memory::check_readable(addresses.cast(), size)?;
    // SAFETY: the option's value has the address and the size in bytes of a list of the program's, which the process can
    // read.
    let addresses = unsafe { std::slice::from_raw_parts(addresses, size) };
    let (association, done) = connect(fd, addresses);
    Ok((association.to_ne_bytes().to_vec(), done.map(|()| 0)))
}

/// `setsockopt`; returns the result.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &[u8],
) -> Result<c_int, Errno> {
    match (level, name) {
        (IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX) => {
            let (association, done) = connect(fd, value);
            return done.map(|()| association);
        }
        // Of old versions of libsctp, and those that `dlsym` finds.
        (IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX_OLD) => return connect(fd, value).1.map(|()| 0),
        _ => {}
    }
    if value.len() > MAX_VALUE {
        return Err(Errno::INVAL);
    }
    let request = Request::SetOption { level, name, value };
    let answer = call(fd, &request)?;
    if level == SOL_SOCKET && matches!(name, SO_RCVTIMEO | SO_SNDTIMEO) {
        // Blocking calls block on the pair.
        // SAFETY: the value and its size belong together.
        unsafe {
            next::setsockopt(
                fd.as_raw_fd(),
                level,
                name,
                value.as_ptr().cast::<c_void>(),
                value.len() as libc::socklen_t,
            )
        };
    }
    Ok(answer.result)
}
