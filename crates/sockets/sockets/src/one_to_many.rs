//! Calls of one-to-many sockets (RFC 6458, section 3): branching off an association, and associations
//! that are idle.

use carrick_proto::Time;

use crate::errno::Errno;
use crate::ids::{AssocId, SocketId};
use crate::readiness::Readiness;
use crate::socket::{Socket, SocketState};
use crate::sockets::Sockets;

impl Sockets {
    /// Moves an association with its unread messages and notifications to a socket that has no other one:
    /// `sctp_peeloff` (RFC 6458, section 9.2).
    ///
    /// # Errors
    /// - `EINVAL`: a one-to-one or branched-off socket, or no such association.
    /// - `EMFILE`: the limit of sockets is reached.
    pub fn peeloff(
        &mut self,
        now: Time,
        id: SocketId,
        association: i32,
    ) -> Result<SocketId, Errno> {
        self.now = now;
        let socket = self.socket_ref(id)?;
        if socket.is_one_to_one() || socket.is_peeled_off {
            return Err(Errno::EINVAL);
        }
        let assoc = self
            .association_of(socket, association)
            .ok_or(Errno::EINVAL)?;
        let port = socket.port.ok_or(Errno::EINVAL)?;
        let mut branched = Socket::new(socket.style, socket.family, socket.options.clone());
        branched.is_peeled_off = true;
        branched.owner = socket.owner;
        branched.port = Some(port);
        branched.state = SocketState::Established;
        branched.associations.insert(assoc);
        branched.peer = self.associations.get(assoc).map(|a| a.peer);
        let branched_id = self.insert_socket(branched)?;
        self.ports.join(port, branched_id);
        self.associations.move_to(assoc, branched_id);
        // Taken out of the table, to have both queues at hand.
        if let Some(mut socket) = self.table.remove(&id) {
            socket.associations.remove(&assoc);
            let was_full = socket.full.remove(&assoc);
            if let Some(branched) = self.table.get_mut(&branched_id) {
                socket.queue.move_to(assoc, &mut branched.queue);
                branched.full.extend(was_full.then_some(assoc));
            }
            self.table.insert(id, socket);
        }
        self.fill(branched_id);
        self.fill(id);
        let level = self.readiness(branched_id).unwrap_or_default();
        self.raise(branched_id, level);
        self.raise(id, Readiness::WRITABLE);
        Ok(branched_id)
    }

    /// Starts the observation of an association for `SCTP_AUTOCLOSE`.
    pub(crate) fn watch_idle(&mut self, id: AssocId) {
        let socket = self.associations.get(id).and_then(|a| a.socket());
        let socket = socket.and_then(|id| self.table.get(&id));
        // RFC 6458, section 8.1.8: one-to-many sockets only.
        if socket.is_some_and(|s| !s.is_one_to_one() && !s.is_peeled_off) {
            self.associations.watch_idle(id);
        }
    }

    /// Shuts down associations that have been idle for long enough.
    pub(crate) fn close_idle(&mut self, now: Time) {
        while let Some(id) = self.associations.next_idle_check(now) {
            match self.associations.get(id).and_then(|a| a.idle_limit()) {
                Some(limit) if limit > now => self.watch_idle(id),
                Some(_) => self.shut_down_association(now, id),
                None => {}
            }
        }
    }
}
