//! Chunks that enter flight again or leave it: retransmitted, lost, reneged on.

use super::{ChunkState, Outstanding};
use crate::path::{PathId, Paths};
use crate::time::Time;
use crate::tx::LossSignal;

impl Outstanding {
    /// Records a retransmission, on the same path or on another one.
    pub(crate) fn retransmit(
        &mut self,
        index: u64,
        to: PathId,
        first_in_packet: bool,
        now: Time,
        paths: &mut Paths,
    ) {
        self.serial += 1;
        self.sent += 1;
        let serial = self.serial;
        let Some(chunk) = self.chunk_mut(index) else {
            return;
        };
        let before = chunk.path;
        chunk.state = ChunkState::InFlight;
        chunk.delivery_uncertain = false;
        chunk.in_flight_again = true;
        chunk.first_in_packet = first_in_packet;
        (chunk.sent, chunk.serial) = (now, serial);
        chunk.ambiguous |= before != to;
        chunk.path = to;
        chunk.transmissions = chunk.transmissions.saturating_add(1);
        let payload = chunk.payload.len();
        self.in_flight += payload;
        self.chunks_in_flight += 1;
        self.marked.remove(index, before);
        paths[before].flight_mut().remove_chunk(payload);
        let weight = self.weight(payload);
        paths[to].on_chunk_sent(index, payload, weight);
        self.in_flight_again.insert((to, index));
        self.link(index, to, paths);
    }

    /// Takes a chunk out of flight that is about to be retransmitted although it is not known to be lost.
    pub(in crate::tx) fn reclaim(&mut self, index: u64, paths: &mut Paths) {
        if self
            .chunk(index)
            .is_some_and(|c| c.state == ChunkState::InFlight)
        {
            self.remove_from_flight(index, paths);
        }
    }

    /// Takes a chunk out of flight.
    pub(super) fn remove_from_flight(&mut self, index: u64, paths: &mut Paths) {
        let Some(chunk) = self.chunk(index) else {
            return;
        };
        let (payload, path) = (chunk.len(), chunk.path);
        self.leave_flight(index, path, payload, paths);
    }

    pub(super) fn leave_flight(
        &mut self,
        index: u64,
        path: PathId,
        payload: usize,
        paths: &mut Paths,
    ) {
        self.in_flight -= payload;
        self.chunks_in_flight -= 1;
        let weight = self.weight(payload);
        if let Some(chunk) = self.chunk_mut(index).filter(|c| c.in_flight_again) {
            chunk.in_flight_again = false;
            self.in_flight_again.remove(&(path, index));
        }
        self.unlink(index, path, paths);
        paths[path].flight_mut().leave_flight(weight);
    }

    /// Marks a chunk for retransmission if it is in flight; returns whether it was.
    pub(crate) fn mark(&mut self, index: u64, signal: LossSignal, paths: &mut Paths) -> bool {
        if self
            .chunk(index)
            .is_none_or(|c| c.state != ChunkState::InFlight)
        {
            return false;
        }
        self.remove_from_flight(index, paths);
        if let Some(chunk) = self.chunk_mut(index) {
            chunk.state = ChunkState::Marked(signal);
            chunk.fast_retransmitted |= signal == LossSignal::MissingReports;
            let (message, transmissions, path) = (chunk.message, chunk.transmissions, chunk.path);
            paths[path].flight_mut().on_lost();
            self.marked.insert(index, path);
            if message != 0 {
                self.abandoned_chunks()
                    .candidates
                    .push((message, transmissions));
            }
        }
        true
    }

    /// Makes a chunk eligible for another fast retransmission.
    pub(crate) fn allow_fast_retransmit_again(&mut self, index: u64) {
        if let Some(chunk) = self.chunk_mut(index) {
            chunk.fast_retransmitted = false;
        }
    }

    /// Returns a chunk to flight that the peer reneged on. In the order of transmission, the chunk counts as
    /// sent now, since SACKs that overtook each other look the same.
    pub(in crate::tx) fn renege(
        &mut self,
        index: u64,
        now: Time,
        paths: &mut Paths,
    ) -> Option<PathId> {
        self.serial += 1;
        let serial = self.serial;
        let chunk = self
            .chunk_mut(index)
            .filter(|c| c.state == ChunkState::Acked && !c.is_non_renegable())?;
        chunk.state = ChunkState::InFlight;
        chunk.delivery_uncertain = true;
        chunk.in_flight_again = true;
        (chunk.sent, chunk.serial) = (now, serial);
        let (payload, path) = (chunk.len(), chunk.path);
        self.in_flight_again.insert((path, index));
        self.changed.note();
        self.in_flight += payload;
        self.chunks_in_flight += 1;
        let weight = self.weight(payload);
        let on = &mut paths[path];
        on.flight_mut().on_reneged(index, weight);
        on.recovery_mut().rack_mut().end_gap_ack(weight);
        self.link(index, path, paths);
        Some(path)
    }
}
