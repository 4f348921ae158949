//! Identifiers of associations, and names of their states.

use core::fmt;

/// Identifier of an association of an endpoint. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssociationId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

portable_struct! { AssociationId { slot, generation } }

impl fmt::Display for AssociationId {
    /// Writes the identifier as a name for logs, such as `3.0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// Name of a state, for the user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum StateName {
    /// INIT sent.
    CookieWait,
    /// COOKIE ECHO sent.
    CookieEchoed,
    /// Data is exchanged.
    Established,
    /// The user requested a shutdown; data is outstanding.
    ShutdownPending,
    /// SHUTDOWN sent.
    ShutdownSent,
    /// SHUTDOWN received; data is outstanding.
    ShutdownReceived,
    /// SHUTDOWN ACK sent.
    ShutdownAckSent,
    /// Ended.
    Closed,
}

impl StateName {
    /// States of associations that have not ended.
    pub const ALIVE: [Self; 7] = [
        Self::CookieWait,
        Self::CookieEchoed,
        Self::Established,
        Self::ShutdownPending,
        Self::ShutdownSent,
        Self::ShutdownReceived,
        Self::ShutdownAckSent,
    ];

    /// Returns the name, as labels of metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CookieWait => "cookie-wait",
            Self::CookieEchoed => "cookie-echoed",
            Self::Established => "established",
            Self::ShutdownPending => "shutdown-pending",
            Self::ShutdownSent => "shutdown-sent",
            Self::ShutdownReceived => "shutdown-received",
            Self::ShutdownAckSent => "shutdown-ack-sent",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for StateName {
    /// Writes the name as RFC 9260, section 4, has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CookieWait => "COOKIE-WAIT",
            Self::CookieEchoed => "COOKIE-ECHOED",
            Self::Established => "ESTABLISHED",
            Self::ShutdownPending => "SHUTDOWN-PENDING",
            Self::ShutdownSent => "SHUTDOWN-SENT",
            Self::ShutdownReceived => "SHUTDOWN-RECEIVED",
            Self::ShutdownAckSent => "SHUTDOWN-ACK-SENT",
            Self::Closed => "CLOSED",
        })
    }
}
