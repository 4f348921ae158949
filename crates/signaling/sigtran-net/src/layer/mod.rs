//! Layers on sockets: what the node needs of each beyond `carrick_sigtran::aspm`.

mod iua;
mod m2ua;
mod m3ua;
mod sua;

pub use sua::ConnectError;
pub(crate) use sua::SuaUser;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::aspm::Layer;
use carrick_sigtran::aspm::asp::{Asp, AspEvent};
use carrick_sigtran::aspm::sgp::{AspKey, GatewayEvent};
use carrick_sigtran::m3ua::RoutingKey;
use carrick_sigtran::m3ua::route::DestinationEvent;
use carrick_sigtran::message::DecodeError;

use crate::connection::LinkKey;
use crate::node::Node;

/// Adaptation layer on sockets: M3UA, SUA, M2UA or IUA.
pub trait SocketLayer:
    Layer<
        AsId: Send,
        Label: Send,
        Message: Send,
        Notify: Send,
        ErrorMessage: Send,
        Served: Send,
        Server: Send,
        Payload: Send,
        AspUser: Send,
        User: Send,
        AspIndication: Clone + PartialEq + Send,
        SgpIndication: Clone + PartialEq + Send,
    > + Send
{
    /// SCTP port of the layer.
    const PORT: u16;
    /// SCTP payload protocol identifier of the layer.
    const PAYLOAD_PROTOCOL_ID: u32;

    /// Indication that the receiver of a session returns: [`Received`](crate::Received) in M3UA,
    /// [`Event`](crate::Event) in the other layers.
    type Received: Send;
    /// Indication to the user before it leaves the node.
    #[doc(hidden)]
    type Transfer: Send;
    /// State of the user of a node.
    #[doc(hidden)]
    type NodeUser: Default + Send;

    /// Decodes a message.
    ///
    /// # Errors
    /// [`DecodeError`] if it is malformed.
    fn decode(octets: &Bytes) -> Result<Self::Message, DecodeError>;

    /// Returns the primitive to layer management, `None` for a primitive to the user.
    fn asp_event(indication: &Self::AspIndication) -> Option<AspEvent<Self>>;

    /// Returns the primitive to layer management, `None` for a primitive to the user.
    fn gateway_event(indication: &Self::SgpIndication) -> Option<GatewayEvent<Self>>;

    /// Returns the ASP that a primitive of a gateway concerns, `None` if it concerns an application server.
    fn asp_of(indication: &Self::SgpIndication) -> Option<AspKey> {
        Self::gateway_event(indication).and_then(|event| asp_of(&event))
    }

    /// Returns the name of a registration's status.
    fn registration_status(_status: u32) -> Option<&'static str> {
        None
    }

    /// Returns the change of a destination that a gateway reports.
    fn destination_event(_indication: &Self::AspIndication) -> Option<DestinationEvent> {
        None
    }

    /// Requests registrations of these routing keys.
    #[doc(hidden)]
    fn register(_asp: &mut Asp<Self>, _now: Time, _keys: Vec<RoutingKey>) {}

    /// Requests the end of registrations.
    #[doc(hidden)]
    fn deregister(asp: &mut Asp<Self>, now: Time, ids: Vec<Self::AsId>);

    /// Takes an indication for the user of an ASP; returns any other one.
    #[doc(hidden)]
    fn take_asp(
        node: &mut Node<Self>,
        link: LinkKey,
        indication: Self::AspIndication,
    ) -> Option<Self::AspIndication>;

    /// Takes an indication for the user of a gateway; returns any other one.
    #[doc(hidden)]
    fn take_sgp(
        node: &mut Node<Self>,
        indication: Self::SgpIndication,
    ) -> Option<Self::SgpIndication>;

    /// Returns the indication as the receiver of a session returns it.
    #[doc(hidden)]
    fn received(node: &Node<Self>, transfer: Self::Transfer) -> Self::Received;

    /// Returns the next timeout of the node's user.
    #[doc(hidden)]
    fn node_timeout(_user: &Self::NodeUser) -> Option<Time> {
        None
    }

    /// Handles the timers of the node's user.
    #[doc(hidden)]
    fn expire_node(_user: &mut Self::NodeUser, _now: Time) {}

    /// Moves the primitives and messages of the node's user on.
    #[doc(hidden)]
    fn drain_node(_node: &mut Node<Self>, _now: Time) {}
}

/// Returns the ASP that a primitive to layer management concerns.
fn asp_of<L: Layer>(event: &GatewayEvent<L>) -> Option<AspKey> {
    match event {
        GatewayEvent::SctpStatus(asp, _)
        | GatewayEvent::AspUp(asp)
        | GatewayEvent::AspDown(asp)
        | GatewayEvent::AspActive(asp, _)
        | GatewayEvent::AspInactive(asp, _)
        | GatewayEvent::Registered(asp, _)
        | GatewayEvent::Deregistered(asp, _)
        | GatewayEvent::Notify(asp, _)
        | GatewayEvent::Error(asp, _)
        | GatewayEvent::PeerError(asp, _)
        | GatewayEvent::PeerUnresponsive(asp) => Some(*asp),
        GatewayEvent::AsStatus(..) | GatewayEvent::Discarded(..) => None,
    }
}

/// Implements [`SocketLayer`] where primitives to the user are events: SUA, M2UA and IUA.
macro_rules! socket_layer {
    ($asp:ident, $sgp:ident) => {
        const PORT: u16 = PORT;
        const PAYLOAD_PROTOCOL_ID: u32 = PAYLOAD_PROTOCOL_ID;

        type Received = Event<Self>;
        type Transfer = Event<Self>;

        fn decode(octets: &Bytes) -> Result<Message, DecodeError> {
            Message::decode(octets)
        }

        fn asp_event(indication: &$asp) -> Option<AspEvent<Self>> {
            match indication {
                $asp::Asp(event) => Some(event.clone()),
                _ => None,
            }
        }

        fn gateway_event(indication: &$sgp) -> Option<GatewayEvent<Self>> {
            match indication {
                $sgp::Gateway(event) => Some(event.clone()),
                _ => None,
            }
        }

        fn received(_node: &Node<Self>, transfer: Event<Self>) -> Event<Self> {
            transfer
        }
    };
}
pub(super) use socket_layer;

/// Implements the delivery of all primitives to the user.
macro_rules! deliver_all {
    ($asp:ident, $sgp:ident) => {
        type NodeUser = ();

        fn take_asp(node: &mut Node<Self>, link: LinkKey, indication: $asp) -> Option<$asp> {
            if matches!(indication, $asp::Asp(_)) {
                return Some(indication);
            }
            node.deliver_from_gateway(link, indication);
            None
        }

        fn take_sgp(node: &mut Node<Self>, indication: $sgp) -> Option<$sgp> {
            if matches!(indication, $sgp::Gateway(_)) {
                return Some(indication);
            }
            node.deliver_from_asp(indication);
            None
        }
    };
}
pub(super) use deliver_all;
