//! Configuration of a link.

use std::time::Duration;

use crate::m2pa::MAX_DATA;

/// Configuration of a [`Link`](super::Link).
///
/// The timers are those of Q.703, with defaults for links of 64 kbit/s that were not compared with its text. Section 4
/// of RFC 4165 asks for the values of the applicable MTP2 standard, the same on both ends.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// T1, alignment ready: wait for the peer's end of proving, 45 s by default.
    pub t1: Duration,
    /// T2, not aligned: wait for the peer's begin of alignment, 20 s by default.
    pub t2: Duration,
    /// T3, aligned: wait for the peer's begin of proving, 1.5 s by default.
    pub t3: Duration,
    /// T4(Pn), normal proving period, 8.2 s by default.
    pub t4_normal: Duration,
    /// T4(Pe), emergency proving period, 500 ms by default.
    pub t4_emergency: Duration,
    /// T6, remote congestion: maximum time for which the peer may be busy, 4 s by default.
    pub t6: Duration,
    /// T7, excessive delay of acknowledgement, 1 s by default. It applies to each message (RFC 4165, section 4.2.1).
    pub t7: Duration,
    /// `Proving_Interval`: interval of Proving messages, 100 ms by default. The load should be that of the link in
    /// service (RFC 4165, section 4.1.3).
    pub proving_interval: Duration,
    /// Number of octets of the filler of Proving messages, 64 by default, at most 4,093.
    pub proving_filler: usize,
    /// Limit of the messages of MTP3 that are unacknowledged or wait for transmission, 10,000 messages and 4 MiB by
    /// default.
    pub transmit_limit: BufferLimit,
    /// Limit of received messages that are not accepted yet, because of a local processor outage or receive
    /// congestion, 10,000 messages and 4 MiB by default.
    pub receive_limit: BufferLimit,
    /// Number of messages in the transmit buffers at which transmit congestion begins, 1,000 by default (Q.704,
    /// section 3.8).
    pub congestion_onset: usize,
    /// Number of messages in the transmit buffers at which transmit congestion ends, 500 by default.
    pub congestion_abatement: usize,
}

/// Limit of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferLimit {
    /// Maximum number of messages, at most 4,194,304.
    pub messages: usize,
    /// Maximum number of octets of the messages' data.
    pub octets: usize,
}

impl BufferLimit {
    /// Maximum number of messages of a buffer: a quarter of the sequence numbers, so that an old number is never taken
    /// for a new one.
    pub const MAX_MESSAGES: usize = 1 << 22;

    const DEFAULT: Self = Self {
        messages: 10_000,
        octets: 4 << 20,
    };

    pub(super) const fn admits(self, messages: usize, octets: usize) -> bool {
        messages <= self.messages && octets <= self.octets
    }
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            t1: Duration::from_secs(45),
            t2: Duration::from_secs(20),
            t3: Duration::from_millis(1500),
            t4_normal: Duration::from_millis(8200),
            t4_emergency: Duration::from_millis(500),
            t6: Duration::from_secs(4),
            t7: Duration::from_secs(1),
            proving_interval: Duration::from_millis(100),
            proving_filler: 64,
            transmit_limit: BufferLimit::DEFAULT,
            receive_limit: BufferLimit::DEFAULT,
            congestion_onset: 1000,
            congestion_abatement: 500,
        }
    }
}

/// Configuration that is contradictory. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LinkConfigError {
    /// The filler does not fit into a message.
    #[error("proving_filler = {0} octets do not fit into a message: use at most {max}", max = MAX_DATA - 4)]
    FillerTooLong(usize),
    /// Proving messages would be sent without a pause.
    #[error("proving_interval is 0: use the interval of messages under normal load")]
    NoProvingInterval,
    /// A buffer could have more messages than sequence numbers distinguish.
    #[error("a buffer of {0} messages exceeds the limit of {max}", max = BufferLimit::MAX_MESSAGES)]
    BufferTooLarge(usize),
    /// Congestion would end before it begins.
    #[error("congestion_abatement = {abatement} is not less than congestion_onset = {onset}")]
    CongestionThresholds {
        /// Threshold of the onset.
        onset: usize,
        /// Threshold of the abatement.
        abatement: usize,
    },
}

impl LinkConfig {
    pub(super) fn check(&self) -> Result<(), LinkConfigError> {
        if self.proving_filler > MAX_DATA - 4 {
            return Err(LinkConfigError::FillerTooLong(self.proving_filler));
        }
        if self.proving_interval.is_zero() {
            return Err(LinkConfigError::NoProvingInterval);
        }
        for limit in [self.transmit_limit, self.receive_limit] {
            if limit.messages > BufferLimit::MAX_MESSAGES {
                return Err(LinkConfigError::BufferTooLarge(limit.messages));
            }
        }
        let (onset, abatement) = (self.congestion_onset, self.congestion_abatement);
        if abatement >= onset {
            return Err(LinkConfigError::CongestionThresholds { onset, abatement });
        }
        Ok(())
    }
}
