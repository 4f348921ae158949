//! Buffers of User Data with their sequence numbers (RFC 4165, sections 4.2.1 and 4.2.3).

use std::collections::VecDeque;

use carrick_proto::Time;

use super::Retrieval;
use super::config::BufferLimit;
use crate::m2pa::{Msu, SequenceNumber};

/// Message that waits for its acknowledgement.
#[derive(Debug)]
struct Unacknowledged {
    fsn: SequenceNumber,
    sent_at: Time,
    msu: Msu,
}

/// Transmission and retransmission buffer. The limit applies to their sum.
#[derive(Debug)]
pub(super) struct TransmitBuffers {
    limit: BufferLimit,
    /// FSN of the last User Data message that was sent.
    pub(super) last_sent: SequenceNumber,
    /// Last valid BSN of the peer.
    acknowledged: SequenceNumber,
    unacknowledged: VecDeque<Unacknowledged>,
    unsent: VecDeque<Msu>,
    octets: usize,
}

impl TransmitBuffers {
    pub(super) const fn new(limit: BufferLimit) -> Self {
        Self {
            limit,
            last_sent: SequenceNumber::MAX,
            acknowledged: SequenceNumber::MAX,
            unacknowledged: VecDeque::new(),
            unsent: VecDeque::new(),
            octets: 0,
        }
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.unacknowledged.len() + self.unsent.len()
    }

    /// Appends a message of MTP3; returns whether the limit admits it.
    pub(super) fn push(&mut self, msu: Msu) -> bool {
        let octets = self.octets + msu.data_len();
        if !self.limit.admits(self.len() + 1, octets) {
            return false;
        }
        self.octets = octets;
        self.unsent.push_back(msu);
        true
    }

    /// Moves the next message to the retransmission buffer and returns it; its FSN is `last_sent`.
    pub(super) fn send(&mut self, now: Time) -> Option<Msu> {
        let msu = self.unsent.pop_front()?;
        self.last_sent = self.last_sent.next();
        self.unacknowledged.push_back(Unacknowledged {
            fsn: self.last_sent,
            sent_at: now,
            msu: msu.clone(),
        });
        Some(msu)
    }

    /// Returns when the oldest unacknowledged message was sent.
    pub(super) fn oldest_sent_at(&self) -> Option<Time> {
        self.unacknowledged.front().map(|message| message.sent_at)
    }

    /// Removes the messages that a BSN acknowledges; returns whether it is the number of a message that was sent and
    /// not acknowledged before, or of the last acknowledged one.
    pub(super) fn acknowledge(&mut self, bsn: SequenceNumber) -> bool {
        let count = bsn.since(self.acknowledged);
        if count > self.last_sent.since(self.acknowledged) {
            return false;
        }
        while let Some(first) = self.unacknowledged.front()
            && first.fsn.since(self.acknowledged) <= count
        {
            self.octets -= first.msu.data_len();
            self.unacknowledged.pop_front();
        }
        self.acknowledged = bsn;
        true
    }

    /// Continues after the last message that the peer has not discarded: messages after it are sent again, with the
    /// numbers that follow `bsn`. Returns false if `bsn` is invalid.
    pub(super) fn resynchronize(&mut self, bsn: SequenceNumber) -> bool {
        if !self.acknowledge(bsn) {
            return false;
        }
        while let Some(message) = self.unacknowledged.pop_back() {
            self.unsent.push_front(message.msu);
        }
        self.last_sent = bsn;
        true
    }

    /// Removes messages for a changeover and returns them in order; the rest is discarded.
    pub(super) fn retrieve(&mut self, retrieval: Retrieval) -> Vec<Msu> {
        let first = match retrieval {
            Retrieval::All => Some(0),
            Retrieval::Unsent => None,
            // An invalid FSNC retrieves the unsent messages only.
            Retrieval::After(fsnc) => {
                let count = fsnc.since(self.acknowledged);
                let valid = count <= self.last_sent.since(self.acknowledged);
                valid.then_some(count)
            }
        };
        let sent = self.unacknowledged.drain(..).filter_map(|message| {
            let later = message.fsn.since(self.acknowledged) > first?;
            later.then_some(message.msu)
        });
        let messages = sent.chain(self.unsent.drain(..)).collect();
        self.octets = 0;
        messages
    }

    /// Discards all messages. Their sequence numbers can still be acknowledged.
    pub(super) fn flush(&mut self) {
        self.unacknowledged.clear();
        self.unsent.clear();
        self.octets = 0;
    }
}

/// Received messages, accepted or not.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    limit: BufferLimit,
    /// FSN of the last message that was received in sequence.
    received: SequenceNumber,
    /// FSN of the last message that MTP3 got: the BSN.
    pub(super) accepted: SequenceNumber,
    /// Messages that were received, but not accepted yet.
    waiting: VecDeque<Msu>,
    octets: usize,
}

impl ReceiveBuffer {
    pub(super) const fn new(limit: BufferLimit) -> Self {
        Self {
            limit,
            received: SequenceNumber::MAX,
            accepted: SequenceNumber::MAX,
            waiting: VecDeque::new(),
            octets: 0,
        }
    }

    /// Returns whether a message has the expected FSN: that of the last message without data, the next one with data.
    pub(super) fn expects(&self, fsn: SequenceNumber, msu: Option<&Msu>) -> bool {
        fsn == match msu {
            Some(_) => self.received.next(),
            None => self.received,
        }
    }

    /// Appends the next message; returns whether the limit admits it.
    pub(super) fn push(&mut self, msu: Msu) -> bool {
        let octets = self.octets + msu.data_len();
        if !self.limit.admits(self.waiting.len() + 1, octets) {
            return false;
        }
        self.octets = octets;
        self.received = self.received.next();
        self.waiting.push_back(msu);
        true
    }

    /// Accepts the messages that wait.
    pub(super) fn accept(&mut self) -> VecDeque<Msu> {
        self.accepted = self.received;
        self.octets = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Discards the messages that wait.
    pub(super) fn discard(&mut self) {
        self.received = self.accepted;
        self.octets = 0;
        self.waiting.clear();
    }
}
