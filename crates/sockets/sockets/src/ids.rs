//! Identifiers of sockets, associations and ports.

use std::fmt;

use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};
use carrick_proto::portable_tuple;

/// Identifier of a socket. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub(crate) u64);

portable_tuple! { SocketId(number) }

impl fmt::Display for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Identifier of a port in use. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PortId(pub(crate) u64);

portable_tuple! { PortId(number) }

/// Association identifier, `sctp_assoc_t`: 3 and above, since 0 to 2 have other meanings. Reused only
/// after all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssocId(pub(crate) i32);

impl AssocId {
    /// First identifier.
    pub(crate) const FIRST: Self = Self(3);

    /// Returns the number.
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Returns the identifier with a number; `None` for one that has another meaning.
    pub const fn from_number(number: i32) -> Option<Self> {
        if number < Self::FIRST.0 {
            return None;
        }
        Some(Self(number))
    }

    pub(crate) fn next(self) -> Self {
        self.after(1)
    }

    /// Returns the identifier `count` behind this one; the first one follows the last one.
    #[must_use]
    pub fn after(self, count: u32) -> Self {
        let all = i64::from(i32::MAX) - i64::from(Self::FIRST.0) + 1;
        let place = i64::from(self.0) - i64::from(Self::FIRST.0) + i64::from(count);
        Self((place % all) as i32 + Self::FIRST.0)
    }

    /// Returns the number of identifiers from this one to another one.
    pub fn distance_to(self, other: Self) -> u32 {
        let all = i64::from(i32::MAX) - i64::from(Self::FIRST.0) + 1;
        (i64::from(other.0) - i64::from(self.0)).rem_euclid(all) as u32
    }
}

impl fmt::Display for AssocId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Portable for AssocId {
    fn write(&self, out: &mut ExportWriter) {
        (self.0 as u32).write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let number = u32::read(input)? as i32;
        if number < Self::FIRST.0 {
            return Err(ImportError::Malformed("association identifier"));
        }
        Ok(Self(number))
    }
}

/// Identifiers of sockets and ports are below this number, so that the next ones exist.
const MAX_IDENTIFIER: u64 = 1 << 63;

/// Checks that the next identifier of an export is above the last one.
pub(crate) fn check_next(next: u64, last: Option<u64>) -> Result<(), ImportError> {
    if next >= MAX_IDENTIFIER || last.is_some_and(|last| next <= last) {
        return Err(ImportError::Malformed("next identifier"));
    }
    Ok(())
}
