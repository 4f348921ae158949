//! Identifiers and lifetimes: attributes and fields of 32 bits (RFC 4540, sections 4.2.5, 4.3.4 to
//! 4.3.6).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |  0x0005, 0x0006 or 0x0007     |            0x0004             |
//! +-------------------------------+-------------------------------+
//! |  policy rule identifier, group identifier, or seconds         |
//! +---------------------------------------------------------------+
//! ```

use core::fmt;

/// Identifies a transaction within a session. The agent chooses those of requests, the middlebox those
/// of notifications; neither reuses one within a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TransactionId(pub u32);

impl TransactionId {
    /// Returns the next identifier, with wrap-around.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// PID: identifies a policy rule at a middlebox.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PolicyRuleId(pub u32);

/// GID: identifies a group of policy rules at a middlebox.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct GroupId(pub u32);

/// Remaining lifetime of a policy rule in seconds; zero ends it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lifetime(pub u32);

impl fmt::Display for PolicyRuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}
