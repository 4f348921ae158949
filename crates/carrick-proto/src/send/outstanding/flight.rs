//! Chunks that leave again, are found lost, or are taken back by the peer.

use super::{ChunkState, Outstanding};
use crate::path::{PathId, Paths};
use crate::policy::LossSignal;
use crate::time::Time;

impl Outstanding {
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
        self.sent += 1;
        let serial = self.serial;
        let Some(chunk) = self.chunk_mut(index) else {
            return;
        };
        let before = chunk.path;
        chunk.state = ChunkState::InFlight;
        chunk.taken_back = false;
        chunk.again = true;
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
        paths[before].chunks = paths[before].chunks.saturating_sub(1);
        let path = &mut paths[to];
        path.buffered += payload;
        path.chunks += 1;
        path.losses.on_sent();
        path.flight_size += self.weight(payload);
        path.earliest = Some(path.earliest.map_or(index, |e| e.min(index)));
        self.again.insert((to, index));
        self.link(index, to, paths);
    }

    /// A chunk in flight is about to be sent once more, although it is not known to be lost.
    pub(in crate::send) fn recall(&mut self, index: u64, paths: &mut Paths) {
        if self
            .chunk(index)
            .is_some_and(|c| c.state == ChunkState::InFlight)
        {
            self.land(index, paths);
        }
    }

    /// A chunk is no longer in flight.
    pub(super) fn land(&mut self, index: u64, paths: &mut Paths) {
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
        let weight = self.weight(payload);
        if let Some(chunk) = self.chunk_mut(index).filter(|c| c.again) {
            chunk.again = false;
            self.again.remove(&(path, index));
        }
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

    /// The peer took back what it had reported in a gap block (reneging). Among the transmissions
    /// the chunk counts as sent now: SACKs that overtook each other look the same.
    pub(in crate::send) fn revoke(
        &mut self,
        index: u64,
        now: Time,
        paths: &mut Paths,
    ) -> Option<PathId> {
        self.serial += 1;
        let serial = self.serial;
        let chunk = self
            .chunk_mut(index)
            .filter(|c| c.state == ChunkState::Acked && !c.is_settled())?;
        chunk.state = ChunkState::InFlight;
        chunk.taken_back = true;
        chunk.again = true;
        (chunk.sent, chunk.serial) = (now, serial);
        let (payload, path) = (chunk.len(), chunk.path);
        self.again.insert((path, index));
        self.changed.note();
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
}
