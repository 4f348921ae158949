//! FORWARD-TSN at the receiver (RFC 3758 section 3.6). Whatever the chunk says, what it costs is
//! bounded by what the buffer holds and by the length of the chunk.

use carrick_wire::{ForwardTsn, Ppid, Ssn, StreamId, Tsn};

use super::Receiver;

/// A message of which the user has read the beginning and that will not be completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AbortedMessage {
    pub(crate) stream: StreamId,
    pub(crate) ssn: Option<Ssn>,
    pub(crate) ppid: Ppid,
    pub(crate) tsn: Tsn,
}

impl Receiver {
    /// Takes a FORWARD-TSN. Returns the message in partial delivery if it ends by that.
    pub(crate) fn on_forward_tsn(&mut self, forward: &ForwardTsn<'_>) -> Option<AbortedMessage> {
        self.ack.on_chunk(false);
        if !self.delivery.has_room_for_skips(forward.skipped().count()) {
            self.ack.now();
            return None;
        }
        let gap_before = self.tsns.has_gaps();
        let Some(index) = self.tsns.forward(forward.new_cumulative_tsn) else {
            // Our SACK may have been lost.
            self.ack.on_duplicate();
            return None;
        };
        self.ack.on_new();
        if gap_before || self.tsns.has_gaps() {
            self.ack.now();
        }
        let (freed, partial) = self.reassembly.skip_to(index);
        self.buffer.remove(freed);
        let mut aborted = None;
        if let Some(partial) = partial {
            let (freed, told) = self.delivery.abort(&partial);
            self.buffer.remove(freed);
            aborted = told.then_some(partial);
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
        self.deliver_partially();
        if self.buffer.wants_update() {
            self.ack.now();
        }
        aborted
    }
}
