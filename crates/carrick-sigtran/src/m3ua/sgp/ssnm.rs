//! SS7 signalling network management (RFC 4666, section 4.5).

use super::{
    AspKey, DestinationEvent, DestinationState, DestinationTable, ErrorCode, ErrorMessage, Message,
    NetworkRoutes, RoutingContext, SgpIndication, SignallingCongestion, SignallingGatewayProcess,
};
use crate::aspm::{AsIds, AspState, Layer};
use crate::m3ua::asp::invalid_appearance;
use crate::m3ua::route::{Availability, DestinationStatus, RouteStateFull};
use crate::m3ua::{
    AffectedPointCode, AffectedPointCodes, CongestionLevel, M3ua, NetworkAppearance,
    RoutingContexts,
};

/// Maximum point codes of a message to an ASP; a DAUD can have more.
const MAX_POINT_CODES: usize = 8192;

/// Request that is not possible. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SgpRequestError {
    /// The ASP does not exist or is in ASP-DOWN.
    #[error("{0:?} is in ASP-DOWN: no message may be sent to it")]
    NotUp(AspKey),
}

impl SignallingGatewayProcess {
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
            self.user
                .routes
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
        for asp in self.asp_keys() {
            let mut contexts = self.servers_of(asp);
            contexts.retain(|context| {
                self.network_of(*context) == Some(appearance)
                    && self.asp_state(asp, *context) == Some(AspState::Active)
            });
            if let Some(contexts) = RoutingContexts::new(contexts) {
                for event in &events {
                    self.send(asp, event.message(appearance, Some(contexts.clone())));
                }
            }
        }
    }

    /// Returns the network appearance of an application server.
    fn network_of(&self, context: RoutingContext) -> Option<Option<NetworkAppearance>> {
        let server = self.server(&context);
        server.map(|server| server.network_appearance)
    }

    /// Returns reports of destinations that are not available, or congested, for application servers in which an ASP
    /// becomes active (RFC 4666, sections 4.5.1 and 4.6).
    pub(in crate::m3ua) fn exceptions(&self, contexts: &[RoutingContext]) -> Vec<Message> {
        let mut reports = Vec::new();
        for (appearance, routes) in &self.user.routes {
            let contexts = contexts.iter().copied();
            let concerned =
                contexts.filter(|context| self.network_of(*context) == Some(*appearance));
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
            reports.extend(events.map(|event| event.message(*appearance, Some(contexts.clone()))));
        }
        reports
    }

    /// Answers a DAUD with the status of its destinations, or a part of them: DUNA, DAVA or DRST, and SCON before the
    /// latter two (RFC 4666, section 4.5.3).
    ///
    /// # Errors
    /// [`SgpRequestError::NotUp`].
    pub fn answer_audit(
        &mut self,
        asp: AspKey,
        audit: &DestinationState,
        event: &DestinationEvent,
    ) -> Result<(), SgpRequestError> {
        self.require_up(asp)?;
        let contexts = listed_once(audit);
        self.send(asp, event.message(audit.network_appearance, contexts));
        Ok(())
    }

    /// Answers a DAUD with the Error message Destination Status Unknown.
    ///
    /// # Errors
    /// [`SgpRequestError::NotUp`].
    pub fn refuse_audit(
        &mut self,
        asp: AspKey,
        audit: &DestinationState,
    ) -> Result<(), SgpRequestError> {
        self.require_up(asp)?;
        let contexts = listed_once(audit);
        for affected in audit.affected.chunks(MAX_POINT_CODES) {
            let error = ErrorMessage {
                routing_contexts: contexts.clone(),
                network_appearance: audit.network_appearance,
                affected: Some(AffectedPointCodes(affected.to_vec())),
                ..ErrorMessage::new(ErrorCode::DESTINATION_STATUS_UNKNOWN)
            };
            self.answer_error(asp, error);
        }
        Ok(())
    }

    fn require_up(&self, asp: AspKey) -> Result<(), SgpRequestError> {
        let is_up = self.is_up(asp);
        is_up.then_some(()).ok_or(SgpRequestError::NotUp(asp))
    }

    /// DAUD of an ASP: answered from the route state, or indicated if there is none.
    pub(super) fn on_audit(&mut self, asp: AspKey, audit: &DestinationState, message: &Message) {
        let contexts = audit.routing_contexts.as_ref();
        if !self.check_network(asp, audit.network_appearance, message) {
            return;
        }
        let listed = contexts.and_then(|list| list.first().copied());
        let context = listed.or_else(|| self.servers_of(asp).first().copied());
        let configured = context
            .and_then(|context| self.network_of(context))
            .flatten();
        let network = audit.network_appearance.or(configured);
        let Some(routes) = self.routes_of(network) else {
            self.indicate(SgpIndication::Audit(asp, audit.clone()));
            return;
        };
        let events = if routes.isolated {
            vec![DestinationEvent::Unavailable(audit.affected.clone())]
        } else {
            routes.table.audit(&audit.affected)
        };
        for event in events.iter().flat_map(|event| event.split(MAX_POINT_CODES)) {
            // The ASP is up, because its DAUD was accepted.
            let _ = self.answer_audit(asp, audit, &event);
        }
    }

    /// SCON of an ASP.
    pub(super) fn on_congestion(
        &mut self,
        asp: AspKey,
        body: &SignallingCongestion,
        message: &Message,
    ) {
        if self.check_network(asp, body.network_appearance, message) {
            self.indicate(SgpIndication::Congestion(asp, body.clone()));
        }
    }

    /// Checks routing contexts and network appearance of an SSNM message; answers it if they are not the ASP's.
    fn check_network(
        &mut self,
        asp: AspKey,
        appearance: Option<NetworkAppearance>,
        message: &Message,
    ) -> bool {
        let (contexts, invalid) = match M3ua::ids(message) {
            Some(listed) => self.listed(asp, &listed),
            None => (self.servers_of(asp), None),
        };
        if invalid.is_some() {
            self.refuse_servers(asp, ErrorCode::INVALID_ROUTING_CONTEXT, invalid, message);
            return false;
        }
        if contexts.is_empty() {
            self.refuse(asp, ErrorCode::NO_CONFIGURED_AS, message);
            return false;
        }
        let has_appearance =
            |context: &RoutingContext| self.network_of(*context) == Some(appearance);
        if appearance.is_some() && !contexts.iter().any(has_appearance) {
            self.answer_error(asp, invalid_appearance(appearance, message));
            return false;
        }
        true
    }
}

/// Returns the routing contexts of an audit, each once.
fn listed_once(audit: &DestinationState) -> Option<RoutingContexts> {
    let contexts = audit.routing_contexts.clone();
    RoutingContexts::of(contexts.and_then(AsIds::from_contexts))
}

fn is_reachable(status: DestinationStatus) -> bool {
    status.availability != Availability::Unavailable
}

fn unavailable_network() -> DestinationEvent {
    DestinationEvent::Unavailable(AffectedPointCodes(vec![AffectedPointCode::ALL]))
}
