//! IP server process: the state machine with the connections of its peers (RFC 4666, sections 4.3 and 5.6; RFC 3868,
//! section 4.3).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::aspm::asp::{AspConfig, AspEvent, AspState};
use carrick_sigtran::aspm::ipsp::{Ipsp, IpspConfigError, IpspExchange, IpspIndication, IpspLayer};
use carrick_sigtran::aspm::sgp::{
    AsState, AspKey, DeliveryError, GatewayConfig, GatewayEvent, SgpAspConfig,
};
use carrick_sigtran::m3ua::M3ua;
use carrick_sigtran::message::{AspIdentifier, DecodeError};

use super::Node;
use super::activation::AspRequester;
use crate::association::AssociationId;
use crate::connection::{LinkKey, PeerConnection, RemoteGateway};
use crate::event::EventKind;
use crate::layer::SocketLayer;

/// IP server process: M3UA or SUA between two processes without a gateway.
#[derive(Clone, PartialEq, Debug)]
pub struct IpspConfig<L: SocketLayer = M3ua> {
    /// Model of the exchange of ASPSM and ASPTM messages, the same at both ends.
    pub exchange: IpspExchange,
    /// Application server that the peers serve.
    pub remote: L::Server,
    /// Application server that this process serves; with single exchange it has the routing context of `remote`.
    pub local: L::Served,
    /// ASP Identifier of this process.
    pub identifier: Option<AspIdentifier>,
    /// Peers.
    pub peers: Vec<IpspPeer>,
}

/// Peer of an IP server process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IpspPeer {
    /// Name, addresses and ports.
    pub remote: RemoteGateway,
    /// This end sets the association up, and requests ASP Up and ASP Active with single exchange. Otherwise the peer
    /// does, from one of its addresses.
    pub connects: bool,
}

/// Key of an IP server process in a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct IpspKey(pub(crate) u32);

/// Peer with its connection.
pub(crate) struct ConnectedPeer<L: SocketLayer> {
    pub(crate) connection: PeerConnection,
    key: AspKey,
    requester: AspRequester<L>,
}

/// State machine with the connections of its peers.
pub(crate) struct IpspSide<L: SocketLayer = M3ua> {
    ipsp: Ipsp<L>,
    remote: L::AsId,
    local: Option<L::AsId>,
    pub(crate) peers: BTreeMap<LinkKey, ConnectedPeer<L>>,
}

impl<L: SocketLayer> IpspSide<L> {
    /// Process with these peers, whose keys begin with `first`.
    pub(crate) fn new(
        now: Time,
        config: IpspConfig<L>,
        sgp: GatewayConfig<L>,
        first: LinkKey,
    ) -> Result<Self, IpspConfigError<L::AsId>>
    where
        L: IpspLayer,
    {
        let mut ipsp = Ipsp::new(config.exchange, sgp);
        let (remote, local) = (L::server_id(&config.remote), L::served_id(&config.local));
        ipsp.remote(now, |gateway| gateway.add_application_server(config.remote))?;
        let mut peers = BTreeMap::new();
        for (number, peer) in (first.0..).zip(config.peers) {
            let of_peer = SgpAspConfig {
                identifier: None,
                application_servers: vec![remote.clone()],
            };
            let own = AspConfig {
                identifier: config.identifier,
                application_servers: vec![config.local.clone()],
                ..AspConfig::default()
            };
            let (up, active) = match config.exchange {
                IpspExchange::Single => (peer.connects, peer.connects),
                IpspExchange::DoubleWithSingleAspsm => (peer.connects, true),
                IpspExchange::Double => (true, true),
            };
            let connected = ConnectedPeer {
                connection: PeerConnection::new(peer.remote, peer.connects),
                key: ipsp.add_peer(of_peer, own)?,
                requester: AspRequester::new(up, active),
            };
            peers.insert(LinkKey(number), connected);
        }
        Ok(Self {
            ipsp,
            remote,
            local,
            peers,
        })
    }

    /// Returns whether messages to the peers are sent or buffered.
    pub(crate) fn is_usable(&self) -> bool {
        let state = self.ipsp.gateway().as_state(self.remote.clone());
        matches!(state, Some(AsState::Active | AsState::Pending))
    }

    /// Returns the number of messages to the peers that wait, and their octets.
    pub(crate) fn buffered(&self) -> Option<(usize, usize)> {
        self.ipsp.gateway().buffered(self.remote.clone())
    }

    /// Returns whether the peer is active, and this process towards it.
    pub(crate) fn is_active(&self, key: LinkKey) -> bool {
        let active = |peer: &ConnectedPeer<L>| {
            let asp = self.ipsp.asp(peer.key);
            let local = asp.and_then(|asp| asp.state(self.local.clone()));
            let gateway = self.ipsp.gateway();
            let remote = gateway.asp_state(peer.key, self.remote.clone());
            local == Some(AspState::Active) && remote == Some(AspState::Active)
        };
        self.peers.get(&key).is_some_and(active)
    }

    /// Returns the peer with this key in the state machine.
    pub(crate) fn peer_of(&self, key: AspKey) -> Option<(LinkKey, &ConnectedPeer<L>)> {
        let mut peers = self.peers.iter();
        let found = peers.find(|(_, peer)| peer.key == key);
        found.map(|(key, peer)| (*key, peer))
    }

    /// Returns the peer that an association from this address belongs to.
    pub(crate) fn accepting(&self, address: &IpAddr) -> Option<LinkKey> {
        let mut peers = self.peers.iter();
        let found = peers.find(|(_, peer)| peer.connection.accepts(address));
        found.map(|(key, _)| *key)
    }

    /// The association is established: makes the requests that are this end's.
    pub(crate) fn on_connected(
        &mut self,
        now: Time,
        key: LinkKey,
        id: AssociationId,
        outbound_streams: u16,
    ) {
        let up = SctpNotification::Up { outbound_streams };
        self.handle_sctp(now, key, up);
        if let Some(peer) = self.peers.get_mut(&key) {
            peer.connection.on_opened(id);
            peer.requester.reactivate();
            let requester = &mut peer.requester;
            self.ipsp
                .local(now, peer.key, |asp| requester.on_connected(now, asp));
        }
    }

    pub(crate) fn handle_sctp(&mut self, now: Time, key: LinkKey, notification: SctpNotification) {
        if let Some(peer) = self.peers.get(&key) {
            self.ipsp.handle_sctp(now, peer.key, notification);
        }
    }

    pub(crate) fn on_message(
        &mut self,
        now: Time,
        key: LinkKey,
        stream: u16,
        decoded: &Result<L::Message, DecodeError>,
        octets: &Bytes,
    ) {
        if let Some(peer) = self.peers.get(&key) {
            match decoded {
                Ok(message) => self.ipsp.handle_message(now, peer.key, stream, message),
                Err(error) => self.ipsp.handle_malformed(now, peer.key, error, octets),
            }
        }
    }

    /// Reacts to a primitive of this process towards a peer. Returns whether the association is to be shut down.
    pub(crate) fn on_indication(
        &mut self,
        now: Time,
        key: LinkKey,
        indication: &L::AspIndication,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(&key) else {
            return false;
        };
        let ConnectedPeer {
            connection,
            key,
            requester,
        } = peer;
        let closes = self.ipsp.local(now, *key, |asp| {
            if let Some(event) = L::asp_event(indication) {
                requester.on_event(now, asp, connection, &event);
            }
            requester.is_stopping() && requester.continue_stop(now, asp)
        });
        closes == Some(true) && connection.association().is_some()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let peers = self.peers.values();
        let peers = peers.filter(|peer| !peer.requester.is_stopping());
        let retries = peers.filter_map(|peer| peer.connection.poll_timeout());
        retries.chain(self.ipsp.poll_timeout()).min()
    }

    /// Handles the timers. Returns the peers whose associations are to be set up.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> Vec<LinkKey> {
        self.ipsp.handle_timeout(now);
        let mut due = Vec::new();
        for (link, peer) in &mut self.peers {
            let ConnectedPeer {
                connection,
                key,
                requester,
            } = peer;
            let connects = self.ipsp.local(now, *key, |asp| {
                requester.handle_timeout(now, asp, connection)
            });
            if connects == Some(true) {
                due.push(*link);
            }
        }
        due
    }

    /// Begins the end of a peer's connection. Returns whether there is nothing to wait for.
    pub(crate) fn stop(&mut self, now: Time, key: LinkKey) -> bool {
        let Some(peer) = self.peers.get_mut(&key) else {
            return true;
        };
        let ConnectedPeer {
            connection,
            key,
            requester,
        } = peer;
        let stopped = self
            .ipsp
            .local(now, *key, |asp| requester.stop(now, asp, connection));
        stopped == Some(true)
    }

    pub(crate) fn is_stopping(&self, key: LinkKey) -> bool {
        let peer = self.peers.get(&key);
        peer.is_none_or(|peer| peer.requester.is_stopping())
    }

    /// Sends a message to the peers, as their traffic mode demands.
    pub(crate) fn transfer(
        &mut self,
        now: Time,
        payload: L::Payload,
    ) -> Result<(), DeliveryError<L::AsId>> {
        let remote = &self.remote;
        self.ipsp
            .remote(now, |gateway| gateway.deliver(remote, payload))
    }
}

impl<L: SocketLayer> Node<L> {
    /// Adds an IP server process and begins to set up its associations. Returns its key and those of the peers.
    pub(crate) fn add_ipsp(
        &mut self,
        config: IpspConfig<L>,
        sgp: GatewayConfig<L>,
    ) -> Result<(IpspKey, Vec<LinkKey>), IpspConfigError<L::AsId>>
    where
        L: IpspLayer,
    {
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

    /// Shuts the association of a peer down, or removes the peer without one; its process is removed with the last one.
    pub(super) fn close_ipsp_peer(&mut self, ipsp: IpspKey, key: LinkKey) {
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

    /// Stages the messages of an IP server process.
    pub(crate) fn stage_ipsp(&mut self, ipsp: IpspKey) {
        while let Some(side) = self.ipsps.get_mut(&ipsp)
            && let Some((peer, transmit)) = side.ipsp.poll_transmit()
        {
            let peer = side.peer_of(peer);
            let id = peer.and_then(|(_, peer)| peer.connection.association());
            self.stage(id, &transmit);
        }
    }

    /// Moves the primitives and messages of an IP server process on.
    pub(super) fn drain_ipsp(&mut self, now: Time, ipsp: IpspKey) {
        let mut closing = Vec::new();
        while let Some(side) = self.ipsps.get_mut(&ipsp)
            && let Some(indication) = side.ipsp.poll_indication()
        {
            let (peer, indication) = match indication {
                IpspIndication::Local(peer, indication) => (peer, indication),
                IpspIndication::Remote(indication) => {
                    let peer = L::asp_of(&indication).and_then(|asp| side.peer_of(asp));
                    let name = peer.map(|(_, peer)| Arc::clone(&peer.connection.name));
                    if let Some(GatewayEvent::Discarded(_, count)) = L::gateway_event(&indication) {
                        self.counters.recovery_expired += count as u64;
                    }
                    let name = name.unwrap_or_else(|| "".into());
                    self.notify(name, EventKind::Sgp(indication));
                    continue;
                }
            };
            let Some((key, peer)) = side.peer_of(peer) else {
                continue;
            };
            let (name, id) = (
                Arc::clone(&peer.connection.name),
                peer.connection.association(),
            );
            let Some(indication) = L::take_asp(self, key, indication) else {
                continue;
            };
            let side = self.ipsps.get_mut(&ipsp);
            if side.is_some_and(|side| side.on_indication(now, key, &indication)) {
                closing.push(key);
            }
            if let Some(AspEvent::PeerUnresponsive) = L::asp_event(&indication) {
                self.abort_unresponsive(id);
            }
            self.notify(name, EventKind::Asp(indication));
        }
        self.stage_ipsp(ipsp);
        if !closing.is_empty() {
            self.flush();
        }
        for key in closing {
            self.close_ipsp_peer(ipsp, key);
        }
    }
}
