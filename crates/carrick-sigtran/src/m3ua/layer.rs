//! M3UA as a layer with ASPs.

use carrick_proto::Time;

use super::asp::{Asp, AspApplicationServer, AspIndication};
use super::route::{DestinationEvent, GatewayRoutes, RouteInput, Ss7Layer};
use super::sgp::{
    ApplicationServerConfig, AspKey, SgpIndication, SgpUser, SignallingGatewayProcess,
};
use super::{
    AffectedPointCode, AffectedPointCodes, AspActive, AspInactive, CorrelationId, Data,
    DecodeError, DestinationState, DiagnosticInformation, ErrorCode, ErrorMessage, Message,
    NetworkAppearance, Notify, ProtocolData, RoutingContext, RoutingContexts, Status, TrafficMode,
    kinds,
};
use crate::aspm::{Activation, AsIds, Layer, Maintenance, maintenance};
use crate::message::{AspIdentifier, MessageKind};

/// M3UA: an application server is identified by its routing context.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct M3ua;

impl Layer for M3ua {
    type AsId = RoutingContext;
    type Label = ();
    type Message = Message;
    type Notify = Notify;
    type ErrorMessage = ErrorMessage;
    type Served = AspApplicationServer;
    type Server = ApplicationServerConfig;
    type Payload = ProtocolData;
    type AspUser = ();
    type User = SgpUser;
    type AspIndication = AspIndication;
    type SgpIndication = SgpIndication;

    const INVALID_AS: ErrorCode = ErrorCode::INVALID_ROUTING_CONTEXT;
    const UNDEFINED_AS: ErrorCode = ErrorCode::NO_CONFIGURED_AS;
    const NO_AS: ErrorCode = ErrorCode::NO_CONFIGURED_AS;
    const REGISTRATION: Option<MessageKind> = Some(kinds::REG_REQ);

    fn read(message: &Message) -> Option<Maintenance<Self>> {
        let activation = |body: &AspActive| Activation {
            traffic_mode: body.traffic_mode,
            label: (),
        };
        maintenance!(read message, activation, std::convert::identity, Self::ids)
    }

    fn write(content: Maintenance<Self>) -> Message {
        let active = |traffic_mode, ids| AspActive {
            traffic_mode,
            routing_contexts: RoutingContexts::of(ids),
            info: None,
        };
        maintenance!(
            write content,
            |activation: Activation<()>, ids| active(activation.traffic_mode, ids),
            active,
            AspInactive::of
        )
    }

    fn ids(message: &Message) -> Option<AsIds<RoutingContext>> {
        message.routing_contexts().and_then(AsIds::from_contexts)
    }

    fn error(code: ErrorCode, ids: Option<AsIds<RoutingContext>>, octets: &[u8]) -> ErrorMessage {
        ErrorMessage {
            routing_contexts: RoutingContexts::of(ids),
            ..ErrorMessage::about(code, octets)
        }
    }

    fn answering(error: &DecodeError, octets: &[u8]) -> Option<ErrorMessage> {
        ErrorMessage::answering(error, octets)
    }

    fn read_error(
        error: &ErrorMessage,
    ) -> (
        ErrorCode,
        Option<AsIds<RoutingContext>>,
        Option<&DiagnosticInformation>,
    ) {
        let ids = error.routing_contexts.clone();
        let ids = ids.and_then(AsIds::from_contexts);
        (error.code, ids, error.diagnostic.as_ref())
    }

    fn notify(
        status: Status,
        asp_identifier: Option<AspIdentifier>,
        ids: Option<AsIds<RoutingContext>>,
    ) -> Notify {
        Notify::of(status, asp_identifier, ids)
    }

    fn read_notify(notify: &Notify) -> (Status, Option<AsIds<RoutingContext>>) {
        notify.read()
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

    fn receive(asp: &mut Asp, _now: Time, stream: u16, message: &Message) {
        asp.on_user_message(stream, message);
    }

    fn server_id(server: &ApplicationServerConfig) -> RoutingContext {
        server.routing_context
    }

    fn server_mode(server: &ApplicationServerConfig) -> Option<TrafficMode> {
        server.traffic_mode
    }

    fn minimum_asps(server: &ApplicationServerConfig) -> usize {
        server.minimum_asps
    }

    fn assign_id(gateway: &mut SignallingGatewayProcess, server: &mut ApplicationServerConfig) {
        server.routing_context = gateway.free_context();
    }

    fn overlapping(
        gateway: &SignallingGatewayProcess,
        server: &ApplicationServerConfig,
    ) -> Option<RoutingContext> {
        let keys = &gateway.user.keys;
        keys.overlapping(server.network_appearance, &server.destinations)
    }

    fn added(user: &mut SgpUser, server: &ApplicationServerConfig) {
        user.keys.insert(server);
    }

    fn removed(user: &mut SgpUser, server: &ApplicationServerConfig) {
        user.keys.remove(server);
    }

    /// Destinations that are not available, or congested (RFC 4666, sections 4.5.1 and 4.6).
    fn reports(
        gateway: &SignallingGatewayProcess,
        _asp: AspKey,
        ids: &[RoutingContext],
    ) -> Vec<Message> {
        gateway.exceptions(ids)
    }

    fn serve(
        gateway: &mut SignallingGatewayProcess,
        now: Time,
        asp: AspKey,
        stream: u16,
        message: &Message,
    ) {
        gateway.on_user_message(now, asp, stream, message);
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
