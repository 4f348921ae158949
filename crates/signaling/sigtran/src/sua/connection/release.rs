//! Release, errors, inactivity control and timeouts of a connection section (Q.714, sections 3.3, 3.4 and 3.8).

use bytes::Bytes;
use carrick_proto::Time;

use super::timers::Timer;
use super::{
    Connection, ConnectionIndication, ConnectionRequestError, ConnectionState, DisconnectReason,
    check_data,
};
use crate::sua::{
    ConnectionOrientedError, Credit, DestinationReferenceNumber, ErrorCause, InactivityTest,
    Message, ProtocolClass, RefusalCause, ReleaseCause, ReleaseComplete, ReleaseRequest,
    RoutingContext, ServiceClass, SourceReferenceNumber, UserData,
};

/// Returns the source reference number of a message that has one.
const fn source_of(message: &Message) -> Option<SourceReferenceNumber> {
    Some(match message {
        Message::ReleaseRequest(body) => body.source_reference,
        Message::ReleaseComplete(body) => body.source_reference,
        Message::ResetRequest(body) => body.source_reference,
        Message::ResetConfirm(body) => body.source_reference,
        Message::InactivityTest(body) => body.source_reference,
        _ => return None,
    })
}

/// Returns the answer to a message whose destination reference number belongs to no connection: RELCO to a RELRE, RELRE to
/// a COIT, COERR to other messages with a source reference number (Q.714, annex B). Others are ignored.
pub fn answer_unassigned(message: &Message) -> Option<Message> {
    let error = |routing_context, source: SourceReferenceNumber| {
        Message::ConnectionOrientedError(ConnectionOrientedError {
            routing_context,
            destination_reference: DestinationReferenceNumber(source.0),
            cause: ErrorCause::UNASSIGNED_REFERENCE,
        })
    };
    Some(match message {
        Message::ReleaseRequest(body) => complete(
            body.routing_context,
            body.source_reference,
            SourceReferenceNumber(body.destination_reference.0),
        ),
        Message::InactivityTest(body) => Message::ReleaseRequest(ReleaseRequest {
            routing_context: body.routing_context,
            destination_reference: DestinationReferenceNumber(body.source_reference.0),
            source_reference: SourceReferenceNumber(body.destination_reference.0),
            cause: ReleaseCause::INCONSISTENT_DATA,
            importance: None,
            data: None,
        }),
        Message::ConnectionAcknowledge(body) => error(body.routing_context, body.source_reference),
        Message::ResetRequest(body) => error(body.routing_context, body.source_reference),
        Message::ResetConfirm(body) => error(body.routing_context, body.source_reference),
        _ => return None,
    })
}

/// RELCO to a peer.
const fn complete(
    routing_context: RoutingContext,
    peer: SourceReferenceNumber,
    local: SourceReferenceNumber,
) -> Message {
    Message::ReleaseComplete(ReleaseComplete {
        routing_context,
        destination_reference: DestinationReferenceNumber(peer.0),
        source_reference: local,
        importance: None,
    })
}

impl Connection {
    /// Disconnects: N-DISCONNECT request. Sends a RELRE, if the peer answered the CORE already, and starts T(rel). Data that
    /// wait for the peer's window are discarded.
    ///
    /// # Errors
    /// [`ConnectionRequestError`] if a received CORE waits for its answer, the connection is being released already, or the
    /// data do not fit into one message.
    pub fn disconnect(
        &mut self,
        now: Time,
        cause: ReleaseCause,
        data: Option<Bytes>,
    ) -> Result<(), ConnectionRequestError> {
        check_data(data.as_ref(), self.config.max_segment)?;
        match self.state {
            ConnectionState::OutgoingPending => self.state = ConnectionState::WaitForConfirm,
            state if state.is_established() => self.send_release(now, cause, data),
            state => return Err(ConnectionRequestError::State(state)),
        }
        Ok(())
    }

    /// Handles the loss of the association to the peer: the connection is released at this end only.
    pub fn handle_association_loss(&mut self) {
        match self.state {
            ConnectionState::Released => {}
            ConnectionState::DisconnectPending | ConnectionState::WaitForConfirm => self.end(false),
            _ => {
                let reason = DisconnectReason::Released(ReleaseCause::MTP_FAILURE);
                self.end_with(reason, None);
            }
        }
    }

    /// Handles the timers that expired.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.take_expired(now) {
            match timer {
                Timer::Establishment if self.state == ConnectionState::WaitForConfirm => {
                    self.end(false);
                }
                Timer::Establishment => {
                    let cause = RefusalCause::ESTABLISHMENT_TIMER;
                    self.end_with(DisconnectReason::Refused(cause), None);
                }
                Timer::SendInactivity => self.send_inactivity_test(now),
                Timer::ReceiveInactivity => self.fail(now, ReleaseCause::INACTIVITY_TIMER),
                Timer::Release => {
                    self.timers
                        .start(Timer::Interval, now + self.config.interval);
                    self.repeat_release(now);
                }
                Timer::RepeatRelease => self.repeat_release(now),
                Timer::Interval => self.end(false),
                Timer::Reset => self.fail(now, ReleaseCause::RESET_TIMER),
            }
        }
    }

    /// Sends a RELRE and starts T(rel).
    pub(super) fn send_release(&mut self, now: Time, cause: ReleaseCause, data: Option<Bytes>) {
        let message = ReleaseRequest {
            routing_context: self.routing_context,
            destination_reference: self.destination(),
            source_reference: self.local,
            cause,
            importance: None,
            data: data.map(UserData),
        };
        self.state = ConnectionState::DisconnectPending;
        self.transfer.clear();
        self.timers.stop_all();
        self.timers.start(Timer::Release, now + self.config.release);
        self.release = Some(message.clone());
        self.transmits.push_back(Message::ReleaseRequest(message));
    }

    fn repeat_release(&mut self, now: Time) {
        self.timers
            .start(Timer::RepeatRelease, now + self.config.repeat_release);
        let message = self.release.clone().map(Message::ReleaseRequest);
        self.transmits.extend(message);
    }

    /// Releases the connection after an error, which both users are indicated.
    pub(super) fn fail(&mut self, now: Time, cause: ReleaseCause) {
        self.send_release(now, cause, None);
        self.indications
            .push_back(ConnectionIndication::Disconnected {
                reason: DisconnectReason::Released(cause),
                data: None,
            });
    }

    /// Ends the connection with an indication of the disconnection.
    pub(super) fn end_with(&mut self, reason: DisconnectReason, data: Option<UserData>) {
        self.forget();
        let data = data.map(|data| data.0);
        self.indications
            .push_back(ConnectionIndication::Disconnected { reason, data });
    }

    /// Ends a connection that was being released.
    pub(super) fn end(&mut self, confirmed: bool) {
        self.forget();
        self.indications
            .push_back(ConnectionIndication::Released { confirmed });
    }

    fn forget(&mut self) {
        self.state = ConnectionState::Released;
        self.timers.stop_all();
        self.transfer.clear();
        self.release = None;
    }

    pub(super) fn on_release_request(&mut self, now: Time, body: &ReleaseRequest) {
        if self.state == ConnectionState::DisconnectPending {
            // Both ends release the connection.
            return self.end(true);
        }
        let answer = complete(self.routing_context, body.source_reference, self.local);
        self.transmit(now, answer);
        if self.state == ConnectionState::WaitForConfirm {
            self.end(true);
        } else {
            self.end_with(DisconnectReason::Released(body.cause), body.data.clone());
        }
    }

    pub(super) fn on_release_complete(&mut self) {
        if self.state == ConnectionState::DisconnectPending {
            self.end(true);
        }
    }

    /// Sends a COERR.
    pub(super) fn send_error(&mut self, now: Time, cause: ErrorCause) {
        let message = ConnectionOrientedError {
            routing_context: self.routing_context,
            destination_reference: self.destination(),
            cause,
        };
        self.transmit(now, Message::ConnectionOrientedError(message));
    }

    /// Handles a COERR (Q.714, section 3.8.2.3): the peer has no such connection, or takes it for one of another class.
    pub(super) fn on_error(&mut self, now: Time, cause: ErrorCause) {
        match self.state {
            ConnectionState::DisconnectPending | ConnectionState::WaitForConfirm => self.end(false),
            state if state.is_established() && cause == ErrorCause::SERVICE_CLASS_MISMATCH => {
                self.fail(now, ReleaseCause::REMOTE_PROCEDURE_ERROR);
            }
            _ => self.end_with(DisconnectReason::Error(cause), None),
        }
    }

    /// Checks the source reference number of a message. One that is not the peer's is answered with a COERR, or with a RELRE
    /// to a COIT (Q.714, sections 3.4 and 3.8.2.2).
    pub(super) fn has_source(&mut self, now: Time, message: &Message) -> bool {
        let (Some(source), Some(remote)) = (source_of(message), self.remote) else {
            return true;
        };
        if source == remote {
            return true;
        }
        match message {
            Message::InactivityTest(_) if self.state.is_established() => {
                self.fail(now, ReleaseCause::INCONSISTENT_DATA);
            }
            _ => self.send_error_to(source),
        }
        false
    }

    /// Sends a COERR to the sender of a message with a wrong source reference number.
    fn send_error_to(&mut self, source: SourceReferenceNumber) {
        let message = ConnectionOrientedError {
            routing_context: self.routing_context,
            destination_reference: DestinationReferenceNumber(source.0),
            cause: ErrorCause::INCONSISTENT_REFERENCE,
        };
        self.transmits
            .push_back(Message::ConnectionOrientedError(message));
    }

    fn send_inactivity_test(&mut self, now: Time) {
        let message = InactivityTest {
            routing_context: self.routing_context,
            protocol_class: ProtocolClass::new(self.class),
            source_reference: self.local,
            destination_reference: self.destination(),
            sequence_numbers: self.transfer.last_numbers(),
            credit: Credit(self.config.credit),
        };
        self.transmit(now, Message::InactivityTest(message));
    }

    /// Handles a COIT (Q.714, section 3.4).
    pub(super) fn on_inactivity_test(&mut self, now: Time, body: &InactivityTest) {
        if !self.state.is_established() {
            return;
        }
        if body.protocol_class.class != self.class {
            return self.fail(now, ReleaseCause::INCONSISTENT_DATA);
        }
        if self.class == ServiceClass::Class3 && self.state == ConnectionState::Active {
            let received = body.sequence_numbers.received;
            self.on_received_number(now, received, Some(body.credit));
        }
    }
}
