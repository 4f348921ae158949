//! The calls of the program, performed in its place.

use std::cell::RefCell;
use std::ffi::{c_int, c_long};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use carrick_client::proxy::{self, ProxySocket, Received, SetupState, StartedSetup};
use carrick_sockets::ancillary::write_control;
use carrick_sockets::linux::{
    IPPROTO_SCTP, OptionInput, SCTP_SOCKOPT_CONNECTX, SCTP_SOCKOPT_CONNECTX_OLD,
    SCTP_SOCKOPT_CONNECTX3, SCTP_SOCKOPT_PEELOFF, SCTP_SOCKOPT_PEELOFF_FLAGS, write_address,
};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

use crate::kernel::{Notification, Reply};
use crate::memory::{Caller, Part, duplicate, long, one_part, word};
use crate::range;
use crate::supervisor::Supervisor;

/// Limit of what one call receives, in bytes; the rest of a larger message is received by the next one.
const MAX_RECEIVED: usize = 4 << 20;
/// Limit of a message to send in bytes, beyond that of any socket.
const MAX_SENT: usize = 64 << 20;
/// Limit of ancillary data, options and lists of addresses in bytes.
const MAX_VALUE: usize = 1 << 16;
/// Limit of an address in bytes: `struct sockaddr_storage`.
const MAX_ADDRESS: u32 = 128;
/// Limit of the messages of one call (`UIO_MAXIOV`).
const MAX_MESSAGES: usize = 1024;
/// Size of `struct msghdr` in bytes.
const MSGHDR: usize = 56;
/// Size of `struct mmsghdr` in bytes.
const MMSGHDR: u64 = 64;

/// Result of a call.
pub(crate) enum CallOutcome {
    Reply(Reply),
    Wait(ParkedCall),
}

/// Call that has to wait.
pub(crate) struct ParkedCall {
    pub(crate) socket: ProxySocket<'static>,
    pub(crate) event: AwaitedEvent,
    /// Limit of the time to wait.
    pub(crate) limit: Option<Duration>,
}

/// Event after which a call is performed again, or its set-up has a result.
pub(crate) enum AwaitedEvent {
    Readable,
    Writable,
    /// The descriptor is writable: the only association is set up, and the call returns this value.
    Connected(i64),
    /// The other descriptor is readable: it has the result of the set-up.
    SetUp(OwnedFd, i64),
}

impl ParkedCall {
    /// Returns the error of a call that has waited too long.
    pub(crate) fn late(&self) -> Errno {
        match self.event {
            AwaitedEvent::Readable | AwaitedEvent::Writable => Errno::AGAIN,
            _ => Errno::INPROGRESS,
        }
    }

    /// Returns the reply to a call that a signal of its thread ends.
    pub(crate) fn interrupted(&self) -> Reply {
        match self.event {
            // As in the kernel: a call with a time limit is not restarted, nor is a set-up.
            AwaitedEvent::Readable | AwaitedEvent::Writable if self.limit.is_none() => {
                Reply::Restart
            }
            _ => Reply::Error(Errno::INTR),
        }
    }
}

/// Result of an attempt to perform a call.
enum Attempt {
    Value(i64),
    Continue,
    /// A set-up has begun, on the pair that has replaced the one of the descriptor, if there is one.
    SetUp(AwaitedEvent, Option<OwnedFd>),
}

fn done(result: Result<(), Errno>) -> Result<Attempt, Errno> {
    result.map(|()| Attempt::Value(0))
}

fn size(len: usize) -> Attempt {
    Attempt::Value(len as i64)
}

/// Lends a buffer of the thread.
fn with_buffer<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    if len > MAX_RECEIVED {
        return work(&mut vec![0; len]);
    }
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        work(&mut buffer[..len])
    })
}

/// Call that may wait.
struct WaitingCall {
    event: AwaitedEvent,
    flags: CallFlags,
}

/// Place of the flags of a call, which state whether it waits, among its arguments.
#[derive(Clone, Copy)]
enum CallFlags {
    None,
    /// Flags of `recv` and `send`.
    Message(usize),
    /// Flags of `preadv2`: only `RWF_NOWAIT` has a meaning.
    Transfer(usize),
}

impl WaitingCall {
    /// Returns the call of a number, if it may wait.
    fn of(number: c_int) -> Option<Self> {
        use AwaitedEvent::{Readable, Writable};
        let (event, flags) = match c_long::from(number) {
            libc::SYS_read | libc::SYS_readv | libc::SYS_accept | libc::SYS_accept4 => {
                (Readable, CallFlags::None)
            }
            libc::SYS_preadv2 => (Readable, CallFlags::Transfer(5)),
            libc::SYS_recvmsg => (Readable, CallFlags::Message(2)),
            libc::SYS_recvfrom | libc::SYS_recvmmsg => (Readable, CallFlags::Message(3)),
            libc::SYS_write | libc::SYS_writev => (Writable, CallFlags::None),
            libc::SYS_pwritev2 => (Writable, CallFlags::Transfer(5)),
            libc::SYS_sendmsg => (Writable, CallFlags::Message(2)),
            libc::SYS_sendto | libc::SYS_sendmmsg => (Writable, CallFlags::Message(3)),
            _ => return None,
        };
        Some(Self { event, flags })
    }

    /// Returns the flags of the call as those of `recv` and `send`.
    fn flags(&self, notification: &Notification) -> c_int {
        match self.flags {
            CallFlags::Message(at) => notification.int(at),
            CallFlags::Transfer(at) if notification.int(at) & libc::RWF_NOWAIT != 0 => {
                libc::MSG_DONTWAIT
            }
            CallFlags::None | CallFlags::Transfer(_) => 0,
        }
    }
}

impl Supervisor {
    /// Performs the call of a notification, without waiting.
    ///
    /// The call acts on a duplicate of the program's descriptor, taken while its thread waits: another thread may close the
    /// number at any time, and the duplicate keeps the socket that the call was made on. The notification is checked after
    /// that, since a thread that was killed may have left its identifier to another process. A number that is no socket of
    /// Carrick's was reserved, but the program has put another file there: the kernel performs the call.
    pub(crate) fn handle(&'static self, notification: &Notification) -> CallOutcome {
        if c_long::from(notification.number) == libc::SYS_socket {
            let reply = self.socket(notification);
            return CallOutcome::Reply(reply.unwrap_or_else(Reply::Error));
        }
        let at = if c_long::from(notification.number) == libc::SYS_splice
            && !range::contains(notification.int(0))
        {
            2
        } else {
            0
        };
        let caller = self.caller(notification);
        let fd = caller.handle().and_then(|handle| {
            let fd = duplicate(&handle, notification.int(at))?;
            caller.check()?;
            Ok(fd)
        });
        match fd.map(|fd| self.known.find(fd)) {
            Ok(Ok(socket)) => self.perform(notification, socket),
            // Another file has the number.
            Ok(Err(_)) | Err(Errno::BADF) => CallOutcome::Reply(Reply::Continue),
            Err(error) => CallOutcome::Reply(Reply::Error(error)),
        }
    }

    /// Performs a call on a socket.
    ///
    /// It never waits, because the few threads of the supervisor serve all programs: one that waited for a peer would keep
    /// another program from sending what the peer waits for. A call that would wait is parked with its event and is
    /// performed again as a whole, which the kernel's calls permit as well: nothing was taken or sent before `EAGAIN`.
    pub(crate) fn perform(
        &'static self,
        notification: &Notification,
        mut socket: ProxySocket<'static>,
    ) -> CallOutcome {
        let caller = self.caller(notification);
        let call = WaitingCall::of(notification.number);
        let flags = call.as_ref().map_or(0, |call| call.flags(notification));
        let event = match self.attempt(&caller, &socket) {
            Ok(Attempt::Value(value)) => return CallOutcome::Reply(Reply::Value(value)),
            Ok(Attempt::Continue) => return CallOutcome::Reply(Reply::Continue),
            Ok(Attempt::SetUp(event, replacement)) => {
                if let Some(Ok(new)) = replacement.map(|new| self.known.find(new)) {
                    socket = new;
                }
                Some(event)
            }
            Err(Errno::AGAIN) if flags & libc::MSG_DONTWAIT == 0 && socket.blocks() => {
                let event = call.map(|call| call.event);
                if matches!(event, Some(AwaitedEvent::Readable))
                    && let Err(error) = socket.check_source()
                {
                    return CallOutcome::Reply(Reply::Error(error));
                }
                event
            }
            Err(error) => {
                if error == Errno::PIPE && flags & libc::MSG_NOSIGNAL == 0 {
                    // The thread handles it before the call returns.
                    let _ = caller
                        .handle()
                        .and_then(|handle| pidfd_send_signal(handle, Signal::PIPE));
                }
                return CallOutcome::Reply(Reply::Error(error));
            }
        };
        let Some(event) = event else {
            return CallOutcome::Reply(Reply::Error(Errno::AGAIN));
        };
        let limit = match event {
            AwaitedEvent::Readable => socket.receive_timeout(),
            _ => socket.send_timeout(),
        };
        // Nothing is left to store when the program continues, whose next call may change the socket again.
        socket.refresh();
        CallOutcome::Wait(ParkedCall {
            socket,
            event,
            limit,
        })
    }

    fn socket(&self, notification: &Notification) -> Result<Reply, Errno> {
        let [domain, kind, protocol] = [0, 1, 2].map(|at| notification.int(at));
        if !proxy::serves(domain, kind, protocol) {
            return Ok(Reply::Continue);
        }
        let fd = self.known.socket(domain, kind, protocol)?;
        let close_on_exec = kind & libc::SOCK_CLOEXEC != 0;
        let number = self.add(&self.caller(notification), &fd, 0, close_on_exec)?;
        Ok(Reply::Value(number.into()))
    }

    fn attempt(
        &self,
        caller: &Caller<'_>,
        socket: &ProxySocket<'static>,
    ) -> Result<Attempt, Errno> {
        let notification = caller.notification;
        let [_, a1, a2, a3, a4, a5] = notification.arguments;
        let int = |at: usize| notification.int(at);
        match c_long::from(notification.number) {
            libc::SYS_read => read(caller, socket, &one_part(a1, a2), 0),
            libc::SYS_readv => {
                let parts = caller.parts(a1, count(a2), Errno::INVAL)?;
                read(caller, socket, &parts, 0)
            }
            libc::SYS_recvfrom => {
                let received = receive(caller, socket, &one_part(a1, a2), int(3), false)?;
                if a4 != 0 {
                    caller.put(&received.address, a4, a5)?;
                }
                Ok(size(received.len))
            }
            libc::SYS_preadv2 => {
                let flags = proxy::transfer_flags(a3 as i64, int(5))?;
                let parts = caller.parts(a1, count(a2), Errno::INVAL)?;
                read(caller, socket, &parts, flags)
            }
            libc::SYS_pwritev2 => {
                let flags = proxy::transfer_flags(a3 as i64, int(5))?;
                write_parts(caller, socket, (a1, a2), flags)
            }
            libc::SYS_recvmsg => receive_message(caller, socket, a1, int(2)).map(size),
            libc::SYS_recvmmsg => receive_messages(caller, socket),
            libc::SYS_write => send(caller, socket, &one_part(a1, a2), [&[], &[]], 0),
            libc::SYS_writev => write_parts(caller, socket, (a1, a2), 0),
            libc::SYS_sendto => {
                let address = read_address(caller, a4, if a4 == 0 { 0 } else { a5 })?;
                send(caller, socket, &one_part(a1, a2), [&address, &[]], int(3))
            }
            libc::SYS_sendmsg => send_message(caller, socket, a1, int(2)),
            libc::SYS_sendmmsg => send_messages(caller, socket),
            libc::SYS_bind => done(socket.bind(&read_address(caller, a1, a2)?)),
            libc::SYS_listen => done(socket.listen(int(1))),
            libc::SYS_shutdown => done(socket.shutdown(int(1))),
            libc::SYS_connect => {
                let address = read_address(caller, a1, a2)?;
                let started = socket.connect(&address)?;
                self.set_up(caller, started, 0)
            }
            libc::SYS_accept => self.accept(caller, socket, 0),
            libc::SYS_accept4 => self.accept(caller, socket, int(3)),
            libc::SYS_getsockname => done(caller.put(&socket.local_address()?, a1, a2)),
            libc::SYS_getpeername => done(caller.put(&socket.peer_address()?, a1, a2)),
            libc::SYS_getsockopt => self.option(caller, socket),
            libc::SYS_setsockopt => self.set_option(caller, socket),
            // As on Linux: `SCTP_STATUS` has the unacknowledged data.
            libc::SYS_ioctl if a1 as u32 == libc::TIOCOUTQ as u32 => Err(Errno::NOTTY),
            libc::SYS_ioctl => {
                let unread = socket.unread()? as u32;
                done(caller.write(a2, &unread.to_ne_bytes()))
            }
            libc::SYS_dup => self.duplicate(caller, socket, 0, false),
            libc::SYS_fcntl => {
                let close_on_exec = int(1) == libc::F_DUPFD_CLOEXEC;
                let lowest = u32::try_from(int(2)).map_err(|_| Errno::INVAL)?;
                self.duplicate(caller, socket, lowest, close_on_exec)
            }
            // Programs copy themselves where data cannot be moved.
            libc::SYS_sendfile | libc::SYS_splice => Err(Errno::INVAL),
            // To a number: dup3, and dup2 where the architecture has it. Calls on a number that is not
            // reserved would not be noticed.
            _ if range::contains(int(1)) => Ok(Attempt::Continue),
            _ => Err(Errno::BADF),
        }
    }

    fn duplicate(
        &self,
        caller: &Caller<'_>,
        socket: &ProxySocket<'_>,
        lowest: u32,
        close_on_exec: bool,
    ) -> Result<Attempt, Errno> {
        let number = self.add(caller, socket, lowest, close_on_exec)?;
        Ok(Attempt::Value(number.into()))
    }

    fn accept(
        &self,
        caller: &Caller<'_>,
        socket: &ProxySocket<'_>,
        flags: c_int,
    ) -> Result<Attempt, Errno> {
        // Without a number the association stays in the backlog.
        let (reserved, fd, peer) = socket.accept(flags, || self.reserve(caller, 0))?;
        let [_, address, len, ..] = caller.notification.arguments;
        let number = reserved.add(caller, &fd, flags & libc::SOCK_CLOEXEC != 0)?;
        if address != 0 {
            let peer = peer.map(write_address).unwrap_or_default();
            caller.put(&peer, address, len)?;
        }
        Ok(Attempt::Value(number.into()))
    }

    /// Continues a set-up that was started; the call returns `value` when it is complete.
    fn set_up(
        &self,
        caller: &Caller<'_>,
        started: StartedSetup,
        value: i64,
    ) -> Result<Attempt, Errno> {
        if let Some(new) = &started.replacement {
            let number = caller.notification.int(0);
            let close_on_exec = caller.closes_on_exec(number);
            self.listener.add(
                caller.notification,
                new.as_fd(),
                number as u32,
                close_on_exec,
            )?;
        }
        match started.state {
            SetupState::Done(result) => result.map(|()| Attempt::Value(value)),
            SetupState::Only => Ok(Attempt::SetUp(
                AwaitedEvent::Connected(value),
                started.replacement,
            )),
            SetupState::OneOfMany(result) => {
                Ok(Attempt::SetUp(AwaitedEvent::SetUp(result, value), None))
            }
        }
    }

    fn option(&self, caller: &Caller<'_>, socket: &ProxySocket<'_>) -> Result<Attempt, Errno> {
        let [_, _, _, buffer, len, _] = caller.notification.arguments;
        let (level, name) = (caller.notification.int(1), caller.notification.int(2));
        let space = i32::try_from(caller.read_word(len)?).map_err(|_| Errno::INVAL)?;
        let space = (space as usize).min(MAX_VALUE);
        // What the option does not read stays in the program.
        let given = space.min(OptionInput::of(level, name).end());
        let content = caller.read(buffer, given)?;
        match (level, name) {
            (IPPROTO_SCTP, SCTP_SOCKOPT_PEELOFF | SCTP_SOCKOPT_PEELOFF_FLAGS) => {
                // Without a number the association stays on its socket.
                let reserved = self.reserve(caller, 0)?;
                let (fd, close_on_exec) = socket.branch_off(name, &content)?;
                let number = reserved.add(caller, &fd, close_on_exec)?;
                let mut value = content;
                value[4..8].copy_from_slice(&number.to_ne_bytes());
                caller.put(&value, buffer, len)?;
                Ok(Attempt::Value(number.into()))
            }
            (IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX3) => {
                // `struct sctp_getaddrs_old`: the size and the address of a list.
                if content.len() < 16 {
                    return Err(Errno::INVAL);
                }
                let size = word(&content, 4) as usize;
                if size == 0 || size > MAX_VALUE {
                    return Err(Errno::INVAL);
                }
                let addresses = caller.read(long(&content, 8), size)?;
                let started = socket.connect_list(&addresses)?;
                caller.put(&started.association.to_ne_bytes(), buffer, len)?;
                self.set_up(caller, started, 0)
            }
            _ => done(caller.put(&socket.option(level, name, &content, space)?, buffer, len)),
        }
    }

    fn set_option(&self, caller: &Caller<'_>, socket: &ProxySocket<'_>) -> Result<Attempt, Errno> {
        let [_, _, _, buffer, len, _] = caller.notification.arguments;
        let (level, name) = (caller.notification.int(1), caller.notification.int(2));
        let len = usize::try_from(len as i32).map_err(|_| Errno::INVAL)?;
        // Longer values are refused, if they are those of the program.
        let content = caller.read(buffer, len.min(MAX_VALUE))?;
        if len > MAX_VALUE {
            return Err(Errno::INVAL);
        }
        let is_list = level == IPPROTO_SCTP
            && matches!(name, SCTP_SOCKOPT_CONNECTX | SCTP_SOCKOPT_CONNECTX_OLD);
        if is_list {
            let started = socket.connect_list(&content)?;
            let result = match name {
                SCTP_SOCKOPT_CONNECTX => started.association.into(),
                _ => 0,
            };
            return self.set_up(caller, started, result);
        }
        let result = socket.set_option(level, name, &content)?;
        Ok(Attempt::Value(result.into()))
    }
}

/// Reads an address of at most [`MAX_ADDRESS`] bytes.
fn read_address(caller: &Caller<'_>, pointer: u64, len: u64) -> Result<Vec<u8>, Errno> {
    match len as u32 {
        len @ 0..=MAX_ADDRESS => caller.read(pointer, len as usize),
        _ => Err(Errno::INVAL),
    }
}

fn total(parts: &[Part]) -> usize {
    parts
        .iter()
        .fold(0, |sum: usize, part| sum.saturating_add(part.len))
}

/// Receives a message, or a part of one, into buffers of the program.
fn receive(
    caller: &Caller<'_>,
    socket: &ProxySocket<'_>,
    parts: &[Part],
    flags: c_int,
    has_attributes: bool,
) -> Result<Received, Errno> {
    with_buffer(total(parts).min(MAX_RECEIVED), |buffer| {
        let received = socket.receive(&mut [IoSliceMut::new(buffer)], flags, has_attributes)?;
        caller.scatter(parts, &buffer[..received.len])?;
        Ok(received)
    })
}

/// Returns the number of parts of a call, whose argument is an `int` or wider: a negative one is beyond the limit.
fn count(argument: u64) -> u64 {
    u64::try_from(argument as c_int).unwrap_or(u64::MAX)
}

/// `read` and its like, which return at once without room, as in the kernel.
fn read(
    caller: &Caller<'_>,
    socket: &ProxySocket<'_>,
    parts: &[Part],
    flags: c_int,
) -> Result<Attempt, Errno> {
    if parts.is_empty() {
        return Ok(size(0));
    }
    receive(caller, socket, parts, flags, false).map(|received| size(received.len))
}

/// `writev` and `pwritev2`, which send nothing of parts that are all empty, as in the kernel.
fn write_parts(
    caller: &Caller<'_>,
    socket: &ProxySocket<'_>,
    (list, parts): (u64, u64),
    flags: c_int,
) -> Result<Attempt, Errno> {
    let parts = caller.parts(list, count(parts), Errno::INVAL)?;
    if parts.is_empty() {
        return Ok(size(0));
    }
    send(caller, socket, &parts, [&[], &[]], flags)
}

/// Returns the size of the name of a `struct msghdr`, if the name is not null.
///
/// # Errors
/// `EINVAL` for a negative size, before the message is sent or received.
fn name_len(header: &[u8]) -> Result<u32, Errno> {
    let len = word(header, 8);
    if long(header, 0) != 0 && i32::try_from(len).is_err() {
        return Err(Errno::INVAL);
    }
    Ok(len)
}

/// `recvmsg` to a `struct msghdr` of the program.
fn receive_message(
    caller: &Caller<'_>,
    socket: &ProxySocket<'_>,
    address: u64,
    flags: c_int,
) -> Result<usize, Errno> {
    let header = caller.read(address, MSGHDR)?;
    let (name, name_space) = (long(&header, 0), name_len(&header)? as usize);
    let parts = caller.parts(long(&header, 16), long(&header, 24), Errno::MSGSIZE)?;
    let received = receive(caller, socket, &parts, flags, true)?;
    let (control, control_space) = (long(&header, 32), long(&header, 40) as usize);
    let mut flags = received.flags;
    if name != 0 {
        let written = received.address.len().min(name_space);
        caller.write(name, &received.address[..written])?;
        let len = received.address.len() as u32;
        caller.write(address + 8, &len.to_ne_bytes())?;
    }
    let space = if control == 0 { 0 } else { control_space };
    let (written, is_cut) = write_control(&received.control, space);
    if is_cut {
        flags |= libc::MSG_CTRUNC;
    }
    caller.write(control, &written)?;
    let mut rest = [0; 12];
    rest[..8].copy_from_slice(&(written.len() as u64).to_ne_bytes());
    rest[8..].copy_from_slice(&flags.to_ne_bytes());
    caller.write(address + 40, &rest)?;
    Ok(received.len)
}

/// `recvmmsg`: waits for the first message only, as `MSG_WAITFORONE` asks for.
fn receive_messages(caller: &Caller<'_>, socket: &ProxySocket<'_>) -> Result<Attempt, Errno> {
    let [_, list, count, ..] = caller.notification.arguments;
    let flags = caller.notification.int(3) & !libc::MSG_WAITFORONE;
    many(list, count, |address| {
        let len = receive_message(caller, socket, address, flags)?;
        write_len(caller, address, len)?;
        Ok(len > 0)
    })
}

/// `sendmmsg`
fn send_messages(caller: &Caller<'_>, socket: &ProxySocket<'_>) -> Result<Attempt, Errno> {
    let [_, list, count, ..] = caller.notification.arguments;
    let flags = caller.notification.int(3);
    many(list, count, |address| {
        if let Attempt::Value(len) = send_message(caller, socket, address, flags)? {
            write_len(caller, address, len as usize)?;
        }
        Ok(true)
    })
}

/// Performs a call for each `struct mmsghdr` of a list, until one fails or returns false. Returns how many succeeded.
fn many(
    list: u64,
    count: u64,
    mut one: impl FnMut(u64) -> Result<bool, Errno>,
) -> Result<Attempt, Errno> {
    let count = (count as u32 as usize).min(MAX_MESSAGES);
    let mut succeeded = 0;
    for at in 0..count {
        match one(list + at as u64 * MMSGHDR) {
            Ok(continues) => {
                succeeded += 1;
                if !continues {
                    break;
                }
            }
            Err(error) if succeeded == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(size(succeeded))
}

/// Writes the field `msg_len` of `struct mmsghdr`.
fn write_len(caller: &Caller<'_>, address: u64, len: usize) -> Result<(), Errno> {
    caller.write(address + MSGHDR as u64, &(len as u32).to_ne_bytes())
}

/// Sends a message with its address and ancillary data.
fn send(
    caller: &Caller<'_>,
    socket: &ProxySocket<'_>,
    parts: &[Part],
    [address, control]: [&[u8]; 2],
    flags: c_int,
) -> Result<Attempt, Errno> {
    let len = total(parts);
    if len > MAX_SENT {
        return Err(Errno::MSGSIZE);
    }
    with_buffer(len, |buffer| {
        caller.gather(parts, buffer)?;
        socket.send(buffer, address, control, flags).map(size)
    })
}

/// `sendmsg` of a `struct msghdr` of the program.
fn send_message(
    caller: &Caller<'_>,
    socket: &ProxySocket<'_>,
    address: u64,
    flags: c_int,
) -> Result<Attempt, Errno> {
    let header = caller.read(address, MSGHDR)?;
    let parts = caller.parts(long(&header, 16), long(&header, 24), Errno::MSGSIZE)?;
    let name = match long(&header, 0) {
        0 => Vec::new(),
        // Unlike `sendto`, the kernel takes the first bytes of a name that is too long.
        name => read_address(caller, name, name_len(&header)?.min(MAX_ADDRESS).into())?,
    };
    let control_len = usize::try_from(long(&header, 40)).ok();
    let control_len = control_len.filter(|len| *len <= MAX_VALUE);
    let control = caller.read(long(&header, 32), control_len.ok_or(Errno::NOBUFS)?)?;
    send(caller, socket, &parts, [&name, &control], flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: u64, len: u32) -> Vec<u8> {
        let mut header = vec![0; MSGHDR];
        header[..8].copy_from_slice(&name.to_ne_bytes());
        header[8..12].copy_from_slice(&len.to_ne_bytes());
        header
    }

    #[test]
    fn negative_sizes_of_names_are_refused() {
        assert_eq!(name_len(&header(8, 128)), Ok(128));
        assert_eq!(name_len(&header(8, u32::MAX)), Err(Errno::INVAL));
        assert_eq!(name_len(&header(0, u32::MAX)), Ok(u32::MAX), "no name");
    }

    #[test]
    fn counts_of_parts_are_integers() {
        assert_eq!((count(0), count(1024), count(1 << 32)), (0, 1024, 0));
        assert_eq!((count(u64::MAX), count(0xffff_ffff)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_list_of_messages_ends_with_the_first_failure() {
        let value = |outcome| match outcome {
            Ok(Attempt::Value(value)) => Ok(value),
            Ok(_) => Ok(-1),
            Err(error) => Err(error),
        };
        let until = |last: u64| {
            move |address: u64| match address / MMSGHDR {
                at if at < last => Ok(true),
                _ => Err(Errno::FAULT),
            }
        };
        assert_eq!(value(many(0, 9, until(5))), Ok(5));
        assert_eq!(value(many(0, 9, until(0))), Err(Errno::FAULT));
        assert_eq!(value(many(0, 0, until(0))), Ok(0));
        assert_eq!(value(many(0, 5000, |_| Ok(true))), Ok(1024));
        assert_eq!(value(many(0, 9, |_| Ok(false))), Ok(1));
    }

    #[test]
    fn sizes_of_parts_do_not_overflow() {
        let parts = [one_part(8, u64::MAX), one_part(8, u64::MAX)].concat();
        assert_eq!(total(&parts), usize::MAX);
        assert_eq!(
            with_buffer(MAX_RECEIVED + 1, |buffer| buffer.len()),
            MAX_RECEIVED + 1
        );
        assert_eq!(with_buffer(7, |buffer| buffer.len()), 7);
    }

    /// Each call that the filter notifies of has an event for which it waits, or never waits.
    #[test]
    fn calls_that_transfer_messages_may_wait() {
        let event = |number: c_long| WaitingCall::of(number as c_int).map(|call| call.event);
        for number in [
            libc::SYS_read,
            libc::SYS_readv,
            libc::SYS_recvmsg,
            libc::SYS_accept4,
        ] {
            assert!(
                matches!(event(number), Some(AwaitedEvent::Readable)),
                "{number}"
            );
        }
        for number in [
            libc::SYS_write,
            libc::SYS_writev,
            libc::SYS_sendto,
            libc::SYS_sendmmsg,
        ] {
            assert!(
                matches!(event(number), Some(AwaitedEvent::Writable)),
                "{number}"
            );
        }
        for number in [
            libc::SYS_bind,
            libc::SYS_dup,
            libc::SYS_getsockopt,
            libc::SYS_socket,
        ] {
            assert!(event(number).is_none(), "{number}");
        }
    }
}
