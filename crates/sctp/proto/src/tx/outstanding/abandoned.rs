//! Chunks abandoned with their messages (RFC 3758, section 3.4).

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{DataFlags, Fsn, Mid};

use super::{Chunk, ChunkState, Outstanding};
use crate::path::{Path, PathId, Paths};
use crate::time::Time;
use crate::tx::message::SendOptions;

/// Records about abandoned chunks.
#[derive(Debug, Default)]
pub(super) struct AbandonedChunks {
    /// Number of chunks in state [`ChunkState::Abandoned`].
    pub(super) count: usize,
    /// Messages that may be abandoned because a chunk was marked, with the transmissions of the chunk.
    pub(super) candidates: Vec<(u64, u32)>,
}

impl Outstanding {
    /// Abandons a chunk; returns its bytes if it was not abandoned before.
    pub(in crate::tx) fn abandon(&mut self, index: u64, paths: &mut Paths) -> Option<Bytes> {
        let chunk = self.chunk(index).filter(|c| !c.is_abandoned())?;
        let (state, weight) = (chunk.state, self.weight(chunk.len()));
        let awaited = state == ChunkState::InFlight;
        let (on, payload) = (chunk.path, chunk.payload.len());
        let path = &mut paths[chunk.path];
        path.flight_mut().remove_chunk(payload);
        path.stop_timing_of(index);
        if state == ChunkState::Acked {
            path.recovery_mut().rack_mut().end_gap_ack(weight);
        }
        if chunk.transmissions > 1 {
            let used = paths.iter_mut().filter_map(Path::used_recovery);
            used.for_each(|recovery| recovery.on_abandoned(index));
        }
        if awaited {
            self.remove_from_flight(index, paths);
        }
        self.marked.remove(index, on);
        let chunk = self.chunk_mut(index)?;
        chunk.state = ChunkState::Abandoned { awaited };
        let payload = core::mem::take(&mut chunk.payload);
        let (ending, non_renegable) = (chunk.flags.ending, chunk.is_non_renegable());
        self.released -= usize::from(non_renegable);
        self.held -= payload.len();
        self.messages -= usize::from(ending);
        self.abandoned_chunks().count += 1;
        Some(payload)
    }

    pub(super) fn abandoned_chunks(&mut self) -> &mut AbandonedChunks {
        self.abandoned.get_or_insert_default()
    }

    /// Assigns one more TSN, which is never sent, to a message that is abandoned after a part of it was sent.
    /// It is the end of the message: without it, the next message would follow one without an end, and
    /// the acknowledged part could not be skipped (RFC 3758, section 3.5, A3).
    pub(in crate::tx) fn push_abandoned_ending(
        &mut self,
        options: &SendOptions,
        mid: Mid,
        fsn: Fsn,
    ) {
        self.abandoned_chunks().count += 1;
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
            first_in_packet: false,
            delivery_uncertain: false,
            in_flight_again: false,
            sent: Time::ZERO,
            serial: 0,
            older: 0,
            newer: 0,
        });
    }

    /// Returns once whether the chunk was abandoned while in flight; called when it is found lost.
    pub(in crate::tx) fn take_loss_of_abandoned(&mut self, index: u64) -> bool {
        let Some(chunk) = self.chunk_mut(index) else {
            return false;
        };
        match &mut chunk.state {
            ChunkState::Abandoned { awaited } => core::mem::take(awaited),
            _ => false,
        }
    }

    pub(in crate::tx) fn has_abandoned(&self) -> bool {
        self.abandoned.as_ref().is_some_and(|a| a.count > 0)
    }

    /// Removes the messages that may be abandoned because a chunk was marked.
    pub(in crate::tx) fn take_abandonment_candidates(&mut self) -> Vec<(u64, u32)> {
        let abandoned = self.abandoned.as_mut();
        abandoned.map_or_else(Vec::new, |a| core::mem::take(&mut a.candidates))
    }
}
