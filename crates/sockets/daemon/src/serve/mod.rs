//! Turns of descriptors and leases: what passes between programs, the protocol and the network.
//!
//! A turn of a descriptor reads the frames of its program ([`FrameReader`]), passes messages and notifications to it
//! ([`deliver`]), and ends its pair with the association ([`end`]).

mod accept;
pub(crate) mod closed;
mod deliver;
mod end;
pub(crate) mod lease;
pub(crate) mod listener;
mod read;

use carrick_proto::Time;
use carrick_sockets::{Closed, Readiness, Sockets, Style};

use crate::descriptor::{Descriptor, Phase, PhaseEvent};
use crate::linger::Lingering;
use crate::parts::Parts;
use crate::poller::Token;

pub(crate) use accept::{insert_descriptor, open_pair, open_watched};
use read::{FrameReader, ReadResult};

/// Limit of the turns in which a pair is read before a request: more frames than it has room for.
const DRAIN: usize = 16;

/// Passes messages in both directions, as far as there is room.
pub(crate) fn serve(parts: &mut Parts, now: Time, token: Token) {
    let Some(mut descriptor) = parts.descriptors.take(token) else {
        return;
    };
    if serve_one(parts, now, token, &mut descriptor) {
        parts.descriptors.put_back(token, descriptor);
    } else {
        forget(parts, now, token, descriptor);
    }
}

/// Serves a descriptor. Returns false if the program has closed it.
///
/// 1. Release the program if its association is established or has room, or end the pair if the set-up has failed. The
///    set-up comes first: what the program wrote behind the plug is for an association that exists.
/// 2. Read the program's frames. Its end of the pair is among them, behind its last message.
/// 3. Refuse further messages if the protocol does, and pass what has been received.
fn serve_one(parts: &mut Parts, now: Time, token: Token, descriptor: &mut Descriptor) -> bool {
    if descriptor.is_ended() {
        return true;
    }
    // 1
    let level = parts.sockets.readiness(descriptor.socket());
    let level = level.unwrap_or_default();
    let settled = Readiness::WRITABLE | Readiness::HANG_UP | Readiness::ERROR;
    if descriptor.phase().is_plugged() && level.intersects(settled) {
        if level.contains(Readiness::HANG_UP) && has_failed(&parts.sockets, descriptor) {
            end::end_failed(parts, now, token, descriptor);
            return true;
        }
        descriptor.change(PhaseEvent::Released);
    }
    // 2
    match frame_reader(parts, now).read(descriptor) {
        ReadResult::Closed => {
            close(now, &mut parts.sockets, &mut parts.lingering, descriptor);
            return false;
        }
        ReadResult::Invalid(reason) => end::break_off(parts, now, (token, descriptor), reason),
        ReadResult::More => parts.descriptors.set_ready(token),
        ReadResult::Dry => {}
    }
    // 3
    if !descriptor.is_ended() {
        refuse_writes(&parts.sockets, descriptor);
        deliver::deliver(parts, now, token, descriptor);
    }
    true
}

fn frame_reader(parts: &mut Parts, now: Time) -> FrameReader<'_> {
    FrameReader {
        now,
        sockets: &mut parts.sockets,
        users: &mut parts.users,
        frames: &mut parts.frames,
    }
}

/// Makes the program's end refuse messages when the protocol does: after `shutdown`, and after the peer's SHUTDOWN
/// (RFC 9260, section 9.2).
fn refuse_writes(sockets: &Sockets, descriptor: &mut Descriptor) {
    let status = sockets.status(descriptor.socket());
    if status.is_ok_and(|s| s.style == Style::OneToOne && s.is_write_closed) {
        descriptor.refuse_writes();
    }
}

/// Returns whether the set-up of a descriptor's association has failed. One that was established and has ended since
/// the last turn takes no messages.
fn has_failed(sockets: &Sockets, descriptor: &Descriptor) -> bool {
    let status = sockets.status(descriptor.socket());
    descriptor.phase() == Phase::SettingUp && status.is_ok_and(|status| !status.is_write_closed)
}

/// Closes the socket of a descriptor that the program has closed. As in Linux, messages that the
/// program has not read end the association with ABORT, but notifications do not. If both were sent,
/// the daemon does not know which were read.
fn close(now: Time, sockets: &mut Sockets, lingering: &mut Lingering, descriptor: &Descriptor) {
    let socket = descriptor.socket();
    let listens = sockets.status(socket);
    let listens = listens.is_ok_and(|status| status.is_listening);
    if descriptor.has_lost_data() && !listens {
        // The socket exists as long as its descriptor, unless the daemon has broken it off.
        let _ = sockets.abort(now, socket);
    } else if let Ok(Closed::Lingers(time)) = sockets.close(now, socket) {
        lingering.insert(descriptor, time);
    }
}

/// Removes a descriptor whose socket is closed.
fn forget(parts: &mut Parts, now: Time, token: Token, mut descriptor: Descriptor) {
    parts.descriptors.remove(now, token, &descriptor);
    parts.listeners.check_stored(token);
    parts.users.remove_descriptor(descriptor.uid());
    if let Some(ours) = descriptor.take_ours() {
        parts.users.close_pair(descriptor.uid(), ours);
    }
}

/// Passes the messages that the program has sent before a request to the protocol.
pub(crate) fn drain(parts: &mut Parts, now: Time, token: Token, descriptor: &mut Descriptor) {
    for _ in 0..DRAIN {
        match frame_reader(parts, now).read(descriptor) {
            ReadResult::More => {}
            ReadResult::Dry => return,
            // The next turn handles it.
            ReadResult::Closed => {
                descriptor.incoming.set_readable(true);
                parts.descriptors.set_ready(token);
                return;
            }
            ReadResult::Invalid(reason) => {
                return end::break_off(parts, now, (token, descriptor), reason);
            }
        }
    }
}
