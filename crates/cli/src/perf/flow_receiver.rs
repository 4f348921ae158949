//! Receiving side of a flow.

use std::time::Instant;

use carrick::{Message, MessagePart};

use super::clock::MeasurementClock;
use super::delay::DelayRecorder;
use super::flow::Flow;
use super::protocol::{FlowMessages, FlowReception, TransferAmount};
use super::receiver::number;
use super::tally::{InterruptionTimer, TransferTally};
use crate::failure::Failure;

/// End of a flow, as the receiver knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FlowEnd {
    /// All messages of the End arrive.
    Reliable,
    /// Messages may be abandoned, and the end of flow was not received.
    Open,
    /// The end of flow was received: no other message arrives.
    Received,
}

/// Data of a flow, or the responses to it.
#[derive(Debug)]
pub(super) struct FlowReceiver {
    /// Start of the part that is counted.
    start: Instant,
    /// Time of the last message.
    last: Instant,
    interruption: InterruptionTimer,
    /// Amount received before the part that is counted.
    omitted: TransferAmount,
    pub(super) delays: DelayRecorder,
    tally: TransferTally,
    /// Amount that the peer has sent.
    announced: Option<TransferAmount>,
    end: FlowEnd,
}

impl FlowReceiver {
    fn new(start: Instant, delays: DelayRecorder, end: FlowEnd) -> Self {
        Self {
            start,
            last: start,
            interruption: InterruptionTimer::default(),
            omitted: TransferAmount::default(),
            delays,
            tally: TransferTally::default(),
            announced: None,
            end,
        }
    }

    pub(super) fn of_data(
        start: Instant,
        flow: &Flow,
        clock: MeasurementClock,
    ) -> Result<Self, Failure> {
        let end = if flow.is_partially_reliable() {
            FlowEnd::Open
        } else {
            FlowEnd::Reliable
        };
        Ok(Self::new(
            start,
            DelayRecorder::new(clock, flow.max_size())?,
            end,
        ))
    }

    pub(super) fn of_responses(
        start: Instant,
        size: u32,
        clock: MeasurementClock,
    ) -> Result<Self, Failure> {
        let delays = DelayRecorder::new(clock, size)?;
        Ok(Self::new(start, delays, FlowEnd::Reliable))
    }

    /// Counts a message received at `now`. Returns the sending time of a message that is complete.
    pub(super) fn take(&mut self, message: &Message, now: Instant) -> Option<u64> {
        self.interruption.message(now);
        self.last = now;
        let is_complete = matches!(message.part, MessagePart::Whole | MessagePart::Last);
        self.tally.add(message.payload.len(), is_complete);
        let tsn = message.tsn.value();
        self.delays.take(tsn, message.part, &message.payload, now)
    }

    /// Records that no other message arrives.
    pub(super) fn end(&mut self) {
        if self.end == FlowEnd::Open {
            self.end = FlowEnd::Received;
        }
    }

    pub(super) fn set_peer_ahead(&mut self, peer_ahead: i64) {
        self.delays.set_peer_ahead(peer_ahead);
    }

    pub(super) fn begin(&mut self, now: Instant) {
        (self.start, self.last) = (now, now);
        self.interruption = InterruptionTimer::default();
    }

    pub(super) fn omit_until(&mut self, now: Instant) {
        self.start = now;
        self.omitted = self.amount();
        self.interruption = InterruptionTimer::default();
        self.delays.reset();
    }

    pub(super) fn announce(&mut self, amount: TransferAmount) {
        self.announced = Some(amount);
    }

    pub(super) fn announced(&self) -> Option<TransferAmount> {
        self.announced
    }

    pub(super) fn amount(&self) -> TransferAmount {
        self.tally.amount()
    }

    pub(super) fn counted(&self) -> TransferAmount {
        self.amount().since(self.omitted)
    }

    pub(super) fn last(&self) -> Instant {
        self.last
    }

    pub(super) fn is_complete(&self) -> bool {
        self.announced.is_some_and(|announced| match self.end {
            FlowEnd::Reliable => self.amount().bytes >= announced.bytes,
            FlowEnd::Open => false,
            FlowEnd::Received => true,
        })
    }

    /// Checks the amount of a flow that is complete.
    pub(super) fn check_amount(&self) -> Result<(), Failure> {
        let amount = self.amount();
        match self.announced {
            Some(announced) if self.end == FlowEnd::Reliable && announced != amount => {
                Err(Failure::Run(format!(
                    "received {} bytes in {} messages, but the peer sent {} in {}: this is a bug, please report it",
                    amount.bytes, amount.messages, announced.bytes, announced.messages
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the reception so far, of the flow with this index and this number of messages sent.
    pub(super) fn reception(
        &self,
        index: usize,
        of: FlowMessages,
        sent: u64,
        with_series: bool,
    ) -> FlowReception {
        let distribution = if with_series {
            self.delays.distribution()
        } else {
            Vec::new()
        };
        FlowReception {
            flow: number(index),
            of,
            amount: self.counted(),
            seconds: self
                .last
                .saturating_duration_since(self.start)
                .as_secs_f64(),
            lost: sent.saturating_sub(self.amount().messages),
            longest_interruption: self.interruption.longest().as_secs_f64(),
            delay: self.delays.summary(),
            distribution,
        }
    }
}
