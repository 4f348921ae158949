//! End of the host's sockets while programs still have them, when their daemon stops.

use std::net::SocketAddr;

use carrick_proto::Time;

use crate::host::Sockets;
use crate::host::associations::with_association;
use crate::host::calls::shutdown::shut_down_association;
use crate::ids::{AssocId, SocketId};

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
        let associations = sockets.flat_map(|socket| socket.associations.iter().copied());
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
        let mut aborted = Vec::with_capacity(ids.len());
        for id in ids {
            aborted.extend(with_association(self, id, |a| {
                let stats = a.core.association(a.core_id).map(|a| a.stats());
                // It does not fail: the association has not ended.
                let _ = a.core.abort(now, a.core_id, b"");
                AbortedAssociation {
                    port: a.core.port(),
                    peer: a.own.peer,
                    unacknowledged: stats.map_or(0, |stats| stats.send_buffer_bytes),
                }
            }));
        }
        aborted
    }
}

/// Association that [`Sockets::abort_associations`] has aborted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedAssociation {
    /// Local SCTP port.
    pub port: u16,
    /// Primary address and SCTP port of the peer.
    pub peer: SocketAddr,
    /// Bytes of messages that the peer had not acknowledged.
    pub unacknowledged: usize,
}
