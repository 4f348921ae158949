//! Sequence numbers of 24 bits (RFC 4165, section 2.2).

/// FSN or BSN: a number of 24 bits that wraps around to 0 after 16,777,215.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SequenceNumber(u32);

impl SequenceNumber {
    /// Maximum value. The first User Data message has the successor, 0.
    pub const MAX: Self = Self((1 << 24) - 1);

    /// Number with this value, `None` if it has more than 24 bits.
    pub const fn new(value: u32) -> Option<Self> {
        if value > Self::MAX.0 {
            return None;
        }
        Some(Self(value))
    }

    /// Returns the value, at most 16,777,215.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the successor.
    #[must_use]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// Returns the number `count` after this one.
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count) & Self::MAX.0)
    }

    /// Returns the number of successors from `earlier` to this number.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & Self::MAX.0
    }
}
