//! Session layer between an endpoint and the network (RFC 8261): whole SCTP packets are records of a
//! protocol below, such as DTLS.
//!
//! A [`SessionLayer`] has a [`PacketSession`] for each peer, created by a [`SessionFactory`]: a handshake,
//! then SCTP packets as its records. The endpoint sees each session as an artificial address.
//! Associations therefore have one path, no IP addresses and no ICMP messages.
//!
//! [`protection`](crate::protection) protects chunks behind the common header instead.

mod hello;
mod incoming;
mod interface;
mod outgoing;
mod progress;
mod session;
mod slot;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use bytes::Bytes;

pub use interface::{SessionConnectError, SessionEvent, SessionLayerConfig, SessionStats};
pub use session::{PacketSession, SessionFactory, SessionState};
pub use slot::SessionId;

use crate::config::{AssociationConfig, PathMtuDiscovery};
use crate::endpoint::{Endpoint, EndpointConfig};
use crate::event::Event;
use crate::ids::AssociationId;
use crate::route::{Ecn, MatchingAddress, Route, SourceSelection};
use crate::time::{Time, earliest};
use crate::transmit::Transmit;
use hello::{BySource, Candidates};
use slot::{MAX_NUMBER, SessionSlot};

/// Length of a UDP header in bytes.
const UDP_HEADER: usize = 8;

/// Peer address, UDP port and local address of a session; the local address is unknown before its first
/// datagram.
type RouteKey = (IpAddr, u16, Option<IpAddr>);

/// Sessions of an [`Endpoint`], which is passed to each call. Datagrams pass through the layer in both
/// directions; all other operations are those of the endpoint. After an input, drain
/// [`Self::poll_transmit`] and [`Self::poll_event`], and read [`Self::poll_timeout`].
#[derive(Debug)]
pub struct SessionLayer<F: SessionFactory> {
    factory: F,
    config: SessionLayerConfig,
    locals: Vec<IpAddr>,
    selection: Box<dyn SourceSelection>,
    slots: BTreeMap<SessionId, SessionSlot<F::Session>>,
    by_route: BTreeMap<RouteKey, SessionId>,
    by_association: BTreeMap<AssociationId, SessionId>,
    /// Received datagrams that open or continue handshakes, with their routes.
    hellos: VecDeque<(Route, Vec<u8>)>,
    /// Handshakes of peers with unvalidated addresses.
    candidates: Candidates<F::Session>,
    /// Unfinished handshakes of peers with validated addresses.
    half_open: BySource<SessionId>,
    timers: BTreeSet<(Time, SessionId)>,
    /// Sessions that may have datagrams to send.
    ready: BTreeSet<SessionId>,
    last: u32,
    events: VecDeque<SessionEvent<<F::Session as PacketSession>::Error>>,
    stats: SessionStats,
    /// Buffer for packets of the endpoint before they are protected.
    plain: Vec<u8>,
    /// Buffer for the packets in a datagram.
    opened: Vec<Bytes>,
    /// Datagrams of another size than those before them, to be sent alone.
    odd_sized: VecDeque<(Transmit, Vec<u8>)>,
}

impl<F: SessionFactory> SessionLayer<F> {
    /// Creates a layer for the endpoint with the parameters `endpoint`. It takes over the local addresses and
    /// the source address selection, and prepares the parameters of associations ([`Self::prepare`]).
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
            by_route: BTreeMap::new(),
            by_association: BTreeMap::new(),
            hellos: VecDeque::new(),
            candidates: Candidates::new(),
            half_open: BySource::new(),
            timers: BTreeSet::new(),
            ready: BTreeSet::new(),
            last: 0,
            events: VecDeque::new(),
            stats: SessionStats::default(),
            plain: Vec::new(),
            opened: Vec::new(),
            odd_sized: VecDeque::new(),
        };
        layer.prepare(&mut endpoint.association);
        layer
    }

    /// Adapts the parameters of an association to a session (RFC 8261, section 6.1): one path without
    /// addresses, which fails with the association, and whose MTU is found without ICMP. The sessions
    /// determine whether the checksum may be zero.
    pub fn prepare(&self, association: &mut AssociationConfig) {
        association.mtu.lower_overhead = UDP_HEADER + self.factory.overhead();
        association.security.lower_layer = self.factory.lower_layer();
        association.paths.max_paths = 1;
        // Artificial addresses of other sessions could be among them.
        association.paths.ignore_peer_addresses = true;
        association.paths.wildcard_addresses = false;
        association.paths.wildcard_peers = false;
        association.paths.monitor_pairs = false;
        association.extensions.dynamic_addresses = false;
        association.paths.path_max_retrans = association.paths.association_max_retrans;
        // There is no other path to switch to.
        association.paths.primary_switchover_max_retrans = None;
        association
            .mtu
            .path_mtu_discovery
            .get_or_insert_with(PathMtuDiscovery::default);
    }

    /// Initiates an association with the endpoint at a UDP address over the session with it, which is
    /// started if there is none. No SCTP packet is sent before the session is established.
    ///
    /// # Errors
    /// See [`SessionConnectError`].
    pub fn connect(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        (remote, port): (SocketAddr, u16),
        peer: F::Peer,
        mut association: AssociationConfig,
    ) -> Result<AssociationId, SessionConnectError> {
        self.prepare(&mut association);
        let known = self.by_route.range((remote.ip(), remote.port(), None)..);
        // Sessions of one peer are adjacent.
        let known = known
            .take_while(|(key, _)| (key.0, key.1) == (remote.ip(), remote.port()))
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
        let local = self.selection.select(&self.locals, remote.ip());
        let route = Route {
            local,
            remote: remote.ip(),
            encapsulation: Some(remote.port()),
            ecn: Ecn::NotCapable,
        };
        let id = self
            .insert(now, session, route)
            .ok_or(SessionConnectError::TooManySessions)?;
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.unanswered = Some(Vec::new());
        }
        let begun = self.associate(now, endpoint, id, (remote, port), association);
        if begun.is_err() {
            self.remove(id);
        } else {
            self.update_session(now, endpoint, id);
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
            self.by_association.insert(association, session);
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
        self.by_route.insert(route_key(&route), id);
        self.slots
            .insert(id, SessionSlot::new(session, route, deadline));
        self.ready.insert(id);
        Some(id)
    }

    pub(super) fn remove(&mut self, id: SessionId) {
        let Some(slot) = self.slots.remove(&id) else {
            return;
        };
        self.by_route.remove(&route_key(&slot.route));
        self.half_open.remove(slot.route.remote, id);
        self.ready.remove(&id);
        if let Some(at) = slot.scheduled {
            self.timers.remove(&(at, id));
        }
        for association in slot.associations {
            self.by_association.remove(&association);
        }
    }

    /// Returns the time of the next call of [`Self::handle_timeout`], the endpoint's timers included.
    pub fn poll_timeout(&self, endpoint: &Endpoint) -> Option<Time> {
        let own = self.timers.first().map(|(at, _)| *at);
        let own = earliest(own, self.candidates.deadline());
        earliest(own, endpoint.poll_timeout())
    }

    /// Processes all timers that have expired at `now`, those of the endpoint included.
    pub fn handle_timeout(&mut self, now: Time, endpoint: &mut Endpoint) {
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            self.expire(now, endpoint, id);
            self.update_session(now, endpoint, id);
        }
        while self.candidates.expire(now) {
            self.stats.timed_out += 1;
        }
        endpoint.handle_timeout(now);
    }

    /// Returns the next event of an association. Use it instead of [`Endpoint::poll_event`], so that the layer
    /// links associations with their sessions.
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
        let Some(id) = self.by_association.remove(&association) else {
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

    /// Returns the next event of a session.
    pub fn poll_session_event(
        &mut self,
    ) -> Option<SessionEvent<<F::Session as PacketSession>::Error>> {
        self.events.pop_front()
    }

    /// Closes all sessions and notifies their peers; remaining associations end.
    pub fn close(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.hellos.clear();
        self.candidates = Candidates::new();
        let ids: Vec<SessionId> = self.slots.keys().copied().collect();
        for id in ids {
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.session.close(now);
                self.ready.insert(id);
            }
            self.update_session(now, endpoint, id);
        }
    }

    /// Returns the counters of the layer.
    pub fn stats(&self) -> SessionStats {
        self.stats
    }

    /// Returns the identifiers of all sessions, without handshakes of peers with unvalidated addresses.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.slots.keys().copied()
    }

    /// Returns the session of an association.
    pub fn session_of(&self, association: AssociationId) -> Option<SessionId> {
        self.by_association.get(&association).copied()
    }

    /// Returns the UDP address of a session's peer.
    pub fn remote(&self, id: SessionId) -> Option<SocketAddr> {
        let route = self.slots.get(&id)?.route;
        Some(SocketAddr::new(route.remote, route.encapsulation?))
    }

    /// Returns the UDP address for an artificial address of the endpoint, as in [`PathStats::remote`](crate::PathStats::remote).
    pub fn remote_behind(&self, address: IpAddr) -> Option<SocketAddr> {
        self.remote(SessionId::of(address))
    }

    /// Returns the associations whose sessions have this remote address.
    pub fn associations_to(&self, remote: IpAddr) -> impl Iterator<Item = AssociationId> + '_ {
        let slots = self.slots.values();
        let there = slots.filter(move |slot| slot.route.remote == remote);
        there.flat_map(|slot| slot.associations.iter().copied())
    }

    /// Returns the state of a session.
    pub fn state(
        &self,
        id: SessionId,
    ) -> Option<SessionState<<F::Session as PacketSession>::Error>> {
        self.slots.get(&id).map(|slot| slot.session.state())
    }

    /// Returns the authenticated identity of a session's peer.
    pub fn identity(&self, id: SessionId) -> Option<&[u8]> {
        self.slots.get(&id)?.session.identity()
    }

    /// Returns the factory of the sessions.
    pub fn factory(&self) -> &F {
        &self.factory
    }
}

fn route_key(route: &Route) -> RouteKey {
    (route.remote, route.encapsulation.unwrap_or(0), route.local)
}

fn single(route: Route, len: usize) -> Transmit {
    Transmit {
        route,
        len,
        dscp: 0,
        segment_size: None,
        may_fragment: false,
        probe: false,
    }
}
