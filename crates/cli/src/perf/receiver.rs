//! Receiving side of a measurement: data, and control messages of the peer about its side.

use std::time::Instant;

use carrick::{Message, MessagePart};

use super::protocol::{CONTROL, ControlMessage, DATA, MeasurementCost, Reception, TransferAmount};
use super::tally::TransferTally;
use crate::failure::Failure;

/// State of the receiving side.
#[derive(Debug)]
pub(super) struct Receiver {
    start: Instant,
    last: Instant,
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
    pub(super) fn new(start: Instant) -> Self {
        Self {
            start,
            last: start,
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
            | ControlMessage::Refused { .. } => {
                return Err(unexpected());
            }
        }
        Ok(())
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
        let seconds = self.last.duration_since(self.start).as_secs_f64();
        Ok(Some(Reception { amount, seconds }))
    }
}

/// Returns the error of a peer that violates the control protocol.
pub(super) fn unexpected() -> Failure {
    Failure::Run("unexpected message from the peer: is the peer carrick perf?".into())
}
