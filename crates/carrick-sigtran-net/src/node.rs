//! Node of the signalling network: links to gateways (ASP), ASPs at its own gateway (SGP) and peers of IP server
//! processes (IPSP) and links over M2PA, with their associations. One task owns it.
//!
//! An input is handled in these steps:
//!
//! 1. Messages are decoded and given to the state machine of their association.
//! 2. Primitives of the state machines become transfers and events; some cause requests.
//! 3. Messages of the state machines are encoded and queued, a batch for each association.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carrick::{Association, Endpoint, Incoming, MessagePart, Ppid};
use carrick_proto::Time;
use carrick_sigtran::m2pa;
use carrick_sigtran::m2pa::link::LinkConfigError;
use carrick_sigtran::m3ua::asp::{AspConfig, AspConfigError, AspIndication, AspRequestError};
use carrick_sigtran::m3ua::ipsp::{IpspConfigError, IpspIndication};
use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::sgp::{AspKey, SgpConfig, SgpIndication, TransferError};
use carrick_sigtran::m3ua::{
    AffectedPointCode, Data, DecodeError, ErrorCode, ErrorMessage, Message, PAYLOAD_PROTOCOL_ID,
    ProtocolData, RoutingContext, SctpNotification, Transmit,
};
use tokio::sync::{Notify, mpsc};

use crate::asp_link::AspLink;
use crate::association::{AssociationId, Input, OpenAssociation};
use crate::clock::Clock;
use crate::connection::{Connected, LinkKey, PeerConnection, RemoteGateway};
use crate::event::{Event, EventKind};
use crate::gateway::GatewaySide;
use crate::ipsp_side::{IpspConfig, IpspKey, IpspSide};
use crate::m2pa_side::{M2paConfig, M2paKey, M2paSide};
use crate::mtp3::{LinkSetError, LinkSetIndication};

/// Batches of inputs that wait for the task.
const INPUTS: usize = 16;

/// Maximum number of events that are not taken yet; further ones are counted.
const MAX_EVENTS: usize = 4096;

/// Time that a peer has to identify itself with ASP Up.
const IDENTIFICATION: Duration = Duration::from_secs(10);

/// Maximum number of associations whose peers have not identified themselves.
const MAX_UNIDENTIFIED: usize = 64;

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
    /// Peer that has to identify itself until this time, as one of these ASPs.
    Unidentified(Vec<AspKey>, Time),
    /// The association is being shut down.
    Closing,
}

struct NodeAssociation {
    open: OpenAssociation,
    role: Role,
}

/// Origin of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Link(LinkKey),
    /// A link set over M2PA that failed before the message was sent.
    Returned(LinkKey),
    Asp(AspKey, RoutingContext),
}

/// MTP-TRANSFER indication.
pub(crate) struct NodeTransfer {
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
    pub(crate) not_m3ua: u64,
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
}

pub(crate) struct Node {
    clock: Clock,
    endpoint: Endpoint,
    inputs: mpsc::Sender<Input>,
    room: Arc<Notify>,
    next_association: u64,
    next_link: u32,
    associations: BTreeMap<AssociationId, NodeAssociation>,
    pub(crate) links: BTreeMap<LinkKey, AspLink>,
    pub(crate) ipsps: BTreeMap<IpspKey, IpspSide>,
    pub(crate) m2pas: BTreeMap<M2paKey, M2paSide>,
    pub(crate) gateway: GatewaySide,
    pub(crate) transfers: Vec<NodeTransfer>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: NodeCounters,
    stopping: bool,
}

impl Node {
    /// Node without links and ASPs, with the queue of its inputs and the notification that a send queue has room. Links
    /// are associations of this endpoint.
    pub(crate) fn new(
        endpoint: Endpoint,
        config: SgpConfig,
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

    /// Adds a link and begins to set up its association.
    pub(crate) fn add_link(
        &mut self,
        gateway: RemoteGateway,
        config: AspConfig,
    ) -> Result<LinkKey, AspConfigError> {
        let mut link = AspLink::new(gateway, config)?;
        let key = LinkKey(self.next_link);
        self.next_link += 1;
        link.connection.connect(key, &self.endpoint, &self.inputs);
        self.links.insert(key, link);
        Ok(key)
    }

    /// Ends a link: ASP Inactive, ASP Down, SHUTDOWN.
    pub(crate) fn remove_link(&mut self, key: LinkKey) {
        let now = self.clock.now();
        let Some(link) = self.links.get_mut(&key) else {
            return;
        };
        if link.stop(now) {
            self.close_link(key);
        }
        self.drain();
    }

    /// Adds an IP server process and begins to set up its associations. Returns its key and those of the peers.
    pub(crate) fn add_ipsp(
        &mut self,
        config: IpspConfig,
        sgp: SgpConfig,
    ) -> Result<(IpspKey, Vec<LinkKey>), IpspConfigError> {
        let key = IpspKey(self.next_link);
        let now = self.clock.now();
        let mut side = IpspSide::new(now, config, sgp, LinkKey(self.next_link))?;
        let peers: Vec<_> = side.peers.keys().copied().collect();
        // A process without peers has a key as well.
        self.next_link += peers.len().max(1) as u32;
        for (link, peer) in &mut side.peers {
            peer.connection.connect(*link, &self.endpoint, &self.inputs);
        }
        self.ipsps.insert(key, side);
        Ok((key, peers))
    }

    /// Ends an IP server process: ASP Inactive, ASP Down, SHUTDOWN on each association.
    pub(crate) fn remove_ipsp(&mut self, key: IpspKey) {
        let now = self.clock.now();
        let peers = self.ipsps.get(&key).map(|side| side.peers.keys().copied());
        let peers: Vec<_> = peers.into_iter().flatten().collect();
        for peer in peers {
            let side = self.ipsps.get_mut(&key);
            if side.is_some_and(|side| side.stop(now, peer)) {
                self.close_ipsp_peer(key, peer);
            }
        }
        self.drain();
    }

    /// Adds a link set over M2PA and begins to set up its links. Returns its key and those of the links.
    pub(crate) fn add_m2pa(
        &mut self,
        config: M2paConfig,
    ) -> Result<(M2paKey, Vec<LinkKey>), LinkConfigError> {
        let (key, now) = (M2paKey(self.next_link), self.clock.now());
        let side = M2paSide::new(now, config, LinkKey(self.next_link))?;
        let links: Vec<_> = side.links.keys().copied().collect();
        self.next_link += links.len().max(1) as u32;
        self.m2pas.insert(key, side);
        for link in &links {
            self.open_m2pa_link(now, key, *link);
        }
        Ok((key, links))
    }

    /// Opens the endpoint of a link and begins to set up its association; repeats it after a failure.
    fn open_m2pa_link(&mut self, now: Time, m2pa: M2paKey, key: LinkKey) {
        let side = self.m2pas.get_mut(&m2pa);
        let Some(link) = side.and_then(|side| side.links.get_mut(&key)) else {
            return;
        };
        if let Err(reason) = link.open(key, &self.inputs) {
            let name = Arc::clone(&link.connection.name);
            let wait = link.connection.schedule(now);
            self.notify(name, EventKind::ConnectFailed(reason, wait));
        }
    }

    /// Ends a link set over M2PA: Out of Service and SHUTDOWN on each link.
    pub(crate) fn remove_m2pa(&mut self, key: M2paKey) {
        let now = self.clock.now();
        let Some(side) = self.m2pas.get_mut(&key) else {
            return;
        };
        side.stop(now);
        let links: Vec<_> = side.links.keys().copied().collect();
        self.flush();
        for link in links {
            self.close_m2pa_link(key, link);
        }
    }

    /// Shuts the association of a link down, or removes the link without one; its set is removed with the last one.
    fn close_m2pa_link(&mut self, m2pa: M2paKey, key: LinkKey) {
        if self.close_configured(key) {
            return;
        }
        if let Some(side) = self.m2pas.get_mut(&m2pa) {
            side.links.remove(&key);
            if side.links.is_empty() {
                self.m2pas.remove(&m2pa);
            }
        }
    }

    /// Shuts the association with a configured peer down; returns whether there is one.
    fn close_configured(&mut self, key: LinkKey) -> bool {
        let id = self.connection(key).and_then(PeerConnection::association);
        let association = id.and_then(|id| self.associations.get(&id));
        association.inspect(|a| a.open.close()).is_some()
    }

    /// Removes an ASP of the gateway and shuts its association down.
    pub(crate) fn remove_asp(&mut self, key: AspKey) {
        let now = self.clock.now();
        // ASP Down Ack first, if the ASP is up.
        let _ = self.gateway.sgp.set_asp_blocked(now, key, true);
        self.drain();
        let removed = self.gateway.asps.remove(&key);
        if let Some(id) = removed.and_then(|asp| asp.association)
            && let Some(association) = self.associations.get_mut(&id)
        {
            association.role = Role::Closing;
            association.open.close();
        }
        let _ = self.gateway.sgp.remove_asp(now, key);
        self.drain();
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

    /// Returns the link for a message with this SLS: one of those that are active and reach the destination.
    pub(crate) fn choose_link(
        &self,
        keys: &[LinkKey],
        context: Option<RoutingContext>,
        destination: AffectedPointCode,
        sls: u8,
    ) -> Option<LinkKey> {
        let reaches = |key: &&LinkKey| {
            let link = self.links.get(key);
            link.is_some_and(|link| {
                link.availability(context, destination) != Availability::Unavailable
            })
        };
        let count = keys.iter().filter(reaches).count();
        let index = usize::from(sls).checked_rem(count)?;
        keys.iter().filter(reaches).nth(index).copied()
    }

    /// Sends a message as ASP on a link.
    pub(crate) fn transfer_to_link(
        &mut self,
        key: LinkKey,
        context: Option<RoutingContext>,
        data: ProtocolData,
    ) -> Result<(), AspRequestError> {
        let link = self.links.get_mut(&key);
        let link = link.ok_or(AspRequestError::NoAssociation)?;
        let context = link.resolve(context);
        link.asp.transfer(context, data)
    }

    /// Sends a message as SGP to an application server.
    pub(crate) fn transfer_to_server(
        &mut self,
        context: RoutingContext,
        data: ProtocolData,
    ) -> Result<(), TransferError> {
        self.gateway.sgp.transfer_to(context, data)
    }

    /// Sends a message as IPSP to the peers.
    pub(crate) fn transfer_to_ipsp(
        &mut self,
        key: IpspKey,
        data: ProtocolData,
    ) -> Result<(), TransferError> {
        let now = self.clock.now();
        match self.ipsps.get_mut(&key) {
            Some(side) => side.transfer(now, data),
            None => Err(TransferError::NoRoutingKey),
        }
    }

    /// Sends a message over a link set of M2PA.
    pub(crate) fn transfer_to_m2pa(
        &mut self,
        key: M2paKey,
        data: &ProtocolData,
    ) -> Result<(), LinkSetError> {
        let now = self.clock.now();
        let side = self.m2pas.get_mut(&key);
        let side = side.ok_or(LinkSetError::Unavailable)?;
        side.set.send(now, data)
    }

    /// Returns the state of the connection with a configured peer; a gateway's in an application server.
    pub(crate) fn peer_state(
        &self,
        key: LinkKey,
        context: Option<RoutingContext>,
    ) -> Option<PeerState> {
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
        let unidentified = self.associations.values().filter_map(|a| match a.role {
            Role::Unidentified(_, deadline) => Some(deadline),
            _ => None,
        });
        let gateway = self.gateway.sgp.poll_timeout();
        let links = links.chain(ipsps).chain(m2pas);
        links.chain(unidentified).chain(gateway).min()
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
        for association in self.associations.values() {
            if matches!(association.role, Role::Unidentified(_, deadline) if deadline <= now) {
                association.open.sender.abort(b"no ASP Up");
            }
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
                        self.counters.not_m3ua += 1;
                        continue;
                    }
                    self.on_message(now, id, message.stream.0, &message.payload.into_bytes());
                }
            }
            Input::Restarted(id) => self.on_restarted(now, id),
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

    fn on_connected(&mut self, now: Time, key: LinkKey, connected: Connected) {
        let (Some(role), Some(name)) = (self.role_of(key), self.name(key)) else {
            // Dropping the association shuts it down.
            return;
        };
        match connected {
            Ok(association) => self.open_configured(now, association, &role, name),
            Err(reason) => {
                if let Some(connection) = self.connection_mut(key) {
                    let wait = connection.on_closed(now);
                    self.notify(name, EventKind::ConnectFailed(reason, wait));
                }
            }
        }
    }

    /// Opens an association with a configured peer.
    fn open_configured(
        &mut self,
        now: Time,
        association: Association,
        role: &Role,
        name: Arc<str>,
    ) {
        let addresses = association.peer_addresses().to_vec();
        let streams = association.outbound_streams();
        let id = self.open(association, role.clone());
        match *role {
            Role::Link(key) => {
                if let Some(link) = self.links.get_mut(&key) {
                    link.on_connected(now, id, streams);
                }
            }
            Role::Ipsp(ipsp, key) => {
                if let Some(side) = self.ipsps.get_mut(&ipsp) {
                    side.on_connected(now, key, id, streams);
                }
            }
            Role::M2pa(m2pa, key) => {
                if let Some(side) = self.m2pas.get_mut(&m2pa) {
                    side.on_connected(now, key, id, streams);
                }
            }
            Role::Asp(_) | Role::Unidentified(..) | Role::Closing => {}
        }
        self.notify(name, EventKind::Connected(addresses));
    }

    /// Accepts an association of a configured peer. It replaces an earlier one, whose end the peer may have lost.
    fn accept_configured(&mut self, now: Time, role: &Role, key: LinkKey, incoming: Incoming) {
        let earlier = self.connection(key).and_then(PeerConnection::association);
        if let Some(earlier) = earlier {
            self.replace(earlier);
            self.notify_machine(now, role, SctpNotification::Down);
        }
        if let Some(name) = self.name(key) {
            self.open_configured(now, incoming.accept(), role, name);
        }
    }

    /// A peer has set up an association at the endpoint of a link over M2PA.
    fn on_accepted_link(&mut self, now: Time, key: LinkKey, incoming: Incoming) {
        let first = incoming.peer_addresses().first().copied();
        let connection = self.connection(key);
        let is_peer = connection
            .zip(first)
            .is_some_and(|(connection, address)| connection.accepts(&address));
        if let Some(role) = self.role_of(key).filter(|_| is_peer) {
            self.accept_configured(now, &role, key, incoming);
        } else {
            let reason = "no link is configured with this address";
            self.refuse(incoming, reason);
        }
    }

    fn refuse(&mut self, incoming: Incoming, reason: &str) {
        let addresses = incoming.peer_addresses().to_vec();
        incoming.refuse(reason.as_bytes());
        self.notify("".into(), EventKind::Refused(addresses, reason.to_owned()));
    }

    /// Notifies the state machine of an association's role.
    fn notify_machine(&mut self, now: Time, role: &Role, notification: SctpNotification) {
        match role {
            Role::Link(key) => {
                if let Some(link) = self.links.get_mut(key) {
                    link.asp.handle_sctp(now, notification);
                }
            }
            Role::Ipsp(ipsp, key) => {
                if let Some(side) = self.ipsps.get_mut(ipsp) {
                    side.handle_sctp(now, *key, notification);
                }
            }
            Role::M2pa(m2pa, key) => {
                if let Some(side) = self.m2pas.get_mut(m2pa) {
                    side.handle_sctp(now, *key, notification);
                }
            }
            Role::Asp(key) => self.gateway.sgp.handle_sctp(now, *key, notification),
            Role::Unidentified(..) | Role::Closing => {}
        }
    }

    /// Aborts an association that another one replaces.
    fn replace(&mut self, earlier: AssociationId) {
        if let Some(association) = self.associations.get_mut(&earlier) {
            association.role = Role::Closing;
            let sender = &association.open.sender;
            sender.abort(b"replaced by another association");
        }
    }

    /// A peer has set up an association: find out which ASP it is. The first address is confirmed by the State Cookie,
    /// the other addresses are only listed by the peer.
    fn on_accepted(&mut self, now: Time, incoming: Incoming) {
        let addresses = incoming.peer_addresses().to_vec();
        let accepting = addresses.first().filter(|_| !self.stopping);
        let ipsp = accepting.and_then(|address| {
            let mut ipsps = self.ipsps.iter();
            ipsps.find_map(|(ipsp, side)| Some((*ipsp, side.accepting(address)?)))
        });
        if let Some((ipsp, key)) = ipsp {
            self.accept_configured(now, &Role::Ipsp(ipsp, key), key, incoming);
            return;
        }
        let candidates = self.gateway.candidates(addresses.first());
        let unidentified = self.associations.values();
        let unidentified = unidentified.filter(|a| matches!(a.role, Role::Unidentified(..)));
        let refusal = if self.stopping {
            Some("the gateway is ending")
        } else if candidates.is_empty() {
            Some("no ASP is configured with this address")
        } else if unidentified.count() >= MAX_UNIDENTIFIED {
            Some("too many peers without ASP Up")
        } else {
            None
        };
        if let Some(reason) = refusal {
            self.refuse(incoming, reason);
            return;
        }
        let identified = self.gateway.identified_by_address(&candidates);
        let role = Role::Unidentified(candidates, now + IDENTIFICATION);
        let id = self.open(incoming.accept(), role);
        if let Some(key) = identified {
            self.identify(now, id, key);
        }
    }

    fn open(&mut self, association: Association, role: Role) -> AssociationId {
        let id = AssociationId(self.next_association);
        self.next_association += 1;
        let (inputs, room) = (self.inputs.clone(), Arc::clone(&self.room));
        let ppid = match role {
            Role::M2pa(..) => m2pa::PAYLOAD_PROTOCOL_ID,
            _ => PAYLOAD_PROTOCOL_ID,
        };
        let open = OpenAssociation::start(id, association, ppid, inputs, room);
        self.associations.insert(id, NodeAssociation { open, role });
        id
    }

    /// An association is that of an ASP. It replaces an earlier one, whose end the peer may have lost.
    fn identify(&mut self, now: Time, id: AssociationId, key: AspKey) {
        let Some(asp) = self.gateway.asps.get_mut(&key) else {
            return;
        };
        let name = Arc::clone(&asp.name);
        if let Some(earlier) = asp.association.replace(id) {
            self.replace(earlier);
            let sgp = &mut self.gateway.sgp;
            sgp.handle_sctp(now, key, SctpNotification::Down);
        }
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        association.role = Role::Asp(key);
        let outbound_streams = association.open.sender.outbound_streams();
        let addresses = association.open.sender.peer_addresses().to_vec();
        let up = SctpNotification::Up { outbound_streams };
        self.gateway.sgp.handle_sctp(now, key, up);
        self.notify(name, EventKind::Connected(addresses));
    }

    fn on_message(&mut self, now: Time, id: AssociationId, stream: u16, octets: &Bytes) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        if let Role::M2pa(m2pa, key) = association.role {
            let side = self.m2pas.get_mut(&m2pa);
            if !side.is_some_and(|side| side.on_message(now, key, stream, octets)) {
                self.counters.malformed += 1;
            }
            return;
        }
        let decoded = Message::decode(octets);
        if decoded.is_err() {
            self.counters.malformed += 1;
        }
        match &association.role {
            Role::Link(key) => {
                let Some(link) = self.links.get_mut(key) else {
                    return;
                };
                match decoded {
                    Ok(message) => link.asp.handle_message(now, stream, &message),
                    Err(error) => link.asp.handle_malformed(now, &error, octets),
                }
            }
            Role::Ipsp(ipsp, key) => {
                if let Some(side) = self.ipsps.get_mut(ipsp) {
                    side.on_message(now, *key, stream, &decoded, octets);
                }
            }
            Role::Asp(key) => {
                let sgp = &mut self.gateway.sgp;
                match decoded {
                    Ok(message) => sgp.handle_message(now, *key, stream, &message),
                    Err(error) => sgp.handle_malformed(now, *key, &error, octets),
                }
            }
            Role::Unidentified(candidates, _) => {
                let found = match &decoded {
                    Ok(message) => self.gateway.identify(candidates, message),
                    Err(error) => Err(error.code()),
                };
                match (found, decoded) {
                    (Ok(key), Ok(message)) => {
                        self.identify(now, id, key);
                        let sgp = &mut self.gateway.sgp;
                        sgp.handle_message(now, key, stream, &message);
                    }
                    (Ok(_), Err(_)) => {}
                    (Err(code), decoded) => {
                        answer_unidentified(&mut association.open, code, decoded.err(), octets);
                    }
                }
            }
            Role::M2pa(..) | Role::Closing => {}
        }
    }

    fn on_restarted(&mut self, now: Time, id: AssociationId) {
        let Some(association) = self.associations.get(&id) else {
            return;
        };
        let outbound_streams = association.open.sender.outbound_streams();
        let restarted = SctpNotification::Restarted { outbound_streams };
        let role = association.role.clone();
        self.notify_machine(now, &role, restarted);
    }

    fn on_ended(&mut self, now: Time, id: AssociationId, reason: String) {
        let Some(association) = self.associations.remove(&id) else {
            return;
        };
        let kind = EventKind::Disconnected(reason);
        match association.role {
            Role::Link(key) => {
                let Some(link) = self.links.get_mut(&key) else {
                    return;
                };
                let name = Arc::clone(&link.connection.name);
                link.on_disconnected(now);
                link.connection.on_closed(now);
                let stopped = link.is_stopping();
                self.notify(name, kind);
                if stopped {
                    // Its last primitives are drained first.
                    self.drain();
                    self.links.remove(&key);
                }
            }
            Role::Ipsp(ipsp, key) => {
                self.on_configured_ended(now, &association.role, key, kind);
                let side = self.ipsps.get(&ipsp);
                if side.is_some_and(|side| side.is_stopping(key)) {
                    self.drain();
                    self.close_ipsp_peer(ipsp, key);
                }
            }
            Role::M2pa(m2pa, key) => {
                self.on_configured_ended(now, &association.role, key, kind);
                if self.m2pas.get(&m2pa).is_some_and(M2paSide::is_stopping) {
                    self.close_m2pa_link(m2pa, key);
                }
            }
            Role::Asp(key) => {
                let sgp = &mut self.gateway.sgp;
                sgp.handle_sctp(now, key, SctpNotification::Down);
                if let Some(asp) = self.gateway.asps.get_mut(&key) {
                    asp.association = None;
                    let name = Arc::clone(&asp.name);
                    self.notify(name, kind);
                }
            }
            Role::Unidentified(..) => {
                let addresses = association.open.sender.peer_addresses().to_vec();
                let reason = "the peer did not identify itself with ASP Up".to_owned();
                self.notify("".into(), EventKind::Refused(addresses, reason));
            }
            Role::Closing => {}
        }
    }

    /// The association with a peer has ended: another one follows.
    fn on_configured_ended(&mut self, now: Time, role: &Role, key: LinkKey, kind: EventKind) {
        if let (Some(name), Some(connection)) = (self.name(key), self.connection_mut(key)) {
            connection.on_closed(now);
            self.notify(name, kind);
        }
        self.notify_machine(now, role, SctpNotification::Down);
    }

    fn close_link(&mut self, key: LinkKey) {
        if !self.close_configured(key) {
            self.links.remove(&key);
        }
    }

    /// Shuts the association of a peer down, or removes the peer without one; its process is removed with the last one.
    fn close_ipsp_peer(&mut self, ipsp: IpspKey, key: LinkKey) {
        if self.close_configured(key) {
            return;
        }
        if let Some(side) = self.ipsps.get_mut(&ipsp) {
            side.peers.remove(&key);
            if side.peers.is_empty() {
                self.ipsps.remove(&ipsp);
            }
        }
    }

    /// Moves the primitives and messages of the state machines on. Messages are staged for [`Self::flush`].
    pub(crate) fn drain(&mut self) {
        let now = self.clock.now();
        let keys: Vec<_> = self.links.keys().copied().collect();
        for key in keys {
            self.drain_link(now, key);
        }
        let keys: Vec<_> = self.ipsps.keys().copied().collect();
        for key in keys {
            self.drain_ipsp(now, key);
        }
        let keys: Vec<_> = self.m2pas.keys().copied().collect();
        for key in keys {
            self.drain_m2pa(key);
        }
        while let Some(indication) = self.gateway.sgp.poll_indication() {
            self.on_sgp_indication(indication);
        }
        while let Some((key, transmit)) = self.gateway.sgp.poll_transmit() {
            let asp = self.gateway.asps.get(&key);
            self.stage(asp.and_then(|asp| asp.association), &transmit);
        }
    }

    fn drain_link(&mut self, now: Time, key: LinkKey) {
        let mut may_stop = false;
        loop {
            let Some(link) = self.links.get_mut(&key) else {
                return;
            };
            let Some(indication) = link.asp.poll_indication() else {
                break;
            };
            if let AspIndication::Transfer(data) = indication {
                let origin = Origin::Link(key);
                self.transfers.push(NodeTransfer { origin, data });
                continue;
            }
            link.on_indication(now, &indication);
            may_stop |= link.is_stopping();
            let (name, id) = (
                Arc::clone(&link.connection.name),
                link.connection.association(),
            );
            if indication == AspIndication::PeerUnresponsive {
                self.abort_unresponsive(id);
            }
            self.notify(name, EventKind::Asp(indication));
        }
        let mut closes = false;
        if let Some(link) = self.links.get_mut(&key) {
            // A confirm of the end, or its failure: what follows is due.
            closes = may_stop && link.connection.association().is_some() && link.continue_stop(now);
        }
        loop {
            let Some(link) = self.links.get_mut(&key) else {
                return;
            };
            let Some(transmit) = link.asp.poll_transmit() else {
                break;
            };
            let id = link.connection.association();
            self.stage(id, &transmit);
        }
        if closes {
            self.flush();
            self.close_link(key);
        }
    }

    fn drain_ipsp(&mut self, now: Time, ipsp: IpspKey) {
        let mut closing = Vec::new();
        while let Some(side) = self.ipsps.get_mut(&ipsp)
            && let Some(indication) = side.ipsp.poll_indication()
        {
            let (peer, indication) = match indication {
                IpspIndication::Local(peer, indication) => (peer, indication),
                IpspIndication::Remote(indication) => {
                    let peer = indication.asp().and_then(|asp| side.peer_of(asp));
                    let name = peer.map(|(_, peer)| Arc::clone(&peer.connection.name));
                    self.count_discarded(&indication);
                    let name = name.unwrap_or_else(|| "".into());
                    self.notify(name, EventKind::Sgp(indication));
                    continue;
                }
            };
            let Some((key, peer)) = side.peer_of(peer) else {
                continue;
            };
            if let AspIndication::Transfer(data) = indication {
                let origin = Origin::Link(key);
                self.transfers.push(NodeTransfer { origin, data });
                continue;
            }
            let (name, id) = (
                Arc::clone(&peer.connection.name),
                peer.connection.association(),
            );
            if side.on_indication(now, key, &indication) {
                closing.push(key);
            }
            if indication == AspIndication::PeerUnresponsive {
                self.abort_unresponsive(id);
            }
            self.notify(name, EventKind::Asp(indication));
        }
        while let Some(side) = self.ipsps.get_mut(&ipsp)
            && let Some((peer, transmit)) = side.ipsp.poll_transmit()
        {
            let peer = side.peer_of(peer);
            let id = peer.and_then(|(_, peer)| peer.connection.association());
            self.stage(id, &transmit);
        }
        if !closing.is_empty() {
            self.flush();
        }
        for key in closing {
            self.close_ipsp_peer(ipsp, key);
        }
    }

    fn drain_m2pa(&mut self, m2pa: M2paKey) {
        if let Some(side) = self.m2pas.get_mut(&m2pa) {
            self.counters.not_diverted += side.set.take_lost();
        }
        while let Some(side) = self.m2pas.get_mut(&m2pa)
            && let Some((index, transmit)) = side.set.poll_transmit()
        {
            let link = side.link_at(index);
            let id = link.and_then(|link| link.connection.association());
            self.stage_octets(id, transmit.stream, false, transmit.message.encode().ok());
        }
        while let Some(side) = self.m2pas.get_mut(&m2pa)
            && let Some(indication) = side.set.poll_indication()
        {
            let Some(first) = side.links.keys().next().copied() else {
                return;
            };
            let network_appearance = side.network_appearance;
            let data = |protocol_data| Data {
                network_appearance,
                routing_context: None,
                protocol_data,
                correlation_id: None,
            };
            let (origin, data) = match indication {
                LinkSetIndication::Received(message) => (Origin::Link(first), data(message)),
                LinkSetIndication::Returned(message) => (Origin::Returned(first), data(message)),
                LinkSetIndication::Link(index, is_available) => {
                    let link = side.link_at(index);
                    if let Some(name) = link.map(|link| Arc::clone(&link.connection.name)) {
                        self.notify(name, EventKind::Link(is_available));
                    }
                    continue;
                }
                LinkSetIndication::Congestion(is_congested) => {
                    if let Some(name) = self.name(first) {
                        self.notify(name, EventKind::Congestion(is_congested));
                    }
                    continue;
                }
            };
            self.transfers.push(NodeTransfer { origin, data });
        }
    }

    /// Aborts an association whose peer does not answer heartbeats.
    fn abort_unresponsive(&self, id: Option<AssociationId>) {
        if let Some(association) = id.and_then(|id| self.associations.get(&id)) {
            association.open.sender.abort(b"no BEAT Ack");
        }
    }

    fn count_discarded(&mut self, indication: &SgpIndication) {
        if let SgpIndication::Discarded(_, count) = indication {
            self.counters.recovery_expired += *count as u64;
        }
    }

    fn on_sgp_indication(&mut self, indication: SgpIndication) {
        let asp = indication.asp().and_then(|key| self.gateway.asps.get(&key));
        let name = asp.map(|asp| Arc::clone(&asp.name));
        let id = asp.and_then(|asp| asp.association);
        if let SgpIndication::Transfer(key, context, data) = indication {
            let origin = Origin::Asp(key, context);
            self.transfers.push(NodeTransfer { origin, data });
            return;
        }
        self.count_discarded(&indication);
        if let SgpIndication::PeerUnresponsive(_) = &indication {
            self.abort_unresponsive(id);
        }
        self.notify(
            name.unwrap_or_else(|| "".into()),
            EventKind::Sgp(indication),
        );
    }

    fn stage(&mut self, id: Option<AssociationId>, transmit: &Transmit) {
        let octets = transmit.message.encode().ok();
        self.stage_octets(id, transmit.stream, transmit.unordered, octets);
    }

    /// Stages a message, if it could be encoded and the association has not ended.
    fn stage_octets(
        &mut self,
        id: Option<AssociationId>,
        stream: u16,
        unordered: bool,
        octets: Option<Bytes>,
    ) {
        let association = id.and_then(|id| self.associations.get_mut(&id));
        match (association, octets) {
            (Some(association), Some(octets)) => {
                association.open.stage(stream, unordered, octets);
            }
            (Some(_), None) => self.counters.not_encoded += 1,
            (None, _) => {}
        }
    }

    /// Queues what the state machines and the transfers have staged.
    pub(crate) fn flush(&mut self) {
        self.drain();
        for association in self.associations.values_mut() {
            self.counters.congested += association.open.flush();
        }
    }

    fn notify(&mut self, peer: Arc<str>, kind: EventKind) {
        // Association events have their own kinds.
        if matches!(
            kind,
            EventKind::Asp(AspIndication::SctpStatus(_))
                | EventKind::Sgp(SgpIndication::SctpStatus(..))
        ) {
            return;
        }
        if self.events.len() >= MAX_EVENTS {
            self.counters.events_lost += 1;
            return;
        }
        self.events.push_back(Event { peer, kind });
    }

    /// Adds an event about a destination.
    pub(crate) fn notify_destination(&mut self, destination: String, available: Availability) {
        self.notify("".into(), EventKind::Destination(destination, available));
    }
}

/// Answers a peer that is no known ASP yet.
fn answer_unidentified(
    open: &mut OpenAssociation,
    code: ErrorCode,
    error: Option<DecodeError>,
    octets: &Bytes,
) {
    let answer = match error {
        Some(error) => ErrorMessage::answering(&error, octets),
        None => Some(ErrorMessage::new(code)),
    };
    if let Some(octets) = answer.and_then(|answer| Message::Error(answer).encode().ok()) {
        open.stage(0, false, octets);
    }
}

/// Passes the associations that peers set up on, with the link whose endpoint it is.
pub(crate) async fn accept(endpoint: Endpoint, link: Option<LinkKey>, inputs: mpsc::Sender<Input>) {
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            () = inputs.closed() => return,
        };
        let Some(incoming) = incoming else {
            return;
        };
        let accepted = Input::Accepted(link, Box::new(incoming));
        if inputs.send(accepted).await.is_err() {
            return;
        }
    }
}
