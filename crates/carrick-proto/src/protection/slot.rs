//! What a layer keeps of one session, and the address that stands for it.

use alloc::collections::BTreeSet;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::session::{PacketSession, SessionState};
use crate::association::AssociationId;
use crate::route::{Ecn, Route};
use crate::time::{Time, earliest};

/// Names a session of a layer. A number may come again after 2^28 others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub(super) u32);

/// Numbers fit into 240.0.0.0/4, which no host has (RFC 1112 section 4), without its last address.
pub(super) const MAX_NUMBER: u32 = 0x0fff_fffe;

impl SessionId {
    /// The address that stands for the session in the endpoint: of the family of the real one, so that
    /// its header is counted right; in blocks that no packet on a network can come from: 240.0.0.0/4
    /// and `100::/64` (RFC 6666).
    pub(super) fn address(self, like: IpAddr) -> IpAddr {
        match like {
            IpAddr::V4(_) => Ipv4Addr::from_bits(0xf000_0000 | self.0).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(0x100 << 112 | u128::from(self.0)).into(),
        }
    }

    pub(super) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(a) => Self(a.to_bits() & 0x0fff_ffff),
            IpAddr::V6(a) => Self(a.to_bits() as u32),
        }
    }
}

/// One session.
#[derive(Debug)]
pub(super) struct Slot<S: PacketSession> {
    pub(super) session: S,
    /// The peer begins anew from the same port: it has lost the session, or somebody says so
    /// (RFC 6347 section 4.2.8). The old one goes on until the new one stands.
    pub(super) successor: Option<S>,
    /// The way to the peer.
    pub(super) route: Route,
    pub(super) associations: BTreeSet<AssociationId>,
    pub(super) established: bool,
    /// It ended, and goes when its last datagrams have left.
    pub(super) ended: bool,
    /// The handshake has to be over by then.
    pub(super) deadline: Option<Time>,
    /// The same for the successor.
    pub(super) successor_deadline: Option<Time>,
    /// Without an association until then, it is closed.
    pub(super) idle_deadline: Option<Time>,
    pub(super) scheduled: Option<Time>,
}

impl<S: PacketSession> Slot<S> {
    pub(super) fn new(session: S, route: Route, deadline: Time) -> Self {
        Self {
            session,
            successor: None,
            route: Route {
                ecn: Ecn::NotCapable,
                ..route
            },
            associations: BTreeSet::new(),
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

    /// The successor takes over if it stands; returns whether it did.
    pub(super) fn succeed(&mut self) -> bool {
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

    /// The handshake came to nothing, but the peer has begun another one; returns whether it has.
    pub(super) fn begin_anew(&mut self) -> bool {
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
    fn an_address_leads_back_to_its_session() {
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
