//! Route state of the gateways of M3UA and SUA (RFC 4666 and RFC 3868, sections 4.5.1, 4.5.3 and 4.6).

use std::collections::BTreeMap;

use carrick_proto::Time;

use super::{
    Availability, DestinationEvent, DestinationStatus, DestinationTable, RouteInput, RouteStateFull,
};
use crate::aspm::asp::{Asp, AspRequestError};
use crate::aspm::sgp::{AspKey, Gateway};
use crate::aspm::{AsIds, AspState, Layer};
use crate::m3ua::{
    AffectedPointCode, AffectedPointCodes, CongestionLevel, NetworkAppearance, PointCode,
    RegistrationStatus, RoutingContext, RoutingContexts, tag,
};
use crate::message::DecodeErrorKind;

/// Maximum point codes of a message to an ASP; a DAUD can have more.
pub(crate) const MAX_POINT_CODES: usize = 8192;

/// Request that is not possible. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SgpRequestError {
    /// The ASP does not exist or is in ASP-DOWN.
    #[error("{0:?} is in ASP-DOWN: no message may be sent to it")]
    NotUp(AspKey),
}

/// Layer above SS7 networks, with messages about their destinations.
pub trait Ss7Layer: Layer<AsId = RoutingContext> {
    /// Returns the network of a gateway's application server.
    fn network(server: &Self::Server) -> Option<NetworkAppearance>;

    /// Returns the network of an ASP's application server.
    fn served_network(served: &Self::Served) -> Option<NetworkAppearance>;

    /// Returns the route state of a gateway.
    fn routes(user: &Self::User) -> &GatewayRoutes;

    /// Returns the route state of a gateway, to change it.
    fn routes_mut(user: &mut Self::User) -> &mut GatewayRoutes;

    /// Returns the message that reports an event for application servers.
    fn report(
        event: &DestinationEvent,
        network: Option<NetworkAppearance>,
        contexts: Option<RoutingContexts>,
    ) -> Self::Message;

    /// Returns the request to deregister application servers.
    fn deregistration(contexts: RoutingContexts) -> Self::Message;

    /// Returns what an indication of an ASP means to the routes.
    fn route_input(indication: &Self::AspIndication) -> Option<RouteInput>;
}

/// Route state of each network, at a gateway.
#[derive(Debug, Default)]
pub struct GatewayRoutes(BTreeMap<Option<NetworkAppearance>, NetworkRoutes>);

/// Route state of a network.
#[derive(Debug)]
struct NetworkRoutes {
    table: DestinationTable,
    /// The network is isolated, or its MTP restart is not complete (section 4.6).
    isolated: bool,
}

impl GatewayRoutes {
    /// Returns the status of a destination, unavailable if it is not known or the network is isolated.
    pub(crate) fn status(
        &self,
        network: Option<NetworkAppearance>,
        destination: PointCode,
    ) -> DestinationStatus {
        let routes = self.0.get(&network).filter(|routes| !routes.isolated);
        let status = routes.and_then(|routes| routes.table.status(destination));
        status.unwrap_or_default()
    }
}

impl<L: Ss7Layer> Asp<L> {
    /// M-RK_DEREG request. A confirm follows for each routing context.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN or does not serve a context; nothing is requested then.
    pub fn deregister(
        &mut self,
        now: Time,
        contexts: RoutingContexts,
    ) -> Result<(), AspRequestError<RoutingContext>> {
        let ids = AsIds::new(contexts.iter().copied());
        self.request_deregistration(now, ids.as_ref(), L::deregistration(contexts))
    }
}

impl<L: Ss7Layer> Gateway<L> {
    /// Records a change of destinations in the route state, and sends it to all concerned ASPs: those that are active in
    /// an application server with the network appearance (RFC 4666, section 4.5.1). While the network is isolated it is
    /// only recorded.
    ///
    /// # Errors
    /// [`RouteStateFull`]; the change is sent nevertheless.
    pub fn report_destinations(
        &mut self,
        appearance: Option<NetworkAppearance>,
        event: &DestinationEvent,
    ) -> Result<(), RouteStateFull> {
        let mut result = Ok(());
        if let Some(routes) = self.routes_of(appearance) {
            result = routes.table.record(event);
            if routes.isolated {
                return result;
            }
        }
        self.send_to_concerned(appearance, event);
        result
    }

    /// Begins or ends the isolation of a network, its MTP restart included (RFC 4666, section 4.6). All destinations
    /// are reported as unavailable when it begins; when it ends those that are available or restricted by then are
    /// reported. Without a route state nothing is sent at the end: the nodal interworking function reports the
    /// destinations.
    pub fn set_isolated(&mut self, appearance: Option<NetworkAppearance>, isolated: bool) {
        let mut events = vec![unavailable_network()];
        if let Some(routes) = self.routes_of(appearance) {
            if std::mem::replace(&mut routes.isolated, isolated) == isolated {
                return;
            }
            if !isolated {
                events = routes.table.known(is_reachable);
            }
        } else if !isolated {
            return;
        }
        for event in events {
            self.send_to_concerned(appearance, &event);
        }
    }

    /// Returns the route state of a network, `None` if none is kept.
    fn routes_of(&mut self, appearance: Option<NetworkAppearance>) -> Option<&mut NetworkRoutes> {
        let limit = self.config.max_route_ranges;
        (limit > 0).then(|| {
            L::routes_mut(&mut self.user)
                .0
                .entry(appearance)
                .or_insert_with(|| NetworkRoutes {
                    table: DestinationTable::new(limit),
                    isolated: false,
                })
        })
    }

    fn send_to_concerned(
        &mut self,
        appearance: Option<NetworkAppearance>,
        event: &DestinationEvent,
    ) {
        let events = event.split(MAX_POINT_CODES);
        for (asp, contexts) in self.concerned(appearance) {
            for event in &events {
                self.send(asp, L::report(event, appearance, Some(contexts.clone())));
            }
        }
    }

    /// Returns the ASPs that are active in application servers of a network, with those.
    pub(crate) fn concerned(
        &self,
        appearance: Option<NetworkAppearance>,
    ) -> Vec<(AspKey, RoutingContexts)> {
        let concerned = self.asp_keys().into_iter().filter_map(|asp| {
            let mut contexts = self.servers_of(asp);
            contexts.retain(|context| {
                self.is_of(*context, appearance)
                    && self.asp_state(asp, *context) == Some(AspState::Active)
            });
            Some((asp, RoutingContexts::new(contexts)?))
        });
        concerned.collect()
    }

    /// Returns whether an application server is one of a network.
    pub(crate) fn is_of(
        &self,
        context: RoutingContext,
        network: Option<NetworkAppearance>,
    ) -> bool {
        let server = self.server(&context);
        server.is_some_and(|server| L::network(server) == network)
    }

    /// Returns reports of destinations that are not available, or congested, for application servers in which an ASP
    /// becomes active (RFC 4666, sections 4.5.1 and 4.6).
    pub(crate) fn exceptions(&self, contexts: &[RoutingContext]) -> Vec<L::Message> {
        let mut reports = Vec::new();
        for (appearance, routes) in &L::routes(&self.user).0 {
            let contexts = contexts.iter().copied();
            let concerned = contexts.filter(|context| self.is_of(*context, *appearance));
            let Some(contexts) = RoutingContexts::new(concerned) else {
                continue;
            };
            let events = if routes.isolated {
                vec![unavailable_network()]
            } else {
                let mut events = routes.table.known(|status| {
                    let available = status.availability == Availability::Available;
                    !available || status.congestion > Some(CongestionLevel::NONE)
                });
                events.retain(|event| !matches!(event, DestinationEvent::Available(_)));
                events
            };
            let events = events.iter().flat_map(|event| event.split(MAX_POINT_CODES));
            reports
                .extend(events.map(|event| L::report(&event, *appearance, Some(contexts.clone()))));
        }
        reports
    }

    /// Returns the answer to a DAUD from the route state, `None` if none is kept.
    pub(crate) fn audit_state(
        &mut self,
        network: Option<NetworkAppearance>,
        affected: &AffectedPointCodes,
    ) -> Option<Vec<DestinationEvent>> {
        let routes = self.routes_of(network)?;
        let events = if routes.isolated {
            vec![DestinationEvent::Unavailable(affected.clone())]
        } else {
            routes.table.audit(affected)
        };
        let events = events.iter().flat_map(|event| event.split(MAX_POINT_CODES));
        Some(events.collect())
    }

    /// Returns the network of a message about destinations: that of its network appearance, or of its first application
    /// server, or of the first one of the ASP.
    pub(crate) fn audited_network(
        &self,
        asp: AspKey,
        appearance: Option<NetworkAppearance>,
        contexts: Option<&RoutingContexts>,
    ) -> Option<NetworkAppearance> {
        let listed = contexts.and_then(|list| list.first().copied());
        let context = listed.or_else(|| self.servers_of(asp).first().copied());
        appearance.or_else(|| self.server(&context?).and_then(L::network))
    }

    /// Returns the application servers of a message about destinations; answers it if they are not the ASP's, or if it has
    /// none.
    pub(crate) fn check_listed(
        &mut self,
        asp: AspKey,
        message: &L::Message,
    ) -> Option<Vec<RoutingContext>> {
        let (contexts, invalid) = match L::ids(message) {
            Some(listed) => self.listed(asp, &listed),
            None => (self.servers_of(asp), None),
        };
        if invalid.is_some() {
            self.refuse_servers(asp, L::INVALID_AS, invalid, message);
            return None;
        }
        if contexts.is_empty() {
            self.refuse(asp, L::NO_AS, message);
            return None;
        }
        Some(contexts)
    }

    /// Returns a routing context that is not in use, after the last one that was assigned. One that was deregistered is not
    /// assigned again soon: messages with it may be on their way. The search ends, because there are fewer application
    /// servers than numbers.
    pub(crate) fn next_free(&self, last: u32) -> RoutingContext {
        let mut number = last;
        loop {
            number = number.wrapping_add(1).max(1);
            let context = RoutingContext(number);
            if !self.has_server(&context) {
                return context;
            }
        }
    }

    pub(crate) fn require_up(&self, asp: AspKey) -> Result<(), SgpRequestError> {
        let is_up = self.is_up(asp);
        is_up.then_some(()).ok_or(SgpRequestError::NotUp(asp))
    }
}

fn is_reachable(status: DestinationStatus) -> bool {
    status.availability != Availability::Unavailable
}

pub(crate) fn unavailable_network() -> DestinationEvent {
    DestinationEvent::Unavailable(AffectedPointCodes(vec![AffectedPointCode::ALL]))
}

/// Implements the methods of [`Layer`] that are the same for M3UA and SUA.
macro_rules! ss7_layer {
    () => {
        type AsId = RoutingContext;
        type Message = Message;
        type Notify = Notify;
        type ErrorMessage = ErrorMessage;
        type Served = AspApplicationServer;
        type Server = ApplicationServerConfig;
        type AspUser = ();
        type User = SgpUser;
        type AspIndication = AspIndication;
        type SgpIndication = SgpIndication;

        const INVALID_AS: ErrorCode = ErrorCode::INVALID_ROUTING_CONTEXT;
        const NO_AS: ErrorCode = ErrorCode::NO_CONFIGURED_AS;
        const REGISTRATION: Option<MessageKind> = Some(kinds::REG_REQ);

        fn error(
            code: ErrorCode,
            ids: Option<AsIds<RoutingContext>>,
            octets: &[u8],
        ) -> ErrorMessage {
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

        fn added(user: &mut SgpUser, server: &ApplicationServerConfig) {
            user.keys.insert(server);
        }

        fn removed(user: &mut SgpUser, server: &ApplicationServerConfig) {
            user.keys.remove(server);
        }

        /// Destinations that are not available, or congested (RFC 4666 and RFC 3868, sections 4.5.1 and 4.6).
        fn reports(
            gateway: &SignallingGatewayProcess,
            _asp: AspKey,
            ids: &[RoutingContext],
        ) -> Vec<Message> {
            gateway.exceptions(ids)
        }

        fn receive(asp: &mut Asp, _now: Time, stream: u16, message: &Message) {
            asp.on_user_message(stream, message);
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
    };
}
pub(crate) use ss7_layer;

/// Implements the responses of routing key management, which are the same for M3UA and SUA.
macro_rules! routing_key_responses {
    () => {
        type Key = RoutingKey;

        const ACTIVE: u32 = DeregistrationStatus::ASP_ACTIVE.0;

        fn response(results: &[KeyResult<'_, Self>]) -> Message {
            let results = results
                .iter()
                .map(|(key, status, context)| RegistrationResult {
                    local_id: key.local_id,
                    status: RegistrationStatus(*status),
                    routing_context: context.unwrap_or(NO_CONTEXT),
                });
            let results = results.collect();
            Message::RegistrationResponse(RegistrationResponse { results })
        }

        fn deregistration_response(results: &[(RoutingContext, u32)]) -> Message {
            let results = results
                .iter()
                .map(|&(routing_context, status)| DeregistrationResult {
                    routing_context,
                    status: DeregistrationStatus(status),
                });
            let results = results.collect();
            Message::DeregistrationResponse(DeregistrationResponse { results })
        }
    };
}
pub(crate) use routing_key_responses;

/// Returns the status of a registration whose Routing Key is malformed (RFC 4666 and RFC 3868, section 4.4.1). The numbers
/// are the same in both layers.
pub(crate) const fn malformed_key_status(
    error: DecodeErrorKind,
    destination: u16,
    network: u16,
) -> RegistrationStatus {
    match error {
        DecodeErrorKind::Excluded(_) => RegistrationStatus::UNSUPPORTED_PARAMETER,
        DecodeErrorKind::Value { tag, .. } | DecodeErrorKind::ParameterLength { tag, .. } => {
            if tag == destination {
                RegistrationStatus::INVALID_DPC
            } else if tag == network {
                RegistrationStatus::INVALID_NETWORK_APPEARANCE
            } else if tag == tag::TRAFFIC_MODE_TYPE {
                RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE
            } else {
                RegistrationStatus::INVALID_ROUTING_KEY
            }
        }
        _ => RegistrationStatus::INVALID_ROUTING_KEY,
    }
}

/// Defines the function that divides a registration request with malformed Routing Keys, with the tag of destinations.
macro_rules! divide_registration {
    ($destination:path $(, $field:ident: $value:expr)?) => {
        /// Divides a registration request with malformed keys: the request for the other keys, and the responses that refuse
        /// the malformed ones. `None` if a key has no identifier to answer it by, or none is malformed.
        pub(crate) fn divide_registration(
            octets: &bytes::Bytes,
        ) -> Option<DividedRequest<Message>> {
            let decoded = decode_each::<RoutingKey>(octets, kinds::REG_REQ, tag::is_excluded)?;
            let (mut routing_keys, mut results) = (Vec::new(), Vec::new());
            for (raw, key) in decoded {
                let error = match key {
                    Ok(key) => {
                        routing_keys.push(key);
                        continue;
                    }
                    Err(error) => error,
                };
                let mut nested = raw.nested().flatten();
                let id = nested.find(|raw| raw.tag == tag::LOCAL_ROUTING_KEY_IDENTIFIER)?;
                let id = u32::from_be_bytes(id.value.try_into().ok()?);
                let status =
                    malformed_key_status(error.kind, $destination, tag::NETWORK_APPEARANCE);
                results.push(RegistrationResult {
                    local_id: LocalRoutingKeyIdentifier(id),
                    status: RegistrationStatus(status.0),
                    routing_context: NO_CONTEXT,
                });
            }
            if results.is_empty() {
                return None;
            }
            let valid = (!routing_keys.is_empty())
                .then(|| Message::RegistrationRequest(RegistrationRequest { routing_keys, $($field: $value)? }));
            let refusals = results.chunks(RESULTS_PER_MESSAGE).map(|results| {
                let results = results.to_vec();
                Message::RegistrationResponse(RegistrationResponse { results })
            });
            Some(DividedRequest {
                valid,
                refusals: refusals.collect(),
            })
        }
    };
}
pub(crate) use divide_registration;
