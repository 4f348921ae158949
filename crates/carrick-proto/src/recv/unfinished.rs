//! Messages whose sender gave up the fragments that it had not sent yet.
//!
//! A peer with partial reliability may send the beginning of a message, give the message up, and
//! give the next TSN to the next message. FORWARD-TSN does not tell of it when what was sent has
//! been acknowledged: RFC 3758 section 3.6 takes one at the cumulative TSN for out of date. Linux
//! does so. That a message begins right behind an unfinished one then says that the rest of that
//! will not come.

use super::Receiver;

impl Receiver {
    /// Whether messages may end without their last fragment: where partial reliability is in force.
    pub(crate) fn allow_unfinished(&mut self, allow: bool) {
        self.reassembly.unfinished = allow;
    }

    /// Forgets messages that are unfinished for certain: everything up to their end and the TSN
    /// behind it has arrived.
    pub(super) fn give_up_unfinished(&mut self) {
        if !self.reassembly.unfinished {
            return;
        }
        let cumulative = self.tsns.cumulative_index();
        if let Some(partial) = self.reassembly.take_unfinished_partial(cumulative) {
            self.end_partial(&partial);
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
