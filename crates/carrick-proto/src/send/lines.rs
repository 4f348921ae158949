//! Messages that wait to be sent: a line for each stream, which the scheduler chooses from.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{DataFlags, Fsn, Mid, Ppid, StreamId};

use super::backlog::{Backlog, Line};
use super::message::Pending;
use super::scheduler::{Schedule, StreamScheduler, Turn};
use crate::path::PathId;
use crate::reconfig::StreamSet;

/// A piece of the first message, ready to get a TSN.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The number of its message if that may be given up, otherwise 0.
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
impl Piece {
    /// A whole message, unordered and of one octet, for tests of what comes after the queue.
    pub(super) fn whole(message: u64, stream: StreamId) -> Self {
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

/// A stream that has been used.
#[derive(Debug)]
struct Stream {
    id: StreamId,
    line: Line,
    turn: Turn,
    /// The numbers of the next ordered and unordered message.
    next: [Mid; 2],
}

#[derive(Debug)]
pub(super) struct Lines {
    backlog: Backlog,
    streams: Vec<Stream>,
    /// Where a stream is in `streams`.
    slots: BTreeMap<StreamId, u32>,
    schedule: Schedule,
    /// Messages of several streams may be under way at the same time.
    interleaving: bool,
    /// Bytes of the message at the head that have been sent, without interleaving.
    sent: usize,
    /// The stream of the new chunks in the packet that is being filled.
    packet: Option<u32>,
    /// Where the messages are that may be given up, by number: stream and place.
    numbered: BTreeMap<u64, (u32, u32)>,
    /// Where those are that are to go to a certain path.
    routed: BTreeSet<(PathId, u32)>,
    len: usize,
    bytes: usize,
    arrivals: u64,
}

impl Lines {
    pub(super) fn new(scheduler: StreamScheduler, interleaving: bool) -> Self {
        Self {
            backlog: Backlog::default(),
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

    /// Whether messages of several streams may be under way at the same time (RFC 8260 section 2.2).
    pub(super) fn set_interleaving(&mut self, interleaving: bool) {
        self.interleaving = interleaving;
    }

    /// Takes a message.
    pub(super) fn put(&mut self, mut pending: Pending) {
        let slot = self.slot(pending.options.stream);
        let (number, path) = (pending.number, pending.options.path);
        pending.arrival = self.arrivals;
        self.arrivals += 1;
        self.len += 1;
        self.bytes += pending.rest.len();
        let arrival = pending.arrival;
        let stream = &mut self.streams[slot as usize];
        let was_empty = stream.line.is_empty();
        let at = self.backlog.push(&mut stream.line, pending);
        if was_empty {
            stream.turn.arrival = arrival;
            self.schedule.enter(slot, &mut stream.turn);
        }
        if number != 0 {
            self.numbered.insert(number, (slot, at));
        }
        self.routed.extend(path.map(|path| (path, at)));
    }

    /// The stream's slot; it is in use from now on.
    fn slot(&mut self, id: StreamId) -> u32 {
        let streams = &mut self.streams;
        // Mostly streams are used one after the other, from the first on.
        if streams.get(usize::from(id.0)).is_some_and(|s| s.id == id) {
            return u32::from(id.0);
        }
        *self.slots.entry(id).or_insert_with(|| {
            streams.push(Stream {
                id,
                line: Line::default(),
                turn: Turn::default(),
                next: [Mid::new(0); 2],
            });
            (streams.len() - 1) as u32
        })
    }

    /// The slots of those of these streams that have been used.
    fn slots_of(&self, streams: &StreamSet) -> impl Iterator<Item = usize> {
        let (all, listed) = match streams {
            StreamSet::All => (0..self.streams.len(), &[][..]),
            StreamSet::Listed(listed) => (0..0, &listed[..]),
        };
        let listed = listed.iter().filter_map(|s| self.slots.get(s));
        all.chain(listed.map(|slot| *slot as usize))
    }

    /// Whether a message of one of these streams waits.
    pub(super) fn has_any(&self, streams: &StreamSet) -> bool {
        let mut slots = self.slots_of(streams);
        self.len > 0 && slots.any(|slot| !self.streams[slot].line.is_empty())
    }

    /// The next messages of each of these streams, none of which is begun, have number 0 (RFC 8260
    /// section 2.3: ordered and unordered ones).
    pub(super) fn reset(&mut self, streams: &StreamSet) {
        let slots: Vec<usize> = self.slots_of(streams).collect();
        for slot in slots {
            self.streams[slot].next = [Mid::new(0); 2];
        }
    }

    /// Whether they have that already.
    pub(super) fn is_reset(&self, streams: &StreamSet) -> bool {
        let mut slots = self.slots_of(streams);
        slots.all(|slot| self.streams[slot].next == [Mid::new(0); 2])
    }

    /// The message that is sent next, or the rest of it.
    pub(super) fn front(&self) -> Option<&Pending> {
        let stream = &self.streams[self.schedule.head()? as usize];
        self.backlog.get(stream.line.first()?)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that have not been sent.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Messages that were to go this way go any way.
    pub(super) fn forget_path(&mut self, path: PathId) {
        let all = (path, 0)..=(path, u32::MAX);
        while let Some(&(_, at)) = self.routed.range(all.clone()).next() {
            self.routed.remove(&(path, at));
            if let Some(pending) = self.backlog.get_mut(at) {
                pending.options.path = None;
            }
        }
    }

    /// Takes a message out that may be given up, or the rest of it, wherever it is.
    pub(super) fn take(&mut self, number: u64) -> Option<Pending> {
        let &(slot, at) = self.numbered.get(&number)?;
        self.remove(slot, at)
    }

    /// Removes the messages, none of which was begun, for streams from this one on.
    pub(super) fn take_above(&mut self, streams: u16) -> Vec<Pending> {
        let slots = self.slots.range(StreamId(streams)..);
        let slots: Vec<u32> = slots.map(|(_, slot)| *slot).collect();
        let mut removed = Vec::new();
        for slot in slots {
            while let Some(at) = self.streams[slot as usize].line.first() {
                if self.backlog.get(at).is_none_or(|p| p.begun) {
                    break;
                }
                removed.extend(self.remove(slot, at));
            }
        }
        removed.sort_by_key(|p| p.arrival);
        removed
    }

    /// Removes a message, or the rest of it.
    fn remove(&mut self, slot: u32, at: u32) -> Option<Pending> {
        let stream = &mut self.streams[slot as usize];
        let first = stream.line.first();
        let removed = self.backlog.remove(&mut stream.line, at)?;
        self.len -= 1;
        self.bytes -= removed.rest.len();
        self.numbered.remove(&removed.number);
        if let Some(path) = removed.options.path {
            self.routed.remove(&(path, at));
        }
        let next = stream.line.first();
        if removed.begun && !self.interleaving {
            // It ends here, and what was sent of it was its stream's turn.
            let sent = core::mem::take(&mut self.sent);
            stream.turn.arrival = arrival(&self.backlog, next);
            self.schedule
                .turn_over(slot, &mut stream.turn, sent, next.is_none());
        } else if next.is_none() {
            self.schedule.leave(slot, &stream.turn);
        } else if next != first {
            stream.turn.arrival = arrival(&self.backlog, next);
            self.schedule.changed(slot, &mut stream.turn);
        }
        Some(removed)
    }

    /// Cuts a piece of at most `max` bytes off the first message.
    pub(super) fn cut(&mut self, max: usize) -> Option<Piece> {
        let slot = self.schedule.head()?;
        let stream = &mut self.streams[slot as usize];
        let at = stream.line.first()?;
        let first = self.backlog.get_mut(at)?;
        let options = &first.options;
        let (id, ppid, context) = (options.stream, options.ppid, options.context);
        let path = options.path;
        let (immediate, unordered) = (options.immediate, options.unordered);
        let beginning = !first.begun;
        if beginning {
            // DATA has no number for unordered messages.
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
            self.backlog.discard(&mut stream.line, at);
            if message != 0 {
                self.numbered.remove(&message);
            }
            if let Some(path) = path {
                self.routed.remove(&(path, at));
            }
            self.len -= 1;
        }
        if !ending && !self.interleaving {
            self.schedule.hold();
        } else {
            let sent = core::mem::take(&mut self.sent);
            let next = stream.line.first();
            stream.turn.arrival = arrival(&self.backlog, next);
            self.schedule
                .turn_over(slot, &mut stream.turn, sent, next.is_none());
        }
        Some(Piece {
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

    /// The pieces cut since the last call share a packet, which is complete.
    pub(super) fn packet_over(&mut self) {
        let slot = self.packet.take();
        if let Some(slot) = slot.filter(|s| self.schedule.head() == Some(*s)) {
            self.schedule
                .packet_over(&mut self.streams[slot as usize].turn);
        }
    }

    /// Another order from now on. A message that has begun is finished first, unless messages may
    /// interleave.
    pub(super) fn set_scheduler(&mut self, kind: StreamScheduler) {
        let held = (self.sent > 0).then(|| self.schedule.head()).flatten();
        let mut schedule = Schedule::new(kind);
        let mut waiting: Vec<(bool, u64, u32)> = Vec::new();
        for (stream, slot) in self.streams.iter_mut().zip(0..) {
            let (arrival, value) = (stream.turn.arrival, stream.turn.value);
            stream.turn = Turn::new(arrival, value);
            if !stream.line.is_empty() {
                waiting.push((held != Some(slot), arrival, slot));
            }
        }
        waiting.sort_unstable();
        for (_, _, slot) in waiting {
            schedule.enter(slot, &mut self.streams[slot as usize].turn);
            if held == Some(slot) {
                schedule.hold();
            }
        }
        self.schedule = schedule;
        self.packet = None;
    }

    /// What the user set for a stream: its priority or weight.
    pub(super) fn value(&self, id: StreamId) -> u16 {
        let slot = self.slots.get(&id);
        slot.map_or(0, |slot| self.streams[*slot as usize].turn.value)
    }

    pub(super) fn set_value(&mut self, id: StreamId, value: u16) {
        let slot = self.slot(id);
        let stream = &mut self.streams[slot as usize];
        stream.turn.value = value;
        if !stream.line.is_empty() {
            self.schedule.changed(slot, &mut stream.turn);
        }
    }

    /// Empties the queue and restarts all streams at 0, with the values that the user set; returns
    /// what was in it, in the order in which it came.
    pub(super) fn restart(&mut self) -> Vec<Pending> {
        let mut new = Self::new(self.schedule.kind(), self.interleaving);
        for stream in self.streams.iter().filter(|s| s.turn.value != 0) {
            new.set_value(stream.id, stream.turn.value);
        }
        let old = core::mem::replace(self, new);
        let mut all = old.backlog.into_all();
        all.sort_by_key(|p| p.arrival);
        all
    }
}

fn arrival(backlog: &Backlog, at: Option<u32>) -> u64 {
    at.and_then(|at| backlog.get(at)).map_or(0, |p| p.arrival)
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    use super::super::message::SendOptions;
    use super::*;

    fn lines(interleaving: bool) -> Lines {
        Lines::new(StreamScheduler::RoundRobin, interleaving)
    }

    fn push(lines: &mut Lines, number: u64, options: SendOptions, data: Bytes) {
        lines.put(Pending::new(number, options, data));
    }

    fn message(stream: u16, unordered: bool) -> SendOptions {
        SendOptions {
            unordered,
            ..SendOptions::on_stream(stream)
        }
    }

    #[test]
    fn a_path_that_goes_costs_what_was_to_go_there() {
        let mut lines = lines(true);
        let to = |path: u8| SendOptions {
            path: Some(PathId(path)),
            ..message(u16::from(path % 3), false)
        };
        for n in 1..=40 {
            push(&mut lines, n, message(0, false), Bytes::from_static(b"m"));
            push(&mut lines, 0, to((n % 4) as u8), Bytes::from_static(b"m"));
        }
        push(&mut lines, 100, to(255), Bytes::from_static(b"m"));
        assert_eq!(lines.routed.len(), 41);
        lines.take(100).unwrap();
        assert_eq!(lines.routed.len(), 40, "taken out");
        lines.forget_path(PathId(2));
        lines.forget_path(PathId(9));
        assert_eq!(lines.routed.len(), 30);
        let mut left = 0;
        while let Some(front) = lines.front() {
            assert_ne!(front.options.path, Some(PathId(2)));
            left += usize::from(front.options.path.is_some());
            lines.cut(9).unwrap();
        }
        assert_eq!((left, lines.routed.len()), (30, 0), "sent");
    }

    #[test]
    fn ordered_and_unordered_messages_are_numbered_apart_8260_2_1() {
        for (interleaving, expected) in [(true, [0, 0, 1, 1]), (false, [0, 0, 0, 1])] {
            let mut lines = lines(interleaving);
            for unordered in [false, true, true, false] {
                push(
                    &mut lines,
                    0,
                    message(1, unordered),
                    Bytes::from_static(b"m"),
                );
            }
            let mids: Vec<u32> = (0..4).map(|_| lines.cut(9).unwrap().mid.value()).collect();
            assert_eq!(mids, expected, "interleaving: {interleaving}");
        }
    }

    #[test]
    fn message_identifiers_wrap_8260_2_1() {
        let mut lines = lines(true);
        lines.set_value(StreamId(1), 0);
        lines.streams[0].next = [Mid::new(u32::MAX); 2];
        for _ in 0..2 {
            push(&mut lines, 0, message(1, false), Bytes::from_static(b"m"));
        }
        let mids: Vec<u32> = (0..2).map(|_| lines.cut(9).unwrap().mid.value()).collect();
        assert_eq!(mids, [u32::MAX, 0]);
    }

    #[test]
    fn a_reset_begins_the_identifiers_of_its_streams_anew_8260_2_3() {
        let mut lines = lines(true);
        let three = StreamSet::new([StreamId(3), StreamId(9)].into_iter());
        for stream in [3, 3, 4] {
            for unordered in [false, true] {
                let options = message(stream, unordered);
                push(&mut lines, 0, options, Bytes::from_static(b"m"));
            }
        }
        assert!(lines.has_any(&three) && lines.is_reset(&three));
        while lines.cut(9).is_some() {}
        assert!(!lines.has_any(&three) && !lines.has_any(&StreamSet::All));
        assert!(!lines.is_reset(&three));
        lines.reset(&three);
        assert!(lines.is_reset(&three) && !lines.is_reset(&StreamSet::All));
        lines.reset(&StreamSet::All);
        assert!(lines.is_reset(&StreamSet::All));
        assert_eq!(lines.streams.len(), 2, "stream 9 has not been used");
    }

    #[test]
    fn memory_is_for_streams_in_use() {
        let mut lines = lines(true);
        push(
            &mut lines,
            0,
            message(65_534, false),
            Bytes::from_static(b"m"),
        );
        assert_eq!(lines.streams.len(), 1);
        assert!(core::mem::size_of::<Stream>() <= 128);
    }

    /// Context, bytes left, the number of one that may be given up, and whether it has begun.
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
        /// Whatever the order of streams: messages of one leave in theirs, each once, whole unless the
        /// rest of it was taken out; without interleaving nothing comes between its pieces.
        #[test]
        fn lines_agree_with_a_queue_for_each_stream_8260_3(interleaving: bool, steps in proptest::collection::vec(step(), 0..300)) {
            let mut lines = lines(interleaving);
            let mut model: [VecDeque<Waiting>; 6] = Default::default();
            let mut pushed = 0;
            for step in steps {
                match step {
                    Step::Push(stream, len, mortal) => {
                        let options = SendOptions { context: pushed, ..message(stream, false) };
                        let number = if mortal { pushed + 1 } else { 0 };
                        push(&mut lines, number, options, Bytes::from(alloc::vec![0; len]));
                        model[usize::from(stream)].push_back((pushed, len, number, false));
                        pushed += 1;
                    }
                    Step::Cut(max) => {
                        let waiting = model.iter().any(|m| !m.is_empty());
                        let front = lines.front().map(|f| (f.options.context, f.rest.len()));
                        let Some(piece) = lines.cut(max) else {
                            prop_assert!(!waiting);
                            continue;
                        };
                        let open = model.iter().filter_map(|m| m.front()).find(|m| m.3).map(|m| m.0);
                        if !interleaving {
                            prop_assert!(open.is_none_or(|open| open == piece.context));
                        }
                        let line = &mut model[usize::from(piece.stream.0)];
                        let first = line.front_mut().expect("a message");
                        prop_assert_eq!((first.0, !first.3), (piece.context, piece.flags.beginning));
                        prop_assert_eq!(front, Some((first.0, first.1)));
                        prop_assert_eq!(piece.payload.len(), max.min(first.1));
                        first.1 -= piece.payload.len();
                        first.3 = true;
                        prop_assert_eq!(piece.flags.ending, first.1 == 0);
                        if first.1 == 0 {
                            line.pop_front();
                        }
                    }
                    Step::PacketOver => lines.packet_over(),
                    Step::Take(number) => {
                        // Where messages may interleave, one that has begun is not given up.
                        let is_it = |m: &Waiting| number != 0 && m.2 == number;
                        let found = model.iter().flatten().copied().find(is_it);
                        if interleaving && found.is_some_and(|m| m.3) {
                            continue;
                        }
                        for line in &mut model {
                            line.retain(|m| !is_it(m));
                        }
                        let taken = lines.take(number).map(|p| (p.options.context, p.rest.len(), p.number, p.begun));
                        prop_assert_eq!(taken, found);
                    }
                    Step::Schedule(kind) => lines.set_scheduler(StreamScheduler::ALL[kind]),
                    Step::Value(stream, value) => lines.set_value(StreamId(stream), value),
                }
                prop_assert_eq!(lines.len(), model.iter().map(VecDeque::len).sum::<usize>());
                prop_assert_eq!(lines.bytes(), model.iter().flatten().map(|m| m.1).sum::<usize>());
                prop_assert_eq!(lines.numbered.len(), model.iter().flatten().filter(|m| m.2 != 0).count());
            }
            let mut left: Vec<u64> = model.iter().flatten().map(|m| m.0).collect();
            left.sort_unstable();
            let restarted: Vec<u64> = lines.restart().iter().map(|p| p.options.context).collect();
            prop_assert_eq!(restarted, left);
            prop_assert_eq!((lines.len(), lines.bytes(), lines.front().is_none()), (0, 0, true));
        }
    }
}
