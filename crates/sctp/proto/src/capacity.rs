//! Memory of collections that seldom hold elements: its growth, and its release.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Room for another element: one at first, then twice as many. The standard library begins with four, which
/// most associations never use.
pub(crate) trait ReserveDoubling {
    /// Reserves room for one more element.
    fn reserve_doubling(&mut self);
}

macro_rules! reserve_doubling {
    ($queue:ident) => {
        impl<T> ReserveDoubling for $queue<T> {
            #[inline]
            fn reserve_doubling(&mut self) {
                if self.len() == self.capacity() {
                    self.reserve_exact(self.len().max(1));
                }
            }
        }
    };
}

reserve_doubling!(Vec);
reserve_doubling!(VecDeque);

/// Release of the memory of an empty map or set: when the last element is removed, the standard library keeps a node
/// for 11 elements.
pub(crate) trait FreeIfEmpty {
    /// Frees the memory if there are no elements.
    fn free_if_empty(&mut self);
}

impl<K, V> FreeIfEmpty for BTreeMap<K, V> {
    fn free_if_empty(&mut self) {
        if self.is_empty() {
            self.clear();
        }
    }
}

impl<T> FreeIfEmpty for BTreeSet<T> {
    fn free_if_empty(&mut self) {
        if self.is_empty() {
            self.clear();
        }
    }
}
