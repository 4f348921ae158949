//! Whether the addresses that a peer lists are verified before data goes there (RFC 9260 section
//! 5.4; RFC 2960 did not ask for it).

/// What is done with addresses that a peer listed when the association was set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressVerification {
    /// Each is verified by a HEARTBEAT, which also measures its round trip.
    Heartbeat,
    /// Each is taken as it is, as before RFC 4960: a peer can then direct data at any host, so this is
    /// for simulations. Nothing is known of such a path until data or a HEARTBEAT of the regular
    /// interval was answered: its RTO is `RTO.Initial`.
    Trust,
}
