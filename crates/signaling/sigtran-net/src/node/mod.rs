//! Node of a network, of M3UA or another layer: links to gateways (ASP) and ASPs at its own gateway (SGP), with their
//! associations; peers of IP server processes (IPSP) in M3UA and SUA; in M3UA also links over M2PA. One task owns it.
//!
//! An input is handled in these steps:
//!
//! 1. Messages are decoded and given to the state machine of their association.
//! 2. Primitives of the state machines become transfers and events; some cause requests.
//! 3. Messages of the state machines are encoded and queued, a batch for each association.

mod activation;
mod admission;
mod asp;
mod associations;
mod gateway;
mod identification;
mod ipsp;
mod m2pa;

pub(crate) use associations::accept;
pub use gateway::AspSettings;
pub use ipsp::{IpspConfig, IpspPeer};
pub(crate) use ipsp::{IpspKey, IpspSide};
pub(crate) use m2pa::{M2paConfig, M2paKey, M2paLinkConfig};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use carrick::{Endpoint, MessagePart, Ppid};
use carrick_proto::Time;
use carrick_sigtran::aspm::asp::AspEvent;
use carrick_sigtran::aspm::sgp::{AspKey, GatewayConfig, GatewayEvent};
use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::{Data, M3ua, RoutingContext};
use tokio::sync::{Notify, mpsc};

use self::asp::AspLink;
use self::gateway::GatewaySide;
use self::identification::Unidentified;
use self::m2pa::M2paSide;
use crate::association::{AssociationId, Input, OpenAssociation};
use crate::clock::Clock;
use crate::connection::{LinkKey, PeerConnection};
use crate::event::{Event, EventKind};
use crate::layer::SocketLayer;

/// Batches of inputs that wait for the task.
const INPUTS: usize = 16;

/// Maximum number of events that are not taken yet; further ones are counted.
const MAX_EVENTS: usize = 4096;

/// Peer at the other end of an association.
#[derive(Clone)]
enum Role {
    /// Gateway; this end is an ASP.
    Link(LinkKey),
    /// Peer of an IP server process.
    Ipsp(IpspKey, LinkKey),
    /// Other end of a link over M2PA.
    M2pa(M2paKey, LinkKey),
    /// ASP; this end is an SGP.
    Asp(AspKey),
    /// Peer that has to identify itself as an ASP.
    Unidentified(Unidentified),
    /// The association is being shut down.
    Closing,
}

struct NodeAssociation {
    open: OpenAssociation,
    role: Role,
    /// Addresses of the peer whose path has failed.
    failed_paths: BTreeSet<IpAddr>,
}

/// Path of an association with a known peer.
pub(crate) struct PeerPath {
    pub(crate) peer: Arc<str>,
    /// The peer is an ASP of this gateway.
    pub(crate) is_asp: bool,
    pub(crate) address: IpAddr,
    pub(crate) is_active: bool,
}

/// Origin of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Origin {
    Link(LinkKey),
    /// A link set over M2PA that failed before the message was sent.
    Returned(LinkKey),
    Asp(AspKey, RoutingContext),
}

/// MTP-TRANSFER indication.
pub struct NodeTransfer {
    pub(crate) origin: Origin,
    pub(crate) data: Data,
}

/// State of the connection with a configured peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeerState {
    NoAssociation,
    NotActive,
    Active,
}

/// Messages that were discarded at the associations, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct NodeCounters {
    /// Other payload protocol identifier, or part of a message.
    pub(crate) other_protocol: u64,
    /// Messages that could not be decoded.
    pub(crate) malformed: u64,
    /// DATA beyond the limits of a send queue.
    pub(crate) congested: u64,
    /// Messages that could not be encoded.
    pub(crate) not_encoded: u64,
    /// DATA that an application server had buffered when T(r) expired.
    pub(crate) recovery_expired: u64,
    /// Messages of MTP3 that no link could send after a failure.
    pub(crate) not_diverted: u64,
    /// Events that were not taken.
    pub(crate) events_lost: u64,
    /// Failures of paths.
    pub(crate) path_failures: u64,
}

/// State machines of a layer with their associations.
pub struct Node<L: SocketLayer = M3ua> {
    clock: Clock,
    endpoint: Endpoint,
    inputs: mpsc::Sender<Input>,
    room: Arc<Notify>,
    next_association: u64,
    next_link: u32,
    associations: BTreeMap<AssociationId, NodeAssociation>,
    pub(crate) links: BTreeMap<LinkKey, AspLink<L>>,
    pub(crate) ipsps: BTreeMap<IpspKey, IpspSide<L>>,
    pub(crate) m2pas: BTreeMap<M2paKey, M2paSide>,
    pub(crate) gateway: GatewaySide<L>,
    /// State of the user, such as connections of SUA.
    pub(crate) user: L::NodeUser,
    pub(crate) transfers: Vec<L::Transfer>,
    pub(crate) events: VecDeque<Event<L>>,
    pub(crate) counters: NodeCounters,
    stopping: bool,
}

impl<L: SocketLayer> Node<L> {
    /// Node without links and ASPs, with the queue of its inputs and the notification that a send queue has room. Links
    /// are associations of this endpoint.
    pub(crate) fn new(
        endpoint: Endpoint,
        config: GatewayConfig<L>,
    ) -> (Self, mpsc::Receiver<Input>, Arc<Notify>) {
        let (inputs, received) = mpsc::channel(INPUTS);
        let room = Arc::new(Notify::new());
        let node = Self {
            clock: Clock::start(),
            endpoint,
            inputs,
            room: Arc::clone(&room),
            next_association: 0,
            next_link: 0,
            associations: BTreeMap::new(),
            links: BTreeMap::new(),
            ipsps: BTreeMap::new(),
            m2pas: BTreeMap::new(),
            gateway: GatewaySide::new(config),
            user: L::NodeUser::default(),
            transfers: Vec::new(),
            events: VecDeque::new(),
            counters: NodeCounters::default(),
            stopping: false,
        };
        (node, received, room)
    }

    /// Accepts associations of ASPs on this endpoint, until the node is dropped.
    pub(crate) fn accept_on(&self, endpoint: Endpoint) {
        tokio::spawn(accept(endpoint, None, self.inputs.clone()));
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Ends all links and shuts all associations down; [`Self::is_ended`] when it is done.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        let links: Vec<_> = self.links.keys().copied().collect();
        for key in links {
            self.remove_link(key);
        }
        let ipsps: Vec<_> = self.ipsps.keys().copied().collect();
        for key in ipsps {
            self.remove_ipsp(key);
        }
        let m2pas: Vec<_> = self.m2pas.keys().copied().collect();
        for key in m2pas {
            self.remove_m2pa(key);
        }
        let asps: Vec<_> = self.gateway.asps.keys().copied().collect();
        for key in asps {
            self.remove_asp(key);
        }
        for association in self.associations.values_mut() {
            if matches!(association.role, Role::Unidentified(..)) {
                association.role = Role::Closing;
                association.open.close();
            }
        }
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.associations.is_empty()
    }

    /// Returns whether all send queues are less than half full.
    pub(crate) fn has_room(&self) -> bool {
        let mut associations = self.associations.values();
        associations.all(|association| association.open.has_room())
    }

    /// Returns the eighths of an association's send queue that are full, 0 without an association.
    pub(crate) fn fill(&self, id: Option<AssociationId>) -> usize {
        let association = id.and_then(|id| self.associations.get(&id));
        association.map_or(0, |association| association.open.fill())
    }

    /// Returns the state of the connection with a configured peer; a gateway's in an application server.
    pub(crate) fn peer_state(&self, key: LinkKey, context: Option<L::AsId>) -> Option<PeerState> {
        let connection = self.connection(key)?;
        let mut m2pas = self.m2pas.values();
        let is_active = self
            .links
            .get(&key)
            .is_some_and(|link| link.is_active(context))
            || self.ipsps.values().any(|side| side.is_active(key))
            || m2pas.any(|side| {
                let link = side.links.get(&key);
                link.is_some_and(|link| side.set.is_link_available(link.index))
            });
        Some(match connection.association() {
            None => PeerState::NoAssociation,
            Some(_) if is_active => PeerState::Active,
            Some(_) => PeerState::NotActive,
        })
    }

    /// Returns the name of a configured peer.
    pub(crate) fn name(&self, key: LinkKey) -> Option<Arc<str>> {
        Some(Arc::clone(&self.connection(key)?.name))
    }

    /// Returns the connection with a configured peer.
    fn connection(&self, key: LinkKey) -> Option<&PeerConnection> {
        let link = self.links.get(&key).map(|link| &link.connection);
        let mut peers = self.ipsps.values().filter_map(|side| side.peers.get(&key));
        let mut links = self.m2pas.values().filter_map(|side| side.links.get(&key));
        link.or_else(|| peers.next().map(|peer| &peer.connection))
            .or_else(|| links.next().map(|link| &link.connection))
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let links = self.links.values().filter_map(AspLink::poll_timeout);
        let ipsps = self.ipsps.values().filter_map(IpspSide::poll_timeout);
        let m2pas = self.m2pas.values().filter_map(M2paSide::poll_timeout);
        let unidentified = self.associations.values().filter_map(|a| match &a.role {
            Role::Unidentified(peer) => peer.deadline(),
            _ => None,
        });
        let gateway = self.gateway.sgp.poll_timeout();
        let user = L::node_timeout(&self.user);
        let links = links.chain(ipsps).chain(m2pas);
        let links = links.chain(unidentified);
        links.chain(gateway).chain(user).min()
    }

    pub(crate) fn handle_timeout(&mut self) {
        let now = self.clock.now();
        for (key, link) in &mut self.links {
            if link.poll_timeout().is_some_and(|timeout| timeout <= now) && link.handle_timeout(now)
            {
                link.connection.connect(*key, &self.endpoint, &self.inputs);
            }
        }
        for side in self.ipsps.values_mut() {
            if side.poll_timeout().is_none_or(|timeout| timeout > now) {
                continue;
            }
            for key in side.handle_timeout(now) {
                if let Some(peer) = side.peers.get_mut(&key) {
                    peer.connection.connect(key, &self.endpoint, &self.inputs);
                }
            }
        }
        let mut due = Vec::new();
        for (m2pa, side) in &mut self.m2pas {
            if side.poll_timeout().is_some_and(|timeout| timeout <= now) {
                let links = side.handle_timeout(now).into_iter();
                due.extend(links.map(|link| (*m2pa, link)));
            }
        }
        for (m2pa, link) in due {
            self.open_m2pa_link(now, m2pa, link);
        }
        self.gateway.sgp.handle_timeout(now);
        L::expire_node(&mut self.user, now);
        let due = self
            .associations
            .iter()
            .filter_map(|(id, a)| match &a.role {
                Role::Unidentified(peer) if peer.deadline().is_some_and(|at| at <= now) => {
                    Some((*id, peer.reason()))
                }
                _ => None,
            });
        for (id, reason) in due.collect::<Vec<_>>() {
            self.dismiss(id, reason);
        }
        self.drain();
    }

    pub(crate) fn handle(&mut self, input: Input) {
        let now = self.clock.now();
        match input {
            Input::Connected(key, connected) => self.on_connected(now, key, connected),
            Input::Accepted(None, incoming) => self.on_accepted(now, *incoming),
            Input::Accepted(Some(link), incoming) => {
                self.on_accepted_link(now, link, *incoming);
            }
            Input::Received(id, messages) => {
                let association = self.associations.get(&id);
                let ppid = association.map(|association| Ppid(association.open.ppid()));
                for message in messages {
                    if message.part != MessagePart::Whole || Some(message.ppid) != ppid {
                        self.counters.other_protocol += 1;
                        continue;
                    }
                    self.on_message(now, id, message.stream.0, &message.payload.into_bytes());
                }
            }
            Input::Restarted(id) => self.on_restarted(now, id),
            Input::PathStatus(id, address, active) => {
                self.on_path_status(now, id, address, active);
            }
            Input::Ended(id, reason) => self.on_ended(now, id, reason),
        }
        self.drain();
    }

    /// Returns the role of an association with a configured peer, `None` if the peer is gone or being ended.
    fn role_of(&self, key: LinkKey) -> Option<Role> {
        if let Some(link) = self.links.get(&key) {
            return (!link.is_stopping()).then_some(Role::Link(key));
        }
        let mut ipsps = self.ipsps.iter();
        if let Some((ipsp, side)) = ipsps.find(|(_, side)| side.peers.contains_key(&key)) {
            return (!side.is_stopping(key)).then_some(Role::Ipsp(*ipsp, key));
        }
        let mut m2pas = self.m2pas.iter();
        let (m2pa, side) = m2pas.find(|(_, side)| side.links.contains_key(&key))?;
        (!side.is_stopping()).then_some(Role::M2pa(*m2pa, key))
    }

    /// Returns the connection with a configured peer.
    fn connection_mut(&mut self, key: LinkKey) -> Option<&mut PeerConnection> {
        if let Some(link) = self.links.get_mut(&key) {
            return Some(&mut link.connection);
        }
        let mut ipsps = self.ipsps.values_mut();
        if let Some(peer) = ipsps.find_map(|side| side.peers.get_mut(&key)) {
            return Some(&mut peer.connection);
        }
        let mut m2pas = self.m2pas.values_mut();
        let link = m2pas.find_map(|side| side.links.get_mut(&key))?;
        Some(&mut link.connection)
    }

    /// Moves the primitives and messages of the state machines on. Messages are staged for [`Self::flush`].
    pub(crate) fn drain(&mut self) {
        let now = self.clock.now();
        let keys: Vec<_> = self.links.keys().copied().collect();
        for key in keys {
            self.drain_link(now, key);
        }
        while let Some(indication) = self.gateway.sgp.poll_indication() {
            self.on_sgp_indication(indication);
        }
        self.stage_gateway();
        let keys: Vec<_> = self.ipsps.keys().copied().collect();
        for key in keys {
            self.drain_ipsp(now, key);
        }
        L::drain_node(self, now);
    }

    /// Queues what the state machines and the transfers have staged.
    pub(crate) fn flush(&mut self) {
        self.drain();
        for association in self.associations.values_mut() {
            association.open.flush();
        }
    }

    pub(crate) fn notify(&mut self, peer: Arc<str>, kind: EventKind<L>) {
        // Association events have their own kinds.
        let is_sctp_status = match &kind {
            EventKind::Asp(indication) => {
                matches!(L::asp_event(indication), Some(AspEvent::SctpStatus(_)))
            }
            EventKind::Sgp(indication) => {
                matches!(
                    L::gateway_event(indication),
                    Some(GatewayEvent::SctpStatus(..))
                )
            }
            _ => false,
        };
        if is_sctp_status {
            return;
        }
        if self.events.len() >= MAX_EVENTS {
            self.counters.events_lost += 1;
            return;
        }
        self.events.push_back(Event { peer, kind });
    }

    /// Delivers an indication of a gateway to the user.
    pub(crate) fn deliver_from_gateway(&mut self, key: LinkKey, indication: L::AspIndication)
    where
        L: SocketLayer<Transfer = Event<L>>,
    {
        let peer = self.name(key).unwrap_or_else(|| "".into());
        let kind = EventKind::Asp(indication);
        self.transfers.push(Event { peer, kind });
    }

    /// Delivers an indication of an ASP to the user of the gateway.
    pub(crate) fn deliver_from_asp(&mut self, indication: L::SgpIndication)
    where
        L: SocketLayer<Transfer = Event<L>>,
    {
        let peer = self.gateway.name(&indication);
        let kind = EventKind::Sgp(indication);
        self.transfers.push(Event { peer, kind });
    }

    /// Adds an event about a destination.
    pub(crate) fn notify_destination(&mut self, destination: String, available: Availability) {
        self.notify("".into(), EventKind::Destination(destination, available));
    }
}
