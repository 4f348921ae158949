//! Identifiers that are compared and stored, but never computed with (RFC 9260, sections 3.1 and 3.3.1, and
//! the extensions).

use core::fmt;

/// Stream identifier: number of a stream in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

impl From<u16> for StreamId {
    fn from(number: u16) -> Self {
        Self(number)
    }
}

/// Payload protocol identifier, set by the user and not interpreted. The value is in host order here and in
/// network order on the wire; 0 means "not given".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppid(pub u32);

impl From<u32> for Ppid {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

/// Verification tag: number that the receiver of a packet selected for the association.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerificationTag(pub u32);

/// Correlation identifier: parameter of an ASCONF that a parameter of the ASCONF-ACK answers (RFC 5061,
/// section 4.2). Only its sender interprets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelationId(pub u32);

/// Identifier of a shared key; 0 is the empty key, which needs no configuration (RFC 4895, section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedKeyId(pub u16);

/// Identifier of a message authentication algorithm (RFC 4895, 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HmacId(pub u16);

impl HmacId {
    /// HMAC with SHA-1: 20 bytes. Every implementation of AUTH supports it (RFC 4895, section 3.3).
    pub const SHA_1: Self = Self(1);
    /// HMAC with SHA-256: 32 bytes.
    pub const SHA_256: Self = Self(3);

    /// Length of the HMAC in bytes, if the algorithm is one of the constants.
    pub const fn hmac_len(self) -> Option<usize> {
        match self {
            Self::SHA_1 => Some(20),
            Self::SHA_256 => Some(32),
            _ => None,
        }
    }
}

/// Method that protects packets with a checksum of zero (RFC 9653, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorDetectionMethod(pub u32);

impl ErrorDetectionMethod {
    /// SCTP over DTLS (RFC 8261), which protects the integrity of packets.
    pub const DTLS: Self = Self(1);
}

impl VerificationTag {
    /// Tag of a packet with an INIT chunk; never the tag of an association.
    pub const ZERO: Self = Self(0);

    /// Returns whether this is [`VerificationTag::ZERO`].
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

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Display for SharedKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for HmacId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SHA_1 => f.write_str("HMAC-SHA-1"),
            Self::SHA_256 => f.write_str("HMAC-SHA-256"),
            Self(other) => write!(f, "HMAC {other}"),
        }
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
