//! Advanced.Peer.Ack.Point, and the FORWARD-TSN or I-FORWARD-TSN that carries it (RFC 3758, section 3.5;
//! RFC 8260, section 2.3.1).
//!
//! Skipped messages are recorded as the point moves, in one entry for each stream, so that writing the chunk
//! examines no data. With I-FORWARD-TSN a stream has two entries: ordered and unordered messages are
//! numbered separately.

use alloc::collections::BTreeMap;

use carrick_wire::{
    ForwardTsn, IForwardTsn, Mid, PacketBuilder, SkippedMessage, Ssn, StreamId, Tsn,
};

use crate::path::PathId;
use crate::time::Time;
use crate::tx::outstanding::{Chunk, Outstanding};

/// Limit of the SSNs of one stream that a FORWARD-TSN skips: more would be a step back in serial number
/// arithmetic.
const MAX_SKIPPED: u16 = 0x7fff;

/// Chunk that carries the Advanced.Peer.Ack.Point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::tx) enum ForwardKind {
    /// FORWARD-TSN, with DATA.
    #[default]
    Ssns,
    /// I-FORWARD-TSN, with I-DATA.
    Mids,
}

portable_enum! { ForwardKind { 0: Ssns, 1: Mids } }

impl ForwardKind {
    /// Length of the chunk with this number of entries.
    pub(in crate::tx) fn chunk_len(self, entries: usize) -> usize {
        match self {
            Self::Ssns => ForwardTsn::chunk_len(entries),
            Self::Mids => IForwardTsn::chunk_len(entries),
        }
    }

    /// Number of entries of a chunk that fills a packet with this room for chunks.
    pub(in crate::tx) fn max_entries(self, room: usize) -> usize {
        let entry = self.chunk_len(1) - self.chunk_len(0);
        room.saturating_sub(self.chunk_len(0)) / entry
    }

    /// Returns whether a message needs an entry: an unordered one has no SSN.
    fn names(self, chunk: &Chunk) -> bool {
        self == Self::Mids || !chunk.flags.unordered
    }

    /// Returns whether one entry can stand for these messages: serial number arithmetic orders half of all
    /// SSNs, while there are enough MIDs.
    fn spans(self, first: Mid, last: Mid) -> bool {
        self == Self::Mids || last.since(first) < u32::from(MAX_SKIPPED)
    }
}

/// Ordered or unordered messages of a stream, which are numbered separately.
type Sequence = (StreamId, bool);

/// Skipped messages of one sequence.
#[derive(Clone, Copy, Debug)]
struct Skipped {
    sequence: Sequence,
    first: Mid,
    last: Mid,
}

portable_struct! { Skipped { sequence, first, last } }

/// Last transmission of the chunk.
#[derive(Clone, Copy, Debug)]
struct ForwardTransmission {
    path: PathId,
    at: Time,
    point: u64,
    /// The chunk was sent on several paths: its acknowledgement does not show which of them works.
    ambiguous: bool,
}

portable_struct! { ForwardTransmission { path, at, point, ambiguous } }

/// Advanced.Peer.Ack.Point and the chunk that carries it.
#[derive(Debug, Default)]
pub(in crate::tx) struct Forward {
    /// Advanced.Peer.Ack.Point, as an index.
    point: u64,
    /// Messages skipped above the Cumulative TSN Ack Point, by the index of the last chunk.
    skipped: BTreeMap<u64, Skipped>,
    /// Key of each sequence's entry in `skipped`.
    position: BTreeMap<Sequence, u64>,
    /// The chunk leaves with the next packet.
    due: bool,
    /// Last transmission that is not acknowledged.
    sent: Option<ForwardTransmission>,
    /// Path on which T3-rtx expired after the last transmission.
    lost_on: Option<PathId>,
}

portable_struct! { Forward { point, skipped, position, due, sent, lost_on } }

/// Path of an acknowledged FORWARD-TSN, if it was sent on one path only.
pub(in crate::tx) type AckedOn = Option<PathId>;

impl Forward {
    /// Processes a Cumulative TSN Ack (RFC 3758, section 3.5, C1); returns the acknowledged transmission, if
    /// any.
    pub(in crate::tx) fn on_cumulative(&mut self, cumulative: u64) -> Option<AckedOn> {
        while let Some(entry) = self.skipped.first_entry() {
            if *entry.key() > cumulative {
                break;
            }
            let skipped = entry.remove();
            self.position.remove(&skipped.sequence);
        }
        if self.point <= cumulative {
            self.point = cumulative;
            self.due = false;
            self.lost_on = None;
        }
        let sent = self.sent.take_if(|sent| sent.point <= cumulative)?;
        Some((!sent.ambiguous).then_some(sent.path))
    }

    /// Moves the point (RFC 3758, section 3.5, C2) over abandoned chunks, as far as a chunk with this number of
    /// entries reaches, and over unfragmented messages that are acknowledged as non-renegable, so that what
    /// was abandoned above them needs no further round trip. A non-renegable fragment is not passed: the
    /// peer would drop the rest of its message (section 3.6).
    pub(in crate::tx) fn advance(
        &mut self,
        outstanding: &Outstanding,
        kind: ForwardKind,
        max_entries: usize,
    ) {
        self.point = self.point.max(outstanding.first_index() - 1);
        while let Some(chunk) = outstanding.chunk(self.point + 1) {
            let abandoned = chunk.is_abandoned();
            let kept = chunk.is_non_renegable() && chunk.flags.beginning && chunk.flags.ending;
            if !abandoned && !kept {
                break;
            }
            if abandoned && kind.names(chunk) && !self.skip(chunk, kind, max_entries) {
                break;
            }
            self.point += 1;
            self.due |= abandoned;
        }
    }

    /// Records the chunk above the point as skipped; returns whether its entry fits.
    fn skip(&mut self, chunk: &Chunk, kind: ForwardKind, max_entries: usize) -> bool {
        let index = self.point + 1;
        let sequence = (chunk.stream, chunk.flags.unordered);
        let mut entry = Skipped {
            sequence,
            first: chunk.mid,
            last: chunk.mid,
        };
        if let Some(at) = self.position.get(&sequence) {
            let Some(known) = self.skipped.get(at) else {
                return false;
            };
            if !kind.spans(known.first, chunk.mid) {
                return false;
            }
            entry.first = known.first;
            self.skipped.remove(at);
        } else if self.skipped.len() >= max_entries {
            return false;
        }
        self.position.insert(sequence, index);
        self.skipped.insert(index, entry);
        true
    }

    /// Resets the point to the Cumulative TSN Ack Point: packets have become too small for the entries.
    pub(in crate::tx) fn restart(&mut self, cumulative: u64) {
        self.point = cumulative;
        self.skipped.clear();
        self.position.clear();
    }

    /// Makes the chunk due again after a SACK below the point (RFC 3758, section 3.5, C3), at most once a
    /// round trip.
    pub(in crate::tx) fn repeat(&mut self, now: Time, round_trip: core::time::Duration) {
        self.due |= self.sent.is_some_and(|sent| now >= sent.at + round_trip);
    }

    /// Makes the chunk due on any path.
    pub(in crate::tx) fn make_due(&mut self) {
        self.due = true;
        self.lost_on = None;
    }

    /// Makes the chunk due if it was sent on a path whose T3-rtx expired (RFC 3758, section 3.5, A5).
    pub(in crate::tx) fn on_t3(&mut self, path: PathId) {
        if self.is_awaited_on(path) {
            self.due = true;
            self.lost_on = Some(path);
        }
    }

    /// Makes a chunk due that was sent on a path which is removed or rerouted.
    pub(in crate::tx) fn forget_path(&mut self, path: PathId, cumulative: u64) {
        self.lost_on = self.lost_on.filter(|lost| *lost != path);
        if self.is_awaited_on(path) {
            self.forget_paths(cumulative);
        }
    }

    /// Makes a chunk due that was sent on any path: all paths are replaced.
    pub(in crate::tx) fn forget_paths(&mut self, cumulative: u64) {
        self.sent = None;
        self.lost_on = None;
        self.due = self.point > cumulative;
    }

    pub(in crate::tx) fn is_due(&self) -> bool {
        self.due
    }

    /// Returns whether the last transmission was on this path and is not acknowledged.
    pub(in crate::tx) fn is_awaited_on(&self, path: PathId) -> bool {
        self.sent.is_some_and(|sent| sent.path == path)
    }

    pub(in crate::tx) fn awaited_on(&self) -> Option<PathId> {
        self.sent.map(|sent| sent.path)
    }

    pub(in crate::tx) fn lost_on(&self) -> Option<PathId> {
        self.lost_on
    }

    pub(in crate::tx) fn point(&self) -> u64 {
        self.point
    }

    /// Number of entries of the chunk.
    pub(in crate::tx) fn len(&self) -> usize {
        self.skipped.len()
    }

    /// Writes the chunk: the last skipped number of each sequence.
    pub(in crate::tx) fn write(
        &self,
        kind: ForwardKind,
        point: Tsn,
        packet: &mut PacketBuilder<'_>,
    ) {
        let skipped = self.skipped.values();
        match kind {
            ForwardKind::Ssns => packet.forward_tsn(
                point,
                skipped.map(|s| (s.sequence.0, Ssn::new(s.last.value() as u16))),
            ),
            ForwardKind::Mids => packet.i_forward_tsn(
                point,
                skipped.map(|s| SkippedMessage {
                    stream: s.sequence.0,
                    unordered: s.sequence.1,
                    mid: s.last,
                }),
            ),
        }
    }

    /// Records a transmission.
    pub(in crate::tx) fn sent(&mut self, path: PathId, now: Time) {
        let ambiguous = self
            .sent
            .is_some_and(|before| before.ambiguous || before.path != path);
        self.due = false;
        self.lost_on = None;
        self.sent = Some(ForwardTransmission {
            path,
            at: now,
            point: self.point,
            ambiguous,
        });
    }
}
