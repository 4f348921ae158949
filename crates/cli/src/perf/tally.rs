//! Counter of messages and bytes of one direction.

use std::sync::atomic::{AtomicU64, Ordering};

use super::protocol::TransferAmount;

/// Number of messages and bytes so far. One task counts.
#[derive(Debug, Default)]
pub(super) struct TransferTally {
    bytes: AtomicU64,
    messages: AtomicU64,
}

impl TransferTally {
    /// Counts bytes; `complete` ends a message.
    pub(super) fn add(&self, bytes: usize, complete: bool) {
        self.add_all(bytes as u64, u64::from(complete));
    }

    /// Counts messages with this many bytes together.
    pub(super) fn add_all(&self, bytes: u64, messages: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.messages.fetch_add(messages, Ordering::Relaxed);
    }

    pub(super) fn amount(&self) -> TransferAmount {
        TransferAmount {
            bytes: self.bytes.load(Ordering::Relaxed),
            messages: self.messages.load(Ordering::Relaxed),
        }
    }
}
