//! DATA chunks that were sent and are not acknowledged cumulatively, by their TSN.
//!
//! Internally, a TSN is an index, which never wraps; the initial TSN has index 1. The Gap Ack Blocks of a
//! SACK are compared with those of the last one, range by range, so that only chunks whose state changes
//! are visited.
//!
//! - `chunk`: one chunk
//! - `flight`: chunks that enter and leave flight
//! - `order`: order of transmission
//! - `moves`: all chunks of a path at once
//! - `marked`: chunks marked for retransmission
//! - `abandoned`: abandoned chunks
//! - `non_renegable`: chunks that the peer may not renege on
//! - `reported`: comparison of reports
//! - `ranges`: ranges of indexes

mod abandoned;
mod chunk;
mod flight;
mod marked;
mod moves;
mod non_renegable;
mod order;
mod ranges;
mod reported;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};

use alloc::vec::Vec;

use carrick_wire::{DATA_HEADER_LEN, I_DATA_HEADER_LEN, Tsn, padded};

use super::queue::NewChunk;
use crate::capacity::{FreeIfEmpty, ReserveDoubling};
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::path::{Path, PathId, Paths};
use crate::range_set::RangeSet;
use crate::time::Time;
use crate::work_counter::WorkCounter;
use abandoned::AbandonedChunks;
pub(super) use chunk::AckedChunk;
pub(crate) use chunk::{Chunk, ChunkState};
use marked::MarkedChunks;
pub(super) use ranges::{Ranges, from_gap_ack_blocks, union};
pub(super) use reported::count;

/// Highest index of an import: no association sends as many chunks.
const MAX_INDEX: u64 = 1 << 62;

#[derive(Debug)]
pub(crate) struct Outstanding {
    chunks: VecDeque<Chunk>,
    /// Index of the first of `chunks`, right above the Cumulative TSN Ack Point.
    first: u64,
    /// TSN of index 0.
    origin: Tsn,
    /// Ranges of the last report's Gap Ack Blocks.
    reported: Ranges,
    /// Chunks acknowledged as non-renegable, whether the last report lists them or not.
    non_renegable: RangeSet,
    /// Indexes of chunks in state [`ChunkState::Marked`].
    marked: MarkedChunks,
    /// User bytes in flight.
    in_flight: usize,
    chunks_in_flight: usize,
    /// User bytes held for retransmission, acknowledged in gap blocks or not.
    held: usize,
    /// Number of chunks that are acknowledged as non-renegable and not abandoned.
    released: usize,
    /// Number of messages whose last fragment is outstanding.
    messages: usize,
    count_header: bool,
    /// Number of the last transmission; chunks that the peer reneged on count as sent again.
    serial: u64,
    /// Number of transmissions.
    sent: u64,
    /// Number of chunks examined for moves between paths; see [`Self::permits_move`].
    examined: u64,
    tracking: Tracking,
    /// Length of the header of DATA or I-DATA.
    header_len: usize,
    /// Allocated with the first chunk of a message that may be abandoned.
    abandoned: Option<Box<AbandonedChunks>>,
    /// Chunks that are in flight once more: retransmitted, or reneged on. All others have been in flight
    /// since their first transmission; see [`Self::update_earliest`].
    in_flight_again: BTreeSet<(PathId, u64)>,
    /// Chunks examined in search of the lowest in flight.
    pub(super) searched: WorkCounter,
    /// Chunks acknowledged and reneged on.
    pub(super) changed: WorkCounter,
}

/// Optional records about outstanding chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracking {
    /// Order of transmission on each path.
    pub(super) ordered: bool,
    /// Chunks stay in that order after a fast retransmission; otherwise they are not fast retransmitted again
    /// (RFC 9260, section 7.2.4, step 5).
    pub(super) repeated: bool,
    /// Path on which marked chunks were lost.
    pub(super) marked_by_path: bool,
}

portable_struct! { Tracking { ordered, repeated, marked_by_path } }

/// Chunks in order; counters and sets are rebuilt.
impl Portable for Outstanding {
    fn write(&self, out: &mut ExportWriter) {
        let Self {
            chunks,
            first,
            origin,
            reported,
            non_renegable,
            marked: _,
            in_flight: _,
            chunks_in_flight: _,
            held: _,
            released: _,
            messages: _,
            count_header,
            serial,
            sent,
            examined,
            tracking,
            header_len,
            abandoned,
            in_flight_again: _,
            searched: _,
            changed: _,
        } = self;
        tracking.write(out);
        origin.write(out);
        count_header.write(out);
        chunks.write(out);
        first.write(out);
        reported.write(out);
        non_renegable.write(out);
        serial.write(out);
        sent.write(out);
        examined.write(out);
        header_len.write(out);
        let candidates = abandoned.as_ref().map(|abandoned| &abandoned.candidates);
        candidates.is_some().write(out);
        if let Some(candidates) = candidates {
            candidates.write(out);
        }
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let tracking = Portable::read(input)?;
        let origin = Tsn::read(input)?;
        let mut read = Self::new(origin.next(), Portable::read(input)?, tracking);
        read.chunks = Portable::read(input)?;
        read.first = Portable::read(input)?;
        read.reported = Portable::read(input)?;
        read.non_renegable = Portable::read(input)?;
        read.serial = Portable::read(input)?;
        read.sent = Portable::read(input)?;
        read.examined = Portable::read(input)?;
        read.header_len = Portable::read(input)?;
        let candidates = Option::<Vec<(u64, u32)>>::read(input)?;
        if let Some(candidates) = candidates {
            read.abandoned_chunks().candidates = candidates;
        }
        if !read.is_consistent() {
            return Err(ImportError::Malformed("Outstanding"));
        }
        read.recount();
        Ok(read)
    }
}

impl Outstanding {
    /// Rebuilds the counters and sets of an import from its chunks.
    fn recount(&mut self) {
        let mut abandoned = 0;
        for (chunk, index) in self.chunks.iter().zip(self.first..) {
            self.held += chunk.payload.len();
            match chunk.state {
                ChunkState::Abandoned { .. } => {
                    abandoned += 1;
                    continue;
                }
                ChunkState::InFlight => {
                    self.in_flight += chunk.len();
                    self.chunks_in_flight += 1;
                }
                ChunkState::Marked(_) => self.marked.insert(index, chunk.path),
                ChunkState::Acked => {}
            }
            if chunk.in_flight_again {
                self.in_flight_again.insert((chunk.path, index));
            }
            self.messages += usize::from(chunk.flags.ending);
            self.released += usize::from(chunk.is_non_renegable());
        }
        if abandoned > 0 {
            self.abandoned_chunks().count = abandoned;
        }
    }

    /// Returns whether the chunks of an import are possible.
    fn is_consistent(&self) -> bool {
        let possible = |chunk: &Chunk| match chunk.state {
            ChunkState::Abandoned { .. } => chunk.payload.is_empty() && !chunk.in_flight_again,
            ChunkState::InFlight => chunk.released == 0 && !chunk.payload.is_empty(),
            ChunkState::Acked => {
                !chunk.in_flight_again && (chunk.payload.is_empty() || chunk.released == 0)
            }
            ChunkState::Marked(_) => {
                chunk.released == 0 && !chunk.payload.is_empty() && !chunk.in_flight_again
            }
        };
        let ascending = |ranges: &[(u64, u64)]| {
            ranges.iter().all(|range| range.0 <= range.1)
                && ranges.windows(2).all(|pair| pair[0].1 < pair[1].0)
        };
        let (head, tail) = self.reported.as_slices();
        let between = match (head.last(), tail.first()) {
            (Some(before), Some(after)) => before.1 < after.0,
            _ => true,
        };
        (1..=MAX_INDEX).contains(&self.first)
            && self.serial.max(self.sent) <= MAX_INDEX
            && self
                .reported
                .back()
                .is_none_or(|range| range.1 <= MAX_INDEX)
            && [DATA_HEADER_LEN, I_DATA_HEADER_LEN].contains(&self.header_len)
            && ascending(head)
            && ascending(tail)
            && between
            && self.chunks.iter().all(possible)
    }

    /// Returns whether the order of transmission of an import leads from the oldest chunk to an end.
    pub(in crate::tx) fn order_ends(&self, oldest: u64) -> bool {
        let mut next = oldest;
        let mut left = self.chunks.len();
        while let Some(chunk) = self.chunk(next) {
            if left == 0 {
                return false;
            }
            left -= 1;
            next = chunk.newer;
        }
        true
    }

    pub(super) fn new(initial_tsn: Tsn, count_header: bool, tracking: Tracking) -> Self {
        Self {
            chunks: VecDeque::new(),
            first: 1,
            origin: initial_tsn.previous(),
            reported: Ranges::new(),
            non_renegable: RangeSet::default(),
            marked: MarkedChunks::new(tracking.marked_by_path),
            in_flight: 0,
            chunks_in_flight: 0,
            held: 0,
            released: 0,
            messages: 0,
            count_header,
            abandoned: None,
            serial: 0,
            sent: 0,
            examined: 0,
            tracking,
            header_len: DATA_HEADER_LEN,
            in_flight_again: BTreeSet::new(),
            searched: WorkCounter::default(),
            changed: WorkCounter::default(),
        }
    }

    pub(crate) fn header_len(&self) -> usize {
        self.header_len
    }

    /// Sets the length of the chunks' headers. No chunk is outstanding.
    pub(crate) fn set_header_len(&mut self, header_len: usize) {
        self.header_len = header_len;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns whether each chunk is abandoned or acknowledged as non-renegable.
    pub(crate) fn is_finished(&self) -> bool {
        self.not_abandoned() == self.released
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// User bytes in flight on all paths: neither acknowledged nor marked.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Number of chunks in flight on all paths.
    pub(crate) fn chunks_in_flight(&self) -> usize {
        self.chunks_in_flight
    }

    /// User bytes that are held because the peer has not acknowledged them cumulatively.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Number of messages that are sent completely and not acknowledged.
    pub(crate) fn messages(&self) -> usize {
        self.messages
    }

    /// Index of the next new chunk.
    pub(crate) fn next_index(&self) -> u64 {
        self.first + self.chunks.len() as u64
    }

    pub(crate) fn first_index(&self) -> u64 {
        self.first
    }

    pub(crate) fn tsn(&self, index: u64) -> Tsn {
        self.origin.plus(index as u32)
    }

    /// Continues with this TSN. No chunk is outstanding.
    pub(crate) fn renumber(&mut self, next: Tsn) {
        debug_assert!(self.is_empty());
        self.origin = next.minus(self.next_index() as u32);
    }

    pub(crate) fn cumulative_point(&self) -> Tsn {
        self.tsn(self.first - 1)
    }

    /// Index of a TSN at or above the Cumulative TSN Ack Point; `None` below it.
    pub(crate) fn index_of(&self, tsn: Tsn) -> Option<u64> {
        let point = self.cumulative_point();
        tsn.is_at_or_after(point)
            .then(|| self.first - 1 + u64::from(tsn.since(point)))
    }

    /// Index of a TSN that was sent, acknowledged or not.
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

    /// Bytes that a chunk counts in the flight size.
    pub(super) fn weight(&self, payload: usize) -> usize {
        if self.count_header {
            padded(self.header_len + payload)
        } else {
            payload
        }
    }

    /// Adds a new chunk, which leaves on a path; returns its index.
    pub(crate) fn push(
        &mut self,
        chunk: NewChunk,
        to: PathId,
        first_in_packet: bool,
        now: Time,
        paths: &mut Paths,
    ) -> u64 {
        let index = self.next_index();
        let payload = chunk.payload.len();
        self.held += payload;
        self.in_flight += payload;
        self.chunks_in_flight += 1;
        self.messages += usize::from(chunk.flags.ending);
        self.serial += 1;
        self.sent += 1;
        let path = &mut paths[to];
        path.on_chunk_sent(index, payload, self.weight(payload));
        self.chunks.reserve_doubling();
        self.chunks.push_back(Chunk {
            payload: chunk.payload,
            released: 0,
            message: chunk.message,
            context: chunk.context,
            ppid: chunk.ppid,
            transmissions: 1,
            stream: chunk.stream,
            mid: chunk.mid,
            fsn: chunk.fsn,
            flags: chunk.flags,
            path: to,
            ambiguous: false,
            state: ChunkState::InFlight,
            fast_retransmitted: false,
            first_in_packet,
            delivery_uncertain: false,
            in_flight_again: false,
            sent: now,
            serial: self.serial,
            older: 0,
            newer: 0,
        });
        self.link(index, to, paths);
        index
    }

    /// Frees the memory for further chunks and records about them.
    pub(super) fn free_unused_memory(&mut self) {
        self.chunks.shrink_to_fit();
        self.reported.shrink_to_fit();
        self.non_renegable.free_if_empty();
        self.marked.free_if_empty();
        self.in_flight_again.free_if_empty();
    }

    /// Number of transmissions.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Number of the last transmission.
    pub(crate) fn transmissions(&self) -> u64 {
        self.serial
    }

    /// Acknowledges a chunk; returns it if it was not acknowledged before.
    pub(super) fn acknowledge(&mut self, index: u64, paths: &mut Paths) -> Option<AckedChunk> {
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
        let acked = AckedChunk {
            path,
            weight: 0,
            transmissions: chunk.transmissions,
            ambiguous: chunk.ambiguous,
            delivery_uncertain: chunk.delivery_uncertain,
            first_in_packet: chunk.first_in_packet,
            serial: chunk.serial,
            sent: chunk.sent,
        };
        if in_flight {
            self.leave_flight(index, path, payload, paths);
        } else {
            self.marked.remove(index, path);
        }
        self.changed.note();
        Some(AckedChunk {
            weight: self.weight(payload),
            ..acked
        })
    }

    /// Frees the bytes of a chunk that is acknowledged as non-renegable. Returns the number of its message
    /// and the freed bytes, if the chunk was renegable before.
    pub(super) fn release(&mut self, index: u64, paths: &mut Paths) -> Option<(u64, usize)> {
        let chunk = self.chunk_mut(index)?;
        if chunk.state != ChunkState::Acked || chunk.is_non_renegable() {
            return None;
        }
        let freed = core::mem::take(&mut chunk.payload).len();
        chunk.released = freed as u32;
        let (message, path) = (chunk.message, &mut paths[chunk.path]);
        path.flight_mut().release(freed);
        self.held -= freed;
        self.released += 1;
        Some((message, freed))
    }

    /// Removes the first chunk, which is acknowledged, or whose association ends.
    pub(super) fn pop_front(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.first += 1;
        if chunk.state == ChunkState::InFlight {
            self.in_flight -= chunk.len();
            self.chunks_in_flight -= 1;
            self.in_flight_again.remove(&(chunk.path, self.first - 1));
        }
        self.held -= chunk.payload.len();
        if chunk.is_abandoned() {
            self.abandoned_chunks().count -= 1;
        } else {
            self.messages -= usize::from(chunk.flags.ending);
            self.released -= usize::from(chunk.is_non_renegable());
        }
        Some(chunk)
    }

    /// Finds the lowest chunk in flight on a path.
    ///
    /// Retransmitted chunks in flight are found in [`Self::in_flight_again`]. So the search through all others
    /// never goes back: it examines each chunk once for each path.
    pub(super) fn update_earliest(&self, path: &mut Path) {
        let (id, flight) = (path.id(), path.flight_mut());
        if flight.size() == 0 {
            return flight.clear_earliest();
        }
        let mut index = flight.searched().max(self.first);
        let unbroken =
            |c: &Chunk| c.path == id && c.state == ChunkState::InFlight && !c.in_flight_again;
        while let Some(chunk) = self.chunk(index) {
            self.searched.note();
            if unbroken(chunk) {
                break;
            }
            index += 1;
        }
        let unbroken = (index < self.next_index()).then_some(index);
        let again = self.in_flight_again.range((id, 0)..=(id, u64::MAX)).next();
        let earliest = unbroken.into_iter().chain(again.map(|a| a.1)).min();
        flight.set_earliest(earliest, index);
    }

    /// Lowest chunk marked for retransmission.
    pub(crate) fn first_marked(&self) -> Option<u64> {
        self.marked.next(None, 0)
    }

    pub(crate) fn has_marked(&self) -> bool {
        !self.marked.is_empty()
    }

    /// Lowest chunk marked for retransmission, from an index on.
    pub(crate) fn next_marked(&self, from: u64) -> Option<u64> {
        self.marked.next(None, from)
    }

    /// Lowest chunk marked for retransmission that was lost on a path, where that is recorded.
    pub(crate) fn next_marked_of(&self, of: Option<PathId>, from: u64) -> Option<u64> {
        self.marked.next(of, from)
    }
}
