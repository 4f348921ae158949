//! The core's event log: what an association did, chunk by chunk, for figures and diagnosis.
//!
//! Off unless [`crate::AssociationConfig::trace`] is set. The log is bounded; when nobody drains it
//! with [`crate::Endpoint::poll_trace`], the oldest records are dropped.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use carrick_wire::{StreamId, Tsn};

use crate::path::PathId;
use crate::time::Time;

/// Records kept at most.
const LIMIT: usize = 1 << 16;

/// One record of the log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TraceRecord {
    /// When it happened.
    pub time: Time,
    /// What happened.
    pub event: TraceEvent,
}

/// What happened to an association.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TraceEvent {
    /// A DATA chunk left.
    ChunkSent {
        /// Its TSN.
        tsn: Tsn,
        /// Its stream.
        stream: StreamId,
        /// The path it went to.
        path: PathId,
        /// 1 for the first transmission.
        transmission: u32,
        /// Bytes of user data.
        bytes: usize,
        /// The caller's context of the message.
        context: u64,
    },
    /// A DATA chunk was acknowledged, cumulatively or by a gap block.
    ChunkAcked {
        /// Its TSN.
        tsn: Tsn,
    },
    /// A DATA chunk was marked for retransmission after missing reports.
    LossDetected {
        /// Its TSN.
        tsn: Tsn,
    },
    /// T3-rtx expired on a path.
    Timeout {
        /// The path.
        path: PathId,
    },
    /// A DATA chunk arrived for the first time.
    ChunkReceived {
        /// Its TSN.
        tsn: Tsn,
    },
    /// A SACK left.
    SackSent {
        /// The path it went to.
        path: PathId,
        /// Gap blocks in it.
        gaps: usize,
    },
    /// A path's window, or what is outstanding in it, changed.
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
    /// A path's retransmission timeout was computed anew, from a sample (of a heartbeat, too) or
    /// because T3-rtx expired.
    Rto {
        /// The path.
        path: PathId,
        /// RTO in nanoseconds.
        nanos: u64,
    },
}

impl TraceEvent {
    /// The retransmission timeout of a path as it is now.
    pub(crate) fn rto_of(path: &crate::path::Path) -> Self {
        Self::Rto {
            path: path.id,
            nanos: path.rto.value().as_nanos() as u64,
        }
    }
}

/// A bounded log, absent when tracing is off.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Box<Log>>);

#[derive(Debug, Default)]
struct Log(VecDeque<TraceRecord>);

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
