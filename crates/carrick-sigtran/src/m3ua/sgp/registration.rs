//! Registration and deregistration of routing keys (RFC 4666, section 4.4).

use carrick_proto::Time;

use super::asptm::unique;
use super::{
    ApplicationServerConfig, AsMember, AspKey, AspState, ErrorCode, Message, RegistrationPolicy,
    RoutingContext, SgpIndication, SignallingGatewayProcess,
};
use crate::m3ua::{
    DeregistrationRequest, DeregistrationResponse, DeregistrationResult, DeregistrationStatus,
    NetworkAppearance, RegistrationRequest, RegistrationResponse, RegistrationResult,
    RegistrationStatus, RoutingKey, RoutingKeyDestination,
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
            let (status, routing_context) = self.register(asp, key);
            if status == RegistrationStatus::SUCCESS {
                joined.push(routing_context);
                self.indicate(SgpIndication::Registered(asp, routing_context));
            }
            results.push(RegistrationResult {
                local_id: key.local_id,
                status,
                routing_context,
            });
        }
        for results in results.chunks(RESULTS_PER_MESSAGE) {
            let results = results.to_vec();
            self.send(
                asp,
                Message::RegistrationResponse(RegistrationResponse { results }),
            );
        }
        for context in joined {
            if !self.update_server(now, context, false, None) {
                self.notify_state(context, Some(asp), None);
            }
        }
    }

    /// Registers one routing key; returns the status and the routing context of the result.
    fn register(&mut self, asp: AspKey, key: &RoutingKey) -> (RegistrationStatus, RoutingContext) {
        let failure = |status| (status, NO_CONTEXT);
        // Existing routing keys are not changed (section 4.4.1).
        if key.routing_context.is_some() {
            return failure(RegistrationStatus::CHANGE_REFUSED);
        }
        if key.traffic_mode.is_some_and(|mode| mode.name().is_none()) {
            return failure(RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE);
        }
        if let Some(context) = self.same_key(key) {
            return self.join(asp, key, context);
        }
        if self
            .overlapping(key.network_appearance, &key.destinations)
            .is_some()
        {
            return failure(RegistrationStatus::NO_UNIQUE_ROUTING);
        }
        if self.config.registration != RegistrationPolicy::NewKeys {
            return failure(RegistrationStatus::NOT_PROVISIONED);
        }
        let full = self.servers.len() >= self.config.max_application_servers;
        if full || key.destinations.len() > self.config.max_destinations {
            return failure(RegistrationStatus::INSUFFICIENT_RESOURCES);
        }
        let context = self.free_context();
        let config = ApplicationServerConfig {
            network_appearance: key.network_appearance,
            traffic_mode: key.traffic_mode,
            ..ApplicationServerConfig::new(context, key.destinations.clone())
        };
        self.insert_server(config, true);
        self.join(asp, key, context)
    }

    /// Adds an ASP to an application server, in ASP-INACTIVE.
    fn join(
        &mut self,
        asp: AspKey,
        key: &RoutingKey,
        context: RoutingContext,
    ) -> (RegistrationStatus, RoutingContext) {
        let Some(server) = self.servers.get_mut(&context) else {
            return (RegistrationStatus::UNKNOWN, NO_CONTEXT);
        };
        if server.members.contains_key(&asp) {
            return (RegistrationStatus::ALREADY_REGISTERED, context);
        }
        if let (Some(mode), Some(requested)) = (server.traffic_mode, key.traffic_mode)
            && mode != requested
        {
            return (RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE, NO_CONTEXT);
        }
        let state = AspState::Inactive;
        let registered = true;
        server.members.insert(asp, AsMember { state, registered });
        if let Some(peer) = self.asps.get_mut(&asp) {
            peer.contexts.insert(context);
        }
        (RegistrationStatus::SUCCESS, context)
    }

    /// Returns the application server with exactly this routing key.
    fn same_key(&self, key: &RoutingKey) -> Option<RoutingContext> {
        let first = key.destinations.first()?;
        let same = self.servers_of(first.dpc).find(|server| {
            let config = &server.config;
            let listed = |destination| config.destinations.contains(destination);
            config.network_appearance == key.network_appearance
                && config.destinations.len() == key.destinations.len()
                && key.destinations.iter().all(listed)
        });
        same.map(|server| server.config.routing_context)
    }

    /// Returns an application server to which a message for these destinations could belong, too. A routing key
    /// without network appearance applies to all networks.
    pub(super) fn overlapping(
        &self,
        appearance: Option<NetworkAppearance>,
        destinations: &[RoutingKeyDestination],
    ) -> Option<RoutingContext> {
        destinations.iter().find_map(|destination| {
            let overlapping = self.servers_of(destination.dpc).find(|server| {
                let config = &server.config;
                let other = config.network_appearance;
                (other == appearance || other.is_none() || appearance.is_none())
                    && config
                        .destinations
                        .iter()
                        .any(|other| destination.overlaps(other))
            });
            overlapping.map(|server| server.config.routing_context)
        })
    }

    /// Returns a routing context that is not in use. One that was deregistered is not assigned again soon: messages with
    /// it may be on their way. The search ends, because there are fewer application servers than numbers.
    fn free_context(&mut self) -> RoutingContext {
        loop {
            self.last_context = self.last_context.wrapping_add(1).max(1);
            let context = RoutingContext(self.last_context);
            if !self.servers.contains_key(&context) {
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
        let contexts = unique(&request.routing_contexts);
        let results: Vec<_> = contexts
            .into_iter()
            .map(|routing_context| DeregistrationResult {
                routing_context,
                status: self.check_deregistration(asp, routing_context),
            })
            .collect();
        for results in results.chunks(RESULTS_PER_MESSAGE) {
            let results = results.to_vec();
            self.send(
                asp,
                Message::DeregistrationResponse(DeregistrationResponse { results }),
            );
        }
        for result in results {
            if result.status == DeregistrationStatus::SUCCESS {
                self.leave(now, asp, result.routing_context);
            }
        }
    }

    /// Returns the result of a deregistration.
    fn check_deregistration(&self, asp: AspKey, context: RoutingContext) -> DeregistrationStatus {
        let Some(server) = self.servers.get(&context) else {
            return DeregistrationStatus::INVALID_ROUTING_CONTEXT;
        };
        match server.members.get(&asp) {
            None => DeregistrationStatus::NOT_REGISTERED,
            // Membership by configuration is not the ASP's to end.
            Some(member) if !member.registered => DeregistrationStatus::PERMISSION_DENIED,
            Some(member) if member.state == AspState::Active => DeregistrationStatus::ASP_ACTIVE,
            Some(_) => DeregistrationStatus::SUCCESS,
        }
    }

    /// Removes an ASP from an application server.
    fn leave(&mut self, now: Time, asp: AspKey, context: RoutingContext) {
        if let Some(server) = self.servers.get_mut(&context) {
            server.members.remove(&asp);
        }
        if let Some(peer) = self.asps.get_mut(&asp) {
            peer.contexts.remove(&context);
        }
        self.indicate(SgpIndication::Deregistered(asp, context));
        self.update_server(now, context, false, None);
        self.remove_unused(context);
    }

    /// Ends all memberships by registration (sections 4.3.4.1 and 4.3.4.2).
    pub(super) fn drop_registrations(&mut self, now: Time, asp: AspKey) {
        for context in self.contexts_of(asp) {
            let server = self.servers.get(&context);
            let member = server.and_then(|server| server.members.get(&asp));
            if member.is_some_and(|member| member.registered) {
                self.leave(now, asp, context);
            }
        }
    }

    /// Removes an application server that a registration has created, if it has no ASP any more.
    fn remove_unused(&mut self, context: RoutingContext) {
        let server = self.servers.get(&context);
        if server.is_none_or(|server| !server.dynamic || !server.members.is_empty()) {
            return;
        }
        self.take_server(context);
    }
}
