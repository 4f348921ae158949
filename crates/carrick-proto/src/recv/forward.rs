//! FORWARD-TSN and I-FORWARD-TSN at the receiver (RFC 3758 section 3.6, RFC 8260 section 2.3.1).
//! Whatever the chunk says, what it costs is bounded by what the buffer holds and by the length of
//! the chunk.

use alloc::vec::Vec;

use carrick_wire::{ForwardTsn, IForwardTsn, Mid, Ppid, Ssn, StreamId, Tsn};

use super::Receiver;

/// A message of which the user has read the beginning and that will not be completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AbortedMessage {
    pub(crate) stream: StreamId,
    pub(crate) ssn: Option<Ssn>,
    pub(crate) mid: Option<Mid>,
    pub(crate) ppid: Ppid,
    pub(crate) tsn: Tsn,
}

impl Receiver {
    /// Takes a FORWARD-TSN.
    pub(crate) fn on_forward_tsn(&mut self, forward: &ForwardTsn<'_>) {
        let streams = forward.skipped().map(|(stream, _)| (stream, false));
        let room = self.delivery.has_room_for_skips(forward.skipped().len())
            && self.has_room_for_state(streams);
        let Some(index) = self.forward_to(forward.new_cumulative_tsn, room) else {
            return;
        };
        let (freed, partial) = self.reassembly.skip_to(index);
        self.buffer.remove(freed);
        if let Some(partial) = partial {
            self.end_partial(&partial);
            if let Some(ssn) = partial.ssn {
                self.delivery.skip(partial.stream, ssn);
            }
        }
        let going_on = self.reassembly.partial_stream();
        for (stream, ssn) in forward.skipped() {
            // A message that goes on was not skipped, nor what comes behind it in its stream.
            if stream.0 < self.inbound_streams && going_on != Some(stream) {
                self.delivery.skip_at(index, stream, ssn);
            }
        }
        self.after_forward();
    }

    /// Takes an I-FORWARD-TSN.
    pub(crate) fn on_i_forward_tsn(&mut self, forward: &IForwardTsn<'_>) {
        let entries = forward.skipped().len();
        let interleaved = self.interleaved.as_ref();
        let streams = forward.skipped().map(|m| (m.stream, m.unordered));
        let room = interleaved.is_some_and(|all| all.has_room_for_skips(entries))
            && self.has_room_for_state(streams);
        let Some(index) = self.forward_to(forward.new_cumulative_tsn, room) else {
            return;
        };
        if let Some(interleaved) = &mut self.interleaved {
            for skipped in forward.skipped() {
                if skipped.stream.0 < self.inbound_streams {
                    interleaved.skip_at(index, skipped, &mut self.delivery);
                }
            }
        }
        self.settle_lost();
        self.after_forward();
    }

    /// Everything up to this TSN counts as arrived; returns its index if that is news. Without room
    /// for what the chunk says, it has to come again.
    fn forward_to(&mut self, tsn: Tsn, room: bool) -> Option<u64> {
        self.ack.on_chunk(false);
        if !room {
            self.ack.now();
            return None;
        }
        let gap_before = self.tsns.has_gaps();
        let Some(index) = self.tsns.forward(tsn) else {
            // Our SACK may have been lost.
            self.ack.on_duplicate();
            return None;
        };
        self.ack.on_new();
        if gap_before || self.tsns.has_gaps() {
            self.ack.now();
        }
        Some(index)
    }

    fn after_forward(&mut self) {
        self.give_up_unfinished();
        self.deliver_partially();
        self.count_streams();
        if self.buffer.wants_update() {
            self.ack.now();
        }
    }

    /// Takes what interleaving has forgotten off the account, and notes the messages in partial
    /// delivery that ended by that.
    pub(super) fn settle_lost(&mut self) {
        if let Some(interleaved) = &mut self.interleaved {
            let lost = interleaved.take_lost();
            self.buffer.remove(lost.cost);
            self.aborted.extend(lost.partial);
        }
    }

    /// The message in partial delivery will not be completed: who has read parts of it finds its end.
    pub(super) fn end_partial(&mut self, partial: &AbortedMessage) {
        let (freed, told) = self.delivery.abort(partial);
        self.buffer.remove(freed);
        self.aborted.extend(told.then_some(*partial));
    }

    /// The messages of which the user has read the beginning and that ended without their end, since
    /// this was last asked.
    pub(crate) fn take_aborted(&mut self) -> Vec<AbortedMessage> {
        core::mem::take(&mut self.aborted)
    }
}
