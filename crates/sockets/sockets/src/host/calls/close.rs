//! End of sockets: `close` with `SO_LINGER`, and delivery in the background.

use std::collections::BTreeSet;
use std::time::Duration;

use carrick_proto::Time;

use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::associations::{association_mut, remove_association, with_association};
use crate::host::calls::bind::leave_port;
use crate::ids::{AssocId, SocketId};

/// End of the associations of a closed socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closed {
    /// The socket had no association that has to be waited for.
    Done,
    /// Its associations are shut down in the background: messages that were sent are delivered.
    InBackground,
    /// As [`Self::InBackground`], and a blocking `close` returns after this time or when
    /// [`Sockets::closing_sockets`] no longer has it (`SO_LINGER`).
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
        let linger = self.table.open(id)?.options().linger;
        self.now = now;
        let aborts = linger == Some(0);
        if !end_socket(self, id, aborts) {
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
        end_socket(self, id, true);
        Ok(())
    }

    /// Returns the time that `close` of a socket waits for its associations; `None` if it does not (`SO_LINGER`).
    pub fn linger_time(&self, id: SocketId) -> Option<Duration> {
        let linger = self.table.get(id)?.options().linger;
        let seconds = linger.filter(|seconds| *seconds > 0)?;
        Some(Duration::from_secs(seconds.into()))
    }

    /// Returns the closed sockets that have associations that have not ended.
    pub fn closing_sockets(&self) -> BTreeSet<SocketId> {
        self.associations.closed_sockets().collect()
    }
}

/// Removes a socket. Returns whether associations remain.
fn end_socket(host: &mut Sockets, id: SocketId, aborts: bool) -> bool {
    let Some(socket) = host.table.remove(id) else {
        return false;
    };
    let mut remains = false;
    for child in socket.unaccepted() {
        remains |= end_socket(host, *child, aborts);
    }
    for association in socket.associations().iter().copied() {
        let unread = socket.queue().has_data_of(association);
        leave_association(host, association, aborts || unread);
        remains |= host.associations.is_closing(association);
    }
    leave_port(host, id, &socket);
    remains
}

/// Ends an association whose socket is closed.
fn leave_association(host: &mut Sockets, id: AssocId, aborts: bool) {
    host.associations.leave_socket(id);
    if !host.associations.is_open(id) {
        drop_unread(host, id);
        remove_association(host, id);
        return;
    }
    with_association(host, id, |a| {
        // Neither fails: the association has not ended.
        let _ = if aborts {
            a.core.abort(a.now, a.core_id, b"")
        } else {
            a.core.shutdown(a.now, a.core_id)
        };
        while a.core.receive(a.core_id).is_some() {}
    });
}

/// Reads and drops the messages of an association without a socket.
pub(crate) fn drop_unread(host: &mut Sockets, id: AssocId) {
    if let Some(a) = association_mut(host, id) {
        while a.core.receive(a.core_id).is_some() {}
    }
}
