//! `sctp_peeloff`.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use carrick_ipc::{HEADER, Header};
use carrick_proto::Time;
use carrick_sockets::Errno;
use rustix::net::{RecvFlags, recv};

use super::reply::ReplyContent;
use crate::descriptor::{Descriptor, OutgoingFrame};
use crate::parts::Parts;
use crate::serve::{insert_descriptor, open_pair, serve};

/// `sctp_peeloff`. Frames of the association that the program has not read belong to the new descriptor.
///
/// 1. Branch the association off, with a new descriptor.
/// 2. Take the frames from the program's end of the old descriptor, and those that wait for room.
/// 3. Pass those of the association to the new descriptor, and the remaining ones to the old one again.
pub(super) fn peel_off(
    parts: &mut Parts,
    now: Time,
    descriptor: &mut Descriptor,
    (association, theirs): (i32, &OwnedFd),
) -> Result<ReplyContent, Errno> {
    // 1
    let pair = open_pair(parts, descriptor.owner())?;
    let socket = descriptor.socket();
    let id = parts.sockets.peeloff(now, socket, association)?;
    let (branched, token) = insert_descriptor(parts, id, pair);
    // 2
    let mut frames = take_unread(theirs, parts.frames.other());
    frames.extend(descriptor.outgoing.take_all());
    let is_moved = |frame: &OutgoingFrame| frame.header.info.association == association;
    let (moved, kept): (VecDeque<_>, _) = frames.into_iter().partition(is_moved);
    // 3
    descriptor.outgoing.set_all(kept);
    descriptor.flush();
    if let Some(new) = parts.descriptors.get_mut(token) {
        new.record_data(&moved);
        new.outgoing.set_all(moved);
    }
    // The program reads the messages right after the reply.
    serve(parts, now, token);
    Ok(ReplyContent::attached(branched))
}

/// Takes the frames from a program's end that the program has not read. Of a message that it has read in
/// part, which the kernel's peek offset shows, the rest remains.
fn take_unread(theirs: &OwnedFd, buffer: &mut [u8]) -> VecDeque<OutgoingFrame> {
    let mut frames = VecDeque::new();
    let peek = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    let mut rest = recv(theirs, &mut *buffer, peek).map_or(0, |(_, len)| len);
    while let Ok((len, _)) = recv(theirs, &mut *buffer, RecvFlags::DONTWAIT) {
        let Ok(header) = Header::decode(&buffer[..len]) else {
            // The end of the pair; the daemon sends whole frames.
            break;
        };
        let start = HEADER.max(len.saturating_sub(rest));
        frames.push_back(OutgoingFrame {
            header,
            payload: Bytes::copy_from_slice(&buffer[start..len]),
            attached: None,
        });
        rest = usize::MAX;
    }
    frames
}
