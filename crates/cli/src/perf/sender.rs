//! Sending side of a measurement: flows, and responses to requests of the peer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use carrick::{SendHalf, SendOptions, StreamId};
use carrick_netsim::Random;
use tokio::sync::mpsc;

use super::clock::MeasurementClock;
use super::delay::{MAX_STAMPED, MessageSource, STAMP};
use super::distribution::Distribution;
use super::flow::{Flow, Spacing};
use super::pacing::{FlowSchedule, SendTurn};
use super::protocol::{ControlMessage, MessageKind};
use super::receiver::ReceivedRequest;
use super::request::MeasurementRequest;
use super::tally::{ResponsePermits, TransferTally};
use crate::failure::Failure;

/// Bytes, and number, of messages that are handed over together.
const RUN_BYTES: usize = 16 * 1024;
const RUN: usize = 64;

/// Sender of a flow.
pub(super) struct FlowSender {
    sender: SendHalf,
    /// Index of the flow.
    index: usize,
    flow: Flow,
    source: MessageSource,
    schedule: FlowSchedule,
    random: Random,
    permits: Arc<ResponsePermits>,
    tally: Arc<TransferTally>,
    /// Time after which the flow ends.
    time: Option<Duration>,
    /// Number of bytes and messages that are not sent.
    unsent_bytes: u64,
    unsent_messages: u64,
    next_stream: u16,
}

impl FlowSender {
    /// Returns the sender of the flow with this index.
    pub(super) fn new(
        sender: SendHalf,
        request: &MeasurementRequest,
        (index, flow): (usize, Flow),
        permits: Arc<ResponsePermits>,
        tally: Arc<TransferTally>,
        clock: MeasurementClock,
    ) -> Self {
        // Each association and flow has two streams of random numbers: for the times, and for the messages.
        let number = (u64::from(request.association) << 8) | ((index as u64) << 1);
        let is_random = flow.size.constant().is_none();
        Self {
            sender,
            index,
            source: MessageSource::new(flow.max_size() as usize, is_random, clock),
            schedule: FlowSchedule::new(&flow, Random::new(request.seed, number)),
            random: Random::new(request.seed, number | 1),
            permits,
            tally,
            // An extent in bytes has no time limit.
            time: request.sending_time(),
            unsent_bytes: request.extent.bytes().unwrap_or(u64::MAX),
            unsent_messages: flow.messages.unwrap_or(u64::MAX),
            next_stream: 0,
            flow,
        }
    }

    /// Sends the messages of the flow; returns when the last one is queued, and with partial reliability, when the end of the
    /// flow is.
    pub(super) async fn run(mut self) -> Result<(), Failure> {
        let is_timed = self.time.is_some();
        let mut end = std::pin::pin!(tokio::time::sleep(self.time.unwrap_or(Duration::MAX)));
        let start = Instant::now();
        let run = (RUN_BYTES / (self.flow.max_size() as usize).max(1)).clamp(1, RUN);
        let waits_for_responses = self.flow.spacing == Spacing::Responses;
        let is_unlimited = self.schedule.is_unlimited() && !waits_for_responses;
        let mut messages = VecDeque::with_capacity(run);
        while self.unsent_bytes > 0 && self.unsent_messages > 0 {
            let mut due = run;
            if !is_unlimited {
                match self.schedule.turn(start.elapsed()) {
                    SendTurn::Now(now) => due = run.min(usize::try_from(now).unwrap_or(run)),
                    SendTurn::At(time) => tokio::select! {
                        biased;
                        () = &mut end, if is_timed => break,
                        () = tokio::time::sleep(time.saturating_sub(start.elapsed())) => continue,
                    },
                }
            }
            if waits_for_responses {
                due = 1;
                tokio::select! {
                    biased;
                    () = &mut end, if is_timed => break,
                    () = self.permits.take() => {}
                }
            }
            self.fill(&mut messages, due);
            let (bytes, count) = (bytes_of(&messages), messages.len());
            let sent = tokio::select! {
                biased;
                () = &mut end, if is_timed => None,
                sent = self.sender.send_many(&mut messages) => Some(sent),
            };
            let queued = (count - messages.len()) as u64;
            self.tally.add_all(bytes - bytes_of(&messages), queued);
            self.schedule.sent(queued);
            match sent {
                Some(sent) => sent.map_err(|e| Failure::Run(e.to_string()))?,
                None => break,
            }
        }
        if self.flow.is_partially_reliable() {
            self.send_end().await?;
        }
        Ok(())
    }

    /// Adds messages that are sent now, up to this number.
    fn fill(&mut self, messages: &mut VecDeque<(Bytes, SendOptions)>, due: usize) {
        let stamp = self.source.stamp();
        let ppid = MessageKind::Data(self.index).ppid();
        while messages.len() < due && self.unsent_bytes > 0 && self.unsent_messages > 0 {
            let length = self.unsent_bytes.min(self.draw_size()) as usize;
            let options = SendOptions {
                stream: StreamId(self.flow.stream + self.next_stream),
                ppid,
                unordered: self.random.chance(self.flow.unordered),
                reliability: self.flow.reliability(),
                ..SendOptions::default()
            };
            messages.push_back((self.source.message(length, stamp), options));
            self.unsent_bytes -= length as u64;
            self.unsent_messages -= 1;
            self.next_stream = (self.next_stream + 1) % self.flow.streams;
        }
    }

    /// Returns the length of the next message. Random ones have room for the sending time.
    fn draw_size(&mut self) -> u64 {
        match self.flow.size {
            Distribution::Constant(size) => size as u64,
            random => {
                let size = random.draw(&mut self.random).round();
                (size as u64).clamp(STAMP as u64, MAX_STAMPED as u64)
            }
        }
    }

    /// Sends the end of the flow once all messages before are acknowledged or abandoned.
    async fn send_end(&self) -> Result<(), Failure> {
        let flushed = self.sender.flushed().await;
        flushed.map_err(|e| Failure::Run(e.to_string()))?;
        let options = SendOptions {
            stream: StreamId(self.flow.stream),
            ppid: MessageKind::FlowEnd(self.index).ppid(),
            ..ControlMessage::options()
        };
        let sent = self.sender.send(Bytes::from_static(b"end"), options).await;
        sent.map_err(|e| Failure::Run(e.to_string()))
    }
}

/// Sends a response to each request until the queue is closed. Responses are reliable; those to unordered requests are
/// unordered.
pub(super) async fn respond(
    sender: SendHalf,
    flows: Vec<Flow>,
    tallies: Vec<Arc<TransferTally>>,
    mut requests: mpsc::Receiver<ReceivedRequest>,
    clock: MeasurementClock,
) -> Result<(), Failure> {
    let source = |flow: &Flow| {
        let size = flow.respond?;
        Some((
            size as usize,
            MessageSource::new(size as usize, false, clock),
        ))
    };
    let mut sources: Vec<_> = flows.iter().map(source).collect();
    while let Some(request) = requests.recv().await {
        let Some((size, source)) = sources.get_mut(request.flow).and_then(Option::as_mut) else {
            continue;
        };
        let options = SendOptions {
            stream: request.stream,
            ppid: MessageKind::Response(request.flow).ppid(),
            unordered: request.unordered,
            ..SendOptions::default()
        };
        let message = source.message(*size, request.stamp);
        let sent = sender.send(message, options).await;
        sent.map_err(|e| Failure::Run(e.to_string()))?;
        tallies[request.flow].add(*size, true);
    }
    Ok(())
}

fn bytes_of(messages: &VecDeque<(Bytes, SendOptions)>) -> u64 {
    messages.iter().map(|(data, _)| data.len() as u64).sum()
}
