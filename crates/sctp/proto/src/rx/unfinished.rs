//! Messages that the sender abandoned before it had sent all fragments.
//!
//! A peer with partial reliability may send the beginning of a message, abandon the message, and
//! assign the next TSN to the next message, as Linux does. If all that it sent was acknowledged, no
//! FORWARD-TSN reports this: one at the cumulative TSN is out of date (RFC 3758, section 3.6). The
//! first fragment of a message directly behind an incomplete one then shows that the rest of the
//! incomplete one will not be sent.

use super::Receiver;

impl Receiver {
    /// Sets whether messages may lack their last fragment: with partial reliability.
    pub(crate) fn allow_unfinished(&mut self, allow: bool) {
        self.reassembly.unfinished = allow;
    }

    /// Discards messages that are certainly unfinished: all their TSNs and the next one have been
    /// received.
    pub(super) fn discard_unfinished(&mut self) {
        if !self.reassembly.unfinished {
            return;
        }
        let cumulative = self.tsns.cumulative_index();
        if let Some(partial) = self.reassembly.take_unfinished_partial(cumulative) {
            self.abort_partial_delivery(&partial);
            if let Some(ssn) = partial.ssn {
                self.delivery.skip(partial.stream, ssn);
            }
        }
        while self.delivery.has_room_for_skips(1)
            && let Some((first, place, freed)) = self.reassembly.take_unfinished(cumulative)
        {
            self.buffer.remove(freed);
            if let (stream, Some(ssn)) = place {
                self.delivery.skip_at(first, stream, ssn);
            }
        }
    }
}
