//! ASP Active and ASP Inactive procedures (RFC 4666, sections 4.3.4.3 and 4.3.4.4).

use carrick_proto::Time;

use super::{
    AsState, AspKey, AspState, ErrorCode, Message, RoutingContext, RoutingContexts, SgpIndication,
    SignallingGatewayProcess, Status, TrafficMode,
};
use crate::m3ua::{AspActive, AspInactive};

/// Maximum Error messages about a single routing context, in answer to an ASP Inactive.
const MAX_SINGLE_ERRORS: usize = 32;

impl SignallingGatewayProcess {
    /// ASP Active:
    ///
    /// 1. Find the application servers: those of the list, or all of the ASP.
    /// 2. Refuse those that are not defined for the ASP, blocked, or in another traffic mode.
    /// 3. Report destinations that are not available, then enter ASP-ACTIVE in the rest, and acknowledge them in one
    ///    message.
    /// 4. In override mode, the ASP that was active enters ASP-INACTIVE and is notified.
    /// 5. Update the application servers, after the acknowledgement.
    pub(super) fn on_asp_active(
        &mut self,
        now: Time,
        asp: AspKey,
        body: &AspActive,
        message: &Message,
    ) {
        let contexts = match self.contexts_to_activate(asp, body.routing_contexts.as_ref()) {
            Ok(contexts) => contexts,
            Err(code) => return self.refuse(asp, code, message),
        };
        let (mut accepted, mut undefined, mut blocked, mut other_mode) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for context in contexts {
            let member = self
                .servers
                .get(&context)
                .filter(|s| s.members.contains_key(&asp));
            match member {
                None => undefined.push(context),
                Some(server) if server.blocked => blocked.push(context),
                Some(server) => match (server.traffic_mode, body.traffic_mode) {
                    (Some(mode), Some(requested)) if mode != requested => other_mode.push(context),
                    _ => accepted.push(context),
                },
            }
        }
        self.refuse_contexts(asp, ErrorCode::NO_CONFIGURED_AS, &undefined, message);
        self.refuse_contexts(asp, ErrorCode::MANAGEMENT_BLOCKING, &blocked, message);
        let code = ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE;
        self.refuse_contexts(asp, code, &other_mode, message);
        if accepted.is_empty() {
            return;
        }
        self.report_exceptions(asp, &accepted);
        let overridden = self.activate(asp, &accepted, body.traffic_mode);
        let listed = body.routing_contexts.is_some();
        let ack = AspActive {
            traffic_mode: body.traffic_mode,
            routing_contexts: RoutingContexts::new(accepted.iter().copied()).filter(|_| listed),
            info: None,
        };
        self.send(asp, Message::AspActiveAck(ack));
        self.after_activation(now, asp, overridden, &accepted);
    }

    /// Notifies the ASPs that were overridden, and updates application servers in which an ASP became active.
    fn after_activation(
        &mut self,
        now: Time,
        asp: AspKey,
        overridden: Vec<(AspKey, RoutingContext)>,
        contexts: &[RoutingContext],
    ) {
        let identifier = self.identifier(asp);
        for (other, context) in overridden {
            self.notify(other, Status::AlternateAspActive, context, identifier);
        }
        for context in contexts {
            self.update_server(now, *context, false, None);
        }
    }

    /// Considers an IPSP to be active, because it acknowledged an ASP Active (section 4.3.4.3.1).
    pub(in crate::m3ua) fn assume_active(
        &mut self,
        now: Time,
        asp: AspKey,
        context: RoutingContext,
        traffic_mode: Option<TrafficMode>,
    ) {
        let overridden = self.activate(asp, &[context], traffic_mode);
        self.after_activation(now, asp, overridden, &[context]);
    }

    /// Considers an IPSP to be inactive, because it acknowledged an ASP Inactive (section 4.3.4.4.1).
    pub(in crate::m3ua) fn assume_inactive(
        &mut self,
        now: Time,
        asp: AspKey,
        context: RoutingContext,
    ) {
        let changed = self.deactivate(asp, &[context]);
        self.after_deactivation(now, changed);
    }

    /// Returns the contexts of the list, each once, or those of the ASP.
    fn contexts_to_activate(
        &self,
        asp: AspKey,
        listed: Option<&RoutingContexts>,
    ) -> Result<Vec<RoutingContext>, ErrorCode> {
        if let Some(listed) = listed {
            return Ok(unique(listed));
        }
        let contexts = self.contexts_of(asp);
        if contexts.is_empty() {
            Err(ErrorCode::INVALID_ROUTING_CONTEXT)
        } else if self.config.require_routing_context {
            Err(ErrorCode::MISSING_PARAMETER)
        } else {
            Ok(contexts)
        }
    }

    /// Enters ASP-ACTIVE; returns the ASPs that were overridden, with their application server.
    fn activate(
        &mut self,
        asp: AspKey,
        contexts: &[RoutingContext],
        requested: Option<TrafficMode>,
    ) -> Vec<(AspKey, RoutingContext)> {
        let mut overridden = Vec::new();
        for &context in contexts {
            let default = self.config.default_traffic_mode;
            let Some(server) = self.servers.get_mut(&context) else {
                continue;
            };
            let mode = *server
                .traffic_mode
                .get_or_insert(requested.unwrap_or(default));
            if mode == TrafficMode::OVERRIDE {
                let active = server.members_in(AspState::Active);
                overridden.extend(
                    active
                        .filter(|other| *other != asp)
                        .map(|other| (other, context)),
                );
            }
            if server.set_asp_state(asp, AspState::Active).is_some() {
                self.indicate(SgpIndication::AspActive(asp, context));
            }
        }
        for &(other, context) in &overridden {
            self.set_states(other, &[context], AspState::Inactive);
            self.indicate(SgpIndication::AspInactive(other, context));
        }
        overridden
    }

    /// ASP Inactive:
    ///
    /// 1. Refuse each routing context that is not defined for the ASP with its own Error message; after 32, the rest with
    ///    one.
    /// 2. Enter ASP-INACTIVE in the rest, or in all application servers without a list, and acknowledge.
    /// 3. Update the application servers, and notify of insufficient resources, after the acknowledgement.
    pub(super) fn on_asp_inactive(
        &mut self,
        now: Time,
        asp: AspKey,
        body: &AspInactive,
        message: &Message,
    ) {
        let (contexts, undefined): (Vec<_>, Vec<_>) = match &body.routing_contexts {
            Some(listed) => {
                let listed = unique(listed).into_iter();
                listed.partition(|context| self.is_member(asp, *context))
            }
            None => (self.contexts_of(asp), Vec::new()),
        };
        let code = ErrorCode::INVALID_ROUTING_CONTEXT;
        let (single, rest) = undefined.split_at(undefined.len().min(MAX_SINGLE_ERRORS));
        for context in single.chunks(1).chain([rest]) {
            self.refuse_contexts(asp, code, context, message);
        }
        if contexts.is_empty() {
            if body.routing_contexts.is_none() {
                self.refuse(asp, ErrorCode::NO_CONFIGURED_AS, message);
            }
            return;
        }
        let changed = self.deactivate(asp, &contexts);
        let listed = body.routing_contexts.is_some();
        let ack = AspInactive {
            routing_contexts: RoutingContexts::new(contexts).filter(|_| listed),
            info: None,
        };
        self.send(asp, Message::AspInactiveAck(ack));
        self.after_deactivation(now, changed);
    }

    /// Enters ASP-INACTIVE; returns the application servers in which the state was another.
    pub(super) fn deactivate(
        &mut self,
        asp: AspKey,
        contexts: &[RoutingContext],
    ) -> Vec<RoutingContext> {
        let changed = self.set_states(asp, contexts, AspState::Inactive);
        let changed: Vec<_> = changed.into_iter().map(|(context, _)| context).collect();
        for context in &changed {
            self.indicate(SgpIndication::AspInactive(asp, *context));
        }
        changed
    }

    /// Updates application servers in which an ASP became inactive.
    fn after_deactivation(&mut self, now: Time, contexts: Vec<RoutingContext>) {
        for context in contexts {
            self.update_server(now, context, false, None);
            self.notify_insufficient(context);
        }
    }

    /// Notifies the inactive ASPs of an application server in loadshare or broadcast mode that fewer than n are active.
    pub(super) fn notify_insufficient(&mut self, context: RoutingContext) {
        let Some(server) = self.servers.get(&context) else {
            return;
        };
        if server.state != AsState::Active || server.active() >= server.required() {
            return;
        }
        let inactive: Vec<_> = server.members_in(AspState::Inactive).collect();
        for asp in inactive {
            self.notify(asp, Status::InsufficientAspResources, context, None);
        }
    }
}

/// Returns each context of a list once.
pub(super) fn unique(listed: &[RoutingContext]) -> Vec<RoutingContext> {
    let mut contexts = listed.to_vec();
    contexts.sort_unstable();
    contexts.dedup();
    contexts
}
