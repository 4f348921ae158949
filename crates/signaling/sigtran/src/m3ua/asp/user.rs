//! Service for the MTP3-User: routing keys, traffic and SS7 network management (RFC 4666, sections 4.1.1, 4.4 and 4.5.2).

use carrick_proto::Time;

use super::{Asp, AspApplicationServer, AspIndication, AspRequestError};
use crate::aspm::{Layer, error_about};
use crate::m3ua::{
    AffectedPointCodes, CongestionLevel, Data, DestinationState, ErrorCode, ErrorMessage, M3ua,
    Message, NetworkAppearance, ProtocolData, RegistrationRequest, RegistrationStatus,
    RoutingContext, RoutingContexts, RoutingKey, SignallingCongestion,
};

impl Asp {
    /// Returns the routing contexts that the ASP serves, those from registration included.
    pub fn routing_contexts(&self) -> impl Iterator<Item = Option<RoutingContext>> + '_ {
        self.application_servers()
    }

    /// Returns the network appearance of an application server, `None` if it has none or the ASP does not serve it.
    pub fn network_appearance(
        &self,
        routing_context: Option<RoutingContext>,
    ) -> Option<NetworkAppearance> {
        self.served(&routing_context)?.network_appearance
    }

    /// M-RK_REG request. A confirm follows for each key; after a success the ASP serves the application server in
    /// ASP-INACTIVE. Without a response each fails after all transmissions of T(ack); it is not sent again.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN, an identifier is in use or the limit is reached; nothing is
    /// requested then.
    pub fn register(
        &mut self,
        now: Time,
        routing_keys: Vec<RoutingKey>,
    ) -> Result<(), AspRequestError> {
        let keys = routing_keys.iter().map(|key| {
            let served = AspApplicationServer {
                routing_context: None,
                traffic_mode: key.traffic_mode,
                network_appearance: key.network_appearance,
            };
            (key.local_id.0, served)
        });
        let keys = keys.collect();
        let request = RegistrationRequest { routing_keys };
        self.request_registration(now, keys, Message::RegistrationRequest(request))
    }

    /// MTP-TRANSFER request in an application server. The SLS selects the stream.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is not active there or there is no stream for DATA.
    pub fn transfer(
        &mut self,
        routing_context: Option<RoutingContext>,
        protocol_data: ProtocolData,
    ) -> Result<(), AspRequestError> {
        let server = *self.active(routing_context)?;
        let flow = protocol_data.sls.into();
        let data = Data {
            network_appearance: server.network_appearance,
            routing_context: server.routing_context,
            protocol_data,
            correlation_id: None,
        };
        self.send_traffic(flow, Message::Data(data))
    }

    /// Sends a DAUD: audits destinations (RFC 4666, section 4.5.3).
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is not active in the application server.
    pub fn audit(
        &mut self,
        routing_context: Option<RoutingContext>,
        affected: AffectedPointCodes,
    ) -> Result<(), AspRequestError> {
        let server = *self.active(routing_context)?;
        let audit = DestinationState {
            network_appearance: server.network_appearance,
            routing_contexts: RoutingContexts::new(server.routing_context),
            affected,
            info: None,
        };
        self.send(Message::DestinationStateAudit(audit));
        Ok(())
    }

    /// Sends an SCON: the congestion level of the ASP or its M3UA layer changed (RFC 4666, section 3.4.4).
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is not active in the application server.
    pub fn congestion(
        &mut self,
        routing_context: Option<RoutingContext>,
        affected: AffectedPointCodes,
        level: Option<CongestionLevel>,
    ) -> Result<(), AspRequestError> {
        let server = *self.active(routing_context)?;
        let congestion = SignallingCongestion {
            network_appearance: server.network_appearance,
            routing_contexts: RoutingContexts::new(server.routing_context),
            affected,
            concerned: None,
            level,
            info: None,
        };
        self.send(Message::SignallingCongestion(congestion));
        Ok(())
    }

    /// Handles a message of the SGP that is not for maintenance.
    pub(in crate::m3ua) fn on_user_message(&mut self, stream: u16, message: &Message) {
        match message {
            Message::Data(data) => self.on_data(stream, data, message),
            Message::RegistrationResponse(body) if self.is_up() => {
                for result in &body.results {
                    let status = result.status;
                    let is_registered = status == RegistrationStatus::ALREADY_REGISTERED;
                    let (local_id, context) = (result.local_id.0, result.routing_context);
                    self.on_registration(local_id, status.0, context, is_registered);
                }
            }
            Message::DeregistrationResponse(body) if self.is_up() => {
                for result in &body.results {
                    self.on_deregistration(result.routing_context, result.status.0);
                }
            }
            Message::DestinationUnavailable(_)
            | Message::DestinationAvailable(_)
            | Message::DestinationRestricted(_)
            | Message::SignallingCongestion(_)
            | Message::UserPartUnavailable(_)
                if self.expects_traffic() =>
            {
                self.on_destination_state(message);
            }
            _ => self.refuse(ErrorCode::UNEXPECTED_MESSAGE, message),
        }
    }

    /// DATA (section 4.1.1). In ASP-DOWN and ASP-INACTIVE it is discarded silently (section 3.8.1).
    fn on_data(&mut self, stream: u16, data: &Data, message: &Message) {
        let Some(context) = self.admit(stream, data.routing_context, message) else {
            return;
        };
        let (expected, found) = (self.network_appearance(context), data.network_appearance);
        if found.is_some() && expected.is_some() && found != expected {
            self.answer_error(invalid_appearance(found, message));
            return;
        }
        self.indicate(AspIndication::Transfer(data.clone()));
    }

    /// DUNA, DAVA, DRST, SCON and DUPU (section 4.5.2.1).
    fn on_destination_state(&mut self, message: &Message) {
        if self.lists_unknown(message) {
            return;
        }
        let indication = match message {
            Message::DestinationUnavailable(body) => AspIndication::MtpPause(body.clone()),
            Message::DestinationAvailable(body) => AspIndication::MtpResume(body.clone()),
            Message::DestinationRestricted(body) => AspIndication::Restricted(body.clone()),
            Message::SignallingCongestion(body) => AspIndication::Congestion(body.clone()),
            Message::UserPartUnavailable(body) => AspIndication::UserPartUnavailable(body.clone()),
            _ => return,
        };
        self.indicate(indication);
    }
}

/// Returns the Error message about a network appearance that is not configured.
pub(in crate::m3ua) fn invalid_appearance(
    appearance: Option<NetworkAppearance>,
    message: &Message,
) -> ErrorMessage {
    ErrorMessage {
        network_appearance: appearance,
        ..error_about::<M3ua>(
            ErrorCode::INVALID_NETWORK_APPEARANCE,
            M3ua::ids(message),
            message,
        )
    }
}
