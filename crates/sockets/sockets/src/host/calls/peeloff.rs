//! Calls of one-to-many sockets (RFC 6458, section 3): branching off an association, and associations
//! that are idle.

use carrick_proto::Time;

use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::events::fill;
use crate::ids::SocketId;
use crate::table::Readiness;

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
        let socket = self.table.open(id)?;
        if socket.is_single() {
            return Err(Errno::EINVAL);
        }
        let found = self
            .lookup()
            .meant(socket, association)
            .ok_or(Errno::EINVAL)?;
        let (assoc, peer) = (found.id, found.own.peer);
        let port = socket.port().ok_or(Errno::EINVAL)?;
        let (branched, owner) = (socket.branched_off(peer), socket.owner());
        let branched_id = self.table.insert(branched, self.config.max_sockets)?;
        self.ports.join(port, branched_id, owner);
        self.associations.move_to(assoc, branched_id);
        self.table.move_association(assoc, id, branched_id);
        fill(self, branched_id);
        fill(self, id);
        self.table.raise_all(branched_id);
        self.table.raise(id, Readiness::WRITABLE);
        Ok(branched_id)
    }
}
