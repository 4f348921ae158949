//! Messages to the daemon.

use std::borrow::Cow;
use std::ffi::c_int;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use carrick_ipc::{Description, FrameKind, Header, MAX_CONTROL, MAX_PAYLOAD, Property, Request};
use carrick_sockets::ancillary::{MessageStream, plain_stream};
use carrick_sockets::linux::{MSG_DONTWAIT, MSG_NOSIGNAL};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg, sendmsg};

use crate::calls::{call, call_with, error_of, is_nonblocking, wait_writable};
use crate::functions::MAX_PARTS;
use crate::lock::ExclusiveAccess;
use crate::memory;

/// Limit of a message in a request in bytes, which passes with the default send buffer of Linux.
const MAX_REQUEST_MESSAGE: usize = 1 << 17;
/// Limit of the address and the ancillary data in a request in bytes.
const MAX_REQUEST_ATTRIBUTES: usize = 1 << 15;

/// Maximum number of messages that are sent with one call.
pub(crate) const BATCH: usize = 16;

/// Message of the program.
pub(crate) struct OutgoingMessage<'a> {
    pub(crate) parts: &'a [IoSlice<'a>],
    pub(crate) flags: c_int,
    pub(crate) address: &'a [u8],
    pub(crate) control: &'a [u8],
}

impl OutgoingMessage<'_> {
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Returns the header of the message's only or first frame.
    fn header(&self) -> Header {
        Header {
            control: self.control.len() as u16,
            ..Header::new(FrameKind::Send)
        }
    }

    /// Returns the message as one frame with its header.
    fn frame_parts<'f>(&'f self, header: &'f [u8]) -> Vec<IoSlice<'f>> {
        let mut parts = Vec::with_capacity(self.parts.len() + 2);
        parts.push(IoSlice::new(header));
        parts.push(IoSlice::new(self.control));
        parts.extend(self.parts.iter().copied());
        parts
    }

    /// Returns whether the header and the ancillary data of a frame have room beside the message's parts.
    fn has_frame_parts(&self) -> bool {
        self.parts.len() + 2 <= MAX_PARTS
    }

    /// Returns whether the message is sent as a frame on the pair, which requires that the protocol does not
    /// refuse it.
    fn fits_in_band(&self, socket: Description) -> bool {
        let len = self.len();
        socket.has(Property::Established)
            && !socket.has(Property::WriteClosed)
            && !socket.has(Property::OneToMany)
            && self.address.is_empty()
            && len > 0
            && len <= socket.max_message as usize
            && self.control.len() <= MAX_CONTROL
            && has_stream(self.control, socket)
    }
}

/// Returns whether ancillary data names an existing stream and affects this message only.
fn has_stream(control: &[u8], socket: Description) -> bool {
    match plain_stream(control) {
        Some(MessageStream::Given(stream)) => stream < socket.streams,
        Some(MessageStream::Default) => !socket.has(Property::NoDefaultStream),
        None => false,
    }
}

/// Sends a message.
pub(crate) fn send(
    fd: BorrowedFd<'_>,
    socket: Description,
    message: &OutgoingMessage<'_>,
) -> Result<usize, Errno> {
    if !message.fits_in_band(socket) {
        return send_by_request(fd, message);
    }
    if message.has_frame_parts() {
        return send_in_band(fd, message);
    }
    check_parts(message)?;
    let joined = joined(message.parts);
    let parts = &[IoSlice::new(&joined)];
    send_in_band(fd, &OutgoingMessage { parts, ..*message })
}

/// Returns the parts of a message in one buffer.
fn joined(parts: &[IoSlice<'_>]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.iter()).copied().collect()
}

/// Checks that the process can read the parts of a message.
///
/// # Errors
/// `EFAULT`
fn check_parts(message: &OutgoingMessage<'_>) -> Result<(), Errno> {
    message
        .parts
        .iter()
        .try_for_each(|part| memory::check_readable(part.as_ptr().cast(), part.len()))
}

/// Sends the first one of several messages, and with the same call up to [`BATCH`] of them that are a frame each. Returns
/// how many were sent. The flags of all are those of the first one.
pub(crate) fn send_several(
    fd: BorrowedFd<'_>,
    socket: Description,
    messages: &[OutgoingMessage<'_>],
) -> Result<usize, Errno> {
    let Some(first) = messages.first() else {
        return Ok(0);
    };
    let frames = messages
        .iter()
        .take_while(|message| message.len() <= MAX_PAYLOAD)
        .take_while(|message| message.fits_in_band(socket) && message.has_frame_parts());
    let frames: Vec<_> = frames.take(BATCH).collect();
    if frames.len() < 2 {
        return send(fd, socket, first).map(|_| 1);
    }
    let headers: Vec<_> = frames.iter().map(|frame| frame.header().encode()).collect();
    let parts = frames.iter().zip(&headers);
    let parts: Vec<_> = parts
        .map(|(frame, header)| frame.frame_parts(header))
        .collect();
    let mut controls: [_; BATCH] = std::array::from_fn(|_| SendAncillaryBuffer::default());
    let frames = parts.iter().zip(&mut controls);
    let mut frames: Vec<_> = frames
        .map(|(parts, control)| MMsgHdr::new(parts, control))
        .collect();
    let sent = sendmmsg(fd, &mut frames, send_flags(first.flags));
    sent.map_err(|error| failure(fd, error, first.flags))
}

/// Sends a message as frames on the pair.
///
/// One frame is atomic in the kernel, so that threads and processes need no lock for it. Several frames are sent under the
/// exclusive right, and after the first one whatever happens: the daemon has a part of the message, and would add the next
/// message to it. So `O_NONBLOCK`, `SO_SNDTIMEO` and signals end the call in front of the first frame only; the daemon always
/// reads the rest, and the wait is short.
fn send_in_band(fd: BorrowedFd<'_>, message: &OutgoingMessage<'_>) -> Result<usize, Errno> {
    let len = message.len();
    let header = message.header();
    if len <= MAX_PAYLOAD {
        let header = header.encode();
        return match send_parts(fd, &message.frame_parts(&header), message.flags) {
            Ok(()) => Ok(len),
            Err(error) => Err(failure(fd, error, message.flags)),
        };
    }
    // An error behind the first frame would leave a part of the message in front of the next one.
    check_parts(message)?;
    let _exclusive = ExclusiveAccess::new(fd);
    let mut rest = message.parts;
    let mut skipped = 0;
    let mut is_first = true;
    while !rest.is_empty() {
        let mut parts = Vec::with_capacity(rest.len() + 2);
        (rest, skipped) = cut(rest, skipped, &mut parts);
        let header = Header {
            control: if is_first { header.control } else { 0 },
            is_end: rest.is_empty(),
            ..header
        };
        let header = header.encode();
        let control = if is_first { message.control } else { &[] };
        let fields = [IoSlice::new(&header), IoSlice::new(control)];
        parts.splice(..0, fields);
        loop {
            match send_parts(fd, &parts, message.flags) {
                Ok(()) => break,
                // The daemon reads the rest of a message that has begun at once.
                Err(Errno::AGAIN | Errno::INTR) if !is_first => {
                    let mut wait = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
                    let _ = poll(&mut wait, None);
                }
                Err(error) => return Err(failure(fd, error, message.flags)),
            }
        }
        is_first = false;
    }
    Ok(len)
}

/// Appends the parts of a message's next frame to `frame`, without copying them: up to [`MAX_PAYLOAD`] bytes,
/// from the offset `skipped` in the first part of `rest` on. Returns the parts that are left, and the offset in the
/// first one.
fn cut<'f, 'a: 'f>(
    mut rest: &'a [IoSlice<'a>],
    mut skipped: usize,
    frame: &mut Vec<IoSlice<'f>>,
) -> (&'a [IoSlice<'a>], usize) {
    let mut room = MAX_PAYLOAD;
    while let Some((first, others)) = rest.split_first() {
        let part = &first[skipped..];
        if part.len() > room {
            frame.push(IoSlice::new(&part[..room]));
            return (rest, skipped + room);
        }
        frame.push(IoSlice::new(part));
        room -= part.len();
        (rest, skipped) = (others, 0);
    }
    (rest, 0)
}

fn send_parts(fd: BorrowedFd<'_>, parts: &[IoSlice<'_>], flags: c_int) -> Result<(), Errno> {
    let mut control = SendAncillaryBuffer::default();
    sendmsg(fd, parts, &mut control, send_flags(flags)).map(drop)
}

fn send_flags(flags: c_int) -> SendFlags {
    let mut with = SendFlags::NOSIGNAL;
    with.set(SendFlags::DONTWAIT, flags & MSG_DONTWAIT != 0);
    with
}

/// Returns the error of a message that the pair has refused: the pending error of the socket, where the
/// association has ended.
fn failure(fd: BorrowedFd<'_>, error: Errno, flags: c_int) -> Errno {
    if !matches!(error, Errno::PIPE | Errno::CONNRESET) {
        return error;
    }
    match error_of(fd) {
        Some(pending) => pending,
        None => broken_pipe(flags),
    }
}

fn broken_pipe(flags: c_int) -> Errno {
    if flags & MSG_NOSIGNAL == 0 {
        // SAFETY: no requirement.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    Errno::PIPE
}

fn send_by_request(fd: BorrowedFd<'_>, message: &OutgoingMessage<'_>) -> Result<usize, Errno> {
    check_parts(message)?;
    let file = match message.len() {
        0..=MAX_REQUEST_MESSAGE => None,
        _ => Some(file_of(message.parts)?),
    };
    // A message of one part stays where the program has it.
    let data = match message.parts {
        _ if file.is_some() => Cow::default(),
        [part] => Cow::Borrowed(&part[..]),
        parts => Cow::Owned(joined(parts)),
    };
    let request = Request::Send {
        flags: message.flags,
        address: message.address,
        control: message.control,
        data: &data,
    };
    if message.address.len() + message.control.len() > MAX_REQUEST_ATTRIBUTES {
        return Err(Errno::INVAL);
    }
    loop {
        let answer = match &file {
            Some(file) => call_with(fd, &request, file.as_fd()),
            None => call(fd, &request),
        };
        match answer {
            Ok(answer) => return Ok(answer.result as usize),
            Err(Errno::AGAIN) => {
                if message.flags & MSG_DONTWAIT != 0 || is_nonblocking(fd) {
                    return Err(Errno::AGAIN);
                }
                wait_writable(fd, Errno::AGAIN)?;
            }
            Err(Errno::PIPE) => return Err(broken_pipe(message.flags)),
            Err(error) => return Err(error),
        }
    }
}

/// Returns a file with a message, for the daemon to read. It is sealed, so that reading it does not block.
fn file_of(parts: &[IoSlice<'_>]) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("carrick message", flags).map_err(|_| Errno::NOBUFS)?;
    for part in parts {
        let mut rest = &part[..];
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest).map_err(|_| Errno::NOBUFS)?;
            rest = &rest[written..];
        }
    }
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).map_err(|_| Errno::NOBUFS)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames have the program's memory: the parts of all frames together are the message.
    #[test]
    fn a_large_message_is_cut_without_copies() {
        for sizes in [
            &[MAX_PAYLOAD + 1][..],
            &[1, MAX_PAYLOAD, 0, 3 * MAX_PAYLOAD - 1],
            &[0, 7],
        ] {
            let memory: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
            let parts: Vec<IoSlice<'_>> = memory.iter().map(|part| IoSlice::new(part)).collect();
            let total: usize = sizes.iter().sum();
            let (mut rest, mut skipped) = (&parts[..], 0);
            let mut expected = memory
                .iter()
                .flat_map(|part| part.as_ptr_range().start.addr()..part.as_ptr_range().end.addr());
            let mut frames = 0;
            while !rest.is_empty() {
                let mut frame = Vec::new();
                (rest, skipped) = cut(rest, skipped, &mut frame);
                let len: usize = frame.iter().map(|part| part.len()).sum();
                assert!(len == MAX_PAYLOAD || rest.is_empty(), "{sizes:?}: {len}");
                for part in &frame {
                    let range = part.as_ptr_range();
                    let bytes = range.start.addr()..range.end.addr();
                    assert!(bytes.eq(expected.by_ref().take(part.len())), "{sizes:?}");
                }
                frames += 1;
            }
            assert_eq!(frames, total.div_ceil(MAX_PAYLOAD), "{sizes:?}");
            assert_eq!(expected.next(), None);
        }
    }
}
