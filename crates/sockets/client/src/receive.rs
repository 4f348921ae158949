//! Messages from the daemon.
//!
//! A frame that fits into the program's buffer is read at once, and so are further frames of its message.
//! For a larger one the kernel stores the position, as the peek offset of the socket (`SO_PEEK_OFF`): nothing
//! waits in the process, so that `poll` reports unread data, and another process that shares the descriptor
//! continues at the same position. While the offset moves, the reader has the exclusive right to read
//! ([`ExclusiveAccess`]).

use std::ffi::{c_int, c_void};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use carrick_ipc::{Description, FrameKind, HEADER, Header, MAX_PAYLOAD, Property};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::calls::{check_room, check_source, error_of, is_nonblocking, take_error};
use crate::ends::{self, End};
use crate::functions::MAX_PARTS;
use crate::lock::ExclusiveAccess;
use crate::next;

/// A received message or notification, or a part of one.
pub(crate) struct ReceivedMessage {
    /// Number of bytes in the program's buffer.
    pub(crate) len: usize,
    /// The end of the message has been read.
    pub(crate) is_end: bool,
    /// The frame has been read, and the rest of the message follows at once in another one.
    has_rest: bool,
    /// Header of the frame; `None` for the end of messages.
    pub(crate) header: Option<Header>,
    /// Header of the frame behind it with the size of its payload in bytes, if it was asked for and has arrived.
    pub(crate) next: Option<(Header, usize)>,
    /// Size of the frame in bytes, if it was not read to its end; otherwise 0.
    unread_frame: usize,
}

/// Attempt to read.
enum ReadAttempt {
    Received(ReceivedMessage),
    /// The daemon reports a pending error.
    Failed,
}

/// Reads a message, or a part of one; waits for it if the descriptor blocks and a message can arrive. With
/// `describes_next`, also reads the header of the following message.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    socket: Description,
    parts: &mut [IoSliceMut<'_>],
    flags: c_int,
    describes_next: bool,
) -> Result<ReceivedMessage, Errno> {
    // The wait is outside of the exclusive right, and on nothing but the pair: a thread that waits for a message keeps no
    // other thread or process from reading, and a signal or `SO_RCVTIMEO` ends the wait in the kernel as on any socket.
    // Another reader may be first after the wait, so that the attempt is repeated.
    loop {
        let attempt = {
            let _exclusive = ExclusiveAccess::new(fd);
            let mut attempt = message(fd, parts, flags & libc::MSG_PEEK != 0);
            if let Ok(ReadAttempt::Received(received)) = &mut attempt
                && describes_next
            {
                received.next = following(fd, received);
            }
            attempt
        };
        match attempt {
            Ok(ReadAttempt::Received(received)) if received.header.is_none() => {
                if ends::of(fd) == Some(End::Association) {
                    return Ok(received);
                }
                // The end of messages, or that of the daemon, which no longer answers.
                let socket = take_error(fd)?;
                if !socket.has(Property::Established) {
                    ends::remember(fd, End::Association);
                }
                return Ok(received);
            }
            Ok(ReadAttempt::Received(received)) => return Ok(received),
            Ok(ReadAttempt::Failed) | Err(Errno::CONNRESET) => {
                if let Some(error) = error_of(fd) {
                    return Err(error);
                }
            }
            Err(Errno::AGAIN) => {
                if flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking(fd) {
                    check_source(fd, socket)?;
                }
                // Reading nothing waits for a frame as the kernel does on any socket.
                let mut with = RecvFlags::PEEK;
                with.set(RecvFlags::DONTWAIT, flags & libc::MSG_DONTWAIT != 0);
                match read(fd, &mut [], with) {
                    Ok(_) | Err(Errno::CONNRESET) => {}
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads a message of one or several frames, as far as the program's buffer has room.
fn message(
    fd: BorrowedFd<'_>,
    parts: &mut [IoSliceMut<'_>],
    peeks: bool,
) -> Result<ReadAttempt, Errno> {
    let ReadAttempt::Received(mut received) = attempt(fd, parts, peeks)? else {
        return Ok(ReadAttempt::Failed);
    };
    let mut space = parts;
    let mut last = received.len;
    let mut sequence = received.header.map(|header| header.sequence);
    while received.has_rest && !peeks {
        IoSliceMut::advance_slices(&mut space, std::mem::take(&mut last));
        if space.is_empty() || !is_next(fd, sequence) {
            break;
        }
        match attempt(fd, space, false) {
            Ok(ReadAttempt::Received(next)) if next.header.is_some() => {
                last = next.len;
                sequence = next.header.map(|header| header.sequence);
                received.len += next.len;
                received.is_end = next.is_end;
                received.has_rest = next.has_rest;
                received.header = next.header.map(|last| Header {
                    is_end: last.is_end,
                    ..received.header.unwrap_or(last)
                });
                received.unread_frame = next.unread_frame;
            }
            Err(Errno::AGAIN) => {
                // The daemon sends the rest as soon as the pair has room. Signals are blocked.
                let _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None);
            }
            // The daemon has ended.
            _ => break,
        }
    }
    Ok(ReadAttempt::Received(received))
}

/// Returns whether the next frame, if it has arrived, follows the one with this sequence number. Another daemon that has
/// restored a listening socket does not have the rest of a message.
fn is_next(fd: BorrowedFd<'_>, sequence: Option<u32>) -> bool {
    if peek_offset(fd) > 0 {
        set_peek_offset(fd, 0);
    }
    let mut bytes = [0; HEADER];
    let with = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let peeked = read(fd, &mut [IoSliceMut::new(&mut bytes)], with);
    let header = peeked.ok().and_then(|_| Header::decode(&bytes).ok());
    header.is_none_or(|next| sequence.is_none_or(|last| next.sequence == last.wrapping_add(1)))
}

/// Reads a frame, or a part of one.
///
/// A frame is one message of the pair, which the kernel discards after any read that is not a peek. So a frame that fits is
/// read at once, with one system call; one that does not fit is peeked behind the part that has been read, and taken only
/// when nothing of it is left. A large buffer needs no look at the size first, since no frame is longer.
fn attempt(
    fd: BorrowedFd<'_>,
    parts: &mut [IoSliceMut<'_>],
    peeks: bool,
) -> Result<ReadAttempt, Errno> {
    let capacity: usize = parts.iter().map(|part| part.len()).sum();
    // The header of a frame that is read at once takes one part of those that the kernel permits.
    let has_room = parts.len() < MAX_PARTS;
    let offset = peek_offset(fd);
    if offset <= 0 && capacity >= MAX_PAYLOAD && has_room && !peeks {
        return whole(fd, parts);
    }
    if offset > 0 {
        set_peek_offset(fd, 0);
    }
    let mut bytes = [0; HEADER];
    let with = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    let peeked = read(fd, &mut [IoSliceMut::new(&mut bytes)], with);
    if !matches!(peeked, Ok(len) if len >= HEADER) {
        if peeked == Ok(0) {
            return Ok(ReadAttempt::Received(end()));
        }
        return Err(peeked.err().unwrap_or(Errno::CONNABORTED));
    }
    let len = peeked.unwrap_or(HEADER);
    let header = Header::decode(&bytes).map_err(|_| Errno::CONNABORTED)?;
    if header.kind != FrameKind::Message {
        return whole(fd, &mut []);
    }
    let done = usize::try_from(offset).map_or(0, |offset| offset.saturating_sub(HEADER));
    let rest = (len - HEADER).saturating_sub(done);
    if done == 0 && capacity >= rest && has_room && !peeks {
        return whole(fd, parts);
    }
    set_peek_offset(fd, HEADER + done);
    let taken = read(fd, parts, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    if peeks {
        set_peek_offset(fd, if done == 0 { 0 } else { HEADER + done });
    } else if taken == rest {
        // Consumes the frame; the kernel moves the offset back to 0.
        read(fd, &mut [IoSliceMut::new(&mut bytes)], RecvFlags::DONTWAIT)?;
    }
    Ok(ReadAttempt::Received(ReceivedMessage {
        len: taken,
        is_end: header.is_end && taken == rest,
        has_rest: header.has_rest && taken == rest,
        header: Some(header),
        next: None,
        unread_frame: if peeks || taken < rest { len } else { 0 },
    }))
}

/// Returns the header of the message behind the one that was read, with the size of its first frame.
///
/// With a peek offset, the kernel skips as many bytes of the queue, across frames: an offset of the unread frame's size leads
/// to the next frame. The program's own offset, which another process may share, is put back.
fn following(fd: BorrowedFd<'_>, received: &ReceivedMessage) -> Option<(Header, usize)> {
    if !received.header.is_some_and(|header| header.is_end) {
        return None;
    }
    let offset = peek_offset(fd);
    if offset >= 0 {
        // The kernel skips frames in front of the offset.
        set_peek_offset(fd, received.unread_frame);
    }
    let mut bytes = [0; HEADER];
    let with = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    let peeked = read(fd, &mut [IoSliceMut::new(&mut bytes)], with);
    if let Ok(offset) = usize::try_from(offset) {
        set_peek_offset(fd, offset);
    }
    let payload = peeked.ok()?.checked_sub(HEADER)?;
    let header = Header::decode(&bytes).ok()?;
    (header.kind == FrameKind::Message).then_some((header, payload))
}

/// Reads a frame that fits into the program's buffer.
fn whole(fd: BorrowedFd<'_>, parts: &mut [IoSliceMut<'_>]) -> Result<ReadAttempt, Errno> {
    let mut bytes = [0; HEADER];
    let mut all = Vec::with_capacity(parts.len() + 1);
    all.push(IoSliceMut::new(&mut bytes));
    all.extend(parts.iter_mut().map(|part| IoSliceMut::new(part)));
    let len = read(fd, &mut all, RecvFlags::DONTWAIT)?;
    if len == 0 {
        return Ok(ReadAttempt::Received(end()));
    }
    let header = Header::decode(&bytes).map_err(|_| Errno::CONNABORTED)?;
    match header.kind {
        FrameKind::Message => Ok(ReadAttempt::Received(ReceivedMessage {
            len: len - HEADER,
            is_end: header.is_end,
            has_rest: header.has_rest,
            header: Some(header),
            next: None,
            unread_frame: 0,
        })),
        FrameKind::Failed => Ok(ReadAttempt::Failed),
        // An association to accept: another process has made it a listening socket.
        _ => Err(Errno::NOTCONN),
    }
}

fn end() -> ReceivedMessage {
    ReceivedMessage {
        len: 0,
        is_end: false,
        has_rest: false,
        header: None,
        next: None,
        unread_frame: 0,
    }
}

fn read(
    fd: BorrowedFd<'_>,
    parts: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
) -> Result<usize, Errno> {
    let received = recvmsg(fd, parts, &mut RecvAncillaryBuffer::default(), flags)?;
    Ok(received.bytes)
}

/// Returns the number of bytes of the next message that have not been read (`FIONREAD`).
pub(crate) fn unread(fd: BorrowedFd<'_>) -> Result<usize, Errno> {
    let _exclusive = ExclusiveAccess::new(fd);
    let offset = peek_offset(fd);
    if offset > 0 {
        set_peek_offset(fd, 0);
    }
    let with = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    let len = match read(fd, &mut [], with) {
        Err(Errno::AGAIN) => 0,
        len => len?,
    };
    if offset > 0 {
        set_peek_offset(fd, offset as usize);
    }
    let done = usize::try_from(offset).map_or(HEADER, |offset| offset.max(HEADER));
    Ok(len.saturating_sub(done))
}

fn peek_offset(fd: BorrowedFd<'_>) -> c_int {
    let mut value: c_int = -1;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the value and its size belong together.
    unsafe {
        next::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEEK_OFF,
            (&raw mut value).cast::<c_void>(),
            &raw mut len,
        )
    };
    value
}

fn set_peek_offset(fd: BorrowedFd<'_>, offset: usize) {
    let value = offset as c_int;
    // SAFETY: the value and its size belong together.
    unsafe {
        next::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEEK_OFF,
            (&raw const value).cast::<c_void>(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
}

/// Association that was accepted.
pub(crate) struct AcceptedAssociation {
    pub(crate) fd: OwnedFd,
    pub(crate) description: Description,
    pub(crate) peer: Option<std::net::SocketAddr>,
}

/// Returns whether a call that reads from a pair would not wait.
pub(crate) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // An error is that of the call that reads.
    poll(&mut polled, Some(&now)) != Ok(0)
}

/// Reads an association to accept from the pair of a listening socket; waits for it if `waits` is set and the
/// descriptor blocks. As the kernel's `accept`, it fails at once without room for another descriptor in the process:
/// the association stays in the backlog.
pub(crate) fn accept(
    fd: BorrowedFd<'_>,
    close_on_exec: bool,
    waits: bool,
) -> Result<AcceptedAssociation, Errno> {
    check_room()?;
    let mut bytes = [0; HEADER + carrick_ipc::DESCRIPTION];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut flags = RecvFlags::empty();
    flags.set(RecvFlags::CMSG_CLOEXEC, close_on_exec);
    flags.set(RecvFlags::DONTWAIT, !waits);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let len = recvmsg(fd, &mut parts, &mut control, flags)?.bytes;
    if len == 0 {
        // The daemon has ended. Servers ignore ECONNABORTED, and would try again for ever.
        return Err(Errno::CONNRESET);
    }
    let attached = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let header = Header::decode(&bytes[..len]).map_err(|_| Errno::CONNABORTED)?;
    if header.kind != FrameKind::Accepted {
        return Err(Errno::CONNABORTED);
    }
    let description = Description::decode(&bytes[HEADER..len]).map_err(|_| Errno::CONNABORTED)?;
    Ok(AcceptedAssociation {
        // Another thread has taken the room meanwhile.
        fd: attached.ok_or(Errno::MFILE)?,
        description,
        peer: header.address,
    })
}
