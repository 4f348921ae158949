//! Service of a descriptor: messages from the program to the protocol, and from the protocol to the
//! program.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use bytes::Bytes;
use carrick_ipc::{FrameKind, HEADER, Header, MAX_ATTACHED, MAX_FRAME, MAX_PAYLOAD, MessageInfo};
use carrick_proto::Time;
use carrick_sockets::{Closed, Errno, OutgoingMessage, Readiness, Received, Style};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, MultiHeaders, recvmmsg};
use rustix::buffer::spare_capacity;
use rustix::io::Errno as SystemErrno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use crate::descriptor::{
    BATCH, Descriptor, OutgoingFrame, PairEnd, PartialMessage, ProgramMessage, describe, pair,
};
use crate::driver::{Driver, PAUSE};
use crate::linger::LingeringSocket;
use crate::pair::receive_with_files;
use crate::poller::Token;

/// Maximum number of frames of the program that are read in a turn of a descriptor.
const TURN: usize = 64;

/// Size in bytes of a frame of the program behind which further ones are received with one call. Larger ones stay
/// where they were received, one by one ([`IN_PLACE`]).
const SMALL: usize = 4096;

/// Maximum number of batches for the program in one turn of a descriptor.
const BATCHES: usize = 4;

/// Limit of the turns in which a pair is read before a request: more frames than it has room for.
const DRAIN: usize = 16;

/// Result of reading a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReadResult {
    /// Nothing can be read now.
    Dry,
    /// The limit of a turn is reached.
    More,
    /// The program has closed the descriptor.
    Closed,
    /// The program has sent an invalid frame.
    Invalid(&'static str),
}

/// Frame of the program.
enum ProgramFrame {
    Ignored,
    Message(ProgramMessage),
    /// End of a message that is larger than the send buffer.
    TooLarge,
    Invalid(&'static str),
}

/// Socket pair without a socket.
#[derive(Debug)]
pub(crate) struct SocketPair {
    token: Token,
    end: PairEnd,
    theirs: OwnedFd,
    /// User and process.
    owner: (u32, i32),
}

impl Driver {
    /// Opens a socket pair for another socket of a user: before the socket exists, so that a socket without a pair
    /// never does.
    ///
    /// # Errors
    /// `EMFILE` at the user's limit, or without a free file descriptor.
    pub(crate) fn open_pair(&mut self, owner: (u32, i32)) -> Result<SocketPair, Errno> {
        let (token, end, theirs) = self.open_watched(owner.0, pair, |end| &end.ours)?;
        self.watch_end(&theirs).map_err(|_| Errno::EMFILE)?;
        Ok(SocketPair {
            token,
            end,
            theirs,
            owner,
        })
    }

    /// Opens a pair for a user, and watches the daemon's end, which `ours` returns. Returns its token and both ends.
    ///
    /// # Errors
    /// As for [`Self::open_pair`].
    pub(crate) fn open_watched<E>(
        &mut self,
        uid: u32,
        pair: impl FnOnce() -> rustix::io::Result<(E, OwnedFd)>,
        ours: impl FnOnce(&E) -> &OwnedFd,
    ) -> Result<(Token, E, OwnedFd), Errno> {
        let opened = self.users.check_descriptors(uid).and_then(|()| pair());
        let opened =
            opened.and_then(|(end, theirs)| Ok((self.poller.watch(ours(&end))?, end, theirs)));
        opened.map_err(|error| {
            self.users
                .record_failure(&format!("cannot open a socket of user {uid}"), error);
            Errno::EMFILE
        })
    }

    /// Adds a socket with its pair. Returns the program's end and the token.
    pub(crate) fn insert_descriptor(
        &mut self,
        socket: carrick_sockets::SocketId,
        pair: SocketPair,
    ) -> (OwnedFd, Token) {
        let SocketPair {
            token,
            end,
            theirs,
            owner,
        } = pair;
        let uid = owner.0;
        let descriptor = Descriptor::new(socket, owner, end);
        self.by_cookie.insert(descriptor.cookie, token);
        self.by_socket.insert(socket, token);
        self.users.add_descriptor(uid);
        self.descriptors.insert(token, descriptor);
        self.ready.insert(token);
        (theirs, token)
    }

    /// Removes a descriptor whose socket is closed.
    pub(crate) fn forget(&mut self, now: Time, token: Token, mut descriptor: Descriptor) {
        self.by_cookie.remove(&descriptor.cookie);
        self.by_socket.remove(&descriptor.socket);
        self.ended.remove(&token);
        self.ready.remove(&token);
        self.departed.insert(descriptor.cookie, descriptor.uid);
        self.schedule_check(now);
        self.users.remove_descriptor(descriptor.uid);
        if let Some(ours) = descriptor.ours.take() {
            self.users.close_pair(descriptor.uid, ours);
        }
        // There is room for the associations that wait in backlogs.
        self.ready.append(&mut self.starved);
        self.serve_again = None;
    }

    /// Passes messages in both directions, as far as there is room.
    pub(crate) fn serve(&mut self, now: Time, token: Token) {
        let Some(mut descriptor) = self.descriptors.remove(&token) else {
            return;
        };
        if self.serve_one(now, token, &mut descriptor) {
            self.descriptors.insert(token, descriptor);
        } else {
            self.forget(now, token, descriptor);
        }
    }

    /// Returns false if the program has closed the descriptor.
    fn serve_one(&mut self, now: Time, token: Token, descriptor: &mut Descriptor) -> bool {
        if descriptor.is_ended {
            return true;
        }
        let level = self.sockets.readiness(descriptor.socket);
        let level = level.unwrap_or_default();
        let settled = Readiness::WRITABLE | Readiness::HANG_UP | Readiness::ERROR;
        if descriptor.is_plugged && level.intersects(settled) {
            if level.contains(Readiness::HANG_UP) && self.never_established(descriptor) {
                self.end_failed(now, token, descriptor);
                return true;
            }
            descriptor.is_plugged = false;
        }
        match self.read(now, descriptor) {
            ReadResult::Closed => {
                self.close(now, descriptor);
                return false;
            }
            ReadResult::Invalid(reason) => self.break_off(now, token, descriptor, reason),
            ReadResult::More => {
                self.ready.insert(token);
            }
            ReadResult::Dry => {}
        }
        if !descriptor.is_ended {
            self.refuse_writes(descriptor);
            self.deliver(now, token, descriptor);
        }
        true
    }

    /// Makes the program's end refuse messages (`EPIPE`) when the protocol does: after `shutdown`, and after the
    /// peer's SHUTDOWN (RFC 9260, section 9.2). Those that were sent before can still be read.
    fn refuse_writes(&self, descriptor: &mut Descriptor) {
        let status = self.sockets.status(descriptor.socket);
        let closed = status.is_ok_and(|s| s.style == Style::OneToOne && s.is_write_closed);
        if !closed || std::mem::replace(&mut descriptor.is_write_refused, true) {
            return;
        }
        if let Some(ours) = &descriptor.ours {
            // The program may have closed its end.
            let _ = shutdown(ours, Shutdown::Read);
        }
    }

    fn never_established(&self, descriptor: &Descriptor) -> bool {
        let status = self.sockets.status(descriptor.socket);
        status.is_ok_and(|s| s.style == Style::OneToOne && !s.is_write_closed)
    }

    /// Closes the socket of a descriptor that the program has closed. As in Linux, messages that the
    /// program has not read end the association with ABORT, but notifications do not. If both were sent,
    /// the daemon does not know which were read.
    fn close(&mut self, now: Time, descriptor: &Descriptor) {
        let listens = self.sockets.status(descriptor.socket);
        let listens = listens.is_ok_and(|status| status.is_listening);
        // The socket exists as long as its descriptor, unless the daemon has broken it off.
        let _ = if descriptor.was_reset && descriptor.has_data && !listens {
            self.sockets.abort(now, descriptor.socket)
        } else {
            let closed = self.sockets.close(now, descriptor.socket);
            if let Ok(Closed::Lingers(time)) = closed {
                let lingering = LingeringSocket::new(descriptor, time);
                self.lingering.insert(descriptor.cookie, lingering);
            }
            closed.map(drop)
        };
    }

    /// Passes the messages that the program has sent before a request to the protocol.
    pub(crate) fn drain(&mut self, now: Time, token: Token, descriptor: &mut Descriptor) {
        for _ in 0..DRAIN {
            match self.read(now, descriptor) {
                ReadResult::More => {}
                ReadResult::Dry => return,
                // The next turn handles it.
                ReadResult::Closed => {
                    descriptor.is_readable = true;
                    self.ready.insert(token);
                    return;
                }
                ReadResult::Invalid(reason) => {
                    return self.break_off(now, token, descriptor, reason);
                }
            }
        }
    }

    /// Reads frames of the program, and passes its messages to the protocol.
    ///
    /// 1. Send the messages that the full send buffer has refused before. Without room for them nothing is read.
    /// 2. Receive one frame, or several with one call if the last one was small.
    /// 3. Pass the message that each of them completes to the protocol, or keep it behind one that was refused.
    fn read(&mut self, now: Time, descriptor: &mut Descriptor) -> ReadResult {
        let mut frames = 0;
        while frames < TURN {
            // 1
            while let Some(message) = descriptor.refused.pop_front() {
                if let Some(refused) = self.send(now, descriptor, message) {
                    descriptor.refused.push_front(refused);
                    break;
                }
            }
            // A plug of a closed descriptor is in front of its end.
            let is_plugged = descriptor.is_plugged && !descriptor.is_closed;
            if !descriptor.refused.is_empty() || is_plugged || !descriptor.is_readable {
                return self.dry(now, descriptor);
            }
            // 2
            let Some(ours) = &descriptor.ours else {
                return ReadResult::Dry;
            };
            self.frame.clear();
            let is_batch = descriptor.is_last_small && descriptor.partial.is_none();
            let mut files = self.users.closers().pairs_pass_files().then(Vec::new);
            let received = match &mut descriptor.partial {
                Some(partial) => partial
                    .receive(ours, &mut self.frame, files.as_mut())
                    .map(FrameLengths::one),
                None if is_batch => receive_batch(ours, &mut self.batch, files.as_mut()),
                None => receive(ours, &mut self.frame, files.as_mut()).map(FrameLengths::one),
            };
            if let Some(files) = files.filter(|files| !files.is_empty()) {
                self.close_files(descriptor.uid, files);
                return ReadResult::Invalid("a file");
            }
            let lengths = match received {
                Ok(lengths) => lengths,
                Err(SystemErrno::AGAIN) => {
                    descriptor.is_readable = false;
                    return self.dry(now, descriptor);
                }
                Err(SystemErrno::CONNRESET) => {
                    descriptor.was_reset = true;
                    frames += 1;
                    continue;
                }
                Err(SystemErrno::INTR) => {
                    frames += 1;
                    continue;
                }
                Err(_) => return ReadResult::Closed,
            };
            frames += lengths.count;
            // The end of the pair fills all of a batch, and another event follows an error.
            descriptor.is_readable = !is_batch || lengths.count == BATCH;
            // 3
            for (slot, len) in lengths.into_iter().enumerate() {
                if len == 0 {
                    if descriptor.refused.is_empty() {
                        return self.read_empty(now, descriptor);
                    }
                    // The end of the pair is read again.
                    break;
                }
                if is_batch {
                    let frame = &self.batch[slot * (MAX_FRAME + 1)..][..len];
                    take_from_batch(frame, &mut self.frame, &mut descriptor.partial);
                }
                descriptor.is_last_small = len <= SMALL;
                let limit = self.sockets.status(descriptor.socket);
                let limit = limit.map_or(0, |status| status.max_message);
                match parse(len, &mut self.frame, &mut descriptor.partial, limit) {
                    ProgramFrame::Ignored => {}
                    ProgramFrame::Invalid(reason) => return ReadResult::Invalid(reason),
                    ProgramFrame::TooLarge => self.report_dropped(now, descriptor, Errno::EMSGSIZE),
                    ProgramFrame::Message(message) => {
                        let refused = if descriptor.refused.is_empty() {
                            self.send(now, descriptor, message)
                        } else {
                            Some(message)
                        };
                        descriptor.refused.extend(refused);
                    }
                }
            }
        }
        ReadResult::More
    }

    /// Handles a read of 0 bytes: the end of the pair, or an empty frame.
    fn read_empty(&mut self, now: Time, descriptor: &mut Descriptor) -> ReadResult {
        if descriptor.is_write_refused && !descriptor.is_closed {
            descriptor.is_readable = false;
            return self.dry(now, descriptor);
        }
        // Peeked, so that what is attached to another frame stays there.
        let with = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let again = descriptor
            .ours
            .as_ref()
            .map(|ours| recv(ours, &mut self.buffer[..], with));
        match again {
            Some(Ok((0, _))) => ReadResult::Closed,
            _ => ReadResult::Invalid("an empty frame"),
        }
    }

    /// Shuts the association down after the last message, if the program has called `shutdown`.
    fn dry(&mut self, now: Time, descriptor: &mut Descriptor) -> ReadResult {
        if descriptor.is_dry()
            && let Some(how) = descriptor.shutdown.take()
        {
            // An association that has ended meanwhile is shut down already.
            let _ = self.sockets.shutdown(now, descriptor.socket, how);
        }
        ReadResult::Dry
    }

    /// Sends a message, or returns it if the send buffer has no room. One that the protocol refuses was passed by
    /// a process with an outdated description of the socket, and is reported as the pending error.
    fn send(
        &mut self,
        now: Time,
        descriptor: &Descriptor,
        message: ProgramMessage,
    ) -> Option<ProgramMessage> {
        let level = self.sockets.readiness(descriptor.socket);
        if level.is_none_or(|level| level.contains(Readiness::HANG_UP)) {
            // Lost with the association, whose error the program has still to read.
            return None;
        }
        let outgoing = OutgoingMessage {
            address: None,
            data: message.data.clone(),
            control: &message.control,
        };
        match self.sockets.sendmsg(now, descriptor.socket, &outgoing) {
            Err(Errno::EAGAIN) => return Some(message),
            Ok(_) | Err(Errno::EPIPE | Errno::ESHUTDOWN | Errno::ENOTCONN) => {}
            Err(error) => self.report_dropped(now, descriptor, error),
        }
        None
    }

    /// Reports a message that was dropped after the program had sent it, as the pending error.
    fn report_dropped(&mut self, now: Time, descriptor: &Descriptor, error: Errno) {
        if self.sockets.set_error(descriptor.socket, error) == Ok(true) {
            self.users.log_line(now, descriptor.uid, || {
                format!(
                    "socket {} of user {} dropped a message: {error}; SO_ERROR reports it",
                    descriptor.socket, descriptor.uid
                )
            });
        }
    }

    /// Passes messages, notifications, associations to accept, errors and the end to the program.
    fn deliver(&mut self, now: Time, token: Token, descriptor: &mut Descriptor) {
        for _ in 0..BATCHES {
            let has_room = descriptor.flush();
            if descriptor.waits_for_room == has_room
                && let Some(ours) = &descriptor.ours
            {
                self.poller.watch_writable(ours, token, !has_room);
                descriptor.waits_for_room = !has_room;
            }
            if !has_room {
                return;
            }
            while !descriptor.has_batch()
                && let Some(outgoing) = self.next_frame(now, token, descriptor)
            {
                descriptor.outgoing.push_back(outgoing);
            }
            if descriptor.outgoing.is_empty() {
                return self.deliver_end(now, token, descriptor);
            }
        }
        self.ready.insert(token);
    }

    /// Returns the next frame for the program.
    fn next_frame(
        &mut self,
        now: Time,
        token: Token,
        descriptor: &mut Descriptor,
    ) -> Option<OutgoingFrame> {
        let id = descriptor.socket;
        let level = self.sockets.readiness(id)?;
        let status = self.sockets.status(id).ok()?;
        if status.is_listening && status.style == Style::OneToOne {
            return self.next_accepted(now, token, descriptor);
        }
        let is_empty = self.sockets.unread(id) == Ok(0);
        if !level.contains(Readiness::ERROR) {
            descriptor.failure_sent = false;
        }
        if level.contains(Readiness::ERROR) && is_empty {
            if descriptor.failure_sent {
                return None;
            }
            descriptor.failure_sent = true;
            return Some(OutgoingFrame {
                header: Header::new(FrameKind::Failed),
                payload: Bytes::new(),
                attached: None,
            });
        }
        if !level.contains(Readiness::READABLE) || descriptor.end_sent {
            return None;
        }
        let received = self.sockets.recvmsg(now, id, (MAX_PAYLOAD, 0), 0).ok()?;
        if received.data.is_empty() {
            return None;
        }
        let outgoing = frame_of(received);
        descriptor.has_data |= !outgoing.header.is_notification;
        Some(outgoing)
    }

    /// Accepts an association. Without a descriptor for it, all wait in the backlog.
    fn next_accepted(
        &mut self,
        now: Time,
        token: Token,
        listener: &Descriptor,
    ) -> Option<OutgoingFrame> {
        let level = self.sockets.readiness(listener.socket)?;
        if !level.contains(Readiness::READABLE) {
            return None;
        }
        let Ok(pair) = self.open_pair((listener.uid, listener.process)) else {
            self.starved.insert(token);
            self.serve_again.get_or_insert(now + PAUSE);
            return None;
        };
        let (id, peer) = self.sockets.accept(listener.socket).ok()?;
        let (theirs, _) = self.insert_descriptor(id, pair);
        let description = self.sockets.status(id).map(|status| describe(&status));
        let description = description.unwrap_or_default().encode();
        Some(OutgoingFrame {
            header: Header {
                address: Some(peer),
                ..Header::new(FrameKind::Accepted)
            },
            payload: Bytes::copy_from_slice(&description),
            attached: Some(theirs),
        })
    }

    /// Notifies the program of the end of messages, and of the end of the association.
    ///
    /// A pair passes nothing behind the end of messages. If the program is to be notified of the end of the
    /// association, that notification comes first.
    fn deliver_end(&mut self, now: Time, token: Token, descriptor: &mut Descriptor) {
        let id = descriptor.socket;
        let level = self.sockets.readiness(id).unwrap_or_default();
        if self.sockets.unread(id).unwrap_or(0) > 0 {
            return;
        }
        let pending = level.contains(Readiness::ERROR) && !descriptor.failure_sent;
        let reads_end = level.contains(Readiness::READ_CLOSED);
        let status = self.sockets.status(id);
        let both_end = reads_end && status.is_ok_and(|status| status.is_write_closed);
        let hangs_up = level.contains(Readiness::HANG_UP);
        let waits = status.is_ok_and(|status| status.notifies_end) && !descriptor.end_sent;
        if both_end && !hangs_up && waits {
            // The notification raises another change.
        } else if (both_end || hangs_up) && !pending {
            self.end(now, token, descriptor);
        } else if reads_end
            && !descriptor.end_sent
            && let Some(ours) = &descriptor.ours
        {
            descriptor.end_sent = true;
            // The program may have closed its end.
            let _ = shutdown(ours, Shutdown::Write);
        }
    }

    /// Shuts the pair down when no message passes in either direction any more. Its events then no longer show what
    /// has happened; the program may have closed its end.
    fn end(&mut self, now: Time, token: Token, descriptor: &mut Descriptor) {
        if let Some(ours) = &descriptor.ours {
            // Frames that are not read would keep the program's end from being writable.
            let mut files = Vec::new();
            let mut read = || {
                let mut parts = [IoSliceMut::new(&mut self.buffer)];
                receive_with_files(ours, &mut parts, &mut files, RecvFlags::DONTWAIT)
            };
            while read().is_ok_and(|len| len > 0) {}
            let _ = shutdown(ours, Shutdown::Both);
            if !files.is_empty() {
                let files = files.into_iter().map(OwnedFd::into_raw_fd);
                self.close_files(descriptor.uid, files);
            }
        }
        descriptor.is_ended = true;
        descriptor.is_plugged = false;
        self.ended.insert(token);
        self.schedule_check(now);
    }

    /// Ends the pair after a set-up that failed: closing the daemon's end with the plug unread makes the
    /// program's end report an error (`POLLERR`).
    fn end_failed(&mut self, now: Time, token: Token, descriptor: &mut Descriptor) {
        if let Some(ours) = descriptor.ours.take() {
            self.poller.unwatch(&ours);
            self.users.close_pair(descriptor.uid, ours);
        }
        descriptor.outgoing.clear();
        descriptor.is_ended = true;
        descriptor.is_plugged = false;
        self.ended.insert(token);
        self.schedule_check(now);
    }

    /// Ends a descriptor whose program has sent an invalid frame.
    fn break_off(
        &mut self,
        now: Time,
        token: Token,
        descriptor: &mut Descriptor,
        reason: &'static str,
    ) {
        self.users.log_line(now, descriptor.uid, || {
            format!(
                "socket {} of user {} ended with ECONNABORTED: the program sent {reason}; a call did not pass \
                 the preload library",
                descriptor.socket, descriptor.uid
            )
        });
        let _ = self.sockets.abort(now, descriptor.socket);
        self.by_socket.remove(&descriptor.socket);
        descriptor.is_broken = true;
        descriptor.error = Some(Errno::ECONNABORTED);
        descriptor.outgoing.push_back(OutgoingFrame {
            header: Header::new(FrameKind::Failed),
            payload: Bytes::new(),
            attached: None,
        });
        // Without room the program gets the error from SO_ERROR alone.
        descriptor.flush();
        self.end(now, token, descriptor);
    }
}

/// Size from which the data of a message stays where it was received, in bytes. What waits for the protocol then
/// keeps at most four times its size of memory; smaller data is copied.
const IN_PLACE: usize = MAX_FRAME / 4;

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
struct FrameLengths {
    bytes: [usize; BATCH],
    count: usize,
}

impl FrameLengths {
    fn one(length: usize) -> Self {
        let mut lengths = Self::default();
        (lengths.bytes[0], lengths.count) = (length, 1);
        lengths
    }

    fn into_iter(self) -> impl Iterator<Item = usize> {
        self.bytes.into_iter().take(self.count)
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
    let mut lengths = FrameLengths::default();
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

/// Returns the frame of a received message.
fn frame_of(received: Received) -> OutgoingFrame {
    let info = received.info.unwrap_or_default();
    let header = Header {
        is_end: received.flags & carrick_sockets::linux::MSG_EOR != 0,
        has_rest: received.has_rest,
        is_notification: received.flags & carrick_sockets::linux::MSG_NOTIFICATION != 0,
        info: MessageInfo {
            stream: info.sid,
            ssn: info.ssn,
            flags: info.flags,
            ppid: info.ppid,
            tsn: info.tsn,
            cum_tsn: info.cum_tsn,
            context: info.context,
            association: received.association,
        },
        address: received.address,
        ..Header::new(FrameKind::Message)
    };
    OutgoingFrame {
        header,
        payload: received.data,
        attached: None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd;

    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, send, socketpair, sockopt,
    };

    use super::*;

    fn frame(header: Header, body: &[u8]) -> Vec<u8> {
        let mut bytes = header.encode().to_vec();
        bytes.extend(body);
        bytes
    }

    /// Passes a frame through a pair, as a program and the daemon do.
    fn pass(frame: &[u8], parts: &mut Option<PartialMessage>, limit: usize) -> ProgramFrame {
        let (ours, theirs) = sockets();
        send(&theirs, frame, SendFlags::empty()).unwrap();
        let mut buffer = Vec::new();
        let len = match parts {
            Some(partial) => partial.receive(&ours, &mut buffer, None),
            None => receive(&ours, &mut buffer, None),
        };
        parse(len.unwrap(), &mut buffer, parts, limit)
    }

    fn part(is_end: bool, control: u16, body: &[u8]) -> Vec<u8> {
        let header = Header {
            is_end,
            control,
            ..Header::new(FrameKind::Send)
        };
        frame(header, body)
    }

    #[test]
    fn parts_become_one_message() {
        let mut parts = None;
        let first = pass(&part(false, 3, b"ctlabc"), &mut parts, 6);
        assert!(matches!(first, ProgramFrame::Ignored));
        let plug = frame(Header::new(FrameKind::Plug), &[0; 100]);
        assert!(matches!(pass(&plug, &mut parts, 6), ProgramFrame::Ignored));
        let ProgramFrame::Message(message) = pass(&part(true, 0, b"def"), &mut parts, 6) else {
            panic!("no message");
        };
        assert_eq!(
            (&message.control[..], &message.data[..]),
            (&b"ctl"[..], &b"abcdef"[..])
        );
        assert!(parts.is_none());
        pass(&part(false, 0, b"1234"), &mut parts, 6);
        let third = pass(&part(false, 0, b"567"), &mut parts, 6);
        assert!(matches!(third, ProgramFrame::Ignored));
        let end = pass(&part(true, 0, b"8"), &mut parts, 6);
        assert!(matches!(end, ProgramFrame::TooLarge));
        assert!(parts.is_none());
        pass(&part(false, 0, b"1234"), &mut parts, 6);
        let control = pass(&part(true, 1, b"c5"), &mut parts, 6);
        assert!(matches!(control, ProgramFrame::Invalid(_)));
    }

    fn sockets() -> (OwnedFd, OwnedFd) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, theirs) = socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        sockopt::set_socket_send_buffer_size(&theirs, 1 << 18).unwrap();
        (ours, theirs)
    }

    /// Returns the results of all frames of a pair, received one by one or in batches, with the number of calls that
    /// received frames.
    fn read_all(ours: &OwnedFd, in_batches: bool) -> (Vec<ProgramMessage>, usize) {
        let (mut frame, mut batch) = (Vec::new(), vec![0; BATCH * (MAX_FRAME + 1)]);
        let (mut partial, mut messages, mut calls) = (None::<PartialMessage>, Vec::new(), 0);
        loop {
            frame.clear();
            let received = match &mut partial {
                _ if in_batches => receive_batch(ours, &mut batch, None),
                Some(partial) => partial
                    .receive(ours, &mut frame, None)
                    .map(FrameLengths::one),
                None => receive(ours, &mut frame, None).map(FrameLengths::one),
            };
            let Ok(lengths) = received else {
                return (messages, calls);
            };
            calls += 1;
            for (slot, len) in lengths.into_iter().enumerate() {
                if in_batches {
                    let bytes = &batch[slot * (MAX_FRAME + 1)..][..len];
                    take_from_batch(bytes, &mut frame, &mut partial);
                }
                match parse(len, &mut frame, &mut partial, 1 << 20) {
                    ProgramFrame::Message(message) => messages.push(message),
                    ProgramFrame::Ignored => {}
                    _ => panic!("frame {slot} of {len} bytes"),
                }
            }
        }
    }

    #[test]
    fn frames_of_a_batch_are_those_received_one_by_one() {
        let mut frames: Vec<_> = (0..40).map(|n| part(true, 2, &[n; 100])).collect();
        // A message in three parts with a plug between them, at the end of the first batch and in the second one.
        frames.insert(14, part(false, 3, &vec![1; MAX_PAYLOAD - 3]));
        frames.insert(15, part(false, 0, &vec![2; MAX_PAYLOAD]));
        frames.insert(16, frame(Header::new(FrameKind::Plug), &[0; 100]));
        frames.insert(17, part(true, 0, b"end"));
        let [single, batches] = [false, true].map(|in_batches| {
            let (ours, theirs) = sockets();
            for frame in &frames {
                send(&theirs, frame, SendFlags::DONTWAIT).unwrap();
            }
            read_all(&ours, in_batches)
        });
        assert_eq!(
            (single.0.len(), single.0[14].data.len()),
            (41, 2 * MAX_PAYLOAD - 3)
        );
        let content = |message: &ProgramMessage| (message.control.clone(), message.data.clone());
        let batched = batches.0.iter().map(content);
        assert!(single.0.iter().map(content).eq(batched));
        assert_eq!((single.1, batches.1), (44, 3));
    }

    #[test]
    fn the_end_of_a_pair_fills_a_batch() {
        let (ours, theirs) = sockets();
        let mut batch = vec![0; BATCH * (MAX_FRAME + 1)];
        let mut lengths =
            || receive_batch(&ours, &mut batch, None).map(|lengths| lengths.into_iter().collect());
        send(&theirs, &part(true, 0, b"last"), SendFlags::DONTWAIT).unwrap();
        assert_eq!(lengths(), Ok(vec![HEADER + 4]));
        assert_eq!(lengths(), Err(SystemErrno::AGAIN));
        send(&theirs, &part(true, 0, b"last"), SendFlags::DONTWAIT).unwrap();
        drop(theirs);
        let mut last = vec![0; BATCH];
        last[0] = HEADER + 4;
        assert_eq!(lengths(), Ok(last));
        assert_eq!(lengths(), Ok(vec![0; BATCH]));
    }

    /// On systems where pairs pass files, each is received with its frame, and none is closed by the system.
    #[test]
    fn files_are_received_with_their_frames() {
        let frame = part(true, 0, b"a file is attached");
        for in_batches in [false, true] {
            let (ours, theirs) = sockets();
            let files = [theirs.as_fd(); MAX_ATTACHED];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHED))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
            for _ in 0..2 {
                let parts = [IoSlice::new(&frame)];
                rustix::net::sendmsg(&theirs, &parts, &mut control, SendFlags::empty()).unwrap();
            }
            let (mut buffer, mut received) = (vec![0; BATCH * (MAX_FRAME + 1)], Vec::new());
            let frames = if in_batches {
                receive_batch(&ours, &mut buffer, Some(&mut received)).map(|all| all.count)
            } else {
                buffer.clear();
                receive(&ours, &mut buffer, Some(&mut received)).map(|_| 1)
            };
            assert_eq!(frames, Ok(if in_batches { 2 } else { 1 }));
            assert_eq!(received.len(), frames.unwrap() * MAX_ATTACHED);
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
        let ProgramFrame::Message(message) = parse(buffer.len(), &mut buffer, &mut None, 0) else {
            panic!("no message");
        };
        assert_eq!(
            (message.data.as_ptr(), message.data.len()),
            (data, IN_PLACE)
        );
        assert_eq!(buffer.capacity(), 0, "the message has the buffer");
        let mut buffer = part(true, 0, &[7; 100]);
        let len = buffer.len();
        let ProgramFrame::Message(message) = parse(len, &mut buffer, &mut None, 0) else {
            panic!("no message");
        };
        let kept = Vec::from(message.data);
        assert_eq!((kept.len(), kept.capacity(), buffer.len()), (100, 100, len));
    }

    #[test]
    fn other_frames_are_invalid() {
        let mut parts = None;
        let message = frame(Header::new(FrameKind::Message), b"");
        assert!(matches!(
            pass(&message, &mut parts, 9),
            ProgramFrame::Invalid(_)
        ));
        assert!(matches!(
            pass(b"GET / HTTP/1.1", &mut parts, 9),
            ProgramFrame::Invalid(_)
        ));
        let plug = frame(Header::new(FrameKind::Plug), &[0; 100]);
        assert!(matches!(pass(&plug, &mut parts, 9), ProgramFrame::Ignored));
    }
}
