//! Reassembly of segmented messages (Q.714, section 4.1.1.2).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use bytes::BytesMut;
use carrick_proto::Time;

use super::return_message;
use crate::sua::{
    Address, ConnectionlessDataResponse, ConnectionlessDataTransfer, ReturnCause, RoutingContext,
    Segmentation, SegmentationReference, UserData,
};

/// Configuration of a [`Reassembler`].
#[derive(Clone, Copy, Debug)]
pub struct ReassemblyConfig {
    /// T(reassembly) of Q.714: maximum time from the first segment to the last, 10 s by default.
    pub timer: Duration,
    /// Maximum number of incomplete messages, 1,024 by default.
    pub max_messages: usize,
    /// Maximum octets of the data of incomplete messages, 4 MiB by default.
    pub max_octets: usize,
}

impl Default for ReassemblyConfig {
    fn default() -> Self {
        Self {
            timer: Duration::from_secs(10),
            max_messages: 1024,
            max_octets: 4 << 20,
        }
    }
}

/// Result of a received message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReassemblyResult {
    /// The message is complete: it was no segment, or the last one.
    Complete(Box<ConnectionlessDataTransfer>),
    /// Further segments are awaited.
    Incomplete,
    /// The segments are discarded. The answer, if the message has the return option, goes to its sender.
    Failed(Option<Box<ConnectionlessDataResponse>>),
}

/// Source of segments with their reference. Segments of one message have the same.
type Key = (RoutingContext, Address, SegmentationReference);

/// Message whose last segment was not received.
#[derive(Debug)]
struct Partial {
    /// First segment.
    first: ConnectionlessDataTransfer,
    /// Data of all segments.
    data: BytesMut,
    /// Number of segments that follow.
    remaining: u8,
    /// Entry of the deadlines.
    deadline: (Time, u64),
}

/// Joins segments. The segments of a message are expected in their order, without a gap; messages of several sources may
/// alternate. [`poll_timeout`](Self::poll_timeout) is the time at which [`handle_timeout`](Self::handle_timeout) is to be
/// called.
#[derive(Debug, Default)]
pub struct Reassembler {
    config: ReassemblyConfig,
    partial: BTreeMap<Key, Partial>,
    /// Ends of T(reassembly), each with the number of the first segment.
    deadlines: BTreeMap<(Time, u64), Key>,
    /// Number of first segments.
    started: u64,
    /// Octets of data of incomplete messages.
    octets: usize,
}

impl Reassembler {
    /// Reassembler without messages.
    pub const fn new(config: ReassemblyConfig) -> Self {
        Self {
            config,
            partial: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            started: 0,
            octets: 0,
        }
    }

    /// Handles a received message. A first segment whose reference has an incomplete message replaces that.
    pub fn handle_message(
        &mut self,
        now: Time,
        message: ConnectionlessDataTransfer,
    ) -> ReassemblyResult {
        let Some(segmentation) = message.segmentation else {
            return ReassemblyResult::Complete(Box::new(message));
        };
        let key = (
            message.routing_context,
            message.source.0.clone(),
            segmentation.reference,
        );
        if segmentation.first {
            self.remove(&key);
            self.start(now, key, segmentation, message)
        } else {
            self.continue_with(key, segmentation, message)
        }
    }

    fn start(
        &mut self,
        now: Time,
        key: Key,
        segmentation: Segmentation,
        mut message: ConnectionlessDataTransfer,
    ) -> ReassemblyResult {
        if segmentation.remaining == 0 {
            message.segmentation = None;
            return ReassemblyResult::Complete(Box::new(message));
        }
        let length = message.data.0.len();
        if self.partial.len() >= self.config.max_messages
            || self.octets + length > self.config.max_octets
        {
            return failed(&message, ReturnCause::NO_REASSEMBLY);
        }
        self.started += 1;
        self.octets += length;
        let deadline = (now + self.config.timer, self.started);
        self.deadlines.insert(deadline, key.clone());
        let partial = Partial {
            data: BytesMut::from(&message.data.0[..]),
            first: message,
            remaining: segmentation.remaining,
            deadline,
        };
        self.partial.insert(key, partial);
        ReassemblyResult::Incomplete
    }

    fn continue_with(
        &mut self,
        key: Key,
        segmentation: Segmentation,
        message: ConnectionlessDataTransfer,
    ) -> ReassemblyResult {
        let mut entry = match self.partial.entry(key) {
            Entry::Occupied(entry) => entry,
            // The first segment was lost, or failed.
            Entry::Vacant(_) => return failed(&message, ReturnCause::TRANSPORT_ERROR),
        };
        let data = message.data.0;
        let partial = entry.get_mut();
        let cause = if segmentation.remaining + 1 != partial.remaining {
            Some(ReturnCause::TRANSPORT_ERROR)
        } else if self.octets + data.len() > self.config.max_octets {
            Some(ReturnCause::NO_REASSEMBLY)
        } else {
            self.octets += data.len();
            partial.data.extend_from_slice(&data);
            partial.remaining = segmentation.remaining;
            None
        };
        if cause.is_none() && segmentation.remaining > 0 {
            return ReassemblyResult::Incomplete;
        }
        let partial = entry.remove();
        self.deadlines.remove(&partial.deadline);
        self.octets -= partial.data.len();
        if let Some(cause) = cause {
            return failed(&partial.first, cause);
        }
        let mut message = partial.first;
        message.segmentation = None;
        message.data = UserData(partial.data.freeze());
        ReassemblyResult::Complete(Box::new(message))
    }

    /// Discards the messages whose T(reassembly) expired, and returns the answers to those with the return option.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<ConnectionlessDataResponse> {
        let mut answers = Vec::new();
        while let Some(entry) = self.deadlines.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.get().clone();
            let expired = self.remove(&key);
            let answer = expired
                .and_then(|partial| return_message(&partial.first, ReturnCause::TRANSPORT_ERROR));
            answers.extend(answer);
        }
        answers
    }

    /// Returns the time of the next timeout.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first_key_value().map(|((time, _), _)| *time)
    }

    /// Returns the number of incomplete messages.
    pub fn incomplete(&self) -> usize {
        self.partial.len()
    }

    fn remove(&mut self, key: &Key) -> Option<Partial> {
        let partial = self.partial.remove(key)?;
        self.deadlines.remove(&partial.deadline);
        self.octets -= partial.data.len();
        Some(partial)
    }
}

fn failed(message: &ConnectionlessDataTransfer, cause: ReturnCause) -> ReassemblyResult {
    ReassemblyResult::Failed(return_message(message, cause).map(Box::new))
}
