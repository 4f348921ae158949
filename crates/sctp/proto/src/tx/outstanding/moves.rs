//! Operations on all chunks of a path: a timeout, or the move to another path.

use alloc::vec::Vec;

use super::{ChunkState, Outstanding};
use crate::path::{PathId, Paths};
use crate::tx::LossSignal;

/// Chunks that moves may examine for each transmission, and the limit of those that may be saved up.
const EXAMINED_PER_TRANSMISSION: u64 = 16;
const MAX_SAVED: u64 = EXAMINED_PER_TRANSMISSION * super::super::MAX_OUTSTANDING as u64;

/// Chunks that moves may examine besides, so that a few chunks may move at any time.
const EXAMINED_FREE: u64 = 4096;

impl Outstanding {
    /// Marks all chunks in flight that were last sent on a path. Chunks marked before count as marked by the
    /// timeout, which may direct them to another path (RFC 9260, section 6.4.1).
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

    /// Moves all chunks of one path to another; marks those in flight for retransmission, which their message
    /// may forbid as with any other mark (RFC 3758, section 4.1; RFC 7496, section 3.1).
    pub(crate) fn move_path(&mut self, from: PathId, to: PathId, paths: &mut Paths) {
        for index in self.find_all(from, paths) {
            let Some(chunk) = self.chunk(index) else {
                continue;
            };
            let in_flight = chunk.state == ChunkState::InFlight;
            let payload = chunk.payload.len();
            self.marked.moved(index, from, to);
            paths[from].flight_mut().remove_chunk(payload);
            paths[to].flight_mut().add_chunk(payload);
            let Some(chunk) = self.chunk(index) else {
                continue;
            };
            if in_flight {
                self.remove_from_flight(index, paths);
                self.marked.insert(index, to);
            } else if chunk.state == ChunkState::Acked {
                let weight = self.weight(chunk.len());
                let rack = paths[from].recovery_mut().rack_mut();
                rack.end_gap_ack(weight);
                let rack = paths[to].recovery_mut().rack_mut();
                rack.on_gap_ack(weight);
            }
            if let Some(chunk) = self.chunk_mut(index) {
                chunk.ambiguous |= from != to;
                chunk.path = to;
                let (message, transmissions) = (chunk.message, chunk.transmissions);
                if in_flight {
                    // Not lost by congestion, and eligible for a fast retransmission like a new chunk.
                    chunk.state = ChunkState::Marked(LossSignal::MissingReports);
                    chunk.fast_retransmitted = false;
                    if message != 0 {
                        self.abandoned_chunks()
                            .candidates
                            .push((message, transmissions));
                    }
                }
            }
        }
    }

    /// Chunks of a path, oldest first. The search goes from the newest chunk down to the last one found, so that
    /// it costs nothing for a path without chunks.
    fn find_all(&mut self, path: PathId, paths: &Paths) -> Vec<u64> {
        let mut left = paths[path].flight().chunks() as usize;
        let mut found = Vec::with_capacity(left);
        let mut index = self.next_index();
        let earned = self.sent.saturating_mul(EXAMINED_PER_TRANSMISSION);
        self.examined = self.examined.max(earned.saturating_sub(MAX_SAVED));
        for chunk in self.chunks.iter().rev() {
            if left == 0 {
                break;
            }
            index -= 1;
            self.examined += 1;
            if chunk.path == path && !chunk.is_abandoned() {
                found.push(index);
                left -= 1;
            }
        }
        found.reverse();
        found
    }

    /// Returns whether the chunks of this path may move at the peer's request. Each transmission pays for the
    /// examination of some chunks, so that a peer that deletes one address after the other does not
    /// have all chunks examined each time.
    pub(crate) fn permits_move(&self, from: PathId, paths: &Paths) -> bool {
        let earned = self.sent.saturating_mul(EXAMINED_PER_TRANSMISSION);
        paths[from].flight().chunks() == 0 || self.examined < earned.saturating_add(EXAMINED_FREE)
    }

    /// Number of chunks that are not abandoned.
    pub(crate) fn not_abandoned(&self) -> usize {
        let abandoned = self.abandoned.as_ref().map_or(0, |p| p.count);
        self.chunks.len() - abandoned
    }

    /// Moves all chunks, none of which is in flight, to the first of the paths, which are replaced.
    pub(crate) fn forget_paths(&mut self) {
        for chunk in &mut self.chunks {
            chunk.path = PathId(0);
        }
        self.marked.all_moved(PathId(0));
    }
}

#[cfg(test)]
mod tests {
    use carrick_wire::{StreamId, Tsn};
    use proptest::prelude::*;

    use super::super::{Outstanding, Tracking};
    use super::*;
    use crate::config::AssociationConfig;
    use crate::route::Route;
    use crate::time::Time;
    use crate::tx::queue::NewChunk;

    fn paths(count: u8) -> Paths {
        let config = AssociationConfig::rfc9260();
        let mut paths = Paths::new();
        for n in 1..=count {
            let remote = core::net::IpAddr::from([10, 0, 0, n]);
            let route = Route::plain("10.1.0.1".parse().unwrap(), remote);
            paths.add(route, true, &config).unwrap();
        }
        paths
    }

    fn outstanding() -> Outstanding {
        let tracking = Tracking {
            ordered: true,
            repeated: true,
            marked_by_path: true,
        };
        Outstanding::new(Tsn::new(1), false, tracking)
    }

    fn push(all: &mut Outstanding, to: PathId, paths: &mut Paths) -> u64 {
        let chunk = NewChunk::whole(0, StreamId(0));
        all.push(chunk, to, true, Time::ZERO, paths)
    }

    #[test]
    fn a_path_without_chunks_costs_nothing() {
        let (mut all, mut paths) = (outstanding(), paths(3));
        for _ in 0..10_000 {
            push(&mut all, PathId(0), &mut paths);
        }
        all.move_path(PathId(1), PathId(0), &mut paths);
        assert_eq!(all.examined, 0);
        push(&mut all, PathId(1), &mut paths);
        all.move_path(PathId(1), PathId(2), &mut paths);
        assert_eq!(all.examined, 1, "it is the newest");
        assert_eq!(paths[PathId(2)].flight().chunks(), 1);
    }

    #[test]
    fn moves_are_bounded_by_transmissions() {
        let (mut all, mut paths) = (outstanding(), paths(2));
        for _ in 0..10_000 {
            push(&mut all, PathId(0), &mut paths);
        }
        let (mut from, mut to) = (PathId(0), PathId(1));
        let mut moves = 0;
        while all.permits_move(from, &paths) {
            all.move_path(from, to, &mut paths);
            (from, to) = (to, from);
            moves += 1;
            assert!(moves < 100, "moves without transmissions are not bounded");
        }
        assert!(moves >= 16, "{moves} moves are allowed");
        assert!(all.permits_move(to, &paths), "the path has no chunks");
        for index in 1..=all.next_index() {
            all.retransmit(index, from, true, Time::ZERO, &mut paths);
        }
        assert!(
            all.permits_move(from, &paths),
            "all chunks were retransmitted"
        );
    }

    proptest! {
        #[test]
        fn per_path_counters_match_the_outstanding_chunks(steps in proptest::collection::vec((0_u8..9, 0_u8..3, 0_u8..3, any::<prop::sample::Index>()), 0..120)) {
            let (mut all, mut paths) = (outstanding(), paths(3));
            for (what, one, other, pick) in steps {
                let (one, other) = (PathId(one), PathId(other));
                let index = 1 + pick.index(all.len().max(1)) as u64;
                match what {
                    0 | 1 => drop(push(&mut all, one, &mut paths)),
                    2 => drop(all.abandon(index, &mut paths)),
                    4 | 5 => drop(all.acknowledge(index, &mut paths)),
                    6 | 7 => drop(all.renege(index, Time::ZERO, &mut paths)),
                    3 if all.mark(index, LossSignal::Timeout, &mut paths) => {
                        all.retransmit(index, other, true, Time::ZERO, &mut paths);
                    }
                    _ => all.move_path(one, other, &mut paths),
                }
                for path in paths.iter_mut() {
                    let lowest = (1..all.next_index()).find(|index| {
                        let chunk = all.chunk(*index).unwrap();
                        chunk.path == path.id() && chunk.state == ChunkState::InFlight
                    });
                    all.update_earliest(path);
                    prop_assert_eq!(path.flight().earliest(), lowest);
                    let of_path = all.chunks.iter().filter(|c| c.path == path.id() && !c.is_abandoned());
                    prop_assert_eq!(of_path.count(), path.flight().chunks() as usize);
                }
                let counted: u32 = paths.iter().map(|p| p.flight().chunks()).sum();
                prop_assert_eq!(counted as usize, all.not_abandoned());
            }
        }
    }
}
