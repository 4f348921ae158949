//! Counter of messages and bytes of one direction.

use std::cell::Cell;

use super::protocol::TransferAmount;

/// Number of messages and bytes so far.
#[derive(Debug, Default)]
pub(super) struct TransferTally(Cell<TransferAmount>);

impl TransferTally {
    /// Counts bytes; `complete` ends a message.
    pub(super) fn add(&self, bytes: usize, complete: bool) {
        self.add_all(bytes as u64, u64::from(complete));
    }

    /// Counts messages with this many bytes together.
    pub(super) fn add_all(&self, bytes: u64, messages: u64) {
        let sum = self.0.get();
        self.0.set(TransferAmount {
            bytes: sum.bytes + bytes,
            messages: sum.messages + messages,
        });
    }

    pub(super) fn amount(&self) -> TransferAmount {
        self.0.get()
    }
}
