//! Memory and limits that sources of peers and owners of sockets share.

use carrick_proto::SourceKey;

use super::Sockets;
use crate::errno::Errno;
use crate::host::associations::association_mut;
use crate::host::events::on_send_room;
use crate::ids::{AssocId, PortId, SocketId};

impl Sockets {
    /// Sets the owner of a socket, such as a user, whose sockets together have limits
    /// ([`Config::max_associations_per_owner`](crate::Config::max_associations_per_owner),
    /// [`Config::receive_memory_per_owner`](crate::Config::receive_memory_per_owner),
    /// [`Config::send_memory_per_owner`](crate::Config::send_memory_per_owner)) and ports
    /// ([`Config::reserved_ports`](crate::Config::reserved_ports)). Owners send packets in turn. Sockets that are
    /// accepted from it or branched off have the same. To be called before the socket is bound. Default: 0.
    ///
    /// # Errors
    /// `EBADF`
    pub fn set_owner(&mut self, id: SocketId, owner: u32) -> Result<(), Errno> {
        self.table.open_mut(id)?.set_owner(owner);
        Ok(())
    }
}

/// Returns whether there may be another association, of all and of an owner.
pub(crate) fn has_association_room(host: &Sockets, owner: u32) -> bool {
    host.associations.len() < host.config.max_associations
        && host.associations.of_owner(owner).associations < host.config.per_owner()
}

/// Updates the shares by the buffers of the associations of a port, and wakes those that have room in the send
/// buffers of their owner again.
pub(crate) fn count_buffers(host: &mut Sockets, port: PortId) {
    let Some(endpoint) = host.ports.core_mut(port) else {
        return;
    };
    let limit = host.config.send_memory_per_owner;
    for id in host.associations.count_buffers(port, endpoint, limit) {
        let waited = host.associations.end_wait(id);
        let found = association_mut(host, id).filter(|_| waited);
        // Otherwise its own buffer is full, whose room is an event of the core.
        if found.is_some_and(|a| a.core.has_send_room(a.core_id)) {
            on_send_room(host, id);
        }
    }
}

/// Limits what an association may receive, or a new one from `source`.
pub(crate) fn limit_received(
    host: &mut Sockets,
    port: PortId,
    association: Option<AssocId>,
    source: SourceKey,
) {
    let memory = host.config.receive_memory;
    let per_owner = host.config.memory_per_owner();
    let received = host.ports.received();
    // Below, no source and no owner can be near its limit.
    let room = (received > memory.min(per_owner) / 4).then(|| {
        let limits = (memory.saturating_sub(received), per_owner);
        host.associations.receive_room(association, source, limits)
    });
    host.ports.limit_received(port, memory, room);
}
