//! SS7 signalling network management (RFC 4666, section 4.5).

use super::asptm::unique;
use super::{
    AspKey, AspState, DestinationState, ErrorCode, ErrorMessage, Message, RoutingContext,
    RoutingContexts, SgpIndication, SignallingCongestion, SignallingGatewayProcess,
};
use crate::m3ua::asp::invalid_appearance;
use crate::m3ua::{
    AffectedPointCodes, CongestionLevel, NetworkAppearance, PointCode, UnavailableUserPart,
    UserCause, UserPartUnavailable,
};

/// Maximum point codes of an Error message; a DAUD can have more.
const MAX_ERROR_POINT_CODES: usize = 8192;

/// Status of SS7 destinations: an MTP-PAUSE, MTP-RESUME or MTP-STATUS indication of the nodal interworking function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DestinationEvent {
    /// MTP-PAUSE: DUNA.
    Unavailable(AffectedPointCodes),
    /// MTP-RESUME: DAVA.
    Available(AffectedPointCodes),
    /// Routes are restricted: DRST.
    Restricted(AffectedPointCodes),
    /// MTP-STATUS, congestion: SCON.
    Congested(AffectedPointCodes, Option<CongestionLevel>),
    /// MTP-STATUS, user part unavailable: DUPU.
    UserPartUnavailable(PointCode, UserCause),
}

/// Request that is not possible. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SgpRequestError {
    /// The ASP does not exist or is in ASP-DOWN.
    #[error("{0:?} is in ASP-DOWN: no message may be sent to it")]
    NotUp(AspKey),
}

impl DestinationEvent {
    fn message(
        &self,
        network_appearance: Option<NetworkAppearance>,
        routing_contexts: Option<RoutingContexts>,
    ) -> Message {
        let info = None;
        let state = |affected: &AffectedPointCodes| DestinationState {
            network_appearance,
            routing_contexts: routing_contexts.clone(),
            affected: affected.clone(),
            info: None,
        };
        match self {
            Self::Unavailable(affected) => Message::DestinationUnavailable(state(affected)),
            Self::Available(affected) => Message::DestinationAvailable(state(affected)),
            Self::Restricted(affected) => Message::DestinationRestricted(state(affected)),
            Self::Congested(affected, level) => {
                Message::SignallingCongestion(SignallingCongestion {
                    network_appearance,
                    routing_contexts,
                    affected: affected.clone(),
                    concerned: None,
                    level: *level,
                    info,
                })
            }
            Self::UserPartUnavailable(point_code, user_cause) => {
                Message::UserPartUnavailable(UserPartUnavailable {
                    network_appearance,
                    routing_contexts,
                    affected: UnavailableUserPart(*point_code),
                    user_cause: *user_cause,
                    info,
                })
            }
        }
    }
}

impl SignallingGatewayProcess {
    /// Sends a change of destinations to all concerned ASPs: those that are active in an application server with the
    /// network appearance (RFC 4666, section 4.5.1).
    pub fn report_destinations(
        &mut self,
        appearance: Option<NetworkAppearance>,
        event: &DestinationEvent,
    ) {
        let asps: Vec<_> = self.asps.keys().copied().collect();
        for asp in asps {
            let mut contexts = self.contexts_of(asp);
            contexts.retain(|context| {
                self.servers.get(context).is_some_and(|server| {
                    server.config.network_appearance == appearance
                        && server.asp_state(asp) == Some(AspState::Active)
                })
            });
            if let Some(contexts) = RoutingContexts::new(contexts) {
                self.send(asp, event.message(appearance, Some(contexts)));
            }
        }
    }

    /// Answers a DAUD with the status of its destinations, or a part of them: DUNA, DAVA or DRST, and SCON before the
    /// latter two (RFC 4666, section 4.5.3).
    ///
    /// # Errors
    /// [`SgpRequestError::NotUp`].
    pub fn answer_audit(
        &mut self,
        asp: AspKey,
        audit: &DestinationState,
        event: &DestinationEvent,
    ) -> Result<(), SgpRequestError> {
        self.require_up(asp)?;
        let contexts = audit
            .routing_contexts
            .as_ref()
            .map(|listed| RoutingContexts(unique(listed)));
        self.send(asp, event.message(audit.network_appearance, contexts));
        Ok(())
    }

    /// Answers a DAUD with the Error message Destination Status Unknown.
    ///
    /// # Errors
    /// [`SgpRequestError::NotUp`].
    pub fn refuse_audit(
        &mut self,
        asp: AspKey,
        audit: &DestinationState,
    ) -> Result<(), SgpRequestError> {
        self.require_up(asp)?;
        let contexts = audit
            .routing_contexts
            .as_ref()
            .map(|listed| RoutingContexts(unique(listed)));
        for affected in audit.affected.chunks(MAX_ERROR_POINT_CODES) {
            let error = ErrorMessage {
                routing_contexts: contexts.clone(),
                network_appearance: audit.network_appearance,
                affected: Some(AffectedPointCodes(affected.to_vec())),
                ..ErrorMessage::new(ErrorCode::DESTINATION_STATUS_UNKNOWN)
            };
            self.answer_error(asp, error);
        }
        Ok(())
    }

    fn require_up(&self, asp: AspKey) -> Result<(), SgpRequestError> {
        let peer = self.asps.get(&asp).filter(|peer| peer.up);
        peer.map(drop).ok_or(SgpRequestError::NotUp(asp))
    }

    /// DAUD of an ASP.
    pub(super) fn on_audit(&mut self, asp: AspKey, audit: &DestinationState, message: &Message) {
        let contexts = audit.routing_contexts.as_ref();
        if self.check_network(asp, contexts, audit.network_appearance, message) {
            self.indicate(SgpIndication::Audit(asp, audit.clone()));
        }
    }

    /// SCON of an ASP.
    pub(super) fn on_congestion(
        &mut self,
        asp: AspKey,
        body: &SignallingCongestion,
        message: &Message,
    ) {
        let contexts = body.routing_contexts.as_ref();
        if self.check_network(asp, contexts, body.network_appearance, message) {
            self.indicate(SgpIndication::Congestion(asp, body.clone()));
        }
    }

    /// Checks routing contexts and network appearance of an SSNM message; answers it if they are not the ASP's.
    fn check_network(
        &mut self,
        asp: AspKey,
        contexts: Option<&RoutingContexts>,
        appearance: Option<NetworkAppearance>,
        message: &Message,
    ) -> bool {
        let members = self.contexts_of(asp);
        let contexts = contexts.map_or_else(|| members.clone(), |listed| unique(listed));
        let is_invalid = |context: &RoutingContext| !members.contains(context);
        let invalid: Vec<_> = contexts.iter().copied().filter(is_invalid).collect();
        if !invalid.is_empty() {
            self.refuse_contexts(asp, ErrorCode::INVALID_ROUTING_CONTEXT, &invalid, message);
            return false;
        }
        if contexts.is_empty() {
            self.refuse(asp, ErrorCode::NO_CONFIGURED_AS, message);
            return false;
        }
        let configured = |context: &RoutingContext| {
            let server = self.servers.get(context);
            server.is_some_and(|server| server.config.network_appearance == appearance)
        };
        if appearance.is_some() && !contexts.iter().any(configured) {
            self.answer_error(asp, invalid_appearance(appearance, message));
            return false;
        }
        true
    }
}
