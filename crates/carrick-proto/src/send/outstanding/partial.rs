//! Chunks that were given up with their messages (RFC 3758 section 3.4).

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{DataFlags, Fsn, Mid};

use super::{Chunk, ChunkState, Outstanding};
use crate::path::{PathId, Paths};
use crate::send::message::SendOptions;
use crate::time::Time;

#[derive(Debug, Default)]
pub(super) struct Partial {
    /// Chunks in state [`ChunkState::Abandoned`].
    pub(super) abandoned: usize,
    /// Messages that may be given up with a chunk that has just been marked, and how often that
    /// was sent.
    pub(super) questioned: Vec<(u64, u32)>,
}

impl Outstanding {
    /// Gives up a chunk; returns its bytes if that was not done before.
    pub(in crate::send) fn abandon(&mut self, index: u64, paths: &mut Paths) -> Option<Bytes> {
        let chunk = self.chunk(index).filter(|c| !c.is_abandoned())?;
        let (state, weight) = (chunk.state, self.weight(chunk.len()));
        let awaited = state == ChunkState::InFlight;
        let (on, payload) = (chunk.path, chunk.payload.len());
        let path = &mut paths[chunk.path];
        path.buffered = path.buffered.saturating_sub(payload);
        path.chunks = path.chunks.saturating_sub(1);
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
        let (ending, settled) = (chunk.flags.ending, chunk.is_settled());
        self.released -= usize::from(settled);
        self.held -= payload.len();
        self.messages -= usize::from(ending);
        self.partial().abandoned += 1;
        Some(payload)
    }

    pub(super) fn partial(&mut self) -> &mut Partial {
        self.partial.get_or_insert_default()
    }

    /// A message was given up of which a part was sent and a part was not. It gets one more TSN,
    /// which is never sent: without it, the message that comes next would directly follow one
    /// that has no end, and what the peer has acknowledged of this one could not be skipped.
    pub(in crate::send) fn push_abandoned_ending(
        &mut self,
        options: &SendOptions,
        mid: Mid,
        fsn: Fsn,
    ) {
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
            again: false,
            sent: Time::ZERO,
            serial: 0,
            older: 0,
            newer: 0,
        });
    }

    /// A chunk that was given up while it was in flight turns out to be lost. Says so once.
    pub(in crate::send) fn misses_abandoned(&mut self, index: u64) -> bool {
        let Some(chunk) = self.chunk_mut(index) else {
            return false;
        };
        match &mut chunk.state {
            ChunkState::Abandoned { awaited } => core::mem::take(awaited),
            _ => false,
        }
    }

    pub(in crate::send) fn has_abandoned(&self) -> bool {
        self.partial.as_ref().is_some_and(|p| p.abandoned > 0)
    }

    /// Messages to be judged because chunks of them were marked.
    pub(in crate::send) fn take_questioned(&mut self) -> Vec<(u64, u32)> {
        let partial = self.partial.as_mut();
        partial.map_or_else(Vec::new, |p| core::mem::take(&mut p.questioned))
    }
}
