//! Frames of a program, and its messages to the protocol.

use carrick_proto::Time;
use carrick_sockets::{Errno, OutgoingMessage, Readiness};
use rustix::io::Errno as SystemErrno;
use rustix::net::{RecvFlags, recv};

use crate::descriptor::{Descriptor, Phase, ProgramFrame, ProgramMessage};
use crate::parts::Parts;

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

/// Reads frames of the program, and passes its messages to the protocol.
///
/// 1. Send the messages that the full send buffer has refused before. Without room for them nothing is read.
/// 2. Receive one frame, or several with one call if the last one was small.
/// 3. Pass the message that each of them completes to the protocol, or keep it behind one that was refused.
pub(super) fn read(parts: &mut Parts, now: Time, descriptor: &mut Descriptor) -> ReadResult {
    let mut frames = 0;
    while frames < TURN {
        // 1
        while let Some(message) = descriptor.incoming.take_refused() {
            if let Some(refused) = send(parts, now, descriptor, message) {
                descriptor.incoming.return_refused(refused);
                break;
            }
        }
        if !descriptor.may_read() {
            return dry(parts, now, descriptor);
        }
        // 2
        let mut files = parts.users.closers().pairs_pass_files().then(Vec::new);
        let received = descriptor.receive(&mut parts.frames, files.as_mut());
        if let Some(files) = files.filter(|files| !files.is_empty()) {
            parts.users.close_files(descriptor.uid(), files);
            return ReadResult::Invalid("a file");
        }
        let lengths = match received {
            Ok(lengths) => lengths,
            Err(SystemErrno::AGAIN) => {
                descriptor.incoming.set_readable(false);
                return dry(parts, now, descriptor);
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
                    return read_empty(parts, now, descriptor);
                }
                // The end of the pair is read again.
                break;
            }
            let limit = parts.sockets.status(descriptor.socket());
            let limit = limit.map_or(0, |status| status.max_message);
            let frame = (slot, &lengths);
            match descriptor.incoming.parse(frame, &mut parts.frames, limit) {
                ProgramFrame::Ignored => {}
                ProgramFrame::Invalid(reason) => return ReadResult::Invalid(reason),
                ProgramFrame::TooLarge => report_dropped(parts, now, descriptor, Errno::EMSGSIZE),
                ProgramFrame::Message(message) => {
                    let refused = if descriptor.incoming.has_refused() {
                        Some(message)
                    } else {
                        send(parts, now, descriptor, message)
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
fn read_empty(parts: &mut Parts, now: Time, descriptor: &mut Descriptor) -> ReadResult {
    if descriptor.phase() == Phase::WriteRefused && !descriptor.is_closed() {
        descriptor.incoming.set_readable(false);
        return dry(parts, now, descriptor);
    }
    // Peeked, so that what is attached to another frame stays there.
    let with = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let again = descriptor
        .ours()
        .map(|ours| recv(ours, &mut parts.frames.other[..], with));
    match again {
        Some(Ok((0, _))) => ReadResult::Closed,
        _ => ReadResult::Invalid("an empty frame"),
    }
}

/// Shuts the association down after the last message, if the program has called `shutdown`.
fn dry(parts: &mut Parts, now: Time, descriptor: &mut Descriptor) -> ReadResult {
    if descriptor.is_dry()
        && let Some(how) = descriptor.shutdown.take()
    {
        // An association that has ended meanwhile is shut down already.
        let _ = parts.sockets.shutdown(now, descriptor.socket(), how);
    }
    ReadResult::Dry
}

/// Sends a message, or returns it if the send buffer has no room. One that the protocol refuses was passed by
/// a process with an outdated description of the socket, and is reported as the pending error.
fn send(
    parts: &mut Parts,
    now: Time,
    descriptor: &Descriptor,
    message: ProgramMessage,
) -> Option<ProgramMessage> {
    let level = parts.sockets.readiness(descriptor.socket());
    if level.is_none_or(|level| level.contains(Readiness::HANG_UP)) {
        // Lost with the association, whose error the program has still to read.
        return None;
    }
    let outgoing = OutgoingMessage {
        address: None,
        data: message.data.clone(),
        control: &message.control,
    };
    match parts.sockets.sendmsg(now, descriptor.socket(), &outgoing) {
        Err(Errno::EAGAIN) => return Some(message),
        Ok(_) | Err(Errno::EPIPE | Errno::ESHUTDOWN | Errno::ENOTCONN) => {}
        Err(error) => report_dropped(parts, now, descriptor, error),
    }
    None
}

/// Reports a message that was dropped after the program had sent it, as the pending error.
fn report_dropped(parts: &mut Parts, now: Time, descriptor: &Descriptor, error: Errno) {
    if parts.sockets.set_error(descriptor.socket(), error) == Ok(true) {
        parts.users.log_line(now, descriptor.uid(), || {
            format!(
                "socket {} of user {} dropped a message: {error}; SO_ERROR reports it",
                descriptor.socket(),
                descriptor.uid()
            )
        });
    }
}
