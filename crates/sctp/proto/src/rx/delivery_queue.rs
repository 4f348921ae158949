//! Messages and parts of messages that the user reads next, in their order.
//!
//! If a partial delivery is aborted, its unread parts are removed. An index by the TSN of the message
//! finds them without a scan of the queue, whose length the peer determines.

use alloc::collections::{BTreeMap, VecDeque};
use carrick_wire::Tsn;

use super::block_queue::{BlockQueue, MIN_CAPACITY};
use super::buffer::Cost;
use super::message::{Message, MessagePart};
use crate::capacity::FreeIfEmpty;
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};

#[derive(Debug, Default)]
pub(super) struct DeliveryQueue {
    /// Messages in order; a part that was dropped leaves an empty place.
    places: BlockQueue<Option<Message>>,
    /// Number of places removed from the front, which is the number of the first place.
    passed: u64,
    /// Number of places that are not empty.
    len: usize,
    /// Numbers of the places of a message's unread parts, by the value of its TSN.
    parts: BTreeMap<u32, VecDeque<u64>>,
}

/// Messages in order, with the empty places. The index by TSN is rebuilt.
impl Portable for DeliveryQueue {
    fn write(&self, out: &mut ExportWriter) {
        self.places.len().write(out);
        self.places.iter().for_each(|place| place.write(out));
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let mut queue = Self::default();
        for place in VecDeque::<Option<Message>>::read(input)? {
            match place {
                Some(message) => queue.push(message),
                None => queue.places.push_back(None),
            }
        }
        Ok(queue)
    }
}

impl DeliveryQueue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, message: Message) {
        if is_part(&message) {
            let place = self.passed + self.places.len() as u64;
            let places = self.parts.entry(message.tsn.value()).or_default();
            places.push_back(place);
        }
        self.places.push_back(Some(message));
        self.len += 1;
    }

    /// Appends a part of a message, merged with the part before it if that is unread.
    pub(super) fn append(&mut self, part: Message) {
        let open = |m: &&mut Message| {
            m.tsn == part.tsn && matches!(m.part, MessagePart::First | MessagePart::Middle)
        };
        let back = self.places.back_mut().and_then(Option::as_mut);
        let Some(before) = back.filter(open) else {
            return self.push(part);
        };
        before.chunks += part.chunks;
        before.payload.append(part.payload);
        before.part = match (before.part, part.part) {
            (MessagePart::First, MessagePart::Last) => MessagePart::Whole,
            (_, MessagePart::Last) => MessagePart::Last,
            (kept, _) => kept,
        };
        if before.part == MessagePart::Whole {
            self.parts.remove(&part.tsn.value());
        }
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        loop {
            let place = self.places.pop_front()?;
            self.passed += 1;
            let Some(message) = place else { continue };
            self.len -= 1;
            if is_part(&message) {
                let tsn = message.tsn.value();
                if let Some(places) = self.parts.get_mut(&tsn) {
                    places.pop_front();
                    if places.is_empty() {
                        self.parts.remove(&tsn);
                    }
                }
            }
            return Some(message);
        }
    }

    /// Frees the memory for further messages.
    pub(super) fn free_unused_memory(&mut self) {
        self.places.shrink_to_fit();
        self.parts.free_if_empty();
    }

    /// Returns whether the beginning of this message is in the queue.
    pub(super) fn has_beginning(&self, tsn: Tsn) -> bool {
        let places = self.parts.get(&tsn.value());
        let first = places.and_then(VecDeque::front);
        let first = first.and_then(|place| self.places.get((place - self.passed) as usize));
        matches!(first, Some(Some(message)) if message.part == MessagePart::First)
    }

    /// Drops the unread parts of a message; returns the buffer space that they took.
    pub(super) fn drop_parts(&mut self, tsn: Tsn) -> Cost {
        let mut cost = Cost::default();
        for place in self.parts.remove(&tsn.value()).into_iter().flatten() {
            let place = self.places.get_mut((place - self.passed) as usize);
            if let Some(message) = place.and_then(Option::take) {
                cost = cost.plus(message.cost());
                self.len -= 1;
            }
        }
        if self.places.len() > 2 * self.len + MIN_CAPACITY {
            self.compact();
        }
        cost
    }

    /// Removes the empty places, which are more than half of all.
    fn compact(&mut self) {
        self.parts.clear();
        for message in core::mem::take(&mut self.places).into_iter().flatten() {
            self.len -= 1;
            self.push(message);
        }
    }
}

fn is_part(message: &Message) -> bool {
    matches!(
        message.part,
        MessagePart::First | MessagePart::Middle | MessagePart::Last
    )
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use bytes::Bytes;
    use carrick_wire::{Ppid, StreamId};
    use proptest::prelude::*;

    use super::*;
    use crate::rx::message::Payload;

    fn message(tsn: u32, part: MessagePart) -> Message {
        Message {
            stream: StreamId(0),
            ssn: None,
            mid: None,
            ppid: Ppid(0),
            tsn: Tsn::new(tsn),
            part,
            payload: Payload::from(Bytes::from_static(b"abc")),
            chunks: 1,
        }
    }

    #[test]
    fn a_burst_leaves_no_memory_once_it_is_read() {
        let mut ready = DeliveryQueue::default();
        for last in [MessagePart::Whole, MessagePart::Middle] {
            (0..10_000).for_each(|tsn| ready.push(message(tsn, MessagePart::Whole)));
            ready.push(message(10_000, last));
            assert_eq!(core::iter::from_fn(|| ready.pop()).count(), 10_001);
            assert!(ready.places.capacity() <= MIN_CAPACITY);
        }
        // The last place is empty.
        (0..10_000).for_each(|tsn| ready.push(message(tsn, MessagePart::Whole)));
        ready.push(message(10_000, MessagePart::Middle));
        ready.drop_parts(Tsn::new(10_000));
        assert_eq!(core::iter::from_fn(|| ready.pop()).count(), 10_000);
        assert!(ready.places.capacity() <= MIN_CAPACITY);
    }

    #[test]
    fn dropped_parts_leave_no_memory_while_unread() {
        let mut ready = DeliveryQueue::default();
        ready.push(message(0, MessagePart::Whole));
        for tsn in 1..10_000 {
            ready.push(message(tsn, MessagePart::Middle));
            assert_eq!(ready.drop_parts(Tsn::new(tsn)).payload, 3);
            assert!(ready.places.len() <= 2 + MIN_CAPACITY && ready.parts.is_empty());
        }
        assert_eq!(ready.len(), 1);
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(steps in proptest::collection::vec((0_u32..4, 0_u8..8), 0..200)) {
            let mut ready = DeliveryQueue::default();
            let mut model: Vec<Message> = Vec::new();
            for (tsn, what) in steps {
                let kinds = [MessagePart::First, MessagePart::Middle, MessagePart::Last, MessagePart::Whole, MessagePart::Aborted];
                // Whole messages have TSNs of their own.
                let of = |part| if part == MessagePart::Whole { tsn + 100 } else { tsn };
                match what {
                    5 => {
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(ready.pop(), expected);
                    }
                    6 => {
                        let gone = |m: &Message| m.tsn.value() == tsn && is_part(m);
                        let cost = model.iter().filter(|m| gone(m));
                        let cost = cost.fold(Cost::default(), |all, m| all.plus(m.cost()));
                        prop_assert_eq!(ready.drop_parts(Tsn::new(tsn)), cost);
                        model.retain(|m| !gone(m));
                    }
                    7 => {
                        let first = model.iter().find(|m| m.tsn.value() == tsn && is_part(m));
                        let begins = first.is_some_and(|m| m.part == MessagePart::First);
                        prop_assert_eq!(ready.has_beginning(Tsn::new(tsn)), begins);
                    }
                    kind => {
                        let part = kinds[usize::from(kind)];
                        let new = message(of(part), part);
                        ready.push(new.clone());
                        model.push(new);
                    }
                }
                prop_assert_eq!((ready.len(), ready.is_empty()), (model.len(), model.is_empty()));
            }
            prop_assert!(core::iter::from_fn(|| ready.pop()).eq(model));
            prop_assert!(ready.parts.is_empty());
        }
    }
}
