//! Counter of messages and bytes of one direction.

use std::cell::Cell;

use super::protocol::TransferAmount;

/// Number of messages and bytes so far.
#[derive(Debug, Default)]
pub(super) struct TransferTally(Cell<TransferAmount>);

impl TransferTally {
    /// Counts bytes; `complete` ends a message.
    pub(super) fn add(&self, bytes: usize, complete: bool) {
        let TransferAmount { bytes: b, messages } = self.0.get();
        self.0.set(TransferAmount {
            bytes: b + bytes as u64,
            messages: messages + u64::from(complete),
        });
    }

    pub(super) fn amount(&self) -> TransferAmount {
        self.0.get()
    }
}
