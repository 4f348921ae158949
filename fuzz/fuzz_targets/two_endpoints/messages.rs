//! What was sent and what arrived: each message once, whole, in the order of its stream.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use carrick_proto::{AssociationId, Message, Part, Ppid};

/// One message that an association took.
#[derive(Debug)]
struct Sent {
    stream: u16,
    unordered: bool,
    bytes: Bytes,
    failed: bool,
    /// The associations that received it: more than one only if the first died while the COOKIE
    /// ECHO was still being repeated, which sets up another one (section 5.1.5).
    received: Vec<AssociationId>,
}

/// Messages that one side sent in the life of one association, or up to a restart of its peer.
type Book = Vec<Sent>;

/// All messages of one direction.
#[derive(Debug, Default)]
pub struct Direction {
    books: Vec<Book>,
    current: BTreeMap<AssociationId, usize>,
    /// Messages of which parts arrived, by the receiving association and the stream.
    partial: BTreeMap<(AssociationId, u16), (Ppid, Vec<u8>)>,
    /// Associations whose peer restarted: a message that had begun may have no end.
    abandoned: BTreeSet<AssociationId>,
    /// The next message that a receiving association may deliver from a book on an ordered
    /// stream, as an index.
    next: BTreeMap<(AssociationId, usize, u16), usize>,
}

/// What a message says about itself in its payload protocol identifier.
fn ppid(book: usize, number: usize) -> Ppid {
    Ppid((book as u32) << 16 | number as u32)
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

    pub fn sent(&mut self, book: usize, stream: u16, unordered: bool, bytes: Bytes) {
        self.books[book].push(Sent {
            stream,
            unordered,
            bytes,
            failed: false,
            received: Vec::new(),
        });
    }

    pub fn failed(&mut self, context: u64) {
        let (book, number) = ((context >> 16) as usize, (context & 0xffff) as usize);
        self.books[book][number].failed = true;
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
        let key = (id, message.stream.0);
        let (ppid, part) = (message.ppid, message.part);
        let bytes = message.payload.into_bytes();
        match part {
            Part::Whole => self.complete(key, ppid, message.ssn.is_none(), &bytes),
            Part::First => {
                let before = self.partial.insert(key, (ppid, bytes.to_vec()));
                let allowed = before.is_none() || self.abandoned.contains(&id);
                assert!(allowed, "a message begins within another");
            }
            Part::Aborted => {
                self.partial.remove(&key).expect("an end without a beginning");
            }
            Part::Middle | Part::Last => {
                let (of, so_far) = self
                    .partial
                    .get_mut(&key)
                    .expect("a part without its first");
                assert_eq!(*of, ppid, "a part of another message");
                so_far.extend_from_slice(&bytes);
                if part == Part::Last {
                    let (_, all) = self.partial.remove(&key).expect("just seen");
                    self.complete(key, ppid, message.ssn.is_none(), &all);
                }
            }
        }
    }

    fn complete(&mut self, key: (AssociationId, u16), ppid: Ppid, unordered: bool, bytes: &[u8]) {
        let (id, stream) = key;
        let (book, number) = ((ppid.0 >> 16) as usize, (ppid.0 & 0xffff) as usize);
        let sent = &mut self.books[book][number];
        assert!(
            !sent.received.contains(&id),
            "message {number} arrived twice"
        );
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

    /// All messages of a living association have arrived, but those of which failure was told.
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
