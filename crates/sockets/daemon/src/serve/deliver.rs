//! Messages, notifications, errors and the end for a program.

use carrick_ipc::{FrameKind, Header, MAX_PAYLOAD, MessageInfo};
use carrick_proto::Time;
use carrick_sockets::{Readiness, Received, Sockets, Style};

use super::accept::next_accepted;
use super::end::end;
use crate::descriptor::{Descriptor, OutgoingFrame};
use crate::parts::Parts;
use crate::poller::Token;

/// Maximum number of batches for the program in one turn of a descriptor.
const BATCHES: usize = 4;

/// Passes messages, notifications, associations to accept, errors and the end to the program.
///
/// Messages remain with the protocol while the pair has no room, and at most one batch waits in front of it. So
/// messages that a program does not read fill the receive buffer, and the association advertises a smaller `a_rwnd`.
pub(super) fn deliver(parts: &mut Parts, now: Time, token: Token, descriptor: &mut Descriptor) {
    for _ in 0..BATCHES {
        let has_room = descriptor.flush();
        if descriptor.set_waits_for_room(!has_room)
            && let Some(ours) = descriptor.ours()
        {
            parts.poller.watch_writable(ours, token, !has_room);
        }
        if !has_room {
            return;
        }
        while !descriptor.outgoing.has_batch()
            && let Some(outgoing) = next_frame(parts, now, token, descriptor)
        {
            descriptor.outgoing.push(outgoing);
        }
        if descriptor.outgoing.is_empty() {
            return deliver_end(parts, now, token, descriptor);
        }
    }
    parts.descriptors.set_ready(token);
}

/// Returns the next frame for the program.
fn next_frame(
    parts: &mut Parts,
    now: Time,
    token: Token,
    descriptor: &mut Descriptor,
) -> Option<OutgoingFrame> {
    let status = parts.sockets.status(descriptor.socket()).ok()?;
    if status.is_listening && status.style == Style::OneToOne {
        return next_accepted(parts, now, token, descriptor);
    }
    next_message(&mut parts.sockets, now, descriptor)
}

/// Returns the frame of the next message or notification, or of the pending error behind those.
fn next_message(
    sockets: &mut Sockets,
    now: Time,
    descriptor: &mut Descriptor,
) -> Option<OutgoingFrame> {
    let id = descriptor.socket();
    let level = sockets.readiness(id)?;
    let is_empty = sockets.unread(id) == Ok(0);
    if !level.contains(Readiness::ERROR) {
        descriptor.set_failure_sent(false);
    }
    if level.contains(Readiness::ERROR) && is_empty {
        let was_sent = descriptor.set_failure_sent(true);
        return (!was_sent).then(OutgoingFrame::failed);
    }
    if !level.contains(Readiness::READABLE) || descriptor.end_sent() {
        return None;
    }
    let received = sockets.recvmsg(now, id, (MAX_PAYLOAD, 0), 0).ok()?;
    if received.data.is_empty() {
        return None;
    }
    let outgoing = frame_of(received);
    descriptor.record_data([&outgoing]);
    Some(outgoing)
}

/// Notifies the program of the end of messages, and of the end of the association.
///
/// A pair passes nothing behind the end of messages. If the program is to be notified of the end of the
/// association, that notification comes first.
fn deliver_end(parts: &mut Parts, now: Time, token: Token, descriptor: &mut Descriptor) {
    let id = descriptor.socket();
    let level = parts.sockets.readiness(id).unwrap_or_default();
    if parts.sockets.unread(id).unwrap_or(0) > 0 {
        return;
    }
    let pending = level.contains(Readiness::ERROR) && !descriptor.failure_sent();
    let reads_end = level.contains(Readiness::READ_CLOSED);
    let status = parts.sockets.status(id);
    let both_end = reads_end && status.is_ok_and(|status| status.is_write_closed);
    let hangs_up = level.contains(Readiness::HANG_UP);
    let waits = status.is_ok_and(|status| status.notifies_end) && !descriptor.end_sent();
    if both_end && !hangs_up && waits {
        // The notification raises another change.
    } else if (both_end || hangs_up) && !pending {
        end(parts, now, token, descriptor);
    } else if reads_end {
        descriptor.send_end();
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
