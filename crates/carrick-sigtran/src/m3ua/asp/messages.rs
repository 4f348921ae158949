//! Messages that an ASP receives (RFC 4666, sections 4.3.4, 4.4 and 4.5.2).

use carrick_proto::Time;

use super::{
    Asp, AspApplicationServer, AspIndication, AspState, Data, ErrorMessage, Message, Notify,
    RequestFailure, RoutingContext, RoutingContexts, ServedApplication, StateRequest,
    TrafficRequest, WantedTraffic,
};
use crate::m3ua::association::{error_about, error_about_contexts};
use crate::m3ua::{
    DeregistrationResult, DeregistrationStatus, ErrorCode, NetworkAppearance, RegistrationResult,
    RegistrationStatus, Status, kinds,
};
use crate::message::{MessageKind, RawMessage};

impl Asp {
    /// Handles a message that was received on a stream of the association.
    pub fn handle_message(&mut self, now: Time, stream: u16, message: &Message) {
        if self.outbound_streams.is_none() {
            return;
        }
        self.heartbeat.received(now);
        // NTFY and SSNM may overtake the ASP Up Ack on another stream.
        let expects_traffic = self.up || self.is_outstanding(StateRequest::Up);
        match message {
            Message::AspUpAck(_) => self.on_asp_up_ack(now, message),
            Message::AspDownAck(_) => self.on_asp_down_ack(now),
            Message::Heartbeat(beat) => self.send(Message::HeartbeatAck(beat.clone())),
            Message::HeartbeatAck(_) => {}
            Message::Error(error) => self.on_error(error),
            Message::Data(data) => self.on_data(stream, data, message),
            Message::AspActiveAck(body) if self.up => {
                self.on_asp_active_ack(now, body.routing_contexts.as_ref(), message);
            }
            Message::AspInactiveAck(body) if self.up => {
                self.on_asp_inactive_ack(now, body.routing_contexts.as_ref(), message);
            }
            Message::RegistrationResponse(body) if self.up => {
                body.results
                    .iter()
                    .for_each(|result| self.on_registration(*result));
            }
            Message::DeregistrationResponse(body) if self.up => {
                body.results
                    .iter()
                    .for_each(|result| self.on_deregistration(*result));
            }
            Message::Notify(notify) if expects_traffic => self.on_notify(notify, message),
            Message::DestinationUnavailable(_)
            | Message::DestinationAvailable(_)
            | Message::DestinationRestricted(_)
            | Message::SignallingCongestion(_)
            | Message::UserPartUnavailable(_)
                if expects_traffic =>
            {
                self.on_destination_state(message);
            }
            _ => self.answer_error(error_about(ErrorCode::UNEXPECTED_MESSAGE, message)),
        }
    }

    pub(super) fn is_outstanding(&self, request: StateRequest) -> bool {
        self.outstanding
            .is_some_and(|outstanding| outstanding.request == request)
    }

    /// ASP Up Ack (section 4.3.4.1).
    fn on_asp_up_ack(&mut self, now: Time, message: &Message) {
        if self.is_outstanding(StateRequest::Up) {
            self.outstanding = None;
            // The peer's ASP Up, which crossed this one, can have led to further states.
            if !(self.follows.aspsm && self.up) {
                self.enter_inactive();
            }
            self.confirm_state(StateRequest::Up, Ok(()));
            self.activate_wanted(now);
            return;
        }
        // Late acknowledgement of a request that ASP Down has superseded.
        if self.is_outstanding(StateRequest::Down) {
            return;
        }
        let active = |served: &ServedApplication| served.state == AspState::Active;
        if self.follows.aspsm || self.up && !self.servers.iter().any(active) {
            return;
        }
        self.answer_error(error_about(ErrorCode::UNEXPECTED_MESSAGE, message));
        let was_up = self.up;
        self.enter_inactive();
        if was_up {
            self.activate_wanted(now);
        } else {
            self.request_state(now, StateRequest::Down);
        }
    }

    /// ASP Down Ack (section 4.3.4.2).
    fn on_asp_down_ack(&mut self, now: Time) {
        if self.is_outstanding(StateRequest::Down) {
            self.outstanding = None;
            self.enter_down(RequestFailure::Superseded);
            self.confirm_state(StateRequest::Down, Ok(()));
        } else if self.up {
            self.enter_down(RequestFailure::Superseded);
            if self.wanted {
                self.request_state(now, StateRequest::Up);
            }
        }
    }

    /// Requests the traffic state that layer management wants, where none is outstanding.
    pub(super) fn activate_wanted(&mut self, now: Time) {
        let wanted = |served: &ServedApplication| {
            served.wanted == WantedTraffic::Active
                && served.state == AspState::Inactive
                && served.outstanding.is_none()
        };
        let indexes: Vec<_> = (0..self.servers.len())
            .filter(|&index| wanted(&self.servers[index]))
            .collect();
        if !indexes.is_empty() {
            self.request_traffic(now, TrafficRequest::Activate, &indexes);
        }
    }

    /// ASP Active Ack (section 4.3.4.3). Without a request, it acknowledges one that was sent twice or has failed:
    /// the SGP considers the ASP active, and what it considers last is the state.
    fn on_asp_active_ack(
        &mut self,
        now: Time,
        contexts: Option<&RoutingContexts>,
        message: &Message,
    ) {
        let (indexes, unknown) = self.addressed(contexts);
        let several = self.servers.len() > 1;
        let mut unwanted = Vec::new();
        for index in indexes {
            let served = &mut self.servers[index];
            match served.outstanding.map(|outstanding| outstanding.request) {
                Some(TrafficRequest::Activate) => {
                    served.outstanding = None;
                    self.set_state(index, AspState::Active);
                    self.confirm_traffic(index, TrafficRequest::Activate, Ok(()));
                }
                // The SGP has not received the ASP Inactive yet.
                Some(TrafficRequest::Deactivate) => {}
                // Another IPSP has overridden the request, of which a Notify is on its way to this peer.
                None if self.follows.asptm => {}
                // Without a list, the application servers of the request are meant.
                None if contexts.is_none() && several => {}
                None => {
                    match served.wanted {
                        WantedTraffic::Active => {}
                        WantedTraffic::Overridden => served.wanted = WantedTraffic::Active,
                        WantedTraffic::Inactive => unwanted.push(index),
                    }
                    self.set_state(index, AspState::Active);
                }
            }
        }
        if !unwanted.is_empty() {
            self.request_traffic(now, TrafficRequest::Deactivate, &unwanted);
        }
        self.answer_unknown(unknown, message);
    }

    /// ASP Inactive Ack (section 4.3.4.4).
    fn on_asp_inactive_ack(
        &mut self,
        now: Time,
        contexts: Option<&RoutingContexts>,
        message: &Message,
    ) {
        let (indexes, unknown) = self.addressed(contexts);
        for index in indexes {
            let outstanding = self.servers[index].outstanding;
            if outstanding.is_some_and(|o| o.request == TrafficRequest::Deactivate) {
                self.servers[index].outstanding = None;
                self.set_state(index, AspState::Inactive);
                self.confirm_traffic(index, TrafficRequest::Deactivate, Ok(()));
            } else {
                self.set_state(index, AspState::Inactive);
            }
        }
        // Without a request, the ASP returns to its previous state.
        self.activate_wanted(now);
        self.answer_unknown(unknown, message);
    }

    fn answer_unknown(&mut self, unknown: Vec<RoutingContext>, message: &Message) {
        if !unknown.is_empty() {
            let code = ErrorCode::INVALID_ROUTING_CONTEXT;
            self.answer_error(error_about_contexts(code, unknown, message));
        }
    }

    /// Notify (sections 4.3.4.3 and 4.3.4.5).
    fn on_notify(&mut self, notify: &Notify, message: &Message) {
        let (indexes, unknown) = self.addressed(notify.routing_contexts.as_ref());
        if notify.status == Status::AlternateAspActive {
            for index in indexes {
                if self.servers[index].state == AspState::Active {
                    self.servers[index].wanted = WantedTraffic::Overridden;
                    self.set_state(index, AspState::Inactive);
                }
            }
        }
        self.answer_unknown(unknown, message);
        self.indicate(AspIndication::Notify(notify.clone()));
    }

    /// Error (section 3.8.1). It ends the requests that it answers.
    fn on_error(&mut self, error: &ErrorMessage) {
        let diagnostic = error
            .diagnostic
            .as_ref()
            .map(|diagnostic| &diagnostic.0[..]);
        let offending = diagnostic.and_then(offending_kind);
        let answers = |kind| offending.is_none_or(|offending| offending == kind);
        // The SGP sends Unexpected Message beside the ASP Up Ack (section 4.3.4.1).
        let unexpected = error.code == ErrorCode::UNEXPECTED_MESSAGE;
        let failure = RequestFailure::Refused(error.code);
        if let Some(outstanding) = self.outstanding {
            let kind = match outstanding.request {
                StateRequest::Up => kinds::ASPUP,
                StateRequest::Down => kinds::ASPDN,
            };
            if answers(kind) && !unexpected {
                self.outstanding = None;
                self.wanted &= outstanding.request != StateRequest::Up;
                self.confirm_state(outstanding.request, Err(failure));
            }
        } else {
            let (indexes, _) = self.addressed(error.routing_contexts.as_ref());
            for index in indexes {
                let kind = match self.servers[index].outstanding.map(|o| o.request) {
                    Some(TrafficRequest::Activate) => kinds::ASPAC,
                    Some(TrafficRequest::Deactivate) => kinds::ASPIA,
                    None => continue,
                };
                if answers(kind) {
                    if kind == kinds::ASPAC {
                        self.servers[index].wanted = WantedTraffic::Inactive;
                    }
                    self.fail_traffic_request(index, failure);
                }
            }
            if offending == Some(kinds::REG_REQ) {
                for registration in std::mem::take(&mut self.registrations) {
                    self.indicate(AspIndication::Registered(registration.local_id, Err(None)));
                }
            }
        }
        self.indicate(AspIndication::Error(error.clone()));
    }

    /// DATA (section 4.1.1). In ASP-DOWN and ASP-INACTIVE it is discarded silently (section 3.8.1).
    fn on_data(&mut self, stream: u16, data: &Data, message: &Message) {
        if stream == 0 {
            self.answer_error(error_about(ErrorCode::INVALID_STREAM_IDENTIFIER, message));
            return;
        }
        if !self.up {
            return;
        }
        let index = match data.routing_context {
            Some(context) => {
                let index = self.find_implied(context);
                index.ok_or(ErrorCode::INVALID_ROUTING_CONTEXT)
            }
            None if self.servers.len() > 1 => Err(ErrorCode::MISSING_PARAMETER),
            None if self.servers.is_empty() => Err(ErrorCode::NO_CONFIGURED_AS),
            None => Ok(0),
        };
        let index = match index {
            Ok(index) => index,
            Err(code) => return self.answer_error(error_about(code, message)),
        };
        let served = &self.servers[index];
        if served.state != AspState::Active {
            return;
        }
        let (expected, found) = (served.server.network_appearance, data.network_appearance);
        if found.is_some() && expected.is_some() && found != expected {
            self.answer_error(invalid_appearance(found, message));
            return;
        }
        self.indicate(AspIndication::Transfer(data.clone()));
    }

    /// DUNA, DAVA, DRST, SCON and DUPU (section 4.5.2.1).
    fn on_destination_state(&mut self, message: &Message) {
        let (_, unknown) = self.addressed(message.routing_contexts().as_ref());
        if !unknown.is_empty() {
            self.answer_unknown(unknown, message);
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

    /// Result of a registration (section 4.4.1). The key that is already registered has its routing context.
    fn on_registration(&mut self, result: RegistrationResult) {
        let mut pending = self.registrations.iter();
        let Some(position) = pending.position(|pending| pending.local_id == result.local_id) else {
            return;
        };
        let pending = self.registrations.swap_remove(position);
        let context = result.routing_context;
        let registered = matches!(
            result.status,
            RegistrationStatus::SUCCESS | RegistrationStatus::ALREADY_REGISTERED
        );
        if registered && self.find(Some(context)).is_none() {
            let server = AspApplicationServer {
                routing_context: Some(context),
                traffic_mode: pending.traffic_mode,
                network_appearance: pending.network_appearance,
            };
            self.servers.push(ServedApplication::new(server, true));
            self.set_state(self.servers.len() - 1, AspState::Inactive);
        }
        let outcome = match result.status {
            RegistrationStatus::SUCCESS => Ok(context),
            status => Err(Some(status)),
        };
        self.indicate(AspIndication::Registered(result.local_id, outcome));
    }

    /// Result of a deregistration (section 4.4.2).
    fn on_deregistration(&mut self, result: DeregistrationResult) {
        let Some(index) = self.find(Some(result.routing_context)) else {
            return;
        };
        if self.servers[index].deregistration.take().is_none() {
            return;
        }
        let gone = matches!(
            result.status,
            DeregistrationStatus::SUCCESS | DeregistrationStatus::NOT_REGISTERED
        );
        if gone && self.servers[index].registered {
            self.fail_traffic_request(index, RequestFailure::Superseded);
            self.set_state(index, AspState::Down);
            self.servers.remove(index);
        }
        self.indicate(AspIndication::Deregistered(result));
    }
}

/// Returns the Error message about a network appearance that is not configured.
pub(in crate::m3ua) fn invalid_appearance(
    appearance: Option<NetworkAppearance>,
    message: &Message,
) -> ErrorMessage {
    ErrorMessage {
        network_appearance: appearance,
        ..error_about(ErrorCode::INVALID_NETWORK_APPEARANCE, message)
    }
}

/// Returns the kind of the message that diagnostic information begins with, `None` if it begins with anything else.
fn offending_kind(diagnostic: &[u8]) -> Option<MessageKind> {
    let header = diagnostic.first_chunk::<{ crate::message::HEADER_LEN }>()?;
    // The length is that of the whole message, which the diagnostic information may not have.
    let mut header = *header;
    header[4..].copy_from_slice(&8_u32.to_be_bytes());
    Some(RawMessage::parse(&header).ok()?.kind)
}
