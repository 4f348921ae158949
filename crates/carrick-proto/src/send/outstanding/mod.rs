//! DATA chunks that were sent and are not acknowledged cumulatively, by their TSN.
//!
//! Inside, a TSN is an index, which never wraps; the initial TSN has index 1. What a SACK says is
//! compared with what the one before said, range by range, so that only chunks whose state changes
//! are touched.
//!
//! - `chunk`: one chunk
//! - `flight`: sent again, lost, taken back
//! - `order`: the order of transmission
//! - `moves`: all chunks of a path at once
//! - `partial`: what was given up

mod chunk;
mod flight;
mod moves;
mod order;
mod partial;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};

use carrick_wire::{DATA_HEADER_LEN, Tsn, padded};

use super::marked::Marked;
use super::queue::Piece;
use super::ranges::Ranges;
use super::settled::Settled;
use crate::looks::Looks;
use crate::path::{Path, PathId, Paths};
use crate::time::Time;
pub(super) use chunk::Arrived;
pub(crate) use chunk::{Chunk, ChunkState};
use partial::Partial;

#[derive(Debug)]
pub(crate) struct Outstanding {
    chunks: VecDeque<Chunk>,
    /// Index of the first of `chunks`; the one before it is the Cumulative TSN Ack Point.
    first: u64,
    /// TSN of index 0.
    origin: Tsn,
    /// What the last report had above the cumulative TSN.
    pub(super) acked: Ranges,
    /// What the peer will not take back, whether it reports that again or not.
    pub(super) settled: Settled,
    /// Indexes of chunks in state [`ChunkState::Marked`].
    pub(super) marked: Marked,
    /// User bytes in flight.
    in_flight: usize,
    /// User bytes held for retransmission, acknowledged in gap blocks or not.
    held: usize,
    /// Chunks that are acknowledged as non-renegable and not abandoned.
    released: usize,
    /// Messages whose last fragment is here.
    messages: usize,
    count_header: bool,
    /// Transmissions made, and what counts as one.
    serial: u64,
    /// Transmissions made.
    sent: u64,
    /// What moves of chunks from path to path have cost; see [`Self::affords_move`].
    looked_at: u64,
    tracking: Tracking,
    /// The header of a chunk: that of DATA, or of I-DATA.
    header_len: usize,
    /// Only where messages may be given up.
    partial: Option<Box<Partial>>,
    /// Chunks in flight that have left flight before: sent again, or reneged on. All others have been in
    /// flight since they were sent first; see [`Self::find_earliest`].
    again: BTreeSet<(PathId, u64)>,
    /// Chunks examined in search of the lowest in flight, for the tests that bound the work.
    pub(super) searched: Looks,
    /// Chunks acknowledged and reneged on, for the tests that bound the work.
    pub(super) changed: Looks,
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

impl Outstanding {
    pub(super) fn new(initial_tsn: Tsn, count_header: bool, tracking: Tracking) -> Self {
        Self {
            chunks: VecDeque::new(),
            first: 1,
            origin: initial_tsn.previous(),
            acked: Ranges::new(),
            settled: Settled::default(),
            marked: Marked::new(tracking.marked_by_path),
            in_flight: 0,
            held: 0,
            released: 0,
            messages: 0,
            count_header,
            partial: None,
            serial: 0,
            sent: 0,
            looked_at: 0,
            tracking,
            header_len: DATA_HEADER_LEN,
            again: BTreeSet::new(),
            searched: Looks::default(),
            changed: Looks::default(),
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

    /// Returns whether each chunk is abandoned or acknowledged as non-renegable.
    pub(crate) fn is_finished(&self) -> bool {
        self.counted() == self.released
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
        self.sent += 1;
        let path = &mut paths[to];
        path.buffered += payload;
        path.chunks += 1;
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
            again: false,
            sent: now,
            serial: self.serial,
            older: 0,
            newer: 0,
        });
        self.link(index, to, paths);
        index
    }

    /// Chunks that left so far, again or for the first time.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Transmissions made so far, which is the number of the last one.
    pub(crate) fn transmissions(&self) -> u64 {
        self.serial
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
        self.changed.note();
        Some(Arrived {
            weight: self.weight(payload),
            ..arrived
        })
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
        self.released += 1;
        Some((message, freed))
    }

    /// Forgets the first chunk: it was acknowledged, or the association is no more.
    pub(super) fn pop_front(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.first += 1;
        if chunk.state == ChunkState::InFlight {
            self.in_flight -= chunk.len();
            self.again.remove(&(chunk.path, self.first - 1));
        }
        self.held -= chunk.payload.len();
        if chunk.is_abandoned() {
            self.partial().abandoned -= 1;
        } else {
            self.messages -= usize::from(chunk.flags.ending);
            self.released -= usize::from(chunk.is_settled());
        }
        Some(chunk)
    }

    /// Returns the lowest chunk in flight on a path.
    ///
    /// A chunk that has left flight is found among [`Self::again`] when it is in flight once more. So the
    /// search through all the others never has to return: it costs each path one look at each chunk.
    pub(super) fn find_earliest(&self, path: &mut Path) -> Option<u64> {
        let id = path.id;
        let mut index = path.recovery.searched.max(self.first);
        let unbroken = |c: &Chunk| c.path == id && c.state == ChunkState::InFlight && !c.again;
        while let Some(chunk) = self.chunk(index) {
            self.searched.note();
            if unbroken(chunk) {
                break;
            }
            index += 1;
        }
        path.recovery.searched = index;
        let unbroken = (index < self.next_index()).then_some(index);
        let again = self.again.range((id, 0)..=(id, u64::MAX)).next();
        unbroken.into_iter().chain(again.map(|a| a.1)).min()
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
