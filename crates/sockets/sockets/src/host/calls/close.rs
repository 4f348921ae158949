//! End of sockets: `close` with `SO_LINGER`, and delivery in the background.

use std::collections::BTreeSet;
use std::time::Duration;

use carrick_proto::Time;

use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::{AssocId, SocketId};

/// End of the associations of a closed socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closed {
    /// The socket had no association that has to be waited for.
    Done,
    /// Its associations are shut down in the background: messages that were sent are delivered.
    InBackground,
    /// As [`Self::InBackground`], and a blocking `close` returns after this time or when
    /// [`Sockets::is_closing`] is false (`SO_LINGER`).
    Lingers(Duration),
}

impl Sockets {
    /// Closes a socket: `close` (RFC 6458, sections 3.1.5 and 4.1.6). Associations are shut down
    /// gracefully, or aborted if `SO_LINGER` is on with time 0, or if messages have not been read.
    /// The port stays in use until they have ended. Associations in the accept queue end in the same way.
    ///
    /// # Errors
    /// `EBADF`
    pub fn close(&mut self, now: Time, id: SocketId) -> Result<Closed, Errno> {
        let linger = self.table.open(id)?.options.linger;
        self.now = now;
        let aborts = linger == Some(0);
        if !self.end_socket(id, aborts) {
            return Ok(Closed::Done);
        }
        Ok(match linger {
            Some(seconds) => Closed::Lingers(Duration::from_secs(seconds.into())),
            None => Closed::InBackground,
        })
    }

    /// Closes a socket and aborts its associations, as for a program that crashed.
    ///
    /// # Errors
    /// `EBADF`
    pub fn abort(&mut self, now: Time, id: SocketId) -> Result<(), Errno> {
        self.table.open(id)?;
        self.now = now;
        self.end_socket(id, true);
        Ok(())
    }

    /// Returns the time that `close` of a socket waits for its associations; `None` if it does not (`SO_LINGER`).
    pub fn linger_time(&self, id: SocketId) -> Option<Duration> {
        let linger = self.table.get(id)?.options.linger;
        let seconds = linger.filter(|seconds| *seconds > 0)?;
        Some(Duration::from_secs(seconds.into()))
    }

    /// Returns the closed sockets that have associations that have not ended.
    pub fn closing_sockets(&self) -> BTreeSet<SocketId> {
        self.associations.closed_sockets().collect()
    }

    /// Returns whether a closed socket has associations that have not ended.
    pub fn is_closing(&self, id: SocketId) -> bool {
        self.associations
            .closed_sockets()
            .any(|closed| closed == id)
    }

    /// Removes a socket. Returns whether associations remain.
    fn end_socket(&mut self, id: SocketId, aborts: bool) -> bool {
        let Some(socket) = self.table.remove(id) else {
            return false;
        };
        let mut remains = false;
        for child in socket.unaccepted() {
            remains |= self.end_socket(*child, aborts);
        }
        for association in socket.associations.iter().copied() {
            let unread = socket.queue.has_data_of(association);
            self.leave_association(association, aborts || unread);
            remains |= self.associations.is_closing(association);
        }
        self.leave_port(id, &socket);
        remains
    }

    /// Ends an association whose socket is closed.
    fn leave_association(&mut self, id: AssocId, aborts: bool) {
        let now = self.now;
        self.associations.leave_socket(id);
        if !self.associations.is_open(id) {
            self.drop_unread(id);
            self.remove_association(id);
            return;
        }
        if let Some((core, core_id)) = self.core_of(id) {
            // Neither fails: the association has not ended.
            let _ = if aborts {
                core.abort(now, core_id, b"")
            } else {
                core.shutdown(now, core_id)
            };
        }
        self.drop_unread(id);
        self.settle_association(id);
    }

    /// Reads and drops the messages of an association without a socket.
    pub(crate) fn drop_unread(&mut self, id: AssocId) {
        if let Some((core, core_id)) = self.core_of(id) {
            while core.receive(core_id).is_some() {}
        }
    }
}
