//! Listening descriptors and the service manager that holds them ([`crate::listeners`]).

use carrick_proto::Time;
use rustix::net::Shutdown;

use crate::listeners::listening;
use crate::parts::Parts;

/// Sends the manager what has changed, as much as is due now.
pub(crate) fn update_store(parts: &mut Parts, now: Time) {
    let next = parts.sockets.next_association_id();
    parts.listeners.reserve_ids(next);
    while let Some((uid, token)) = parts.listeners.next_turn(now) {
        let descriptor = parts.descriptors.get(token);
        let sockets = &parts.sockets;
        parts
            .listeners
            .update(now, (uid, token), descriptor, sockets);
    }
}

/// Ends the listening descriptors of a daemon that ends: programs get an end although the manager may hold the daemon's
/// end of the pair, and the next process does not restore the socket.
pub(crate) fn end_listeners(parts: &mut Parts) {
    for (_, descriptor) in listening(&parts.descriptors, &parts.sockets) {
        descriptor.shut_down(Shutdown::Both);
    }
    parts.listeners.close();
}
