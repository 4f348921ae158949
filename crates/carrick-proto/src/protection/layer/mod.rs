//! Sessions between an endpoint and the network (RFC 8261): which datagram belongs to which, what the
//! endpoint sends in which, and how many of them there may be.

mod facts;
mod incoming;
mod outgoing;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use bytes::Bytes;

pub use facts::{SessionConnectError, SessionEvent, SessionLayerConfig, SessionStats};

use super::session::{PacketSession, SessionFactory, SessionState};
use super::slot::{MAX_NUMBER, SessionId, Slot};
use crate::association::AssociationId;
use crate::config::{AssociationConfig, EndpointConfig};
use crate::endpoint::Endpoint;
use crate::event::Event;
use crate::path::mtu_discovery::PathMtuDiscovery;
use crate::route::{Ecn, MatchingAddress, Route, SourceSelection, Transmit};
use crate::time::{Time, earliest};

/// A UDP header, which comes with every session.
const UDP_HEADER: usize = 8;

/// Unfinished handshakes that are looked at for one that may go.
const MAX_LOOKED_AT: usize = 256;

/// Where datagrams of a session come from. Without a local address until the first one came.
type Way = (IpAddr, u16, Option<IpAddr>);

/// Sessions beside one [`Endpoint`], which is lent to each call: its datagrams go through here in both
/// directions, everything else is done on the endpoint itself. The contract is the endpoint's: after an
/// input, drain [`Self::poll_transmit`] and [`Self::poll_event`], and read [`Self::poll_timeout`].
#[derive(Debug)]
pub struct SessionLayer<F: SessionFactory> {
    pub(super) factory: F,
    pub(super) config: SessionLayerConfig,
    locals: Vec<IpAddr>,
    selection: Box<dyn SourceSelection>,
    pub(super) slots: BTreeMap<SessionId, Slot<F::Session>>,
    ways: BTreeMap<Way, SessionId>,
    of: BTreeMap<AssociationId, SessionId>,
    /// Of peers, and not established; the oldest first.
    pub(super) half_open: BTreeSet<SessionId>,
    pub(super) timers: BTreeSet<(Time, SessionId)>,
    /// They may have datagrams to send.
    pub(super) ready: BTreeSet<SessionId>,
    last: u32,
    pub(super) events: VecDeque<SessionEvent<<F::Session as PacketSession>::Error>>,
    pub(super) stats: SessionStats,
    /// Packets on their way out, before they are protected.
    plain: Vec<u8>,
    /// Packets that a datagram carried.
    opened: Vec<Bytes>,
    /// Datagrams that did not fit to those before them.
    odd: VecDeque<(Transmit, Vec<u8>)>,
}

impl<F: SessionFactory> SessionLayer<F> {
    /// A layer for the endpoint that will be made of `endpoint`, whose addresses it takes over, and
    /// whose associations it prepares (see [`Self::prepare`]).
    pub fn new(factory: F, config: SessionLayerConfig, endpoint: &mut EndpointConfig) -> Self {
        let layer = Self {
            locals: core::mem::take(&mut endpoint.local_addresses),
            selection: core::mem::replace(
                &mut endpoint.source_selection,
                Box::new(MatchingAddress),
            ),
            factory,
            config,
            slots: BTreeMap::new(),
            ways: BTreeMap::new(),
            of: BTreeMap::new(),
            half_open: BTreeSet::new(),
            timers: BTreeSet::new(),
            ready: BTreeSet::new(),
            last: 0,
            events: VecDeque::new(),
            stats: SessionStats::default(),
            plain: Vec::new(),
            opened: Vec::new(),
            odd: VecDeque::new(),
        };
        layer.prepare(&mut endpoint.association);
        layer
    }

    /// Makes the parameters those of an association over a session (RFC 8261 section 6.1): one path
    /// without addresses, which fails with the association, and whose MTU is found without ICMP.
    /// Whether the checksum may be left out is what the sessions say.
    pub fn prepare(&self, association: &mut AssociationConfig) {
        association.lower_overhead = UDP_HEADER + self.factory.overhead();
        association.lower_layer = self.factory.lower_layer();
        association.max_paths = 1;
        // What stands for other sessions could be among them.
        association.ignore_peer_addresses = true;
        association.wildcard_addresses = false;
        association.wildcard_peers = false;
        association.monitor_pairs = false;
        association.extensions.dynamic_addresses = false;
        association.path_max_retrans = association.association_max_retrans;
        // There is no other primary, and what would be too few errors for one is no mistake here.
        association.primary_switchover_max_retrans = None;
        association
            .path_mtu_discovery
            .get_or_insert_with(PathMtuDiscovery::default);
    }

    /// Sets up an association with the endpoint at a UDP address, over the session with it, which is
    /// begun if there is none. No packet of SCTP leaves before that is established.
    ///
    /// # Errors
    /// Says what is wrong with the arguments, or which limit is reached.
    pub fn connect(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        (remote, port): (SocketAddr, u16),
        peer: F::Peer,
        mut association: AssociationConfig,
    ) -> Result<AssociationId, SessionConnectError> {
        self.prepare(&mut association);
        let known = self.ways.range((remote.ip(), remote.port(), None)..);
        // Those of one peer stand together; what is behind them is not looked at.
        let known = known
            .take_while(|(way, _)| (way.0, way.1) == (remote.ip(), remote.port()))
            .map(|(_, id)| *id)
            .find(|id| self.slots.get(id).is_some_and(|slot| !slot.ended));
        if let Some(id) = known {
            let slot = self.slots.get(&id);
            if !slot.is_some_and(|slot| self.factory.leads_to(&slot.session, &peer)) {
                return Err(SessionConnectError::OtherPeer);
            }
            return self.associate(now, endpoint, id, (remote, port), association);
        }
        let session = self.factory.connect(now, peer);
        let local = self.selection.select(&self.locals, remote.ip(), None);
        let route = Route {
            local,
            remote: remote.ip(),
            encapsulation: Some(remote.port()),
            ecn: Ecn::NotCapable,
        };
        let id = self
            .insert(now, session, route)
            .ok_or(SessionConnectError::TooManySessions)?;
        let begun = self.associate(now, endpoint, id, (remote, port), association);
        if begun.is_err() {
            self.remove(id);
        } else {
            self.settle(now, endpoint, id);
        }
        begun
    }

    fn associate(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        session: SessionId,
        (remote, port): (SocketAddr, u16),
        config: AssociationConfig,
    ) -> Result<AssociationId, SessionConnectError> {
        let address = session.address(remote.ip());
        let id = endpoint
            .connect(now, &[address], port, None, config)
            .map_err(SessionConnectError::Association)?;
        self.link(id, session);
        Ok(id)
    }

    fn link(&mut self, association: AssociationId, session: SessionId) {
        if let Some(slot) = self.slots.get_mut(&session) {
            slot.associations.insert(association);
            slot.idle_deadline = None;
            self.of.insert(association, session);
        }
    }

    fn insert(&mut self, now: Time, session: F::Session, route: Route) -> Option<SessionId> {
        if self.slots.len() >= self.config.max_sessions {
            return None;
        }
        // There are fewer of them than numbers.
        let id = loop {
            self.last = self.last % MAX_NUMBER + 1;
            if !self.slots.contains_key(&SessionId(self.last)) {
                break SessionId(self.last);
            }
        };
        let deadline = now + self.config.handshake_timeout;
        self.ways.insert(way(&route), id);
        self.slots.insert(id, Slot::new(session, route, deadline));
        self.ready.insert(id);
        Some(id)
    }

    pub(super) fn remove(&mut self, id: SessionId) {
        let Some(slot) = self.slots.remove(&id) else {
            return;
        };
        self.ways.remove(&way(&slot.route));
        self.half_open.remove(&id);
        self.ready.remove(&id);
        if let Some(at) = slot.scheduled {
            self.timers.remove(&(at, id));
        }
        for association in slot.associations {
            self.of.remove(&association);
        }
    }

    /// When [`Self::handle_timeout`] wants to be called next, the endpoint's timers included.
    pub fn poll_timeout(&self, endpoint: &Endpoint) -> Option<Time> {
        let own = self.timers.first().map(|(at, _)| *at);
        earliest(own, endpoint.poll_timeout())
    }

    /// Handles all timers that have expired at `now`, also those of the endpoint.
    pub fn handle_timeout(&mut self, now: Time, endpoint: &mut Endpoint) {
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            self.expire(now, endpoint, id);
            self.settle(now, endpoint, id);
        }
        endpoint.handle_timeout(now);
    }

    /// The next fact about an association. Take the endpoint's events here, so that the layer knows
    /// which session an association of a peer belongs to.
    pub fn poll_event(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
    ) -> Option<(AssociationId, Event)> {
        let (id, event) = endpoint.poll_event()?;
        match &event {
            Event::Established { peer_addresses, .. } => {
                if let Some(address) = peer_addresses.first() {
                    self.link(id, SessionId::of(*address));
                }
            }
            Event::Closed(_) => self.unlink(now, id),
            _ => {}
        }
        Some((id, event))
    }

    fn unlink(&mut self, now: Time, association: AssociationId) {
        let Some(id) = self.of.remove(&association) else {
            return;
        };
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        slot.associations.remove(&association);
        if slot.associations.is_empty() && slot.is_open() {
            slot.idle_deadline = Some(now + self.config.idle_timeout);
        }
        self.schedule(id);
    }

    /// The next fact about a session.
    pub fn poll_session_event(
        &mut self,
    ) -> Option<SessionEvent<<F::Session as PacketSession>::Error>> {
        self.events.pop_front()
    }

    /// Closes all sessions: each peer is told, and associations that are left end.
    pub fn close(&mut self, now: Time, endpoint: &mut Endpoint) {
        let ids: Vec<SessionId> = self.slots.keys().copied().collect();
        for id in ids {
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.session.close(now);
                self.ready.insert(id);
            }
            self.settle(now, endpoint, id);
        }
    }

    /// What it counted.
    pub fn stats(&self) -> SessionStats {
        self.stats
    }

    /// The sessions that exist now.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.slots.keys().copied()
    }

    /// The session of an association.
    pub fn session_of(&self, association: AssociationId) -> Option<SessionId> {
        self.of.get(&association).copied()
    }

    /// The UDP address of a session's peer.
    pub fn remote(&self, id: SessionId) -> Option<SocketAddr> {
        let route = self.slots.get(&id)?.route;
        Some(SocketAddr::new(route.remote, route.encapsulation?))
    }

    /// The UDP address behind an address that the endpoint tells, as in [`crate::PathStats::remote`].
    pub fn remote_behind(&self, address: IpAddr) -> Option<SocketAddr> {
        self.remote(SessionId::of(address))
    }

    /// The associations whose datagrams go to this host.
    pub fn associations_to(&self, remote: IpAddr) -> impl Iterator<Item = AssociationId> + '_ {
        let slots = self.slots.values();
        let there = slots.filter(move |slot| slot.route.remote == remote);
        there.flat_map(|slot| slot.associations.iter().copied())
    }

    /// The state of a session.
    pub fn state(
        &self,
        id: SessionId,
    ) -> Option<SessionState<<F::Session as PacketSession>::Error>> {
        self.slots.get(&id).map(|slot| slot.session.state())
    }

    /// Who the peer of a session has proved to be.
    pub fn identity(&self, id: SessionId) -> Option<&[u8]> {
        self.slots.get(&id)?.session.identity()
    }

    /// What makes the sessions.
    pub fn factory(&self) -> &F {
        &self.factory
    }
}

fn way(route: &Route) -> Way {
    (route.remote, route.encapsulation.unwrap_or(0), route.local)
}

fn single(route: Route, len: usize) -> Transmit {
    Transmit {
        route,
        len,
        segment_size: None,
        may_fragment: false,
        probe: false,
    }
}
