//! What happens to all chunks of a path: a timeout, or another path that takes them over.

use alloc::vec::Vec;

use super::{ChunkState, Outstanding};
use crate::path::{PathId, Paths};
use crate::policy::LossSignal;

impl Outstanding {
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
}
