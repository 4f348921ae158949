//! Counter of messages and bytes of one direction.

use std::cell::Cell;

use super::protocol::Amount;

/// Number of messages and bytes so far.
#[derive(Debug, Default)]
pub(super) struct Tally(Cell<Amount>);

impl Tally {
    /// Counts bytes; `complete` ends a message.
    pub(super) fn add(&self, bytes: usize, complete: bool) {
        let Amount { bytes: b, messages } = self.0.get();
        self.0.set(Amount {
            bytes: b + bytes as u64,
            messages: messages + u64::from(complete),
        });
    }

    pub(super) fn amount(&self) -> Amount {
        self.0.get()
    }
}
