//! Receiving side of a measurement: data, and control messages of the peer about its side.

use std::time::{Duration, Instant};

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
    /// Longest time between two messages.
    longest_gap: Duration,
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
            longest_gap: Duration::ZERO,
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
            self.record_gap(now);
            let complete = matches!(message.part, MessagePart::Whole | MessagePart::Last);
            self.tally.add(message.payload.len(), complete);
            self.delays
                .take(message.tsn.value(), message.part, &message.payload, now);
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

    /// Records the time since the last data, if any was counted.
    fn record_gap(&mut self, now: Instant) {
        if self.tally.amount() != self.omitted {
            let gap = now.saturating_duration_since(self.last);
            self.longest_gap = self.longest_gap.max(gap);
        }
        self.last = now;
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
        self.longest_gap = Duration::ZERO;
    }

    /// Returns the amount received so far in the part that is counted.
    pub(super) fn counted(&self) -> TransferAmount {
        self.tally.amount().since(self.omitted)
    }

    /// Returns the delays since the last call.
    pub(super) fn take_interval_delay(&mut self) -> Option<DelaySummary> {
        self.delays.take_interval()
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
            longest_interruption: self.longest_gap.as_secs_f64(),
        }))
    }
}

/// Returns the error of a peer that violates the control protocol.
pub(super) fn unexpected() -> Failure {
    Failure::Run("unexpected message from the peer: is the peer carrick perf?".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::clock::MeasurementClock;

    fn millis(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// The time before the first message that counts is no interruption.
    #[test]
    fn interruptions_are_between_messages() {
        let start = Instant::now();
        let delays = DelayRecorder::new(MeasurementClock::new(), 1000).unwrap();
        let mut receiver = Receiver::new(start, delays);
        let receive = |receiver: &mut Receiver, time| {
            receiver.record_gap(start + millis(time));
            receiver.tally.add(10, true);
        };
        for time in [500, 510, 900, 910] {
            receive(&mut receiver, time);
        }
        assert_eq!(receiver.longest_gap, millis(390));
        receiver.omit_until(start + millis(1000));
        for time in [2000, 2020, 2030] {
            receive(&mut receiver, time);
        }
        assert_eq!(receiver.longest_gap, millis(20));
    }
}
