//! Messages that an ASP receives (RFC 4666, sections 4.3.4 and 4.5.2).

use carrick_proto::Time;

use super::{
    Asp, AspEvent, AspState, RequestFailure, ServedApplication, StateRequest, TrafficRequest,
    WantedTraffic,
};
use crate::aspm::{AsIds, Layer, Maintenance, error_about};
use crate::message::kinds::common as kinds;
use crate::message::{ErrorCode, MessageKind, RawMessage, Status};

impl<L: Layer> Asp<L> {
    /// Handles a message that was received on a stream of the association.
    pub fn handle_message(&mut self, now: Time, stream: u16, message: &L::Message) {
        if self.outbound_streams.is_none() {
            return;
        }
        self.heartbeat.received(now);
        let Some(content) = L::read(message) else {
            return L::receive(self, now, stream, message);
        };
        match content {
            Maintenance::AspUpAck(_) => self.on_asp_up_ack(now, message),
            Maintenance::AspDownAck(_) => self.on_asp_down_ack(now),
            Maintenance::Heartbeat(beat) => self.send_maintenance(Maintenance::HeartbeatAck(beat)),
            Maintenance::HeartbeatAck(_) => {}
            Maintenance::Error(error) => self.on_error(error),
            Maintenance::AspActiveAck(_, ids) if self.up => {
                self.on_asp_active_ack(now, ids.as_ref(), message);
            }
            Maintenance::AspInactiveAck(ids) if self.up => {
                self.on_asp_inactive_ack(now, ids.as_ref(), message);
            }
            Maintenance::Notify(notify) if self.expects_traffic() => {
                self.on_notify(notify, message);
            }
            _ => self.refuse(ErrorCode::UNEXPECTED_MESSAGE, message),
        }
    }

    /// Returns whether the gateway may send NTFY and SSNM: they may overtake the ASP Up Ack on another stream.
    pub(crate) fn expects_traffic(&self) -> bool {
        self.up || self.is_outstanding(StateRequest::Up)
    }

    pub(super) fn is_outstanding(&self, request: StateRequest) -> bool {
        self.outstanding
            .is_some_and(|outstanding| outstanding.request == request)
    }

    /// ASP Up Ack (section 4.3.4.1).
    fn on_asp_up_ack(&mut self, now: Time, message: &L::Message) {
        if self.is_outstanding(StateRequest::Up) {
            self.set_state_request(None);
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
        let active = |served: &ServedApplication<L>| served.state == AspState::Active;
        if self.follows.aspsm || self.up && !self.servers.values().any(active) {
            return;
        }
        self.refuse(ErrorCode::UNEXPECTED_MESSAGE, message);
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
            self.set_state_request(None);
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
        let wanted = |served: &ServedApplication<L>| {
            served.wanted == WantedTraffic::Active
                && served.state == AspState::Inactive
                && served.outstanding.is_none()
        };
        let wanted = self.servers.iter().filter(|(_, served)| wanted(served));
        let ids: Vec<_> = wanted.map(|(id, _)| id.clone()).collect();
        self.request_traffic(now, TrafficRequest::Activate, ids);
    }

    /// ASP Active Ack (section 4.3.4.3). Without a request, it acknowledges one that was sent twice or has failed:
    /// the SGP considers the ASP active, and what it considers last is the state.
    fn on_asp_active_ack(&mut self, now: Time, ids: Option<&AsIds<L::AsId>>, message: &L::Message) {
        let (known, unknown) = self.addressed(ids);
        let several = self.servers.len() > 1;
        let mut unwanted = Vec::new();
        for id in known {
            let Some(served) = self.servers.get_mut(&id) else {
                continue;
            };
            match served.outstanding.map(|outstanding| outstanding.request) {
                Some(TrafficRequest::Activate) => {
                    self.set_traffic_request(&id, None);
                    self.set_state(&id, AspState::Active);
                    self.confirm_traffic(&id, TrafficRequest::Activate, Ok(()));
                }
                // The SGP has not received the ASP Inactive yet.
                Some(TrafficRequest::Deactivate) => {}
                // Another IPSP has overridden the request, of which a Notify is on its way to this peer.
                None if self.follows.asptm => {}
                // Without a list, the application servers of the request are meant.
                None if ids.is_none() && several => {}
                None => {
                    match served.wanted {
                        WantedTraffic::Active => {}
                        WantedTraffic::Overridden => served.wanted = WantedTraffic::Active,
                        WantedTraffic::Inactive => unwanted.push(id.clone()),
                    }
                    self.set_state(&id, AspState::Active);
                }
            }
        }
        self.request_traffic(now, TrafficRequest::Deactivate, unwanted);
        self.answer_unknown(unknown, message);
    }

    /// ASP Inactive Ack (section 4.3.4.4).
    fn on_asp_inactive_ack(
        &mut self,
        now: Time,
        ids: Option<&AsIds<L::AsId>>,
        message: &L::Message,
    ) {
        let (known, unknown) = self.addressed(ids);
        for id in known {
            let outstanding = self.servers.get(&id).and_then(|served| served.outstanding);
            if outstanding.is_some_and(|o| o.request == TrafficRequest::Deactivate) {
                self.set_traffic_request(&id, None);
                self.set_state(&id, AspState::Inactive);
                self.confirm_traffic(&id, TrafficRequest::Deactivate, Ok(()));
            } else {
                self.set_state(&id, AspState::Inactive);
            }
        }
        // Without a request, the ASP returns to its previous state.
        self.activate_wanted(now);
        self.answer_unknown(unknown, message);
    }

    pub(super) fn answer_unknown(&mut self, unknown: Option<AsIds<L::AsId>>, message: &L::Message) {
        if unknown.is_some() {
            self.answer_error(error_about::<L>(L::INVALID_AS, unknown, message));
        }
    }

    /// Notify (sections 4.3.4.3 and 4.3.4.5).
    fn on_notify(&mut self, notify: L::Notify, message: &L::Message) {
        let (status, ids) = L::read_notify(&notify);
        let (known, unknown) = self.addressed(ids.as_ref());
        if status == Status::AlternateAspActive {
            for id in known {
                if let Some(served) = self.servers.get_mut(&id)
                    && served.state == AspState::Active
                {
                    served.wanted = WantedTraffic::Overridden;
                    self.set_state(&id, AspState::Inactive);
                }
            }
        }
        self.answer_unknown(unknown, message);
        self.indicate(AspEvent::Notify(notify));
    }

    /// Error (section 3.8.1). It ends the requests that it answers.
    fn on_error(&mut self, error: L::ErrorMessage) {
        let (code, ids, diagnostic) = L::read_error(&error);
        let offending = diagnostic.and_then(|diagnostic| offending_kind(&diagnostic.0));
        let answers = |kind| offending.is_none_or(|offending| offending == kind);
        // The gateway sends Unexpected Message beside the ASP Up Ack (section 4.3.4.1).
        let unexpected = code == ErrorCode::UNEXPECTED_MESSAGE;
        let failure = RequestFailure::Refused(code);
        if let Some(outstanding) = self.outstanding {
            let kind = match outstanding.request {
                StateRequest::Up => kinds::ASPUP,
                StateRequest::Down => kinds::ASPDN,
            };
            if answers(kind) && !unexpected {
                self.set_state_request(None);
                self.wanted &= outstanding.request != StateRequest::Up;
                self.confirm_state(outstanding.request, Err(failure));
            }
        } else {
            let (known, _) = self.addressed(ids.as_ref());
            for id in known {
                let Some(served) = self.servers.get_mut(&id) else {
                    continue;
                };
                let kind = match served.outstanding.map(|o| o.request) {
                    Some(TrafficRequest::Activate) => kinds::ASPAC,
                    Some(TrafficRequest::Deactivate) => kinds::ASPIA,
                    None => continue,
                };
                if answers(kind) {
                    if kind == kinds::ASPAC {
                        served.wanted = WantedTraffic::Inactive;
                    }
                    self.fail_traffic_request(&id, failure);
                }
            }
            if offending.is_some() && offending == L::REGISTRATION {
                self.fail_registrations();
            }
        }
        self.indicate(AspEvent::Error(error));
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
