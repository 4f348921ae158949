//! Readiness of sockets, and its changes for edge-triggered polling (`poll`, `epoll`).

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};

use crate::errno::Errno;
use crate::ids::SocketId;
use crate::socket::{Socket, SocketState};
use crate::sockets::Sockets;

/// Set of conditions of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness(u8);

impl Readiness {
    /// No condition.
    pub const NONE: Self = Self(0);
    /// A message, a notification, the end of messages, or an association to accept can be read (`POLLIN`).
    pub const READABLE: Self = Self(1);
    /// The send buffer has room (`POLLOUT`).
    pub const WRITABLE: Self = Self(2);
    /// The peer sends no more messages (`POLLRDHUP`).
    pub const READ_CLOSED: Self = Self(4);
    /// The association has ended or its set-up has failed (`POLLHUP`).
    pub const HANG_UP: Self = Self(8);
    /// `SO_ERROR` has an error (`POLLERR`).
    pub const ERROR: Self = Self(16);

    /// Returns whether all conditions of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether any condition of `other` is in this set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn set(&mut self, condition: Self, present: bool) {
        if present {
            *self |= condition;
        }
    }
}

impl BitOr for Readiness {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["READABLE", "WRITABLE", "READ_CLOSED", "HANG_UP", "ERROR"];
        let mut list = f.debug_set();
        for (bit, name) in names.iter().enumerate() {
            if self.0 >> bit & 1 == 1 {
                list.entry(&format_args!("{name}"));
            }
        }
        list.finish()
    }
}

impl Portable for Readiness {
    fn write(&self, out: &mut ExportWriter) {
        self.0.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let conditions = u8::read(input)?;
        if conditions >= Self::ERROR.0 << 1 {
            return Err(ImportError::Malformed("Readiness"));
        }
        Ok(Self(conditions))
    }
}

/// Change of the readiness of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadinessChange {
    /// Identifier of the socket.
    pub socket: SocketId,
    /// Conditions that occurred since the last change, also those that were in place before: each
    /// message is an edge of [`Readiness::READABLE`].
    pub edges: Readiness,
    /// Conditions that are in place.
    pub level: Readiness,
}

impl Sockets {
    /// Returns the conditions of a socket that are in place; `None` if there is no such socket.
    pub fn readiness(&self, id: SocketId) -> Option<Readiness> {
        self.table.get(&id).map(Self::level)
    }

    /// Returns the next socket with a change of its readiness. A socket is queued once, however many
    /// edges it has. Closed sockets have none.
    pub fn poll_readiness(&mut self) -> Option<ReadinessChange> {
        while let Some(id) = self.changed.pop_front() {
            let Some(socket) = self.table.get_mut(&id) else {
                continue;
            };
            let edges = std::mem::take(&mut socket.edges);
            let level = self.readiness(id).unwrap_or_default();
            return Some(ReadinessChange {
                socket: id,
                edges,
                level,
            });
        }
        None
    }

    /// Returns the pending error of a socket without clearing it.
    ///
    /// # Errors
    /// `EBADF`
    pub fn pending_error(&self, id: SocketId) -> Result<Option<Errno>, Errno> {
        Ok(self.socket_ref(id)?.error)
    }

    /// Sets the pending error of a socket (`SO_ERROR`), for a caller that detects one after its call has
    /// returned. Returns false if the socket has one already, which remains.
    ///
    /// # Errors
    /// `EBADF`
    pub fn set_error(&mut self, id: SocketId, error: Errno) -> Result<bool, Errno> {
        let socket = self.socket_mut(id)?;
        if socket.error.is_some() {
            return Ok(false);
        }
        socket.error = Some(error);
        self.raise(id, Readiness::ERROR);
        Ok(true)
    }

    fn level(socket: &Socket) -> Readiness {
        let mut level = Readiness::NONE;
        if socket.is_one_to_one_listener() {
            level.set(Readiness::READABLE, !socket.accept_queue.is_empty());
            return level;
        }
        let readable = socket.queue.has_items() || socket.read_closed;
        level.set(Readiness::READABLE, readable);
        level.set(Readiness::READ_CLOSED, socket.read_closed);
        level.set(
            Readiness::HANG_UP,
            socket.state == SocketState::Ended || socket.failed,
        );
        level.set(Readiness::ERROR, socket.error.is_some());
        let connected = !socket.is_one_to_one() || socket.state == SocketState::Established;
        let full = !socket.full.is_empty();
        level.set(
            Readiness::WRITABLE,
            connected && !socket.write_closed && !full,
        );
        level
    }

    /// Queues a socket with these edges, unless it is in an accept queue.
    pub(crate) fn raise(&mut self, id: SocketId, edges: Readiness) {
        let socket = self.table.get_mut(&id);
        let Some(socket) = socket.filter(|socket| socket.listener.is_none()) else {
            return;
        };
        if socket.edges.is_empty() && !edges.is_empty() {
            self.changed.push_back(id);
        }
        socket.edges |= edges;
    }
}
