//! Receive queue of a socket: messages and notifications in the order in which the user reads them.
//!
//! Messages stay in the protocol core, where they hold the advertised window, but for a few that are
//! ahead of the user. A notification goes behind the messages that are in this queue, and never waits for
//! those in the core, except for the notifications at the end of an association.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use bytes::Bytes;
use carrick_proto::{portable_enum, portable_struct};

use crate::ids::AssocId;

/// Limit of the messages ahead of the user.
const MAX_MESSAGES: usize = 32;
/// Limit of their bytes; the last message may exceed it.
const MAX_BYTES: usize = 1 << 16;
/// Limit of the memory of queued notifications in bytes, and of those of a socket in an accept queue.
const NOTIFICATION_MEMORY: usize = 1 << 16;
const UNACCEPTED_NOTIFICATION_MEMORY: usize = 1 << 12;
/// Memory of a queued notification in bytes besides its content.
const NOTIFICATION_OVERHEAD: usize = size_of::<ReceiveEntry>() + 64;

/// Received message, or the rest of one.
#[derive(Clone, Debug)]
pub(crate) struct DataItem {
    pub(crate) stream: u16,
    pub(crate) ssn: u16,
    /// In network byte order, as in ancillary data.
    pub(crate) ppid: u32,
    pub(crate) tsn: u32,
    /// Cumulative TSN when the message came into this queue; 0 of an ordered message.
    pub(crate) cum_tsn: u32,
    pub(crate) is_unordered: bool,
    /// The payload ends the message.
    pub(crate) is_end: bool,
    pub(crate) payload: Bytes,
    /// Context of received messages (`SCTP_CONTEXT`) on arrival.
    pub(crate) context: u32,
}

portable_struct! { DataItem { stream, ssn, ppid, tsn, cum_tsn, is_unordered, is_end, payload, context } }

/// Content of an entry of the receive queue.
#[derive(Clone, Debug)]
pub(crate) enum ReceiveContent {
    Data(DataItem),
    Notification(Bytes),
}

portable_enum! { ReceiveContent { 0: Data(data), 1: Notification(bytes) } }

/// Entry of the receive queue.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveEntry {
    pub(crate) association: AssocId,
    /// Address of the peer, in the form that the socket reports.
    pub(crate) peer: SocketAddr,
    pub(crate) content: ReceiveContent,
}

portable_struct! { ReceiveEntry { association, peer, content } }

impl ReceiveEntry {
    /// Bytes that the user has not read.
    pub(crate) fn unread(&mut self) -> &mut Bytes {
        match &mut self.content {
            ReceiveContent::Data(data) => &mut data.payload,
            ReceiveContent::Notification(bytes) => bytes,
        }
    }

    fn data_len(&self) -> Option<usize> {
        match &self.content {
            ReceiveContent::Data(data) => Some(data.payload.len()),
            ReceiveContent::Notification(_) => None,
        }
    }
}

/// Receive queue.
#[derive(Debug, Default)]
pub(crate) struct ReceiveQueue {
    items: VecDeque<ReceiveEntry>,
    messages: usize,
    bytes: usize,
    /// Memory of the notifications in bytes.
    notification_memory: usize,
    /// Associations with messages in the core.
    waiting: VecDeque<AssocId>,
    /// Association whose partial delivery is not finished: nothing else may come before its end.
    partial: Option<AssocId>,
    /// Notifications that wait for the end of the partial delivery.
    held: VecDeque<ReceiveEntry>,
    /// Notifications that were dropped.
    dropped: u64,
}

portable_struct! {
    ReceiveQueue { items, waiting, partial, held, dropped }
    rebuilt { messages: 0, bytes: 0, notification_memory: 0 }
}

impl ReceiveQueue {
    /// Counts the entries of a queue that was imported.
    pub(crate) fn count(&mut self) {
        for entry in self.items.iter_mut().chain(&mut self.held) {
            let is_data = entry.data_len().is_some();
            let len = entry.unread().len();
            if is_data {
                self.messages += 1;
                self.bytes += len;
            } else {
                self.notification_memory += NOTIFICATION_OVERHEAD + len;
            }
        }
    }

    /// Returns whether all associations of the queue exist on its socket, and none is listed twice.
    pub(crate) fn is_valid(&self, exists: impl Fn(&AssocId) -> bool) -> bool {
        let distinct: BTreeSet<&AssocId> = self.waiting.iter().collect();
        let mut all = self.waiting.iter().chain(&self.partial);
        distinct.len() == self.waiting.len() && all.all(exists)
    }

    /// Returns the number of notifications that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Records that an association has messages in the core.
    pub(crate) fn add_waiting(&mut self, id: AssocId) {
        if !self.is_waiting(id) {
            self.waiting.push_back(id);
        }
    }

    /// Records that all messages of an association have been taken from the core.
    pub(crate) fn remove_waiting(&mut self, id: AssocId) {
        self.waiting.retain(|other| *other != id);
    }

    /// Returns whether an association has messages in the core.
    pub(crate) fn is_waiting(&self, id: AssocId) -> bool {
        self.waiting.contains(&id)
    }

    /// Returns the association whose next message is to be taken from the core, if there is room for one: the one with
    /// a partial delivery, else each in turn.
    pub(crate) fn next_waiting(&self) -> Option<AssocId> {
        let next = match self.partial {
            Some(partial) => Some(partial).filter(|id| self.is_waiting(*id)),
            None => self.waiting.front().copied(),
        };
        next.filter(|_| self.has_room())
    }

    /// Returns whether something can be read.
    pub(crate) fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// Returns whether messages of this association, queued or in the core, have not been read.
    pub(crate) fn has_data_of(&self, id: AssocId) -> bool {
        let is_data = |i: &ReceiveEntry| i.association == id && i.data_len().is_some();
        self.is_waiting(id) || self.items.iter().any(is_data)
    }

    /// Returns whether more messages may be taken from the core.
    fn has_room(&self) -> bool {
        self.messages < MAX_MESSAGES && self.bytes < MAX_BYTES
    }

    /// Returns whether another notification that peers cause is accepted.
    pub(crate) fn accepts_notifications(&self) -> bool {
        self.notification_memory + NOTIFICATION_OVERHEAD <= NOTIFICATION_MEMORY
    }

    /// Queues a message that was taken from the core, or a part of one. The next message is that of another association;
    /// unless messages are interleaved (`SCTP_FRAGMENT_INTERLEAVE`), the rest of this one comes first.
    pub(crate) fn push_message(
        &mut self,
        id: AssocId,
        peer: SocketAddr,
        data: DataItem,
        interleaves: bool,
    ) {
        if self.waiting.front() == Some(&id) {
            self.waiting.rotate_left(1);
        }
        let is_end = data.is_end;
        self.push_data(id, peer, data);
        if is_end {
            self.end_partial(id);
        } else if !interleaves {
            self.partial = Some(id);
        }
    }

    fn push_data(&mut self, association: AssocId, peer: SocketAddr, data: DataItem) {
        self.messages += 1;
        self.bytes += data.payload.len();
        self.items.push_back(ReceiveEntry {
            association,
            peer,
            content: ReceiveContent::Data(data),
        });
    }

    /// Queues a notification. Beyond the limit it is dropped, unless it `must` be delivered; the limit is a small one
    /// before `accept`. Returns whether the user can read something new.
    pub(crate) fn push_notification(
        &mut self,
        association: AssocId,
        peer: SocketAddr,
        bytes: Bytes,
        is_accepted: bool,
        must: bool,
    ) -> bool {
        let limit = if is_accepted {
            NOTIFICATION_MEMORY
        } else {
            UNACCEPTED_NOTIFICATION_MEMORY
        };
        let size = NOTIFICATION_OVERHEAD + bytes.len();
        let fits = self.notification_memory + size <= limit;
        if !fits && !must {
            self.dropped += 1;
            return false;
        }
        self.notification_memory += size;
        let item = ReceiveEntry {
            association,
            peer,
            content: ReceiveContent::Notification(bytes),
        };
        if self.partial.is_some() {
            self.held.push_back(item);
            return false;
        }
        self.items.push_back(item);
        true
    }

    /// Ends the partial delivery of an association, if there is one, and queues what waited for it. Returns whether there was
    /// one.
    pub(crate) fn end_partial(&mut self, id: AssocId) -> bool {
        let is_partial = self.partial == Some(id);
        if is_partial {
            self.partial = None;
            self.items.append(&mut self.held);
        }
        is_partial
    }

    pub(crate) fn front(&self) -> Option<&ReceiveEntry> {
        self.items.front()
    }

    /// Returns the entry behind the first one.
    pub(crate) fn second(&self) -> Option<&ReceiveEntry> {
        self.items.get(1)
    }

    /// Removes up to `size` bytes of the first entry, and the entry with its last byte. Returns the bytes
    /// and whether the entry is finished.
    pub(crate) fn read(&mut self, size: usize) -> Option<(Bytes, bool)> {
        let front = self.items.front_mut()?;
        let is_data = front.data_len().is_some();
        let unread = front.unread();
        let part = unread.split_to(size.min(unread.len()));
        let finished = unread.is_empty();
        if is_data {
            self.bytes -= part.len();
            self.messages -= usize::from(finished);
        } else {
            self.notification_memory -= part.len();
            if finished {
                self.notification_memory -= NOTIFICATION_OVERHEAD;
            }
        }
        if finished {
            self.items.pop_front();
        }
        Some((part, finished))
    }

    /// Moves the entries of an association to another queue.
    pub(crate) fn move_to(&mut self, id: AssocId, to: &mut Self) {
        if self.end_partial(id) {
            to.partial = Some(id);
        }
        let (moved, kept): (VecDeque<ReceiveEntry>, _) = self
            .items
            .drain(..)
            .partition(|item| item.association == id);
        self.items = kept;
        for item in moved {
            match item.content {
                ReceiveContent::Data(data) => {
                    self.messages -= 1;
                    self.bytes -= data.payload.len();
                    to.push_data(id, item.peer, data);
                }
                ReceiveContent::Notification(bytes) => {
                    self.notification_memory -= NOTIFICATION_OVERHEAD + bytes.len();
                    let partial = to.partial.take();
                    to.push_notification(id, item.peer, bytes, true, true);
                    to.partial = partial;
                }
            }
        }
        if self.is_waiting(id) {
            self.remove_waiting(id);
            to.waiting.push_back(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_bounded_by_their_memory() {
        let peer = ([192, 0, 2, 1], 5000).into();
        for (is_accepted, limit) in [(false, 4 << 10), (true, 64 << 10)] {
            for size in [20, 1000] {
                let mut queue = ReceiveQueue::default();
                let notification = Bytes::from(vec![0; size]);
                let mut push = |must| {
                    let bytes = notification.clone();
                    queue.push_notification(AssocId::FIRST, peer, bytes, is_accepted, must)
                };
                let count = (0..5000).filter(|_| push(false)).count();
                let memory = count * (size_of::<ReceiveEntry>() + size);
                assert!((limit / 2..=limit).contains(&memory), "{count} of {size}");
                assert!(push(true), "the end of an association");
                assert_eq!(queue.dropped, 5000 - count as u64);
                while queue.read(15).is_some() {}
                assert_eq!(queue.notification_memory, 0);
            }
        }
    }
}
