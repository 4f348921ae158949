//! Memory and limits that sources of peers and owners of sockets share.

use carrick_proto::SourceKey;

use super::Sockets;
use crate::errno::Errno;
use crate::ids::{AssocId, PortId, SocketId};

impl Sockets {
    /// Sets the owner of a socket, such as a user, whose sockets together have limits
    /// ([`Config::max_associations_per_owner`](crate::Config::max_associations_per_owner),
    /// [`Config::receive_memory_per_owner`](crate::Config::receive_memory_per_owner),
    /// [`Config::send_memory_per_owner`](crate::Config::send_memory_per_owner)) and ports
    /// ([`Config::reserved_ports`](crate::Config::reserved_ports)). Sockets that are accepted from it or branched off
    /// have the same. Default: 0.
    ///
    /// # Errors
    /// `EBADF`
    pub fn set_owner(&mut self, id: SocketId, owner: u32) -> Result<(), Errno> {
        self.table.open_mut(id)?.owner = owner;
        Ok(())
    }

    /// Returns whether there may be another association, of all and of an owner.
    pub(crate) fn has_association_room(&self, owner: u32) -> bool {
        self.associations.len() < self.config.max_associations
            && self.associations.of_owner(owner).associations < self.config.per_owner()
    }

    /// Updates the shares by the buffers of the associations of a port, and wakes those that have room in the send
    /// buffers of their owner again.
    pub(crate) fn count_buffers(&mut self, port: PortId) {
        let Some(endpoint) = self.ports.core_mut(port) else {
            return;
        };
        let limit = self.config.send_memory_per_owner;
        for id in self.associations.count_buffers(port, endpoint, limit) {
            let waited = self.associations.end_wait(id);
            let core = self.core_of(id).filter(|_| waited);
            // Otherwise its own buffer is full, whose room is an event of the core.
            if core.is_some_and(|(core, core_id)| core.has_send_room(core_id)) {
                self.on_send_room(id);
            }
        }
    }

    /// Limits what an association may receive, or a new one from `source`.
    pub(crate) fn limit_received(
        &mut self,
        port: PortId,
        association: Option<AssocId>,
        source: SourceKey,
    ) {
        let memory = self.config.receive_memory;
        let per_owner = self.config.memory_per_owner();
        let received = self.ports.received();
        // Below, no source and no owner can be near its limit.
        let room = (received > memory.min(per_owner) / 4).then(|| {
            let limits = (memory.saturating_sub(received), per_owner);
            self.associations.receive_room(association, source, limits)
        });
        self.ports.limit_received(port, memory, room);
    }
}
