//! Registration and deregistration of routing keys (RFC 4666, section 4.4).

use std::collections::BTreeSet;

use super::keys::parts;
use super::{
    ApplicationServerConfig, ErrorCode, Message, RoutingContext, SignallingGatewayProcess,
    TrafficMode,
};
use crate::aspm::sgp::{
    DividedRequest, KeyResult, RESULTS_PER_MESSAGE, Registering, RegistrationOutcome,
};
use crate::m3ua::route::{divide_registration, malformed_key_status, routing_key_responses};
use crate::m3ua::{
    DeregistrationResponse, DeregistrationResult, DeregistrationStatus, LocalRoutingKeyIdentifier,
    M3ua, RegistrationRequest, RegistrationResponse, RegistrationResult, RegistrationStatus,
    RoutingKey, kinds, tag,
};
use crate::message::field::decode_each;

/// Routing context of results that have none, and of application servers before one is assigned.
const NO_CONTEXT: RoutingContext = RoutingContext(0);

impl Registering for M3ua {
    const UNSUPPORTED: ErrorCode = ErrorCode::UNSUPPORTED_MESSAGE_CLASS;
    const ALREADY_REGISTERED: u32 = RegistrationStatus::ALREADY_REGISTERED.0;

    routing_key_responses!();

    fn key_mode(key: &RoutingKey) -> Option<TrafficMode> {
        key.traffic_mode
    }

    fn compare(gateway: &SignallingGatewayProcess, key: &RoutingKey) -> RegistrationOutcome<Self> {
        let refused = |status: RegistrationStatus| RegistrationOutcome::Refused(status.0);
        // Existing routing keys are not changed (section 4.4.1).
        if key.routing_context.is_some() {
            return refused(RegistrationStatus::CHANGE_REFUSED);
        }
        if key.traffic_mode.is_some_and(|mode| mode.name().is_none()) {
            return refused(RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE);
        }
        if let Some(context) = gateway.same_key(key) {
            return RegistrationOutcome::Same(context);
        }
        if parts(&key.destinations) > gateway.config.max_destinations {
            return refused(RegistrationStatus::INSUFFICIENT_RESOURCES);
        }
        RegistrationOutcome::New(ApplicationServerConfig {
            network_appearance: key.network_appearance,
            traffic_mode: key.traffic_mode,
            ..ApplicationServerConfig::new(NO_CONTEXT, key.destinations.clone())
        })
    }
}

divide_registration!(tag::DESTINATION_POINT_CODE);

impl SignallingGatewayProcess {
    /// Returns the application server with exactly this routing key.
    fn same_key(&self, key: &RoutingKey) -> Option<RoutingContext> {
        let keys = &self.user.keys;
        let context = keys.candidate(key.network_appearance, &key.destinations)?;
        let config = self.server(&context)?;
        let is_same = config.network_appearance == key.network_appearance
            && config.destinations.len() == key.destinations.len()
            && config.destinations.iter().collect::<BTreeSet<_>>()
                == key.destinations.iter().collect();
        is_same.then_some(context)
    }

    /// Returns a routing context that is not in use, after that of the last registration.
    pub(in crate::m3ua) fn free_context(&mut self) -> RoutingContext {
        let context = self.next_free(self.user.last_context);
        self.user.last_context = context.0;
        context
    }
}
