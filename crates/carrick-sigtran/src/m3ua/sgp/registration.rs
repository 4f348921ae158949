//! Registration and deregistration of routing keys (RFC 4666, section 4.4).

use std::collections::BTreeSet;

use carrick_proto::Time;

use super::keys::parts;
use super::{
    ApplicationServerConfig, AspKey, ErrorCode, Message, RegistrationPolicy, RoutingContext,
    SignallingGatewayProcess,
};
use crate::aspm::AsIds;
use crate::aspm::sgp::RegistrationOutcome;
use crate::m3ua::{
    DeregistrationRequest, DeregistrationResponse, DeregistrationResult, DeregistrationStatus,
    M3ua, RegistrationRequest, RegistrationResponse, RegistrationResult, RegistrationStatus,
    RoutingKey,
};

/// Routing context of results that have none.
const NO_CONTEXT: RoutingContext = RoutingContext(0);
/// Results in one message. A message holds about 2,300, and a peer's request about 2,700 keys.
const RESULTS_PER_MESSAGE: usize = 1000;

impl SignallingGatewayProcess {
    /// REG REQ: a result for each routing key; then the ASP is notified of the application servers' states.
    pub(super) fn on_registration(
        &mut self,
        now: Time,
        asp: AspKey,
        request: &RegistrationRequest,
        message: &Message,
    ) {
        if self.config.registration == RegistrationPolicy::Unsupported {
            self.refuse(asp, ErrorCode::UNSUPPORTED_MESSAGE_CLASS, message);
            return;
        }
        let mut results = Vec::new();
        let mut joined = Vec::new();
        for key in &request.routing_keys {
            let outcome = self.compare_key(key);
            let already = RegistrationStatus::ALREADY_REGISTERED.0;
            let (status, context) = match self.register(asp, outcome, key.traffic_mode, already) {
                Ok(context) => {
                    joined.push(context);
                    (RegistrationStatus::SUCCESS, Some(context))
                }
                Err((status, context)) => (RegistrationStatus(status), context),
            };
            results.push(RegistrationResult {
                local_id: key.local_id,
                status,
                routing_context: context.unwrap_or(NO_CONTEXT),
            });
        }
        for results in results.chunks(RESULTS_PER_MESSAGE) {
            let results = results.to_vec();
            self.send(
                asp,
                Message::RegistrationResponse(RegistrationResponse { results }),
            );
        }
        self.complete_registrations(now, asp, &joined);
    }

    /// Compares a routing key with those of the application servers.
    fn compare_key(&self, key: &RoutingKey) -> RegistrationOutcome<M3ua> {
        let refused = |status: RegistrationStatus| RegistrationOutcome::Refused(status.0);
        // Existing routing keys are not changed (section 4.4.1).
        if key.routing_context.is_some() {
            return refused(RegistrationStatus::CHANGE_REFUSED);
        }
        if key.traffic_mode.is_some_and(|mode| mode.name().is_none()) {
            return refused(RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE);
        }
        if let Some(context) = self.same_key(key) {
            return RegistrationOutcome::Same(context);
        }
        if parts(&key.destinations) > self.config.max_destinations {
            return refused(RegistrationStatus::INSUFFICIENT_RESOURCES);
        }
        RegistrationOutcome::New(ApplicationServerConfig {
            network_appearance: key.network_appearance,
            traffic_mode: key.traffic_mode,
            ..ApplicationServerConfig::new(NO_CONTEXT, key.destinations.clone())
        })
    }

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

    /// Returns a routing context that is not in use. One that was deregistered is not assigned again soon: messages with
    /// it may be on their way. The search ends, because there are fewer application servers than numbers.
    pub(in crate::m3ua) fn free_context(&mut self) -> RoutingContext {
        loop {
            let last = &mut self.user.last_context;
            *last = last.wrapping_add(1).max(1);
            let context = RoutingContext(*last);
            if !self.has_server(&context) {
                return context;
            }
        }
    }

    /// DEREG REQ: a result for each routing context.
    pub(super) fn on_deregistration(
        &mut self,
        now: Time,
        asp: AspKey,
        request: &DeregistrationRequest,
        message: &Message,
    ) {
        if self.config.registration == RegistrationPolicy::Unsupported {
            self.refuse(asp, ErrorCode::UNSUPPORTED_MESSAGE_CLASS, message);
            return;
        }
        let listed = AsIds::new(request.routing_contexts.iter().copied());
        let contexts = listed.iter().flat_map(AsIds::singles).copied();
        let active = DeregistrationStatus::ASP_ACTIVE.0;
        let outcomes = self.deregister(asp, contexts, active);
        let results = outcomes
            .iter()
            .map(|(routing_context, status)| DeregistrationResult {
                routing_context: *routing_context,
                status: DeregistrationStatus(*status),
            });
        let results: Vec<_> = results.collect();
        for results in results.chunks(RESULTS_PER_MESSAGE) {
            let results = results.to_vec();
            self.send(
                asp,
                Message::DeregistrationResponse(DeregistrationResponse { results }),
            );
        }
        self.complete_deregistrations(now, asp, outcomes);
    }
}
