//! Readiness of sockets, and its changes for edge-triggered polling (`poll`, `epoll`).

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};

use super::Socket;
use crate::ids::SocketId;

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

impl Socket {
    /// Returns the conditions that are in place.
    pub(crate) fn readiness(&self) -> Readiness {
        let mut level = Readiness::NONE;
        if self.is_one_to_one_listener() {
            level.set(Readiness::READABLE, !self.accept_queue.is_empty());
            return level;
        }
        let is_read_closed = self.is_read_closed();
        level.set(
            Readiness::READABLE,
            self.queue.has_items() || is_read_closed,
        );
        level.set(Readiness::READ_CLOSED, is_read_closed);
        level.set(Readiness::HANG_UP, self.is_ended() || self.has_failed());
        level.set(Readiness::ERROR, self.error().is_some());
        let connected = !self.is_one_to_one() || self.is_established();
        level.set(
            Readiness::WRITABLE,
            connected && !self.is_write_closed() && self.full().is_empty(),
        );
        level
    }
}
