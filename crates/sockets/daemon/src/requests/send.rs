//! `sendmsg` with a destination or a large message, and `shutdown`.

use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sockets::linux::{SHUT_RD, SHUT_RDWR, SHUT_WR, read_address};
use carrick_sockets::{Errno, OutgoingMessage, Sockets, Style};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::io::{Errno as SystemErrno, pread};

use super::AttachedRequest;
use super::reply::ReplyContent;
use crate::descriptor::{Descriptor, PhaseEvent};

/// Parameters of `sendmsg`.
pub(super) struct Parameters<'a> {
    pub(super) address: &'a [u8],
    pub(super) control: &'a [u8],
    pub(super) data: &'a [u8],
}

/// `sendmsg`
pub(super) fn send_message(
    sockets: &mut Sockets,
    now: Time,
    descriptor: &mut Descriptor,
    (parameters, attached): (&Parameters<'_>, &AttachedRequest<'_>),
) -> Result<ReplyContent, Errno> {
    let status = sockets.status(descriptor.socket());
    let limit = status.map_or(0, |status| status.max_message);
    let data = match attached.message {
        Some(message) => read_message(message, limit)?,
        None => Bytes::copy_from_slice(parameters.data),
    };
    let address = match parameters.address {
        [] => None,
        bytes => Some(read_address(bytes)?.0),
    };
    let message = OutgoingMessage {
        address,
        data,
        control: parameters.control,
    };
    let sent = if descriptor.incoming.has_refused() {
        // Messages keep their order.
        Err(Errno::EAGAIN)
    } else {
        sockets.sendmsg(now, descriptor.socket(), &message)
    };
    if sent == Err(Errno::EAGAIN) {
        let theirs = attached.theirs.as_fd();
        descriptor.plug(PhaseEvent::BufferFilled, theirs);
    }
    sent.map(|len| ReplyContent::result(len as i32))
}

/// `shutdown`. The messages that the program has sent before are still delivered, but neither calls of other threads nor
/// the peer's messages wait until the peer has room for them:
///
/// 1. End the reading side: a call that waits for messages returns, and what the peer sends from now on is dropped.
/// 2. Refuse further messages: a call that waits for room fails with `EPIPE`.
/// 3. Shut the association down when the messages that wait have been sent.
pub(super) fn shut_down(
    sockets: &mut Sockets,
    now: Time,
    descriptor: &mut Descriptor,
    how: i32,
) -> Result<ReplyContent, Errno> {
    let status = sockets.status(descriptor.socket());
    let sends = status.is_ok_and(|s| s.is_established && s.style == Style::OneToOne);
    if !sends || descriptor.is_dry() || ![SHUT_WR, SHUT_RDWR].contains(&how) {
        sockets.shutdown(now, descriptor.socket(), how)?;
        return Ok(ReplyContent::default());
    }
    // 1
    if how == SHUT_RDWR {
        sockets.shutdown(now, descriptor.socket(), SHUT_RD)?;
    }
    // 2
    descriptor.refuse_writes();
    // 3
    descriptor.delay_shutdown(SHUT_WR);
    Ok(ReplyContent::default())
}

/// Reads a message of at most `limit` bytes from the file of a program (`memfd_create`), which does not block.
///
/// # Errors
/// `EMSGSIZE`, or `EINVAL` for another file, or one that may change meanwhile.
fn read_message(file: &OwnedFd, limit: usize) -> Result<Bytes, Errno> {
    let seals = fcntl_get_seals(file).map_err(|_| Errno::EINVAL)?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::WRITE) {
        return Err(Errno::EINVAL);
    }
    let size = fstat(file).map_or(0, |stat| stat.st_size);
    let size = usize::try_from(size).map_err(|_| Errno::EINVAL)?;
    if size > limit {
        return Err(Errno::EMSGSIZE);
    }
    let mut data = vec![0; size];
    let mut done = 0;
    while done < size {
        match pread(file, &mut data[done..], done as u64) {
            Ok(0) => return Err(Errno::EINVAL),
            Ok(len) => done += len,
            Err(SystemErrno::INTR) => {}
            Err(_) => return Err(Errno::EINVAL),
        }
    }
    Ok(data.into())
}
