//! Counters of failed authentication.

/// Counters of failed authentication of an association (RFC 4895).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AuthenticationCounters {
    /// Packets with an invalid HMAC.
    pub forged_packets: u64,
    /// AUTH chunks with an unknown key or an unsupported algorithm.
    pub unknown_keys: u64,
    /// Chunks discarded because they were not authenticated.
    pub unauthenticated_chunks: u64,
}

portable_struct! { AuthenticationCounters { forged_packets, unknown_keys, unauthenticated_chunks } }
