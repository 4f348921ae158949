//! Frames for a program: how they wait for room in its pair, and are sent.

use std::array;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::Bytes;
use carrick_ipc::{FrameKind, HEADER, Header, MAX_PAYLOAD};
use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};
use carrick_proto::portable_struct;
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, sendmmsg};

use super::BATCH;
use crate::pair::{AT_ONCE, send_with_files};

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

impl OutgoingFrame {
    /// Returns the frame that notifies the program of the pending error.
    pub(crate) fn failed() -> Self {
        Self {
            header: Header::new(FrameKind::Failed),
            payload: Bytes::new(),
            attached: None,
        }
    }
}

/// Frames for the program that wait for room.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    frames: VecDeque<OutgoingFrame>,
    /// Sequence number of the next frame.
    sequence: u32,
}

portable_struct! { Outgoing { frames, sequence } }

impl Outgoing {
    /// Returns no frames, the next of which has this sequence number.
    pub(super) fn starting_at(sequence: u32) -> Self {
        Self {
            frames: VecDeque::new(),
            sequence,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn push(&mut self, frame: OutgoingFrame) {
        self.frames.push_back(frame);
    }

    /// Takes all waiting frames.
    pub(crate) fn take_all(&mut self) -> VecDeque<OutgoingFrame> {
        std::mem::take(&mut self.frames)
    }

    /// Replaces the waiting frames.
    pub(crate) fn set_all(&mut self, frames: VecDeque<OutgoingFrame>) {
        self.frames = frames;
    }

    /// Returns the descriptor that is attached to each waiting frame.
    pub(crate) fn attached(&self) -> impl Iterator<Item = Option<&OwnedFd>> {
        self.frames.iter().map(|frame| frame.attached.as_ref())
    }

    /// Returns the places of the descriptors that are attached to the waiting frames.
    pub(crate) fn attached_mut(&mut self) -> impl Iterator<Item = &mut Option<OwnedFd>> {
        self.frames.iter_mut().map(|frame| &mut frame.attached)
    }

    /// Sends the waiting frames on the daemon's end of the pair. Returns false if the pair has no room.
    pub(crate) fn flush(&mut self, ours: &OwnedFd) -> bool {
        while let Some(first) = self.frames.front() {
            let sent = if first.attached.is_some() {
                send_attached(ours.as_fd(), first, self.sequence).map(|()| 1)
            } else {
                send_batch(ours.as_fd(), &self.frames, self.sequence)
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
            self.frames.drain(..sent);
        }
        true
    }

    /// Returns whether the waiting frames are to be sent before further ones are added: as many as one call sends, as
    /// many bytes as the largest frame, or an association to accept, the next of which stays in the backlog.
    pub(crate) fn has_batch(&self) -> bool {
        let bytes = self.frames.iter().map(|frame| frame.payload.len());
        let last = self.frames.back();
        self.frames.len() >= BATCH
            || last.is_some_and(|frame| frame.attached.is_some())
            || bytes.sum::<usize>() >= MAX_PAYLOAD
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

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

    use super::super::pair;
    use super::*;

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
        let mut outgoing = Outgoing {
            sequence: u32::MAX - 20,
            ..Outgoing::default()
        };
        let attached = |n: u32| (n % 50 == 49).then(|| pair().unwrap().1);
        for n in 0..1000_u32 {
            outgoing.push(OutgoingFrame {
                header: Header::new(FrameKind::Message),
                payload: Bytes::copy_from_slice(&n.to_be_bytes()),
                attached: attached(n),
            });
        }
        let (mut seen, mut waits) = (0_u32, 0);
        while seen < 1000 {
            // The pair has room for some hundred of them.
            waits += u32::from(!outgoing.flush(&end.ours));
            while let Some((sequence, payload, is_attached)) = next(&theirs) {
                assert_eq!(sequence, (u32::MAX - 20).wrapping_add(seen));
                assert_eq!(payload, seen.to_be_bytes());
                assert_eq!(is_attached, seen % 50 == 49);
                seen += 1;
            }
        }
        assert!(waits > 0 && outgoing.is_empty());
    }

    #[test]
    fn the_size_of_a_batch_is_bounded() {
        let mut outgoing = Outgoing::default();
        let frame = |len: usize, attached| OutgoingFrame {
            header: Header::new(FrameKind::Message),
            payload: Bytes::from(vec![0; len]),
            attached,
        };
        let small = std::iter::repeat_n(10, BATCH).collect();
        for sizes in [small, vec![MAX_PAYLOAD / 2; 2], vec![MAX_PAYLOAD]] {
            outgoing.frames.clear();
            for len in sizes {
                assert!(!outgoing.has_batch());
                outgoing.push(frame(len, None));
            }
            assert!(outgoing.has_batch());
        }
        outgoing.frames.clear();
        let accepted = pair().unwrap().1;
        outgoing.push(frame(1, Some(accepted)));
        assert!(outgoing.has_batch());
    }
}
