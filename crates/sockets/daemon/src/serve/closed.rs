//! Descriptors that programs have closed: before the end of their association, which a read of the pair shows, or after
//! it, which [`crate::ends`] shows.

use carrick_proto::Time;
use carrick_sockets::SocketId;

use super::{forget, serve};
use crate::parts::Parts;
use crate::poller::EVENTS;

/// Limit of descriptors that are closed for one request.
const AT_ONCE: usize = 64;

/// Closes the sockets of descriptors that the programs of a user have closed before this request, until the user may
/// have another one.
pub(crate) fn close_ended(parts: &mut Parts, now: Time, uid: u32) {
    read_all_events(parts, now);
    let closed = parts.descriptors.closed(|d| d.uid() == uid);
    for token in closed.into_iter().take(AT_ONCE) {
        serve(parts, now, token);
    }
    if parts.descriptors.ends().has_changed() {
        check_ended(parts, now);
    }
}

/// Closes the sockets of this port whose descriptors programs have closed, before the turn that would.
///
/// The system reports the end of a pair no later than a request that follows it, but not after the end
/// of the association. Messages of a descriptor that is in use by the caller remain unread.
pub(crate) fn close_closed(parts: &mut Parts, now: Time, port: u16) {
    read_all_events(parts, now);
    let sockets = &parts.sockets;
    let has_port = |socket: SocketId| {
        let local = sockets.local_address(socket);
        local.is_ok_and(|address| address.port() == port)
    };
    let closed = parts.descriptors.closed(|d| has_port(d.socket()));
    let has_ended = parts.descriptors.any_ended(|d| has_port(d.socket()));
    for token in closed {
        serve(parts, now, token);
    }
    if has_ended {
        check_ended(parts, now);
    }
}

/// Reads the events that the system has.
fn read_all_events(parts: &mut Parts, now: Time) {
    let mut events = Vec::with_capacity(EVENTS);
    // Each file has one event at most, unless further ones come meanwhile.
    for _ in 0..=parts.users.program_files() / EVENTS {
        if !parts.poller.read(&mut events) {
            break;
        }
        parts.handle_events(now, &mut events);
    }
}

/// Removes the descriptors that programs have closed after the end of their association.
pub(crate) fn check_ended(parts: &mut Parts, now: Time) {
    let expected = parts.descriptors.len();
    if let Some(open) = parts.descriptors.ends_mut().check(expected) {
        for (token, descriptor) in parts.descriptors.take_closed(&open) {
            // A socket that the daemon has broken off is closed already.
            let _ = parts.sockets.close(now, descriptor.socket());
            forget(parts, now, token, descriptor);
        }
        // Those that programs keep open count as descriptors of their users.
        let departed = parts.descriptors.ends_mut().retain_departed(&open);
        parts.users.count_departed(departed);
    }
    parts.descriptors.schedule_check(now);
}
