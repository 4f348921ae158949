//! Registration and deregistration of keys (RFC 4666 and RFC 3868, section 4.4; RFC 3331, section 4.4).

use carrick_proto::Time;

use super::{AsMember, AspKey, AspState, Gateway, GatewayEvent, Layer, RegistrationPolicy};
use crate::aspm::AsIds;
use crate::aspm::asp::status;
use crate::message::{ErrorCode, TrafficMode};

/// Results in one message of at most 64 KiB.
pub(crate) const RESULTS_PER_MESSAGE: usize = 1000;

/// Registration request of which some keys are malformed.
#[derive(Debug)]
pub struct DividedRequest<M> {
    /// Request with the other keys, if there are any.
    pub valid: Option<M>,
    /// Responses that refuse the malformed keys.
    pub refusals: Vec<M>,
}

/// Layer with registration of keys.
pub trait Registering: Layer {
    /// Key of a request.
    type Key;

    /// Answer if registration is not supported.
    const UNSUPPORTED: ErrorCode;
    /// Status of a key that the ASP has registered before.
    const ALREADY_REGISTERED: u32;
    /// Status of the deregistration of an application server in which the ASP is active.
    const ACTIVE: u32;
    /// Error message beside the results about application servers in which the ASP is active.
    const ACTIVE_ERROR: Option<ErrorCode> = None;

    /// Returns the traffic mode of a key.
    fn key_mode(key: &Self::Key) -> Option<TrafficMode>;

    /// Compares a key with those of the application servers.
    fn compare(gateway: &Gateway<Self>, key: &Self::Key) -> RegistrationOutcome<Self>;

    /// Returns the response with the results of keys: the status, and the application server of those that succeeded.
    fn response(results: &[KeyResult<'_, Self>]) -> Self::Message;

    /// Returns the response with the results of deregistrations.
    fn deregistration_response(results: &[(Self::AsId, u32)]) -> Self::Message;
}

/// Result of a key: the status, and the application server if it succeeded.
pub type KeyResult<'a, L> = (&'a <L as Registering>::Key, u32, Option<<L as Layer>::AsId>);

/// Outcome of the comparison of a key with those of the application servers.
pub enum RegistrationOutcome<L: Layer> {
    /// The key is that of an application server.
    Same(L::AsId),
    /// The key is new, and the application server with it. Its identifier is assigned if it is created.
    New(L::Server),
    /// The key is refused with this status.
    Refused(u32),
}

impl<L: Registering> Gateway<L> {
    /// REG REQ: a result for each key; then the ASP is notified of the application servers' states.
    pub(crate) fn on_registration(
        &mut self,
        now: Time,
        asp: AspKey,
        keys: &[L::Key],
        message: &L::Message,
    ) {
        if self.config.registration == RegistrationPolicy::Unsupported {
            self.refuse(asp, L::UNSUPPORTED, message);
            return;
        }
        let mut results = Vec::with_capacity(keys.len());
        let mut joined = Vec::new();
        for key in keys {
            let (status, id) = match self.register(asp, key) {
                Ok(id) => {
                    self.indicate(GatewayEvent::Registered(asp, id.clone()));
                    joined.push(id.clone());
                    (status::SUCCESS, Some(id))
                }
                Err(refusal) => refusal,
            };
            results.push((key, status, id));
        }
        for results in results.chunks(RESULTS_PER_MESSAGE) {
            self.send(asp, L::response(results));
        }
        for id in joined {
            if !self.update_server(now, &id, false, None) {
                self.notify_state(&id, Some(asp), None);
            }
        }
    }

    /// Registers an ASP for a key; returns the application server, or the status of the refusal.
    fn register(&mut self, asp: AspKey, key: &L::Key) -> Result<L::AsId, (u32, Option<L::AsId>)> {
        let id = match L::compare(self, key) {
            RegistrationOutcome::Refused(status) => return Err((status, None)),
            RegistrationOutcome::Same(id) => id,
            RegistrationOutcome::New(mut server) => {
                if L::overlapping(self, &server).is_some() {
                    return Err((status::OVERLAP, None));
                }
                if self.config.registration != RegistrationPolicy::NewKeys {
                    return Err((status::NOT_PROVISIONED, None));
                }
                if self.servers.len() >= self.config.max_application_servers {
                    return Err((status::INSUFFICIENT_RESOURCES, None));
                }
                L::assign_id(self, &mut server);
                let id = L::server_id(&server);
                self.insert_server(server, true);
                id
            }
        };
        let server = self.servers.get_mut(&id);
        let server = server.ok_or((status::UNKNOWN, None))?;
        if server.members.contains_key(&asp) {
            return Err((L::ALREADY_REGISTERED, Some(id)));
        }
        if let (Some(configured), Some(requested)) = (server.traffic_mode, L::key_mode(key))
            && configured != requested
        {
            return Err((status::UNSUPPORTED_TRAFFIC_MODE, None));
        }
        let member = AsMember::new(AspState::Inactive, true);
        server.members.insert(asp, member);
        if let Some(peer) = self.asps.get_mut(&asp) {
            peer.servers.insert(id.clone());
        }
        Ok(id)
    }

    /// DEREG REQ: a result for each application server.
    pub(crate) fn on_deregistration(
        &mut self,
        now: Time,
        asp: AspKey,
        ids: Option<&AsIds<L::AsId>>,
        message: &L::Message,
    ) {
        if self.config.registration == RegistrationPolicy::Unsupported {
            self.refuse(asp, L::UNSUPPORTED, message);
            return;
        }
        let ids = ids.into_iter().flat_map(AsIds::singles).cloned();
        let results = ids.map(|id| (id.clone(), self.deregistration_status(asp, &id)));
        let results: Vec<_> = results.collect();
        for results in results.chunks(RESULTS_PER_MESSAGE) {
            self.send(asp, L::deregistration_response(results));
        }
        if let Some(code) = L::ACTIVE_ERROR {
            let active = results.iter().map(|(id, _)| id.clone());
            let active = AsIds::new(active.filter(|id| self.is_in(asp, id, AspState::Active)));
            self.refuse_servers(asp, code, active, message);
        }
        for (id, result) in results {
            if result == status::SUCCESS {
                self.leave(now, asp, &id);
            }
        }
    }

    fn deregistration_status(&self, asp: AspKey, id: &L::AsId) -> u32 {
        let Some(server) = self.servers.get(id) else {
            return status::INVALID_ID;
        };
        match server.members.get(&asp) {
            None => status::NOT_REGISTERED,
            // Membership by configuration is not the ASP's to end.
            Some(member) if !member.registered => status::DEREGISTRATION_DENIED,
            Some(member) if member.state == AspState::Active => L::ACTIVE,
            Some(_) => status::SUCCESS,
        }
    }
}

impl<L: Layer> Gateway<L> {
    /// Returns whether an application server exists.
    pub(crate) fn has_server(&self, id: &L::AsId) -> bool {
        self.servers.contains_key(id)
    }

    /// Removes an ASP from an application server.
    fn leave(&mut self, now: Time, asp: AspKey, id: &L::AsId) {
        if let Some(server) = self.servers.get_mut(id) {
            server.members.remove(&asp);
        }
        if let Some(peer) = self.asps.get_mut(&asp) {
            peer.servers.remove(id);
        }
        self.indicate(GatewayEvent::Deregistered(asp, id.clone()));
        self.update_server(now, id, false, None);
        // An application server that a registration has created is removed with its last ASP.
        let server = self.servers.get(id);
        if server.is_some_and(|server| server.dynamic && server.members.is_empty()) {
            self.take_server(id);
        }
    }

    /// Ends all memberships by registration (sections 4.3.4.1 and 4.3.4.2).
    pub(super) fn drop_registrations(&mut self, now: Time, asp: AspKey) {
        for id in self.servers_of(asp) {
            let server = self.servers.get(&id);
            let member = server.and_then(|server| server.members.get(&asp));
            if member.is_some_and(|member| member.registered) {
                self.leave(now, asp, &id);
            }
        }
    }
}
