//! Whether a recovery was needless (after RFC 3522 and RFC 4015, with duplicate TSNs for evidence
//! instead of time stamps): when the peer reports every chunk that was sent again as a duplicate,
//! the originals had arrived.
//!
//! A packet that the network duplicates looks the same; the window is then as it was before, which
//! the next loss corrects. A peer that lies gains no more than by acknowledging what it has not got.

use alloc::collections::BTreeMap;

/// Chunks of one recovery that are watched at most; a longer one is not undone.
const LIMIT: usize = 4096;

/// The chunks that one recovery of a path sent again.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    active: bool,
    /// Copies of which the peer has not reported a duplicate.
    waiting: BTreeMap<u64, u32>,
}

impl Undo {
    /// A recovery begins.
    pub(crate) fn begin(&mut self) {
        self.active = true;
        self.waiting.clear();
    }

    /// Nothing can be undone any more.
    pub(crate) fn end(&mut self) {
        self.active = false;
        self.waiting.clear();
    }

    /// The recovery sends a chunk again.
    pub(crate) fn on_resent(&mut self, index: u64) {
        if !self.active {
            return;
        }
        if self.waiting.len() >= LIMIT {
            return self.end();
        }
        *self.waiting.entry(index).or_default() += 1;
    }

    /// The peer got a chunk more than once; returns whether a copy of this recovery was among them.
    pub(crate) fn on_duplicate(&mut self, index: u64) -> bool {
        let Some(copies) = self.waiting.get_mut(&index) else {
            return false;
        };
        *copies -= 1;
        if *copies == 0 {
            self.waiting.remove(&index);
        }
        true
    }

    /// Nothing that was sent again was needed. To be asked after a duplicate.
    pub(crate) fn take_spurious(&mut self) -> bool {
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
    fn a_recovery_is_needless_when_all_its_copies_were() {
        let mut undo = Undo::default();
        undo.begin();
        undo.on_resent(5);
        undo.on_resent(6);
        undo.on_resent(6);
        assert!(!undo.on_duplicate(4));
        assert!(undo.on_duplicate(5) && !undo.take_spurious());
        assert!(undo.on_duplicate(6) && !undo.take_spurious(), "two copies");
        assert!(undo.on_duplicate(6) && undo.take_spurious());
        assert!(!undo.take_spurious(), "once");
    }

    #[test]
    fn what_is_watched_is_bounded() {
        let mut undo = Undo::default();
        undo.begin();
        for index in 0..10_000 {
            undo.on_resent(index);
        }
        assert!(undo.waiting.is_empty() && !undo.active);
    }
}
