//! Path verification: confirmation of the addresses that a peer lists, before data is sent to them
//! (RFC 9260, section 5.4; not required by RFC 2960).

/// Treatment of the addresses that a peer listed during association setup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressVerification {
    /// Each address is confirmed by a HEARTBEAT, which also measures the round-trip time.
    Heartbeat,
    /// Each address counts as confirmed, as before RFC 4960. A peer can then direct data at any host;
    /// therefore this is for simulations only. The RTO of such a path is RTO.Initial until data or a
    /// periodic HEARTBEAT is acknowledged.
    Trust,
}

portable_enum! { AddressVerification { 0: Heartbeat, 1: Trust } }
