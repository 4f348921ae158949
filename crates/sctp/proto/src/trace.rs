//! Trace of an association, chunk by chunk, for figures and diagnosis.
//!
//! Enabled by [`ResearchConfig::trace`](crate::ResearchConfig::trace). The trace is bounded: unless
//! [`Endpoint::poll_trace`](crate::Endpoint::poll_trace) drains it, the oldest records are dropped.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use carrick_wire::{StreamId, Tsn};

use crate::path::PathId;
use crate::time::Time;

/// Limit of records.
const LIMIT: usize = 1 << 16;

/// Record of the trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TraceRecord {
    /// Time of the event.
    pub time: Time,
    /// Event at this time.
    pub event: TraceEvent,
}

portable_struct! { TraceRecord { time, event } }

/// Event of the trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TraceEvent {
    /// A DATA chunk was sent.
    ChunkSent {
        /// TSN of the chunk.
        tsn: Tsn,
        /// Stream of the chunk.
        stream: StreamId,
        /// Path on which it was sent.
        path: PathId,
        /// Number of the transmission, 1 for the first one.
        transmission: u32,
        /// Length of the user data in bytes.
        bytes: usize,
        /// [`SendOptions::context`](crate::SendOptions::context) of the message.
        context: u64,
    },
    /// A DATA chunk was acknowledged, cumulatively or by a Gap Ack Block.
    ChunkAcked {
        /// TSN of the chunk.
        tsn: Tsn,
    },
    /// A DATA chunk was marked for retransmission after missing reports.
    LossDetected {
        /// TSN of the chunk.
        tsn: Tsn,
    },
    /// T3-rtx expired on a path.
    Timeout {
        /// The path.
        path: PathId,
    },
    /// A DATA chunk arrived for the first time.
    ChunkReceived {
        /// TSN of the chunk.
        tsn: Tsn,
    },
    /// A SACK was sent.
    SackSent {
        /// Path on which it was sent.
        path: PathId,
        /// Number of its Gap Ack Blocks.
        gaps: usize,
    },
    /// The congestion window or the outstanding data of a path changed.
    Window {
        /// The path.
        path: PathId,
        /// Congestion window in bytes.
        cwnd: usize,
        /// Slow-start threshold in bytes.
        ssthresh: usize,
        /// Outstanding bytes on the path.
        flight_size: usize,
    },
    /// A round-trip time was measured.
    RoundTrip {
        /// The path.
        path: PathId,
        /// The sample in nanoseconds.
        nanos: u64,
    },
    /// The RTO of a path changed, by an RTT sample of data or a heartbeat, or because T3-rtx expired.
    Rto {
        /// The path.
        path: PathId,
        /// RTO in nanoseconds.
        nanos: u64,
    },
}

portable_enum! {
    TraceEvent {
        0: ChunkSent { tsn, stream, path, transmission, bytes, context },
        1: ChunkAcked { tsn },
        2: LossDetected { tsn },
        3: Timeout { path },
        4: ChunkReceived { tsn },
        5: SackSent { path, gaps },
        6: Window { path, cwnd, ssthresh, flight_size },
        7: RoundTrip { path, nanos },
        8: Rto { path, nanos },
    }
}

impl TraceEvent {
    /// Returns the event with the current RTO of a path.
    pub(crate) fn rto_of(path: &crate::path::Path) -> Self {
        Self::Rto {
            path: path.id(),
            nanos: path.rto().as_nanos() as u64,
        }
    }
}

/// Bounded trace; absent if disabled.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Box<Log>>);

portable_tuple! { Trace(value) }

#[derive(Debug, Default)]
struct Log(VecDeque<TraceRecord>);

portable_tuple! { Log(value) }

impl Trace {
    pub(crate) fn new(enabled: bool) -> Self {
        Self(enabled.then(Box::default))
    }

    pub(crate) fn record(&mut self, time: Time, event: TraceEvent) {
        if let Some(Log(log)) = self.0.as_deref_mut() {
            if log.len() == LIMIT {
                log.pop_front();
            }
            log.push_back(TraceRecord { time, event });
        }
    }

    pub(crate) fn enabled(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn pop(&mut self) -> Option<TraceRecord> {
        self.0.as_mut()?.0.pop_front()
    }
}
