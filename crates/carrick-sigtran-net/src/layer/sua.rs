//! SUA on sockets (RFC 3868): messages of the connectionless service, and connections.

use std::collections::{BTreeSet, VecDeque};

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
use carrick_sigtran::sua::sgp::SgpIndication;
use carrick_sigtran::sua::{
    DecodeError, Message, PAYLOAD_PROTOCOL_ID, PORT, Route, RoutingContext, SourceReferenceNumber,
    Sua,
};

use super::m3ua::{deregister, destination_event};
use super::{SocketLayer, asp_of, socket_layer};
use crate::connection::LinkKey;
use crate::event::{Event, EventKind};
use crate::node::Node;
use crate::request::{Ended, RequestError};
use crate::session::{SessionSide, TransferSender};

/// Other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ConnectionPeer {
    /// Gateway.
    Gateway(LinkKey),
    /// Application server; its ASPs share the state of its connections.
    Server(RoutingContext),
}

/// Connections of a session. Without them, connection-oriented messages are received as they are.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Connections {
    table: Option<ConnectionTable<ConnectionPeer>>,
    /// Peers with connections, until they are lost.
    peers: BTreeSet<ConnectionPeer>,
}

impl Connections {
    /// Table without connections.
    pub(crate) fn new(config: ConnectionTableConfig) -> Self {
        Self {
            table: Some(ConnectionTable::new(config)),
            peers: BTreeSet::new(),
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

    type NodeUser = Connections;

    fn asp_of(indication: &SgpIndication) -> Option<AspKey> {
        match indication {
            SgpIndication::Gateway(event) => asp_of(event),
            SgpIndication::Traffic(asp, ..)
            | SgpIndication::Audit(asp, _)
            | SgpIndication::Congestion(asp, _) => Some(*asp),
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
                let (now, peer) = (node.now(), ConnectionPeer::Gateway(link));
                if node.user.take(now, peer, message) {
                    return None;
                }
            }
            AspIndication::State(_) => {}
        }
        node.deliver_from_gateway(link, indication);
        None
    }

    fn take_sgp(node: &mut Node<Self>, indication: SgpIndication) -> Option<SgpIndication> {
        match &indication {
            SgpIndication::Gateway(_) => return Some(indication),
            SgpIndication::Traffic(_, context, message) => {
                let (now, peer) = (node.now(), ConnectionPeer::Server(*context));
                if node.user.take(now, peer, message) {
                    return None;
                }
            }
            SgpIndication::Audit(..) | SgpIndication::Congestion(..) => {}
        }
        node.deliver_from_asp(indication);
        None
    }

    fn node_timeout(connections: &Connections) -> Option<Time> {
        let table = connections.table.as_ref();
        table.and_then(ConnectionTable::poll_timeout)
    }

    fn expire_node(connections: &mut Connections, now: Time) {
        if let Some(table) = &mut connections.table {
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

/// Returns whether connections with a peer continue: the ASP is up at the gateway, or the application server has ASPs that
/// are active or may be again before T(r) expires.
fn is_reachable(node: &Node<Sua>, peer: ConnectionPeer) -> bool {
    match peer {
        ConnectionPeer::Gateway(key) => node.links.get(&key).is_some_and(|link| link.asp.is_up()),
        ConnectionPeer::Server(context) => matches!(
            node.gateway.sgp.as_state(context),
            Some(AsState::Active | AsState::Pending)
        ),
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
        SessionSide::Ipsp(key) => {
            let now = node.now();
            let side = node.ipsps.get_mut(&key).ok_or(RequestError::NotActive)?;
            Ok(side.transfer(now, message)?)
        }
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
        SessionSide::Ipsp(_) => return Err(ConnectError::NoConnections),
        SessionSide::Asp => {
            let keys: Vec<_> = node.links.keys().copied().collect();
            let context = Some(&request.routing_context);
            let key = node.choose_link(&keys, context, None, request.sequence_control.0);
            ConnectionPeer::Gateway(key.ok_or(ConnectError::NotActive)?)
        }
    };
    if !is_reachable(node, peer) {
        return Err(ConnectError::NotActive);
    }
    let table = node.user.table.as_mut();
    let table = table.ok_or(ConnectError::NoConnections)?;
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
    #[error("the session keeps no connections: start it with start_sua_asp or start_sua_gateway")]
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
}
