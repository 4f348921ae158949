//! SS7 signalling network management (RFC 4666, section 4.5).

use super::{
    AspKey, DestinationEvent, DestinationState, ErrorCode, ErrorMessage, Message, SgpIndication,
    SgpRequestError, SignallingCongestion, SignallingGatewayProcess,
};
use crate::aspm::AsIds;
use crate::m3ua::asp::invalid_appearance;
use crate::m3ua::route::MAX_POINT_CODES;
use crate::m3ua::{AffectedPointCodes, NetworkAppearance, RoutingContext, RoutingContexts};

impl SignallingGatewayProcess {
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
        let contexts = listed_once(audit);
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
        let contexts = listed_once(audit);
        for affected in audit.affected.chunks(MAX_POINT_CODES) {
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

    /// DAUD of an ASP: answered from the route state, or indicated if there is none.
    pub(super) fn on_audit(&mut self, asp: AspKey, audit: &DestinationState, message: &Message) {
        if !self.check_network(asp, audit.network_appearance, message) {
            return;
        }
        let contexts = audit.routing_contexts.as_ref();
        let network = self.audited_network(asp, audit.network_appearance, contexts);
        let Some(events) = self.audit_state(network, &audit.affected) else {
            self.indicate(SgpIndication::Audit(asp, audit.clone()));
            return;
        };
        for event in events {
            // The ASP is up, because its DAUD was accepted.
            let _ = self.answer_audit(asp, audit, &event);
        }
    }

    /// SCON of an ASP.
    pub(super) fn on_congestion(
        &mut self,
        asp: AspKey,
        body: &SignallingCongestion,
        message: &Message,
    ) {
        if self.check_network(asp, body.network_appearance, message) {
            self.indicate(SgpIndication::Congestion(asp, body.clone()));
        }
    }

    /// Checks routing contexts and network appearance of an SSNM message; answers it if they are not the ASP's.
    fn check_network(
        &mut self,
        asp: AspKey,
        appearance: Option<NetworkAppearance>,
        message: &Message,
    ) -> bool {
        let Some(contexts) = self.check_listed(asp, message) else {
            return false;
        };
        let has_appearance = |context: &RoutingContext| self.is_of(*context, appearance);
        if appearance.is_some() && !contexts.iter().any(has_appearance) {
            self.answer_error(asp, invalid_appearance(appearance, message));
            return false;
        }
        true
    }
}

/// Returns the routing contexts of an audit, each once.
fn listed_once(audit: &DestinationState) -> Option<RoutingContexts> {
    let contexts = audit.routing_contexts.clone();
    RoutingContexts::of(contexts.and_then(AsIds::from_contexts))
}
