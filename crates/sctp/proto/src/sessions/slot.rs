//! Table entry of a session, and its artificial address.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::session::{PacketSession, SessionState};
use crate::ids::AssociationId;
use crate::route::{Ecn, Route};
use crate::time::{Time, earliest};

/// Identifier of a session. An identifier may be reused after 2^28 others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub(super) u32);

/// Largest session number: addresses are in 240.0.0.0/4, which is unused (RFC 1112, section 4), without its
/// last address.
pub(super) const MAX_NUMBER: u32 = 0x0fff_fffe;

impl SessionId {
    /// Returns the artificial address of the session. It has the family of the real address, for the length
    /// of the IP header, and is in a block that no source address is in: 240.0.0.0/4 or `100::/64`
    /// (RFC 6666).
    pub(super) fn address(self, like: IpAddr) -> IpAddr {
        match like {
            IpAddr::V4(_) => Ipv4Addr::from_bits(0xf000_0000 | self.0).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(0x100 << 112 | u128::from(self.0)).into(),
        }
    }

    /// Returns the session with this artificial address.
    pub(super) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(a) => Self(a.to_bits() & 0x0fff_ffff),
            IpAddr::V6(a) => Self(a.to_bits() as u32),
        }
    }
}

/// Table entry of a session.
#[derive(Debug)]
pub(super) struct SessionSlot<S: PacketSession> {
    pub(super) session: S,
    /// New handshake from the same port, with a validated address: the peer has lost the session (RFC 6347,
    /// section 4.2.8). The old session is used until the new one is established.
    pub(super) successor: Option<S>,
    /// Route to the peer.
    pub(super) route: Route,
    pub(super) associations: BTreeSet<AssociationId>,
    /// First bytes of the last datagram of a handshake that this side began, until the peer replies.
    pub(super) unanswered: Option<Vec<u8>>,
    pub(super) established: bool,
    /// The session has ended; the entry is removed once its last datagrams have been sent.
    pub(super) ended: bool,
    /// Deadline of the handshake.
    pub(super) deadline: Option<Time>,
    /// Deadline of the successor's handshake.
    pub(super) successor_deadline: Option<Time>,
    /// Time at which a session without associations is closed.
    pub(super) idle_deadline: Option<Time>,
    pub(super) scheduled: Option<Time>,
}

impl<S: PacketSession> SessionSlot<S> {
    pub(super) fn new(session: S, route: Route, deadline: Time) -> Self {
        Self {
            session,
            successor: None,
            route: Route {
                ecn: Ecn::NotCapable,
                ..route
            },
            associations: BTreeSet::new(),
            unanswered: None,
            established: false,
            ended: false,
            deadline: Some(deadline),
            successor_deadline: None,
            idle_deadline: None,
            scheduled: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.established && !self.ended
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let of_sessions = earliest(
            self.session.poll_timeout(),
            self.successor
                .as_ref()
                .and_then(PacketSession::poll_timeout),
        );
        let deadlines = earliest(self.deadline, self.successor_deadline);
        earliest(of_sessions, earliest(deadlines, self.idle_deadline))
    }

    /// Replaces the session by an established successor; returns whether there was one.
    pub(super) fn promote_successor(&mut self) -> bool {
        match self.successor.as_ref().map(PacketSession::state) {
            Some(SessionState::Established) => {}
            Some(SessionState::Closed | SessionState::Failed(_)) => {
                self.drop_successor();
                return false;
            }
            Some(SessionState::Handshake) | None => return false,
        }
        if let Some(successor) = self.successor.take() {
            self.session = successor;
        }
        self.successor_deadline = None;
        true
    }

    /// Replaces a failed handshake by the peer's next one; returns whether there was one.
    pub(super) fn retry_handshake(&mut self) -> bool {
        if self.established {
            return false;
        }
        let Some(successor) = self.successor.take() else {
            return false;
        };
        self.session = successor;
        self.deadline = self.successor_deadline.take();
        true
    }

    pub(super) fn drop_successor(&mut self) {
        (self.successor, self.successor_deadline) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_is_found_by_its_address() {
        for number in [1, 2, 0x1234_5678 & 0x0fff_ffff, MAX_NUMBER] {
            for like in ["192.0.2.1", "2001:db8::1"] {
                let like: IpAddr = like.parse().unwrap();
                let address = SessionId(number).address(like);
                assert_eq!(SessionId::of(address), SessionId(number));
                assert_eq!(address.is_ipv4(), like.is_ipv4());
                assert!(!address.is_multicast() && !address.is_unspecified());
            }
        }
    }
}
