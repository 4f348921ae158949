//! Ends of pairs: with the association, after a set-up that failed, and after an invalid frame.

use std::io::IoSliceMut;

use carrick_proto::Time;
use rustix::net::{RecvFlags, Shutdown};

use crate::descriptor::{Descriptor, OutgoingFrame, PhaseEvent};
use crate::pair::receive_with_files;
use crate::parts::Parts;
use crate::poller::Token;

/// Shuts the pair down when no message passes in either direction any more. Its events then no longer show what
/// has happened; the program may have closed its end.
pub(super) fn end(parts: &mut Parts, now: Time, token: Token, descriptor: &mut Descriptor) {
    if let Some(ours) = descriptor.ours() {
        // Frames that are not read would keep the program's end from being writable.
        let mut files = Vec::new();
        let mut read = || {
            let buffers = &mut [IoSliceMut::new(parts.frames.other())];
            receive_with_files(ours, buffers, &mut files, RecvFlags::DONTWAIT)
        };
        while read().is_ok_and(|len| len > 0) {}
        descriptor.shut_down(Shutdown::Both);
        if !files.is_empty() {
            parts.users.close_files(descriptor.uid(), files);
        }
    }
    descriptor.change(PhaseEvent::AssociationEnded);
    parts.descriptors.end(now, token);
    parts.listeners.check_stored(token);
}

/// Ends the pair after a set-up that failed: closing the daemon's end with the plug unread makes the
/// program's end report an error (`POLLERR`).
pub(super) fn end_failed(parts: &mut Parts, now: Time, token: Token, descriptor: &mut Descriptor) {
    if let Some(ours) = descriptor.take_ours() {
        parts.poller.unwatch(&ours);
        parts.users.close_pair(descriptor.uid(), ours);
    }
    descriptor.outgoing.take_all();
    descriptor.change(PhaseEvent::SetupFailed);
    parts.descriptors.end(now, token);
}

/// Ends a descriptor whose program has sent an invalid frame.
pub(super) fn break_off(
    parts: &mut Parts,
    now: Time,
    (token, descriptor): (Token, &mut Descriptor),
    reason: &'static str,
) {
    let (socket, uid) = (descriptor.socket(), descriptor.uid());
    parts.users.log_line(now, uid, || {
        format!(
            "socket {socket} of user {uid} ended with ECONNABORTED: the program sent {reason}; a call did not pass \
             the preload library"
        )
    });
    let _ = parts.sockets.abort(now, socket);
    parts.descriptors.leave_socket(descriptor);
    descriptor.change(PhaseEvent::InvalidFrame);
    descriptor.outgoing.push(OutgoingFrame::failed());
    // Without room the program gets the error from SO_ERROR alone.
    descriptor.flush();
    end(parts, now, token, descriptor);
}
