//! Descriptor of a program: the daemon's end of its socket pair.

use std::array;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::Bytes;
use carrick_ipc::{Description, FrameKind, HEADER, Header, MAX_PAYLOAD, Property};
use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};
use carrick_proto::portable_struct;
use carrick_sockets::{Family, SocketId, Status, Style};
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, send, sendmmsg, sockopt};

use crate::pair::{AT_ONCE, open_pair, send_with_files};

/// Send buffer of the program's end in bytes, which Linux doubles: several messages of 64 KiB.
const PROGRAM_BUFFER: usize = 212_992;
/// Send buffer of the daemon's end in bytes, which Linux doubles: received messages ahead of the program.
const DAEMON_BUFFER: usize = 131_072;
/// Size of a plug frame in bytes. A descriptor is writable while a quarter of its send buffer is in use.
const PLUG: usize = PROGRAM_BUFFER / 2 + 8192;

/// Maximum number of frames per call, in either direction.
pub(crate) const BATCH: usize = 16;

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
    /// Message that the full send buffer has refused, and those of its batch behind it: at most what the pair had room for.
    pub(crate) refused: VecDeque<ProgramMessage>,
    /// Message that is not complete.
    pub(crate) partial: Option<PartialMessage>,
    /// A plug frame makes the program's end not writable.
    pub(crate) is_plugged: bool,
    /// The pair may have frames of the program.
    pub(crate) is_readable: bool,
    /// The last frame of the program was small.
    pub(crate) is_last_small: bool,
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
    rebuilt { ours: None, is_last_small: false, waits_for_room: false }
}

impl Descriptor {
    /// Creates the descriptor of a socket with the daemon's end of its pair.
    pub(crate) fn new(socket: SocketId, (uid, process): (u32, i32), end: PairEnd) -> Self {
        Self {
            socket,
            uid,
            process,
            ours: Some(end.ours),
            cookie: end.cookie,
            inode: end.inode,
            outgoing: VecDeque::new(),
            refused: VecDeque::new(),
            partial: None,
            is_plugged: false,
            is_readable: false,
            is_last_small: false,
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
        self.refused.is_empty() && !self.is_plugged && !self.is_readable
    }

    /// Makes the program's end not writable, until [`Self::is_plugged`] is reset and the pair is read.
    pub(crate) fn plug(&mut self, theirs: BorrowedFd<'_>) {
        if self.is_plugged {
            return;
        }
        let mut frame = vec![0; PLUG];
        frame[..HEADER].copy_from_slice(&Header::new(FrameKind::Plug).encode());
        // A send buffer without room for the frame is not writable already.
        let _ = send(theirs, &frame, AT_ONCE);
        self.is_plugged = true;
        self.is_readable = true;
    }

    /// Sends the waiting frames. Returns false if the pair has no room.
    pub(crate) fn flush(&mut self) -> bool {
        while let (Some(first), Some(ours)) = (self.outgoing.front(), &self.ours) {
            let sent = if first.attached.is_some() {
                send_attached(ours.as_fd(), first, self.sequence).map(|()| 1)
            } else {
                send_batch(ours.as_fd(), &self.outgoing, self.sequence)
            };
            let sent = match sent {
                Err(Errno::AGAIN) => return false,
                // The program has closed its end, which the next read detects.
                Err(_) => 1,
                Ok(sent) => {
                    self.sequence = self.sequence.wrapping_add(sent as u32);
                    sent
                }
            };
            self.outgoing.drain(..sent);
        }
        true
    }

    /// Returns whether the waiting frames are to be sent before further ones are added: as many as one call sends, as
    /// many bytes as the largest frame, or an association to accept, the next of which stays in the backlog.
    pub(crate) fn has_batch(&self) -> bool {
        let bytes = self.outgoing.iter().map(|frame| frame.payload.len());
        self.outgoing.len() >= BATCH
            || self
                .outgoing
                .back()
                .is_some_and(|frame| frame.attached.is_some())
            || bytes.sum::<usize>() >= MAX_PAYLOAD
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

/// Sends a frame with an attached descriptor.
fn send_attached(
    ours: BorrowedFd<'_>,
    frame: &OutgoingFrame,
    sequence: u32,
) -> rustix::io::Result<()> {
    let header = encode(frame, sequence);
    let parts = [IoSlice::new(&header), IoSlice::new(&frame.payload)];
    let attached: Vec<_> = frame.attached.iter().map(|fd| fd.as_fd()).collect();
    send_with_files(ours, &parts, &attached, AT_ONCE)
}

/// Sends the first frames, up to [`BATCH`] and in front of one with an attached descriptor, with one call. Returns how
/// many the pair had room for, at least one.
fn send_batch(
    ours: BorrowedFd<'_>,
    frames: &VecDeque<OutgoingFrame>,
    sequence: u32,
) -> rustix::io::Result<usize> {
    let plain = frames.iter().take_while(|frame| frame.attached.is_none());
    let mut headers = [[0; HEADER]; BATCH];
    let mut payloads = [&[][..]; BATCH];
    let mut count = 0;
    for (frame, sequence) in plain.take(BATCH).zip(sequence..=u32::MAX) {
        headers[count] = encode(frame, sequence);
        payloads[count] = &frame.payload;
        count += 1;
    }
    let parts =
        array::from_fn::<_, BATCH, _>(|n| [IoSlice::new(&headers[n]), IoSlice::new(payloads[n])]);
    let mut controls = array::from_fn::<_, BATCH, _>(|_| SendAncillaryBuffer::default());
    let messages = parts.iter().zip(&mut controls).take(count);
    let mut messages: Vec<_> = messages
        .map(|(parts, control)| MMsgHdr::new(parts, control))
        .collect();
    sendmmsg(ours, &mut messages, AT_ONCE)
}

fn encode(frame: &OutgoingFrame, sequence: u32) -> [u8; HEADER] {
    let header = Header {
        sequence,
        ..frame.header
    };
    header.encode()
}

/// Daemon's end of a socket pair, with the cookie and the inode of the program's end.
#[derive(Debug)]
pub(crate) struct PairEnd {
    pub(crate) ours: OwnedFd,
    cookie: u64,
    inode: u64,
}

/// Creates a socket pair. Returns the daemon's end and the program's.
pub(crate) fn pair() -> rustix::io::Result<(PairEnd, OwnedFd)> {
    let (ours, theirs) = open_pair()?;
    sockopt::set_socket_send_buffer_size(&theirs, PROGRAM_BUFFER)?;
    sockopt::set_socket_send_buffer_size(&ours, DAEMON_BUFFER)?;
    let cookie = sockopt::socket_cookie(&theirs)?;
    let inode = rustix::fs::fstat(&theirs)?.st_ino;
    let end = PairEnd {
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

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use carrick_proto::Time;
    use carrick_proto::export::VERSION;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

    use super::*;

    fn descriptor(end: PairEnd) -> Descriptor {
        let number = 7_u64.to_be_bytes();
        let socket =
            SocketId::read(&mut ExportReader::new(VERSION, &number, Time::ZERO, None)).unwrap();
        Descriptor::new(socket, (0, 1), end)
    }

    /// Returns the number of a frame, its payload and whether a descriptor is attached.
    fn next(theirs: &OwnedFd) -> Option<(u32, Vec<u8>, bool)> {
        let mut bytes = vec![0; HEADER + MAX_PAYLOAD];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [std::io::IoSliceMut::new(&mut bytes)];
        let received = recvmsg(theirs, &mut parts, &mut control, RecvFlags::DONTWAIT).ok()?;
        let is_attached = control
            .drain()
            .any(|message| matches!(message, RecvAncillaryMessage::ScmRights(_)));
        let header: [u8; HEADER] = *bytes.first_chunk().unwrap();
        let sequence = Header::decode(&header).unwrap().sequence;
        Some((
            sequence,
            bytes[HEADER..received.bytes].to_vec(),
            is_attached,
        ))
    }

    #[test]
    fn frames_leave_in_batches_and_in_order() {
        let (end, theirs) = pair().unwrap();
        let mut descriptor = descriptor(end);
        descriptor.sequence = u32::MAX - 20;
        let attached = |n: u32| (n % 50 == 49).then(|| pair().unwrap().1);
        for n in 0..1000_u32 {
            descriptor.outgoing.push_back(OutgoingFrame {
                header: Header::new(FrameKind::Message),
                payload: Bytes::copy_from_slice(&n.to_be_bytes()),
                attached: attached(n),
            });
        }
        let (mut seen, mut waits) = (0_u32, 0);
        while seen < 1000 {
            // The pair has room for some hundred of them.
            waits += u32::from(!descriptor.flush());
            while let Some((sequence, payload, is_attached)) = next(&theirs) {
                assert_eq!(sequence, (u32::MAX - 20).wrapping_add(seen));
                assert_eq!(payload, seen.to_be_bytes());
                assert_eq!(is_attached, seen % 50 == 49);
                seen += 1;
            }
        }
        assert!(waits > 0 && descriptor.outgoing.is_empty());
    }

    #[test]
    fn the_size_of_a_batch_is_bounded() {
        let (end, _theirs) = pair().unwrap();
        let mut descriptor = descriptor(end);
        let frame = |len: usize, attached| OutgoingFrame {
            header: Header::new(FrameKind::Message),
            payload: Bytes::from(vec![0; len]),
            attached,
        };
        let small = std::iter::repeat_n(10, BATCH).collect();
        for sizes in [small, vec![MAX_PAYLOAD / 2; 2], vec![MAX_PAYLOAD]] {
            descriptor.outgoing.clear();
            for len in sizes {
                assert!(!descriptor.has_batch());
                descriptor.outgoing.push_back(frame(len, None));
            }
            assert!(descriptor.has_batch());
        }
        descriptor.outgoing.clear();
        let accepted = pair().unwrap().1;
        descriptor.outgoing.push_back(frame(1, Some(accepted)));
        assert!(descriptor.has_batch());
    }
}
