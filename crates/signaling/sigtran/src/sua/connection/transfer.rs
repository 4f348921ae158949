//! Data transfer, flow control and reset of a connection section (Q.714, sections 3.5 to 3.7).

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use carrick_proto::Time;

use super::timers::Timer;
use super::{
    Connection, ConnectionConfig, ConnectionIndication, ConnectionRequestError, ConnectionState,
    MAX_EXPEDITED, check_data,
};
use crate::sua::{
    ConnectionOrientedDataAcknowledge, ConnectionOrientedDataTransfer, Credit, ErrorCause, Message,
    ReceiveSequenceNumber, ReleaseCause, ResetCause, ResetConfirm, ResetRequest, SequenceNumber,
    SequenceNumbers, ServiceClass, UserData,
};

/// Segment of a user message, and whether more of them follow.
type Segment = (Bytes, bool);

/// Sequence numbers, windows and queues of a connection.
#[derive(Debug, Default)]
pub(super) struct Transfer {
    /// Segments that wait for the window.
    queue: VecDeque<Segment>,
    queued_octets: usize,
    /// P(S) of the next CODT.
    next_sent: SequenceNumber,
    /// P(S) of the last CODT.
    last_sent: SequenceNumber,
    /// Oldest number that the peer did not acknowledge: lower edge of the send window.
    unacknowledged: SequenceNumber,
    /// Size of the send window.
    credit: u8,
    /// Size of the send window at the begin and after a reset.
    initial_credit: u8,
    /// P(S) that is expected from the peer.
    expected: SequenceNumber,
    /// P(R) that was sent last: lower edge of the receive window.
    acknowledged: SequenceNumber,
    /// Size of the receive window.
    window: u8,
    /// No CODT was received since the begin or a reset.
    is_fresh: bool,
    /// The user takes no data; received segments are held, within the window.
    is_paused: bool,
    held: Vec<Segment>,
    /// Received begin of a user message.
    partial: BytesMut,
    /// Expedited data that wait for the acknowledgement of those before.
    expedited: VecDeque<Bytes>,
    /// Expedited data are unacknowledged.
    awaits_expedited: bool,
}

/// Expedited data that may wait.
const MAX_QUEUED_EXPEDITED: usize = 16;

impl Transfer {
    pub(super) fn new(config: &ConnectionConfig, credit: u8) -> Self {
        let mut transfer = Self {
            window: config.credit,
            is_fresh: true,
            ..Self::default()
        };
        transfer.set_credit(credit);
        transfer
    }

    /// Sets the size of the send window at the begin of the connection.
    pub(super) fn set_credit(&mut self, credit: u8) {
        self.credit = credit.min(ConnectionConfig::MAX_CREDIT);
        self.initial_credit = self.credit;
    }

    /// Discards all data and begins with the first sequence number.
    pub(super) fn clear(&mut self) {
        *self = Self {
            credit: self.initial_credit,
            initial_credit: self.initial_credit,
            window: self.window,
            is_paused: self.is_paused,
            is_fresh: true,
            ..Self::default()
        };
    }

    /// Returns the numbers of the last CODT, for an inactivity test.
    pub(super) const fn last_numbers(&self) -> SequenceNumbers {
        SequenceNumbers {
            received: self.acknowledged,
            more: false,
            sent: self.last_sent,
        }
    }

    /// Returns the reset cause of a received P(S) that is not the expected one or outside of the window.
    fn check_sent_number(&self, sent: SequenceNumber) -> Option<ResetCause> {
        let in_window = sent.since(self.acknowledged) < self.window;
        let is_next = sent == self.expected;
        if is_next && in_window {
            None
        } else if !is_next && self.is_fresh {
            Some(ResetCause::INCORRECT_FIRST_NUMBER)
        } else if in_window {
            Some(ResetCause::INCORRECT_SENT_NUMBER)
        } else {
            Some(ResetCause::OUT_OF_WINDOW)
        }
    }
}

impl Connection {
    /// Sends a message: N-DATA request. It is segmented, and in class 3 waits for the peer's window.
    ///
    /// # Errors
    /// [`ConnectionRequestError`] if data are not transferred in this state, the message is too long, or too much data
    /// wait.
    pub fn send(&mut self, now: Time, data: &Bytes) -> Result<(), ConnectionRequestError> {
        self.check_state(ConnectionState::Active)?;
        check_data(Some(data), self.config.max_message)?;
        let segments = data.len().div_ceil(self.config.max_segment).max(1);
        let queued_octets = self.transfer.queued_octets + data.len();
        if self.transfer.queue.len() + segments > self.config.max_queued_segments
            || queued_octets > self.config.max_queued_octets
        {
            return Err(ConnectionRequestError::QueueFull);
        }
        self.enqueue(now, data);
        Ok(())
    }

    /// Sends a message that a coupled section received. The window of that section limits what waits, see
    /// [`is_congested`](Self::is_congested). In a reset or release it is discarded.
    pub(super) fn send_relayed(&mut self, now: Time, data: &Bytes) {
        if self.state == ConnectionState::Active {
            self.enqueue(now, data);
        }
    }

    /// Returns whether half of the data wait that may.
    pub(super) fn is_congested(&self) -> bool {
        self.transfer.queue.len() > self.config.max_queued_segments / 2
            || self.transfer.queued_octets > self.config.max_queued_octets / 2
    }

    /// Queues the segments of a message, and sends those that the window admits.
    fn enqueue(&mut self, now: Time, data: &Bytes) {
        let max_segment = self.config.max_segment;
        let segments = data.len().div_ceil(max_segment).max(1);
        self.transfer.queued_octets += data.len();
        let mut rest = data.clone();
        for left in (0..segments).rev() {
            let segment = rest.split_to(rest.len().min(max_segment));
            self.transfer.queue.push_back((segment, left > 0));
        }
        self.flush(now);
    }

    /// Sends expedited data: N-EXPEDITED-DATA request, in class 3. They pass data that wait for the peer's window.
    ///
    /// # Errors
    /// [`ConnectionRequestError`] if the class or state does not allow it, the data have more than 32 octets, or too many
    /// of them wait.
    pub fn send_expedited(&mut self, now: Time, data: Bytes) -> Result<(), ConnectionRequestError> {
        self.check_state(ConnectionState::Active)?;
        self.check_class_3()?;
        check_data(Some(&data), MAX_EXPEDITED)?;
        if self.transfer.expedited.len() >= MAX_QUEUED_EXPEDITED {
            return Err(ConnectionRequestError::QueueFull);
        }
        self.transfer.expedited.push_back(data);
        self.flush_expedited(now);
        Ok(())
    }

    /// Stops indications of data, in class 3: the window of the peer closes.
    ///
    /// # Errors
    /// [`ConnectionRequestError::Class`] in class 2, which has no flow control.
    pub const fn pause(&mut self) -> Result<(), ConnectionRequestError> {
        if !matches!(self.class, ServiceClass::Class3) {
            return Err(ConnectionRequestError::Class(self.class));
        }
        self.transfer.is_paused = true;
        Ok(())
    }

    /// Indicates data again, and opens the window of the peer.
    pub fn resume(&mut self, now: Time) {
        self.transfer.is_paused = false;
        for segment in std::mem::take(&mut self.transfer.held) {
            self.deliver(now, segment);
        }
        self.acknowledge(now);
    }

    /// Resets the connection: N-RESET request, in class 3. Sends a RESRE and starts T(reset). Data of both directions that
    /// were not indicated yet are lost.
    ///
    /// # Errors
    /// [`ConnectionRequestError`] if the class or state does not allow it.
    pub fn reset(&mut self, now: Time, cause: ResetCause) -> Result<(), ConnectionRequestError> {
        self.check_state(ConnectionState::Active)?;
        self.check_class_3()?;
        self.send_reset(now, cause);
        Ok(())
    }

    /// Answers the indication of a reset: N-RESET response. Sends a RESCO.
    ///
    /// # Errors
    /// [`ConnectionRequestError::State`] if no reset waits for a response.
    pub fn reset_response(&mut self, now: Time) -> Result<(), ConnectionRequestError> {
        self.check_state(ConnectionState::ResetIncoming)?;
        let message = ResetConfirm {
            routing_context: self.routing_context,
            destination_reference: self.destination(),
            source_reference: self.local,
        };
        self.activate(now);
        self.transmit(now, Message::ResetConfirm(message));
        Ok(())
    }

    const fn check_class_3(&self) -> Result<(), ConnectionRequestError> {
        match self.class {
            ServiceClass::Class3 => Ok(()),
            class => Err(ConnectionRequestError::Class(class)),
        }
    }

    /// Sends the segments that the window admits.
    fn flush(&mut self, now: Time) {
        loop {
            let transfer = &mut self.transfer;
            let is_class_3 = self.class == ServiceClass::Class3;
            let in_flight = transfer.next_sent.since(transfer.unacknowledged);
            if is_class_3 && in_flight >= transfer.credit {
                return;
            }
            let Some((segment, more)) = transfer.queue.pop_front() else {
                return;
            };
            transfer.queued_octets -= segment.len();
            let mut numbers = SequenceNumbers {
                more,
                ..SequenceNumbers::default()
            };
            if is_class_3 {
                numbers.sent = transfer.next_sent;
                numbers.received = self.number_to_acknowledge();
                self.transfer.acknowledged = numbers.received;
                self.transfer.last_sent = numbers.sent;
                self.transfer.next_sent = numbers.sent.add(1);
            }
            self.send_data(now, Some(numbers), segment);
        }
    }

    fn flush_expedited(&mut self, now: Time) {
        if self.transfer.awaits_expedited {
            return;
        }
        if let Some(data) = self.transfer.expedited.pop_front() {
            self.transfer.awaits_expedited = true;
            self.send_data(now, None, data);
        }
    }

    fn send_data(&mut self, now: Time, sequence_numbers: Option<SequenceNumbers>, data: Bytes) {
        let message = ConnectionOrientedDataTransfer {
            routing_context: self.routing_context,
            sequence_numbers,
            destination_reference: self.destination(),
            priority: None,
            correlation_id: None,
            data: UserData(data),
        };
        self.transmit(now, Message::ConnectionOrientedDataTransfer(message));
    }

    /// Returns the P(R) to send: the number after the segments that the user took.
    fn number_to_acknowledge(&self) -> SequenceNumber {
        let held = self.transfer.held.len() as u8;
        self.transfer.expected.add(128 - held)
    }

    /// Acknowledges the segments that the user took, with data if the window admits some.
    fn acknowledge(&mut self, now: Time) {
        if self.class != ServiceClass::Class3 || self.state != ConnectionState::Active {
            return;
        }
        self.flush(now);
        let received = self.number_to_acknowledge();
        if received == self.transfer.acknowledged {
            return;
        }
        self.transfer.acknowledged = received;
        self.send_acknowledge(now, Some(ReceiveSequenceNumber(received)));
    }

    fn send_acknowledge(&mut self, now: Time, received: Option<ReceiveSequenceNumber>) {
        let message = ConnectionOrientedDataAcknowledge {
            routing_context: self.routing_context,
            destination_reference: self.destination(),
            received,
            credit: received.map(|_| Credit(self.transfer.window)),
        };
        self.transmit(now, Message::ConnectionOrientedDataAcknowledge(message));
    }

    /// Handles a CODT (Q.714, sections 3.5 and 3.6). During a reset data are discarded.
    pub(super) fn on_data(&mut self, now: Time, body: &ConnectionOrientedDataTransfer) {
        if self.state != ConnectionState::Active {
            return;
        }
        let UserData(data) = &body.data;
        match (self.class, body.sequence_numbers) {
            (ServiceClass::Class3, Some(numbers)) => {
                if !self.on_received_number(now, numbers.received, None) {
                    return;
                }
                if let Some(cause) = self.transfer.check_sent_number(numbers.sent) {
                    return self.fail_with_reset(now, cause);
                }
                self.transfer.is_fresh = false;
                self.transfer.expected = numbers.sent.add(1);
                let segment = (data.clone(), numbers.more);
                if self.transfer.is_paused {
                    self.transfer.held.push(segment);
                } else {
                    self.deliver(now, segment);
                    self.acknowledge(now);
                }
            }
            (ServiceClass::Class3, None) => {
                self.send_acknowledge(now, None);
                self.indications
                    .push_back(ConnectionIndication::ExpeditedData(data.clone()));
            }
            (_, Some(numbers)) => self.deliver(now, (data.clone(), numbers.more)),
            (_, None) => self.send_error(now, ErrorCause::SERVICE_CLASS_MISMATCH),
        }
    }

    /// Handles a CODA (Q.714, sections 3.5.2 and 3.6).
    pub(super) fn on_data_acknowledge(
        &mut self,
        now: Time,
        body: &ConnectionOrientedDataAcknowledge,
    ) {
        if self.state != ConnectionState::Active {
            return;
        }
        match (self.class, body.received) {
            (ServiceClass::Class3, Some(received)) => {
                self.on_received_number(now, received.0, body.credit);
            }
            (ServiceClass::Class3, None) => {
                self.transfer.awaits_expedited = false;
                self.flush_expedited(now);
            }
            _ => self.send_error(now, ErrorCause::SERVICE_CLASS_MISMATCH),
        }
    }

    /// Handles a P(R) with the credit beside it. A number that was not sent resets the connection; returns whether it was
    /// right.
    pub(super) fn on_received_number(
        &mut self,
        now: Time,
        received: SequenceNumber,
        credit: Option<Credit>,
    ) -> bool {
        let transfer = &mut self.transfer;
        let in_flight = transfer.next_sent.since(transfer.unacknowledged);
        if received.since(transfer.unacknowledged) > in_flight {
            self.fail_with_reset(now, ResetCause::INCORRECT_RECEIVED_NUMBER);
            return false;
        }
        transfer.unacknowledged = received;
        if let Some(Credit(credit)) = credit {
            transfer.credit = credit.min(ConnectionConfig::MAX_CREDIT);
        }
        self.flush(now);
        true
    }

    /// Adds a segment to the user message, and indicates it when it is complete.
    fn deliver(&mut self, now: Time, (segment, more): Segment) {
        if !self.state.is_established() {
            return;
        }
        if self.transfer.partial.len() + segment.len() > self.config.max_message {
            return self.fail(now, ReleaseCause::REMOTE_PROCEDURE_ERROR);
        }
        let message = if self.transfer.partial.is_empty() && !more {
            segment
        } else {
            self.transfer.partial.extend_from_slice(&segment);
            if more {
                return;
            }
            self.transfer.partial.split().freeze()
        };
        self.indications
            .push_back(ConnectionIndication::Data(message));
    }

    /// Sends a RESRE and starts T(reset).
    fn send_reset(&mut self, now: Time, cause: ResetCause) {
        let message = ResetRequest {
            routing_context: self.routing_context,
            destination_reference: self.destination(),
            source_reference: self.local,
            cause,
        };
        self.transfer.clear();
        self.state = ConnectionState::ResetOutgoing;
        self.timers.start(Timer::Reset, now + self.config.reset);
        self.transmit(now, Message::ResetRequest(message));
    }

    /// Resets the connection because of a procedure error.
    fn fail_with_reset(&mut self, now: Time, cause: ResetCause) {
        self.send_reset(now, cause);
        self.indications
            .push_back(ConnectionIndication::Reset(cause));
    }

    /// Handles a RESRE (Q.714, section 3.7).
    pub(super) fn on_reset_request(&mut self, now: Time, body: &ResetRequest) {
        match self.state {
            state if state.is_established() && self.class != ServiceClass::Class3 => {
                self.send_error(now, ErrorCause::SERVICE_CLASS_MISMATCH);
            }
            ConnectionState::Active => {
                self.transfer.clear();
                self.state = ConnectionState::ResetIncoming;
                self.indications
                    .push_back(ConnectionIndication::Reset(body.cause));
            }
            // Both ends reset the connection.
            ConnectionState::ResetOutgoing => self.on_reset_confirm(now),
            _ => {}
        }
    }

    pub(super) fn on_reset_confirm(&mut self, now: Time) {
        if self.state == ConnectionState::ResetOutgoing {
            self.activate(now);
            self.indications
                .push_back(ConnectionIndication::ResetConfirmed);
        }
    }
}
