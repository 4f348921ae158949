//! DATA chunks that were sent and are not acknowledged cumulatively, by their TSN.
//!
//! Inside, a TSN is an index, which never wraps; the initial TSN has index 1. What a SACK says is
//! compared with what the one before said, range by range, so that only chunks whose state changes
//! are touched.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{DATA_HEADER_LEN, DataFlags, Fsn, Mid, Ppid, Ssn, StreamId, Tsn, padded};

use super::marked::Marked;
use super::message::SendOptions;
use super::queue::Piece;
use crate::path::{PathId, Paths};
use crate::policy::LossSignal;
use crate::time::Time;

/// Where a chunk stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkState {
    /// On its way, as far as is known.
    InFlight,
    /// Reported in a gap block.
    Acked,
    /// To be sent again.
    Marked(LossSignal),
    /// Given up with its message (RFC 3758 section 3.4): as good as acknowledged.
    Abandoned {
        /// It was in flight then, and may still turn out to be lost.
        awaited: bool,
    },
}

/// One DATA chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Empty once the peer has it for good.
    pub(crate) payload: Bytes,
    /// The length that it had then.
    released: u32,
    /// The number of its message if that may be given up, otherwise 0.
    pub(crate) message: u64,
    pub(crate) context: u64,
    pub(crate) ppid: Ppid,
    pub(crate) transmissions: u32,
    pub(crate) stream: StreamId,
    /// The number of the message; with DATA its lower half is the SSN.
    pub(crate) mid: Mid,
    pub(crate) fsn: Fsn,
    pub(crate) flags: DataFlags,
    /// The path it was last sent to.
    pub(crate) path: PathId,
    /// It was sent to other paths before: its acknowledgement does not tell which one works.
    pub(crate) ambiguous: bool,
    pub(crate) state: ChunkState,
    /// Not eligible for a second fast retransmission (section 7.2.4, step 5).
    pub(crate) fast_retransmitted: bool,
    /// The first chunk of its packet.
    pub(crate) leads: bool,
    /// Since it was last sent, the peer took back that it had arrived, or could not say whether it
    /// has: `sent` and `serial` are of that moment.
    pub(crate) taken_back: bool,
    /// When it was last sent, and the number of that transmission in the association.
    pub(crate) sent: Time,
    pub(crate) serial: u64,
    /// Its neighbours in the order of transmission, while in flight; see
    /// [`crate::send::recovery::SendOrder`].
    older: u64,
    newer: u64,
}

impl Chunk {
    /// The Stream Sequence Number of DATA.
    pub(crate) fn ssn(&self) -> Ssn {
        Ssn::new(self.mid.value() as u16)
    }

    /// Bytes of user data.
    pub(crate) fn len(&self) -> usize {
        self.payload.len() + self.released as usize
    }

    /// The peer has promised to keep it.
    pub(crate) fn is_settled(&self) -> bool {
        self.released > 0
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self.state, ChunkState::Abandoned { .. })
    }
}

/// A chunk that was acknowledged, as it was sent last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) path: PathId,
    /// The bytes that it counts for in the congestion window.
    pub(super) weight: usize,
    pub(super) transmissions: u32,
    pub(super) ambiguous: bool,
    pub(super) taken_back: bool,
    pub(super) leads: bool,
    pub(super) serial: u64,
    pub(super) sent: Time,
}

/// Inclusive ranges of indexes, ascending, with gaps between.
pub(crate) type Ranges = VecDeque<(u64, u64)>;

#[derive(Debug)]
pub(crate) struct Outstanding {
    chunks: VecDeque<Chunk>,
    /// Index of the first of `chunks`; the one before it is the Cumulative TSN Ack Point.
    first: u64,
    /// TSN of index 0.
    origin: Tsn,
    /// What gap blocks reported.
    pub(super) acked: Ranges,
    /// What of it the peer will not take back, whatever it says later.
    pub(super) settled: Ranges,
    /// Indexes of chunks in state [`ChunkState::Marked`].
    pub(super) marked: Marked,
    /// User bytes in flight.
    in_flight: usize,
    /// User bytes held for retransmission, acknowledged in gap blocks or not.
    held: usize,
    /// Messages whose last fragment is here.
    messages: usize,
    count_header: bool,
    /// Transmissions made.
    serial: u64,
    tracking: Tracking,
    /// The header of a chunk: that of DATA, or of I-DATA.
    header_len: usize,
    /// Only where messages may be given up.
    partial: Option<Box<Partial>>,
}

/// What is kept besides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracking {
    /// The order of transmission, for each path.
    pub(super) ordered: bool,
    /// Chunks stay in that order after a fast retransmission; otherwise they are not found lost again
    /// (section 7.2.4, step 5).
    pub(super) repeated: bool,
    /// On which path marked chunks were lost.
    pub(super) marked_by_path: bool,
}

#[derive(Debug, Default)]
struct Partial {
    /// Chunks in state [`ChunkState::Abandoned`].
    abandoned: usize,
    /// Messages that may be given up with a chunk that has just been marked, and how often that
    /// was sent.
    questioned: Vec<(u64, u32)>,
}

impl Outstanding {
    pub(super) fn new(initial_tsn: Tsn, count_header: bool, tracking: Tracking) -> Self {
        Self {
            chunks: VecDeque::new(),
            first: 1,
            origin: initial_tsn.previous(),
            acked: Ranges::new(),
            settled: Ranges::new(),
            marked: Marked::new(tracking.marked_by_path),
            in_flight: 0,
            held: 0,
            messages: 0,
            count_header,
            partial: None,
            serial: 0,
            tracking,
            header_len: DATA_HEADER_LEN,
        }
    }

    pub(crate) fn header_len(&self) -> usize {
        self.header_len
    }

    /// Chunks have headers of this length; none is in flight.
    pub(crate) fn set_header_len(&mut self, header_len: usize) {
        self.header_len = header_len;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// User bytes in flight on all paths: neither acknowledged nor marked.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// User bytes that are kept because the peer has not acknowledged them cumulatively.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Messages that are sent completely and not acknowledged.
    pub(crate) fn messages(&self) -> usize {
        self.messages
    }

    /// The index that the next new chunk gets.
    pub(crate) fn next_index(&self) -> u64 {
        self.first + self.chunks.len() as u64
    }

    pub(crate) fn first_index(&self) -> u64 {
        self.first
    }

    pub(crate) fn tsn(&self, index: u64) -> Tsn {
        self.origin.plus(index as u32)
    }

    /// The next new chunk gets this TSN. There is none outstanding.
    pub(crate) fn renumber(&mut self, next: Tsn) {
        debug_assert!(self.is_empty());
        self.origin = next.minus(self.next_index() as u32);
    }

    pub(crate) fn cumulative_point(&self) -> Tsn {
        self.tsn(self.first - 1)
    }

    /// The index of a TSN at or above the Cumulative TSN Ack Point; `None` below it.
    pub(crate) fn index_of(&self, tsn: Tsn) -> Option<u64> {
        let point = self.cumulative_point();
        tsn.is_at_or_after(point)
            .then(|| self.first - 1 + u64::from(tsn.since(point)))
    }

    /// The index of a TSN that was sent, wherever it is; `None` if there was none.
    pub(crate) fn index_of_any(&self, tsn: Tsn) -> Option<u64> {
        let point = self.cumulative_point();
        match self.index_of(tsn) {
            Some(index) => Some(index).filter(|i| *i < self.next_index()),
            None => (self.first - 1).checked_sub(u64::from(point.since(tsn))),
        }
    }

    pub(crate) fn chunk(&self, index: u64) -> Option<&Chunk> {
        self.chunks
            .get(usize::try_from(index.checked_sub(self.first)?).ok()?)
    }

    pub(crate) fn chunk_mut(&mut self, index: u64) -> Option<&mut Chunk> {
        self.chunks
            .get_mut(usize::try_from(index.checked_sub(self.first)?).ok()?)
    }

    /// The bytes a chunk counts for in the congestion window.
    pub(super) fn weight(&self, payload: usize) -> usize {
        if self.count_header {
            padded(self.header_len + payload)
        } else {
            payload
        }
    }

    /// Takes a new piece, which leaves to a path, as the first chunk of its packet if it leads; returns
    /// its index.
    pub(crate) fn push(
        &mut self,
        piece: Piece,
        to: PathId,
        leads: bool,
        now: Time,
        paths: &mut Paths,
    ) -> u64 {
        let index = self.next_index();
        let payload = piece.payload.len();
        self.held += payload;
        self.in_flight += payload;
        self.messages += usize::from(piece.flags.ending);
        self.serial += 1;
        let path = &mut paths[to];
        path.buffered += payload;
        path.losses.on_sent();
        path.flight_size += self.weight(payload);
        // It is the highest of all.
        path.earliest.get_or_insert(index);
        self.chunks.push_back(Chunk {
            payload: piece.payload,
            released: 0,
            message: piece.message,
            context: piece.context,
            ppid: piece.ppid,
            transmissions: 1,
            stream: piece.stream,
            mid: piece.mid,
            fsn: piece.fsn,
            flags: piece.flags,
            path: to,
            ambiguous: false,
            state: ChunkState::InFlight,
            fast_retransmitted: false,
            leads,
            taken_back: false,
            sent: now,
            serial: self.serial,
            older: 0,
            newer: 0,
        });
        self.link(index, to, paths);
        index
    }

    /// Transmissions made so far, which is the number of the last one.
    pub(crate) fn transmissions(&self) -> u64 {
        self.serial
    }

    /// A chunk leaves again, to the same path or to another one.
    pub(crate) fn relaunch(
        &mut self,
        index: u64,
        to: PathId,
        leads: bool,
        now: Time,
        paths: &mut Paths,
    ) {
        self.serial += 1;
        let serial = self.serial;
        let Some(chunk) = self.chunk_mut(index) else {
            return;
        };
        let before = chunk.path;
        chunk.state = ChunkState::InFlight;
        chunk.taken_back = false;
        chunk.leads = leads;
        (chunk.sent, chunk.serial) = (now, serial);
        chunk.ambiguous |= before != to;
        chunk.path = to;
        chunk.transmissions = chunk.transmissions.saturating_add(1);
        let payload = chunk.payload.len();
        self.in_flight += payload;
        self.marked.remove(index, before);
        let buffered = &mut paths[before].buffered;
        *buffered = buffered.saturating_sub(payload);
        let path = &mut paths[to];
        path.buffered += payload;
        path.losses.on_sent();
        path.flight_size += self.weight(payload);
        path.earliest = Some(path.earliest.map_or(index, |e| e.min(index)));
        self.link(index, to, paths);
    }

    /// Puts a chunk at the end of the order of transmission.
    fn link(&mut self, index: u64, to: PathId, paths: &mut Paths) {
        if !self.tracking.ordered {
            return;
        }
        let once_only = !self.tracking.repeated;
        if once_only && self.chunk(index).is_some_and(|c| c.fast_retransmitted) {
            if let Some(chunk) = self.chunk_mut(index) {
                (chunk.older, chunk.newer) = (0, 0);
            }
            return;
        }
        let order = &mut paths[to].recovery.order;
        let older = core::mem::replace(&mut order.newest, index);
        if order.oldest == 0 {
            order.oldest = index;
        }
        if let Some(chunk) = self.chunk_mut(older) {
            chunk.newer = index;
        }
        if let Some(chunk) = self.chunk_mut(index) {
            (chunk.older, chunk.newer) = (older, 0);
        }
    }

    /// Takes a chunk out of the order of transmission.
    fn unlink(&mut self, index: u64, path: PathId, paths: &mut Paths) {
        if !self.tracking.ordered {
            return;
        }
        let Some(chunk) = self.chunk(index) else {
            return;
        };
        let (older, newer) = (chunk.older, chunk.newer);
        let order = &mut paths[path].recovery.order;
        if older == 0 && order.oldest != index {
            return;
        }
        match self.chunk_mut(older) {
            Some(chunk) => chunk.newer = newer,
            None => order.oldest = newer,
        }
        match self.chunk_mut(newer) {
            Some(chunk) => chunk.older = older,
            None => order.newest = older,
        }
    }

    /// What became of a chunk in flight is not known: for the order it counts as sent now.
    pub(super) fn postpone(&mut self, index: u64, now: Time, paths: &mut Paths) {
        self.serial += 1;
        let serial = self.serial;
        let Some(path) = self.chunk(index).map(|c| c.path) else {
            return;
        };
        self.unlink(index, path, paths);
        if let Some(chunk) = self.chunk_mut(index) {
            chunk.taken_back = true;
            (chunk.sent, chunk.serial) = (now, serial);
        }
        self.link(index, path, paths);
    }

    /// A chunk in flight is about to be sent once more, although it is not known to be lost.
    pub(super) fn recall(&mut self, index: u64, paths: &mut Paths) {
        if self
            .chunk(index)
            .is_some_and(|c| c.state == ChunkState::InFlight)
        {
            self.land(index, paths);
        }
    }

    /// A chunk is no longer in flight.
    fn land(&mut self, index: u64, paths: &mut Paths) {
        let Some(chunk) = self.chunk(index) else {
            return;
        };
        let (payload, path) = (chunk.len(), chunk.path);
        self.leave_flight(index, path, payload, paths);
    }

    fn leave_flight(&mut self, index: u64, path: PathId, payload: usize, paths: &mut Paths) {
        self.in_flight -= payload;
        let weight = self.weight(payload);
        self.unlink(index, path, paths);
        let path = &mut paths[path];
        path.flight_size = path.flight_size.saturating_sub(weight);
    }

    /// Marks a chunk for retransmission if it is in flight.
    pub(crate) fn mark(&mut self, index: u64, signal: LossSignal, paths: &mut Paths) -> bool {
        if self
            .chunk(index)
            .is_none_or(|c| c.state != ChunkState::InFlight)
        {
            return false;
        }
        self.land(index, paths);
        if let Some(chunk) = self.chunk_mut(index) {
            chunk.state = ChunkState::Marked(signal);
            chunk.fast_retransmitted |= signal == LossSignal::MissingReports;
            let (message, transmissions, path) = (chunk.message, chunk.transmissions, chunk.path);
            paths[path].losses.on_lost();
            self.marked.insert(index, path);
            if message != 0 {
                self.partial().questioned.push((message, transmissions));
            }
        }
        true
    }

    /// A chunk that is marked may be fast retransmitted once more when its next copy is lost.
    pub(crate) fn allow_fast_retransmit_again(&mut self, index: u64) {
        if let Some(chunk) = self.chunk_mut(index) {
            chunk.fast_retransmitted = false;
        }
    }

    /// Marks all chunks in flight that were last sent to a path. Those that wait after missing reports
    /// now wait because of the timeout as well, which may take them to another path (section 6.4.1).
    pub(crate) fn mark_path(&mut self, path: PathId, paths: &mut Paths) -> usize {
        let indexes: Vec<u64> = (self.first..)
            .zip(&self.chunks)
            .filter(|(_, c)| c.path == path && c.state == ChunkState::InFlight)
            .map(|(index, _)| index)
            .collect();
        let waiting: Vec<u64> = self.marked.iter().collect();
        for index in waiting {
            if let Some(chunk) = self.chunk_mut(index).filter(|c| c.path == path) {
                chunk.state = ChunkState::Marked(LossSignal::Timeout);
            }
        }
        for &index in &indexes {
            self.mark(index, LossSignal::Timeout, paths);
        }
        indexes.len()
    }

    /// What belongs to one path belongs to another from now on; what is in flight is to be sent
    /// again at once, as far as that is possible.
    pub(crate) fn move_path(&mut self, from: PathId, to: PathId, paths: &mut Paths) {
        let next = self.next_index();
        for index in self.first..next {
            let Some(chunk) = self.chunk(index).filter(|c| c.path == from) else {
                continue;
            };
            let in_flight = chunk.state == ChunkState::InFlight;
            let payload = chunk.payload.len();
            self.marked.moved(index, from, to);
            paths[to].buffered += payload;
            let buffered = &mut paths[from].buffered;
            *buffered = buffered.saturating_sub(payload);
            let Some(chunk) = self.chunk(index) else {
                continue;
            };
            if in_flight {
                self.land(index, paths);
                self.marked.insert(index, to);
            } else if chunk.state == ChunkState::Acked {
                let weight = self.weight(chunk.len());
                let sacked = &mut paths[from].recovery.rack.sacked;
                *sacked = sacked.saturating_sub(weight);
                paths[to].recovery.rack.sacked += weight;
            }
            if let Some(chunk) = self.chunk_mut(index) {
                chunk.ambiguous |= from != to;
                chunk.path = to;
                if in_flight {
                    // Not lost by congestion, and eligible for a fast retransmission as if it was
                    // new.
                    chunk.state = ChunkState::Marked(LossSignal::MissingReports);
                    chunk.fast_retransmitted = false;
                }
            }
        }
    }

    /// The association's paths are replaced: chunks, none of them in flight, belong to the first.
    pub(crate) fn forget_paths(&mut self) {
        for chunk in &mut self.chunks {
            chunk.path = PathId(0);
        }
        self.marked.all_moved(PathId(0));
    }

    /// A gap block or the cumulative TSN acknowledges a chunk; says what it was, if this is news.
    pub(super) fn acknowledge(&mut self, index: u64, paths: &mut Paths) -> Option<Arrived> {
        let chunk = self.chunk_mut(index)?;
        let in_flight = match &mut chunk.state {
            ChunkState::Acked => return None,
            ChunkState::Abandoned { awaited } => {
                *awaited = false;
                return None;
            }
            ChunkState::InFlight => true,
            ChunkState::Marked(_) => false,
        };
        chunk.state = ChunkState::Acked;
        let (payload, path) = (chunk.len(), chunk.path);
        let arrived = Arrived {
            path,
            weight: 0,
            transmissions: chunk.transmissions,
            ambiguous: chunk.ambiguous,
            taken_back: chunk.taken_back,
            leads: chunk.leads,
            serial: chunk.serial,
            sent: chunk.sent,
        };
        if in_flight {
            self.leave_flight(index, path, payload, paths);
        } else {
            self.marked.remove(index, path);
        }
        Some(Arrived {
            weight: self.weight(payload),
            ..arrived
        })
    }

    /// The peer took back what it had reported in a gap block (reneging). Among the transmissions
    /// the chunk counts as sent now: SACKs that overtook each other look the same.
    pub(super) fn revoke(&mut self, index: u64, now: Time, paths: &mut Paths) -> Option<PathId> {
        self.serial += 1;
        let serial = self.serial;
        let chunk = self
            .chunk_mut(index)
            .filter(|c| c.state == ChunkState::Acked && !c.is_settled())?;
        chunk.state = ChunkState::InFlight;
        chunk.taken_back = true;
        (chunk.sent, chunk.serial) = (now, serial);
        let (payload, path) = (chunk.len(), chunk.path);
        self.in_flight += payload;
        let weight = self.weight(payload);
        paths[path].flight_size += weight;
        let sacked = &mut paths[path].recovery.rack.sacked;
        *sacked = sacked.saturating_sub(weight);
        let earliest = &mut paths[path].earliest;
        *earliest = Some(earliest.map_or(index, |e| e.min(index)));
        self.link(index, path, paths);
        Some(path)
    }

    /// The peer has this acknowledged chunk for good: its bytes are freed. Returns the number of its
    /// message, and how many they were, if that is news.
    pub(super) fn release(&mut self, index: u64, paths: &mut Paths) -> Option<(u64, usize)> {
        let chunk = self.chunk_mut(index)?;
        if chunk.state != ChunkState::Acked || chunk.is_settled() {
            return None;
        }
        let freed = core::mem::take(&mut chunk.payload).len();
        chunk.released = freed as u32;
        let (message, path) = (chunk.message, &mut paths[chunk.path]);
        path.buffered = path.buffered.saturating_sub(freed);
        self.held -= freed;
        Some((message, freed))
    }

    /// Forgets the first chunk: it was acknowledged, or the association is no more.
    pub(super) fn pop_front(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.first += 1;
        if chunk.state == ChunkState::InFlight {
            self.in_flight -= chunk.len();
        }
        self.held -= chunk.payload.len();
        if chunk.is_abandoned() {
            self.partial().abandoned -= 1;
        } else {
            self.messages -= usize::from(chunk.flags.ending);
        }
        Some(chunk)
    }

    /// Gives up a chunk; returns its bytes if that was not done before.
    pub(super) fn abandon(&mut self, index: u64, paths: &mut Paths) -> Option<Bytes> {
        let chunk = self.chunk(index).filter(|c| !c.is_abandoned())?;
        let (state, weight) = (chunk.state, self.weight(chunk.len()));
        let awaited = state == ChunkState::InFlight;
        let (on, payload) = (chunk.path, chunk.payload.len());
        let path = &mut paths[chunk.path];
        path.buffered = path.buffered.saturating_sub(payload);
        path.timed = path.timed.filter(|t| t.0 != index);
        if state == ChunkState::Acked {
            let sacked = &mut path.recovery.rack.sacked;
            *sacked = sacked.saturating_sub(weight);
        }
        if chunk.transmissions > 1 {
            paths
                .iter_mut()
                .for_each(|p| p.recovery.on_abandoned(index));
        }
        if awaited {
            self.land(index, paths);
        }
        self.marked.remove(index, on);
        let chunk = self.chunk_mut(index)?;
        chunk.state = ChunkState::Abandoned { awaited };
        let payload = core::mem::take(&mut chunk.payload);
        let ending = chunk.flags.ending;
        self.held -= payload.len();
        self.messages -= usize::from(ending);
        self.partial().abandoned += 1;
        Some(payload)
    }

    fn partial(&mut self) -> &mut Partial {
        self.partial.get_or_insert_default()
    }

    /// A message was given up of which a part was sent and a part was not. It gets one more TSN,
    /// which is never sent: without it, the message that comes next would directly follow one
    /// that has no end, and what the peer has acknowledged of this one could not be skipped.
    pub(super) fn push_abandoned_ending(&mut self, options: &SendOptions, mid: Mid, fsn: Fsn) {
        self.partial().abandoned += 1;
        self.chunks.push_back(Chunk {
            payload: Bytes::new(),
            released: 0,
            message: 0,
            context: options.context,
            ppid: options.ppid,
            transmissions: 0,
            stream: options.stream,
            mid,
            fsn,
            flags: DataFlags {
                immediate: false,
                unordered: options.unordered,
                beginning: false,
                ending: true,
            },
            path: PathId(0),
            ambiguous: false,
            state: ChunkState::Abandoned { awaited: false },
            fast_retransmitted: false,
            leads: false,
            taken_back: false,
            sent: Time::ZERO,
            serial: 0,
            older: 0,
            newer: 0,
        });
    }

    /// A chunk that was given up while it was in flight turns out to be lost. Says so once.
    pub(super) fn misses_abandoned(&mut self, index: u64) -> bool {
        let Some(chunk) = self.chunk_mut(index) else {
            return false;
        };
        match &mut chunk.state {
            ChunkState::Abandoned { awaited } => core::mem::take(awaited),
            _ => false,
        }
    }

    pub(super) fn has_abandoned(&self) -> bool {
        self.partial.as_ref().is_some_and(|p| p.abandoned > 0)
    }

    /// Messages to be judged because chunks of them were marked.
    pub(super) fn take_questioned(&mut self) -> Vec<(u64, u32)> {
        let partial = self.partial.as_mut();
        partial.map_or_else(Vec::new, |p| core::mem::take(&mut p.questioned))
    }

    /// The lowest chunk in flight on a path, searched from where it was last known.
    pub(super) fn find_earliest(&self, path: PathId, from: u64) -> Option<u64> {
        let from = from.max(self.first);
        let skip = usize::try_from(from - self.first).ok()?;
        self.chunks
            .iter()
            .skip(skip)
            .position(|c| c.path == path && c.state == ChunkState::InFlight)
            .map(|p| from + p as u64)
    }

    /// The lowest chunk to be sent again.
    pub(crate) fn first_marked(&self) -> Option<u64> {
        self.marked.next(None, 0)
    }

    pub(crate) fn has_marked(&self) -> bool {
        !self.marked.is_empty()
    }

    /// Chunks to be sent again, lowest first, from an index on.
    pub(crate) fn next_marked(&self, from: u64) -> Option<u64> {
        self.marked.next(None, from)
    }

    /// The same for those that were lost on one path, where that is known.
    pub(crate) fn next_marked_of(&self, of: Option<PathId>, from: u64) -> Option<u64> {
        self.marked.next(of, from)
    }
}
