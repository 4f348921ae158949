//! End of the host's sockets while programs still have them, when their daemon stops.

use std::net::SocketAddr;

use carrick_proto::Time;

use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::associations::with_association;
use crate::host::calls::shutdown::shut_down_association;
use crate::ids::{AssocId, SocketId};
use crate::table::Readiness;

impl Sockets {
    /// Starts the graceful shutdown of all associations of a socket, those in its accept queue included.
    /// Messages that were sent before are delivered.
    pub fn shut_down_associations(&mut self, now: Time, id: SocketId) {
        self.now = now;
        let Some(socket) = self.table.get(id) else {
            return;
        };
        let waiting = socket.unaccepted().iter();
        let waiting = waiting.filter_map(|id| self.table.get(*id));
        let sockets = std::iter::once(socket).chain(waiting);
        let associations = sockets.flat_map(|socket| socket.associations().iter().copied());
        let ids: Vec<AssocId> = associations.collect();
        for id in ids {
            shut_down_association(self, id);
        }
    }

    /// Returns the number of associations that have not ended.
    pub fn open_association_count(&self) -> usize {
        let all = self.associations.iter();
        all.filter(|(_, association)| association.is_open()).count()
    }

    /// Aborts all associations that have not ended, those of closed sockets included. Returns them in the order of
    /// their set-up.
    pub fn abort_associations(&mut self, now: Time) -> Vec<AbortedAssociation> {
        self.now = now;
        let open = self.associations.iter();
        let open = open.filter(|(_, association)| association.is_open());
        let ids: Vec<AssocId> = open.map(|(id, _)| id).collect();
        let aborted = ids.into_iter();
        aborted.filter_map(|id| abort(self, id, b"")).collect()
    }

    /// Aborts an association by its identifier. The peer gets the reason in its ABORT; the program gets
    /// `ECONNABORTED`.
    ///
    /// # Errors
    /// `ENOENT`: it does not exist, or has ended.
    pub fn abort_association(
        &mut self,
        now: Time,
        association: i32,
        reason: &[u8],
    ) -> Result<AbortedAssociation, Errno> {
        self.now = now;
        let id = AssocId(association);
        let open = self
            .associations
            .get(id)
            .filter(|association| association.is_open());
        let socket_id = open.ok_or(Errno::ENOENT)?.socket();
        let aborted = abort(self, id, reason).ok_or(Errno::ENOENT)?;
        // The program has not ended it, and would take this end for that of the data.
        if let Some(socket_id) = socket_id
            && let Some(socket) = self.table.get_mut(socket_id)
            && socket.is_one_to_one()
            && socket.is_accepted()
        {
            socket.set_error(Some(Errno::ECONNABORTED));
            self.table.raise(socket_id, Readiness::ERROR);
        }
        Ok(aborted)
    }
}

/// Aborts an association that has not ended.
fn abort(host: &mut Sockets, id: AssocId, reason: &[u8]) -> Option<AbortedAssociation> {
    let now = host.now;
    with_association(host, id, |a| {
        let stats = a.core.association(a.core_id).map(|a| a.stats());
        // It does not fail: the association has not ended.
        let _ = a.core.abort(now, a.core_id, reason);
        AbortedAssociation {
            port: a.core.port(),
            peer: a.own.peer,
            unacknowledged: stats.map_or(0, |stats| stats.send_buffer_bytes),
        }
    })
}

/// Association that was aborted while its program had it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedAssociation {
    /// Local SCTP port.
    pub port: u16,
    /// Primary address and SCTP port of the peer.
    pub peer: SocketAddr,
    /// Bytes of messages that the peer had not acknowledged.
    pub unacknowledged: usize,
}
