//! Unix sockets between the daemon and programs, and the files that are attached to messages on them.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use carrick_ipc::MAX_ATTACHED;
use nix::sys::socket::{getsockopt, setsockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    sockopt,
};

/// Flags of a message that is sent at once or not at all.
pub(crate) const AT_ONCE: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

mod option {
    use nix::{getsockopt_impl, libc, setsockopt_impl, sockopt_impl};

    /// `SO_PASSRIGHTS` of Linux 6.16: messages to the socket may have files attached.
    const SO_PASSRIGHTS: libc::c_int = 83;

    sockopt_impl!(PassRights, Both, libc::SOL_SOCKET, SO_PASSRIGHTS, bool);
}

/// Allows or forbids files in messages to a socket. Without effect on systems that cannot forbid it.
pub(crate) fn pass_files(socket: &OwnedFd, allowed: bool) {
    // ENOPROTOOPT before Linux 6.16.
    let _ = setsockopt(socket, option::PassRights, &allowed);
}

/// Returns whether the system can forbid files in messages to a socket.
pub(crate) fn can_forbid_files(socket: &OwnedFd) -> bool {
    getsockopt(socket, option::PassRights).is_ok()
}

/// Creates a pair of which the first end, that of the daemon, gets no files where the system can forbid it.
pub(crate) fn open_pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    pass_files(&ours, false);
    Ok((ours, theirs))
}

/// Requests a send buffer of a size in bytes. Beyond the limit of the system it takes privileges; the size itself is no
/// condition.
pub(crate) fn enlarge_send_buffer(socket: &OwnedFd, size: usize) {
    if sockopt::set_socket_send_buffer_size_force(socket, size).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(socket, size);
    }
}

/// Returns whether the other end of a pair is closed.
pub(crate) fn is_hung_up(ours: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(ours, PollFlags::empty())];
    let polled_at_once = poll(&mut polled, Some(&Timespec::default()));
    polled_at_once.is_ok() && polled[0].revents().contains(PollFlags::HUP)
}

/// Sends a message with files attached, at most [`MAX_ATTACHED`].
pub(crate) fn send_with_files(
    socket: impl AsFd,
    parts: &[IoSlice<'_>],
    attached: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHED))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !attached.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(attached));
    }
    rustix::io::retry_on_intr(|| sendmsg(&socket, parts, &mut control, flags)).map(drop)
}

/// Receives a message with all files that are attached to it: the system closes those for which there is no room.
pub(crate) fn receive_with_files(
    socket: &OwnedFd,
    parts: &mut [IoSliceMut<'_>],
    files: &mut Vec<OwnedFd>,
    flags: RecvFlags,
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(attached) = message {
            files.extend(attached);
        }
    }
    Ok(received.bytes)
}
