//! Associations of all kinds of peers: set-up, messages, restart and end.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use carrick::{Association, Endpoint, Incoming};
use carrick_proto::Time;
use carrick_sigtran::aspm::{LayerMessage, Transmit};
use carrick_sigtran::{SctpNotification, m2pa};
use tokio::sync::mpsc;

use super::identification::Unidentified;
use super::{M2paSide, Node, NodeAssociation, PeerPath, Role, admission};
use crate::association::{AssociationId, Input, OpenAssociation};
use crate::connection::{Connected, LinkKey, PeerConnection};
use crate::event::EventKind;
use crate::layer::SocketLayer;

impl<L: SocketLayer> Node<L> {
    pub(super) fn on_connected(&mut self, now: Time, key: LinkKey, connected: Connected) {
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
        let addresses = association.control().peer_addresses().to_vec();
        let streams = association.control().outbound_streams();
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
    pub(super) fn on_accepted_link(&mut self, now: Time, key: LinkKey, incoming: Incoming) {
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

    /// A peer has set up an association: find out which ASP it is. The first address is confirmed by the State Cookie,
    /// the other addresses are only listed by the peer.
    pub(super) fn on_accepted(&mut self, now: Time, incoming: Incoming) {
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
        let port = incoming.peer_port();
        let candidates = self.gateway.candidates(addresses.first(), port);
        let refusal = match addresses.first() {
            _ if self.stopping => Err("the gateway is ending"),
            Some(address) if !candidates.is_empty() => Ok(self.gateway.source(*address)),
            _ => Err("no ASP is configured with this address"),
        };
        let (source, asps) = match refusal {
            Ok(source) => source,
            Err(reason) => return self.refuse(incoming, reason),
        };
        let identified = self.gateway.identified_by_address(&candidates);
        if identified.is_none() {
            self.make_room(source, asps);
        }
        let role = Role::Unidentified(Unidentified::new(now, candidates, source));
        let id = self.open(incoming.accept(), role);
        if let Some(key) = identified {
            self.set_identity(now, id, key);
        }
    }

    /// Makes room for an association of an unidentified peer at this source.
    fn make_room(&mut self, source: admission::PeerSource, asps: usize) {
        let associations = self.associations.iter();
        let waiting = associations.filter_map(|(id, association)| match &association.role {
            Role::Unidentified(peer) => Some((*id, peer.source)),
            _ => None,
        });
        if let Some(displaced) = admission::displaced(source, asps, waiting) {
            self.dismiss(displaced, "too many peers without ASP Up");
        }
    }

    /// Aborts the association of an unidentified peer.
    pub(super) fn dismiss(&mut self, id: AssociationId, reason: &str) {
        if let Some(association) = self.associations.get_mut(&id) {
            association.role = Role::Closing;
            let sender = &association.open.sender;
            sender.abort(reason.as_bytes());
            let addresses = sender.control().peer_addresses().to_vec();
            self.notify("".into(), EventKind::Refused(addresses, reason.to_owned()));
        }
    }

    fn refuse(&mut self, incoming: Incoming, reason: &str) {
        let addresses = incoming.peer_addresses().to_vec();
        incoming.refuse(reason.as_bytes());
        self.notify("".into(), EventKind::Refused(addresses, reason.to_owned()));
    }

    /// Aborts an association that another one replaces.
    pub(super) fn replace(&mut self, earlier: AssociationId) {
        if let Some(association) = self.associations.get_mut(&earlier) {
            association.role = Role::Closing;
            let sender = &association.open.sender;
            sender.abort(b"replaced by another association");
        }
    }

    pub(super) fn open(&mut self, association: Association, role: Role) -> AssociationId {
        let id = AssociationId(self.next_association);
        self.next_association += 1;
        let (inputs, room) = (self.inputs.clone(), Arc::clone(&self.room));
        let ppid = match role {
            Role::M2pa(..) => m2pa::PAYLOAD_PROTOCOL_ID,
            _ => L::PAYLOAD_PROTOCOL_ID,
        };
        let open = OpenAssociation::start(id, association, ppid, inputs, room);
        let failed_paths = BTreeSet::new();
        let association = NodeAssociation {
            open,
            role,
            failed_paths,
        };
        self.associations.insert(id, association);
        id
    }

    pub(super) fn on_message(&mut self, now: Time, id: AssociationId, stream: u16, octets: &Bytes) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        if let Role::M2pa(m2pa, key) = association.role {
            let side = self.m2pas.get_mut(&m2pa);
            let is_decoded = side.is_some_and(|side| side.on_message(now, key, stream, octets));
            self.counters.malformed += u64::from(!is_decoded);
            return;
        }
        let decoded = L::decode(octets);
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
            Role::Unidentified(_) => self.on_unidentified(now, id, stream, decoded, octets),
            Role::M2pa(..) | Role::Closing => {}
        }
    }

    pub(super) fn on_restarted(&mut self, now: Time, id: AssociationId) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        if let Role::Unidentified(peer) = &mut association.role {
            return peer.await_up(now);
        }
        association.failed_paths.clear();
        let outbound_streams = association.open.sender.control().outbound_streams();
        let restarted = SctpNotification::Restarted { outbound_streams };
        let role = association.role.clone();
        if let Some(name) = self.peer_name(&role) {
            self.notify(name, EventKind::Restarted);
        }
        self.notify_machine(now, &role, restarted);
    }

    /// The path to an address of a peer has failed or recovered.
    pub(super) fn on_path_status(
        &mut self,
        now: Time,
        id: AssociationId,
        address: IpAddr,
        active: bool,
    ) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        let role = association.role.clone();
        if active {
            association.failed_paths.remove(&address);
        } else if association.failed_paths.insert(address) {
            self.counters.path_failures += 1;
        }
        if let Some(name) = self.peer_name(&role) {
            self.notify(name, EventKind::Path(address, active));
        }
        let status = SctpNotification::PathStatus { address, active };
        self.notify_machine(now, &role, status);
    }

    /// Returns the paths of all associations with known peers.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PeerPath> + '_ {
        let known = self.associations.values().filter_map(|association| {
            let peer = self.peer_name(&association.role)?;
            Some((association, peer))
        });
        known.flat_map(|(association, peer)| {
            let addresses = association.open.sender.control().peer_addresses().iter();
            addresses.map(move |address| PeerPath {
                peer: Arc::clone(&peer),
                is_asp: matches!(association.role, Role::Asp(_)),
                address: *address,
                is_active: !association.failed_paths.contains(address),
            })
        })
    }

    /// Returns the name of the peer of an association, `None` if the peer is unknown or leaves.
    fn peer_name(&self, role: &Role) -> Option<Arc<str>> {
        match role {
            Role::Link(key) | Role::Ipsp(_, key) | Role::M2pa(_, key) => self.name(*key),
            Role::Asp(key) => self.gateway.asps.get(key).map(|asp| Arc::clone(&asp.name)),
            Role::Unidentified(..) | Role::Closing => None,
        }
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

    pub(super) fn on_ended(&mut self, now: Time, id: AssociationId, reason: String) {
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
            Role::Unidentified(peer) => {
                let addresses = association.open.sender.control().peer_addresses().to_vec();
                let reason = peer.reason().to_owned();
                self.notify("".into(), EventKind::Refused(addresses, reason));
            }
            Role::Closing => {}
        }
    }

    /// The association with a peer has ended: another one follows.
    fn on_configured_ended(&mut self, now: Time, role: &Role, key: LinkKey, kind: EventKind<L>) {
        if let (Some(name), Some(connection)) = (self.name(key), self.connection_mut(key)) {
            connection.on_closed(now);
            self.notify(name, kind);
        }
        self.notify_machine(now, role, SctpNotification::Down);
    }

    /// Shuts the association with a configured peer down; returns whether there is one.
    pub(super) fn close_configured(&mut self, key: LinkKey) -> bool {
        let id = self.connection(key).and_then(PeerConnection::association);
        let association = id.and_then(|id| self.associations.get(&id));
        association.inspect(|a| a.open.close()).is_some()
    }

    /// Aborts an association whose peer does not answer heartbeats.
    pub(super) fn abort_unresponsive(&self, id: Option<AssociationId>) {
        if let Some(association) = id.and_then(|id| self.associations.get(&id)) {
            association.open.sender.abort(b"no BEAT Ack");
        }
    }

    /// Stages the messages of the gateway. Returns whether a message was staged.
    pub(crate) fn stage_gateway(&mut self) -> bool {
        let mut is_staged = false;
        while let Some((key, transmit)) = self.gateway.sgp.poll_transmit() {
            let asp = self.gateway.asps.get(&key);
            is_staged |= self.stage(asp.and_then(|asp| asp.association), &transmit);
        }
        is_staged
    }

    /// Stages the messages of a link to a gateway.
    pub(crate) fn stage_link(&mut self, key: LinkKey) {
        while let Some(link) = self.links.get_mut(&key)
            && let Some(transmit) = link.asp.poll_transmit()
        {
            let id = link.connection.association();
            self.stage(id, &transmit);
        }
    }

    pub(super) fn stage<M: LayerMessage>(
        &mut self,
        id: Option<AssociationId>,
        transmit: &Transmit<M>,
    ) -> bool {
        let octets = transmit.message.encode().ok();
        self.stage_octets(id, transmit.stream, transmit.unordered, octets)
    }

    /// Stages a message, if it could be encoded, the association has not ended, and its queue has room; returns whether.
    pub(super) fn stage_octets(
        &mut self,
        id: Option<AssociationId>,
        stream: u16,
        unordered: bool,
        octets: Option<Bytes>,
    ) -> bool {
        let association = id.and_then(|id| self.associations.get_mut(&id));
        match (association, octets) {
            (Some(association), Some(octets)) => {
                let is_staged = association.open.stage(stream, unordered, octets);
                self.counters.congested += u64::from(!is_staged);
                is_staged
            }
            (Some(_), None) => {
                self.counters.not_encoded += 1;
                false
            }
            (None, _) => false,
        }
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
