//! The Advanced.Peer.Ack.Point and the FORWARD-TSN or I-FORWARD-TSN that tells the peer of it (RFC
//! 3758 section 3.5, RFC 8260 section 2.3.1).
//!
//! What is skipped is kept as the point moves, one entry a stream, so that writing the chunk looks
//! at no data. With I-FORWARD-TSN a stream has two: the ordered and the unordered messages are
//! numbered by themselves.

use alloc::collections::BTreeMap;

use carrick_wire::{
    ForwardTsn, IForwardTsn, Mid, PacketBuilder, SkippedMessage, Ssn, StreamId, Tsn,
};

use crate::path::PathId;
use crate::send::outstanding::{Chunk, Outstanding};
use crate::time::Time;

/// SSNs of one stream that one FORWARD-TSN skips at most: more would look like a step back.
const MAX_SKIPPED: u16 = 0x7fff;

/// Which chunk tells the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::send) enum ForwardKind {
    /// FORWARD-TSN, with DATA.
    #[default]
    Ssns,
    /// I-FORWARD-TSN, with I-DATA.
    Mids,
}

impl ForwardKind {
    /// Bytes of the chunk with so many entries.
    pub(in crate::send) fn chunk_len(self, entries: usize) -> usize {
        match self {
            Self::Ssns => ForwardTsn::chunk_len(entries),
            Self::Mids => IForwardTsn::chunk_len(entries),
        }
    }

    /// Entries that fit into the chunk in a packet that holds so many bytes of chunks.
    pub(in crate::send) fn max_entries(self, room: usize) -> usize {
        let entry = self.chunk_len(1) - self.chunk_len(0);
        room.saturating_sub(self.chunk_len(0)) / entry
    }

    /// Whether a message needs an entry: an unordered one has no SSN.
    fn names(self, chunk: &Chunk) -> bool {
        self == Self::Mids || !chunk.flags.unordered
    }

    /// Whether one entry can stand for these messages. The order of SSNs ends at half of them; MIDs
    /// are too many for that.
    fn spans(self, first: Mid, last: Mid) -> bool {
        self == Self::Mids || last.since(first) < u32::from(MAX_SKIPPED)
    }
}

/// Numbers of their own: the ordered or the unordered messages of a stream.
type Sequence = (StreamId, bool);

/// The messages of one sequence that are skipped.
#[derive(Clone, Copy, Debug)]
struct Skipped {
    sequence: Sequence,
    first: Mid,
    last: Mid,
}

/// How the chunk left last.
#[derive(Clone, Copy, Debug)]
struct Sent {
    path: PathId,
    at: Time,
    point: u64,
    /// It went to other paths, too: its acknowledgement does not tell which one works.
    ambiguous: bool,
}

#[derive(Debug, Default)]
pub(in crate::send) struct Forward {
    /// Advanced.Peer.Ack.Point, as an index.
    point: u64,
    /// What was skipped above the Cumulative TSN Ack Point, by the index of its last chunk.
    skipped: BTreeMap<u64, Skipped>,
    /// Where a sequence's entry is in `skipped`.
    position: BTreeMap<Sequence, u64>,
    /// It leaves with the next packet.
    due: bool,
    /// It was sent and not acknowledged.
    sent: Option<Sent>,
    /// T3-rtx expired on this path while it was on its way there.
    lost_on: Option<PathId>,
}

/// An acknowledgement of a FORWARD-TSN: the path it was sent to, if to one only.
pub(in crate::send) type Acknowledgement = Option<PathId>;

impl Forward {
    /// C1: the peer's cumulative TSN. Says whether it acknowledges the chunk.
    pub(in crate::send) fn on_cumulative(&mut self, cumulative: u64) -> Option<Acknowledgement> {
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

    /// C2: moves the point over what was given up, as far as one chunk with these entries reaches, and
    /// over messages of one chunk that the peer has acknowledged as non-renegable: it loses nothing by
    /// that, and what was given up above them needs no further round trip. A fragment is not passed, because
    /// the peer drops the rest of its message with it (section 3.6).
    pub(in crate::send) fn advance(
        &mut self,
        outstanding: &Outstanding,
        kind: ForwardKind,
        max_entries: usize,
    ) {
        self.point = self.point.max(outstanding.first_index() - 1);
        while let Some(chunk) = outstanding.chunk(self.point + 1) {
            let abandoned = chunk.is_abandoned();
            let kept = chunk.is_settled() && chunk.flags.beginning && chunk.flags.ending;
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

    /// Notes that the chunk behind the point is skipped, unless that is more than fits.
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

    /// Begins anew at the Cumulative TSN Ack Point: packets have become too small for what was
    /// collected.
    pub(in crate::send) fn restart(&mut self, cumulative: u64) {
        self.point = cumulative;
        self.skipped.clear();
        self.position.clear();
    }

    /// C3: a SACK came that does not know of the point. A repetition waits for a round trip.
    pub(in crate::send) fn repeat(&mut self, now: Time, round_trip: core::time::Duration) {
        self.due |= self.sent.is_some_and(|sent| now >= sent.at + round_trip);
    }

    /// The chunk leaves with the next packet, whatever its path.
    pub(in crate::send) fn demand(&mut self) {
        self.due = true;
        self.lost_on = None;
    }

    /// T3-rtx of a path expired.
    pub(in crate::send) fn on_t3(&mut self, path: PathId) {
        if self.is_awaited_on(path) {
            self.due = true;
            self.lost_on = Some(path);
        }
    }

    /// A path is removed or leads elsewhere: what was sent there is not awaited any more, and goes
    /// another way.
    pub(in crate::send) fn forget_path(&mut self, path: PathId, cumulative: u64) {
        self.lost_on = self.lost_on.filter(|lost| *lost != path);
        if self.is_awaited_on(path) {
            self.forget_paths(cumulative);
        }
    }

    /// The association's paths are replaced.
    pub(in crate::send) fn forget_paths(&mut self, cumulative: u64) {
        self.sent = None;
        self.lost_on = None;
        self.due = self.point > cumulative;
    }

    pub(in crate::send) fn is_due(&self) -> bool {
        self.due
    }

    /// It was sent to this path last, and its acknowledgement is missing.
    pub(in crate::send) fn is_awaited_on(&self, path: PathId) -> bool {
        self.sent.is_some_and(|sent| sent.path == path)
    }

    pub(in crate::send) fn awaited_on(&self) -> Option<PathId> {
        self.sent.map(|sent| sent.path)
    }

    pub(in crate::send) fn lost_on(&self) -> Option<PathId> {
        self.lost_on
    }

    pub(in crate::send) fn point(&self) -> u64 {
        self.point
    }

    /// Entries of the chunk.
    pub(in crate::send) fn len(&self) -> usize {
        self.skipped.len()
    }

    /// Writes the chunk: each sequence with the last number that is skipped.
    pub(in crate::send) fn write(
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

    /// The chunk leaves.
    pub(in crate::send) fn sent(&mut self, path: PathId, now: Time) {
        let ambiguous = self
            .sent
            .is_some_and(|before| before.ambiguous || before.path != path);
        self.due = false;
        self.lost_on = None;
        self.sent = Some(Sent {
            path,
            at: now,
            point: self.point,
            ambiguous,
        });
    }
}
