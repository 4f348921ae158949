//! Frames of a program, and its messages to the protocol.

use carrick_proto::Time;
use carrick_sockets::{Errno, OutgoingMessage, Readiness, Sockets};
use rustix::io::Errno as SystemErrno;
use rustix::net::{RecvFlags, recv};

use crate::descriptor::{Descriptor, FrameBuffers, Phase, ProgramFrame, ProgramMessage};
use crate::users::Users;

/// Maximum number of frames of the program that are read in a turn of a descriptor.
const TURN: usize = 64;

/// Result of reading a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadResult {
    /// Nothing can be read now.
    Dry,
    /// The limit of a turn is reached.
    More,
    /// The program has closed the descriptor.
    Closed,
    /// The program has sent an invalid frame.
    Invalid(&'static str),
}

/// Parts that reading changes.
pub(super) struct FrameReader<'a> {
    pub(super) now: Time,
    pub(super) sockets: &'a mut Sockets,
    pub(super) users: &'a mut Users,
    pub(super) frames: &'a mut FrameBuffers,
}

impl FrameReader<'_> {
    /// Reads frames of the program, and passes its messages to the protocol.
    ///
    /// 1. Send the messages that the full send buffer has refused before. Without room for them nothing is read, so that
    ///    the program's end becomes not writable.
    /// 2. Receive one frame, or several with one call if the last one was small.
    /// 3. Pass the message that each of them completes to the protocol, or keep it behind one that was refused.
    pub(super) fn read(&mut self, descriptor: &mut Descriptor) -> ReadResult {
        let mut frames = 0;
        while frames < TURN {
            // 1
            while let Some(message) = descriptor.incoming.take_refused() {
                if let Some(refused) = self.send(descriptor, message) {
                    descriptor.incoming.return_refused(refused);
                    break;
                }
            }
            if !descriptor.may_read() {
                return self.dry(descriptor);
            }
            // 2
            let mut files = self.users.closers().pairs_pass_files().then(Vec::new);
            let received = descriptor.receive(self.frames, files.as_mut());
            if let Some(files) = files.filter(|files| !files.is_empty()) {
                self.users.close_files(descriptor.uid(), files);
                return ReadResult::Invalid("a file");
            }
            let lengths = match received {
                Ok(lengths) => lengths,
                Err(SystemErrno::AGAIN) => {
                    descriptor.incoming.set_readable(false);
                    return self.dry(descriptor);
                }
                Err(error @ (SystemErrno::CONNRESET | SystemErrno::INTR)) => {
                    if error == SystemErrno::CONNRESET {
                        // Reported once: what the program has sent before can still be read.
                        descriptor.mark_reset();
                    }
                    frames += 1;
                    continue;
                }
                Err(_) => return ReadResult::Closed,
            };
            frames += lengths.as_slice().len();
            // 3
            for (slot, len) in lengths.as_slice().iter().enumerate() {
                if *len == 0 {
                    if descriptor.incoming.has_refused() {
                        // The end of the pair is read again.
                        return ReadResult::Dry;
                    }
                    return self.read_empty(descriptor);
                }
                let limit = self.sockets.status(descriptor.socket());
                let limit = limit.map_or(0, |status| status.max_message);
                let frame = (slot, &lengths);
                match descriptor.incoming.parse(frame, self.frames, limit) {
                    ProgramFrame::Ignored => {}
                    ProgramFrame::Invalid(reason) => return ReadResult::Invalid(reason),
                    ProgramFrame::TooLarge => self.report_dropped(descriptor, Errno::EMSGSIZE),
                    ProgramFrame::Message(message) => {
                        let refused = if descriptor.incoming.has_refused() {
                            Some(message)
                        } else {
                            self.send(descriptor, message)
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
    fn read_empty(&mut self, descriptor: &mut Descriptor) -> ReadResult {
        if descriptor.phase() == Phase::WriteRefused && !descriptor.is_closed() {
            // The end is that of the daemon's own `shutdown`.
            descriptor.incoming.set_readable(false);
            return self.dry(descriptor);
        }
        // Peeked, so that what is attached to another frame stays there.
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let again = descriptor.ours();
        let again = again.map(|ours| recv(ours, self.frames.other(), flags));
        match again {
            Some(Ok((0, _))) => ReadResult::Closed,
            _ => ReadResult::Invalid("an empty frame"),
        }
    }

    /// Shuts the association down after the last message, if the program has called `shutdown`.
    fn dry(&mut self, descriptor: &mut Descriptor) -> ReadResult {
        if let Some(how) = descriptor.take_shutdown() {
            // An association that has ended meanwhile is shut down already.
            let _ = self.sockets.shutdown(self.now, descriptor.socket(), how);
        }
        ReadResult::Dry
    }

    /// Sends a message, or returns it if the send buffer has no room. One that the protocol refuses was passed by
    /// a process with an outdated description of the socket, and is reported as the pending error.
    fn send(&mut self, descriptor: &Descriptor, message: ProgramMessage) -> Option<ProgramMessage> {
        let socket = descriptor.socket();
        let level = self.sockets.readiness(socket);
        if level.is_none_or(|level| level.contains(Readiness::HANG_UP)) {
            // Lost with the association, whose error the program has still to read.
            return None;
        }
        let outgoing = OutgoingMessage {
            address: None,
            data: message.data.clone(),
            control: &message.control,
        };
        match self.sockets.sendmsg(self.now, socket, &outgoing) {
            Err(Errno::EAGAIN) => return Some(message),
            Ok(_) | Err(Errno::EPIPE | Errno::ESHUTDOWN | Errno::ENOTCONN) => {}
            Err(error) => self.report_dropped(descriptor, error),
        }
        None
    }

    /// Reports a message that was dropped after the program had sent it, as the pending error.
    fn report_dropped(&mut self, descriptor: &Descriptor, error: Errno) {
        let (socket, uid) = (descriptor.socket(), descriptor.uid());
        if self.sockets.set_error(socket, error) == Ok(true) {
            self.users.log_line(self.now, uid, || {
                format!(
                    "socket {socket} of user {uid} dropped a message: {error}; SO_ERROR reports it"
                )
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use carrick_ipc::{FrameKind, Header};
    use carrick_sockets::{Config, Family, Style};
    use rustix::net::{SendFlags, send};

    use super::*;
    use crate::descriptor::{PhaseEvent, pair};
    use crate::users::Owner;
    use crate::users::tests::users;

    /// Descriptor of a one-to-many socket, with the program's end of its pair.
    struct World {
        sockets: Sockets,
        users: Users,
        frames: FrameBuffers,
        descriptor: Descriptor,
        theirs: Option<OwnedFd>,
    }

    impl World {
        fn new() -> Self {
            let config = Config::new(vec![[127, 0, 0, 1].into()], [1; 32]);
            let mut sockets = Sockets::new(config).unwrap();
            let socket = sockets.socket(Style::OneToMany, Family::Inet).unwrap();
            let (end, theirs) = pair().unwrap();
            Self {
                sockets,
                users: users(),
                frames: FrameBuffers::default(),
                descriptor: Descriptor::new(socket, Owner { uid: 7, process: 1 }, end),
                theirs: Some(theirs),
            }
        }

        fn send(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            send(self.theirs.as_ref().unwrap(), bytes, flags)
        }

        fn read(&mut self) -> ReadResult {
            self.descriptor.incoming.set_readable(true);
            let mut reader = FrameReader {
                now: Time::ZERO,
                sockets: &mut self.sockets,
                users: &mut self.users,
                frames: &mut self.frames,
            };
            reader.read(&mut self.descriptor)
        }
    }

    fn message() -> Vec<u8> {
        let header = Header {
            is_end: true,
            ..Header::new(FrameKind::Send)
        };
        [&header.encode()[..], b"message"].concat()
    }

    #[test]
    fn the_end_of_a_pair_is_behind_its_messages() {
        let mut world = World::new();
        world.send(&message()).unwrap();
        assert_eq!(world.read(), ReadResult::Dry);
        world.send(&message()).unwrap();
        world.theirs = None;
        assert_eq!(world.read(), ReadResult::Closed);
    }

    #[test]
    fn nothing_is_read_behind_a_plug() {
        let mut world = World::new();
        let theirs = world.theirs.as_ref().unwrap().as_fd();
        world.descriptor.plug(PhaseEvent::SetupStarted, theirs);
        assert_eq!(world.send(&message()), Ok(message().len()));
        assert_eq!(world.read(), ReadResult::Dry);
        assert!(!world.descriptor.is_dry());
        assert!(world.descriptor.change(PhaseEvent::Released));
        assert_eq!(world.read(), ReadResult::Dry);
        assert!(world.descriptor.is_dry());
    }

    #[test]
    fn a_plug_does_not_hide_the_end_of_a_pair() {
        let mut world = World::new();
        let theirs = world.theirs.as_ref().unwrap().as_fd();
        world.descriptor.plug(PhaseEvent::SetupStarted, theirs);
        world.theirs = None;
        world.descriptor.hang_up();
        assert_eq!(world.read(), ReadResult::Closed);
    }

    #[test]
    fn refused_writes_are_not_the_end_of_a_pair() {
        let mut world = World::new();
        world.send(&message()).unwrap();
        world.descriptor.refuse_writes();
        assert_eq!(world.send(&message()), Err(SystemErrno::PIPE));
        assert_eq!(world.read(), ReadResult::Dry);
        world.theirs = None;
        world.descriptor.hang_up();
        assert_eq!(world.read(), ReadResult::Closed);
    }

    #[test]
    fn frames_of_other_kinds_are_invalid() {
        for bytes in [&b"garbage"[..], b""] {
            let mut world = World::new();
            world.send(bytes).unwrap();
            assert!(matches!(world.read(), ReadResult::Invalid(_)));
        }
    }
}
