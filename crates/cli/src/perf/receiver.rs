//! Receiving side of a measurement: data, and control messages of the peer about its side.

use std::time::Instant;

use carrick::{Message, MessagePart};

use super::delay::{DelayRecorder, DelaySummary};
use super::protocol::{CONTROL, ControlMessage, DATA, MeasurementCost, Reception, TransferAmount};
use super::tally::TransferTally;
use crate::failure::Failure;

/// State of the receiving side.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Start of the part that is counted.
    start: Instant,
    last: Instant,
    /// Amount received before the part that is counted.
    omitted: TransferAmount,
    delays: DelayRecorder,
    /// Amount received.
    pub(super) tally: TransferTally,
    /// Amount that the peer has sent, from its End.
    announced: Option<TransferAmount>,
    /// Amount that the peer has received.
    pub(super) reception: Option<Reception>,
    /// Cost of the measurement for the peer.
    pub(super) cost: Option<MeasurementCost>,
}

impl Receiver {
    pub(super) fn new(start: Instant, delays: DelayRecorder) -> Self {
        Self {
            start,
            last: start,
            omitted: TransferAmount::default(),
            delays,
            tally: TransferTally::default(),
            announced: None,
            reception: None,
            cost: None,
        }
    }

    /// Processes a message received at `now`.
    pub(super) fn take(&mut self, message: Message, now: Instant) -> Result<(), Failure> {
        if message.ppid == DATA {
            let complete = matches!(message.part, MessagePart::Whole | MessagePart::Last);
            self.tally.add(message.payload.len(), complete);
            self.delays
                .take(message.tsn.value(), message.part, &message.payload, now);
            self.last = now;
            return Ok(());
        }
        if message.ppid != CONTROL {
            return Err(unexpected());
        }
        match ControlMessage::decode(message.payload)? {
            ControlMessage::End(amount) => self.announced = Some(amount),
            ControlMessage::Received(reception) => self.reception = Some(reception),
            ControlMessage::Summary(cost) => self.cost = Some(cost),
            ControlMessage::Request(_)
            | ControlMessage::Accepted
            | ControlMessage::ClockRequest
            | ControlMessage::ClockReply { .. }
            | ControlMessage::Start(_)
            | ControlMessage::Ready
            | ControlMessage::Refused { .. } => {
                return Err(unexpected());
            }
        }
        Ok(())
    }

    /// Starts to count at this time, with this time of the peer's clock minus that of the own one, in nanoseconds.
    pub(super) fn begin(&mut self, now: Instant, peer_ahead: i64) {
        (self.start, self.last) = (now, now);
        self.delays.set_peer_ahead(peer_ahead);
    }

    /// Counts only what is received from now on.
    pub(super) fn omit_until(&mut self, now: Instant) {
        self.start = now;
        self.omitted = self.tally.amount();
        self.delays.reset();
    }

    /// Returns the amount received so far in the part that is counted.
    pub(super) fn counted(&self) -> TransferAmount {
        self.tally.amount().since(self.omitted)
    }

    /// Returns the delays so far.
    pub(super) fn delay(&self) -> Option<DelaySummary> {
        self.delays.summary()
    }

    /// Returns the reception if it is complete.
    ///
    /// # Errors
    /// If more was received than the peer has sent.
    pub(super) fn complete(&self) -> Result<Option<Reception>, Failure> {
        let amount = self.tally.amount();
        let Some(announced) = self.announced.filter(|a| amount.bytes >= a.bytes) else {
            return Ok(None);
        };
        if amount != announced {
            return Err(Failure::Run(format!(
                "received {} bytes in {} messages, but the peer sent {} in {}: this is a bug, please report it",
                amount.bytes, amount.messages, announced.bytes, announced.messages
            )));
        }
        // Everything may have arrived before.
        let seconds = self.last.saturating_duration_since(self.start);
        Ok(Some(Reception {
            amount: self.counted(),
            seconds: seconds.as_secs_f64(),
            delay: self.delay(),
        }))
    }
}

/// Returns the error of a peer that violates the control protocol.
pub(super) fn unexpected() -> Failure {
    Failure::Run("unexpected message from the peer: is the peer carrick perf?".into())
}
