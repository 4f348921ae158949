//! A queue of messages for each stream, from which the scheduler chooses.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{DataFlags, Fsn, Mid, Ppid, StreamId};

use super::idle_streams::{IdleStreams, StreamNumbers};
use super::message_slab::{MessageSlab, StreamQueue};
use crate::capacity::ReserveDoubling;
use crate::config::StreamScheduler;
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::path::PathId;
use crate::stream_set::StreamSet;
use crate::tx::message::PendingMessage;
use crate::tx::scheduler::{Schedule, ScheduleEntry};

/// Fragment of a message, or a whole one, that is about to get its TSN.
#[derive(Debug)]
pub(crate) struct NewChunk {
    /// Number of the message if it may be abandoned, otherwise 0.
    pub(crate) message: u64,
    pub(crate) stream: StreamId,
    pub(crate) ppid: Ppid,
    pub(crate) context: u64,
    pub(crate) mid: Mid,
    pub(crate) fsn: Fsn,
    pub(crate) flags: DataFlags,
    pub(crate) payload: Bytes,
}

#[cfg(test)]
impl NewChunk {
    /// Whole message, unordered and of one octet.
    pub(in crate::tx) fn whole(message: u64, stream: StreamId) -> Self {
        Self {
            message,
            stream,
            ppid: Ppid(0),
            context: 0,
            mid: Mid::new(0),
            fsn: Fsn::new(0),
            flags: DataFlags {
                immediate: false,
                unordered: true,
                beginning: true,
                ending: true,
            },
            payload: Bytes::from_static(b"m"),
        }
    }
}

/// Stream that has been used.
#[derive(Debug)]
struct Stream {
    id: StreamId,
    queue: StreamQueue,
    entry: ScheduleEntry,
    /// Numbers of the next ordered and the next unordered message.
    next: [Mid; 2],
}

#[derive(Debug)]
pub(super) struct StreamQueues {
    slab: MessageSlab,
    streams: Vec<Stream>,
    /// Index in `streams` of each stream whose number it is not.
    slots: BTreeMap<StreamId, u32>,
    schedule: Schedule,
    /// Messages of several streams may interleave (I-DATA).
    interleaving: bool,
    /// Without interleaving: bytes of the message at the head that have been sent.
    sent: usize,
    /// Stream of the new chunks in the packet being assembled.
    packet: Option<u32>,
    /// Slot and position of each message that may be abandoned, by number.
    numbered: BTreeMap<u64, (u32, u32)>,
    /// Positions of the messages that the user directed to a path.
    routed: BTreeSet<(PathId, u32)>,
    len: usize,
    bytes: usize,
    arrivals: u64,
}

/// Exported part of a [`Stream`]: its messages are listed in their order.
struct StreamState {
    id: StreamId,
    messages: Vec<PendingMessage>,
    entry: ScheduleEntry,
    next: [Mid; 2],
}

portable_struct! { StreamState { id, messages, entry, next } }

/// Queues with the state of the scheduler; slab and indexes are rebuilt.
impl Portable for StreamQueues {
    fn write(&self, out: &mut ExportWriter) {
        let Self {
            slab,
            streams,
            slots: _,
            schedule,
            interleaving,
            sent,
            packet,
            numbered: _,
            routed: _,
            len: _,
            bytes: _,
            arrivals,
        } = self;
        schedule.write(out);
        interleaving.write(out);
        sent.write(out);
        packet.write(out);
        arrivals.write(out);
        streams.len().write(out);
        for stream in streams {
            let Stream {
                id,
                queue,
                entry,
                next,
            } = stream;
            id.write(out);
            slab.iter(*queue).count().write(out);
            for pending in slab.iter(*queue) {
                pending.write(out);
            }
            entry.write(out);
            next.write(out);
        }
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let schedule = Schedule::read(input)?;
        let mut queues = Self::new(schedule.kind(), Portable::read(input)?);
        queues.sent = Portable::read(input)?;
        queues.packet = Portable::read(input)?;
        queues.arrivals = Portable::read(input)?;
        for (state, slot) in Vec::<StreamState>::read(input)?.into_iter().zip(0..) {
            queues.restore(state, slot)?;
        }
        queues.schedule = schedule;
        let waiting = |slot: u32| {
            let stream = queues.streams.get(slot as usize)?;
            (!stream.queue.is_empty()).then_some(&stream.entry)
        };
        let used = queues
            .streams
            .iter()
            .filter(|s| !s.queue.is_empty())
            .count();
        let packet = queues.packet.map_or(0, |slot| slot as usize + 1);
        if !queues.schedule.is_consistent(used, waiting) || packet > queues.streams.len() {
            return Err(ImportError::Malformed("StreamQueues"));
        }
        Ok(queues)
    }
}

impl StreamQueues {
    /// Adds a stream of an import.
    fn restore(&mut self, state: StreamState, slot: u32) -> Result<(), ImportError> {
        let StreamState {
            id,
            messages,
            entry,
            next,
        } = state;
        let mut queue = StreamQueue::default();
        for pending in messages {
            if pending.rest.is_empty() || pending.options.stream != id {
                return Err(ImportError::Malformed("PendingMessage"));
            }
            let (number, path) = (pending.number, pending.options.path);
            self.len += 1;
            self.bytes += pending.rest.len();
            let at = self.slab.push(&mut queue, pending);
            if number != 0 {
                self.numbered.insert(number, (slot, at));
            }
            self.routed.extend(path.map(|path| (path, at)));
        }
        if self.find_slot(id).is_some() {
            return Err(ImportError::Malformed("Stream"));
        }
        if u32::from(id.0) != slot {
            self.slots.insert(id, slot);
        }
        self.streams.push(Stream {
            id,
            queue,
            entry,
            next,
        });
        Ok(())
    }

    pub(super) fn new(scheduler: StreamScheduler, interleaving: bool) -> Self {
        Self {
            slab: MessageSlab::default(),
            streams: Vec::new(),
            slots: BTreeMap::new(),
            schedule: Schedule::new(scheduler),
            interleaving,
            sent: 0,
            packet: None,
            numbered: BTreeMap::new(),
            routed: BTreeSet::new(),
            len: 0,
            bytes: 0,
            arrivals: 0,
        }
    }

    /// Sets whether the messages of several streams may interleave (RFC 8260, section 2.2).
    pub(super) fn has_interleaving(&self, interleaving: bool) -> bool {
        self.interleaving == interleaving
    }

    pub(super) fn set_interleaving(&mut self, interleaving: bool) {
        self.interleaving = interleaving;
    }

    /// Queues a message.
    #[inline] // One copy of the message less.
    pub(super) fn push(&mut self, mut pending: PendingMessage) {
        let slot = self.slot(pending.options.stream);
        let (number, path) = (pending.number, pending.options.path);
        pending.arrival = self.arrivals;
        self.arrivals += 1;
        self.len += 1;
        self.bytes += pending.rest.len();
        let arrival = pending.arrival;
        let stream = &mut self.streams[slot as usize];
        let was_empty = stream.queue.is_empty();
        let at = self.slab.push(&mut stream.queue, pending);
        if was_empty {
            stream.entry.arrival = arrival;
            self.schedule.enter(slot, &mut stream.entry);
        }
        if number != 0 {
            self.numbered.insert(number, (slot, at));
        }
        self.routed.extend(path.map(|path| (path, at)));
    }

    /// Slot of a stream, which is created where the stream is used for the first time.
    fn slot(&mut self, id: StreamId) -> u32 {
        if let Some(slot) = self.find_slot(id) {
            return slot;
        }
        let slot = self.streams.len() as u32;
        self.streams.reserve_doubling();
        self.streams.push(Stream {
            id,
            queue: StreamQueue::default(),
            entry: ScheduleEntry::default(),
            next: [Mid::new(0); 2],
        });
        if u32::from(id.0) != slot {
            self.slots.insert(id, slot);
        }
        slot
    }

    /// Slot of a stream, if it has been used.
    fn find_slot(&self, id: StreamId) -> Option<u32> {
        // Usual case: streams were first used in ascending order.
        let usual = self.streams.get(usize::from(id.0));
        if usual.is_some_and(|stream| stream.id == id) {
            return Some(u32::from(id.0));
        }
        self.slots.get(&id).copied()
    }

    /// Slots of the streams of a set, as far as they have been used.
    fn slots_of(&self, streams: &StreamSet) -> impl Iterator<Item = usize> {
        let (all, listed) = match streams {
            StreamSet::All => (0..self.streams.len(), &[][..]),
            StreamSet::Listed(listed) => (0..0, &listed[..]),
        };
        let listed = listed.iter().filter_map(|stream| self.find_slot(*stream));
        all.chain(listed.map(|slot| slot as usize))
    }

    /// Returns whether a message of one of these streams is queued.
    pub(super) fn has_any(&self, streams: &StreamSet) -> bool {
        let mut slots = self.slots_of(streams);
        self.len > 0 && slots.any(|slot| !self.streams[slot].queue.is_empty())
    }

    /// Restarts the message numbers of these streams, ordered and unordered, at 0 (RFC 8260,
    /// section 2.3); no message of theirs has been begun.
    pub(super) fn reset(&mut self, streams: &StreamSet) {
        let slots: Vec<usize> = self.slots_of(streams).collect();
        for slot in slots {
            self.streams[slot].next = [Mid::new(0); 2];
        }
    }

    /// Returns whether the message numbers of these streams are at 0.
    pub(super) fn is_reset(&self, streams: &StreamSet) -> bool {
        let mut slots = self.slots_of(streams);
        slots.all(|slot| self.streams[slot].next == [Mid::new(0); 2])
    }

    /// Message, or rest of one, that is sent next.
    pub(super) fn front(&self) -> Option<&PendingMessage> {
        let stream = &self.streams[self.schedule.head()? as usize];
        self.slab.get(stream.queue.first()?)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of user data in the queues.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns what remains of the streams while no message waits.
    pub(super) fn idle_streams(&self) -> IdleStreams {
        let streams = self.streams.iter().map(|stream| StreamNumbers {
            id: stream.id,
            value: stream.entry.value,
            next: stream.next,
        });
        IdleStreams::new(streams)
    }

    /// Returns queues without messages of these streams. Their clocks begin at the same time: a busy period of a fair
    /// scheduler does not count in the next one.
    #[cold]
    pub(super) fn resume(
        scheduler: StreamScheduler,
        interleaving: bool,
        streams: &IdleStreams,
    ) -> Box<Self> {
        let mut queues = Box::new(Self::new(scheduler, interleaving));
        for idle in streams.iter() {
            let slot = queues.slot(idle.id);
            let stream = &mut queues.streams[slot as usize];
            stream.entry.value = idle.value;
            stream.next = idle.next;
        }
        queues
    }

    /// Removes a path from the messages that the user directed to it.
    pub(super) fn forget_path(&mut self, path: PathId) {
        let all = (path, 0)..=(path, u32::MAX);
        while let Some(&(_, at)) = self.routed.range(all.clone()).next() {
            self.routed.remove(&(path, at));
            if let Some(pending) = self.slab.get_mut(at) {
                pending.options.path = None;
            }
        }
    }

    /// Removes a message that may be abandoned, or the rest of it, by its number.
    pub(super) fn remove_numbered(&mut self, number: u64) -> Option<PendingMessage> {
        let &(slot, at) = self.numbered.get(&number)?;
        self.remove(slot, at)
    }

    /// Removes the messages, none of which has been begun, of the streams from this one on.
    pub(super) fn remove_above(&mut self, streams: u16) -> Vec<PendingMessage> {
        let mut removed = Vec::new();
        for slot in 0..self.streams.len() as u32 {
            if self.streams[slot as usize].id.0 < streams {
                continue;
            }
            while let Some(at) = self.streams[slot as usize].queue.first() {
                if self.slab.get(at).is_none_or(|p| p.begun) {
                    break;
                }
                removed.extend(self.remove(slot, at));
            }
        }
        removed.sort_by_key(|p| p.arrival);
        removed
    }

    /// Removes a message, or the rest of it.
    fn remove(&mut self, slot: u32, at: u32) -> Option<PendingMessage> {
        let stream = &mut self.streams[slot as usize];
        let first = stream.queue.first();
        let removed = self.slab.remove(&mut stream.queue, at)?;
        self.len -= 1;
        self.bytes -= removed.rest.len();
        self.numbered.remove(&removed.number);
        if let Some(path) = removed.options.path {
            self.routed.remove(&(path, at));
        }
        let next = stream.queue.first();
        if removed.begun && !self.interleaving {
            // The stream is charged for the part that was sent.
            let sent = core::mem::take(&mut self.sent);
            stream.entry.arrival = arrival(&self.slab, next);
            self.schedule
                .served(slot, &mut stream.entry, sent, next.is_none());
        } else if next.is_none() {
            self.schedule.leave(slot, &stream.entry);
        } else if next != first {
            stream.entry.arrival = arrival(&self.slab, next);
            self.schedule.changed(slot, &mut stream.entry);
        }
        Some(removed)
    }

    /// Cuts a fragment of at most `max` bytes off the first message.
    pub(super) fn cut(&mut self, max: usize) -> Option<NewChunk> {
        let slot = self.schedule.head()?;
        let stream = &mut self.streams[slot as usize];
        let at = stream.queue.first()?;
        let first = self.slab.get_mut(at)?;
        let options = &first.options;
        let (id, ppid, context) = (options.stream, options.ppid, options.context);
        let path = options.path;
        let (immediate, unordered) = (options.immediate, options.unordered);
        let beginning = !first.begun;
        if beginning {
            // Unordered messages have a number in I-DATA only.
            if self.interleaving || !unordered {
                let next = &mut stream.next[usize::from(unordered)];
                first.mid = *next;
                *next = next.next();
            }
        }
        let payload = first.rest.split_to(max.min(first.rest.len()));
        let ending = first.rest.is_empty();
        let (message, mid, fsn) = (first.number, first.mid, first.fsn);
        first.begun = true;
        first.fsn = fsn.next();
        self.bytes -= payload.len();
        self.sent += payload.len();
        self.packet = Some(slot);
        if ending {
            self.slab.discard(&mut stream.queue, at);
            if message != 0 {
                self.numbered.remove(&message);
            }
            if let Some(path) = path {
                self.routed.remove(&(path, at));
            }
            self.len -= 1;
        }
        if !ending && !self.interleaving {
            self.schedule.pin_head();
        } else {
            let sent = core::mem::take(&mut self.sent);
            let next = stream.queue.first();
            stream.entry.arrival = arrival(&self.slab, next);
            self.schedule
                .served(slot, &mut stream.entry, sent, next.is_none());
        }
        Some(NewChunk {
            message,
            stream: id,
            ppid,
            context,
            mid,
            fsn,
            flags: DataFlags {
                immediate: ending && immediate,
                unordered,
                beginning,
                ending,
            },
            payload,
        })
    }

    /// Ends the packet that the fragments cut since the last call share.
    pub(super) fn packet_over(&mut self) {
        let slot = self.packet.take();
        if let Some(slot) = slot.filter(|s| self.schedule.head() == Some(*s)) {
            self.schedule
                .packet_over(&mut self.streams[slot as usize].entry);
        }
    }

    /// Changes the scheduler. A message that has been begun is finished first, unless messages may
    /// interleave.
    pub(super) fn set_scheduler(&mut self, kind: StreamScheduler) {
        let pinned = (self.sent > 0).then(|| self.schedule.head()).flatten();
        let mut schedule = Schedule::new(kind);
        let mut waiting: Vec<(bool, u64, u32)> = Vec::new();
        for (stream, slot) in self.streams.iter_mut().zip(0..) {
            let (arrival, value) = (stream.entry.arrival, stream.entry.value);
            stream.entry = ScheduleEntry::new(arrival, value);
            if !stream.queue.is_empty() {
                waiting.push((pinned != Some(slot), arrival, slot));
            }
        }
        waiting.sort_unstable();
        for (_, _, slot) in waiting {
            schedule.enter(slot, &mut self.streams[slot as usize].entry);
            if pinned == Some(slot) {
                schedule.pin_head();
            }
        }
        self.schedule = schedule;
        self.packet = None;
    }

    /// Priority or weight that the user set for a stream.
    pub(super) fn value(&self, id: StreamId) -> u16 {
        let slot = self.find_slot(id);
        slot.map_or(0, |slot| self.streams[slot as usize].entry.value)
    }

    pub(super) fn set_value(&mut self, id: StreamId, value: u16) {
        let slot = self.slot(id);
        let stream = &mut self.streams[slot as usize];
        stream.entry.value = value;
        if !stream.queue.is_empty() {
            self.schedule.changed(slot, &mut stream.entry);
        }
    }

    /// Empties the queues and restarts all message numbers at 0; priorities and weights remain. Returns
    /// the messages in the order in which the user sent them.
    pub(super) fn restart(&mut self) -> Vec<PendingMessage> {
        let mut new = Self::new(self.schedule.kind(), self.interleaving);
        for stream in self.streams.iter().filter(|s| s.entry.value != 0) {
            new.set_value(stream.id, stream.entry.value);
        }
        let old = core::mem::replace(self, new);
        let mut all = old.slab.into_all();
        all.sort_by_key(|p| p.arrival);
        all
    }
}

fn arrival(slab: &MessageSlab, at: Option<u32>) -> u64 {
    at.and_then(|at| slab.get(at)).map_or(0, |p| p.arrival)
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    use super::*;
    use crate::tx::message::SendOptions;

    fn queues(interleaving: bool) -> StreamQueues {
        StreamQueues::new(StreamScheduler::RoundRobin, interleaving)
    }

    fn push(queues: &mut StreamQueues, number: u64, options: SendOptions, data: Bytes) {
        queues.push(PendingMessage::new(number, options, data));
    }

    fn message(stream: u16, unordered: bool) -> SendOptions {
        SendOptions {
            unordered,
            ..SendOptions::on_stream(stream)
        }
    }

    #[test]
    fn a_removed_path_costs_the_messages_directed_to_it() {
        let mut queues = queues(true);
        let to = |path: u8| SendOptions {
            path: Some(PathId(path)),
            ..message(u16::from(path % 3), false)
        };
        for n in 1..=40 {
            push(&mut queues, n, message(0, false), Bytes::from_static(b"m"));
            push(&mut queues, 0, to((n % 4) as u8), Bytes::from_static(b"m"));
        }
        push(&mut queues, 100, to(255), Bytes::from_static(b"m"));
        assert_eq!(queues.routed.len(), 41);
        queues.remove_numbered(100).unwrap();
        assert_eq!(queues.routed.len(), 40, "a removed message is not counted");
        queues.forget_path(PathId(2));
        queues.forget_path(PathId(9));
        assert_eq!(queues.routed.len(), 30);
        let mut left = 0;
        while let Some(front) = queues.front() {
            assert_ne!(front.options.path, Some(PathId(2)));
            left += usize::from(front.options.path.is_some());
            queues.cut(9).unwrap();
        }
        assert_eq!((left, queues.routed.len()), (30, 0), "sent");
    }

    /// RFC 8260, section 2.1
    #[test]
    fn ordered_and_unordered_messages_are_numbered_apart() {
        for (interleaving, expected) in [(true, [0, 0, 1, 1]), (false, [0, 0, 0, 1])] {
            let mut queues = queues(interleaving);
            for unordered in [false, true, true, false] {
                push(
                    &mut queues,
                    0,
                    message(1, unordered),
                    Bytes::from_static(b"m"),
                );
            }
            let mids: Vec<u32> = (0..4).map(|_| queues.cut(9).unwrap().mid.value()).collect();
            assert_eq!(mids, expected, "interleaving: {interleaving}");
        }
    }

    /// RFC 8260, section 2.1
    #[test]
    fn message_identifiers_wrap() {
        let mut queues = queues(true);
        queues.set_value(StreamId(1), 0);
        queues.streams[0].next = [Mid::new(u32::MAX); 2];
        for _ in 0..2 {
            push(&mut queues, 0, message(1, false), Bytes::from_static(b"m"));
        }
        let mids: Vec<u32> = (0..2).map(|_| queues.cut(9).unwrap().mid.value()).collect();
        assert_eq!(mids, [u32::MAX, 0]);
    }

    /// RFC 8260, section 2.3
    #[test]
    fn a_reset_restarts_message_identifiers() {
        let mut queues = queues(true);
        let three = StreamSet::new([StreamId(3), StreamId(9)].into_iter());
        for stream in [3, 3, 4] {
            for unordered in [false, true] {
                let options = message(stream, unordered);
                push(&mut queues, 0, options, Bytes::from_static(b"m"));
            }
        }
        assert!(queues.has_any(&three) && queues.is_reset(&three));
        while queues.cut(9).is_some() {}
        assert!(!queues.has_any(&three) && !queues.has_any(&StreamSet::All));
        assert!(!queues.is_reset(&three));
        queues.reset(&three);
        assert!(queues.is_reset(&three) && !queues.is_reset(&StreamSet::All));
        queues.reset(&StreamSet::All);
        assert!(queues.is_reset(&StreamSet::All));
        assert_eq!(queues.streams.len(), 2, "stream 9 has not been used");
    }

    #[test]
    fn memory_is_for_streams_in_use() {
        let mut queues = queues(true);
        push(
            &mut queues,
            0,
            message(65_534, false),
            Bytes::from_static(b"m"),
        );
        assert_eq!(queues.streams.len(), 1);
        assert!(core::mem::size_of::<Stream>() <= 128);
    }

    /// Context, bytes left, number if the message may be abandoned, and whether it has been begun.
    type Waiting = (u64, usize, u64, bool);

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push(u16, usize, bool),
        Cut(usize),
        PacketOver,
        Take(u64),
        Schedule(usize),
        Value(u16, u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        let mortal = proptest::bool::weighted(0.3);
        prop_oneof![
            6 => (0_u16..6, 1_usize..20, mortal).prop_map(|(s, n, m)| Step::Push(s, n, m)),
            10 => (1_usize..8).prop_map(Step::Cut),
            2 => Just(Step::PacketOver),
            2 => (0_u64..40).prop_map(Step::Take),
            1 => (0_usize..6).prop_map(Step::Schedule),
            1 => (0_u16..6, 0_u16..5).prop_map(|(s, v)| Step::Value(s, v)),
        ]
    }

    proptest! {
        /// The messages of each stream leave once and in order, complete unless the rest was removed;
        /// without interleaving the fragments of a message leave one after the other.
        ///
        /// RFC 8260, section 3
        #[test]
        fn agrees_with_a_queue_for_each_stream(interleaving: bool, steps in proptest::collection::vec(step(), 0..300)) {
            let mut queues = queues(interleaving);
            let mut model: [VecDeque<Waiting>; 6] = Default::default();
            let mut pushed = 0;
            for step in steps {
                match step {
                    Step::Push(stream, len, mortal) => {
                        let options = SendOptions { context: pushed, ..message(stream, false) };
                        let number = if mortal { pushed + 1 } else { 0 };
                        push(&mut queues, number, options, Bytes::from(alloc::vec![0; len]));
                        model[usize::from(stream)].push_back((pushed, len, number, false));
                        pushed += 1;
                    }
                    Step::Cut(max) => {
                        let waiting = model.iter().any(|m| !m.is_empty());
                        let front = queues.front().map(|f| (f.options.context, f.rest.len()));
                        let Some(piece) = queues.cut(max) else {
                            prop_assert!(!waiting);
                            continue;
                        };
                        let open = model.iter().filter_map(|m| m.front()).find(|m| m.3).map(|m| m.0);
                        if !interleaving {
                            prop_assert!(open.is_none_or(|open| open == piece.context));
                        }
                        let queue = &mut model[usize::from(piece.stream.0)];
                        let first = queue.front_mut().expect("a message");
                        prop_assert_eq!((first.0, !first.3), (piece.context, piece.flags.beginning));
                        prop_assert_eq!(front, Some((first.0, first.1)));
                        prop_assert_eq!(piece.payload.len(), max.min(first.1));
                        first.1 -= piece.payload.len();
                        first.3 = true;
                        prop_assert_eq!(piece.flags.ending, first.1 == 0);
                        if first.1 == 0 {
                            queue.pop_front();
                        }
                    }
                    Step::PacketOver => queues.packet_over(),
                    Step::Take(number) => {
                        // With interleaving, a message that has been begun is not removed.
                        let is_it = |m: &Waiting| number != 0 && m.2 == number;
                        let found = model.iter().flatten().copied().find(is_it);
                        if interleaving && found.is_some_and(|m| m.3) {
                            continue;
                        }
                        for queue in &mut model {
                            queue.retain(|m| !is_it(m));
                        }
                        let taken = queues.remove_numbered(number).map(|p| (p.options.context, p.rest.len(), p.number, p.begun));
                        prop_assert_eq!(taken, found);
                    }
                    Step::Schedule(kind) => queues.set_scheduler(StreamScheduler::ALL[kind]),
                    Step::Value(stream, value) => queues.set_value(StreamId(stream), value),
                }
                prop_assert_eq!(queues.len(), model.iter().map(VecDeque::len).sum::<usize>());
                prop_assert_eq!(queues.bytes(), model.iter().flatten().map(|m| m.1).sum::<usize>());
                prop_assert_eq!(queues.numbered.len(), model.iter().flatten().filter(|m| m.2 != 0).count());
            }
            let mut left: Vec<u64> = model.iter().flatten().map(|m| m.0).collect();
            left.sort_unstable();
            let restarted: Vec<u64> = queues.restart().iter().map(|p| p.options.context).collect();
            prop_assert_eq!(restarted, left);
            prop_assert_eq!((queues.len(), queues.bytes(), queues.front().is_none()), (0, 0, true));
        }
    }
}
