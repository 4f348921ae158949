//! M3UA on sockets (RFC 4666).

use std::sync::Arc;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::aspm::asp::{Asp, AspEvent};
use carrick_sigtran::aspm::sgp::{AspKey, GatewayEvent};
use carrick_sigtran::m3ua::asp::AspIndication;
use carrick_sigtran::m3ua::route::{DestinationEvent, RouteInput, Ss7Layer};
use carrick_sigtran::m3ua::sgp::SgpIndication;
use carrick_sigtran::m3ua::{
    DecodeError, M3ua, Message, PAYLOAD_PROTOCOL_ID, PORT, RegistrationStatus, RoutingContext,
    RoutingContexts, RoutingKey,
};

use super::SocketLayer;
use crate::connection::LinkKey;
use crate::node::{Node, NodeTransfer, Origin};
use crate::session::Received;

impl SocketLayer for M3ua {
    const PORT: u16 = PORT;
    const PAYLOAD_PROTOCOL_ID: u32 = PAYLOAD_PROTOCOL_ID;

    type Received = Received;
    type Transfer = NodeTransfer;
    type NodeUser = ();

    fn decode(octets: &Bytes) -> Result<Message, DecodeError> {
        Message::decode(octets)
    }

    fn asp_event(indication: &AspIndication) -> Option<AspEvent<Self>> {
        if let AspIndication::Transfer(_) = indication {
            return None;
        }
        Some(match indication.clone() {
            AspIndication::SctpStatus(notification) => AspEvent::SctpStatus(notification),
            AspIndication::AspUp(result) => AspEvent::AspUp(result),
            AspIndication::AspDown(result) => AspEvent::AspDown(result),
            AspIndication::AspActive(context, result) => AspEvent::AspActive(context, result),
            AspIndication::AspInactive(context, result) => AspEvent::AspInactive(context, result),
            AspIndication::AspStatus(context, state) => AspEvent::AspStatus(context, state),
            AspIndication::Registered(key, result) => {
                let result = result.map_err(|status| status.map(|status| status.0));
                AspEvent::Registered(key.0, result)
            }
            AspIndication::Deregistered(result) => {
                AspEvent::Deregistered(result.routing_context, result.status.0)
            }
            AspIndication::Notify(notify) => AspEvent::Notify(notify),
            AspIndication::Error(error) => AspEvent::Error(error),
            AspIndication::PeerError(error) => AspEvent::PeerError(error),
            AspIndication::PeerUnresponsive => AspEvent::PeerUnresponsive,
            _ => return None,
        })
    }

    fn gateway_event(indication: &SgpIndication) -> Option<GatewayEvent<Self>> {
        Some(match indication.clone() {
            SgpIndication::SctpStatus(asp, notification) => {
                GatewayEvent::SctpStatus(asp, notification)
            }
            SgpIndication::AspUp(asp) => GatewayEvent::AspUp(asp),
            SgpIndication::AspDown(asp) => GatewayEvent::AspDown(asp),
            SgpIndication::AspActive(asp, context) => GatewayEvent::AspActive(asp, context),
            SgpIndication::AspInactive(asp, context) => GatewayEvent::AspInactive(asp, context),
            SgpIndication::AsStatus(context, state) => GatewayEvent::AsStatus(context, state),
            SgpIndication::Registered(asp, context) => GatewayEvent::Registered(asp, context),
            SgpIndication::Deregistered(asp, context) => GatewayEvent::Deregistered(asp, context),
            SgpIndication::Notify(asp, notify) => GatewayEvent::Notify(asp, notify),
            SgpIndication::Error(asp, error) => GatewayEvent::Error(asp, error),
            SgpIndication::PeerError(asp, error) => GatewayEvent::PeerError(asp, error),
            SgpIndication::PeerUnresponsive(asp) => GatewayEvent::PeerUnresponsive(asp),
            SgpIndication::Discarded(context, count) => GatewayEvent::Discarded(context, count),
            _ => return None,
        })
    }

    fn asp_of(indication: &SgpIndication) -> Option<AspKey> {
        indication.asp()
    }

    fn registration_status(status: u32) -> Option<&'static str> {
        RegistrationStatus(status).name()
    }

    fn destination_event(indication: &AspIndication) -> Option<DestinationEvent> {
        destination_event::<Self>(indication)
    }

    fn register(asp: &mut Asp<Self>, now: Time, keys: Vec<RoutingKey>) {
        // The ASP is up; requests that are outstanding are not repeated.
        let _ = asp.register(now, keys);
    }

    fn deregister(asp: &mut Asp<Self>, now: Time, ids: Vec<RoutingContext>) {
        deregister(asp, now, ids);
    }

    fn take_asp(
        node: &mut Node<Self>,
        link: LinkKey,
        indication: AspIndication,
    ) -> Option<AspIndication> {
        let AspIndication::Transfer(data) = indication else {
            return Some(indication);
        };
        let origin = Origin::Link(link);
        node.transfers.push(NodeTransfer { origin, data });
        None
    }

    fn take_sgp(node: &mut Node<Self>, indication: SgpIndication) -> Option<SgpIndication> {
        let SgpIndication::Transfer(key, context, data) = indication else {
            return Some(indication);
        };
        let origin = Origin::Asp(key, context);
        node.transfers.push(NodeTransfer { origin, data });
        None
    }

    fn received(node: &Node<Self>, transfer: NodeTransfer) -> Received {
        let peer = match transfer.origin {
            Origin::Link(key) | Origin::Returned(key) => node.name(key),
            Origin::Asp(key, _) => node.gateway.asps.get(&key).map(|asp| Arc::clone(&asp.name)),
        };
        let context = match transfer.origin {
            Origin::Link(_) | Origin::Returned(_) => transfer.data.routing_context,
            Origin::Asp(_, context) => Some(context),
        };
        Received {
            peer: peer.unwrap_or_else(|| "".into()),
            routing_context: context,
            network_appearance: transfer.data.network_appearance,
            protocol_data: transfer.data.protocol_data,
        }
    }

    /// Links over M2PA.
    fn drain_node(node: &mut Node<Self>, _now: Time) {
        let keys: Vec<_> = node.m2pas.keys().copied().collect();
        for key in keys {
            node.drain_m2pa(key);
        }
    }
}

/// Returns the change of a destination that a gateway reports.
pub(super) fn destination_event<L: Ss7Layer>(
    indication: &L::AspIndication,
) -> Option<DestinationEvent> {
    match L::route_input(indication)? {
        RouteInput::Report(_, _, event) => Some(event),
        RouteInput::State(..) => None,
    }
}

/// Requests the end of registrations.
pub(super) fn deregister<L: Ss7Layer>(asp: &mut Asp<L>, now: Time, ids: Vec<RoutingContext>) {
    if let Some(contexts) = RoutingContexts::new(ids) {
        // The ASP serves them.
        let _ = asp.deregister(now, contexts);
    }
}
