//! SUA on sockets (RFC 3868): messages of the connectionless service, connections, and the relay function.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::aspm::asp::{Asp, AspEvent};
use carrick_sigtran::aspm::sgp::{AsState, AspKey, GatewayEvent};
use carrick_sigtran::m3ua::route::DestinationEvent;
use carrick_sigtran::message::AffectedPointCode;
use carrick_sigtran::sua::asp::AspIndication;
use carrick_sigtran::sua::connection::{
    ConnectRequest, Connection, ConnectionTable, ConnectionTableConfig, ConnectionTableError,
};
use carrick_sigtran::sua::sgp::{NotRelayed, RelayError, Relayed, SgpIndication};
use carrick_sigtran::sua::translation::TranslationTable;
use carrick_sigtran::sua::{
    ConnectionRequest, DecodeError, Message, NetworkAppearance, PAYLOAD_PROTOCOL_ID, PORT, Route,
    RoutingContext, SourceReferenceNumber, Sua,
};

use super::m3ua::{deregister, destination_event};
use super::{SocketLayer, asp_of, socket_layer};
use crate::connection::LinkKey;
use crate::event::{Event, EventKind};
use crate::node::{IpspKey, IpspSide, Node};
use crate::request::{Ended, RequestError};
use crate::session::{SessionSide, TransferSender};

/// Other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ConnectionPeer {
    /// Gateway.
    Gateway(LinkKey),
    /// Application server; its ASPs share the state of its connections.
    Server(RoutingContext),
    /// Application server of the peers of an IPSP.
    Ipsp(IpspKey),
}

/// Connections of a session, and the relay function of a gateway.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct SuaUser {
    /// Without it, connection-oriented messages are received as they are.
    table: Option<ConnectionTable<ConnectionPeer>>,
    /// Peers with connections, until they are lost.
    peers: BTreeSet<ConnectionPeer>,
    /// Rules of the relay function; without it, no message is relayed.
    translations: Option<TranslationTable>,
}

impl SuaUser {
    /// User without connections yet.
    pub(crate) fn new(
        connections: Option<ConnectionTableConfig>,
        translations: Option<TranslationTable>,
    ) -> Self {
        Self {
            table: connections.map(ConnectionTable::new),
            peers: BTreeSet::new(),
            translations,
        }
    }

    /// Returns whether a connection-oriented message was handled.
    fn take(&mut self, now: Time, peer: ConnectionPeer, message: &Message) -> bool {
        let is_connectionless = matches!(
            message,
            Message::ConnectionlessDataTransfer(_) | Message::ConnectionlessDataResponse(_)
        );
        let Some(table) = self.table.as_mut().filter(|_| !is_connectionless) else {
            return false;
        };
        self.peers.insert(peer);
        table.handle_message(now, &peer, message);
        true
    }
}

impl SocketLayer for Sua {
    socket_layer!(AspIndication, SgpIndication);

    type NodeUser = SuaUser;

    fn asp_of(indication: &SgpIndication) -> Option<AspKey> {
        match indication {
            SgpIndication::Gateway(event) => asp_of(event),
            SgpIndication::Traffic(asp, ..)
            | SgpIndication::Audit(asp, _)
            | SgpIndication::Congestion(asp, _) => Some(*asp),
            SgpIndication::Returned(_) => None,
        }
    }

    fn destination_event(indication: &AspIndication) -> Option<DestinationEvent> {
        destination_event::<Self>(indication)
    }

    fn deregister(asp: &mut Asp<Self>, now: Time, ids: Vec<RoutingContext>) {
        deregister(asp, now, ids);
    }

    fn take_asp(
        node: &mut Node<Self>,
        link: LinkKey,
        indication: AspIndication,
    ) -> Option<AspIndication> {
        match &indication {
            AspIndication::Asp(_) => return Some(indication),
            AspIndication::Traffic(_, message) => {
                let mut ipsps = node.ipsps.iter();
                let ipsp = ipsps.find(|(_, side)| side.peers.contains_key(&link));
                let ipsp = ipsp.map(|(key, _)| ConnectionPeer::Ipsp(*key));
                let peer = ipsp.unwrap_or(ConnectionPeer::Gateway(link));
                let now = node.now();
                if node.user.take(now, peer, message) {
                    return None;
                }
            }
            AspIndication::State(_) => {}
        }
        node.deliver_from_gateway(link, indication);
        None
    }

    fn take_sgp(node: &mut Node<Self>, mut indication: SgpIndication) -> Option<SgpIndication> {
        match &mut indication {
            SgpIndication::Gateway(_) => return Some(indication),
            SgpIndication::Traffic(asp, context, message) => {
                let (now, peer) = (node.now(), ConnectionPeer::Server(*context));
                if relay(node, *asp, *context, message) || node.user.take(now, peer, message) {
                    return None;
                }
            }
            // The COREF of a connection of the table.
            SgpIndication::Returned(message) => {
                let context = message.routing_context();
                let peer = context.map(ConnectionPeer::Server);
                if peer.is_some_and(|peer| node.user.take(node.now(), peer, message)) {
                    return None;
                }
            }
            SgpIndication::Audit(..) | SgpIndication::Congestion(..) => {}
        }
        node.deliver_from_asp(indication);
        None
    }

    fn node_timeout(user: &SuaUser) -> Option<Time> {
        let table = user.table.as_ref();
        table.and_then(ConnectionTable::poll_timeout)
    }

    fn expire_node(user: &mut SuaUser, now: Time) {
        if let Some(table) = &mut user.table {
            table.handle_timeout(now);
        }
    }

    fn drain_node(node: &mut Node<Self>, now: Time) {
        let peers: Vec<_> = node.user.peers.iter().copied().collect();
        for peer in peers {
            if !is_reachable(node, peer)
                && let Some(table) = &mut node.user.table
            {
                node.user.peers.remove(&peer);
                table.handle_association_loss(now, &peer);
            }
        }
        while let Some(table) = &mut node.user.table
            && let Some((peer, message)) = table.poll_transmit()
        {
            // The timers of a connection handle the loss of a message.
            let _ = match peer {
                ConnectionPeer::Gateway(key) => send_to_gateway(node, key, message),
                ConnectionPeer::Server(context) => send_to_server(node, context, message),
                ConnectionPeer::Ipsp(key) => send_to_peers(node, key, message),
            };
        }
        while let Some(table) = &mut node.user.table
            && let Some((reference, indication)) = table.poll_indication()
        {
            node.transfers.push(Event {
                peer: "".into(),
                kind: EventKind::Connection(reference, Box::new(indication)),
            });
        }
    }
}

/// Relays a message of an ASP (section 1.5.3):
///
/// 1. A CLDT, CLDR or CORE is delivered to the application server of its destination, in the network of the sender's,
///    unless the queue to each of its ASPs is full.
/// 2. With a table of connections, the connection section of a CORE is coupled with one to the application server.
/// 3. A message for the network, with its new address, and any other message are left to the user.
/// 4. A message that is not relayed is an event, and its answer goes to the ASP that sent it.
///
/// Returns whether nothing is left to the user.
fn relay(
    node: &mut Node<Sua>,
    asp: AspKey,
    context: RoutingContext,
    message: &mut Message,
) -> bool {
    let server = node.gateway.sgp.application_server(context);
    let network = server.and_then(|server| server.network_appearance);
    let result = match message {
        Message::ConnectionRequest(request) if node.user.table.is_some() => {
            couple(node, context, network, request)
        }
        _ => relay_message(node, asp, network, message),
    };
    match result {
        Ok(is_relayed) => is_relayed,
        Err(NotRelayed {
            error: RelayError::NoDestination,
            ..
        }) => false,
        Err(NotRelayed { error, answer }) => {
            if let Some(answer) = answer {
                node.gateway.sgp.reply(asp, *answer);
            }
            let peer = node.gateway.asps.get(&asp);
            let name = peer.map(|peer| Arc::clone(&peer.name));
            let name = name.unwrap_or_else(|| "".into());
            node.notify(name, EventKind::NotRelayed(error));
            true
        }
    }
}

/// Couples the connection section of a CORE with one to its destination. Returns whether that is an application server.
fn couple(
    node: &mut Node<Sua>,
    context: RoutingContext,
    network: Option<NetworkAppearance>,
    request: &mut ConnectionRequest,
) -> Result<bool, NotRelayed> {
    let now = node.now();
    let (Some(translations), Some(table)) = (&node.user.translations, &mut node.user.table) else {
        return Ok(false);
    };
    let received = request.clone();
    let sgp = &node.gateway.sgp;
    if !sgp.relay_request(translations, network, request)? {
        return Ok(false);
    }
    let [from, to] = [context, request.routing_context].map(ConnectionPeer::Server);
    table.relay(now, &from, &received, to, request.clone());
    node.user.peers.extend([from, to]);
    Ok(true)
}

/// Delivers a message to the application server of its destination. Returns whether it has one.
fn relay_message(
    node: &mut Node<Sua>,
    asp: AspKey,
    network: Option<NetworkAppearance>,
    message: &mut Message,
) -> Result<bool, NotRelayed> {
    // What was queued before is not counted with the message.
    node.stage_gateway();
    let Some(translations) = &node.user.translations else {
        return Ok(false);
    };
    let sgp = &mut node.gateway.sgp;
    if let Relayed::Network(relayed) = sgp.relay(Some(asp), translations, network, message)? {
        *message = *relayed;
        return Ok(false);
    }
    let congested = node.counters.congested;
    if !node.stage_gateway() && node.counters.congested > congested {
        return Err(NotRelayed::new(RelayError::Congestion, message));
    }
    Ok(true)
}

/// Returns whether connections with a peer continue: the ASP is up at the gateway, or the application server has ASPs or
/// IPSPs that are active or may be again before T(r) expires.
fn is_reachable(node: &Node<Sua>, peer: ConnectionPeer) -> bool {
    match peer {
        ConnectionPeer::Gateway(key) => node.links.get(&key).is_some_and(|link| link.asp.is_up()),
        ConnectionPeer::Server(context) => matches!(
            node.gateway.sgp.as_state(context),
            Some(AsState::Active | AsState::Pending)
        ),
        ConnectionPeer::Ipsp(key) => (node.ipsps.get(&key)).is_some_and(IpspSide::is_usable),
    }
}

fn send_to_gateway(
    node: &mut Node<Sua>,
    key: LinkKey,
    message: Message,
) -> Result<(), RequestError<RoutingContext>> {
    let link = node.links.get_mut(&key).ok_or(RequestError::NotActive)?;
    link.asp.transfer(message)?;
    node.stage_link(key);
    Ok(())
}

fn send_to_server(
    node: &mut Node<Sua>,
    context: RoutingContext,
    message: Message,
) -> Result<(), RequestError<RoutingContext>> {
    node.gateway.sgp.deliver(&context, message)?;
    node.stage_gateway();
    Ok(())
}

fn send_to_peers(
    node: &mut Node<Sua>,
    key: IpspKey,
    message: Message,
) -> Result<(), RequestError<RoutingContext>> {
    let now = node.now();
    let side = node.ipsps.get_mut(&key).ok_or(RequestError::NotActive)?;
    side.transfer(now, message)?;
    node.stage_ipsp(key);
    Ok(())
}

/// Returns the gateway for a message: one at which the ASP is active and that reaches the destination, by its signalling
/// link selection.
fn choose_gateway(node: &Node<Sua>, message: &Message) -> Option<LinkKey> {
    let (destination, selection) = match message {
        Message::ConnectionlessDataTransfer(body) => {
            (Some(&body.destination.0), body.sequence_control.0)
        }
        Message::ConnectionlessDataResponse(body) => (Some(&body.destination.0), 0),
        Message::ConnectionRequest(body) => (Some(&body.destination.0), body.source_reference.0),
        _ => (None, 0),
    };
    let point_code = destination.and_then(|address| match address.route {
        Route::PointCode { point_code, .. } | Route::GlobalTitle { point_code, .. } => point_code,
        Route::HostName { .. } | Route::IpAddress { .. } => None,
    });
    let keys: Vec<_> = node.links.keys().copied().collect();
    let destination = point_code.map(AffectedPointCode::single);
    node.choose_link(
        &keys,
        message.routing_context().as_ref(),
        destination,
        selection,
    )
}

/// Sends a message of the user.
fn send(
    node: &mut Node<Sua>,
    side: SessionSide,
    message: Message,
) -> Result<(), RequestError<RoutingContext>> {
    let context = message.routing_context();
    match side {
        SessionSide::Gateway => {
            let context = context.ok_or(RequestError::NotActive)?;
            send_to_server(node, context, message)
        }
        SessionSide::Asp => {
            let key = choose_gateway(node, &message).ok_or(RequestError::NotActive)?;
            send_to_gateway(node, key, message)
        }
        SessionSide::Ipsp(key) => send_to_peers(node, key, message),
    }
}

/// Requests a connection.
fn connect(
    node: &mut Node<Sua>,
    side: SessionSide,
    mut request: ConnectRequest,
) -> Result<SourceReferenceNumber, ConnectError> {
    let now = node.now();
    let peer = match side {
        SessionSide::Gateway => ConnectionPeer::Server(request.routing_context),
        SessionSide::Ipsp(key) => ConnectionPeer::Ipsp(key),
        SessionSide::Asp => {
            let keys: Vec<_> = node.links.keys().copied().collect();
            let context = Some(&request.routing_context);
            let key = node.choose_link(&keys, context, None, request.sequence_control.0);
            ConnectionPeer::Gateway(key.ok_or(ConnectError::NotActive)?)
        }
    };
    let is_reachable = is_reachable(node, peer);
    let table = node.user.table.as_mut();
    let table = table.ok_or(ConnectError::NoConnections)?;
    if !is_reachable {
        return Err(ConnectError::NotActive);
    }
    let reference = table.request(now, peer, |reference| {
        request.local_reference = reference;
        request
    })?;
    node.user.peers.insert(peer);
    Ok(reference)
}

/// Reason for which a connection was not requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The ASP is not active at any gateway, or no ASP is active in the application server of a gateway.
    #[error("no peer is active in the application server: wait for its state")]
    NotActive,
    /// The session keeps no connections.
    #[error(
        "the session keeps no connections: start a gateway, an ASP or an IPSP of SUA with them"
    )]
    NoConnections,
    /// There is no room, or the request is invalid.
    #[error(transparent)]
    Table(#[from] ConnectionTableError),
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

impl From<Ended> for ConnectError {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

impl TransferSender<Sua> {
    /// Sends connectionless or connection-oriented messages in their order, as [`TransferSender::send_many`] does in M3UA.
    /// A gateway sends each to the application server of its routing context, an ASP to a gateway that reaches the
    /// destination, an IPSP to the application server of its peers.
    ///
    /// # Errors
    /// [`RequestError`] about the first message that is left; it may be sent again.
    pub async fn send_messages(
        &self,
        messages: &mut VecDeque<Message>,
    ) -> Result<(), RequestError<RoutingContext>> {
        self.send_each(messages, send).await
    }

    /// Requests a connection: N-CONNECT request. Its local reference number is assigned and returned; its indications are
    /// events [`EventKind::Connection`] of the receiver.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(
        &self,
        request: ConnectRequest,
    ) -> Result<SourceReferenceNumber, ConnectError> {
        let side = self.side;
        self.run(move |node| connect(node, side, request)).await?
    }

    /// Makes requests of the user on a connection, such as [`Connection::accept`] and [`Connection::send`]. Returns `None`
    /// if the connection has ended.
    ///
    /// # Errors
    /// [`Ended`].
    pub async fn connection<R: Send + 'static>(
        &self,
        reference: SourceReferenceNumber,
        request: impl FnOnce(&mut Connection, Time) -> R + Send + 'static,
    ) -> Result<Option<R>, Ended> {
        self.run(move |node| {
            let now = node.now();
            let table = node.user.table.as_mut()?;
            table.change(now, reference, |connection| request(connection, now))
        })
        .await
    }

    /// Changes the rules of a gateway that relays, such as by [`TranslationTable::add`] and [`TranslationTable::remove`].
    /// Returns `None` if it was started without a table.
    ///
    /// # Errors
    /// [`Ended`].
    pub async fn translations<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut TranslationTable) -> R + Send + 'static,
    ) -> Result<Option<R>, Ended> {
        self.run(move |node| node.user.translations.as_mut().map(change))
            .await
    }
}
