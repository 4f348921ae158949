//! Descriptor of a program: the daemon's end of its socket pair, with the frames in both directions.

mod incoming;
mod outgoing;
mod phase;

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use carrick_ipc::{Description, FrameKind, HEADER, Header, Property};
use carrick_proto::{portable_enum, portable_struct};
use carrick_sockets::{Family, SocketId, Status, Style};
use rustix::io::Errno;
use rustix::net::{Shutdown, send, shutdown, sockopt};

use crate::pair::{AT_ONCE, open_pair};
use crate::timer::clock;
use crate::users::Owner;

pub(crate) use incoming::{FrameBuffers, FrameLengths, Incoming, ProgramFrame, ProgramMessage};
pub(crate) use outgoing::{Outgoing, OutgoingFrame};
pub(crate) use phase::{Phase, PhaseEvent};

/// Send buffer of the program's end in bytes, which Linux doubles: several messages of 64 KiB.
const PROGRAM_BUFFER: usize = 212_992;
/// Send buffer of the daemon's end in bytes, which Linux doubles: received messages ahead of the program.
const DAEMON_BUFFER: usize = 131_072;
/// Size of a plug frame in bytes. A descriptor is writable while a quarter of its send buffer is in use.
const PLUG: usize = PROGRAM_BUFFER / 2 + 8192;

/// Maximum number of frames per call, in either direction.
const BATCH: usize = 16;

/// State of the program's end of a pair, as far as the system has reported it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ProgramEnd {
    Open,
    Closed,
    /// Closed with frames that the program had not read.
    Reset,
}

portable_enum! { ProgramEnd { 0: Open, 1: Closed, 2: Reset } }

/// Descriptor of a program.
#[derive(Debug)]
pub(crate) struct Descriptor {
    socket: SocketId,
    owner: Owner,
    /// The daemon's end; `None` after a set-up that failed.
    ours: Option<OwnedFd>,
    /// Identity of the program's end (`SO_COOKIE`).
    cookie: u64,
    /// Inode of the program's end.
    inode: u64,
    phase: Phase,
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
    /// `shutdown` of the writing side that waits until the messages of the program have been sent.
    shutdown: Option<i32>,
    /// A message has been sent to the program, in addition to notifications.
    has_data: bool,
    program_end: ProgramEnd,
    /// The task is woken when the pair has room.
    waits_for_room: bool,
    /// The program has been notified of the pending error.
    failure_sent: bool,
    /// The program has been notified of the end of messages.
    end_sent: bool,
}

// The daemon's end is passed beside the state, and watched by the successor as at first.
portable_struct! {
    Descriptor {
        socket, owner, cookie, inode, phase, incoming, outgoing, shutdown, has_data, program_end, failure_sent, end_sent,
    }
    rebuilt { ours: None, waits_for_room: false }
}

impl Descriptor {
    /// Creates the descriptor of a socket with the daemon's end of its pair.
    pub(crate) fn new(socket: SocketId, owner: Owner, end: PairEnd) -> Self {
        Self {
            socket,
            owner,
            ours: Some(end.ours),
            cookie: end.cookie,
            inode: end.inode,
            phase: Phase::Open,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            shutdown: None,
            has_data: false,
            program_end: ProgramEnd::Open,
            waits_for_room: false,
            failure_sent: false,
            end_sent: false,
        }
    }

    /// Creates the descriptor of a listening socket that is restored, in its phase of before.
    pub(crate) fn restored(socket: SocketId, owner: Owner, end: PairEnd, phase: Phase) -> Self {
        let mut descriptor = Self::new(socket, owner, end);
        descriptor.phase = phase;
        // A program that has some frames of a message detects by another number that the rest is missing.
        descriptor.outgoing = Outgoing::starting_at(clock() as u32);
        descriptor.incoming.set_readable(true);
        descriptor
    }

    pub(crate) fn socket(&self) -> SocketId {
        self.socket
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) fn uid(&self) -> u32 {
        self.owner.uid
    }

    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Changes the phase after an event. Returns false if the event does not change it.
    pub(crate) fn change(&mut self, event: PhaseEvent) -> bool {
        let next = self.phase.after(event);
        self.phase = next.unwrap_or(self.phase);
        next.is_some()
    }

    /// Returns whether no frame passes on the pair any more.
    pub(crate) fn is_ended(&self) -> bool {
        self.phase.is_ended()
    }

    /// Returns the daemon's end of the pair.
    pub(crate) fn ours(&self) -> Option<&OwnedFd> {
        self.ours.as_ref()
    }

    /// Takes the daemon's end of the pair out, to close it.
    pub(crate) fn take_ours(&mut self) -> Option<OwnedFd> {
        self.ours.take()
    }

    /// Returns whether the program has closed the descriptor, as far as the system has reported.
    pub(crate) fn is_closed(&self) -> bool {
        self.program_end != ProgramEnd::Open
    }

    /// Returns whether the program has closed the descriptor with messages that it had not read.
    pub(crate) fn has_lost_data(&self) -> bool {
        self.program_end == ProgramEnd::Reset && self.has_data
    }

    /// Records that the program has closed the descriptor.
    pub(crate) fn mark_closed(&mut self) {
        if self.program_end == ProgramEnd::Open {
            self.program_end = ProgramEnd::Closed;
        }
    }

    /// Records that the program has closed the descriptor with frames that it had not read.
    pub(crate) fn mark_reset(&mut self) {
        self.program_end = ProgramEnd::Reset;
    }

    /// Records a hang-up of the pair. One that the daemon has shut down in both directions hangs up, too.
    pub(crate) fn hang_up(&mut self) {
        if !(self.end_sent && self.phase == Phase::WriteRefused) {
            self.mark_closed();
        }
    }

    /// Delays a `shutdown` until the messages of the program have been sent.
    pub(crate) fn delay_shutdown(&mut self, how: i32) {
        self.shutdown = Some(how);
    }

    /// Returns the `shutdown` that was delayed, once the messages of the program have been sent.
    pub(crate) fn take_shutdown(&mut self) -> Option<i32> {
        if self.is_dry() {
            self.shutdown.take()
        } else {
            None
        }
    }

    /// Records that frames are sent to the program, of which any may have a message.
    pub(crate) fn record_data<'a>(&mut self, frames: impl IntoIterator<Item = &'a OutgoingFrame>) {
        let mut frames = frames.into_iter();
        self.has_data |= frames.any(|frame| !frame.header.is_notification);
    }

    /// Records whether the task is woken when the pair has room. Returns whether that is a change.
    pub(crate) fn set_waits_for_room(&mut self, waits: bool) -> bool {
        std::mem::replace(&mut self.waits_for_room, waits) != waits
    }

    /// Returns whether the program has been notified of the pending error.
    pub(crate) fn failure_sent(&self) -> bool {
        self.failure_sent
    }

    /// Records whether the program has been notified of the pending error. Returns whether it had been.
    pub(crate) fn set_failure_sent(&mut self, sent: bool) -> bool {
        std::mem::replace(&mut self.failure_sent, sent)
    }

    /// Returns whether the program has been notified of the end of messages.
    pub(crate) fn end_sent(&self) -> bool {
        self.end_sent
    }

    /// Returns whether frames of the program may be read now: none while messages wait for room in the send buffer, or
    /// for the association. The plug of a closed descriptor is in front of the end of its pair. When the program's end
    /// refuses messages, the rest is read at once: a call that waits for a writable end learns of the refusal.
    pub(crate) fn may_read(&self) -> bool {
        let is_plugged = self.phase.is_plugged() && !self.is_closed();
        let waits = self.incoming.has_refused() && self.phase != Phase::WriteRefused;
        self.incoming.is_readable() && !waits && !is_plugged
    }

    /// Receives frames of the program. If they may have files attached, these are added to `files`.
    pub(crate) fn receive(
        &mut self,
        buffers: &mut FrameBuffers,
        files: Option<&mut Vec<RawFd>>,
    ) -> rustix::io::Result<FrameLengths> {
        // Without the daemon's end there is nothing to be read.
        let ours = self.ours.as_ref().ok_or(Errno::AGAIN)?;
        self.incoming.receive(ours, buffers, files)
    }

    /// Returns whether all that the program has sent was read and passed to the protocol.
    pub(crate) fn is_dry(&self) -> bool {
        let has_unread = self.incoming.is_readable() || self.incoming.has_refused();
        !has_unread && !self.phase.is_plugged()
    }

    /// Makes the program's end not writable after an event, until the association is established or has room, and the
    /// pair is read.
    pub(crate) fn plug(&mut self, event: PhaseEvent, theirs: BorrowedFd<'_>) {
        if self.change(event) {
            let mut frame = vec![0; PLUG];
            frame[..HEADER].copy_from_slice(&Header::new(FrameKind::Plug).encode());
            // A send buffer without room for the frame is not writable already.
            let _ = send(theirs, &frame, AT_ONCE);
            self.incoming.set_readable(true);
        }
    }

    /// Makes the program's end refuse messages. Those that were sent before can still be read.
    pub(crate) fn refuse_writes(&mut self) {
        if self.change(PhaseEvent::WriteClosed) {
            self.shut_down(Shutdown::Read);
        }
    }

    /// Notifies the program of the end of messages, once.
    pub(crate) fn send_end(&mut self) {
        if !std::mem::replace(&mut self.end_sent, true) {
            self.shut_down(Shutdown::Write);
        }
    }

    /// Shuts the daemon's end of the pair down.
    pub(crate) fn shut_down(&self, how: Shutdown) {
        if let Some(ours) = &self.ours {
            // The program may have closed its end.
            let _ = shutdown(ours, how);
        }
    }

    /// Sends the waiting frames. Returns false if the pair has no room.
    pub(crate) fn flush(&mut self) -> bool {
        self.ours
            .as_ref()
            .is_none_or(|ours| self.outgoing.flush(ours))
    }

    /// Limits the associations that wait on the pair of a listening socket: the smallest send buffer of
    /// Linux has room for six. Further associations wait in the backlog.
    pub(crate) fn limit_accepted(&self) {
        if let Some(ours) = &self.ours {
            // With a larger buffer only more associations leave the backlog.
            let _ = sockopt::set_socket_send_buffer_size(ours, 1);
        }
    }

    /// Returns the descriptors that the daemon has open for this one: its end of the pair, and those attached to
    /// waiting frames.
    pub(crate) fn files(&self) -> impl Iterator<Item = Option<&OwnedFd>> {
        std::iter::once(self.ours()).chain(self.outgoing.attached())
    }

    /// Returns the places of [`Self::files`].
    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = &mut Option<OwnedFd>> {
        std::iter::once(&mut self.ours).chain(self.outgoing.attached_mut())
    }
}

/// Daemon's end of a socket pair, with the cookie and the inode of the program's end.
#[derive(Debug)]
pub(crate) struct PairEnd {
    ours: OwnedFd,
    cookie: u64,
    inode: u64,
}

impl PairEnd {
    pub(crate) fn ours(&self) -> &OwnedFd {
        &self.ours
    }

    /// Returns the daemon's end of a pair that another process has created.
    pub(crate) fn restored(ours: OwnedFd, cookie: u64, inode: u64) -> Self {
        Self {
            ours,
            cookie,
            inode,
        }
    }
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
