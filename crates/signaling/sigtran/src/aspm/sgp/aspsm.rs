//! ASP Up and ASP Down procedures, loss of associations, management blocking (RFC 4666, sections 4.3.3, 4.3.4.1,
//! 4.3.4.2 and 4.7).

use carrick_proto::Time;

use super::{
    AspKey, AspState, Gateway, GatewayConfigError, GatewayEvent, HeartbeatTimer, Layer, Maintenance,
};
use crate::aspm::AsIds;
use crate::message::{AspDown, AspIdentifier, AspUp, ErrorCode, Status};

impl<L: Layer> Gateway<L> {
    /// ASP Up:
    ///
    /// 1. Refuse it for management reasons, or if the ASP Identifier is missing or not unique.
    /// 2. In ASP-ACTIVE: acknowledge, report Unexpected Message, enter ASP-INACTIVE, deregister.
    /// 3. In ASP-INACTIVE: acknowledge.
    /// 4. In ASP-DOWN: enter ASP-INACTIVE, acknowledge, notify of the states of the application servers.
    pub(super) fn on_asp_up(&mut self, now: Time, asp: AspKey, body: &AspUp, message: &L::Message) {
        if let Err(code) = self.check_asp_up(asp, body) {
            self.refuse(asp, code, message);
            return;
        }
        let Some(peer) = self.asps.get_mut(&asp) else {
            return;
        };
        peer.identifier = body.asp_identifier;
        let ids = self.servers_of(asp);
        let was_active = (ids.iter()).any(|id| self.is_in(asp, id, AspState::Active));
        let was_up = self.enter_up(asp, &ids);
        self.send_maintenance(asp, Maintenance::AspUpAck(AspUp::default()));
        if was_active {
            self.refuse(asp, ErrorCode::UNEXPECTED_MESSAGE, message);
            self.drop_registrations(now, asp);
        }
        self.after_up(now, asp, ids, was_up);
    }

    /// Enters ASP-INACTIVE in application servers; returns whether the ASP was up before.
    fn enter_up(&mut self, asp: AspKey, ids: &[L::AsId]) -> bool {
        let peer = self.asps.get_mut(&asp);
        let was_up = peer.is_none_or(|peer| std::mem::replace(&mut peer.up, true));
        if was_up {
            self.deactivate(asp, ids);
        } else {
            self.indicate(GatewayEvent::AspUp(asp));
            self.set_states(asp, ids, AspState::Inactive);
        }
        was_up
    }

    /// Updates the application servers of an ASP that is up.
    fn after_up(&mut self, now: Time, asp: AspKey, ids: Vec<L::AsId>, was_up: bool) {
        for id in ids {
            let changed = self.update_server(now, &id, false, None);
            // The change has been notified to all ASPs, this one included.
            if !was_up && !changed {
                self.notify_state(&id, Some(asp), None);
            }
        }
    }

    /// Considers an IPSP to be up, because it acknowledged an ASP Up (section 4.3.4.1.2).
    pub(crate) fn assume_up(&mut self, now: Time, asp: AspKey) {
        let ids = self.servers_of(asp);
        let was_up = self.enter_up(asp, &ids);
        self.after_up(now, asp, ids, was_up);
    }

    /// Takes over an ASP Up that was acknowledged before it was known which ASP sent it. If it is not acceptable, the ASP
    /// gets an ASP Down Ack without a request.
    pub fn adopt_up(&mut self, now: Time, asp: AspKey, body: &AspUp) {
        if self.check_asp_up(asp, body).is_err() {
            self.send_maintenance(asp, Maintenance::AspDownAck(AspDown::default()));
        } else if let Some(peer) = self.asps.get_mut(&asp) {
            peer.identifier = body.asp_identifier;
            self.assume_up(now, asp);
        }
    }

    /// Considers an IPSP to be down, because it acknowledged an ASP Down (section 4.3.4.1.2).
    pub(crate) fn assume_down(&mut self, now: Time, asp: AspKey) {
        let left = self.enter_down(asp);
        self.after_down(now, asp, &left, None);
    }

    pub(super) fn is_in(&self, asp: AspKey, id: &L::AsId, state: AspState) -> bool {
        let server = self.servers.get(id);
        server.and_then(|server| server.asp_state(asp)) == Some(state)
    }

    fn is_member(&self, asp: AspKey, id: &L::AsId) -> bool {
        let server = self.servers.get(id);
        server.is_some_and(|server| server.members.contains_key(&asp))
    }

    fn check_asp_up(&self, asp: AspKey, body: &AspUp) -> Result<(), ErrorCode> {
        let Some(peer) = self.asps.get(&asp) else {
            return Ok(());
        };
        if peer.blocked {
            return Err(ErrorCode::MANAGEMENT_BLOCKING);
        }
        let Some(identifier) = body.asp_identifier else {
            let required = self.config.require_asp_identifier;
            return if required {
                Err(ErrorCode::ASP_IDENTIFIER_REQUIRED)
            } else {
                Ok(())
            };
        };
        let other = peer
            .configured_identifier
            .is_some_and(|configured| configured != identifier);
        if other || self.is_identifier_of_other(asp, identifier) {
            return Err(ErrorCode::INVALID_ASP_IDENTIFIER);
        }
        Ok(())
    }

    /// Returns whether another ASP of the same application servers is up with this identifier.
    fn is_identifier_of_other(&self, asp: AspKey, identifier: AspIdentifier) -> bool {
        let others = self
            .asps
            .iter()
            .filter(|(other, peer)| **other != asp && peer.up);
        let mut same = others.filter(|(other, _)| self.identifier(**other) == Some(identifier));
        let ids = self.servers_of(asp);
        same.any(|(other, _)| {
            let shares = |id: &L::AsId| self.is_member(*other, id);
            ids.is_empty() || ids.iter().any(shares)
        })
    }

    /// ASP Down: always acknowledged; the ASP leaves all application servers.
    pub(super) fn on_asp_down(&mut self, now: Time, asp: AspKey) {
        let left = self.enter_down(asp);
        self.send_maintenance(asp, Maintenance::AspDownAck(AspDown::default()));
        self.after_down(now, asp, &left, None);
    }

    /// Loss or restart of the association.
    pub(super) fn lose_association(&mut self, now: Time, asp: AspKey) {
        let failed = self.identifier(asp);
        let left = self.enter_down(asp);
        if let Some(peer) = self.asps.get_mut(&asp) {
            peer.outbound_streams = None;
        }
        self.update_heartbeat(asp, HeartbeatTimer::stop);
        for (id, _) in &left {
            for member in self.available_members(id) {
                self.notify(member, Status::AspFailure, id, failed);
            }
        }
        self.after_down(now, asp, &left, failed);
    }

    /// Enters ASP-DOWN in all application servers; returns those in which the state was another, with that state.
    fn enter_down(&mut self, asp: AspKey) -> Vec<(L::AsId, AspState)> {
        let Some(peer) = self.asps.get_mut(&asp) else {
            return Vec::new();
        };
        if std::mem::take(&mut peer.up) {
            self.indicate(GatewayEvent::AspDown(asp));
        }
        let ids = self.servers_of(asp);
        self.set_states(asp, &ids, AspState::Down)
    }

    /// Updates the application servers that an ASP has left.
    fn after_down(
        &mut self,
        now: Time,
        asp: AspKey,
        left: &[(L::AsId, AspState)],
        failed: Option<AspIdentifier>,
    ) {
        for (id, previous) in left {
            self.update_server(now, id, false, failed);
            if *previous == AspState::Active {
                self.notify_insufficient(id);
            }
        }
        self.drop_registrations(now, asp);
    }

    /// Sets the state of an ASP in application servers; returns those in which it was another.
    pub(super) fn set_states(
        &mut self,
        asp: AspKey,
        ids: &[L::AsId],
        state: AspState,
    ) -> Vec<(L::AsId, AspState)> {
        let mut changed = Vec::new();
        for id in ids {
            let server = self.servers.get_mut(id);
            if let Some(previous) = server.and_then(|server| server.set_asp_state(asp, state)) {
                changed.push((id.clone(), previous));
            }
        }
        changed
    }

    /// Blocks an ASP for management reasons, or ends that. A blocked ASP that is up gets an ASP Down Ack without a
    /// request, as section 4.7 recommends; its ASP Up messages are refused.
    ///
    /// # Errors
    /// [`GatewayConfigError::UnknownAsp`].
    pub fn set_asp_blocked(
        &mut self,
        now: Time,
        asp: AspKey,
        blocked: bool,
    ) -> Result<(), GatewayConfigError<L::AsId>> {
        let peer = self
            .asps
            .get_mut(&asp)
            .ok_or(GatewayConfigError::UnknownAsp(asp))?;
        peer.blocked = blocked;
        if blocked && peer.up {
            self.on_asp_down(now, asp);
        }
        Ok(())
    }

    /// Blocks an application server for management reasons, or ends that. Active ASPs get an ASP Inactive Ack
    /// without a request, as section 4.7 recommends; ASP Active messages are refused.
    ///
    /// # Errors
    /// [`GatewayConfigError::UnknownApplicationServer`].
    #[expect(clippy::needless_pass_by_value, reason = "routing contexts are copied")]
    pub fn set_application_server_blocked(
        &mut self,
        now: Time,
        id: L::AsId,
        blocked: bool,
    ) -> Result<(), GatewayConfigError<L::AsId>> {
        let server = self.servers.get_mut(&id);
        let server = server.ok_or(GatewayConfigError::UnknownApplicationServer(id.clone()))?;
        server.blocked = blocked;
        if !blocked {
            return Ok(());
        }
        let active: Vec<_> = server.members_in(AspState::Active).collect();
        for asp in active {
            self.set_states(asp, std::slice::from_ref(&id), AspState::Inactive);
            self.indicate(GatewayEvent::AspInactive(asp, id.clone()));
            let ack = Maintenance::AspInactiveAck(AsIds::new([id.clone()]));
            self.send_maintenance(asp, ack);
        }
        self.update_server(now, &id, false, None);
        Ok(())
    }
}
