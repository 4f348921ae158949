//! Identifiers that are compared and stored but never computed with (RFC 9260, sections 3.1
//! and 3.3.1).

use core::fmt;

/// Stream identifier: which stream of one direction a message belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

/// Payload protocol identifier: the user's own mark on a message, carried untouched. The value
/// is in host order here and in network order on the wire; 0 means "not given".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppid(pub u32);

/// Verification tag: the number that the receiver of a packet chose for the association.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerificationTag(pub u32);

impl VerificationTag {
    /// The tag of a packet with an INIT chunk; never the tag of an association.
    pub const ZERO: Self = Self(0);

    /// Whether this is [`VerificationTag::ZERO`].
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Ppid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for VerificationTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerificationTag({:#010x})", self.0)
    }
}

impl fmt::Display for VerificationTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}
