//! Boundary to SCTP, for all layers.

use std::net::IpAddr;

/// Notification of SCTP about the association with a peer (RFC 9260, section 11.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SctpNotification {
    /// COMMUNICATION UP: the association is established.
    Up {
        /// Number of outbound streams. A link of M2PA and the DATA of M3UA need two.
        outbound_streams: u16,
    },
    /// COMMUNICATION LOST, COMMUNICATION ERROR or SHUTDOWN COMPLETE: the association was lost, could not be
    /// established, or its shutdown is complete.
    Down,
    /// RESTART: the peer restarted the association.
    Restarted {
        /// Number of outbound streams after the restart.
        outbound_streams: u16,
    },
    /// SEND FAILURE: a message could not be sent.
    SendFailure,
    /// NETWORK STATUS CHANGE: the path to an address of the peer failed or recovered. The association remains.
    PathStatus {
        /// Address of the peer.
        address: IpAddr,
        /// The path is active.
        active: bool,
    },
}
