//! Registration and deregistration of routing keys (RFC 3868, section 4.4).

use super::keys::parts;
use super::{
    ApplicationServerConfig, Destinations, ErrorCode, Message, RoutingContext,
    SignallingGatewayProcess, Sua, TrafficMode,
};
use crate::aspm::sgp::{
    DividedRequest, KeyResult, RESULTS_PER_MESSAGE, Registering, RegistrationOutcome,
};
use crate::m3ua::route::{divide_registration, malformed_key_status, routing_key_responses};
use crate::message::field::decode_each;
use crate::sua::{
    DeregistrationResponse, DeregistrationResult, DeregistrationStatus, LocalRoutingKeyIdentifier,
    RegistrationRequest, RegistrationResponse, RegistrationResult, RegistrationStatus, RoutingKey,
    kinds, tag,
};

/// Routing context of results that have none, and of application servers before one is assigned.
const NO_CONTEXT: RoutingContext = RoutingContext(0);

impl Registering for Sua {
    const UNSUPPORTED: ErrorCode = ErrorCode::UNSUPPORTED_MESSAGE_TYPE;
    /// SUA has no status for it: the key exists, and no other application server may have it.
    const ALREADY_REGISTERED: u32 = RegistrationStatus::NO_UNIQUE_ROUTING.0;

    routing_key_responses!();

    fn key_mode(key: &RoutingKey) -> Option<TrafficMode> {
        key.traffic_mode.map(|mode| mode.0)
    }

    fn compare(gateway: &SignallingGatewayProcess, key: &RoutingKey) -> RegistrationOutcome<Self> {
        let refused = |status: RegistrationStatus| RegistrationOutcome::Refused(status.0);
        let mode = Self::key_mode(key);
        if mode.is_some_and(|mode| mode.name().is_none()) {
            return refused(RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE);
        }
        // Traffic is not divided by its source.
        let range = key.range.clone().map(Option::<Destinations>::from);
        if key.source.is_some() || range == Some(None) {
            return refused(RegistrationStatus::UNSUPPORTED_PARAMETER);
        }
        let address = key
            .destination
            .clone()
            .map(|to| Destinations::Address(to.0));
        let destinations = match (address, range.flatten()) {
            (Some(address), None) => address,
            (None, Some(ranges)) => ranges,
            _ => return refused(RegistrationStatus::INVALID_ROUTING_KEY),
        };
        let server = ApplicationServerConfig {
            network_appearance: key.network_appearance,
            traffic_mode: mode,
            ..ApplicationServerConfig::new(NO_CONTEXT, destinations)
        };
        let Some(parts) = parts(&server) else {
            return refused(RegistrationStatus::INVALID_DESTINATION_ADDRESS);
        };
        let same = gateway.user.keys.candidate(&server).filter(|context| {
            gateway.server(context).is_some_and(|other| {
                other.network_appearance == server.network_appearance
                    && other.destinations == server.destinations
            })
        });
        if let Some(context) = same {
            return RegistrationOutcome::Same(context);
        }
        if parts.len() > gateway.config.max_destinations {
            return refused(RegistrationStatus::INSUFFICIENT_RESOURCES);
        }
        RegistrationOutcome::New(server)
    }
}

divide_registration!(tag::DESTINATION_ADDRESS, capabilities: None);

impl SignallingGatewayProcess {
    /// Returns a routing context that is not in use, after that of the last registration.
    pub(in crate::sua) fn free_context(&mut self) -> RoutingContext {
        let context = self.next_free(self.user.last_context);
        self.user.last_context = context.0;
        context
    }
}
