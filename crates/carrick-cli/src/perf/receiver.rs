//! What comes in during a measurement: data, and what the peer says about its own side.

use std::time::Instant;

use carrick::{Message, Part};

use super::protocol::{Amount, CONTROL, Control, Cost, DATA, Reception};
use super::tally::Tally;
use crate::failure::Failure;

/// Everything that came in.
#[derive(Debug)]
pub(super) struct Receiver {
    start: Instant,
    last: Instant,
    /// What was received.
    pub(super) tally: Tally,
    /// What the peer sent in all, once it said so.
    announced: Option<Amount>,
    /// What the peer received of our data.
    pub(super) reception: Option<Reception>,
    /// What it cost the peer.
    pub(super) cost: Option<Cost>,
}

impl Receiver {
    pub(super) fn new(start: Instant) -> Self {
        Self {
            start,
            last: start,
            tally: Tally::default(),
            announced: None,
            reception: None,
            cost: None,
        }
    }

    /// Takes what arrived `now`.
    pub(super) fn take(&mut self, message: Message, now: Instant) -> Result<(), Failure> {
        if message.ppid == DATA {
            let complete = matches!(message.part, Part::Whole | Part::Last);
            self.tally.add(message.payload.len(), complete);
            self.last = now;
            return Ok(());
        }
        if message.ppid != CONTROL {
            return Err(unexpected());
        }
        match Control::decode(message.payload)? {
            Control::End(amount) => self.announced = Some(amount),
            Control::Received(reception) => self.reception = Some(reception),
            Control::Summary(cost) => self.cost = Some(cost),
            Control::Request(_) | Control::Accepted | Control::Refused { .. } => {
                return Err(unexpected());
            }
        }
        Ok(())
    }

    /// What was received, if it is everything.
    ///
    /// # Errors
    /// It is more than the peer says it sent.
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

/// The peer does not keep to the protocol.
pub(super) fn unexpected() -> Failure {
    Failure::Run(
        "the peer sent what does not belong to a measurement: is it carrick perf on the other side?"
            .into(),
    )
}
