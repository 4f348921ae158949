//! Reception of FORWARD-TSN and I-FORWARD-TSN (RFC 3758, section 3.6; RFC 8260, section 2.3.1).
//!
//! 1. Check that there is room for the entries: while a reset is awaited, they are kept. Without room
//!    the chunk is dropped, and the peer sends it again.
//! 2. Advance the cumulative TSN to the new one, and further over TSNs that were received (RFC 3758,
//!    section 3.6). A chunk at or below the cumulative TSN is out of date and causes a SACK.
//! 3. Acknowledge as if DATA had arrived (RFC 3758, section 3.6; RFC 9260, section 6.2).
//! 4. Discard incomplete messages that miss a TSN up to the new one; a partial delivery is aborted
//!    (RFC 3758, section 3.6).
//! 5. Advance the listed streams, and deliver the messages that waited there (RFC 3758, section 3.6;
//!    RFC 8260, section 2.3.1).
//!
//! The work is bounded by the content of the buffer and the length of the chunk.

use alloc::vec::Vec;

use carrick_wire::{ForwardTsn, IForwardTsn, Mid, Ppid, Ssn, StreamId, Tsn};

use super::Receiver;

/// Partial delivery that was aborted: the user has read the beginning of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AbortedMessage {
    pub(crate) stream: StreamId,
    pub(crate) ssn: Option<Ssn>,
    pub(crate) mid: Option<Mid>,
    pub(crate) ppid: Ppid,
    pub(crate) tsn: Tsn,
}

portable_struct! { AbortedMessage { stream, ssn, mid, ppid, tsn } }

impl Receiver {
    /// Processes a FORWARD-TSN.
    pub(crate) fn on_forward_tsn(&mut self, forward: &ForwardTsn<'_>) {
        // Steps 1 to 3.
        let streams = forward.skipped().map(|(stream, _)| (stream, false));
        let room = self.delivery.has_room_for_skips(forward.skipped().len())
            && self.has_room_for_state(streams);
        let Some(index) = self.forward_to(forward.new_cumulative_tsn, room) else {
            return;
        };
        // Step 4.
        let (freed, partial) = self.reassembly.skip_to(index);
        self.buffer.remove(freed);
        if let Some(partial) = partial {
            self.abort_partial_delivery(&partial);
            if let Some(ssn) = partial.ssn {
                self.delivery.skip(partial.stream, ssn);
            }
        }
        // Step 5.
        let continuing = self.reassembly.partial_stream();
        for (stream, ssn) in forward.skipped() {
            // The message in partial delivery continues, so neither it nor its successors in the stream
            // were skipped.
            if stream.0 < self.inbound_streams && continuing != Some(stream) {
                self.delivery.skip_at(index, stream, ssn);
            }
        }
        self.after_forward();
    }

    /// Processes an I-FORWARD-TSN.
    pub(crate) fn on_i_forward_tsn(&mut self, forward: &IForwardTsn<'_>) {
        // Steps 1 to 3.
        let entries = forward.skipped().len();
        let interleaved = self.interleaved.as_ref();
        let streams = forward.skipped().map(|m| (m.stream, m.unordered));
        let room = interleaved.is_some_and(|all| all.has_room_for_skips(entries))
            && self.has_room_for_state(streams);
        let Some(index) = self.forward_to(forward.new_cumulative_tsn, room) else {
            return;
        };
        // Steps 4 and 5.
        if let Some(interleaved) = &mut self.interleaved {
            for skipped in forward.skipped() {
                if skipped.stream.0 < self.inbound_streams {
                    interleaved.skip_at(index, skipped, &mut self.delivery);
                }
            }
        }
        self.account_for_discarded();
        self.after_forward();
    }

    /// Performs steps 1 to 3; returns the index of the new cumulative TSN, or `None` if the chunk is
    /// dropped or out of date.
    fn forward_to(&mut self, tsn: Tsn, room: bool) -> Option<u64> {
        self.sack.on_chunk(false);
        if !room {
            self.sack.on_dropped();
            return None;
        }
        let had_gaps = self.tsns.has_gaps();
        let Some(index) = self.tsns.forward(tsn) else {
            self.sack.on_old_forward_tsn();
            return None;
        };
        self.sack.on_forward_tsn(had_gaps, &self.tsns);
        Some(index)
    }

    fn after_forward(&mut self) {
        self.discard_unfinished();
        self.deliver_partially();
        self.count_streams();
        if self.buffer.wants_update() {
            self.sack.on_window_update();
        }
    }

    /// Frees the buffer space of I-DATA that was discarded, and records the partial deliveries that were
    /// aborted.
    pub(super) fn account_for_discarded(&mut self) {
        if let Some(interleaved) = &mut self.interleaved {
            let lost = interleaved.take_discarded();
            self.buffer.remove(lost.cost);
            self.aborted.extend(lost.partial);
        }
    }

    /// Aborts the partial delivery: a user who has read parts of the message receives
    /// [`MessagePart::Aborted`](super::message::MessagePart::Aborted).
    pub(super) fn abort_partial_delivery(&mut self, partial: &AbortedMessage) {
        let (freed, was_read) = self.delivery.abort(partial);
        self.buffer.remove(freed);
        self.aborted.extend(was_read.then_some(*partial));
    }

    /// Returns the partial deliveries that were aborted since the last call.
    pub(crate) fn take_aborted(&mut self) -> Vec<AbortedMessage> {
        core::mem::take(&mut self.aborted)
    }
}
