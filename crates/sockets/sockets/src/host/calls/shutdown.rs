//! `shutdown` (RFC 6458, section 4.1.7).

use carrick_proto::Time;

use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::associations::with_association;
use crate::ids::{AssocId, SocketId};
use crate::linux::{SHUT_RD, SHUT_RDWR, SHUT_WR};
use crate::table::Readiness;

impl Sockets {
    /// Ends one direction or both of a one-to-one socket: `shutdown` (RFC 6458, section 4.1.7).
    /// `SHUT_WR` delivers the messages that were sent and shuts the association down; messages that the
    /// peer sends until then can still be read. After `SHUT_RD` messages that arrive are dropped. As on
    /// Linux, `SHUT_WR` of a branched-off socket has no effect.
    ///
    /// # Errors
    /// - `ENOTCONN`: no association, or a one-to-many socket that is not branched off.
    /// - `EOPNOTSUPP`: the reading side of a listening socket.
    /// - `EINVAL`: another `how`.
    pub fn shutdown(&mut self, now: Time, id: SocketId, how: i32) -> Result<(), Errno> {
        self.now = now;
        if ![SHUT_RD, SHUT_WR, SHUT_RDWR].contains(&how) {
            return Err(Errno::EINVAL);
        }
        let socket = self.table.open_mut(id)?;
        if socket.is_one_to_one_listener() {
            return if how == SHUT_WR {
                Ok(())
            } else {
                Err(Errno::EOPNOTSUPP)
            };
        }
        if socket.peer().is_none() {
            return Err(Errno::ENOTCONN);
        }
        let mut edges = Readiness::NONE;
        if how != SHUT_WR {
            socket.shut_down_receiving();
            edges |= Readiness::READABLE | Readiness::READ_CLOSED;
        }
        if how != SHUT_RD && socket.is_one_to_one() {
            socket.shut_down_sending();
            if let Some(association) = socket.only_association() {
                shut_down_association(self, association);
            }
        }
        self.table.raise(id, edges);
        Ok(())
    }
}

/// Starts the graceful shutdown of an association.
pub(crate) fn shut_down_association(host: &mut Sockets, id: AssocId) {
    with_association(host, id, |a| {
        // An association that has ended is shut down already.
        let _ = a.core.shutdown(a.now, a.core_id);
    });
}
