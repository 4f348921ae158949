//! Registration of keys by an ASP (RFC 4666 and RFC 3868, section 4.4; RFC 3331, section 4.4).

use carrick_proto::Time;

use super::{
    Asp, AspEvent, AspRequestError, AspState, RequestFailure, ServedApplication, ServedId, Timer,
};
use crate::aspm::{AsIds, Layer};

/// Registration that waits for its result.
#[derive(Clone, Debug)]
pub struct PendingRegistration<L: Layer> {
    /// Application server that the key creates or joins; the result has its identifier.
    served: L::Served,
    deadline: Time,
}

/// Status of results, which have the same numbers in all layers.
pub(crate) mod status {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const UNKNOWN: u32 = 1;
    /// Deregistration: the identifier is not one of an application server.
    pub(crate) const INVALID_ID: u32 = 2;
    pub(crate) const DEREGISTRATION_DENIED: u32 = 3;
    pub(crate) const NOT_REGISTERED: u32 = 4;
    pub(crate) const OVERLAP: u32 = 6;
    pub(crate) const NOT_PROVISIONED: u32 = 7;
    pub(crate) const INSUFFICIENT_RESOURCES: u32 = 8;
    pub(crate) const UNSUPPORTED_TRAFFIC_MODE: u32 = 10;
}

impl<L: Layer> Asp<L> {
    /// Requests registrations of keys with their local identifiers.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN, an identifier is in use or the limit is reached; nothing is
    /// requested then.
    pub(crate) fn request_registration(
        &mut self,
        now: Time,
        keys: Vec<(u32, L::Served)>,
        message: L::Message,
    ) -> Result<(), AspRequestError<L::AsId>> {
        self.require_up()?;
        let limit = self.config.max_application_servers;
        if self.servers.len() + self.registrations.len() + keys.len() > limit {
            return Err(AspRequestError::TooManyRegistrations(limit));
        }
        let mut identifiers: Vec<_> = keys.iter().map(|(local_id, _)| *local_id).collect();
        identifiers.sort_unstable();
        let repeated = identifiers.windows(2).find(|pair| pair[0] == pair[1]);
        let repeated = repeated.map(|pair| &pair[0]);
        let waits = |local_id: &&u32| self.registrations.contains_key(local_id);
        if let Some(used) = repeated.or_else(|| identifiers.iter().find(waits)) {
            return Err(AspRequestError::IdentifierInUse(*used));
        }
        let deadline = now + self.config.t_ack * self.config.attempts.get();
        for (local_id, served) in keys {
            let timer = Timer::Registration(local_id);
            self.deadlines.reschedule(timer, None, Some(deadline));
            let pending = PendingRegistration { served, deadline };
            self.registrations.insert(local_id, pending);
        }
        self.send(message);
        Ok(())
    }

    fn take_registration(&mut self, local_id: u32) -> Option<PendingRegistration<L>> {
        let pending = self.registrations.remove(&local_id)?;
        let timer = Timer::Registration(local_id);
        self.deadlines
            .reschedule(timer, Some(pending.deadline), None);
        Some(pending)
    }

    /// Ends all registrations that wait, without a result.
    pub(super) fn fail_registrations(&mut self) {
        let waiting: Vec<_> = self.registrations.keys().copied().collect();
        for local_id in waiting {
            self.fail_registration(local_id);
        }
    }

    pub(super) fn fail_registration(&mut self, local_id: u32) {
        if self.take_registration(local_id).is_some() {
            self.indicate(AspEvent::Registered(local_id, Err(None)));
        }
    }

    /// Handles the result of a registration. A key that is already registered has the identifier of its application server.
    pub(crate) fn on_registration(
        &mut self,
        local_id: u32,
        result: u32,
        id: L::AsId,
        already_registered: bool,
    ) {
        let Some(mut pending) = self.take_registration(local_id) else {
            return;
        };
        let key = Some(id.clone());
        let registered = result == status::SUCCESS || already_registered;
        if registered && !self.servers.contains_key(&key) {
            L::set_served_id(&mut pending.served, id.clone());
            let served = ServedApplication::new(pending.served, true);
            self.servers.insert(key.clone(), served);
            self.set_state(&key, AspState::Inactive);
        }
        let outcome = if result == status::SUCCESS {
            Ok(id)
        } else {
            Err(Some(result))
        };
        self.indicate(AspEvent::Registered(local_id, outcome));
    }

    /// Requests deregistrations.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN or does not serve an application server; nothing is requested then.
    pub(crate) fn request_deregistration(
        &mut self,
        now: Time,
        ids: Option<&AsIds<L::AsId>>,
        message: L::Message,
    ) -> Result<(), AspRequestError<L::AsId>> {
        let deadline = now + self.config.t_ack * self.config.attempts.get();
        for id in self.requested(ids)? {
            self.set_deregistration(&id, Some(deadline));
        }
        self.send(message);
        Ok(())
    }

    /// Starts or ends the wait for a deregistration response; returns whether there was one.
    pub(super) fn set_deregistration(
        &mut self,
        id: &ServedId<L::AsId>,
        next: Option<Time>,
    ) -> bool {
        let Some(served) = self.servers.get_mut(id) else {
            return false;
        };
        let previous = std::mem::replace(&mut served.deregistration, next);
        let timer = Timer::Deregistration(id.clone());
        self.deadlines.reschedule(timer, previous, next);
        previous.is_some()
    }

    /// Handles the result of a deregistration.
    pub(crate) fn on_deregistration(&mut self, id: L::AsId, result: u32) {
        let key = Some(id.clone());
        if !self.set_deregistration(&key, None) {
            return;
        }
        let gone = matches!(result, status::SUCCESS | status::NOT_REGISTERED);
        let registered = self
            .servers
            .get(&key)
            .is_some_and(|served| served.registered);
        if gone && registered {
            self.fail_traffic_request(&key, RequestFailure::Superseded);
            self.set_state(&key, AspState::Down);
            self.servers.remove(&key);
        }
        self.indicate(AspEvent::Deregistered(id, result));
    }
}
