//! M3UA as a layer with ASPs.

use bytes::Bytes;
use carrick_proto::Time;

use super::asp::{Asp, AspApplicationServer, AspIndication};
use super::route::{DestinationEvent, GatewayRoutes, RouteInput, Ss7Layer, ss7_layer};
use super::sgp::{
    ApplicationServerConfig, AspKey, SgpIndication, SgpUser, SignallingGatewayProcess,
};
use super::{
    AffectedPointCode, AffectedPointCodes, AspActive, AspInactive, CorrelationId, Data,
    DecodeError, DeregistrationRequest, DestinationState, DiagnosticInformation, ErrorCode,
    ErrorMessage, Message, NetworkAppearance, Notify, ProtocolData, RoutingContext,
    RoutingContexts, Status, TrafficMode, kinds,
};
use crate::aspm::sgp::DividedRequest;
use crate::aspm::{Activation, AsIds, Layer, Maintenance, unlabelled};
use crate::message::{AspIdentifier, MessageKind};

/// M3UA: an application server is identified by its routing context.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct M3ua;

impl Layer for M3ua {
    type Label = ();
    type Payload = ProtocolData;

    const UNDEFINED_AS: ErrorCode = ErrorCode::NO_CONFIGURED_AS;

    ss7_layer!();

    fn divide_registration(octets: &Bytes) -> Option<DividedRequest<Message>> {
        super::sgp::divide_registration(octets)
    }

    unlabelled!(routing_contexts: RoutingContexts, std::convert::identity, std::convert::identity);

    fn ids(message: &Message) -> Option<AsIds<RoutingContext>> {
        message.routing_contexts().and_then(AsIds::from_contexts)
    }

    fn served_id(served: &AspApplicationServer) -> Option<RoutingContext> {
        served.routing_context
    }

    fn activation(served: &AspApplicationServer) -> Activation<()> {
        Activation {
            traffic_mode: served.traffic_mode,
            label: (),
        }
    }

    fn set_served_id(served: &mut AspApplicationServer, id: RoutingContext) {
        served.routing_context = Some(id);
    }

    /// An MTP-PAUSE of all destinations.
    fn lost(served: &AspApplicationServer) -> Option<AspIndication> {
        Some(AspIndication::MtpPause(DestinationState {
            network_appearance: served.network_appearance,
            routing_contexts: RoutingContexts::new(served.routing_context),
            affected: AffectedPointCodes(vec![AffectedPointCode::ALL]),
            info: None,
        }))
    }

    fn overlapping(
        gateway: &SignallingGatewayProcess,
        server: &ApplicationServerConfig,
    ) -> Option<RoutingContext> {
        let keys = &gateway.user.keys;
        keys.overlapping(server.network_appearance, &server.destinations)
    }

    fn octets(payload: &ProtocolData) -> usize {
        payload.user_data.len()
    }

    fn flow(payload: &ProtocolData) -> u32 {
        payload.sls.into()
    }

    fn deliver(
        server: &ApplicationServerConfig,
        payload: ProtocolData,
        correlation_id: Option<CorrelationId>,
    ) -> Message {
        Message::Data(Data {
            network_appearance: server.network_appearance,
            routing_context: Some(server.routing_context),
            protocol_data: payload,
            correlation_id,
        })
    }
}

impl Ss7Layer for M3ua {
    fn network(server: &ApplicationServerConfig) -> Option<NetworkAppearance> {
        server.network_appearance
    }

    fn served_network(served: &AspApplicationServer) -> Option<NetworkAppearance> {
        served.network_appearance
    }

    fn routes(user: &SgpUser) -> &GatewayRoutes {
        &user.routes
    }

    fn routes_mut(user: &mut SgpUser) -> &mut GatewayRoutes {
        &mut user.routes
    }

    fn report(
        event: &DestinationEvent,
        network: Option<NetworkAppearance>,
        contexts: Option<RoutingContexts>,
    ) -> Message {
        event.message(network, contexts)
    }

    fn deregistration(routing_contexts: RoutingContexts) -> Message {
        Message::DeregistrationRequest(DeregistrationRequest { routing_contexts })
    }

    fn route_input(indication: &AspIndication) -> Option<RouteInput> {
        let (network, contexts, event) = match indication {
            AspIndication::AspStatus(context, state) => {
                return Some(RouteInput::State(*context, *state));
            }
            AspIndication::MtpPause(body) => {
                let event = DestinationEvent::Unavailable(body.affected.clone());
                (body.network_appearance, &body.routing_contexts, event)
            }
            AspIndication::MtpResume(body) => {
                let event = DestinationEvent::Available(body.affected.clone());
                (body.network_appearance, &body.routing_contexts, event)
            }
            AspIndication::Restricted(body) => {
                let event = DestinationEvent::Restricted(body.affected.clone());
                (body.network_appearance, &body.routing_contexts, event)
            }
            AspIndication::Congestion(body) => {
                let event = DestinationEvent::Congested(body.affected.clone(), body.level);
                (body.network_appearance, &body.routing_contexts, event)
            }
            AspIndication::UserPartUnavailable(body) => {
                let event = DestinationEvent::UserPartUnavailable(body.affected.0, body.user_cause);
                (body.network_appearance, &body.routing_contexts, event)
            }
            _ => return None,
        };
        Some(RouteInput::Report(network, contexts.clone(), event))
    }
}
