//! Receiving side of a measurement: data and responses, and control messages of the peer about its side.

use std::sync::Arc;
use std::time::Instant;

use carrick::{Message, StreamId};

use super::clock::MeasurementClock;
use super::delay::DelaySummary;
use super::flow::{Flow, FlowDirection};
use super::flow_receiver::FlowReceiver;
use super::interval::{FlowInterval, Interval};
use super::protocol::{
    ControlMessage, FlowMessages, FlowReception, MeasurementCost, MessageKind, Reception,
    TransferAmount,
};
use super::tally::{InterruptionTimer, ResponsePermits};
use crate::failure::Failure;

/// Request of the peer that waits for its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReceivedRequest {
    /// Index of the flow.
    pub(super) flow: usize,
    pub(super) stream: StreamId,
    pub(super) unordered: bool,
    /// Sending time of the request.
    pub(super) stamp: u64,
}

/// State of the receiving side.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Start of the part that is counted.
    start: Instant,
    /// Time between two messages of any flow.
    interruption: InterruptionTimer,
    /// Data of each flow that this side receives.
    data: Vec<Option<FlowReceiver>>,
    /// Responses to each flow of requests that this side sends.
    responses: Vec<Option<FlowReceiver>>,
    /// Numbers of responses received, for senders that wait for them.
    permits: Vec<Arc<ResponsePermits>>,
    /// Amount that the peer has received.
    pub(super) reception: Option<Reception>,
    /// Cost of the measurement for the peer.
    pub(super) cost: Option<MeasurementCost>,
    /// Intervals of the peer that were not passed on.
    pub(super) peer_intervals: Vec<Interval>,
}

impl Receiver {
    /// Returns the receiver of the data in this direction, and of the responses to requests in the other one.
    pub(super) fn new(
        start: Instant,
        flows: &[Flow],
        inbound: FlowDirection,
        clock: MeasurementClock,
    ) -> Result<Self, Failure> {
        let (mut data, mut responses, mut permits) = (Vec::new(), Vec::new(), Vec::new());
        for flow in flows {
            let is_inbound = flow.direction == inbound;
            let of_data = is_inbound.then(|| FlowReceiver::of_data(start, flow, clock));
            data.push(of_data.transpose()?);
            let size = flow.respond.filter(|_| !is_inbound);
            let of_responses = size.map(|size| FlowReceiver::of_responses(start, size, clock));
            responses.push(of_responses.transpose()?);
            permits.push(Arc::new(ResponsePermits::new()));
        }
        Ok(Self {
            start,
            interruption: InterruptionTimer::default(),
            data,
            responses,
            permits,
            reception: None,
            cost: None,
            peer_intervals: Vec::new(),
        })
    }

    /// Returns the permits to send requests of each flow, one for each response.
    pub(super) fn permits(&self, flow: usize) -> Arc<ResponsePermits> {
        Arc::clone(&self.permits[flow])
    }

    /// Returns whether this side receives data or responses.
    pub(super) fn expects_messages(&self) -> bool {
        self.all().next().is_some()
    }

    fn all(&self) -> impl Iterator<Item = &FlowReceiver> {
        self.data.iter().chain(&self.responses).flatten()
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut FlowReceiver> {
        let all = self.data.iter_mut().chain(&mut self.responses);
        all.flatten()
    }

    /// Processes a message received at `now`. Returns a request that is complete.
    pub(super) fn take(
        &mut self,
        message: Message,
        now: Instant,
    ) -> Result<Option<ReceivedRequest>, Failure> {
        match MessageKind::of(message.ppid).ok_or_else(unexpected)? {
            MessageKind::Data(flow) => {
                let receiver = self.data.get_mut(flow).and_then(Option::as_mut);
                let receiver = receiver.ok_or_else(unexpected)?;
                self.interruption.message(now);
                let (stream, unordered) = (message.stream, message.ssn.is_none());
                let sent = receiver.take(&message, now);
                Ok(sent.map(|stamp| ReceivedRequest {
                    flow,
                    stream,
                    unordered,
                    stamp,
                }))
            }
            MessageKind::Response(flow) => {
                let receiver = self.responses.get_mut(flow).and_then(Option::as_mut);
                if receiver
                    .ok_or_else(unexpected)?
                    .take(&message, now)
                    .is_some()
                {
                    self.permits[flow].add();
                }
                Ok(None)
            }
            MessageKind::FlowEnd(flow) => {
                let receiver = self.data.get_mut(flow).and_then(Option::as_mut);
                receiver.ok_or_else(unexpected)?.end();
                Ok(None)
            }
            MessageKind::Control => self.take_control(ControlMessage::decode(message.payload)?),
        }
    }

    fn take_control(
        &mut self,
        control: ControlMessage,
    ) -> Result<Option<ReceivedRequest>, Failure> {
        match control {
            ControlMessage::End { flows } => announce(&mut self.data, &flows),
            ControlMessage::Responded { flows } => announce(&mut self.responses, &flows),
            ControlMessage::Interval(interval) => self.peer_intervals.push(*interval),
            ControlMessage::Received(reception) => self.reception = Some(reception),
            ControlMessage::Summary(cost) => self.cost = Some(cost),
            ControlMessage::Request(_)
            | ControlMessage::Accepted { .. }
            | ControlMessage::ClockRequest
            | ControlMessage::ClockReply { .. }
            | ControlMessage::Start(_)
            | ControlMessage::Ready
            | ControlMessage::Refused { .. } => {
                return Err(unexpected());
            }
        }
        Ok(None)
    }

    /// Starts to count at this time, with this time of the peer's clock minus that of the own one, in nanoseconds.
    pub(super) fn begin(&mut self, now: Instant, peer_ahead: i64) {
        self.start = now;
        self.data
            .iter_mut()
            .flatten()
            .for_each(|own| own.set_peer_ahead(peer_ahead));
        self.all_mut().for_each(|own| own.begin(now));
    }

    /// Counts only what is received from now on.
    pub(super) fn omit_until(&mut self, now: Instant) {
        self.start = now;
        self.interruption = InterruptionTimer::default();
        self.all_mut().for_each(|own| own.omit_until(now));
    }

    /// Returns the amount of data received so far.
    pub(super) fn amount(&self) -> TransferAmount {
        let amounts = self.data.iter().flatten().map(FlowReceiver::amount);
        amounts.fold(TransferAmount::default(), |a, b| a + b)
    }

    /// Returns the amount of responses received so far.
    pub(super) fn responses(&self) -> TransferAmount {
        let amounts = self.responses.iter().flatten().map(FlowReceiver::amount);
        amounts.fold(TransferAmount::default(), |a, b| a + b)
    }

    /// Returns the amount of data received so far in the part that is counted.
    pub(super) fn counted(&self) -> TransferAmount {
        let amounts = self.data.iter().flatten().map(FlowReceiver::counted);
        amounts.fold(TransferAmount::default(), |a, b| a + b)
    }

    /// Returns the delays, and the statistics of each flow, since the last call.
    pub(super) fn take_interval(
        &mut self,
        sent: &[TransferAmount],
    ) -> (Option<DelaySummary>, Vec<FlowInterval>) {
        let data = self.data.iter().flatten();
        let delay = super::delay::DelayRecorder::merged_interval(data.map(|own| &own.delays));
        let mut flows = Vec::new();
        for (index, sent) in sent.iter().enumerate() {
            let of_flow = |receiver: &mut Option<FlowReceiver>| {
                let own = receiver.as_mut()?;
                Some((own.amount(), own.delays.take_interval()))
            };
            let data = of_flow(&mut self.data[index]).unwrap_or_default();
            let responses = of_flow(&mut self.responses[index]).unwrap_or_default();
            flows.push(FlowInterval {
                flow: number(index),
                sent: *sent,
                received: data.0,
                delay: data.1,
                responses: responses.0,
                response_time: responses.1,
            });
        }
        (delay, flows)
    }

    /// Returns the delays of data so far.
    pub(super) fn delay(&self) -> Option<DelaySummary> {
        let data = self.data.iter().flatten();
        super::delay::DelayRecorder::merged(data.map(|own| &own.delays))
    }

    /// Returns the reception of each flow so far, with the numbers of messages that this side has sent by flow.
    pub(super) fn flows(&self, sent: &[TransferAmount], with_series: bool) -> Vec<FlowReception> {
        let mut flows = Vec::new();
        for (index, sent) in sent.iter().enumerate() {
            if let Some(data) = &self.data[index] {
                let announced = data.announced().map_or(0, |own| own.messages);
                flows.push(data.reception(index, FlowMessages::Data, announced, with_series));
            }
            if let Some(responses) = &self.responses[index] {
                let sent = sent.messages;
                flows.push(responses.reception(index, FlowMessages::Responses, sent, with_series));
            }
        }
        flows
    }

    /// Returns whether all data was received.
    pub(super) fn has_all_data(&self) -> bool {
        self.data.iter().flatten().all(FlowReceiver::is_complete)
    }

    /// Returns the reception if it is complete, with the amounts that this side has sent by flow.
    ///
    /// # Errors
    /// If more was received than the peer has sent.
    pub(super) fn complete(
        &self,
        sent: &[TransferAmount],
        with_series: bool,
    ) -> Result<Option<Reception>, Failure> {
        if !self.all().all(FlowReceiver::is_complete) {
            return Ok(None);
        }
        self.all().try_for_each(FlowReceiver::check_amount)?;
        let last = self.all().map(FlowReceiver::last).max();
        // Everything may have arrived before.
        let seconds = last.map(|last| last.saturating_duration_since(self.start));
        Ok(Some(Reception {
            amount: self.counted(),
            seconds: seconds.unwrap_or_default().as_secs_f64(),
            delay: self.delay(),
            longest_interruption: self.interruption.longest().as_secs_f64(),
            flows: self.flows(sent, with_series),
        }))
    }
}

/// Returns the number of a flow.
pub(super) fn number(index: usize) -> u16 {
    // There are at most 64 flows.
    index as u16 + 1
}

/// Sets the amounts that the peer has sent.
fn announce(receivers: &mut [Option<FlowReceiver>], amounts: &[TransferAmount]) {
    for (index, receiver) in receivers.iter_mut().enumerate() {
        if let Some(receiver) = receiver {
            receiver.announce(amounts.get(index).copied().unwrap_or_default());
        }
    }
}

/// Returns the error of a peer that violates the control protocol.
pub(super) fn unexpected() -> Failure {
    Failure::Run("unexpected message from the peer: is the peer carrick perf?".into())
}
