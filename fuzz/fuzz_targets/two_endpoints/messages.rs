//! Comparison of sent and received messages: each arrives once, whole, in the order of its stream, unless
//! it was abandoned.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use carrick_proto::{AssociationId, Message, Part, Ppid, SendFailure};

/// One message that an association took.
#[derive(Debug)]
pub struct Sent {
    pub stream: u16,
    pub unordered: bool,
    /// It may be given up.
    pub partial: bool,
    pub bytes: Bytes,
    failed: bool,
    /// It came back, and nothing of it had been sent.
    unsent: bool,
    /// The associations that received it: more than one only if the first died while the COOKIE
    /// ECHO was still being repeated, which sets up another one (section 5.1.5).
    received: Vec<AssociationId>,
}

impl Sent {
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
type Book = Vec<Sent>;

/// Unit of which only one message can be incomplete: the ordered messages of a stream and the unordered
/// ones; with interleaving each unordered message.
type Lane = (u16, bool, Option<u32>);

/// A message of which parts arrived.
#[derive(Debug)]
struct Begun {
    lane: Lane,
    ppid: Ppid,
    bytes: Vec<u8>,
}

/// All messages of one direction.
#[derive(Debug, Default)]
pub struct Direction {
    books: Vec<Book>,
    current: BTreeMap<AssociationId, usize>,
    /// Messages of which parts arrived, by the receiving association and their TSN.
    begun: BTreeMap<(AssociationId, u32), Begun>,
    /// Associations whose peer restarted: a message that had begun may have no end.
    abandoned: BTreeSet<AssociationId>,
    /// The next message that a receiving association may deliver from a book on an ordered
    /// stream, as an index.
    next: BTreeMap<(AssociationId, usize, u16), usize>,
}

/// Encodes properties of a message in its payload protocol identifier.
fn ppid(book: usize, number: usize) -> Ppid {
    Ppid((book as u32) << 16 | number as u32)
}

fn place(ppid: Ppid) -> (usize, usize) {
    ((ppid.0 >> 16) as usize, (ppid.0 & 0xffff) as usize)
}

/// The bytes of a message are known from its number.
pub fn payload(book: usize, number: usize, size: usize) -> Bytes {
    (0..size)
        .map(|i| (i * 7 + i / 251 + number * 31 + book * 101) as u8)
        .collect::<Vec<u8>>()
        .into()
}

impl Direction {
    /// The book and the number that the association's next message gets.
    pub fn next_place(&mut self, id: AssociationId) -> (usize, usize, Ppid) {
        let books = &mut self.books;
        let book = *self.current.entry(id).or_insert_with(|| {
            books.push(Vec::new());
            books.len() - 1
        });
        let number = self.books[book].len();
        (book, number, ppid(book, number))
    }

    pub fn sent(&mut self, book: usize, message: Sent) {
        self.books[book].push(message);
    }

    pub fn failed(&mut self, failure: &SendFailure) {
        let (book, number) = place(Ppid(failure.context as u32));
        let sent = &mut self.books[book][number];
        assert!(!sent.failed, "message {number} failed twice");
        let given_up = failure.abandoned.is_some() || failure.expired;
        assert!(
            sent.partial || !given_up,
            "message {number} was given up, though it is reliable"
        );
        assert!(
            failure.sent || sent.received.is_empty(),
            "message {number} arrived and was not sent"
        );
        let back = failure.unsent.len();
        assert!(back <= sent.bytes.len(), "more came back than was sent");
        assert!(
            failure.sent || back == sent.bytes.len(),
            "not all came back"
        );
        sent.failed = true;
        sent.unsent = !failure.sent;
    }

    /// The peer restarted: what comes next is of another life.
    pub fn restarted(&mut self, id: AssociationId) {
        self.current.remove(&id);
    }

    /// The peer of the receiving association restarted.
    pub fn abandon_parts(&mut self, id: AssociationId) {
        self.abandoned.insert(id);
    }

    pub fn received(&mut self, id: AssociationId, message: Message) {
        let (tsn, ppid, part) = ((id, message.tsn.value()), message.ppid, message.part);
        let unordered = message.ssn.is_none();
        let mid = message.mid.filter(|_| unordered);
        let lane = (message.stream.0, unordered, mid.map(|mid| mid.value()));
        let bytes = message.payload.into_bytes();
        match part {
            Part::Whole => {
                let within = !unordered && self.is_open(id, lane);
                assert!(!within, "a message within another");
                self.complete((id, message.stream.0), ppid, unordered, &bytes);
            }
            Part::First => {
                let allowed = !self.is_open(id, lane) || self.abandoned.contains(&id);
                assert!(allowed, "a message begins within another");
                self.begun.retain(|at, b| at.0 != id || b.lane != lane);
                let begun = Begun {
                    lane,
                    ppid,
                    bytes: bytes.to_vec(),
                };
                let before = self.begun.insert(tsn, begun);
                let allowed = before.is_none() || self.abandoned.contains(&id);
                assert!(allowed, "two messages with one TSN");
            }
            Part::Aborted => {
                let begun = self.begun.remove(&tsn).expect("an end without a beginning");
                assert_eq!((begun.ppid, begun.lane), (ppid, lane));
                let (book, number) = place(ppid);
                let sent = &self.books[book][number];
                assert!(sent.partial, "a reliable message was given up");
                assert!(bytes.is_empty() && !sent.received.contains(&id));
            }
            Part::Middle | Part::Last => {
                let begun = self.begun.get_mut(&tsn).expect("a part without its first");
                assert_eq!(begun.ppid, ppid, "a part of another message");
                begun.bytes.extend_from_slice(&bytes);
                if part == Part::Last {
                    let begun = self.begun.remove(&tsn).expect("just seen");
                    self.complete((id, message.stream.0), ppid, unordered, &begun.bytes);
                }
            }
        }
    }

    fn is_open(&self, id: AssociationId, lane: Lane) -> bool {
        let mut all = self.begun.iter().filter(|(at, _)| at.0 == id);
        !self.abandoned.contains(&id) && all.any(|(_, begun)| begun.lane == lane)
    }

    fn complete(&mut self, key: (AssociationId, u16), ppid: Ppid, unordered: bool, bytes: &[u8]) {
        let (id, stream) = key;
        let (book, number) = place(ppid);
        let sent = &mut self.books[book][number];
        assert!(
            !sent.received.contains(&id),
            "message {number} arrived twice"
        );
        assert!(!sent.unsent, "message {number} arrived and was not sent");
        assert_eq!(sent.bytes, bytes, "message {number} is not what was sent");
        assert_eq!((sent.stream, sent.unordered), (stream, unordered));
        sent.received.push(id);
        if unordered {
            return;
        }
        let next = self.next.entry((id, book, stream)).or_insert(0);
        assert!(number >= *next, "message {number} is out of order");
        let skipped = self.books[book][*next..number]
            .iter()
            .position(|s| s.stream == stream && !s.unordered && !s.failed);
        assert_eq!(skipped, None, "a message was left out before {number}");
        *next = number + 1;
    }

    /// Asserts that all messages of an association have arrived, except those reported as failed.
    pub fn assert_complete(&self, id: AssociationId) {
        let Some(&book) = self.current.get(&id) else {
            return;
        };
        let missing: BTreeSet<usize> = self.books[book]
            .iter()
            .enumerate()
            .filter(|(_, s)| s.received.is_empty() && !s.failed)
            .map(|(number, _)| number)
            .collect();
        assert!(missing.is_empty(), "never arrived: {missing:?}");
    }
}
