//! Comparison of sent and received messages: each arrives once, whole, in the order of its stream, unless
//! it was abandoned.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use carrick_proto::{AssociationId, Message, MessagePart, Ppid, SendFailure};

/// Message accepted by an association.
#[derive(Debug)]
pub struct SentMessage {
    pub stream: u16,
    pub unordered: bool,
    /// True if the message may be abandoned.
    pub partial: bool,
    pub bytes: Bytes,
    failed: bool,
    /// True if the message was returned to the user without having been sent.
    unsent: bool,
    /// Associations that received the message: several only if the first one ended while the COOKIE ECHO
    /// was still being retransmitted, which sets up another one (RFC 9260, section 5.1.5).
    received: Vec<AssociationId>,
}

impl SentMessage {
    pub fn new(stream: u16, unordered: bool, partial: bool, bytes: Bytes) -> Self {
        Self {
            stream,
            unordered,
            partial,
            bytes,
            failed: false,
            unsent: false,
            received: Vec::new(),
        }
    }
}

/// Messages that a side sent during an association, or up to a restart of its peer.
type SentMessages = Vec<SentMessage>;

/// Unit of which only one message can be incomplete: the ordered messages of a stream and the unordered
/// ones; with interleaving each unordered message.
type DeliveryUnit = (u16, bool, Option<u32>);

/// Partially delivered message.
#[derive(Debug)]
struct PartialMessage {
    unit: DeliveryUnit,
    ppid: Ppid,
    bytes: Vec<u8>,
}

/// All messages of one direction.
#[derive(Debug, Default)]
pub struct Direction {
    logs: Vec<SentMessages>,
    current: BTreeMap<AssociationId, usize>,
    /// Partially delivered messages by receiving association and TSN.
    partial: BTreeMap<(AssociationId, u32), PartialMessage>,
    /// Associations whose peer restarted: a partially delivered message may have no end.
    abandoned: BTreeSet<AssociationId>,
    /// Index of the next message of a log that a receiving association may deliver on an ordered stream.
    next: BTreeMap<(AssociationId, usize, u16), usize>,
}

/// Encodes properties of a message in its payload protocol identifier.
fn ppid(log: usize, number: usize) -> Ppid {
    Ppid((log as u32) << 16 | number as u32)
}

fn log_and_number(ppid: Ppid) -> (usize, usize) {
    ((ppid.0 >> 16) as usize, (ppid.0 & 0xffff) as usize)
}

/// Returns the bytes of a message, which its number determines.
pub fn payload(log: usize, number: usize, size: usize) -> Bytes {
    (0..size)
        .map(|i| (i * 7 + i / 251 + number * 31 + log * 101) as u8)
        .collect::<Vec<u8>>()
        .into()
}

impl Direction {
    /// Returns the log, the number and the payload protocol identifier of the association's next message.
    pub fn next_message(&mut self, id: AssociationId) -> (usize, usize, Ppid) {
        let logs = &mut self.logs;
        let log = *self.current.entry(id).or_insert_with(|| {
            logs.push(Vec::new());
            logs.len() - 1
        });
        let number = self.logs[log].len();
        (log, number, ppid(log, number))
    }

    pub fn sent(&mut self, log: usize, message: SentMessage) {
        self.logs[log].push(message);
    }

    pub fn failed(&mut self, failure: &SendFailure) {
        let (log, number) = log_and_number(Ppid(failure.context as u32));
        let sent = &mut self.logs[log][number];
        assert!(!sent.failed, "message {number} failed twice");
        let abandoned = failure.abandoned.is_some() || failure.expired;
        assert!(
            sent.partial || !abandoned,
            "message {number} was abandoned, although it is reliable"
        );
        assert!(
            failure.sent || sent.received.is_empty(),
            "message {number} was received, but not sent"
        );
        let back = failure.unsent.len();
        assert!(
            back <= sent.bytes.len(),
            "more bytes were returned than sent"
        );
        assert!(
            failure.sent || back == sent.bytes.len(),
            "not all bytes were returned"
        );
        sent.failed = true;
        sent.unsent = !failure.sent;
    }

    /// Starts another log: the peer restarted.
    pub fn restarted(&mut self, id: AssociationId) {
        self.current.remove(&id);
    }

    /// Allows the partially delivered messages to have no end: the peer of the receiving association restarted.
    pub fn abandon_parts(&mut self, id: AssociationId) {
        self.abandoned.insert(id);
    }

    pub fn received(&mut self, id: AssociationId, message: Message) {
        let (tsn, ppid, part) = ((id, message.tsn.value()), message.ppid, message.part);
        let unordered = message.ssn.is_none();
        let mid = message.mid.filter(|_| unordered);
        let unit = (message.stream.0, unordered, mid.map(|mid| mid.value()));
        let bytes = message.payload.into_bytes();
        match part {
            MessagePart::Whole => {
                let within = !unordered && self.is_open(id, unit);
                assert!(!within, "a message within another");
                self.complete((id, message.stream.0), ppid, unordered, &bytes);
            }
            MessagePart::First => {
                let allowed = !self.is_open(id, unit) || self.abandoned.contains(&id);
                assert!(allowed, "a message begins within another");
                self.partial.retain(|at, b| at.0 != id || b.unit != unit);
                let begun = PartialMessage {
                    unit,
                    ppid,
                    bytes: bytes.to_vec(),
                };
                let before = self.partial.insert(tsn, begun);
                let allowed = before.is_none() || self.abandoned.contains(&id);
                assert!(allowed, "two messages with one TSN");
            }
            MessagePart::Aborted => {
                let begun = self
                    .partial
                    .remove(&tsn)
                    .expect("an end without a beginning");
                assert_eq!((begun.ppid, begun.unit), (ppid, unit));
                let (log, number) = log_and_number(ppid);
                let sent = &self.logs[log][number];
                assert!(sent.partial, "a reliable message was abandoned");
                assert!(bytes.is_empty() && !sent.received.contains(&id));
            }
            MessagePart::Middle | MessagePart::Last => {
                let begun = self
                    .partial
                    .get_mut(&tsn)
                    .expect("a part without its first");
                assert_eq!(begun.ppid, ppid, "a part of another message");
                begun.bytes.extend_from_slice(&bytes);
                if part == MessagePart::Last {
                    let begun = self.partial.remove(&tsn).expect("just seen");
                    self.complete((id, message.stream.0), ppid, unordered, &begun.bytes);
                }
            }
        }
    }

    fn is_open(&self, id: AssociationId, unit: DeliveryUnit) -> bool {
        let mut all = self.partial.iter().filter(|(at, _)| at.0 == id);
        !self.abandoned.contains(&id) && all.any(|(_, begun)| begun.unit == unit)
    }

    fn complete(&mut self, key: (AssociationId, u16), ppid: Ppid, unordered: bool, bytes: &[u8]) {
        let (id, stream) = key;
        let (log, number) = log_and_number(ppid);
        let sent = &mut self.logs[log][number];
        assert!(
            !sent.received.contains(&id),
            "message {number} arrived twice"
        );
        assert!(!sent.unsent, "message {number} was received, but not sent");
        assert_eq!(sent.bytes, bytes, "message {number} is not what was sent");
        assert_eq!((sent.stream, sent.unordered), (stream, unordered));
        sent.received.push(id);
        if unordered {
            return;
        }
        let next = self.next.entry((id, log, stream)).or_insert(0);
        assert!(number >= *next, "message {number} is out of order");
        let skipped = self.logs[log][*next..number]
            .iter()
            .position(|s| s.stream == stream && !s.unordered && !s.failed);
        assert_eq!(skipped, None, "a message was left out before {number}");
        *next = number + 1;
    }

    /// Asserts that all messages of an association have arrived, except those reported as failed.
    pub fn assert_complete(&self, id: AssociationId) {
        let Some(&log) = self.current.get(&id) else {
            return;
        };
        let missing: BTreeSet<usize> = self.logs[log]
            .iter()
            .enumerate()
            .filter(|(_, s)| s.received.is_empty() && !s.failed)
            .map(|(number, _)| number)
            .collect();
        assert!(missing.is_empty(), "never arrived: {missing:?}");
    }
}
