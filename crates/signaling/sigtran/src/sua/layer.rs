//! SUA as a layer with ASPs.

use bytes::Bytes;
use carrick_proto::Time;

use super::asp::{Asp, AspApplicationServer, AspIndication};
use super::sgp::{
    ApplicationServerConfig, SgpIndication, SgpUser, SignallingGatewayProcess, report,
};
use super::{
    AspActive, AspActiveAck, AspInactive, CorrelationId, DecodeError, DeregistrationRequest,
    DiagnosticInformation, DrnLabel, ErrorCode, ErrorMessage, LabelPosition, Message, Notify,
    RoutingContext, RoutingContexts, Status, TidLabel, TrafficMode, kinds, traffic,
};
use crate::aspm::sgp::{AspKey, DeliveryError, DividedRequest};
use crate::aspm::{Activation, AsIds, Layer, Maintenance, maintenance};
use crate::m3ua::NetworkAppearance;
use crate::m3ua::route::{DestinationEvent, GatewayRoutes, RouteInput, Ss7Layer, ss7_layer};
use crate::message::{AspIdentifier, MessageKind};

/// SUA: an application server is identified by its routing context.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sua;

/// Labels of an ASP in load sharing (section 4.7.2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Labels {
    /// Label in the transaction identifiers of the ASP.
    pub tid: Option<TidLabel>,
    /// Label in the reference numbers of the ASP's connections.
    pub drn: Option<DrnLabel>,
}

impl Labels {
    /// Returns the positions and values of both labels.
    fn parts(&self) -> [Option<(LabelPosition, u16)>; 2] {
        [
            self.tid.map(|tid| (tid.position, tid.label)),
            self.drn.map(|drn| (drn.position, drn.label)),
        ]
    }
}

impl Layer for Sua {
    type Label = Labels;
    type Payload = Message;

    const UNDEFINED_AS: ErrorCode = ErrorCode::INVALID_ROUTING_CONTEXT;
    const ACK_HAS_LIST: bool = true;

    ss7_layer!();

    fn divide_registration(octets: &Bytes) -> Option<DividedRequest<Message>> {
        super::sgp::divide_registration(octets)
    }

    fn read(message: &Message) -> Option<Maintenance<Self>> {
        let activation = |body: &AspActive| Activation {
            traffic_mode: body.traffic_mode,
            label: Labels {
                tid: body.tid_label,
                drn: body.drn_label,
            },
        };
        maintenance!(read message, activation, std::convert::identity, Self::ids)
    }

    fn write(content: Maintenance<Self>) -> Message {
        maintenance!(
            write content,
            |activation: Activation<Labels>, ids| AspActive {
                traffic_mode: activation.traffic_mode,
                routing_contexts: RoutingContexts::of(ids),
                tid_label: activation.label.tid,
                drn_label: activation.label.drn,
                info: None,
            },
            |traffic_mode, ids| AspActiveAck {
                traffic_mode,
                routing_contexts: RoutingContexts::of(ids).unwrap_or(RoutingContexts(Vec::new())),
                info: None,
            },
            AspInactive::of
        )
    }

    fn ids(message: &Message) -> Option<AsIds<RoutingContext>> {
        let contexts = match message {
            Message::Error(body) => body.routing_contexts.clone(),
            Message::Notify(body) => body.routing_contexts.clone(),
            Message::DestinationUnavailable(body)
            | Message::DestinationAvailable(body)
            | Message::DestinationRestricted(body) => body.routing_contexts.clone(),
            Message::DestinationStateAudit(body) => body.routing_contexts.clone(),
            Message::SignallingCongestion(body) => body.routing_contexts.clone(),
            Message::UserPartUnavailable(body) => body.routing_contexts.clone(),
            Message::AspActive(body) => body.routing_contexts.clone(),
            Message::AspActiveAck(body) => Some(body.routing_contexts.clone()),
            Message::AspInactive(body) | Message::AspInactiveAck(body) => {
                body.routing_contexts.clone()
            }
            Message::DeregistrationRequest(body) => Some(body.routing_contexts.clone()),
            other => RoutingContexts::new(other.routing_context()),
        };
        contexts.and_then(AsIds::from_contexts)
    }

    fn served_id(served: &AspApplicationServer) -> Option<RoutingContext> {
        Some(served.routing_context)
    }

    fn activation(served: &AspApplicationServer) -> Activation<Labels> {
        Activation {
            traffic_mode: served.traffic_mode,
            label: served.labels,
        }
    }

    fn set_served_id(served: &mut AspApplicationServer, id: RoutingContext) {
        served.routing_context = id;
    }

    /// An N-PCSTATE indication of all signalling points.
    fn lost(served: &AspApplicationServer) -> Option<AspIndication> {
        let contexts = RoutingContexts::new([served.routing_context]);
        let event = crate::m3ua::route::unavailable_network();
        Some(AspIndication::State(Box::new(report(&event, contexts))))
    }

    fn overlapping(
        gateway: &SignallingGatewayProcess,
        server: &ApplicationServerConfig,
    ) -> Option<RoutingContext> {
        gateway.user.keys.overlapping(server)
    }

    /// Labels are at the same positions in an application server, and each has another value (section 4.7.2.1).
    fn fits(label: &Labels, others: &[&Labels]) -> bool {
        others.iter().all(|other| {
            let mut pairs = label.parts().into_iter().zip(other.parts());
            pairs.all(|pair| match pair {
                (Some((position, label)), Some((other_position, other))) => {
                    position == other_position && label != other
                }
                (None, None) => true,
                _ => false,
            })
        })
    }

    fn octets(payload: &Message) -> usize {
        traffic::octets(payload)
    }

    fn flow(payload: &Message) -> u32 {
        traffic::flow(payload)
    }

    fn is_labelled(payload: &Message, labels: &Labels) -> Option<bool> {
        traffic::is_labelled(payload, labels)
    }

    /// Returns or refuses the message (section 1.5.1).
    fn discarded(
        gateway: &mut SignallingGatewayProcess,
        sender: Option<AspKey>,
        payload: Message,
        error: DeliveryError<RoutingContext>,
    ) {
        gateway.on_discarded(sender, &payload, error);
    }

    fn deliver(
        server: &ApplicationServerConfig,
        mut payload: Message,
        correlation_id: Option<CorrelationId>,
    ) -> Message {
        payload.set_routing_context(server.routing_context);
        if correlation_id.is_some() {
            payload.set_correlation_id(correlation_id);
        }
        payload
    }
}

impl Ss7Layer for Sua {
    fn network(server: &ApplicationServerConfig) -> Option<NetworkAppearance> {
        server.network()
    }

    fn served_network(served: &AspApplicationServer) -> Option<NetworkAppearance> {
        served.network_appearance.map(Into::into)
    }

    fn routes(user: &SgpUser) -> &GatewayRoutes {
        &user.routes
    }

    fn routes_mut(user: &mut SgpUser) -> &mut GatewayRoutes {
        &mut user.routes
    }

    fn report(
        event: &DestinationEvent,
        _network: Option<NetworkAppearance>,
        contexts: Option<RoutingContexts>,
    ) -> Message {
        report(event, contexts)
    }

    fn deregistration(routing_contexts: RoutingContexts) -> Message {
        Message::DeregistrationRequest(DeregistrationRequest { routing_contexts })
    }

    fn route_input(indication: &AspIndication) -> Option<RouteInput> {
        match indication {
            AspIndication::Asp(event) => event.route_input(),
            AspIndication::State(message) => super::asp::route_input(message),
            AspIndication::Traffic(..) => None,
        }
    }
}
