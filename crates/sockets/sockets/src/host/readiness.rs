//! Readiness of sockets, and its changes for edge-triggered polling (`poll`, `epoll`).

use super::Sockets;
use crate::errno::Errno;
use crate::ids::SocketId;
use crate::table::{Readiness, ReadinessChange, Socket};

impl Sockets {
    /// Returns the conditions of a socket that are in place; `None` if there is no such socket.
    pub fn readiness(&self, id: SocketId) -> Option<Readiness> {
        self.table.get(id).map(Socket::readiness)
    }

    /// Returns the next socket with a change of its readiness. A socket is queued once, however many
    /// edges it has. Closed sockets have none.
    pub fn poll_readiness(&mut self) -> Option<ReadinessChange> {
        self.table.next_change()
    }

    /// Returns the pending error of a socket without clearing it.
    ///
    /// # Errors
    /// `EBADF`
    pub fn pending_error(&self, id: SocketId) -> Result<Option<Errno>, Errno> {
        Ok(self.table.open(id)?.error())
    }

    /// Sets the pending error of a socket (`SO_ERROR`), for a caller that detects one after its call has
    /// returned. Returns false if the socket has one already, which remains.
    ///
    /// # Errors
    /// `EBADF`
    pub fn set_error(&mut self, id: SocketId, error: Errno) -> Result<bool, Errno> {
        let socket = self.table.open_mut(id)?;
        if socket.error().is_some() {
            return Ok(false);
        }
        socket.set_error(Some(error));
        self.table.raise(id, Readiness::ERROR);
        Ok(true)
    }
}
