//! State of SS7 destinations and subsystems (RFC 3868, section 4.5).

use super::{
    AspKey, DestinationStateAudit, ErrorCode, Message, NetworkAppearance, PointCode, SgpIndication,
    SgpRequestError, SignallingGatewayProcess, SubsystemNumber,
};
use crate::m3ua;
use crate::m3ua::route::{
    Availability, DestinationEvent, MAX_POINT_CODES, RouteStateFull, Ss7Layer,
};
use crate::sua::{
    AffectedPointCode, AffectedPointCodes, CongestionLevel, DestinationState, ErrorMessage,
    RoutingContexts, SignallingCongestion, Smi, Sua, UnavailableUserPart, UserCause,
    UserPartUnavailable,
};

/// Maximum point codes at which a DAUD audits a subsystem: each has its own answer.
const MAX_AUDITED_SUBSYSTEMS: usize = 64;

/// Returns the message that reports an event. A congestion without a level has level 0, undefined.
pub(in crate::sua) fn report(
    event: &DestinationEvent,
    routing_contexts: Option<RoutingContexts>,
) -> Message {
    let info = None;
    let state = |affected: &AffectedPointCodes| DestinationState {
        routing_contexts: routing_contexts.clone(),
        affected: affected.clone(),
        ssn: None,
        smi: None,
        info: None,
    };
    match event {
        DestinationEvent::Unavailable(affected) => Message::DestinationUnavailable(state(affected)),
        DestinationEvent::Available(affected) => Message::DestinationAvailable(state(affected)),
        DestinationEvent::Restricted(affected) => Message::DestinationRestricted(state(affected)),
        DestinationEvent::Congested(affected, level) => {
            let level = level.map_or(0, m3ua::CongestionLevel::level);
            Message::SignallingCongestion(SignallingCongestion {
                routing_contexts,
                affected: affected.clone(),
                ssn: None,
                level: CongestionLevel::new(level).unwrap_or(CongestionLevel::NONE),
                smi: None,
                info,
            })
        }
        DestinationEvent::UserPartUnavailable(point_code, user_cause) => {
            Message::UserPartUnavailable(UserPartUnavailable {
                routing_contexts,
                affected: UnavailableUserPart(*point_code),
                user_cause: UserCause {
                    cause: user_cause.cause,
                    user: user_cause.user,
                },
                info,
            })
        }
    }
}

/// Returns the message that reports a subsystem.
fn subsystem_report(
    point_code: PointCode,
    ssn: SubsystemNumber,
    available: bool,
    smi: Option<Smi>,
    routing_contexts: Option<RoutingContexts>,
) -> Message {
    let state = DestinationState {
        routing_contexts,
        affected: AffectedPointCodes(vec![AffectedPointCode::single(point_code)]),
        ssn: Some(ssn),
        smi,
        info: None,
    };
    if available {
        Message::DestinationAvailable(state)
    } else {
        Message::DestinationUnavailable(state)
    }
}

impl SignallingGatewayProcess {
    /// Records the state of a subsystem and sends it to all concerned ASPs: N-STATE indication. Without a route state it is
    /// only sent.
    ///
    /// # Errors
    /// [`RouteStateFull`] if the state has no room; it is sent nevertheless.
    pub fn report_subsystem(
        &mut self,
        network: Option<NetworkAppearance>,
        point_code: PointCode,
        ssn: SubsystemNumber,
        available: bool,
        smi: Option<Smi>,
    ) -> Result<(), RouteStateFull> {
        let network = network.map(Into::into);
        let limit = self.config.max_route_ranges;
        let key = (network, point_code, ssn);
        let subsystems = &mut self.user.subsystems;
        let has_room = subsystems.len() < limit || subsystems.contains_key(&key);
        if has_room {
            subsystems.insert(key, available);
        }
        for (asp, contexts) in self.concerned(network) {
            let report = subsystem_report(point_code, ssn, available, smi, Some(contexts));
            self.send(asp, report);
        }
        if has_room || limit == 0 {
            Ok(())
        } else {
            Err(RouteStateFull(limit))
        }
    }

    /// Answers a DAUD with the status of its signalling points, or a part of them: DUNA, DAVA or DRST, and SCON before the
    /// latter two (RFC 3868, section 4.5.3).
    ///
    /// # Errors
    /// [`SgpRequestError::NotUp`].
    pub fn answer_audit(
        &mut self,
        asp: AspKey,
        audit: &DestinationStateAudit,
        event: &DestinationEvent,
    ) -> Result<(), SgpRequestError> {
        self.require_up(asp)?;
        self.send(asp, report(event, audit.routing_contexts.clone()));
        Ok(())
    }

    /// Answers a DAUD with the Error message Destination Status Unknown, or Subsystem Status Unknown.
    ///
    /// # Errors
    /// [`SgpRequestError::NotUp`].
    pub fn refuse_audit(
        &mut self,
        asp: AspKey,
        audit: &DestinationStateAudit,
    ) -> Result<(), SgpRequestError> {
        self.require_up(asp)?;
        let code = match audit.ssn {
            Some(_) => ErrorCode::SUBSYSTEM_STATUS_UNKNOWN,
            None => ErrorCode::DESTINATION_STATUS_UNKNOWN,
        };
        for affected in audit.affected.chunks(MAX_POINT_CODES) {
            let error = ErrorMessage {
                routing_contexts: audit.routing_contexts.clone(),
                affected: Some(AffectedPointCodes(affected.to_vec())),
                ssn: audit.ssn,
                ..ErrorMessage::new(code)
            };
            self.answer_error(asp, error);
        }
        Ok(())
    }

    /// DAUD of an ASP: answered from the route state, or indicated if there is none.
    pub(super) fn on_audit(
        &mut self,
        asp: AspKey,
        audit: &DestinationStateAudit,
        message: &Message,
    ) {
        if self.check_listed(asp, message).is_none() {
            return;
        }
        let network = self.audited_network(asp, None, audit.routing_contexts.as_ref());
        let Some(events) = self.audit_state(network, &audit.affected) else {
            self.indicate(SgpIndication::Audit(asp, audit.clone()));
            return;
        };
        // The ASP is up, because its DAUD was accepted.
        match audit.ssn {
            Some(ssn) if is_single(audit) => self.answer_subsystem_audit(asp, network, audit, ssn),
            Some(_) => drop(self.refuse_audit(asp, audit)),
            None => {
                for event in events {
                    let _ = self.answer_audit(asp, audit, &event);
                }
            }
        }
    }

    /// Answers the audit of a subsystem. One that was never reported is unavailable, as are those of a signalling point that
    /// is.
    fn answer_subsystem_audit(
        &mut self,
        asp: AspKey,
        network: Option<m3ua::NetworkAppearance>,
        audit: &DestinationStateAudit,
        ssn: SubsystemNumber,
    ) {
        for affected in audit.affected.iter() {
            let point_code = affected.point_code;
            let status = Sua::routes(&self.user).status(network, point_code);
            let is_reachable = status.availability != Availability::Unavailable;
            let reported = self.user.subsystems.get(&(network, point_code, ssn));
            let available = is_reachable && reported == Some(&true);
            let contexts = audit.routing_contexts.clone();
            let report = subsystem_report(point_code, ssn, available, None, contexts);
            self.send(asp, report);
        }
    }
}

/// Returns whether a DAUD audits a subsystem at single signalling points, and not at too many.
fn is_single(audit: &DestinationStateAudit) -> bool {
    audit.affected.len() <= MAX_AUDITED_SUBSYSTEMS
        && audit.affected.iter().all(|affected| affected.mask == 0)
}
