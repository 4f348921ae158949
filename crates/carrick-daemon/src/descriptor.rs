//! Descriptor of a program: the daemon's end of its socket pair.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::Bytes;
use carrick_ipc::{Description, FrameKind, HEADER, Header, Property};
use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};
use carrick_proto::portable_struct;
use carrick_sockets::{Family, SocketId, Status, Style};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    send, sendmsg, socketpair, sockopt,
};

/// Send buffer of the program's end in bytes, which Linux doubles: several messages of 64 KiB.
const PROGRAM_BUFFER: usize = 212_992;
/// Send buffer of the daemon's end in bytes, which Linux doubles: received messages ahead of the program.
const DAEMON_BUFFER: usize = 131_072;
/// Size of a plug frame in bytes. A descriptor is writable while a quarter of its send buffer is in use.
const PLUG: usize = PROGRAM_BUFFER / 2 + 8192;

/// Frame for the program that waits for room.
#[derive(Debug)]
pub(crate) struct OutgoingFrame {
    pub(crate) header: Header,
    pub(crate) payload: Bytes,
    /// Descriptor of an association to accept.
    pub(crate) attached: Option<OwnedFd>,
}

/// The attached descriptor is passed beside the state.
impl Portable for OutgoingFrame {
    fn write(&self, out: &mut ExportWriter) {
        self.header.encode().write(out);
        self.payload.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let header: [u8; HEADER] = Portable::read(input)?;
        Ok(Self {
            header: Header::decode(&header).map_err(|_| ImportError::Malformed("frame"))?,
            payload: Portable::read(input)?,
            attached: None,
        })
    }
}

/// Message of the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramMessage {
    pub(crate) control: Vec<u8>,
    pub(crate) data: Bytes,
}

portable_struct! { ProgramMessage { control, data } }

/// Parts of a message of the program that is not complete.
#[derive(Debug, Default)]
pub(crate) struct PartialMessage {
    pub(crate) control: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// Offset of the data behind the header and the ancillary data of its first frame.
    pub(crate) start: usize,
    /// The message is larger than the send buffer; its data is dropped.
    pub(crate) is_too_large: bool,
}

portable_struct! { PartialMessage { control, data, start, is_too_large } }

/// Descriptor of a program.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) socket: SocketId,
    /// User whose limits apply.
    pub(crate) uid: u32,
    /// Process id of the process that opened the socket.
    pub(crate) process: i32,
    /// The daemon's end; `None` after a set-up that failed.
    pub(crate) ours: Option<OwnedFd>,
    /// Identity of the program's end (`SO_COOKIE`).
    pub(crate) cookie: u64,
    /// Inode of the program's end.
    pub(crate) inode: u64,
    /// Frames for the program that wait for room.
    pub(crate) outgoing: VecDeque<OutgoingFrame>,
    /// Message that the full send buffer has refused.
    pub(crate) refused: Option<ProgramMessage>,
    /// Message that is not complete.
    pub(crate) partial: Option<PartialMessage>,
    /// A plug frame makes the program's end not writable.
    pub(crate) is_plugged: bool,
    /// The pair may have frames of the program.
    pub(crate) is_readable: bool,
    /// A message has been sent to the program, in addition to notifications.
    pub(crate) has_data: bool,
    /// The program has closed the descriptor.
    pub(crate) is_closed: bool,
    /// The program has closed the descriptor with frames that it had not read.
    pub(crate) was_reset: bool,
    /// `shutdown` of the program that waits until its messages have been read.
    pub(crate) shutdown: Option<i32>,
    /// The task is woken when the pair has room.
    pub(crate) waits_for_room: bool,
    /// The program has been notified of the pending error.
    pub(crate) failure_sent: bool,
    /// The program has been notified of the end of messages.
    pub(crate) end_sent: bool,
    /// The program cannot send messages any more.
    pub(crate) is_write_refused: bool,
    /// The association has ended, and the pair is shut down.
    pub(crate) is_ended: bool,
    /// The daemon has ended the descriptor, because the program sent an invalid frame.
    pub(crate) is_broken: bool,
    /// Pending error of a broken descriptor.
    pub(crate) error: Option<carrick_sockets::Errno>,
    /// Sequence number of the next frame.
    sequence: u32,
}

// The daemon's end is passed beside the state, and watched by the successor as at first.
portable_struct! {
    Descriptor {
        socket, uid, process, cookie, inode, outgoing, refused, partial, is_plugged, is_readable, has_data, is_closed,
        was_reset, shutdown, failure_sent, end_sent, is_write_refused, is_ended, is_broken, error, sequence,
    }
    rebuilt { ours: None, waits_for_room: false }
}

impl Descriptor {
    /// Creates the descriptor of a socket with the daemon's end of its pair.
    pub(crate) fn new(socket: SocketId, (uid, process): (u32, i32), end: DaemonEnd) -> Self {
        Self {
            socket,
            uid,
            process,
            ours: Some(end.ours),
            cookie: end.cookie,
            inode: end.inode,
            outgoing: VecDeque::new(),
            refused: None,
            partial: None,
            is_plugged: false,
            is_readable: false,
            has_data: false,
            is_closed: false,
            was_reset: false,
            shutdown: None,
            waits_for_room: false,
            failure_sent: false,
            end_sent: false,
            is_write_refused: false,
            is_ended: false,
            is_broken: false,
            error: None,
            sequence: 0,
        }
    }

    /// Returns whether all that the program has sent was read and passed to the protocol.
    pub(crate) fn is_dry(&self) -> bool {
        self.refused.is_none() && !self.is_plugged && !self.is_readable
    }

    /// Makes the program's end not writable, until [`Self::is_plugged`] is reset and the pair is read.
    pub(crate) fn plug(&mut self, theirs: BorrowedFd<'_>) {
        if self.is_plugged {
            return;
        }
        let mut frame = vec![0; PLUG];
        frame[..HEADER].copy_from_slice(&Header::new(FrameKind::Plug).encode());
        // A send buffer without room for the frame is not writable already.
        let _ = send(theirs, &frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        self.is_plugged = true;
        self.is_readable = true;
    }

    /// Sends the waiting frames. Returns false if the pair has no room.
    pub(crate) fn flush(&mut self) -> bool {
        while let (Some(frame), Some(ours)) = (self.outgoing.front_mut(), &self.ours) {
            frame.header.sequence = self.sequence;
            match send_frame(ours.as_fd(), frame) {
                Err(Errno::AGAIN) => return false,
                // The program has closed its end, which the next read detects.
                Err(_) => {}
                Ok(()) => self.sequence = self.sequence.wrapping_add(1),
            }
            self.outgoing.pop_front();
        }
        true
    }

    /// Limits the associations that wait on the pair of a listening socket: the smallest send buffer of
    /// Linux has room for six. Further associations wait in the backlog.
    pub(crate) fn limit_accepted(&self) {
        if let Some(ours) = &self.ours {
            // With a larger buffer only more associations leave the backlog.
            let _ = sockopt::set_socket_send_buffer_size(ours, 1);
        }
    }
}

fn send_frame(ours: BorrowedFd<'_>, outgoing: &OutgoingFrame) -> rustix::io::Result<()> {
    let header = outgoing.header.encode();
    let parts = [IoSlice::new(&header), IoSlice::new(&outgoing.payload)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let attached = outgoing.attached.as_ref().map(|fd| [fd.as_fd()]);
    if let Some(attached) = &attached {
        control.push(SendAncillaryMessage::ScmRights(attached));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(ours, &parts, &mut control, flags).map(drop)
}

/// Daemon's end of a socket pair, with the cookie and the inode of the program's end.
#[derive(Debug)]
pub(crate) struct DaemonEnd {
    pub(crate) ours: OwnedFd,
    cookie: u64,
    inode: u64,
}

/// Creates a socket pair. Returns the daemon's end and the program's.
pub(crate) fn pair() -> rustix::io::Result<(DaemonEnd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    sockopt::set_socket_send_buffer_size(&theirs, PROGRAM_BUFFER)?;
    sockopt::set_socket_send_buffer_size(&ours, DAEMON_BUFFER)?;
    let cookie = sockopt::socket_cookie(&theirs)?;
    let inode = rustix::fs::fstat(&theirs)?.st_ino;
    let end = DaemonEnd {
        ours,
        cookie,
        inode,
    };
    Ok((end, theirs))
}

/// Returns the description of a socket for the program's side.
pub(crate) fn describe(status: &Status) -> Description {
    // The limit without fragmentation changes with the path, of which the program's side is not notified.
    let max_message = if status.fragments {
        u32::try_from(status.max_message).unwrap_or(u32::MAX)
    } else {
        0
    };
    Description::new(status.outbound_streams, max_message)
        .with(Property::OneToMany, status.style == Style::OneToMany)
        .with(Property::Inet6, status.family == Family::Inet6)
        .with(Property::Listening, status.is_listening)
        .with(Property::Connecting, status.is_connecting)
        .with(Property::Established, status.is_established)
        .with(Property::WriteClosed, status.is_write_closed)
        .with(Property::RcvInfo, status.has_rcvinfo)
        .with(Property::NxtInfo, status.has_nxtinfo)
        .with(Property::SndRcv, status.has_sndrcv)
        .with(Property::NoDefaultStream, !status.has_default_stream)
        .with(Property::Lingers, status.lingers)
}
