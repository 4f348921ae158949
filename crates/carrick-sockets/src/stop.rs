//! End of the host's sockets while programs still have them, when their daemon stops.

use carrick_proto::Time;

use crate::association::AssocId;
use crate::socket::SocketId;
use crate::sockets::Sockets;

impl Sockets {
    /// Starts the graceful shutdown of all associations of a socket, those in its accept queue included.
    /// Messages that were sent before are delivered.
    pub fn shut_down_associations(&mut self, now: Time, id: SocketId) {
        self.now = now;
        let Some(socket) = self.table.get(&id) else {
            return;
        };
        let waiting = socket.accept_queue.iter();
        let waiting = waiting.filter_map(|id| self.table.get(id));
        let sockets = std::iter::once(socket).chain(waiting);
        let associations = sockets.flat_map(|socket| socket.associations.iter().copied());
        let ids: Vec<AssocId> = associations.collect();
        for id in ids {
            self.shut_down_association(now, id);
        }
    }

    /// Returns the number of associations that have not ended.
    pub fn open_association_count(&self) -> usize {
        let all = self.associations.values();
        all.filter(|association| association.ended.is_none())
            .count()
    }
}
