//! Detection of needless recoveries (after RFC 3522 and RFC 4015, with Duplicate TSNs for evidence instead
//! of time stamps): if the peer reports each retransmission as a duplicate, the originals had arrived.
//!
//! Packets that the network duplicates look the same; the next loss corrects the window. A peer that
//! reports false duplicates gains no more than one that acknowledges data it has not received.

use alloc::collections::BTreeMap;

/// Limit of the chunks watched in one recovery; a longer one is not undone.
const LIMIT: usize = 4096;

/// Retransmissions of one recovery of a path.
#[derive(PartialEq, Debug)]
pub(crate) struct Undo {
    active: bool,
    /// Retransmissions of each chunk of which the peer has reported no duplicate.
    waiting: BTreeMap<u64, u32>,
}

portable_struct! { Undo { active, waiting } }

impl Undo {
    pub(super) const fn new() -> Self {
        Self {
            active: false,
            waiting: BTreeMap::new(),
        }
    }

    /// Begins a recovery.
    pub(super) fn begin(&mut self) {
        self.active = true;
        self.waiting.clear();
    }

    /// Ends the watch: nothing can be undone.
    pub(super) fn end(&mut self) {
        self.active = false;
        self.waiting.clear();
    }

    /// Records a retransmission.
    pub(super) fn on_retransmission(&mut self, index: u64) {
        if !self.active {
            return;
        }
        if self.waiting.len() >= LIMIT {
            return self.end();
        }
        *self.waiting.entry(index).or_default() += 1;
    }

    /// Records an abandoned chunk. If it was retransmitted, the need for that remains unknown.
    pub(super) fn on_abandoned(&mut self, index: u64) {
        if self.waiting.contains_key(&index) {
            self.end();
        }
    }

    /// Records a reported duplicate; returns whether it is a retransmission of this recovery.
    pub(super) fn on_duplicate(&mut self, index: u64) -> bool {
        let Some(copies) = self.waiting.get_mut(&index) else {
            return false;
        };
        *copies -= 1;
        if *copies == 0 {
            self.waiting.remove(&index);
        }
        true
    }

    /// Returns once whether all retransmissions were needless; to be called after a duplicate.
    pub(super) fn take_spurious(&mut self) -> bool {
        let spurious = self.active && self.waiting.is_empty();
        if spurious {
            self.end();
        }
        spurious
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_of_duplicates_only_is_needless() {
        let mut undo = Undo::new();
        undo.begin();
        undo.on_retransmission(5);
        undo.on_retransmission(6);
        undo.on_retransmission(6);
        assert!(!undo.on_duplicate(4));
        assert!(undo.on_duplicate(5) && !undo.take_spurious());
        assert!(undo.on_duplicate(6) && !undo.take_spurious(), "two copies");
        assert!(undo.on_duplicate(6) && undo.take_spurious());
        assert!(!undo.take_spurious(), "once");
    }

    #[test]
    fn a_recovery_with_abandoned_chunks_is_not_undone() {
        let mut undo = Undo::new();
        undo.begin();
        undo.on_retransmission(5);
        undo.on_retransmission(6);
        undo.on_abandoned(4);
        assert!(undo.on_duplicate(5) && !undo.take_spurious());
        undo.on_abandoned(6);
        assert!(!undo.on_duplicate(6) && !undo.take_spurious());
    }

    #[test]
    fn watched_chunks_are_bounded() {
        let mut undo = Undo::new();
        undo.begin();
        for index in 0..10_000 {
            undo.on_retransmission(index);
        }
        assert!(undo.waiting.is_empty() && !undo.active);
    }
}
