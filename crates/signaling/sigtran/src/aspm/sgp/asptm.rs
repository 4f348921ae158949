//! ASP Active and ASP Inactive procedures (RFC 4666, sections 4.3.4.3 and 4.3.4.4).

use carrick_proto::Time;

use super::{
    AsIds, AsState, AspKey, AspState, ErrorCode, Gateway, GatewayEvent, Layer, Maintenance, Status,
};
use crate::aspm::Activation;
use crate::message::TrafficMode;

/// Maximum Error messages about a single application server, in answer to an ASP Inactive.
const MAX_SINGLE_ERRORS: usize = 32;

impl<L: Layer> Gateway<L> {
    /// ASP Active:
    ///
    /// 1. Find the application servers: those of the list, or all of the ASP.
    /// 2. Refuse those that are not defined for the ASP, blocked, in another traffic mode, or with labels that do not fit.
    /// 3. Report what the ASP must know before traffic, then enter ASP-ACTIVE in the rest, and acknowledge them in one
    ///    message.
    /// 4. In override mode, the ASP that was active enters ASP-INACTIVE and is notified.
    /// 5. Update the application servers, after the acknowledgement.
    pub(super) fn on_asp_active(
        &mut self,
        now: Time,
        asp: AspKey,
        activation: &Activation<L::Label>,
        listed: Option<&AsIds<L::AsId>>,
        message: &L::Message,
    ) {
        let (ids, undefined) = match self.servers_to_activate(asp, listed) {
            Ok(found) => found,
            Err(code) => return self.refuse(asp, code, message),
        };
        let mode = activation.traffic_mode;
        let is_undefined_mode = mode.is_some_and(|mode| !L::TRAFFIC_MODES.contains(&mode));
        let (mut accepted, mut blocked, mut other_mode, mut other_label) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for id in ids {
            let Some(server) = self.servers.get(&id) else {
                continue;
            };
            let differs = server.traffic_mode.is_some() && mode.is_some();
            if server.blocked {
                blocked.push(id);
            } else if is_undefined_mode || differs && server.traffic_mode != mode {
                other_mode.push(id);
            } else if !L::fits(&activation.label, &server.labels_beside(asp)) {
                other_label.push(id);
            } else {
                accepted.push(id);
            }
        }
        let refusals = [
            (L::UNDEFINED_AS, undefined),
            (ErrorCode::MANAGEMENT_BLOCKING, AsIds::new(blocked)),
            (
                ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE,
                AsIds::new(other_mode),
            ),
            (
                ErrorCode::INVALID_LOADSHARING_LABEL,
                AsIds::new(other_label),
            ),
        ];
        for (code, ids) in refusals {
            self.refuse_servers(asp, code, ids, message);
        }
        if accepted.is_empty() {
            return;
        }
        let newly_active = accepted.iter().cloned();
        let newly_active = newly_active.filter(|id| !self.is_in(asp, id, AspState::Active));
        for report in L::reports(self, asp, &newly_active.collect::<Vec<_>>()) {
            self.send(asp, report);
        }
        let overridden = self.activate(asp, &accepted, activation);
        let has_list = listed.is_some() || L::ACK_HAS_LIST;
        let ack = has_list.then(|| accepted.clone());
        self.acknowledge(asp, ack, |ids| Maintenance::AspActiveAck(mode, ids));
        self.after_activation(now, asp, overridden, &accepted);
    }

    /// Notifies the ASPs that were overridden, and updates application servers in which an ASP became active.
    fn after_activation(
        &mut self,
        now: Time,
        asp: AspKey,
        overridden: Vec<(AspKey, L::AsId)>,
        ids: &[L::AsId],
    ) {
        let identifier = self.identifier(asp);
        for (other, id) in overridden {
            self.notify(other, Status::AlternateAspActive, &id, identifier);
        }
        for id in ids {
            self.update_server(now, id, false, None);
        }
    }

    /// Considers an IPSP to be active, because it acknowledged an ASP Active (section 4.3.4.3.1).
    pub(crate) fn assume_active(
        &mut self,
        now: Time,
        asp: AspKey,
        id: L::AsId,
        traffic_mode: Option<TrafficMode>,
    ) {
        let activation = Activation {
            traffic_mode,
            label: L::Label::default(),
        };
        let overridden = self.activate(asp, std::slice::from_ref(&id), &activation);
        self.after_activation(now, asp, overridden, &[id]);
    }

    /// Considers an IPSP to be inactive, because it acknowledged an ASP Inactive (section 4.3.4.4.1).
    pub(crate) fn assume_inactive(&mut self, now: Time, asp: AspKey, id: L::AsId) {
        let changed = self.deactivate(asp, &[id]);
        self.after_deactivation(now, changed);
    }

    /// Returns the application servers of the list, or those of the ASP, and what is not the ASP's.
    #[expect(
        clippy::type_complexity,
        reason = "a pair of lists, of which one is a message's"
    )]
    fn servers_to_activate(
        &self,
        asp: AspKey,
        listed: Option<&AsIds<L::AsId>>,
    ) -> Result<(Vec<L::AsId>, Option<AsIds<L::AsId>>), ErrorCode> {
        if let Some(listed) = listed {
            return Ok(self.listed(asp, listed));
        }
        let ids = self.servers_of(asp);
        if ids.is_empty() {
            Err(L::INVALID_AS)
        } else if self.config.require_routing_context {
            Err(ErrorCode::MISSING_PARAMETER)
        } else {
            Ok((ids, None))
        }
    }

    /// Enters ASP-ACTIVE; returns the ASPs that were overridden, with their application server.
    fn activate(
        &mut self,
        asp: AspKey,
        ids: &[L::AsId],
        activation: &Activation<L::Label>,
    ) -> Vec<(AspKey, L::AsId)> {
        let mut overridden = Vec::new();
        for id in ids {
            let default = self.config.default_traffic_mode;
            let Some(server) = self.servers.get_mut(id) else {
                continue;
            };
            let mode = *server
                .traffic_mode
                .get_or_insert(activation.traffic_mode.unwrap_or(default));
            if mode == TrafficMode::OVERRIDE {
                let active = server.members_in(AspState::Active);
                let others = active.filter(|other| *other != asp);
                overridden.extend(others.map(|other| (other, id.clone())));
            }
            if let Some(member) = server.members.get_mut(&asp) {
                member.label = activation.label.clone();
            }
            if server.set_asp_state(asp, AspState::Active).is_some() {
                self.indicate(GatewayEvent::AspActive(asp, id.clone()));
            }
        }
        for (other, id) in &overridden {
            self.set_states(*other, std::slice::from_ref(id), AspState::Inactive);
            self.indicate(GatewayEvent::AspInactive(*other, id.clone()));
        }
        overridden
    }

    /// ASP Inactive:
    ///
    /// 1. Refuse each application server that is not defined for the ASP with its own Error message; after 32, the rest with
    ///    one.
    /// 2. Enter ASP-INACTIVE in the rest, or in all application servers without a list, and acknowledge.
    /// 3. Update the application servers, and notify of insufficient resources, after the acknowledgement.
    pub(super) fn on_asp_inactive(
        &mut self,
        now: Time,
        asp: AspKey,
        listed: Option<&AsIds<L::AsId>>,
        message: &L::Message,
    ) {
        let (ids, undefined) = match listed {
            Some(listed) => self.listed(asp, listed),
            None => (self.servers_of(asp), None),
        };
        if let Some(undefined) = undefined {
            let ranges = undefined.ranges();
            let (single, rest) = ranges.split_at(ranges.len().min(MAX_SINGLE_ERRORS));
            for ranges in single.chunks(1).chain([rest]) {
                let ids = AsIds::of_ranges(ranges.iter().cloned());
                self.refuse_servers(asp, L::INVALID_AS, ids, message);
            }
        }
        if ids.is_empty() {
            if listed.is_none() {
                self.refuse(asp, L::NO_AS, message);
            }
            return;
        }
        let changed = self.deactivate(asp, &ids);
        let ack = listed.map(|_| ids);
        self.acknowledge(asp, ack, Maintenance::AspInactiveAck);
        self.after_deactivation(now, changed);
    }

    /// Enters ASP-INACTIVE; returns the application servers in which the state was another.
    pub(super) fn deactivate(&mut self, asp: AspKey, ids: &[L::AsId]) -> Vec<L::AsId> {
        let changed = self.set_states(asp, ids, AspState::Inactive);
        let changed: Vec<_> = changed.into_iter().map(|(id, _)| id).collect();
        for id in &changed {
            self.indicate(GatewayEvent::AspInactive(asp, id.clone()));
        }
        changed
    }

    /// Updates application servers in which an ASP became inactive.
    fn after_deactivation(&mut self, now: Time, ids: Vec<L::AsId>) {
        for id in ids {
            self.update_server(now, &id, false, None);
            self.notify_insufficient(&id);
        }
    }

    /// Notifies the inactive ASPs of an application server in loadshare or broadcast mode that fewer than n are active.
    pub(super) fn notify_insufficient(&mut self, id: &L::AsId) {
        let Some(server) = self.servers.get(id) else {
            return;
        };
        if server.state != AsState::Active || server.active() >= server.required() {
            return;
        }
        let inactive: Vec<_> = server.members_in(AspState::Inactive).collect();
        for asp in inactive {
            self.notify(asp, Status::InsufficientAspResources, id, None);
        }
    }
}
