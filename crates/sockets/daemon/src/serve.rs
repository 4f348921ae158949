//! Service of a descriptor: messages from the program to the protocol, and from the protocol to the
//! program.

use std::io::IoSliceMut;
use std::os::fd::{IntoRawFd, OwnedFd};

use bytes::Bytes;
use carrick_ipc::{FrameKind, Header, MAX_PAYLOAD, MessageInfo};
use carrick_proto::Time;
use carrick_sockets::{Closed, Errno, OutgoingMessage, Readiness, Received, Style};
use rustix::io::Errno as SystemErrno;
use rustix::net::{RecvFlags, Shutdown, recv};

use crate::descriptor::{
    Descriptor, OutgoingFrame, Owner, PairEnd, Phase, PhaseEvent, ProgramFrame, ProgramMessage,
    describe, pair,
};
use crate::driver::{Driver, PAUSE};
use crate::linger::LingeringSocket;
use crate::pair::receive_with_files;
use crate::poller::Token;

/// Maximum number of frames of the program that are read in a turn of a descriptor.
const TURN: usize = 64;

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

/// Socket pair without a socket.
#[derive(Debug)]
pub(crate) struct SocketPair {
    token: Token,
    end: PairEnd,
    theirs: OwnedFd,
    owner: Owner,
}

impl Driver {
    /// Opens a socket pair for another socket of a user: before the socket exists, so that a socket without a pair
    /// never does.
    ///
    /// # Errors
    /// `EMFILE` at the user's limit, or without a free file descriptor.
    pub(crate) fn open_pair(&mut self, owner: Owner) -> Result<SocketPair, Errno> {
        let (token, end, theirs) = self.open_watched(owner.uid, pair, |end| &end.ours)?;
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
        let descriptor = Descriptor::new(socket, owner, end);
        self.by_cookie.insert(descriptor.cookie(), token);
        self.by_socket.insert(socket, token);
        self.users.add_descriptor(owner.uid);
        self.descriptors.insert(token, descriptor);
        self.ready.insert(token);
        (theirs, token)
    }

    /// Removes a descriptor whose socket is closed.
    pub(crate) fn forget(&mut self, now: Time, token: Token, mut descriptor: Descriptor) {
        self.by_cookie.remove(&descriptor.cookie());
        self.by_socket.remove(&descriptor.socket());
        self.ended.remove(&token);
        self.ready.remove(&token);
        self.departed.insert(descriptor.cookie(), descriptor.uid());
        self.schedule_check(now);
        self.users.remove_descriptor(descriptor.uid());
        if let Some(ours) = descriptor.take_ours() {
            self.users.close_pair(descriptor.uid(), ours);
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
        if descriptor.is_ended() {
            return true;
        }
        let level = self.sockets.readiness(descriptor.socket());
        let level = level.unwrap_or_default();
        let settled = Readiness::WRITABLE | Readiness::HANG_UP | Readiness::ERROR;
        if descriptor.phase() == Phase::Plugged && level.intersects(settled) {
            if level.contains(Readiness::HANG_UP) && self.never_established(descriptor) {
                self.end_failed(now, token, descriptor);
                return true;
            }
            descriptor.change(PhaseEvent::Released);
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
        if !descriptor.is_ended() {
            self.refuse_writes(descriptor);
            self.deliver(now, token, descriptor);
        }
        true
    }

    /// Makes the program's end refuse messages when the protocol does: after `shutdown`, and after the peer's SHUTDOWN
    /// (RFC 9260, section 9.2).
    fn refuse_writes(&self, descriptor: &mut Descriptor) {
        let status = self.sockets.status(descriptor.socket());
        if status.is_ok_and(|s| s.style == Style::OneToOne && s.is_write_closed) {
            descriptor.refuse_writes();
        }
    }

    fn never_established(&self, descriptor: &Descriptor) -> bool {
        let status = self.sockets.status(descriptor.socket());
        status.is_ok_and(|s| s.style == Style::OneToOne && !s.is_write_closed)
    }

    /// Closes the socket of a descriptor that the program has closed. As in Linux, messages that the
    /// program has not read end the association with ABORT, but notifications do not. If both were sent,
    /// the daemon does not know which were read.
    fn close(&mut self, now: Time, descriptor: &Descriptor) {
        let listens = self.sockets.status(descriptor.socket());
        let listens = listens.is_ok_and(|status| status.is_listening);
        // The socket exists as long as its descriptor, unless the daemon has broken it off.
        let _ = if descriptor.was_reset && descriptor.has_data && !listens {
            self.sockets.abort(now, descriptor.socket())
        } else {
            let closed = self.sockets.close(now, descriptor.socket());
            if let Ok(Closed::Lingers(time)) = closed {
                let lingering = LingeringSocket::new(descriptor, time);
                self.lingering.insert(descriptor.cookie(), lingering);
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
                    descriptor.incoming.set_readable(true);
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
            while let Some(message) = descriptor.incoming.take_refused() {
                if let Some(refused) = self.send(now, descriptor, message) {
                    descriptor.incoming.return_refused(refused);
                    break;
                }
            }
            if !descriptor.may_read() {
                return self.dry(now, descriptor);
            }
            // 2
            let mut files = self.users.closers().pairs_pass_files().then(Vec::new);
            let received = descriptor.receive(&mut self.frames, files.as_mut());
            if let Some(files) = files.filter(|files| !files.is_empty()) {
                self.close_files(descriptor.uid(), files);
                return ReadResult::Invalid("a file");
            }
            let lengths = match received {
                Ok(lengths) => lengths,
                Err(SystemErrno::AGAIN) => {
                    descriptor.incoming.set_readable(false);
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
            frames += lengths.as_slice().len();
            // 3
            for (slot, len) in lengths.as_slice().iter().enumerate() {
                if *len == 0 {
                    if !descriptor.incoming.has_refused() {
                        return self.read_empty(now, descriptor);
                    }
                    // The end of the pair is read again.
                    break;
                }
                let limit = self.sockets.status(descriptor.socket());
                let limit = limit.map_or(0, |status| status.max_message);
                let frame = (slot, &lengths);
                match descriptor.incoming.parse(frame, &mut self.frames, limit) {
                    ProgramFrame::Ignored => {}
                    ProgramFrame::Invalid(reason) => return ReadResult::Invalid(reason),
                    ProgramFrame::TooLarge => self.report_dropped(now, descriptor, Errno::EMSGSIZE),
                    ProgramFrame::Message(message) => {
                        let refused = if descriptor.incoming.has_refused() {
                            Some(message)
                        } else {
                            self.send(now, descriptor, message)
                        };
                        if let Some(refused) = refused {
                            descriptor.incoming.refuse(refused);
                        }
                    }
                }
            }
        }
        ReadResult::More
    }

    /// Handles a read of 0 bytes: the end of the pair, or an empty frame.
    fn read_empty(&mut self, now: Time, descriptor: &mut Descriptor) -> ReadResult {
        if descriptor.phase() == Phase::WriteRefused && !descriptor.is_closed() {
            descriptor.incoming.set_readable(false);
            return self.dry(now, descriptor);
        }
        // Peeked, so that what is attached to another frame stays there.
        let with = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let again = descriptor
            .ours()
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
            let _ = self.sockets.shutdown(now, descriptor.socket(), how);
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
        let level = self.sockets.readiness(descriptor.socket());
        if level.is_none_or(|level| level.contains(Readiness::HANG_UP)) {
            // Lost with the association, whose error the program has still to read.
            return None;
        }
        let outgoing = OutgoingMessage {
            address: None,
            data: message.data.clone(),
            control: &message.control,
        };
        match self.sockets.sendmsg(now, descriptor.socket(), &outgoing) {
            Err(Errno::EAGAIN) => return Some(message),
            Ok(_) | Err(Errno::EPIPE | Errno::ESHUTDOWN | Errno::ENOTCONN) => {}
            Err(error) => self.report_dropped(now, descriptor, error),
        }
        None
    }

    /// Reports a message that was dropped after the program had sent it, as the pending error.
    fn report_dropped(&mut self, now: Time, descriptor: &Descriptor, error: Errno) {
        if self.sockets.set_error(descriptor.socket(), error) == Ok(true) {
            self.users.log_line(now, descriptor.uid(), || {
                format!(
                    "socket {} of user {} dropped a message: {error}; SO_ERROR reports it",
                    descriptor.socket(),
                    descriptor.uid()
                )
            });
        }
    }

    /// Passes messages, notifications, associations to accept, errors and the end to the program.
    fn deliver(&mut self, now: Time, token: Token, descriptor: &mut Descriptor) {
        for _ in 0..BATCHES {
            let has_room = descriptor.flush();
            if descriptor.waits_for_room == has_room
                && let Some(ours) = descriptor.ours()
            {
                self.poller.watch_writable(ours, token, !has_room);
                descriptor.waits_for_room = !has_room;
            }
            if !has_room {
                return;
            }
            while !descriptor.outgoing.has_batch()
                && let Some(outgoing) = self.next_frame(now, token, descriptor)
            {
                descriptor.outgoing.push(outgoing);
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
        let id = descriptor.socket();
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
            return Some(OutgoingFrame::failed());
        }
        if !level.contains(Readiness::READABLE) || descriptor.end_sent() {
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
        let level = self.sockets.readiness(listener.socket())?;
        if !level.contains(Readiness::READABLE) {
            return None;
        }
        let Ok(pair) = self.open_pair(listener.owner()) else {
            self.starved.insert(token);
            self.serve_again.get_or_insert(now + PAUSE);
            return None;
        };
        let (id, peer) = self.sockets.accept(listener.socket()).ok()?;
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
        let id = descriptor.socket();
        let level = self.sockets.readiness(id).unwrap_or_default();
        if self.sockets.unread(id).unwrap_or(0) > 0 {
            return;
        }
        let pending = level.contains(Readiness::ERROR) && !descriptor.failure_sent;
        let reads_end = level.contains(Readiness::READ_CLOSED);
        let status = self.sockets.status(id);
        let both_end = reads_end && status.is_ok_and(|status| status.is_write_closed);
        let hangs_up = level.contains(Readiness::HANG_UP);
        let waits = status.is_ok_and(|status| status.notifies_end) && !descriptor.end_sent();
        if both_end && !hangs_up && waits {
            // The notification raises another change.
        } else if (both_end || hangs_up) && !pending {
            self.end(now, token, descriptor);
        } else if reads_end {
            descriptor.send_end();
        }
    }

    /// Shuts the pair down when no message passes in either direction any more. Its events then no longer show what
    /// has happened; the program may have closed its end.
    fn end(&mut self, now: Time, token: Token, descriptor: &mut Descriptor) {
        if let Some(ours) = descriptor.ours() {
            // Frames that are not read would keep the program's end from being writable.
            let mut files = Vec::new();
            let mut read = || {
                let mut parts = [IoSliceMut::new(&mut self.buffer)];
                receive_with_files(ours, &mut parts, &mut files, RecvFlags::DONTWAIT)
            };
            while read().is_ok_and(|len| len > 0) {}
            descriptor.shut_down(Shutdown::Both);
            if !files.is_empty() {
                let files = files.into_iter().map(OwnedFd::into_raw_fd);
                self.close_files(descriptor.uid(), files);
            }
        }
        descriptor.change(PhaseEvent::AssociationEnded);
        self.ended.insert(token);
        self.schedule_check(now);
    }

    /// Ends the pair after a set-up that failed: closing the daemon's end with the plug unread makes the
    /// program's end report an error (`POLLERR`).
    fn end_failed(&mut self, now: Time, token: Token, descriptor: &mut Descriptor) {
        if let Some(ours) = descriptor.take_ours() {
            self.poller.unwatch(&ours);
            self.users.close_pair(descriptor.uid(), ours);
        }
        descriptor.outgoing.take_all();
        descriptor.change(PhaseEvent::SetupFailed);
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
        self.users.log_line(now, descriptor.uid(), || {
            format!(
                "socket {} of user {} ended with ECONNABORTED: the program sent {reason}; a call did not pass \
                 the preload library",
                descriptor.socket(), descriptor.uid()
            )
        });
        let _ = self.sockets.abort(now, descriptor.socket());
        self.by_socket.remove(&descriptor.socket());
        descriptor.change(PhaseEvent::InvalidFrame);
        descriptor.outgoing.push(OutgoingFrame::failed());
        // Without room the program gets the error from SO_ERROR alone.
        descriptor.flush();
        self.end(now, token, descriptor);
    }
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
