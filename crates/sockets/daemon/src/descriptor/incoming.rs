//! Frames of a program: how they are received from its pair, and become messages.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use bytes::Bytes;
use carrick_ipc::{
    FrameKind, HEADER, Header, LEASE_FIELDS, MAX_ATTACHED, MAX_FRAME, MAX_LEASED, MAX_PAYLOAD,
};
use carrick_proto::portable_struct;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, MultiHeaders, recvmmsg};
use rustix::buffer::spare_capacity;
use rustix::io::Errno as SystemErrno;
use rustix::net::{RecvFlags, recv};

use super::BATCH;
use crate::pair::receive_with_files;

/// Size in bytes of a frame of the program behind which further ones are received with one call. Larger ones stay
/// where they were received, one by one ([`IN_PLACE`]).
const SMALL: usize = 4096;

/// Size from which the data of a message stays where it was received, in bytes. What waits for the protocol then
/// keeps at most four times its size of memory; smaller data is copied.
const IN_PLACE: usize = MAX_FRAME / 4;

/// Message of the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramMessage {
    pub(crate) control: Vec<u8>,
    pub(crate) data: Bytes,
}

portable_struct! { ProgramMessage { control, data } }

/// Parts of a message of the program that is not complete.
#[derive(Debug, Default)]
struct PartialMessage {
    control: Vec<u8>,
    data: Vec<u8>,
    /// Offset of the data behind the header and the ancillary data of its first frame.
    start: usize,
    /// The message is larger than the send buffer; its data is dropped.
    is_too_large: bool,
}

portable_struct! { PartialMessage { control, data, start, is_too_large } }

/// Frame of the program.
pub(crate) enum ProgramFrame {
    Ignored,
    Message(ProgramMessage),
    /// End of a message that is larger than the send buffer.
    TooLarge,
    Invalid(&'static str),
}

/// Buffers of received frames, for all descriptors.
#[derive(Debug)]
pub(crate) struct FrameBuffers {
    /// A frame, empty between two; large messages keep it.
    frame: Vec<u8>,
    batch: Vec<u8>,
    /// Frames that are not passed to the protocol, and those of leases.
    other: Vec<u8>,
}

impl Default for FrameBuffers {
    fn default() -> Self {
        Self {
            frame: Vec::new(),
            // The system adds the memory of what frames have used.
            batch: vec![0; BATCH * (MAX_FRAME + 1)],
            // One byte more than the largest frame, to detect larger ones.
            other: vec![0; MAX_FRAME.max(MAX_LEASED + LEASE_FIELDS) + 1],
        }
    }
}

impl FrameBuffers {
    /// Returns the buffer of frames that are not passed to the protocol, and of those of leases.
    pub(crate) fn other(&mut self) -> &mut [u8] {
        &mut self.other
    }
}

/// Frames and messages that a descriptor has received and not passed to the protocol.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// Message that the full send buffer has refused, and those of its batch behind it: at most what the pair had room for.
    refused: VecDeque<ProgramMessage>,
    /// Message that is not complete.
    partial: Option<PartialMessage>,
    /// The pair may have frames of the program.
    is_readable: bool,
    /// The last frame of the program was small.
    is_last_small: bool,
}

portable_struct! {
    Incoming { refused, partial, is_readable }
    rebuilt { is_last_small: false }
}

impl Incoming {
    /// Returns whether the pair may have frames.
    pub(crate) fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// Sets whether the pair may have frames.
    pub(crate) fn set_readable(&mut self, is_readable: bool) {
        self.is_readable = is_readable;
    }

    /// Returns whether messages wait for room in the send buffer.
    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Takes the first message that waits for room in the send buffer.
    pub(crate) fn take_refused(&mut self) -> Option<ProgramMessage> {
        self.refused.pop_front()
    }

    /// Returns the message that [`Self::take_refused`] has taken.
    pub(crate) fn return_refused(&mut self, message: ProgramMessage) {
        self.refused.push_front(message);
    }

    /// Adds a message behind those that wait for room in the send buffer.
    pub(crate) fn refuse(&mut self, message: ProgramMessage) {
        self.refused.push_back(message);
    }

    /// Receives one frame, or several with one call if the last one was small: it shows whether the pair has more.
    /// If frames may have files attached, they are added to `files`.
    pub(crate) fn receive(
        &mut self,
        ours: &OwnedFd,
        buffers: &mut FrameBuffers,
        files: Option<&mut Vec<RawFd>>,
    ) -> rustix::io::Result<FrameLengths> {
        buffers.frame.clear();
        let lengths = match &mut self.partial {
            Some(partial) => FrameLengths::one(partial.receive(ours, &mut buffers.frame, files)?),
            None if self.is_last_small => receive_batch(ours, &mut buffers.batch, files)?,
            None => FrameLengths::one(receive(ours, &mut buffers.frame, files)?),
        };
        // The end of the pair fills all of a batch, and another event follows an error.
        self.is_readable = !lengths.is_batch || lengths.count == BATCH;
        Ok(lengths)
    }

    /// Reads a frame that was received. `limit` is the size of the largest message in parts, in bytes.
    pub(crate) fn parse(
        &mut self,
        (slot, lengths): (usize, &FrameLengths),
        buffers: &mut FrameBuffers,
        limit: usize,
    ) -> ProgramFrame {
        let len = lengths.bytes[slot];
        if lengths.is_batch {
            let frame = &buffers.batch[slot * (MAX_FRAME + 1)..][..len];
            take_from_batch(frame, &mut buffers.frame, &mut self.partial);
        }
        self.is_last_small = len <= SMALL;
        parse(len, &mut buffers.frame, &mut self.partial, limit)
    }
}

/// Receives a frame of the program into an empty buffer, of which it uses the capacity. Returns its length, which
/// is larger than [`MAX_FRAME`] for a larger one.
/// If frames may have files attached, they are added to `files`.
fn receive(
    ours: &OwnedFd,
    frame: &mut Vec<u8>,
    files: Option<&mut Vec<RawFd>>,
) -> rustix::io::Result<usize> {
    frame.reserve_exact(MAX_FRAME + 1);
    if let Some(files) = files {
        frame.resize(MAX_FRAME + 1, 0);
        let received = receive_parts(ours, &mut [IoSliceMut::new(frame)], files);
        frame.truncate(received.unwrap_or(0));
        return received;
    }
    let (len, _) = recv(ours, spare_capacity(frame), RecvFlags::DONTWAIT)?;
    Ok(len)
}

/// Receives a frame of the program into several buffers, with the files that are attached to it.
fn receive_parts(
    ours: &OwnedFd,
    parts: &mut [IoSliceMut<'_>],
    files: &mut Vec<RawFd>,
) -> rustix::io::Result<usize> {
    let mut attached = Vec::new();
    let received = receive_with_files(ours, parts, &mut attached, RecvFlags::DONTWAIT);
    files.extend(attached.into_iter().map(OwnedFd::into_raw_fd));
    received
}

/// Lengths of the frames that were received with one call.
#[derive(Default)]
pub(crate) struct FrameLengths {
    bytes: [usize; BATCH],
    count: usize,
    /// They are in the buffer of batches.
    is_batch: bool,
}

impl FrameLengths {
    fn one(length: usize) -> Self {
        let mut lengths = Self::default();
        (lengths.bytes[0], lengths.count) = (length, 1);
        lengths
    }

    /// Returns the lengths in their order.
    pub(crate) fn as_slice(&self) -> &[usize] {
        &self.bytes[..self.count]
    }
}

/// Receives frames of the program with one call, each at the next multiple of `MAX_FRAME + 1` in the buffer. Returns
/// their lengths: fewer than [`BATCH`] if the pair has no further one, and 0 for its end.
/// If frames may have files attached, they are added to `files`.
fn receive_batch(
    ours: &OwnedFd,
    buffer: &mut [u8],
    mut files: Option<&mut Vec<RawFd>>,
) -> rustix::io::Result<FrameLengths> {
    let slots = buffer.chunks_mut(MAX_FRAME + 1).take(BATCH);
    let mut slots: Vec<_> = slots.map(|slot| [IoSliceMut::new(slot)]).collect();
    let space = files
        .is_some()
        .then(|| nix::cmsg_space!([RawFd; MAX_ATTACHED]));
    let mut headers = MultiHeaders::<()>::preallocate(BATCH, space);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let received = recvmmsg(
        ours.as_raw_fd(),
        &mut headers,
        slots.iter_mut(),
        flags,
        None,
    );
    let received = received.map_err(|error| SystemErrno::from_raw_os_error(error as i32))?;
    let mut lengths = FrameLengths {
        is_batch: true,
        ..FrameLengths::default()
    };
    for (length, message) in lengths.bytes.iter_mut().zip(received) {
        *length = message.bytes;
        lengths.count += 1;
        if let Some(files) = &mut files {
            for control in message.cmsgs().into_iter().flatten() {
                if let ControlMessageOwned::ScmRights(attached) = control {
                    files.extend(attached);
                }
            }
        }
    }
    Ok(lengths)
}

/// Copies a frame out of a batch to where [`receive`] or [`PartialMessage::receive`] would have received it.
fn take_from_batch(bytes: &[u8], frame: &mut Vec<u8>, partial: &mut Option<PartialMessage>) {
    frame.clear();
    match partial {
        Some(partial) => {
            let (header, data) = bytes.split_at(bytes.len().min(HEADER));
            frame.extend_from_slice(header);
            partial.data.extend_from_slice(data);
        }
        None => frame.extend_from_slice(bytes),
    }
}

impl PartialMessage {
    /// Receives the next part of the message: its header into an empty buffer, and its data behind the data that
    /// the message has. Returns the length of the frame.
    /// If frames may have files attached, they are added to `files`.
    fn receive(
        &mut self,
        ours: &OwnedFd,
        header: &mut Vec<u8>,
        files: Option<&mut Vec<RawFd>>,
    ) -> rustix::io::Result<usize> {
        let before = self.data.len();
        header.resize(HEADER, 0);
        self.data.resize(before + MAX_PAYLOAD + 1, 0);
        let mut parts = [
            IoSliceMut::new(header),
            IoSliceMut::new(&mut self.data[before..]),
        ];
        let received = receive_parts(ours, &mut parts, files.unwrap_or(&mut Vec::new()));
        let len = received.unwrap_or(0);
        header.truncate(len);
        self.data.truncate(before + len.saturating_sub(HEADER));
        received
    }
}

/// Reads a frame of `len` bytes of the program. `frame` has all of it, or the header alone if it continues a
/// message, whose data [`PartialMessage::receive`] has added. `limit` is the size of the largest message in parts,
/// in bytes.
fn parse(
    len: usize,
    frame: &mut Vec<u8>,
    partial: &mut Option<PartialMessage>,
    limit: usize,
) -> ProgramFrame {
    let Ok(header) = Header::decode(frame) else {
        return ProgramFrame::Invalid("bytes that are no frame");
    };
    match header.kind {
        FrameKind::Plug => {
            // A call of another process that shares the descriptor may put it between two parts of a message.
            if let Some(message) = partial {
                let plug = len.saturating_sub(HEADER).min(MAX_PAYLOAD + 1);
                message.data.truncate(message.data.len() - plug);
            }
            return ProgramFrame::Ignored;
        }
        FrameKind::Send if len <= MAX_FRAME => {}
        _ => return ProgramFrame::Invalid("a frame of another kind"),
    }
    let start = HEADER + usize::from(header.control);
    let mut message = match partial.take() {
        Some(_) if header.control > 0 => {
            return ProgramFrame::Invalid("ancillary data within a message");
        }
        Some(message) => message,
        None if start > len => return ProgramFrame::Invalid("a frame that is too short"),
        None if header.is_end => {
            return ProgramFrame::Message(ProgramMessage {
                control: frame[HEADER..start].to_vec(),
                data: if len - start < IN_PLACE {
                    Bytes::copy_from_slice(&frame[start..])
                } else {
                    Bytes::from(std::mem::take(frame)).slice(start..)
                },
            });
        }
        None => PartialMessage {
            control: frame[HEADER..start].to_vec(),
            data: std::mem::take(frame),
            start,
            is_too_large: false,
        },
    };
    if message.is_too_large || message.data.len() - message.start > limit {
        message.is_too_large = true;
        message.data.clear();
        message.start = 0;
    }
    if !header.is_end {
        *partial = Some(message);
        return ProgramFrame::Ignored;
    }
    if message.is_too_large {
        return ProgramFrame::TooLarge;
    }
    ProgramFrame::Message(ProgramMessage {
        control: message.control,
        data: Bytes::from(message.data).slice(message.start..),
    })
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::AsFd;

    use rustix::net::{SendFlags, send, sockopt};

    use super::*;
    use crate::pair::{open_pair, pass_files, send_with_files};

    fn frame(header: Header, body: &[u8]) -> Vec<u8> {
        let mut bytes = header.encode().to_vec();
        bytes.extend(body);
        bytes
    }

    fn part(is_end: bool, control: u16, body: &[u8]) -> Vec<u8> {
        let header = Header {
            is_end,
            control,
            ..Header::new(FrameKind::Send)
        };
        frame(header, body)
    }

    fn plug() -> Vec<u8> {
        frame(Header::new(FrameKind::Plug), &[0; 100])
    }

    fn sockets() -> (OwnedFd, OwnedFd) {
        let (ours, theirs) = open_pair().unwrap();
        sockopt::set_socket_send_buffer_size(&theirs, 1 << 18).unwrap();
        (ours, theirs)
    }

    /// Passes a frame through a pair, as a program and the daemon do.
    fn pass(frame: &[u8], incoming: &mut Incoming, limit: usize) -> ProgramFrame {
        let (ours, theirs) = sockets();
        send(&theirs, frame, SendFlags::empty()).unwrap();
        let mut buffers = FrameBuffers::default();
        let lengths = incoming.receive(&ours, &mut buffers, None).unwrap();
        incoming.parse((0, &lengths), &mut buffers, limit)
    }

    fn message_of(frame: ProgramFrame) -> ProgramMessage {
        match frame {
            ProgramFrame::Message(message) => message,
            _ => panic!("no message"),
        }
    }

    #[test]
    fn parts_become_one_message() {
        let mut incoming = Incoming::default();
        let first = pass(&part(false, 3, b"ctlabc"), &mut incoming, 6);
        assert!(matches!(first, ProgramFrame::Ignored));
        let plugged = pass(&plug(), &mut incoming, 6);
        assert!(matches!(plugged, ProgramFrame::Ignored));
        let message = message_of(pass(&part(true, 0, b"def"), &mut incoming, 6));
        let content = (&message.control[..], &message.data[..]);
        assert_eq!(content, (&b"ctl"[..], &b"abcdef"[..]));
        assert!(incoming.partial.is_none());
        pass(&part(false, 0, b"1234"), &mut incoming, 6);
        let third = pass(&part(false, 0, b"567"), &mut incoming, 6);
        assert!(matches!(third, ProgramFrame::Ignored));
        let end = pass(&part(true, 0, b"8"), &mut incoming, 6);
        assert!(matches!(end, ProgramFrame::TooLarge));
        assert!(incoming.partial.is_none());
        pass(&part(false, 0, b"1234"), &mut incoming, 6);
        let control = pass(&part(true, 1, b"c5"), &mut incoming, 6);
        assert!(matches!(control, ProgramFrame::Invalid(_)));
    }

    /// Returns the messages of all frames of a pair, received one by one or in batches, with the number of calls that
    /// received frames.
    fn read_all(ours: &OwnedFd, in_batches: bool) -> (Vec<ProgramMessage>, usize) {
        let (mut incoming, mut buffers) = (Incoming::default(), FrameBuffers::default());
        let (mut messages, mut calls) = (Vec::new(), 0);
        loop {
            incoming.is_last_small = in_batches;
            let Ok(lengths) = incoming.receive(ours, &mut buffers, None) else {
                return (messages, calls);
            };
            calls += 1;
            for slot in 0..lengths.as_slice().len() {
                match incoming.parse((slot, &lengths), &mut buffers, 1 << 20) {
                    ProgramFrame::Message(message) => messages.push(message),
                    ProgramFrame::Ignored => {}
                    _ => panic!("frame {slot}"),
                }
            }
        }
    }

    #[test]
    fn frames_of_a_batch_are_those_received_one_by_one() {
        let mut frames: Vec<_> = (0..40).map(|n| part(true, 2, &[n; 100])).collect();
        // A message in three parts with a plug between them, at the end of the first batch and behind it.
        frames.insert(14, part(false, 3, &vec![1; MAX_PAYLOAD - 3]));
        frames.insert(15, part(false, 0, &vec![2; MAX_PAYLOAD]));
        frames.insert(16, plug());
        frames.insert(17, part(true, 0, b"end"));
        let [single, batches] = [false, true].map(|in_batches| {
            let (ours, theirs) = sockets();
            for frame in &frames {
                send(&theirs, frame, SendFlags::DONTWAIT).unwrap();
            }
            read_all(&ours, in_batches)
        });
        let sizes = (single.0.len(), single.0[14].data.len());
        assert_eq!(sizes, (41, 2 * MAX_PAYLOAD - 3));
        let content = |message: &ProgramMessage| (message.control.clone(), message.data.clone());
        let batched = batches.0.iter().map(content);
        assert!(single.0.iter().map(content).eq(batched));
        assert_eq!((single.1, batches.1), (44, 5));
    }

    #[test]
    fn the_end_of_a_pair_fills_a_batch() {
        let (ours, theirs) = sockets();
        let (mut incoming, mut buffers) = (Incoming::default(), FrameBuffers::default());
        incoming.is_last_small = true;
        let mut lengths = || {
            let lengths = incoming.receive(&ours, &mut buffers, None)?;
            Ok((lengths.as_slice().to_vec(), incoming.is_readable))
        };
        send(&theirs, &part(true, 0, b"last"), SendFlags::DONTWAIT).unwrap();
        assert_eq!(lengths(), Ok((vec![HEADER + 4], false)));
        assert_eq!(lengths(), Err(SystemErrno::AGAIN));
        send(&theirs, &part(true, 0, b"last"), SendFlags::DONTWAIT).unwrap();
        drop(theirs);
        let mut last = vec![0; BATCH];
        last[0] = HEADER + 4;
        assert_eq!(lengths(), Ok((last, true)));
        assert_eq!(lengths(), Ok((vec![0; BATCH], true)));
    }

    /// On systems where pairs pass files, each is received with its frame, and none is closed by the system.
    #[test]
    fn files_are_received_with_their_frames() {
        for in_batches in [false, true] {
            let (ours, theirs) = sockets();
            pass_files(&ours, true);
            let bytes = part(true, 0, b"a file is attached");
            let parts = [IoSlice::new(&bytes)];
            let files = [theirs.as_fd(); MAX_ATTACHED];
            for _ in 0..2 {
                send_with_files(&theirs, &parts, &files, SendFlags::empty()).unwrap();
            }
            let (mut incoming, mut buffers) = (Incoming::default(), FrameBuffers::default());
            incoming.is_last_small = in_batches;
            let mut received = Vec::new();
            let lengths = incoming.receive(&ours, &mut buffers, Some(&mut received));
            let frames = lengths.unwrap().count;
            assert_eq!(frames, if in_batches { 2 } else { 1 });
            assert_eq!(received.len(), frames * MAX_ATTACHED);
            for file in received {
                nix::unistd::close(file).unwrap();
            }
        }
    }

    /// Large data is not copied after it was received; what is kept of small data has its size.
    #[test]
    fn data_stays_where_it_was_received() {
        let mut buffer = part(true, 0, &vec![7; IN_PLACE]);
        buffer.reserve_exact(MAX_FRAME + 1 - buffer.len());
        let data = buffer[HEADER..].as_ptr();
        let message = message_of(parse(buffer.len(), &mut buffer, &mut None, 0));
        let place = (message.data.as_ptr(), message.data.len());
        assert_eq!(place, (data, IN_PLACE));
        assert_eq!(buffer.capacity(), 0, "the message has the buffer");
        let mut buffer = part(true, 0, &[7; 100]);
        let len = buffer.len();
        let kept = Vec::from(message_of(parse(len, &mut buffer, &mut None, 0)).data);
        assert_eq!((kept.len(), kept.capacity(), buffer.len()), (100, 100, len));
    }

    #[test]
    fn other_frames_are_invalid() {
        let mut incoming = Incoming::default();
        let message = frame(Header::new(FrameKind::Message), b"");
        for bytes in [&message[..], b"GET / HTTP/1.1"] {
            let passed = pass(bytes, &mut incoming, 9);
            assert!(matches!(passed, ProgramFrame::Invalid(_)));
        }
        let plugged = pass(&plug(), &mut incoming, 9);
        assert!(matches!(plugged, ProgramFrame::Ignored));
    }
}
