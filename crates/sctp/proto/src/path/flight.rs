//! Account of the data last sent to a path: what of it is outstanding (RFC 9260, section 6.1, rule B), and what
//! is held until it is acknowledged cumulatively. `tx::outstanding` has the chunks and keeps the account.

use super::loss_estimate::LossEstimate;

/// Account of the chunks that were last sent to one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathFlight {
    /// Outstanding bytes as the congestion control counts them.
    size: usize,
    /// Outstanding bytes that do not count towards the window ([`GapAckCount::EverySack`]); otherwise 0.
    ///
    /// [`GapAckCount::EverySack`]: crate::research::GapAckCount::EverySack
    uncounted: usize,
    /// The lowest outstanding chunk, by its index; a hint that is searched forward from.
    earliest: Option<u64>,
    /// Index below which each chunk in flight has left flight before.
    searched: u64,
    /// User bytes in the send buffer.
    buffered: usize,
    /// Chunks that are neither acknowledged cumulatively nor abandoned.
    chunks: u32,
    losses: LossEstimate,
}

portable_struct! {
    PathFlight { size, uncounted, earliest, searched, buffered, chunks, losses }
}

impl PathFlight {
    /// Outstanding bytes as the congestion control counts them.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Outstanding bytes that do not count towards the window.
    pub(super) fn uncounted(&self) -> usize {
        self.uncounted
    }

    /// The lowest outstanding chunk, by its index.
    pub(crate) fn earliest(&self) -> Option<u64> {
        self.earliest
    }

    /// Index below which each chunk in flight has left flight before.
    pub(crate) fn searched(&self) -> u64 {
        self.searched
    }

    /// User bytes in the send buffer.
    pub(crate) fn buffered(&self) -> usize {
        self.buffered
    }

    /// Number of chunks that are neither acknowledged cumulatively nor abandoned.
    pub(crate) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Losses among the data recently sent.
    pub(super) fn losses(&self) -> &LossEstimate {
        &self.losses
    }

    /// Adds a chunk that is sent, for the first time or again: `payload` bytes of user data, which the
    /// congestion control counts as `weight` bytes.
    pub(super) fn on_sent(&mut self, index: u64, payload: usize, weight: usize) {
        self.add_chunk(payload);
        self.losses.on_sent();
        self.enter_flight(index, weight);
    }

    /// Returns a chunk to flight that the peer reneged on (RFC 9260, section 6.2.1, D iii).
    pub(crate) fn on_reneged(&mut self, index: u64, weight: usize) {
        self.enter_flight(index, weight);
    }

    fn enter_flight(&mut self, index: u64, weight: usize) {
        self.size += weight;
        if self.earliest.is_none_or(|earliest| index < earliest) {
            self.earliest = Some(index);
        }
    }

    /// Takes a chunk out of flight: it is acknowledged, marked for retransmission or abandoned.
    pub(crate) fn leave_flight(&mut self, weight: usize) {
        self.size = self.size.saturating_sub(weight);
    }

    /// Counts a chunk that is marked for retransmission as lost.
    pub(crate) fn on_lost(&mut self) {
        self.losses.on_lost();
    }

    /// Adds a chunk of `payload` bytes that was sent to another path before.
    pub(crate) fn add_chunk(&mut self, payload: usize) {
        self.buffered += payload;
        self.chunks += 1;
    }

    /// Removes a chunk of `payload` bytes: it is acknowledged cumulatively, abandoned, or sent to another path.
    pub(crate) fn remove_chunk(&mut self, payload: usize) {
        self.release(payload);
        self.chunks = self.chunks.saturating_sub(1);
    }

    /// Frees the bytes of a chunk that is acknowledged as non-renegable.
    pub(crate) fn release(&mut self, payload: usize) {
        self.buffered = self.buffered.saturating_sub(payload);
    }

    /// Sets bytes and number of the chunks: those of the whole association, or none.
    pub(crate) fn set_chunks(&mut self, payload: usize, chunks: u32) {
        (self.buffered, self.chunks) = (payload, chunks);
    }

    /// Records the result of a search for the lowest outstanding chunk, which passed all others below
    /// `searched`.
    pub(crate) fn set_earliest(&mut self, earliest: Option<u64>, searched: u64) {
        (self.earliest, self.searched) = (earliest, searched);
    }

    /// Records that no chunk is outstanding.
    pub(crate) fn clear_earliest(&mut self) {
        self.earliest = None;
    }

    /// Reduces what the window limits by `bytes` that Gap Ack Blocks acknowledge, to 0 at the least.
    pub(super) fn discount(&mut self, bytes: usize) {
        self.uncounted = (self.uncounted + bytes).min(self.size);
    }

    /// Starts again without chunks, as for a peer that restarted.
    pub(super) fn clear(&mut self) {
        (self.size, self.earliest, self.searched) = (0, None, 0);
        self.set_chunks(0, 0);
    }
}
