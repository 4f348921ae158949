//! Registration and deregistration of keys (RFC 4666 and RFC 3868, section 4.4; RFC 3331, section 4.4).

use carrick_proto::Time;

use super::{AsMember, AspKey, AspState, Gateway, GatewayEvent, Layer, RegistrationPolicy};
use crate::aspm::asp::status;

/// Outcome of the comparison of a key with those of the application servers.
pub(crate) enum RegistrationOutcome<L: Layer> {
    /// The key is that of an application server.
    Same(L::AsId),
    /// The key is new, and the application server with it. Its identifier is assigned if it is created.
    New(L::Server),
    /// The key is refused with this status.
    Refused(u32),
}

/// Result of a deregistration: the application server and the status.
pub(crate) type DeregistrationOutcome<I> = (I, u32);

impl<L: Layer> Gateway<L> {
    /// Registers an ASP for a key; returns the status and the application server. A registration that succeeded is to be
    /// completed by [`complete_registrations`](Self::complete_registrations) behind the response.
    ///
    /// `mode` is the traffic mode of the request, `already_registered` the layer's status for a key that the ASP has
    /// registered before.
    pub(crate) fn register(
        &mut self,
        asp: AspKey,
        outcome: RegistrationOutcome<L>,
        mode: Option<crate::message::TrafficMode>,
        already_registered: u32,
    ) -> Result<L::AsId, (u32, Option<L::AsId>)> {
        let id = match outcome {
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
            return Err((already_registered, Some(id)));
        }
        if let (Some(configured), Some(requested)) = (server.traffic_mode, mode)
            && configured != requested
        {
            return Err((status::UNSUPPORTED_TRAFFIC_MODE, None));
        }
        server
            .members
            .insert(asp, AsMember::new(AspState::Inactive, true));
        if let Some(peer) = self.asps.get_mut(&asp) {
            peer.servers.insert(id.clone());
        }
        self.indicate(GatewayEvent::Registered(asp, id.clone()));
        Ok(id)
    }

    /// Updates the application servers that an ASP has joined, and notifies it of their states.
    pub(crate) fn complete_registrations(&mut self, now: Time, asp: AspKey, ids: &[L::AsId]) {
        for id in ids {
            if !self.update_server(now, id, false, None) {
                self.notify_state(id, Some(asp), None);
            }
        }
    }

    /// Returns whether an application server exists.
    pub(crate) fn has_server(&self, id: &L::AsId) -> bool {
        self.servers.contains_key(id)
    }

    /// Returns the results of deregistrations. They are carried out by
    /// [`complete_deregistrations`](Self::complete_deregistrations) behind the response. `active` is the layer's status for
    /// an application server in which the ASP is active.
    pub(crate) fn deregister(
        &self,
        asp: AspKey,
        ids: impl IntoIterator<Item = L::AsId>,
        active: u32,
    ) -> Vec<DeregistrationOutcome<L::AsId>> {
        let results = ids.into_iter().map(|id| {
            let status = match self.servers.get(&id) {
                None => status::INVALID_ID,
                Some(server) => match server.members.get(&asp) {
                    None => status::NOT_REGISTERED,
                    // Membership by configuration is not the ASP's to end.
                    Some(member) if !member.registered => status::DEREGISTRATION_DENIED,
                    Some(member) if member.state == AspState::Active => active,
                    Some(_) => status::SUCCESS,
                },
            };
            (id, status)
        });
        results.collect()
    }

    /// Carries out the deregistrations that succeeded.
    pub(crate) fn complete_deregistrations(
        &mut self,
        now: Time,
        asp: AspKey,
        results: Vec<DeregistrationOutcome<L::AsId>>,
    ) {
        for (id, result) in results {
            if result == status::SUCCESS {
                self.leave(now, asp, &id);
            }
        }
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
